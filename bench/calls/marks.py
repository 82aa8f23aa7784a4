"""What is asked of the figures, and what was predicted before they were taken: from a prototype of
the same path, and reasoning. A mark passes by the median of its ratios."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bench.calls.clock import Result, Row, Spread


@dataclass(frozen=True, slots=True)
class Mark:
    """The ratio of a row to the one beside it is at most `most`."""

    what: str
    row: str
    column: str
    beside: str
    most: float
    predicted: dict[str, float]  # by device; the devices are those where the mark stands


LOOP = "C loop"  # the fastest of them

# What is said, the row, the mark and the aim, and what was predicted: beside the fastest loop and
# beside that of <<<>>>.
LAUNCHES = (
    ("the whole call", "typed: torch", 1.15, 1.05, 1.27, 1.14),
    ("the whole call, held tensors", "typed: torch, held", 1.15, 1.05, 1.22, 1.1),
    ("a bound call", "bound: torch", 1.03, 1.0, 1.14, 1.02),
    ("each of a run of 100", "run of 100, each: torch", 1.01, 1.0, 1.12, 1.01),
)


def launches() -> Iterator[Mark]:
    """Calls with their launch beside loops of launches, on a GPU."""
    runtime = f"{LOOP}: <<<>>>"
    for what, row, most, aim, fastest, usual in LAUNCHES:
        beside = f"{what} / a C loop of"
        yield Mark(f"{beside} <<<>>>", row, "full", runtime, most, {"cuda": usual})
        yield Mark(f"{beside} the faster launches", row, "full", LOOP, most, {"cuda": fastest})
        yield Mark(f"aim: {beside} <<<>>>", row, "full", runtime, aim, {"cuda": usual})


def operators() -> Iterator[Mark]:
    """Ops of torch beside the least that one of Python can cost, both without the launch."""
    for kind, word in (("torch", ""), ("torch, held", ", held tensors")):
        for who, least in (("", "no-op, allocating"), (".out", "no-op, out=")):
            what = f"torch.ops.aicf.add{who}{word} / a Python op of nothing + the typed call"
            row, beside = f"torch.ops.aicf.add{who}: {kind}", f"{least}: {kind}"
            yield Mark(what, row, "empty", beside, 1.3, {"cpu": 1.25, "cuda": 1.25})


MARKS = (
    Mark(
        "checked marshalling / bare exchange, tensors that Python alone holds",
        *("typed: torch", "empty", "bare exchange: torch"),
        1.25,
        {"cpu": 1.2, "cuda": 1.34},
    ),
    Mark(
        "checked marshalling / bare exchange, held tensors",
        *("typed: torch, held", "empty", "bare exchange: torch, held"),
        1.6,
        {"cpu": 1.5, "cuda": 1.6},
    ),
    Mark(
        "checked marshalling / apache-tvm-ffi's",
        *("typed: torch", "empty", "tvm-ffi: torch"),
        0.35,
        {"cpu": 0.32, "cuda": 0.29},
    ),
    Mark(
        "checked marshalling / apache-tvm-ffi's, held tensors",
        *("typed: torch, held", "empty", "tvm-ffi: torch, held"),
        0.35,
        {"cpu": 0.2, "cuda": 0.25},
    ),
    *launches(),
    *operators(),
    Mark(
        "numpy arrays, without the launch / np.add's own overhead",
        *("typed: numpy", "empty", "np.add of one element"),
        0.3,
        {"cpu": 0.17},
    ),
)

# Two producers cost at most so many times the slower of them.
PRODUCERS = 2.0
COMPILE = 50.0
MODULE_BYTES = 100_000
RUNTIME = ("core", "libaicf")

# Rows of ours that rivals stand beside: what is compared with peers.
OURS = ("typed", "generic, out=", "generic, allocating")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A mark as it was met; None where it could not be measured, and why."""

    what: str
    value: float | None
    low: float | None
    high: float | None
    most: float
    predicted: float | None
    passed: bool | None
    why: str = ""

    @classmethod
    def of(cls, what: str, spread: Spread | None, most: float, predicted: float | None) -> Verdict:
        if spread is None:
            return cls(what, None, None, None, most, predicted, None, "not measured")
        low, median, high = (round(v, 4) for v in (spread.low, spread.median, spread.high))
        return cls(what, median, low, high, most, predicted, spread.median <= most)

    def json(self) -> dict[str, Any]:
        return {k: v for k, v in asdict(self).items() if k != "why" or v}

    def text(self) -> str:
        word = {True: "pass", False: "missed", None: self.why}[self.passed]
        if self.value is None:
            return f"{self.what:78} at most {self.most:<8g} {word}"
        interval = "" if self.low == self.high else f"[{self.low:.2f} {self.high:.2f}]"
        return f"{self.what:78} at most {self.most:<8g} {self.value:9.3g} {interval:14} {word}"


