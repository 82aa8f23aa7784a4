"""The gradient of a graph, as more nodes of it, from the gradients that the rows declare.

Only what leads from `wrt` to the loss is derived. A forward value that a gradient reads is read by
the nodes behind; an optional out that one reads is asked for in the forward. Both are named in
`Derived.saved`, so that what lives on until the backward is seen and not guessed.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aicf.compiler.ir.emit import ADD, Emitter, tensor
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Operand, Value, values_of
from aicf.compiler.ir.types import TensorType
from aicf.table import FLOATS, Row, TableError, Variant


class NoGradient(TableError):
    """A row on the way from `wrt` to the loss declares no gradient."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A graph that computes gradients too."""

    graph: Graph
    loss: Value
    gradients: Mapping[str, Value]  # by name of what they are of
    saved: tuple[Value, ...]  # forward values that the backward reads, in order


def grad(
    graph: Graph, loss: str | Value | None = None, wrt: str | Sequence[str | Value] | None = None
) -> Graph:
    """A new graph that gives the gradients alone, in the order of `wrt`."""
    found = derive(graph, loss, wrt)
    found.graph.outputs[:] = found.gradients.values()
    found.graph.prune()
    return found.graph


def value_and_grad(
    graph: Graph, loss: str | Value | None = None, wrt: str | Sequence[str | Value] | None = None
) -> Graph:
    """A new graph that gives what the old one gave, and the gradients behind it."""
    found = derive(graph, loss, wrt)
    found.graph.output(*found.gradients.values())
    return found.graph


def derive(
    graph: Graph, loss: str | Value | None = None, wrt: str | Sequence[str | Value] | None = None
) -> Derived:
    """A new graph with the gradients of `loss`, of one element, by default the first output, with
    respect to `wrt`, by default all params of floats. Raises NoGradient, IRError."""
    graph = graph.clone()
    if loss is None and not graph.outputs:
        raise ValueError(f"graph {graph.name} has no output: name the loss")
    target = _value(graph, loss if loss is not None else graph.outputs[0])
    wrt = [wrt] if isinstance(wrt, str) else wrt
    given = graph.params if wrt is None else [_value(graph, v) for v in wrt]
    sources = [v for v in given if wrt is not None or v.type.dtype in FLOATS]
    for v in (target, *sources):
        if v.type.dtype not in FLOATS:
            raise ValueError(f"{v!r} is of no float, and has no gradient")
    if not tensor(target).is_one:
        raise ValueError(f"{target!r} has several elements: a loss has one, as a sum or mean gives")
    return _Derivation(graph, target, sources).derived()


def _value(graph: Graph, v: str | Value) -> Value:
    return graph.value(v) if isinstance(v, str) else v


