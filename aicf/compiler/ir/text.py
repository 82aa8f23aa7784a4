"""A graph as text, and back.

    graph mlp {
      symbol N: 1..4096
      input %x: f32[N, 784]
      param %w: f32[784, 10]
      constant %zero: f32[] = 0.0
      %gemm: f32[N, 10] = gemm(%x, %w) @ "mlp.py":12 forward
      %cross_entropy: f32[], %lse: f32[N], _ = cross_entropy(%gemm, %y)
      p -> [%w_1: f32[784, 10]] = sgd([%w], [%g], lr=%lr, momentum=0.9)
      return %cross_entropy, %w_1
    }

A line is a statement. Operands stand in the row's order, lists in brackets, `_` for what is absent;
scalars and attributes by name, those that are as their defaults are left out. `p -> %v` is the new
value of what was updated in place as `p`. Behind `@` is the place in source.
"""

from __future__ import annotations

import ast
import json
import math
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aicf import dim
from aicf.compiler.ir import types, view
from aicf.compiler.ir.errors import IRError, Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import NAME, Node, Value
from aicf.dim import Dim, Ratio, Symbol
from aicf.table import NO_DEFAULT, Param, Row, Table

Named = Callable[[Value], str]


class ParseError(ValueError):
    """A text that is no graph; says in which line."""


# ---- writing ------------------------------------------------------------------------------------


def write(graph: Graph) -> str:
    """What `parse` reads back to an equal graph."""
    return f"graph {graph.name} {{\n{_body(graph, graph.nodes, lambda v: v.name, False)}}}\n"


def canonical(graph: Graph, nodes: Sequence[Node], name: Named) -> str:
    """The text of these nodes with other names, all attributes and no places in source."""
    return _body(graph, nodes, name, True)


def line(graph: Graph, node: Node) -> str:
    """A node as it stands in the text of its graph."""
    return _node(graph, node, lambda v: v.name, False)


def statements(graph: Graph, nodes: Sequence[Node], name: Named) -> list[str]:
    """The lines of these nodes with other names and no places in source: what people compare."""
    return _statements(graph, nodes, name, False, False)


def _body(graph: Graph, nodes: Sequence[Node], name: Named, whole: bool) -> str:
    return "".join(f"  {s}\n" for s in _statements(graph, nodes, name, whole, not whole))


def _statements(
    graph: Graph, nodes: Sequence[Node], name: Named, whole: bool, placed: bool
) -> list[str]:
    lines = [f"symbol {s.name}: {s.range}" for s in sorted(graph.symbols.values(), key=str)]
    lines += [f"input {_typed(v, name)}" for v in graph.inputs]
    lines += [f"param {_typed(v, name)}" for v in graph.params]
    for v, fill in graph.constants.items():
        lines.append(f"constant {_typed(v, name)}" + ("" if fill is None else f" = {_plain(fill)}"))
    lines += [_node(graph, n, name, whole, placed) for n in nodes]
    lines += [f"return {', '.join(f'%{name(v)}' for v in graph.outputs)}"] if graph.outputs else []
    return lines


def _typed(value: Value, name: Named) -> str:
    return f"%{name(value)}: {value.type}"


def _node(graph: Graph, node: Node, name: Named, whole: bool, placed: bool | None = None) -> str:
    """`placed`: whether with its place in source; unless `whole` where that is not said."""
    results = ["_" if v is None else _typed(v, name) for v in node.outs]
    for param, state in node.states.items():
        if isinstance(state, tuple):
            results.append(f"{param} -> [{', '.join(_typed(v, name) for v in state)}]")
        else:
            results.append(f"{param} -> {_typed(state, name)}")
    row = None if node.is_view else graph.table[node.op]
    words = [*_operands(node, row, name), *_attributes(node, row, whole)]
    placed = not whole if placed is None else placed
    place = "" if not placed or node.loc is None else f" @ {_place(node.loc)}"
    return f"{', '.join(results)} = {node.op}({', '.join(words)}){place}"


