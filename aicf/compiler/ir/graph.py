"""A graph: what a run is given, nodes in the order of their needs, what it gives back.

Each value is defined once. A row that updates an operand in place gives back a new value, which
lies in the same memory: `buffer_of` tells whose. So what is read before and after is told apart by
data alone, and the order of nodes is only that of their needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from aicf import dim
from aicf.compiler.ir import types, view
from aicf.compiler.ir.errors import IRError, Location, Rule
from aicf.compiler.ir.infer import Inferred, infer
from aicf.compiler.ir.memory import Memory
from aicf.compiler.ir.node import NAME, Node, Operand, Value, values_of
from aicf.compiler.ir.types import Type
from aicf.dim import Dim, Symbol
from aicf.table import Kind, Row, Table

__all__ = ["Graph", "Node", "Operand", "Value", "values_of"]


@dataclass(eq=False, repr=False)
class Graph:
    """Nodes in an order in which each finds what it reads."""

    table: Table = field(default_factory=Table.default)
    name: str = "graph"
    symbols: dict[str, Symbol] = field(default_factory=dict)
    inputs: list[Value] = field(default_factory=list)  # given anew at each run
    params: list[Value] = field(default_factory=list)  # live on between runs; may be updated
    constants: dict[Value, bool | int | float | None] = field(default_factory=dict)
    """Never updated. A number fills the tensor; None: its data comes with the graph by name."""
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise IRError(Rule.NAME, f"{self.name!r} is no name of a graph")
        self._names: set[str] = {v.name for v in self.values}
        self._entries: set[Value] = set(self.entries)
        self._producer: dict[Value, Node] = {v: n for n in self.nodes for v in n.results}
        self._memory = Memory(self.table)
        for node in self.nodes:
            self._memory.note(node)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    # ---- making it ----------------------------------------------------------------------------

    def symbol(self, name: str, min: int = 1, max: int | None = None) -> Dim:
        """A size that is known at run time."""
        known = self.symbols.setdefault(name, Symbol(name, min, max))
        if known != Symbol(name, min, max):
            raise IRError(Rule.SYMBOL, f"symbol {name} is declared as {known.range} before")
        return dim.symbol(name, min, max)

    def input(self, name: str, type: Type | str) -> Value:
        """What a run is given."""
        self.inputs.append(self._entered(self._fresh(name), type))
        return self.inputs[-1]

    def param(self, name: str, type: Type | str) -> Value:
        """What lives on between runs; nodes may update it in place."""
        self.params.append(self._entered(self._fresh(name), type))
        return self.params[-1]

    def constant(
        self, name: str, type: Type | str, fill: bool | int | float | None = None
    ) -> Value:
        """What never changes: `fill` everywhere, or data that comes with the graph by name."""
        known = types.parse(type, self.symbols) if isinstance(type, str) else type
        try:
            number = None if fill is None else types.number(fill, known.dtype)
        except ValueError as error:
            raise IRError(Rule.TYPE, str(error), value=name) from None
        value = self._entered(name, known)
        self.constants[value] = number
        return value

    def _fresh(self, name: str) -> str:
        """A name by which data will come: no other stands for it."""
        if name in self._names:
            raise IRError(Rule.ONCE, "another value has its name", value=name)
        return name

    def _entered(self, name: str, type: Type | str) -> Value:
        found = types.parse(type, self.symbols) if isinstance(type, str) else type
        self._check_symbols(found.symbols, name)
        value = self._value(name, found)
        self._entries.add(value)
        return value

    def add(
        self, op: str, *inputs: Operand | Sequence[Value], want: Sequence[bool] | None = None,
        names: Sequence[str | None] | None = None, loc: Location | None = None, **keywords: Any,
    ) -> Node:  # fmt: skip
        """A node at the end. Tensors come by position or name, scalars and attributes by name;
        `want` says which outs, `names` how results are called. Raises IRError."""
        try:
            operands, attrs = self._sorted(op, inputs, keywords)
            for value in values_of(operands):
                self._check_read(op, value)
            inferred = infer(self.table, op, _typed(operands), attrs, want)
            self._check_symbols(_symbols_of(operands, inferred.attrs), None)
            if op in self.table:
                self._memory.check_writes(self.table[op], operands, self.constants)
        except IRError as error:
            raise error if error.where or not loc else _placed(error, loc) from None
        node = self._node(op, operands, inferred, names, loc)
        self.nodes.append(node)
        self._producer.update((v, node) for v in node.results)
        self._memory.note(node)
        return node

    def output(self, *values: Value) -> None:
        """What a run gives back."""
        for value in values:
            self._check_read("return", value)
        self.outputs += values

    def _sorted(
        self, op: str, inputs: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[tuple[Operand, ...], dict[str, Any]]:
        """Operands in the row's order, and attributes."""
        inputs = [tuple(x) if isinstance(x, list) else x for x in inputs]
        if op in view.VIEWS or op not in self.table:
            return tuple(inputs), dict(keywords)
        row, attrs = self.table[op], dict(keywords)
        if len(inputs) > len(row.operands):
            raise IRError(Rule.OPERAND, f"{len(inputs)} operands, of {len(row.operands)}", op)
        operands = [*inputs, *(None for _ in range(len(row.operands) - len(inputs)))]
        for i, p in enumerate(row.operands):
            if p.name in attrs:
                if i < len(inputs) and inputs[i] is not None:
                    raise IRError(Rule.OPERAND, f"{p.name} is given twice", op)
                given = attrs.pop(p.name)
                operands[i] = tuple(given) if isinstance(given, list) else given
            if operands[i] is None and p.kind is Kind.SCALAR and not p.required:
                operands[i] = p.default
        return tuple(operands), attrs

    def _node(
        self, op: str, operands: tuple[Operand, ...], inferred: Inferred,
        names: Sequence[str | None] | None, loc: Location | None,
    ) -> Node:  # fmt: skip
        given = iter(names or ())
        row = None if op in view.VIEWS else self.table[op]
        outs = tuple(
            None if t is None else self._value(next(given, None) or self._named(op, row, i), t)
            for i, t in enumerate(inferred.outs)
        )
        states: dict[str, Value | tuple[Value, ...]] = {}
        for p in row.inouts if row else ():
            operand = operands[row.operands.index(p)] if row else None
            made = tuple(
                self._value(next(given, None) or v.name, v.type) for v in values_of(operand)
            )
            if operand is not None:
                states[p.name] = made if p.kind is Kind.LIST else made[0]
        return Node(op, operands, MappingProxyType(dict(inferred.attrs)), outs, states, loc)

    @staticmethod
    def _named(op: str, row: Row | None, out: int) -> str:
        return op.rpartition(".")[2] if out == 0 or row is None else row.outs[out].name

    def _value(self, name: str, type: Type) -> Value:
        """A new value; a number is put behind a name that is taken."""
        if not NAME.fullmatch(name):
            raise IRError(Rule.NAME, f"{name!r} is no name")
        unique, count = name, 0
        while unique in self._names:
            count += 1
            unique = f"{name}_{count}"
        self._names.add(unique)
        return Value(unique, type)

    # ---- asking it ----------------------------------------------------------------------------

    @property
    def entries(self) -> Iterator[Value]:
        """Inputs, params and constants."""
        yield from self.inputs
        yield from self.params
        yield from self.constants

    @property
    def values(self) -> Iterator[Value]:
        """All, in the order of their definition."""
        yield from self.entries
        for node in self.nodes:
            yield from node.results

    def value(self, name: str) -> Value:
        """By name."""
        for value in self.values:
            if value.name == name:
                return value
        raise IRError(Rule.DEFINED, "there is no such value", value=name)

    def producer(self, value: Value) -> Node | None:
        """The node that gives it; None of an input, a param, a constant."""
        return self._producer.get(value)

    def users(self, value: Value) -> list[Node]:
        """The nodes that read it, in order."""
        return [node for node in self.nodes if any(v is value for v in node.reads)]

    def buffer_of(self, value: Value) -> Value:
        """The value whose memory it lies in: itself, but of a view and of what is updated in
        place."""
        return self._memory.buffer_of(value)

    def overwritten_by(self, value: Value) -> Node | None:
        """The node that updated the memory of a value in place, after which it cannot be read."""
        return self._memory.writer_of(value)

    def state_of(self, entry: Value) -> Value:
        """The last value in the memory of an input or param that shows all of it."""
        return self._memory.state_of(entry)

    # ---- rules --------------------------------------------------------------------------------

    def _check_read(self, op: str, value: Value) -> None:
        if value not in self._producer and value not in self._entries:
            raise IRError(Rule.DEFINED, "it is no value of this graph", op, value.name)
        self._memory.check_read(op, value)

    def _check_symbols(self, used: Iterator[Symbol], value: str | None) -> None:
        for symbol in used:
            if self.symbols.get(symbol.name) != symbol:
                message = f"symbol {symbol.name} in {symbol.range} is not declared"
                raise IRError(Rule.SYMBOL, message, value=value)

    # ---- changing it --------------------------------------------------------------------------

    def clone(self) -> Graph:
        """The same values and nodes in a graph of its own."""
        return Graph(
            self.table, self.name, dict(self.symbols), list(self.inputs), list(self.params),
            dict(self.constants), list(self.nodes), list(self.outputs),
        )  # fmt: skip

    def begun(self) -> tuple[Graph, dict[Value, Value]]:
        """Another graph with entries of its own that are named and typed alike, and no nodes yet;
        and which of its entries stands for which."""
        new = Graph(self.table, self.name, dict(self.symbols))
        entries = {v: new.input(v.name, v.type) for v in self.inputs}
        entries |= {v: new.param(v.name, v.type) for v in self.params}
        entries |= {v: new.constant(v.name, v.type, x) for v, x in self.constants.items()}
        return new, entries

    def emptied(self) -> Graph:
        """The same entries in a graph of its own, to which nodes of this one are appended and
        others added; what is added takes none of this one's names."""
        found = Graph(
            self.table, self.name, dict(self.symbols), list(self.inputs), list(self.params),
            dict(self.constants),
        )  # fmt: skip
        found._names |= self._names
        return found

    def append(self, node: Node) -> None:
        """A node that was made before, with its values, at the end. `verify` checks it."""
        self.nodes.append(node)
        self._producer.update((v, node) for v in node.results)
        self._memory.note(node)

    def rename(self, node: Node, names: Mapping[Value, str]) -> Node:
        """The last node with other names of some results, which are nobody's."""

        def put(x: Any) -> Any:
            if isinstance(x, tuple):
                return tuple(put(part) for part in x)
            return Value(names[x], x.type) if x in names else x

        states = {name: put(state) for name, state in node.states.items()}
        made = dataclasses.replace(node, outs=put(node.outs), states=states)
        self._names -= {v.name for v in names}
        self._names.update(names.values())
        self.nodes.pop()
        self.append(made)
        return made

    def replace(self, value: Value, new: Value) -> None:
        """`new` is read wherever `value` was."""
        if value.type != new.type:
            raise IRError(Rule.TYPE, f"{new!r} cannot stand for {value!r}", value=new.name)

        others = {value: new}
        self.nodes = [n.reading(others) for n in self.nodes]
        self.outputs = [others.get(v, v) for v in self.outputs]
        self.__post_init__()

    def widen(self, node: Node, outs: Sequence[int]) -> Node:
        """The node with more of its optional outs, in its place."""
        row = self.table[node.op]
        want = [v is not None or i in outs for i, v in enumerate(node.outs)]
        inferred = infer(self.table, node.op, _typed(node.inputs), node.attrs, want)
        made = tuple(
            self._value(row.outs[i].name, type) if v is None and type is not None else v
            for i, (v, type) in enumerate(zip(node.outs, inferred.outs, strict=True))
        )
        wider = dataclasses.replace(node, outs=made)
        self.nodes[self.nodes.index(node)] = wider
        self._producer.update((v, wider) for v in wider.results)
        return wider

    def prune(self) -> None:
        """Takes out nodes whose results nobody needs; what updates params or inputs is needed."""
        needed = set(self.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            roots = {self.buffer_of(v) for s in node.states.values() for v in values_of(s)}
            if any(v in needed for v in node.results) or roots & set(self.entries):
                kept.append(node)
                needed.update(node.reads)
        self.nodes = kept[::-1]
        self.__post_init__()

    def bind(self, values: Mapping[str, int]) -> Graph:
        """With these values for symbols; every node is inferred anew. Raises IRError where the
        graph does not hold for them."""
        from aicf.compiler.ir.bind import bind

        return bind(self, values)

    def place(self, device: str) -> Graph:
        """With all tensors on one device. Raises IRError where the graph does not hold there."""
        from aicf.compiler.ir.bind import place

        return place(self, device)

    # ---- text, key, rules: in files of their own ----------------------------------------------

    def text(self) -> str:
        """What `Graph.parse` reads."""
        from aicf.compiler.ir import text

        return text.write(self)

    @staticmethod
    def parse(source: str, table: Table | None = None) -> Graph:
        """The graph that a text says. Raises ParseError, IRError."""
        from aicf.compiler.ir import text

        return text.parse(source, table or Table.default())

    def key(self) -> str:
        """The same for graphs that differ in names, places in source and the order of independent
        nodes alone."""
        from aicf.compiler.ir.key import key

        return key(self)

    def verify(self) -> None:
        """Raises IRError with the first rule that does not hold."""
        from aicf.compiler.ir.verify import verify

        verify(self)

    def __eq__(self, other: object) -> bool:
        """The same entries, nodes and outputs in the same order, by the same names; places in
        source do not count."""
        from aicf.compiler.ir.key import same

        return isinstance(other, Graph) and same(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self.text()


def _typed(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(_typed(part) for part in operand)
    return operand.type if isinstance(operand, Value) else operand


def _symbols_of(operands: tuple[Operand, ...], attrs: Mapping[str, Any]) -> Iterator[Symbol]:
    for x in (*operands, *attrs.values()):
        for part in x if isinstance(x, tuple) else (x,):
            yield from dim.symbols(part)


def _placed(error: IRError, loc: Location) -> IRError:
    return IRError(error.rule, error.message, error.op, error.value, loc)
