"""What a page says of an executable, as plain values: nothing of it changes any more."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aicf.compiler.executable import Executable
from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of
from aicf.compiler.ir.types import TensorType
from aicf.compiler.kernels.selector import Choice
from aicf.compiler.runtime.executor import OpTime


@dataclass(frozen=True, slots=True)
class Place:
    """A line of source, with what stands there."""

    file: str
    line: int
    function: str
    text: str

    @property
    def short(self) -> str:
        return f"{self.file.replace(chr(92), '/').rpartition('/')[2]}:{self.line}"

    @property
    def full(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Op:
    """A node of the graph, at its place in the order; `reads` are numbers of ops and names of
    inputs with the value that is read, `params` what it reads of params and constants."""

    number: int
    op: str
    text: str
    types: tuple[str, ...]
    reads: tuple[tuple[int | str, str], ...]
    params: tuple[str, ...]
    updates: tuple[str, ...]
    is_view: bool
    place: Place | None
    kernel: str = ""
    seconds: float | None = None
    choice: int | None = None  # which of the choices


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that a call may have run."""

    kernel: str
    legal: bool
    chosen: bool
    reason: str
    us: float | None  # measured, or by the score


@dataclass(frozen=True, slots=True)
class Chosen:
    """A call, and how its kernel was found."""

    call: str
    op: str
    kernel: str
    how: str
    why: str
    candidates: tuple[Candidate, ...]
    ops: tuple[int, ...]  # who makes it


@dataclass(frozen=True, slots=True)
class Said:
    """What a pass did, or why not, with its lines of source."""

    rule: str
    reason: str
    detail: str
    lines: tuple[str, ...]
    by: tuple[str, ...]
    place: Place | None
    at: Place | None


@dataclass(frozen=True, slots=True)
class Passed:
    """A pass, what it changed and what came of it."""

    name: str
    doc: str
    seconds: float
    before: int
    after: int
    diff: tuple[tuple[str, str], ...]
    fired: tuple[Said, ...]
    refused: tuple[Said, ...]
    verdict: Mapping[str, Any] | None
    failed: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Rect:
    """A buffer of the arena: where it lies and when it lives."""

    name: str
    lower: int
    upper: int
    offset: int
    size: int
    kind: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Arena:
    rects: tuple[Rect, ...]
    peak: int
    bound: int
    bound_at: int
    by: str
    unshared: int
    optimal: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Facts:
    """All of one executable. `timed` says of what the times of ops are."""

    name: str
    backend: str
    device: str
    mode: str
    sizes: tuple[tuple[str, int], ...]
    symbols: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    params: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[int | str, str], ...]
    source_ops: int
    source_text: str
    text: str
    ops: tuple[Op, ...]
    passes: tuple[Passed, ...]
    choices: tuple[Chosen, ...]
    arena: Arena | None
    seconds: tuple[tuple[str, float], ...]
    is_kept: bool
    timed: str
    notes: tuple[str, ...]

    @property
    def total(self) -> float | None:
        """Seconds of all ops one by one, where they were timed."""
        times = [o.seconds for o in self.ops if o.seconds is not None]
        return sum(times) if times else None


def facts_of(
    executable: Executable, times: Sequence[OpTime] | None, timed: str, notes: Sequence[str] = ()
) -> Facts:
    graph = executable.bound or executable.graph
    choices, chosen_by = _choices(executable, graph)
    made = executable.made
    return Facts(
        name=graph.name,
        backend=executable.backend.name,
        device=str(executable.backend.info.name),
        mode=executable.mode,
        sizes=tuple(dict(_sizes(executable, graph)).items()),
        symbols=tuple(f"{s.name}: {s.range}" for s in executable.graph.symbols.values()),
        inputs=_named(graph.inputs),
        params=_named(graph.params),
        constants=_named(graph.constants),
        outputs=tuple((_origin(graph, v), v.name) for v in graph.outputs),
        source_ops=len(made.source.nodes),
        source_text=made.source.text(),
        text=graph.text(),
        ops=tuple(_ops(graph, times, choices, chosen_by)),
        passes=tuple(_passed(r) for r in executable.records),
        choices=tuple(choices),
        arena=_arena(executable.plan, executable.over),
        seconds=tuple(made.seconds.items()),
        is_kept=made.is_kept,
        timed=timed,
        notes=tuple(notes),
    )


