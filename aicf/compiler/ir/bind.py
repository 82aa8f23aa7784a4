"""A graph with values for its symbols, or for another device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aicf import dim
from aicf.compiler.ir.errors import IRError, Rule
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import TensorType, Type
from aicf.dim import Dim


def bind(graph: Graph, values: Mapping[str, int]) -> Graph:
    """A new graph, every node of which is inferred anew; symbols without a value stay."""
    for name, value in values.items():
        _check_value(graph, name, value)
    kept = {n: s for n, s in graph.symbols.items() if n not in values}
    return _Binding(graph, Graph(graph.table, graph.name, kept), values).graph()


def place(graph: Graph, device: str) -> Graph:
    """A new graph, whose tensors are all on one device; every node is inferred anew for another
    one than it was on."""
    if all(getattr(v.type, "device", device) == device for v in graph.values):
        return graph.clone()
    new = Graph(graph.table, graph.name, dict(graph.symbols))
    return _Binding(graph, new, {}, device).graph()


def solve(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The values of a graph's symbols by shapes of entries by name. A symbol is read where it
    stands alone as a size. Raises IRError where sizes disagree, or nothing says a symbol."""
    found: dict[str, int] = {}
    for v in graph.entries:
        if isinstance(v.type, TensorType) and v.name in shapes:
            _match(v, tuple(shapes[v.name]), found)
    for name in {s.name for v in graph.values for s in v.type.symbols} - set(found):
        raise IRError(Rule.SYMBOL, f"no given shape says what {name} is")
    for name, value in found.items():
        _check_value(graph, name, value)
    return found


def _match(value: Value, shape: tuple[int, ...], found: dict[str, int]) -> None:
    type = value.type
    assert isinstance(type, TensorType)
    if len(shape) != type.rank:
        raise IRError(Rule.SHAPE, f"it is {type}, and {shape} was given", value=value.name)
    for size, given in zip(type.shape, shape, strict=True):
        if isinstance(size, Dim) and str(size).isidentifier():
            found.setdefault(str(size), given)
        known = dim.bind(size, found)
        if isinstance(known, int) and known != given:
            values = "".join(f", {k} = {v}" for k, v in found.items())
            message = f"it is {type}{values}, and {shape} was given"
            raise IRError(Rule.SHAPE, message, value=value.name)


def _is_laid_alike(a: Type, b: Type) -> bool:
    """Whether types are the same but for the strides of dims that are not gone along: where a size
    turns out to be 1, or 0, an op may give other strides there than it says of any size."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a == b
    if replace(a, strides=None) != replace(b, strides=None):
        return False
    pairs = zip(a.shape, a.steps, b.steps, strict=True)
    return 0 in a.shape or all(n == 1 or p == q for n, p, q in pairs)


def _check_value(graph: Graph, name: str, value: int) -> None:
    if name not in graph.symbols:
        known = ", ".join(graph.symbols) or "none"
        raise IRError(Rule.SYMBOL, f"there is no symbol {name}; there are {known}")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise IRError(Rule.SYMBOL, f"{name} is {value!r}, and no whole number")
    symbol = graph.symbols[name]
    if value < symbol.min or (symbol.max is not None and value > symbol.max):
        raise IRError(Rule.SYMBOL, f"{name} is {value}, and its range {symbol.range}")


class _Binding:
    """A graph on its way to one with values for symbols."""

    def __init__(
        self, old: Graph, new: Graph, values: Mapping[str, int], device: str | None = None
    ) -> None:
        self.old, self.new, self.values, self.device = old, new, values, device
        self.map: dict[Value, Value] = {}

    def graph(self) -> Graph:
        old, new = self.old, self.new
        for v in old.inputs:
            self.map[v] = new.input(v.name, self.type(v))
        for v in old.params:
            self.map[v] = new.param(v.name, self.type(v))
        for v, fill in old.constants.items():
            self.map[v] = new.constant(v.name, self.type(v), fill)
        for node in old.nodes:
            self.add(node)
        new.output(*(self.map[v] for v in old.outputs))
        return new

    def type(self, v: Value) -> Type:
        bound: Type = v.type.bind(self.values)
        if self.device is None or not isinstance(bound, TensorType):
            return bound
        return replace(bound, device=self.device)

    def add(self, node: Node) -> None:
        attrs = {name: self.bound(value) for name, value in node.attrs.items()}
        made = self.new.add(
            node.op, *(self.bound(x) for x in node.inputs), names=[v.name for v in node.results],
            want=[v is not None for v in node.outs], loc=node.loc, **attrs,
        )  # fmt: skip
        for before, after in zip(node.results, made.results, strict=True):
            expected = self.type(before)
            if not _is_laid_alike(expected, after.type):
                values = ", ".join(f"{k} = {v}" for k, v in self.values.items())
                message = f"it is {after.type} with {values}, and not {expected}"
                raise IRError(Rule.TYPE, message, node.op, before.name, node.loc)
            self.map[before] = after

    def bound(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(self.bound(part) for part in x)
        return self.map[x] if isinstance(x, Value) else dim.bind(x, self.values)
