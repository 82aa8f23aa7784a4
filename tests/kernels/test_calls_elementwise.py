"""Calls of add, relu, relu_bwd, gelu_bwd, scale and copy, written by hand: the verdict is what
numpy or torch say of them, and of writing into that out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from kernels.calls import Call, by_name, check_call

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("KERNELS-calls")]

aten = torch.ops.aten


def t(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(float(np.prod(shape))).reshape(shape).sub(3).div(4).to(dtype)


def n(*shape: int, dtype: str = "f4") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) - 3).astype(dtype)


def adds() -> Iterator[Call]:
    a, b = t(2, 3), t(2, 3) * 5
    yield Call("two matrices", "f32", (a, b, torch.empty(2, 3)), a + b)
    yield Call("numbers", "f32", (t(), t(), torch.empty(())), t() + t())
    yield Call("a row", "f32", (a, t(3), torch.empty(2, 3)), a + t(3))
    yield Call("a column", "f32", (a, t(2, 1), torch.empty(2, 3)), a + t(2, 1))
    yield Call("outer", "f32", (t(2, 1), t(1, 3), torch.empty(2, 3)), t(2, 1) + t(1, 3))
    yield Call(
        "higher rank second", "f32", (t(3), t(4, 1, 3), torch.empty(4, 1, 3)), t(3) + t(4, 1, 3)
    )
    yield Call("nothing", "f32", (t(0), t(0), torch.empty(0)), t(0))
    yield Call("nothing and one", "f32", (t(2, 0), t(1, 1), torch.empty(2, 0)), t(2, 0))
    yield Call(
        "f64", "f64", (a.double(), b.double(), torch.empty(2, 3).double()), a.double() + b.double()
    )
    yield Call("f16", "f16", (a.half(), b.half(), torch.empty(2, 3).half()), a.half() + b.half())
    yield Call(
        "bf16",
        "bf16",
        (a.bfloat16(), b.bfloat16(), torch.empty(2, 3).bfloat16()),
        a.bfloat16() + b.bfloat16(),
    )
    yield Call("numpy", "f32", (n(2, 3), n(2, 3), n(2, 3)), n(2, 3) + n(2, 3))
    yield Call("numpy backwards", "f32", (n(7)[::-1], n(7), n(7)), n(7)[::-1] + n(7))
    yield Call("numpy into backwards", "f32", (n(7), n(7), n(7)[::-1]), n(7) + n(7))
    yield Call(
        "numpy both flipped",
        "f32",
        (n(4, 5)[::-1, ::-1], n(4, 5)[:, ::-1], n(4, 5)),
        n(4, 5)[::-1, ::-1] + n(4, 5)[:, ::-1],
    )
    yield Call(
        "numpy and torch", "f32", (n(2, 3), a, torch.empty(2, 3)), torch.from_numpy(n(2, 3)) + a
    )
    yield Call("transposed", "f32", (t(3, 2).T, b, torch.empty(2, 3)), t(3, 2).T + b)
    yield Call("into transposed", "f32", (a, b, torch.empty(3, 2).T), a + b)
    yield Call("expanded", "f32", (t(1).expand(2, 3), b, torch.empty(2, 3)), t(1) + b)
    own = a.clone()
    yield Call("in place", "f32", (own, b, own), a + b)
    yield Call("onto itself twice", "f32", ((two := b.clone()), two, two), b + b)
    yield Call("shapes that do not broadcast", "f32", (t(2, 3), t(2, 2), torch.empty(2, 3)), None)
    yield Call("out too small", "f32", (a, b, torch.empty(2, 2)), None)
    yield Call("out too large", "f32", (a, b, torch.empty(2, 4)), None)
    yield Call("out of the wrong rank", "f32", (a, b, torch.empty(1, 2, 3)), None)
    yield Call("out must not be broadcast", "f32", (a, b, torch.empty(1, 3)), None)
    yield Call("a of another dtype", "f32", (a.double(), b, torch.empty(2, 3)), None)
    yield Call("out of another dtype", "f32", (a, b, torch.empty(2, 3).half()), None)
    yield Call("integers", "f32", (a.int(), b.int(), torch.empty(2, 3).int()), None)
    yield Call("out expanded", "f32", (a, b, torch.empty(1, 3).expand(2, 3)), None)
    shifted = torch.arange(10.0)
    yield Call("out a step beside a", "f32", (shifted[:8], t(8), shifted[1:9]), None)
    fixed = n(2, 3)
    fixed.flags.writeable = False
    yield Call("read-only out", "f32", (a, b, fixed), None)
    yield Call(
        "read-only input", "f32", (fixed, b, torch.empty(2, 3)), torch.from_numpy(n(2, 3)) + b
    )
    swapped = n(2, 3).astype(">f4")
    yield Call("foreign byte order", "f32", (swapped, b, torch.empty(2, 3)), None)


def relus() -> Iterator[Call]:
    for dtype, kind in [
        ("f32", torch.float32),
        ("f16", torch.float16),
        ("bf16", torch.bfloat16),
        ("f64", torch.float64),
    ]:
        for shape in [(), (1,), (8,), (3, 5), (0, 4)]:
            x = t(*shape, dtype=kind)
            yield Call(f"{dtype} {shape}", dtype, (x, torch.empty_like(x)), torch.relu(x))
    x = t(4, 6)
    yield Call("every second column", "f32", (x[:, ::2], torch.empty(4, 3)), torch.relu(x[:, ::2]))
    yield Call(
        "into every second column", "f32", (t(4, 3), torch.empty(4, 6)[:, ::2]), torch.relu(t(4, 3))
    )
    yield Call("numpy", "f32", (n(5), n(5)), np.maximum(n(5), 0))
    yield Call(
        "numpy backwards",
        "f64",
        (n(5, dtype="f8")[::-1], n(5, dtype="f8")),
        np.maximum(n(5), 0)[::-1],
    )
    yield Call(
        "nan and infinities",
        "f32",
        (np.array([-np.inf, -1, -0.0, np.nan], "f4"), n(4)),
        np.array([0, 0, 0, np.nan]),
    )
    own = x.clone()
    yield Call("in place", "f32", (own, own), torch.relu(x))
    yield Call("a longer out", "f32", (t(4), torch.empty(5)), None)
    yield Call("a shorter out", "f32", (t(4), torch.empty(3)), None)
    yield Call("broadcast is not for relu", "f32", (t(1), torch.empty(3)), None)
    yield Call("transposed out shape", "f32", (t(2, 3), torch.empty(3, 2)), None)
    yield Call("another dtype", "f64", (t(4), torch.empty(4)), None)
    wide = torch.arange(9.0)
    yield Call("overlapping by one", "f32", (wide[1:], wide[:-1]), None)


def relu_bwds() -> Iterator[Call]:
    for dtype, kind in [
        ("f32", torch.float32),
        ("f16", torch.float16),
        ("bf16", torch.bfloat16),
        ("f64", torch.float64),
    ]:
        for shape in [(), (9,), (2, 8), (0,)]:
            gy, y = t(*shape, dtype=kind) + 2, t(*shape, dtype=kind)
            want = aten.threshold_backward(gy, y, 0)
            yield Call(f"{dtype} {shape}", dtype, (gy, y, torch.empty_like(y)), want)
    gy, y = t(4, 6) + 2, t(4, 6)
    want = aten.threshold_backward(gy, y, 0)
    yield Call("gy transposed", "f32", ((gy.T.contiguous()).T, y, torch.empty(4, 6)), want)
    yield Call(
        "gy one for all", "f32", (torch.ones(1).expand(4, 6), y, torch.empty(4, 6)), (y > 0).float()
    )
    own = gy.clone()
    yield Call("into gy", "f32", (own, y, own), want)
    own = y.clone()
    yield Call("into y", "f32", (gy, own, own), want)
    yield Call(
        "nan",
        "f32",
        (torch.ones(3), torch.tensor([np.nan, -np.nan, 1]), torch.empty(3)),
        torch.ones(3),
    )
    yield Call("shapes differ", "f32", (t(4), t(5), torch.empty(5)), None)
    yield Call("no broadcasting", "f32", (t(1), t(5), torch.empty(5)), None)
    yield Call("out of another shape", "f32", (t(5), t(5), torch.empty(5, 1)), None)
    yield Call("dtypes differ", "f32", (t(5), t(5).double(), torch.empty(5)), None)


def gelu_bwds() -> Iterator[Call]:
    for approx in ("none", "tanh"):
        for dtype, kind in [
            ("f32", torch.float32),
            ("f16", torch.float16),
            ("bf16", torch.bfloat16),
            ("f64", torch.float64),
        ]:
            for shape in [(), (17,), (3, 4)]:
                gy, y = t(*shape, dtype=kind) + 2, t(*shape, dtype=kind)
                want = aten.gelu_backward(gy.double(), y.double(), approximate=approx)
                yield Call(
                    f"{approx} {dtype} {shape}",
                    dtype,
                    (gy, y, torch.empty_like(y)),
                    want,
                    {"approx": approx},
                )
    y = torch.linspace(-8, 8, 33)
    want = aten.gelu_backward(torch.ones(33), y)
    yield Call("approx left out", "f32", (torch.ones(33), y, torch.empty(33)), want)
    yield Call("nothing", "f32", (t(0), t(0), t(0)), t(0))
    own = y.clone()
    yield Call("into y", "f32", (torch.ones(33), own, own), want)
    yield Call("shapes differ", "f32", (t(4), t(5), torch.empty(5)), None)
    yield Call("dtypes differ", "f32", (t(5), t(5).half(), torch.empty(5)), None)


def scales() -> Iterator[Call]:
    x = t(3, 5)
    for factor in (0, 1, -1, 2, 0.5, 1e-3, 1e30, -0.0):
        yield Call(f"by {factor!r}", "f32", (x, torch.empty(3, 5)), x * factor, {"factor": factor})
    yield Call(
        "by infinity", "f32", (x + 0.1, torch.empty(3, 5)), (x + 0.1) * np.inf, {"factor": np.inf}
    )
    yield Call("by nan", "f32", (x, torch.empty(3, 5)), x * np.nan, {"factor": np.nan})
    yield Call("by a tensor", "f32", (x, torch.empty(3, 5)), x * 3, {"factor": torch.tensor(3.0)})
    yield Call(
        "by a tensor of one",
        "f32",
        (x, torch.empty(3, 5)),
        x * 3,
        {"factor": torch.tensor([[3.0]])},
    )
    yield Call("by numpy's number", "f32", (x, torch.empty(3, 5)), x * 3, {"factor": np.float64(3)})
    yield Call(
        "by an array of one", "f32", (x, torch.empty(3, 5)), x * 3, {"factor": np.array([3], "f4")}
    )
    half = x.half()
    yield Call(
        "f16, factor in f32",
        "f16",
        (half, torch.empty_like(half)),
        half * 1.001,
        {"factor": torch.tensor(1.001)},
    )
    yield Call(
        "bf16",
        "bf16",
        (x.bfloat16(), torch.empty(3, 5).bfloat16()),
        x.bfloat16() * 0.3,
        {"factor": 0.3},
    )
    yield Call(
        "f64 keeps the factor whole",
        "f64",
        (x.double(), torch.empty(3, 5).double()),
        x.double() * (1 / 3),
        {"factor": 1 / 3},
    )
    own = x.clone()
    yield Call("in place", "f32", (own, own), x * 2, {"factor": 2})
    yield Call("nothing", "f32", (t(0), torch.empty(0)), t(0), {"factor": 2})
    yield Call(
        "a factor of two elements", "f32", (x, torch.empty(3, 5)), None, {"factor": torch.ones(2)}
    )
    yield Call(
        "a factor of another dtype",
        "f16",
        (half, torch.empty_like(half)),
        None,
        {"factor": torch.ones((), dtype=torch.float16)},
    )
    yield Call("out of another shape", "f32", (x, torch.empty(5, 3)), None, {"factor": 2})


def copies() -> Iterator[Call]:
    for dtype, kind in [
        ("f32", torch.float32),
        ("f64", torch.float64),
        ("f16", torch.float16),
        ("bf16", torch.bfloat16),
        ("i8", torch.int8),
        ("u8", torch.uint8),
        ("i16", torch.int16),
        ("i32", torch.int32),
        ("i64", torch.int64),
        ("bool", torch.bool),
    ]:
        x = torch.arange(12).reshape(3, 4).to(kind)
        yield Call(f"{dtype}", dtype, (x, torch.zeros_like(x)), x)
        yield Call(f"{dtype} transposed", dtype, (x.T, torch.zeros(4, 3, dtype=kind)), x.T)
    x = t(3, 4)
    yield Call("into transposed", "f32", (x, torch.zeros(4, 3).T), x)
    yield Call("expanded", "f32", (t(4).expand(3, 4), torch.zeros(3, 4)), t(4).expand(3, 4))
    yield Call("backwards", "f32", (n(9)[::-1], n(9)), n(9)[::-1])
    yield Call("into backwards", "f32", (n(9), n(9)[::-1]), n(9))
    yield Call(
        "nothing",
        "i32",
        (torch.zeros(0, dtype=torch.int32), torch.zeros(0, dtype=torch.int32)),
        torch.zeros(0),
    )
    yield Call("no conversion", "f32", (t(4), torch.zeros(4, dtype=torch.float64)), None)
    yield Call("no broadcasting", "f32", (t(4), torch.zeros(3, 4)), None)
    yield Call("onto itself", "f32", ((same := t(4)), same), None)
    signed = torch.arange(4, dtype=torch.int8)
    yield Call("u8 is not i8", "u8", (signed, signed.clone()), None)


@pytest.mark.parametrize("c", by_name(adds()))
def test_add(c: Call) -> None:
    check_call("add", c)


@pytest.mark.parametrize("c", by_name(relus()))
def test_relu(c: Call) -> None:
    check_call("relu", c)


@pytest.mark.parametrize("c", by_name(relu_bwds()))
def test_relu_bwd(c: Call) -> None:
    check_call("relu_bwd", c)


@pytest.mark.parametrize("c", by_name(gelu_bwds()))
def test_gelu_bwd(c: Call) -> None:
    check_call("gelu_bwd", c)


@pytest.mark.parametrize("c", by_name(scales()))
def test_scale(c: Call) -> None:
    check_call("scale", c)


@pytest.mark.parametrize("c", by_name(copies()))
def test_copy(c: Call) -> None:
    check_call("copy", c)
