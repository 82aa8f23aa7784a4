"""Graphs and tables cross processes and are copied, with places in source and who is whose."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import aicf
from aicf.backend.cpu import CpuBackend
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.training import training_step
from aicf.compiler.runtime.executor import ExecutorV2
from aicf.table import Table, TableError
from compiler.test_executor import batches, forward, weights

promise = pytest.mark.promise("MARK-8-pickle")
AGAIN = {
    "deepcopy": copy.deepcopy,
    **{f"pickle {p}": lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in (2, 4, 5)},
}


@promise
@pytest.mark.parametrize("way", AGAIN)
def test_a_graph_is_the_same_and_apart(way: str) -> None:
    graph = training_step(forward(), "adamw").graph
    made = AGAIN[way](graph)
    assert made == graph
    assert made.text() == graph.text()
    assert made.key() == graph.key()
    assert [n.loc for n in made.nodes] == [n.loc for n in graph.nodes]
    assert made.table is graph.table
    assert not set(made.values) & set(graph.values)
    made.verify()
    before = graph.text()
    made.output(made.add("relu", made.outputs[0]).out)
    assert graph.text() == before != made.text()
    found = []
    for each in (graph, AGAIN[way](graph)):
        run = ExecutorV2(each, CpuBackend(), params=weights())
        run.zero(*(p.name for p in each.params if p.name not in weights()))
        found.append([float(run(x, y, lr=0.1, step=1)) for x, y in batches(3)])
    assert found[0] == found[1]


@promise
@pytest.mark.parametrize("way", AGAIN)
def test_values_of_a_graph_stay_its_own(way: str) -> None:
    """What is copied together hangs together."""
    graph = forward()
    made, value, nodes = AGAIN[way]((graph, graph.inputs[0], list(graph.nodes)))
    assert made.inputs[0] is value
    assert nodes == made.nodes
    with pytest.raises(TypeError, match="does not support item assignment"):
        nodes[0].attrs["act"] = "none"


@promise
def test_tables_and_rows_are_those_that_are_there() -> None:
    table = Table.default()
    for again in AGAIN.values():
        assert again(table) is table
        assert again(table["gemm"]) is table["gemm"]
    assert copy.copy(forward()) == forward()


@promise
def test_another_table_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table.default()
    dumped = [pickle.dumps(x) for x in (forward(), table["gemm"])]
    rows = {"gemm": dataclasses.replace(table["gemm"], hash="0" * 64)}
    other = dataclasses.replace(table, hash="f" * 64, ops=rows)
    with pytest.raises(TableError, match="is not that of the package"):
        pickle.dumps(Graph(other))
    assert copy.deepcopy(Graph(other)).table is other
    monkeypatch.setattr(Table, "of", staticmethod(lambda package: other))
    for text in dumped:
        with pytest.raises(TableError, match="what was pickled is of another aicf_cuda"):
            pickle.loads(text)


@promise
def test_what_cannot_cross_says_so() -> None:
    run = ExecutorV2(forward(), CpuBackend(), params=weights())
    x, y = next(batches(1))
    expected = float(run(x, y))
    things: list[Any] = [run, run.program(N=7)]
    for thing in things:
        for way in (copy.deepcopy, copy.copy, pickle.dumps):
            with pytest.raises(TypeError, match="its graph can be"):
                way(thing)
    assert float(run(x, y)) == expected
    assert aicf.ExecutorV2 is ExecutorV2
    assert np.isfinite(expected)
