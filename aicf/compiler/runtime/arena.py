"""One piece of memory in which all that a program's nodes make lies, where its plan says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.types import TensorType
from aicf.compiler.runtime.plan.problem import Plan


class OutOfMemory(MemoryError):
    """An arena that no memory holds: how much it needs, and what needs it."""


class Arena:
    """Memory for a plan of a graph; values that are written `over` others have no place of their
    own there. Raises OutOfMemory."""

    def __init__(
        self, backend: Any, graph: Graph, plan: Plan, over: Mapping[Value, Value] | None = None
    ) -> None:
        self.backend, self.plan, self.over = backend, plan, over or {}
        try:
            self.memory = backend.empty((plan.peak,), "u8")
        except Exception as error:
            if not _is_of_memory(error):
                raise
            raise OutOfMemory(_told(graph, plan)) from error

    def tensor(self, value: Value) -> Any:
        """What a root lies in."""
        type = value.type
        assert isinstance(type, TensorType)
        at = self.plan.offsets[self.over.get(value, value).name]
        return self.backend.carve(self.memory, at, type.shape, type.dtype, type.strides)

    def room(self, name: str, size: int) -> Any:
        """So many bytes where the plan has a workspace."""
        return self.backend.carve(self.memory, self.plan.offsets[name], (size,), "u8")


def _is_of_memory(error: Exception) -> bool:
    """CUDA says so by its own error."""
    return (
        isinstance(error, MemoryError) or getattr(error, "name", "") == "cudaErrorMemoryAllocation"
    )


def _told(graph: Graph, plan: Plan) -> str:
    least = "and no plan needs less" if plan.optimal else f"of which {plan.bound} at least"
    at = graph.nodes[plan.bound_at] if plan.bound_at < len(graph.nodes) else None
    where = f" at {at.op}{f' ({at.loc})' if at.loc else ''}" if at else " at the end"
    return (
        f"{graph.name} needs {plan.peak} bytes, {least}, beside its inputs, params and constants, "
        f"and there are not so many. Most is live{where}:\n{plan.largest()}"
    )
