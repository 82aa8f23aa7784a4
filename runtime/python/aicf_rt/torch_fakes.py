"""What torch's compiler asks instead of the kernels: shapes, dtypes and strides of the outs.

Sizes may be symbolic; then the shapes come from the row's relation, which works on them. The
verdict is that of the op's `infer` on the sizes as they are, or as they are hinted, so that a call
is refused in the same words compiled and not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._core import Spec, Unsupported
from .torch_kernels import (
    DTYPES,
    NAMES,
    Module,
    check_want,
    dense_choices,
    forward_level,
    order_of,
    refuse_gradients,
    refuse_tangents,
    tensors_of,
)
from .torch_schema import Overload, Row

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

Relation = Callable[..., Sequence[Any]]


class NoHint(Exception):
    """A size that is known at run time alone."""


def hinted(value: Any) -> Any:
    """A number as it is, or as it was when the symbol for it was made."""
    if not isinstance(value, SYMBOLIC):
        return value
    if not value.node.has_hint():
        raise NoHint
    return value.node.hint


def values_of(row: Row, kwargs: dict[str, Any]) -> dict[str, Any]:
    """All attributes and scalars: torch leaves out what is as its default."""
    return {v.name: v.canonical(kwargs.get(v.name, v.default)) for v in row.values}


def padded(row: Row, args: Sequence[Any]) -> list[Any]:
    """All tensor arguments: torch leaves out absent ones at the end."""
    return [*args, *(None for _ in range(len(row.tensors) - len(args)))]


def dtypes_of(row: Row, args: Sequence[Any], free: str | None) -> dict[str, str]:
    """The dtypes of all parameters, by what is known of the tensors."""
    given = {}
    for t, arg in zip(row.tensors, args, strict=True):
        found = next(tensors_of([arg]), None)
        if found is not None and found.dtype in NAMES:
            given[t.name] = NAMES[found.dtype]
    variant = row.variant(given, free)
    return dict(row.dtypes[variant if variant is not None else 0])


class Fake:
    """The fake kernel of an overload."""

    def __init__(self, overload: Overload, module: Module, relation: Relation) -> None:
        self.overload, self.module, self.relation = overload, module, relation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        overload, row = self.overload, self.overload.row
        if overload.writes and torch.is_grad_enabled():
            refuse_gradients(overload, args, kwargs)
        if overload.writes and forward_level() >= 0:
            refuse_tangents(overload, args, kwargs)
        tensors = padded(row, args)
        want = kwargs.get("want")
        if want is not None:
            check_want(row, want)
        found = self.inferred(tensors, kwargs)
        if overload.form == "out":
            return None
        made = [
            self.made(tensors, i, *found[i]) if want is None or want[i] else None
            for i in range(len(overload.returned))
        ]
        return None if not made else made[0] if len(made) == 1 else tuple(made)

    def made(self, tensors: list[Any], out: int, shape: Sequence[Any], dtype: str) -> torch.Tensor:
        row = self.overload.row
        order = row.outs[out].order
        model = tensors[row.index[order]] if order else None
        strides = order_of(shape, model)
        first = next(tensors_of(tensors), None)
        device = torch.device("cpu") if first is None else first.device
        return torch.empty_strided(tuple(shape), strides, dtype=DTYPES[dtype], device=device)

    def inferred(self, tensors: list[Any], kwargs: dict[str, Any]) -> list[tuple[Any, str]]:
        """The shape and the dtype of each out."""
        row = self.overload.row
        try:
            specs: Sequence[Spec] | None = self.verdict(tensors, kwargs)
        except NoHint:
            specs = None
        if specs is not None and not _is_symbolic(tensors, kwargs):
            return [(s.shape, s.dtype) for s in specs]
        values = values_of(row, kwargs)
        attributes = {v.name: values[v.name] for v in row.attributes}
        shapes = self.relation(*map(_shape, tensors), **attributes)
        if specs is None:
            free = kwargs.get("dtype")
            dtypes = dtypes_of(row, tensors, NAMES.get(free) if free else None)
            return [(s, dtypes[o.name]) for s, o in zip(shapes, row.outs, strict=True)]
        return [(shape, s.dtype) for shape, s in zip(shapes, specs, strict=True)]

    def verdict(self, tensors: list[Any], kwargs: dict[str, Any]) -> Sequence[Spec]:
        """What `infer` says, where no kernel takes the operands as they lie of dense ones."""
        row = self.overload.row
        outs = {o.name for o in row.outs} | {"want"}
        options = {k: _described(v) for k, v in kwargs.items() if k not in outs}
        try:
            found: Sequence[Spec] = self.module.infer(*map(_described, tensors), **options)
            return found
        except Unsupported as error:
            if error.arg is not None:
                raise
            first = error
        for choice in dense_choices(tensors, [i for i, t in enumerate(row.tensors) if t.inout]):
            try:
                found = self.module.infer(*map(_described, choice), **options)
            except Unsupported:
                continue
            return found
        raise first


def _shape(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return [tuple(t.shape) for t in x]
    return None if x is None else tuple(x.shape)


def _is_symbolic(tensors: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    sizes = any(isinstance(n, SYMBOLIC) for t in tensors_of(tensors) for n in t.shape)
    return sizes or any(isinstance(v, SYMBOLIC) for v in kwargs.values())


def _described(x: Any) -> Any:
    """A tensor without its memory; one in a tuple as if it were dense."""
    if isinstance(x, torch.Tensor):
        return _spec(x, tuple(hinted(n) for n in x.stride()))
    if isinstance(x, tuple) and len(x) == 1 and not isinstance(x[0], int | str):
        inner = x[0]
        return [_spec(t, None) for t in inner] if isinstance(inner, list) else _spec(inner, None)
    if isinstance(x, list):
        return [_described(v) for v in x]
    return hinted(x)


def _spec(x: torch.Tensor, strides: tuple[int, ...] | None) -> Spec:
    device = "cpu" if x.device.type == "meta" else str(x.device)
    return Spec(tuple(hinted(n) for n in x.shape), x.dtype, strides=strides, device=device)
