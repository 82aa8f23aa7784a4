"""What values of a graph are like on real data: the first half of quantisation.

    calibration = calibrate(graph, values, data, batches)

runs the graph with observers behind the values that are to become integers, and keeps the range of
each. A calibration is one of a graph and of the values of its params: neither may have changed when
it is used.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from aicf.compiler.ir import text
from aicf.compiler.ir.emit import Emitter
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import TensorType
from aicf.compiler.passes.rules.int8 import OBSERVE_HISTOGRAM, OBSERVE_RANGE

Batch = Mapping[str, Any]  # inputs by name
Data = Mapping[str, Any]  # params and constants by name

BINS: Final = 2048
OBSERVERS: Final = ("range", "percentile", "error")


class StaleCalibration(ValueError):
    """A calibration of another graph, or of other values of its params."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The ranges of values by name, as an observer took them."""

    graph: str  # digest of its text
    params: Mapping[str, str]  # digests of their values, by name
    observer: str
    batches: int
    ranges: Mapping[str, tuple[float, float]]

    def check(self, graph: Graph, data: Data) -> None:
        """Raises StaleCalibration, which names what changed."""
        if self.graph != digest_of(graph):
            message = f"the calibration is of another graph than {graph.name}"
            raise StaleCalibration(f"{message}: calibrate this one")
        found = digests(graph, data)
        other = [n for n in found | dict(self.params) if self.params.get(n) != found.get(n)]
        if other:
            names = ", ".join(sorted(other)[:4]) + (", ..." if len(other) > 4 else "")
            message = f"the calibration was made with other values of {names} ({len(other)} of "
            raise StaleCalibration(f"{message}{len(found)} params): calibrate again")

    def save(self, path: str | Path) -> None:
        """As JSON."""
        Path(path).write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Raises ValueError of what `save` did not write."""
        try:
            found = json.loads(Path(path).read_text())
            ranges = {str(k): (float(a), float(b)) for k, (a, b) in found["ranges"].items()}
            params = {str(k): str(v) for k, v in found["params"].items()}
            return cls(
                str(found["graph"]), params, str(found["observer"]), int(found["batches"]), ranges
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path}: no calibration: {error}") from None


# ---- what a calibration is bound to -------------------------------------------------------------


def digest_of(graph: Graph) -> str:
    """Of a graph's text without places in source: names count, since ranges are kept by them."""
    words = text.canonical(graph, graph.nodes, lambda v: v.name)
    return hashlib.blake2b(words.encode(), digest_size=16).hexdigest()


def digests(graph: Graph, data: Data) -> dict[str, str]:
    """Of the values of params and constants with data, by name. Raises ValueError of missing
    ones."""
    found = {}
    for v in (*graph.params, *(c for c, fill in graph.constants.items() if fill is None)):
        if v.name not in data:
            raise ValueError(f"the values of {v!r} were not given")
        array = host(data[v.name])
        hasher = hashlib.blake2b(f"{array.dtype}{array.shape}".encode(), digest_size=16)
        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        found[v.name] = hasher.hexdigest()
    return found


