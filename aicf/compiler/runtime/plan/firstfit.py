"""Buffers one after another at the lowest place that is free for their time.

How good that is depends on the order alone. Four of them do for most programs, the largest first
above all ("greedy by size" of TensorFlow Lite, doi:10.48550/arXiv.2001.03288). Where they do not,
what ended above the bound is put in front and all is placed again, as in squeaky wheel
optimization (doi:10.1613/jair.561).
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from aicf.compiler.runtime.plan.work import Item, Work

ORDERS: dict[str, Callable[[Item], tuple[int, ...]]] = {
    "size": lambda i: (-i.size, -(i.upper - i.lower), i.lower),
    "area": lambda i: (-i.size * (i.upper - i.lower), i.lower),
    "lifetime": lambda i: (-(i.upper - i.lower), -i.size, i.lower),
    "start": lambda i: (i.lower, -i.size),
}

MOVES = 8  # how often the buffers above the bound are put in front
USUAL = 64  # how many others a buffer of a program lives beside, at most
WIDE = 1_000_000  # pairs that live at once: with more of them another packer is as good, and faster
LARGE = 512  # buffers, beyond which moves are fewer: each places all of them again
LITTLE = 0.02  # of the bound


def neighbours(items: Sequence[Item]) -> list[list[int]]:
    """Of each item those that live at the same time, by index."""
    found: list[list[int]] = [[] for _ in items]
    alive: list[int] = []
    for i in sorted(range(len(items)), key=lambda i: items[i].lower):
        alive = [k for k in alive if items[k].upper > items[i].lower]
        for k in alive:
            found[i].append(k)
            found[k].append(i)
        alive.append(i)
    return found


def place(
    order: Sequence[int], items: Sequence[Item], beside: Sequence[Sequence[int]],
    fixed: Sequence[int | None] = (),
) -> list[int]:  # fmt: skip
    """The offsets; those of `fixed` stay."""
    ends: list[tuple[int, int] | None] = [None] * len(items)
    for k, offset in enumerate(fixed):
        if offset is not None:
            ends[k] = offset, offset + items[k].size
    for i in order:
        if ends[i] is not None:
            continue
        at, size = 0, items[i].size
        for first, last in sorted(filter(None, map(ends.__getitem__, beside[i]))):
            if first - at >= size:
                break
            if last > at:
                at = last
        ends[i] = at, at + size
    return [span[0] if span else 0 for span in ends]


def pairs(work: Work) -> int:
    """How many live at the same time, those that begin together counted twice."""
    begins = sorted(item.lower for item in work.items)
    return sum(bisect_left(begins, i.upper) - bisect_left(begins, i.lower) - 1 for i in work.items)


def found(work: Work, rounds: int, seed: int) -> Iterator[tuple[str, list[int]]]:
    """Offsets of the four orders, then of what moves make of the best of them: all that is high to
    the front a few times, then so many single moves. None where too many live at once."""
    items = work.items
    if pairs(work) > WIDE:
        return
    beside = neighbours(items)
    best: tuple[int, list[int], list[int]] | None = None
    for name, key in ORDERS.items():
        order = sorted(range(len(items)), key=lambda i: key(items[i]))
        offsets = place(order, items, beside)
        yield f"first fit by {name}", offsets
        peak = work.peak(offsets)
        if best is None or peak < best[0]:
            best = peak, order, offsets
    assert best is not None
    _, order, offsets = best
    for _ in range(MOVES):
        high = set(_high(work, offsets))
        order = [i for i in order if i in high] + [i for i in order if i not in high]
        offsets = place(order, items, beside)
        yield "first fit with moves", offsets
    meets = sum(map(len, beside)) // max(1, len(beside))  # what a placement costs grows with it
    rounds = min(rounds, rounds * USUAL // (meets + 1)) * LARGE // max(LARGE, len(items))
    for offsets in _moves(work, beside, best[1:], rounds, random.Random(seed)):
        yield "first fit with moves", offsets


def _moves(
    work: Work, beside: Sequence[Sequence[int]], start: tuple[list[int], list[int]], rounds: int,
    draw: random.Random,
) -> Iterator[list[int]]:  # fmt: skip
    """One that is high, or lives beside one that is, is put before one that it meets. That stays
    where no more is high than before; now and then where a little more is."""
    order, offsets = start
    for _ in range(rounds):
        high = _high(work, offsets)
        if not high:
            return
        moved = draw.choice(high)
        if draw.random() < 0.5 and beside[moved]:
            moved = draw.choice(beside[moved])
        place_of = {i: k for k, i in enumerate(order)}
        earlier = [k for k in map(place_of.__getitem__, beside[moved]) if k < place_of[moved]]
        if not earlier:
            continue
        tried = [i for i in order if i != moved]
        tried.insert(draw.choice(earlier), moved)
        found = place(tried, work.items, beside)
        yield found
        slack = LITTLE * work.bound * draw.random() if draw.random() < 0.2 else 0
        if _excess(work, found) <= _excess(work, offsets) + slack:
            order, offsets = tried, found


def _high(work: Work, offsets: Sequence[int]) -> list[int]:
    """What ends above the bound."""
    return [i for i, at in enumerate(offsets) if at + work.items[i].size > work.bound]


def _excess(work: Work, offsets: Sequence[int]) -> int:
    return sum(
        max(0, at + item.size - work.bound) for at, item in zip(offsets, work.items, strict=True)
    )
