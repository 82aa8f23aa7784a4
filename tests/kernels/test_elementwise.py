"""add, relu, relu_bwd, gelu_bwd, scale and copy: shapes by layouts by dtypes, against float64."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from kernels import references
from kernels.calls import call, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, empty, poisoned, random, tensor_of
from kernels.tolerance import assert_close, assert_same

pytestmark = [pytest.mark.guests("torch")]

# Shapes, each there for a reason.
SHAPES = [
    (0,),  # nothing
    (1,),  # one element: all strides are 0
    (7,),  # odd, shorter than any vector
    (15,), (16,), (17,),  # a vector of f16, one less, one more
    (257,),  # prime: no unrolling fits
    (5, 7),  # odd rows: every row starts at another alignment
    (3, 1, 5),  # a dim of size 1 in between
    (2, 3, 4, 5),  # rank 4, nothing merges where it is permuted
    (2, 1, 2, 3, 1, 2, 2, 3),  # rank 8: the most that a view has
    (33, 1025),  # several parts, lines longer than a vector by one
    (100_003,),  # prime and longer than a part: the last part is odd
]  # fmt: skip

INPUT_LAYOUTS = ("dense", "odd", "reversed", "stepped", "pitched", "broadcast")
OUT_LAYOUTS = ("dense", "odd", "reversed", "stepped")


def some_layouts(count: int, shape: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Layouts of `count` inputs and an out: all alike, and every pair once, elsewhere dense."""
    if math.prod(shape) > 10_000:
        return [("dense",) * (count + 1), ("odd",) * (count + 1), ("stepped",) * count + ("dense",)]
    alike = [(layout,) * (count + 1) for layout in OUT_LAYOUTS]
    mixed = [
        (first, *("dense",) * (count - 1), out)
        for first, out in itertools.product(INPUT_LAYOUTS, OUT_LAYOUTS)
    ]
    turned = [("dense",) * (count - 1) + (last, "dense") for last in INPUT_LAYOUTS]
    return list(dict.fromkeys([*alike, *mixed, *turned]))


@pytest.mark.promise("A3", "KERNELS-elementwise")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_add(device: str, shape: tuple[int, ...], dtype: str) -> None:
    skip_without(dtype, device)
    for layouts in some_layouts(2, shape):
        a = random(shape, dtype, device, layouts[0], seed=1)
        b = random(shape, dtype, device, layouts[1], seed=2)
        out = poisoned(shape, dtype, device, layouts[2])
        call("add", dtype, a, b, out)
        want = references.add(array_of(a), array_of(b))
        assert_close(array_of(out), want, dtype, f"add {layouts}")


@pytest.mark.promise("A3", "KERNELS-elementwise")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "op, approx", [("relu_bwd", None), ("gelu_bwd", "none"), ("gelu_bwd", "tanh")]
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backward_of_activations(
    device: str, shape: tuple[int, ...], op: str, approx: str | None, dtype: str
) -> None:
    skip_without(dtype, device)
    options = {"approx": approx} if approx else {}
    for layouts in some_layouts(2, shape):
        gy = random(shape, dtype, device, layouts[0], seed=1)
        y = random(shape, dtype, device, layouts[1], seed=2)
        gx = poisoned(shape, dtype, device, layouts[2])
        call(op, dtype, gy, y, gx, **options)
        want = getattr(references, op)(array_of(gy), array_of(y), **options)
        assert_close(array_of(gx), want, dtype, f"{op} {approx} {layouts}")


@pytest.mark.promise("A3", "KERNELS-elementwise")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["relu", "scale"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_unary(device: str, shape: tuple[int, ...], op: str, dtype: str) -> None:
    skip_without(dtype, device)
    options = {"factor": -1.7} if op == "scale" else {}
    for layouts in some_layouts(1, shape):
        x = random(shape, dtype, device, layouts[0])
        out = poisoned(shape, dtype, device, layouts[1])
        call(op, dtype, x, out, **options)
        want = getattr(references, op)(array_of(x), **options)
        assert_close(array_of(out), want, dtype, f"{op} {layouts}")


@pytest.mark.promise("A3", "KERNELS-elementwise")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_copy(device: str, shape: tuple[int, ...], dtype: str) -> None:
    for layouts in some_layouts(1, shape):
        x = random(shape, dtype, device, layouts[0])
        out = poisoned(shape, dtype, device, layouts[1])
        call("copy", dtype, x, out)
        assert_same(array_of(out), array_of(x), f"copy {dtype} {layouts}")


@pytest.mark.promise("KERNELS-elementwise")
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "i64"])
@pytest.mark.parametrize(
    "shape", [(64, 64), (65, 127), (300, 1000), (3, 130, 70), (1000, 3)], ids=str
)
@pytest.mark.parametrize("layout", ["swapped", "reversed"])
def test_transposing_copy(device: str, shape: tuple[int, ...], layout: str, dtype: str) -> None:
    """Tiles that fit, that are cut on one side or both, a batch, lines too short for any."""
    for layouts in [(layout, "dense"), ("dense", layout)]:
        x = random(shape, dtype, device, layouts[0])
        out = poisoned(shape, dtype, device, layouts[1])
        call("copy", dtype, x, out)
        assert_same(array_of(out), array_of(x), f"copy {dtype} {layouts}")


