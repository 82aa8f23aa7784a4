"""Proves a rule on generated graphs: where it must fire, where it must refuse and why, and on any.

    def example(draw, broken):
        x = draw.tensor(*draw.sizes(2))
        draw.output(draw.op("neg", draw.op("neg", x)))

    print(prove(DoubleNegation(), example))

An example adds what a rule matches to a graph, drawn anew each time; with `broken`, one of the
rule's refusals or misses, what differs from a match in that condition alone. What the engine
refuses by itself is made of the matches here. Whatever fires must compute the same, by the numeric
gate; where nothing does, the graph must be the very same.
"""

from __future__ import annotations

import importlib.util
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from aicf.compiler.given import check_kind, described
from aicf.compiler.ir import emit
from aicf.compiler.ir.emit import Emitter
from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import ScalarType, TensorType
from aicf.compiler.kernels.trial import Array
from aicf.compiler.passes import draw, pattern
from aicf.compiler.passes.exact import exact
from aicf.compiler.passes.execution import interpreted
from aicf.compiler.passes.numeric import Budget, Run, judge
from aicf.compiler.passes.pipeline import RolledBack, check, run_alone
from aicf.compiler.passes.rule import Applied, Context, Rule
from aicf.compiler.passes.trial import is_finite
from aicf.table import Kind, Param, Row, Table

_FILL = "fill_.Scalar"  # what updates a tensor in place, in ATen's words
_DTYPES = ("f32", "f32", "f32", "f64", "f16")  # and bf16, where numpy can have that
_ANYWHERE = Budget(16, 64)  # of random graphs, which may be ill-conditioned
_NODES = 6  # of a random graph

T = TypeVar("T")


class Disproved(AssertionError):
    """A graph on which a rule does not what it must; says which."""


@dataclass(frozen=True, slots=True)
class Proof:
    """How many graphs were looked at, all of which were as they must be."""

    rule: str
    fired: int
    refused: dict[str, int]  # by reason
    random: int
    random_fired: int
    missed: dict[str, int] = field(default_factory=dict)  # by what made them no match

    def __str__(self) -> str:
        reasons = ", ".join(f"{name} {n}" for name, n in self.refused.items()) or "never"
        missed = ", ".join(f"{name} {n}" for name, n in self.missed.items())
        return (
            f"{self.rule}: fired on {self.fired} of {self.fired} matches, refused: {reasons}; "
            + (f"no match: {missed}; " if missed else "")
            + f"{self.random} random graphs, {self.random_fired} of them changed"
        )


class Draw:
    """A graph that is being made, with random choices; the same for the same seed."""

    def __init__(self, seed: str, table: Table | None = None) -> None:
        self.random = random.Random(seed)
        self.graph = Graph(table or Table.default(), "drawn")
        more = ("bf16",) if importlib.util.find_spec("ml_dtypes") else ()
        self.dtype: str = self.random.choice((*_DTYPES, *more))
        self.frozen: set[str] = set()  # params that nobody changes between runs
        self.is_positive = False  # whether all reals are, that come as data

    @property
    def sums(self) -> str:
        """The dtype that rows sum `dtype` in, and take statistics of it in."""
        return "f64" if self.dtype == "f64" else "f32"

    # ---- choices --------------------------------------------------------------------------------

    def choice(self, among: Sequence[T]) -> T:
        return self.random.choice(among)

    def coin(self) -> bool:
        return self.random.random() < 0.5

    def size(self, low: int = 1, high: int = 5) -> int:
        return self.random.randint(low, high)

    def sizes(self, count: int, low: int = 1, high: int = 5) -> list[int]:
        return [self.size(low, high) for _ in range(count)]

    # ---- values ---------------------------------------------------------------------------------

    def tensor(self, *shape: int, dtype: str | None = None) -> Value:
        """An input or a param."""
        enter = self.choice((self.graph.input, self.graph.param))
        return enter(self._name(), self._type(shape, dtype))

    def param(self, *shape: int, dtype: str | None = None, frozen: bool = False) -> Value:
        """`frozen`: one that is the same in all runs."""
        made = self.graph.param(self._name(), self._type(shape, dtype))
        self.frozen |= {made.name} if frozen else set()
        return made

    def constant(self, *shape: int, fill: float | None = None, dtype: str | None = None) -> Value:
        return self.graph.constant(self._name(), self._type(shape, dtype), fill)

    def number(self, dtype: str) -> Value:
        """A number that is given at each run."""
        return self.graph.input(self._name(), ScalarType(dtype))

    def op(self, name: str, *inputs: Any, **keywords: Any) -> Value:
        """The first out of a node."""
        return self.node(name, *inputs, **keywords).out

    def node(self, name: str, *inputs: Any, **keywords: Any) -> Node:
        return self.graph.add(name, *inputs, **keywords)

    def output(self, *values: Value) -> None:
        self.graph.output(*values)

    def _name(self) -> str:
        return f"v{sum(1 for _ in self.graph.entries)}"

    def _type(self, shape: Sequence[int], dtype: str | None) -> TensorType:
        return TensorType(dtype or self.dtype, tuple(shape))


