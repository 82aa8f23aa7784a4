"""A graph without symbols, made ready to be launched again and again.

Every node that a kernel serves is a call that was checked once: to run is to launch the calls, in
one go where nothing comes between them. What changes from run to run is put into the calls that
read it, and only where it is another than before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of
from aicf.compiler.ir.types import ScalarType, TensorType
from aicf.compiler.runtime import memory
from aicf.compiler.runtime.arena import Arena
from aicf.compiler.runtime.plan.lifetimes import (
    ALIGN,
    plan_of,
    workspace_of,
    workspaces,
    written_over,
)
from aicf.compiler.runtime.plan.pack import extend, pack
from aicf.compiler.runtime.plan.problem import Plan
from aicf.table import Row

# By so many bytes, or such a part, an arena may be larger so that steps need not wait for memory.
_LARGER, _PART = 16 << 20, 0.25
Choose = Callable[[Node], "str | None"]
# Calls that follow each other and what they are called by profilers, or a step that has no call.
Piece: TypeAlias = "tuple[list[Any], list[str], Step | None]"


@dataclass(eq=False)
class Step:
    """One node that computes: a prepared call, or None where its fallback runs."""

    node: Node
    row: Row
    call: Any
    changed: dict[str, Any] = field(default_factory=dict)  # what the call has to be given yet
    why: str = ""  # no kernel takes it

    @property
    def kernel(self) -> str:
        return "fallback" if self.call is None else str(self.call.kernel)

    @property
    def name(self) -> str:
        """For profilers."""
        return f"{self.row.name} {self.kernel} {self.node.loc}"


class Program:
    """The steps of one graph on one backend, over memory of their own: one arena, in which what is
    never needed at once shares bytes.

    `held` has a tensor for each param and constant; inputs come with `run`. What lies `outside` has
    memory of its own beside the arena. `apart`: steps will run at once where the graph allows it,
    and are not to wait for memory, if the arena need not be much larger."""

    def __init__(
        self, graph: Graph, backend: Any, held: dict[Value, Any], choose: Choose | None = None,
        outside: Collection[Value] = (), apart: bool = False,
    ) -> None:  # fmt: skip
        self.graph, self.backend = graph, backend
        self.tensors: dict[Value, Any] = dict(held)
        self.steps: list[Step] = []
        self.choose = functools.cache(choose or (lambda node: None))
        self.outside, self.apart = outside, apart
        self.plan: Plan | None = None  # of what the arena holds, once that is prepared
        self._readers: dict[Value, list[tuple[Step, str, Any]]] = {}  # and the whole operand
        self._states: dict[Value, list[Value]] = {}  # that lie in the memory of a value
        self._views: dict[Value, list[Node]] = {}
        self._pieces: list[Piece] | None = None
        self._changed: dict[Step, None] = {}  # whose calls have to be given something yet
        self._arena: Any = None
        self.over: dict[Value, Value] = {}  # what lies where another lay, whose place the plan has
        self.version = 0  # how often calls became others

    @property
    def arena(self) -> Any:
        """The tensor of bytes in which all that the plan has lies."""
        return self._arena.memory

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a program is not copied or pickled: it has calls; its graph can be")

    # ---- making it -----------------------------------------------------------------------------

    def prepare(self, inputs: dict[Value, Any]) -> None:
        """Allocates what lies between and binds every call, to these inputs at first. Raises
        OutOfMemory."""
        self.tensors.update(inputs)
        for value in self.outside:
            assert isinstance(value.type, TensorType)
            self.tensors[value] = memory.allocate(self.backend, value.type)
        plan = self._planned()
        self._lay(plan)
        sizes = {s.node: _workspace_size(s.call) for s in self.steps if s.call is not None}
        if any(sizes.values()):
            self._make_room(plan, sizes)

    def _planned(self) -> Plan:
        plan = plan_of(self.graph, self.outside)
        apart = False
        if self.apart:
            wide = plan_of(self.graph, self.outside, apart=True)
            apart = wide.peak <= plan.peak + max(_LARGER, _PART * plan.peak)
            plan = wide if apart else plan
        self.over = written_over(self.graph, self.outside, apart)
        return plan

    def _make_room(self, plan: Plan, sizes: dict[Node, int]) -> None:
        """For workspaces, which are known of calls that are bound: beside what lies where it lies,
        or else all of it anew."""
        grown = extend(plan, workspaces(self.graph, sizes))
        if not grown.optimal:
            grown = min(grown, pack(grown.buffers, align=ALIGN), key=lambda p: p.peak)
        if grown.peak > plan.peak or any(grown.offsets[k] != v for k, v in plan.offsets.items()):
            self._lay(grown)
        self.plan = self._arena.plan = grown
        for step in self.steps:
            size = sizes.get(step.node)
            if step.call is not None and size:
                step.call.set(workspace=self._arena.room(workspace_of(step.node), size))

    def _lay(self, plan: Plan) -> None:
        """All calls over a new arena; that from before is given back first."""
        self.steps, self._readers, self._states = [], {}, {}
        self._views, self._pieces = {}, None
        for value in [v for n in self.graph.nodes for v in n.results if v not in self.outside]:
            self.tensors.pop(value, None)
        self._arena = None
        self.plan, self._arena = plan, Arena(self.backend, self.graph, plan, self.over)
        for node in self.graph.nodes:
            if node.is_view:
                shown = next(node.reads)
                self.tensors[node.out] = memory.see(self.backend, node, self.tensors[shown])
                self._views.setdefault(shown, []).append(node)
            else:
                self._add(node)

    def _add(self, node: Node) -> None:
        row = self.graph.table[node.op]
        for out in node.outs:
            if out is not None and out not in self.outside:
                self.tensors[out] = self._arena.tensor(out)
        step = Step(node, row, None)
        self._bind(step)
        self.steps.append(step)
        for name, operand in self._named(row, node):
            for value in values_of(operand):
                self._readers.setdefault(value, []).append((step, name, operand))
        for before, after in memory.states(row, node):
            self.tensors[after] = self.tensors[before]
            self._states.setdefault(before, []).append(after)

    def _bind(self, step: Step) -> None:
        from aicf_rt import Unsupported

        tensors, options = self.arguments(step)
        kernel = self.choose(step.node)
        try:
            step.call = self.backend.prepare(
                step.row.name, *tensors, **options, **({"kernel": kernel} if kernel else {})
            )
        except Unsupported as error:
            self._fall(step, error)
        else:
            step.why, self._pieces = "", None

    def _fall(self, step: Step, error: Exception) -> None:
        """From now on the step has no call, where its row has a fallback."""
        if self.backend.strict or step.row.aten is None:
            raise error
        step.call, step.why = None, str(error)
        self._pieces = None

    def arguments(self, step: Step) -> tuple[list[Any], dict[str, Any]]:
        """Tensors and outs by position, the rest by name, as the typed form takes them."""
        row, node = step.row, step.node
        named = dict(self._named(row, node))
        positional = [self.resolve(named[p.name]) for p in (*row.tensors, *row.outs)]
        scalars = {p.name: self.resolve(named[p.name]) for p in row.scalars}
        attrs = {name: value for name, value in node.attrs.items() if name != "dtype"}
        return positional, {**scalars, **attrs}

    @staticmethod
    def _named(row: Row, node: Node) -> Iterable[tuple[str, Any]]:
        """Every operand and out of a node by the name of its parameter."""
        yield from memory.operands(row, node)
        for out, value in zip(row.outs, node.outs, strict=True):
            yield out.name, value

    def resolve(self, operand: Any) -> Any:
        """Values as tensors and numbers."""
        if isinstance(operand, tuple):
            return [self.resolve(part) for part in operand]
        return self.tensors[operand] if isinstance(operand, Value) else operand

    def readers(self, value: Value) -> Sequence[tuple[Step, str]]:
        """The steps that read a value, and as which of their parameters."""
        return [(step, name) for step, name, _ in self._readers.get(value, ())]

    # ---- what is another than before -----------------------------------------------------------

    def put(self, value: Value, tensor: Any, again: bool = False) -> None:
        """From the next run on `value` is this tensor, or this number. `again`: though it is the
        same object, its memory is another."""
        if not again and _is_same(value, self.tensors.get(value), tensor):
            return
        self.tensors[value] = tensor
        for step, name, operand in self._readers.get(value, ()):
            step.changed[name] = tensor if operand is value else self.resolve(operand)
            self._changed[step] = None
        for state in self._states.get(value, ()):
            self.put(state, tensor, again)
        for node in self._views.get(value, ()):
            self.put(node.out, memory.see(self.backend, node, tensor))

    def settle(self) -> None:
        """Gives the calls what was put since they were launched."""
        if not self._changed:
            return
        self.version += 1
        for step in list(self._changed):
            self._set(step)
            step.changed = {}
            del self._changed[step]  # not before: what a call refuses, the next run gives it again

    def _set(self, step: Step) -> None:
        """What no kernel takes falls back, as op by op; what fell back may have a kernel now."""
        from aicf_rt import Unsupported

        if step.call is None:
            self._bind(step)
            return
        try:
            try:
                step.call.set(**step.changed)
            except Unsupported:  # of another kernel, perhaps, that needs a larger workspace
                if not _workspace_size(step.call):
                    raise
                step.call.set(**step.changed, workspace=None)
        except Unsupported as error:
            self._fall(step, error)

    # ---- running it ----------------------------------------------------------------------------

    def run(self) -> None:
        """Launches every step, with what was put."""
        if self._changed:
            self.settle()
        for calls, names, step in self._pieces or self.pieces:
            if step is None:
                self.backend.run(calls, names)
            else:
                self.fall_back(step)

    @property
    def pieces(self) -> list[Piece]:
        """Calls that follow each other, and steps that have none, in their order."""
        if self._pieces is None:
            self._pieces = []
            for step in self.steps:
                if step.call is None:
                    self._pieces.append(([], [], step))
                    continue
                if not self._pieces or self._pieces[-1][2] is not None:
                    self._pieces.append(([], [], None))
                self._pieces[-1][0].append(step.call)
                self._pieces[-1][1].append(step.name)
        return self._pieces

    def run_step(self, step: Step) -> None:
        if step.call is None:
            self.fall_back(step)
        else:
            step.call()

    def fall_back(self, step: Step) -> None:
        """Through the backend, which knows the fallback and counts it."""
        tensors, options = self.arguments(step)
        count = len(step.row.tensors)
        outs = zip(step.row.outs, tensors[count:], strict=True)
        given = {out.name: tensor for out, tensor in outs if tensor is not None}
        self.backend.call(step.row.name, *tensors[:count], **given, **options)


def _workspace_size(call: Any) -> int:
    """Of a recorded call none is known."""
    return int(getattr(call, "workspace_size", 0))


def _is_same(value: Value, a: Any, b: Any) -> bool:
    """One tensor, or two numbers that are alike in value and kind: NaN is like itself, and 0.0 is
    not -0.0."""
    if a is b:
        return True
    if not isinstance(value.type, ScalarType) or hasattr(a, "shape") or hasattr(b, "shape"):
        return False
    if a == b:
        return type(a) is type(b) and (a != 0 or str(a) == str(b))
    return type(a) is type(b) and a != a and b != b
