"""What a graph gives in f64, which every other execution of it is measured by.

Each row runs in its variant that has f64 wherever the graph has a float; a row without one runs as
it stands in the graph, on operands rounded to its dtypes. So a cast to a shorter float rounds
nothing here, and all that shorter floats lose is seen as error.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from aicf.backend.host import numpy_dtype
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of
from aicf.compiler.ir.types import TensorType
from aicf.compiler.kernels.trial import Array
from aicf.compiler.runtime import interpret, memory
from aicf.table import FLOATS, Row, Variant

Results = dict[str, Any]  # by name: outputs as "output 0", what is updated in place by its own


def exact(graph: Graph, data: Mapping[str, Any]) -> Results:
    """Of a graph whose sizes are numbers. `data`: arrays and numbers by name, which stay as they
    are."""
    values = {v: _entry(v, data[v.name]) for v in (*graph.inputs, *graph.params)}
    for v, fill in graph.constants.items():
        assert isinstance(v.type, TensorType)
        shape: Any = v.type.shape
        values[v] = (
            _entry(v, data[v.name]) if fill is None else np.full(shape, fill, _wide(v.type.dtype))
        )
    for node in graph.nodes:
        if node.is_view:
            values[node.out] = interpret.see(node, values[next(node.reads)])
        else:
            _run(graph.table[node.op], node, values)
    return {name: np.asarray(values[v]) for name, v in results(graph)}


def results(graph: Graph) -> Iterator[tuple[str, Value]]:
    """All that a run leaves behind: its outputs, and what it updates."""
    for i, v in enumerate(graph.outputs):
        yield f"output {i}", v
    for v in memory.written_entries(graph):
        yield v.name, graph.state_of(v)


def _wide(dtype: str) -> np.dtype[Any]:
    return np.dtype("f8") if dtype in FLOATS else numpy_dtype(dtype)


def _entry(value: Value, given: Any) -> Any:
    """In memory of its own."""
    if not isinstance(value.type, TensorType):
        return given
    return np.array(given, _wide(value.type.dtype))


def _run(row: Row, node: Node, values: dict[Value, Any]) -> None:
    free = node.attrs.get("dtype") if row.free else None
    given = tuple(_dtype(x) for x in node.inputs)
    outs = tuple(v.type.dtype if v is not None else None for v in node.outs)
    variant = _widest(row, given, outs, free)
    operands = [
        _operand(x, p.name, p.inout, variant, values)
        for p, x in zip(row.operands, node.inputs, strict=True)
    ]
    count = len(row.tensors)
    named = {p.name: x for p, x in zip(row.scalars, operands[count:], strict=True)}
    named |= {o.name: True for o, v in zip(row.outs, node.outs, strict=True) if o.optional and v}
    if row.free:
        named["dtype"] = variant.types[row.free]
    found = row.call(*operands[:count], **{**node.attrs, **named})
    made = found if isinstance(found, tuple) else (found,)
    for v, x in zip(node.outs, made, strict=False):
        if v is not None:
            values[v] = np.asarray(x).astype(_wide(v.type.dtype), copy=False)
    for before, after, x in _updated(row, node, operands):
        if x is not values[before]:
            values[before][...] = x
        values[after] = values[before]


def _updated(row: Row, node: Node, operands: list[Any]) -> Iterator[tuple[Value, Value, Array]]:
    """What was updated in place: its value before and after, and the array that was written to."""
    for name, state in node.states.items():
        i = row.operands.index(row.param(name))
        arrays = operands[i] if isinstance(operands[i], list) else [operands[i]]
        yield from zip(values_of(node.inputs[i]), values_of(state), arrays, strict=True)


def _operand(
    x: Any, name: str, is_written: bool, variant: Variant, values: dict[Value, Any]
) -> Any:
    if isinstance(x, tuple):
        return [_operand(part, name, is_written, variant, values) for part in x]
    if not isinstance(x, Value):
        return x
    found = values[x]
    if not isinstance(found, np.ndarray):
        return found
    dtype = numpy_dtype(variant.dtypes[name])
    if is_written and found.dtype == dtype:
        return found
    return np.ascontiguousarray(found, dtype).reshape(found.shape)


def _dtype(x: Any) -> str | None:
    first = next(values_of(x), None)
    return first.type.dtype if first is not None else None


@functools.cache
def _widest(
    row: Row, given: tuple[str | None, ...], outs: tuple[str | None, ...], free: str | None
) -> Variant:
    """The row's variant with the dtypes that are given, and f64 for floats where it has that."""
    wanted = [
        (p.name, dtype)
        for p, dtype in zip((*row.operands, *row.outs), (*given, *outs), strict=True)
        if dtype is not None
    ]
    found = [
        v
        for suffix, v in row.variants.items()
        if suffix in row.backends.get("cpu", ())
        and all(_is_like(v.dtypes[name], dtype) for name, dtype in wanted)
    ]
    wide = [v for v in found if all(t == "f64" for t in v.types.values() if t in FLOATS)]
    own = [v for v in found if all(v.dtypes[name] == dtype for name, dtype in wanted)]
    own = [v for v in own if free is None or v.types[row.free or ""] == free] or own
    if not (wide or own):
        raise LookupError(f"{row.name} has no kernel of {', '.join(map(str, given))} on the CPU")
    return (wide or own)[0]


def _is_like(a: str, b: str) -> bool:
    return a == b or (a in FLOATS and b in FLOATS)
