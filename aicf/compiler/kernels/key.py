"""What makes a choice of a kernel valid, as one text: the only place that rounds a size.

A tuner that stores a choice and an executor that looks for one make their keys here, from the same
request; no other module knows how a size becomes a bucket.
"""

from __future__ import annotations

import functools
import json
from dataclasses import astuple, dataclass, fields
from typing import Self

# Sizes up to this are buckets of their own; above it there are this many to each power of two.
_EXACT = 16
_STEPS = 4


def bucket(size: int) -> int:
    """The size that stands for `size`: itself up to 16, else the least of four steps to each power
    of two that is not below it. bucket(bucket(n)) is bucket(n), and at most 1.25 n."""
    if size <= _EXACT:
        return size
    step = 1 << ((size - 1).bit_length() - 1)
    step //= _STEPS
    return -(-size // step) * step


@functools.lru_cache(4096)
def sizes_text(shape: tuple[int, ...]) -> str:
    """A shape as its bucket: "2048x64", "()" of a tensor without dims."""
    return "x".join(str(bucket(n)) for n in shape) or "()"


@functools.lru_cache(4096)
def order_text(shape: tuple[int, ...], strides: tuple[int, ...]) -> str:
    """How a tensor lies: its dims from the outermost to the innermost, "01" of a row-major matrix
    and "10" of a column-major one, "+" where there are gaps, "=" where a dim has the stride 0."""
    dims = [i for i, n in enumerate(shape) if n != 1]
    dims.sort(key=lambda i: (-abs(strides[i]), i))
    below, suffix = 1, ""
    for i in reversed(dims):
        if strides[i] == 0:
            suffix = "="
            break
        if strides[i] != below:
            suffix = "+"
        below = strides[i] * shape[i]
    return "".join(map(str, dims)) + suffix


class _Text:
    """A frozen dataclass of texts that is one text in the store."""

    __slots__ = ()

    def text(self) -> str:
        return json.dumps(astuple(self), ensure_ascii=False, separators=(",", ":"))  # type: ignore[call-overload]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError where `text` is not what `text()` gives."""
        parts = json.loads(text)
        names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        if not isinstance(parts, list) or len(parts) != len(names):
            raise ValueError(f"{text!r} is not a list of {', '.join(names)}")
        if not all(isinstance(part, str) for part in parts):
            raise ValueError(f"{text!r} has a part that is no text")
        return cls(*parts)


@dataclass(frozen=True, slots=True)
class Subject(_Text):
    """What is chosen for. `among` are the kernels that were legal, so that a choice is never taken
    to a call whose guards let others in: their names, in the table's order."""

    op: str
    dtypes: str  # the suffix of the typed function: "f32", "bf16_i64"
    sizes: str  # a bucket for each operand: "a 64x96, b 96x16"
    layout: str  # an order for each operand: "a 01, b 10"
    attributes: str  # those that are not their defaults: "act=relu"
    among: str  # "wgmma mma simt"


@dataclass(frozen=True, slots=True)
class Hard(_Text):
    """What a choice is void without: under another one it is as if it were not there."""

    arch: str  # "sm_90", "x86-64"
    kernels: str  # a digest of the op's built module: of the kernels' code and of their row
    policy: str  # by which rules it was chosen


@dataclass(frozen=True, slots=True)
class Soft(_Text):
    """Where it was timed: under another one the old top three are worth timing again, first."""

    device: str  # "NVIDIA H200"
    driver: str
    runtime: str  # CUDA's version
    clocks: str  # "1980 MHz, 3201 MHz"; of a CPU its threads

    def differs(self, other: Soft) -> str:
        """In words, for people: "driver 570.1, not 580.2"; "" where they are equal."""
        if self == other:
            return ""
        return ", ".join(
            f"{f.name} {getattr(self, f.name)}, not {getattr(other, f.name)}"
            for f in fields(self)
            if getattr(self, f.name) != getattr(other, f.name)
        )
