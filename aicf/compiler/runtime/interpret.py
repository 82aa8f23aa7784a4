"""Runs a graph node by node, each by the generic function of its op: the reference for all that
runs graphs faster. Tensors are numpy's or torch's; params are updated where they lie."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from aicf.backend.tensors import dtype_of
from aicf.compiler.ir.bind import solve
from aicf.compiler.ir.errors import IRError, Rule
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import ScalarType, TensorType


def interpret(graph: Graph, data: Mapping[str, Any]) -> list[Any]:
    """The outputs. `data` has inputs, params, and constants without a number, by name; sizes that
    are symbols are read off them."""
    if graph.symbols:
        shapes = {name: x.shape for name, x in data.items() if hasattr(x, "shape")}
        graph = graph.bind(solve(graph, shapes))
    values: dict[Value, Any] = {}
    for v in (*graph.inputs, *graph.params, *(c for c, n in graph.constants.items() if n is None)):
        values[v] = _given(v, data)
    model = next((x for x in values.values() if hasattr(x, "shape")), None)
    for v, number in graph.constants.items():
        if number is not None:
            values[v] = filled(v.type, number, model)
    for node in graph.nodes:
        run(graph, node, values)
    return [values[v] for v in graph.outputs]


def _given(value: Value, data: Mapping[str, Any]) -> Any:
    if value.name not in data:
        raise IRError(Rule.DEFINED, f"no {value.type} of that name was given", value=value.name)
    found = data[value.name]
    if isinstance(value.type, ScalarType):
        return found
    if not hasattr(found, "shape") or not hasattr(found, "dtype"):
        message = f"it is {value.type}, and {reprlib.repr(found)} was given"
        raise IRError(Rule.TYPE, message, value=value.name)
    if tuple(found.shape) != value.type.shape:
        message = f"it is {value.type}, and {tuple(found.shape)} was given"
        raise IRError(Rule.SHAPE, message, value=value.name)
    if dtype_of(found) != value.type.dtype:
        message = f"it is {value.type}, and {dtype_of(found)} was given"
        raise IRError(Rule.DTYPE, message, value=value.name)
    return found


def run(
    graph: Graph, node: Node, values: dict[Value, Any], call: Callable[..., Any] | None = None
) -> None:
    """Puts the results of a node beside the values that it reads. `call`: what runs an op by its
    name, as a backend does; None: its own function."""
    operands = [_put(x, values) for x in node.inputs]
    if node.is_view:
        values[node.out] = see(node, operands[0])
        return
    row = graph.table[node.op]
    count = len(row.tensors)
    scalars = {p.name: x for p, x in zip(row.scalars, operands[count:], strict=True)}
    asked = {
        o.name: True for o, v in zip(row.outs, node.outs, strict=True) if o.optional and v
    }  # fmt: skip
    runs = row.call if call is None else partial(call, row.name)
    found = runs(*operands[:count], **node.attrs, **scalars, **asked)
    outs = found if isinstance(found, tuple) else (found,)
    values.update((v, x) for v, x in zip(node.outs, outs, strict=False) if v is not None)
    for name, state in node.states.items():
        operand = operands[row.operands.index(row.param(name))]
        pairs = zip(state, operand, strict=True) if isinstance(state, tuple) else [(state, operand)]
        values.update(pairs)


def _put(x: Any, values: Mapping[Value, Any]) -> Any:
    if isinstance(x, tuple):
        return [_put(part, values) for part in x]
    return values[x] if isinstance(x, Value) else x


# ---- in the words of numpy and of torch ---------------------------------------------------------


def filled(type: Any, number: Any, model: Any = None) -> Any:
    """A tensor of one number, of the framework of `model`, else of numpy."""
    assert isinstance(type, TensorType)
    if model is None or type_module(model) == "numpy":
        import numpy

        from aicf.backend.host import numpy_dtype

        return numpy.full(type.shape, number, numpy_dtype(type.dtype))
    import torch
    from aicf_rt.torch_kernels import DTYPES

    return torch.full(type.shape, number, dtype=DTYPES[type.dtype], device=model.device)


def type_module(x: object) -> str:
    """The package that a tensor is of."""
    return type(x).__module__.partition(".")[0]


def _permute(x: Any, attrs: Mapping[str, Any]) -> Any:
    perm = attrs["perm"]
    return x.permute(perm) if hasattr(x, "permute") else x.transpose(perm)


def _expand(x: Any, attrs: Mapping[str, Any]) -> Any:
    if hasattr(x, "expand"):
        return x.expand(attrs["shape"])
    import numpy

    return numpy.broadcast_to(x, attrs["shape"])


def _slice(x: Any, attrs: Mapping[str, Any]) -> Any:
    place = (slice(None),) * attrs["axis"]
    return x[(*place, slice(attrs["start"], attrs["stop"], attrs["step"]))]


def see(node: Node, x: Any) -> Any:
    """What a view node gives of a tensor."""
    return _VIEWS[node.op](x, node.attrs)


_VIEWS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "view.permute": _permute,
    "view.expand": _expand,
    "view.slice": _slice,
    "view.reshape": lambda x, attrs: x.reshape(attrs["shape"]),
}
