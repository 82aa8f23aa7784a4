"""Calls of gemm, written by hand: the verdict is what torch says of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.nn.functional import gelu

from kernels.calls import Call, by_name, check_call

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("KERNELS-calls")]


def t(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small multiples of 1/4: their products and short sums are exact in every dtype."""
    return torch.arange(float(np.prod(shape))).remainder(7).reshape(shape).sub(3).div(4).to(dtype)


def out(*shape: int) -> torch.Tensor:
    return torch.full(shape or (3, 5), 7.0)


def gemms() -> Iterator[Call]:
    a, b, bias, c = t(3, 4), t(4, 5), t(5), t(3, 5)
    yield Call("a product", "f32", (a, b, None, None, out()), a @ b)
    yield Call("with bias", "f32", (a, b, bias, None, out()), torch.addmm(bias, a, b))
    yield Call("with c", "f32", (a, b, None, c, out()), torch.addmm(c, a, b), {"beta": 1.0})
    yield Call(
        "alpha and beta",
        "f32",
        (a, b, None, c, out()),
        torch.addmm(c, a, b, alpha=2, beta=-1),
        {"alpha": 2.0, "beta": -1.0},
    )
    yield Call(
        "bias, c, relu",
        "f32",
        (a, b, bias, c, out()),
        torch.relu(a @ b + c + bias),
        {"beta": 1.0, "act": "relu"},
    )
    yield Call("gelu", "f32", (a, b, bias, None, out()), gelu(a @ b + bias), {"act": "gelu"})
    yield Call("c of nan is not read", "f32", (a, b, None, c * np.nan, out()), a @ b, {"beta": 0.0})
    yield Call("out is c", "f32", (a, b, None, (own := c.clone()), own), a @ b + c, {"beta": 1.0})
    for dtype, kind in [("f16", torch.float16), ("bf16", torch.bfloat16), ("f64", torch.float64)]:
        x, y = t(3, 4, dtype=kind), t(4, 5, dtype=kind)
        yield Call(dtype, dtype, (x, y, None, None, out().to(kind)), x.double() @ y.double())
    yield Call("a transposed", "f32", (t(4, 3).T, b, None, None, out()), t(4, 3).T @ b)
    yield Call("b transposed", "f32", (a, t(5, 4).T, None, None, out()), a @ t(5, 4).T)
    yield Call(
        "both transposed", "f32", (t(4, 3).T, t(5, 4).T, None, None, out()), t(4, 3).T @ t(5, 4).T
    )
    yield Call(
        "a cut from a larger one",
        "f32",
        (t(5, 9)[1:4, 2:6], b, None, None, out()),
        t(5, 9)[1:4, 2:6] @ b,
    )
    yield Call("into a larger one", "f32", (a, b, None, None, out(3, 9)[:, 2:7]), a @ b)
    yield Call(
        "batched",
        "f32",
        (t(2, 3, 4), t(2, 4, 5), None, None, out(2, 3, 5)),
        t(2, 3, 4) @ t(2, 4, 5),
    )
    yield Call(
        "one b for a batch", "f32", (t(2, 3, 4), b, None, None, out(2, 3, 5)), t(2, 3, 4) @ b
    )
    yield Call(
        "one a for a batch", "f32", (a, t(2, 4, 5), None, None, out(2, 3, 5)), a @ t(2, 4, 5)
    )
    yield Call(
        "batches broadcast",
        "f32",
        (t(2, 1, 3, 4), t(6, 4, 5), None, None, out(2, 6, 3, 5)),
        t(2, 1, 3, 4) @ t(6, 4, 5),
    )
    yield Call("K = 0", "f32", (t(3, 0), t(0, 5), bias, None, out()), bias.expand(3, 5))
    yield Call(
        "K = 0 and nothing else", "f32", (t(3, 0), t(0, 5), None, None, out()), torch.zeros(3, 5)
    )
    yield Call("M = 0", "f32", (t(0, 4), b, None, None, out(0, 5)), torch.zeros(0, 5))
    yield Call("a row", "f32", (t(1, 4), b, None, None, out(1, 5)), t(1, 4) @ b)
    yield Call("a column", "f32", (a, t(4, 1), None, None, out(3, 1)), a @ t(4, 1))
    yield Call(
        "numpy",
        "f64",
        (a.double().numpy(), b.double().numpy(), None, None, np.zeros((3, 5))),
        a @ b,
    )
    yield Call("K differs", "f32", (a, t(3, 5), None, None, out()), None)
    yield Call("out transposed", "f32", (a, b, None, None, out(5, 3)), None)
    yield Call("out column-major", "f32", (a, b, None, None, out(5, 3).T), None)
    yield Call("bias of M", "f32", (a, b, t(3), None, out()), None)
    yield Call("bias of rank 2", "f32", (a, b, t(1, 5), None, out()), None)
    yield Call("c broadcast is not taken", "f32", (a, b, None, t(1, 5), out()), None, {"beta": 1.0})
    yield Call("beta without c", "f32", (a, b, None, None, out()), None, {"beta": 1.0})
    yield Call("a vector", "f32", (t(4), b, None, None, out(5)), None)
    yield Call(
        "batches that do not broadcast",
        "f32",
        (t(2, 3, 4), t(3, 4, 5), None, None, out(2, 3, 5)),
        None,
    )
    yield Call("out lacks the batch", "f32", (t(2, 3, 4), b, None, None, out()), None)
    yield Call("neither stride is 1", "f32", (t(6, 8)[::2, ::2], b, None, None, out()), None)
    yield Call("dtypes differ", "f32", (a, b.double(), None, None, out()), None)
    square = t(4, 4)
    yield Call("out is a", "f32", (square, square.clone(), None, None, square), None)


@pytest.mark.parametrize("c", by_name(gemms()))
def test_gemm(c: Call) -> None:
    check_call("gemm", c)
