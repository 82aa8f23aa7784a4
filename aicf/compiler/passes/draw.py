"""What a graph is run on: what somebody gives, and random numbers for the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from aicf.backend.host import numpy_dtype
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.types import ScalarType, TensorType
from aicf.compiler.kernels.trial import Array
from aicf.compiler.runtime import memory
from aicf.table import FLOATS

_SIZE = 8  # of a symbol whose range has it


def sized(graph: Graph, sizes: Mapping[str, int] | None = None) -> Graph:
    """The graph with numbers for its symbols: those that are given, else 8 or what is nearest."""
    if not graph.symbols:
        return graph
    given = sizes or {}
    return graph.bind(
        {
            name: given.get(name, max(s.min, min(_SIZE, s.max if s.max is not None else _SIZE)))
            for name, s in graph.symbols.items()
        }
    )


def placed(graph: Graph, device: str) -> Graph:
    """The graph with its tensors there; itself where they are."""
    devices = {v.type.device for v in graph.values if isinstance(v.type, TensorType)}
    return graph if devices <= {device} else graph.place(device)


def wanted(graph: Graph) -> Iterator[Value]:
    """The entries whose data comes by name."""
    yield from graph.inputs
    yield from graph.params
    yield from (v for v, fill in graph.constants.items() if fill is None)


def fill(
    graph: Graph, given: Mapping[str, Any], seed: int = 0, is_positive: bool = False
) -> dict[str, Any]:
    """Data for a graph whose sizes are numbers: what is given, and of the rest floats of a normal
    distribution, or their absolute values and a little more; integers that are indices of every
    dim. What is drawn for a name does not depend on other entries of the graph."""
    below = _below(graph)
    found = {}
    for value in wanted(graph):
        if value.name in given:
            found[value.name] = given[value.name]
        else:
            digest = hashlib.blake2b(value.name.encode(), digest_size=8).digest()
            source = np.random.default_rng([seed, int.from_bytes(digest, "little")])
            found[value.name] = _drawn(value, source, below, is_positive)
    return found


def _below(graph: Graph) -> int:
    sizes = [
        n
        for v in graph.entries
        if isinstance(v.type, TensorType)
        for n in v.type.shape
        if isinstance(n, int) and n > 1
    ]
    return min(*sizes, 100) if len(sizes) > 1 else 2


def _drawn(value: Value, source: np.random.Generator, below: int, is_positive: bool) -> Any:
    type = value.type
    if isinstance(type, ScalarType):
        return abs(float(source.standard_normal())) / 8 if type.dtype in FLOATS else 1
    shape: Any = type.shape
    if type.dtype in FLOATS:
        values: Array = source.standard_normal(shape)
        values = np.abs(values) + 0.125 if is_positive else values
    else:
        values = source.integers(0, 2 if type.dtype == "bool" else below, shape)
    return laid(type, np.asarray(values).astype(numpy_dtype(type.dtype)))


def laid(type: TensorType, values: Array) -> Array:
    """The values as a tensor of the type lies."""
    if type.strides is None:
        return np.ascontiguousarray(values).reshape(values.shape)
    flat = np.zeros(memory.span(type), values.dtype)
    steps: Any = [step * values.itemsize for step in type.steps]
    made = np.lib.stride_tricks.as_strided(flat, values.shape, steps)
    made[...] = values
    return made


def digest(data: Mapping[str, Any]) -> str:
    """Of names and values."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(data):
        array = np.ascontiguousarray(data[name])
        found.update(f"{name} {array.dtype} {array.shape}\0".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()
