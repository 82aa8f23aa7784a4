"""Which of the legal kernels runs: the one that was measured fastest, else the best by its score.

A choice is asked for once a request and kept; an executor that replays prepared calls asks nothing.
"""

from __future__ import annotations

import bisect
import importlib.util
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aicf.backend.device import Device
from aicf.table import Row

from . import files
from .cost import work_of
from .key import Hard, Soft, Subject
from .record import Record
from .registry import Candidates
from .request import Request
from .store import Store

# The rules by which kernels are judged and sizes rounded: choices under others are void.
_RULES = "1"

# Of the roofline, what a kernel is taken to reach that was never measured; each further one of a
# row a little less, since the row has them in the order in which its author would try them.
_UNKNOWN = 0.5
_FALLING = 0.9


class FrozenMiss(LookupError):
    """There is no stored choice, and the selector may not do without; says for what."""


class Choice(NamedTuple):
    """A kernel by its name. `how` is "stored"; "stale", stored under another driver, clock or the
    like; "scored"; or "only", where one kernel was legal."""

    kernel: str
    how: str
    candidates: Candidates
    device: Device
    record: Record | None = None
    differs: str = ""  # of a stale one: in what
    share: float = _UNKNOWN  # of the roofline, that the kernel is taken to reach
    shares: tuple[tuple[str, float], ...] = ()  # of each legal one; () where none was measured

    @property
    def expected(self) -> float:
        """Microseconds: what was measured, else the score."""
        if self.record is not None:
            return self.record.ranking[0][1]
        return work_of(self.candidates.request).seconds(self.device) * 1e6 / self.share

    @property
    def ranking(self) -> tuple[tuple[str, float], ...]:
        """The legal kernels with their microseconds, measured or by the score, the best first;
        those that were not measured beside one that was are left out."""
        if self.record is not None:
            return self.record.ranking
        best = work_of(self.candidates.request).seconds(self.device) * 1e6
        shares = self.shares or [
            (name, _share(None, best, place)) for place, name in enumerate(self.candidates.legal)
        ]
        return tuple(sorted(((n, best / s) for n, s in shares), key=lambda pair: pair[1]))

    @property
    def why(self) -> str:
        """In a line, for people."""
        if self.record is not None:
            times = ", ".join(f"{name} {us:.4g} us" for name, us in self.record.ranking)
            day = time.strftime("%Y-%m-%d", time.gmtime(self.record.made))
            stale = f"; measured elsewhere: {self.differs}" if self.differs else ""
            return f"measured {day}: {times}{stale}"
        if self.how == "only":
            return "the only one that is legal"
        return f"the best by its score: {self.expected:.4g} us expected"

    @property
    def refused(self) -> dict[str, str]:
        """Why each other kernel is not legal."""
        return {c.kernel: c.reason for c in self.candidates if not c.legal}


