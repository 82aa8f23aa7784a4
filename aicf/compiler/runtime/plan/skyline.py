"""Buffers from the bottom up, always into the lowest valley of what is placed already.

The profile of the arena over time is a skyline. Of the buffers whose whole life falls into its
lowest stretch the one of the highest priority lies there; where there is none the stretch is given
up and rises to its lower neighbour (Sekiyama, Imai, Negishi, Kawachiya 2018,
doi:10.48550/arXiv.1804.10001). Priority is the logarithm of a lifetime, and more for each end of a
buffer that meets one of the stretch, which leaves fewer and wider stretches. It then changes at
random, and a change stays that makes the peak no higher. What would need more than the best so far
is given up as soon as that shows.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice

from aicf.compiler.runtime.plan.work import NEVER, Work

Entry = tuple[int, int, int, int, float]  # lower, upper, size, index, priority

MEETS = 2.0  # for an end, and once more where the tops meet too: of 1 to 3 the best for A to F
MANY = 48  # candidates of which each is looked at
LARGE = 512  # buffers from which on it pays to have them in order of their priority too
SAMPLES = 1024  # moments, at least, at which it is known what is still to be placed
WALK = 40  # tries before the search begins anew; of 25 to 160 the best for A to F
STEP = 16  # what placing one, or giving up a stretch, costs beside the looks at candidates


class Skyline:
    """Stretches of time in their order: where each begins and ends and how high it is. `load` has
    at each sample the sizes that are to be placed, `entries` are sorted."""

    def __init__(self, moments: int, load: Sequence[int], entries: list[Entry]) -> None:
        self.begins, self.ends, self.heights = [0], [moments - 1], [0]
        self.left, self.every = list(load), every(moments)
        self.entries = entries  # those that are not placed
        self.lowers = [entry[0] for entry in entries]
        self.looks = 0  # so far
        self.ranked: list[Entry] = []  # the best first, and by where they end; some are placed
        self.ending: dict[int, list[Entry]] = {}
        self.placed: set[int] = set()
        if len(entries) > LARGE:
            self.ranked = sorted(entries, key=lambda entry: -entry[4])
            for entry in entries:
                self.ending.setdefault(entry[1], []).append(entry)

    def pack(self, below: int, offsets: list[int]) -> bool:
        """Fills in the offsets of all if they stay `below`. False: they do not."""
        heights, entries, lowers = self.heights, self.entries, self.lowers
        while entries:
            k = heights.index(min(heights))
            at = self._first(k)
            if at >= 0:
                lower, upper, size, index, _ = entries.pop(at)
                del lowers[at]
                if self.ranked:
                    self.placed.add(index)
                offsets[index] = heights[k]
                self._put(k, lower, upper, size)
            elif not self._rise(k, below):
                return False
        return True

    def _first(self, k: int) -> int:
        """Of those that live within stretch `k`, by index; -1: there is none."""
        begin, end = self.begins[k], self.ends[k]
        first = bisect_left(self.lowers, begin)
        last = bisect_left(self.lowers, end, first)
        self.looks += STEP + len(self.heights) // 4 + min(last - first, MANY)
        if first == last:
            return -1
        if self.ranked and last - first > MANY:
            some = self._some(begin, end, first, last)
            if some is not None:
                return bisect_left(self.entries, some[self._best(some, k)], first)
        best = self._best(self.entries[first:last], k)
        return best if best < 0 else first + best

    def _some(self, begin: int, end: int, first: int, last: int) -> list[Entry] | None:
        """Few among which the first one is: those that begin or end with the stretch, and the one
        of the highest priority within it. None: it is not soon found."""
        placed, ranked = self.placed, self.ranked
        if len(ranked) > 2 * len(self.entries):
            ranked[:] = [entry for entry in ranked if entry[3] not in placed]
        limit = (last - first) // 2
        within = (
            at
            for at, e in enumerate(islice(ranked, limit))
            if e[0] >= begin and e[1] <= end and e[3] not in placed
        )
        at = next(within, -1)
        self.looks += limit if at < 0 else at
        if at < 0:
            return None
        ending = [e for e in self.ending.get(end, ()) if e[3] not in placed]
        self.ending[end] = ending
        beginning = self.entries[first : bisect_left(self.lowers, begin + 1, first)]
        return sorted({ranked[at], *(e for e in ending if e[0] >= begin), *beginning})

    def _best(self, entries: Sequence[Entry], k: int) -> int:
        """Of entries by index, the first of the highest priority for stretch `k`; -1: none lives
        within it."""
        begin, end, heights = self.begins[k], self.ends[k], self.heights
        to_before = heights[k - 1] - heights[k] if k else NEVER
        to_after = heights[k + 1] - heights[k] if k + 1 < len(heights) else NEVER
        found, most = -1, -math.inf
        for at, (lower, upper, size, _, value) in enumerate(entries):
            if upper > end:
                continue
            if lower == begin:
                value += MEETS if size != to_before else 2 * MEETS
            if upper == end:
                value += MEETS if size != to_after else 2 * MEETS
            if value > most:
                found, most = at, value
        return found

    def _rise(self, k: int, below: int) -> bool:
        """Stretch `k` becomes one with its lower neighbour. False: the rest will not stay below."""
        begins, ends, heights = self.begins, self.ends, self.heights
        before = heights[k - 1] if k else NEVER
        after = heights[k + 1] if k + 1 < len(heights) else NEVER
        every = self.every
        most = max(self.left[-(-begins[k] // every) : -(-ends[k] // every)], default=0)
        if most and min(before, after) + most >= below:
            return False
        if before <= after:
            ends[k - 1] = ends[k]
        else:
            begins[k + 1] = begins[k]
        self._remove(k)
        if before == after:
            ends[k - 1] = ends[k]
            self._remove(k)
        return True

    def _put(self, k: int, lower: int, upper: int, size: int) -> None:
        begins, ends, heights = self.begins, self.ends, self.heights
        begin, end, height = begins[k], ends[k], heights[k]
        top, left, every = height + size, self.left, self.every
        for sample in range(-(-lower // every), -(-upper // every)):
            left[sample] -= size
        begins[k], ends[k], heights[k] = lower, upper, top
        if upper < end:
            begins.insert(k + 1, upper)
            ends.insert(k + 1, end)
            heights.insert(k + 1, height)
        elif k + 1 < len(heights) and heights[k + 1] == top:
            ends[k] = ends[k + 1]
            self._remove(k + 1)
        if lower > begin:
            begins.insert(k, begin)
            ends.insert(k, lower)
            heights.insert(k, height)
        elif k and heights[k - 1] == top:
            ends[k - 1] = ends[k]
            self._remove(k)

    def _remove(self, k: int) -> None:
        del self.begins[k], self.ends[k], self.heights[k]


def every(moments: int) -> int:
    """Of so many moments, each how manieth is a sample."""
    return max(1, moments // SAMPLES)


def found(work: Work, rounds: int, seed: int, looks: int) -> Iterator[list[int]]:
    """Offsets of each of so many tries that is no higher than those before it. The first half
    begins anew every few tries, since few walks come far; the second goes on with the best of
    them. The tries end after so many looks at candidates."""
    draw = random.Random(seed)
    items = work.items
    load, few = _load(work), WALK if len(items) <= LARGE else rounds
    first = [math.log(item.upper - item.lower) for item in items]
    tops, priorities = best = NEVER, first
    for i in range(rounds):
        if i and i % few == 0 and i < rounds // 2:
            tops, priorities = NEVER, first
        elif i == rounds // 2:
            tops, priorities = best
        changed = _changed(priorities, draw) if i else first
        entries = sorted((*item[:3], k, changed[k]) for k, item in enumerate(items))
        offsets = [0] * len(items)
        skyline = Skyline(work.moments, load, entries)
        if skyline.pack(tops + 1, offsets):
            tops, priorities = work.peak(offsets), changed
            yield offsets
            if tops <= best[0]:
                best = tops, priorities
        looks -= skyline.looks
        if looks < 0:
            return


def _load(work: Work) -> list[int]:
    """At each sample: the sizes of what lives then."""
    changes = [0] * work.moments
    for item in work.items:
        changes[item.lower] += item.size
        changes[item.upper] -= item.size
    return list(accumulate(changes))[:: every(work.moments)]


def _changed(priorities: Sequence[float], draw: random.Random) -> list[float]:
    """Few or many of them, by little or much."""
    width = draw.choice((0.1, 0.3, 1.0, 2.0))
    share = draw.choice((0.01, 0.02, 0.05, 0.2))
    return [p + draw.gauss(0, width) if draw.random() < share else p for p in priorities]
