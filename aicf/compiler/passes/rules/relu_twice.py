"""What relu leaves as it is."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Value
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class ReluTwice(Rule):
    """relu(relu(x)) = relu(x)"""

    name = "relu-twice"

    def pattern(self, op: Ops, x: Any) -> Pattern:
        return op.relu(op.relu(x).named("inner").kept())

    def rewrite(self, m: Match, e: Rewriter) -> Value:
        return m.node("inner").out
