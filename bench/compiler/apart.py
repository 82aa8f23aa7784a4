"""Processes of `peers`: rows in some that may die, first steps in others that know nothing yet.

The rows of a network and a batch share a process. All these processes make their rows at once, and
from then on each is idle but the one whose row is timed. Who crashes takes down the process that it
is in: it is begun anew, without it in that row. So does who takes too long to be made, and is in
none of the process's later rows.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "bench.compiler.peers"]
Row = tuple[str, int, str]  # a network, a batch, "training" or "inference"
Plan = list[tuple[Row, list[str]]]  # and who runs it


# ---- in a process of rows ------------------------------------------------------------------------


def tell(**event: Any) -> None:
    """{"doing": who, "at": row} before what may end it, {"made": True} when all its rows can be
    timed, {"row": ...} when one is done."""
    print(json.dumps(event), flush=True)


def asked() -> bool:
    """Waits until the next row is to be timed; False where nobody will ask."""
    return bool(sys.stdin.readline())


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """The process ends where it takes longer, wherever it is."""
    signal.alarm(max(1, math.ceil(seconds)))
    try:
        yield
    finally:
        signal.alarm(0)


def one_at_a_time(file: Path) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """What only one of all the processes does at a time."""
    lock = file.open("a")

    @contextlib.contextmanager
    def alone() -> Iterator[None]:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)

    return alone


# ---- all of them ---------------------------------------------------------------------------------


@dataclass
class Running:
    """A process of rows: what it tells, the word to time the next one, its status in the end, and
    its end before that."""

    told: Iterator[dict[str, Any]]
    go: Callable[[], None]
    wait: Callable[[], int]
    end: Callable[[], None]


class Group:
    """Rows of one process, and who runs each."""

    def __init__(
        self, rows: Sequence[Row], who: Sequence[str], run: Callable[[Plan], Running]
    ) -> None:
        self.todo = {row: list(who) for row in rows}
        self.lost: dict[Row, dict[str, str]] = {row: {} for row in rows}
        self.run = run
        self.begin()

    def begin(self) -> None:
        self.doing: tuple[str, Row] = ("", ("", 0, ""))
        self.running = self.run(list(self.todo.items()))

    def made(self) -> None:
        """Returns when all rows can be timed."""
        while self.heard("made") is None:
            self.blame()
            self.begin()

    def timed(self) -> Iterator[dict[str, Any]]:
        while self.todo:
            self.running.go()
            event = self.heard("row")
            if event is None:
                self.blame()
                self.begin()
                self.made()
                continue
            row = next(iter(self.todo))
            del self.todo[row]
            event["row"]["absent"] |= self.lost[row]
            yield event["row"]
        self.running.wait()

    def heard(self, key: str) -> dict[str, Any] | None:
        """None where it ends before it tells that."""
        for event in self.running.told:
            if key in event:
                return event
            model, batch, kind = event["at"]
            self.doing = event["doing"], (model, batch, kind)
        return None

    def blame(self) -> None:
        status, (who, at) = self.running.wait(), self.doing
        if at not in self.todo or who not in self.todo[at]:
            raise SystemExit(f"status {status} of {list(self.todo)}, and nobody is to blame")
        if status != -signal.SIGALRM:
            self.without(at, who, f"its process ended with status {status}")
            return
        rows = list(self.todo)
        for row in rows[rows.index(at) :]:
            self.without(row, who, "it took too long to be made for {} {} {}".format(*at))

    def without(self, row: Row, who: str, why: str) -> None:
        if who in self.todo[row]:
            self.todo[row].remove(who)
            self.lost[row][who] = why


def rows_of(
    groups: Sequence[Sequence[Row]], who: Sequence[str], run: Callable[[Plan], Running]
) -> Iterator[dict[str, Any]]:
    """In their order. `run` begins a process."""
    begun = [Group(rows, who, run) for rows in groups]
    try:
        with ThreadPoolExecutor(len(begun)) as pool:
            list(pool.map(Group.made, begun))
        for group in begun:
            yield from group.timed()
    finally:
        for group in begun:
            group.running.end()


def process(words: Sequence[str], environment: dict[str, str], plan: Plan) -> Running:
    started = subprocess.Popen(
        [*COMMAND, *words, "--plan", json.dumps(plan)], env=os.environ | environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    stdin, stdout = started.stdin, started.stdout
    assert stdin is not None
    assert stdout is not None

    def go() -> None:
        with contextlib.suppress(BrokenPipeError):  # what it told says how it ended
            stdin.write("go\n")
            stdin.flush()

    lines = (line for line in stdout if line.startswith("{"))
    return Running(map(json.loads, lines), go, started.wait, started.kill)


def caches(folder: str, threads: int) -> dict[str, str]:
    """The environment of a process whose compilers keep there what they made, each with so many
    threads. Candidates that ask for more shared memory than the device has are not compiled: none
    of them could run."""
    return {
        "AICF_CACHE": f"{folder}/aicf", "CACHEDB": f"{folder}/tinygrad.db",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton",
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
        "TORCHINDUCTOR_MAX_AUTOTUNE_PRUNE_CHOICES_BASED_ON_SHARED_MEM": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": str(threads),
    }  # fmt: skip


def captured(models: Sequence[str], device: str) -> list[dict[str, Any]]:
    """What `captured.py` counts; nothing where a device has no graphs."""
    if device == "cpu":
        return []
    command = [*COMMAND, "--captured", "--device", device, "--models", *models]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: list[dict[str, Any]] = json.loads(said.splitlines()[-1])
    return found


# ---- first steps ---------------------------------------------------------------------------------


def first_steps(
    who: Sequence[str], models: Sequence[str], words: Sequence[str]
) -> list[dict[str, Any]]:
    """Seconds until a first step is done, with caches that are empty, and as that left them: ours
    one by one with nothing beside, the least of two, since the first reads files that nobody has
    read before; then all others beside each other."""
    ours = [(m, each) for m in models for each in who if each.startswith("aicf")]
    theirs = [(m, each) for m in models for each in who if not each.startswith("aicf")]
    found = {
        (model, each): _least([_cold_and_warm(model, each, words, 0) for _ in range(2)])
        for model, each in ours
    }
    with ThreadPoolExecutor(max(1, len(theirs))) as pool:
        beside = len(theirs) - 1
        times = pool.map(lambda p: _cold_and_warm(p[0], p[1], words, beside), theirs)
        found |= dict(zip(theirs, times, strict=True))
    return [
        {"model": model, "seconds": {e: t for (m, e), t in found.items() if m == model and t}}
        for model in models
    ]


def _least(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure, of runs that have all; {} where one has none."""
    return {what: min(run[what] for run in runs) for what in runs[0]} if all(runs) else {}


def _cold_and_warm(model: str, who: str, words: Sequence[str], beside: int) -> dict[str, Any]:
    threads = max(2, (os.cpu_count() or 4) // 2)
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for when in ("cold", "warm"):
            said = subprocess.run(
                [*COMMAND, *words, "--models", model, "--once", who],
                env=os.environ | caches(folder, threads), stdout=subprocess.PIPE, text=True,
                check=False,
            )  # fmt: skip
            found = json.loads(said.stdout.splitlines()[-1]) if said.returncode == 0 else {}
            if "seconds" not in found:
                return {}
            told |= {when: found.pop("seconds")} | {f"{k}, {when}": v for k, v in found.items()}
    return told | {"beside": beside}
