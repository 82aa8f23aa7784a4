"""Whether a plan is right: each buffer is put between those that live when it begins, which share
no bytes, and may meet neither the one below nor the one above. Shares nothing with what packs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from aicf.compiler.runtime.plan.problem import Buffer, Plan, PlanError


def check(plan: Plan) -> None:
    """Raises PlanError where two buffers share bytes while both live, where one lies beyond the
    peak or off its alignment, or where the plan claims to be better than is possible."""
    check_offsets(plan.buffers, plan.offsets, align=plan.align, capacity=plan.peak)
    needed = 0
    for at, begins, b in _events(plan.buffers):
        size = (b.size + plan.align - 1) // plan.align * plan.align
        needed += size if begins else -size
        if needed > plan.bound:
            raise PlanError(f"at {at} {needed} bytes live, more than the lower bound {plan.bound}")


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
    by_id = {b.id: b for b in buffers}
    live: list[tuple[int, str]] = []  # where those that live lie, and which they are, from below
    for _, begins, b in _events([b for b in buffers if b.size]):
        place = bisect_left(live, (offsets[b.id], ""))
        if not begins:
            del live[place]
            continue
        for _, other in live[max(0, place - 1) : place + 1]:
            _check_apart(by_id[other], b, offsets)
        live.insert(place, (offsets[b.id], b.id))


def _events(buffers: Sequence[Buffer]) -> list[tuple[int, bool, Buffer]]:
    """When each begins and ends, in order; what ends at a time before what begins."""
    both = [(t, t == b.lower, b) for b in buffers for t in (b.lower, b.upper)]
    return sorted(both, key=lambda event: event[:2])


def _check_apart(a: Buffer, b: Buffer, offsets: Mapping[str, int]) -> None:
    first = max(offsets[a.id], offsets[b.id])
    last = min(offsets[a.id] + a.size, offsets[b.id] + b.size)
    if first < last:
        times = max(a.lower, b.lower), min(a.upper, b.upper)
        raise PlanError(
            f"{a.id} and {b.id} both live from {times[0]} until {times[1]} and share the bytes "
            f"from {first} until {last}"
        )
