"""A product that reads its operands as they lie."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class CopyIntoProduct(Rule):
    """copy(a) @ b = a @ b, a @ copy(b) = a @ b, permute(...) as a view"""

    name = "copy-into-product"

    def pattern(self, op: Ops, a: Any, b: Any, x: Any, perm: Any = None) -> Pattern:
        dense = op.copy(x) | op.permute(x, perm=perm)
        return op.gemm(dense.named("left"), b, ...) | op.gemm(a, dense.named("right"), ...)

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        shown = e.node("view.permute", m.x, perm=m.perm).out if m.perm else m.x
        return e.like(m.root, **{"a" if "left" in m else "b": shown})
