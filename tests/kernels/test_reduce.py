"""sum, mean, max, min and argmax over any axes of any view, and the gradient of extrema."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from kernels.calls import call, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, poisoned, random, tensor_of
from kernels.tolerance import EPS, Array, assert_close, assert_same

pytestmark = [pytest.mark.guests("torch")]

INTEGERS = ("i8", "u8", "i16", "i32", "i64")
EXACT = ("max", "min", "argmax")  # no rounding

# Shapes, each there for a reason, and the axes that are tried.
SHAPES: list[tuple[tuple[int, ...], list[tuple[int, ...]]]] = [
    ((), [()]),  # a number
    ((1,), [(0,)]),
    ((31,), [(0,)]), ((33,), [(0,)]),  # a vector of lanes, one less, one more
    ((1031,), [(0,)]),  # a prime, more than a block of lanes
    ((5, 7), [(0,), (1,), (0, 1), ()]),
    ((13, 64), [(0,), (1,)]),  # rows of whole packs
    ((300, 9), [(0,), (1,)]),  # many short rows; few columns
    ((9, 515), [(0,), (1,), (0, 1)]),  # rows with heads and tails
    ((2, 3, 4, 5), [(1,), (0, 2), (1, 3), (2, 3)]),
    ((4, 40, 24), [(1,), (0, 1), (0, 2)]),  # the middle one
    ((2, 40_009), [(0,), (1,), (0, 1)]),  # few long ones, cut into parts
    ((40_009, 2), [(0,), (1,), (0, 1)]),
    ((700, 264), [(0,), (1,)]),  # columns in several blocks and splits
    ((1500, 523), [(0,)]),  # rows at every address, columns in several blocks and splits
    ((2, 300), [(0,)]), ((17, 301), [(0,)]),  # the same, few of them
]  # fmt: skip
LAYOUTS = ("dense", "odd", "reversed", "stepped", "broadcast")


def reference(op: str, x: Array, axes: tuple[int, ...]) -> Array:
    """In float64; argmax over `axes` in x's order."""
    if op == "argmax":
        kept = [d for d in range(x.ndim) if d not in axes]
        lines = np.transpose(x, kept + sorted(axes)).reshape([*(x.shape[d] for d in kept), -1])
        places: Array = np.argmax(lines, axis=-1).astype(np.float64)  # the first of NaN, of equals
        return places
    functions: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
    return np.asarray(functions[op](x, axes))


def out_dtype(op: str, dtype: str) -> str:
    whole = op == "argmax" or (op == "sum" and not DTYPES[dtype].is_floating_point)
    return "i64" if whole else dtype


def check(op: str, x: torch.Tensor, axes: tuple[int, ...], dtype: str, what: str) -> None:
    given = array_of(x)
    want = reference(op, given, axes)
    kind = out_dtype(op, dtype)
    out = poisoned(want.shape, kind, x.device.type)
    call(op, dtype, x, out, axes=list(axes))
    what = f"{op} of {tuple(x.shape)} over {axes} {what}"
    if op in EXACT or dtype in (*INTEGERS, "bool"):
        assert_same(array_of(out), want, what)
        return
    slack = EPS[dtype] * np.asarray(np.sum(np.abs(given), axes))
    slack = slack * (given.size // max(want.size, 1) if op == "sum" else 1)
    assert_close(array_of(out), want, kind, what, slack)


@pytest.mark.promise("KERNELS-reduce-values", "A3")
@pytest.mark.parametrize("dtype", [*FLOATS, "i8", "u8", "i32", "i64", "bool"])
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "argmax"])
def test_values(device: str, op: str, dtype: str) -> None:
    skip_without(dtype, device)
    if (op == "mean" and dtype not in FLOATS) or (op != "sum" and dtype == "bool"):
        return
    layouts = LAYOUTS if dtype in ("f32", "bf16") else ("dense", "reversed")
    for shape, all_axes in SHAPES:
        for layout in layouts if math.prod(shape) < 10_000 else layouts[:2]:
            x = random(shape, dtype, device, layout, seed=3)
            for axes in all_axes:
                check(op, x, axes, dtype, layout)


@pytest.mark.promise("KERNELS-reduce-values")
@pytest.mark.parametrize("op", ["mean", "argmax"])
def test_rank_8_of_odd_sizes(device: str, op: str) -> None:
    for layout in ("dense", "reversed", "stepped"):
        x = random((2, 3, 2, 1, 3, 2, 5, 2), "f32", device, layout)
        for axes in [(0, 2, 4, 6), (1, 3, 5, 7), (0, 7), (3,), (2, 3, 4, 5)]:
            check(op, x, axes, "f32", layout)


