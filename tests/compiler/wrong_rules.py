"""Rules and passes that are wrong, each in another way."""

from __future__ import annotations

import dataclasses
from typing import Any

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.types import parse
from aicf.compiler.passes.rule import Applied, Context, Fired, Rule


class Raises(Rule):
    """relu(x) = ..."""

    name = "raises"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.relu(x)

    def rewrite(self, m: Any, e: Any) -> Any:
        return [][m.root.inputs.count(m.x)]


class Unsaid(Exception):
    def __str__(self) -> str:
        return str(1 // 0)


class Mumbles(Rule):
    """Raises what cannot be said."""

    name = "mumbles"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.relu(x)

    def rewrite(self, m: Any, e: Any) -> Any:
        raise Unsaid


class Tells:
    """Says something else than what it did."""

    name = "tells"

    def __init__(self, **told: Any) -> None:
        self.told = told

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        return Applied(graph.clone(), **self.told)


class GivesData:
    """Data for what has its own."""

    name = "gives-data"

    def __init__(self, data: Any) -> None:
        self.data = data

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        return Applied(graph.clone(), data=self.data)


class Loops(Rule):
    """a + b = b + a"""

    name = "loops"

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        return op.add(a, b)

    def rewrite(self, m: Any, e: Any) -> Any:
        return e.node("add", m.b, m.a)


class Spins(Rule):
    """Asks itself."""

    name = "spins"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.relu(x)

    def rewrite(self, m: Any, e: Any) -> Any:
        return self.rewrite(m, e)


class Hangs(Rule):
    """Comes to no end, and catches what it can."""

    name = "hangs"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.relu(x)

    def rewrite(self, m: Any, e: Any) -> Any:
        while True:
            try:
                m.graph.producer(m.x)
            except Exception:
                continue


class Lies(Rule):
    """a + b = a - b"""

    name = "lies"

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        return op.add(a, b)

    def rewrite(self, m: Any, e: Any) -> Any:
        return e.node("sub", m.a, m.b)


class LiesOfSome(Rule):
    """exp(x) = exp(-(-x)), but where x is a tanh: there it is exp(-x)"""

    name = "lies-of-some"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.exp(x)

    def check(self, m: Any) -> None:
        node = m.graph.producer(m.x)
        if node is not None and node.op == "neg":
            m.refuse("type")

    def rewrite(self, m: Any, e: Any) -> Any:
        node = m.graph.producer(m.x)
        once = e.node("neg", m.x).out
        if node is not None and node.op == "tanh":
            return e.node("exp", once)
        return e.node("exp", e.node("neg", once).out)


class Pass:
    """Changes the graph somehow."""

    name = "pass"

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        new = graph.clone()
        self.change(new)
        new.__post_init__()
        return Applied(new, (Fired(self.name, (), (), None, "here:1"),))

    def change(self, graph: Graph) -> None:
        raise NotImplementedError


class IllTyped(Pass):
    """A value of a type that its op does not give."""

    name = "ill-typed"

    def change(self, graph: Graph) -> None:
        node = graph.nodes[0]
        wrong = dataclasses.replace(node.out, type=parse("f64[4]"))
        graph.nodes[0] = dataclasses.replace(graph.nodes[0], outs=(wrong,))


class OtherFace(Pass):
    """One output more."""

    name = "other-face"

    def change(self, graph: Graph) -> None:
        graph.outputs = graph.outputs * 2


class Forgets(Pass):
    """An input less, and nothing that reads it."""

    name = "forgets"

    def change(self, graph: Graph) -> None:
        graph.constants[graph.inputs.pop()] = 1.0


class Drops(Pass):
    """All nodes."""

    name = "drops"

    def change(self, graph: Graph) -> None:
        graph.nodes = []


class HitsTheGiven(Pass):
    """Changes the graph that it was given."""

    name = "hits-the-given"

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        graph.outputs[:] = graph.outputs * 2
        graph.nodes = graph.nodes[:1]
        return Applied(graph)


class NoApplied(Pass):
    """Gives a number."""

    name = "no-applied"

    def run(self, graph: Graph, context: Context | None = None) -> Any:
        return 3
