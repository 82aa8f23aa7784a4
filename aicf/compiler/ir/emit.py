"""Adds to a graph what a caller means, where a row takes it in another form only.

A row is found by what it is in ATen's terms, never by its name. An operand that no kernel takes as
it lies is made dense; a number where a tensor is wanted becomes a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aicf.compiler.ir import types
from aicf.compiler.ir.errors import IRError, Location, Rule
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Operand, Value, values_of
from aicf.compiler.ir.types import TensorType
from aicf.dim import Size
from aicf.table import FLOATS, Row, TableError

# What this layer asks of a table, in ATen's words.
ADD, SUB, MUL, DIV = "add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor"
NEG, MATMUL = "neg.default", "matmul.default"
SUM, COPY, CAST = "sum.dim_IntList", "clone.default", "_to_copy.default"


class Emitter:
    """Where nodes of a graph are added with one place in source."""

    def __init__(self, graph: Graph, loc: Location | None = None) -> None:
        self.graph, self.loc = graph, loc
        self._copies: dict[Value, Value] = {}  # of values that were made dense, each once

    # ---- rows -----------------------------------------------------------------------------------

    def row(self, aten: str) -> Row:
        """The row that is `aten`, the first of several."""
        rows = self.graph.table.by_aten.get(aten)
        if not rows:
            raise TableError(f"no row of {self.graph.table.package} is {aten} in ATen's terms")
        return rows[0]

    def node(
        self, op: str, *inputs: Operand | Sequence[Value], want: Sequence[bool] | None = None,
        **keywords: Any,
    ) -> Node:  # fmt: skip
        """A node; of operands that no kernel takes as they lie, on dense ones."""
        try:
            return self.graph.add(op, *inputs, want=want, loc=self.loc, **keywords)
        except IRError as error:
            if error.rule not in (Rule.LAYOUT, Rule.VIEW):
                raise
        taken = self._updated(op)
        dense = [x if i in taken else self._dense(x) for i, x in enumerate(inputs)]
        return self.graph.add(op, *dense, want=want, loc=self.loc, **keywords)

    def _updated(self, op: str) -> set[int]:
        """The operands that are written to, which no copy can stand for."""
        row = self.graph.table.ops.get(op)
        return {row.operands.index(p) for p in row.inouts} if row else set()

    def _dense(self, operand: Any) -> Any:
        if isinstance(operand, Value):
            return self.dense(operand)
        if isinstance(operand, list | tuple):
            return tuple(self._dense(part) for part in operand)
        return operand

    def aten(self, name: str, *inputs: Operand, **keywords: Any) -> Value:
        """The out of the row that is this in ATen's terms."""
        return self.node(self.row(name).name, *inputs, **keywords).out

    # ---- values ---------------------------------------------------------------------------------

    def dense(self, value: Value) -> Value:
        """Row-major: itself where it is."""
        if not isinstance(value.type, TensorType) or value.type.strides is None:
            return value
        if value not in self._copies:
            self._copies[value] = self.copy(value)
        return self._copies[value]

    def copy(self, value: Value) -> Value:
        """In memory of its own, row-major."""
        return self.aten(COPY, value)

    def cast(self, value: Value, dtype: str) -> Value:
        return value if value.type.dtype == dtype else self.aten(CAST, value, dtype=dtype)

    def filled(self, number: bool | int | float, like: TensorType) -> Value:
        """A tensor of the shape of `like` with one number everywhere."""
        return self.expand(self.number(number, like.dtype, like.device), like.shape)

    def number(self, number: bool | int | float, dtype: str, device: str) -> Value:
        """A constant of rank 0; the one that is there already. Raises IRError where the dtype does
        not have the number."""
        try:
            exact = types.number(number, dtype)
        except ValueError as error:
            raise IRError(Rule.TYPE, str(error), where=self.loc) from None
        typed = float(exact) if dtype in FLOATS else exact
        type = TensorType(dtype, (), None, device)
        for value, fill in self.graph.constants.items():
            if value.type == type and fill is not None and repr(fill) == repr(typed):
                return value
        return self.graph.constant("number", type, typed)

    # ---- views ----------------------------------------------------------------------------------

    def permute(self, x: Value, perm: Sequence[int]) -> Value:
        same = tuple(perm) == tuple(range(tensor(x).rank))
        return x if same else self.view("view.permute", x, perm=tuple(perm))

    def transpose(self, x: Value) -> Value:
        """The last two dims exchanged."""
        rank = tensor(x).rank
        return self.permute(x, (*range(rank - 2), rank - 1, rank - 2))

    def reshape(self, x: Value, shape: Sequence[Size]) -> Value:
        same = tensor(x).shape == tuple(shape)
        return x if same else self.view("view.reshape", x, shape=tuple(shape))

    def expand(self, x: Value, shape: Sequence[Size]) -> Value:
        same = tensor(x).shape == tuple(shape)
        return x if same else self.view("view.expand", x, shape=tuple(shape))

    def slice(self, x: Value, axis: int, start: Size, stop: Size, step: int = 1) -> Value:
        if start == 0 and step == 1 and stop == tensor(x).shape[axis]:
            return x
        return self.view("view.slice", x, axis=axis, start=start, stop=stop, step=step)

    def select(self, x: Value, axis: int, index: Size) -> Value:
        """One index of an axis, which goes."""
        one = self.slice(x, axis, index, index + 1)
        return self.squeeze(one, (axis,))

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        return self.reshape(x, [n for i, n in enumerate(tensor(x).shape) if i not in axes])

    def unsqueeze(self, x: Value, axis: int) -> Value:
        shape = list(tensor(x).shape)
        shape.insert(axis, 1)
        return self.reshape(x, shape)

    def view(self, word: str, x: Value, **attrs: Any) -> Value:
        return self.node(word, x, **attrs).out

    # ---- compositions ---------------------------------------------------------------------------

    def sum_to(self, x: Value, shape: Sequence[Size]) -> Value:
        """Summed over what broadcasting from `shape` repeated."""
        given = tensor(x).shape
        lead = len(given) - len(shape)
        axes = [*range(lead)]
        axes += [lead + i for i, n in enumerate(shape) if n == 1 and given[lead + i] != 1]
        if not axes:
            return x
        keep = len(axes) > lead
        return self.reshape(self.aten(SUM, x, axes=tuple(axes), keepdim=keep), shape)

    def matmul(self, a: Value, b: Value) -> Value:
        return self.aten(MATMUL, a, b)


def tensor(value: Value) -> TensorType:
    """The type of a value that is a tensor."""
    if not isinstance(value.type, TensorType):
        raise IRError(Rule.OPERAND, f"a tensor is needed, and not {value!r}", value=value.name)
    return value.type


def first(operand: object) -> Value | None:
    """The first value of an operand."""
    return next(values_of(operand), None)
