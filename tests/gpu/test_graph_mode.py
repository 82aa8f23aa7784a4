"""Captured graphs on a GPU: the bits of op by op, numbers of the run, streams, moved weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicf
from aicf.compiler.runtime.executor import ExecutorV2
from gpu.test_executor import SHAPES, loss, train

pytestmark = pytest.mark.gpu


@pytest.mark.promise("MARK-9-graph-bits")
def test_eager_replay_and_graph_are_the_same_bits() -> None:
    found = [train("cuda", mode, steps=20) for mode in ("eager", "replay", "graph")]
    for other in found[1:]:
        assert other[0] == found[0][0]
        assert all((a == b).all() for a, b in zip(other[1], found[0][1], strict=True))
    assert len(set(found[0][0])) == 20


@pytest.mark.promise("MARK-9-graph-schedule")
@pytest.mark.parametrize("inputs", ["auto", "copy", "repoint"])
def test_a_thousand_steps_under_a_schedule(inputs: Any) -> None:
    params = [aicf.param(f"f32[{', '.join(map(str, s))}]") for s in SHAPES.values()]
    forward = aicf.trace(loss, "f32[32, 1, 8, 8]", "i64[32]", *params)
    training = aicf.training_step(forward, "adamw", weight_decay=0.1)
    backend = aicf.backends.get("cuda")
    r = np.random.default_rng(0)
    weights = {n: r.normal(size=s).astype("f4") / 8 for n, s in SHAPES.items()}
    given = [
        (backend.from_host(r.normal(size=(32, 1, 8, 8)).astype("f4")),
         backend.from_host(r.integers(0, 10, 32)))
        for _ in range(5)
    ]  # fmt: skip
    runs = []
    for mode in ("replay", "graph"):
        run = ExecutorV2(training.graph, backend, params=weights, mode=mode, inputs=inputs)
        run.zero(*training.states)
        runs.append(run)
    losses: list[list[Any]] = [[], []]
    for i in range(1000):
        lr = 0.01 * min(1.0, (i + 1) / 50) * (1 + float(np.cos(np.pi * i / 1000))) / 2
        for run, kept in zip(runs, losses, strict=True):
            kept.append(run(*given[i % 5], lr=lr, step=i + 1))
    assert runs[1].reasons == {}
    assert len(runs[1].captured) == 1
    for a, b in zip(*losses, strict=True):
        assert backend.to_host(a) == backend.to_host(b)
    for name in SHAPES:
        a, b = (backend.to_host(run.param(name)) for run in runs)
        assert (a == b).all()


@pytest.mark.guests("torch")
@pytest.mark.promise("COMPILER-run-streams")
@pytest.mark.parametrize("mode", ["replay", "graph"])
def test_runs_on_a_stream_of_torchs(mode: Any) -> None:
    """Behind long work on it: results are those of what was there before the run, not of before
    that work."""
    import torch

    graph = aicf.trace(lambda x, y: aicf.ops.relu(x + y) * y, "f32[4096]", "f32[4096]")
    run = ExecutorV2(graph, aicf.backends.get("cuda"), mode=mode)
    big = torch.randn(4096, 4096, device="cuda")
    side = torch.cuda.Stream()
    for i in range(12):
        with torch.cuda.stream(side if i % 3 else torch.cuda.current_stream()):
            x = torch.zeros(4096, device="cuda")
            y = torch.zeros(4096, device="cuda")
            for _ in range(4):
                big = (big @ big).clamp_(-1, 1)
            x += i + 1
            y += 2
            found = torch.from_dlpack(run(x, y))
            total = found.sum()
            x -= 100
            assert total.item() == 4096 * (i + 3) * 2
    assert run.reasons == {}


@pytest.mark.guests("torch")
@pytest.mark.promise("COMPILER-graph-moved")
def test_a_weight_of_torchs_that_moves() -> None:
    import torch

    graph = aicf.trace(lambda x, w: x * w, "f32[64]", aicf.param("f32[64]"))
    run = ExecutorV2(graph, aicf.backends.get("cuda"), mode="graph")
    w, x = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
    run.adopt("w", w)
    for i in range(4):
        assert torch.from_dlpack(run(x)).tolist() == (x * w).tolist()
        w.data = torch.full((64,), float(i), device="cuda")
        torch.full((64,), -1.0, device="cuda")  # where it was
        assert torch.from_dlpack(run(x)).tolist() == (x * w).tolist()
    assert run.reasons == {}
    assert len(run.captured) == 1


@pytest.mark.promise("MARK-9-graph-buckets", "COMPILER-graph-padded")
def test_few_graphs_for_many_sizes() -> None:
    """Whatever kernels other sizes take: the bits are those of exact runs, or the run is exact."""
    graph = aicf.trace(
        lambda x, w, b: aicf.ops.softmax(aicf.ops.gemm(x, w, b, act="relu")), "f32[N, 64]",
        aicf.param("f32[64, 32]"), aicf.param("f32[32]"), symbols={"N": (1, 300)},
    )  # fmt: skip
    backend = aicf.backends.get("cuda")
    r = np.random.default_rng(1)
    params = {"w": r.normal(size=(64, 32)).astype("f4"), "b": r.normal(size=32).astype("f4")}
    run = ExecutorV2(graph, backend, params=params, mode="graph", buckets="auto")
    exact = ExecutorV2(graph, backend, params=params, mode="eager")
    for n in r.integers(1, 301, 60):
        x = backend.from_host(r.normal(size=(int(n), 64)).astype("f4"))
        for _ in range(2):
            found = backend.to_host(run(x))
            assert found.tobytes() == backend.to_host(exact(x)).tobytes(), (n, run.reasons)
    assert len(run.captured) <= 8
    assert all("not the same" in why for why in run.reasons.values())
    print(f"{len(run.reasons)} sizes run exactly")


@pytest.mark.promise("MARK-9-graph-per-op")
def test_ops_of_a_captured_graph_are_timed() -> None:
    params = [aicf.param(f"f32[{', '.join(map(str, s))}]") for s in SHAPES.values()]
    forward = aicf.trace(loss, "f32[64, 1, 8, 8]", "i64[64]", *params)
    training = aicf.training_step(forward, "sgd")
    backend = aicf.backends.get("cuda")
    weights = {n: np.ones(s, "f4") / 8 for n, s in SHAPES.items()}
    run = ExecutorV2(training.graph, backend, params=weights, mode="graph")
    x = backend.from_host(np.ones((64, 1, 8, 8), "f4"))
    y = backend.from_host(np.zeros(64, "int64"))
    run(x, y, lr=0.0)
    before = {name: backend.to_host(run.param(name)) for name in SHAPES}
    times = run.per_op(x, y, lr=0.5, count=50)
    assert [t.op for t in times] == [n.op for n in training.graph.nodes if not n.is_view]
    assert all(1e-7 < t.seconds < 1e-2 for t in times)
    assert all((before[n] == backend.to_host(run.param(n))).all() for n in SHAPES)
