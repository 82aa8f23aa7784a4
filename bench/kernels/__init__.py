"""What is measured of the CUDA kernels: each family's cases, beside torch in the same run.

A family's file here has `cases()`. A case makes its own tensors, random and enough sets of them
that none lies in the L2 when it is used again; `python -m bench.kernels` measures (__main__.py).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

DEVICE = "cuda"  # or "cpu", by `--device`; of every tensor of a case
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ROTATED = {
    "cuda": 192 * MIB,
    "cpu": 64 * MIB,
}  # bytes of all sets of a case, at least: past the caches
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
SIZES = (4 * KIB, MIB, 64 * MIB, GIB)  # bytes of a tensor: elementwise, bias, reductions
SUFFIX = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


@dataclass(frozen=True, slots=True)
class Runs:
    """Launches on set i of the tensors, on a GPU captured in a graph: nothing may be allocated but
    by torch on its own account."""

    ours: Callable[[int], Any]
    torch: Callable[[int], Any] | None  # None: torch has no such op
    sets: int = 1


@dataclass(frozen=True, slots=True)
class Case:
    """`bytes`: what an ideal kernel reads and writes, `flops`: what it does; one of the two. Its
    marks: `floor`, a share of the copy rate; `ratio`, torch's time over ours."""

    op: str
    dtype: str
    shape: str
    make: Callable[[], Runs]
    bytes: int = 0
    flops: float = 0.0
    floor: float | None = None
    ratio: float | None = 0.97
    words: str = ""  # what else tells it from its neighbours

    @property
    def name(self) -> str:
        return " ".join(w for w in (self.op, self.words, self.dtype, self.shape) if w)


@dataclass(slots=True)
class Sets:
    """Sets of tensors of a case: `sets_of(bytes)` many, made by one function."""

    made: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, bytes_each: int, make: Callable[[], Any]) -> Sets:
        return cls([make() for _ in range(sets_of(bytes_each))])

    def __getitem__(self, i: int) -> Any:
        return self.made[i]

    def __len__(self) -> int:
        return len(self.made)


def sets_of(bytes_each: int) -> int:
    return max(1, min(64, -(-ROTATED[DEVICE] // max(bytes_each, 1))))


def random(shape: Sequence[int] | int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=DEVICE).normal_()


def typed(op: str, dtype: str) -> Callable[..., bool]:
    """The typed form; one that answers False is a fault of the case."""
    call = getattr(importlib.import_module(f"aicf_cuda.{op}"), f"{op}_{dtype}")

    def run(*args: Any, **options: Any) -> bool:
        if not call(*args, **options):
            module = importlib.import_module(f"aicf_cuda.{op}")
            raise SystemExit(f"{op}_{dtype} refused: {module.explain(*args, **options)}")
        return True

    return run


def families() -> dict[str, Callable[[], Iterator[Case]]]:
    """The cases of each family, by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {
        name: importlib.import_module(f"{__name__}.{name}") for name in names if name[0] != "_"
    }
    return {name: module.cases for name, module in modules.items()}
