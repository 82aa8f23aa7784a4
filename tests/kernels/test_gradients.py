"""The _bwd ops are the derivatives of their forwards: by finite differences, in f64 on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernels import references
from kernels.calls import call
from kernels.tensors import array_of, poisoned, tensor_of
from kernels.tolerance import Array

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("KERNELS-gradients")]

STEP = 1e-6  # the error of a central difference is some STEP**2, of its rounding 1e-16 / STEP


def gelu_tanh(x: Array) -> Array:
    bent: Array = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + bent)


def slope(forward: Callable[[Array], Array], x: Array, gy: Array) -> Array:
    """gy @ d forward / d x, one element of x after the other."""
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = STEP
        found[index] = np.sum(gy * (forward(x + step) - forward(x - step))) / (2 * STEP)
    return found


@pytest.mark.parametrize(
    "op, forward, options",
    [
        ("relu_bwd", references.relu, {}),
        ("gelu_bwd", references.gelu, {"approx": "none"}),
        ("gelu_bwd", gelu_tanh, {"approx": "tanh"}),
    ],
)
def test_activations(op: str, forward: Callable[[Array], Array], options: dict[str, str]) -> None:
    x = np.linspace(-6, 6, 98)  # 98 points: none of them is the corner of relu
    gy = np.random.default_rng(0).standard_normal(98)
    gx = poisoned((98,), "f64", "cpu")
    call(op, "f64", tensor_of(gy, "f64", "cpu"), tensor_of(x, "f64", "cpu"), gx, **options)
    np.testing.assert_allclose(array_of(gx), slope(forward, x, gy), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("shape, axis", [((4, 3), 1), ((4, 3), 0), ((2, 3, 4), 1), ((5,), 0)])
def test_bias_add(shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(1)
    x, gy, bias = (
        rng.standard_normal(shape),
        rng.standard_normal(shape),
        rng.standard_normal(shape[axis]),
    )

    def forward(b: Array) -> Array:
        out = poisoned(shape, "f64", "cpu")
        call("bias_add", "f64", *(tensor_of(v, "f64", "cpu") for v in (x, b)), out, axis=axis)
        return array_of(out)

    gb = poisoned((shape[axis],), "f64", "cpu")
    call("bias_add_bwd", "f64", tensor_of(gy, "f64", "cpu"), gb, axis=axis)
    np.testing.assert_allclose(array_of(gb), slope(forward, bias, gy), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("act", ["none", "relu", "gelu"])
def test_gemm_by_the_rows_gradients(act: str) -> None:
    """gz from the activation's _bwd, then gz @ b.T and a.T @ gz, as the row says."""
    rng = np.random.default_rng(2)
    a, b, bias = rng.standard_normal((3, 4)), rng.standard_normal((4, 5)), rng.standard_normal(5)
    gy = rng.standard_normal((3, 5))

    def product(x: Array, y: Array, act: str = act, bias: Array | None = bias) -> Array:
        out = poisoned((x.shape[0], y.shape[1]), "f64", "cpu")
        given = [None if v is None else tensor_of(v, "f64", "cpu") for v in (x, y, bias)]
        call("gemm", "f64", *given, None, out, act=act)
        return array_of(out)

    gz = gy
    if act != "none":
        op = f"{act}_bwd"
        y = product(a, b, "none") if act == "gelu" else product(a, b)
        out = poisoned(gy.shape, "f64", "cpu")
        call(op, "f64", tensor_of(gy, "f64", "cpu"), tensor_of(y, "f64", "cpu"), out)
        gz = array_of(out)
    ga, gb = product(gz, b.T, "none", None), product(a.T, gz, "none", None)
    np.testing.assert_allclose(ga, slope(lambda x: product(x, b), a, gy), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(gb, slope(lambda x: product(a, x), b, gy), rtol=1e-6, atol=1e-7)
