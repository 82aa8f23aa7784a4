"""Whether a graph is one: every rule of `errors.Rule`, each with a message that names op and value.

Nothing is taken from how the graph was made: types are inferred anew, names and order looked at."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir import view
from aicf.compiler.ir.errors import IRError, Rule
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.infer import infer, symbols
from aicf.compiler.ir.memory import Memory
from aicf.compiler.ir.node import NAME, Node, Value, values_of


def verify(graph: Graph) -> None:
    """Raises IRError with the first rule that does not hold."""
    _Verifier(graph).run()


class _Verifier:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.defined: dict[Value, str] = {}
        self.names: set[str] = set()
        self.memory = Memory(graph.table)
        self.node: Node | None = None  # the one that is looked at

    def run(self) -> None:
        for value in self.graph.entries:
            self.define(value)
        for node in self.graph.nodes:
            self.node = node
            self.check(node)
        self.node = None
        for value in self.graph.outputs:
            self.check_read("return", value)

    def check(self, node: Node) -> None:
        if node.op not in view.VIEWS and node.op not in self.graph.table:
            raise self.error(Rule.UNKNOWN_OP, f"{self.graph.table.package} has no such op")
        for value in node.reads:
            self.check_read(node.op, value)
        self.check_operands(node)
        self.check_types(node)
        for x in (*node.inputs, *node.attrs.values()):
            self.check_symbols(x, None)
        if not node.is_view:
            row = self.graph.table[node.op]
            self.placed(self.memory.check_writes, row, node.inputs, self.graph.constants)
        for value in node.results:
            self.define(value)
        self.memory.note(node)

    # ---- values -------------------------------------------------------------------------------

    def define(self, value: Value) -> None:
        if value in self.defined:
            raise self.error(Rule.ONCE, "it is defined a second time", value)
        if value.name in self.names:
            raise self.error(Rule.ONCE, "another value has its name", value)
        if not NAME.fullmatch(value.name):
            raise self.error(Rule.NAME, f"{value.name!r} is no name")
        self.defined[value] = value.name
        self.names.add(value.name)
        self.check_symbols(value.type, value)

    def check_read(self, op: str, value: Value) -> None:
        if value in self.defined:
            self.placed(self.memory.check_read, op, value)
            return
        later = next((n for n in self.graph.nodes if any(v is value for v in n.results)), None)
        if later is None:
            raise self.error(Rule.DEFINED, "nothing defines it", value, op)
        if self.node is not None and self.depends(later, self.node):
            raise self.error(Rule.CYCLE, f"{later.op} computes it from what {op} gives", value, op)
        raise self.error(Rule.ORDER, f"{later.op} defines it later", value, op)

    def depends(self, node: Node, on: Node) -> bool:
        """Whether a node reads, through others, what another gives."""
        producer = {v: n for n in self.graph.nodes for v in n.results}
        seen: set[Node] = set()
        todo = [node]
        while todo:
            here = todo.pop()
            if here is on:
                return True
            if here not in seen:
                seen.add(here)
                todo += [producer[v] for v in here.reads if v in producer]
        return False

    def check_symbols(self, x: Any, value: Value | None) -> None:
        parts = symbols(x) if value is None else value.type.symbols
        for symbol in parts:
            if self.graph.symbols.get(symbol.name) != symbol:
                message = f"symbol {symbol.name} in {symbol.range} is not declared"
                raise self.error(Rule.SYMBOL, message, value)

    # ---- a node -------------------------------------------------------------------------------

    def check_operands(self, node: Node) -> None:
        count = 1 if node.is_view else len(self.graph.table[node.op].operands)
        if len(node.inputs) != count:
            raise self.error(Rule.OPERAND, f"{len(node.inputs)} operands, of {count}")

    def check_types(self, node: Node) -> None:
        want = [v is not None for v in node.outs]
        operands = [_typed(x) for x in node.inputs]
        found = self.placed(infer, self.graph.table, node.op, operands, node.attrs, want)
        given = {name: repr(value) for name, value in node.attrs.items()}
        for name, value in found.attrs.items():
            if given.get(name) != repr(value):
                message = f"{name} must stand as {value!r}, not {given.get(name, 'left out')}"
                raise self.error(Rule.ATTRIBUTE, message)
        if [t is not None for t in found.outs] != want:
            raise self.error(Rule.OUTS, f"{sum(want)} outs, of {len(found.outs)}")
        for value, type in zip(node.outs, found.outs, strict=True):
            if value is not None and value.type != type:
                raise self.error(Rule.TYPE, f"it is {type} and not {value.type}", value)
        self.check_states(node, found.states)

    def check_states(self, node: Node, found: Any) -> None:
        if set(node.states) != set(found):
            wrong = sorted(set(node.states) ^ set(found))[0]
            does = "has none" if wrong in found else "is not updated"
            raise self.error(Rule.STATES, f"{wrong} {does}")
        for name, types in found.items():
            given = list(values_of(node.states[name]))
            types = types if isinstance(types, tuple) else (types,)
            if len(given) != len(types):
                raise self.error(Rule.STATES, f"{name} has {len(given)}, of {len(types)}")
            for value, type in zip(given, types, strict=True):
                if value.type != type:
                    raise self.error(Rule.TYPE, f"it is {type} and not {value.type}", value)

    # ---- errors -------------------------------------------------------------------------------

    def placed(self, check: Any, *arguments: Any) -> Any:
        """What `check` gives; its error with this node's place in source."""
        try:
            return check(*arguments)
        except IRError as error:
            where = self.node.loc if self.node else None
            raise IRError(error.rule, error.message, error.op, error.value, where) from None

    def error(
        self, rule: Rule, message: str, value: Value | None = None, op: str | None = None
    ) -> IRError:
        node = self.node
        name = op or (node.op if node else None)
        return IRError(
            rule, message, name, value.name if value else None, node.loc if node else None
        )


def _typed(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(_typed(part) for part in x)
    return x.type if isinstance(x, Value) else x
