"""Terms of zero."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Value
from aicf.compiler.passes.pattern import Ops, Pattern
from aicf.compiler.passes.rule import Match, Rewriter, Rule


class PlusZero(Rule):
    """x + -0.0 = x, x - 0.0 = x; of integers x + 0 = x

    Of reals x + 0.0 is 0.0 where x is -0.0."""

    name = "plus-zero"
    refusals = ("signed-zero",)

    def pattern(self, op: Ops, x: Any, zero: Any) -> Pattern:
        number = op.filled(zero)
        return op.add(x, number).commuted() | op.sub(x, number)

    def fits(self, m: Match) -> bool:
        return bool(m.zero == 0)

    def check(self, m: Match) -> None:
        is_right = str(m.zero) == ("-0.0" if m.root.op == "add" else "0.0")
        m.require(isinstance(m.zero, int) or is_right, "signed-zero", f"{m.root.op} of {m.zero}")

    def rewrite(self, m: Match, e: Rewriter) -> Value:
        return m.value("x")
