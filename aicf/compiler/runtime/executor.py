"""ExecutorV2: a graph run op by op, replayed as calls that were prepared, or captured by the
backend, with the same bits.

    step = ExecutorV2(graph, backend, params={"w": w, "b": b})
    loss = step(x, y, lr=0.1)

Inputs are read and updated where they lie. Params live in the executor and are updated in place. A
symbol's value is that of the shapes that come; each combination is prepared once, and the last few
are kept. Threads that call one executor wait for each other.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from aicf.backend import nvtx
from aicf.backend.base import NoGraphs
from aicf.compiler.given import check_arrays, check_backend, check_graph, described
from aicf.compiler.ir import types
from aicf.compiler.ir.bind import solve
from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import ScalarType, TensorType
from aicf.compiler.runtime import memory
from aicf.compiler.runtime.bound import Bound, Runner
from aicf.compiler.runtime.buckets import Buckets, Padded
from aicf.compiler.runtime.eager import Eager
from aicf.compiler.runtime.graph_capture import Captured, Inputs
from aicf.compiler.runtime.outputs import alone, copied
from aicf.compiler.runtime.program import Choose, Program, Step
from aicf.compiler.runtime.replay import Replay
from aicf.compiler.runtime.rounding import Rounding, key_of, name_of
from aicf.compiler.runtime.scalars import Scalars, stand_in

if TYPE_CHECKING:
    from aicf.compiler.kernels.selector import Selector

Mode = Literal["eager", "replay", "graph"]
OutputsAre = Literal["fresh", "reused"]
_WORDS = {
    "mode": ("eager", "replay", "graph"),
    "outputs": ("fresh", "reused"),
    "inputs": ("auto", "copy", "repoint"),
}


_BRANCHES = 1  # of graphs, where nobody says
_REASONS = 1024  # that are kept
_REFUSALS = 8  # of captures, after which none is tried


@dataclass(frozen=True, slots=True)
class OpTime:
    """One op of a graph, run alone."""

    op: str
    kernel: str
    seconds: float
    loc: Location | None


class ExecutorV2:
    """Runs one graph on one backend.

    `mode`: "eager" calls op by op and lets memory go after its last use; "replay" prepares the
    calls at the first run of a shape and then only launches; "graph" has the backend capture them
    and launches them all at once, or replays them where it cannot: `reasons` says why. `outputs`:
    "fresh" gives new tensors at each run; with "reused" the next run of that shape overwrites what
    the last one gave. `inputs`, of graphs: "repoint" reads them where they lie, and the graph is
    updated where others come; "copy" copies them first; "auto" copies those that come as others
    again and again. `branches`, of graphs: how many ops may run at once, where none needs what
    another writes; with 1 they follow each other. `buckets`, of graphs: sizes to which one symbol
    is rounded up, {"N": (8, 64)}, or "auto", eight over its range, where that changes no bit; other
    runs are replayed, and `reasons` says why. `selector` chooses the kernel of each node; without
    one it is the first of the row that fits. `kept`: for how many combinations of sizes a program
    is kept."""

    def __init__(
        self, graph: Graph, backend: Any, *, params: Mapping[str, Any] | None = None,
        constants: Mapping[str, Any] | None = None, mode: Mode = "replay",
        outputs: OutputsAre = "fresh", inputs: Inputs = "auto", branches: int | None = None,
        buckets: Any = None, selector: Selector | None = None, kept: int = 8,
    ) -> None:  # fmt: skip
        from aicf_rt import Again

        check_kinds(graph, backend, params, constants, kept, selector)
        for name, word in (("mode", mode), ("outputs", outputs), ("inputs", inputs)):
            if word not in _WORDS[name]:
                known = ", ".join(_WORDS[name])
                raise ValueError(f"{name} is {word!r}, and may be {known}")
        self.backend, self.mode, self.outputs = backend, mode, outputs
        self.graph = graph = self.placed(graph)
        for value in graph.params:
            if any(value.type.symbols):
                raise ValueError(f"param {value!r} has no size: bind the graph to one")
        self.inputs: Inputs = inputs
        self.branches = _branches(branches, mode)
        self.choose = _chooser(graph, selector) if selector else None
        self.kept = kept
        if buckets is not None and mode != "graph":
            raise ValueError(f'buckets are of mode "graph", and mode is {mode!r}')
        # For what it keeps: memory goes when the executor goes.
        self._me = cast(ExecutorV2, weakref.proxy(self))
        of = None if buckets is None else Buckets.of(graph, buckets)
        self._rounding = None if of is None else Rounding(self._me, of)
        self.reasons: dict[str, str] = {}
        """Why runs of some sizes ("N = 32", "" without symbols) are replayed and not a graph."""
        self._refusals, self._never = 0, ""  # of captures; why none is tried any more
        self._params: dict[Value, Any] = {}
        self._version = 0  # how often params became other tensors
        self._data = dict(constants or {})
        # A run puts inputs into calls that all runs launch. Who has it has had the last run
        # forgotten: the next one is looked at in full.
        self._lock = self._again = Again()
        self._bounds: OrderedDict[tuple[Any, ...], Bound] = OrderedDict()  # by sizes and stream
        self._last: Bound | None = None
        self._shown: Bound | None = None
        for name, array in (params or {}).items():
            self.load(name, array)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an executor is not copied or pickled: it has calls; its graph can be")

    def placed(self, graph: Graph) -> Graph:
        """A graph of its own on the backend's device, that is one."""
        found = graph.place(self.backend.device)
        found.verify()
        return found

    def bound_graph(self, sizes: Mapping[str, int]) -> Graph:
        """The graph for values of its symbols."""
        return self.graph.bind(sizes) if sizes else self.graph

    # ---- params --------------------------------------------------------------------------------

    def load(self, name: str, array: Any) -> None:
        """Sets a param to the values of an array on the host. One that has been loaded before is
        overwritten where it lies."""
        value = self._param(name)
        memory.check(value, array, {})
        with self._lock:
            if value in self._params:
                memory.copy_into(self.backend, value, self._params[value], array)
            else:
                self._set(value, memory.from_host(self.backend, value, array))

    def zero(self, *names: str) -> None:
        """Sets params to zero, which need not have been loaded."""
        for value in [self._param(name) for name in names]:
            type = value.type
            assert isinstance(type, TensorType)
            with self._lock:
                if value not in self._params:
                    self._set(value, memory.allocate(self.backend, type))
                self.backend.fill_bytes(self._params[value], 0)

    def adopt(self, name: str, tensor: Any) -> None:
        """Makes a tensor of the backend's device the param: updates write into it."""
        value = self._param(name)
        memory.check(value, tensor, {})
        with self._lock:
            self._set(value, tensor)

    def _set(self, value: Value, tensor: Any) -> None:
        self._params[value] = tensor
        self._version += 1

    def param(self, name: str) -> Any:
        """The tensor that a param lies in."""
        value = self._param(name)
        if value not in self._params:
            raise KeyError(f"param {name} was not loaded")
        return self._params[value]

    def _param(self, name: str) -> Value:
        for value in self.graph.params:
            if value.name == name:
                return value
        known = ", ".join(v.name for v in self.graph.params) or "none"
        raise KeyError(f"no param {name}; there are {known}")

    # ---- running -------------------------------------------------------------------------------

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Runs the graph: inputs by position or name. Gives its output; a tuple of several, None of
        none."""
        if not nvtx.asked:
            found = self._again(inputs, named)
            if found is not NotImplemented:
                return found
        return self._run(inputs, named)

    def _run(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """One that is not the last one again, as far as that is known."""
        with self._lock:
            bound = self._last
            if bound is None or not bound.takes(inputs, named, self._version):
                bound = self._given_to(inputs, named)
            found = bound.run()
            if self._last is not None:
                bound.hold(self._again)
            return found

    def prepare(self, *inputs: Any, **named: Any) -> None:
        """All that a run with such inputs does before it launches anything: calls are bound, and
        captured in mode "graph". Nothing runs."""
        with self._lock:
            runner = self._given_to(inputs, named).runner
            if isinstance(runner, Captured):
                runner.capture()

    def _given_to(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> Bound:
        """What runs these inputs, which it has then."""
        self._last = None
        given = self._given(inputs, named)
        sizes = self._checked(given)
        given |= self._params
        current = self.backend.current(list(given.values()))
        stream = current() if current else None
        bound = self._rounding and self._rounding.bound(sizes, stream, given)
        bound = bound or self._of_sizes(sizes, stream)
        values = dict(zip(self.graph.entries, bound.graph.entries, strict=True))
        bound.give({values[v]: x for v, x in given.items()}, self._version, inputs, named, current)
        is_open = self._rounding and not self._rounding.knows(sizes, stream)
        self._shown, self._last = bound, None if is_open else bound
        return bound

    def _given(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[Value, Any]:
        graph = self.graph
        if len(inputs) > len(graph.inputs):
            raise TypeError(f"{graph.name} takes {len(graph.inputs)} inputs, not {len(inputs)}")
        given = dict(zip(graph.inputs, inputs, strict=False))
        by_name = {v.name: v for v in graph.inputs}
        for name, tensor in named.items():
            if name not in by_name or by_name[name] in given:
                wrong = "is given twice" if name in by_name else "is no input"
                raise TypeError(f"{graph.name}: {name} {wrong}; inputs are {', '.join(by_name)}")
            given[by_name[name]] = tensor
        missing = [v.name for v in graph.inputs if v not in given]
        missing += [f"param {v.name}" for v in graph.params if v not in self._params]
        if missing:
            raise TypeError(f"{graph.name}: {', '.join(missing)} missing")
        return given

    def _checked(self, given: dict[Value, Any]) -> dict[str, int]:
        """The sizes that inputs say, which are of their types; numbers become Python's."""
        for value, x in given.items():
            if isinstance(value.type, ScalarType):
                given[value] = _number(value, x)
            elif not hasattr(x, "shape") or not hasattr(x, "dtype"):
                memory.check(value, x, {})
        tensors = {v: t for v, t in given.items() if hasattr(t, "shape")}
        sizes = solve(self.graph, {v.name: t.shape for v, t in tensors.items()})
        for value, tensor in given.items():
            memory.check(value, tensor, sizes)
        return sizes

    def _of_sizes(self, sizes: Mapping[str, int], stream: Any = None) -> Bound:
        key = key_of(sizes, stream)
        if key in self._bounds:
            self._bounds.move_to_end(key)
            return self._bounds[key]
        make = functools.partial(type(self)._runner, self._me)
        bound = self._bounds[key] = self.bound_to(sizes, stream, make)
        while len(self._bounds) > self.kept:
            self._bounds.popitem(last=False)
        return bound

    def bound_to(self, sizes: Mapping[str, int], stream: Any, make: Any) -> Bound:
        graph = self.bound_graph(sizes)
        backend = self.backend if stream is None else self.backend.on(stream)
        return Bound(graph, name_of(sizes), backend, make)

    def entries_of(self, bound: Bound, given: Mapping[Value, Any]) -> dict[Value, Any]:
        """What is given, by values of a bound graph, and its constants."""
        values = dict(zip(self.graph.entries, bound.graph.entries, strict=True))
        held = {values[v]: x for v, x in given.items()}
        return held | _constants(bound.graph, bound.backend, self._data)

    # ---- what runs it --------------------------------------------------------------------------

    def _runner(self, bound: Bound, given: dict[Value, Any]) -> Runner:
        graph, backend = bound.graph, bound.backend
        held = given | _constants(graph, backend, self._data)
        if self.mode == "eager":
            return Eager(graph, backend, held, self.choose)
        fresh = self.outputs == "fresh"
        if self.mode == "graph" and self._never:
            self.note(bound.name, self._never)
        elif self.mode == "graph" and self._rounding is None and bound.name not in self.reasons:
            return self.captured_runner(bound, held, fresh)
        return Replay(self._program(bound, held), fresh)

    def captured_runner(self, bound: Bound, held: dict[Value, Any], fresh: bool) -> Captured:
        """Numbers become scalars on the device, but those that some call takes on the host alone:
        the graph is updated at each of them."""
        from aicf_rt import Unsupported

        graph, backend = bound.graph, bound.backend
        numbers = [v for v in graph.inputs if isinstance(v.type, ScalarType)]
        scalars = Scalars(backend, graph, numbers)
        try:
            program = self._program(bound, held | scalars.tensors)
        except Unsupported:
            if not numbers:
                raise
            scalars = Scalars(backend, graph, [])
            program = self._program(bound, held)
        for value in list(scalars.tensors):
            if any(step.call is None for step, _ in program.readers(value)):
                del scalars.tensors[value]
                program.put(value, held[value])
        program.settle()
        refused = functools.partial(type(self)._refused, self._me, bound.name)
        made = Captured(program, scalars, fresh, self.inputs, refused, self.branches)
        for value in scalars.tensors:
            made.put(value, held[value])
        return made

    def _refused(self, name: str, error: Exception) -> None:
        """Notes why runs of these sizes are no graph. They are not tried again; nor are others,
        where the backend has no graphs, or refused several."""
        reason = str(error) or type(error).__name__
        self.note(name, reason)
        self._refusals += 1
        if isinstance(error, NoGraphs) or self._refusals == _REFUSALS:
            self._never = reason

    def note(self, name: str, reason: str) -> None:
        self.reasons.setdefault(name, reason)
        while len(self.reasons) > _REASONS:
            del self.reasons[next(iter(self.reasons))]

    def _program(self, bound: Bound, held: dict[Value, Any]) -> Program:
        graph = bound.graph
        entries = {v: held[v] for v in (*graph.params, *graph.constants)}
        fresh = self.mode == "replay" and self.outputs == "fresh"
        outside = alone(graph) if fresh else ()  # a replay gives them new memory at each run
        apart = self.branches > 1
        program = Program(graph, bound.backend, entries, self.choose, outside, apart)
        program.prepare({v: held[v] for v in graph.inputs})
        return program

    # ---- looking at it -------------------------------------------------------------------------

    @property
    def last(self) -> Bound | None:
        """What ran last, or was made ready: its `graph`, `inputs` and `named`."""
        with self._lock:
            return self._shown

    def program(self, **sizes: int) -> Program:
        """What runs of these sizes launch, made ready though none came; in mode "eager", what would
        be. Its tensors are those of the last run, or have undefined elements."""
        graph = self.graph
        missing = [name for name in graph.symbols if name not in sizes]
        missing += [f"param {v.name}" for v in graph.params if v not in self._params]
        if missing:
            raise TypeError(f"{graph.name}: {', '.join(missing)} missing")
        with self._lock:
            bound = self._of_sizes(sizes)
            if bound.runner is None:
                self._last = None
                given = {v: stand_in(bound.backend, bound.graph, v) for v in bound.graph.inputs}
                params = dict(
                    zip(bound.graph.params, map(self._params.get, graph.params), strict=True)
                )
                bound.give(given | params, self._version, (), {})
            self._shown = bound
            return self._ready(bound)

    @property
    def captured(self) -> dict[str, Any]:
        """The backend's graphs of the programs that are kept, by their sizes: "N = 32"."""
        runners: dict[str, Any] = {b.name: b.runner for b in self._bounds.values()}
        if self._rounding is not None:
            runners |= {b.bound.name: b.runner for b in self._rounding.filled.values()}
        return {n: r.graph for n, r in runners.items() if isinstance(r, Captured) and r.graph}

    def kernels(self, *inputs: Any, **named: Any) -> list[tuple[Node, str]]:
        """Which kernel each node runs for such inputs; "fallback" where none does."""
        with self._lock:
            program = self._ready(self._given_to(inputs, named))
            return [(step.node, step.kernel) for step in program.steps]

    def per_op(self, *inputs: Any, count: int = 20, **named: Any) -> list[OpTime]:
        """Replays each op alone, `count` times, over what a run left behind. What runs update is as
        it was before, afterwards."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"each op runs once at least, not {count!r} times")
        with self._lock:
            program = self._ready(self._given_to(inputs, named))
            return _times(program, count)

    def _ready(self, bound: Bound) -> Program:
        """The program of a bound graph, whose calls can be launched one by one."""
        runner = bound.runner
        if isinstance(runner, Eager):
            return self._program(bound, runner.tensors)
        assert isinstance(runner, Replay | Captured | Padded)
        return runner.ready()


def _times(program: Program, count: int) -> list[OpTime]:
    backend = program.backend
    saved = [(v, program.tensors[v]) for v in memory.written_entries(program.graph)]
    before = [copied(backend, v, tensor) for v, tensor in saved]
    try:
        program.run()
        return [_time(program, step, count) for step in program.steps]
    finally:
        for (v, tensor), kept in zip(saved, before, strict=True):
            memory.copy_into(backend, v, tensor, kept)


def _time(program: Program, step: Step, count: int) -> OpTime:
    with nvtx.range(step.name) if nvtx.is_on() else contextlib.nullcontext():
        program.run_step(step)
        seconds = program.backend.time(lambda: program.run_step(step), count)
    return OpTime(step.row.name, step.kernel, seconds, step.node.loc)


def _number(value: Value, x: Any) -> Any:
    try:
        return types.python_number(x)
    except ValueError as error:
        raise ValueError(f"{value.name}: {error}") from None


def _branches(branches: int | None, mode: str) -> int:
    if branches is None:
        return _BRANCHES if mode == "graph" else 1
    if isinstance(branches, bool) or not isinstance(branches, int):
        raise TypeError(f"branches must be an int, not {described(branches)}")
    if not 1 <= branches <= 64:
        raise ValueError(f"branches are from 1 to 64, not {branches}")
    if branches > 1 and mode != "graph":
        raise ValueError(f'branches are of mode "graph", and mode is {mode!r}')
    return branches


def _chooser(graph: Graph, selector: Selector) -> Choose:
    from aicf.compiler.kernels.request import Request

    return lambda node: selector.choose(Request.of_node(graph.table, node)).kernel


def check_kinds(
    graph: Any, backend: Any, params: Any, constants: Any, kept: Any, selector: Any
) -> None:
    """What is of another kind altogether is named."""
    check_graph(graph)
    check_backend(backend)
    check_arrays("params", params)
    check_arrays("constants", constants)
    if isinstance(kept, bool) or not isinstance(kept, int):
        raise TypeError(f"kept must be an int, not {described(kept)}")
    if kept < 1:
        raise ValueError("one program at least must be kept")
    if selector is not None and not hasattr(selector, "choose"):
        raise TypeError(f"selector must be a Selector, not {described(selector)}")


def _constants(graph: Graph, backend: Any, data: Mapping[str, Any]) -> dict[Value, Any]:
    """Tensors of a graph's constants: filled, or from data by name."""
    found: dict[Value, Any] = {}
    for value, fill in graph.constants.items():
        type = value.type
        assert isinstance(type, TensorType)
        if fill is not None:
            found[value] = _filled(graph, backend, type, fill)
        elif value.name in data:
            memory.check(value, data[value.name], {})
            found[value] = memory.from_host(backend, value, data[value.name])
        else:
            raise TypeError(f"{graph.name}: the data of constant {value.name} is missing")
    return found


def _filled(graph: Graph, backend: Any, type: TensorType, number: Any) -> Any:
    """By the row that fills in ATen's words."""
    made = memory.allocate(backend, type)
    row = graph.table.by_aten["fill_.Scalar"][0]
    backend.call(row.name, made, **{row.scalars[0].name: number})
    return made
