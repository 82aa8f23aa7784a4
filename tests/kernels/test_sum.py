"""sum over any axes of any view, against float64."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from kernels import references
from kernels.calls import call, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, poisoned, random, tensor_of
from kernels.tolerance import EPS, assert_close

pytestmark = [pytest.mark.guests("torch")]

# Shapes, each there for a reason; every subset of the axes is summed over.
SHAPES = [
    (),  # a number
    (1,),
    (7,),
    (31,), (32,), (33,),  # a vector of lanes, one less, one more
    (1025,),  # a block and one
    (5, 7),
    (17, 16),
    (1, 9), (9, 1),  # dims of size 1
    (2, 3, 4, 5),
    (130, 300),  # more sums than lie side by side, and odd ones left over
    (3, 40_000), (40_000, 3),  # few long sums, by lines and across lines
    (1, 200_003),  # one sum that is cut into parts, the last one odd
    (70, 5, 90),
]  # fmt: skip
LAYOUTS = ("dense", "odd", "reversed", "swapped", "stepped", "broadcast")


def check(
    x: torch.Tensor, axes: tuple[int, ...] | None, keepdim: bool, dtype: str, what: str
) -> None:
    given = array_of(x)
    want = references.sum(given, axes, keepdim)
    out = poisoned(want.shape, dtype, x.device.type)
    options = {} if axes is None else {"axes": list(axes)}
    call("sum", dtype, x, out, keepdim=keepdim, **options)
    count = given.size // max(want.size, 1)
    slack = count * EPS[dtype] * references.sum(np.abs(given), axes, keepdim)
    assert_close(array_of(out), want, dtype, f"sum of {tuple(x.shape)} over {axes} {what}", slack)


@pytest.mark.promise("KERNELS-sum", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sum(device: str, shape: tuple[int, ...], dtype: str) -> None:
    skip_without(dtype, device)
    for layout in LAYOUTS:
        x = random(shape, dtype, device, layout)
        for count in range(len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                check(x, axes, count % 2 == 0, dtype, layout)
        check(x, None, False, dtype, layout)


@pytest.mark.promise("KERNELS-sum")
@pytest.mark.parametrize("dtype", FLOATS)
def test_axes_in_any_order_and_negative(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    x = random((2, 3, 4, 5), dtype, device)
    for axes in [(3, 1), (-1,), (-1, 0), (0, -2), (3, 2, 1, 0)]:
        for keepdim in (False, True):
            check(x, axes, keepdim, dtype, f"keepdim={keepdim}")


@pytest.mark.promise("C1", "KERNELS-sum")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shape, axes, want",
    [
        ((0,), None, ()),
        ((0,), (0,), ()),
        ((3, 0), (1,), (3,)),
        ((3, 0, 5), (1,), (3, 5)),
        ((0, 4), (0,), (4,)),
        ((0, 0), (0, 1), ()),
        ((0, 4), (1,), (0,)),  # nothing to write
    ],
    ids=str,
)
def test_sum_of_nothing_is_0(
    device: str,
    shape: tuple[int, ...],
    axes: tuple[int, ...] | None,
    want: tuple[int, ...],
    dtype: str,
) -> None:
    skip_without(dtype, device)
    out = poisoned(want, dtype, device)
    options = {} if axes is None else {"axes": list(axes)}
    call("sum", dtype, random(shape, dtype, device), out, **options)
    assert np.all(array_of(out) == 0), array_of(out)


@pytest.mark.promise("KERNELS-sum")
@pytest.mark.parametrize("dtype", FLOATS)
def test_rank_8_of_odd_sizes(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    shape = (2, 3, 2, 1, 3, 2, 5, 2)
    for layout in ("dense", "reversed", "stepped"):
        x = random(shape, dtype, device, layout)
        for axes in [(0, 2, 4, 6), (1, 3, 5, 7), (0, 7), (3,), (2, 3, 4, 5)]:
            check(x, axes, False, dtype, layout)


@pytest.mark.promise("KERNELS-sum")
@pytest.mark.parametrize("kind, dtype", [("f4", "f32"), ("f2", "f16"), ("f8", "f64")])
def test_strides_below_0(kind: str, dtype: str) -> None:
    x = np.random.default_rng(3).standard_normal((9, 40, 33)).astype(kind)
    for view in (x[::-1], x[:, ::-1], x[..., ::-1], x[::-1, ::-2, ::-3], x.T[::-1]):
        for axes in [(0,), (1,), (2,), (0, 2), (0, 1, 2)]:
            given = view.astype(np.float64)
            want = references.sum(given, axes)
            out = np.full(want.shape, np.nan, kind)
            call("sum", dtype, view, out, axes=axes)
            slack = given.size // want.size * EPS[dtype] * references.sum(np.abs(given), axes)
            assert_close(out.astype(np.float64), want, dtype, f"sum backwards over {axes}", slack)


# ---- inputs that broke others --------------------------------------------------------------------


def sum_all(x: torch.Tensor, dtype: str) -> float:
    out = poisoned((), dtype, x.device.type)
    call("sum", dtype, x, out)
    return float(array_of(out))


@pytest.mark.promise("KERNELS-sum")
def test_halves_are_summed_in_f32(device: str) -> None:
    """In f16 the running sum would be infinite."""
    x = tensor_of(np.array([32000.0] * 4 + [-32000.0] * 4), "f16", device)
    assert sum_all(x, "f16") == 0
    ones = tensor_of(np.ones(65504), "f16", device)
    assert sum_all(ones, "f16") == 65504
    assert sum_all(tensor_of(np.ones(65520), "f16", device), "f16") == math.inf
    assert sum_all(tensor_of(np.full(65520, 0.5), "f16", device), "f16") == 32768


@pytest.mark.promise("KERNELS-sum")
@pytest.mark.parametrize("count", [256, 257, 300, 1 << 20])
def test_bf16_counts_past_256(device: str, count: int) -> None:
    got = sum_all(tensor_of(np.ones(count), "bf16", device), "bf16")
    want = float(torch.tensor(float(count)).to(torch.bfloat16))
    assert got == want


@pytest.mark.promise("KERNELS-sum")
@pytest.mark.parametrize("layout", ["dense", "stepped"])
@pytest.mark.parametrize("side", [0, 1])
def test_the_error_of_a_long_sum_grows_slowly(device: str, side: int, layout: str) -> None:
    """0.1 a million times, summed one after the other in f32, is off by 1%; in blocks by 1e-6."""
    shape = [2, 2]
    shape[side] = 1 << 20
    x = tensor_of(np.full(shape, 0.1), "f32", device, layout)
    out = poisoned((2,), "f32", device)
    call("sum", "f32", x, out, axes=[side])
    want = float(np.float32(0.1)) * (1 << 20)
    assert np.all(np.abs(array_of(out) - want) <= 1e-6 * want), array_of(out) - want


@pytest.mark.promise("KERNELS-special-values")
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinities_reach_the_sum(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for values, want in [
        ([1.0, math.nan, 2.0], math.nan),
        ([1.0, math.inf, 2.0], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([-math.inf, 5.0], -math.inf),
    ]:
        got = sum_all(tensor_of(np.array(values), dtype, device), dtype)
        assert got == want or (math.isnan(got) and math.isnan(want))


@pytest.mark.promise("A2", "KERNELS-sum")
@pytest.mark.large
def test_more_elements_than_32_bits_count() -> None:
    """A view of one element, 2**31 + 7 times: no memory, all the indexes."""
    count = 2**31 + 7
    for dtype in ("f64", "f32"):
        x = torch.ones(1, dtype=DTYPES[dtype]).expand(count)
        want = count if dtype == "f64" else float(np.float32(count))
        assert sum_all(x, dtype) == want
    x = torch.ones(1, 3, dtype=torch.float64).expand(count // 4, 3)
    out = poisoned((3,), "f64", "cpu")
    call("sum", "f64", x, out, axes=[0])
    assert array_of(out).tolist() == [count // 4] * 3


@pytest.mark.gpu
@pytest.mark.promise("A2", "KERNELS-sum")
@pytest.mark.large
def test_more_halves_than_32_bits_count() -> None:
    for count in (2**31 - 1, 2**31, 2**31 + 512):
        x = torch.zeros(count, dtype=torch.float16, device="cuda")
        x[-1], x[2**31 - 2] = 3, 5
        want = 8 if count > 2**31 - 1 else 5
        assert sum_all(x, "f16") == want
        del x
