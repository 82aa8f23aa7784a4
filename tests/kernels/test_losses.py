"""Losses and their gradients: sizes and addresses of all kinds, sums of many, odd numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from kernels.calls import call, printed_with_threads, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, poisoned
from kernels.tolerance import EPS, Array, assert_close, assert_same
from rows import rows
from rows.losses import FORWARD, OWN, REDUCTIONS

pytestmark = [pytest.mark.guests("torch")]

LOSSES = tuple(OWN)

# Nothing, less than a pack, a pack and its neighbours, one block and its neighbours, several blocks
# whose last one is odd.
SIZES = (0, 1, 3, 4, 7, 8, 9, 1023, 1024, 2049, 20_011)


def values(n: int, seed: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=source, dtype=torch.float64)


def shifted(x: torch.Tensor, dtype: str, device: str, shift: int) -> torch.Tensor:
    """In a dtype, `shift` elements behind the beginning of its memory."""
    memory = torch.empty(x.numel() + shift, dtype=DTYPES[dtype], device=device)
    return memory[shift:].copy_(x)


def inputs(op: str, n: int, dtype: str, device: str, shifts: tuple[int, int]) -> list[torch.Tensor]:
    target = values(n, 2)
    target = target.sigmoid() if op == "bce_with_logits" else target
    return [
        shifted(x, dtype, device, s) for x, s in zip((values(n, 1), target), shifts, strict=True)
    ]


def reference(op: str, *tensors: torch.Tensor, **named: Any) -> Array:
    return array_of(rows()[op].reference(*(x.cpu().double() for x in tensors), **named))


@pytest.mark.promise("KERNELS-losses")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", LOSSES)
def test_sizes_and_addresses(device: str, op: str, dtype: str) -> None:
    """From boundaries, from one common phase, from two."""
    skip_without(dtype, device)
    for n, shifts in itertools.product(SIZES, [(0, 0), (3, 3), (1, 2)]):
        if n > 3000 and shifts == (3, 3):
            continue
        x, target = inputs(op, n, dtype, device, shifts)
        for reduction in REDUCTIONS:
            named = {"reduction": reduction, **OWN[op]}
            out = poisoned((n,) if reduction == "none" else (), dtype, device)
            call(op, dtype, x, target, out, **named)
            want = reference(op, x, target, **named)
            slack = 2 * EPS[dtype] * np.abs(want) + (1e-6 * np.abs(want) if dtype == "f32" else 0)
            assert_close(array_of(out), want, dtype, f"{op} {n} {shifts} {reduction}", slack)
            gy = torch.full(out.shape, 1.5, dtype=out.dtype, device=device)
            gx = shifted(torch.full((n,), math.nan), dtype, device, shifts[0])
            call(f"{op}_bwd", dtype, gy, x, target, gx, **named)
            want = reference(f"{op}_bwd", gy, x, target, **named)
            assert_close(array_of(gx), want, dtype, f"{op}_bwd {n} {shifts} {reduction}", 1e-6)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-losses")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("op", LOSSES)
def test_more_than_the_blocks_hold_at_once(op: str, dtype: str) -> None:
    for shifts in [(0, 0), (1, 2)]:
        x, target = inputs(op, 5_000_011, dtype, "cuda", shifts)
        for reduction in ("mean", "sum"):
            out = poisoned((), dtype, "cuda")
            call(op, dtype, x, target, out, reduction=reduction, **OWN[op])
            right = FORWARD[op](x.double(), target.double(), reduction=reduction, **OWN[op])
            slack = 1e-5 * abs(float(right))
            assert_close(array_of(out), array_of(right), dtype, f"{op} {shifts}", slack)


@pytest.mark.promise("KERNELS-losses-nothing")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", LOSSES)
def test_of_nothing(device: str, op: str, dtype: str) -> None:
    """The sum is 0 and the mean NaN, as torch's."""
    skip_without(dtype, device)
    x = torch.empty((3, 0), dtype=DTYPES[dtype], device=device)
    for reduction, want in [("sum", 0.0), ("mean", math.nan)]:
        out = poisoned((), dtype, device).fill_(7)
        call(op, dtype, x, x.clone(), out, reduction=reduction)
        assert_same(array_of(out), np.array(want), f"{op} {reduction}")
        call(f"{op}_bwd", dtype, out, x, x.clone(), x.clone(), reduction=reduction)


@pytest.mark.promise("KERNELS-losses-sums")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["mse", "huber"])
def test_sums_are_not_of_16_bits(device: str, op: str, dtype: str) -> None:
    """The mean of more ones than f16 counts; a sum that bf16 alone would leave at 256."""
    skip_without(dtype, device)
    n = 70_001
    x = torch.full((n,), 3.0, dtype=DTYPES[dtype], device=device)
    target = torch.full_like(x, 2.0)
    for reduction, want in [("mean", 1.0), ("sum", math.inf if dtype == "f16" else n)]:
        out = poisoned((), dtype, device)
        call(op, dtype, x, target, out, reduction=reduction)
        right = np.array(want if op == "mse" else want / 2)
        assert_close(array_of(out), right, dtype, f"{op} {reduction}")


