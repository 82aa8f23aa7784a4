"""softmax, log_softmax and their gradients: rows of any width at any address, columns, what is no
number, bits, and the inputs that broke others."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kernels.calls import call, skip_without
from kernels.tensors import FLOATS, array_of, poisoned, random, tensor_of
from kernels.tolerance import EPS, Array, assert_close

pytestmark = [pytest.mark.guests("torch")]

OPS = ("softmax", "log_softmax")

# A row in 16 lanes, in a warp, in 1 to 8 packs a lane, in a block of 2 to 16 warps, in a cluster of
# 2, 4 and 8 blocks, in none of them; each beside one whose rows start at all phases.
WIDTHS = [
    1, 2, 7, 9, 16, 17, 31, 64, 65, 127, 128, 129, 256, 257, 512, 513, 1000, 1023, 1024, 1025,
    2047, 2048, 2049, 3584, 4096, 4099, 8192, 8195, 16384, 16391, 16393, 32768, 50257, 65537,
    131072, 131079, 131081, 300007,
]  # fmt: skip

ON_CPU = [1, 2, 7, 31, 64, 65, 129, 1025, 4099]  # about its 64 lanes and the blocks of its sums


def on_both(cpu: list[Any], gpu: list[Any]) -> list[Any]:
    """Parameters (device, one of these)."""
    return [pytest.param("cpu", x, id=f"cpu-{x}") for x in cpu] + [
        pytest.param("cuda", x, id=f"cuda-{x}", marks=pytest.mark.gpu) for x in gpu
    ]


# [L, N, R] with R > 1: few and many columns, short and long ones, those that are cut into parts.
COLUMNS = [
    (2, 1, 3), (3, 5, 2), (2, 7, 31), (2, 33, 64), (1, 300, 100), (5, 21, 300), (2, 64, 257),
    (1, 40_000, 3), (2, 70_000, 5),
]  # fmt: skip


def exact(op: str, x: Array, axis: int) -> Array:
    with np.errstate(invalid="ignore"):
        y: Array = x - x.max(axis=axis, keepdims=True)
        e: Array = np.exp(y)
        total = e.sum(axis=axis, keepdims=True)
        return np.asarray(e / total if op == "softmax" else y - np.log(total))


def exact_bwd(op: str, gy: Array, y: Array, axis: int) -> Array:
    if op == "softmax":
        return np.asarray(y * (gy - (gy * y).sum(axis=axis, keepdims=True)))
    return np.asarray(gy - np.exp(y) * gy.sum(axis=axis, keepdims=True))


def slack_bwd(op: str, gy: Array, y: Array, axis: int, dtype: str) -> Array:
    """What the sum along the axis may be off by, as it reaches gx."""
    factor = y if op == "softmax" else np.exp(y)
    terms = np.abs(gy * y if op == "softmax" else gy).sum(axis=axis, keepdims=True)
    return np.asarray(gy.shape[axis] * EPS[dtype] * terms * np.abs(factor))


def check(op: str, x: torch.Tensor, dtype: str, axis: int, out: torch.Tensor | None = None) -> None:
    out = poisoned(x.shape, dtype, x.device.type) if out is None else out
    want = exact(op, array_of(x), axis)
    call(op, dtype, x, out, axis=axis)
    assert_close(array_of(out), want, dtype, f"{op} of {tuple(x.shape)} along {axis}")


def check_bwd(
    op: str, gy: torch.Tensor, y: torch.Tensor, dtype: str, axis: int, gx: torch.Tensor
) -> None:
    given = array_of(gy), array_of(y)
    want, slack = exact_bwd(op, *given, axis), slack_bwd(op, *given, axis, dtype)
    call(f"{op}_bwd", dtype, gy, y, gx, axis=axis)
    assert_close(array_of(gx), want, dtype, f"{op}_bwd of {tuple(gy.shape)} along {axis}", slack)


def pair(
    op: str, shape: tuple[int, ...], dtype: str, device: str, layout: str, axis: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """A gradient and a result of the forward op."""
    gy = random(shape, dtype, device, layout, seed=1)
    y = exact(op, array_of(random(shape, dtype, device, seed=2)), axis)
    return gy, tensor_of(y, dtype, device, layout)


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.promise("KERNELS-softmax-rows", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("device, width", on_both(ON_CPU, WIDTHS))
def test_rows(device: str, width: int, dtype: str) -> None:
    skip_without(dtype, device)
    rows = 37 if width < 5000 else 3
    for op in OPS:
        for layout in ("dense", "odd"):
            check(op, random((rows, width), dtype, device, layout), dtype, 1)
            gy, y = pair(op, (rows, width), dtype, device, layout, 1)
            check_bwd(op, gy, y, dtype, 1, poisoned(gy.shape, dtype, device, layout))


@pytest.mark.promise("KERNELS-softmax-rows")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("device, width", on_both([200], [24, 200, 1024, 5000, 40_000, 300_007]))
def test_tensors_of_other_phases(device: str, width: int, dtype: str) -> None:
    """No pack of one lies as a pack of the other does."""
    skip_without(dtype, device)
    for op in OPS:
        for one, other in [("dense", "odd"), ("odd", "dense")]:
            x = random((3, width), dtype, device, one)
            check(op, x, dtype, 1, poisoned(x.shape, dtype, device, other))
            gy, y = pair(op, (3, width), dtype, device, one, 1)
            check_bwd(op, gy, y, dtype, 1, poisoned(gy.shape, dtype, device, other))
            y = tensor_of(array_of(y), dtype, device, other)
            check_bwd(op, gy, y, dtype, 1, poisoned(gy.shape, dtype, device, one))


@pytest.mark.promise("KERNELS-softmax-rows")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("device, shape", on_both(COLUMNS[:6], COLUMNS))
def test_columns(device: str, shape: tuple[int, int, int], dtype: str) -> None:
    skip_without(dtype, device)
    for op in OPS:
        check(op, random(shape, dtype, device), dtype, 1)
        gy, y = pair(op, shape, dtype, device, "dense", 1)
        check_bwd(op, gy, y, dtype, 1, poisoned(shape, dtype, device))


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-softmax-rows")
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("kernel", ["cluster", "passes"])
@pytest.mark.parametrize("width", [1, 9, 100, 1025, 4096, 9001])
def test_every_kernel_takes_short_rows(width: int, kernel: str, dtype: str) -> None:
    for op in OPS:
        x = random((5, width), dtype, "cuda")
        out = poisoned(x.shape, dtype, "cuda")
        call(op, dtype, x, out, kernel=kernel)
        assert_close(array_of(out), exact(op, array_of(x), 1), dtype, f"{op} by {kernel}")
        gy, y = pair(op, (5, width), dtype, "cuda", "dense", 1)
        gx = poisoned(x.shape, dtype, "cuda")
        call(f"{op}_bwd", dtype, gy, y, gx, kernel=kernel)
        given = array_of(gy), array_of(y)
        slack = slack_bwd(op, *given, 1, dtype)
        want = exact_bwd(op, *given, 1)
        assert_close(array_of(gx), want, dtype, f"{op}_bwd by {kernel}", slack)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-softmax-rows")
@pytest.mark.parametrize("layout", ["dense", "odd"])
@pytest.mark.parametrize(
    "rows, width, dtype", [(2200, 16_400, "f16"), (2200, 16_393, "bf16"), (401, 50_257, "bf16")]
)
def test_blocks_that_go_from_row_to_row(rows: int, width: int, dtype: str, layout: str) -> None:
    """Rows as a cluster has them, so many that a block has several; in place too."""
    for op in OPS:
        x = poisoned((rows, width), dtype, "cuda", layout).normal_()
        want = getattr(torch, op)(x.double(), 1)
        bound = {"rtol": 1.6e-2 if dtype == "bf16" else 1e-3, "atol": 1e-5}
        for out in (poisoned(x.shape, dtype, "cuda", "dense"), x):
            call(op, dtype, x, out)
            torch.testing.assert_close(out.double(), want, **bound)


@pytest.mark.promise("KERNELS-in-place")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "device, shape", on_both([(5, 77), (2, 40, 9)], [(5, 77), (3, 9001), (2, 300_001), (2, 40, 9)])
)
def test_in_place(device: str, shape: tuple[int, ...], dtype: str) -> None:
    skip_without(dtype, device)
    for op in OPS:
        x = random(shape, dtype, device)
        check(op, x, dtype, 1, out=x)
        for which in (0, 1):
            gy, y = pair(op, shape, dtype, device, "dense", 1)
            check_bwd(op, gy, y, dtype, 1, (gy, y)[which])


# ---- what is no number ---------------------------------------------------------------------------


@pytest.mark.promise("KERNELS-softmax-special")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("device, width", on_both([3, 300], [3, 300, 3000, 30_000, 200_000]))
def test_infinities_and_nan(device: str, width: int, dtype: str) -> None:
    """As torch: NaN for a row of -inf alone and one with NaN or +inf; its neighbours are right."""
    skip_without(dtype, device)
    x = array_of(random((6, width), dtype, "cpu"))
    x[0] = -math.inf
    x[1, width // 2] = -math.inf
    x[2, -1] = math.nan
    x[3, 0] = math.inf
    x[4, 1:] = -math.inf
    for op in OPS:
        given = tensor_of(x, dtype, device)
        out = poisoned(x.shape, dtype, device)
        call(op, dtype, given, out)
        want = getattr(torch, op)(given.cpu().double(), 1).numpy()
        assert_close(array_of(out), want, dtype, op)
        columns = poisoned((width, 6), dtype, device)
        call(op, dtype, given.T.contiguous(), columns, axis=0)
        assert_close(array_of(columns).T, want, dtype, f"{op} of columns")


@pytest.mark.promise("KERNELS-softmax-special")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("device, width", on_both([10, 1000], [10, 1000, 20_000]))
def test_log_softmax_far_from_0(device: str, width: int, dtype: str) -> None:
    """Of numbers in [0, 1) less 1e7, where f32 has whole numbers alone, it is near -ln(width)."""
    skip_without(dtype, device)
    rng = np.random.default_rng(5)
    for shift, spread in [(-1e7, 1), (1e7, 1), (1e9, 300), (-1.08e9, 300), (3e38, 1), (-3.4e38, 1)]:
        x = tensor_of(rng.random((4, width)) * spread + shift, dtype, device)
        for op in OPS:
            check(op, x, dtype, 1)


@pytest.mark.promise("KERNELS-softmax-special")
def test_the_largest_halves(device: str) -> None:
    x = np.array([[65504.0, -65504.0, 0.0], [-65504.0] * 3])
    check("softmax", tensor_of(x, "f16", device), "f16", 1)
    check("log_softmax", tensor_of(x, "f16", device), "f16", 1)


# ---- inputs that broke others --------------------------------------------------------------------


@pytest.mark.promise("KERNELS-softmax-widths")
def test_f64_of_odd_width() -> None:
    for width in range(513, 1024, 2):
        check(OPS[width // 2 % 2], random((2, width), "f64", "cpu"), "f64", 1)


@pytest.mark.promise("KERNELS-softmax-widths")
def test_a_view_from_its_second_element_on(device: str) -> None:
    x = random((1026,), "bf16", device)[1:1025]
    for op in OPS:
        check(op, x, "bf16", 0)
        gy, y = pair(op, (1026,), "bf16", device, "dense", 0)
        check_bwd(op, gy[1:1025], y[1:1025], "bf16", 0, poisoned((1024,), "bf16", device))


@pytest.mark.promise("C1", "KERNELS-softmax-widths")
@pytest.mark.parametrize("shape, axis", [((0, 5), 1), ((5, 0), 1), ((5, 0), 0), ((0,), 0)])
def test_nothing(device: str, shape: tuple[int, ...], axis: int) -> None:
    for op in OPS:
        call(op, "f32", *(random(shape, "f32", device) for _ in range(2)), axis=axis)
        call(f"{op}_bwd", "f32", *(random(shape, "f32", device) for _ in range(3)), axis=axis)


def in_torch(op: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: getattr(torch, op)(x.double(), -1)


def check_some_rows(op: str, x: torch.Tensor, out: torch.Tensor, rows: list[int]) -> None:
    for row in rows:
        want = in_torch(op)(x[row]).cpu().numpy()
        assert_close(array_of(out[row]), want, "f16", f"{op}, row {row} of {tuple(x.shape)}")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-softmax-large")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", [(669 * 128, 50_259), (2**28, 9)], ids=str)
@pytest.mark.large
def test_more_elements_than_32_bits_count(shape: tuple[int, int], op: str) -> None:
    x = torch.empty(shape, dtype=torch.float16, device="cuda").normal_()
    if shape[0] == 669 * 128:
        x = x.view(669, 128, -1)
    out = torch.full_like(x, math.nan)
    call(op, "f16", x, out)
    x, out = x.view(shape), out.view(shape)
    past = 2**31 // shape[1]
    check_some_rows(op, x, out, [0, 1, past - 1, past, past + 1, shape[0] - 1])
    parts = (part.amax() for part in out.split(2**20))  # NaN, if there is one
    assert all(bool(torch.isfinite(part)) for part in parts)
    gx = torch.full_like(out, math.nan)
    call(f"{op}_bwd", "f16", x, out, gx)
    for row in (0, past, shape[0] - 1):
        want = exact_bwd(op, array_of(x[row]), array_of(out[row]), 0)
        slack = slack_bwd(op, array_of(x[row]), array_of(out[row]), 0, "f16")
        assert_close(array_of(gx[row]), want, "f16", f"{op}_bwd, row {row}", slack)
    del x, out, gx
    torch.cuda.empty_cache()


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-softmax-large")
@pytest.mark.large
def test_a_row_of_2_to_the_31_less_1() -> None:
    """All halves 0 but the last: a fifth of the sum is its own."""
    x = torch.zeros(2**31 - 1, dtype=torch.float16, device="cuda")
    x[-1] = 20
    out = torch.full_like(x, math.nan)
    call("softmax", "f16", x, out)
    total = math.exp(20) + 2**31 - 2
    assert abs(float(out[-1]) - math.exp(20) / total) < 1e-3
    assert float(out[:-1].amax()) <= 1.01 / total + 2**-24
    call("log_softmax", "f16", x, out)
    assert abs(float(out[-1]) - (20 - math.log(total))) < 2e-3
    want = torch.tensor(-math.log(total)).half().item()
    assert float(out[:-1].amin()) == float(out[:-1].amax()) == want
    del x, out
    torch.cuda.empty_cache()


# ---- bits ----------------------------------------------------------------------------------------


@pytest.mark.promise("KERNELS-softmax-bits")
@pytest.mark.parametrize(
    "device, shape",
    on_both([(9, 130)], [(9, 130), (5, 5001), (3, 70_001), (2, 300_001), (2, 40_000, 3)]),
)
def test_the_same_bits_at_every_run(device: str, shape: tuple[int, ...]) -> None:
    for op in OPS:
        x, y = (random(shape, "f32", device, seed=seed) for seed in (1, 2))
        first, again = (poisoned(shape, "f32", device) for _ in range(2))
        call(op, "f32", x, first, axis=1)
        call(op, "f32", x, again, axis=1)
        assert torch.equal(first, again), op
        call(f"{op}_bwd", "f32", x, y, first, axis=1)
        call(f"{op}_bwd", "f32", x, y, again, axis=1)
        assert torch.equal(first, again), f"{op}_bwd"


def digest() -> str:
    h = hashlib.sha256()
    for dtype in FLOATS:
        for shape in [(70, 513), (2, 20_001), (4, 70, 130), (500, 7)]:
            x, y, out = (random(shape, dtype, "cpu", seed=seed) for seed in (1, 2, 3))
            for op in OPS:
                call(op, dtype, x, out, axis=1)
                h.update(out.view(-1).view(torch.uint8).numpy().tobytes())
                call(f"{op}_bwd", dtype, x, y, out, axis=1)
                h.update(out.view(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()


@pytest.mark.promise("KERNELS-softmax-bits", "KERNELS-cross-entropy-bits")
def test_bits_do_not_depend_on_the_threads() -> None:
    digests = "from kernels import test_softmax as s, test_cross_entropy as c"
    found = {}
    for threads in (1, 3):
        run = subprocess.run(
            [sys.executable, "-c", f"{digests}; print(s.digest(), c.digest())"],
            env={
                **os.environ,
                "AICF_THREADS": str(threads),
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        found[threads] = run.stdout.strip()
    assert len(set(found.values())) == 1, found
