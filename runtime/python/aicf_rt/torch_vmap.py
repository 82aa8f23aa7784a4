"""vmap over any op that writes nothing: the op for each element of the batch, and their stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .torch_schema import Overload


def batched(op: Any, overload: Overload) -> Callable[..., Any]:
    """The rule of an overload, as `torch.library.register_vmap` takes it."""

    def rule(info: Any, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        size = info.batch_size
        if size == 0:
            return _empty(op(*_each(_one(args, in_dims), in_dims, 0), **kwargs))
        found = [op(*_each(args, in_dims, i), **kwargs) for i in range(size)]
        if isinstance(found[0], tuple):
            columns = [_stacked(column) for column in zip(*found, strict=True)]
            return tuple(columns), tuple(None if c is None else 0 for c in columns)
        return _stacked(found), 0

    return rule


def _each(args: Sequence[Any], dims: Sequence[Any], i: int) -> list[Any]:
    """The arguments of one call."""
    return [_at(x, d, i) for x, d in zip(args, dims, strict=True)]


def _at(x: Any, dim: Any, i: int) -> Any:
    if isinstance(x, list | tuple):
        return [_at(y, d, i) for y, d in zip(x, dim, strict=True)]
    return x if dim is None or x is None else x.select(dim, i)


def _one(args: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
    """Of an empty batch: what one element of it would be."""

    def one(x: Any, dim: Any) -> Any:
        if isinstance(x, list | tuple):
            return [one(y, d) for y, d in zip(x, dim, strict=True)]
        if dim is None or x is None:
            return x
        shape = list(x.shape)
        shape[dim] = 1
        return x.new_zeros(shape)

    return [one(x, d) for x, d in zip(args, dims, strict=True)]


def _stacked(column: Sequence[Any]) -> torch.Tensor | None:
    return None if column[0] is None else torch.stack(list(column))


def _empty(found: Any) -> Any:
    def none_of(x: Any) -> Any:
        return None if x is None else x.new_empty((0, *x.shape))

    if isinstance(found, tuple):
        made = tuple(none_of(x) for x in found)
        return made, tuple(None if x is None else 0 for x in made)
    return none_of(found), 0
