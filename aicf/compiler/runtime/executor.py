"""ExecutorV2: a graph run op by op, or replayed as calls that were prepared, with the same bits.

    step = ExecutorV2(graph, backend, params={"w": w, "b": b})
    loss = step(x, y, lr=0.1)

Inputs are read and updated where they lie. Params live in the executor and are updated in place. A
symbol's value is that of the shapes that come; each combination is prepared once, and the last few
are kept. Threads that call one executor wait for each other.
"""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from aicf.compiler.ir import types
from aicf.compiler.ir.bind import solve
from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import ScalarType, TensorType
from aicf.compiler.runtime import memory
from aicf.compiler.runtime.program import Choose, Program, Step
from aicf.table import Row

if TYPE_CHECKING:
    from aicf.compiler.kernels.selector import Selector

Mode = Literal["eager", "replay"]
Outputs = Literal["fresh", "reused"]


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
    calls at the first run of a shape and then only launches. `outputs`: "fresh" gives new tensors
    at each run; with "reused" the next run of that shape overwrites what the last one gave.
    `selector` chooses the kernel of each node; without one it is the first of the row that fits."""

    def __init__(
        self, graph: Graph, backend: Any, *, params: Mapping[str, Any] | None = None,
        constants: Mapping[str, Any] | None = None, mode: Mode = "replay",
        outputs: Outputs = "fresh", selector: Selector | None = None, kept: int = 8,
    ) -> None:  # fmt: skip
        graph = graph.place(backend.device)
        graph.verify()
        if mode not in ("eager", "replay") or outputs not in ("fresh", "reused"):
            raise ValueError("mode is eager or replay, outputs are fresh or reused")
        if kept < 1:
            raise ValueError("one program at least must be kept")
        for value in graph.params:
            if any(value.type.symbols):
                raise ValueError(f"param {value!r} has no size: bind the graph to one")
        self.graph, self.backend, self.mode, self.outputs = graph, backend, mode, outputs
        self.choose = _chooser(graph, selector) if selector else None
        self.kept = kept
        self._params: dict[Value, Any] = {}
        self._data = dict(constants or {})
        self._lock = threading.RLock()  # a run puts inputs into calls that all runs launch
        self._programs: OrderedDict[tuple[tuple[str, int], ...], _Bound] = OrderedDict()
        self._last: _Bound | None = None  # what ran last, on these very objects:
        self._inputs: tuple[Any, ...] = ()
        self._named: dict[str, Any] = {}
        for name, array in (params or {}).items():
            self.load(name, array)

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
                self._params[value] = memory.from_host(self.backend, value, array)

    def zero(self, *names: str) -> None:
        """Sets params to zero, which need not have been loaded."""
        for name in names:
            value = self._param(name)
            type = value.type
            assert isinstance(type, TensorType)
            with self._lock:
                if value not in self._params:
                    self._params[value] = memory.allocate(self.backend, type)
                self.backend.fill_bytes(self._params[value], 0)

    def adopt(self, name: str, tensor: Any) -> None:
        """Makes a tensor of the backend's device the param: updates write into it."""
        value = self._param(name)
        memory.check(value, tensor, {})
        with self._lock:
            self._params[value] = tensor
            self._programs.clear()
            self._last = None

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
        self._lock.acquire()  # not `with`, which costs twice as much
        try:
            last = self._last
            if last is not None and _are(inputs, self._inputs) and _are_named(named, self._named):
                return last.rerun()
            self._last = None
            given = self._given(inputs, named)
            bound = self._bound(given)
            found = bound.run(given)
            self._inputs, self._named, self._last = inputs, named, bound
            return found
        finally:
            self._lock.release()

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

    def _bound(self, given: dict[Value, Any]) -> _Bound:
        graph = self.graph
        for value, x in given.items():
            if isinstance(value.type, ScalarType):
                given[value] = types.python_number(x)
            elif not hasattr(x, "shape"):
                memory.check(value, x, {})
        tensors = {v: t for v, t in given.items() if hasattr(t, "shape")}
        values = solve(graph, {v.name: t.shape for v, t in tensors.items()})
        for value, tensor in given.items():
            memory.check(value, tensor, values)
        key = tuple(sorted(values.items()))
        if key in self._programs:
            self._programs.move_to_end(key)
            return self._programs[key]
        graph = graph.bind(values) if values else graph
        bound = _Bound(self, graph, _constants(graph, self.backend, self._data))
        self._programs[key] = bound
        while len(self._programs) > self.kept:
            self._programs.popitem(last=False)
        return bound

    # ---- looking at it -------------------------------------------------------------------------

    def kernels(self, *inputs: Any, **named: Any) -> list[tuple[Node, str]]:
        """Which kernel each node runs for such inputs; "fallback" where none does."""
        with self._lock:
            self._last = None  # other inputs are put
            given = self._given(inputs, named)
            program = self._bound(given).prepared(given)
            return [(step.node, step.kernel) for step in program.steps]

    def per_op(self, *inputs: Any, count: int = 20, **named: Any) -> list[OpTime]:
        """Replays each op alone, `count` times, over what a run left behind. What runs update is as
        it was before, afterwards."""
        if count < 1:
            raise ValueError(f"each op runs once at least, not {count} times")
        with self._lock:
            self._last = None  # other inputs are put
            given = self._given(inputs, named)
            return self._bound(given).times(given, count)


