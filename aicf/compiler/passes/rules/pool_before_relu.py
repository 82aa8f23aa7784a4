"""A rectifier behind the pooling, on as many numbers fewer as a window has; forward and backward.

The largest of a window is above 0 only if it is so before relu, and then it is the same one, at the
same place; so is a NaN. Where none is, the gradient is 0 whatever the place. Both ways give the
same numbers, but for the sign of a 0, and what is kept for the backward is the small result.
"""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node, Value
from aicf.compiler.passes.cse import Cse
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Group, Match, Rewriter, Rule


class PoolBeforeRelu(Rule):
    """max_pool2d(relu(x)) = relu(max_pool2d(x))"""

    name = "pool-before-relu"

    def pattern(self, op: Ops, x: Any) -> Pattern:
        return op.max_pool2d(op.relu(x), ...)

    def rewrite(self, m: Match, e: Rewriter) -> Value:
        return e.node("relu", e.like(m.root, x=m.x).out).out


class PoolBeforeReluBackward(Rule):
    """relu_bwd(max_pool2d_bwd(g, i), r) = max_pool2d_bwd(relu_bwd(g, relu(p)), j), r = relu(x)

    i of max_pool2d(r), p and j of max_pool2d(x): which the forward computes once PoolBeforeRelu has
    been there, so that they are taken together."""

    name = "pool-before-relu-backward"

    def pattern(self, op: Ops, x: Any, g: Any) -> Pattern:
        r = op.relu(x)
        pool = op.max_pool2d(r, ...).named("pool").kept()
        return op.relu_bwd(op.max_pool2d_bwd(g, pool.at(1), ...).named("back"), r)

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        p, indices = e.like(m.pool, x=m.x).outs
        small = e.node("relu_bwd", m.g, e.node("relu", p).out).out
        return e.like(m.back, gy=small, indices=indices)


class BiasOfPool(Rule):
    """sum(max_pool2d_bwd(g, i), axes) = sum(g, axes), over h and w at least; bias_add_bwd too

    Each number of g goes to one place of its image, and is in the sum of it."""

    name = "bias-of-pool"

    def pattern(self, op: Ops, g: Any, i: Any, axes: Any = None) -> Pattern:
        large = op.max_pool2d_bwd(g, i, ...).kept()
        return op.bias_add_bwd(large, axis=1) | op.sum(large, ..., axes=axes)

    def fits(self, m: Match) -> bool:
        return m.axes is None or {2, 3} <= set(m.axes)

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        small = {"gy": m.g} if m.root.op == "bias_add_bwd" else {"x": m.g}
        return e.like(m.root, **small)


def pooling() -> Group:
    """Backward, then forward, then what both compute once: one alone makes nothing faster."""
    return Group("pool-first", (PoolBeforeReluBackward(), PoolBeforeRelu(), Cse(), BiasOfPool()))
