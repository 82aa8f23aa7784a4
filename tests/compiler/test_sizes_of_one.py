"""Graphs of any size, run where a size is 1: what lies between elements that are alone says
nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicf
from aicf.compiler.ir.graph import Graph
from aicf.compiler.runtime.executor import ExecutorV2
from aicf.compiler.runtime.interpret import interpret
from compiler.emulated import host


@pytest.mark.promise("MARK-8-infer")
@pytest.mark.parametrize("mode", ["eager", "replay", "graph"])
def test_a_training_step_of_a_mean_takes_a_batch_of_one(mode: Any) -> None:
    """Its gradient is one number expanded over the batch."""
    forward = aicf.trace(
        lambda x, w: aicf.ops.mean(x * w), "f32[N, 3]", aicf.param("f32[3]"), symbols={"N": (1, 64)}
    )
    training = aicf.training_step(forward, "sgd")
    run = ExecutorV2(training.graph, host(mode), params={"w": np.ones(3, "f4")}, mode=mode)
    batches = ([[1, 2, 3], [3, 4, 5]], [[3, 3, 3]], [[1, 2, 3]] * 2)
    losses = [float(run(np.array(rows, "f4"), lr=1.0)) for rows in batches]
    assert losses == pytest.approx([3, 0, -20 / 9], abs=1e-6)
    assert run.param("w").tolist() == pytest.approx([-1, -5 / 3, -7 / 3])


@pytest.mark.promise("MARK-8-infer")
@pytest.mark.parametrize("n", [0, 1, 2])
def test_ops_of_turned_tensors_take_one_row_and_none(n: int) -> None:
    graph = Graph()
    graph.symbol("N", 0, 64)
    x = graph.input("x", "f32[N, 3, 4]")
    turned = graph.add("view.permute", x, perm=(2, 1, 0)).out
    y = graph.add("neg", turned).out
    graph.output(y, graph.add("view.permute", graph.add("exp", y).out, perm=(2, 0, 1)).out)
    a = np.random.default_rng(0).normal(size=(n, 3, 4)).astype("f4")
    right = [-a.T, np.exp(-a.T).transpose(2, 0, 1)]
    run = ExecutorV2(graph, host("replay"))
    for found in (run(a), interpret(graph, {"x": a})):
        for got, want in zip(found, right, strict=True):
            assert np.allclose(got, want, 1e-6)
