"""Two negations."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Value
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class DoubleNegation(Rule):
    """-(-x) = x"""

    name = "double-negation"

    def pattern(self, op: Ops, x: Any) -> Pattern:
        return op.neg(op.neg(x).kept())

    def rewrite(self, m: Match, e: Rewriter) -> Value:
        return m.value("x")