class _Derivation:
    """One way back through a graph."""

    def __init__(self, graph: Graph, loss: Value, sources: Sequence[Value]) -> None:
        self.graph, self.loss, self.sources = graph, loss, sources
        self.emitter = Emitter(graph)
        self.varied = self.leading_from(sources)
        self.gradients: dict[Value, Value] = {}
        self.saved: dict[Value, None] = {}
        self.forward = set(graph.values)

    def leading_from(self, sources: Sequence[Value]) -> set[Value]:
        """All floats that depend on the sources."""
        found = set(sources)
        for node in self.graph.nodes:
            if any(v in found for v in node.reads):
                found.update(v for v in node.results if v.type.dtype in FLOATS)
        return found

    def derived(self) -> Derived:
        forward = list(self.graph.nodes)
        self.gradients[self.loss] = self.emitter.filled(1, tensor(self.loss))
        for node in reversed(forward):
            if any(v in self.gradients for v in node.results):
                self.emitter.loc = node.loc
                self.back(node)
        self.emitter.loc = None
        found = {v.name: self.gradient_of(v) for v in self.sources}
        for node in self.graph.nodes[len(forward) :]:
            self.saved.update((v, None) for v in node.reads if v in self.forward)
        self.graph.verify()
        return Derived(self.graph, self.loss, found, tuple(self.saved))

    def gradient_of(self, source: Value) -> Value:
        found = self.gradients.get(source)
        return self.emitter.filled(0, tensor(source)) if found is None else found

    def back(self, node: Node) -> None:
        """Adds what a node's operands get of the gradients of its results."""
        need = [_each(x, lambda v: v in self.varied) for x in node.inputs]
        if not any(map(_any, need)):
            return
        if node.is_view:
            self.give(node.inputs[0], self.back_view(node))
            return
        row = self.graph.table[node.op]
        if row.inouts or row.gradient is None:
            why = "it updates in place" if row.inouts else "its row declares none"
            place = f"{node.loc}: " if node.loc else ""
            raise NoGradient(f"{place}{row.name} has no gradient: {why}")
        count = len(row.tensors)
        found = self.back_row(node, row, need[:count])
        for operand, gradient in zip(node.inputs[:count], found, strict=True):
            self.give(operand, _unlike(gradient))

    def give(self, operand: Operand, found: Any) -> None:
        """To a list, gradient by gradient; what several nodes read gets the sum."""
        if isinstance(operand, tuple):
            for part, gradient in zip(operand, found or (None,) * len(operand), strict=True):
                self.give(part, gradient)
        elif isinstance(operand, Value) and found is not None and operand in self.varied:
            before = self.gradients.get(operand)
            self.gradients[operand] = (
                found if before is None else self.emitter.aten(ADD, before, found)
            )

    # ---- views --------------------------------------------------------------------------------

    def back_view(self, node: Node) -> Value:
        source, attrs = next(node.reads), node.attrs
        g, e = self.gradients[node.out], self.emitter
        match node.op:
            case "view.permute":
                return e.permute(g, inverse(attrs["perm"]))
            case "view.reshape":
                return e.reshape(g, tensor(source).shape)
            case "view.expand":
                return e.sum_to(g, tensor(source).shape)
            case _:
                return self.padded(g, tensor(source), **attrs)

    def padded(
        self, g: Value, like: TensorType, axis: int, start: Any, stop: Any, step: int
    ) -> Value:
        """Zeros in the shape of `like` but where the slice was."""
        if step != 1:
            raise NoGradient(f"a slice by steps of {step} has no gradient")
        shape = list(like.shape)
        parts = []
        for size in (start, None, like.shape[axis] - stop):
            if size is None:
                parts.append(g)
            elif size != 0:
                shape[axis] = size
                zeros = dataclasses.replace(like, shape=tuple(shape), strides=None)
                parts.append(self.emitter.filled(0, zeros))
        return self.emitter.aten("cat.default", tuple(parts), axis=axis)

    # ---- rows ---------------------------------------------------------------------------------

    def back_row(self, node: Node, row: Row, need: Sequence[Any]) -> Sequence[Any]:
        assert row.gradient is not None
        saved, backward = row.gradient
        values = self.values(node, row)
        tensors = node.inputs[: len(row.tensors)]
        reads = saved(tuple(need), *map(_like, tensors), **_taken(values, saved))
        node = self.with_outs(node, row, reads)
        names = _Names(self.graph, self.emitter)
        results = [_like(v) for v in node.outs]
        chosen = _taken(values, backward)
        return backward(
            names, tuple(need), self.incoming(node, row), *map(_like, tensors), *results, **chosen
        )

    def incoming(self, node: Node, row: Row) -> Any:
        """Of one required out its gradient, of several all, None where there is none."""
        found = [
            _like(self.gradients[v]) if v is not None and v in self.gradients else None
            for v in node.outs[: row.required_outs]
        ]
        return found[0] if len(found) == 1 else tuple(found)

    def values(self, node: Node, row: Row) -> dict[str, Any]:
        """Attributes, scalars and type variables by name."""
        found: dict[str, Any] = dict(node.attrs)
        scalars = zip(row.scalars, node.inputs[len(row.tensors) :], strict=True)
        found.update((p.name, _like(x)) for p, x in scalars)
        found.update(variant_of(row, node).types)
        return found

    def with_outs(self, node: Node, row: Row, reads: Sequence[str]) -> Node:
        """The node with the optional outs that a gradient reads."""
        missing = [
            i for i, o in enumerate(row.outs) if o.name in reads and node.outs[i] is None
        ]  # fmt: skip
        if not missing:
            return node
        found = self.graph.widen(node, missing)
        self.forward.update(found.results)
        return found


