"""Passes one after another: each is timed, verified, tried if asked for, and rolled back by name.

    optimised = standard().run(graph)
    print(optimised)  # what each pass did: its diff, and what it refused

A pass that raises, loops or lies leaves the graph as it was and says so in its record; the others
go on.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from aicf.compiler.given import check_graph, check_kind, check_pass
from aicf.compiler.ir.errors import IRError, Location
from aicf.compiler.ir.graph import Graph, Node, Value
from aicf.compiler.kernels.store import Store
from aicf.compiler.passes.numeric import Budget
from aicf.compiler.passes.patience import OutOfPatience, within
from aicf.compiler.passes.record import Optimised, PassRecord
from aicf.compiler.passes.rule import Applied, Context, Fired, Pass, Refused
from aicf.compiler.passes.trial import Jury, NotTried
from aicf.compiler.runtime import memory
from aicf.dim import Symbol

if TYPE_CHECKING:
    from aicf.compiler.passes.bisect import Guilty

Trial = Literal["numeric", "full"]


class Pipeline:
    """`passes` are rules and other passes, in their order. `verify`: whether each graph is checked
    by every rule of the IR. `trial`: "numeric" keeps a pass only if the result is as exact as that
    of the first graph, within a budget; "full" only if it is not slower either. `patience`: seconds
    after which a pass is taken to come to no end."""

    def __init__(
        self, passes: Sequence[Pass], *, verify: bool = True, trial: Trial | None = None,
        budget: Budget | None = None, store: Store | None = None, patience: float | None = 60.0,
    ) -> None:  # fmt: skip
        if trial not in (None, "numeric", "full"):
            raise ValueError(f"trial is None, 'numeric' or 'full', not {trial!r}")
        for one in passes:
            check_pass(one)
        check_kind("budget", budget, Budget)
        check_kind("store", store, Store)
        if patience is not None and not (_is_number(patience) and patience > 0):
            raise ValueError(f"patience is seconds, more than 0, or None, not {patience!r}")
        self.passes = tuple(passes)
        self.verify, self.trial, self.budget, self.store = verify, trial, budget, store
        self.patience = patience

    def run(self, graph: Graph, context: Context | None = None) -> Optimised:
        """The graph after all passes that were not rolled back; the given one is not changed.
        Raises IRError where that is none, ValueError where a trial lacks a backend, NotTried where
        the graph cannot be tried."""
        check_graph(graph)
        check_kind("context", context, Context)
        context = context or Context()
        if self.verify:
            graph.verify()
        jury = self._jury(graph, context)
        start = time.perf_counter()
        records: list[PassRecord] = []
        made: dict[str, Any] = {}
        texts: dict[int, str] = {}
        for one in self.passes:
            record, taken = self._step(one, graph, context, jury, made)
            record.texts = texts
            records.append(record)
            if taken is not None:
                graph = taken.graph
                made |= taken.data
                data = {**context.data, **taken.data}
                context = dataclasses.replace(context, data=data) if taken.data else context
        return Optimised(graph, tuple(records), made, time.perf_counter() - start)

    def bisect(
        self, graph: Graph, backend: Any, data: Mapping[str, Any] | None = None,
        sizes: Mapping[str, int] | None = None, context: Context | None = None,
    ) -> Guilty | None:  # fmt: skip
        """The rule, and its rewrite, that makes a result wrong on this data; None where all are
        right. See `passes.bisect`."""
        from aicf.compiler.passes.bisect import bisect

        return bisect(
            graph, self.passes, backend, data, sizes=sizes, budget=self.budget, context=context
        )

    def _jury(self, graph: Graph, context: Context) -> Jury | None:
        if self.trial is None:
            return None
        if context.backend is None:
            raise ValueError("a trial runs graphs: give Context(backend=...)")
        sizes = {k: n for k, n in context.options.get("sizes", {}).items() if k in graph.symbols}
        return Jury(
            graph, context.backend, context.data, sizes, self.budget, self.trial == "full",
            self.store,
        )  # fmt: skip

    def _step(
        self, one: Pass, graph: Graph, context: Context, jury: Jury | None, made: dict[str, Any]
    ) -> tuple[PassRecord, Applied | None]:
        """What a pass did, and what it gave, None where nothing of it is taken."""
        start = time.perf_counter()
        record = PassRecord(one.name, doc_of(one), 0.0, graph, graph)
        taken: Applied | None = None
        try:
            applied = run_alone(one, graph, context, self.patience)
            check_told(applied)
            check_data(graph, applied.data)
            record.fired, record.refused = applied.fired, applied.refused
            if applied.graph is not graph:
                record.rejected = applied.graph
                check(graph, applied.graph, self.verify)
                if jury is not None:
                    record.verdict = jury.judge(one, graph, applied.graph, {**made, **applied.data})
                    if not record.verdict.kept:
                        raise RolledBack(record.verdict.why)
                record.result, record.rejected, taken = applied.graph, None, applied
        except NotTried:  # by no pass's fault
            raise
        except Exception as error:  # whatever a rule of somebody's raises
            record.failed = said(error, one)
        record.seconds = time.perf_counter() - start
        return record, taken


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


class RolledBack(Exception):
    """What a pass made is not taken; says why."""


def run_alone(one: Pass, graph: Graph, context: Context, patience: float | None = None) -> Applied:
    """What a pass gives, which must leave the graph that it was given alone. Raises OutOfPatience
    after so many seconds."""
    before = _Lists.of(graph)
    try:
        applied = within(patience, lambda: one.run(graph, context))
        if not isinstance(applied, Applied):
            raise RolledBack(f"it gives {applied!r}, and no Applied")
    finally:
        if _Lists.of(graph) != before:
            before.put_back(graph)
            raise RolledBack("it changed the graph that it was given")
    return applied


@dataclass(frozen=True, slots=True)
class _Lists:
    """What a graph consists of; all that can be changed of it."""

    inputs: list[Value]
    params: list[Value]
    constants: dict[Value, bool | int | float | None]
    nodes: list[Node]
    outputs: list[Value]
    symbols: dict[str, Symbol]

    @classmethod
    def of(cls, graph: Graph) -> Self:
        return cls(
            list(graph.inputs), list(graph.params), dict(graph.constants), list(graph.nodes),
            list(graph.outputs), dict(graph.symbols),
        )  # fmt: skip

    def put_back(self, graph: Graph) -> None:
        graph.inputs, graph.params, graph.constants = self.inputs, self.params, self.constants
        graph.nodes, graph.outputs, graph.symbols = self.nodes, self.outputs, self.symbols
        graph.__post_init__()


def check(before: Graph, after: Graph, verify: bool = True) -> None:
    """Raises RolledBack unless the graph after a pass is one, if `verify` asks for that, and both
    are given, give back and update the same."""
    try:
        if verify:
            after.verify()
    except IRError as error:
        raise RolledBack(f"its graph is none: {error}") from error
    for what, old, new in (
        ("takes the inputs", before.inputs, after.inputs),
        ("has the params", before.params, after.params),
        ("updates", memory.written_entries(before), memory.written_entries(after)),
    ):
        a, b = [repr(v) for v in old], [repr(v) for v in new]
        if sorted(a) != sorted(b) or (what == "takes the inputs" and a != b):
            told = [", ".join(names) or "none" for names in (b, a)]
            raise RolledBack(f"it {what} {told[0]}, and not {told[1]}")
    types = [[str(v.type) for v in g.outputs] for g in (before, after)]
    if types[0] != types[1]:
        raise RolledBack(f"it gives back {', '.join(types[1])}, and not {', '.join(types[0])}")


def check_told(applied: Applied) -> None:
    """Raises RolledBack unless it says what it did as records and the report show it."""
    for name, kind in (("fired", Fired), ("refused", Refused)):
        for one in getattr(applied, name):
            if not isinstance(one, kind):
                raise RolledBack(f"its {name} has {one!r}, and no {kind.__name__}")
            for part in (getattr(one, f.name) for f in dataclasses.fields(one)):
                texts = part if isinstance(part, tuple) else (part,)
                if not all(isinstance(text, str | Location | None) for text in texts):
                    raise RolledBack(f"its {name} says {part!r}, and no text")


def check_data(before: Graph, data: Any) -> None:
    """Raises RolledBack unless it is of constants that were not there before: what was given stays
    what it is."""
    if not isinstance(data, Mapping):
        raise RolledBack(f"its data is {data!r}, and not arrays by name")
    given = {v.name for v in before.entries} & set(data)
    if given:
        raise RolledBack(f"it gives data for {', '.join(sorted(given))}, which has its own")


def said(error: Exception, one: Pass) -> str:
    """In a line, with the place in the pass, else where it was raised."""
    if isinstance(error, RolledBack):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    members = [m for rule in getattr(one, "rules", (one,)) for m in vars(type(rule)).values()]
    files = {m.__code__.co_filename for m in members if hasattr(m, "__code__")}
    own = [frame for frame in frames if frame.filename in files] or frames
    place = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
    first = (_message(error).splitlines() or [""])[0]
    if isinstance(error, OutOfPatience):
        return f"{first}, and was{place}"
    return f"{type(error).__name__}: {first}{place}" if first else f"{type(error).__name__}{place}"


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception as other:  # of an error of somebody's, which cannot even be said
        return f"its message raises {type(other).__name__}"


def doc_of(one: Pass) -> str:
    """The equation of a rule, those of a group, what another pass says it does."""
    return inspect.cleandoc(str(one.__doc__ or ""))


def standard(**options: Any) -> Pipeline:
    """What makes a graph faster and as exact as before, in an order in which each finds what the
    ones before leave; `options` as of Pipeline. It is for graphs after differentiation."""
    from aicf.compiler.passes.canonicalise import canonicalise
    from aicf.compiler.passes.cse import Cse
    from aicf.compiler.passes.dce import Dce
    from aicf.compiler.passes.fold import Fold
    from aicf.compiler.passes.layout import Layout
    from aicf.compiler.passes.rules import fusing, simplifying

    simple = canonicalise(simplifying())
    # weights that are fixed are made before their layout is chosen, and turned after it
    passes: tuple[Pass, ...] = (
        simple, Cse(), *fusing(), Fold(), Layout(), Fold(), simple, Cse(), Dce(),
    )  # fmt: skip
    return Pipeline(passes, **options)
