"""A training step as one graph: the forward, the gradients, and what updates the params by them.

The optimizer is a row that updates a list of tensors in place by a list of gradients; what else it
updates is its state, which becomes params of the graph too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aicf.compiler.given import check_graph, described
from aicf.compiler.ir.autodiff import derive
from aicf.compiler.ir.emit import Emitter
from aicf.compiler.ir.errors import IRError, Rule
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.types import ScalarType, TensorType
from aicf.table import Kind, Param, Row, Variant


@dataclass(frozen=True, slots=True)
class Training:
    """A graph that updates its params and gives what the forward gave."""

    graph: Graph
    loss: Value
    states: tuple[str, ...]  # params that are the optimizer's; zero at first


def training_step(
    graph: Graph, optimizer: str, *, loss: str | Value | None = None,
    wrt: str | Sequence[str | Value] | None = None, states: Collection[str] = (), **attributes: Any,
) -> Training:  # fmt: skip
    """The step of a forward: its loss, by default the first output, is derived with respect to
    `wrt`, by default all params of floats, which one call of `optimizer` for each dtype updates.

    Scalars of the row without a default are inputs of the graph by their names (`lr`, `step`; where
    another dtype takes another kind of number, `lr.f64`); `attributes` has others, and attributes.
    `states` names optional ones that are wanted. An output that is updated is copied before. Raises
    NoGradient, IRError."""
    check_graph(graph)
    if not isinstance(optimizer, str):
        raise TypeError(f"optimizer must be the name of a row, not {described(optimizer)}")
    row = graph.table[optimizer]
    states = [states] if isinstance(states, str) else states
    derived = derive(graph, loss, wrt)
    step = derived.graph
    step.outputs[:] = step.outputs[: len(graph.outputs)]
    of = {step.value(name): g for name, g in derived.gradients.items()}
    kept = [p for p in row.tensors[2:] if p.inout and (not p.optional or p.name in states)]
    _check(row, states, kept)
    made: list[str] = []
    emitter = Emitter(step)
    seen = [v for v in (*step.outputs, derived.loss) if step.buffer_of(v) in of]
    copies = {v: emitter.copy(v) for v in dict.fromkeys(seen)}
    step.outputs[:] = [copies.get(v, v) for v in step.outputs]
    given = {p.name for p in row.scalars if p.name in attributes}
    scalars: dict[tuple[str, str], Value] = {}
    for dtype in dict.fromkeys(p.type.dtype for p in of):
        params = [p for p in of if p.type.dtype == dtype]
        variant = row.variant({row.tensors[0].name: dtype, row.tensors[1].name: dtype})
        if variant is None:
            raise IRError(Rule.DTYPE, f"it updates no {dtype}", optimizer, params[0].name)
        named: dict[str, Any] = {**attributes}
        for p in kept:
            named[p.name] = [_state(step, v, p, variant) for v in params]
            made += [v.name for v in named[p.name]]
        for p in row.scalars:
            if p.required and p.name not in given:
                named[p.name] = _scalar(step, p.name, variant.dtypes[p.name], scalars)
        # gradients that are repeated or turned are made dense where no kernel takes them
        emitter.node(optimizer, params, [of[p] for p in params], **named)
    return Training(step, copies.get(derived.loss, derived.loss), tuple(made))


def _check(row: Row, states: Collection[str], kept: Sequence[Param]) -> None:
    lists = [p.kind is Kind.LIST for p in row.tensors[:2]]
    if lists != [True, True] or not row.tensors[0].inout or row.tensors[1].inout:
        message = "it does not update a first list of tensors by a second one of gradients"
        raise IRError(Rule.OPERAND, message, row.name)
    unknown = set(states) - {p.name for p in kept}
    if unknown:
        raise IRError(Rule.OPERAND, f"it has no state {min(unknown)}", row.name)


def _scalar(step: Graph, name: str, dtype: str, made: dict[tuple[str, str], Value]) -> Value:
    """The input that all calls share which take it as this dtype."""
    if (name, dtype) not in made:
        is_first = all(known != name for known, _ in made)
        label = name if is_first else f"{name}.{dtype}"
        made[name, dtype] = step.input(label, ScalarType(dtype))
    return made[name, dtype]


def _state(step: Graph, param: Value, of: Param, variant: Variant) -> Value:
    type = param.type
    assert isinstance(type, TensorType)
    return step.param(f"{param.name}.{of.name}", replace(type, dtype=variant.dtypes[of.name]))