def inverse(perm: Sequence[int]) -> list[int]:
    """The order that undoes `perm`."""
    return sorted(range(len(perm)), key=perm.__getitem__)


def variant_of(row: Row, node: Node) -> Variant:
    """The dtypes that a node of a row has."""
    dtypes = {p.name: v.type.dtype for p, x in zip(row.tensors, node.inputs, strict=False)
              for v in values_of(x)}  # fmt: skip
    found = row.variant(dtypes, node.attrs.get("dtype"))
    assert found is not None, f"{row.name}: an op of a graph has a variant"
    return found


def _taken(values: Mapping[str, Any], function: Any) -> dict[str, Any]:
    wanted = inspect.signature(function).parameters
    return {k: v for k, v in values.items() if k in wanted}


def _each(x: Any, ask: Any) -> Any:
    """An answer for a value, a tuple of them for a list."""
    if isinstance(x, tuple):
        return tuple(_each(part, ask) for part in x)
    return isinstance(x, Value) and ask(x)


def _any(need: Any) -> bool:
    return any(need) if isinstance(need, tuple) else bool(need)


# ---- what the functions of a package's `_gradients` meet --------------------------------------


class _Tensor:
    """A value as a gradient sees it: a shape, and nothing that is computed."""

    __slots__ = ("shape", "value")

    def __init__(self, value: Value) -> None:
        self.value, self.shape = value, tensor(value).shape


def _like(x: Any) -> Any:
    if isinstance(x, tuple):
        return [_like(part) for part in x]
    return _Tensor(x) if isinstance(x, Value) and isinstance(x.type, TensorType) else x


def _unlike(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return tuple(_unlike(part) for part in x)
    return x.value if isinstance(x, _Tensor) else x


class _Names:
    """`_f` of the gradients: each op of the table by name, and the fixed functions."""

    def __init__(self, graph: Graph, emitter: Emitter) -> None:
        self._graph, self._e = graph, emitter

    def __getattr__(self, name: str) -> Any:
        row = self._graph.table.ops.get(name)
        if row is None:
            raise AttributeError(name)

        def call(*tensors: Any, want: Sequence[bool] | None = None, **keywords: Any) -> Any:
            """One out as it is, several as a tuple of all, None for what is not wanted."""
            given = {k: _unlike(v) if isinstance(v, _Tensor) else v for k, v in keywords.items()}
            node = self._e.node(row.name, *map(_unlike, tensors), want=want, **given)
            found = [None if v is None else _Tensor(v) for v in node.outs]
            return found[0] if len(found) == 1 else tuple(found)

        return call

    def t(self, x: _Tensor) -> _Tensor:
        return _Tensor(self._e.transpose(x.value))

    def reshape(self, x: _Tensor, like: Any) -> _Tensor:
        return _Tensor(self._e.reshape(x.value, like.shape))

    def zeros(self, like: _Tensor) -> _Tensor:
        return _Tensor(self._e.filled(0, tensor(like.value)))

    def sum_to(self, x: _Tensor, like: Any) -> _Tensor:
        return _Tensor(self._e.sum_to(x.value, like.shape))

    def unreduce(self, x: _Tensor, like: Any, axes: Any, keepdim: bool) -> _Tensor:
        """Repeated over the axes that a reduction took away."""
        rank = len(like.shape)
        gone = range(rank) if axes is None else [axes] if isinstance(axes, int) else axes
        shape = list(x.shape)
        if not keepdim:
            for axis in sorted(a % rank for a in gone):
                shape.insert(axis, 1)
        return _Tensor(self._e.expand(self._e.reshape(x.value, shape), like.shape))

    def split(self, x: _Tensor, lists: Sequence[Any], axis: int) -> list[_Tensor]:
        found, at = [], 0
        for like in lists:
            size = like.shape[axis]
            found.append(_Tensor(self._e.slice(x.value, axis, at, at + size)))
            at = at + size
        return found
