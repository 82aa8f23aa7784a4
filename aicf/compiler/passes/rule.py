"""What a rule is: a pattern, a check with named conditions, and what stands in its place.

    class DoubleNegation(Rule):
        "-(-x) = x"

        name = "double-negation"

        def pattern(self, op, x):
            return op.neg(op.neg(x).kept())

        def rewrite(self, m, e):
            return m.x

The engine refuses by itself where what goes is needed elsewhere (`STANDING`); a rule says only what
is its own. Every reason by which it refuses stands in `refusals`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType, MappingProxyType
from typing import Any, ClassVar, Final, NoReturn, Protocol

from aicf.compiler.ir.emit import Emitter, tensor
from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Operand, Value, values_of
from aicf.compiler.ir.types import TensorType
from aicf.compiler.passes import pattern
from aicf.compiler.passes.pattern import Found, Pattern, Sought
from aicf.table import Table

# What the engine asks of every match, by the names under which it refuses.
STANDING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "read-elsewhere": "a value between is read by a node that is not replaced",
        "is-output": "a value between is given back by the graph",
        "out-used": "another out of a node that is replaced is read",
        "updates": "a node that is replaced updates an operand in place",
        "overwritten": "what the new nodes read was updated in place before them, or will be",
        "shares-memory": "the result would lie in memory that is updated or given back otherwise",
        "type": "what would stand there is of another type",
        "symbol": "it depends on values of symbols",
        "layout": "no kernel takes what the new nodes would read as it lies",
        "device": "operands lie on several devices",
        "dtype": "no variant of a row takes the dtypes",
        "view": "what would be seen is not expressible in strides",
    }
)


class RuleError(Exception):
    """A rule that is wrong in itself: what it says or gives cannot be."""


class Refusal(Exception):
    """What would match does not hold a condition."""

    def __init__(self, reason: str, detail: object, at: str) -> None:
        self.reason, self.detail, self.at = reason, str(detail), at
        super().__init__(f"{reason}: {self.detail}" if self.detail else reason)


# ---- what a pass gives --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fired:
    """One rewrite."""

    rule: str
    nodes: tuple[str, ...]  # the lines that went, as the text of the graph had them
    by: tuple[str, ...]  # the lines that came
    loc: Location | None  # the line of source of the last node that went
    at: str  # file:line of the rule


@dataclass(frozen=True, slots=True)
class Refused:
    """What would have matched."""

    rule: str
    reason: str
    detail: str
    node: str  # the line of the last node
    loc: Location | None
    at: str  # file:line of what refused


@dataclass(frozen=True, slots=True)
class Applied:
    """A graph after a pass; the graph before, the same object, where nothing changed."""

    graph: Graph
    fired: tuple[Fired, ...] = ()
    refused: tuple[Refused, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)  # of constants that the pass made


@dataclass(frozen=True, slots=True)
class Context:
    """What passes may know beside the graph."""

    backend: Any = None  # that the graph will run on
    data: Mapping[str, Any] = field(default_factory=dict)  # of constants and frozen params, by name
    frozen: frozenset[str] = frozenset()  # params that nobody changes between runs, by name
    limit: int | None = None  # the most rewrites of one run of a pass
    options: Mapping[str, Any] = field(default_factory=dict)

    def fixed(self, graph: Graph) -> set[Value]:
        """The entries that are the same in all runs: constants, and frozen params that no node
        updates."""
        written = {
            graph.buffer_of(v) for n in graph.nodes for s in n.states.values() for v in values_of(s)
        }
        params = {p for p in graph.params if p.name in self.frozen}
        return (params | set(graph.constants)) - written


class Pass(Protocol):
    """A graph to a graph that computes the same."""

    @property
    def name(self) -> str: ...

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        """The given graph is not changed."""
        ...


# ---- rules --------------------------------------------------------------------------------------


OF_MATCH: Final = frozenset(("graph", "root", "found", "fixed"))


class Match:
    """What a pattern found, of which the check asks: variables and named nodes are attributes."""

    def __init__(self, graph: Graph, root: Node, found: Found, fixed: Collection[Value]) -> None:
        self.graph, self.root, self.found, self.fixed = graph, root, found, fixed

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__["found"]
        if name in found.variables:
            return found.variables[name]
        if name in found.labels:
            return found.labels[name]
        if name in found.may:
            return None
        remedy = "one that may be absent has the default None"
        raise AttributeError(f"the pattern found no variable or node {name!r}; {remedy}")

    @property
    def type(self) -> TensorType:
        """Of the root's first out."""
        return tensor(self.root.out)

    def value(self, name: str) -> Value:
        """What a variable stands for, as a value that the root's can be."""
        found = getattr(self, name)
        if not isinstance(found, Value):
            raise RuleError(f"{name} stands for {found!r}, which is no value")
        return found

    def node(self, name: str) -> Node:
        """A named node."""
        return self.found.labels[name]

    def __contains__(self, name: str) -> bool:
        """Whether it was found: a variable that is bound to something, a named node."""
        return self.found.variables.get(name) is not None or name in self.found.labels

    def require(self, holds: object, reason: str, detail: object = "") -> None:
        """Refuses, by a reason of the rule's `refusals`, unless it holds."""
        if not holds:
            raise Refusal(reason, detail, _place(sys._getframe(1)))

    def refuse(self, reason: str, detail: object = "") -> NoReturn:
        """By a reason of the rule's `refusals`."""
        raise Refusal(reason, detail, _place(sys._getframe(1)))

    def number(self, x: object) -> bool | int | float | None:
        """The number that a tensor has everywhere, as its dtype holds it; None where none is
        known."""
        return pattern.number_of(self.graph, x)

    def is_frozen(self, *values: Value | None) -> bool:
        """Whether all of them are the same in all runs, or are made of such; what is absent is."""
        todo, seen = [v for v in values if v is not None], set[Value]()
        while todo:
            v = todo.pop()
            node = self.graph.producer(v)
            if v in seen or (node is None and v in self.fixed):
                continue
            if node is None or node.states or not any(node.reads):
                return False
            seen.add(v)
            todo += node.reads
        return True


