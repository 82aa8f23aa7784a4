"""Choices: measured ones by their names, else the best by a score; what makes one void."""

from __future__ import annotations

import dataclasses
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from aicf_rt import Spec

from aicf.backend.cpu import CpuBackend
from aicf.backend.device import Device
from aicf.compiler.kernels import files
from aicf.compiler.kernels import selector as module
from aicf.compiler.kernels.key import Soft
from aicf.compiler.kernels.record import Record
from aicf.compiler.kernels.registry import Candidates
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.selector import FrozenMiss, Selector
from aicf.compiler.kernels.store import FILE, Store
from aicf.table import Row, Table

TABLE = Table.default()
DEVICE = Device("cpu", "x86_64", "a test's", "1", "", "2 threads", {"f32": 1e9}, 1e9, 1e-6)


@pytest.fixture(autouse=True)
def two_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """gemm has two kernels on the CPU; the one that needs a library counts as legal here."""

    def explain(row: Row, *tensors: Any, **options: Any) -> list[str]:
        lines: list[str] = row.module.explain(*tensors, **options)
        return ["blas: fits" if line.startswith("blas: ") else line for line in lines]

    monkeypatch.setattr(Row, "explain", explain)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store(tmp_path / FILE) as opened:
        yield opened


def request_of(m: int = 64, k: int = 64, n: int = 32, **options: Any) -> Request:
    return Request.of(TABLE["gemm"], Spec((m, k), "f32"), Spec((k, n), "f32"), **options)


def put(
    store: Store, selector: Selector, request: Request, *ranking: str, **changes: Any
) -> Record:
    fields: dict[str, Any] = {
        "subject": request.subject(Candidates(request).legal),
        "hard": selector.hard(request.row),
        "soft": selector.soft,
        "ranking": tuple((name, 10.0 + i) for i, name in enumerate(ranking)),
        "model": 5.0,
        "made": 1_000_000_000,
    }
    made = Record(**(fields | changes))
    store.put(made)
    selector.forget()
    return made


@pytest.mark.promise("AICF-selector")
def test_without_a_measurement_the_rows_order_counts(store: Store) -> None:
    chosen = Selector(DEVICE, store).choose(request_of())
    assert (chosen.kernel, chosen.how) == ("blas", "scored")
    assert chosen.why == f"the best by its score: {chosen.expected:.4g} us expected"
    assert chosen.expected == pytest.approx(2 * (2 * 64 * 64 * 32 / 1e3 + 1))
    assert chosen.refused["simt"] == "for cuda, the tensors are on cpu"


@pytest.mark.promise("AICF-selector")
def test_the_only_one(store: Store) -> None:
    request = Request.of(TABLE["add"], Spec((4,), "f32"), Spec((4,), "f32"))
    chosen = Selector(DEVICE, store, frozen=True).choose(request)
    assert (chosen.kernel, chosen.how) == ("loop", "only")
    assert chosen.why == "the only one that is legal"


@pytest.mark.promise("AICF-selector")
def test_a_measured_one_is_taken(store: Store) -> None:
    selector = Selector(DEVICE, store)
    assert selector.choose(request_of()).kernel == "blas"
    put(store, selector, request_of(), "loop", "blas")
    chosen = selector.choose(request_of())
    assert (chosen.kernel, chosen.how, chosen.expected) == ("loop", "stored", 10.0)
    assert chosen.why == "measured 2001-09-09: loop 10 us, blas 11 us"
    assert selector.choose(request_of(act="relu")).how == "scored"


@pytest.mark.promise("AICF-selector")
def test_what_was_measured_scores_what_was_not(store: Store) -> None:
    """By the work that is nearest in size: loop is the faster of small ones here."""
    selector = Selector(DEVICE, store)
    put(store, selector, request_of(8, 8, 8), "loop", "blas", model=2.0)
    large = (("blas", 4e6), ("loop", 9e6))
    put(store, selector, request_of(999, 999, 999), ranking=large, model=2e6)
    assert selector.choose(request_of(9, 9, 9)).kernel == "loop"
    chosen = selector.choose(request_of(900, 1100, 900))
    assert (chosen.kernel, chosen.how) == ("blas", "scored")
    best = 2 * 900 * 1100 * 900 / 1e3
    assert chosen.expected == pytest.approx(best * 2, rel=0.01)


@pytest.mark.promise("COMPILER-tune-sizes")
def test_sizes_of_one_bucket_share_a_choice(store: Store) -> None:
    """As many as the tuner's: 2001 meets what 2048 was measured for, 1024 does not."""
    selector = Selector(DEVICE, store)
    put(store, selector, request_of(2048, 64, 64), "loop", "blas")
    assert selector.choose(request_of(2001, 64, 64)).how == "stored"
    assert selector.choose(request_of(1024, 64, 64)).how == "scored"
    assert selector.choose(request_of(2049, 64, 64)).how == "scored"


