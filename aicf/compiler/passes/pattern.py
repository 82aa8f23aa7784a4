"""What a rule looks for, said as the calls that it would be in Python.

    def pattern(self, op, a, b, bias=None):
        return op.relu(op.gemm(a, b, bias, ...).named("product"))

Each parameter after `op` is a variable: it stands for what is found at its place, the same wherever
it stands; one with the default None may be absent. A call means what it means in `aicf.ops`: what
it does not mention is as the row's default is, or, behind `...`, whatever it is. A number for a
tensor is a tensor that has it everywhere. Between patterns `|` is either.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, TypeAlias

from aicf.compiler.ir import text, view
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of
from aicf.compiler.ir.types import TensorType, number
from aicf.table import FLOATS, NO_DEFAULT, Param, Row


@dataclass(frozen=True, slots=True)
class Var:
    """Stands for what is found: a value, a number, a list of values, an attribute's value."""

    name: str
    optional: bool = False

    def __or__(self, other: Pattern) -> Either:
        return Either((self, *_options(other)))


@dataclass(frozen=True, slots=True)
class Filled:
    """A tensor with one number everywhere, which `number` stands for."""

    number: Var


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The first out of a node, or its `out`th."""

    op: str
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any]
    is_open: bool = False  # what is not mentioned may be anything
    label: str = ""
    is_commuted: bool = False
    is_kept: bool = False
    out: int = 0

    def named(self, label: str) -> Call:
        """The node is known by this name."""
        return dataclasses.replace(self, label=label)

    def commuted(self) -> Call:
        """Its first two operands may also be the other way round."""
        return dataclasses.replace(self, is_commuted=True)

    def kept(self) -> Call:
        """It may be read elsewhere too; then it stays where it is."""
        return dataclasses.replace(self, is_kept=True)

    def at(self, out: int) -> Call:
        """Its out of this place in the row."""
        return dataclasses.replace(self, out=out)

    def __or__(self, other: Pattern) -> Either:
        return Either((self, *_options(other)))


@dataclass(frozen=True, slots=True)
class Either:
    """The first of several that is found."""

    options: tuple[Call | Var, ...]

    def named(self, label: str) -> Either:
        return self._each(lambda call: call.named(label))

    def commuted(self) -> Either:
        return self._each(Call.commuted)

    def kept(self) -> Either:
        return self._each(Call.kept)

    def _each(self, change: Callable[[Call], Call]) -> Either:
        return Either(tuple(change(x) if isinstance(x, Call) else x for x in self.options))

    def __or__(self, other: Pattern) -> Either:
        return Either((*self.options, *_options(other)))


Pattern: TypeAlias = "Call | Either | Var"


def _options(pattern: Pattern) -> tuple[Call | Var, ...]:
    return pattern.options if isinstance(pattern, Either) else (pattern,)


class Ops:
    """`op` of a pattern: `op.NAME(...)` is a call of that row, `op.view.WORD(...)` a view."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    @property
    def view(self) -> Ops:
        return Ops("view.")

    def __getattr__(self, name: str) -> Callable[..., Call]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*inputs: Any, **keywords: Any) -> Call:
            is_open = bool(inputs) and isinstance(inputs[-1], EllipsisType)
            given = inputs[:-1] if is_open else inputs
            return Call(self._prefix + name, given, keywords, is_open)

        return call

    def filled(self, number: Var) -> Filled:
        """A tensor with one number everywhere."""
        return Filled(number)


@dataclass(frozen=True, slots=True)
class Sought:
    """The pattern of a rule."""

    pattern: Pattern
    names: frozenset[str]  # of variables
    may: frozenset[str]  # variables that may be absent
    roots: frozenset[str]  # the ops that a node may be of which the whole pattern gives
    labels: frozenset[str]  # of named nodes