Example = Callable[[Draw, str], object]


def prove(
    rule: Rule, example: Example, *, fire: int = 50, refuse: int = 100, anywhere: int = 50,
    seed: int = 0, budget: Budget | None = None, is_exact: bool = False, also: Sequence[str] = (),
    table: Table | None = None,
) -> Proof:  # fmt: skip
    """`fire`: matches; `refuse`: graphs that differ from one in a condition, over all conditions,
    be it that they are refused or that nothing is found;
    `anywhere`: random graphs of the rule's ops; `also`: conditions of the engine's that the example
    can break, beside the rule's own; `is_exact`: bits are to be the same, also of zeros of both
    signs, infinities and NaNs. Raises Disproved with the first graph on which the
    rule does not what it must."""
    check_kind("rule", rule, Rule, may_lack=False)
    if not callable(example):
        raise TypeError(f"example must be a function, not {described(example)}")
    proving = _Proving(rule, example, seed, budget or Budget(), is_exact, tuple(also), table)
    return proving.run(fire, refuse, anywhere)


@dataclass(slots=True)
class _Proving:
    rule: Rule
    example: Example
    seed: int
    budget: Budget
    is_exact: bool
    also: tuple[str, ...]
    table: Table | None
    refused: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)

    def run(self, fire: int, refuse: int, anywhere: int) -> Proof:
        for i in range(fire):
            self.must_fire(i)
        own = [*self.rule.refusals, *self.also]
        standing = [reason for reason in self.standing() if reason not in own]
        cases = [*own, *standing, *self.rule.misses]
        for i in range(refuse if cases else 0):
            reason = cases[i % len(cases)]
            if reason in self.rule.misses:
                self.must_miss(reason, i)
            elif reason in own:
                self.must_refuse(reason, i)
            else:
                self.must_refuse_standing(reason, i)
        changed = sum(self.anywhere(i) for i in range(anywhere))
        refused, missed = dict(self.refused), dict(self.missed)
        return Proof(self.rule.name, fire, refused, anywhere, changed, missed)

    # ---- cases ----------------------------------------------------------------------------------

    def drawn(self, broken: str, i: int) -> Draw:
        made = Draw(f"{self.seed} {self.rule.name} {broken} {i}", self.table)
        self.example(made, broken)
        return made

    def must_fire(self, i: int) -> Applied:
        made = self.drawn("", i)
        applied = self.applied(made)
        if not applied.fired:
            why = ", ".join(f"{r.reason}: {r.detail}" for r in applied.refused) or "no match"
            raise self.disproved(made.graph, f"it must fire and does not ({why})")
        self.check_same(made, applied, self.budget)
        return applied

    def must_refuse(self, reason: str, i: int) -> None:
        made = self.drawn(reason, i)
        applied = self.applied(made)
        self.check_refused(made.graph, applied, reason)
        if applied.graph is not made.graph:
            raise self.disproved(made.graph, f"it must refuse by {reason}, and fires elsewhere")

    def must_miss(self, reason: str, i: int) -> None:
        made = self.drawn(reason, i)
        made.graph.verify()
        applied = self.applied(made)
        if applied.fired or applied.refused:
            did = "fires" if applied.fired else f"refuses by {applied.refused[0].reason}"
            raise self.disproved(made.graph, f"it must find no match ({reason}), and {did}")
        self.missed[reason] += 1

    def check_refused(self, graph: Graph, applied: Applied, reason: str) -> None:
        reasons = [r.reason for r in applied.refused]
        if reason not in reasons:
            told = ", ".join(reasons) or ("it fires" if applied.fired else "it finds no match")
            raise self.disproved(graph, f"it must refuse by {reason}, and not: {told}")
        self.refused[reason] += 1

    def standing(self) -> Iterator[str]:
        """What the engine refuses, of which near misses can be made of a match."""
        for reason, change in _CHANGES.items():
            if any(self.changed(change, self.drawn("", i)) for i in range(8)):
                yield reason

    def must_refuse_standing(self, reason: str, i: int) -> None:
        """Of a match that has what it takes. There may be another way to match, which is right if
        it computes the same; but not always."""
        for j in range(1, 100):
            made = self.drawn("", 1000 * j + i)
            if self.changed(_CHANGES[reason], made) is None:
                continue
            made.graph.verify()
            applied = self.applied(made)
            if applied.fired:
                self.check_same(made, applied, self.budget)
            if not applied.fired or reason in [r.reason for r in applied.refused]:
                break
        self.check_refused(made.graph, applied, reason)

    def changed(self, change: Change, made: Draw) -> Applied | None:
        """What the rule gave before a match was changed; None where it cannot be."""
        before = self.applied(made)
        site = _Site.of(self.rule, made.graph, before)
        return before if site is not None and change(made, site) else None

    def anywhere(self, i: int) -> bool:
        """A random graph, each other one around a match."""
        made = Draw(f"{self.seed} {self.rule.name} anywhere {i}", self.table)
        if i % 2:
            self.example(made, "")
        _grow(made, sorted(pattern_ops(self.rule)))
        applied = self.applied(made)
        if applied.fired:
            self.check_same(made, applied, _ANYWHERE)
        return bool(applied.fired)

    # ---- what must hold -------------------------------------------------------------------------

    def applied(self, made: Draw) -> Applied:
        data = self.data(made) if made.frozen or made.graph.constants else {}
        context = Context(data=data, frozen=frozenset(made.frozen))
        applied = run_alone(self.rule, made.graph, context)
        if (applied.graph is made.graph) == bool(applied.fired):
            raise self.disproved(made.graph, "what fired is not what changed")
        return applied

    def data(self, made: Draw, more: int = 0) -> dict[str, Any]:
        return draw.fill(made.graph, {}, self.seed + more, made.is_positive)

    def check_same(self, made: Draw, applied: Applied, budget: Budget) -> None:
        """The same face, and values that are as near to f64's as before."""
        graph, after = made.graph, applied.graph
        try:
            check(graph, after)
        except RolledBack as error:
            raise self.disproved(graph, str(error), after) from error
        if self.is_exact:
            self.check_bits(made, applied)
            return
        runs = [self.ran(made, applied, 0)]
        if not judge(runs, budget).is_within:  # on one data an error may be 0 by luck
            runs += [self.ran(made, applied, i) for i in range(1, 5)] if not applied.data else []
        finding = judge(runs, budget)
        if not finding.is_within:
            raise self.disproved(graph, f"it computes another thing: {finding}", after)

    def check_bits(self, made: Draw, applied: Applied) -> None:
        data = draw.special(self.data(made), self.seed)
        before = interpreted(made.graph, data)
        after = interpreted(applied.graph, {**data, **applied.data})
        for name, x in before.items():
            if not _same_bits(x, after[name]):
                told = f"{name} is {after[name].tolist()}, and was {x.tolist()}"
                raise self.disproved(
                    made.graph, f"it computes another thing: {told}", applied.graph
                )

    def ran(self, made: Draw, applied: Applied, seed: int) -> Run:
        """Both graphs; on positive numbers where others lead to NaNs and infinities."""
        data = self.data(made, seed)
        right = exact(made.graph, data)
        if not made.frozen and not all(map(is_finite, right.values())):
            made.is_positive = True
            data = self.data(made, seed)
            right = exact(made.graph, data)
        after = interpreted(applied.graph, {**data, **applied.data})
        return Run(interpreted(made.graph, data), after, right)

    def disproved(self, graph: Graph, why: str, after: Graph | None = None) -> Disproved:
        made = f"\nit gives\n{after}" if after is not None else ""
        return Disproved(f"{self.rule.name} ({self.rule.at}): {why}, of\n{graph}{made}")


