"""A bias and an activation in the epilogue of a product."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class MatmulBiasAct(Rule):
    """act(a @ b + bias) = gemm(a, b, bias, act=act)"""

    name = "matmul-bias-act"
    refusals = ("has-act", "has-bias", "bias-not-a-row")

    def pattern(self, op: Ops, a: Any, b: Any, had: Any = None, bias: Any = None) -> Pattern:
        product = op.gemm(a, b, had, ...).named("product")
        biased = op.add(product, bias).commuted() | op.bias_add(product, bias, axis=-1)
        return biased | (op.relu(product) | op.gelu(product)).named("act")

    def check(self, m: Match) -> None:
        m.require(m.product.attrs["act"] == "none", "has-act", m.product.attrs["act"])
        if m.bias:
            m.require(m.had is None, "has-bias", repr(m.had))
            row = m.product.out.type.shape[-1:]
            m.require(m.bias.type.shape == row, "bias-not-a-row", f"{m.bias!r}, of {row}")

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        return e.like(m.product, bias=m.bias) if m.bias else e.like(m.product, act=m.act.op)
