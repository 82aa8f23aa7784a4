"""Graphs from torch: what `torch.export` exports, and modules and graphs of `torch.fx` through it.

An op of ATen is a call of the row whose `aten` it matches (`pattern.py`), or a composition of such
(`aten_views.py`, `aten_compute.py`). Ops that are neither are decomposed by torch's own tables;
what is left then is refused, all of it at once, each with its node and its line of source. This
module imports torch.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from aicf_rt.torch_kernels import DTYPES, NAMES

from aicf import dim
from aicf.compiler.ir import aten_compute, aten_recurrent, aten_views
from aicf.compiler.ir.emit import Emitter, tensor
from aicf.compiler.ir.errors import IRError, Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.pattern import Mismatch, Number, Pattern
from aicf.compiler.ir.trace import TraceError
from aicf.compiler.ir.types import TensorType
from aicf.dim import Dim
from aicf.table import FLOATS, Kind, Table

WORDS: Final = {**aten_views.WORDS, **aten_compute.WORDS, **aten_recurrent.WORDS}


@dataclass(frozen=True, slots=True)
class Missing:
    """A node that no row matches."""

    node: str
    op: str
    place: Location | None
    reason: str

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.node} is {self.op}: {self.reason}"


class Unmatched(ImportError):
    """Ops that no row of the table matches, all of a program."""

    def __init__(self, missing: Sequence[Missing], table: Table) -> None:
        self.missing = tuple(missing)
        lines = "".join(f"\n  {m}" for m in missing)
        count = f"{len(missing)} node{'s' if len(missing) > 1 else ''}"
        super().__init__(f"no row of {table.package} is what {count} of the program ask{lines}")


@dataclass(frozen=True, slots=True)
class Imported:
    """A graph, and by name what its params and constants were in torch."""

    graph: Graph
    data: Mapping[str, torch.Tensor]


def from_export(
    program: torch.export.ExportedProgram, *, names: Sequence[str] = (), table: Table | None = None
) -> Imported:
    """The graph of an exported program. Parameters are its params, buffers its constants; `names`
    are those of its symbolic sizes in the order in which inputs have them. Raises Unmatched."""
    table = table or Table.default()
    return _Import(lowered(program, table), table, names).imported()


def from_fx(
    module: torch.nn.Module, *inputs: Any, dynamic_shapes: Any = None, names: Sequence[str] = (),
    table: Table | None = None,
) -> Imported:  # fmt: skip
    """The graph of a module, or of a torch.fx.GraphModule, called with such inputs. Raises
    TraceError where the module branches on values."""
    try:
        program = torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        if "data-dependent" in str(error).lower():
            message = f"branching on values would keep one answer for all runs: {error}"
            raise TraceError(message) from error
        raise
    return from_export(program, names=names, table=table)


# ---- lowering ---------------------------------------------------------------------------------


def lowered(
    program: torch.export.ExportedProgram, table: Table
) -> torch.export.ExportedProgram:  # fmt: skip
    """Without ops that update in place, and with those decomposed that are not known by name."""
    if any(t._schema.is_mutable for t in _targets(program)):
        program = program.run_decompositions({})
    known = torch.export.default_decompositions()
    tried: set[Any] = set()
    while True:
        unknown = {t for t in _targets(program) if not is_known(_name(t), table)}
        unknown |= set(_unfit(program, table))
        table_of = {t: known[t] for t in unknown - tried if t in known}
        if not table_of:
            return program
        tried |= set(table_of)
        program = program.run_decompositions(table_of)


def _unfit(program: torch.export.ExportedProgram, table: Table) -> Iterator[Any]:
    """Recurrent networks that are no calls of rows."""
    for node in program.graph.nodes:
        name = _name(node.target)
        if name in aten_recurrent.WORDS and not aten_recurrent.fits(name, node.args, table):
            yield node.target


def is_known(name: str, table: Table) -> bool:
    """Whether an op of ATen is a row, or said by rows, as far as its name tells."""
    return name in table.by_aten or name in WORDS


def _targets(program: torch.export.ExportedProgram) -> set[Any]:
    nodes = program.graph.nodes
    return {n.target for n in nodes if isinstance(n.target, torch._ops.OpOverload)}


def _name(target: Any) -> str:
    """ "add.Tensor"; of another namespace than ATen's with it."""
    return str(target).removeprefix("aten.")


# ---- nodes ------------------------------------------------------------------------------------


class _Skip(Exception):
    """A node reads what an unmatched one would give."""


_LOST = object()  # what an unmatched node gives