def host(x: Any) -> Any:
    """An array of numpy's with the values of a tensor of anybody's; of bf16 as f32."""
    if isinstance(x, np.ndarray):
        return x.astype("f4") if str(x.dtype) == "bfloat16" else x
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        return (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()
    found = np.asarray(x)
    return found.astype("f4") if str(found.dtype) == "bfloat16" else found


# ---- running ------------------------------------------------------------------------------------

Run = Callable[[Batch], list[Any]]


def runner(graph: Graph, data: Data, backend: Any = None) -> Run:
    """Runs a graph on a batch of its inputs, which may have other entries too, and gives its
    outputs in host memory. What the graph updates is updated in `data`, without a backend."""
    names = [v.name for v in graph.inputs]
    missing = "{} has no {}; inputs are " + ", ".join(names)

    def of(batch: Batch) -> dict[str, Any]:
        for name in names:
            if name not in batch:
                raise ValueError(missing.format("a batch", name))
        return {name: batch[name] for name in names}

    if backend is None:
        from aicf.compiler.runtime.interpret import interpret

        return lambda batch: interpret(graph, {**data, **of(batch)})
    from aicf.compiler.runtime.executor import ExecutorV2

    params = {v.name: data[v.name] for v in graph.params}
    step = ExecutorV2(graph, backend, params=params, constants=_constants(graph, data))

    def run(batch: Batch) -> list[Any]:
        given = of(batch).items()
        tensors = {k: backend.from_host(x) if hasattr(x, "shape") else x for k, x in given}
        found = step(**tensors)
        outs = found if isinstance(found, tuple) else () if found is None else (found,)
        for name in (v.name for v in graph.params if v.name.startswith(_STATE)):
            np.copyto(data[name], backend.to_host(step.param(name)))
        return [backend.to_host(x) for x in outs]

    return run


def _constants(graph: Graph, data: Data) -> dict[str, Any]:
    return {v.name: data[v.name] for v, fill in graph.constants.items() if fill is None}


def needed(graph: Graph, outputs: Sequence[Value]) -> Graph:
    """A graph of those nodes and entries alone that outputs depend on."""
    wanted = set(outputs)
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if any(v in wanted for v in node.results):
            nodes.append(node)
            wanted.update(node.reads)
    return Graph(
        graph.table, graph.name, dict(graph.symbols), [v for v in graph.inputs if v in wanted],
        [v for v in graph.params if v in wanted],
        {v: x for v, x in graph.constants.items() if v in wanted}, nodes[::-1], list(outputs),
    )  # fmt: skip


# ---- observers ----------------------------------------------------------------------------------

_STATE: Final = "observed."


def calibrate(
    graph: Graph, values: Iterable[str], data: Data, batches: Iterable[Batch], *,
    observer: str = "range", percentile: float = 99.99, backend: Any = None,
) -> Calibration:  # fmt: skip
    """Runs a graph over batches and keeps the range of each of `values`. `observer`: "range" is all
    that was seen; "percentile" leaves out what lies at the ends, (100 - percentile) percent in all;
    "error" is the range with the least mean square error in 8 bits. Raises ValueError."""
    if observer not in OBSERVERS:
        raise ValueError(f"observer is one of {', '.join(OBSERVERS)}, not {observer!r}")
    if not 50 < percentile <= 100:
        raise ValueError(f"percentile is above 50 and at most 100, not {percentile}")
    seen = [graph.value(name) for name in dict.fromkeys(values)]
    given = list(batches)
    if not given:
        raise ValueError("a calibration needs one batch at least")
    ends = _ends(graph, seen, data, given, backend)
    ranges = {v.name: e for v, e in zip(seen, ends, strict=True)}
    if observer != "range":
        some = [v for v in seen if all(map(math.isfinite, ranges[v.name])) and _spans(ranges, v)]
        counts = _histograms(graph, some, ranges, data, given, backend)
        for v, n in zip(some, counts, strict=True):
            lo, hi = ranges[v.name]
            clip = _percentile(lo, hi, n, percentile) if observer == "percentile" else None
            ranges[v.name] = clip or least_error(lo, hi, n)
    return Calibration(digest_of(graph), digests(graph, data), observer, len(given), ranges)


def _spans(ranges: Mapping[str, tuple[float, float]], v: Value) -> bool:
    lo, hi = ranges[v.name]
    return hi > lo


def _ends(
    graph: Graph, seen: Sequence[Value], data: Data, batches: Sequence[Batch], backend: Any
) -> Iterator[tuple[float, float]]:
    new = needed(graph, seen)
    states: dict[str, Any] = {}
    emit = Emitter(new)
    for i, v in enumerate(seen):
        device = _tensor(v).device
        ends = []
        for word, start in (("lo", np.inf), ("hi", -np.inf)):
            end = new.param(f"{_STATE}{word}{i}", TensorType("f32", (1,), None, device))
            states[end.name] = np.full(1, start, "f4")
            ends.append(end)
        emit.node(OBSERVE_RANGE, v, *ends)
    _observe(new, {**data, **states}, batches, backend)
    for i in range(len(seen)):
        yield float(states[f"{_STATE}lo{i}"][0]), float(states[f"{_STATE}hi{i}"][0])


def _histograms(
    graph: Graph, seen: Sequence[Value], ranges: Mapping[str, tuple[float, float]], data: Data,
    batches: Sequence[Batch], backend: Any,
) -> list[Any]:  # fmt: skip
    new = needed(graph, seen)
    states: dict[str, Any] = {}
    emit = Emitter(new)
    for i, v in enumerate(seen):
        hist = new.param(f"{_STATE}{i}", TensorType("i64", (BINS,), None, _tensor(v).device))
        states[hist.name] = np.zeros(BINS, "i8")
        lo, hi = ranges[v.name]
        emit.node(OBSERVE_HISTOGRAM, v, hist, lo=lo, hi=hi)
    _observe(new, {**data, **states}, batches, backend)
    return list(states.values())


def _observe(graph: Graph, data: Data, batches: Sequence[Batch], backend: Any) -> None:
    graph.outputs.clear()
    run = runner(graph, data, backend)
    for batch in batches:
        run(batch)


def _tensor(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _percentile(lo: float, hi: float, counts: Any, percentile: float) -> tuple[float, float]:
    total = int(counts.sum())
    cut = total * (100 - percentile) / 200
    below = np.cumsum(counts)
    first = int(np.searchsorted(below, cut, side="right"))
    last = int(np.searchsorted(below, total - cut, side="left"))
    width = (hi - lo) / BINS
    return lo + first * width, lo + (last + 1) * width


def least_error(lo: float, hi: float, counts: Any) -> tuple[float, float]:
    """Of ranges that are a part of all, the one whose 255 steps are nearest to what was seen."""
    width = (hi - lo) / BINS
    centers = lo + (np.arange(BINS) + 0.5) * width
    best, least = (lo, hi), math.inf
    for share in np.geomspace(1.0, 0.02, 120):
        low, high = min(lo, 0.0) * share, max(hi, 0.0) * share
        step = (high - low) / 255
        near = np.round((np.clip(centers, low, high) - low) / step) * step + low
        error = float((counts * ((centers - near) ** 2)).sum())
        if error < least:
            best, least = (float(low), float(high)), error
    return best