FLIPS = [
    (slice(None, None, -1),),
    (slice(None), slice(None, None, -1)),
    (slice(None, None, -1), slice(None, None, -1)),
    (slice(None, None, -2), slice(1, None, 3)),
]


@pytest.mark.promise("KERNELS-elementwise")
@pytest.mark.parametrize("kind, dtype", [("f4", "f32"), ("f2", "f16"), ("f8", "f64")])
@pytest.mark.parametrize("shape", [(7, 5), (40, 1030), (6, 4, 3)], ids=str)
def test_strides_below_0(shape: tuple[int, ...], kind: str, dtype: str) -> None:
    """Which numpy has and torch has not: of inputs, of outs, of both."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(shape).astype(kind) for _ in range(2))
    for first, second in itertools.product([(), *FLIPS], FLIPS):
        a = x[first]
        b = y[first]
        out = np.full(shape, np.nan, kind)[second]
        if a.shape != out.shape:
            continue
        call("add", dtype, a, b[::-1], out)
        want = a.astype(np.float64) + b[::-1].astype(np.float64)
        assert_close(out.astype(np.float64), want, dtype, f"add {first} {second}")
        call("relu", dtype, a, out)
        assert_same(out.astype(np.float64), np.where(a < 0, 0, a), f"relu {first} {second}")
        call("copy", dtype, a, out)
        assert_same(out.astype(np.float64), a.astype(np.float64), f"copy {first} {second}")


# Shapes of a and b that broadcast: a number, a row, a column, both ways, a higher rank on a side.
BROADCASTS = [
    ((), (3,)),
    ((5, 7), (7,)),
    ((5, 7), (5, 1)),
    ((5, 1), (1, 7)),
    ((1,), (2, 3, 4)),
    ((4, 1, 6), (5, 1)),
    ((2, 1, 3, 1), (1, 4, 1, 5)),
    ((8, 1, 1025), (1, 3, 1)),
    ((1, 0, 3), (2, 1, 3)),
]


@pytest.mark.promise("KERNELS-elementwise")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
def test_add_broadcasts(
    device: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str
) -> None:
    skip_without(dtype, device)
    for first, second in [shapes, shapes[::-1]]:
        a = random(first, dtype, device, seed=1)
        b = random(second, dtype, device, seed=2)
        shape = np.broadcast_shapes(first, second)
        for layout in OUT_LAYOUTS:
            out = poisoned(shape, dtype, device, layout)
            call("add", dtype, a, b, out)
            want = references.add(array_of(a), array_of(b))
            assert_close(array_of(out), want, dtype, f"add {first} + {second} {layout}")


@pytest.mark.promise("KERNELS-in-place")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", OUT_LAYOUTS)
@pytest.mark.parametrize("shape", [(1,), (17,), (40_001,), (5, 7)], ids=str)
def test_out_may_be_an_input(device: str, shape: tuple[int, ...], layout: str, dtype: str) -> None:
    skip_without(dtype, device)
    x, y = (random(shape, dtype, device, layout, seed) for seed in (1, 2))
    xs, ys = array_of(x), array_of(y)

    def kept(t: torch.Tensor) -> torch.Tensor:
        return empty(shape, dtype, device, layout).copy_(t)

    for op, want in [
        ("add", references.add(xs, ys)),
        ("relu_bwd", references.relu_bwd(xs, ys)),
        ("gelu_bwd", references.gelu_bwd(xs, ys)),
    ]:
        first, second = kept(x), kept(y)
        call(op, dtype, first, y, first)
        assert_close(array_of(first), want, dtype, f"{op}, out is the first")
        call(op, dtype, x, second, second)
        assert_close(array_of(second), want, dtype, f"{op}, out is the second")
    both = kept(x)
    call("add", dtype, both, both, both)
    assert_close(array_of(both), 2 * xs, dtype, "add, one tensor for all three")
    for op, want, options in [
        ("relu", references.relu(xs), {}),
        ("scale", references.scale(xs, 0.5), {"factor": 0.5}),
    ]:
        both = kept(x)
        call(op, dtype, both, both, **options)
        assert_close(array_of(both), want, dtype, f"{op} in place")


NAN, INF = math.nan, math.inf


@pytest.mark.promise("KERNELS-special-values")
@pytest.mark.parametrize("dtype", FLOATS)
def test_relu_of_the_odd_values(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    values = np.array(
        [NAN, -INF, -1.0, -0.0, 0.0, 1.0, INF, NAN] * 5
    )  # NaN in vectors and in tails
    x = tensor_of(values, dtype, device)
    out = tensor_of(np.full(values.shape, 7.0), dtype, device)
    call("relu", dtype, x, out)
    assert_same(array_of(out), references.relu(values), f"relu {dtype}")


@pytest.mark.promise("KERNELS-special-values")
@pytest.mark.parametrize("dtype", FLOATS)
def test_relu_bwd_of_the_odd_values(device: str, dtype: str) -> None:
    """As ATen's threshold_backward: a NaN y lets gy pass, and no gy turns the 0 into NaN."""
    skip_without(dtype, device)
    y = np.array([NAN, -INF, -1.0, -0.0, 0.0, 1.0, INF, -1.0, -1.0, 1.0, 1.0] * 5)
    gy = np.array([2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, NAN, INF, NAN, -INF] * 5)
    given = [tensor_of(v, dtype, device) for v in (gy, y)]
    gx = tensor_of(np.full(y.shape, 7.0), dtype, device)
    call("relu_bwd", dtype, *given, gx)
    assert_same(array_of(gx), references.relu_bwd(gy, y), f"relu_bwd {dtype}")
    peer = torch.ops.aten.threshold_backward(*given, 0)
    assert_same(array_of(gx), array_of(peer), f"relu_bwd {dtype} and ATen")


