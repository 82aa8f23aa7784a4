"""Whether one value can stand for another as far as memory goes.

Both are the same numbers; but what is updated in place changes for all who lie there, and what is
given back must not change with a param, nor be given back twice.
"""

from __future__ import annotations

from collections import Counter

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value, values_of


class Buffers:
    """Which buffers of a graph are updated and given back, while a pass goes through its nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.place = 0  # of the node that is looked at
        self._now: dict[Value, Value] = {}  # in place of buffers that went
        self._written: dict[Value, int] = {}  # the place of the last update
        for i, node in enumerate(graph.nodes):
            for state in node.states.values():
                self._written.update((graph.buffer_of(v), i) for v in values_of(state))
        self._returned = Counter(graph.buffer_of(v) for v in set(graph.outputs))

    def put(self, old: Value, new: Value) -> None:
        """From now on the buffer `new` is there instead of that of `old`, a result of a node that
        went. What held of the one holds of the other."""
        here = self.of(old)
        if here is new or self.graph.buffer_of(old) is not old:
            return  # a view went, and what it showed is still there
        self._now[old] = new
        if here in self._written:
            self._written[new] = max(self._written[here], self._written.get(new, 0))
        self._returned[new] += self._returned.pop(here, 0)

    def of(self, old: Value) -> Value:
        """The buffer in which a value of the graph lies now."""
        root = self.graph.buffer_of(old)
        while root in self._now:
            root = self._now[root]
        return root

    def conflict(
        self, old: Value, new: Value, there: Value, is_entry: bool, is_fresh: bool = False
    ) -> tuple[str, str] | None:
        """Why `new`, which lies in the buffer `there`, cannot stand for `old`: a reason and its
        detail. `is_entry`: it is one that no node gives; `is_fresh`: nothing else lies there."""
        here = self.of(old)
        is_view = self.graph.buffer_of(old) is not old
        if here is there or (is_fresh and not (is_view and here in self._written)):
            return None
        if self._written.get(there, -1) > self.place:
            return "overwritten", f"{new} is updated in place later"
        if here in self._written:
            return "shares-memory", f"{old} is updated in place, and {new} would be with it"
        if self._returned[here] and (is_entry or self._returned[there]):
            whose = "an entry" if is_entry else "another output"
            return "shares-memory", f"{old} is given back, and {new} lies in the memory of {whose}"
        return None
