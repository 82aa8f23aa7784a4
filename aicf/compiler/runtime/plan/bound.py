"""How much memory every plan needs: the largest sum of sizes that live at once."""

from __future__ import annotations

from collections.abc import Sequence

from aicf.compiler.runtime.plan.problem import Buffer, rounded


def bound(buffers: Sequence[Buffer], align: int = 1) -> tuple[int, int]:
    """The sum, and the first time at which it is reached; sizes are rounded up to `align`."""
    change: dict[int, int] = {}
    for b in buffers:
        size = rounded(b.size, align)
        change[b.lower] = change.get(b.lower, 0) + size
        change[b.upper] = change.get(b.upper, 0) - size
    most, at, live = 0, min(change, default=0), 0
    for time in sorted(change):
        live += change[time]
        if live > most:
            most, at = live, time
    return most, at
