"""One graph on one data, again and again: what candidates are judged and timed on.

Nothing that the caller has is written to; what a run updates is as it was before the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.types import TensorType
from aicf.compiler.passes.exact import Results, results
from aicf.compiler.runtime import memory
from aicf.compiler.runtime.executor import ExecutorV2
from aicf.compiler.runtime.interpret import interpret


def interpreted(graph: Graph, data: Mapping[str, Any]) -> Results:
    """What a run on the CPU leaves behind, node by node."""
    given = {k: np.array(x, copy=True, order="K") if np.ndim(x) else x for k, x in data.items()}
    outs = interpret(graph, given)
    found = {f"output {i}": np.asarray(x) for i, x in enumerate(outs)}
    return found | {v.name: given[v.name] for v in memory.written_entries(graph)}


class Execution:
    """A graph whose sizes are numbers on a backend, as prepared calls."""

    def __init__(self, graph: Graph, backend: Any, data: Mapping[str, Any]) -> None:
        self.backend, self.data = backend, data
        params = {v.name: data[v.name] for v in graph.params}
        constants = {v.name: data[v.name] for v, fill in graph.constants.items() if fill is None}
        self.executor = ExecutorV2(
            graph, backend, params=params, constants=constants, outputs="reused"
        )
        self.graph = self.executor.graph
        self._inputs = {
            v: memory.from_host(backend, v, data[v.name])
            if isinstance(v.type, TensorType)
            else data[v.name]
            for v in self.graph.inputs
        }
        self._arguments = tuple(self._inputs.values())
        self._written = memory.written_entries(self.graph)
        self._output: Any = None

    def __call__(self) -> None:
        self._output = self.executor(*self._arguments)

    def refresh(self) -> None:
        """What runs update has its values of the beginning again."""
        for v in self._written:
            memory.copy_into(self.backend, v, self._tensor(v), self.data[v.name])

    def run(self) -> Results:
        """What one run leaves behind."""
        self.refresh()
        self()
        self.backend.synchronize()
        outs = self._output
        outs = [] if outs is None else outs if isinstance(outs, tuple) else [outs]
        found = {
            name: self.backend.to_host(x)
            for (name, _), x in zip(results(self.graph), outs, strict=False)
        }
        return found | {v.name: self.backend.to_host(self._tensor(v)) for v in self._written}

    def _tensor(self, v: Any) -> Any:
        return self._inputs[v] if v in self._inputs else self.executor.param(v.name)
