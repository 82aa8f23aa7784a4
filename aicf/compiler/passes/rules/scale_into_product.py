"""A factor in the epilogue of a product."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule
from aicf.compiler.passes.rules.numbers import LIMITS, is_number


class ScaleIntoProduct(Rule):
    """factor * (a @ b) = gemm(a, b, alpha=factor), -(a @ b) = gemm(a, b, alpha=-1)"""

    name = "scale-into-product"
    refusals = ("has-act", "has-bias", "has-addend", "factor-at-run-time", "out-of-range")

    def pattern(self, op: Ops, a: Any, b: Any, bias: Any = None, c: Any = None,
                factor: Any = None) -> Pattern:  # fmt: skip
        product = op.gemm(a, b, bias, c, ...).named("product")
        return op.scale(product, factor=factor) | op.neg(product)

    def check(self, m: Match) -> None:
        act, alpha = m.product.attrs["act"], m.product.attrs["alpha"]
        m.require(act == "none", "has-act", act)
        m.require(m.bias is None, "has-bias", repr(m.bias))
        m.require(m.c is None, "has-addend", repr(m.c))
        m.require(m.factor is None or is_number(m.factor), "factor-at-run-time", repr(m.factor))
        least, most = LIMITS[m.type.dtype]
        fits = 0 in (alpha, m.factor) or least <= abs(alpha * (m.factor or 1)) <= most
        m.require(fits, "out-of-range", f"{alpha} * {m.factor}")

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        factor = -1 if m.factor is None else m.factor
        return e.like(m.product, alpha=m.product.attrs["alpha"] * factor)
