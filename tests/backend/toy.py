"""A backend of a test's own, of a device that is host memory under another name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aicf.backend.base import AicfBackend
from aicf.backend.tensors import dtype_of
from aicf.table import Row


class ToyTensor:
    """An array that only its backend looks into."""

    device = "toy"

    def __init__(self, array: Any) -> None:
        self.inside = array
        self.shape, self.dtype = tuple(array.shape), dtype_of(array)
        self.strides = tuple(s // array.itemsize for s in array.strides)


def opened(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return [opened(t) for t in x]
    return x.inside if isinstance(x, ToyTensor) else x


def closed(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(closed, x))
    return ToyTensor(x) if isinstance(x, np.ndarray) else x


class ToyBackend(AicfBackend):
    name = "toy"
    device = "toy"

    def launch(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> Any:
        return closed(row.call(*opened(args), **{k: opened(v) for k, v in options.items()}))

    def kernel_of(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> str:
        return super().kernel_of(row, opened(args), {k: opened(v) for k, v in options.items()})

    def prepare(self, op: str, *args: Any, **options: Any) -> Any:
        return super().prepare(op, *opened(args), **{k: opened(v) for k, v in options.items()})

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        return ToyTensor(np.empty(tuple(shape), {"f32": "f4", "i64": "i8"}[dtype]))

    def from_host(self, array: Any) -> Any:
        return ToyTensor(np.array(array))

    def to_host(self, tensor: Any) -> Any:
        return tensor.inside.copy()

    def copy_into(self, tensor: Any, source: Any) -> None:
        if tensor.shape != tuple(source.shape):
            raise ValueError(f"{tensor.shape} is not overwritten by {tuple(source.shape)}")
        tensor.inside[...] = opened(source)

    def fill_bytes(self, tensor: Any, byte: int) -> None:
        tensor.inside.reshape(-1).view(np.uint8)[...] = byte

    def view(self, tensor: Any, shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
        flat = tensor.inside.reshape(-1)[offset:]
        steps = [s * flat.itemsize for s in strides]
        return ToyTensor(np.lib.stride_tricks.as_strided(flat, shape, steps))
