"""Executors whose programs are captured, over SHIM: what a run calls of CUDA, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Over = Callable[..., Any]

HEAD = """
    import threading
    import numpy as np
    import aicf
    from aicf.backend import cuda, driver
    from aicf.compiler.runtime.executor import ExecutorV2

    driver.Driver = lambda index: None

    def step(x, w, m, v, lr, count):
        h = aicf.ops.relu(aicf.ops.gemm(x, w))
        aicf.ops.adamw([w], [h], m=[m], v=[v], lr=lr, step=count)
        return h

    def made(index=0, **options):
        p = aicf.param("f32[8, 8]")
        graph = aicf.trace(step, "f32[8, 8]", p, p, p, "f32", "i64")
        run = ExecutorV2(graph, cuda.CudaBackend(index=index), mode="graph", **options)
        run.zero(*(v.name for v in graph.params))
        return run

    def calls():
        kept = ("cudaMemcpyAsync", "cuStreamBatchMemOp", "cudaGraphLaunch",
                "cudaGraphInstantiate", "cudaGraphExecUpdate",
                "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
        return [line.name for line in shim.lines() if "node" not in line.words
                and (line.name.startswith("cudaLaunch") or line.name in kept)]
"""


@pytest.mark.promise("COMPILER-graph-first-call")
def test_a_capture_is_the_first_that_a_process_does(over: Over, ops: list[str]) -> None:
    """Nothing runs before or beside it, and from then on a run is one write of its numbers and one
    launch: nobody is waited for."""
    found = over(
        HEAD
        + """
    run = made(outputs="reused")
    x = run.backend.empty((8, 8), "f32")
    shim.reset()
    run.prepare(x, lr=0.1, count=1)
    first = calls()
    seen = []
    for i in range(3):
        shim.reset()
        run(x, lr=0.1 / (i + 1), count=i + 1)
        seen.append(calls())
        nodes = [line for line in shim.lines() if "node" in line.words]
    tell([first, seen, len(nodes), len(run.program().steps), run.reasons, shim.failed()])
    """
    )
    first, seen, nodes, steps, reasons, failed = found
    assert [name for name in first if name.startswith("cudaLaunch")] == []
    assert "cudaGraphLaunch" not in first
    assert seen == [["cuStreamBatchMemOp", "cudaGraphLaunch"]] * 3
    assert nodes == steps == 3
    assert (reasons, failed) == ({}, [])


@pytest.mark.promise("MARK-9-graph-inputs", "COMPILER-graph-moved")
def test_inputs_and_weights_that_are_others(over: Over, ops: list[str]) -> None:
    """An update each, until the input is copied: then a copy more."""
    found = over(
        HEAD
        + """
    run = made(outputs="reused")
    seen = []
    for i in range(6):
        x = run.backend.empty((8, 8), "f32")
        shim.reset()
        run(x, lr=0.1, count=i + 1)
        seen.append(calls())
    run.adopt("w", run.backend.empty((8, 8), "f32"))
    shim.reset()
    run(x, lr=0.1, count=9)
    seen.append(calls())
    graph = run.captured[""]
    tell([seen, run.reasons, shim.failed(), graph.nodes])
    """
    )
    seen, reasons, failed, nodes = found
    copied = ["cudaMemcpyAsync", "cuStreamBatchMemOp", "cudaGraphLaunch"]
    assert seen[4] == seen[5] == copied
    assert all(names[-1] == "cudaGraphLaunch" for names in seen)
    updated = [any(name.startswith("cudaGraphExec") for name in names) for names in seen]
    assert updated == [False, True, True, True, False, False, True]
    assert not any(name.startswith("cudaLaunch") for names in seen for name in names)
    assert (reasons, failed, nodes) == ({}, [], 3)


@pytest.mark.promise("COMPILER-graph-devices")
def test_work_on_one_device_while_another_is_captured(over: Over, ops: list[str]) -> None:
    found = over(
        HEAD
        + """
    add = module("add")
    a, b, c = (aicf_rt.empty((64,), "f32", "cuda:0") for _ in range(3))
    other = made(0)
    x = other.backend.empty((8, 8), "f32")
    stop, counts = threading.Event(), [0, 0]

    def work():
        while not stop.is_set():
            add.add_f32(a, b, c)
            other(x, lr=0.1, count=counts[0] + 1)
            counts[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    runs = []
    while counts[1] < 20 or counts[0] < 20:
        run = made(1)
        y = run.backend.empty((8, 8), "f32")
        run(y, lr=0.1, count=1)
        runs.append(run)
        counts[1] += 1
    stop.set()
    thread.join()
    nodes = {graph.nodes for run in (*runs, other) for graph in run.captured.values()}
    devices = {graph.device for run in runs for graph in run.captured.values()}
    reasons = [run.reasons for run in (*runs, other) if run.reasons]
    tell([sorted(nodes), sorted(devices), reasons, shim.failed()])
    """
    )
    assert found == [[3], ["cuda:1"], [], []]


@pytest.mark.promise("MARK-9-graph-falls-back")
def test_what_cuda_refuses_is_replayed(over: Over, ops: list[str]) -> None:
    found = over(
        HEAD
        + """
    run = made(outputs="reused")
    x = run.backend.empty((8, 8), "f32")
    seen = []
    for i in range(4):
        shim.reset()
        shim.fails("cudaGraphInstantiate", 2)
        run(x, lr=0.1 * i, count=i + 1)
        seen.append(calls())
    tell([seen, run.reasons])
    """
    )
    seen, reasons = found
    assert all(len(names) == 3 and "cudaGraphLaunch" not in names for names in seen[1:])
    assert seen[1:] == [seen[1]] * 3
    assert list(reasons) == [""]
    assert reasons[""]