@pytest.mark.promise("KERNELS-reduce-values")
@pytest.mark.parametrize("op", ["sum", "max", "argmax"])
def test_strides_below_0(op: str) -> None:
    x = np.random.default_rng(3).standard_normal((9, 40, 33)).astype("f4")
    for view in (x[::-1], x[..., ::-1], x[::-1, ::-2, ::-3], x.T[::-1]):
        for axes in [(0,), (1,), (2,), (0, 2), (0, 1, 2)]:
            want = reference(op, view.astype(np.float64), axes)
            out = np.full(want.shape, 7, "i8" if op == "argmax" else "f4")
            call(op, "f32", view, out, axes=list(axes))
            assert_close(out.astype(np.float64), want, "f32", f"{op} backwards over {axes}", 1e-4)


# ---- of nothing ----------------------------------------------------------------------------------


@pytest.mark.promise("C1", "KERNELS-reduce-empty")
@pytest.mark.parametrize("shape, axes, out", [((0,), [0], ()), ((3, 0), [1], (3,))], ids=str)
def test_of_nothing(device: str, shape: Sequence[int], axes: list[int], out: Sequence[int]) -> None:
    x = random(shape, "f32", device)
    for op, want in (("sum", 0.0), ("mean", math.nan)):
        got = poisoned(out, "f32", device)
        got.fill_(5)
        call(op, "f32", x, got, axes=axes)
        assert_same(array_of(got), np.full(out, want), op)
    import aicf_cuda

    for op, word in (("max", "largest"), ("min", "smallest"), ("argmax", "largest")):
        module = getattr(aicf_cuda, op)
        with pytest.raises(aicf_cuda.Unsupported, match=f"there is no {word} of nothing"):
            getattr(module, op)(x, axes=axes)


@pytest.mark.promise("C1", "KERNELS-reduce-empty")
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "argmax"])
def test_no_outs(device: str, op: str) -> None:
    """Nothing is reduced to nothing: there is nothing to write."""
    out = poisoned((0,), out_dtype(op, "f32"), device)
    call(op, "f32", random((0, 3), "f32", device), out, axes=[1])
    call(op, "f32", random((0, 0), "f32", device), out, axes=[1])


# ---- inputs that broke others --------------------------------------------------------------------


def one(op: str, values: Any, dtype: str, device: str) -> float:
    x = tensor_of(np.asarray(values, np.float64), dtype, device)
    out = poisoned((), out_dtype(op, dtype), device)
    call(op, dtype, x, out)
    return float(array_of(out))


@pytest.mark.promise("KERNELS-reduce-accuracy")
def test_halves_are_summed_in_f32(device: str) -> None:
    assert one("sum", [32000.0] * 4 + [-32000.0] * 4, "f16", device) == 0
    assert one("mean", np.ones(65520), "f16", device) == 1
    assert one("mean", np.full(70_000, 40_000.0), "f16", device) == 40_000
    assert one("mean", np.ones(300), "bf16", device) == 1  # a running bf16 sum stays at 256
    assert one("sum", np.ones(1000), "bf16", device) == 1000


@pytest.mark.promise("KERNELS-reduce-accuracy")
@pytest.mark.parametrize("dtype", ["i8", "u8", "bool", "i32", "i64"])
def test_integers_are_summed_in_64_bits(device: str, dtype: str) -> None:
    largest = {"i8": 127, "u8": 255, "bool": 1, "i32": 2**31 - 1, "i64": 2**45}[dtype]
    assert one("sum", np.full(5000, float(largest)), dtype, device) == 5000 * largest
    x = torch.tensor([2**62, 2**62, 3, -(2**62)], device=device)
    out = poisoned((), "i64", device)
    call("sum", "i64", x, out)
    assert int(out) == 2**62 + 3


@pytest.mark.promise("KERNELS-reduce-accuracy")
def test_a_bool_is_true_whatever_its_byte(device: str) -> None:
    x = torch.tensor([0, 1, 2, 255], dtype=torch.uint8, device=device).view(torch.bool)
    out = poisoned((), "i64", device)
    call("sum", "bool", x, out)
    assert int(out) == 3


