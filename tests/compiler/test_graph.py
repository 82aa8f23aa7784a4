"""What graphs know of rows: types as the ops themselves infer them, memory, changes, sizes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aicf import dim
from aicf.compiler.ir.bind import solve
from aicf.compiler.ir.errors import IRError, Rule
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.types import ScalarType, TensorType, parse
from aicf.compiler.runtime.interpret import interpret
from aicf.dim import Dim, Ratio, Symbol, Undecided
from aicf.table import Table, TableError

# ---- types and sizes --------------------------------------------------------------------------


@pytest.mark.promise("MARK-8-text")
@pytest.mark.parametrize(
    "text", ["f32[N, 784]", "f32[4, 8; 1, 4]", "i64[]", "bf16[2*N + 1, (N // 4)]@cuda:0", "f32"]
)
def test_types_print_as_they_are_written(text: str) -> None:
    assert str(parse(text, {"N": Symbol("N")})) == text


def test_row_major_strides_are_none() -> None:
    assert TensorType("f32", (4, 8), (8, 1)) == TensorType("f32", (4, 8))
    assert TensorType("f32", (4, 1, 8), (8, 99, 1)).strides is None
    assert TensorType("f32", (0, 8), (3, 3)).strides is None
    assert TensorType("f32", (4, 8), (1, 4)).strides == (1, 4)
    assert TensorType("f32", (4, 8)).steps == (8, 1)


@pytest.mark.parametrize(
    "text, said",
    [
        ("f33[3]", "'f33' is no dtype"),
        ("f32[3", "'f32[3' is no type"),
        ("f32[M]", "no symbol M is declared"),
        ("f32[-1]", "-1 is no size"),
        ("f32[3; 1, 2]", "2 strides of 1 dims"),
        ("f32[N.x]", "is no size"),
        ("f32[1.5]", "1.5 is no size"),
    ],
)
def test_no_types(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse(text, {"N": Symbol("N")})


N, M = dim.symbol("N", 1, 64), dim.symbol("M", 2)


def sizes() -> st.SearchStrategy[Any]:
    """Expressions over two symbols, as functions of their values."""
    leaves = st.sampled_from([N, M]) | st.integers(0, 6)
    return st.recursive(
        leaves,
        lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "//", "%"]), inner, inner),
        max_leaves=6,
    )


def computed(tree: Any, values: dict[str, int] | None) -> Any:
    """Of a tree: with values by Python's integers, without symbolically."""
    if isinstance(tree, Dim):
        return tree if values is None else values[str(tree)]
    if isinstance(tree, int):
        return tree
    word, left, right = tree[0], computed(tree[1], values), computed(tree[2], values)
    match word:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return left // right
        case _:
            return left % right


@settings(max_examples=300, deadline=None)
@given(sizes(), st.integers(1, 64), st.integers(2, 99))
def test_sizes_are_what_python_computes(tree: Any, n: int, m: int) -> None:
    values = {"N": n, "M": m}
    try:
        symbolic = computed(tree, None)
        expected = computed(tree, values)
    except ZeroDivisionError:
        return
    assert dim.bind(symbolic, values) == expected
    least, most = dim.bounds(symbolic)
    assert least <= expected <= most
    known = {"N": Symbol("N", 1, 64), "M": Symbol("M", 2)}
    assert dim.parse(str(symbolic), known) == symbolic


def test_sizes_have_one_form() -> None:
    assert (N + 1) * 2 - N == N + 2
    assert N - N == 0
    assert N * M // N == M
    assert (4 * N + 3) // 4 == N
    assert (4 * N + 3) % 4 == 3
    assert hash(N + M) == hash(M + N)
    assert str(1 / (10 * N)) == "1 / (10*N)"
    assert dim.bind((2 * N) / (4 * N * M), {"N": 3, "M": 5}) == 0.1
    assert isinstance(N / M, Ratio)


def test_what_is_undecided_says_what_would_decide() -> None:
    assert N > 0
    assert N + 1 >= 2
    assert N < N + 1
    assert not 2 * M < 4
    with pytest.raises(Undecided, match=r"whether N > 3 depends on N in 1\.\.64: give a range"):
        bool(N > 3)


# ---- memory -----------------------------------------------------------------------------------


STEP = """graph step {
  input %x: f32[8, 4]
  param %w: f32[4, 4]
  param %v: f32[4, 4]
  %t: f32[4, 4; 1, 4] = view.permute(%w, perm=(1, 0))
  %r: f32[16; 1] = view.reshape(%w, shape=(16,))
  %g: f32[4, 4] = gemm(%t, %w)
  p -> [%w_1: f32[4, 4]] = sgd([%w], [%g], lr=0.5)
  %s: f32[2, 4] = view.slice(%w_1, axis=0, start=0, stop=2, step=1)
  return %w_1
}
""".replace("[16; 1]", "[16]")


