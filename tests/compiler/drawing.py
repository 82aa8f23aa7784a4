"""Random graphs of the rows that the table has, whatever they are."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph, Value
from aicf.compiler.ir.types import TensorType
from aicf.table import Kind, Param, Row, Table

SHAPES = ("4, 4", "4", "N, 4", "1, 4", "", "2, 4, 4", "N, 3, 4, 4", "4, 3, 2, 2")
TYPES = ("f32", "f32", "f32", "i64", "bf16")
NUMBERS = (0, 1, 2, -1, 0.5, 4)


@st.composite
def graphs(draw: st.DrawFn, tries: int = 25) -> Graph:
    """A graph of rows and views, in place too. What a row refuses is left out."""
    table = Table.default()
    graph = Graph(table, "drawn")
    graph.symbol("N", 1, 64)
    for i in range(draw(st.integers(1, 4))):
        shape = draw(st.sampled_from(SHAPES))
        enter = draw(st.sampled_from((graph.input, graph.param)))
        enter(f"x{i}", f"{draw(st.sampled_from(TYPES))}[{shape}]")
    graph.constant("c", "f32[]", 0.5)
    rows = sorted(table.ops)
    for _ in range(draw(st.integers(0, tries))):
        try:
            if draw(st.integers(0, 3)) == 0:
                add_view(draw, graph)
            else:
                add_row(draw, graph, table[draw(st.sampled_from(rows))])
        except IRError:
            continue
    alive = [v for v in graph.values if graph.overwritten_by(v) is None]
    graph.output(*draw(st.lists(st.sampled_from(alive), min_size=1, max_size=3)))
    return graph


def add_row(draw: st.DrawFn, graph: Graph, row: Row) -> None:
    """Operands of one dtype where there are any, so that many calls are right."""
    values = [v for v in graph.values if isinstance(v.type, TensorType)]
    first = draw(st.sampled_from(values))
    near = [v for v in values if v.type == first.type]
    if draw(st.booleans()):
        near = [v for v in values if v.type.dtype == first.type.dtype]
    tensors = [draw_operand(draw, p, near, values) for p in row.tensors]
    keywords: dict[str, Any] = {p.name: draw(st.sampled_from(NUMBERS)) for p in row.scalars}
    for p in row.attrs:
        if p.required or draw(st.booleans()):
            keywords[p.name] = draw_attribute(draw, p)
    want = [not o.optional or draw(st.booleans()) for o in row.outs]
    graph.add(row.name, *tensors, want=want, **keywords)


def draw_operand(draw: st.DrawFn, p: Param, near: list[Value], values: list[Value]) -> Any:
    if p.optional and draw(st.booleans()):
        return None
    if p.kind is Kind.LIST:
        return tuple(draw(st.lists(st.sampled_from(near), min_size=1, max_size=2)))
    return draw(st.sampled_from(near if draw(st.integers(0, 3)) else values))


def draw_attribute(draw: st.DrawFn, p: Param) -> Any:
    match p.word:
        case "bool":
            return draw(st.booleans())
        case "enum":
            return draw(st.sampled_from(p.values))
        case "float":
            return draw(st.sampled_from((0.0, 0.1, 1.0, 2.5)))
        case "ints":
            return tuple(draw(st.integers(0, 2)) for _ in range(p.size))
        case "axes":
            return draw(st.sampled_from((None, (0,), (-1,), (1, 0), (2, 0, 1))))
        case _:
            return draw(st.integers(-1, 4))


def add_view(draw: st.DrawFn, graph: Graph) -> None:
    value = draw(st.sampled_from([v for v in graph.values if isinstance(v.type, TensorType)]))
    type = value.type
    assert isinstance(type, TensorType)
    match draw(st.integers(0, 3)):
        case 0:
            graph.add("view.permute", value, perm=draw(st.permutations(range(type.rank))))
        case 1:
            graph.add("view.expand", value, shape=(2, *type.shape))
        case 2:
            graph.add("view.reshape", value, shape=(type.numel,))
        case _:
            axis = draw(st.integers(0, max(type.rank - 1, 0)))
            graph.add("view.slice", value, axis=axis, start=1, stop=draw(st.integers(1, 4)))
