"""A dtype between two others."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Node, Value
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule
from aicf.compiler.passes.rules.numbers import holds, is_integer


class CastOfCast(Rule):
    """cast(cast(x, T), U) = cast(x, U), where T has every number of x; cast(x, dtype of x) = x"""

    name = "cast-of-cast"
    refusals = ("narrows", "wraps")

    def pattern(self, op: Ops, x: Any, between: Any, to: Any) -> Pattern:
        return op.cast(op.cast(x, dtype=between).kept(), dtype=to) | op.cast(x, dtype=to)

    def fits(self, m: Match) -> bool:
        return "between" in m or m.x.type.dtype == m.to

    def check(self, m: Match) -> None:
        given = m.x.type.dtype
        if "between" in m:
            m.require(holds(m.between, given), "narrows", f"{m.between} has not all of {given}")
            # a real beyond the range becomes the end of it, an integer loses its upper bits
            wraps = is_integer(given) and not is_integer(m.between) and not holds(m.to, given)
            m.require(not wraps or not is_integer(m.to), "wraps", f"{given} to {m.to}")

    def rewrite(self, m: Match, e: Rewriter) -> Value | Node:
        same = m.x.type.dtype == m.to
        return m.value("x") if same else e.node("cast", m.x, dtype=m.to)
