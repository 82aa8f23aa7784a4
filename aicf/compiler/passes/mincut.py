"""Choices between two sides at the least cost: what each choice costs alone, and what two cost that
differ. Such a sum is least where a cut of a network is, which a largest flow finds exactly (Dinic,
1970).
"""

from __future__ import annotations

from collections import deque

FOREVER = 1 << 62  # a cost that is never paid where there is another way


class Choices:
    """Things that are each on side 0 or 1. Costs are whole numbers from 0 on."""

    def __init__(self) -> None:
        self._to: list[int] = []  # edges in pairs: one and its reverse
        self._room: list[int] = []
        self._from: list[list[int]] = [[], []]  # by place; 0 is where the flow begins, 1 its end

    def thing(self, cost0: int = 0, cost1: int = 0) -> int:
        """A new one, with what either side costs."""
        self._from.append([])
        at = len(self._from) - 1
        self._edge(0, at, cost1)
        self._edge(at, 1, cost0)
        return at

    def differ(self, zero: int, one: int, cost: int) -> None:
        """What it costs if `zero` is on side 0 while `one` is on side 1."""
        self._edge(zero, one, cost)

    def _edge(self, a: int, b: int, room: int) -> None:
        if room < 0:
            raise ValueError(f"a cost is {room}")
        if room:
            self._from[a].append(len(self._to))
            self._from[b].append(len(self._to) + 1)
            self._to += [b, a]
            self._room += [room, 0]

    def settle(self) -> list[int]:
        """The side of each, by what `thing` gave; where both cost the same, 0."""
        while (depth := self._depths())[1] >= 0:  # by place, from the begin
            at = [0] * len(self._from)
            while self._push(depth, at):
                pass
        # on side 1 is only what must be: what still reaches the end
        reached, queue = {1}, deque([1])
        while queue:
            for e in self._from[queue.popleft()]:
                before = self._to[e]
                if self._room[e ^ 1] and before not in reached:
                    reached.add(before)
                    queue.append(before)
        return [int(place in reached) for place in range(len(self._from))]

    def _depths(self) -> list[int]:
        depth = [-1] * len(self._from)
        depth[0] = 0
        queue = deque([0])
        while queue:
            here = queue.popleft()
            for e in self._from[here]:
                there = self._to[e]
                if self._room[e] and depth[there] < 0:
                    depth[there] = depth[here] + 1
                    queue.append(there)
        return depth

    def _push(self, depth: list[int], at: list[int]) -> bool:
        """One path of the flow from begin to end, by edges that lead one step deeper."""
        path: list[int] = []
        here = 0
        while here != 1:
            edges = self._from[here]
            while at[here] < len(edges):
                e = edges[at[here]]
                if self._room[e] and depth[self._to[e]] == depth[here] + 1:
                    break
                at[here] += 1
            else:
                if here == 0:
                    return False
                here = self._to[path.pop() ^ 1]
                at[here] += 1
                continue
            path.append(e)
            here = self._to[e]
        room = min(self._room[e] for e in path)
        for e in path:
            self._room[e] -= room
            self._room[e ^ 1] += room
        return True
