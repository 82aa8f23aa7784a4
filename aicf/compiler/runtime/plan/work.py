"""A problem as the packers read it: sizes rounded, times numbered without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aicf.compiler.runtime.plan.bound import bound
from aicf.compiler.runtime.plan.problem import Buffer, PlanError, rounded

NEVER = 1 << 62  # more bytes than any peak


class Item(NamedTuple):
    """A buffer with bytes. `lower` and `upper` count the moments at which some buffer begins or
    ends; `time` is how long it lives by the clock of the problem."""

    lower: int
    upper: int
    size: int
    time: int


class Work:
    """Items in the order of their buffers, and how little memory may do."""

    def __init__(self, buffers: Sequence[Buffer], align: int) -> None:
        self.buffers = [b for b in buffers if b.size]  # without bytes it lies anywhere
        if sum(rounded(b.size, align) for b in buffers) >= NEVER:
            raise PlanError("sizes add up to more than 2^62 bytes, which no memory has")
        self.bound, self.bound_at = bound(buffers, align)
        moments = sorted({t for b in self.buffers for t in (b.lower, b.upper)})
        number = {t: i for i, t in enumerate(moments)}
        self.moments = len(moments)
        self.items = [
            Item(number[b.lower], number[b.upper], rounded(b.size, align), b.upper - b.lower)
            for b in self.buffers
        ]

    def peak(self, offsets: Sequence[int]) -> int:
        """Where the highest item ends."""
        return max((at + i.size for at, i in zip(offsets, self.items, strict=True)), default=0)
