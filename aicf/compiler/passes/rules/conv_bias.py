"""A bias in the epilogue of a convolution."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class ConvBias(Rule):
    """conv2d(x, w) + bias[:, None, None] = conv2d(x, w, bias)"""

    name = "conv-bias"
    refusals = ("has-bias", "not-per-channel")

    def pattern(self, op: Ops, x: Any, w: Any, had: Any = None, bias: Any = None) -> Pattern:
        conv = op.conv2d(x, w, had, ...).named("conv")
        return op.add(conv, bias).commuted() | op.bias_add(conv, bias, axis=1)

    def check(self, m: Match) -> None:
        m.require(m.had is None, "has-bias", repr(m.had))
        channels = m.conv.out.type.shape[1]
        shape = (channels,) if m.root.op == "bias_add" else (channels, 1, 1)
        given = m.bias.type.shape
        is_one = given == shape or (m.root.op == "add" and given == (1, *shape))
        m.require(is_one, "not-per-channel", f"{m.bias!r}, and {channels} channels")

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        return e.like(m.conv, bias=e.reshape(m.bias, m.conv.out.type.shape[1:2]))
