"""A graph op by op: each call is checked as it comes, and memory is let go after its last use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import TensorType
from aicf.compiler.runtime import memory
from aicf.compiler.runtime.bound import Repeat
from aicf.compiler.runtime.outputs import copied, packed
from aicf.compiler.runtime.program import Choose
from aicf.table import Row


class Eager:
    """Runs a graph without symbols op by op. `held` has its params and constants."""

    def __init__(
        self, graph: Graph, backend: Any, held: dict[Value, Any], choose: Choose | None
    ) -> None:
        self.graph, self.backend, self.choose = graph, backend, choose
        self.tensors = dict(held)
        self._last = _last_uses(graph)
        self.putters: dict[str, Callable[[Any], bool]] = {}
        self.repeat: Repeat | None = None

    @property
    def program(self) -> None:
        return None

    @property
    def own(self) -> dict[Value, Any]:
        return {}

    def put(self, value: Value, tensor: Any, again: bool = False) -> None:
        """From the next run on."""
        self.tensors[value] = tensor

    def run(self) -> Any:
        return packed(self.outputs())

    def outputs(self) -> list[Any]:
        backend, graph = self.backend, self.graph
        tensors = dict(self.tensors)
        for i, node in enumerate(graph.nodes):
            if node.is_view:
                tensors[node.out] = memory.see(backend, node, tensors[next(node.reads)])
            else:
                self._call(graph.table[node.op], node, tensors)
            for value in self._last.get(i, ()):
                del tensors[value]
        kept = graph.constants  # a constant stays as it is
        return [
            copied(backend, v, tensors[v]) if graph.buffer_of(v) in kept else tensors[v]
            for v in graph.outputs
        ]

    def _call(self, row: Row, node: Node, tensors: dict[Value, Any]) -> None:
        """One node through the backend, its outs new."""

        named = {n: _resolved(operand, tensors) for n, operand in memory.operands(row, node)}
        args = [named.pop(p.name) for p in row.tensors]
        options = named | {k: v for k, v in node.attrs.items()}
        kernel = self.choose(node) if self.choose else None
        for out, value in zip(row.outs, node.outs, strict=True):
            if value is not None:
                assert isinstance(value.type, TensorType)
                made = memory.allocate(self.backend, value.type)
                tensors[value] = options[out.name] = made
        self.backend.call(row.name, *args, **options, **({"kernel": kernel} if kernel else {}))
        for before, after in memory.states(row, node):
            tensors[after] = tensors[before]


def _resolved(operand: Any, tensors: dict[Value, Any]) -> Any:
    """Values as tensors. No function of a call's own, which would be a cycle that keeps memory."""
    if isinstance(operand, tuple):
        return [_resolved(part, tensors) for part in operand]
    return tensors[operand] if isinstance(operand, Value) else operand


def _last_uses(graph: Graph) -> dict[int, list[Value]]:
    """By the index of a node: the values that nothing reads after it."""
    kept = set(graph.outputs)
    last: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        for value in (*node.reads, *node.results):
            last[value] = i
    found: dict[int, list[Value]] = {}
    for value, i in last.items():
        if value not in kept:
            found.setdefault(i, []).append(value)
    return found
