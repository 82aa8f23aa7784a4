"""The benchmark of steps runs, compares, and says what it measured."""

from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compiler.conftest import BUILT, ROOT


def run(module: str, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        env={**os.environ, "PYTHONPATH": str(BUILT)},
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.promise("MARK-9-compile")
@pytest.mark.guests("torch")
def test_a_step_beside_others_on_the_cpu(tmp_path: Path) -> None:
    out = tmp_path / "peers.json"
    who = ["aicf graph", "aicf replay", "torch eager", "torch CUDAGraph"]
    words = ["--device", "cpu", "--batches", "2", "--blocks", "1", "--steps", "3"]
    words += ["--compile-batch", "0", "--models", "mlp", "--who", *who]
    run("bench.compiler.peers", *words, "--json", str(out))
    report = json.loads(out.read_text())
    for row, what in zip(report["rows"], ("training", "inference"), strict=True):
        assert (row["model"], row["what"], row["batch"]) == ("mlp", what, 2)
        assert set(row["us"]) == set(row["differ"]) == {"aicf replay", "torch eager"}
        assert set(row["absent"]) == {"aicf graph", "torch CUDAGraph"}
        assert row["differ"]["aicf replay"] < 1e-4
    memory = report["rows"][0]["memory"]["aicf replay"]
    assert memory["arena"] == memory["bound"] > 0
    assert [m["what"] for m in report["marks"]] == [
        "peak of the arena, of its lower bound", "losses of the steps before, off torch's",
    ]  # fmt: skip


def ending(
    endings: dict[tuple[Any, str], int], ended: list[Any] | None = None
) -> Callable[[Any], Any]:
    """Processes of rows, which end with a status where a row is made or timed by who is named."""
    from bench.compiler.apart import Running

    def run(plan: Any) -> Running:
        status = []

        def told() -> Any:
            for when in ("make", "time"):
                for row, who in plan:
                    for each in list(who):
                        yield {"doing": each, "at": row}
                        if ((when, *row[1:2]), each) in endings:
                            status.append(endings[(when, *row[1:2]), each])
                            return
                    if when == "time":
                        yield {"row": {"batch": row[1], "us": list(who), "absent": {}}}
                if when == "make":
                    yield {"made": True}

        last = [] if ended is None else ended
        return Running(told(), lambda: None, lambda: (status or [0])[0], lambda: last.append(plan))

    return run


def rows(*batches: int) -> list[tuple[str, int, str]]:
    return [("mlp", n, "training") for n in batches]


@pytest.mark.promise("MARK-9-compile")
@pytest.mark.parametrize("when", ["make", "time"])
def test_who_crashes_takes_no_row_with_it(when: str) -> None:
    """It is left out of its row alone; a process that dies for no reason ends the run."""
    from bench.compiler.apart import Running, rows_of

    run = ending({((when, n), each): -11 for n, each in ((2, "b"), (3, "a"), (3, "c"))})
    found = list(rows_of([rows(1, 2), rows(3, 4)], ["a", "b", "c"], run))
    assert [r["batch"] for r in found] == [1, 2, 3, 4]
    assert [r["us"] for r in found] == [["a", "b", "c"], ["a", "c"], ["b"], ["a", "b", "c"]]
    why = "its process ended with status -11"
    assert [r["absent"] for r in found] == [{}, {"b": why}, {"a": why, "c": why}, {}]
    ended: list[Any] = []
    dead = Running(iter(()), lambda: None, lambda: 1, lambda: ended.append(1))
    with pytest.raises(SystemExit, match="nobody is to blame"):
        list(rows_of([rows(1), rows(2)], ["a"], lambda plan: dead))
    assert ended == [1, 1]


@pytest.mark.promise("MARK-9-compile")
def test_who_takes_too_long_is_in_no_later_row_of_its_process() -> None:
    import signal

    from bench.compiler.apart import rows_of, within

    slow = "from bench.compiler.apart import within\nwith within(0.5):\n    while True: pass"
    environment = {**os.environ, "PYTHONPATH": str(BUILT)}
    ended = subprocess.run([sys.executable, "-c", slow], cwd=ROOT, env=environment, check=False)
    assert ended.returncode == -signal.SIGALRM
    with within(60):
        pass
    assert signal.alarm(0) == 0

    run = ending({(("make", 2), "b"): -signal.SIGALRM})
    found = list(rows_of([rows(1, 2, 3), rows(4)], ["a", "b"], run))
    assert [r["us"] for r in found] == [["a", "b"], ["a"], ["a"], ["a", "b"]]
    assert [list(r["absent"]) for r in found] == [[], ["b"], ["b"], []]


@pytest.mark.promise("MARK-9-compile")
def test_one_process_measures_at_a_time(tmp_path: Path) -> None:
    """Four of them, each a tenth of a second, by the clock that all share."""
    lines = (
        "import pathlib, sys, time",
        "from bench.compiler.apart import one_at_a_time",
        "with one_at_a_time(pathlib.Path(sys.argv[1]))():",
        "    start = time.monotonic(); time.sleep(0.1); print(start, time.monotonic())",
    )
    command = [sys.executable, "-c", "\n".join(lines), str(tmp_path / "lock")]
    environment = {**os.environ, "PYTHONPATH": str(BUILT)}
    begun = [subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
             for _ in range(4)]  # fmt: skip
    said = [process.communicate()[0].split() for process in begun]
    spans = sorted((float(start), float(end)) for start, end in said)
    assert len(spans) == 4
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.promise("MARK-9-compile")
def test_blocks_have_some_steps_however_long_they_take() -> None:
    from bench.compiler.timing import beside, medians, ratio, timed

    count = {"ours": 0, "other": 0}

    def step(name: str) -> None:
        count[name] += 1
        time.sleep(0.002 if name == "ours" else 0.001)

    waited, told = [], list[str]()
    steps: dict[str, Callable[[], Any]] = {n: functools.partial(step, n) for n in count}
    room = {"ours": 11, "other": 3}
    found = timed(steps, lambda: waited.append(1), 9, 1e-9, room, told.append)
    assert count == {"ours": 6 + 5 * (1 + 6), "other": 6 + 5 * (1 + 3)}
    assert len(waited) == 2 * (2 + 5 * 2)
    assert sorted(told) == ["other"] * 5 + ["ours"] * 5
    assert told != ["ours", "other"] * 5
    assert medians(found)["ours"]["whole"] > 2000
    times = {"a": {"host": [4.0, 9.0, 8.0]}, "b": {"host": [2.0, 3.0, 1.0]}}
    assert (ratio(times, "a", "b", "host"), beside(times, "a", "b", "host")) == (3.0, 6.0)


@pytest.mark.promise("MARK-9-compile")
def test_what_compiling_costs_is_measured(tmp_path: Path) -> None:
    """In one process; marks are of a quiet machine."""
    out = [json.loads(subprocess.run(
        [sys.executable, "-m", "bench.compiler.graphs", "--compile", "mlp", "--cache", tmp_path],
        env={**os.environ, "PYTHONPATH": str(BUILT)}, cwd=ROOT, capture_output=True, text=True,
        check=True,
    ).stdout) for _ in range(2)]  # fmt: skip
    assert [o["found"] for o in out] == [0, 1]
    assert all(o["compile"] > 0 for o in out)


@pytest.mark.promise("MARK-8-bench")
@pytest.mark.guests("torch")
def test_a_short_run_on_the_cpu(tmp_path: Path) -> None:
    out = tmp_path / "compiler.json"
    words = ["--device", "cpu", "--batches", "2", "--blocks", "2", "--json", str(out)]
    run("bench.compiler", *words)
    report = json.loads(out.read_text())
    assert [(r["model"], r["what"]) for r in report["rows"]] == [
        (model, what) for model in ("mlp", "cnn") for what in ("training", "inference")
    ]
    for row in report["rows"]:
        assert set(row["us"]) == {"replay", "eager", "torch", "launches"}
        assert row["differ"] < 2e-3
        assert row["selector_us"] > 0
    assert {m["most"] for m in report["marks"]} == {1.05, 20.0}


@pytest.mark.promise("COMPILER-plan-real")
def test_how_near_plans_come_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    run("bench.compiler.planning", "--effort", "1000", "--json", str(out))
    report = json.loads(out.read_text())
    assert sorted(report["hard"]) == list("ABCDEF")
    assert all(row["peak"] > row["bound"] > 0 for row in report["hard"].values())
    assert {row["ratio"] for row in report["steps"].values()} == {1.0}
