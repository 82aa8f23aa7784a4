"""An executor's graph for one value of each symbol: what runs it, and what the last run was given.

A run that is given the very objects of the last one, or others that are like them, needs no checks:
what differs is put in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.types import ScalarType
from aicf.compiler.runtime.alike import alike, mover
from aicf.compiler.runtime.overlap import Apart

_NUMBERS = (int, float, bool)


class Runner(Protocol):
    """Runs one graph without symbols: op by op, replayed, or captured. `own`: the outputs that its
    next run overwrites."""

    @property
    def own(self) -> dict[Value, Any]: ...
    def put(self, value: Value, tensor: Any, again: bool = False) -> None: ...
    def run(self) -> Any: ...


class Bound:
    """`make` gives the runner, for all that the first run was given, by value of `graph`; `name` is
    what the symbols are."""

    def __init__(
        self, graph: Graph, name: str, make: Callable[[Bound, dict[Value, Any]], Runner]
    ) -> None:
        self.graph, self.name, self._make = graph, name, make
        self.runner: Runner | None = None
        self._apart = Apart(graph)
        self._version = -1  # of the params that the runner has
        self._is_given = False  # what follows is what the runner has
        self._inputs: tuple[Any, ...] = ()
        self._order = tuple(graph.inputs)
        self._named: dict[str, Any] = {}
        self._by_name = {v.name: v for v in graph.inputs}
        self._moves: dict[Value, tuple[Callable[[], Any], Any]] = {}

    def takes(self, inputs: tuple[Any, ...], named: dict[str, Any], version: int) -> bool:
        """Whether a run may begin: all that it is given is that of the last run, or was put in its
        place. False: it has to be checked. Raises TypeError as `Apart.check`."""
        before, before_named = self._inputs, self._named
        if (
            not self._is_given or version != self._version
            or len(inputs) != len(before) or len(named) != len(before_named)
        ):  # fmt: skip
            return False
        for ask, place in self._moves.values() if self._moves else ():
            if ask() != place:
                return False
        for x, known, value in zip(inputs, before, self._order, strict=False):
            if x is not known and not self._replaces(value, known, x):
                return False
        for name, x in named.items():
            known = before_named.get(name, before_named)
            if x is not known and (
                known is before_named or not self._replaces(self._by_name[name], known, x)
            ):
                return False
        self._inputs, self._named, self._is_given = inputs, named, True
        return True

    def _replaces(self, value: Value, before: Any, x: Any) -> bool:
        """Puts what is like the one before, and then it is not known any more what all of it is."""
        self._is_given = False
        if isinstance(value.type, ScalarType):
            if type(x) not in _NUMBERS:
                return False
        elif not alike(x, before) or not self._apart.takes(value, x):
            return False
        assert self.runner is not None
        self.runner.put(value, x)
        if value in self._moves or mover(x):
            self._watch(value, x)
        return True

    def give(
        self, given: dict[Value, Any], version: int, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> Runner:
        """The same with all of it, params too, that was checked."""
        self._is_given = False
        self._apart.check(given)
        runner, self.runner = self.runner, None  # one that takes some of them alone is dropped
        if runner is None:
            runner = self._make(self, given)
        else:
            for value, x in given.items():
                ask, place = self._moves.get(value, (None, None))
                runner.put(value, x, ask is not None and ask() != place)
        self.runner = runner
        self._apart.keep(runner.own)
        for value, x in given.items():
            self._watch(value, x)
        self._version = version
        self._inputs, self._named, self._is_given = inputs, named, True
        return runner

    def _watch(self, value: Value, x: Any) -> None:
        ask = mover(x) if hasattr(x, "shape") else None
        if ask:
            self._moves[value] = ask, ask()
        else:
            self._moves.pop(value, None)
