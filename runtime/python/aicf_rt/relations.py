"""What the shape relations and gradients that opgen writes compute with, in Python.

A relation takes the shapes of a row's arguments and gives those of its outs. It goes through the
arguments with match(), which compares what is known of a shape and gives the rest. What it has no
answer for is Refused; sizes may be symbolic, as in `aicf_rt.expressions`.

Generated code knows this module as `_e`, and calls the functions of expressions by that name too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec

from aicf_rt.expressions import *  # noqa: F403
from aicf_rt.expressions import Int, checked, prod

Shape = Sequence[Any]  # of sizes
List = Sequence[Shape | None]  # of the tensors of a list
Ints = Sequence[int]
Axes = int | Sequence[int] | None
Shapes = tuple[tuple[Any, ...], ...]
Relation = Callable[..., Shapes]
Arguments = ParamSpec("Arguments")


class Refused(ValueError):
    """Shapes or attributes that a row does not take; says which."""


@dataclass(frozen=True, slots=True)
class One:
    """A dim that nothing has bound yet."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An item that stands at an axis."""

    axis: int
    item: Any


@dataclass(frozen=True, slots=True)
class Each:
    """An item that varies over a list: open, or its value in each tensor."""

    values: Any

    def at(self, index: int) -> Any:
        return self.values if _is_open(self.values) else self.values[index]


ONE: Any = One()
ANY: Any = None  # a pack that nothing has bound yet
placed = Placed
each = Each


def relation(function: Callable[Arguments, Shapes]) -> Callable[Arguments, Shapes]:
    """What has no answer is refused, in the name of the op."""

    @functools.wraps(function)
    def refusing(*shapes: Arguments.args, **attributes: Arguments.kwargs) -> Shapes:
        try:
            return function(*shapes, **attributes)
        except (Refused, ArithmeticError, IndexError) as error:
            raise Refused(f"{function.__name__[1:]}: {error}") from error

    return refusing


def match(what: str, shape: Shape, *items: Any) -> tuple[Any, ...]:
    """The sizes that each item of `what` stands for in `shape`.

    An item is the size or pack that is known, ONE, or ANY; one of the latter takes what the others
    leave. A size of another value, or a shape of another rank, is refused.
    """
    found = _located(items, tuple(shape))
    if found is None:
        raise Refused(f"{what} is {_text(shape)}")
    return found


def _is_open(item: object) -> bool:
    return item is ANY or item is ONE


