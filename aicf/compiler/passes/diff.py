"""What a pass changed: two graphs line by line, where a value has one name in both.

Values are matched by what they are computed from, then, from the outputs back, by what is computed
from them; so a pass that names anew, or that orders independent nodes in another way, changes
nothing. Places in source are left out.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aicf.compiler.ir import text
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of


@dataclass(frozen=True, slots=True)
class Line:
    """`mark`: "-" of the graph before alone, "+" of the one after, " " of both, "~" in the place of
    lines of both that are left out, which `text` counts."""

    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.mark} {self.text}"


def lines(before: Graph, after: Graph, context: int = 1) -> list[Line]:
    """Both graphs, with so many lines around each change; none where they are the same."""
    names = _names(before, after)
    old = text.statements(before, before.nodes, lambda v: v.name)
    new = text.statements(after, _ordered(before, after, names), names.__getitem__)
    if old == new:
        return []
    return list(_shortened(_marked(old, new), context))


def _marked(old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for _, a, b, c, d in matcher.get_opcodes():
        if list(old[a:b]) == list(new[c:d]):
            yield from (Line(" ", line) for line in old[a:b])
        else:
            yield from (Line("-", line) for line in old[a:b])
            yield from (Line("+", line) for line in new[c:d])


def _shortened(marked: Iterator[Line], context: int) -> Iterator[Line]:
    """Without lines of both that are far from each change."""
    every = list(marked)
    changes = [i for i, line in enumerate(every) if line.mark != " "]
    shown = {j for i in changes for j in range(i - context, i + context + 1)}
    left = 0
    for i, line in enumerate(every):
        if i in shown:
            yield from _left_out(left)
            yield line
            left = 0
        else:
            left += 1
    yield from _left_out(left)


def _left_out(count: int) -> Iterator[Line]:
    if count:
        yield Line("~", f"{count} line{'s' if count > 1 else ''}")


# ---- which values are the same -------------------------------------------------------------------


def _names(before: Graph, after: Graph) -> dict[Value, str]:
    """A name for each value of `after`: that of its like in `before`, or one that is new there."""
    like = _matched(before, after)
    taken = {v.name for v in before.values}
    names = {new: old.name for new, old in like.items()}
    for value in after.values:
        if value not in names:
            names[value] = name = _free(value.name, taken)
            taken.add(name)
    return names


def _free(name: str, taken: set[str]) -> str:
    found, count = name, 0
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found


def _matched(before: Graph, after: Graph) -> dict[Value, Value]:
    """Values of `after` and their likes in `before`, one to one."""
    likes = _Likes()
    _match_entries(before, after, likes)
    _match_calls(before, after, likes)
    _match_roles(before, after, likes)
    _match_calls(before, after, likes)  # of what has a like by its role
    return likes.of


class _Likes:
    """Of values of the graph after, those of the one before."""

    def __init__(self) -> None:
        self.of: dict[Value, Value] = {}
        self._used: set[Value] = set()

    def match(self, new: Value, old: Value) -> bool:
        """Whether they are alike, from now on."""
        if new in self.of or old in self._used or new.type != old.type:
            return self.of.get(new) is old
        self.of[new] = old
        self._used.add(old)
        return True


def _match_entries(before: Graph, after: Graph, likes: _Likes) -> None:
    """By name; of constants that are one number everywhere by that."""
    known: dict[Any, Value] = {}
    for value, key in _entries(before):
        known.setdefault(key, value)
    for value, key in _entries(after):
        if key in known:
            likes.match(value, known[key])


def _entries(graph: Graph) -> Iterator[tuple[Value, Any]]:
    yield from ((v, v.name) for v in (*graph.inputs, *graph.params))
    for v, fill in graph.constants.items():
        yield v, v.name if fill is None else (repr(fill), v.type)


def _match_calls(before: Graph, after: Graph, likes: _Likes) -> None:
    """The same calls of values that are alike, the first with the first."""
    known: dict[Any, list[Node]] = {}
    for node in before.nodes:
        known.setdefault(_call(node, {}), []).append(node)
    for node in after.nodes:
        olds = known.get(_call(node, likes.of))
        if olds:
            old = olds.pop(0)
            for v, w in zip(_places(node), _places(old), strict=False):
                if v is not None and w is not None:
                    likes.match(v, w)


def _call(node: Node, likes: dict[Value, Value]) -> Any:
    attributes = tuple((name, repr(value)) for name, value in node.attrs.items())
    return node.op, attributes, tuple(_operand(x, likes) for x in node.inputs)


def _operand(x: Any, likes: dict[Value, Value]) -> Any:
    if isinstance(x, tuple):
        return tuple(_operand(part, likes) for part in x)
    return likes.get(x, x) if isinstance(x, Value) else repr(x)


def _places(node: Node) -> list[Value | None]:
    """Outs in the row's places, also where one is not computed, then states."""
    return [*node.outs, *(v for state in node.states.values() for v in values_of(state))]


def _match_roles(before: Graph, after: Graph, likes: _Likes) -> None:
    """By what is made of them: outputs, what entries are at the end, and then what nodes read that
    give what was matched."""
    todo = list(zip(after.outputs, before.outputs, strict=False))
    olds = {v.name: v for v in before.entries}
    todo += [
        (after.state_of(v), before.state_of(olds[v.name]))
        for v in (*after.inputs, *after.params)
        if v.name in olds
    ]
    seen: set[tuple[Node, Node]] = set()
    while todo:
        new, old = todo.pop()
        if not likes.match(new, old):
            continue
        a, b = after.producer(new), before.producer(old)
        if a is None or b is None or a.op != b.op or (a, b) in seen:
            continue
        seen.add((a, b))
        for x, y in zip(a.inputs, b.inputs, strict=False):
            todo += zip(values_of(x), values_of(y), strict=False)
        todo += [
            (v, w) for v, w in zip(_places(a), _places(b), strict=False) if v is not None and w
        ]


def _ordered(before: Graph, after: Graph, names: dict[Value, str]) -> list[Node]:
    """The nodes of `after` as those of `before` stand, as far as what they read lets them."""
    place = {v.name: i for i, node in enumerate(before.nodes) for v in node.results}
    wanted: list[float] = []
    for node in after.nodes:
        known = [place[names[v]] for v in node.results if names[v] in place]
        wanted.append(known[0] if known else wanted[-1] if wanted else -1)
    waits = {n: {p for v in _needs(after, n) if (p := after.producer(v))} for n in after.nodes}
    readers: dict[Node, list[int]] = {}
    for i, node in enumerate(after.nodes):
        for other in waits[node]:
            readers.setdefault(other, []).append(i)
    ready = [(wanted[i], i) for i, n in enumerate(after.nodes) if not waits[n]]
    heapq.heapify(ready)
    found: list[Node] = []
    while ready:
        _, i = heapq.heappop(ready)
        found.append(after.nodes[i])
        for j in readers.get(after.nodes[i], ()):
            waits[after.nodes[j]].discard(after.nodes[i])
            if not waits[after.nodes[j]]:
                heapq.heappush(ready, (wanted[j], j))
    return found if len(found) == len(after.nodes) else list(after.nodes)


def _needs(graph: Graph, node: Node) -> Iterator[Value]:
    yield from node.reads
