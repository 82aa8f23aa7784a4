"""Tries a rule on a graph: kept only if it is as exact as before, within a budget, and not slower.

The one numeric gate and the one paired timing that passes have: both graphs run on the same data,
their errors are those against f64, and their times are taken beside each other.
"""

from __future__ import annotations

import hashlib
import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aicf.compiler.given import check_backend, check_graph, check_kind, check_pass, check_sizes
from aicf.compiler.ir.graph import Graph
from aicf.compiler.kernels import timing
from aicf.compiler.kernels.cost import work_of
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.selector import module_digest
from aicf.compiler.kernels.store import Store
from aicf.compiler.kernels.verdict import Verdict
from aicf.compiler.passes import draw
from aicf.compiler.passes.exact import Results, exact
from aicf.compiler.passes.execution import Execution
from aicf.compiler.passes.numeric import Budget, Finding, Run, judge
from aicf.compiler.passes.rule import Context, Pass
from aicf.compiler.runtime import memory

_POLICY = "1"  # the rules of this file: verdicts under others are void
_SECONDS = 10.0  # that the times of one rule may take
# What f64 on the CPU may take: operations, some seconds of one plain loop.
_MOST = 4e9


class NotTried(ValueError):
    """A rule cannot be tried so; says why, and what to do."""


def trial(
    graph: Graph, rule: Pass, backend: Any, *, data: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None, context: Context | None = None,
    budget: Budget | None = None, timed: bool = True, store: Store | None = None,
) -> Verdict:  # fmt: skip
    """The verdict on a rule, or a pass, on a graph, on the backend's device. `data`: arrays of
    inputs, params and constants by name, random ones for the rest; `sizes`: of symbols; `timed`:
    whether it must not be slower, too; `store`: where a verdict on the same is looked for, and put.
    Raises NotTried, and whatever the rule raises."""
    check_graph(graph)
    check_pass(rule)
    check_backend(backend)
    check_kind("context", context, Context)
    check_kind("budget", budget, Budget)
    check_kind("store", store, Store)
    check_sizes(sizes)
    context = context or Context(backend=backend, data=data or {})
    graph = draw.placed(graph, backend.device)
    draw.check_names(graph, data or {})
    jury = Jury(graph, backend, data=data, sizes=sizes, budget=budget, timed=timed, store=store)
    applied = rule.run(graph, context)
    if applied.graph is graph:
        return jury.verdict(rule.name, "", False, "it changes nothing")
    return jury.judge(rule, graph, applied.graph, applied.data)


class _Incomplete(ValueError):
    """A graph has an entry that the one before has not, and no data for it."""


@dataclass(slots=True)
class _Case:
    """One data, and what is right of it. `before` is what the first graph gives."""

    given: dict[str, Any]
    right: Results
    before: Results


