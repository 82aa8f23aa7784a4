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


# ---- integers ------------------------------------------------------------------------------------

INTS = ("i8", "u8", "i16", "i32", "i64")


@pytest.mark.promise("KERNELS-elementwise-wrap")
@pytest.mark.parametrize("dtype", INTS)
def test_integers_wrap(device: str, dtype: str) -> None:
    """The ends of the range by each other, in packs, tails and element by element."""
    ends = torch.iinfo(DTYPES[dtype])
    corners = [ends.min, ends.min + 1, -1 if ends.min else 1, 0, 1, 2, 3, ends.max - 1, ends.max]
    pairs = torch.tensor(list(itertools.product(corners, corners)), dtype=DTYPES[dtype])
    x, y = pairs.to(device).T.contiguous()
    for op in ("add", "sub", "mul"):
        want = getattr(torch, op)(*pairs.T)
        for layout in ("dense", "odd", "stepped"):
            out = poisoned(x.shape, dtype, device, layout)
            call(op, dtype, x, y, out)
            assert torch.equal(out.cpu(), want), f"{op} {dtype} {layout}"


# ---- cast ----------------------------------------------------------------------------------------


def reals(dtype: str, device: str) -> torch.Tensor:
    """Both sides of every end of an integer's range, halves, NaN and infinities."""
    powers = [2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64)]
    near = [s * (p + d) for p in powers for d in (-1, -0.5, 0, 0.5, 1) for s in (1, -1)]
    some = [0.0, -0.0, 0.4, -0.6, 1.5, -1.5, 2.5, 300.7, -300.7, NAN, INF, -INF, 1e-7, 65519.0]
    return torch.tensor([*near, *some], dtype=torch.float64).to(DTYPES[dtype]).to(device)


def integers(dtype: str, device: str) -> torch.Tensor:
    if dtype == "bool":
        return torch.tensor([True, False] * 33, device=device)
    ends = torch.iinfo(DTYPES[dtype])
    powers = [s * 2**k + d for k in range(64) for d in (-1, 0, 1) for s in (1, -1)]
    found = [p for p in [*powers, ends.min, ends.max] if ends.min <= p <= ends.max]
    return torch.tensor(found, dtype=DTYPES[dtype], device=device)


def cast_of(x: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """torch's, on the CPU; reals to integers end at the ends of the range, NaN is 0."""
    x = x.cpu()
    if not x.dtype.is_floating_point or kind.is_floating_point or kind == torch.bool:
        return x.to(kind)
    ends = torch.iinfo(kind)
    whole = [0 if math.isnan(v) else max(ends.min, min(ends.max, int(v) if math.isfinite(v) else
             (ends.max if v > 0 else ends.min))) for v in x.double().tolist()]  # fmt: skip
    return torch.tensor(whole, dtype=kind)


@pytest.mark.promise("KERNELS-elementwise-cast")
@pytest.mark.parametrize("source", DTYPES)
def test_cast(device: str, source: str) -> None:
    """To every dtype, with one phase and with two, and between views with gaps."""
    skip_without(source, device)
    x = reals(source, device) if source in FLOATS else integers(source, device)
    for target, kind in DTYPES.items():
        if device == "cuda" and target == "f64":
            continue
        want = cast_of(x, kind)
        for first, second in [("dense", "dense"), ("odd", "dense"), ("stepped", "stepped")]:
            given = empty(x.shape, source, device, first).copy_(x)
            out = poisoned(x.shape, target, device, second)
            call("cast", f"{source}_{target}", given, out)
            wrong = ~((out.cpu() == want) | ((out.cpu() != out.cpu()) & (want != want)))
            assert not wrong.any(), (
                f"{source} to {target}, {first} to {second}: {x.cpu()[wrong]} became "
                f"{out.cpu()[wrong]}, want {want[wrong]}"
            )


# ---- where, fill ---------------------------------------------------------------------------------


@pytest.mark.promise("KERNELS-elementwise-where")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["dense", "odd", "stepped", "pitched"])
def test_what_is_not_chosen_has_no_say(device: str, layout: str, dtype: str) -> None:
    shape = (9, 67)
    cond = (torch.arange(9 * 67, device=device) % 3 == 0).view(shape)
    sides = [random(shape, dtype, device, layout, seed) for seed in (1, 2)]
    want = torch.where(cond, sides[0], sides[1])
    sides[0].masked_fill_(~cond, NAN)
    sides[1].masked_fill_(cond, NAN)
    out = poisoned(shape, dtype, device, layout)
    call("where", dtype, cond, *sides, out)
    assert torch.equal(out, want)
    for given, kept in [((sides[0], None), cond), ((None, sides[1]), ~cond)]:
        call("where", dtype, cond, *given, out)
        assert torch.equal(out, torch.where(kept, want, torch.zeros_like(want)))
    call("where", dtype, cond, *sides, sides[1])  # in place
    assert torch.equal(sides[1], want)