def _chooser(graph: Graph, selector: Selector) -> Choose:
    from aicf.compiler.kernels.request import Request

    return lambda node: selector.choose(Request.of_node(graph.table, node)).kernel


def _are(objects: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether they are the very same, one by one."""
    return len(objects) == len(others) and all(map(operator.is_, objects, others))


def _are_named(named: dict[str, Any], others: dict[str, Any]) -> bool:
    """The same of what stands by name, in the order in which it is named."""
    if not named:
        return not others
    return list(named) == list(others) and all(map(operator.is_, named.values(), others.values()))


def _packed(outputs: Sequence[Any]) -> Any:
    """As a run gives them: one alone, several in a tuple."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None


class _Bound:
    """The executor's graph for one value of each symbol."""

    def __init__(self, owner: ExecutorV2, graph: Graph, constants: dict[Value, Any]) -> None:
        self.owner, self.graph, self.constants = owner, graph, constants
        self.is_eager = owner.mode == "eager"
        self.program: Program | None = None
        self.inputs: dict[Value, Any] = {}  # of the last run op by op
        self.result: Any = None  # of a replay whose outputs are reused
        before = owner.graph
        self.values = dict(zip(before.entries, graph.entries, strict=True))
        self.fresh = _Fresh(graph) if owner.outputs == "fresh" else None

    def held(self) -> dict[Value, Any]:
        params = {self.values[v]: t for v, t in self.owner._params.items()}
        return params | self.constants

    def run(self, given: dict[Value, Any]) -> Any:
        if self.is_eager:
            self.inputs = {self.values[v]: t for v, t in given.items()}
            return self.rerun()
        program = self.prepared(given)
        self.result = _packed([program.tensors[v] for v in self.graph.outputs])
        return self.rerun()

    def rerun(self) -> Any:
        """With the inputs of the last run."""
        if self.is_eager:  # though there be a program, of `per_op`
            return _packed(self.run_eagerly(self.inputs))
        program = self.program
        assert program is not None
        if self.fresh is not None:
            return _packed(self.fresh.run(program))
        program.run()
        return self.result

    def prepared(self, given: dict[Value, Any]) -> Program:
        """The program, with these inputs put."""
        inputs = {self.values[v]: t for v, t in given.items()}
        if self.program is None:
            program = Program(self.graph, self.owner.backend, self.held(), self.owner.choose)
            program.prepare(inputs)
            self.program = program
        program, self.program = self.program, None  # one that takes some inputs alone is dropped
        for value, tensor in inputs.items():
            program.put(value, tensor)
        self.program = program
        return program

    # ---- op by op ------------------------------------------------------------------------------

    def run_eagerly(self, inputs: dict[Value, Any]) -> list[Any]:
        backend, graph = self.owner.backend, self.graph
        tensors = self.held() | inputs
        last = _last_uses(graph)
        for i, node in enumerate(graph.nodes):
            if node.is_view:
                tensors[node.out] = memory.see(backend, node, tensors[next(node.reads)])
            else:
                _call(backend, graph.table[node.op], node, tensors, self.owner.choose)
            for value in last.get(i, ()):
                del tensors[value]
        kept = self.constants  # a constant stays as it is
        return [
            _copied(backend, v, tensors[v]) if graph.buffer_of(v) in kept else tensors[v]
            for v in graph.outputs
        ]

    # ---- one op at a time ----------------------------------------------------------------------

    def times(self, given: dict[Value, Any], count: int) -> list[OpTime]:
        backend, program = self.owner.backend, self.prepared(given)
        saved = [(v, program.tensors[v]) for v in memory.written_entries(self.graph)]
        before = [_copied(backend, v, tensor) for v, tensor in saved]
        try:
            program.run()
            return [self._time(program, step, count) for step in program.steps]
        finally:
            for (v, tensor), kept in zip(saved, before, strict=True):
                memory.copy_into(backend, v, tensor, kept)

    def _time(self, program: Program, step: Step, count: int) -> OpTime:
        program.run_step(step)
        seconds = self.owner.backend.time(lambda: program.run_step(step), count)
        return OpTime(step.row.name, step.kernel, seconds, step.node.loc)


class _Fresh:
    """Outputs that no later run overwrites. Where one call alone knows of an output, it writes to a
    new tensor at each run; else what it wrote is copied."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        entries = {*graph.inputs, *graph.params}  # a constant stays as it is
        outs = {v for n in graph.nodes if not n.is_view for v in n.outs if v is not None}
        read = {v for n in graph.nodes for v in n.reads}
        self.entries = {v for v in graph.outputs if graph.buffer_of(v) in entries}
        self.alone = [v for v in graph.outputs if v in outs and v not in read]

    def run(self, program: Program) -> list[Any]:
        backend = program.backend
        for value in self.alone:
            assert isinstance(value.type, TensorType)
            program.put(value, memory.allocate(backend, value.type))
        program.run()
        found: list[Any] = []
        for value in self.graph.outputs:
            tensor = program.tensors[value]
            by_reference = value in self.entries or value in self.alone
            found.append(tensor if by_reference else _copied(backend, value, tensor))
        return found


def _copied(backend: Any, value: Value, tensor: Any) -> Any:
    assert isinstance(value.type, TensorType)
    made = memory.allocate(backend, value.type)
    memory.copy_into(backend, value, made, tensor)
    return made


def _call(
    backend: Any, row: Row, node: Node, tensors: dict[Value, Any], choose: Choose | None
) -> None:
    """One node through the backend, its outs new."""

    def resolve(operand: Any) -> Any:
        if isinstance(operand, tuple):
            return [resolve(part) for part in operand]
        return tensors[operand] if isinstance(operand, Value) else operand

    named = {name: resolve(operand) for name, operand in memory.operands(row, node)}
    args = [named.pop(p.name) for p in row.tensors]
    options = named | {k: v for k, v in node.attrs.items()}
    kernel = choose(node) if choose else None
    for out, value in zip(row.outs, node.outs, strict=True):
        if value is not None:
            assert isinstance(value.type, TensorType)
            tensors[value] = options[out.name] = memory.allocate(backend, value.type)
    backend.call(row.name, *args, **options, **({"kernel": kernel} if kernel else {}))
    for before, after in memory.states(row, node):
        tensors[after] = tensors[before]


def _last_uses(graph: Graph) -> dict[int, list[Value]]:
    """By the index of a node: the values that nothing reads after it."""
    kept = set(graph.outputs)
    last: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        for value in (*node.reads, *node.results):
            last[value] = i
    found: dict[int, list[Value]] = {}
    for value, i in last.items():
        if value not in kept:
            found.setdefault(i, []).append(value)
    return found


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
