"""Tuning: who is right, who is fastest, and what must not come of it."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aicf_rt
import numpy as np
import pytest
from aicf_rt import Spec

from aicf.backend.cpu import CpuBackend
from aicf.backend.host import as_array
from aicf.compiler.kernels import reference, timing
from aicf.compiler.kernels.key import Soft
from aicf.compiler.kernels.registry import Candidates
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.store import FILE, Store
from aicf.compiler.kernels.trial import POISONS, Trial, copied, drawn
from aicf.compiler.kernels.tune import Result, Status, Tuner, requests_of
from aicf.table import Row, Table

ROOT = Path(__file__).resolve().parents[2]
TABLE = Table.default()


class RiggedCall:
    """What a kernel of a test's own does when it is launched."""

    def __init__(self, kernel: str, real: Any, action: Callable[[Any], None]) -> None:
        self.kernel, self.real, self.action = kernel, real, action

    def __call__(self) -> None:
        self.action(self.real)


class Rigged(CpuBackend):
    """A CPU whose kernels do what a test says, and take the time that it says."""

    def rig(self, **actions: Callable[[Any], None]) -> None:
        self.actions = actions
        self.times: dict[str, Iterator[float]] = {
            name: itertools.repeat(float(i + 1)) for i, name in enumerate(actions)
        }
        self.timed: list[str] = []

    def prepare(self, op: str, *args: Any, **options: Any) -> Any:
        kernel = options.pop("kernel")
        real = super().prepare(op, *args, **options, kernel="loop")
        return RiggedCall(kernel, real, self.actions[kernel])

    def run(self, calls: Any, names: Any = ()) -> None:
        for call in calls:
            call()

    def time(self, call: Any, count: int) -> float:
        self.timed.append(call.kernel)
        call()
        return next(self.times[call.kernel]) * 1e-3


def right(call: Any) -> None:
    call()


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store(tmp_path / FILE) as opened:
        yield opened