@pytest.mark.promise("KERNELS-special-values")
@pytest.mark.parametrize("approx", ["none", "tanh"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_gelu_bwd_at_the_ends(device: str, dtype: str, approx: str) -> None:
    skip_without(dtype, device)
    far = 6e4 if dtype == "f16" else 1e20
    y = np.array([1e4, -1e4, far, -far, INF, -INF, NAN, 709.0, -709.0, 40.0, -40.0, 0.0, -0.0])
    want = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, NAN, 1.0, 0.0, 1.0, 0.0, 0.5, 0.5])
    for factor in (1.0, -3.0):
        gy = tensor_of(np.full(y.shape, factor), dtype, device)
        gx = tensor_of(np.full(y.shape, 7.0), dtype, device)
        call("gelu_bwd", dtype, gy, tensor_of(y, dtype, device), gx, approx=approx)
        assert_same(array_of(gx), factor * want, f"gelu_bwd {approx} {dtype}")


@pytest.mark.promise("KERNELS-special-values")
@pytest.mark.parametrize("approx", ["none", "tanh"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_gelu_bwd_over_its_whole_range(device: str, dtype: str, approx: str) -> None:
    skip_without(dtype, device)
    y = tensor_of(np.linspace(-15, 15, 30_001), dtype, device)
    gy = tensor_of(np.ones(30_001), dtype, device)
    gx = poisoned(y.shape, dtype, device)
    call("gelu_bwd", dtype, gy, y, gx, approx=approx)
    want = references.gelu_bwd(array_of(gy), array_of(y), approx)
    assert_close(array_of(gx), want, dtype, f"gelu_bwd {approx}")


@pytest.mark.promise("KERNELS-scalar")
@pytest.mark.parametrize("dtype", FLOATS)
def test_scale_takes_a_number_and_a_tensor_of_one(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    x = random((33,), dtype, device)
    kind = "f64" if dtype == "f64" else "f32"  # acc(T)
    for factor in (0.0, 1.0, -1.0, 1 / 3, 1e-3, INF):
        for given in (factor, tensor_of(np.array(factor), kind, device)):
            out = poisoned(x.shape, dtype, device)
            call("scale", dtype, x, out, factor=given)
            rounded = factor if dtype == "f64" else float(np.float32(factor))
            assert_close(array_of(out), array_of(x) * rounded, dtype, f"scale by {given!r}")
            if dtype == "f64":  # the factor is whole: a tolerance would not see it cut to f32
                assert_same(array_of(out), array_of(x) * factor, f"scale by {given!r}")


@pytest.mark.promise("KERNELS-elementwise")
def test_copy_of_a_bool_writes_0_or_1(device: str) -> None:
    x = torch.arange(256, dtype=torch.uint8, device=device).view(torch.bool)
    out = torch.full((256,), 7, dtype=torch.uint8, device=device).view(torch.bool)
    call("copy", "bool", x, out)
    bits = out.view(torch.uint8).cpu()
    assert bits.tolist() == [0] + [1] * 255


@pytest.mark.promise("KERNELS-elementwise")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_copy_keeps_every_bit_pattern(device: str, dtype: str) -> None:
    bits = torch.arange(65536, dtype=torch.int32).to(torch.int16).to(device)
    out = torch.zeros_like(bits)
    call("copy", dtype, bits.view(DTYPES[dtype]), out.view(DTYPES[dtype]))
    assert torch.equal(out, bits)
