"""The benchmark of calls: its method on calls whose cost is known, its marks, and a short run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from bench.calls.clock import LAUNCHES, Block, Call, Clock, Result, Row, Spread
from bench.calls.marks import LOOP, MARKS, Verdict, ratio, verdicts

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("B", ROOT / "build")).resolve()
GENERATED = Path(os.environ.get("GEN", ROOT / "generated")).resolve()

promise = pytest.mark.promise("DESIGN-5-cost")


# ---- the method --------------------------------------------------------------------------------


class Floor:
    """floor.c with a clock that is told what a call costs; `drift` is added to each block."""

    EMPTY = 10

    def __init__(self) -> None:
        self.drift = 0.0
        self.order: list[str] = []

    @staticmethod
    def nothing(*_: object) -> bool:
        return True

    def repeat(self, calls: tuple[Call, ...], times: int) -> int:
        cost = 0
        for i in range(times):
            function = calls[i % len(calls)][0]
            cost += self.EMPTY + getattr(function, "cost", 0)
        self.order.append(getattr(calls[0][0], "__name__", "nothing"))
        self.drift += 1
        return round(cost * (1 + self.drift / 1000))


def costing(cost: int, name: str) -> Callable[..., None]:
    def function(*_: object) -> None:
        pass

    function.__dict__["cost"] = cost
    function.__name__ = name
    return function


@promise
def test_a_ratio_is_of_what_is_above_an_empty_call() -> None:
    clock = Clock(Floor(), lambda: None, 31)
    ours = Row("ours", "ours", "", clock.call(costing(300, "ours"), (1, 2, 3)))
    base = Row("base", "C", "", clock.call(costing(200, "base"), (1, 2, 3)))
    result = clock.measure(ours, [base])
    found = result.ratios["full"]["base"]
    # The clock grows slower from block to block, by a part in 1,000: rotated pairs cancel it.
    assert 1.48 < found.low <= found.median <= found.high < 1.52
    assert result.ns["full"].median > 300


@promise
def test_a_loop_in_c_has_no_empty_call_in_it() -> None:
    clock = Clock(Floor(), lambda: None, 31)
    row = Row("loop", "C", "", Block(lambda times: 50 * times))
    assert clock.measure(row, []).ns["full"] == Spread(50, 50, 50)


@promise
def test_a_launch_is_the_unit() -> None:
    """A call of 100 launches costs a hundredth, two calls a launch their sum; both less what empty
    calls cost."""
    floor = Floor()
    clock = Clock(floor, lambda: None, 3)
    hundred = Row("run", "ours", "", clock.call(costing(5000, "run"), ((),), each=100))
    assert clock.measure(hundred, []).ns["full"].median == pytest.approx(50, rel=0.05)
    first, second = costing(30, "set"), costing(40, "call")
    both = clock.calls((first, (1,), ("a",)), (second, (), None), each=0.5)
    found = clock.measure(Row("both", "ours", "", both), []).ns["full"].median
    assert found == pytest.approx(70, rel=0.05)


@promise
def test_blocks_are_short_and_in_turn() -> None:
    floor = Floor()
    launches: list[int] = []
    synchronised: list[int] = []

    def loop(times: int) -> int:
        launches.append(times)
        return 100 * times

    clock = Clock(floor, lambda: synchronised.append(len(launches)), 8)
    names = ("a", "b")
    rows = [Row(n, n, "", clock.call(costing(5, n), (), None)) for n in names]
    clock.measure(Row("loop", "C", "", Block(loop)), rows)
    assert max(launches) == LAUNCHES
    assert len(synchronised) == len(floor.order) + len(launches)
    timed = floor.order[-8 * 3 :]
    assert {tuple(timed[i : i + 3]).count("a") for i in range(0, len(timed), 3)} == {1}
    assert {timed[i] for i in range(0, len(timed), 3)} == {"a", "b", "nothing"}
    short = Clock(floor, lambda: None, 3, longest=5000)
    launches.clear()
    short.measure(Row("loop", "C", "", Block(loop)), [])
    assert launches[-1] == 50


@promise
def test_an_interval_holds_the_median() -> None:
    found = Spread.of([float(i) for i in range(101)])
    assert (found.median, found.low, found.high) == (50, 40, 60)
    assert Spread.of([1.0, 2.0, 3.0]) == Spread(2, 1, 3)


@promise
def test_a_call_that_refuses_is_not_timed() -> None:
    clock = Clock(Floor(), lambda: None, 3)

    def named(a: int, *, out: int) -> bool:
        return a == out

    Row("same", "", "", clock.call(named, (1, 1), ("out",))).probe()
    with pytest.raises(ValueError, match="refuses"):
        Row("other", "", "", clock.call(named, (1, 2), ("out",))).probe()


# ---- the marks ---------------------------------------------------------------------------------

FIGURES = {
    "compile_s": {"times": 100.0},
    "sizes": {"add": {"bytes": 150_000, "device_code": 20_000}},
}


def results(*figures: tuple[str, str, str, float]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for row, column, beside, value in figures:
        result = found.setdefault(row, Result())
        result.ratios.setdefault(column, {})[beside] = Spread(value, value - 0.01, value + 0.01)
    return found


def by_name(device: str, rows: list[Row], found: dict[str, Result]) -> dict[str, Verdict]:
    return {v.what: v for v in verdicts(device, rows, found, FIGURES)}


@promise
def test_marks_pass_by_their_median() -> None:
    exchange, held = MARKS[0], MARKS[1]
    found = by_name(
        "cpu",
        [],
        results(
            ("typed: torch", "empty", "bare exchange: torch", exchange.most),
            ("typed: torch, held", "empty", "bare exchange: torch, held", held.most + 0.001),
        ),
    )
    assert found[exchange.what].passed is True
    assert found[held.what].passed is False
    assert "missed" in found[held.what].text()
    absent = found[MARKS[2].what]
    assert absent.passed is None
    assert "not measured" in absent.text()
    assert not any("C loop" in what for what in found), "a launch is no measure of a CPU's loop"


@promise
def test_the_fastest_loop_counts() -> None:
    found = results(
        ("bound: torch", "full", "C loop: <<<>>>", 0.99),
        ("bound: torch", "full", "C loop: cuLaunchKernel", 1.09),
    )
    strict = ratio(found, "bound: torch", "full", LOOP)
    assert strict is not None
    assert strict.median == 1.09
    named = by_name("cuda", [], found)
    assert named["a bound call / a C loop of the faster launches"].passed is False
    assert named["a bound call / a C loop of <<<>>>"].passed is True
    assert named["aim: a bound call / a C loop of <<<>>>"].passed is True


@promise
def test_each_peer_stands_in_each_column() -> None:
    row = Row("x: torch", "x", "torch", beside=("C loop", "typed: torch"))
    own = Row("bound: torch", "bound", "torch", beside=("typed: torch",))
    figures = [
        ("x: torch", "empty", "typed: torch", 2.0),
        ("x: torch", "full", "typed: torch", 0.8),
    ]
    found = by_name(
        "cpu", [row, own], results(*figures, ("bound: torch", "full", "typed: torch", 9))
    )
    assert found["typed: torch / x, without the launch"].value == 0.5
    slower = found["typed: torch / x, with the launch"]
    assert (slower.value, slower.passed) == (1.25, False)
    assert not any("bound" in what and "typed" in what for what in found)


@promise
def test_two_producers_are_beside_the_slower() -> None:
    row = Row("mixed: a + b", "mixed", "a + b", beside=("typed: a", "typed: b"))
    figures = [
        ("mixed: a + b", "empty", "typed: a", 3.0),
        ("mixed: a + b", "empty", "typed: b", 1.5),
    ]
    what = "mixed: a + b, without the launch / the slower of the two alone"
    assert by_name("cpu", [row], results(*figures))[what].value == 1.5
    assert by_name("cpu", [row], results(figures[0]))[what].passed is None


@promise
def test_sizes_and_compile_time_have_marks() -> None:
    found = by_name("cpu", [], {})
    assert found["a module's compile time / that of a torch extension"].value == 0.01
    assert found["a module beside its device code / 100 kB: add"].value == 1.3


# ---- a short run -------------------------------------------------------------------------------


def run(*words: str) -> subprocess.CompletedProcess[str]:
    places = ["--build", str(BUILD), "--generated", str(GENERATED), "--device", "cpu"]
    command = [sys.executable, "-m", "bench.calls", *places, *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    file = tmp_path_factory.mktemp("calls") / "calls.json"
    done = run("--pairs", "3", "--peers", "torch.add,numpy", "--json", str(file))
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text(encoding="utf-8")), done.stdout


@promise
@pytest.mark.guests("torch")
def test_the_report_says_what_was_measured_where(report: tuple[dict[str, Any], str]) -> None:
    data, said = report
    assert {"device", "cpu", "python", "versions", "date", "sources"} <= data.keys()
    assert data["method"]["elements"] == 1024
    assert data["method"]["launches_between_synchronisations"] <= 200
    assert data["versions"]["torch"]
    rows = {row["name"]: row for row in data["rows"]}
    assert len(rows) == len(data["rows"])
    for form in ("typed", "typed, named", "generic, out=", "generic, allocating"):
        for kind in ("torch", "torch, held"):
            row = rows[f"{form}: {kind}"]
            for column in ("empty", "full"):
                ns = row["ns"][column]
                assert 0 < ns["low"] <= ns["median"] <= ns["high"]
            assert row["ratios"]["full"]["C loop: the launcher"]["median"] > 1
            assert f"bare exchange: {kind}" in row["ratios"]["empty"]
    for name in ("bound: torch", "run of 100, each: torch", "set, then bound: torch",
                 "typed: aicf_rt", "typed: numpy", "typed: numpy, strided",
                 "mixed: torch + numpy", "in turn: torch, numpy"):  # fmt: skip
        assert rows[name]["ns"].keys() == {"empty", "full"}, name
    assert rows["torch.add(out=): torch"]["ns"].keys() == {"full"}
    assert "typed: torch" in rows["torch.add(out=): torch"]["ratios"]["full"]
    assert all(row["who"] in said for row in data["rows"])


@promise
@pytest.mark.guests("torch")
def test_who_is_not_there_is_named(report: tuple[dict[str, Any], str]) -> None:
    data, said = report
    for peer in ("apache-tvm-ffi", "nanobind", "pybind11", "torch.ops"):
        assert data["absent"][peer] == "not asked for"
        assert f"{peer}: not asked for" in said


@promise
@pytest.mark.guests("torch")
def test_marks_and_figures_beside_the_table(report: tuple[dict[str, Any], str]) -> None:
    data, said = report
    for mark in data["marks"]:
        assert mark["passed"] is (None if mark["value"] is None else mark["value"] <= mark["most"])
        assert mark["what"] in said
    assert len(data["marks"]) > 10
    assert data["compile_s"]["module"] > 0
    assert data["import_ms"]["package_and_runtime"] > 0
    assert 0 < data["sizes"]["add"]["bytes"] < 1_000_000


@promise
@pytest.mark.guests("torch")
@pytest.mark.parametrize(
    "words, said",
    [
        (("--peers", "torch.sub"), "error: --peers torch.sub: known are"),
        (("--pairs", "2"), "--pairs 2: 3 at least"),
        (("--build", "nowhere"), "has no module `add`: run make first"),
    ],
)
def test_a_wrong_word_is_named(words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert done.returncode != 0
    assert said in done.stderr


# ---- the README's table ------------------------------------------------------------------------


@pytest.fixture
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "tools" / "measured_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measured(device: str, figures: dict[str, dict[str, float]]) -> dict[str, Any]:
    rows = [
        {"name": name, "ns": {column: {"median": value} for column, value in columns.items()}}
        for name, columns in figures.items()
    ]
    return {"device": device, "date": "2026-01-02", "rows": rows}


@promise
def test_the_readme_shows_each_device(tables: ModuleType) -> None:
    on_gpu: dict[str, dict[str, float]] = {
        "typed: torch": {"empty": 400.4, "full": 5000},
        "C loop: <<<>>>": {"full": 5500},
        "C loop: cuLaunchKernel": {"full": 4500},
        "Triton: torch": {"full": 20000},
    }
    runs = [measured("GPU", on_gpu), measured("CPU", {"typed: torch": {"empty": 180, "full": 230}})]
    assert tables.calls(runs).replace(tables.DASH, "none").splitlines() == [
        "| ns a call | GPU, 2026-01-02: no launch | launch | CPU, 2026-01-02: no launch | launch |",
        "| --- | --- | --- | --- | --- |",
        "| launching from a C loop | none | 4,500 | none | none |",
        "| **`add_f32(a, b, out)`** | 400 | 5,000 | 180 | 230 |",
        "| Triton | none | 20,000 | none | none |",
    ]
    text = "before\n\n| ns a call | old |\n| --- |\n| 1 |\n\nafter\n"
    assert tables.replaced(text, tables.CALLS, "new\n") == "before\n\nnew\n\nafter\n"


@promise
def test_the_readme_shows_each_who_runs_a_step(tables: ModuleType) -> None:
    """And marks, of which those that were missed say so."""

    def row(model: str, what: str, **us: float) -> dict[str, Any]:
        times = {who.replace("_", " "): {"whole": t} for who, t in us.items()}
        return {"model": model, "batch": 32, "what": what, "us": times}

    rows = [
        row("cnn", "inference", aicf_graph=30, torch_eager=60),
        row("mlp", "inference", aicf_graph=5, torch_eager=50, tinygrad=10),
        row("mlp", "training", aicf_graph=1000, torch_eager=4000, torch_CUDAGraph=2000),
    ]
    assert tables.steps({"rows": rows}).replace(tables.DASH, "none").splitlines() == [
        "| network, batch | ours | torch's graph by hand | torch eager | tinygrad "
        "| ours of the best other |",
        "| --- | --- | --- | --- | --- | --- |",
        "| MLP 784-512-512-10, training, 32 | 1,000.0 | 2,000.0 | 4,000.0 | none | 0.50 |",
        "| MLP 784-512-512-10, inference, 32 | 5.0 | none | 50.0 | 10.0 | 0.50 |",
        "| small CNN, inference, 32 | 30.0 | none | 60.0 | none | 0.50 |",
    ]
    found = [
        {"marks": [{"what": "host", "value": 4.567, "most": 5.0, "passed": True}]},
        {"marks": [{"what": "ratio", "value": 1.1106, "most": 1.05, "passed": False}]},
    ]
    assert tables.marks(found).splitlines()[2:] == [
        "| host | 4.57 | 5 |",
        "| ratio | **1.11: missed** | 1.05 |",
    ]
