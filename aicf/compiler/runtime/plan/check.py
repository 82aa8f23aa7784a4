"""Whether a plan is right, asked of each pair of buffers. Shares nothing with what packs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from aicf.compiler.runtime.plan.problem import Buffer, Plan, PlanError


def check(plan: Plan) -> None:
    """Raises PlanError where two buffers share bytes while both live, where one lies beyond the
    peak or off its alignment, or where the plan claims to be better than is possible."""
    check_offsets(plan.buffers, plan.offsets, align=plan.align, capacity=plan.peak)
    for b in plan.buffers:
        live = [x for x in plan.buffers if x.lower <= b.lower < x.upper]
        needed = sum((x.size + plan.align - 1) // plan.align * plan.align for x in live)
        if needed > plan.bound:
            raise PlanError(
                f"at {b.lower} {needed} bytes live, more than the lower bound {plan.bound}"
            )


def check_offsets(
    buffers: Sequence[Buffer], offsets: Mapping[str, int], *, align: int = 1,
    capacity: int | None = None,
) -> None:  # fmt: skip
    """The same of offsets that came from elsewhere."""
    for b in buffers:
        if b.id not in offsets:
            raise PlanError(f"{b.id} has no offset")
        at = offsets[b.id]
        if at < 0 or at % align:
            raise PlanError(f"{b.id} lies at {at}, which is no multiple of {align} from 0 on")
        if capacity is not None and at + b.size > capacity:
            raise PlanError(f"{b.id} ends at {at + b.size}, behind the arena's end, {capacity}")
    for a, b in combinations(buffers, 2):
        times = max(a.lower, b.lower), min(a.upper, b.upper)
        first = max(offsets[a.id], offsets[b.id])
        last = min(offsets[a.id] + a.size, offsets[b.id] + b.size)
        if times[0] < times[1] and first < last:
            raise PlanError(
                f"{a.id} and {b.id} both live from {times[0]} until {times[1]} and share the bytes "
                f"from {first} until {last}"
            )
