"""Factors of one, and no dropout."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Value
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class TimesOne(Rule):
    """x * 1 = x, x / 1 = x, 1 * x = x; dropout(x, p=0) = x"""

    name = "times-one"

    def pattern(self, op: Ops, x: Any, seed: Any, offset: Any) -> Pattern:
        product = op.mul(x, 1).commuted() | op.div(x, 1) | op.scale(x, factor=1)
        return product | op.dropout(x, seed=seed, offset=offset, p=0.0)

    def rewrite(self, m: Match, e: Rewriter) -> Value:
        return m.value("x")