@pytest.mark.promise("MARK-8-memory")
def test_what_is_updated_lies_where_it_lay() -> None:
    graph = Graph.parse(STEP)
    w, new = graph.value("w"), graph.value("w_1")
    for name in ("t", "r", "w_1", "s"):
        assert graph.buffer_of(graph.value(name)) is w
    assert graph.buffer_of(graph.value("g")) is graph.value("g")
    assert graph.state_of(w) is new
    assert graph.state_of(graph.value("v")) is graph.value("v")
    assert graph.overwritten_by(w) is graph.producer(new)
    assert graph.overwritten_by(graph.value("t")) is graph.producer(new)
    assert graph.overwritten_by(new) is None
    assert [n.op for n in graph.users(w)] == ["view.permute", "view.reshape", "gemm", "sgd"]


@pytest.mark.promise("MARK-8-memory")
def test_a_param_is_updated_where_it_lies() -> None:
    numpy = pytest.importorskip("numpy")
    graph = Graph.parse(STEP)
    w = numpy.eye(4, dtype="f4")
    (found,) = interpret(graph, {"x": numpy.zeros((8, 4), "f4"), "w": w, "v": w.copy()})
    assert found is w
    assert w[0, 0] == 0.5


def test_a_clone_is_apart_and_equal() -> None:
    graph = Graph.parse(STEP)
    other = graph.clone()
    assert other == graph
    other.nodes.pop()
    assert other != graph
    other.add("neg", other.value("x"))
    assert len(graph.nodes) == 5


def test_replace_and_prune() -> None:
    graph = Graph.parse(STEP)
    a = graph.add("neg", graph.value("x")).out
    b = graph.add("exp", a).out
    c = graph.add("relu", graph.value("x")).out
    graph.output(b)
    graph.replace(a, c)
    assert graph.nodes[6].inputs == (a,) or graph.nodes[6].inputs == (c,)
    with pytest.raises(IRError) as caught:
        graph.verify()
    assert caught.value.rule is Rule.ORDER
    graph.nodes.insert(6, graph.nodes.pop())
    graph.verify()
    graph.prune()
    assert [n.op for n in graph.nodes] == ["view.permute", "gemm", "sgd", "relu", "exp"]
    with pytest.raises(IRError, match="cannot stand for"):
        graph.replace(b, graph.value("w_1"))


@pytest.mark.promise("MARK-8-memory")
def test_an_update_that_is_not_returned_is_kept() -> None:
    """Of params and inputs; of what nobody sees any more it goes."""
    graph = Graph.parse(STEP)
    graph.outputs.clear()
    hidden = graph.add("neg", graph.value("x")).out
    graph.add("fill", hidden, value=0)
    graph.add("fill", graph.value("x"), value=0)
    graph.prune()
    assert [n.op for n in graph.nodes] == ["view.permute", "gemm", "sgd", "fill"]
    graph.verify()


def test_symbols_are_solved_by_shapes() -> None:
    graph = Graph()
    n = graph.symbol("N", 1, 64)
    graph.input("x", TensorType("f32", (n, 4)))
    graph.input("y", TensorType("f32", (2 * n,)))
    graph.input("lr", ScalarType("f32"))
    assert solve(graph, {"x": (3, 4), "y": (6,)}) == {"N": 3}
    for shapes, said in (
        ({"x": (3, 5)}, "it is f32[N, 4], N = 3, and (3, 5) was given"),
        ({"x": (3, 4), "y": (7,)}, "it is f32[2*N], N = 3, and (7,) was given"),
        ({"x": (3,)}, "it is f32[N, 4], and (3,) was given"),
        ({"y": (6,)}, "no given shape says what N is"),
        ({"x": (65, 4)}, "N is 65, and its range 1..64"),
    ):
        with pytest.raises(IRError) as caught:
            solve(graph, shapes)
        assert said in str(caught.value)


# ---- the table --------------------------------------------------------------------------------


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(TableError, match="build it, and put the folder that has no_such_ops/ on"):
        Table.of("no_such_ops")
    with pytest.raises(TableError, match="did you mean 'gemm'"):
        Table.default()["gem"]


def test_defaults_are_canonical() -> None:
    for row in Table.default():
        for p in row.attrs:
            if not p.required:
                assert row.canonical(p.name, p.default) == p.default, (row.name, p.name)


def test_rows_are_found_by_what_they_are_in_aten() -> None:
    by_aten = Table.default().by_aten
    assert [row.name for row in by_aten["add.Tensor"]] == ["add"]
    assert [row.name for row in by_aten["mul.Tensor"]] == ["mul", "scale"]
    assert all(row.aten for rows in by_aten.values() for row in rows)
