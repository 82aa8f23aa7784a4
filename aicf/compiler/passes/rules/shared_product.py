"""A product that is computed with an activation and without one, as autodiff asks where the
gradient of the activation reads its argument."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.passes.cse import Cse
from aicf.compiler.passes.engine import apply_all
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Applied, Context, Group, Match, Rewriter, Rule


class SharedProduct:
    """gemm(a, b, act=f), gemm(a, b) = f(y), y with y = gemm(a, b)"""

    name = "shared-product"

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        products = [n for n in graph.nodes if n.op == "gemm"]
        plain = {_key(n) for n in products if n.attrs["act"] == "none"}
        split = {n.out.name for n in products if n.attrs["act"] != "none" and _key(n) in plain}
        if not split:
            return Applied(graph)
        return apply_all(graph, Group(self.name, (Apart(split), Cse())), context)


class Apart(Rule):
    """gemm(a, b, act=f) = f(gemm(a, b)), of some products"""

    name = "shared-product"

    def __init__(self, of: Collection[str]) -> None:
        self.of = of

    def pattern(self, op: Ops, a: Any, b: Any, act: Any) -> Pattern:
        return op.gemm(a, b, ..., act=act)

    def fits(self, m: Match) -> bool:
        return m.act != "none" and m.root.out.name in self.of

    def rewrite(self, m: Match, e: Rewriter) -> Value:
        return e.node(m.act, e.like(m.root, act="none").out).out


def _key(node: Node) -> Hashable:
    """Of a product, whatever its activation."""
    inputs = tuple(x if isinstance(x, Value) else repr(x) for x in node.inputs)
    return inputs, tuple((k, repr(v)) for k, v in node.attrs.items() if k != "act")
