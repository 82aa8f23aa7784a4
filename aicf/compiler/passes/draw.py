"""What a graph is run on: what somebody gives, and random numbers for the rest."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from aicf.backend.host import numpy_dtype
from aicf.compiler.given import check_arrays, check_sizes
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.types import ScalarType, TensorType
from aicf.compiler.kernels.trial import Array
from aicf.compiler.runtime import memory
from aicf.table import FLOATS

_SIZE = 8  # of a symbol whose range has it
_SPECIAL = 0.4  # of all reals


def sized(graph: Graph, sizes: Mapping[str, int] | None = None) -> Graph:
    """The graph with numbers for its symbols: those that are given, else 8 or what is nearest.
    Raises IRError of a name that is no symbol's, and of a number out of its range."""
    check_sizes(sizes)
    if not graph.symbols and not sizes:
        return graph
    usual = {
        name: max(s.min, min(_SIZE, s.max if s.max is not None else _SIZE))
        for name, s in graph.symbols.items()
    }
    return graph.bind({**usual, **(sizes or {})})


def placed(graph: Graph, device: str) -> Graph:
    """The graph with its tensors there; itself where they are."""
    devices = {v.type.device for v in graph.values if isinstance(v.type, TensorType)}
    return graph if devices <= {device} else graph.place(device)


def wanted(graph: Graph) -> Iterator[Value]:
    """The entries whose data comes by name."""
    yield from graph.inputs
    yield from graph.params
    yield from (v for v, fill in graph.constants.items() if fill is None)


def check_names(graph: Graph, given: Mapping[str, Any]) -> None:
    """Raises LookupError of data for what is none of the graph's entries."""
    check_arrays("data", given or None)
    known = {v.name for v in wanted(graph)}
    for name in given:
        if name not in known:
            among = ", ".join(sorted(known)) or "none"
            raise LookupError(f"{graph.name} has nothing named {name} to be given; it has {among}")


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


def special(data: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
    """With zeros of both signs, infinities, NaNs and the ends of the range among the reals."""
    source = np.random.default_rng(seed)
    found = dict(data)
    for name, array in data.items():
        if isinstance(array, np.ndarray) and is_real(array.dtype):
            values: Array = array.astype(np.float64)
            most = float(_finite(array.dtype).max)
            least = float(_finite(array.dtype).smallest_subnormal)
            among = [0.0, -0.0, math.inf, -math.inf, math.nan, most, -most, least, 1.0]
            where = source.random(values.shape) < _SPECIAL
            chosen = source.choice(among, values.shape)
            found[name] = np.where(where, chosen, values).astype(array.dtype)
    return found


def is_real(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype.name == "bfloat16"


def _finite(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return np.finfo(dtype)
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    return finfo(dtype)


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
