"""Measures the legal kernels of calls and stores which was fastest.

A kernel that gives a wrong result, leaves part of it unwritten, or fails is out, by its name; times
that are noise are not stored; and what was measured is stored at once, so that a tuner that is
killed loses the request it was at.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aicf.backend.base import AicfBackend
from aicf.compiler.ir.graph import Graph

from . import reference, timing
from .cost import work_of
from .record import Record
from .registry import Candidates
from .request import Request
from .selector import Selector
from .store import Store
from .timing import OutOfTime, Times
from .trial import POISONS, Trial, Values, copied, drawn

_TOP = 3  # of a ranking, what is kept and, elsewhere, timed again
_ATTEMPTS = 3  # at times that are not noise


class Status(enum.Enum):
    """How a request ended."""

    STORED = "stored"  # measured
    KEPT = "kept"  # it was measured here before
    ONLY = "only"  # one kernel is legal: nothing to choose
    NOISY = "noisy"  # times differ too much from sample to sample
    SKIPPED = "skipped"  # the budget had ended
    REFUSED = "refused"  # the op does not take it, or no kernel is legal
    WRONG = "wrong"  # no kernel gave the right result


@dataclass(slots=True)
class Result:
    """Of one request. `wrong` says of each kernel that is out why; `note` more, for people."""

    request: Request
    status: Status
    ranking: tuple[tuple[str, float], ...] = ()
    wrong: dict[str, str] = field(default_factory=dict)
    reference: str = ""
    note: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "request": str(self.request),
            "status": self.status.value,
            "ranking": [[name, us] for name, us in self.ranking],
            "wrong": self.wrong,
            "reference": self.reference,
            "note": self.note,
            "seconds": round(self.seconds, 3),
        }


def requests_of(graph: Graph) -> list[Request]:
    """Of each op of a graph whose sizes are numbers, each once, in order."""
    table = graph.table
    found = (Request.of_node(table, node) for node in graph.nodes if not node.is_view)
    return list(dict.fromkeys(found))


class Tuner:
    """Of one backend and one store."""

    def __init__(
        self,
        backend: AicfBackend,
        store: Store,
        *,
        budget: float = 60.0,
        force: bool = False,
        deterministic: bool = True,
        seed: int = 0,
        single: bool = False,
    ) -> None:
        """`budget` in seconds, of all that is tuned; `force` measures what is stored again;
        `single` measures also where one kernel is legal: what is compared is then another call,
        that lies another way."""
        self.backend, self.store = backend, store
        self.selector = Selector(backend.info, store, deterministic=deterministic)
        self.force, self.seed, self.single = force, seed, single
        self._end = time.monotonic() + budget

    def tune_all(self, requests: Iterable[Request]) -> Iterator[Result]:
        """One after another, each result as it is there."""
        for request in requests:
            yield self.tune(request)

    def tune_call(self, op: str, *tensors: Any, **options: Any) -> Result:
        """A call that somebody makes, on copies of its tensors: theirs are only read."""
        request = Request.of(self.backend.table[op], *tensors, **options)
        named = dict(zip((p.name for p in request.row.tensors), tensors, strict=False)) | options
        live = [named.get(p.name) for p in request.row.tensors]
        return self.tune(request, lambda: copied(self.backend, live))

    def tune(self, request: Request, values: Callable[[], Values] | None = None) -> Result:
        """Measures the legal kernels and stores the ranking; random values unless given."""
        start = time.monotonic()
        result = self._tune(request, values or (lambda: drawn(request, self.seed)))
        result.seconds = time.monotonic() - start
        return result

    def _tune(self, request: Request, values: Callable[[], Values]) -> Result:
        try:
            legal = Candidates(request, self.selector.deterministic).require()
        except (TypeError, LookupError) as error:  # Unsupported among them
            return Result(request, Status.REFUSED, note=str(error))
        if len(legal) == 1 and not self.single:
            return Result(request, Status.ONLY, ((legal[0], 0.0),))
        names, kept = self._wanted(request, legal)
        if kept is not None:
            return Result(request, Status.KEPT, kept.ranking)
        if time.monotonic() > self._end:
            return Result(request, Status.SKIPPED, note="the budget had ended")
        try:
            return self._measured(request, legal, names, values())
        except MemoryError:
            return Result(request, Status.REFUSED, note="there is no memory for its operands")

    def _wanted(
        self, request: Request, legal: Sequence[str]
    ) -> tuple[Sequence[str], Record | None]:
        """The kernels to time: of what was measured under other soft conditions the old top three;
        and the record that makes it needless."""
        if self.force:
            return legal, None
        for record in self.selector.stored(request, legal):
            if record.soft == self.selector.soft:
                return (), record
            return [name for name, _ in record.ranking[:_TOP] if name in legal], None
        return legal, None

    def _measured(
        self, request: Request, legal: Sequence[str], names: Sequence[str], start: Values
    ) -> Result:
        result = Result(request, Status.STORED)
        trial = Trial(self.backend, request, start)
        calls = self._right(trial, names, result)
        if not calls:
            result.status = Status.WRONG
            return result
        try:
            times = self._times(trial, calls)
        except OutOfTime as error:
            result.status, result.note = Status.SKIPPED, f"the budget ended: {error}"
            return result
        order = sorted(times, key=lambda name: times[name].median)
        result.ranking = tuple((name, times[name].median * 1e6) for name in order)
        noisy = [name for name in order[:2] if times[name].is_noisy]
        if noisy:
            spread = ", ".join(f"{name} by {times[name].spread:.0%}" for name in noisy)
            result.status, result.note = Status.NOISY, f"from sample to sample: {spread}"
        else:
            self._store(request, legal, result)
        return result

    def _times(self, trial: Trial, calls: dict[str, Any]) -> dict[str, Times]:
        """Taken again where they are noise."""
        for attempt in range(_ATTEMPTS):
            times = timing.measure(self.backend, calls, trial.refresh, self._end)
            order = sorted(times, key=lambda name: times[name].median)
            if attempt + 1 == _ATTEMPTS or not any(times[name].is_noisy for name in order[:2]):
                break
        return times

    def _store(self, request: Request, legal: Sequence[str], result: Result) -> None:
        self.store.put(
            Record(
                request.subject(legal),
                self.selector.hard(request.row),
                self.selector.soft,
                result.ranking[:_TOP],
                work_of(request).seconds(self.backend.info) * 1e6,
                int(time.time()),
            )
        )
        self.selector.forget()

    # ---- which are right -----------------------------------------------------------------------

    def _right(self, trial: Trial, names: Sequence[str], result: Result) -> dict[str, Any]:
        """The prepared calls of the kernels that give the right results; of the others the result
        says why not."""
        calls: dict[str, Any] = {}
        given: dict[str, dict[str, Any]] = {}
        for name in names:
            found = self._outcome(trial, name)
            if isinstance(found, str):
                result.wrong[name] = found
            else:
                calls[name], given[name] = found
        if not calls:
            return {}
        right = reference.of_cpu(trial)
        if right is None:
            general = list(calls)[-1]
            right = reference.of_results(trial.request, general, given[general])
        result.reference = right.by
        for name in list(calls):
            fault = reference.fault(trial.request, name, given[name], right)
            if fault:
                result.wrong[name] = fault
                del calls[name]
        return calls

    def _outcome(self, trial: Trial, name: str) -> tuple[Any, dict[str, Any]] | str:
        """A kernel's prepared call and its results; in words why it is out. A device that was lost
        takes the tuner along."""
        from aicf_rt import CudaError, CudaLost, Unsupported

        try:
            call = trial.bind(name)
            first = trial.run(call, POISONS[0])
            second = trial.run(call, POISONS[1])
        except CudaLost:
            raise
        except (CudaError, Unsupported) as error:
            return str(error)
        return reference.difference(first, second, POISONS[0]) or (call, first)
