"""Applies a rule to a graph until it can be applied nowhere more.

A sweep appends the nodes of the old graph to a new one, in order. A node that is the root of a
match is not appended: what the rule gives is added in its place and read instead of it. Matches are
looked for among the nodes that are already there, so that a chain is rewritten in one sweep. Nodes
between that nobody reads any more are left out at the end.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from typing import Any

from aicf.compiler.ir import text
from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of
from aicf.compiler.passes import pattern
from aicf.compiler.passes.buffers import Buffers
from aicf.compiler.passes.pattern import Call
from aicf.compiler.passes.rule import (
    STANDING,
    Applied,
    Context,
    Fired,
    Group,
    Match,
    Refusal,
    Refused,
    Rewriter,
    Rule,
    RuleError,
)  # fmt: skip
from aicf.dim import Undecided


class Endless(RuleError):
    """A rule that finds something to do in what it made, for ever."""


def apply(graph: Graph, rule: Rule, context: Context | None = None) -> Applied:
    """The graph after all rewrites of a rule, `context.limit` at most; the given one is not
    changed. `refused` has what would match in the end. Raises Endless, RuleError where the rule is
    wrong, and whatever the rule raises."""
    context = context or Context()
    bound = 4 * len(graph.nodes) + 16
    most = bound if context.limit is None else min(context.limit, bound)
    fired: list[Fired] = []
    refused: list[Refused] = []
    while len(fired) < most:
        if not _is_somewhere(rule, graph):
            refused = []
            break
        sweep = _Sweep(graph, rule, context, most - len(fired))
        sweep.run()
        refused = sweep.refused
        if not sweep.fired:
            break
        fired += sweep.fired
        graph = sweep.new
        if len(fired) == bound:
            words = f"it was applied {bound} times, and last to {'; '.join(fired[-1].nodes)}"
            raise Endless(f"{rule.name} comes to no end: {words}")
    return Applied(graph, tuple(fired), tuple(refused))


def _is_somewhere(rule: Rule, graph: Graph) -> bool:
    """Whether a sweep could do anything: most rules find nothing in most graphs."""
    ops, fixed = rule.sought.roots, frozenset[Value]()
    roots = (n for n in graph.nodes if n.op in ops)
    found = ((n, f) for n in roots for f in pattern.find(rule.sought, graph, n))
    try:
        return any(rule.fits(Match(graph, n, f, fixed)) for n, f in found)
    except (IRError, Undecided):
        return True  # the sweep says why


def apply_all(graph: Graph, group: Group, context: Context | None = None) -> Applied:
    """The graph after all passes of a group; bounded as `apply` is."""
    context = context or Context()
    bound = 4 * len(graph.nodes) + 16
    fired: list[Fired] = []
    refused: dict[str, tuple[Refused, ...]] = {}
    idle = 0  # passes after one another that found nothing
    data: dict[str, Any] = {}
    for each in itertools.cycle(group.passes):
        left = None if context.limit is None else context.limit - len(fired)
        known = {**context.data, **data}
        found = each.run(graph, dataclasses.replace(context, limit=left, data=known))
        graph, refused[each.name] = found.graph, found.refused
        data.update(found.data)
        fired += found.fired
        idle = 0 if found.fired else idle + 1
        if len(fired) > bound:
            words = f"{len(fired)} rewrites, and last {'; '.join(fired[-1].nodes)}"
            raise Endless(f"{group.name}: {each.name} and others come to no end: {words}")
        if idle == len(group.passes) or len(fired) == context.limit:
            break
    return Applied(graph, tuple(fired), tuple(r for x in refused.values() for r in x), data)


class _Sweep:
    """Once through a graph."""

    def __init__(self, graph: Graph, rule: Rule, context: Context, most: int) -> None:
        self.old, self.rule, self.most = graph, rule, most
        self.new = graph.emptied()
        self.ops = rule.sought.roots
        self.map: dict[Value, Value] = {}  # what stands now for results of nodes that went
        self.uses: Counter[Value] = Counter(v for n in graph.nodes for v in n.reads)
        self.uses.update(graph.outputs)
        self.dead: set[Node] = set()
        self.buffers = Buffers(graph)
        self.fixed = context.fixed(graph)
        self.entries = set(graph.entries)
        self.fired: list[Fired] = []
        self.refused: list[Refused] = []

    def run(self) -> None:
        for i, node in enumerate(self.old.nodes):
            self.buffers.place = i
            here = node.reading(self.map)
            is_root = node.op in self.ops and len(self.fired) < self.most
            if not is_root or not self.rewritten(node, here):
                self.new.append(here)
        new = self.new
        new.nodes = [n for n in new.nodes if n not in self.dead]
        new.outputs = [self.map.get(v, v) for v in self.old.outputs]
        known = self.old.constants
        read = {v for n in new.nodes for v in n.reads} | set(new.outputs)
        new.constants = {v: x for v, x in new.constants.items() if v in known or v in read}
        new.__post_init__()

    # ---- one root -------------------------------------------------------------------------------

    def rewritten(self, node: Node, here: Node) -> bool:
        """Whether the rule was applied with a node as the root; `here` has its operands as they are
        now. The first way to match that is not refused counts, else the first refusal."""
        first: Refusal | None = None
        for found in pattern.find(self.rule.sought, self.new, here):
            start = len(self.new.nodes)
            try:
                m = Match(self.new, here, found, self.fixed)
                made = self.tried(node, m, start)
            except Refusal as refusal:
                self.check_reason(refusal)
                self.give_up(start)
                first = first or refusal
                continue
            if made is None:
                continue
            self.put(node, here, made, start, [n for _, n in found.nodes[1:]])
            return True
        if first is not None:
            line = text.line(self.new, here)
            rule, loc = self.rule.name, here.loc
            self.refused.append(Refused(rule, first.reason, first.detail, line, loc, first.at))
        return False

    def check_reason(self, refusal: Refusal) -> None:
        reasons = (*self.rule.refusals, *STANDING)
        if refusal.reason not in reasons:
            known = ", ".join(reasons)
            message = f"{self.rule.name} refuses by {refusal.reason!r}, which it does not list"
            raise RuleError(f"{message}; it has {known}")

    def give_up(self, start: int) -> None:
        """What a rule added before it refused is read by nobody."""
        added = self.new.nodes[start:]
        if any(n.states for n in added):
            raise RuleError(f"{self.rule.name} updates in place before it refuses")
        self.dead.update(added)

    def tried(self, node: Node, m: Match, start: int) -> dict[Value, Value] | None:
        """What the rule gives for each result of the root that is read; None where it does not
        fit."""
        try:
            if not self.rule.fits(m):
                return None
            self.check(m.found.nodes, m.found.variables.values())
            self.rule.check(m)
            found = self.rule.rewrite(m, Rewriter(self.new, node.loc))
        except (IRError, Undecided) as error:
            reason = error.rule.word if isinstance(error, IRError) else "symbol"
            if reason not in STANDING:
                raise
            raise self.refusal(reason, str(error)) from error
        return self.pairs(node, found, start)

    def pairs(self, node: Node, found: Value | Node, start: int) -> dict[Value, Value]:
        outs = found.outs if isinstance(found, Node) else (found,)
        if not all(isinstance(v, Value) or v is None for v in outs) or not outs:
            raise RuleError(f"{self.rule.name} gives {found!r}, and not a value or a node")
        pairs: dict[Value, Value] = {}
        for i, old in enumerate(node.outs):
            if old is None or not self.uses[old]:
                continue
            new = outs[i] if i < len(outs) else None
            if new is None:
                raise self.refusal("out-used", f"{old} is read, and the rule gives none")
            known = new in self.entries or new in self.new.constants
            if not known and self.new.producer(new) is None:
                raise RuleError(f"{self.rule.name} gives {new!r}, which is no value of the graph")
            if old.type != new.type:
                raise self.refusal("type", f"{new!r} would stand for {old!r}")
            self.check_stands_for(old, new, start)
            pairs[old] = new
        return pairs

    def put(
        self, node: Node, here: Node, made: dict[Value, Value], start: int, between: list[Node]
    ) -> None:
        """Reads what was made instead of what the root gave, and drops what nobody reads."""
        added = self.new.nodes[start:]
        if added and set(made.values()) <= set(added[-1].results):
            last, names = added[-1], {new: old.name for old, new in made.items()}
            added[-1] = self.new.rename(last, names)
            now = dict(zip(last.results, added[-1].results, strict=True))
            made = {old: now[new] for old, new in made.items()}
        for n in added:
            self.uses.update(n.reads)
        for old, new in made.items():
            self.uses[new] += self.uses.pop(old)
            self.map[old] = new
            self.buffers.put(old, self.new.buffer_of(new))
        gone = [here]
        self.uses.subtract(here.reads)
        for n in sorted(between, key=self.new.nodes.index, reverse=True):
            if not any(self.uses[v] for v in n.results) and not n.states:
                self.uses.subtract(n.reads)
                self.dead.add(n)
                gone.append(n)
        lines = tuple(text.line(self.new, n) for n in reversed(gone))
        by = tuple(text.line(self.new, n) for n in added)
        self.fired.append(Fired(self.rule.name, lines, by, here.loc, self.rule.at))

    # ---- what the engine refuses ----------------------------------------------------------------

    def refusal(self, reason: str, detail: str) -> Refusal:
        return Refusal(reason, detail, self.rule.at)

    def check(self, nodes: tuple[tuple[Call, Node], ...], leaves: Any) -> None:
        """The nodes of a match but for what the rule itself asks."""
        inside: Counter[Value] = Counter(v for _, n in nodes for v in n.reads)
        for _, n in nodes:
            if n.states:
                raise self.refusal("updates", text.line(self.new, n))
        for call, n in nodes[1:]:
            for i, v in enumerate(n.outs):
                if v is None or call.is_kept or self.uses[v] <= inside[v]:
                    continue
                raise self.elsewhere(v, i == call.out, [n for _, n in nodes])
        for v in (v for x in leaves for v in values_of(x)):
            writer = self.new.overwritten_by(v)
            if writer is not None:
                line = text.line(self.new, writer)
                raise self.refusal("overwritten", f"{v} was updated by {line}")

    def elsewhere(self, value: Value, is_matched: bool, nodes: list[Node]) -> Refusal:
        olds = [value, *(old for old, new in self.map.items() if new is value)]
        if any(v in self.old.outputs for v in olds):
            return self.refusal("is-output", f"{value} is given back")
        known = {v for n in nodes for v in n.results}
        readers = (n for v in olds for n in self.readers.get(v, ()))
        reader = next((n for n in readers if not known & set(n.results)), None)
        line = "another node" if reader is None else text.line(self.old, reader)
        reason = "read-elsewhere" if is_matched else "out-used"
        return self.refusal(reason, f"{value} is read by {line}")

    @functools.cached_property
    def readers(self) -> dict[Value, list[Node]]:
        """Of the old graph."""
        found: dict[Value, list[Node]] = {}
        for node in self.old.nodes:
            for v in node.reads:
                found.setdefault(v, []).append(node)
        return found

    def check_stands_for(self, old: Value, new: Value, start: int) -> None:
        there = self.new.buffer_of(new)
        owner = self.new.producer(there)
        is_fresh = owner is not None and owner in self.new.nodes[start:]
        why = self.buffers.conflict(old, new, there, owner is None, is_fresh)
        if why is not None:
            raise self.refusal(*why)
