"""An executor that knows what it was made from, and can show it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from aicf.compiler.ir import packed
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node
from aicf.compiler.kernels.registry import NoKernel
from aicf.compiler.kernels.request import Request
from aicf.compiler.runtime.executor import ExecutorV2

if TYPE_CHECKING:
    from aicf.compiler.kernels.selector import Choice, Selector
    from aicf.compiler.report import Report


@dataclass(eq=False)
class Made:
    """What compiling gave. `chosen` has kernels by the call, for `sizes`; `data` the constants that
    passes made; `seconds` what each part took."""

    source: Graph
    graph: Graph
    sizes: dict[str, int]
    selector: Selector
    frozen: frozenset[str] = frozenset()
    records: Sequence[Any] = ()
    data: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    is_kept: bool = False  # it was found on disk
    packed: str = ""  # what was kept of the graph for `sizes`
    of_sizes: Graph | None = None  # the same, once somebody asked for it

    def bound(self) -> Graph:
        """For the sizes that it was compiled for."""
        if self.of_sizes is None and self.packed:
            self.of_sizes = packed.unpack(self.packed, self.graph.table)
        if self.of_sizes is None:
            self.of_sizes = self.graph.bind(self.sizes) if self.sizes else self.graph
        return self.of_sizes


class Executable(ExecutorV2):
    """Runs `graph`, which passes made of `source`; is called as ExecutorV2 is."""

    def __init__(
        self, made: Made, backend: Any, *, params: Mapping[str, Any] | None = None,
        constants: Mapping[str, Any] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.made = made
        self._is_loading = True  # frozen params come with what is made
        entries = {v.name for v in made.graph.entries}
        gone = {v.name for v in made.source.entries} - entries  # passes took them in
        given = {name: x for name, x in (constants or {}).items() if name not in gone}
        held = {name: x for name, x in (params or {}).items() if name not in gone}
        super().__init__(
            made.graph, backend, params=held, constants={**given, **made.data},
            selector=cast("Selector", _Known(made)), **options,
        )  # fmt: skip
        self._is_loading = False

    def placed(self, graph: Graph) -> Graph:
        """What was kept was checked before it was, by the same compiler for the same device."""
        return graph if self.made.is_kept else super().placed(graph)

    def bound_graph(self, sizes: Mapping[str, int]) -> Graph:
        return self.made.bound() if sizes == self.made.sizes else super().bound_graph(sizes)

    def load(self, name: str, array: Any) -> None:
        self._check_frozen(name)
        super().load(name, array)

    def zero(self, *names: str) -> None:
        for name in names:
            self._check_frozen(name)
        super().zero(*names)

    def adopt(self, name: str, tensor: Any) -> None:
        self._check_frozen(name)
        super().adopt(name, tensor)

    def _check_frozen(self, name: str) -> None:
        if name in self.made.frozen and not self._is_loading:
            raise ValueError(f"{name} is frozen: passes computed with it. Compile anew")

    @property
    def source(self) -> Graph:
        """The graph as it was given."""
        return self.made.source

    @property
    def records(self) -> Sequence[Any]:
        """A PassRecord for each pass."""
        return self.made.records

    @property
    def bound(self) -> Graph | None:
        """The graph for the sizes that ran last, else for those that it was compiled for."""
        if self.last is not None:
            return self.last.graph
        is_known = self.made.sizes or not self.graph.symbols
        return self.made.bound() if is_known else None

    @property
    def plan(self) -> Any:
        """Where everything lies in memory, for the sizes of `bound`; None before they are known,
        and while a param is missing."""
        return getattr(self._shown_program, "plan", None)

    @property
    def over(self) -> Mapping[Any, Any]:
        """What is written over another value in that plan, and which has the place."""
        return getattr(self._shown_program, "over", {})

    @property
    def _shown_program(self) -> Any:
        last = self.last
        if last is not None:
            return last.program
        if not self.made.sizes and self.graph.symbols:
            return None
        if any(v not in self._params for v in self.graph.params):
            return None
        return self.program(**self.made.sizes)

    @property
    def choices(self) -> list[tuple[Node, Choice | None]]:
        """The kernel of each node that computes, with the ones that lost, for the sizes of `bound`;
        None of a node that no kernel serves."""
        return [] if self.bound is None else self.choices_of(self.bound)

    def choices_of(self, graph: Graph) -> list[tuple[Node, Choice | None]]:
        """The same of this graph for any sizes."""
        selector = self.made.selector
        nodes = [n for n in graph.nodes if not n.is_view]
        return [(n, choice_of(selector, Request.of_node(graph.table, n))) for n in nodes]

    @property
    def last_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """By position and by name, of the last run; None where there was none."""
        return (self.last.inputs, self.last.named) if self.last else None

    def report(self, *inputs: Any, **named: Any) -> Report:
        """What was made of the graph, as a page. Each op is timed, on these inputs or on those of
        the last run; not where there are none."""
        from aicf.compiler.report import Report

        return Report.of(self, *inputs, **named)


class _Known:
    """A selector that looks up what was chosen when it was compiled. Of an op that no kernel serves
    it chooses none, so that the op may fall back."""

    def __init__(self, made: Made) -> None:
        self.made = made

    def choose(self, request: Request) -> _Named:
        kernel = self.made.chosen.get(str(request))
        if kernel is not None:
            return _Named(kernel or None)
        choice = choice_of(self.made.selector, request)
        return _Named(choice.kernel if choice else None)


@dataclass(frozen=True, slots=True)
class _Named:
    kernel: str | None


def choice_of(selector: Selector, request: Request) -> Choice | None:
    """None where no kernel serves the call: it may fall back."""
    try:
        return selector.choose(request)
    except (_unsupported(), NoKernel):
        return None


@functools.cache
def _unsupported() -> type[Exception]:
    from aicf_rt import Unsupported

    found: type[Exception] = Unsupported
    return found
