"""Axes in another order, twice, and copies that nobody needs."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node, Value
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class DensePermutes(Rule):
    """permute(permute(x, p), q) = permute(x, p[q]), both dense; copy(x) = x, where x is dense"""

    name = "dense-permutes"

    def pattern(self, op: Ops, x: Any, p: Any, q: Any) -> Pattern:
        return op.permute(op.permute(x, perm=p).kept(), perm=q) | op.copy(x)

    def fits(self, m: Match) -> bool:
        return "p" in m or m.x.type == m.root.out.type

    def rewrite(self, m: Match, e: Rewriter) -> Value | Node:
        if "p" not in m:
            return m.value("x")
        return e.node("permute", m.x, perm=tuple(m.p[i] for i in m.q))
