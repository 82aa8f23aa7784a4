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

from aicf.compiler.runtime.plan.work import NEVER, Item, Work

Entry = tuple[int, int, int, int, float]  # lower, upper, size, index, priority

MEETS = 2.0  # for an end, and once more where the tops meet too: of 1 to 3 the best for A to F


class Skyline:
    """Stretches of time in their order: where each begins and ends and how high it is."""

    def __init__(self, moments: int, load: Sequence[int]) -> None:
        self.begins, self.ends, self.heights = [0], [moments - 1], [0]
        self.left = list(load)  # at each moment: the sizes that are still to be placed

    def pack(self, entries: list[Entry], below: int, offsets: list[int]) -> bool:
        """Fills in the offsets of all, sorted, if they stay `below`. False: they do not."""
        heights = self.heights
        lowers = [entry[0] for entry in entries]
        while entries:
            k = heights.index(min(heights))
            at = self._first(k, lowers, entries)
            if at >= 0:
                lower, upper, size, index, _ = entries.pop(at)
                del lowers[at]
                offsets[index] = heights[k]
                self._put(k, lower, upper, size)
            elif not self._rise(k, below):
                return False
        return True

    def _first(self, k: int, lowers: Sequence[int], entries: Sequence[Entry]) -> int:
        """Of those that live within stretch `k`, by index; -1: there is none."""
        begin, end, heights = self.begins[k], self.ends[k], self.heights
        to_before = heights[k - 1] - heights[k] if k else NEVER
        to_after = heights[k + 1] - heights[k] if k + 1 < len(heights) else NEVER
        found, most = -1, -math.inf
        first = bisect_left(lowers, begin)
        for at in range(first, bisect_left(lowers, end, first)):
            lower, upper, size, _, value = entries[at]
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
        most = max(self.left[begins[k] : ends[k]])
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
        top, left = height + size, self.left
        for t in range(lower, upper):
            left[t] -= size
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


def found(work: Work, rounds: int, seed: int) -> Iterator[list[int]]:
    """Offsets of each of so many tries that is no higher than all before."""
    draw = random.Random(seed)
    items = work.items
    load = [0] * work.moments
    for item in items:
        for t in range(item.lower, item.upper):
            load[t] += item.size
    priorities = [math.log(item.upper - item.lower) for item in items]
    tops = NEVER
    for _ in range(rounds):
        changed = _changed(priorities, draw) if tops < NEVER else priorities
        offsets = _try(items, changed, work.moments, load, tops + 1)
        if offsets is not None:
            tops, priorities = work.peak(offsets), changed
            yield offsets


def _changed(priorities: Sequence[float], draw: random.Random) -> list[float]:
    """Few or many of them, by little or much."""
    width = draw.choice((0.1, 0.3, 1.0, 2.0))
    share = draw.choice((0.01, 0.02, 0.05, 0.2))
    return [p + draw.gauss(0, width) if draw.random() < share else p for p in priorities]


def _try(
    items: Sequence[Item], priorities: Sequence[float], moments: int, load: Sequence[int],
    below: int,
) -> list[int] | None:  # fmt: skip
    entries = sorted((*item[:3], i, priorities[i]) for i, item in enumerate(items))
    offsets = [0] * len(items)
    return offsets if Skyline(moments, load).pack(entries, below, offsets) else None
