"""A factor of an operand in the epilogue of a product."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule
from aicf.compiler.passes.rules.numbers import LIMITS, is_number


class ScaledOperand(Rule):
    """(factor * a) @ b = a @ (factor * b) = gemm(a, b, alpha=factor), whatever is added behind"""

    name = "scaled-operand"
    refusals = ("factor-at-run-time", "out-of-range")

    def pattern(self, op: Ops, a: Any, b: Any, x: Any, factor: Any, alpha: Any) -> Pattern:
        scaled = op.scale(x, factor=factor)
        left = op.gemm(scaled.named("left"), b, ..., alpha=alpha)
        return left | op.gemm(a, scaled.named("right"), ..., alpha=alpha)

    def check(self, m: Match) -> None:
        m.require(is_number(m.factor), "factor-at-run-time", repr(m.factor))
        least, most = LIMITS[m.type.dtype]
        fits = 0 in (m.alpha, m.factor) or least <= abs(m.alpha * m.factor) <= most
        m.require(fits, "out-of-range", f"{m.alpha} * {m.factor}")

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        side = "a" if "left" in m else "b"
        return e.like(m.root, alpha=m.alpha * m.factor, **{side: m.x})