class Selector:
    """Of one device. `frozen`: where kernels differ, one that was not measured is a FrozenMiss.
    `deterministic` leaves kernels out whose bits differ from run to run."""

    def __init__(
        self,
        device: Device,
        store: Store | None = None,
        *,
        frozen: bool = False,
        deterministic: bool = True,
    ) -> None:
        self.device, self.store = device, store
        self.frozen, self.deterministic = frozen, deterministic
        self.soft = Soft(device.name, device.driver, device.runtime, device.clocks)
        self._policy = f"{_RULES} {'bitwise' if deterministic else 'any'}"
        self._chosen: dict[Request, Choice] = {}
        self._ops: dict[Row, _Known] = {}

    def choose(self, request: Request) -> Choice:
        """Raises Unsupported where the op does not take the operands, NoKernel where no kernel is
        legal, FrozenMiss."""
        found = self._chosen.get(request)
        if found is None:
            found = self._chosen[request] = self._choose(request)
        return found

    def forget(self) -> None:
        """Looks into the store again from now on."""
        self._chosen.clear()
        self._ops.clear()

    def hard(self, row: Row) -> Hard:
        """What choices for an op are void without, here."""
        return Hard(self.device.arch, module_digest(row), self._policy)

    def stored(self, request: Request, among: Sequence[str]) -> list[Record]:
        """The records for a request that are valid here: those measured under the same conditions
        first, then the newest."""
        records = self._known(request.row).records
        if not records:
            return []
        return sorted(records.get(request.subject(among), ()), key=lambda r: r.soft != self.soft)

    def _choose(self, request: Request) -> Choice:
        found = Candidates(request, self.deterministic)
        names = found.require()
        if len(names) == 1:
            return Choice(names[0], "only", found, self.device)
        known = self._known(request.row)
        for record in self.stored(request, names) if known.records else ():
            differs = record.soft.differs(self.soft)
            how = "stale" if differs else "stored"
            return Choice(record.kernel, how, found, self.device, record, differs)
        if self.frozen:
            raise FrozenMiss(self._missed(request, names))
        return self._scored(request, found)

    def _missed(self, request: Request, names: Sequence[str]) -> str:
        where = self.store.path if self.store is not None else "no store"
        return (
            f"{request}: {', '.join(names)} are legal, and frozen is on: {where} has no choice for "
            f"{request.subject(names)} on {self.device.arch} with these kernels. `python -m aicf "
            "tune` measures one; frozen=False takes the best by its score"
        )

    def _scored(self, request: Request, found: Candidates) -> Choice:
        """By the share of the roofline that a kernel reaches: as measured of it on the work nearest
        to this in size. What the work takes at best is the same for all."""
        measured = self._known(request.row).measured
        if not measured:  # the first one's
            return Choice(found.legal[0], "scored", found, self.device)
        best = work_of(request).seconds(self.device) * 1e6
        shares = {
            name: _share(measured.get(name), best, place) for place, name in enumerate(found.legal)
        }
        kernel = max(shares, key=shares.__getitem__)
        return Choice(
            kernel, "scored", found, self.device, share=shares[kernel],
            shares=tuple(shares.items()),
        )  # fmt: skip

    def _known(self, row: Row) -> _Known:
        known = self._ops.get(row)
        if known is None:
            known = self._ops[row] = self._read(row)
        return known

    def _read(self, row: Row) -> _Known:
        """What the store has for an op, under the hard conditions that hold here."""
        records = self.store.of_op(row.name) if self.store is not None else []
        if not records:
            return _Known({}, {})
        hard = self.hard(row)
        valid = [r for r in records if r.hard == hard]
        by_subject: dict[Subject, list[Record]] = {}
        for record in valid:
            by_subject.setdefault(record.subject, []).append(record)
        return _Known(by_subject, _measured(valid))


@dataclass(frozen=True, slots=True)
class _Known:
    """Of an op: its records by what they are for; of each kernel, what the work took at best and
    what the kernel took, in microseconds, the smallest work first."""

    records: dict[Subject, list[Record]]
    measured: dict[str, list[tuple[float, float]]]


def _measured(records: Sequence[Record]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        for name, us in record.ranking:
            found.setdefault(name, []).append((record.model, us))
    return {name: sorted(times) for name, times in found.items()}


def _share(measured: list[tuple[float, float]] | None, best: float, place: int) -> float:
    """Of the roofline, what a kernel is taken to reach on work that takes `best` there."""
    if not measured:
        return float(_UNKNOWN * _FALLING**place)
    at = bisect.bisect(measured, (best,))
    model, us = min(measured[max(0, at - 1) : at + 1], key=lambda m: abs(math.log(m[0] / best)))
    return model / us


def module_digest(row: Row) -> str:
    """Of the op's built module: its kernels' code for every arch, its guards and its row. It need
    not be loaded for that."""
    name = f"{row.package}.{row.name}"
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    path = spec.origin if spec is not None else row.module.__file__
    assert path is not None
    return files.digest(path)