@dataclass(slots=True, eq=False)
class Jury:
    """Of one graph on one backend: whatever passes make of it is judged on the same data, by what
    that graph gives in f64, and by the error that it has itself."""

    graph: Graph
    backend: Any
    data: Mapping[str, Any] | None = None
    sizes: Mapping[str, int] | None = None
    budget: Budget | None = None
    timed: bool = True
    store: Store | None = None
    _cases: list[_Case] = field(default_factory=list)

    def judge(
        self, rule: Pass, before: Graph, after: Graph, made: Mapping[str, Any] | None = None
    ) -> Verdict:
        """Whether `after` may stand for `before`, that another pass may have made of the graph.
        `made`: the data of constants that passes made."""
        key = self._key(rule, before, after, made or {})
        known = self.store.verdicts.of_key(key) if self.store is not None else None
        if known is not None:
            return known
        self.prepare()
        try:
            finding = self.finding(after, made or {})
        except _lost():
            raise
        except Exception as error:  # of whatever a rule made
            return self.verdict(rule.name, key, False, f"its graph does not run: {error}")
        verdict = self.verdict(rule.name, key, finding.is_within, str(finding), finding)
        is_open = False
        if verdict.kept and self.timed:
            pair = self._times(before, after, made or {})
            verdict = self._timed(verdict, pair)
            is_open = pair is None or pair.is_noisy
        if self.store is not None and not is_open:
            self.store.verdicts.put(verdict)
        return verdict

    def finding(self, after: Graph, made: Mapping[str, Any]) -> Finding:
        """The result of a graph that takes most of its budget, on all data."""
        bound = draw.sized(after, self.sizes)
        runs = [
            Run(case.before, self._execution(bound, case, made).run(), case.right)
            for case in self.cases
        ]
        return judge(runs, self.budget or Budget())

    def verdict(
        self, rule: str, key: str, kept: bool, why: str, finding: Finding | None = None
    ) -> Verdict:
        errors = (finding.before, finding.after, finding.budget) if finding else (0.0, 0.0, 0.0)
        device, now = self.backend.info.name or self.backend.device, int(time.time())
        return Verdict(key, rule, self.graph.name, device, kept, why, *errors, None, None, now)

    def prepare(self) -> None:
        """Runs the graph itself, once. Raises NotTried, IRError."""
        assert self.cases

    # ---- errors ---------------------------------------------------------------------------------

    @property
    def cases(self) -> list[_Case]:
        """Three of random numbers; one where all is given. Made once."""
        if not self._cases:
            graph = draw.sized(self.graph, self.sizes)
            self._check(graph)
            given = self.data or {}
            is_random = any(v.name not in given for v in draw.wanted(graph))
            try:
                cases = [self._case(graph, given, i) for i in range(3 if is_random else 1)]
            except _lost():
                raise
            except Exception as error:
                raise NotTried(f"{graph.name} itself does not run: {error}") from error
            self._cases = cases
        return self._cases

    def _case(self, graph: Graph, given: Mapping[str, Any], seed: int) -> _Case:
        """Of positive numbers where others lead to NaNs and infinities."""
        for v in draw.wanted(graph):
            if v.name in given:
                memory.check(v, given[v.name], {})
        drawn = draw.fill(graph, given, seed)
        right = exact(graph, drawn)
        if not all(map(is_finite, right.values())):
            drawn = draw.fill(graph, given, seed, is_positive=True)
            right = exact(graph, drawn)
        return _Case(drawn, right, Execution(graph, self.backend, drawn).run())

    def _execution(self, graph: Graph, case: _Case, made: Mapping[str, Any]) -> Execution:
        given = {**case.given, **made}
        missing = [v.name for v in draw.wanted(graph) if v.name not in given]
        if missing:
            raise _Incomplete(f"nothing says what is in {', '.join(missing)}")
        return Execution(graph, self.backend, given)

    def _check(self, graph: Graph) -> None:
        if self.backend.device == "null":
            raise NotTried("the null backend computes nothing: a trial needs a device with values")
        nodes = (n for n in graph.nodes if not n.is_view)
        flops = sum(work_of(Request.of_node(graph.table, n)).flops for n in nodes)
        if flops > _MOST:
            raise NotTried(
                f"{graph.name} takes {flops:.2g} operations, more than f64 on the CPU does in some "
                "seconds: give smaller sizes=, or try the rule on a part of it"
            )

    # ---- times ----------------------------------------------------------------------------------

    def _times(self, before: Graph, after: Graph, made: Mapping[str, Any]) -> timing.Pair | None:
        """None where they take too long."""
        executions = []
        for graph in (before, after):
            bound = draw.sized(graph, self.sizes)
            executions.append(self._execution(bound, self.cases[0], made))

        def refresh() -> None:
            for execution in executions:
                execution.refresh()

        first, second = executions
        end = time.monotonic() + _SECONDS
        try:
            return timing.compare(self.backend, first, second, refresh, end)
        except timing.OutOfTime:
            return None

    def _timed(self, verdict: Verdict, pair: timing.Pair | None) -> Verdict:
        if pair is None:
            why = f"{verdict.why}; not timed: that takes more than {_SECONDS:g} s"
            return replace(verdict, why=why)
        before, after = pair.before.median, pair.after.median
        told = f"{before * 1e6:.4g} us before and {after * 1e6:.4g} us after"
        verdict = replace(verdict, seconds_before=before, seconds_after=after)
        if pair.is_noisy:
            low, _, high = pair.quartiles
            why = f"{verdict.why}; times are noise, which decides nothing: {low:.2f} to {high:.2f}"
            return replace(verdict, why=why, seconds_before=None, seconds_after=None)
        if pair.is_slower:
            return replace(verdict, kept=False, why=f"it is slower: {told}")
        return replace(verdict, why=f"{verdict.why}; {told}")

    # ---- what it depends on ---------------------------------------------------------------------

    def _key(self, rule: Pass, before: Graph, after: Graph, made: Mapping[str, Any]) -> str:
        rows = {n.op for g in (self.graph, after) for n in g.nodes if not n.is_view}
        info = self.backend.info
        parts = (
            _POLICY, source_digest(rule), self.graph.key(), before.key(), after.key(),
            draw.digest({**(self.data or {}), **made}), sorted((self.sizes or {}).items()),
            self.budget or Budget(), self.timed, info.kind, info.arch, info.name, info.driver,
            info.runtime, info.clocks,
            *(module_digest(self.graph.table[op]) for op in sorted(rows)),
        )  # fmt: skip
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _lost() -> type[Exception]:
    """What a device raises that is gone, whoever uses it."""
    from aicf_rt import CudaLost

    found: type[Exception] = CudaLost
    return found


def source_digest(rule: object) -> str:
    """Of the file that a rule, or a pass, is written in, and of what its instance has."""
    kind = type(rule)
    try:
        with open(inspect.getfile(kind), "rb") as file:
            source = file.read()
    except (OSError, TypeError):  # typed into a session
        source = repr(sorted(_codes(kind))).encode()
    own = sorted((k, repr(v)) for k, v in getattr(rule, "__dict__", {}).items() if k != "found")
    return hashlib.blake2b(source + repr((kind.__qualname__, own)).encode()).hexdigest()


def _codes(kind: type) -> list[tuple[str, bytes, str]]:
    return [
        (name, code.co_code, repr((code.co_consts, code.co_names)))
        for name, member in vars(kind).items()
        if (code := getattr(inspect.unwrap(member), "__code__", None)) is not None
    ]


def is_finite(x: Any) -> bool:
    return x.dtype.kind != "f" or bool(np.all(np.isfinite(x)))
