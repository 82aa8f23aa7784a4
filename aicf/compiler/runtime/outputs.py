"""What a run gives back: tensors that the next run overwrites, or that none does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.types import TensorType
from aicf.compiler.runtime import memory
from aicf.compiler.runtime.program import Program


class Outputs:
    """Of the runs of one program. With `fresh` no later run overwrites them: where one call alone
    knows of an output, it writes to a new tensor at each run; else what it wrote is copied. That is
    done with all of them where the program is captured, and calls cannot be given others."""

    def __init__(self, program: Program, fresh: bool) -> None:
        graph = program.graph
        self.program, self.fresh, self.values = program, fresh, graph.outputs
        lent = {*graph.inputs, *graph.params}  # their memory is not ours; a constant stays as it is
        self.lent = {v for v in graph.outputs if graph.buffer_of(v) in lent}
        self.alone = alone(graph)

    @property
    def own(self) -> dict[Value, Any]:
        """Those that the next run overwrites, by the root that they lie in."""
        if self.fresh:
            return {}
        graph, tensors = self.program.graph, self.program.tensors
        roots = [graph.buffer_of(v) for v in self.values if v not in self.lent]
        return {root: tensors[root] for root in roots if root not in graph.constants}

    def renew(self) -> None:
        """Before a replay."""
        for value in self.alone if self.fresh else ():
            assert isinstance(value.type, TensorType)
            self.program.put(value, memory.allocate(self.program.backend, value.type))

    def after_replay(self) -> list[Any]:
        return self._given(self.alone)

    def after_launch(self) -> list[Any]:
        """Of a captured graph."""
        return self._given(())

    def _given(self, new: Sequence[Value] | dict[Value, None]) -> list[Any]:
        tensors, backend = self.program.tensors, self.program.backend
        if not self.fresh:
            return [tensors[v] for v in self.values]
        return [
            tensors[v] if v in self.lent or v in new else copied(backend, v, tensors[v])
            for v in self.values
        ]


def alone(graph: Graph) -> dict[Value, None]:
    """The outputs that one call alone knows of."""
    outs = {v for n in graph.nodes if not n.is_view for v in n.outs if v is not None}
    read = {v for n in graph.nodes for v in n.reads}
    return {v: None for v in graph.outputs if v in outs and v not in read}


def copied(backend: Any, value: Value, tensor: Any) -> Any:
    """A new tensor of the value's type."""
    assert isinstance(value.type, TensorType)
    made = memory.allocate(backend, value.type)
    memory.copy_into(backend, value, made, tensor)
    return made


def packed(outputs: Sequence[Any]) -> Any:
    """As a run gives them: one alone, several in a tuple."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None


def lies_in_entries(graph: Graph) -> set[Value]:
    """The inputs and params that outputs are, or are views of."""
    return {graph.buffer_of(v) for v in graph.outputs} & {*graph.inputs, *graph.params}
