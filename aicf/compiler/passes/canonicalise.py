"""One form of several that are the same: views of views as one, and none that shows all as it lies.

What of it names ops lies in `rules/`.
"""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node, Value
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Group, Match, Rewriter, Rule


class SameView(Rule):
    """view(x) = x, where it has the type of x"""

    name = "same-view"
    misses = ("another-type",)

    def pattern(self, op: Ops, x: Any) -> Pattern:
        shown = op.view.reshape(x, ...) | op.view.expand(x, ...)
        return shown | op.view.permute(x, ...) | op.view.slice(x, ...)

    def fits(self, m: Match) -> bool:
        perm = m.root.attrs.get("perm", ())
        return bool(list(perm) == sorted(perm) and m.x.type == m.root.out.type)

    def rewrite(self, m: Match, e: Rewriter) -> Value:
        value: Value = m.x
        return value


class PermuteTwice(Rule):
    """permute(permute(x, p), q) = permute(x, p[q])"""

    name = "permute-twice"
    misses = ("another-view",)

    def pattern(self, op: Ops, x: Any, p: Any, q: Any) -> Pattern:
        return op.view.permute(op.view.permute(x, perm=p).kept(), perm=q)

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        return e.node("view.permute", m.x, perm=tuple(m.p[i] for i in m.q))


class ReshapeTwice(Rule):
    """reshape(reshape(x, s), t) = reshape(x, t)"""

    name = "reshape-twice"
    misses = ("another-view",)

    def pattern(self, op: Ops, x: Any, t: Any) -> Pattern:
        return op.view.reshape(op.view.reshape(x, ...).kept(), shape=t)

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        return e.node("view.reshape", m.x, shape=m.t)


class ExpandTwice(Rule):
    """expand(expand(x, s), t) = expand(x, t)"""

    name = "expand-twice"
    misses = ("another-view",)

    def pattern(self, op: Ops, x: Any, t: Any) -> Pattern:
        return op.view.expand(op.view.expand(x, ...).kept(), shape=t)

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        return e.node("view.expand", m.x, shape=m.t)


class SliceTwice(Rule):
    """x[a:b:s][c:d:t] = x[a + c*s : a + (d - 1)*s + 1 : s*t], of one axis"""

    name = "slice-twice"
    refusals = ("may-be-empty",)
    misses = ("another-axis",)

    def pattern(self, op: Ops, x: Any, axis: Any) -> Pattern:
        inner = op.view.slice(x, ..., axis=axis).named("inner").kept()
        return op.view.slice(inner, ..., axis=axis)

    def check(self, m: Match) -> None:
        start, stop, step = (m.root.attrs["start"], m.root.attrs["stop"], m.inner.attrs["step"])
        is_some = isinstance(start, int) and isinstance(stop, int) and start < stop
        m.require(is_some or step == 1, "may-be-empty", f"{start}:{stop} of every {step}")

    def rewrite(self, m: Match, e: Rewriter) -> Node:
        a, s = m.inner.attrs["start"], m.inner.attrs["step"]
        c, d, t = (m.root.attrs[name] for name in ("start", "stop", "step"))
        return e.like(m.root, x=m.x, start=a + c * s, stop=a + (d - 1) * s + 1, step=s * t)


VIEWS = (SameView(), PermuteTwice(), ReshapeTwice(), ExpandTwice(), SliceTwice())


def canonicalise(rules: tuple[Rule, ...] = ()) -> Group:
    """The pass: views, and rules more."""
    return Group("canonicalise", (*VIEWS, *rules))
