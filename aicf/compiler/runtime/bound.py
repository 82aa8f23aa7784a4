"""An executor's graph for one value of each symbol: what runs it, and what the last run was given.

A run that is given the very objects of the last one, or others that are like them, needs no checks:
what differs is put in its place.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.types import ScalarType
from aicf.compiler.runtime.alike import alike, mover
from aicf.compiler.runtime.overlap import Apart
from aicf.compiler.runtime.program import Program

_NOTHING = -1
_NUMBERS = (int, float, bool)


@dataclass(slots=True)
class Repeat:
    """What a run that is given the same comes to: a graph or a list of calls to launch, or what is
    called, and what the run gives. `numbers`, as `aicf_rt.Again` has them, may be others: they are
    written to `cells`, and kept in `kept`."""

    work: Any
    result: Any
    cells: Any = None
    numbers: tuple[tuple[Any, ...], ...] = ()
    kept: dict[Value, Any] = field(default_factory=dict)

    def run(self) -> Any:
        if isinstance(self.work, list):
            sys.modules["aicf_rt"].run(self.work)  # who has calls has the runtime
        else:
            self.work()
        return self.result


class Runner(Protocol):
    """Runs one graph without symbols: op by op, replayed, or captured. `own`: the outputs that its
    next run overwrites. `putters`, by names of inputs, are sooner than `put`: False of numbers
    that are not plainly right. They may go under way. `repeat`: None where a run is more than
    that."""

    putters: dict[str, Callable[[Any], bool]]

    @property
    def repeat(self) -> Repeat | None: ...
    @property
    def program(self) -> Program | None: ...
    @property
    def own(self) -> dict[Value, Any]: ...
    def put(self, value: Value, tensor: Any, again: bool = False) -> None: ...
    def run(self) -> Any: ...


class Bound:
    """`make` gives the runner, for all that the first run was given, by value of `graph`; `name` is
    what the symbols are; `backend` works on the stream that the run works on."""

    def __init__(
        self, graph: Graph, name: str, backend: Any,
        make: Callable[[Bound, dict[Value, Any]], Runner],
    ) -> None:  # fmt: skip
        self.graph, self.name, self.backend, self._make = graph, name, backend, make
        self.runner: Runner | None = None
        self.run: Callable[[], Any]  # its own
        self._apart = Apart(graph)
        self._given = _NOTHING  # else the runner has the params of that version, and what follows
        self.inputs: tuple[Any, ...] = ()
        self._order = tuple(graph.inputs)
        self.named: dict[str, Any] = {}
        self._putters: dict[str, Callable[[Any], bool]] = {}  # the runner's
        self._by_name = {v.name: v for v in graph.inputs}
        self._current: list[tuple[Callable[[], Any], Any]] = []
        self._asked: list[tuple[Callable[[], Any], Any]] = []  # what has to be as it was: that is
        self._answers: tuple[tuple[Callable[[], Any], Any], ...] = ()  # these, and layouts
        self._watched: tuple[Any, ...] = ()  # of these
        self._moves: dict[Value, tuple[Callable[[], Any], Any]] = {}  # the same of tensors

    @property
    def program(self) -> Program | None:
        """What is launched; None op by op."""
        return None if self.runner is None else self.runner.program

    def takes(self, inputs: tuple[Any, ...], named: dict[str, Any], version: int) -> bool:
        """Whether a run may begin: all that it is given is that of the last run, or was put in its
        place. False: it has to be checked. Raises TypeError as `Apart.check`."""
        before, count = self.inputs, len(inputs)
        if version != self._given or count != len(before):
            return False
        if self._asked:
            for ask, answer in self._asked:
                if ask() != answer:
                    return False
        if count and (  # most have one or two
            inputs[0] is not before[0]
            or (count > 1 and inputs[1] is not before[1])
            or (count > 2 and not all(map(operator.is_, inputs, before)))
        ):
            for value, known, x in zip(self._order, before, inputs, strict=False):
                if x is not known and not self._replaces(value, known, x):
                    return False
            self.inputs, self._given = inputs, version
        known, putters = self.named, self._putters
        if len(named) != len(known):
            return False
        for name in named:
            if name not in known:
                return False
            x = named[name]
            if x is known[name]:
                continue
            if name in putters and putters[name](x):
                known[name] = x
            elif self._replaces(self._by_name[name], known[name], x):
                known[name], self._given = x, version
            else:
                return False
        return True

    def _replaces(self, value: Value, before: Any, x: Any) -> bool:
        """Puts what is like the one before, and then it is not known any more what all of it is."""
        self._given = _NOTHING
        if isinstance(value.type, ScalarType):
            if type(x) not in _NUMBERS:
                return False
        elif not alike(x, before) or not self._apart.takes(value, x):
            return False
        assert self.runner is not None
        self.runner.put(value, x)
        if value in self._moves:
            self._watch({value: x})
        return True

    def give(
        self, given: dict[Value, Any], version: int, inputs: tuple[Any, ...],
        named: dict[str, Any], current: Callable[[], Any] | None = None,
    ) -> Runner:  # fmt: skip
        """The same with all of it, params too, that was checked. `current` says on which stream a
        run works."""
        self._given = _NOTHING
        self._apart.check(given)
        runner, self.runner = self.runner, None  # one that takes some of them alone is dropped
        if runner is None:
            runner = self._make(self, given)
        else:
            for value, x in given.items():
                ask, place = self._moves.get(value, (None, None))
                runner.put(value, x, ask is not None and ask() != place)
        self.runner, self.run, self._putters = runner, runner.run, runner.putters
        self._apart.keep(runner.own)
        self._current = [(current, current())] if current else []
        self._watch(given)
        self.inputs, self.named, self._given = inputs, named, version
        return runner

    def hold(self, again: Any) -> None:
        """The next run may be the last one again, where all that it is given is."""
        repeat = None if self.runner is None else self.runner.repeat
        if repeat is not None and self._given != _NOTHING:
            again.hold(
                self.inputs, self.named, self._watched, self._answers, repeat.work, repeat.result,
                repeat.cells, repeat.numbers, repeat.kept,
            )  # fmt: skip

    def _watch(self, given: dict[Value, Any]) -> None:
        for value, x in given.items():
            ask = mover(x) if hasattr(x, "shape") else None
            if ask:
                self._moves[value] = ask, ask()
            else:
                self._moves.pop(value, None)
        asks = [ask for ask, _ in self._moves.values()]
        layouts = [ask for ask in asks if isinstance(ask, functools.partial)]  # asked as one
        self._watched = tuple(ask.args[0][0] for ask in layouts)
        others = [pair for pair in self._moves.values() if pair[0] not in layouts]
        self._answers = (*self._current, *others)
        self._asked = [*self._answers]
        if layouts:
            ask = functools.partial(layouts[0].func, self._watched)
            self._asked.append((ask, ask()))
