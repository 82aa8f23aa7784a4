"""A negation before a sum."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class MinusNegative(Rule):
    """a + -b = a - b, a - -b = a + b"""

    name = "minus-negative"

    def pattern(self, op: Ops, a: Any, b: Any) -> Pattern:
        negative = op.neg(b).kept()
        return op.add(a, negative).commuted() | op.sub(a, negative)

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        return e.node("sub" if m.root.op == "add" else "add", m.a, m.b)
