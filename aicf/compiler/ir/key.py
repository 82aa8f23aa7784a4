"""When two graphs are the same: to the letter, or in all that their execution depends on."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Mapping
from typing import Any

from aicf.compiler.ir import text
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of


def same(a: Graph, b: Graph) -> bool:
    """Equal in names, types, order and everything but places in source."""
    return a.table is b.table and a.name == b.name and _form(a) == _form(b)


def _form(graph: Graph) -> tuple[Any, ...]:
    place = {v: i for i, v in enumerate(graph.values)}

    def placed(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(placed(part) for part in x)
        return ("value", place[x]) if isinstance(x, Value) else repr(x)

    def node(n: Node) -> tuple[Any, ...]:
        attrs = [(name, repr(value)) for name, value in n.attrs.items()]
        states = [(name, placed(state)) for name, state in n.states.items()]
        return n.op, placed(n.inputs), attrs, placed(n.outs), states

    return (
        graph.symbols,
        [(v.name, v.type) for v in graph.values],
        [len(graph.inputs), len(graph.params)],
        [repr(fill) for fill in graph.constants.values()],
        [node(n) for n in graph.nodes],
        [place[v] for v in graph.outputs],
    )


def key(graph: Graph) -> str:
    """The hash of a text with names by position and nodes in an order of their own. Equal keys are
    graphs that differ in names, places in source and the order of independent nodes alone."""
    nodes = _ordered(graph)
    names: dict[Value, str] = {}
    for letter, values in (("i", graph.inputs), ("p", graph.params), ("c", graph.constants)):
        names.update((v, f"{letter}{i}") for i, v in enumerate(values))
    for node in nodes:
        names.update((v, f"v{len(names) + i}") for i, v in enumerate(node.results))
    written = text.canonical(graph, nodes, names.__getitem__)
    return _digest(graph.table.package, written)


def _ordered(graph: Graph) -> list[Node]:
    """Each after what it reads; of those that could be next, the one of the least colour. Equal
    colours are nearly always nodes that may be exchanged; where not, two orders have two keys,
    which costs a miss. What is updated in place needs no more: the values that are read tell."""
    colour = _colours(graph)
    needs = {n: {p for v in n.reads if (p := graph.producer(v))} for n in graph.nodes}
    waiting: dict[Node, list[Node]] = {n: [] for n in graph.nodes}
    for node, before in needs.items():
        for other in before:
            waiting[other].append(node)
    ready = [(colour[n], i, n) for i, n in enumerate(graph.nodes) if not needs[n]]
    place = {n: i for i, n in enumerate(graph.nodes)}
    heapq.heapify(ready)
    found: list[Node] = []
    while ready:
        node = heapq.heappop(ready)[2]
        found.append(node)
        for other in waiting[node]:
            needs[other].discard(node)
            if not needs[other]:
                heapq.heappush(ready, (colour[other], place[other], other))
    assert len(found) == len(graph.nodes), "a graph with a cycle has no key: verify() says where"
    return found


def _colours(graph: Graph) -> dict[Node, str]:
    """What a node computes from, and what is computed from it."""
    above: dict[Value, str] = {}
    for kind, values in (("input", graph.inputs), ("param", graph.params)):
        above.update((v, _digest(kind, i, v.type)) for i, v in enumerate(values))
    for i, (v, fill) in enumerate(graph.constants.items()):
        above[v] = _digest("constant", i, v.type, fill)
    for node in graph.nodes:
        own = _digest(*_above(node, above))
        above.update((v, _digest(own, i)) for i, v in enumerate(node.results))
    below: dict[Value, list[str]] = {}
    for i, v in enumerate(graph.outputs):
        below.setdefault(v, []).append(_digest("return", i))
    colours: dict[Node, str] = {}
    for node in reversed(graph.nodes):
        uses = [sorted(below.get(v, ())) for v in node.results]
        colours[node] = _digest(*_above(node, above), uses)
        for i, operand in enumerate(node.inputs):
            for j, v in enumerate(values_of(operand)):
                below.setdefault(v, []).append(_digest(colours[node], i, j))
    return colours


def _above(node: Node, above: Mapping[Value, str]) -> Iterator[Any]:
    yield node.op
    yield [(name, repr(value)) for name, value in node.attrs.items()]
    yield [v is not None for v in node.outs]
    for x in node.inputs:
        yield [above[v] for v in values_of(x)] if any(values_of(x)) else repr(x)


def _digest(*parts: Any) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