def verdicts(
    device: str, rows: list[Row], results: dict[str, Result], figures: dict[str, Any]
) -> list[Verdict]:
    found = [
        Verdict.of(mark.what, ratio(results, mark.row, mark.column, mark.beside), mark.most,
                   mark.predicted[device])
        for mark in MARKS
        if device in mark.predicted
    ]  # fmt: skip
    found += producers(rows, results)
    found += rivals(rows, results)
    found += sizes(figures)
    return found


def ratio(results: dict[str, Result], row: str, column: str, beside: str) -> Spread | None:
    """Beside "C loop" stands the fastest of them: the largest ratio."""
    if row not in results:
        return None
    found = results[row].ratios.get(column, {})
    if beside != LOOP:
        return found.get(beside)
    ranked = [spread for name, spread in found.items() if name.startswith(f"{LOOP}: ")]
    return max(ranked, key=lambda spread: spread.median, default=None)


def producers(rows: list[Row], results: dict[str, Result]) -> Iterator[Verdict]:
    """Mixed and alternating producers, beside the slower of the two."""
    for row in rows:
        if row.who not in ("mixed", "in turn"):
            continue
        found = [r for b in row.beside if (r := ratio(results, row.name, "empty", b))]
        slower = min(found, key=lambda r: r.median) if len(found) == len(row.beside) else None
        what = f"{row.name}, without the launch / the slower of the two alone"
        yield Verdict.of(what, slower, PRODUCERS, 1.1)


def rivals(rows: list[Row], results: dict[str, Result]) -> Iterator[Verdict]:
    """Each peer in each column: ours is faster."""
    for row in rows:
        for beside in row.beside:
            form = beside.partition(": ")[0]
            if form not in OURS or row.who in OWN:
                continue
            for column, word in (("empty", "without the launch"), ("full", "with the launch")):
                theirs = ratio(results, row.name, column, beside)
                if theirs is not None:
                    ours = Spread(1 / theirs.median, 1 / theirs.high, 1 / theirs.low)
                    what = f"{beside} / {row.who}, {word}"
                    yield Verdict.of(what, ours, 1.0, None)


def sizes(figures: dict[str, Any]) -> Iterator[Verdict]:
    times = figures["compile_s"]["times"]
    what = "a module's compile time / that of a torch extension"
    spread = Spread(1 / times, 1 / times, 1 / times) if times else None
    yield Verdict.of(what, spread, 1 / COMPILE, 0.01)
    for name, held in figures["sizes"].items():
        if name not in RUNTIME:
            host = (held["bytes"] - held["device_code"]) / MODULE_BYTES
            what = f"a module beside its device code / 100 kB: {name}"
            yield Verdict.of(what, Spread(host, host, host), 1.0, 0.4)


OWN = frozenset(
    ("typed", "typed, named", "generic, out=", "generic, allocating", "bound", "mixed", "in turn",
     "run of 100, each", "set, then bound", "torch.ops.aicf.add", "torch.ops.aicf.add.out",
     "no-op, allocating, + typed", "no-op, out=, + typed")
)  # fmt: skip
