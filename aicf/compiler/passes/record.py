"""What a pass did to a graph, for people, for the report and for a cache on disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.kernels.verdict import Verdict
from aicf.compiler.passes import diff
from aicf.compiler.passes.rule import Fired, Refused

__all__ = ["Optimised", "PassRecord", "Verdict"]


@dataclass(slots=True, eq=False)
class PassRecord:
    """One pass: what it was given, what it gave, and what came of it.

    `result` is the graph that goes on: `source` where the pass changed nothing or was rolled back;
    then `rejected` is what it gave, None where it gave no graph. One that was read from a cache has
    texts for graphs. `texts` is shared by the records of a run, which keep its graphs."""

    name: str
    doc: str  # its equation, or what it does
    seconds: float
    source: Graph | str
    result: Graph | str
    fired: tuple[Fired, ...] = ()
    refused: tuple[Refused, ...] = ()
    verdict: Verdict | None = None
    failed: str | None = None  # why it was rolled back
    rejected: Graph | None = None
    kept_lines: tuple[diff.Line, ...] | None = None  # of one that was read
    texts: dict[int, str] = field(default_factory=dict, repr=False)  # of graphs, by their id()

    @property
    def changed(self) -> bool:
        if isinstance(self.source, str) or isinstance(self.result, str):
            return self.source != self.result
        return self.result is not self.source

    @property
    def before(self) -> str:
        return self._text(self.source)

    @property
    def after(self) -> str:
        return self._text(self.result)

    def _text(self, graph: Graph | str) -> str:
        """Written once: what one pass gives the next is given, and most change nothing."""
        if isinstance(graph, str):
            return graph
        if id(graph) not in self.texts:
            self.texts[id(graph)] = graph.text()
        return self.texts[id(graph)]

    def lines(self, context: int = 1) -> list[diff.Line]:
        """What it changed, line by line; of one that was rolled back, what it would have."""
        if self.kept_lines is not None:
            return list(self.kept_lines)
        other = self.result if self.rejected is None else self.rejected
        assert isinstance(self.source, Graph)
        assert isinstance(other, Graph)
        return diff.lines(self.source, other, context) if other is not self.source else []

    def diff(self, context: int = 1) -> str:
        """The same as one text."""
        return "".join(f"{line}\n" for line in self.lines(context))

    @property
    def summary(self) -> str:
        """In a line."""
        if self.failed:
            did = f"rolled back: {self.failed}"
        else:
            did = f"{len(self.fired)} fired" if self.fired else "changed nothing"
            did = "changed it" if self.changed and not self.fired else did
            did += f", {len(self.refused)} refused" if self.refused else ""
            did += f"; {self.verdict.why}" if self.verdict is not None else ""
        return f"{self.name}: {did} ({self.seconds * 1e3:.1f} ms)"

    def __str__(self) -> str:
        """The summary, the refusals with their reasons, and the diff."""
        return "\n".join([self.summary, *(f"  {line}" for line in self._told())])

    def _told(self) -> Iterator[str]:
        for r in self.refused:
            detail = f": {r.detail}" if r.detail else ""
            yield f"refused, {r.reason}{detail}: {r.node}"
        yield from map(str, self.lines())

    # ---- for a cache ----------------------------------------------------------------------------

    def portable(self) -> dict[str, Any]:
        """As JSON has it: graphs as their texts."""
        return {
            "name": self.name,
            "doc": self.doc,
            "seconds": self.seconds,
            "source": self.before,
            "result": self.after,
            "fired": [dataclasses.asdict(f) for f in self.fired],
            "refused": [dataclasses.asdict(r) for r in self.refused],
            "verdict": self.verdict.portable() if self.verdict else None,
            "failed": self.failed,
            "lines": [[line.mark, line.text] for line in self.lines()],
        }

    @classmethod
    def of_portable(cls, item: Mapping[str, Any]) -> Self:
        """Raises TypeError, ValueError or KeyError of what `portable` does not give."""
        verdict = item["verdict"]
        return cls(
            name=item["name"],
            doc=item["doc"],
            seconds=item["seconds"],
            source=item["source"],
            result=item["result"],
            fired=tuple(Fired(**_read(f, "nodes", "by")) for f in item["fired"]),
            refused=tuple(Refused(**_read(r)) for r in item["refused"]),
            verdict=Verdict.of_portable(verdict) if verdict is not None else None,
            failed=item["failed"],
            kept_lines=tuple(diff.Line(mark, text) for mark, text in item["lines"]),
        )


def _read(item: Mapping[str, Any], *lists: str) -> dict[str, Any]:
    loc = item["loc"]
    found = {**item, "loc": Location(**loc) if loc is not None else None}
    return found | {name: tuple(item[name]) for name in lists}


@dataclass(slots=True, eq=False)
class Optimised:
    """What a pipeline gives: the graph, and a record for each pass. `data` has the values of the
    constants that passes made, by name: they go to an executor with those of the graph."""

    graph: Graph
    records: tuple[PassRecord, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def failed(self) -> tuple[PassRecord, ...]:
        """The passes that were rolled back."""
        return tuple(r for r in self.records if r.failed)

    def explain(self, everything: bool = False) -> str:
        """Each pass that did, refused or failed something; `everything`: the others too."""
        shown = [
            str(r) for r in self.records if everything or r.changed or r.refused or r.failed
        ]  # fmt: skip
        total = f"{len(self.records)} passes in {self.seconds * 1e3:.1f} ms"
        return "\n".join([*shown, total])

    def __str__(self) -> str:
        return self.explain()
