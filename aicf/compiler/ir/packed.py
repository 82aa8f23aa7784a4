"""A graph as a line of JSON, and back without inferring anything: for what is kept on disk under a
checksum. People read `text.py`, whose `parse` checks what it is told.

Values are numbered in the order of their definition, types and texts of sizes stand once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from aicf import dim
from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import ScalarType, TensorType, Type
from aicf.dim import Dim, Ratio, Symbol
from aicf.table import Table


def pack(graph: Graph) -> str:
    """What `unpack` makes the same graph of."""
    return _Packing(graph).text()


def unpack(text: str, table: Table) -> Graph | None:
    """None of what `pack` did not give."""
    try:
        return _Unpacking(json.loads(text), table).graph()
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


class _Packing:
    def __init__(self, graph: Graph) -> None:
        self.source = graph
        self.place = {v: i for i, v in enumerate(graph.values)}
        self.types: dict[Type, int] = {}

    def text(self) -> str:
        g = self.source
        found = {
            "name": g.name,
            "symbols": [[s.name, s.min, s.max] for s in g.symbols.values()],
            "inputs": len(g.inputs), "params": len(g.params),
            "fills": list(g.constants.values()),
            "values": [[v.name, self.types.setdefault(v.type, len(self.types))] for v in g.values],
            "types": [_type(t) for t in self.types],
            "nodes": [self.node(n) for n in g.nodes],
            "outputs": [self.place[v] for v in g.outputs],
        }  # fmt: skip
        return json.dumps(found, separators=(",", ":"))

    def node(self, node: Node) -> list[Any]:
        loc = node.loc
        return [
            node.op,
            [self.operand(x) for x in node.inputs],
            {name: _plain(x) for name, x in node.attrs.items()},
            [None if v is None else self.place[v] for v in node.outs],
            {name: self.operand(x) for name, x in node.states.items()},
            loc and [loc.file, loc.line, loc.function],
        ]

    def operand(self, x: Any) -> Any:
        """A value is a number of its own; a number is in brackets of another kind."""
        if isinstance(x, Value):
            return self.place[x]
        if isinstance(x, tuple):
            return [self.operand(part) for part in x]
        return None if x is None else {"is": _plain(x)}


def _type(t: Type) -> list[Any]:
    if isinstance(t, ScalarType):
        return [t.dtype]
    strides = t.strides
    return [t.dtype, _sizes(t.shape), None if strides is None else _sizes(strides), t.device]


def _sizes(sizes: Sequence[Any]) -> list[Any]:
    return [n if isinstance(n, int) else str(n) for n in sizes]


def _plain(x: Any) -> Any:
    if isinstance(x, tuple):
        return [_plain(part) for part in x]
    if isinstance(x, Dim | Ratio):
        return {"size": str(x)}
    if x is None or type(x) in (bool, int, float, str):
        return x
    raise TypeError(f"{x!r} is no attribute of a graph")


class _Unpacking:
    def __init__(self, told: Mapping[str, Any], table: Table) -> None:
        self.told, self.table = told, table
        self.symbols = {name: Symbol(name, low, high) for name, low, high in told["symbols"]}
        self.known: dict[str, Any] = {}  # sizes by their texts
        types = [self.type(*t) for t in told["types"]]
        self.values = [Value(name, types[of]) for name, of in told["values"]]

    def graph(self) -> Graph:
        told, values = self.told, self.values
        inputs, params, fills = told["inputs"], told["params"], told["fills"]
        constants = dict(zip(values[inputs + params :], fills, strict=False))
        nodes = [self.node(*n) for n in told["nodes"]]
        return Graph(
            self.table, told["name"], self.symbols, values[:inputs],
            values[inputs : inputs + params], constants, nodes,
            [values[i] for i in told["outputs"]],
        )  # fmt: skip

    def node(
        self, op: str, inputs: Any, attrs: Any, outs: Any, states: Any, loc: Any
    ) -> Node:  # fmt: skip
        values = self.values
        return Node(
            op,
            tuple([self.operand(x) for x in inputs]),
            MappingProxyType({name: self.plain(x) for name, x in attrs.items()}),
            tuple([None if i is None else values[i] for i in outs]),
            {name: self.operand(x) for name, x in states.items()},
            loc and Location(*loc),
        )

    def operand(self, x: Any) -> Any:
        if type(x) is int:
            return self.values[x]
        if type(x) is list:
            return tuple([self.operand(part) for part in x])
        return None if x is None else self.plain(x["is"])

    def plain(self, x: Any) -> Any:
        if type(x) is list:
            return tuple([self.plain(part) for part in x])
        return self.size(x["size"]) if type(x) is dict else x

    def type(self, dtype: str, shape: Any = None, strides: Any = None, device: str = "") -> Type:
        if shape is None:
            return ScalarType(dtype)
        steps = None if strides is None else self.sizes(strides)
        return TensorType(dtype, self.sizes(shape), steps, device)

    def sizes(self, told: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([n if type(n) is int else self.size(n) for n in told])

    def size(self, text: str) -> Any:
        if text not in self.known:
            self.known[text] = dim.parse(text, self.symbols)
        return self.known[text]
