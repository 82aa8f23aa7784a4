"""Texts that parse back, and keys that are the same for what is the same."""

from __future__ import annotations

import dataclasses
import random
import re
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aicf.compiler.ir.errors import IRError, Location
from aicf.compiler.ir.graph import Graph, Value
from aicf.compiler.ir.text import ParseError, split
from aicf.table import Table
from compiler.drawing import graphs

pytestmark = pytest.mark.promise("MARK-8-text")
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(graphs())
def test_parses_back(graph: Graph) -> None:
    graph.verify()
    text = graph.text()
    again = Graph.parse(text)
    assert again == graph
    assert again.text() == text
    assert again.key() == graph.key()
    again.verify()


@SETTINGS
@given(graphs(), st.data())
def test_each_difference_is_one(graph: Graph, data: st.DataObject) -> None:
    """What is left out of a text is an unequal graph."""
    lines = graph.text().splitlines()
    nodes = [i for i, line in enumerate(lines) if " = " in line and "constant" not in line]
    if not nodes:
        return
    at = data.draw(st.sampled_from(nodes))
    try:
        other = Graph.parse("\n".join(lines[:at] + lines[at + 1 :]))
    except (ParseError, ValueError):
        return  # somebody reads it
    assert other != graph
    assert other.key() != graph.key()


def renamed(text: str, source: random.Random) -> str:
    """All values under other names."""
    names = sorted(set(re.findall(r"%([A-Za-z_][\w.]*)", text)))
    fresh = [f"n{i}" for i in range(len(names))]
    source.shuffle(fresh)
    to = dict(zip(names, fresh, strict=True))
    return re.sub(r"%([A-Za-z_][\w.]*)", lambda m: f"%{to[m[1]]}", text)


def reordered(graph: Graph, source: random.Random) -> Graph:
    """The nodes in a random order that data and updates in place allow."""
    left, found = list(graph.nodes), graph.clone()
    done: set[Any] = set(graph.entries)
    found.nodes = []
    while left:
        ready = [n for n in left if may_be_next(graph, n, left, done)]
        node = source.choice(ready)
        left.remove(node)
        done.update(node.results)
        found.nodes.append(node)
    found.__post_init__()
    return found


def may_be_next(graph: Graph, node: Any, left: list[Any], done: set[Any]) -> bool:
    if not all(v in done for v in node.reads):
        return False
    for other in left:
        touched = (*other.reads, *other.results)
        if other is not node and any(graph.overwritten_by(v) is node for v in touched):
            return False
    return True


@SETTINGS
@given(graphs(), st.randoms(use_true_random=False))
def test_key_of_other_names_and_orders(graph: Graph, source: random.Random) -> None:
    other = reordered(graph, source)
    other.verify()
    assert other.key() == graph.key()
    again = Graph.parse(renamed(other.text(), source))
    assert again.key() == graph.key()
    assert again == graph or again.text() != graph.text()


def test_key_does_not_count_places() -> None:
    graph = Graph.parse("graph g {\n  input %x: f32[3]\n  %y: f32[3] = neg(%x)\n  return %y\n}")
    placed = graph.clone()
    placed.nodes = [dataclasses.replace(graph.nodes[0], loc=Location("a b.py", 3, "f"))]
    placed.__post_init__()
    assert placed.key() == graph.key()
    assert placed == graph
    again = Graph.parse(placed.text())
    assert again.nodes[0].loc == Location("a b.py", 3, "f")


DIFFERENT = {
    "dtype": ("f32", "f64"),
    "shape": ("[3, 4]", "[3, 5]"),
    "attribute": ("slope=0.5", "slope=0.25"),
    "op": ("leaky_relu(%a, slope=0.5)", "elu(%a)"),
    "operand": ("add(%b, %x)", "add(%b, %b)"),
    "operands' order": ("sub(%b, %x)", "sub(%x, %b)"),
    "output": ("return %c", "return %d"),
    "range": ("1..64", "1..65"),
    "kind of entry": ("input %x", "param %x"),
    "constant": ("= 0.5\n", "= 0.25\n"),
}
BASE = """graph g {
  symbol N: 1..64
  input %x: f32[3, 4]
  input %n: f32[N]
  constant %k: f32[] = 0.5
  %a: f32[3, 4] = mul(%x, %k)
  %b: f32[3, 4] = leaky_relu(%a, slope=0.5)
  %c: f32[3, 4] = add(%b, %x)
  %d: f32[3, 4] = sub(%b, %x)
  return %c
}
"""


@pytest.mark.parametrize("old, new", DIFFERENT.values(), ids=DIFFERENT)
def test_key_of_what_differs(old: str, new: str) -> None:
    assert Graph.parse(BASE.replace(old, new)).key() != Graph.parse(BASE).key()


