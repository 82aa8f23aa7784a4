"""What is computed twice is computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from aicf.compiler.ir import text
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.passes.buffers import Buffers
from aicf.compiler.passes.rule import Applied, Context, Fired, Refused


class Cse:
    """f(x), f(x) = y, y with y = f(x)

    Of the same row, operands, attributes and outs. What updates in place is never taken together,
    nor are results of which one is updated later, or that are both given back. Random numbers are
    of a seed and an offset, and the same for the same."""

    name = "cse"

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        return _Once(graph, None if context is None else context.limit).applied()


class _Once:
    def __init__(self, graph: Graph, most: int | None) -> None:
        self.old, self.new, self.most = graph, graph.emptied(), most
        self.map: dict[Value, Value] = {}
        self.known: dict[Hashable, Node] = {}
        self.buffers = Buffers(graph)
        self.fired: list[Fired] = []
        self.refused: list[Refused] = []

    def applied(self) -> Applied:
        self.take_constants()
        for i, node in enumerate(self.old.nodes):
            self.buffers.place = i
            here = node.reading(self.map)
            if node.states or not self.again(node, here):
                self.new.append(here)
        if not self.fired:
            return Applied(self.old, (), tuple(self.refused))
        self.new.outputs = [self.map.get(v, v) for v in self.old.outputs]
        self.new.__post_init__()
        return Applied(self.new, tuple(self.fired), tuple(self.refused))

    def take_constants(self) -> None:
        """Those of one number are read as the first of them."""
        first: dict[Hashable, Value] = {}
        for v, fill in self.old.constants.items():
            known = v if fill is None else first.setdefault((v.type, repr(fill)), v)
            if known is v or v in self.old.outputs or not self.old.users(v):
                continue
            if self.most is None or len(self.fired) < self.most:
                self.map[v] = known
                self.fired.append(Fired(Cse.name, (f"constant {v!r}",), (), None, ""))

    def again(self, node: Node, here: Node) -> bool:
        """Whether another node has computed it, whose results are read from now on."""
        key = _key(here)
        first = self.known.setdefault(key, here)
        if first is here or (self.most is not None and len(self.fired) >= self.most):
            return False
        line = text.line(self.new, here)
        pairs = [
            (old, new)
            for old, new in zip(node.outs, first.outs, strict=True)
            if old is not None and new is not None
        ]
        for old, new in pairs:
            why = self.why_not(old, new)
            if why is not None:
                self.refused.append(Refused(Cse.name, *why, line, here.loc, ""))
                self.known[key] = here
                return False
        for old, new in pairs:
            self.buffers.put(old, self.new.buffer_of(new))
            self.map[old] = new
        self.fired.append(Fired(Cse.name, (line,), (), here.loc, ""))
        return True

    def why_not(self, old: Value, new: Value) -> tuple[str, str] | None:
        writer = self.new.overwritten_by(new)
        if writer is not None:
            return "overwritten", f"{new} was updated by {text.line(self.new, writer)}"
        there = self.new.buffer_of(new)
        return self.buffers.conflict(old, new, there, self.new.producer(there) is None)


def _key(node: Node) -> Hashable:
    """Equal of nodes that compute the same."""

    def plain(x: Any) -> Hashable:
        if isinstance(x, tuple):
            return tuple(plain(part) for part in x)
        return x if isinstance(x, Value) else repr(x)

    attrs = tuple((name, repr(value)) for name, value in node.attrs.items())
    return node.op, plain(node.inputs), attrs, tuple(v is not None for v in node.outs)
