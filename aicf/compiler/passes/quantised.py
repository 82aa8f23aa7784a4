"""`aicf.quantise`: a graph in 8-bit integers, and what that does to its accuracy.

    found = aicf.quantise(graph, params, batches, metric=accuracy)
    print(found)

Each layer's error is measured by itself, on the numbers that the float graph gives it, and as it is
with the errors of all layers before it. A layer whose own error is beyond the budget stays as it
was; so does, one after another, the one with the largest error while the metric falls too far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aicf.compiler.given import check_arrays, check_backend, check_graph, described
from aicf.compiler.ir.emit import Emitter
from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.passes.observe import Batch, Calibration, Data, Run, calibrate, needed, runner
from aicf.compiler.passes.pipeline import Pipeline, standard
from aicf.compiler.passes.quantise import Layer, Quantise, Rewritten, dequantized, observed
from aicf.compiler.passes.rule import Applied, Context, Fired, Pass, Refused
from aicf.compiler.runtime.memory import written_entries

Metric = Callable[[Run], float]


@dataclass(frozen=True, slots=True)
class LayerError:
    """Of a layer of integers, as signal to noise in dB: more is better, 6 are one bit. `own` is of
    the layer alone, `through` with all that came before it in integers."""

    name: str
    op: str
    own: float
    through: float
    integers: str  # that it reads: "u8", "i8"
    loc: Location | None


@dataclass(frozen=True, slots=True)
class Quantised:
    """A graph of integers with all its data, and what became of each layer."""

    graph: Graph
    params: Mapping[str, Any]  # those that it still reads
    constants: Mapping[str, Any]
    calibration: Calibration
    layers: tuple[LayerError, ...]
    refused: tuple[Refused, ...]
    fired: tuple[Fired, ...]
    outputs: tuple[float, ...]  # signal to noise of each output, in dB
    before: float | None  # the metric of the float graph
    after: float | None  # and of this one

    def __str__(self) -> str:
        lines = [f"{'layer':<20} {'op':<10} {'reads':<6} {'own dB':>7} {'through dB':>11}"]
        for x in self.layers:
            lines.append(f"{x.name:<20} {x.op:<10} {x.integers:<6} {x.own:7.1f} {x.through:11.1f}")
        lines += [f"{'kept in floats':<20} {r.reason}: {r.detail} {r.node}" for r in self.refused]
        lines.append(f"outputs: {', '.join(f'{db:.1f} dB' for db in self.outputs)}")
        if self.before is not None and self.after is not None:
            lines.append(f"metric: {self.before:.4f} in floats, {self.after:.4f} in integers")
        return "\n".join(lines)


def quantise(
    graph: Graph, params: Data, data: Iterable[Batch], *,
    calibration: Calibration | None = None, passes: Sequence[Pass] | None = None,
    observer: str = "range", percentile: float = 99.99,
    symmetric: bool = False, keep: str | Collection[str] = (), keep_first: bool = False,
    keep_last: bool = False, least_db: float = 20.0, metric: Metric | None = None,
    max_drop: float = 0.01, backend: Any = None,
) -> Quantised:  # fmt: skip
    """`params` has the values of params and constants, which count as fixed from now on; `data` are
    batches of inputs by name, which calibrate and measure errors. `passes` run before, by default
    the standard ones, so that what stands between a product and its bias is gone. `metric` is given
    a function that runs a batch, and says how good its outputs are: it may fall by
    `max_drop`. Without one, no output may have less than `least_db`, as no layer may.

    A `calibration` of before is taken instead of a new one if neither the graph nor the values have
    changed. Raises StaleCalibration, ValueError."""
    check_graph(graph)
    check_arrays("params", params, may_lack=False)
    if not isinstance(data, Iterable):
        raise TypeError(f"data must be batches, not {described(data)}")
    if backend is not None:
        check_backend(backend)
    for name, number in (("least_db", least_db), ("max_drop", max_drop)):
        if isinstance(number, bool) or not isinstance(number, int | float) or number != number:
            raise TypeError(f"{name} must be a number, not {number!r}")
    if not isinstance(keep, Collection):
        raise TypeError(f"keep must be names of outs, not {described(keep)}")
    batches = list(data)
    for batch in batches:
        check_arrays("a batch", batch, may_lack=False)
    if not batches:
        raise ValueError("errors are measured on batches: give one at least")
    updated = written_entries(graph)
    if updated:
        names = ", ".join(map(str, updated))
        raise ValueError(f"{graph.name} updates {names}: what is quantised is inference")
    pipeline = standard() if passes is None else Pipeline(passes)
    optimised = pipeline.run(graph, _context(graph, params, backend))
    graph, values = optimised.graph, {**params, **optimised.data}
    if calibration is None:
        calibration = calibrate(
            graph, observed(graph), values, batches, observer=observer, percentile=percentile,
            backend=backend,
        )  # fmt: skip
    context = _context(graph, values, backend)

    def of(over: Mapping[str, str]) -> Quantise:
        return Quantise(
            calibration, keep=keep, keep_first=keep_first, keep_last=keep_last,
            symmetric=symmetric, over=over,
        )  # fmt: skip

    calibration.check(graph, values)
    layers, _ = of({}).plan(graph, context)
    own = own_errors(graph, layers, values, batches, backend)
    over = {name: f"{db:.1f} dB alone" for name, db in own.items() if not db >= least_db}
    before = metric(runner(graph, values, backend)) if metric else None
    while True:
        found = of(over)
        layers, _ = found.plan(graph, context)
        applied = found.run(graph, context)
        made = {**values, **applied.data}
        through = errors_through(graph, layers, values, batches, backend)
        after = metric(runner(applied.graph, made, backend)) if metric else None
        why = _beyond(before, after, through[1], least_db, max_drop)
        if why is None or not layers:
            break
        worst = min(layers, key=lambda layer: own[layer.name])
        over[worst.name] = f"{own[worst.name]:.1f} dB alone, and {why} with it"
    errors = [
        LayerError(x.name, x.node.op, own[x.name], db, x.range.dtype, x.node.loc)
        for x, db in zip(layers, through[0].values(), strict=True)
    ]
    return _bare(applied, made, calibration, errors, through[1], before, after)


def _context(graph: Graph, values: Data, backend: Any) -> Context:
    frozen = frozenset(v.name for v in graph.params if v.name in values)
    return Context(backend=backend, data=values, frozen=frozen)


def _beyond(
    before: float | None, after: float | None, outputs: Sequence[float], least: float, drop: float
) -> str | None:
    """In what the result is not good enough."""
    if before is None or after is None:
        worst = min(outputs, default=math.inf)
        return None if worst >= least else f"an output has {worst:.1f} dB"
    return None if after >= before - drop else f"the metric is {after:.4g} instead of {before:.4g}"


def _bare(
    applied: Applied, values: Data, calibration: Calibration, errors: Sequence[LayerError],
    outputs: Sequence[float], before: float | None, after: float | None,
) -> Quantised:  # fmt: skip
    """With those params and constants alone that are still read."""
    graph = applied.graph.clone()
    read = {v for n in graph.nodes for v in n.reads} | set(graph.outputs)
    graph.params = [v for v in graph.params if v in read]
    graph.constants = {v: x for v, x in graph.constants.items() if v in read}
    graph.__post_init__()
    data = [v.name for v, fill in graph.constants.items() if fill is None]
    return Quantised(
        graph, {v.name: values[v.name] for v in graph.params}, {n: values[n] for n in data},
        calibration, tuple(errors), applied.refused, applied.fired, tuple(outputs), before, after,
    )  # fmt: skip


# ---- errors -------------------------------------------------------------------------------------


class _Noise:
    """Signal to noise, in dB, of what comes in parts."""

    def __init__(self) -> None:
        self.signal = self.noise = 0.0

    def add(self, exact: Any, found: Any) -> None:
        a, b = (np.asarray(x, dtype="f8") for x in (exact, found))
        self.signal += float((a * a).sum())
        self.noise += float(((a - b) ** 2).sum())

    @property
    def db(self) -> float:
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal > 0 else -math.inf


def own_errors(
    graph: Graph, layers: Sequence[Layer], values: Data, batches: Sequence[Batch],
    backend: Any = None,
) -> dict[str, float]:  # fmt: skip
    """Of each layer by itself: what it reads is what the graph of floats gives."""
    made = Rewritten(graph, list(layers), beside=True)
    pairs = [v for x in layers for v in (made.map[x.out], made.shadows[x.name])]
    run = runner(needed(made.new, pairs), {**values, **made.data}, backend)
    found = [_Noise() for _ in layers]
    for batch in batches:
        outs = _host(run(batch))
        for i, noise in enumerate(found):
            noise.add(outs[2 * i], outs[2 * i + 1])
    return {x.name: noise.db for x, noise in zip(layers, found, strict=True)}


def errors_through(
    graph: Graph, layers: Sequence[Layer], values: Data, batches: Sequence[Batch],
    backend: Any = None,
) -> tuple[dict[str, float], list[float]]:  # fmt: skip
    """Of each layer, and of the outputs, with all layers of integers."""
    made = Rewritten(graph, list(layers))
    emit = Emitter(made.new)
    ours = [_numbers(made, x, emit) for x in layers]
    outs = [i for i, v in enumerate(graph.outputs) if v.type.dtype[0] in "fb"]
    ours += [made.map[graph.outputs[i]] for i in outs]
    exact = needed(graph, [*(x.out for x in layers), *(graph.outputs[i] for i in outs)])
    run = runner(needed(made.new, ours), {**values, **made.data}, backend)
    model = runner(exact, values, backend)
    found = [_Noise() for _ in ours]
    for batch in batches:
        for noise, a, b in zip(found, _host(model(batch)), _host(run(batch)), strict=True):
            noise.add(a, b)
    names = [x.name for x in layers]
    return (
        {name: noise.db for name, noise in zip(names, found, strict=False)},
        [noise.db for noise in found[len(names) :]],
    )


def _numbers(made: Rewritten, layer: Layer, emit: Emitter) -> Value:
    """What a layer gives, in numbers."""
    if layer.out in made.map:
        return made.map[layer.out]
    reader = made.reader(layer.out)
    assert reader is not None
    return dequantized(emit, made.codes[layer.out], reader, layer.node.out.type.dtype)


def _host(outs: Sequence[Any]) -> list[Any]:
    from aicf.compiler.passes.observe import host

    return [host(x) for x in outs]
