"""Processes of `peers`: rows in one that may die, first steps in others that know nothing yet.

Who crashes takes down the process that it is in: its row is begun anew in another, without it. So
does who takes too long to be made, and is in no row from then on.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

COMMAND = [sys.executable, "-m", "bench.compiler.peers"]
Row = tuple[str, int, str]  # a network, a batch, "training" or "inference"
Plan = list[tuple[Row, list[str]]]  # and who runs it


def tell(**event: Any) -> None:
    """In one of rows: {"doing": who} before what may end it, {"row": ...} when one is done."""
    print(json.dumps(event), flush=True)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """The process ends where it takes longer, wherever it is."""
    signal.alarm(max(1, math.ceil(seconds)))
    try:
        yield
    finally:
        signal.alarm(0)


def rows_of(
    rows: Sequence[Row], who: Sequence[str], words: Sequence[str],
    run: Callable[[Plan], tuple[Iterable[dict[str, Any]], Callable[[], int]]] | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """In their order. `run` gives what a process tells of a plan, and its status."""
    run = run or (lambda plan: _process([*words, "--plan", json.dumps(plan)]))
    todo, lost = list(rows), dict[str, str]()  # of the row that comes next
    slow: dict[str, str] = {}  # of all that come
    while todo:
        doing = ""
        there = [w for w in who if w not in slow]
        plan = [(row, [w for w in there if i or w not in lost]) for i, row in enumerate(todo)]
        told, wait = run(plan)
        for event in told:
            if "row" in event:
                event["row"]["absent"] |= lost | slow
                todo, lost, doing = todo[1:], {}, ""
                yield event["row"]
            else:
                doing = event["doing"]
        status = wait()
        if status == 0 and not todo:
            return
        if not doing or doing in lost | slow:
            raise SystemExit(f"status {status} at {todo[:1]}, and nobody is to blame")
        if status == -signal.SIGALRM:
            slow[doing] = "it took too long to be made for {} {} {}".format(*todo[0])
            continue
        lost[doing] = f"its process ended with status {status}"


def _process(words: Sequence[str]) -> tuple[Iterator[dict[str, Any]], Callable[[], int]]:
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = (line for line in process.stdout if line.startswith("{"))
    return map(json.loads, lines), process.wait


# ---- first steps ---------------------------------------------------------------------------------


def first_steps(
    who: Sequence[str], models: Sequence[str], words: Sequence[str]
) -> list[dict[str, Any]]:
    """Seconds until a first step is done, with caches that are empty, and as that left them. One
    sequence has four cores at least."""
    pairs = [(model, each) for model in models for each in who]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 4) // 4)) as pool:
        times = list(pool.map(lambda pair: _cold_and_warm(pair[0], pair[1], words), pairs))
    return [
        {"model": model, "seconds": {e: t for (m, e), t in zip(pairs, times, strict=True)
                                     if m == model and t}}
        for model in models
    ]  # fmt: skip


def _cold_and_warm(model: str, who: str, words: Sequence[str]) -> dict[str, float] | None:
    with tempfile.TemporaryDirectory() as cache:
        caches = {
            "AICF_CACHE": f"{cache}/aicf", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
            "TRITON_CACHE_DIR": f"{cache}/triton", "CACHEDB": f"{cache}/tinygrad.db",
        }  # fmt: skip
        found = []
        for _ in ("cold", "warm"):
            said = subprocess.run(
                [*COMMAND, *words, "--models", model, "--once", who],
                env=os.environ | caches, stdout=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            told = json.loads(said.stdout) if said.returncode == 0 else {}
            if "seconds" not in told:
                return None
            found.append(told["seconds"])
    return {"cold": found[0], "warm": found[1]}
