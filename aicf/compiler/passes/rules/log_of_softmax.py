"""The logarithm of a softmax, by the row that does not round between."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class LogOfSoftmax(Rule):
    """log(softmax(x)) = log_softmax(x)

    Where softmax rounds to 0 its logarithm was -inf, and is now as it is in exact numbers."""

    name = "log-of-softmax"

    def pattern(self, op: Ops, x: Any, axis: Any) -> Pattern:
        return op.log(op.softmax(x, axis=axis))

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        return e.node("log_softmax", m.x, axis=m.axis)