def of(function: Callable[..., Pattern]) -> Sought:
    """What a function of `op` and variables gives. Raises TypeError where that is none."""
    _, *names = inspect.signature(function).parameters.values()
    found = function(Ops(), *(Var(p.name, p.default is None) for p in names))
    if not isinstance(found, Call | Either) or any(isinstance(x, Var) for x in _options(found)):
        raise TypeError(f"a pattern is a call of an op, or one of several, not {found!r}")
    may = frozenset(p.name for p in names if p.default is None)
    ops = frozenset(c.op for c in _options(found) if isinstance(c, Call))
    labels = frozenset(filter(None, (c.label for c in _calls(found))))
    return Sought(found, frozenset(p.name for p in names), may, ops, labels)


def _calls(term: Any) -> Iterator[Call]:
    """All in a pattern."""
    if isinstance(term, Call):
        yield term
        for part in (*term.inputs, *term.keywords.values()):
            yield from _calls(part)
    elif isinstance(term, Either | list | tuple):
        for part in term.options if isinstance(term, Either) else term:
            yield from _calls(part)


# ---- finding it ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """What variables stand for and which nodes the calls are, on the way through a pattern."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Node] = field(default_factory=dict)
    nodes: tuple[tuple[Call, Node], ...] = ()  # the root first
    may: frozenset[str] = frozenset()  # variables that may be absent

    def bound(self, var: Var, x: Any) -> Found | None:
        if var.name not in self.variables:
            return dataclasses.replace(self, variables={**self.variables, var.name: x})
        return self if _same(self.variables[var.name], x) else None


def find(sought: Sought, graph: Graph, root: Node) -> Iterator[Found]:
    """Every way in which a node is the root of a pattern; what it reads is looked up in a graph."""
    for option in _options(sought.pattern):
        if isinstance(option, Call):
            yield from _Finder(graph).call(option, root, Found(may=sought.may))


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def term(self, term: Any, x: Any, found: Found) -> Iterator[Found]:
        """Ways in which an operand is a term of a pattern."""
        if isinstance(term, Var):
            more = found.bound(term, x) if x is not None or term.optional else None
            if more is not None:
                yield more
        elif isinstance(term, Either):
            for option in term.options:
                yield from self.term(option, x, found)
        elif isinstance(term, Call):
            node = self.graph.producer(x) if isinstance(x, Value) else None
            if node is not None and _is_out(node, term, x):
                yield from self.call(term, node, found)
        elif isinstance(term, Filled):
            exact = number_of(self.graph, x)
            if exact is not None:
                yield from self.term(term.number, exact, found)
        elif isinstance(term, tuple | list):
            if isinstance(x, tuple) and len(x) == len(term):
                yield from self.terms(list(zip(term, x, strict=True)), found)
        elif _is_literal(self.graph, term, x):
            yield found

    def terms(self, pairs: list[tuple[Any, Any]], found: Found) -> Iterator[Found]:
        if not pairs:
            yield found
            return
        (term, x), *rest = pairs
        for more in self.term(term, x, found):
            yield from self.terms(rest, more)

    def call(self, call: Call, node: Node, found: Found) -> Iterator[Found]:
        """Ways in which a node is a call."""
        if node.op != call.op:
            return
        for other, known in found.nodes:
            if other is call or known is node:
                if other is call and known is node:
                    yield found
                return
        pairs = self.pairs(call, node)
        if pairs is None:
            return
        labels = {**found.labels, call.label: node} if call.label else found.labels
        nodes = (*found.nodes, (call, node))
        here = dataclasses.replace(found, labels=labels, nodes=nodes)
        yield from self.terms(pairs, here)
        if call.is_commuted:
            (a, x), (b, y), *rest = pairs
            yield from self.terms([(a, y), (b, x), *rest], here)

    def pairs(self, call: Call, node: Node) -> list[tuple[Any, Any]] | None:
        """Terms beside what stands there; None where an attribute that is said is another."""
        if node.op in view.VIEWS:
            return self.pairs_of_view(call, node)
        row = self.graph.table[node.op]
        pairs = list(zip(call.inputs, node.inputs, strict=False))
        said = dict(call.keywords)
        for p, x in list(zip(row.operands, node.inputs, strict=True))[len(call.inputs) :]:
            if p.name in said:
                pairs.append((said.pop(p.name), x))
            elif not call.is_open and not (x is None or _same(x, p.default)):
                return None
        for p in row.attrs:
            term = said.pop(p.name, NO_DEFAULT)
            if isinstance(term, Var):
                pairs.append((term, node.attrs[p.name]))
            elif term is not NO_DEFAULT:
                rank = text.rank_of(node, row, p.of) if p.of else None
                if not _is_attribute(row, p.name, term, rank, node.attrs[p.name]):
                    return None
            elif not call.is_open and not _is_default(row, node, p):
                return None
        if row.free and "dtype" in said:
            pairs.append((said.pop("dtype"), node.attrs["dtype"]))
        if said:
            raise TypeError(f"a pattern says {min(said)} of {row.name}, which has none")
        return pairs

    def pairs_of_view(self, call: Call, node: Node) -> list[tuple[Any, Any]]:
        said = [(term, node.attrs.get(name)) for name, term in call.keywords.items()]
        return [*zip(call.inputs, node.inputs, strict=False), *said]


