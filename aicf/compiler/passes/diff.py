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
    like: dict[Value, Value] = {}
    used: set[Value] = set()

    def match(new: Value, old: Value) -> bool:
        if new in like or old in used or new.type != old.type:
            return like.get(new) is old
        like[new] = old
        used.add(old)
        return True

    _match_forms(before, after, match)
    _match_roles(before, after, match)
    return like


def _match_forms(before: Graph, after: Graph, match: Any) -> None:
    """By what they are computed from, the first with the first."""
    known: dict[Any, list[Value]] = {}
    for value, form in _forms(before).items():
        known.setdefault(form, []).append(value)
    for value, form in _forms(after).items():
        olds = known.get(form)
        if olds:
            match(value, olds.pop(0))


def _forms(graph: Graph) -> dict[Value, int]:
    """A number for each value, the same for what is computed alike from the same entries."""
    forms: dict[Value, int] = {}
    for kind, entries in (("input", graph.inputs), ("param", graph.params)):
        forms.update((v, hash((kind, v.name, v.type))) for v in entries)
    for v, fill in graph.constants.items():
        forms[v] = hash(("constant", v.type, v.name if fill is None else repr(fill)))
    for node in graph.nodes:
        own = hash((node.op, _attributes(node), tuple(_form(x, forms) for x in node.inputs)))
        forms.update((v, hash((own, i))) for i, v in enumerate(_places(node)) if v is not None)
    return forms


def _form(operand: Any, forms: dict[Value, int]) -> Any:
    if isinstance(operand, tuple):
        return tuple(_form(x, forms) for x in operand)
    return forms.get(operand, 0) if isinstance(operand, Value) else repr(operand)


def _attributes(node: Node) -> tuple[Any, ...]:
    return tuple((name, repr(value)) for name, value in node.attrs.items())


def _places(node: Node) -> list[Value | None]:
    """Outs in the row's places, also where one is not computed, then states."""
    return [*node.outs, *(v for state in node.states.values() for v in values_of(state))]


def _match_roles(before: Graph, after: Graph, match: Any) -> None:
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
        if not match(new, old):
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
