"""Given statistics of a normalisation in the weights before it."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node, Value
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class ConvBatchNorm(Rule):
    """bn(conv2d(x, w, b)) = conv2d(x, w * f, (b - mean) * f + shift), f = weight / sqrt(var + eps)

    The nodes that make the new weights read what is the same in all runs alone, so that `fold`
    computes them once. An activation behind stays, as no convolution of reals has one, and is
    written over the convolution's out. In 16 bits the new weights would be rounded again, and with
    a small var the error grows by f: refused."""

    name = "conv-batch-norm"
    refusals = ("16-bits", "weights-change")

    def pattern(self, op: Ops, x: Any, w: Any, mean: Any, var: Any, eps: Any, b: Any = None,
                weight: Any = None, shift: Any = None) -> Pattern:  # fmt: skip
        conv = op.conv2d(x, w, b, ...).named("conv")
        return op.batch_norm_eval(conv, mean, var, weight, shift, eps=eps)

    def check(self, m: Match) -> None:
        m.require(m.w.type.dtype in ("f32", "f64"), "16-bits", repr(m.w))
        given = (m.w, m.b, m.mean, m.var, m.weight, m.shift)
        m.require(m.is_frozen(*given), "weights-change", ", ".join(map(repr, given)))

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        f = factor(m, e)
        w = e.node("mul", m.w, e.reshape(f, (m.w.type.shape[0], 1, 1, 1))).out
        return e.like(m.conv, w=w, bias=shifted(m, e, f))


def factor(m: Match, e: Rewriter) -> Value:
    """weight / sqrt(var + eps)"""
    eps, one = (e.filled(n, m.var.type) for n in (m.eps, 1))
    root = e.node("sqrt", e.node("add", m.var, eps).out).out
    return e.node("div", m.weight or one, root).out


def shifted(m: Match, e: Rewriter, f: Value) -> Value:
    """(b - mean) * f + shift"""
    bias = e.node("sub", m.b, m.mean).out if m.b else e.node("neg", m.mean).out
    bias = e.node("mul", bias, f).out
    return e.node("add", bias, m.shift).out if m.shift else bias