def _same_bits(a: Array, b: Array) -> bool:
    """One NaN is as another."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if not draw.is_real(a.dtype):
        return bool(np.array_equal(a, b))
    x, y = a.astype(np.float64), b.astype(np.float64)
    signs = (np.signbit(x) == np.signbit(y)) | np.isnan(x)
    return bool(np.array_equal(x, y, equal_nan=True) and np.all(signs))


# ---- near misses of what the engine itself asks --------------------------------------------------


@dataclass(slots=True)
class _Site:
    """Where a rule fired first in a graph: the root, the other nodes, and the values between them
    that must not be needed elsewhere."""

    root: Node
    others: list[Node]
    between: list[Value]

    @classmethod
    def of(cls, rule: Rule, graph: Graph, applied: Applied) -> _Site | None:
        if not applied.fired:
            return None
        went = {_named(line) for line in applied.fired[0].nodes}
        for root in graph.nodes:
            for found in pattern.find(rule.sought, graph, root):
                others = [n for _, n in found.nodes[1:]]
                if went <= {v.name for n in (root, *others) for v in n.results}:
                    between = [n.outs[c.out] for c, n in found.nodes[1:] if not c.is_kept]
                    return cls(root, others, [v for v in between if v is not None])
        return None


def _named(line: str) -> str:
    """The first result of a node, by its line."""
    return line.partition(":")[0].strip().removeprefix("%")


def _give_back(made: Draw, site: _Site) -> bool:
    """A value between as another output."""
    values = [v for v in site.between if made.graph.buffer_of(v) is v]
    if values:
        made.output(made.choice(values))
    return bool(values)


def _read_elsewhere(made: Draw, site: _Site) -> bool:
    """A value between, by a copy that is given back."""
    values = site.between
    if values:
        emitter = Emitter(made.graph)
        made.output(emitter.copy(made.choice(values)))
    return bool(values)


def _overwrite(made: Draw, site: _Site) -> bool:
    """Updates an operand of a node in place before the root, which does not read it."""
    graph, root, nodes = made.graph, site.root, {site.root, *site.others}
    if not graph.table.by_aten.get(_FILL):
        return False
    row = graph.table.by_aten[_FILL][0]
    entries = {*graph.inputs, *graph.params} - {graph.buffer_of(v) for v in root.reads}
    leaves = [
        v
        for n in site.others
        for v in n.reads
        if v in entries
        and v.type.dtype != "bool"
        and not any(v in m.reads for m in graph.nodes if m not in nodes)
    ]
    if not leaves:
        return False
    place = graph.nodes.index(root)
    later = graph.nodes[place:]
    if any(graph.buffer_of(v) in leaves for n in later for v in n.reads):
        return False
    number: dict[str, Any] = {row.scalars[0].name: 2}
    node = graph.add(row.name, made.choice(leaves), **number)
    graph.nodes = [*graph.nodes[:place], node, *later]
    graph.__post_init__()
    return True


Change = Callable[[Draw, _Site], bool]  # whether there is what it takes
_CHANGES: dict[str, Change] = {
    "is-output": _give_back,
    "read-elsewhere": _read_elsewhere,
    "overwritten": _overwrite,
}


# ---- random graphs -------------------------------------------------------------------------------


def pattern_ops(rule: Rule) -> set[str]:
    """The ops that a rule's pattern names."""
    return {call.op for call in _calls(rule.sought.pattern)}