@pytest.mark.promise("KERNELS-losses-corners", "KERNELS-special-values")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", LOSSES)
def test_what_is_not_finite(device: str, op: str, dtype: str) -> None:
    """NaN stays where it is, in vectors and tails; infinities give what the formula says."""
    skip_without(dtype, device)
    odd = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0]
    x = torch.tensor([a for a in odd for _ in range(3)] * 3, dtype=torch.float64)
    target = torch.tensor([0.0, 1.0, 0.5] * 21, dtype=torch.float64)
    ours = [v.to(DTYPES[dtype]).to(device) for v in (x, target)]
    out = poisoned(x.shape, dtype, device)
    call(op, dtype, *ours, out, reduction="none", **OWN[op])
    want = reference(op, x, target, reduction="none", **OWN[op])
    assert_close(array_of(out), want, dtype, op, 1e-6)
    gy = torch.ones_like(out)
    call(f"{op}_bwd", dtype, gy, *ours, out, reduction="none", **OWN[op])
    want = reference(f"{op}_bwd", torch.ones_like(x), x, target, reduction="none", **OWN[op])
    assert_close(array_of(out), want, dtype, f"{op}_bwd", 1e-6)


@pytest.mark.promise("KERNELS-losses-corners")
@pytest.mark.parametrize("dtype", FLOATS)
def test_bce_of_large_logits(device: str, dtype: str) -> None:
    """No overflow of e**x, and the small values are there where the dtype has them."""
    skip_without(dtype, device)
    far = [20.0, 50.0, 80.0, 100.0, 709.0, 1e4, 6e4] + ([] if dtype == "f16" else [1e20])
    x = torch.tensor([s * a for a in far for s in (1, -1)] * 2).to(DTYPES[dtype])
    target = torch.tensor([0.0] * (2 * len(far)) + [1.0] * (2 * len(far))).to(DTYPES[dtype])
    out = poisoned(x.shape, dtype, device)
    call("bce_with_logits", dtype, x.to(device), target.to(device), out, reduction="none")
    want = np.logaddexp(0, np.where(target == 0, array_of(x), -array_of(x)))
    assert_close(array_of(out), want, dtype, "bce_with_logits")
    normal = want > 1e-37
    if dtype in ("f32", "f64"):
        off = np.abs(array_of(out)[normal] / want[normal] - 1).max()
        assert off < 1e-6, f"the small ones are off by {off:.1e}"


@pytest.mark.promise("KERNELS-losses-bits")
@pytest.mark.parametrize("op", LOSSES)
def test_bits(device: str, op: str) -> None:
    """The same at every run."""
    x, target = inputs(op, 1_000_003, "f32", device, (1, 1))
    found = []
    for _ in range(3):
        out = poisoned((), "f32", device)
        call(op, "f32", x, target, out, reduction="sum")
        found.append(float(out))
    assert len(set(found)) == 1


# Sums long enough for many parts. numpy alone: it starts in no time.
DIGEST = """
import importlib, numpy
source = numpy.random.default_rng(3)
for op in ("mse", "bce_with_logits", "huber"):
    for dtype, kind in [("f32", "f4"), ("f16", "f2"), ("f64", "f8")]:
        x, target = (source.random(300_007).astype(kind) for _ in range(2))
        function = getattr(importlib.import_module("aicf_cuda." + op), f"{op}_{dtype}")
        for reduction in ("mean", "sum"):
            out = numpy.empty((), kind)
            assert function(x, target, out, reduction=reduction)
            print(out.tobytes().hex())
"""


@pytest.mark.promise("KERNELS-losses-bits")
def test_bits_do_not_depend_on_the_threads() -> None:
    assert len({printed_with_threads(DIGEST, threads) for threads in (1, 2, 5)}) == 1


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-losses-large", "A2")
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.large
def test_more_elements_than_32_bits_count(shift: int) -> None:
    """Aligned, and where x and target have two phases."""
    n = 2**31 + 515
    x = torch.zeros(n + shift, dtype=torch.float16, device="cuda")[shift:]
    target = torch.zeros(n, dtype=torch.float16, device="cuda")
    places = [0, 2**31 - 1, 2**31, n - 1]
    x[places] = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float16, device="cuda")
    out = poisoned((), "f16", "cuda")
    call("mse", "f16", x, target, out, reduction="sum")
    assert float(out) == 30.0
    gx = torch.full_like(target, math.nan)
    call("mse_bwd", "f16", torch.ones_like(out), x, target, gx, reduction="sum")
    assert gx[places].tolist() == [2.0, 4.0, 6.0, 8.0]
    assert int(gx.count_nonzero()) == len(places)
    call("mse", "f16", x, target, gx, reduction="none")
    assert gx[places].tolist() == [1.0, 4.0, 9.0, 16.0]
    assert int(gx.count_nonzero()) == len(places)
    del x, target, gx
    torch.cuda.empty_cache()