def _operands(node: Node, row: Row | None, name: Named) -> Iterator[str]:
    tensors = node.inputs[: len(row.tensors)] if row else node.inputs
    given = len(tensors)
    while given and tensors[given - 1] is None:
        given -= 1
    for x in tensors[:given]:
        yield _operand(x, name)
    if row is not None:
        for p, x in zip(row.scalars, node.inputs[len(row.tensors) :], strict=True):
            yield f"{p.name}={_operand(x, name)}"


def _operand(x: Any, name: Named) -> str:
    if isinstance(x, Value):
        return f"%{name(x)}"
    if isinstance(x, tuple):
        return f"[{', '.join(_operand(part, name) for part in x)}]"
    return "_" if x is None else _plain(x)


def _attributes(node: Node, row: Row | None, whole: bool) -> Iterator[str]:
    defaults = {p.name: default_of(node, row, p) for p in row.attrs} if row else {}
    for attr, value in node.attrs.items():
        if whole or attr not in defaults or repr(defaults[attr]) != repr(value):
            yield f"{attr}={_plain(value)}"


def default_of(node: Node, row: Row, p: Param) -> Any:
    """As it stands in a node: an axis counts from 0. No default,
    where the operand has no such axis."""
    if p.default is NO_DEFAULT or p.default is None:
        return p.default
    try:
        return row.canonical(p.name, p.default, rank_of(node, row, p.of) if p.of else None)
    except ValueError:
        return NO_DEFAULT


def rank_of(node: Node, row: Row, param: str) -> int | None:
    """The rank of the operand that axes count in."""
    x = node.inputs[row.operands.index(row.param(param))]
    first = (x[0] if x else None) if isinstance(x, tuple) else x
    return first.type.rank if isinstance(first, Value) else None  # type: ignore[union-attr]


