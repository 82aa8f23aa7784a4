"""How tensors of four dims may lie, and how a node is said where its tensors lie the other way.

ROWS is row-major, N C H W from the outermost; LAST has the second dim innermost, as kernels of
layout `nhwc` take it. Shapes stay what they are: a tensor that lies as LAST has other strides. All
of it is the row's: its kernels' layouts, the order of its outs, its axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from aicf.compiler.ir import types
from aicf.compiler.ir.errors import IRError, Rule
from aicf.compiler.ir.infer import infer
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import TensorType
from aicf.dim import Size, Undecided
from aicf.table import Kind, Row, Table

ROWS, LAST, ODD, UNSURE = 0, 1, 2, 3  # UNSURE: a symbol may make a size 1, and both ways one
NAMES: Final = ("NCHW", "NHWC")
TO_LAST, TO_ROWS = (0, 2, 3, 1), (0, 3, 1, 2)  # as permutations of dims; inverse to each other


def lying(t: object, side: int) -> Any:
    """The same type, lying so."""
    assert isinstance(t, TensorType)
    if side == ROWS:
        return replace(t, strides=None)
    steps = types.row_major([t.shape[i] for i in TO_LAST])
    return replace(t, strides=tuple(steps[i] for i in TO_ROWS))


def side_of(t: object) -> int | None:
    """How a type lies; None where there is one way alone, as of C = 1 or H = W = 1."""
    if not isinstance(t, TensorType) or t.rank != 4:
        return None
    _, c, h, w = t.shape
    if c == 1 or (h == 1 and w == 1) or any(n == 0 for n in t.shape):
        return None
    if not (_is_several(c) and (_is_several(h) or _is_several(w))):
        return UNSURE
    if t.strides is None:
        return ROWS
    return LAST if t == lying(t, LAST) else ODD


def _is_several(size: Size) -> bool:
    """For all values of its symbols."""
    try:
        return size > 1
    except Undecided:
        return False


def mentions_last(table: Table, node: Node, backend: str | None) -> bool:
    """Whether the row has a kernel for tensors that lie so."""
    return not node.is_view and any(
        "nhwc" in words
        for kernel in table[node.op].kernels
        if backend in (None, kernel.backend)
        for words in kernel.layouts.values()
    )


@dataclass(frozen=True, slots=True)
class Form:
    """How a node is said where its tensors lie on one side. `turned`: its row takes row-major
    tensors alone, so they are shown to it with their dims in the order in which they lie."""

    attrs: Mapping[str, Any]
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Pinned:
    """Why a node stays as it is."""

    reason: str
    detail: str


REFUSALS: Final = {
    "in-place": "it updates a tensor of four dims, whose memory is given",
    "strided": "a tensor of it lies neither as NCHW nor as NHWC",
    "maybe-one": "a size of it may be 1, where both ways are one and no order is known",
    "mixed": "its tensors lie both ways",
    "no-kernel": "no kernel of the row takes its tensors the other way",
    "order-lost": "an out does not take the order of what it is made of",
    "view": "what it shows is not expressible in the other strides",
    "not-here": "no kernel of this device takes it the other way at these sizes",
    "no-gain": "the way it is now costs no more",
}


def tracked(operand: Any) -> Iterator[Value]:
    """The values of an operand that may lie two ways, or oddly."""
    for x in operand if isinstance(operand, tuple) else (operand,):
        if isinstance(x, Value) and side_of(x.type) is not None:
            yield x


def forms_of(table: Table, node: Node) -> tuple[int, Form] | Pinned | None:
    """The side that a node is on, and its form on the other; None of one without such tensors."""
    given = [v for x in node.inputs for v in tracked(x)]
    made = [v for v in node.outs if v is not None and side_of(v.type) is not None]
    sides = {side_of(v.type) for v in (*given, *made)}
    if not sides:
        return None
    for state in node.states.values():
        for v in tracked(state):
            return Pinned("in-place", f"{v} is updated")
    if UNSURE in sides:
        unsure = next(v for v in (*given, *made) if side_of(v.type) == UNSURE)
        return Pinned("maybe-one", repr(unsure))
    if ODD in sides:
        odd = next(v for v in (*given, *made) if side_of(v.type) == ODD)
        return Pinned("strided", repr(odd))
    if len(sides) > 1 or not given:
        return Pinned("mixed", ", ".join(map(repr, (*given, *made))))
    side = ROWS if ROWS in sides else LAST
    form = _other_form(table, node, 1 - side)
    return form if isinstance(form, Pinned) else (side, form)


def _other_form(table: Table, node: Node, side: int) -> Form | Pinned:
    operands = _mapped(node.inputs, lambda t: lying(t, side))
    want = [v is not None for v in node.outs]
    try:
        found = infer(table, node.op, operands, node.attrs, want)
    except IRError as error:
        if error.rule is Rule.VIEW:
            return Pinned("view", error.message)
        if error.rule is not Rule.LAYOUT:
            return Pinned("no-kernel", error.message)
        return _turned_form(table, node, error.message)
    for before, after in zip(node.outs, found.outs, strict=True):
        if before is not None and after != _expected(before.type, side):
            return Pinned("order-lost", f"{before} would be {after}")
    return Form(node.attrs)


def _expected(t: Any, side: int) -> Any:
    return t if side_of(t) is None else lying(t, side)


def _mapped(operands: Any, change: Any) -> Any:
    """Operands by their types, those that may lie two ways changed."""
    if isinstance(operands, tuple):
        return tuple(_mapped(x, change) for x in operands)
    if not isinstance(operands, Value):
        return operands
    return operands.type if side_of(operands.type) is None else change(operands.type)


# ---- rows of row-major tensors along an axis ----------------------------------------------------


def _turned_form(table: Table, node: Node, message: str) -> Form | Pinned:
    """A row that does one thing along one axis, whatever the order of the other dims, with the
    tensors' dims in the order in which they lie as LAST. From LAST there is no need: as they lie
    as ROWS the tensors are taken."""
    row = table[node.op]
    axis = _axis(row, node)
    if axis is None:
        return Pinned("no-kernel", message)
    attrs = {**node.attrs, axis: TO_LAST.index(node.attrs[axis])}
    operands = _mapped(node.inputs, dims_last)
    try:
        found = infer(table, node.op, operands, attrs, [v is not None for v in node.outs])
    except IRError as error:
        return Pinned("no-kernel", error.message)
    for before, after in zip(node.outs, found.outs, strict=True):
        if before is None:
            continue
        if after != (before.type if side_of(before.type) is None else dims_last(before.type)):
            return Pinned("order-lost", f"{before} would be {after}")
    return Form(attrs, turned=True)


def _axis(row: Row, node: Node) -> str | None:
    """The attribute that says along which axis, of a row all of whose tensors that may lie two ways
    have it: "L.. N@axis R..", and "L.. N R.." of outs."""
    names = [p.name for p in row.attrs if p.word == "axis"]
    if len(names) != 1 or any(p.word == "axes" for p in row.attrs):
        return None
    given = zip((*row.operands, *row.outs), (*node.inputs, *node.outs), strict=True)
    for p, x in given:
        if any(tracked(x)) and not _goes_along(p.shape, p.kind, names[0]):
            return None
    return names[0]


def _goes_along(shape: str, kind: Kind, axis: str) -> bool:
    words = shape.replace(f"@{axis}", "").split()
    return kind is not Kind.SCALAR and len(words) == 3 and (words[0], words[2]) == ("L..", "R..")


def dims_last(t: Any) -> Any:
    """The type of what lies as LAST, its dims in that order."""
    return replace(t, shape=tuple(t.shape[i] for i in TO_LAST), strides=None)
