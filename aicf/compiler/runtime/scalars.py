"""The numbers of a run as scalars on the device, for graphs that are captured.

A captured graph has in it the numbers that its calls had. So its calls are given tensors of one
element instead, which lie in one small buffer; the number of a run is written to an array on the
host, and each launch of the graph copies that to the buffer first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.types import ScalarType
from aicf.compiler.runtime import memory
from aicf.table import BYTES, FLOATS

# Of memoryview.cast, whose writes round as those to an array do and are sooner done.
_FORMATS = {
    "f32": "f", "f64": "d", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I",
    "i64": "q", "u64": "Q", "bool": "?",
}  # fmt: skip
_LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38}


class Scalars:
    """Of some inputs of a graph that are numbers: a cell each."""

    def __init__(self, backend: Any, graph: Graph, values: Sequence[Value]) -> None:
        dtypes = [_dtype(v) for v in values]
        self.host = np.zeros(8 * len(values), "u1")
        self.buffer, tensors = backend.numbers(dtypes)
        self.tensors: dict[Value, Any] = dict(zip(values, tensors, strict=True))
        self.numbers: dict[Value, Any] = {}  # as they were given last
        self._write = {
            v: _writer(self.host[8 * i : 8 * i + BYTES[dtype]], dtype)
            for i, (v, dtype) in enumerate(zip(values, dtypes, strict=True))
        }
        self._range = {v: _range(graph, v, dtype) for v, dtype in zip(values, dtypes, strict=True)}
        self._kind = {v: _kind(dtype) for v, dtype in zip(values, dtypes, strict=True)}
        bytes_of: Any = self.host.data
        self.cells = tuple(
            (v.name, v, 8 * i, _FORMATS[dtype], *self._range[v])
            for i, (v, dtype) in enumerate(zip(values, dtypes, strict=True)) if dtype in _FORMATS
        )  # fmt: skip
        """Where numbers that are plainly right are written to, as `aicf_rt.Again` is told."""
        self._cells = {
            v: bytes_of[8 * i : 8 * i + BYTES[dtype]].cast(_FORMATS[dtype])
            for i, (v, dtype) in enumerate(zip(values, dtypes, strict=True))
            if dtype in _FORMATS
        }

    def putter(self, value: Value) -> Callable[[Any], bool] | None:
        """Puts a number at once if every call plainly takes it; False says that nothing was done,
        and that `holds` and `put` are to. None: of this dtype there is no such thing."""
        if value not in self._cells:
            return None
        cell, kind, (low, high) = self._cells[value], self._kind[value], self._range[value]
        numbers = self.numbers

        def put(number: Any) -> bool:
            if type(number) is kind and low <= number <= high:
                cell[0] = numbers[value] = number
                return True
            return False

        return put

    def holds(self, value: Value, number: Any) -> bool:
        """Whether every call takes it, which needs not to be asked then."""
        low, high = self._range[value]
        kind = type(number)
        return (kind is self._kind[value] or (kind is int and self._kind[value] is float)) and (
            low <= number <= high
        )

    def put(self, value: Value, number: Any) -> None:
        """For the launches from now on. Requires a number that calls take."""
        self.numbers[value] = number
        if self.holds(value, number):
            self._write[value](number)
            return
        with np.errstate(over="ignore"):  # one that is too large for a float is infinite
            self._write[value](number)


def stand_in(backend: Any, graph: Graph, value: Value) -> Any:
    """What may be given for an input, where nothing runs: memory, or a number that calls take."""
    if not isinstance(value.type, ScalarType):
        return memory.allocate(backend, value.type)
    low, high = _range(graph, value, value.type.dtype)
    return _kind(value.type.dtype)(min(max(low, 0), high))


def _dtype(value: Value) -> str:
    assert isinstance(value.type, ScalarType)
    return value.type.dtype


def _kind(dtype: str) -> type:
    return float if dtype in FLOATS else bool if dtype == "bool" else int


def _range(graph: Graph, value: Value, dtype: str) -> tuple[Any, Any]:
    """What the dtype holds and all rows that read the value take."""
    if dtype in FLOATS:
        high: Any = _LARGEST.get(dtype, math.inf)
        low = -high
    else:
        bits = 1 if dtype == "bool" else 8 * BYTES[dtype]
        low = -(1 << bits - 1) if dtype[0] == "i" else 0
        high = low + (1 << bits) - 1
    for node in graph.nodes:
        if node.is_view:
            continue
        for p, operand in zip(graph.table[node.op].operands, node.inputs, strict=True):
            if operand is value:
                low = low if p.min is None else max(low, p.min)
                high = high if p.max is None else min(high, p.max)
    return low, high


def _writer(cell: Any, dtype: str) -> Callable[[Any], None]:
    """Writes a number to the bytes of a cell as a kernel would round it: a 16-bit float by way of
    f32."""
    if dtype == "bf16":
        return lambda x: _write_bf16(cell.view("u2"), x)
    kinds = {"i": "i", "u": "u", "f": "f", "b": "?"}
    typed = cell.view("?" if dtype == "bool" else f"{kinds[dtype[0]]}{BYTES[dtype]}")

    def write(x: Any) -> None:
        typed[0] = x

    def write_half(x: Any) -> None:
        typed[0] = np.float32(x)

    return write_half if dtype == "f16" else write


def _write_bf16(cell: Any, x: Any) -> None:
    """To the nearest, half to even; NaN stays one."""
    number = np.float32(x)
    bits = int(number.view("u4"))
    cell[0] = bits >> 16 | 0x40 if number != number else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