# ---- the graph -----------------------------------------------------------------------------------


def _sizes(executable: Executable, graph: Graph) -> Iterator[tuple[str, int]]:
    """The values of symbols, as the inputs of the bound graph have them."""
    before = executable.graph.inputs + executable.graph.params
    for old, new in zip(before, graph.inputs + graph.params, strict=True):
        if isinstance(old.type, TensorType) and isinstance(new.type, TensorType):
            for size, value in zip(old.type.shape, new.type.shape, strict=True):
                if str(size) in executable.graph.symbols and isinstance(value, int):
                    yield str(size), value


def _named(values: Any) -> tuple[tuple[str, str], ...]:
    return tuple((v.name, str(v.type)) for v in values)


def _origin(graph: Graph, value: Value) -> int | str:
    """The number of the node that gives a value, or the name of the entry that it is."""
    node = graph.producer(value)
    return value.name if node is None else graph.nodes.index(node)


def _ops(
    graph: Graph, times: Sequence[OpTime] | None, choices: Sequence[Chosen],
    chosen_by: Mapping[int, int],
) -> Iterator[Op]:  # fmt: skip
    lines = _statements(graph)
    numbers = {v: i for i, n in enumerate(graph.nodes) for v in n.results}
    inputs = set(graph.inputs)
    given = iter(times or ())
    for i, node in enumerate(graph.nodes):
        time = None if node.is_view else next(given, None)
        reads = dict.fromkeys(node.reads)
        choice = chosen_by.get(i)
        kernel = time.kernel if time else "" if choice is None else choices[choice].kernel
        yield Op(
            number=i,
            op=node.op,
            text=lines[i],
            types=tuple(str(v.type) for v in node.outs if v is not None),
            reads=tuple(
                (numbers.get(v, v.name), v.name) for v in reads if v in numbers or v in inputs
            ),
            params=tuple(v.name for v in reads if v not in numbers and v not in inputs),
            updates=tuple(graph.buffer_of(v).name for s in node.states.values() for v in _all(s)),
            is_view=node.is_view,
            place=place_of(node.loc),
            kernel="view" if node.is_view else kernel,
            seconds=time.seconds if time else None,
            choice=choice,
        )


def _all(state: Any) -> list[Value]:
    return list(values_of(state))


def _statements(graph: Graph) -> list[str]:
    """The lines of the nodes, without their places in source."""
    head = 1 + len(graph.symbols) + len(list(graph.entries))
    lines = graph.text().splitlines()[head : head + len(graph.nodes)]
    found = []
    for node, line in zip(graph.nodes, lines, strict=True):
        text = line.strip()
        found.append(text.rpartition(" @ ")[0] if node.loc is not None else text)
    return found


def place_of(loc: Location | None) -> Place | None:
    if loc is None:
        return None
    return Place(loc.file, loc.line, loc.function, _source(loc.file, loc.line).strip()[:200])


def _source(file: str, line: int) -> str:
    """Empty where there is none. A graph's text may name any file: what is no plain one may come
    to no end, and some names no file can have."""
    if os.path.exists(file) and not os.path.isfile(file):
        return ""
    try:
        return linecache.getline(file, line)
    except ValueError:
        return ""


def _at(text: str) -> Place | None:
    """Of "file:line"."""
    file, _, line = text.rpartition(":")
    return Place(file, int(line), "", "") if file and line.isdecimal() and len(line) < 10 else None


# ---- kernels -------------------------------------------------------------------------------------


