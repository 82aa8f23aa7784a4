"""Random graphs are run: what comes has the types that the graph says, and no order of the nodes
that its values allow changes a bit, updates in place and views among them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.types import TensorType
from aicf.compiler.runtime.interpret import interpret
from compiler.drawing import graphs
from compiler.test_text import reordered

np: Any = pytest.importorskip("numpy")
ml_dtypes: Any = pytest.importorskip("ml_dtypes")

pytestmark = [pytest.mark.guests("ml_dtypes"), pytest.mark.promise("MARK-8-memory")]
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
DTYPES = {
    "bool": "?", "i8": "i1", "u8": "u1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2",
    "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8",
}  # fmt: skip


def data_of(graph: Graph, size: int) -> dict[str, Any]:
    """Whole numbers, small and not 0."""
    source = np.random.default_rng(1)
    found = {}
    for v in (*graph.inputs, *graph.params):
        assert isinstance(v.type, TensorType)
        shape = v.type.bind({"N": size}).shape
        found[v.name] = np.asarray(source.integers(1, 4, shape)).astype(DTYPES[v.type.dtype])
    return found


def same_bits(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


@SETTINGS
@given(graphs(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_orders_and_types(graph: Graph, size: int, source: random.Random) -> None:
    try:
        bound = graph.bind({"N": size})
    except IRError:
        return  # for that size the graph does not hold, and says so
    given, again = data_of(graph, size), data_of(graph, size)
    outs = interpret(graph, given)
    for value, out in zip(bound.outputs, outs, strict=True):
        assert isinstance(value.type, TensorType)
        assert np.asarray(out).shape == value.type.shape
        assert np.asarray(out).dtype == np.dtype(DTYPES[value.type.dtype])
    other = reordered(graph, source)
    assert other.key() == graph.key()
    for a, b in zip(outs, interpret(other, again), strict=True):
        assert same_bits(a, b)
    for name, left in given.items():
        assert same_bits(left, again[name])


@pytest.mark.parametrize(
    "data, said",
    [
        ({}, "%x: no f32[2, 3] of that name was given"),
        ({"x": np.zeros((3, 3), "f4")}, "%x: it is f32[2, 3], and (3, 3) was given"),
    ],
)
def test_what_is_given_must_be_what_was_asked_for(data: Any, said: str) -> None:
    graph = Graph.parse(
        "graph g {\n  input %x: f32[2, 3]\n  %y: f32[2, 3] = neg(%x)\n  return %y\n}"
    )
    with pytest.raises(IRError) as caught:
        interpret(graph, data)
    assert said in str(caught.value)