@pytest.mark.promise("KERNELS-reduce-nan", "KERNELS-special-values")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [3, 40, 1500, 40_001])
def test_nan_wins_and_the_first_one(device: str, dtype: str, count: int) -> None:
    skip_without(dtype, device)
    nan, inf = math.nan, math.inf
    for places in itertools.permutations((0, count // 2, count - 1), 2):
        x = np.full(count, -1.0)
        x[count // 3] = inf
        for sign in (1, -1):
            x[list(places)] = np.copysign(nan, sign)
            assert math.isnan(one("max", x, dtype, device))
            assert math.isnan(one("min", x, dtype, device))
            assert math.isnan(one("mean", x, dtype, device))
            assert one("argmax", x, dtype, device) == min(places)


@pytest.mark.promise("KERNELS-reduce-nan")
@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    inf = math.inf
    for x, top, low, place in [
        ([-inf, -inf], -inf, -inf, 0),
        ([inf, 5.0, inf], inf, 5.0, 0),
        ([-inf, -1.0, inf, inf], inf, -inf, 2),
        ([-0.0, 0.0, -0.0], 0.0, 0.0, 0),  # equal: the first
    ]:
        assert one("max", x, dtype, device) == top
        assert one("min", x, dtype, device) == low
        assert one("argmax", x, dtype, device) == place
    assert one("argmax", np.full(70_001, -inf), dtype, device) == 0


@pytest.mark.promise("KERNELS-reduce-ties")
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i64"])
@pytest.mark.parametrize("shape", [(7,), (33, 5), (1, 4099), (4099, 3), (2, 70_001)], ids=str)
def test_the_first_of_equals(device: str, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(5)
    x = tensor_of(rng.integers(-2, 3, shape).astype(np.float64), dtype, device)
    for view in (x, x.permute(*range(x.ndim)[::-1])):
        for axes in [(d,) for d in range(len(shape))] + [tuple(range(len(shape)))]:
            check("argmax", view, axes, dtype, "of ties")


@pytest.mark.promise("KERNELS-reduce-ties", "KERNELS-reduce-nan")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(70, 64), (9, 4096), (3000, 24), (2, 5, 520)], ids=str)
def test_places_in_packs(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    """Lines of zeros of both signs, of NaN of both signs here and there, of -inf alone."""
    skip_without(dtype, device)
    rng = np.random.default_rng(9)
    for last in (False, True):
        x = rng.choice([-0.0, 0.0, -1.0, -math.inf], shape)
        lines = x.reshape(-1, shape[-1]) if last else x.reshape(-1, shape[-1]).T
        for at, line in enumerate(lines):
            if at % 4 == 1:
                line[rng.random(line.size) < 0.05] = math.copysign(math.nan, at % 8 - 4)
            line[:] = -math.inf if at % 4 == 2 else line
        given = tensor_of(x, dtype, device)
        for axes in [(x.ndim - 1,), tuple(range(x.ndim - 1)), (0,)]:
            check("argmax", given, axes, dtype, "of zeros, infinities and NaN")


# ---- the gradient of extrema ---------------------------------------------------------------------


def shares(gy: Array, x: Array, fwd: Array, axes: tuple[int, ...]) -> Array:
    gy, fwd = np.expand_dims(gy, axes), np.expand_dims(fwd, axes)
    ties = (x == fwd).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(gy * ties / ties.sum(axes, keepdims=True))


@pytest.mark.promise("KERNELS-reduce-gradient")
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_gradient_is_shared_by_ties(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    rng = np.random.default_rng(6)
    for shape, all_axes in SHAPES:
        data = rng.integers(-3, 4, shape).astype(np.float64)
        for layout in ("dense", "odd", "reversed") if data.size < 10_000 else ("dense",):
            x = tensor_of(data, dtype, device, layout)
            for axes in all_axes:
                top = np.max(data, axes)
                fwd = tensor_of(np.asarray(top), dtype, device)
                gy = random(top.shape, dtype, device, seed=7)
                gx = poisoned(shape, dtype, device)
                call("extremum_bwd", dtype, gy, x, fwd, gx, axes=list(axes))
                want = shares(array_of(gy), data, np.asarray(top), axes)
                what = f"extremum_bwd of {shape} over {axes} {layout}"
                assert_close(array_of(gx), want, dtype, what)


@pytest.mark.promise("KERNELS-reduce-gradient", "KERNELS-reduce-nan")
def test_nothing_equals_nan(device: str) -> None:
    x = tensor_of(np.array([[1.0, math.nan], [2.0, 2.0]]), "f32", device)
    fwd = tensor_of(np.array([math.nan, 2.0]), "f32", device)
    gx = poisoned((2, 2), "f32", device)
    call("extremum_bwd", "f32", torch.ones(2, device=device), x, fwd, gx, axes=[1])
    assert_same(array_of(gx), np.array([[math.nan, math.nan], [0.5, 0.5]]), "extremum_bwd")


# ---- repeatability -------------------------------------------------------------------------------

LONG = [((300_007,), [0]), ((3, 70_001), [1]), ((70_001, 3), [0]), ((900, 264), [0])]


@pytest.mark.promise("KERNELS-reduce-repeat")
def test_the_same_bits_at_every_run(device: str) -> None:
    for dtype in ("f32", "bf16"):
        for shape, axes in LONG:
            x = random(shape, dtype, device, seed=8)
            kept = [s for d, s in enumerate(shape) if d not in axes]
            found = [poisoned(kept, dtype, device) for _ in range(3)]
            for out in found:
                call("sum", dtype, x, out, axes=axes)
            assert all(torch.equal(found[0], out) for out in found[1:])


# Without torch, whose import is most of such a process.
IN_A_PROCESS = """
import aicf_cuda, hashlib, numpy
h = hashlib.sha256()
for kind, dtype in (("f4", "f32"), ("f2", "f16")):
    for shape, axes in {LONG}:
        x = numpy.random.default_rng(8).standard_normal(shape).astype(kind)
        for op in ("sum", "mean", "max", "argmax"):
            h.update(getattr(getattr(aicf_cuda, op), op)(x, axes=axes).tobytes())
print(h.hexdigest())
"""


@pytest.mark.promise("KERNELS-reduce-repeat", "KERNELS-threads")
def test_bits_do_not_depend_on_the_threads() -> None:
    code, found = IN_A_PROCESS.replace("{LONG}", repr(LONG)), set()
    for threads in ("1", "3"):
        env = {**os.environ, "AICF_THREADS": threads, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        found.add(run.stdout)
    assert len(found) == 1


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-reduce-repeat")
@pytest.mark.parametrize("shape", [(64, 1 << 16), (1 << 16, 64), (4096, 40)], ids=str)
def test_launches_that_overlap_wait_for_each_other(shape: tuple[int, int]) -> None:
    """Reductions of reductions back to back, over memory that is written anew in between."""
    import aicf_cuda

    x = torch.empty(shape, device="cuda")
    rows, tops = torch.empty(shape[0], device="cuda"), torch.empty(shape[1], device="cuda")
    found = torch.empty(100, 2, device="cuda")

    def steps() -> None:
        for i in range(100):
            x.fill_(i)
            aicf_cuda.mean.mean_f32(x, rows, axes=[1])
            aicf_cuda.max.max_f32(rows, found[i, 0], axes=[0])
            aicf_cuda.max.max_f32(x, tops, axes=[0])
            aicf_cuda.mean.mean_f32(tops, found[i, 1], axes=[0])

    steps()
    want = torch.arange(100.0, device="cuda")[:, None].expand(100, 2)
    assert torch.equal(found, want)
    found.zero_()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps()
    graph.replay()
    assert torch.equal(found, want)


# ---- large ---------------------------------------------------------------------------------------

LARGE = 2**31 + 512


@pytest.mark.gpu
@pytest.mark.promise("A2", "KERNELS-reduce-large")
@pytest.mark.large
def test_more_elements_than_32_bits_count() -> None:
    x = torch.zeros(LARGE, dtype=torch.float16, device="cuda")
    x[-1], x[2**31 - 2] = 3, 2
    for op, value in (("sum", 5), ("max", 3), ("min", 0), ("argmax", LARGE - 1)):
        out = poisoned((), out_dtype(op, "f16"), "cuda")
        call(op, "f16", x, out)
        assert float(out) == value, op
    for shape in ((LARGE // 512, 512), (512, LARGE // 512)):
        view, two = x.view(shape), divmod(2**31 - 2, shape[1])
        for axis in (0, 1):
            kept = shape[1 - axis]
            want = torch.zeros(kept, dtype=torch.int64, device="cuda")
            want[two[1 - axis]], want[-1] = two[axis], shape[axis] - 1
            out = poisoned((kept,), "i64", "cuda")
            call("argmax", "f16", view, out, axes=[axis])
            assert torch.equal(out, want)
            largest = poisoned((kept,), "f16", "cuda")
            call("max", "f16", view, largest, axes=[axis])
            assert float(largest[-1]) == 3


@pytest.mark.gpu
@pytest.mark.promise("A2", "KERNELS-reduce-large")
@pytest.mark.large
def test_more_outs_than_32_bits_count() -> None:
    x = torch.zeros((2, LARGE), dtype=torch.uint8, device="cuda").view(torch.int8)
    x[0, -1], x[1, -2], x[1, 0] = 3, 5, 7
    for view, axis in ((x, 0), (x.T, 1)):
        out = torch.full((LARGE,), 9, dtype=torch.int8, device="cuda")
        call("max", "i8", view, out, axes=[axis])
        assert [int(out[i]) for i in (0, 1, LARGE - 3, LARGE - 2, LARGE - 1)] == [7, 0, 0, 5, 3]
        assert int(out[2 : LARGE - 2].amax()) == int(out[2 : LARGE - 2].amin()) == 0