def test_whole_text() -> None:
    """Everything that a text has."""
    graph = Graph(Table.default(), "all")
    n = graph.symbol("N", 1, 64)
    x, lr = graph.input("x", "f32[N, 4]"), graph.input("lr", "f32")
    w = graph.param("w", "f32[4, 4]")
    graph.constant("table", "f32[4]")
    half = graph.constant("half", "f32[]", 0.5)
    h = graph.add("mul", graph.add("gemm", x, w).out, half).out
    loss = graph.add("cross_entropy", h, graph.input("y", "i64[N]"), want=(True, True, False))
    g = graph.add("view.expand", loss.out, shape=(4, 4)).out
    g = graph.add("copy", g, loc=Location("net.py", 3, "step")).out
    g = graph.add("scale", g, factor=1 / (2 * n)).out
    step = graph.add("sgd", [w], [g], lr=lr, momentum=0.0)
    assert isinstance(step.states["p"], tuple)
    graph.output(loss.out, *step.states["p"])
    assert graph.text() == (
        "graph all {\n"
        "  symbol N: 1..64\n"
        "  input %x: f32[N, 4]\n"
        "  input %lr: f32\n"
        "  input %y: i64[N]\n"
        "  param %w: f32[4, 4]\n"
        "  constant %table: f32[4]\n"
        "  constant %half: f32[] = 0.5\n"
        "  %gemm: f32[N, 4] = gemm(%x, %w)\n"
        "  %mul: f32[N, 4] = mul(%gemm, %half)\n"
        "  %cross_entropy: f32[], %lse: f32[N], _ = cross_entropy(%mul, %y)\n"
        "  %expand: f32[4, 4; 0, 0] = view.expand(%cross_entropy, shape=(4, 4))\n"
        '  %copy: f32[4, 4] = copy(%expand) @ "net.py":3 step\n'
        "  %scale: f32[4, 4] = scale(%copy, factor=1 / (2*N))\n"
        "  p -> [%w_1: f32[4, 4]] = sgd([%w], [%scale], lr=%lr, grad_scale=1)\n"
        "  return %cross_entropy, %w_1\n"
        "}\n"
    )
    assert Graph.parse(graph.text()) == graph


FAULTS = {
    "no head": ("graph g {", "grph g {", "line 1: a graph is written as"),
    "no end": ("  return %c\n}", "  return %c\n", "a graph is written as"),
    "no statement": ("return %c", "gives %c", "line 10: no statement: gives %c"),
    "undefined": ("add(%b, %x)", "add(%b, %z)", "line 8: nothing defines %z before"),
    "twice": ("%d: f32[3, 4] =", "%c: f32[3, 4] =", "line 9: %c is defined before"),
    "wrong type": ("%c: f32[3, 4]", "%c: f32[3, 5]", "line 8: %c is f32[3, 4]"),
    "no type": ("%a: f32[3, 4]", "%a: f33[3, 4]", "line 6: 'f33' is no dtype"),
    "no symbol": ("%n: f32[N]", "%n: f32[M]", "line 4: no symbol M is declared"),
    "no value": ("slope=0.5", "slope=:", "line 7: ':' is no value"),
    "results": ("%c: f32[3, 4] =", "%c: f32[3, 4], %e: f32[3] =", "line 8: 2 results are named"),
    "range": ("1..64", "64..1", "line 2: symbol N: no size is in 64..1"),
}


@pytest.mark.parametrize("old, new, said", FAULTS.values(), ids=FAULTS)
def test_faults_name_their_line(old: str, new: str, said: str) -> None:
    assert BASE.count(old) == 1 or old == "%d: f32[3, 4] ="
    with pytest.raises(ParseError) as caught:
        Graph.parse(BASE.replace(old, new))
    assert said in str(caught.value)


PIECES = (
    "%x", "[", "]", "(", ")", ",", "=", "->", "_", ":", "f32[", "N", "1..4", '"', "@", '"a":3',
    "return", "param", "constant", "view.slice", "axis=0", "inf", "None", "\n", "{", "}", "lr=",
    "%", "1 / N", "N // 0", "3 % 0", "1" * 30, "1e400", "-1", "'", "\\", "\0", "perm=1", "é",
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), st.sampled_from(PIECES)), min_size=1))
def test_any_text_is_a_graph_or_refused(edits: list[tuple[float, int, str]]) -> None:
    """In words of its own, whatever was done to it."""
    text = BASE
    for where, gone, piece in edits[:4]:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + gone :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            graph = Graph.parse(text)
        except (ParseError, IRError):
            return
        graph.verify()
        assert Graph.parse(graph.text()) == graph


def test_split_keeps_what_brackets_hold() -> None:
    assert split('a, [b, c], d=(1, 2), "x, y"') == ["a", "[b, c]", "d=(1, 2)", '"x, y"']
    assert split("") == []


def test_values_are_not_equal_by_name() -> None:
    graph = Graph.parse(BASE)
    again = Graph.parse(BASE)
    assert graph == again
    a, b = graph.value("x"), again.value("x")
    assert isinstance(a, Value)
    assert a != b


def test_key_of_nodes_that_differ_in_one_attribute() -> None:
    """Which of them comes first does not matter; which of them is given back first does."""
    a, b = "  %a: f32[3] = elu(%x, alpha=0.5)\n", "  %b: f32[3] = elu(%x, alpha=0.25)\n"
    text = "graph g {{\n  input %x: f32[3]\n{}  return {}\n}}\n"
    key = Graph.parse(text.format(a + b, "%a, %b")).key()
    assert Graph.parse(text.format(b + a, "%a, %b")).key() == key
    assert Graph.parse(text.format(a + b, "%b, %a")).key() != key
