"""Training steps of unusual forwards: repeated gradients, unused params, dtypes side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aicf
from aicf import param
from aicf.backend.cpu import CpuBackend
from aicf.compiler.ir.autodiff import derive
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.training import training_step
from aicf.compiler.runtime.executor import ExecutorV2

promise = pytest.mark.promise("MARK-8-training")
ones = np.ones


def traced(function: Callable[..., Any], *arguments: Any) -> Graph:
    graph: Graph = aicf.trace(function, *arguments)
    return graph


@promise
@pytest.mark.parametrize("mode", ["eager", "replay"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "rmsprop"])
def test_a_gradient_that_is_repeated_and_a_param_that_is_not_read(
    optimizer: str, mode: str
) -> None:
    """The gradient of a bias under a sum is one number in every place, of what is not read 0."""
    graph = traced(lambda x, b, u: aicf.ops.sum(x + b), "f32[4]", param("f32[4]"), param("f32[2]"))
    training = training_step(graph, optimizer)
    given = {"b": ones(4, "f4"), "u": ones(2, "f4")}
    run = ExecutorV2(training.graph, CpuBackend(), params=given, mode=mode)  # type: ignore[arg-type]
    run.zero(*training.states)
    numbers = {v.name: 1 if v.name == "step" else 0.5 for v in training.graph.inputs[1:]}
    assert run(ones(4, "f4"), **numbers) == 8
    b, u = run.param("b"), run.param("u")
    assert len(set(b.tolist())) == 1
    assert b[0] < 1
    assert u.tolist() == pytest.approx([1, 1], abs=0.01)  # but for a decay of weights


@promise
def test_dtypes_side_by_side_have_numbers_of_their_own() -> None:
    graph = traced(
        lambda x, w, v: (aicf.ops.sum(x * w), aicf.ops.sum(v)),
        "f32[4]", param("f32[4]"), param("f64[4]"),
    )  # fmt: skip
    training = training_step(graph, "sgd")
    assert [str(v.type) for v in training.graph.inputs[1:]] == ["f32", "f64"]
    given = {"w": ones(4, "f4"), "v": ones(4)}
    run = ExecutorV2(training.graph, CpuBackend(), params=given)
    run(ones(4, "f4"), **{"lr": 0.5, "lr.f64": 0.25})
    assert run.param("w").tolist() == [0.5] * 4
    assert run.param("v").tolist() == [1.0] * 4  # the loss does not read it


@promise
@pytest.mark.parametrize("mode", ["eager", "replay"])
def test_an_output_that_is_updated_is_what_the_forward_gave(mode: str) -> None:
    graph = traced(lambda x, w: (aicf.ops.sum(x * w), w, w.T), "f32[2, 3]", param("f32[2, 3]"))
    training = training_step(graph, "sgd")
    run = ExecutorV2(training.graph, CpuBackend(), params={"w": ones((2, 3), "f4")}, mode=mode)  # type: ignore[arg-type]
    _, w, turned = map(np.asarray, run(ones((2, 3), "f4"), lr=0.5))
    assert (w == 1).all()
    assert turned.shape == (3, 2)
    assert (turned == 1).all()
    assert (run.param("w") == 0.5).all()


@promise
def test_one_name_is_one_name() -> None:
    graph = traced(lambda x, weight: aicf.ops.sum(x * weight), "f32[4]", param("f32[4]"))
    assert list(derive(graph, wrt="weight").gradients) == ["weight"]
    training = training_step(graph, "sgd", wrt="weight", states="buf", momentum=0.9)
    assert training.states == ("weight.buf",)


@promise
def test_a_graph_without_outputs_has_no_loss() -> None:
    with pytest.raises(ValueError, match="has no output: name the loss"):
        training_step(Graph(name="empty"), "sgd")