@pytest.fixture
def rigged(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its kernels are the legal ones, whatever the row's guards say."""
    backend = Rigged()
    backend.rig(blas=right, loop=right)

    def explain(row: Row, *tensors: Any, **options: Any) -> list[str]:
        return [
            f"{k.id}: " + ("fits" if k.id in backend.actions else "not here") for k in row.kernels
        ]

    monkeypatch.setattr(Row, "explain", explain)
    monkeypatch.setattr(reference, "CpuBackend", CpuBackend)
    return backend


def request_of(m: int = 8, k: int = 8, n: int = 8, dtype: str = "f32") -> Request:
    return Request.of(TABLE["gemm"], Spec((m, k), dtype), Spec((k, n), dtype))


def of_real_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()


# ---- who is fastest ------------------------------------------------------------------------------


@pytest.mark.promise("AICF-tune")
def test_the_fastest_right_one_is_stored(rigged: Any, store: Store) -> None:
    rigged.times |= {"blas": itertools.repeat(2.0), "loop": itertools.repeat(1.0)}
    tuner = Tuner(rigged, store)
    result = tuner.tune(request_of())
    assert (result.status, result.wrong) == (Status.STORED, {})
    assert [name for name, _ in result.ranking] == ["loop", "blas"]
    assert result.ranking[0][1] == pytest.approx(1000)
    assert "on the CPU in f64" in result.reference
    (record,) = store.all()
    assert record.ranking == result.ranking
    assert record.soft == tuner.selector.soft
    assert tuner.selector.choose(request_of()).kernel == "loop"
    again = tuner.tune(request_of())
    assert (again.status, again.ranking) == (Status.KEPT, result.ranking)
    assert Tuner(rigged, store, force=True).tune(request_of()).status is Status.STORED


@pytest.mark.promise("COMPILER-tune-sizes")
def test_a_tuners_key_is_the_executors(rigged: Any, store: Store) -> None:
    tuner = Tuner(rigged, store)
    assert tuner.tune(request_of(2001, 3, 5)).status is Status.STORED
    for m in (2001, 2048, 1800):
        assert tuner.selector.choose(request_of(m, 3, 5)).how == "stored", m
    assert tuner.selector.choose(request_of(1024, 3, 5)).how == "scored"


@pytest.mark.promise("AICF-tune")
def test_samples_are_interleaved(rigged: Any, store: Store) -> None:
    """Each round has every kernel, and not always the same one first."""
    Tuner(rigged, store).tune(request_of())
    rounds = [tuple(rigged.timed[i : i + 2]) for i in range(2, len(rigged.timed), 2)]
    assert len(rounds) == 9
    assert set(rounds) == {("blas", "loop"), ("loop", "blas")}


@pytest.mark.promise("AICF-tune")
def test_what_is_far_slower_is_left_alone(rigged: Any, store: Store) -> None:
    rigged.rig(blas=right, loop=right)
    rigged.times["loop"] = itertools.repeat(50.0)
    result = Tuner(rigged, store).tune(request_of())
    assert [name for name, _ in result.ranking] == ["blas", "loop"]
    assert rigged.timed.count("loop") == 1 + 3
    assert rigged.timed.count("blas") == 1 + 9


@pytest.mark.promise("COMPILER-tune-contention")
def test_noise_is_not_stored(rigged: Any, store: Store) -> None:
    """Times under contention differ from sample to sample: they are taken again, then given up."""
    noise = itertools.cycle([1.0, 1.6, 1.1, 2.4, 1.3])
    rigged.times["blas"] = noise
    result = Tuner(rigged, store).tune(request_of())
    assert result.status is Status.NOISY
    assert "from sample to sample: blas by " in result.note
    assert store.all() == []
    assert rigged.timed.count("loop") == 3 * (9 + 1)
    rigged.times["blas"] = itertools.chain(itertools.islice(noise, 12), itertools.repeat(1.0))
    assert Tuner(rigged, store).tune(request_of()).status is Status.STORED


@pytest.mark.promise("AICF-tune-soft")
def test_elsewhere_the_old_top_three_are_timed_again(
    rigged: Any, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [k.id for k in TABLE["gemm"].kernels][-5:]
    rigged.rig(**dict.fromkeys(names, right))
    first = Tuner(rigged, store)
    assert len(first.tune(request_of()).ranking) == 5
    (record,) = store.all()
    assert [name for name, _ in record.ranking] == names[:3]
    rigged.info = dataclasses.replace(rigged.info, driver="newer")
    rigged.timed.clear()
    second = Tuner(rigged, store)
    assert second.selector.choose(request_of()).how == "stale"
    rigged.times[names[2]] = itertools.repeat(0.5)
    result = second.tune(request_of())
    assert result.status is Status.STORED
    assert set(rigged.timed) == set(names[:3])
    assert result.ranking[0][0] == names[2]
    assert second.selector.choose(request_of()).how == "stored"
    assert {r.soft.driver for r in store.all()} == {"newer", record.soft.driver}


@pytest.mark.promise("AICF-tune-budget")
def test_the_budget_ends(rigged: Any, store: Store) -> None:
    def slow(call: Any) -> None:
        call()
        time.sleep(0.02)

    rigged.rig(blas=slow, loop=slow)
    requests = [request_of(m) for m in (1, 2, 3, 4)]
    start = time.monotonic()
    results = list(Tuner(rigged, store, budget=0.6).tune_all(requests))
    assert time.monotonic() - start < 60
    assert results[-1].status is Status.SKIPPED
    assert results[-1].note == "the budget had ended"
    stored = [r for r in results if r.status is Status.STORED]
    assert len(store.all()) == len(stored) < 4
    assert (
        any("rounds were done" in r.note for r in results if r.status is Status.SKIPPED) or stored
    )


@pytest.mark.promise("AICF-tune-budget")
def test_what_has_no_room(rigged: Any, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(Rigged, "empty", none)
    result = Tuner(rigged, store).tune(request_of())
    assert result.status is Status.REFUSED
    assert result.note == "there is no memory for its operands"


# ---- who is right --------------------------------------------------------------------------------


def half(call: Any) -> None:
    """Writes the first half of the out alone."""
    out = as_array(call.tensors["out"])
    before = out.copy()
    call()
    out.reshape(-1)[out.size // 2 :] = before.reshape(-1)[out.size // 2 :]


@pytest.mark.promise("COMPILER-tune-poison")
@pytest.mark.parametrize("order", [("loop", "blas"), ("blas", "loop")])
def test_a_kernel_that_leaves_gaps_is_out(rigged: Any, store: Store, order: Any) -> None:
    """Whichever is run first: no kernel's results fill another's gaps."""
    actions = {"loop": right, "blas": half}
    rigged.rig(**{name: actions[name] for name in order})
    rigged.times |= {"blas": itertools.repeat(0.1)}
    result = Tuner(rigged, store).tune(request_of())
    assert result.wrong == {"blas": "out: 32 of 64 elements are not written"}
    assert [name for name, _ in result.ranking] == ["loop"]
    assert [r.kernel for r in store.all()] == ["loop"]


@pytest.mark.promise("COMPILER-tune-poison")
def test_gaps_of_integers_are_seen_too(rigged: Any, store: Store) -> None:
    """Of them no pattern of bytes is a number that cannot be."""
    row = TABLE["argmax"]
    names = [k.id for k in row.kernels if k.id != "loop"][:1]
    rigged.rig(**{names[0]: half, "loop": right})
    result = Tuner(rigged, store).tune(Request.of(row, Spec((6, 5), "f32"), axes=1))
    assert result.wrong == {names[0]: "out: 3 of 6 elements are not written"}


def off_by_a_little(call: Any) -> None:
    call()
    as_array(call.tensors["out"])[2, 1] += 0.01


def random(call: Any) -> None:
    call()
    as_array(call.tensors["out"])[0, 0] += np.random.default_rng().random()


def failing(call: Any) -> None:
    raise aicf_rt.CudaError("gemm: kernel blas failed: out of registers")


@pytest.mark.promise("AICF-tune-wrong")
@pytest.mark.parametrize(
    "action, why",
    [
        (
            off_by_a_little,
            r"out: 1 of 64 elements are wrong, the first at \(2, 1\): .*, by loop on",
        ),
        (random, "out: 1 of 64 elements differ from run to run"),
        (failing, "gemm: kernel blas failed: out of registers"),
    ],
)
def test_a_wrong_kernel_is_out_by_its_name(
    rigged: Any, store: Store, action: Any, why: str
) -> None:
    import re

    rigged.rig(blas=action, loop=right)
    rigged.times["blas"] = itertools.repeat(0.01)
    tuner = Tuner(rigged, store)
    result = tuner.tune(request_of())
    assert list(result.wrong) == ["blas"]
    assert re.search(why, result.wrong["blas"]), result.wrong
    assert tuner.selector.choose(request_of()).kernel == "loop"
    assert "blas" not in rigged.timed


@pytest.mark.promise("AICF-tune-wrong")
def test_where_all_are_wrong_nothing_is_stored(rigged: Any, store: Store) -> None:
    rigged.rig(blas=off_by_a_little, loop=half)
    result = Tuner(rigged, store).tune(request_of())
    assert result.status is Status.WRONG
    assert list(result.wrong) == ["loop", "blas"]
    assert store.all() == []


@pytest.mark.promise("AICF-tune-wrong")
def test_without_a_reference_on_the_cpu_the_most_general_counts(
    rigged: Any, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_MOST", 0)
    rigged.rig(blas=off_by_a_little, loop=right)
    result = Tuner(rigged, store).tune(request_of())
    assert result.reference == "loop, the most general here"
    assert list(result.wrong) == ["blas"]


@pytest.mark.promise("AICF-tune-wrong")
def test_what_the_op_does_not_take(store: Store) -> None:
    tuner = Tuner(CpuBackend(), store)
    result = tuner.tune(Request.of(TABLE["gemm"], Spec((2, 3), "f32"), Spec((4, 5), "f32")))
    assert result.status is Status.REFUSED
    assert "b: its shape must be" in result.note
    only = tuner.tune(Request.of(TABLE["add"], Spec((2,), "f32"), Spec((2,), "f32")))
    assert only.status is Status.ONLY


# ---- whose data ----------------------------------------------------------------------------------


@pytest.mark.promise("COMPILER-tune-inplace")
def test_live_data_is_only_read(rigged: Any, store: Store) -> None:
    """An op that updates in place is tuned on copies, and each run begins with the same values."""
    seen: list[Any] = []

    def watched(call: Any) -> None:
        seen.append(as_array(call.tensors["p"][0]).copy())
        call()

    rigged.rig(multi=watched, loop=watched)
    p, g = np.arange(6, dtype="f4"), np.ones(6, "f4")
    before = p.copy()
    result = Tuner(rigged, store).tune_call("sgd", [p], [g], lr=0.5)
    assert result.status is Status.STORED
    assert (p == before).all()
    assert (g == 1).all()
    assert len(seen) > 20
    starts = [s for s in seen if (s == before).all()]
    assert len(starts) == len(seen), "a run began with what another left"


@pytest.mark.promise("COMPILER-tune-inplace")
def test_tensors_lie_as_the_request_says() -> None:
    cpu = CpuBackend()
    specs = (Spec((3, 4), "f32", strides=(1, 3)), Spec((4, 5), "f32", strides=(10, 1)))
    request = Request.of(TABLE["gemm"], *specs)
    start = drawn(request)
    trial = Trial(cpu, request, start)
    call = trial.bind("loop")
    assert [x.strides for x in list(call.tensors.values())[:2]] == [(1, 3), (10, 1)]
    (out,) = trial.run(call).values()
    assert np.array_equal(out, start[0] @ start[1])
    trial.restore(POISONS[0])
    assert np.isnan(as_array(call.tensors["out"])).all()


@pytest.mark.promise("AICF-tune")
def test_values_stay_within_bounds() -> None:
    """Integers may be indices."""
    request = Request.of(TABLE["embedding"], Spec((7, 4), "f32"), Spec((99,), "i64"))
    _, index = drawn(request)
    assert index.min() >= 0
    assert index.max() < 4
    assert drawn(request)[1].tolist() == index.tolist()


@pytest.mark.guests("ml_dtypes")
@pytest.mark.promise("AICF-tune")
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_real_kernels_are_right(dtype: str, store: Store) -> None:
    """Of every row that has two on the CPU for these operands, in each dtype."""
    tuner = Tuner(CpuBackend(), store)
    result = tuner.tune(request_of(17, 33, 9, dtype))
    if dtype in ("f16", "bf16"):
        assert result.status is Status.ONLY
    else:
        assert result.wrong == {}
        assert result.status in (Status.STORED, Status.NOISY, Status.ONLY)


# ---- graphs, and a tuner that is killed ----------------------------------------------------------


@pytest.mark.promise("AICF-tune-graph")
def test_requests_of_a_graph() -> None:
    import aicf

    def step(x: Any, w: Any) -> Any:
        return (x @ w) @ w

    graph = aicf.trace(step, "f32[4, 8]", "f32[8, 8]")
    (request,) = requests_of(graph)
    assert request == Request.of(TABLE["gemm"], Spec((4, 8), "f32"), Spec((8, 8), "f32"))


@pytest.mark.promise("AICF-tune-killed")
def test_a_killed_tuner_loses_nothing(tmp_path: Path) -> None:
    """What was measured by then is in the store, and the next one goes on from there."""
    code = f"""
        import sys
        sys.path[:0] = {[str(ROOT / "tests"), *sys.path]!r}
        from pathlib import Path
        from compiler.test_tune import Rigged, request_of, right
        from aicf.compiler.kernels.store import Store
        from aicf.compiler.kernels.tune import Tuner
        from aicf.table import Row
        rigged = Rigged()
        rigged.rig(blas=right, loop=right)
        Row.explain = lambda row, *t, **o: [
            k.id + (": fits" if k.id in rigged.actions else ": no") for k in row.kernels]
        tuner = Tuner(rigged, Store(Path({str(tmp_path / FILE)!r})), budget=600)
        for m in range(1, 10_000):
            print(m, tuner.tune(request_of(m)).status.value, flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(5):
        line = process.stdout.readline()
        assert line.endswith(("stored\n", "kept\n")), line
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().splitlines()
    process.wait()
    with Store(tmp_path / FILE) as store:
        assert len(store.all()) >= 5 + len(rest) - 1
        assert store.broken() == 0


def test_a_soft_condition_is_four_texts() -> None:
    assert len(dataclasses.fields(Soft)) == 4


@pytest.mark.guests("torch", "ml_dtypes")
@pytest.mark.promise("AICF-tune-wrong")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_no_right_kernel_is_out(dtype: str, store: Store) -> None:
    """Of a sample of every row, on its values and lying as it does, in each order of dims."""
    from rows import Maker, rows
    from rows.calls import call_of
    from rows.table import DTYPES

    tuner, judged = Tuner(CpuBackend(), store), 0
    for op, row in rows().items():
        maker = Maker(DTYPES[dtype])
        samples = row.samples(maker) if dtype in row.dtypes else []
        for one in [*samples[:2], *samples[-1:]]:
            call = call_of(row, one)
            request = Request.of(TABLE[op], *call.inputs, **call.kwargs)
            legal = Candidates(request).legal
            if not legal:  # as these tensors lie
                continue
            result = Result(request, Status.STORED)
            trial = Trial(tuner.backend, request, copied(tuner.backend, call.inputs))
            tuner._right(trial, legal, result)
            assert result.wrong == {}, str(request)
            judged += len(legal)
    assert judged > 150


@pytest.mark.promise("AICF-tune-graph", "AICF-selector-frozen")
def test_a_graph_runs_what_was_measured(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its calls to an executor that may run nothing else, on real kernels."""
    import aicf
    from aicf.compiler.kernels.selector import FrozenMiss, Selector
    from aicf.compiler.runtime.executor import ExecutorV2

    def step(x: Any, w: Any, v: Any) -> Any:
        return aicf.ops.relu(x @ w) @ v

    monkeypatch.setattr(timing, "_NOISY", 1e9)  # whatever else this machine does
    cpu = CpuBackend()
    graph = aicf.trace(step, "f32[N, 24]", "f32[24, 40]", "f32[40, 8]", symbols={"N": (1, 64)})
    bound = graph.bind({"N": 32})
    results = list(Tuner(cpu, store).tune_all(requests_of(bound)))
    assert {r.status for r in results} <= {Status.STORED, Status.ONLY}
    shapes = ((32, 24), (24, 40), (40, 8))
    data = [drawn(Request.of(TABLE["relu"], Spec(s, "f32")))[0] for s in shapes]
    want = np.maximum(data[0] @ data[1], 0) @ data[2]
    frozen = Selector(cpu.info, store, frozen=True)
    executor = ExecutorV2(graph, cpu, selector=frozen)
    out = executor(*data)
    assert np.array_equal(as_array(out), want)
    if any(r.status is Status.STORED for r in results):
        with pytest.raises(FrozenMiss, match=r"gemm\(f32\[64, 24\], f32\[24, 40\]\)"):
            executor(np.ones((64, 24), "f4"), *data[1:])
