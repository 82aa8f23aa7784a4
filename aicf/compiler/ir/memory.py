"""Which values lie in one memory, and which of them can still be read.

A view lies in the memory of what it shows, a new state in that of what was updated. After an update
only the new state, and views of it, show what is there; what was seen before cannot be read.
"""

from __future__ import annotations

from collections.abc import Container

from aicf.compiler.ir.errors import IRError, Rule
from aicf.compiler.ir.node import Node, Operand, Value, values_of
from aicf.compiler.ir.types import TensorType
from aicf.table import Row, Table


class Memory:
    """What is known after some nodes of a graph, which are noted in order."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._buffer: dict[Value, Value] = {}
        self._writer: dict[Value, Node] = {}
        self._alive: dict[Value, list[Value]] = {}  # by buffer: what shows its present content

    def note(self, node: Node) -> None:
        """Whose memory the results lie in, and what the node overwrote."""
        if node.is_view:
            root = self.buffer_of(next(node.reads))
            self._buffer[node.out] = root
            self._alive.setdefault(root, [root]).append(node.out)
            return
        for name, state in node.states.items():
            row = self.table[node.op]
            operand = node.inputs[row.operands.index(row.param(name))]
            for old, new in zip(values_of(operand), values_of(state), strict=True):
                root = self.buffer_of(old)
                self._writer.update((seen, node) for seen in self._alive.get(root, [root]))
                self._alive[root] = [new]
                self._buffer[new] = root

    def buffer_of(self, value: Value) -> Value:
        return self._buffer.get(value, value)

    def writer_of(self, value: Value) -> Node | None:
        """The node that overwrote it."""
        return self._writer.get(value)

    def state_of(self, entry: Value) -> Value:
        """The last value that shows all of a buffer."""
        shown = [v for v in self._alive.get(entry, ()) if v.type == entry.type]
        return shown[-1] if shown else entry

    # ---- rules ----------------------------------------------------------------------------------

    def check_read(self, op: str, value: Value) -> None:
        writer = self._writer.get(value)
        if writer is not None:
            where = f" ({writer.loc})" if writer.loc else ""
            now = ", ".join(str(v) for v in self._alive[self.buffer_of(value)])
            message = f"its memory was updated by {writer.op}{where}, and is now {now}"
            raise IRError(Rule.OVERWRITTEN, message, op, value.name)

    def check_writes(
        self, row: Row, operands: tuple[Operand, ...], constants: Container[Value]
    ) -> None:
        """Of the operands of a call before it is noted."""
        if not row.inouts:
            return
        pairs = list(zip(row.operands, operands, strict=True))
        written = {self.buffer_of(v) for p, x in pairs if p.inout for v in values_of(x)}
        seen: dict[Value, Value] = {}
        for p, operand in pairs:
            for value in values_of(operand):
                root = self.buffer_of(value)
                if root in written and root in seen:
                    message = f"{value} and {seen[root]} share memory, and {row.name} updates it"
                    raise IRError(Rule.ALIAS, message, row.name, value.name)
                seen[root] = value
                if p.inout and root in constants:
                    message = f"{row.name} would update it"
                    raise IRError(Rule.CONSTANT, message, row.name, root.name)
                if p.inout and _repeats(value):
                    message = f"{value.type} has one element in several places"
                    raise IRError(Rule.ALIAS, message, row.name, value.name)


def _repeats(value: Value) -> bool:
    t = value.type
    return isinstance(t, TensorType) and any(
        step == 0 and size != 1 for size, step in zip(t.shape, t.steps, strict=True)
    )
