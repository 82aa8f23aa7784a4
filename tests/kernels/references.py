"""What the ops of the table are, in float64 on the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernels.tolerance import Array

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def add(a: Array, b: Array) -> Array:
    return a + b


def relu(x: Array) -> Array:
    return np.where(x < 0, 0.0, x)


def relu_bwd(gy: Array, y: Array) -> Array:
    return np.where(y <= 0, 0.0, gy)


def scale(x: Array, factor: float) -> Array:
    return x * factor


def copy(x: Array) -> Array:
    return x


def gelu(x: Array) -> Array:
    """x * Phi(x), 0 at -inf."""
    with np.errstate(invalid="ignore"):
        return np.where(x == -np.inf, 0.0, x * 0.5 * erfc(-x / math.sqrt(2)))


def gelu_slope(y: Array, approx: str = "none") -> Array:
    """The derivative of gelu, by its definition; beyond 30 it is 0 or 1 to the last bit."""
    y = np.clip(y, -30.0, 30.0)
    if approx == "none":
        density: Array = np.exp(-0.5 * y * y) / math.sqrt(2 * math.pi)
        share: Array = 0.5 * erfc(-y / math.sqrt(2))
        return share + y * density
    k, c = math.sqrt(2 / math.pi), 0.044715
    with np.errstate(over="ignore"):  # (1 + tanh u) / 2 without its cancellation
        share = 1 / (1 + np.exp(-2 * k * (y + c * y**3)))
    return share + y * share * (1 - share) * 2 * k * (1 + 3 * c * y * y)


def gelu_bwd(gy: Array, y: Array, approx: str = "none") -> Array:
    return gy * gelu_slope(y, approx)


def along(bias: Array, rank: int, axis: int) -> Array:
    """A vector as a tensor of `rank` that varies along one axis."""
    shape = [1] * rank
    shape[axis] = -1
    return bias.reshape(shape)


def bias_add(x: Array, bias: Array, axis: int = 1) -> Array:
    return x + along(bias, x.ndim, axis)


def bias_add_bwd(gy: Array, axis: int = 1) -> Array:
    return np.asarray(gy.sum(axis=tuple(d for d in range(gy.ndim) if d != axis % gy.ndim)))


def gemm(
    a: Array,
    b: Array,
    bias: Array | None = None,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    act: str = "none",
    precision: str = "ieee",
) -> Array:
    out = alpha * (a @ b)
    if c is not None and beta != 0:
        out = out + beta * c
    if bias is not None:
        out = out + bias
    if act == "relu":
        return relu(out)
    return gelu(out) if act == "gelu" else out


def sum(x: Array, axes: Sequence[int] | None = None, keepdim: bool = False) -> Array:
    over = tuple(range(x.ndim)) if axes is None else tuple(axes)
    return np.asarray(x.sum(axis=over, keepdims=keepdim))
