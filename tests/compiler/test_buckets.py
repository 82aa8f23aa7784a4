"""Sizes that are rounded up: few graphs for many sizes, and never another bit."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import aicf
from aicf.backend.cpu import CpuBackend
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.training import training_step
from aicf.compiler.runtime.buckets import spread
from aicf.compiler.runtime.executor import ExecutorV2
from compiler.emulated import Emulated
from compiler.test_executor import forward, weights

promise = pytest.mark.promise("MARK-9-graph-buckets")
never = pytest.mark.promise("COMPILER-graph-padded")


def of_rows(function: Any, *types: str, most: int = 64) -> Graph:
    graph: Graph = aicf.trace(function, *types, symbols={"N": (1, most)})
    return graph


def rows(most: int = 64) -> Graph:
    graph: Graph = aicf.trace(
        lambda x, b: aicf.ops.softmax(aicf.ops.relu(aicf.ops.bias_add(x, b))), "f32[N, 8]",
        aicf.param("f32[8]"), symbols={"N": (1, most)},
    )  # fmt: skip
    return graph


@promise
@pytest.mark.parametrize("outputs, count", [("fresh", 1000), ("reused", 100)])
def test_a_thousand_random_sizes_have_eight_graphs(outputs: Any, count: int) -> None:
    backend = Emulated(strict=True)
    b = np.linspace(-1, 1, 8, dtype="f4")
    graph = rows(128)
    run = ExecutorV2(graph, backend, params={"b": b}, mode="graph", outputs=outputs, buckets="auto")
    other = ExecutorV2(graph, CpuBackend(), params={"b": b}, mode="eager")
    draw, r = random.Random(3), np.random.default_rng(3)
    whole = r.normal(size=(128, 8)).astype("f4")
    sizes = [draw.randint(1, 128) for _ in range(count)]
    for i, n in enumerate(sizes):
        x = whole[:n] if i % 2 else np.roll(whole, i, 0)[:n]
        found = np.asarray(run(x))
        assert found.shape == (n, 8)
        if i % 5 == 0:
            assert found.tobytes() == np.asarray(other(x)).tobytes(), n
    assert run.reasons == {}
    assert backend.tries == len(backend.graphs) <= 8
    assert len(run.captured) <= 8
    assert all(graph.updates == [] for graph in backend.graphs)


@promise
def test_results_of_one_size_do_not_overwrite_those_of_another() -> None:
    run = ExecutorV2(rows(), Emulated(), params={"b": np.zeros(8, "f4")}, mode="graph",
                     buckets={"N": (16, 64)})  # fmt: skip
    r = np.random.default_rng(0)
    given = [r.normal(size=(n, 8)).astype("f4") for n in (3, 16, 5, 40, 3, 64, 1)]
    found = [run(x) for x in given]
    for x, y in zip(given, found, strict=True):
        assert np.asarray(run(x)).tobytes() == np.asarray(y).tobytes()
    assert sorted(run.captured) == ["N = 16", "N = 64"]


@promise
def test_numbers_and_other_inputs_are_those_of_the_run() -> None:
    """Though runs of other sizes had others in between, and params move."""
    graph = Graph()
    n = graph.symbol("N", 1, 32)
    x, w = graph.input("x", f"f32[{n}, 4]"), graph.input("w", "f32[4]")
    p, seed = graph.param("p", "f32[4]"), graph.input("seed", "i64")
    y = graph.add("bias_add", graph.add("bias_add", x, w).out, p).out
    graph.output(graph.add("dropout", y, seed=seed, p=0.5).out)
    run = ExecutorV2(graph, Emulated(strict=True), params={"p": np.ones(4, "f4")}, mode="graph",
                     buckets={"N": [8, 32]})  # fmt: skip
    other = ExecutorV2(graph, CpuBackend(), params={"p": np.ones(4, "f4")}, mode="eager")
    draw, r = random.Random(1), np.random.default_rng(1)
    ws = [r.normal(size=4).astype("f4") for _ in range(3)]
    for i in range(60):
        size = draw.randint(1, 32)
        given = r.normal(size=(size, 4)).astype("f4"), draw.choice(ws), draw.randint(0, 3)
        if i % 20 == 19:
            for each in (run, other):
                each.adopt("p", np.full(4, i, "f4"))
        assert np.asarray(run(*given)).tobytes() == np.asarray(other(*given)).tobytes(), i
    assert run.reasons == {}
    assert len(run.captured) == 2


# ---- what must not be padded ---------------------------------------------------------------------


MIXING: dict[str, Any] = {
    "mean": lambda x: aicf.ops.bias_add(x, aicf.ops.mean(x, axes=0)),
    "max": lambda x: aicf.ops.bias_add(x, aicf.ops.max(x, axes=0)),
    "softmax": lambda x: aicf.ops.softmax(x, axis=0),
    "sum": lambda x: aicf.ops.bias_add(x, aicf.ops.sum(x * x, axes=0)),
}


@never
@pytest.mark.parametrize("name", MIXING)
def test_rows_that_are_not_apart_are_run_exactly(name: str) -> None:
    """Whatever the data of the first run hid."""
    graph = of_rows(MIXING[name], "f32[N, 3]")
    run = ExecutorV2(graph, Emulated(), mode="graph", buckets={"N": (8, 64)})
    other = ExecutorV2(graph, CpuBackend(), mode="eager")
    r = np.random.default_rng(5)
    for n in (5, 6, 8, 5, 30, 6, 64):
        for sign in (1, -1):
            x = sign * abs(r.normal(size=(n, 3))).astype("f4")
            assert np.asarray(run(x)).tobytes() == np.asarray(other(x)).tobytes()
    same = name == "max"  # of rows that are there twice
    assert same or set(run.reasons) == {"N = 5", "N = 6", "N = 30"}
    assert same or all("not the same where the rows beyond" in w for w in run.reasons.values())


@never
@pytest.mark.parametrize("first", ["zeros", "ones", "labels"])
def test_integers_that_are_summed_over_rows(first: str) -> None:
    """Of zeros it cannot be seen whether they are summed: such a run tells nothing."""

    def counted(x: Any) -> Any:
        total = aicf.ops.cast(aicf.ops.sum(x, axes=0), dtype="f32")
        return aicf.ops.bias_add(aicf.ops.cast(x, dtype="f32"), total)

    graph = of_rows(counted, "i64[N, 2]")
    run = ExecutorV2(graph, Emulated(), mode="graph", buckets={"N": (8,)})
    other = ExecutorV2(graph, CpuBackend(), mode="eager")
    r = np.random.default_rng(6)
    begin = {"zeros": np.zeros((5, 2), "i8"), "ones": np.ones((5, 2), "i8")}
    for x in (begin.get(first, r.integers(0, 3, (5, 2))), *r.integers(-3, 3, (6, 5, 2))):
        x = x.astype("i8").astype("int64")
        assert np.asarray(run(x)).tobytes() == np.asarray(other(x)).tobytes()
    assert list(run.reasons) == ["N = 5"]


@never
@pytest.mark.parametrize(
    "graph, words",
    [
        (training_step(forward(), "sgd").graph, "sgd updates w1, in which rows beyond would count"),
        (forward(), r"output %cross_entropy: f32\[\] is not one of rows: N does not lead it"),
        (of_rows(lambda x: aicf.ops.relu(x), "f32[3, N]"), r"input %x: f32\[3, N\] has N else"),
        (of_rows(lambda x, y: aicf.ops.gemm(x, y), "f32[N, 3]", "f32[3, N]"), "has N elsewhere"),
        (of_rows(lambda x: x, "f32[N]"), "output x lies in x"),
    ],
)  # fmt: skip
def test_what_is_plainly_no_graph_of_rows_is_named(graph: Graph, words: str) -> None:
    params = {k: w for k, w in weights().items() if k in [p.name for p in graph.params]}
    run = ExecutorV2(graph, Emulated(), params=params, mode="graph", buckets="auto")
    other = ExecutorV2(graph, CpuBackend(), params=params, mode="eager")
    r = np.random.default_rng(2)
    for n in (3, 4, 3):
        given: list[Any] = []
        for v in graph.inputs:
            shape = tuple(s if isinstance(s, int) else n for s in getattr(v.type, "shape", ()))
            is_label = getattr(v.type, "dtype", "") == "i64"
            given.append(r.integers(0, 3, shape) if is_label else r.normal(size=shape).astype("f4"))
        if graph.inputs[-1].name == "lr":
            given[-1] = 0.1
        assert np.asarray(run(*given)).tobytes() == np.asarray(other(*given)).tobytes()
    assert set(run.reasons) == {"N = 3", "N = 4"}
    assert all(re.search(words, why) for why in run.reasons.values())
    assert run.captured == {}


@promise
def test_sizes_that_have_no_bucket_are_run_exactly() -> None:
    run = ExecutorV2(rows(), Emulated(), params={"b": np.zeros(8, "f4")}, mode="graph",
                     buckets={"N": (4,)})  # fmt: skip
    for n in (9, 2, 9):
        assert np.asarray(run(np.ones((n, 8), "f4"))).shape == (n, 8)
    assert run.reasons == {"N = 9": "N has no bucket for 9"}


@promise
@pytest.mark.parametrize(
    "buckets, words",
    [
        ("all", "buckets are \"auto\", or sizes of one symbol"),
        (8, "buckets are \"auto\""),
        ({"N": (8,), "M": (1,)}, "buckets are \"auto\""),
        ({"M": (8,)}, "no symbol M; there are N"),
        ({"N": ()}, "buckets of N must be sizes, not ()"),
        ({"N": "8"}, "buckets of N must be sizes, not '8'"),
        ({"N": (8, 2.5)}, "buckets of N must be sizes, not 2.5"),
        ({"N": (True,)}, "buckets of N must be sizes, not True"),
        ({"N": (8, 65)}, "a bucket of N is 65, and its range 1..64"),
        ({"N": (0,)}, "a bucket of N is 0, and its range 1..64"),
    ],
)  # fmt: skip
def test_buckets_that_are_none(buckets: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        ExecutorV2(rows(), CpuBackend(), mode="graph", buckets=buckets)
    with pytest.raises(ValueError, match='buckets are of mode "graph"'):
        ExecutorV2(rows(), CpuBackend(), mode="replay", buckets="auto")
    open_end = aicf.trace(lambda x: x + x, "f32[N]", symbols={"N": (1, None)})
    with pytest.raises(ValueError, match="N has no largest size: say which its buckets are"):
        ExecutorV2(open_end, CpuBackend(), mode="graph", buckets="auto")


@promise
def test_sizes_are_spread_over_a_range() -> None:
    assert spread(1, 3) == (1, 2, 3)
    assert spread(5, 5) == (5,)
    for low, high in ((1, 512), (1, 9), (7, 4096), (100, 108), (1, 2**31 - 1)):
        found = spread(low, high)
        assert len(found) <= 8
        assert found[0] == low
        assert found[-1] == high
        assert list(found) == sorted(set(found))
