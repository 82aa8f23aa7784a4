"""ATen's words in numpy's: what a fallback computes with where torch is not installed.

`aten_NAME` is ATen's op NAME, in any of its overloads. Where numpy would give another dtype than
ATen they refuse, by a TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Axes = int | Sequence[int] | None


def find(name: str) -> Callable[..., Any] | None:
    """The function of an ATen op, None where there is none here."""
    found: Callable[..., Any] | None = globals().get(f"aten_{name}")
    return found


def _promoted(*arrays: Any) -> None:
    """Several dtypes are made one alike by both only within floats or integers, of arrays that have
    dims."""
    given = [a for a in arrays if isinstance(a, np.ndarray)]
    if len({a.dtype for a in given}) > 1 and (
        len({a.dtype.kind for a in given}) > 1 or any(a.ndim == 0 for a in given)
    ):
        kinds = ", ".join(f"{a.dtype} {a.shape}" for a in given)
        raise TypeError(f"numpy promotes {kinds} otherwise than ATen")


def _of_floats(x: Array) -> Array:
    """ATen makes f32 of integers, numpy f64."""
    if x.dtype.kind not in "fV":
        raise TypeError(f"numpy promotes {x.dtype} otherwise than ATen")
    return x


def array(x: Any) -> Array:
    return np.asarray(x)


def aten_add(a: Array, b: Array) -> Array:
    _promoted(a, b)
    return np.add(a, b)


def aten_sub(a: Array, b: Array) -> Array:
    _promoted(a, b)
    return np.subtract(a, b)


def aten_mul(a: Array, b: Array | float) -> Array:
    _promoted(a, b)
    return np.multiply(a, b, dtype=a.dtype) if isinstance(b, float) else np.multiply(a, b)


def aten_div(a: Array, b: Array) -> Array:
    _promoted(a, b)
    return np.divide(_of_floats(a), b)


def aten_neg(x: Array) -> Array:
    return np.negative(x)


def aten_exp(x: Array) -> Array:
    return np.exp(_of_floats(x))


def aten_log(x: Array) -> Array:
    return np.log(_of_floats(x))


def aten_sqrt(x: Array) -> Array:
    return np.sqrt(_of_floats(x))


def aten_tanh(x: Array) -> Array:
    return np.tanh(_of_floats(x))


def aten_relu(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0))


def aten_sigmoid(x: Array) -> Array:
    """By tanh, which overflows nowhere."""
    half = _of_floats(x).dtype.type(0.5)
    return np.asarray(half * np.tanh(half * x) + half)


def aten_where(condition: Array, a: Array, b: Array) -> Array:
    _promoted(a, b)
    return np.where(condition, a, b)


def aten_clone(x: Array) -> Array:
    return np.copy(x)


def aten_matmul(a: Array, b: Array) -> Array:
    _promoted(a, b)
    return np.asarray(np.matmul(a, b))


def aten_sum(x: Array, axes: Axes, keepdim: bool) -> Array:
    kept = x.dtype if x.dtype.kind == "f" else np.dtype(np.int64)
    return np.asarray(np.sum(x, _axes(axes), kept, keepdims=keepdim))


def aten_mean(x: Array, axes: Axes, keepdim: bool) -> Array:
    return np.asarray(np.mean(_of_floats(x), _axes(axes), keepdims=keepdim))


def aten_amax(x: Array, axes: Axes, keepdim: bool) -> Array:
    return np.asarray(np.max(x, _axes(axes), keepdims=keepdim))


def aten_amin(x: Array, axes: Axes, keepdim: bool) -> Array:
    return np.asarray(np.min(x, _axes(axes), keepdims=keepdim))


def aten_permute_copy(x: Array, perm: Sequence[int]) -> Array:
    return np.ascontiguousarray(np.transpose(x, perm))


def aten_cat(xs: Sequence[Array], axis: int) -> Array:
    _promoted(*xs)
    return np.concatenate(xs, axis)


def _axes(axes: Axes) -> int | tuple[int, ...] | None:
    return axes if axes is None or isinstance(axes, int) else tuple(axes)
