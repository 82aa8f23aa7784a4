"""What public functions are given of another kind altogether is named, before anything is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicf
from aicf.backend.cpu import CpuBackend
from aicf.compiler.passes.bisect import bisect
from aicf.compiler.passes.pipeline import standard
from aicf.compiler.passes.proof import prove
from aicf.compiler.passes.rules.matmul_bias_act import MatmulBiasAct
from aicf.compiler.passes.trial import trial
from aicf.compiler.runtime.executor import ExecutorV2
from aicf.compiler.runtime.interpret import interpret
from aicf.compiler.runtime.plan.pack import pack
from aicf.compiler.runtime.plan.problem import Buffer

CPU, RULE, W = CpuBackend(), MatmulBiasAct(), {"w": np.ones((4, 3), "f4")}
GRAPH: Any = aicf.trace(
    lambda x, w: aicf.ops.relu(x @ w), "f32[N, 4]", aicf.param("f32[4, 3]"), symbols={"N": (1, 64)}
)
X = {"x": np.ones((2, 4), "f4")}
NO_GRAPH = "graph must be a Graph, not a int"
NO_BACKEND = r"backend must be an AicfBackend, not a str: aicf.backends.get\('cpu'\)"
NO_SIZES = "sizes must be a mapping of symbols to numbers, not a int"
NO_DATA = "data must be a mapping of names to arrays, not a int"
NO_PASS = r"3 is no pass: it has a name, and run\(graph, context\)"


@pytest.mark.promise("AICF-given")
@pytest.mark.parametrize(
    "call, wrong, said",
    [
        (trial, {"graph": 3}, NO_GRAPH),
        (trial, {"rule": 3}, NO_PASS),
        (trial, {"backend": "cpu"}, NO_BACKEND),
        (trial, {"data": 3}, NO_DATA),
        (trial, {"sizes": 3}, NO_SIZES),
        (trial, {"budget": 3}, "budget must be a Budget, not a int"),
        (trial, {"context": 3}, "context must be a Context, not a int"),
        (bisect, {"graph": 3}, NO_GRAPH),
        (bisect, {"passes": [3]}, NO_PASS),
        (bisect, {"backend": "cpu"}, NO_BACKEND),
        (bisect, {"data": 3}, NO_DATA),
        (bisect, {"sizes": 3}, NO_SIZES),
        (prove, {"rule": 3}, "rule must be a Rule, not a int"),
        (prove, {"example": 3}, "example must be a function, not a int"),
        (aicf.quantise, {"graph": 3}, NO_GRAPH),
        (aicf.quantise, {"params": None}, "params must be a mapping of names to arrays, not None"),
        (aicf.quantise, {"data": 3}, "data must be batches, not a int"),
        (aicf.quantise, {"data": [X["x"]]}, "a batch must be a mapping of names .* not a ndarray"),
        (aicf.quantise, {"data": [None]}, "a batch must be a mapping of names to arrays, not None"),
        (aicf.quantise, {"backend": "cpu"}, NO_BACKEND),
        (aicf.quantise, {"least_db": "much"}, "least_db must be a number, not 'much'"),
        (aicf.quantise, {"least_db": float("nan")}, "least_db must be a number, not nan"),
        (aicf.quantise, {"max_drop": None}, "max_drop must be a number, not None"),
        (aicf.quantise, {"keep": 3}, "keep must be names of outs, not a int"),
        (aicf.training_step, {"graph": 3}, NO_GRAPH),
        (aicf.training_step, {"optimizer": 3}, "optimizer must be the name of a row, not a int"),
        (pack, {"buffers": [3]}, "3 is no Buffer"),
        (pack, {"align": 3.5}, "an alignment is a whole number, 1 at least, not 3.5"),
        (Buffer, {"lower": 0.5}, "a: lower is 0.5, and no whole number"),
        (Buffer, {"size": True}, "a: size is True, and no whole number"),
    ],
)
def test_it_is_named(call: Any, wrong: dict[str, Any], said: str) -> None:
    right: dict[Any, dict[str, Any]] = {
        trial: {"graph": GRAPH, "rule": RULE, "backend": CPU},
        bisect: {"graph": GRAPH, "passes": standard().passes, "backend": CPU},
        prove: {"rule": RULE, "example": lambda draw, broken: None},
        aicf.quantise: {"graph": GRAPH, "params": W, "data": [X]},
        aicf.training_step: {"graph": GRAPH, "optimizer": "sgd"},
        pack: {"buffers": [Buffer("a", 0, 1, 5)]},
        Buffer: {"id": "a", "lower": 0, "upper": 1, "size": 5},
    }
    with pytest.raises((TypeError, ValueError), match=said):
        call(**{**right[call], **wrong})


@pytest.mark.promise("AICF-given")
@pytest.mark.parametrize("size", ["2", 2.0, True, None])
def test_a_size_is_a_whole_number(size: Any) -> None:
    with pytest.raises(aicf.IRError, match=r"N is .*, and no whole number"):
        ExecutorV2(GRAPH, CPU, params=W).program(N=size)


@pytest.mark.promise("AICF-given")
def test_what_the_interpreter_is_given_has_the_type_of_its_value() -> None:
    for wrong, said in (
        (np.ones((2, 4)), r"x: it is f32\[2, 4\], and f64 was given"),
        (np.ones((2, 4), "i4"), r"x: it is f32\[2, 4\], and i32 was given"),
    ):
        with pytest.raises(aicf.IRError, match=said):
            interpret(GRAPH, {**W, "x": wrong})
    with pytest.raises(aicf.IRError, match=r"x: it is f32\[2, 4\], and 3 was given"):
        interpret(GRAPH.bind({"N": 2}), {**W, "x": 3})


@pytest.mark.promise("MARK-9-graph-buckets")
def test_buckets_of_a_symbol_that_nothing_has() -> None:
    graph = aicf.Graph()
    graph.symbol("N", 1, 64)
    graph.output(graph.add("relu", graph.input("x", "f32[3]")).out)
    run = ExecutorV2(graph, CPU, mode="graph", buckets={"N": (8, 64)})
    assert run(np.array([-1, 0, 2], "f4")).tolist() == [0, 0, 2]
    assert next(iter(run.reasons.values())) == "no input has N"
