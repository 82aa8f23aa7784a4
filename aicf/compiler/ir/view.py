"""Words of nodes that show a tensor's memory in another way: no kernel runs, nothing is copied.

Each is a function from the type of what it shows and its attributes to the type of what is seen. A
view that strides cannot express is a ViewError: its operand is made dense first, which copies.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from aicf import dim
from aicf.compiler.ir.types import TensorType
from aicf.dim import Dim, Size


class ViewError(ValueError):
    """What the attributes ask for cannot be seen, whatever the strides."""


class NotExpressible(ViewError):
    """It could be seen if the tensor were dense."""


def permute(x: TensorType, *, perm: Sequence[int]) -> TensorType:
    """Dims in another order."""
    if sorted(perm) != list(range(x.rank)):
        raise ViewError(f"perm {tuple(perm)} is no order of {x.rank} axes")
    steps = x.steps
    return replace(
        x, shape=tuple(x.shape[i] for i in perm), strides=tuple(steps[i] for i in perm)
    )  # fmt: skip


def expand(x: TensorType, *, shape: Sequence[Size]) -> TensorType:
    """Dims of size 1 repeated, and new ones in front, as broadcasting does."""
    lead = len(shape) - x.rank
    if lead < 0:
        raise ViewError(f"{x} has more than {len(shape)} dims")
    strides: list[Size] = [0] * lead
    for size, own, step in zip(shape[lead:], x.shape, x.steps, strict=True):
        if own != size and own != 1:
            raise ViewError(f"{x} does not broadcast to [{', '.join(map(str, shape))}]")
        strides.append(step if own == size else 0)
    return replace(x, shape=tuple(shape), strides=tuple(strides))


def slice(x: TensorType, *, axis: int, start: Size, stop: Size, step: int = 1) -> TensorType:
    """Every `step`th index of an axis from `start` until before `stop`."""
    if not 0 <= axis < x.rank:
        raise ViewError(f"axis {axis} of {x.rank} dims")
    if step < 1 or not (start >= 0 and start <= stop and stop <= x.shape[axis]):
        raise ViewError(f"{start}:{stop}:{step} of an axis of {x.shape[axis]}")
    size = (stop - start + (step - 1)) // step
    shape, strides = list(x.shape), list(x.steps)
    shape[axis], strides[axis] = size, strides[axis] * step
    return replace(x, shape=tuple(shape), strides=tuple(strides))


def reshape(x: TensorType, *, shape: Sequence[Size]) -> TensorType:
    """The same elements in the same order under other dims."""
    if dim.product(shape) != x.numel:
        raise ViewError(f"{x} has not the elements of [{', '.join(map(str, shape))}]")
    if x.strides is None:
        return replace(x, shape=tuple(shape))
    return replace(x, shape=tuple(shape), strides=_reshaped(x, shape))


def _reshaped(x: TensorType, shape: Sequence[Size]) -> tuple[Size, ...]:
    """Strides for `shape`: dims that lie as one are a run, and runs are split by the new sizes."""
    runs: list[tuple[Any, Any]] = []  # (elements, stride of the last), outermost first
    step: Any
    for size, step in zip(x.shape, x.steps, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == step * size:
            runs[-1] = (runs[-1][0] * size, step)
        else:
            runs.append((size, step))
    strides: list[Size] = []
    left: Any = 1  # elements of the innermost run that new dims have not taken
    step = 1
    for size in reversed(shape):
        if size == 1:
            strides.append(step)
            continue
        if left == 1:
            left, step = runs.pop()
        if left % size != 0:
            raise NotExpressible(f"strides of {x} do not split into [{_text(shape)}]")
        strides.append(step)
        left, step = left // size, step * size
    return tuple(reversed(strides))


def _text(shape: Sequence[Size]) -> str:
    return ", ".join(map(str, shape))


VIEWS: Final[Mapping[str, Callable[..., TensorType]]] = {
    "view.permute": permute,
    "view.expand": expand,
    "view.slice": slice,
    "view.reshape": reshape,
}


def canonical(word: str, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a view word in order, as tuples and ints. Raises TypeError."""
    try:
        bound = inspect.signature(VIEWS[word]).bind(None, **attrs)
    except TypeError as error:
        raise TypeError(f"{word}: {error}") from None
    bound.apply_defaults()
    return {name: _plain(name, v) for name, v in list(bound.arguments.items())[1:]}


def _plain(name: str, value: Any) -> Any:
    """Of what takes several a tuple, of the others one size."""
    if name not in ("perm", "shape"):
        return _size(name, value)
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be several integers, not {value!r}")
    return tuple(_size(name, v) for v in value)


def _size(name: str, value: Any) -> Size:
    if isinstance(value, Dim):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be of integers, not {value!r}")
    return operator.index(value)