@pytest.mark.promise("KERNELS-elementwise-where")
def test_any_byte_but_0_is_true(device: str) -> None:
    bytes_ = torch.arange(256, dtype=torch.uint8, device=device)
    x, y = random((256,), "f32", device, seed=1), random((256,), "f32", device, seed=2)
    out = poisoned((256,), "f32", device)
    call("where", "f32", bytes_.view(torch.bool), x, y, out)
    assert torch.equal(out, torch.where(bytes_ != 0, x, y))
    chosen = torch.full((256,), 7, dtype=torch.uint8, device=device)
    call("where", "bool", bytes_.view(torch.bool), bytes_.view(torch.bool), None,
         chosen.view(torch.bool))  # fmt: skip
    assert chosen.tolist() == [0] + [1] * 255
    call("cast", "bool_i8", bytes_.view(torch.bool), chosen.view(torch.int8))
    assert chosen.tolist() == [0] + [1] * 255


@pytest.mark.promise("KERNELS-elementwise-fill")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 4099])
def test_fill(device: str, count: int, dtype: str) -> None:
    """By a number and by what is on the device; what lies beside is as it was."""
    kind = DTYPES[dtype]
    value = True if dtype == "bool" else 5
    for given in (value, torch.tensor([value], dtype=kind, device=device)):
        for first in (0, 1, 3):
            memory = torch.zeros(count + 5, dtype=kind, device=device)
            call("fill", dtype, memory[first : first + count], value=given)
            assert bool((memory[first : first + count] == value).all())
            assert int((memory != 0).sum()) == count, f"{count} from {first}"
        rows = torch.zeros(6, 2 * count + 1, dtype=kind, device=device)
        call("fill", dtype, rows[::2, 1::2], value=given)
        assert bool((rows[::2, 1::2] == value).all())
        assert int((rows != 0).sum()) == 3 * count


@pytest.mark.promise("KERNELS-elementwise-fill")
def test_fill_with_what_is_no_number(device: str) -> None:
    for dtype in ("f32", "f16", "bf16"):
        for value in (NAN, INF, -INF, -0.0, 0.1):
            x = torch.zeros(37, dtype=DTYPES[dtype], device=device)
            call("fill", dtype, x, value=value)
            assert_same(array_of(x), array_of(torch.full_like(x, value)), f"fill {value}")


# ---- large ---------------------------------------------------------------------------------------

MANY = 2**31 + 4099


def ends_of(x: torch.Tensor) -> list[torch.Tensor]:
    """Where indexes of 32 bits, with a sign and without, go wrong, and the ends."""
    return [x[:5000], x[2**31 - 5000 : 2**31 + 4099], x[-5000:]]


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-elementwise-large")
@pytest.mark.parametrize("op", ["sub", "silu", "silu_bwd", "cast", "where", "fill", "strided"])
@pytest.mark.large
def test_more_elements_than_32_bits_count(op: str) -> None:
    """One op of each kernel, in two bytes or one an element."""
    x = torch.zeros(MANY + 1, dtype=torch.bfloat16, device="cuda")
    for part in ends_of(x):
        part.normal_()
    x = x[:MANY]
    out = torch.full((MANY + 1,), NAN, dtype=torch.bfloat16, device="cuda")
    want: list[torch.Tensor]
    if op == "cast":
        codes = torch.full((MANY,), 7, dtype=torch.int8, device="cuda")
        call("cast", "bf16_i8", x, codes)
        want = [x_.to(torch.int8) for x_ in ends_of(x)]
        assert all(torch.equal(a, b) for a, b in zip(ends_of(codes), want, strict=True))
        call("cast", "i8_bf16", codes, out[1:], kernel="strided")  # another phase
        out = out[1:]
        want = [a.to(torch.bfloat16) for a in ends_of(codes)]
    elif op == "fill":
        call("fill", "bf16", out, value=3.0)
        want = [torch.full_like(part, 3.0) for part in ends_of(out[:MANY])]
        out = out[:MANY]
    elif op == "strided":  # element by element, in parts
        call("neg", "bf16", x, out[1:], kernel="strided")
        out = out[1:]
        want = [-part for part in ends_of(x)]
    else:
        out = out[:MANY]
        args = {"silu": (x,), "where": (x > 0, x, None)}.get(op, (x, x))
        call(op, "bf16", *args, out)
        peers = {
            "sub": lambda p: p - p,
            "silu": torch.nn.functional.silu,
            "silu_bwd": lambda p: torch.ops.aten.silu_backward(p, p),
            "where": torch.relu,
        }
        want = [peers[op](part) for part in ends_of(x)]
    for got, right in zip(ends_of(out), want, strict=True):
        assert_close(array_of(got), array_of(right), "bf16", f"{op} of {MANY}")
    assert not bool(out[5000 : 2**31 - 5000 : 4096].isnan().any())
    del x, out, want
    torch.cuda.empty_cache()


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-elementwise-large")
@pytest.mark.large
def test_rows_of_more_elements_than_32_bits_count() -> None:
    """Rows of packs with a pitch, and a column for all of them."""
    rows, columns = 70_001, 31_003
    x = torch.zeros(rows, columns + 5, dtype=torch.bfloat16, device="cuda")[:, :columns]
    x[-1], x[:, -1] = 3, 5
    y = torch.ones(rows, 1, dtype=torch.bfloat16, device="cuda")
    call("mul", "bf16", x, y, x)
    call("add", "bf16", x, y, x)
    assert bool((x[:-1, :-1] == 1).all())
    assert bool((x[-1, :-1] == 4).all())
    assert bool((x[:, -1] == 6).all())
    torch.cuda.empty_cache()
