"""What is known of a value before it is there.

f32[N, 784]              a tensor, row-major
f32[4, 8; 1, 4]          the same with its strides, in elements
i64[128]@cuda:0          on a device other than the CPU
f32                      a number on the host, as a scalar operand takes one
"""

from __future__ import annotations

import numbers
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aicf import dim
from aicf.dim import Size, Symbol
from aicf.table import BYTES, FLOATS

HOST = "cpu"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor. `strides` None is row-major, and row-major strides are None."""

    dtype: str
    shape: tuple[Size, ...]
    strides: tuple[Size, ...] | None = None
    device: str = HOST

    def __post_init__(self) -> None:
        if self.dtype not in BYTES:
            raise ValueError(f"{self.dtype!r} is no dtype; there are {', '.join(BYTES)}")
        for size in self.shape:
            if isinstance(size, int) and (isinstance(size, bool) or size < 0):
                raise ValueError(f"{size} is no size")
        if self.strides is not None:
            if len(self.strides) != len(self.shape):
                raise ValueError(f"{len(self.strides)} strides of {len(self.shape)} dims")
            if is_row_major(self.shape, self.strides):
                object.__setattr__(self, "strides", None)

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.shape))
        if self.strides is not None:
            inside += f"; {', '.join(map(str, self.strides))}"
        return f"{self.dtype}[{inside}]" + ("" if self.device == HOST else f"@{self.device}")

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def steps(self) -> tuple[Size, ...]:
        """The strides, also of a row-major one."""
        return row_major(self.shape) if self.strides is None else self.strides

    @property
    def numel(self) -> Any:
        return dim.product(self.shape)

    @property
    def is_one(self) -> bool:
        """One element: what a scalar operand takes on a device."""
        return all(size == 1 for size in self.shape)

    @property
    def symbols(self) -> Iterator[Symbol]:
        for size in (*self.shape, *(self.strides or ())):
            yield from dim.symbols(size)

    def bind(self, values: Mapping[str, int]) -> TensorType:
        strides = self.strides
        return replace(
            self,
            shape=tuple(dim.bind(n, values) for n in self.shape),
            strides=None if strides is None else tuple(dim.bind(n, values) for n in strides),
        )


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number on the host, given anew at each run."""

    dtype: str

    def __post_init__(self) -> None:
        if self.dtype not in BYTES:
            raise ValueError(f"{self.dtype!r} is no dtype; there are {', '.join(BYTES)}")

    def __str__(self) -> str:
        return self.dtype

    @property
    def symbols(self) -> Iterator[Symbol]:
        return iter(())

    def bind(self, values: Mapping[str, int]) -> ScalarType:
        return self


Type: TypeAlias = TensorType | ScalarType


def row_major(shape: Sequence[Size]) -> tuple[Size, ...]:
    """The strides of a tensor without gaps, the last dim the fastest."""
    strides: list[Size] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def is_row_major(shape: Sequence[Size], strides: Sequence[Size]) -> bool:
    """Whether it lies so; what a dim of size 1 has for a stride does not matter."""
    if any(size == 0 for size in shape):
        return True
    step: Any = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step = step * size
    return True


def ordered_as(shape: Sequence[Size], model: TensorType) -> tuple[Size, ...] | None:
    """The strides of an out of `shape` that takes the order of `model`, as libaicf gives them; None
    is row-major, which it is where the ranks differ or `model` has gaps."""
    if model.strides is None or model.rank != len(shape) or any(n == 0 for n in shape):
        return None
    order = innermost(model)
    if order is None:
        return None
    strides: list[Size] = [0] * len(shape)
    below: Any = 1
    for i in order:
        strides[i] = below
        below = below * shape[i]
    return tuple(strides)


def innermost(t: TensorType) -> list[int] | None:
    """The dims, innermost first; None if not each stride is the product of the sizes below it. Of
    the dims of size 1 the first ones are put outside of all, a last one just inside of the dim to
    its left, others just outside of the one to their right."""
    steps = t.steps
    ones = [i for i, n in enumerate(t.shape) if n == 1]
    rest = [i for i in range(t.rank) if i not in ones]
    order: list[int] = []
    expected: Any = 1
    while rest:
        found = next((i for i in reversed(rest) if steps[i] == expected), None)
        if found is None:
            return None
        rest.remove(found)
        order.append(found)
        expected = expected * t.shape[found]
    first, last = min(order, default=t.rank), max(order, default=0)
    for i in reversed(ones):
        if i < first:
            order.append(i)
        elif i + 1 < t.rank:
            order.insert(order.index(i + 1) + 1, i)
        else:
            order.insert(order.index(last), i)
    return order


# ---- numbers ----------------------------------------------------------------------------------


_MOST_BITS = 4096  # of an integer: what is longer is near no dtype, and may be too long to print


def python_number(x: Any) -> Any:
    """A number of numpy's, or of a class on Python's, as one of Python's; what is none as it is.
    Raises ValueError of an integer far beyond all dtypes."""
    if isinstance(x, int) and x.bit_length() > _MOST_BITS:
        raise ValueError(f"an integer of {x.bit_length():,} bits is more than any dtype holds")
    if type(x) in (int, float, bool):
        return x
    if isinstance(x, numbers.Number) and hasattr(x, "item"):
        return x.item()
    return int(x) if isinstance(x, int) else float(x) if isinstance(x, float) else x


def number(x: Any, dtype: str) -> bool | int | float:
    """What an element of a dtype can be set to; floats may be rounded, integers are exact. Raises
    ValueError of what it is not."""
    found = python_number(x)
    if not isinstance(found, bool | int | float):
        raise ValueError(f"{x!r} is no number")
    try:
        if dtype in FLOATS:
            float(found)
            return found
        exact = int(found)
    except (OverflowError, ValueError):  # an infinity, a NaN, what is too large for a float
        raise ValueError(f"{reprlib.repr(found)} is no {dtype}") from None
    bits = 1 if dtype == "bool" else 8 * BYTES[dtype]
    low = -(1 << bits - 1) if dtype[0] == "i" else 0
    if exact != found or not low <= exact < low + (1 << bits):
        raise ValueError(f"{reprlib.repr(found)} is no {dtype}")
    return exact if isinstance(found, float) else found


# ---- text -------------------------------------------------------------------------------------

_TENSOR = re.compile(r"(\w+)\[([^;\]]*)(?:;([^\]]*))?\](?:@([\w:]+))?")


def parse(text: str, known: Mapping[str, Symbol] | None = None) -> Type:
    """The type that `text` says. Raises ValueError."""
    text = text.strip()
    if text in BYTES:
        return ScalarType(text)
    found = _TENSOR.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no type; one is written as f32[N, 784]")
    dtype, shape, strides, device = found.groups()
    sizes = _sizes(shape, known or {})
    steps = None if strides is None else _sizes(strides, known or {})
    return TensorType(dtype, sizes, steps, device or HOST)


def _sizes(text: str, known: Mapping[str, Symbol]) -> tuple[Size, ...]:
    found = tuple(dim.parse(word, known) for word in text.split(",") if word.strip())
    for size in found:
        if not isinstance(size, int | dim.Dim):
            raise ValueError(f"{size} is no size")
    return found
