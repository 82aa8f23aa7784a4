"""Sizes that are rounded up, so that a few graphs serve them all.

What is given is followed by repeated rows of its own up to the size of the bucket, and the first
rows of what comes out are given back. That must not change a bit of them: a graph whose rows are
plainly not apart is refused by its structure, and with each size that comes for the first time the
graph is run exactly too, and with rows beyond that are NaN, too large, zero, the least and the
largest of their kind: all must give the same bits. Repeated rows then change nothing that NaN or
other numbers in their place do not, but what ignores both, as a maximum does: and that is the same
of rows that are there twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aicf import dim
from aicf.backend.tensors import dtype_of
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value, values_of
from aicf.compiler.ir.types import TensorType
from aicf.compiler.runtime import memory
from aicf.compiler.runtime.bound import Bound, Repeat
from aicf.compiler.runtime.graph_capture import Captured
from aicf.compiler.runtime.outputs import packed
from aicf.compiler.runtime.program import Program
from aicf.table import FLOATS

MOST = 8  # sizes of a symbol, where only its range is known


class Buckets:
    """The sizes of one symbol. `reason`: why rows of the graph are plainly not apart, or ""."""

    def __init__(self, graph: Graph, symbol: str, sizes: Sequence[int]) -> None:
        self.symbol, self.sizes = symbol, tuple(sorted(set(sizes)))
        self.reason = _mixed(graph, symbol)

    @staticmethod
    def of(graph: Graph, given: Any) -> Buckets:
        """Of what a user says: "auto", or sizes by the symbol. Raises TypeError, ValueError."""
        if given == "auto":
            if len(graph.symbols) != 1:
                raise ValueError(f"buckets are of one symbol, and {graph.name} has {_names(graph)}")
            ((name, symbol),) = graph.symbols.items()
            if symbol.max is None:
                raise ValueError(f"{name} has no largest size: say which its buckets are")
            return Buckets(graph, name, spread(max(1, symbol.min), symbol.max))
        if not isinstance(given, Mapping) or len(given) != 1:
            example = '"auto", or sizes of one symbol: {"N": (8, 64)}'
            raise TypeError(f"buckets are {example}, not {given!r}")
        ((name, sizes),) = given.items()
        if name not in graph.symbols:
            raise ValueError(f"no symbol {name}; there are {_names(graph)}")
        symbol = graph.symbols[name]
        if isinstance(sizes, str) or not isinstance(sizes, Sequence) or not sizes:
            raise TypeError(f"buckets of {name} must be sizes, not {sizes!r}")
        for size in sizes:
            if isinstance(size, bool) or not isinstance(size, int):
                raise TypeError(f"buckets of {name} must be sizes, not {size!r}")
            if size < max(1, symbol.min) or (symbol.max is not None and size > symbol.max):
                raise ValueError(f"a bucket of {name} is {size}, and its range {symbol.range}")
        return Buckets(graph, name, sizes)

    def rounded(self, size: int) -> int | None:
        """None: there is none for it."""
        return next((s for s in self.sizes if s >= size), None) if size else None


def spread(least: int, most: int, count: int = MOST) -> tuple[int, ...]:
    """At most `count` sizes up to `most`, each about as many times the one before."""
    if most - least < count:
        return tuple(range(least, most + 1))
    ratio = (most / least) ** (1 / (count - 1))
    return tuple(sorted({min(most, math.ceil(least * ratio**i - 1e-9)) for i in range(count)}))


def _names(graph: Graph) -> str:
    return ", ".join(graph.symbols) or "none"


def _mixed(graph: Graph, symbol: str) -> str:
    """By what is known of the graph alone: why a run of more rows may not give the same."""
    entries = {*graph.inputs, *graph.params}
    for node in graph.nodes:
        for state in node.states.values():
            for root in map(graph.buffer_of, values_of(state)):
                if root in entries:
                    return f"{node.op} updates {root.name}, in which rows beyond would count"
    for value in graph.inputs:
        if _has(value, symbol) and not leads(value, symbol):
            return f"input {value!r} has {symbol} elsewhere than in front"
    if not any(_has(value, symbol) for value in graph.inputs):
        return f"no input has {symbol}"
    for value in graph.outputs:
        if not leads(value, symbol):
            return f"output {value!r} is not one of rows: {symbol} does not lead it"
        if graph.buffer_of(value) in entries:
            return f"output {value.name} lies in {graph.buffer_of(value).name}"
    return ""


def _has(value: Value, symbol: str) -> bool:
    return any(s.name == symbol for s in value.type.symbols)


def leads(value: Value, symbol: str) -> bool:
    """Whether a value is row-major, its first size the symbol, which no other has."""
    type = value.type
    if not isinstance(type, TensorType) or type.strides is not None or not type.shape:
        return False
    below = {s.name for size in type.shape[1:] for s in dim.symbols(size)}
    return str(type.shape[0]) == symbol and symbol not in below


# ---- running ------------------------------------------------------------------------------------


class Bucket:
    """The captured program of a bucket's size, over inputs of its own. `user` put the rest last."""

    def __init__(
        self, bound: Bound, runner: Captured, rows: Mapping[Value, Any], size: int
    ) -> None:
        self.bound, self.runner, self.rows, self.size = bound, runner, rows, size
        self.user: object = None


