"""Each rule of a graph is broken once, by a change of a graph that holds, and is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from aicf.compiler.ir.errors import IRError, Location, Rule
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import TensorType
from aicf.dim import symbol

pytestmark = pytest.mark.promise("MARK-8-verify")

BASE = """graph g {
  symbol N: 1..64
  input %x: f32[N, 4]
  input %y: i64[N]
  input %far: f32[4]@cuda:0
  input %lr: f32[]
  param %w: f32[4, 4]
  constant %k: f32[4]
  %h: f32[N, 4] = gemm(%x, %w, act="relu") @ "net.py":7 forward
  %e: f32[N, 4] = elu(%h, alpha=0.5)
  %t: f32[4, 4; 1, 4] = view.permute(%w, perm=(1, 0))
  %loss: f32[], %lse: f32[N], _ = cross_entropy(%e, %y)
  %g: f32[4, 4] = copy(%t)
  %s: f32[4, 4] = softmax(%g)
  p -> [%w_1: f32[4, 4]] = sgd([%w], [%g], lr=%lr)
  return %loss, %w_1
}
"""


def base() -> Graph:
    graph = Graph.parse(BASE)
    graph.verify()
    return graph


def change(graph: Graph, name: str, **changes: Any) -> None:
    """Other fields of the node that gives `%name`."""
    node = graph.producer(graph.value(name))
    assert node is not None
    graph.nodes[graph.nodes.index(node)] = dataclasses.replace(node, **changes)


def node_of(graph: Graph, name: str) -> Node:
    node = graph.producer(graph.value(name))
    assert node is not None
    return node


def put(graph: Graph, name: str, index: int, operand: Any) -> None:
    """Another operand of a node."""
    inputs = list(node_of(graph, name).inputs)
    inputs[index] = operand
    change(graph, name, inputs=tuple(inputs))


def attribute(graph: Graph, name: str, **attrs: Any) -> None:
    found = {**node_of(graph, name).attrs, **attrs}
    change(graph, name, attrs=MappingProxyType({k: v for k, v in found.items() if v is not ...}))


def retype(graph: Graph, name: str, type: TensorType) -> None:
    """A result of another type."""
    new = Value(name, type)
    node = node_of(graph, name)
    outs = tuple(new if v is not None and v.name == name else v for v in node.outs)
    change(graph, name, outs=outs)


def swap(graph: Graph, first: int, second: int) -> None:
    nodes = graph.nodes
    nodes[first], nodes[second] = nodes[second], nodes[first]


def cycle(graph: Graph) -> None:
    put(graph, "h", 0, graph.value("e"))


def to_constant(graph: Graph) -> None:
    graph.params.remove(graph.value("w"))
    graph.constants[node_of(graph, "t").inputs[0]] = None  # type: ignore[index]


def losses(graph: Graph) -> tuple[Value | None, ...]:
    return node_of(graph, "loss").outs


F32 = TensorType("f32", (symbol("N", 1, 64), 4))
FOUR = TensorType("f32", (4,))
X = {"x": Value("n", F32)}

MUTATIONS: dict[str, tuple[Rule, str, Callable[[Graph], None]]] = {
    "op": (Rule.UNKNOWN_OP, "no such op", lambda g: change(g, "e", op="elo")),
    "operands": (Rule.OPERAND, "0 operands, of 1", lambda g: change(g, "e", inputs=())),
    "absent": (Rule.OPERAND, "x is missing", lambda g: put(g, "e", 0, None)),
    "kind": (Rule.OPERAND, "p must be a list", lambda g: put(g, "w_1", 0, g.value("w"))),
    "scalar": (Rule.OPERAND, "lr must be a number", lambda g: put(g, "w_1", 3, g.value("k"))),
    "attribute": (Rule.ATTRIBUTE, "no attribute 'beta'", lambda g: attribute(g, "e", beta=1.0)),
    "word": (Rule.ATTRIBUTE, "act must be one of", lambda g: attribute(g, "h", act="tahn")),
    "bound": (Rule.ATTRIBUTE, "at most 1", lambda g: attribute(g, "loss", label_smoothing=2.0)),
    "left out": (Rule.ATTRIBUTE, "not left out", lambda g: attribute(g, "e", alpha=...)),
    "not canonical": (Rule.ATTRIBUTE, "must stand as 1.0", lambda g: attribute(g, "e", alpha=1)),
    "of a view": (Rule.ATTRIBUTE, "perm", lambda g: attribute(g, "t", perm=...)),
    "dtype": (Rule.DTYPE, "no variant takes", lambda g: put(g, "e", 0, g.value("y"))),
    "dtype of a scalar": (Rule.DTYPE, "lr must be f32", lambda g: put(g, "w_1", 3, True)),
    "shape": (Rule.SHAPE, "b: B.. K N is", lambda g: put(g, "h", 1, g.value("x"))),
    "shape of a view": (Rule.SHAPE, "no order of 2", lambda g: attribute(g, "t", perm=(0, 2))),
    "symbol": (Rule.SYMBOL, "symbol N in 1..64", lambda g: g.symbols.clear()),
    "device": (Rule.DEVICE, "on cuda:0", lambda g: put(g, "h", 2, g.value("far"))),
    "layout": (Rule.LAYOUT, "no kernel takes", lambda g: put(g, "s", 0, g.value("t"))),
    "type": (Rule.TYPE, "it is f32[N, 4] and not", lambda g: retype(g, "e", FOUR)),
    "outs": (Rule.OUTS, "out is missing", lambda g: change(g, "loss", outs=(None, *losses(g)[1:]))),
    "count of outs": (Rule.OUTS, "2 outs, of 3", lambda g: change(g, "loss", outs=losses(g)[:2])),
    "states": (Rule.STATES, "p has none", lambda g: change(g, "w_1", states={})),
    "count of states": (Rule.STATES, "p has 0, of 1", lambda g: change(g, "w_1", states={"p": ()})),
    "state of none": (Rule.STATES, "x is not updated", lambda g: change(g, "e", states=X)),
    "defined": (Rule.DEFINED, "nothing defines it", lambda g: put(g, "e", 0, Value("q", F32))),
    "output": (Rule.DEFINED, "nothing defines it", lambda g: g.outputs.append(Value("q", F32))),
    "order": (Rule.ORDER, "gemm defines it later", lambda g: swap(g, 0, 1)),
    "cycle": (Rule.CYCLE, "elu computes it from what gemm gives", cycle),
    "itself": (Rule.CYCLE, "elu computes it", lambda g: put(g, "e", 0, g.value("e"))),
    "twice": (Rule.ONCE, "a second time", lambda g: g.nodes.insert(1, g.nodes[0])),
    "one name": (Rule.ONCE, "another value has its", lambda g: g.inputs.append(Value("x", F32))),
    "name": (Rule.NAME, "'a b' is no name", lambda g: g.inputs.append(Value("a b", F32))),
    "overwritten": (Rule.OVERWRITTEN, "updated by sgd", lambda g: g.outputs.append(g.value("t"))),
    "read again": (Rule.OVERWRITTEN, "and is now %w_1", lambda g: g.outputs.append(g.value("w"))),
    "alias": (Rule.ALIAS, "share memory", lambda g: put(g, "w_1", 1, (g.value("w"),))),
    "constant": (Rule.CONSTANT, "sgd would update it", to_constant),
}  # fmt: skip


@pytest.mark.parametrize("rule, said, mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_each_mutation_is_caught(rule: Rule, said: str, mutate: Callable[[Graph], None]) -> None:
    graph = base()
    mutate(graph)
    with pytest.raises(IRError) as caught:
        graph.verify()
    assert caught.value.rule is rule, caught.value
    assert said in str(caught.value)
    assert f"[{rule}: " in str(caught.value)


def test_every_rule_is_broken_once() -> None:
    elsewhere = {Rule.VIEW}  # what no view can show is refused before it is one: below
    assert {rule for rule, _, _ in MUTATIONS.values()} | elsewhere == set(Rule)


def test_a_message_names_place_op_and_value() -> None:
    graph = base()
    put(graph, "h", 0, Value("lost", F32))
    with pytest.raises(IRError) as caught:
        graph.verify()
    assert str(caught.value).startswith("net.py:7: gemm: %lost: nothing defines it [defined: ")
    assert (caught.value.op, caught.value.value) == ("gemm", "lost")
    assert caught.value.where == Location("net.py", 7, "forward")


def refused(rule: Rule, graph: Graph, op: str, *inputs: Any, **keywords: Any) -> str:
    """What adding a node says; the graph stays as it was."""
    before = graph.text()
    with pytest.raises(IRError) as caught:
        graph.add(op, *inputs, **keywords)
    assert caught.value.rule is rule, caught.value
    assert graph.text() == before
    graph.verify()
    return str(caught.value)


def test_adding_is_refused_by_the_same_rules() -> None:
    graph = base()
    x, t, w1 = graph.value("x"), graph.value("t"), graph.value("w_1")
    wide = graph.add("view.expand", graph.input("one", "f32[1, 4]"), shape=(4, 4)).out
    refused(Rule.UNKNOWN_OP, graph, "gem", x)
    refused(Rule.OPERAND, graph, "gemm", x)
    refused(Rule.OPERAND, graph, "gemm", x, w1, a=x)
    refused(Rule.OPERAND, graph, "elu", x, x)
    refused(Rule.ATTRIBUTE, graph, "elu", x, beta=1)
    refused(Rule.SHAPE, graph, "gemm", w1, x)
    refused(Rule.DTYPE, graph, "add", x, graph.value("y"))
    refused(Rule.DTYPE, graph, "cast", x, dtype="f8")
    refused(Rule.DEVICE, graph, "add", graph.value("k"), graph.value("far"))
    refused(Rule.VIEW, graph, "view.reshape", wide, shape=(16,))
    refused(Rule.ALIAS, graph, "fill", wide, value=0)
    refused(Rule.ALIAS, graph, "sgd", [w1], [w1], lr=0.1)
    refused(Rule.CONSTANT, graph, "fill", graph.value("k"), value=0)
    refused(Rule.DEFINED, graph, "elu", Value("q", F32))
    refused(Rule.NAME, graph, "elu", x, names=["a b"])
    for name, rule in (("x", Rule.ONCE), ("w", Rule.ONCE), ("a b", Rule.NAME), ("", Rule.NAME)):
        with pytest.raises(IRError) as caught:
            graph.input(name, "f32[3]")
        assert caught.value.rule is rule
    said = refused(Rule.OVERWRITTEN, graph, "gemm", x, t)
    assert "its memory was updated by sgd, and is now %w_1" in said


def test_what_depends_on_the_size_is_not_guessed() -> None:
    graph = Graph()
    n = graph.symbol("N", 1, 64)
    x = graph.input("x", "f32[2, 3, N, 8]")
    said = refused(Rule.SYMBOL, graph, "avg_pool2d", x, window=(3, 3), stride=(1, 1))
    assert "depends on N in 1..64: give a range in which it is the same" in said
    wide = Graph()
    wide.symbol("N", 3, 64)
    x = wide.input("x", "f32[2, 3, N, 8]")
    assert str(wide.add("avg_pool2d", x, window=3, stride=1).out.type) == "f32[2, 3, N - 2, 6]"
    assert n != wide.symbol("N", 3, 64)


def test_what_a_row_says_of_its_outs_is_asked() -> None:
    graph = Graph()
    graph.symbol("N", 0, 8)
    empty = graph.input("empty", "f32[0, 3]")
    said = refused(Rule.SHAPE, graph, "argmax", empty)
    assert "there is no largest of nothing, with x: f32[0, 3]" in said
    assert str(graph.add("argmax", empty, axes=(1,)).out.type) == "i64[0]"
    refused(Rule.SYMBOL, graph, "argmax", graph.input("any", "f32[N, 3]"))


def test_outs_count_in_layouts() -> None:
    """A kernel that wants all in one order has none for the one number that comes of a matrix."""
    graph = Graph()
    x = graph.add("view.permute", graph.input("x", "f32[4, 3]"), perm=(1, 0)).out
    refused(Rule.LAYOUT, graph, "mse", x, x, reduction="mean")
    assert str(graph.add("mse", x, x, reduction="none").out.type) == "f32[3, 4; 1, 3]"


def test_a_bound_graph_is_inferred_anew() -> None:
    """What was taken to differ may be equal at one value: that is found when it is bound."""
    graph = Graph()
    graph.symbol("N", 1, 64)
    x = graph.input("x", "f32[N, 4]")
    w = graph.input("w", "f32[1, 4]")
    graph.output(graph.add("add", x, w).out)
    assert str(graph.bind({"N": 1}).outputs[0].type) == "f32[1, 4]"
    assert str(graph.bind({"N": 7}).outputs[0].type) == "f32[7, 4]"
    for value, said in ((0, "N is 0, and its range 1..64"), (65, "N is 65")):
        with pytest.raises(IRError, match=said):
            graph.bind({"N": value})
    with pytest.raises(IRError, match="there is no symbol M; there are N"):
        graph.bind({"M": 3})


def test_a_bound_graph_has_the_types_that_its_symbols_said() -> None:
    graph = Graph.parse(BASE)
    wrong = TensorType("f32", (symbol("N", 1, 64), 4), (1, symbol("N", 1, 64)))
    retype(graph, "e", wrong)
    graph.nodes = graph.nodes[:2]
    graph.outputs = []
    with pytest.raises(IRError) as caught:
        graph.clone().bind({"N": 3})
    assert caught.value.rule is Rule.TYPE
    assert "it is f32[3, 4] with N = 3, and not f32[3, 4; 1, 3]" in str(caught.value)
