"""Every row of the table in graphs: its calls have the types that the op itself infers, and give
what it gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from aicf_rt import Unsupported  # noqa: E402

from aicf import dim  # noqa: E402
from aicf.compiler.ir.errors import IRError, Rule  # noqa: E402
from aicf.compiler.ir.graph import Graph  # noqa: E402
from aicf.compiler.ir.node import Node  # noqa: E402
from aicf.compiler.ir.types import TensorType  # noqa: E402
from aicf.compiler.runtime.interpret import interpret  # noqa: E402
from aicf.table import Table  # noqa: E402
from rows import Maker, Sample, rows  # noqa: E402
from rows.calls import tensors_of  # noqa: E402
from rows.table import WORDS  # noqa: E402

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("MARK-8-infer")]

Shape = tuple[Any, ...]


def samples(op: str, dtype: torch.dtype | None) -> list[Sample]:
    """Of a dtype, in which floats require a gradient; None: of f32 or i64, in which none does."""
    row = rows()[op]
    if dtype is not None:
        return row.samples(Maker(dtype, grad=True))
    return row.samples(Maker(torch.float32 if "f32" in row.dtypes else torch.int64))


def all_tensors(one: Sample) -> list[torch.Tensor]:
    return [t for x in (*one.args, *one.kwargs.values()) for t in tensors_of(x)]


def node_of(graph: Graph, op: str, one: Sample, shaped: Callable[[Shape], Shape] = tuple) -> Node:
    """A node whose operands are inputs like a sample's tensors."""
    row, count = graph.table[op], itertools.count()

    def entered(x: Any) -> Any:
        if isinstance(x, list | tuple):
            return tuple(entered(v) for v in x)
        if not isinstance(x, torch.Tensor):
            return WORDS.get(x, x) if isinstance(x, torch.dtype) else x
        strides = None if x.is_contiguous() else tuple(x.stride())
        type = TensorType(WORDS[x.dtype], shaped(tuple(x.shape)), strides)
        return graph.input(f"x{next(count)}", type)

    outs = {o.name for o in row.outs}
    want = [not o.optional or bool(one.kwargs.get(o.name)) for o in row.outs]
    operands = [entered(x) for x in one.args]
    keywords = {k: entered(v) for k, v in one.kwargs.items() if k not in outs}
    return graph.add(op, *operands, want=want, **keywords)


def taken(op: str, dtype: torch.dtype | None = None) -> list[Sample]:
    """The samples that a kernel takes as they lie: here and by the op itself the same."""
    found = []
    for one in samples(op, dtype):
        try:
            with torch.no_grad():
                Table.default()[op].infer(*one.args, **one.kwargs)
        except Unsupported:
            with pytest.raises(IRError) as caught:
                node_of(Graph(), op, one)
            assert caught.value.rule is Rule.LAYOUT
        else:
            found.append(one)
    return found


def strides_that_matter(t: Any) -> Any:
    """Of a type, or of a Spec: of dims with more than one index."""
    steps = t.steps if isinstance(t, TensorType) else t.strides
    return None if 0 in t.shape else [s for n, s in zip(t.shape, steps, strict=True) if n != 1]


@pytest.mark.parametrize("op", sorted(rows()))
def test_types_are_those_that_the_op_infers(op: str) -> None:
    for one in taken(op):
        graph = Graph()
        node = node_of(graph, op, one)
        graph.output(*node.results)
        graph.verify()
        assert Graph.parse(graph.text()) == graph
        specs = Table.default()[op].infer(*one.args, **one.kwargs)
        for value, spec in zip(node.outs, specs, strict=True):
            if value is not None:
                assert isinstance(value.type, TensorType)
                assert (value.type.dtype, value.type.shape) == (spec.dtype, spec.shape)
                assert strides_that_matter(value.type) == strides_that_matter(spec)


@pytest.mark.parametrize("op", sorted(rows()))
def test_graphs_give_what_calls_give(op: str) -> None:
    row = Table.default()[op]
    for one in taken(op):
        graph = Graph()
        node = node_of(graph, op, one)
        graph.output(*node.results)
        ours, theirs = one.copy(), one.copy()
        data = {v.name: t for v, t in zip(graph.inputs, all_tensors(ours), strict=True)}
        found = interpret(graph, data)
        given = row.call(*theirs.args, **theirs.kwargs)
        outs = given if isinstance(given, tuple) else (given,)
        want = [x for x, v in zip(outs, node.outs, strict=False) if v is not None]
        for p in row.inouts:
            if p.name in node.states:
                want += tensors_of(theirs.args[row.tensors.index(p)])
        assert len(found) == len(want)
        for a, b in zip(found, want, strict=True):
            assert torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("op", sorted(rows()))
def test_a_batch_of_any_size(op: str) -> None:
    """With a symbol for the first size, the types are those of each value that is bound."""
    for one in taken(op):
        batch = next((t.shape[0] for t in all_tensors(one) if t.ndim), 0)
        if batch < 2 or not all(t.is_contiguous() for t in all_tensors(one)):
            continue
        plain, graph = Graph(), Graph()
        n = graph.symbol("N", 2, 4096)
        node_of(plain, op, one)
        try:
            node_of(graph, op, one, lambda s, n=n: (n, *s[1:]) if s[:1] == (batch,) else s)  # type: ignore[misc]
        except IRError as error:
            assert error.rule in (Rule.SHAPE, Rule.SYMBOL, Rule.ATTRIBUTE), error
            continue  # an attribute or another size is tied to that value
        bound = graph.bind({"N": batch})
        assert [v.type for v in bound.values] == [v.type for v in plain.values]
        assert any(isinstance(s, dim.Dim) for v in graph.inputs for s in v.type.shape)  # type: ignore[union-attr]