class Rewriter(Emitter):
    """Adds the nodes that stand in place of a match. Nothing is copied for them: what no kernel
    takes as it lies is refused."""

    def node(
        self, op: str, *inputs: Operand | Sequence[Value], want: Sequence[bool] | None = None,
        **keywords: Any,
    ) -> Node:  # fmt: skip
        return self.graph.add(op, *inputs, want=want, loc=self.loc, **keywords)

    def like(self, node: Node, **changes: Any) -> Node:
        """The same call with other operands or attributes, by parameter."""
        if node.is_view:
            operands = [changes.pop("x", node.inputs[0])]
            return self.node(node.op, *operands, **{**node.attrs, **changes})
        row = self.graph.table[node.op]
        named = {p.name: x for p, x in zip(row.operands, node.inputs, strict=True)}
        want = [v is not None for v in node.outs]
        keywords = {**named, **node.attrs, **changes}
        operands = [keywords.pop(p.name) for p in row.operands]
        return self.node(node.op, *operands, want=want, **keywords)


class Rule:
    """One rewrite. Its docstring is the equation; instances have no state that changes."""

    name: ClassVar[str] = ""
    refusals: ClassVar[Sequence[str]] = ()
    misses: ClassVar[Sequence[str]] = ()
    """What makes a graph that looks like a match none: nothing is found there, and nothing said.
    For proofs, which draw such graphs as they draw those that are refused."""

    def pattern(self, *arguments: Any, **keywords: Any) -> Pattern:
        """Called with `op` and a variable for each parameter more."""
        raise NotImplementedError(f"{type(self).__name__}.pattern")

    def fits(self, m: Match) -> bool:
        """What the pattern cannot say of calls; where it does not hold, nothing was found."""
        return True

    def check(self, m: Match) -> None:
        """Refuses by `m.require` or `m.refuse` where a match must not be rewritten."""

    def rewrite(self, m: Match, e: Rewriter) -> Value | Node:
        """What stands for the root: a value of its type, or a node with its outs."""
        raise NotImplementedError(f"{type(self).__name__}.rewrite")

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        """Wherever it can be, until it can be nowhere more."""
        from aicf.compiler.passes.engine import apply

        return apply(graph, self, context)

    @functools.cached_property
    def sought(self) -> Sought:
        """The pattern, made once."""
        if not self.name or isinstance(self.refusals, str):
            raise RuleError(f"{type(self).__name__}: a rule has a name, and refusals in a tuple")
        try:
            found = pattern.of(self.pattern)
        except TypeError as error:
            raise RuleError(f"{self.name}: {error}") from error
        hidden = (found.names | found.labels) & (set(dir(Match)) | OF_MATCH)
        if hidden or found.names & found.labels:
            name = min(hidden or found.names & found.labels)
            raise RuleError(f"{self.name}: {name!r} is the name of something else: take another")
        return found

    @property
    def equation(self) -> str:
        return inspect.getdoc(type(self)) or ""

    @property
    def at(self) -> str:
        """file:line of the rewrite."""
        code = inspect.unwrap(type(self).rewrite).__code__
        return f"{code.co_filename}:{code.co_firstlineno}"

    def __repr__(self) -> str:
        return f"Rule({self.name})"


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Group:
    """Passes one after another, again and again, until none of them finds anything to do."""

    def __init__(self, name: str, passes: Sequence[Pass], text: str = "") -> None:
        self.name, self.passes = name, tuple(passes)
        lines = (inspect.getdoc(type(p)) or "" for p in self.passes)
        self.__doc__ = text or "\n".join(line.partition("\n")[0] for line in lines)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Those of its passes that are rules."""
        return tuple(p for p in self.passes if isinstance(p, Rule))

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        """Raises Endless where rules undo each other for ever."""
        from aicf.compiler.passes.engine import apply_all

        return apply_all(graph, self, context)

    def __repr__(self) -> str:
        return f"Group({self.name})"


def serves(table: Table, rule: Rule) -> bool:
    """Whether a table has a row that can be the root of the rule's pattern."""
    return any(op in table or op.startswith("view.") for op in rule.sought.roots)
