"""The packer: heuristics from the cheap to the dear, until one reaches the lower bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter

from aicf.compiler.runtime.plan import firstfit, skyline
from aicf.compiler.runtime.plan.problem import Buffer, Plan, PlanError, check_names
from aicf.compiler.runtime.plan.work import NEVER, Work

QUICK = 60_000  # buffers placed: 0.2 s, where the bound is not met before
THOROUGH = 1_000_000  # 4 s
LOOKS = 48  # at candidates for each of them, more than hard problems of 300 take; a quarter
LARGE = 512  # where there are more buffers than these


def pack(buffers: Sequence[Buffer], *, align: int = 1, effort: int = QUICK, seed: int = 0) -> Plan:
    """A plan of the lowest peak found. `effort`: how many buffers the search may place, over all
    its tries, if what comes before it does not reach the bound. The same arguments give the same
    offsets. Raises PlanError where two buffers have one name."""
    start = perf_counter()
    if not isinstance(align, int) or align < 1:
        raise PlanError(f"an alignment is a whole number, 1 at least, not {align!r}")
    check_names(buffers)
    work = Work(buffers, align)
    by, best = "nothing to place", [0] * len(work.items)
    peak = NEVER if work.items else 0
    for name, offsets in _found(work, effort, seed) if work.items else ():
        top = work.peak(offsets)
        if top < peak:
            by, best, peak = name, offsets, top
        if peak == work.bound:
            break
    return _plan(buffers, work, best, align, by, perf_counter() - start)


def _found(work: Work, effort: int, seed: int) -> Iterator[tuple[str, list[int]]]:
    rounds = effort // len(work.items)
    few = min(rounds // 2, 200)  # they reach the bound soon, or hardly at all
    looks = effort * LOOKS // (1 if len(work.items) <= LARGE else 4)
    yield from firstfit.found(work, few, seed)
    for offsets in skyline.found(work, max(1, rounds - few), seed, looks):
        yield "skyline", offsets


def given(buffers: Sequence[Buffer], offsets: Mapping[str, int], align: int = 1) -> Plan:
    """A plan that came from elsewhere, as one of ours."""
    check_names(buffers)
    work = Work(buffers, align)
    return _plan(buffers, work, [offsets[b.id] for b in work.buffers], align, "given", 0.0)


def extend(plan: Plan, more: Sequence[Buffer]) -> Plan:
    """The plan with others beside what lies where it lay: each in the lowest place that is free."""
    start = perf_counter()
    buffers = (*plan.buffers, *more)
    check_names(buffers)
    work = Work(buffers, plan.align)
    added = {b.id for b in more}
    fixed = [None if b.id in added else plan.offsets[b.id] for b in work.buffers]
    order = sorted(range(len(fixed)), key=lambda i: firstfit.ORDERS["size"](work.items[i]))
    offsets = firstfit.place(order, work.items, firstfit.neighbours(work.items), fixed)
    seconds = plan.seconds + perf_counter() - start
    return _plan(buffers, work, offsets, plan.align, plan.by, seconds)


def _plan(
    buffers: Sequence[Buffer], work: Work, offsets: Sequence[int], align: int, by: str,
    seconds: float,
) -> Plan:  # fmt: skip
    at = {b.id: 0 for b in buffers}
    at.update(zip((b.id for b in work.buffers), offsets, strict=True))
    peak = work.peak(offsets)
    return Plan(tuple(buffers), at, peak, work.bound, work.bound_at, align, by, seconds)