def _plain(value: Any) -> str:
    """A literal: what `ast` reads, sizes as they are written in types."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, str):
        return json.dumps(value)
    return str(value) if isinstance(value, Dim | Ratio) else repr(value)


def _place(loc: Location) -> str:
    return f"{json.dumps(loc.file)}:{loc.line}" + (f" {loc.function}" if loc.function else "")


# ---- reading ------------------------------------------------------------------------------------

_NAME = f"(?a:{NAME.pattern})"
_PLACE = re.compile(r'\s@\s("(?:[^"\\]|\\.)*"):(\d+)(?: (\S+))?$')
_CALL = re.compile(rf"({_NAME})\((.*)\)")
_STRING_OR_END = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\](){},]')


def parse(source: str, table: Table) -> Graph:
    """The graph that a text says. Raises ParseError where it is no text of a graph, IRError where
    it says none."""
    return _Parser(source, table).graph()


class _Parser:
    def __init__(self, source: str, table: Table) -> None:
        self.lines = [(i, line.strip()) for i, line in enumerate(source.splitlines(), 1)]
        self.lines = [(i, line) for i, line in self.lines if line]
        self.made = Graph(table)
        self.values: dict[str, Value] = {}

    def graph(self) -> Graph:
        head = re.fullmatch(rf"graph ({_NAME}) {{", self.lines[0][1]) if self.lines else None
        if head is None or self.lines[-1][1] != "}":
            raise ParseError("line 1: a graph is written as `graph NAME {`, statements, `}`")
        self.made.name = head[1]
        for number, line in self.lines[1:-1]:
            try:
                self.statement(line)
            except IRError:
                raise
            except ValueError as error:
                shown = line if len(line) <= 400 else f"{line[:200]} ... {line[-200:]}"
                raise ParseError(f"line {number}: {error}: {shown}") from None
        return self.made

    def statement(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "symbol":
                self.symbol(rest)
            case "input" | "param":
                name, type = self.typed(rest)
                self.enter(getattr(self.made, word)(name, type), name)
            case "constant":
                self.constant(rest)
            case "return":
                self.made.output(*(self.value(v) for v in split(rest)))
            case _:
                self.node(line)

    def symbol(self, text: str) -> None:
        found = re.fullmatch(r"(\w+): (\d+)\.\.(\d*)", text)
        if found is None:
            raise ValueError("a symbol is written as `symbol N: 1..4096`")
        self.made.symbol(found[1], int(found[2]), int(found[3]) if found[3] else None)

    def constant(self, text: str) -> None:
        written, _, fill = text.partition(" = ")
        name, type = self.typed(written)
        self.enter(self.made.constant(name, type, self.literal(fill) if fill else None), name)

    def node(self, line: str) -> None:
        place = _PLACE.search(line)
        written, equals, call = line[: place.start() if place else None].partition(" = ")
        found = _CALL.fullmatch(call)
        if not equals or found is None:
            raise ValueError("no statement")
        results = list(self.results(written))
        given = [r for r in results if r is not None]
        for name, _ in given:
            if name in self.values:
                raise ValueError(f"%{name} is defined before")
        positional, keywords = self.arguments(found[2])
        node = self.made.add(
            found[1], *positional, want=self.want(found[1], results), loc=_located(place),
            names=[name for name, _ in given], **keywords,
        )  # fmt: skip
        self.check_results(node, given)

    def check_results(self, node: Node, given: list[tuple[str, types.Type]]) -> None:
        made = list(node.results)
        if len(made) != len(given):
            raise ValueError(f"{len(given)} results are named, of {len(made)}")
        for value, (name, type) in zip(made, given, strict=True):
            if value.type != type:
                raise ValueError(f"%{name} is {value.type}")
            self.enter(value, name)

    def results(self, text: str) -> Iterator[tuple[str, types.Type] | None]:
        """Names and types, None for an out that is not computed; states follow outs."""
        for part in split(text):
            _, _, state = part.rpartition(" -> ")
            inside = state[1:-1] if state.startswith("[") else state
            for word in split(inside):
                yield None if word == "_" else self.typed(word)

    def want(self, op: str, results: list[Any]) -> list[bool] | None:
        if op in view.VIEWS or op not in self.made.table:
            return None
        return [r is not None for r in results[: len(self.made.table[op].outs)]]

    def arguments(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for part in split(text):
            name, equals, value = part.partition("=")
            if equals and name.isidentifier():
                keywords[name] = self.operand(value)
            else:
                positional.append(self.operand(part))
        return positional, keywords

    def operand(self, text: str) -> Any:
        if text == "_":
            return None
        if text.startswith("["):
            return tuple(self.value(v) for v in split(text[1:-1]))
        return self.value(text) if text.startswith("%") else self.literal(text)

    def literal(self, text: str) -> Any:
        try:
            return _literal(ast.parse(text.strip(), mode="eval").body, self.made.symbols)
        except (SyntaxError, MemoryError, RecursionError):  # the parser's depth is bounded
            raise ValueError(f"{reprlib.repr(text)} is no value") from None

    def typed(self, text: str) -> tuple[str, types.Type]:
        found = re.fullmatch(rf"%({_NAME}): (.+)", text)
        if found is None:
            raise ValueError("a value is written as `%x: f32[N, 784]`")
        return found[1], types.parse(found[2], self.made.symbols)

    def enter(self, value: Value, name: str) -> None:
        if name in self.values or value.name != name:
            raise ValueError(f"%{name} is defined before")
        self.values[name] = value

    def value(self, text: str) -> Value:
        try:
            return self.values[text.removeprefix("%")]
        except KeyError:
            raise ValueError(f"nothing defines {text} before") from None


def split(text: str) -> list[str]:
    """The parts between commas that no bracket or string holds."""
    found, depth, start = [], 0, 0
    for token in _STRING_OR_END.finditer(text):
        mark = token.group()
        depth += (mark in "[({") - (mark in "])}")
        if mark == "," and depth == 0:
            found.append(text[start : token.start()].strip())
            start = token.end()
    rest = text[start:].strip()
    return [*found, rest] if rest else found


def _located(place: re.Match[str] | None) -> Location | None:
    return place and Location(json.loads(place[1]), int(place[2]), place[3] or "")


def _literal(node: ast.expr, known: Mapping[str, Symbol]) -> Any:
    match node:
        case ast.Tuple():
            return tuple(_literal(part, known) for part in node.elts)
        case ast.Constant():
            return node.value
        case ast.Name(id="inf" | "nan"):
            return math.inf if node.id == "inf" else math.nan
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return -math.inf
    return dim.read(node, known)
