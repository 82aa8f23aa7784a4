"""bias_add and bias_add_bwd, against float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels import references
from kernels.calls import call, skip_without
from kernels.tensors import FLOATS, array_of, poisoned, random, tensor_of
from kernels.tolerance import EPS, assert_close

pytestmark = [pytest.mark.guests("torch")]

# (shape, axis): what lies before the axis, along it and after it, each 1, odd, a vector, one more.
PLACES = [
    ((1,), 0),
    ((33,), 0),  # a vector: nothing before or after
    ((5, 7), 1),  # the axis is the last one: the bias runs along the lines
    ((5, 7), 0),  # the axis is the first one: the bias is one number a line
    ((16, 17), 1),
    ((17, 16), 0),
    ((2, 3, 4, 5), 1),  # NCHW
    ((2, 3, 4, 5), -1),  # NHWC
    ((2, 3, 4, 5), -3),  # a negative axis
    ((2, 3, 1, 1), 1),  # nothing after it, by sizes of 1
    ((1, 257, 1), 1),
    ((4, 300, 129), 1),  # lines longer than a vector, by one
    ((1000, 33), 1),  # many short lines
    ((3, 1, 40_001), 1),  # one long line a bias, an odd one, in several parts
]


@pytest.mark.promise("KERNELS-bias", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, axis", PLACES, ids=str)
def test_bias_add(device: str, shape: tuple[int, ...], axis: int, dtype: str) -> None:
    skip_without(dtype, device)
    for layout in ("dense", "odd"):
        x = random(shape, dtype, device, layout, seed=1)
        bias = random((shape[axis],), dtype, device, layout, seed=2)
        want = references.bias_add(array_of(x), array_of(bias), axis)
        out = poisoned(shape, dtype, device, layout)
        call("bias_add", dtype, x, bias, out, axis=axis)
        assert_close(array_of(out), want, dtype, f"bias_add axis {axis} {layout}")
        call("bias_add", dtype, x, bias, x, axis=axis)
        assert_close(array_of(x), want, dtype, f"bias_add in place, axis {axis} {layout}")


@pytest.mark.promise("KERNELS-bias", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, axis", PLACES, ids=str)
def test_bias_add_bwd(device: str, shape: tuple[int, ...], axis: int, dtype: str) -> None:
    skip_without(dtype, device)
    for layout in ("dense", "odd"):
        gy = random(shape, dtype, device, layout)
        gb = poisoned((shape[axis],), dtype, device, layout)
        call("bias_add_bwd", dtype, gy, gb, axis=axis)
        given = array_of(gy)
        want = references.bias_add_bwd(given, axis)
        count = math.prod(shape) // shape[axis]
        slack = count * EPS[dtype] * references.bias_add_bwd(np.abs(given), axis)
        assert_close(array_of(gb), want, dtype, f"bias_add_bwd axis {axis} {layout}", slack)


@pytest.mark.promise("C1", "KERNELS-bias")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(0, 3), (2, 3, 0), (0, 3, 0)], ids=str)
def test_bias_add_bwd_of_nothing_is_0(device: str, shape: tuple[int, ...], dtype: str) -> None:
    skip_without(dtype, device)
    gb = poisoned((3,), dtype, device)
    call("bias_add_bwd", dtype, random(shape, dtype, device), gb)
    assert array_of(gb).tolist() == [0, 0, 0]


@pytest.mark.promise("KERNELS-sum")
def test_bias_add_bwd_sums_past_what_bf16_counts_to(device: str) -> None:
    """A running sum in bf16 stays at 256."""
    gy = tensor_of(np.ones((1000, 3)), "bf16", device)
    gb = poisoned((3,), "bf16", device)
    call("bias_add_bwd", "bf16", gy, gb)
    assert array_of(gb).tolist() == [1000, 1000, 1000]