@dataclass
class _Import:
    """A program on its way to a graph. It is what `WORDS` are given."""

    program: torch.export.ExportedProgram
    table: Table
    names: Sequence[str]
    env: dict[str, Any] = field(default_factory=dict)  # by name of node: values, sizes, tuples
    data: dict[str, torch.Tensor] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    untold: set[str] = field(default_factory=set)  # nodes whose shape torch does not say rightly

    def __post_init__(self) -> None:
        self.graph = Graph(self.table, "exported")
        self.emit = Emitter(self.graph)
        self.symbols: dict[str, Dim] = {}
        self.node: Any = None

    def imported(self) -> Imported:
        self.enter_inputs()
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self.node, self.emit.loc = node, _place(node)
                self.enter(node)
        if self.missing:
            raise Unmatched(self.missing, self.table)
        self.leave()
        self.graph.prune()
        self.drop_unread()
        self.graph.verify()
        return Imported(self.graph, self.data)

    # ---- inputs and outputs -------------------------------------------------------------------

    def enter_inputs(self) -> None:
        kinds = torch.export.graph_signature.InputKind
        fakes = {n.name: n.meta.get("val") for n in self.program.graph.nodes}
        specs = self.program.graph_signature.input_specs
        for spec in sorted(specs, key=lambda s: s.kind is not kinds.USER_INPUT):
            name, fake = spec.arg.name, fakes[spec.arg.name]
            if not isinstance(fake, torch.Tensor):
                self.env[name] = fake
            elif spec.kind is kinds.USER_INPUT:
                self.env[name] = self.graph.input(name, self.type_of(fake))
            elif spec.kind is kinds.PARAMETER:
                self.env[name] = self.graph.param(_plain(spec.target), self.type_of(fake))
                self.data[self.env[name].name] = self.program.state_dict[spec.target].detach()
            else:
                self.env[name] = self.constant(_plain(spec.target), self.stored(spec.target))

    def stored(self, target: str) -> torch.Tensor:
        found = self.program.state_dict.get(target)
        found = self.program.constants[target] if found is None else found
        return found.detach()

    def constant(self, name: str, data: torch.Tensor) -> Value:
        value = self.graph.constant(name, self.type_of(data))
        self.data[value.name] = data
        return value

    def dtype(self, value: Value) -> torch.dtype:
        """A value's, in torch's words."""
        return DTYPES[value.type.dtype]

    def leave(self) -> None:
        kinds = torch.export.graph_signature.OutputKind
        for spec in self.program.graph_signature.output_specs:
            name = getattr(spec.arg, "name", None)
            if spec.kind is not kinds.USER_OUTPUT:
                reason = "an update of what is kept between runs, which inference has not"
                missing = Missing(str(name), f"{spec.kind.name} of {spec.target}", None, reason)
                raise Unmatched([missing], self.table)
            if name is not None:
                self.graph.output(self.own(self.env[name]))

    def own(self, value: Value) -> Value:
        """In no memory that a caller has given."""
        root = self.graph.buffer_of(value)
        return self.emit.copy(value) if self.graph.producer(root) is None else value

    def drop_unread(self) -> None:
        read = {v for n in self.graph.nodes for v in n.reads} | set(self.graph.outputs)
        for value in [v for v in self.graph.constants if v not in read]:
            del self.graph.constants[value]
            self.data.pop(value.name, None)

    def type_of(self, x: torch.Tensor) -> TensorType:
        shape, strides = tuple(map(self.size, x.shape)), tuple(map(self.size, x.stride()))
        return TensorType(NAMES[x.dtype], shape, strides, str(x.device))

    def size(self, n: Any) -> Any:
        """A symbolic size by the graph's own symbols."""
        if isinstance(n, int):
            return n
        for symbol in sorted(n.node.expr.free_symbols, key=str):
            if str(symbol) not in self.symbols:
                at = len(self.symbols)
                name = self.names[at] if at < len(self.names) else str(symbol)
                limits = self.program.range_constraints[symbol]
                high = int(limits.upper) if limits.upper < 2**62 else None
                self.symbols[str(symbol)] = self.graph.symbol(name, int(limits.lower), high)
        known = {
            old: self.graph.symbols[str(new)] for old, new in self.symbols.items()
        }  # fmt: skip
        return dim.parse(str(n.node.expr), known)

    # ---- one node -----------------------------------------------------------------------------

    def enter(self, node: Any) -> None:
        try:
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                raise Mismatch("a branch on values would keep one answer for all runs")
            args, kwargs = self.values(node.args), self.values(node.kwargs)
            self.env[node.name] = self.result(node, args, kwargs)
            if any(n.name in self.untold for n in node.all_input_nodes):
                self.untold.add(node.name)
            else:
                self.check(node, self.env[node.name])
        except _Skip:
            self.env[node.name] = _LOST
        except (Mismatch, IRError) as error:
            self.env[node.name] = _LOST
            missing = Missing(node.name, _name(node.target), self.emit.loc, str(error))
            self.missing.append(missing)

    def values(self, x: Any) -> Any:
        """Arguments with values for nodes."""
        if isinstance(x, torch.fx.Node):
            found = self.env[x.name]
            if found is _LOST:
                raise _Skip
            return found
        if isinstance(x, Mapping):
            return {k: self.values(v) for k, v in x.items()}
        return [self.values(v) for v in x] if isinstance(x, list | tuple) else x

    def result(self, node: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        target = node.target
        if target is operator.getitem:
            return args[0][args[1]]
        if isinstance(target, torch._ops.OpOverload):
            if not any(isinstance(x, Value | Dim) for x in _flat((args, kwargs))):
                return self.evaluated(node, args, kwargs)
            return self.call(_name(target), *args, **kwargs)
        if getattr(target, "__module__", "") in ("_operator", "operator"):
            return target(*args)
        raise Mismatch("it is no op of ATen")

    def evaluated(self, node: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Value:
        """What depends on nothing is computed now."""
        return self.constant(node.name, node.target(*args, **kwargs))

    def check(self, node: Any, found: Any) -> None:
        """Whether torch has the same shape and dtype."""
        fake = node.meta.get("val")
        if isinstance(found, Value) and isinstance(fake, torch.Tensor):
            wanted = TensorType(NAMES[fake.dtype], tuple(map(self.size, fake.shape)))
            ours = tensor(found)
            if (wanted.dtype, wanted.shape) == (ours.dtype, ours.shape):
                return
            if not self.is_last_state(node, wanted, ours):
                raise Mismatch(f"torch has {wanted}, and the graph {ours}")
            self.untold.add(node.name)

    def is_last_state(self, node: Any, wanted: TensorType, ours: TensorType) -> bool:
        """Whether it is that of a recurrent network of which torch says a shape that no run gives:
        its own decomposition, by which some versions find shapes on a device, has an axis more."""
        made = node.args[0] if node.target is operator.getitem and node.args[1] else None
        more = (*ours.shape[:1], 1, *ours.shape[1:])
        is_state = made is not None and _name(made.target) in aten_recurrent.WORDS
        return is_state and (wanted.dtype, wanted.shape) == (ours.dtype, more)

    # ---- calls of ATen, also by the words of `aten.py` ----------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """What an op of ATen gives: by a row, else by its word. Raises Mismatch."""
        if name in aten_views.SAME:
            return WORDS[name](self, *args, **kwargs)
        schema, reasons, found = _schema(name), [], []
        for row in self.table.by_aten.get(name, ()):
            try:
                found.append(Pattern.of(row).match(schema, args, kwargs))
            except Mismatch as error:
                reasons.append(str(error))
        for match in sorted(found, key=lambda m: m.numbers):
            try:
                return self.of_row(match, len(schema.returns))
            except IRError as error:
                reasons.append(str(error))
        if name in WORDS:
            return WORDS[name](self, *args, **kwargs)
        raise Mismatch("; ".join(reasons) or "no row is that in ATen's terms")

    def of_row(self, match: Any, returns: int) -> Any:
        row = match.row
        tensors = [v for x in match.operands.values() for v in _flat(x) if isinstance(v, Value)]
        dtype = self.promoted(tensors)
        operands = [self.operand(match.operands.get(p.name), p.kind, dtype) for p in row.operands]
        attrs = {k: NAMES[v] if k == "dtype" else v for k, v in match.attrs.items()}
        used = self.used(returns)
        want = [not o.optional or i in used for i, o in enumerate(row.outs)]
        node = self.emit.node(row.name, *operands, want=want, **attrs)
        return node.out if returns == 1 else [*node.outs[:returns]]

    def used(self, returns: int) -> set[int]:
        """Which of several results anybody reads."""
        if returns == 1:
            return {0}
        return {n.args[1] for n in self.node.users if n.target is operator.getitem}

    def promoted(self, tensors: Sequence[Value]) -> str | None:
        """The dtype that operands of several float dtypes are computed in; None of one alone."""
        found = {v.type.dtype for v in tensors if v.type.dtype in FLOATS}
        fake = self.node.meta.get("val")
        if len(found) < 2 or not isinstance(fake, torch.Tensor):
            return None
        return str(NAMES[fake.dtype])

    def operand(self, x: Any, kind: Kind, dtype: str | None) -> Any:
        """With numbers as constants, and floats in one dtype."""
        if isinstance(x, tuple):
            return tuple(self.operand(v, kind, dtype) for v in x)
        if isinstance(x, Number):
            fake = self.node.meta["val"]
            return self.emit.number(x.value, NAMES[fake.dtype], str(fake.device))
        if isinstance(x, Value) and dtype and kind is not Kind.SCALAR and x.type.dtype in FLOATS:
            return self.emit.cast(x, dtype)
        return x


def _schema(name: str) -> Any:
    op, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, op), overload)._schema


def _flat(x: Any) -> Any:
    if isinstance(x, list | tuple):
        for part in x:
            yield from _flat(part)
    elif isinstance(x, Mapping):
        yield from _flat(list(x.values()))
    else:
        yield x


def _plain(target: str) -> str:
    return re.sub(r"[^\w.]", "_", target)


_FILE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def _place(node: Any) -> Location | None:
    """The innermost line of source that is not torch's own; else the innermost."""
    found = _FILE.findall(node.meta.get("stack_trace") or "")
    own = [f for f in found if "/torch/" not in f[0] and not f[0].startswith("torch/")]
    if not found:
        return None
    file, line, function = (own or found)[-1]
    return Location(file, int(line), function)