class Padded:
    """Runs of one size, rounded up to that of a bucket, whose graph its values are of."""

    def __init__(self, bucket: Bucket, size: int, given: Mapping[Value, Any]) -> None:
        self.backend, self.bucket, self.size = bucket.bound.backend, bucket, size
        self._given = dict(given)
        self._me = object()  # as the bucket knows it: that is no cycle
        self.putters: dict[str, Callable[[Any], bool]] = {}
        self.repeat: Repeat | None = None
        rows = bucket.rows.items()
        self._parts = {v: list(_parts(self.backend, whole, size)) for v, whole in rows}

    @property
    def program(self) -> Program:
        return self.bucket.runner.program

    @property
    def own(self) -> dict[Value, Any]:
        return self.bucket.runner.own

    def put(self, value: Value, tensor: Any, again: bool = False) -> None:
        """From the next run on."""
        self._given[value] = tensor
        if value not in self._parts and self.bucket.user is self._me:
            self.bucket.runner.put(value, tensor, again)

    def run(self) -> Any:
        self._put_rows()
        return packed([self._rows(v, out) for v, out in self._outputs()])

    def ready(self) -> Program:
        """The program of the bucket, with what the next run has."""
        self._put_rows()
        return self.bucket.runner.ready()

    def _put_rows(self) -> None:
        self._take()
        for value, parts in self._parts.items():
            for part, count in parts:
                self.backend.copy_into(part, _first(self.backend, self._given[value], count))

    def _outputs(self) -> Iterator[tuple[Value, Any]]:
        found = self.bucket.runner.launch()
        return zip(self.bucket.runner.program.graph.outputs, found, strict=True)

    def _rows(self, value: Value, out: Any) -> Any:
        first = _first(self.backend, out, self.size)
        if not self.bucket.runner.outputs.fresh:
            return first
        made = self.backend.empty((self.size, *out.shape[1:]), dtype_of(out))
        self.backend.copy_into(made, first)
        return made

    def _take(self) -> None:
        bucket = self.bucket
        if bucket.user is not self._me:
            bucket.user = None
            for value, x in self._given.items():
                if value not in self._parts:
                    bucket.runner.put(value, x)
            bucket.user = self._me

    def differs(self, exact: Sequence[Any]) -> str:
        """What of the outputs is not, bit for bit, that of an exact run, whatever follows the rows
        that are given; "" if nothing is."""
        expected = [self._bits(x) for x in exact]
        for fill in _FILLS:
            self._put_rows()
            if self.size < self.bucket.size and fill != _FILLS[0]:
                for value, whole in self.bucket.rows.items():
                    rest = _first(self.backend, whole, self.bucket.size - self.size, self.size)
                    _fill(self.backend, rest, self._given[value], fill)
            for (value, out), wanted in zip(self._outputs(), expected, strict=True):
                if self._bits(_first(self.backend, out, self.size)) != wanted:
                    return f"{value.name} is not the same where the rows beyond are {fill}"
        return ""

    def decides(self) -> bool:
        """Whether `differs` may be asked: sums of what is all zero say nothing."""
        whole = [self._given[v] for v in self._parts if dtype_of(self._given[v]) not in FLOATS]
        return all(np.asarray(self.backend.to_host(x)).any() for x in whole)

    def _bits(self, tensor: Any) -> bytes:
        return np.asarray(self.backend.to_host(tensor)).tobytes()


_FILLS = ("those before", "NaN", "large", "zero", "the least", "the largest")


def _first(backend: Any, tensor: Any, count: int, start: int = 0) -> Any:
    """Some rows of a row-major tensor, without a copy."""
    if tensor.shape[0] == count:
        return tensor
    below = tuple(tensor.shape[1:])
    row = math.prod(below)
    steps = [math.prod(below[i:]) for i in range(len(below) + 1)]
    return backend.view(tensor, (count, *below), tuple(steps), start * row)


def _parts(backend: Any, whole: Any, size: int) -> Iterator[tuple[Any, int]]:
    """Where the rows that are given go, and go again, with how many of them fit there."""
    for start in range(0, whole.shape[0], size):
        count = min(size, whole.shape[0] - start)
        yield _first(backend, whole, count, start), count


def _fill(backend: Any, rest: Any, given: Any, what: str) -> None:
    """By one byte, or by a number of those given: what is no float may be an index."""
    dtype = dtype_of(rest)
    if dtype in FLOATS or what == "zero":
        byte = {"NaN": 0xFF, "large": 0x7B, "the least": 0xFB, "the largest": 0x7B}.get(what, 0)
        backend.fill_bytes(rest, byte)
        return
    host = np.asarray(backend.to_host(given))
    number = host.max() if what in ("large", "the largest") else host.min()
    backend.copy_into(rest, np.full(tuple(rest.shape), number, host.dtype))


def made_rows(backend: Any, graph: Graph, values: Sequence[Value]) -> dict[Value, Any]:
    """Memory for the inputs of a bucket, zero at first."""
    found: dict[Value, Any] = {}
    for value in values:
        assert isinstance(value.type, TensorType)
        found[value] = memory.allocate(backend, value.type)
        backend.fill_bytes(found[value], 0)
    return found
