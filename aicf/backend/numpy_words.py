"""ATen's words in numpy's: what a fallback computes with where torch is not installed.

`aten_NAME` is ATen's op NAME, in any of its overloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Axes = int | Sequence[int] | None


def find(name: str, overload: str) -> Callable[..., Any] | None:
    """The function of an ATen op, None where there is none here."""
    found: Callable[..., Any] | None = globals().get(f"aten_{name}")
    return found


def array(x: Any) -> Array:
    return np.asarray(x)


def aten_add(a: Array, b: Array) -> Array:
    return np.add(a, b)


def aten_sub(a: Array, b: Array) -> Array:
    return np.subtract(a, b)


def aten_mul(a: Array, b: Array | float) -> Array:
    return np.multiply(a, b, dtype=a.dtype) if isinstance(b, float) else np.multiply(a, b)


def aten_div(a: Array, b: Array) -> Array:
    return np.divide(a, b)


def aten_neg(x: Array) -> Array:
    return np.negative(x)


def aten_exp(x: Array) -> Array:
    return np.exp(x)


def aten_log(x: Array) -> Array:
    return np.log(x)


def aten_sqrt(x: Array) -> Array:
    return np.sqrt(x)


def aten_tanh(x: Array) -> Array:
    return np.tanh(x)


def aten_relu(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0))


def aten_sigmoid(x: Array) -> Array:
    """By tanh, which overflows nowhere."""
    half = x.dtype.type(0.5)
    return np.asarray(half * np.tanh(half * x) + half)


def aten_where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


def aten_clone(x: Array) -> Array:
    return np.copy(x)


def aten_matmul(a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(a, b))


def aten_sum(x: Array, axes: Axes, keepdim: bool) -> Array:
    kept = x.dtype if x.dtype.kind == "f" else np.dtype(np.int64)
    return np.asarray(np.sum(x, _axes(axes), kept, keepdims=keepdim))


def aten_mean(x: Array, axes: Axes, keepdim: bool) -> Array:
    return np.asarray(np.mean(x, _axes(axes), keepdims=keepdim))


def aten_amax(x: Array, axes: Axes, keepdim: bool) -> Array:
    return np.asarray(np.max(x, _axes(axes), keepdims=keepdim))


def aten_amin(x: Array, axes: Axes, keepdim: bool) -> Array:
    return np.asarray(np.min(x, _axes(axes), keepdims=keepdim))


def aten_permute_copy(x: Array, perm: Sequence[int]) -> Array:
    return np.ascontiguousarray(np.transpose(x, perm))


def aten_cat(xs: Sequence[Array], axis: int) -> Array:
    return np.concatenate(xs, axis)


def _axes(axes: Axes) -> int | tuple[int, ...] | None:
    return axes if axes is None or isinstance(axes, int) else tuple(axes)