def _is_out(node: Node, call: Call, value: Value) -> bool:
    return call.out < len(node.outs) and node.outs[call.out] is value


def _is_default(row: Row, node: Node, p: Param) -> bool:
    return repr(node.attrs[p.name]) == repr(text.default_of(node, row, p))


def _is_attribute(row: Row, name: str, term: Any, rank: int | None, given: Any) -> bool:
    try:
        return repr(row.canonical(name, term, rank)) == repr(given)
    except (TypeError, ValueError):  # an axis that the operand does not have
        return False


def _is_literal(graph: Graph, term: Any, x: Any) -> bool:
    """A number, a tensor of it, a string, or nothing."""
    if isinstance(x, Value):
        exact = number_of(graph, x)
        return exact is not None and term is not None and _same_number(exact, term)
    return _same_number(x, term) if isinstance(term, int | float) else _same(x, term)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Value) or isinstance(b, Value):
        return a is b
    if isinstance(a, tuple) and isinstance(b, tuple) and any(values_of(a)):
        return len(a) == len(b) and all(map(_same, a, b))
    return repr(a) == repr(b)


def _same_number(a: Any, b: Any) -> bool:
    """1 is 1.0, but 0.0 is not -0.0, and no bool is a number."""
    if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, int | float):
        return a is b
    return repr(float(a)) == repr(float(b))


def number_of(graph: Graph, x: Any) -> bool | int | float | None:
    """The number that a tensor has everywhere, as its dtype holds it; None where it is not known
    to."""
    while isinstance(x, Value):
        if x in graph.constants:
            fill = graph.constants[x]
            return None if fill is None else rounded(fill, x.type.dtype)
        node = graph.producer(x)
        if node is None or not node.is_view or not isinstance(x.type, TensorType):
            return None
        x = node.inputs[0]
    return None


def rounded(x: bool | int | float, dtype: str) -> bool | int | float | None:
    """A number as a dtype holds it; None where that depends on whether it is rounded by way of f32,
    as not all do."""
    if dtype not in FLOATS:
        return number(x, dtype)
    if dtype == "f64":
        return float(x)
    round_to = _ROUND[dtype]
    found = round_to(float(x))
    return found if repr(found) == repr(round_to(_ROUND["f32"](float(x)))) else None


def _packed(form: str) -> Callable[[float], float]:
    def round_to(x: float) -> float:
        try:
            found: float = struct.unpack(form, struct.pack(form, x))[0]
        except OverflowError:
            return math.copysign(math.inf, x)
        return found

    return round_to


def _bf16(x: float) -> float:
    """To the nearest, of two the even one."""
    if not math.isfinite(x) or x == 0:
        return x
    exponent = max(math.frexp(x)[1], -125)  # below there are fewer bits
    unit = math.ldexp(1.0, exponent - 8)
    found = math.copysign(round(abs(x) / unit) * unit, x)
    return found if abs(found) < math.ldexp(1.0, 128) else math.copysign(math.inf, x)


_ROUND: dict[str, Callable[[float], float]] = {
    "f32": _packed("f"), "f16": _packed("e"), "bf16": _bf16
}  # fmt: skip
