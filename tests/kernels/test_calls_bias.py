"""Calls of bias_add and bias_add_bwd, written by hand: the verdict is what torch says of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from kernels.calls import Call, by_name, check_call

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("KERNELS-calls")]

KINDS = [
    ("f32", torch.float32),
    ("f16", torch.float16),
    ("bf16", torch.bfloat16),
    ("f64", torch.float64),
]


def t(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(float(np.prod(shape))).remainder(11).reshape(shape).sub(3).div(4).to(dtype)


def bias_adds() -> Iterator[Call]:
    for dtype, kind in KINDS:
        x, bias = t(2, 3, 4, dtype=kind), t(3, dtype=kind)
        yield Call(
            f"{dtype}, the default axis", dtype, (x, bias, torch.empty_like(x)), x + bias[:, None]
        )
        for axis, size in [(0, 2), (2, 4), (-1, 4), (-3, 2)]:
            b = t(size, dtype=kind)
            shaped = b.reshape([-1 if d == axis % 3 else 1 for d in range(3)])
            yield Call(
                f"{dtype}, axis {axis}",
                dtype,
                (x, b, torch.empty_like(x)),
                x + shaped,
                {"axis": axis},
            )
    x = t(5, 3)
    yield Call("a matrix", "f32", (x, t(3), torch.empty(5, 3)), x + t(3))
    yield Call("a vector", "f32", (t(4), t(4), torch.empty(4)), t(4) * 2, {"axis": 0})
    own = x.clone()
    yield Call("in place", "f32", (own, t(3), own), x + t(3))
    yield Call("nothing", "f32", (t(0, 3), t(3), t(0, 3)), t(0, 3))
    yield Call("an empty axis", "f32", (t(3, 0), t(0), t(3, 0)), t(3, 0))
    yield Call("numpy", "f32", (x.numpy(), t(3).numpy(), np.zeros((5, 3), "f4")), x + t(3))
    yield Call("bias too long", "f32", (x, t(4), torch.empty(5, 3)), None)
    yield Call("bias of one", "f32", (x, t(1), torch.empty(5, 3)), None)
    yield Call("bias of rank 2", "f32", (x, t(1, 3), torch.empty(5, 3)), None)
    yield Call("bias for the other axis", "f32", (x, t(5), torch.empty(5, 3)), None)
    yield Call("axis beyond the rank", "f32", (x, t(3), torch.empty(5, 3)), None, {"axis": 2})
    yield Call("a vector has no axis 1", "f32", (t(4), t(4), torch.empty(4)), None)
    yield Call("x is not dense", "f32", (t(3, 5).T, t(3), torch.empty(5, 3)), None)
    yield Call("out is not dense", "f32", (x, t(3), torch.empty(3, 5).T), None)
    yield Call("dtypes differ", "f32", (x, t(3).double(), torch.empty(5, 3)), None)


def bias_add_bwds() -> Iterator[Call]:
    for dtype, kind in KINDS:
        gy = t(2, 3, 4, dtype=kind)
        for axis, size in [(0, 2), (1, 3), (2, 4), (-1, 4)]:
            over = [d for d in range(3) if d != axis % 3]
            want = gy.double().sum(over)
            yield Call(
                f"{dtype}, axis {axis}",
                dtype,
                (gy, torch.empty(size, dtype=kind)),
                want,
                {"axis": axis},
            )
    gy = t(5, 3)
    yield Call("a matrix", "f32", (gy, torch.empty(3)), gy.sum(0))
    yield Call("a vector", "f32", (t(4), torch.empty(4)), t(4), {"axis": 0})
    yield Call("nothing before", "f32", (t(0, 3), torch.ones(3)), torch.zeros(3))
    yield Call("nothing after", "f32", (t(2, 3, 0), torch.ones(3)), torch.zeros(3))
    yield Call("an empty axis", "f32", (t(3, 0), t(0)), t(0))
    yield Call("gb too long", "f32", (gy, torch.empty(4)), None)
    yield Call("gb of rank 2", "f32", (gy, torch.empty(1, 3)), None)
    yield Call("axis beyond the rank", "f32", (gy, torch.empty(3)), None, {"axis": -3})
    yield Call("gy is not dense", "f32", (t(3, 5).T, torch.empty(3)), None)
    yield Call("dtypes differ", "f32", (gy, torch.empty(3).half()), None)


@pytest.mark.parametrize("c", by_name(bias_adds()))
def test_bias_add(c: Call) -> None:
    check_call("bias_add", c)


@pytest.mark.parametrize("c", by_name(bias_add_bwds()))
def test_bias_add_bwd(c: Call) -> None:
    check_call("bias_add_bwd", c)