def _calls(term: Any) -> Iterator[pattern.Call]:
    if isinstance(term, pattern.Call):
        yield term
        for x in (*term.inputs, *term.keywords.values()):
            yield from _calls(x)
    elif isinstance(term, pattern.Either):
        for option in term.options:
            yield from _calls(option)
    elif isinstance(term, tuple | list):
        for x in term:
            yield from _calls(x)


def _grow(made: Draw, ops: Sequence[str]) -> None:
    """Some entries, and nodes of these ops and views of what there is, where a row takes them."""
    graph = made.graph
    n = made.size(1, 3)
    for shape in ((n, n), (n,), (n, n), (1, n, 2, 2)):
        made.tensor(*shape)
    for number in (0, 1, 2):
        Emitter(graph).number(number, made.dtype, "cpu")
    others = [made.choice(_UNARY) for _ in range(2)]
    known = [graph.table.by_aten[name][0].name for name in others if name in graph.table.by_aten]
    most = len(graph.nodes) + _NODES
    for _ in range(4 * _NODES):
        if len(graph.nodes) == most:
            break
        op = made.choice([*ops, *ops, *known])
        try:
            if op in graph.table:
                _add(made, graph.table[op])
            else:
                _see(made, op)
        except (IRError, ValueError, TypeError, IndexError):
            continue
    values = [v for v in graph.values if graph.overwritten_by(v) is None]
    last = [v for v in values if graph.producer(v) is not None and not graph.users(v)]
    made.output(*(last or values[:1]))


