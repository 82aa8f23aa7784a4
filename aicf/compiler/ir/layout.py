"""Whether a kernel takes tensors as they lie, by the layouts that its row declares.

The words are those of the table, the answers those of libaicf's `layout.c`. Where strides are
symbolic a stride counts as equal if it is for all values of the symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aicf.compiler.ir.types import TensorType, innermost
from aicf.table import Kernel, Row

Lists = Mapping[str, Sequence[TensorType]]  # by parameter; of a tensor one, of an absent one none


def fits(row: Row, backend: str | None, variant: str, tensors: Lists) -> bool:
    """Whether any kernel of a backend, None: of any, takes the tensors; guards are not asked."""
    return any(
        _takes(kernel, tensors)
        for kernel in row.kernels
        if backend in (None, kernel.backend) and variant in kernel.variants
    )


def _takes(kernel: Kernel, tensors: Lists) -> bool:
    flat = [name for name, words in kernel.layouts.items() if "flat" in words]
    for name, types in tensors.items():
        words = kernel.layouts[name]
        if "flat" not in words and not all(_lies_as(t, words) for t in types):
            return False
    given = [t for name in flat for t in tensors.get(name, ())]
    if all(t.strides is None for t in given):
        return True
    if any(len(tensors.get(name, ())) > 1 for name in flat):
        return False  # what lists say index by index is asked of the kernel itself
    first = given[0]
    return innermost(first) is not None and all(_same_order(t, first) for t in given)


def _lies_as(t: TensorType, words: Sequence[str]) -> bool:
    return any(_WORDS[word](t) for word in words)


def _same_order(a: TensorType, b: TensorType) -> bool:
    return a.shape == b.shape and all(
        size == 1 or x == y for size, x, y in zip(a.shape, a.steps, b.steps, strict=True)
    )


def _is_nhwc(t: TensorType) -> bool:
    if t.rank != 4:
        return False
    expect: Any = 1
    for i in (1, 3, 2, 0):
        if t.shape[i] != 1 and t.steps[i] != expect:
            return False
        expect = expect * t.shape[i]
    return True


def _has_unit_stride(t: TensorType, from_end: int) -> bool:
    at = t.rank - from_end
    return at >= 0 and (t.shape[at] == 1 or t.steps[at] == 1)


_WORDS: dict[str, Callable[[TensorType], bool]] = {
    "strided": lambda t: t.rank <= 8,
    "dense": lambda t: t.strides is None,
    "nhwc": _is_nhwc,
    "row": lambda t: t.rank == 0 or _has_unit_stride(t, 1),
    "col": lambda t: _has_unit_stride(t, 2),
}
