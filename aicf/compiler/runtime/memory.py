"""What the values of a graph lie in: tensors of a backend, by root, with views and states on them.

A root has memory of its own. A view and the new state of what is updated in place lie in that of
their root: an allocation is made for roots alone.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from aicf.backend.tensors import dtype_of, strides_of
from aicf.compiler.ir import types
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of
from aicf.compiler.ir.types import ScalarType, TensorType
from aicf.table import Row


def allocate(backend: Any, type: TensorType) -> Any:
    """A new tensor of a type whose sizes are known; its elements are undefined."""
    if type.strides is None:
        return backend.empty(type.shape, type.dtype)
    return backend.view(backend.empty((span(type),), type.dtype), type.shape, type.strides, 0)


def from_host(backend: Any, value: Value, array: Any) -> Any:
    """A new tensor that lies as the value's type says, with the values of a host's array."""
    type = value.type
    assert isinstance(type, TensorType)
    if type.strides is None:
        return backend.from_host(array)
    made = allocate(backend, type)
    copy_into(backend, value, made, array)
    return made


def copy_into(backend: Any, value: Value, tensor: Any, source: Any) -> None:
    """Overwrites a tensor of the value's type by another one. What has strides is copied with all
    that it spans: only what is row-major crosses devices."""
    type = value.type
    assert isinstance(type, TensorType)
    if type.strides is not None:
        whole = (span(type),)
        tensor, source = (backend.view(x, whole, (1,), 0) for x in (tensor, source))
    backend.copy_into(tensor, source)


def span(type: TensorType) -> Any:
    """How many elements lie from the first to behind the last."""
    if any(size == 0 for size in type.shape):
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(type.shape, type.steps, strict=True))


def see(backend: Any, node: Node, shown: Any) -> Any:
    """What a view node gives of the tensor that it shows."""
    type = node.out.type
    assert isinstance(type, TensorType)
    return backend.view(shown, type.shape, type.steps, offset_of(node))


def offset_of(node: Node) -> int:
    """Where the first element of a view lies, in elements from that of what it shows."""
    if "start" not in node.attrs:
        return 0
    shown = next(node.reads).type
    assert isinstance(shown, TensorType)
    return int(node.attrs["start"] * shown.steps[node.attrs["axis"]])


def operands(row: Row, node: Node) -> Iterator[tuple[str, Any]]:
    """What a node reads, by the name of the parameter."""
    for p, operand in zip(row.operands, node.inputs, strict=True):
        yield p.name, operand


def states(row: Row, node: Node) -> Iterator[tuple[Value, Value]]:
    """Pairs of a value that the node updates in place and the one that it is afterwards."""
    for name, state in node.states.items():
        before = node.inputs[row.operands.index(row.param(name))]
        yield from zip(values_of(before), values_of(state), strict=True)


def written_entries(graph: Graph) -> list[Value]:
    """The inputs and params that a run updates."""
    entries = set(graph.entries)
    roots = (
        graph.buffer_of(v) for n in graph.nodes for s in n.states.values() for v in values_of(s)
    )
    return [v for v in dict.fromkeys(roots) if v in entries]


def check(value: Value, tensor: Any, shown: Mapping[str, int]) -> None:
    """Raises TypeError where a tensor is none of the value's type, which it names."""
    type = value.type
    if isinstance(type, ScalarType):
        if hasattr(tensor, "shape"):
            raise TypeError(f"{value.name} must be a number, {type}, and not {described(tensor)}")
        return
    if not hasattr(tensor, "shape") or not hasattr(tensor, "dtype"):
        raise TypeError(f"{value.name} must be {type}, and not {reprlib.repr(tensor)}")
    if not _is_of(type.bind(shown), tensor):
        where = "".join(f", {name} = {size}" for name, size in shown.items())
        raise TypeError(f"{value.name} must be {type}{where}, and not {described(tensor)}")


def described(tensor: Any) -> str:
    """A tensor of anybody's as types are written."""
    shape = tuple(tensor.shape)
    try:
        return str(TensorType(dtype_of(tensor), shape, strides_of(tensor)))
    except (TypeError, ValueError):  # of a dtype that the table does not know
        return f"{getattr(tensor, 'dtype', '?')}{list(shape)}"


def _is_of(type: TensorType, tensor: Any) -> bool:
    try:
        if tuple(tensor.shape) != type.shape or dtype_of(tensor) != type.dtype:
            return False
    except TypeError:  # of a dtype that the table does not know
        return False
    strides = strides_of(tensor)
    if type.strides is None:
        return strides is None or types.is_row_major(type.shape, strides)
    return strides == type.strides
