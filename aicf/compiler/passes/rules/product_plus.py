"""What is added to a product, in its epilogue."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule
from aicf.compiler.passes.rules.numbers import is_number


class ProductPlus(Rule):
    """a @ b + c = gemm(a, b, c=c, beta=1), a @ b + factor * c = gemm(a, b, c=c, beta=factor)"""

    name = "product-plus"
    refusals = ("has-act", "has-addend", "broadcasts")

    def pattern(self, op: Ops, a: Any, b: Any, had: Any = None, c: Any = None,
                beta: Any = None) -> Pattern:  # fmt: skip
        product = op.gemm(a, b, ..., c=had).named("product")
        return op.add(product, op.scale(c, factor=beta) | c).commuted()

    def fits(self, m: Match) -> bool:
        """With a beta of 0 gemm does not read c, which may be infinite or NaN."""
        return m.beta is None or (is_number(m.beta) and m.beta != 0)

    def check(self, m: Match) -> None:
        m.require(m.product.attrs["act"] == "none", "has-act", m.product.attrs["act"])
        m.require(m.had is None, "has-addend", repr(m.had))
        shape = m.product.out.type.shape
        m.require(m.c.type.shape == shape, "broadcasts", f"{m.c!r}, and the product {shape}")

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        return e.like(m.product, c=m.c, beta=1.0 if m.beta is None else m.beta)
