"""Finds which rule makes a result wrong, and by which of its rewrites.

Passes are applied one after another, each checked against f64 by the numeric gate; of the first
that is wrong, the number of its rewrites is halved until one is left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aicf.compiler.given import check_backend, check_graph, check_kind, check_pass
from aicf.compiler.ir.graph import Graph
from aicf.compiler.passes import diff, draw
from aicf.compiler.passes.numeric import Budget, Finding
from aicf.compiler.passes.pipeline import check, doc_of, run_alone, said
from aicf.compiler.passes.rule import Applied, Context, Fired, Group, Pass
from aicf.compiler.passes.trial import Jury, NotTried

_MOST = 1 << 20  # rewrites of one pass


@dataclass(frozen=True, slots=True, eq=False)
class Guilty:
    """The rule, or pass, that makes a result wrong; of a group the one of its rules. `firing` is
    the rewrite by which it does, the `index`th of `count`; None of a pass that does not make them
    one by one, or raises at once."""

    rule: str
    doc: str
    why: str
    finding: Finding | None  # how wrong the result is; None: there is no graph that can run
    firing: Fired | None
    index: int
    count: int | None  # None: it raises before all are made
    before: Graph  # before that rewrite, or that pass
    after: Graph | None

    def __str__(self) -> str:
        equation = f" ({self.doc.splitlines()[0]})" if self.doc else ""
        told = [f"{self.rule}{equation} is guilty: {self.why}"]
        if self.firing is not None:
            of = f" of {self.count}" if self.count is not None else ""
            where = f", {self.firing.loc}" if self.firing.loc else ""
            told.append(f"rewrite {self.index + 1}{of} of the rule at {self.firing.at}{where}:")
            told += [f"  - {line}" for line in self.firing.nodes]
            told += [f"  + {line}" for line in self.firing.by]
        if self.after is not None and not (self.firing and self.firing.nodes):
            told += [f"  {line}" for line in diff.lines(self.before, self.after)]
        return "\n".join(told)


def bisect(
    graph: Graph, passes: Sequence[Pass], backend: Any, data: Mapping[str, Any] | None = None, *,
    sizes: Mapping[str, int] | None = None, budget: Budget | None = None,
    context: Context | None = None,
) -> Guilty | None:  # fmt: skip
    """The first pass after which a result is wrong on this data, random where it is not given; None
    where all are right. One that raises or gives no graph is guilty too."""
    check_graph(graph)
    for one in passes:
        check_pass(one)
    check_backend(backend)
    check_kind("context", context, Context)
    check_kind("budget", budget, Budget)
    context = context or Context(backend=backend, data=data or {})
    graph = draw.placed(graph, backend.device)
    draw.check_names(graph, data or {})
    jury = Jury(graph, backend, data, sizes, budget, timed=False)
    jury.prepare()
    search = _Search(jury, context)
    for one in passes:
        outcome = search.outcome(one, graph, None)
        if outcome.why:
            return search.narrowed(one, graph, outcome)
        assert outcome.applied is not None
        graph = outcome.applied.graph
        search.take(outcome.applied)
    return None


@dataclass(frozen=True, slots=True)
class _Outcome:
    """`why` is in words what is wrong, "" where nothing is."""

    applied: Applied | None
    finding: Finding | None
    why: str

    @property
    def count(self) -> int:
        return len(self.applied.fired) if self.applied is not None else 0


@dataclass(slots=True, eq=False)
class _Search:
    jury: Jury
    context: Context
    made: dict[str, Any] = field(default_factory=dict)  # data of what passes made so far

    def take(self, applied: Applied) -> None:
        """Goes on behind a pass."""
        self.made |= applied.data
        data = {**self.context.data, **applied.data}
        self.context = dataclasses.replace(self.context, data=data)

    def outcome(self, one: Pass, graph: Graph, limit: int | None) -> _Outcome:
        """Of so many rewrites of a pass."""
        applied: Applied | None = None
        try:
            applied = run_alone(one, graph, dataclasses.replace(self.context, limit=limit))
            if applied.graph is graph:
                return _Outcome(applied, None, "")
            check(graph, applied.graph)
            finding = self.jury.finding(applied.graph, {**self.made, **applied.data})
        except NotTried:  # by no pass's fault
            raise
        except Exception as error:  # whatever a rule raises
            return _Outcome(applied, None, said(error, one))
        return _Outcome(applied, finding, "" if finding.is_within else str(finding))

    def narrowed(self, one: Pass, graph: Graph, whole: _Outcome) -> Guilty:
        """Between a number of rewrites that is right and one that is wrong there are always two
        neighbours."""
        count = whole.count if whole.applied is not None else None
        right, wrong, found = 0, count, whole
        known: dict[int, _Outcome] = {}
        while wrong is None or wrong - right > 1:
            middle = max(1, 2 * right) if wrong is None else (right + wrong) // 2
            known[middle] = outcome = self.outcome(one, graph, middle)
            if outcome.applied is not None and outcome.count != middle:  # it makes all or none
                return self._guilty(one, graph, whole, None, 0, count)
            if outcome.why:
                wrong, found = middle, outcome
            elif middle > _MOST:
                return self._guilty(one, graph, whole, None, 0, count)
            else:
                right = middle
        last = known[right].applied if right else None
        firing = found.applied.fired[-1] if found.applied and found.applied.fired else None
        before = last.graph if last is not None else graph
        return self._guilty(one, before, found, firing, wrong - 1, count)

    @staticmethod
    def _guilty(
        one: Pass, before: Graph, found: _Outcome, firing: Fired | None, index: int,
        count: int | None,
    ) -> Guilty:  # fmt: skip
        after = found.applied.graph if found.applied is not None else None
        rules = {rule.name: rule for rule in one.rules} if isinstance(one, Group) else {}
        by = rules.get(firing.rule, one) if firing is not None else one
        return Guilty(
            by.name, doc_of(by), found.why, found.finding, firing, index, count, before, after
        )
