"""Given statistics of a normalisation in the weights of the product before it."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule
from aicf.compiler.passes.rules.conv_bn import factor, shifted


class ProductBatchNorm(Rule):
    """bn(x @ w + b) = x @ (w * f) + (b - mean) * f + shift, f = weight / sqrt(var + eps)

    As ConvBatchNorm: of what is the same in all runs, and not in 16 bits."""

    name = "product-batch-norm"
    refusals = ("16-bits", "weights-change", "has-act", "has-addend", "not-a-matrix")

    def pattern(self, op: Ops, x: Any, w: Any, mean: Any, var: Any, eps: Any, b: Any = None,
                c: Any = None, weight: Any = None, shift: Any = None) -> Pattern:  # fmt: skip
        product = op.gemm(x, w, b, c, ...).named("product")
        return op.batch_norm_eval(product, mean, var, weight, shift, eps=eps)

    def check(self, m: Match) -> None:
        m.require(m.w.type.dtype in ("f32", "f64"), "16-bits", repr(m.w))
        m.require(m.product.attrs["act"] == "none", "has-act", m.product.attrs["act"])
        m.require(m.c is None, "has-addend", repr(m.c))
        m.require(m.type.rank == m.w.type.rank == 2, "not-a-matrix", f"{m.product.out!r}")
        given = (m.w, m.b, m.mean, m.var, m.weight, m.shift)
        m.require(m.is_frozen(*given), "weights-change", ", ".join(map(repr, given)))

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        f = factor(m, e)
        return e.like(m.product, b=e.node("mul", m.w, f).out, bias=shifted(m, e, f))