def _located(items: Sequence[Any], shape: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """None where they do not agree. An item at an axis parts the shape in two."""
    for i, item in enumerate(items):
        if isinstance(item, Placed):
            axis = item.axis
            left = _located(items[:i], shape[:axis])
            here = _located((item.item,), shape[axis : axis + 1])
            right = _located(items[i + 1 :], shape[axis + 1 :])
            if left is None or here is None or right is None:
                return None
            return (*left, *here, *right)
    rest = len(shape) - sum(_rank(item) for item in items)
    open_packs = sum(item is ANY for item in items)
    if rest < 0 or open_packs > 1 or (rest > 0 and not open_packs):
        return None
    found: list[Any] = []
    at = 0
    for item in items:
        rank = rest if item is ANY else _rank(item)
        sizes = shape[at : at + rank]
        at += rank
        one = item is ONE or not (item is ANY or isinstance(item, Sequence))
        known = (item,) if one else item
        if not _is_open(item) and any(a != b for a, b in zip(known, sizes, strict=True)):
            return None
        found.append(checked(sizes[0]) if one else sizes)
    return tuple(found)


def _rank(item: object) -> int:
    return 0 if item is ANY else len(item) if isinstance(item, Sequence) else 1


def _text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def match_each(what: str, shapes: Sequence[Shape | None], *items: Any) -> tuple[Any, ...]:
    """match() of every shape of a list: what does not vary is equal in all, what does is a tuple
    of one entry a shape. An absent tensor's shape is None and binds nothing."""
    same = [item.item if isinstance(item, Placed) else item for item in items]
    varying: list[list[Any]] = [[] for _ in items]
    for index, shape in enumerate(shapes):
        known = [item.at(index) if isinstance(item, Each) else item for item in same]
        if shape is not None:
            known = list(match(f"{what}, tensor {index}", shape, *map(_placed_as, items, known)))
        for i, item in enumerate(same):
            if isinstance(item, Each):
                varying[i].append(known[i])
            else:
                same[i] = known[i]
    return tuple(tuple(v) if isinstance(s, Each) else s for s, v in zip(same, varying, strict=True))


def _placed_as(item: Any, known: Any) -> Any:
    return Placed(item.axis, known) if isinstance(item, Placed) else known


def count(what: str, *lists: Sequence[Any] | None) -> int:
    """The length that all lists have which are there."""
    lengths = [len(x) for x in lists if x is not None]
    if any(length != lengths[0] for length in lengths):
        raise Refused(f"{what} is {' and '.join(map(str, lengths))}")
    length: int = checked(lengths[0] if lengths else 0)
    return length


def size(dim: Any) -> Any:
    """A dim, 0 if nothing bound it."""
    return 0 if dim is ONE else dim


def sizes(pack: Any) -> Any:
    """A pack, or what varies over a list; empty if nothing bound it."""
    return () if _is_open(pack) else pack


def first(shapes: Sequence[Any] | None) -> Any:
    """Of a list; None of none."""
    return shapes[0] if shapes else None


def axis(what: str, value: int, of: Shape | None) -> int:
    """An axis of a shape, counted from the front."""
    if of is None:
        return value
    if not -len(of) <= value < len(of):
        raise Refused(f"{what} is {value}, of {len(of)} dims")
    return value % len(of)


def axes(what: str, values: int | Sequence[int] | None, of: Shape | None) -> tuple[int, ...]:
    """Axes of a shape, counted from the front, each once; None means all."""
    if values is None:
        return tuple(range(len(of or ())))
    folded = tuple(axis(what, v, of) for v in ((values,) if isinstance(values, int) else values))
    if len(set(folded)) < len(folded):
        raise Refused(f"{what} is {_text(folded)}: an axis twice")
    return folded


def bounded(what: str, value: Any, least: float | None = None, most: float | None = None) -> Any:
    """An attribute, refused if it, or one of several integers, is beyond its bounds; a NaN is
    within none."""
    for v in value if isinstance(value, Sequence) else (value,):
        if not ((least is None or v >= least) and (most is None or v <= most)):
            raise Refused(f"{what} is {v}")
    if isinstance(value, Sequence):
        return tuple(map(checked, value))
    return checked(value)


def require(holds: Any, message: str) -> None:
    """Refuses what a row's `where` does not allow."""
    if not holds:
        raise Refused(message)


def same_shapes(*shapes: Shape | None) -> bool:
    """same_shape() of tensors whose shapes these are."""
    present = [tuple(shape) for shape in shapes if shape is not None]
    return all(shape == present[0] for shape in present)


def zipped(*varying: Sequence[Any]) -> list[tuple[Any, ...]]:
    """What varies over one list, tensor by tensor."""
    return list(zip(*varying, strict=True))


def outs(*shapes: Shape) -> Shapes:
    """The shapes of all outs, if there can be such tensors."""
    for shape in shapes:
        if any(isinstance(size, int) and size < 0 for size in shape):
            raise Refused(f"an out of {_text(shape)}")
        prod([size for size in shape if not isinstance(size, int) or size > 1])
    return tuple(tuple(int(n) if isinstance(n, Int) else n for n in shape) for shape in shapes)


# ---- gradients ----------------------------------------------------------------------------------


Needs = Sequence[bool | Sequence[bool]]
Gradients = tuple[Any, ...]
Names = tuple[str, ...]
Saved = Callable[..., Names]
Backward = Callable[..., Gradients]


def needs(need: Needs, *arguments: object) -> tuple[bool, ...]:
    """Of each argument whether its gradient is asked for; not of one that is absent."""
    asked = (any(n) if isinstance(n, Sequence) else n for n in need)
    return tuple(n and x is not None for n, x in zip(asked, arguments, strict=True))


def shape(x: Any) -> Any:
    """Of a tensor, of the first of a list; None where there is none."""
    x = first(x) if isinstance(x, Sequence) else x
    return None if x is None else x.shape


def names(**read: bool) -> Names:
    """Those that are true."""
    return tuple(name for name, value in read.items() if value)
