"""A product with one number everywhere, as the row that takes it as a scalar."""

from __future__ import annotations

import math
from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class NumberToScale(Rule):
    """x * c = scale(x, factor=c); x / c = scale(x, factor=1/c), c a power of two

    The product of the same numbers is rounded once in both; 1/c of other numbers is rounded too."""

    name = "number-to-scale"
    refusals = ("rounds", "broadcasts")

    def pattern(self, op: Ops, x: Any, c: Any) -> Pattern:
        number = op.filled(c)
        return op.mul(x, number).commuted() | op.div(x, number)

    def fits(self, m: Match) -> bool:
        return isinstance(m.c, float)

    def check(self, m: Match) -> None:
        m.require(m.x.type.shape == m.type.shape, "broadcasts", f"{m.x!r}")
        if m.root.op == "div":
            is_power = abs(math.frexp(m.c)[0]) == 0.5 and abs(math.frexp(m.c)[1]) < 120
            m.require(is_power, "rounds", f"1/{m.c}")

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        return e.node("scale", m.x, factor=1 / m.c if m.root.op == "div" else m.c)
