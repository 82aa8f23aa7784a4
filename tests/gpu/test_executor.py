"""Graphs on a GPU: eager and replayed give the same bits, and what the CPU gives to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicf
from aicf.compiler.runtime.executor import ExecutorV2

SHAPES = {"k": (8, 1, 3, 3), "c": (8,), "w": (128, 10), "b": (10,)}


def loss(x: Any, y: Any, k: Any, c: Any, w: Any, b: Any) -> Any:
    h = aicf.ops.relu(aicf.ops.conv2d(x, k, c, pad=1))
    h = aicf.ops.max_pool2d(h, window=2, stride=2)
    return aicf.ops.cross_entropy(aicf.ops.gemm(h.reshape(x.shape[0], 128), w, b), y)


def train(device: str, mode: str, steps: int = 6) -> tuple[list[float], list[Any]]:
    params = [aicf.param(f"f32[{', '.join(map(str, s))}]") for s in SHAPES.values()]
    forward = aicf.trace(loss, "f32[N, 1, 8, 8]", "i64[N]", *params, symbols={"N": (1, 64)})
    training = aicf.training_step(forward, "adamw", weight_decay=0.1)
    backend = aicf.backends.get(device)
    r = np.random.default_rng(0)
    weights = {n: r.normal(size=s).astype("f4") / 8 for n, s in SHAPES.items()}
    run = ExecutorV2(training.graph, backend, params=weights, mode=mode)  # type: ignore[arg-type]
    run.zero(*training.states)
    losses = []
    for i in range(steps):
        n = 32 if i % 3 else 17
        x, y = r.normal(size=(n, 1, 8, 8)).astype("f4"), r.integers(0, 10, n)
        found = run(backend.from_host(x), backend.from_host(y), lr=0.01 / (i + 1), step=i + 1)
        losses.append(float(backend.to_host(found)))
    return losses, [backend.to_host(run.param(name)) for name in SHAPES]


@pytest.mark.gpu
@pytest.mark.promise("MARK-8-executor")
def test_a_step_on_the_gpu() -> None:
    eager, replay, cpu = train("cuda", "eager"), train("cuda", "replay"), train("cpu", "replay")
    assert eager[0] == replay[0]
    for a, b, c in zip(eager[1], replay[1], cpu[1], strict=True):
        assert (a == b).all()
        assert np.allclose(a, c, rtol=1e-3, atol=1e-4)
    assert np.allclose(eager[0], cpu[0], rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.promise("COMPILER-plan-workspace", "COMPILER-plan-real")
def test_workspaces_of_a_step_lie_in_its_arena() -> None:
    """Whatever each kernel asks for: the same bits as where each launch takes memory."""
    forward = aicf.trace(
        lambda x, y, w, b: aicf.ops.cross_entropy(aicf.ops.gemm(x, w, b), y),
        "f32[256, 512]", "i64[256]", aicf.param("f32[512, 512]"), aicf.param("f32[512]"),
    )  # fmt: skip
    graph, backend = aicf.training_step(forward, "sgd").graph, aicf.backends.get("cuda")
    r = np.random.default_rng(0)
    weights = {"w": r.normal(size=(512, 512)).astype("f4"), "b": r.normal(size=512).astype("f4")}
    x = backend.from_host(r.normal(size=(256, 512)).astype("f4"))
    y = backend.from_host(r.integers(0, 512, 256))
    given = []
    for keeps in (True, False):
        run = ExecutorV2(graph, backend, params=weights)
        program = run.program()
        needing = [s for s in program.steps if s.call is not None and s.call.workspace_size]
        assert program.plan is not None
        assert len([b for b in program.plan.buffers if b.kind == "workspace"]) == len(needing) > 0
        assert program.plan.optimal
        for step in needing if not keeps else ():
            step.call.set(workspace=None)
        losses = [backend.to_host(run(x, y, lr=0.1)) for _ in range(3)]
        given.append([*losses, *(backend.to_host(run.param(n)) for n in weights)])
    for ours, theirs in zip(*given, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.gpu
@pytest.mark.promise("MARK-8-executor")
def test_ops_are_timed_one_by_one() -> None:
    graph = aicf.trace(lambda a, b: aicf.ops.relu(a @ b), "f32[512, 512]", "f32[512, 512]")
    backend = aicf.backends.get("cuda")
    run = ExecutorV2(graph, backend)
    a, b = (backend.from_host(np.ones((512, 512), "f4")) for _ in range(2))
    times = run.per_op(a, b, count=50)
    assert [t.op for t in times] == ["gemm", "relu"]
    assert all(1e-7 < t.seconds < 1e-2 for t in times)


@pytest.mark.gpu
@pytest.mark.guests("torch")
@pytest.mark.promise("COMPILER-run-scalars")
def test_numbers_on_the_device_are_not_waited_for() -> None:
    import torch

    graph = aicf.trace(
        lambda p, g, lr: aicf.ops.sgd([p], [g], lr=lr), aicf.param("f32[4]"), "f32[4]", "f32[]"
    )
    run = ExecutorV2(graph, aicf.backends.get("cuda"), params={"p": np.zeros(4, "f4")})
    rate, g = torch.zeros((), device="cuda"), torch.ones(4, device="cuda")
    run(g, rate)
    rate += 0.5
    run(g, rate)
    run(g, rate)
    assert (aicf.backends.get("cuda").to_host(run.param("p")) == -1.0).all()