_UNARY = (emit.NEG, emit.ADD, emit.MUL, "relu.default")


def _see(made: Draw, word: str) -> None:
    """A view of a tensor, of views rather than of others."""
    values = [v for v in made.graph.values if isinstance(v.type, TensorType) and v.type.rank]
    nodes = [made.graph.producer(v) for v in values]
    seen = [v for v, n in zip(values, nodes, strict=True) if n is not None and n.is_view]
    x = made.choice(seen if seen and made.coin() else values)
    shape: Any = emit.tensor(x).shape
    match word:
        case "view.permute":
            attrs: dict[str, Any] = {"perm": made.random.sample(range(len(shape)), len(shape))}
        case "view.expand":
            attrs = {"shape": (made.size(1, 2), *shape)}
        case "view.slice":
            start = made.size(0, shape[0] - 1)
            stop = made.size(start, shape[0])
            attrs = {"axis": 0, "start": start, "stop": stop, "step": made.size(1, 2)}
        case _:
            attrs = {"shape": made.choice((shape, shape[::-1], (emit.tensor(x).numel,)))}
    made.node(word, x, **attrs)


def _add(made: Draw, row: Row) -> None:
    graph = made.graph
    values = [v for v in graph.values if graph.overwritten_by(v) is None]
    late = [v for v in values if graph.producer(v) is not None]
    tensors: list[Any] = []
    for p in row.tensors:
        if p.optional and made.coin():
            tensors.append(None)
        elif p.kind is Kind.LIST:
            tensors.append((made.choice(values),))
        else:
            tensors.append(made.choice(late if late and made.coin() else values))
    keywords: dict[str, Any] = {p.name: 1 for p in row.scalars}
    for p in row.attrs:
        if p.required or made.random.random() < 0.2:
            keywords[p.name] = _attribute(made, p)
    graph.add(row.name, *tensors, **keywords)


def _attribute(made: Draw, p: Param) -> Any:
    match p.word:
        case "bool":
            return made.coin()
        case "enum":
            return made.choice(p.values)
        case "float":
            return made.choice((0.0, 0.5, 1.0))
        case "ints":
            return tuple(made.size(1, 2) for _ in range(p.size))
        case "axes":
            return made.choice((None, (0,), (-1,), (1, 0)))
        case _:
            return made.choice((-1, 0, 1, 2))