@pytest.mark.promise("COMPILER-tune-names")
def test_a_choice_is_a_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel put before others in the row takes nobody's place: a stored choice is still the
    kernel that was measured, and one for other candidates is not met."""
    selector = Selector(DEVICE, store)
    row = TABLE["gemm"]
    made = put(store, selector, request_of(), "loop", "blas", model=6.0)
    first = dataclasses.replace(row.kernels[-2], id="new")
    more = dataclasses.replace(row, kernels=(first, *row.kernels))

    def explain(row: Row, *tensors: Any, **options: Any) -> list[str]:
        lines: list[str] = TABLE["gemm"].module.explain(*tensors, **options)
        lines = ["blas: fits" if line.startswith("blas: ") else line for line in lines]
        return [f"new: {fits}", *lines] if row is more else lines

    monkeypatch.setattr(Row, "explain", explain)
    request = dataclasses.replace(request_of(), row=more)
    fits = "for f64 alone"
    assert selector.choose(request).record == made
    assert selector.choose(request).kernel == "loop"
    fits = "fits"
    chosen = Selector(DEVICE, store).choose(request)
    assert chosen.record is None
    assert chosen.kernel == "loop"  # by its score, which what was measured gives


@pytest.mark.promise("COMPILER-tune-arch")
@pytest.mark.parametrize("change", ["arch", "kernels", "policy"])
def test_under_other_hard_conditions_it_is_void(store: Store, change: str) -> None:
    selector = Selector(DEVICE, store)
    hard = dataclasses.replace(selector.hard(TABLE["gemm"]), **{change: "other"})
    put(store, selector, request_of(), "loop", "blas", hard=hard)
    chosen = selector.choose(request_of())
    assert (chosen.kernel, chosen.how) == ("blas", "scored")
    with pytest.raises(FrozenMiss):
        Selector(DEVICE, store, frozen=True).choose(request_of())


@pytest.mark.promise("AICF-selector")
def test_a_policy_is_a_condition(store: Store) -> None:
    strict, loose = Selector(DEVICE, store), Selector(DEVICE, store, deterministic=False)
    put(store, strict, request_of(), "loop", "blas")
    assert loose.choose(request_of()).how == "scored"


@pytest.mark.promise("AICF-selector")
def test_the_digest_is_of_the_built_module() -> None:
    path = TABLE["add"].module.__file__
    assert path is not None
    assert module.module_digest(TABLE["add"]) == files.digest(path)
    assert module.module_digest(TABLE["gemm"]) != module.module_digest(TABLE["add"])


@pytest.mark.promise("AICF-selector-soft")
def test_under_other_soft_conditions_it_is_stale(store: Store) -> None:
    """Taken, and said to be of elsewhere; one from here is preferred, whichever is newer."""
    selector = Selector(DEVICE, store)
    other = Soft("a test's", "2", "", "2 threads")
    put(store, selector, request_of(), "loop", "blas", soft=other, made=9)
    chosen = selector.choose(request_of())
    assert (chosen.kernel, chosen.how) == ("loop", "stale")
    assert chosen.why.endswith("; measured elsewhere: driver 2, not 1")
    put(store, selector, request_of(), "blas", "loop", made=1)
    assert (selector.choose(request_of()).kernel, selector.choose(request_of()).how) == (
        "blas",
        "stored",
    )


@pytest.mark.promise("AICF-selector-frozen")
def test_frozen_is_an_error_on_a_miss(store: Store) -> None:
    frozen = Selector(DEVICE, store, frozen=True)
    with pytest.raises(FrozenMiss) as caught:
        frozen.choose(request_of())
    said = str(caught.value)
    assert "gemm(f32[64, 64], f32[64, 32]): blas, loop are legal, and frozen is on" in said
    assert "python -m aicf tune" in said
    assert str(store.path) in said
    put(store, frozen, request_of(), "loop", "blas")
    assert frozen.choose(request_of()).kernel == "loop"


@pytest.mark.promise("MARK-8-selector")
def test_what_it_costs() -> None:
    """20 us an op cold: with no choice stored, each request new; far less for one seen before."""
    selector = Selector(CpuBackend().info)
    requests = [request_of(64, 64 + i) for i in range(300)]
    cold: list[int] = []
    warm: list[int] = []
    paced: list[int] = []  # what took 20 us where the promise was made
    for took in (cold, warm):
        for request in requests:
            start = time.perf_counter_ns()
            selector.choose(request)
            between = time.perf_counter_ns()
            sum(str(i).count("1") for i in range(150))
            paced.append(time.perf_counter_ns() - between)
            took.append(between - start)
    # The median is of calls that nothing interrupted; this stand-in for explain() is part of it.
    assert statistics.median(cold) < statistics.median(paced), statistics.median(cold)
    assert statistics.median(warm) < statistics.median(paced) / 20, statistics.median(warm)


@pytest.mark.promise("MARK-8-selector")
def test_a_replay_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    selector, cpu = Selector(CpuBackend().info), CpuBackend()
    a, b, out = np.ones((4, 8), "f4"), np.ones((8, 4), "f4"), np.empty((4, 4), "f4")
    chosen = selector.choose(Request.of(TABLE["gemm"], a, b))
    call = cpu.prepare("gemm", a, b, None, None, out, kernel="loop")
    monkeypatch.setattr(Selector, "choose", lambda *_: pytest.fail("asked in a replay"))
    monkeypatch.setattr(Candidates, "__init__", lambda *_: pytest.fail("asked in a replay"))
    cpu.run([call] * 3)
    assert (out == 8).all()
    assert chosen.kernel in ("blas", "loop")
