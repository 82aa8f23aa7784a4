"""A program as one graph of the backend: captured at its first run, launched at once from then on.

What changes from run to run is never in the graph. Numbers are scalars on the device, which
each launch is fed; of an input that comes as another tensor again and again the graph reads a copy,
made before each launch; one that is updated, or that outputs lie in, is read where it lies, and the
graph is updated when it comes as another tensor. Capturing runs nothing: no state advances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from aicf.backend import nvtx
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.types import TensorType
from aicf.compiler.runtime import memory
from aicf.compiler.runtime.alike import alike
from aicf.compiler.runtime.bound import Repeat
from aicf.compiler.runtime.outputs import Outputs, lies_in_entries, packed
from aicf.compiler.runtime.program import Program, Step
from aicf.compiler.runtime.replay import Replay
from aicf.compiler.runtime.scalars import Scalars

Inputs = Literal["auto", "copy", "repoint"]
_MOVES = 2  # of an input, after which "auto" copies it


class NotCapturable(RuntimeError):
    """A step of a program has no call."""


class Captured:
    """Runs a prepared program as one graph; where that fails, call by call for ever after, and
    `refused` is told why. `scalars` are what its calls have in the place of numbers."""

    def __init__(
        self, program: Program, scalars: Scalars, fresh: bool, inputs: Inputs,
        refused: Callable[[Exception], None], branches: int = 1,
    ) -> None:  # fmt: skip
        self.program, self.scalars, self.inputs = program, scalars, inputs
        # Backends that have no branches need not know of them.
        self.options = {"branches": branches} if branches > 1 else {}
        self.outputs = Outputs(program, fresh)
        self._refused = refused
        self.graph: Any = None
        self._version = -1  # of the program, that the graph is of
        self._repeat: Repeat | None = None  # all there is to do, where nothing was put
        self._replay: Replay | None = None  # once it has failed
        makers = {v.name: scalars.putter(v) for v in scalars.tensors}
        self.putters = {name: put for name, put in makers.items() if put is not None}
        graph = program.graph
        kept = {*memory.written_entries(graph), *lies_in_entries(graph)}
        self._copyable = {
            v for v in graph.inputs if isinstance(v.type, TensorType) and v not in kept
        }
        self._copies: dict[Value, list[Any]] = {}  # the tensor of the run, and what the graph reads
        self._moves: Counter[Value] = Counter()
        if inputs == "copy":
            for value in self._copyable:
                self._copy(value, program.tensors[value])

    # ---- what changes --------------------------------------------------------------------------

    @property
    def own(self) -> dict[Value, Any]:
        return self.outputs.own

    def put(self, value: Value, tensor: Any, again: bool = False) -> None:
        """From the next run on."""
        if self._replay is not None:
            self._replay.put(value, tensor, again)
            return
        if value in self.scalars.tensors:
            self._put_number(value, tensor)
            return
        self._repeat = None
        if value in self._copies:
            self._put_copied(value, tensor)
        elif value in self._copyable and self.inputs == "auto" and self._moves[value] == _MOVES:
            self.program.put(value, tensor, again)
            self.program.settle()  # refuses what calls refuse
            self._copy(value, tensor)
        else:
            self._moves[value] += self.graph is not None
            self.program.put(value, tensor, again)

    def _put_number(self, value: Value, number: Any) -> None:
        """What is not plainly right, calls are asked about: by the same number they would have been
        given without a graph."""
        scalars = self.scalars
        if not scalars.holds(value, number):
            for step, name in self.program.readers(value):
                if step.call is not None:
                    step.call.set(**{name: number})
                    step.call.set(**{name: scalars.tensors[value]})
        scalars.put(value, number)

    def _copy(self, value: Value, tensor: Any) -> None:
        assert isinstance(value.type, TensorType)
        made = memory.allocate(self.program.backend, value.type)
        self._copies[value] = [tensor, made]
        self.program.put(value, made)

    def _put_copied(self, value: Value, tensor: Any) -> None:
        if alike(tensor, self._copies[value][0]):
            self._copies[value][0] = tensor
            return
        self.program.put(value, tensor)
        self.program.settle()
        self._copies[value][0] = tensor
        self.program.put(value, self._copies[value][1])

    # ---- running -------------------------------------------------------------------------------

    def run(self) -> Any:
        if self._repeat is not None and not nvtx.asked:
            return self._repeat.run()
        return self._run()

    @property
    def repeat(self) -> Repeat | None:
        return self._repeat if self._replay is None else self._replay.repeat

    def _run(self) -> Any:
        if self._replay is None:
            self.capture()
        if self._replay is not None:
            return self._replay.run()
        self._launch()
        found = packed(self.outputs.after_launch())
        if not self._copies and not self.outputs.fresh:
            scalars, work = self.scalars, self.graph
            work = work if callable(work) else work.launch
            self._repeat = Repeat(work, found, scalars.host, scalars.cells, scalars.numbers)
        return found

    def launch(self) -> list[Any]:
        """A run whose outputs are those that the next one overwrites."""
        if self._replay is None:
            self.capture()
        if self._replay is None:
            self._launch()
        else:
            self.program.run()
        return [self.program.tensors[v] for v in self.outputs.values]

    def _launch(self) -> None:
        for value, (tensor, made) in self._copies.items():
            memory.copy_into(self.program.backend, value, made, tensor)
        if nvtx.asked and nvtx.is_on():
            with nvtx.range(f"graph {self.program.graph.name}, {len(self.program.steps)} launches"):
                self.graph.launch()
        else:
            self.graph.launch()

    def capture(self) -> None:
        """Sees to it that the graph is that of the calls as they are now."""
        program = self.program
        program.settle()  # here the user's mistakes come up, which are no reason not to capture
        if self._version == program.version:
            return
        try:
            work = [_call(step) for step in program.steps]
            if self.graph is None:
                feed = (self.scalars.host, self.scalars.buffer) if self.scalars.tensors else None
                self.graph = program.backend.capture(work, feed, **self.options)
            else:
                self.graph.update(work)
            self._version = program.version
        except Exception as error:  # whatever a backend says: calls may run all the same
            self._give_up()
            self._refused(error)

    def _give_up(self) -> None:
        self.graph = self._repeat = None
        self.putters.clear()
        for value, number in self.scalars.numbers.items():
            self.program.put(value, number)
        for value, (tensor, _) in self._copies.items():
            self.program.put(value, tensor)
        self._copies.clear()
        self._replay = Replay(self.program, self.outputs.fresh)

    def ready(self) -> Program:
        """The program, whose calls may be launched one by one, with what the next run has."""
        program = self.program
        program.settle()
        if self._replay is None:
            backend = program.backend
            if self.scalars.tensors:
                backend.copy_into(self.scalars.buffer, self.scalars.host)
            for value, (tensor, made) in self._copies.items():
                memory.copy_into(backend, value, made, tensor)
        return program


def _call(step: Step) -> Any:
    if step.call is None:
        raise NotCapturable(f"{step.row.name} falls back: {step.why}")
    return step.call
