"""Tracing what is wrong in quiet ways: indices, orders of axes, numbers that a dtype has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import aicf
from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.text import ParseError
from aicf.compiler.ir.trace import TraceError
from aicf.compiler.runtime.interpret import interpret

promise = pytest.mark.promise("MARK-8-trace")
X = np.arange(6, dtype="f4").reshape(2, 3)


def traced(function: Callable[..., Any], type: str = "f32[2, 3]") -> Graph:
    graph: Graph = aicf.trace(function, type)
    return graph


@promise
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[-2],
        lambda x: x[np.int64(1), -1:],
        lambda x: x.reshape((3, 2)),
        lambda x: x.reshape([-1]),
        lambda x: x * np.float32(0.5) + np.int64(2),
    ],
)
def test_what_numpy_gives(function: Callable[..., Any]) -> None:
    found = interpret(traced(function), {"x": X})[0]
    assert found.tolist() == function(X).tolist()


@promise
@pytest.mark.parametrize("perm", [(1, 0), (-1, 0), ((1, 0),), ([-1, -2],)])
def test_orders_of_axes(perm: Any) -> None:
    found = interpret(traced(lambda x: x.permute(*perm)), {"x": X})[0]
    assert found.tolist() == X.T.tolist()


@promise
@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x: x[-3], "index -3 is outside of an axis of 2"),
        (lambda x: x[2], "index 2 is outside of an axis of 2"),
        (lambda x: x[True], "True is no integer and no slice"),
        (lambda x: x[::0], "0:2:0 of an axis of 2"),
        (lambda x: x[0, 0, 0], "3 indices of 2 dims"),
        (lambda x: x.permute(0, 0), r"perm \(0, 0\) is no order of 2 axes"),
        (lambda x: x.permute(0), r"perm \(0,\) is no order of 2 axes"),
        (lambda x: x.reshape(0, -1), "leaves open what -1 is"),
        (lambda x: x.reshape(-1, -1), "leaves open what -1 is"),
        (lambda x: len(x[0, 0]), "has no dims, and no length"),
        (lambda x: aicf.ops.relu(x, out=x), "relu: out is new in a graph"),
        (lambda x: aicf.ops.relu(x, out=X), "relu: out is new in a graph"),
        (lambda x: x * 10**400, "is no f32"),
    ],
)
def test_what_is_refused_with_its_line(function: Callable[..., Any], words: str) -> None:
    with pytest.raises((TraceError, IRError), match=rf"test_trace_hostile\.py:\d+: .*{words}"):
        traced(function)


@promise
@pytest.mark.parametrize(
    "type, number", [("i32", 0.5), ("i32", float("nan")), ("u8", 300), ("u8", -1), ("i8", 128)]
)
def test_a_number_that_a_dtype_has_not(type: str, number: Any) -> None:
    """Rounded, 0.5 times integers was 0."""
    with pytest.raises(IRError, match=rf"test_trace_hostile.*{number} is no {type}"):
        traced(lambda x: x * number, f"{type}[3]")
    graph = Graph()
    with pytest.raises(IRError, match=f"c: {number} is no {type}"):
        graph.constant("c", f"{type}[3]", number)
    assert list(graph.values) == []


@promise
def test_numbers_that_dtypes_have() -> None:
    for type, number in [
        ("u8", 255),
        ("i8", -128),
        ("i32", 2.0),
        ("i64", -(2**63)),
        ("bool", True),
    ]:
        graph = Graph()
        graph.output(graph.constant("c", f"{type}[3]", number))
        assert Graph.parse(graph.text()) == graph


class Pair(NamedTuple):
    left: Any
    right: Any


@promise
def test_named_tuples_are_arguments() -> None:
    graph = aicf.trace(lambda p: p.left + p.right, Pair("f32[3]", "f32[3]"))
    assert [v.name for v in graph.inputs] == ["p.left", "p.right"]


@pytest.mark.promise("MARK-8-text")
def test_graphs_of_any_function_are_read_back() -> None:
    def é(x: Any) -> Any:
        return x * np.float64(0.5)

    for function, name in [(lambda x: x, "lambda"), (é, "graph"), (aicf.ops.relu, "relu")]:
        graph = traced(function)
        assert graph.name == name
        assert Graph.parse(graph.text()) == graph


@pytest.mark.promise("MARK-8-text")
@pytest.mark.parametrize("name", ["", "a b", "é", "x\n}"])
def test_a_name_that_no_text_says(name: str) -> None:
    with pytest.raises(IRError, match="no name of a graph"):
        Graph(name=name)


@pytest.mark.promise("MARK-8-text")
def test_numbers_of_numpy_are_read_back() -> None:
    graph = Graph()
    number: Any = np.float32(1.5)
    graph.output(graph.constant("c", "f32[3]", number))
    assert Graph.parse(graph.text()) == graph


@pytest.mark.promise("MARK-8-text")
@pytest.mark.parametrize(
    "deep", ["-" * 100000 + "1", "(" * 5000 + "1" + ")" * 5000, "1+" * 9999 + "1"]
)
def test_texts_that_no_parser_is_deep_enough_for(deep: str) -> None:
    for line in (f"constant %c: f32[3] = {deep}", f"input %x: f32[{deep}]"):
        with pytest.raises(ParseError, match=r"line 2: .* is no") as found:
            Graph.parse(f"graph a {{\n  {line}\n}}")
        assert len(str(found.value)) < 600


@promise
@pytest.mark.parametrize("sign, bits", [(1, 20000), (-1, 20000), (1, 4097)])
@pytest.mark.parametrize("cache", [False, True])
def test_integers_beyond_every_dtype(sign: int, bits: int, cache: bool, tmp_path: Any) -> None:
    """Too long to be printed, or to be a float: in the same words whoever comes upon it first."""
    big = sign << bits - 1
    uses: list[Callable[[Any], Any]] = [
        lambda x: aicf.ops.scale(x, factor=big), lambda x: aicf.ops.gemm(x, x, alpha=big),
        lambda x: x * big, lambda x: aicf.ops.dropout(x, p=0.5, seed=big, offset=0),
    ]  # fmt: skip
    words = rf"an integer of {bits:,} bits is more than any dtype holds"
    backend, kept = aicf.backends.get("cpu"), str(tmp_path) if cache else False
    for use in uses:
        with pytest.raises(TraceError, match=words):
            traced(use)
        with pytest.raises(TraceError, match=words):
            aicf.compile(use, "f32[4, 4]", backend=backend, cache=kept)(np.ones((4, 4), "f4"))
    for row, count, name in (("scale", 1, "factor"), ("gemm", 2, "alpha")):
        graph = Graph()
        x = graph.input("x", "f32[4, 4]")
        number: dict[str, Any] = {name: big}
        with pytest.raises(IRError, match=rf"{row}: {name}: "):
            graph.add(row, *[x] * count, **number)
    run = aicf.compile(
        lambda x, a: aicf.ops.scale(x, factor=a), "f32[4]", "f32", backend=backend, cache=kept
    )
    with pytest.raises(ValueError, match=f"a: {words}"):
        run(np.ones(4, "f4"), big)
