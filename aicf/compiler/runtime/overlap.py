"""What a run updates must be apart from all else that it is given: in which order memory that two
values share would be read and written, no graph says."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of
from aicf.compiler.runtime.alike import extent


class Apart:
    """The rule for one graph. Where nothing is updated, it asks nothing."""

    def __init__(self, graph: Graph) -> None:
        self.writer: dict[Value, Node] = {}  # of inputs and params
        entries = {*graph.inputs, *graph.params}
        for node in graph.nodes:
            for state in node.states.values():
                for root in map(graph.buffer_of, values_of(state)):
                    if root in entries:
                        self.writer.setdefault(root, node)
        self.own: dict[Value, Any] = {}  # outputs that the next run overwrites
        self._written: list[tuple[int, int]] = []  # apart, in order

    def check(self, tensors: Mapping[Value, Any]) -> None:
        """Of all that a run is given. Raises TypeError with the names of two that share memory."""
        self._written = []
        if not self.writer and not self.own:
            return
        places = sorted(
            (
                (*extent(t), v.name, v)
                for v, t in (*tensors.items(), *self.own.items())
                if hasattr(t, "shape")
            ),
            key=lambda place: place[:3],
        )
        end = written_end = -(1 << 80)  # of what reaches farthest, of all and of what is written
        last: Value | None = None
        written: Value | None = None
        for start, stop, _, value in places:
            is_written = self._is_written(value)
            other = last if is_written and start < end else written if start < written_end else None
            if other is not None:
                self._refuse(other, value)
            if stop > end:
                end, last = stop, value
            if is_written and stop > written_end:
                written_end, written = stop, value
        self._written = [(a, b) for a, b, _, v in places if self._is_written(v)]

    def keep(self, outputs: Mapping[Value, Any]) -> None:
        """These the next run overwrites."""
        self.own = dict(outputs)
        self._written = sorted({*self._written, *map(extent, outputs.values())})

    def takes(self, value: Value, tensor: Any) -> bool:
        """Whether a tensor that comes in the place of one that was checked needs no check: it is
        not updated, and apart from all that is."""
        if not self.writer and not self.own:
            return True
        if value in self.writer:
            return False
        start, stop = extent(tensor)
        place = bisect.bisect_left(self._written, (stop,)) - 1  # the last that begins before `stop`
        return place < 0 or self._written[place][1] <= start

    def _is_written(self, value: Value) -> bool:
        return value in self.writer or value in self.own

    def _refuse(self, a: Value, b: Value) -> None:
        if a in self.own or b in self.own:
            output, other = (a, b) if a in self.own else (b, a)
            raise TypeError(
                f"{other.name} lies in an output of the last run, {output.name}, which this run "
                "overwrites: give a copy, or have outputs fresh"
            )
        written, other = (a, b) if a in self.writer else (b, a)
        node = self.writer[written]
        where = f" ({node.loc})" if node.loc else ""
        raise TypeError(
            f"{other.name} and {written.name} share memory, and {node.op}{where} updates "
            f"{written.name}: give a copy of one"
        )
