"""Factors after one another."""

from __future__ import annotations

import math
from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule
from aicf.compiler.passes.rules.numbers import LIMITS, is_number


class ScaleOfScale(Rule):
    """scale(scale(x, a), b) = scale(x, a * b); of -x and -(...) the factor is -1

    Rounded as often; what overflowed or vanished between no longer does."""

    name = "scale-of-scale"
    refusals = ("factor-at-run-time", "out-of-range")

    def pattern(self, op: Ops, x: Any, a: Any = None, b: Any = None) -> Pattern:
        inner = op.scale(x, factor=a)
        return op.scale(inner | op.neg(x), factor=b) | op.neg(inner)

    def check(self, m: Match) -> None:
        given = [f for f in (m.a, m.b) if f is not None]
        m.require(all(map(is_number, given)), "factor-at-run-time", f"{given}")
        least, most = LIMITS[m.type.dtype]
        fits = 0 in given or least <= abs(math.prod(given)) <= most
        m.require(fits, "out-of-range", f"{' * '.join(map(str, given))}")

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        a, b = (-1 if f is None else f for f in (m.a, m.b))
        return e.node("scale", m.x, factor=a * b)