def _choices(executable: Executable, graph: Graph) -> tuple[list[Chosen], dict[int, int]]:
    """Each call once, and which of them each op makes."""
    if any(True for v in graph.values for _ in v.type.symbols):
        return [], {}
    number = {id(n): i for i, n in enumerate(graph.nodes)}
    by_call: dict[str, tuple[Choice | None, Node, list[int]]] = {}
    from aicf.compiler.kernels.request import Request

    for node, choice in executable.choices_of(graph):
        call = str(Request.of_node(graph.table, node))
        by_call.setdefault(call, (choice, node, []))[2].append(number[id(node)])
    found: list[Chosen] = []
    chosen_by: dict[int, int] = {}
    for call, (choice, node, ops) in by_call.items():
        chosen_by.update((i, len(found)) for i in ops)
        found.append(_chosen(call, node, choice, tuple(ops)))
    return found, chosen_by


def _chosen(call: str, node: Node, choice: Choice | None, ops: tuple[int, ...]) -> Chosen:
    if choice is None:
        why = "no kernel of the row takes this call"
        return Chosen(call, node.op, "fallback", "fallback", why, (), ops)
    ranking = dict(choice.ranking)
    candidates = [
        Candidate(c.kernel, True, c.kernel == choice.kernel, c.reason, ranking.get(c.kernel))
        for c in choice.candidates
        if c.legal
    ]
    candidates.sort(key=lambda c: (not c.chosen, c.us is None, c.us or 0.0))
    kept_out: dict[str, list[str]] = {}
    for kernel, reason in choice.refused.items():
        kept_out.setdefault(reason, []).append(kernel)
    candidates += [Candidate(", ".join(k), False, False, r, None) for r, k in kept_out.items()]
    return Chosen(call, node.op, choice.kernel, choice.how, choice.why, tuple(candidates), ops)


# ---- passes --------------------------------------------------------------------------------------


def _passed(record: Any) -> Passed:
    verdict = None
    if record.verdict is not None:
        verdict = record.verdict.portable()
    return Passed(
        name=record.name,
        doc=record.doc,
        seconds=record.seconds,
        before=_count(record.before),
        after=_count(record.after),
        diff=tuple((line.mark, line.text) for line in record.lines()),
        fired=tuple(
            Said(f.rule, "", "", _bare(f.nodes), _bare(f.by), place_of(f.loc), _at(f.at))
            for f in record.fired
        ),
        refused=tuple(
            Said(r.rule, r.reason, r.detail, _bare((r.node,)), (), place_of(r.loc), _at(r.at))
            for r in record.refused
        ),
        verdict=verdict,
        failed=record.failed or "",
        changed=bool(record.changed),
    )


_ENTRIES = ("graph ", "symbol ", "input ", "param ", "constant ", "return ", "}")


def _count(text: str) -> int:
    """The ops of a graph's text."""
    return sum(not line.strip().startswith(_ENTRIES) for line in text.splitlines() if line.strip())


def _bare(lines: Sequence[str]) -> tuple[str, ...]:
    """Statements without their places in source, which are said beside them."""
    return tuple(line.strip().partition(' @ "')[0] for line in lines)


# ---- memory --------------------------------------------------------------------------------------


def _arena(plan: Any, over: Mapping[Any, Any]) -> Arena | None:
    """Values that are written over one another are one buffer, with the names of all."""
    if plan is None or not plan.buffers:
        return None
    names: dict[str, list[str]] = {}
    for value, first in over.items():
        names.setdefault(first.name, [first.name]).append(value.name)
    rects = [
        Rect(
            ", ".join(names.get(b.id, [b.id])),
            b.lower,
            b.upper,
            plan.offsets[b.id],
            b.size,
            b.kind,
            place_of(b.loc),
        )
        for b in plan.buffers
        if b.size
    ]
    return Arena(
        tuple(rects), plan.peak, plan.bound, plan.bound_at, plan.by, plan.unshared,
        bool(plan.optimal), plan.seconds,
    )  # fmt: skip
