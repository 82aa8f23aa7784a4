"""gemm: sizes by layouts by epilogues by dtypes, against float64."""

from __future__ import annotations

import importlib
import itertools
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from kernels import references
from kernels.calls import call, skip_without
from kernels.tensors import FLOATS, array_of, assert_near, empty, poisoned, random, tensor_of
from kernels.tolerance import EPS, Array, assert_close, assert_same

pytestmark = [pytest.mark.guests("torch")]

# M, N, K, each there for a reason.
SIZES = [
    (1, 1, 1),
    (1, 17, 3), (17, 1, 3),  # a row, a column
    (3, 5, 1),  # an outer product
    (6, 16, 128), (7, 17, 129), (5, 15, 127),  # a micro tile, one more, one less
    (16, 16, 16), (64, 64, 64),
    (97, 61, 31),  # primes
    (96, 256, 128), (97, 257, 129),  # a tile, and one more each way
    (128, 128, 128), (129, 130, 65),
    (1, 300, 300), (300, 1, 300), (300, 300, 1),
    (2, 3, 5000),  # a long sum
]  # fmt: skip
# Kernels that take rows and addresses on 16 bytes alone; and those that do not take all sizes.
ALIGNED = ("mma", "wgmma")
SOME_SIZES = ("padded", "wgmma_tf32", "turned_tf32", "split")
# Of a library, which does not do all that the row says; it has tests of its own.
LIBRARY = ("lt", "lt_half")
# Those that run where the caller allows tf32 alone, and what that may cost: each operand is rounded
# to 11 bits.
TF32 = ("mma_tf32", "wgmma_tf32", "turned_tf32")
EPS_TF32 = 2.0**-10
# Rows or columns with a unit stride, with and without gaps.
LAYOUTS = ("dense", "swapped", "pitched", "odd", "pitched columns")
# Batch dims of a and b.
BATCHES = [
    ((3,), (3,)),
    ((3,), ()),  # one b for all
    ((), (3,)),  # one a for all
    ((1,), (3,)),
    ((2, 3), (2, 3)),
    ((2, 1), (1, 3)),  # both broadcast
    ((2, 3), (3,)),
    ((2, 1, 2), (3, 1)),
    ((0,), (0,)),  # no matrix
    ((200,), (200,)),  # many small ones
]


def matrix(shape: tuple[int, ...], dtype: str, device: str, layout: str, seed: int) -> torch.Tensor:
    if layout == "pitched columns":
        turned = (*shape[:-2], shape[-1], shape[-2])
        return random(turned, dtype, device, "pitched", seed).transpose(-1, -2)
    return random(shape, dtype, device, layout, seed)


def kernels_of(dtype: str, device: str) -> list[str]:
    """Those of the device that are there and take the dtype."""
    row = importlib.import_module("aicf_cuda.gemm").capability
    built = row["built"]
    found = [k["id"] for k in row["kernels"] if k["backend"] == device and dtype in built[k["id"]]]
    there = {"blas": blas_is_there, "wgmma": lambda: torch.cuda.get_device_capability() == (9, 0)}
    apart = SOME_SIZES + LIBRARY
    return [k for k in found if k not in apart and (k not in there or there[k]())]


def named(kernel: str) -> dict[str, Any]:
    """What asks for a kernel by its name."""
    return {"kernel": kernel, **({"precision": "tf32"} if kernel in TF32 else {})}


def blas_is_there() -> bool:
    gemm = importlib.import_module("aicf_cuda.gemm")
    t = torch.zeros(1, 1)
    return bool(gemm.gemm_f32(t, t, None, None, t.clone(), kernel="blas"))


MANY = 2**20


def check_there(
    given: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None],
    shape: tuple[int, ...],
    dtype: str,
    out: torch.Tensor | None,
    kernel: str | None,
    label: str,
    **options: Any,
) -> None:
    """The same where the tensors lie: a CPU would take seconds for so many elements."""
    x, y, bias, c = (None if t is None else t.to(torch.float64, copy=True) for t in given)
    if out is None:
        out = poisoned(shape, dtype, given[0].device.type)
    call("gemm", dtype, *given, out, **options, **(named(kernel) if kernel else {}))
    assert x is not None
    assert y is not None
    alpha, beta = options.get("alpha", 1.0), options.get("beta", 0.0)
    want = alpha * (x @ y)
    want = want if c is None or beta == 0 else want + beta * c
    want = want if bias is None else want + bias
    act = options.get("act", "none")
    want = want.relu() if act == "relu" else functional.gelu(want) if act == "gelu" else want
    eps = x.shape[-1] * EPS[dtype] + (EPS_TF32 if kernel in TF32 else 0.0)
    assert_near(out, want, dtype, label, eps * abs(alpha) * (x.abs() @ y.abs()))


def check(
    a: torch.Tensor,
    b: torch.Tensor,
    dtype: str,
    *,
    bias: torch.Tensor | None = None,
    c: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    kernel: str | None = None,
    what: str = "",
    **options: Any,
) -> None:
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1])
    if a.is_cuda and math.prod(shape) > MANY:
        label = f"gemm {kernel} {tuple(a.shape)} @ {tuple(b.shape)} {what} {options}"
        check_there((a, b, bias, c), shape, dtype, out, kernel, label, **options)
        return
    given: list[Array | None] = [None if t is None else array_of(t) for t in (a, b, bias, c)]
    if out is None:
        out = poisoned(shape, dtype, a.device.type)
    call("gemm", dtype, a, b, bias, c, out, **options, **(named(kernel) if kernel else {}))
    x, y = given[0], given[1]
    assert x is not None
    assert y is not None
    want = references.gemm(x, y, given[2], given[3], **options)
    alpha = abs(options.get("alpha", 1.0))
    eps = x.shape[-1] * EPS[dtype] + (EPS_TF32 if kernel in TF32 else 0.0)
    slack = eps * alpha * (np.abs(x) @ np.abs(y))
    label = f"gemm {kernel} {tuple(a.shape)} @ {tuple(b.shape)} {what} {options}"
    assert_close(array_of(out), want, dtype, label, slack)


@pytest.mark.parametrize("act", ["none", "relu", "gelu"])
def test_what_a_comparison_there_sees(act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = (random((40, 40), "f32", "cpu", seed=s) for s in range(3))
    more: dict[str, Any] = {"alpha": -2.0, "beta": 0.5, "act": act}
    check_there((a, b, c[0], c), (40, 40), "f32", None, None, "right", **more)
    right = call

    def spoil(op: str, dtype: str, *args: Any, **options: Any) -> None:
        right(op, dtype, *args, **options)
        args[4][3, 7] += 0.01

    monkeypatch.setattr(sys.modules[__name__], "call", spoil)
    with pytest.raises(
        AssertionError, match=r"spoilt f32 .*: 1 of 1600 wrong, the worst at \(3, 7\)"
    ):
        check_there((a, b, c[0], c), (40, 40), "f32", None, None, "spoilt", **more)


@pytest.mark.promise("KERNELS-gemm", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_layouts(device: str, sizes: tuple[int, int, int], dtype: str) -> None:
    skip_without(dtype, device)
    m, n, k = sizes
    for first, second in itertools.product(LAYOUTS, LAYOUTS):
        a = matrix((m, k), dtype, device, first, 1)
        b = matrix((k, n), dtype, device, second, 2)
        check(a, b, dtype, what=f"{first} {second}")


# On an H200, tiles of 128 x 128 by 128 threads, by 256, and of 64 x 64, some cut; few rows; and few
# tiles, whose k is in parts, the last one shorter: 16, 14, 10 of 64 x 64, 5 of 64 x 128, 3 of each.
F32_SIZES = [
    (4100, 1030, 50), (4000, 508, 44), (1500, 1541, 147), (130, 4100, 77), (13, 1030, 2048),
    (16, 300, 1935), (300, 260, 1536), (784, 510, 2000), (1040, 1000, 2000), (70, 72, 390),
]  # fmt: skip
# Clusters of 8, 4, 2 and 1, tiles of each size, whole and cut, parts of k without any.
SPLIT_SIZES = [
    (32, 512, 784), (33, 500, 515), (128, 500, 512), (66, 260, 2000), (256, 512, 512),
    (300, 263, 100), (784, 512, 32), (1000, 999, 200), (17, 33, 20), (64, 64, 4100),
]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-f32")
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_f32_by_tiles_and_parts(first: str, second: str) -> None:
    """More slabs than stages and a cut one; operands are copied in each of the ways."""
    for m, n, k in F32_SIZES:
        a, b = matrix((m, k), "f32", "cuda", first, 1), matrix((k, n), "f32", "cuda", second, 2)
        check(a, b, "f32", kernel="fma", what=f"{first} {second}")


def has_split() -> None:
    built = importlib.import_module("aicf_cuda.gemm").capability["built"]
    if not built["split"] or torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("gpu: split was not built, or not for this GPU")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-split")
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_split_of_all_layouts(first: str, second: str) -> None:
    has_split()
    for m, n, k in SPLIT_SIZES:
        a, b = matrix((m, k), "f32", "cuda", first, 1), matrix((k, n), "f32", "cuda", second, 2)
        check(a, b, "f32", kernel="split", what=f"{first} {second}")


def check_epilogues(sizes: tuple[int, int, int], kernel: str) -> None:
    """The out may be c, at any address and pitch."""
    m, n, k = sizes
    a, b = random((m, k), "f32", "cuda", seed=1), random((k, n), "f32", "cuda", seed=2)
    bias = random((n,), "f32", "cuda", seed=3)
    for i, act in enumerate(("none", "relu", "gelu")):
        layout = ("dense", "pitched", "odd")[i]
        c = random((m, n), "f32", "cuda", layout, seed=4)
        out = empty((m, n), "f32", "cuda", layout).fill_(math.nan)
        more: dict[str, Any] = {"alpha": -1.5, "act": act, "kernel": kernel}
        check(a, b, "f32", out=out, **more)
        check(a, b, "f32", bias=bias, c=c, beta=0.5, out=out, **more)
        call("gemm", "f32", a, b, bias, c, c, beta=0.5, **more)
        assert torch.equal(out, c)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-split")
@pytest.mark.parametrize("sizes", [(40, 136, 72), (33, 50, 515), (300, 260, 30)], ids=str)
def test_epilogues_of_split(sizes: tuple[int, int, int]) -> None:
    has_split()
    check_epilogues(sizes, "split")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-f32")
@pytest.mark.parametrize("sizes", F32_SIZES, ids=str)
def test_epilogues_of_f32(sizes: tuple[int, int, int]) -> None:
    """Of tiles that stick out, whose slabs start earlier: each element is finished once."""
    check_epilogues(sizes, "fma")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-split", "KERNELS-gemm-bits")
def test_batches_of_split_have_the_same_bits_at_every_run() -> None:
    has_split()
    for first, second in [((3,), (3,)), ((2, 1), (1, 3)), ((), (5,))]:
        a = random((*first, 40, 300), "f32", "cuda", seed=1)
        b = random((*second, 70, 300), "f32", "cuda", seed=2).mT
        check(a, b, "f32", kernel="split")
        want = torch.empty((*np.broadcast_shapes(first, second), 40, 70), device="cuda")
        call("gemm", "f32", a, b, None, None, want, kernel="split")
        for _ in range(20):
            out = torch.full_like(want, math.nan)
            call("gemm", "f32", a, b, None, None, out, kernel="split")
            assert torch.equal(out, want)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-split")
def test_split_reads_what_the_launch_before_it_wrote() -> None:
    """A chain, launched and captured, whose launches overlap."""
    has_split()
    gemm = importlib.import_module("aicf_cuda.gemm")
    x = random((32, 512), "f32", "cuda", seed=1)
    w = random((512, 512), "f32", "cuda", seed=2)
    outs = [torch.empty_like(x) for _ in range(8)]

    def chain() -> None:
        y = x
        for out in outs:
            assert gemm.gemm_f32(y, w, None, None, out, alpha=0.04, kernel="split")
            y = out

    y = x.double()
    for _ in outs:
        y = 0.04 * (y @ w.double())
    graph = torch.cuda.CUDAGraph()
    chain()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        chain()
    for run in (graph.replay, chain) * 5:
        for out in outs:
            out.fill_(math.nan)
        run()
        assert bool(((outs[-1] - y).abs() <= 1e-4 * y.abs().max()).all())


# More large tiles than there are multiprocessors, whole and cut: slabs fewer than stages and more,
# whole ones and a cut one.
MMA_SIZES = [(1536, 3072, 64), (2180, 4100, 200), (1500, 3001, 449), (3000, 5000, 13)]


def on_16_bytes(rows: int, columns: int, dtype: str, seed: int) -> torch.Tensor:
    """The address and the pitch are multiples of 16 bytes."""
    return random((rows, -(-columns // 8) * 8), dtype, "cuda", seed=seed)[:, :columns]


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm")
@pytest.mark.parametrize("order", ["rr", "rc", "cr", "cc"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_mma_of_many_tiles(dtype: str, order: str) -> None:
    """Blocks make one tile after another; each epilogue, the out in place of c too."""
    for m, n, k in MMA_SIZES:
        a = on_16_bytes(m, k, dtype, 1) if order[0] == "r" else on_16_bytes(k, m, dtype, 1).T
        b = on_16_bytes(k, n, dtype, 2) if order[1] == "r" else on_16_bytes(n, k, dtype, 2).T
        bias, c = random((n,), dtype, "cuda", seed=3), on_16_bytes(m, n, dtype, 4)
        out = on_16_bytes(m, n, dtype, 5).fill_(math.nan)
        for act in ("none", "relu", "gelu"):
            check(a, b, dtype, kernel="mma", bias=bias, act=act, alpha=0.5, out=out)
            more: dict[str, Any] = {"beta": 0.5, "alpha": -1.5, "act": act}
            check(a, b, dtype, kernel="mma", bias=bias, c=c, out=out, **more)
        call("gemm", dtype, a, b, bias, c, c, kernel="mma", **more)
        assert torch.equal(out, c)


# Tiles of all sizes, whole and cut, more slabs than stages, a vector.
TF32_SIZES = [
    (1500, 1544, 148), (1501, 1541, 147), (64, 128, 512), (130, 67, 333), (1, 300, 77), (16, 16, 8)
]  # fmt: skip
# The same for tiles of warpgroups: few rows, one of each, a wave and more of pairs.
WGMMA_TF32_SIZES = [
    (33, 4096, 1000), (64, 64, 32), (65, 129, 36), (300, 263, 100), (129, 2049, 520),
    (2056, 2047, 136), (4100, 4097, 72),
]  # fmt: skip


def has_tf32(kernel: str) -> None:
    built = importlib.import_module("aicf_cuda.gemm").capability["built"]
    hopper = torch.cuda.get_device_capability() == (9, 0)
    if not built[kernel] or not (hopper or kernel == "mma_tf32"):
        pytest.skip(f"gpu: {kernel} was not built, or not for this GPU")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-tf32")
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_tf32_of_all_layouts(first: str, second: str) -> None:
    """On 16 bytes and off; those that copy what does not fit take large ones alone."""
    has_tf32("turned_tf32")
    for m, n, k in TF32_SIZES:
        a, b = matrix((m, k), "f32", "cuda", first, 1), matrix((k, n), "f32", "cuda", second, 2)
        for kernel in ("mma_tf32", "turned_tf32") if m * n * k >= 2**22 else ("mma_tf32",):
            check(a, b, "f32", kernel=kernel, what=f"{first} {second}")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-tf32")
@pytest.mark.parametrize("order", ["rc", "rr", "cc"])
@pytest.mark.parametrize("sizes", WGMMA_TF32_SIZES, ids=str)
def test_tf32_by_warpgroups(sizes: tuple[int, int, int], order: str) -> None:
    """Each epilogue once; c and the out at odd addresses and pitches, and on pairs. k lies together
    in both operands, in a alone and in b alone."""
    has_tf32("wgmma_tf32")
    m, n, k = sizes
    a = on_16_bytes(m, k, "f32", 1) if order[0] == "r" else on_16_bytes(k, m, "f32", 1).T
    b = on_16_bytes(k, n, "f32", 2) if order[1] == "r" else on_16_bytes(n, k, "f32", 2).T
    bias = random((n,), "f32", "cuda", seed=3)
    for i, act in enumerate(("none", "relu", "gelu")):
        layout = ("dense", "pitched", "odd")[i]
        c = random((m, n), "f32", "cuda", layout, seed=4)
        out = empty((m, n), "f32", "cuda", layout).fill_(math.nan)
        check(a, b, "f32", kernel="wgmma_tf32", act=act, out=out)
        more: dict[str, Any] = {"bias": bias, "c": c, "beta": 0.5, "alpha": -2.0}
        check(a, b, "f32", kernel="wgmma_tf32", act=act, **more)
        call("gemm", "f32", a, b, bias, c, out, beta=0.5, alpha=-2.0, act=act, precision="tf32")
        call("gemm", "f32", a, b, bias, c, c, beta=0.5, alpha=-2.0, act=act, precision="tf32")
        assert torch.equal(out, c)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-tf32")
@pytest.mark.parametrize(
    "batches", [((3,), (3,)), ((5,), ()), ((), (5,)), ((2, 1), (1, 3))], ids=str
)
def test_tf32_batches(batches: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    has_tf32("wgmma_tf32")
    for m, n, k in [(100, 72, 40), (200, 263, 136)]:
        a = random((*batches[0], m, k), "f32", "cuda", seed=1)
        b = random((*batches[1], n, k), "f32", "cuda", seed=2).mT
        for kernel in ("wgmma_tf32", "mma_tf32"):
            check(a, b, "f32", kernel=kernel)
        if n % 4 == 0:
            check(a, b.contiguous(), "f32", kernel="wgmma_tf32")
        check(a.mT.contiguous().mT, b, "f32", kernel="wgmma_tf32")
        x, y = a.mT.contiguous().mT, b.contiguous()
        for kernel in ("turned_tf32", "mma_tf32") if k > 64 else ("mma_tf32",):
            check(x, y, "f32", kernel=kernel)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-tf32")
@pytest.mark.parametrize("kernel", TF32)
def test_tf32_rounds_to_the_nearest(kernel: str) -> None:
    """11 bits stay, and the rest is not cut off."""
    has_tf32(kernel)
    last = 2.0**-10
    b = torch.eye(256, device="cuda").T
    for given, want in [
        (1 + last, 1 + last), (1 + 0.75 * last, 1 + last), (1 + 0.25 * last, 1.0),
        (-1 - 0.75 * last, -1 - last), (3e38, 3e38),
    ]:  # fmt: skip
        a, out = torch.full((256, 256), given, device="cuda"), poisoned((256, 256), "f32", "cuda")
        call("gemm", "f32", a, b, None, None, out, **named(kernel))
        assert bool((out - want).abs().max() <= abs(want) * (2.0**-11 if want == 3e38 else 0.0))


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-tf32", "KERNELS-special-values")
@pytest.mark.parametrize("kernel", TF32)
def test_tf32_keeps_nan_and_infinity(kernel: str) -> None:
    has_tf32(kernel)
    a, b = torch.ones(256, 256, device="cuda"), torch.ones(256, 256, device="cuda").T
    a[3, 5], a[200, 255], a[77, 0] = math.nan, math.inf, -math.inf
    # NaN with all bits set, either sign: what a carry out of the rounding would make a zero of.
    a[90, 7:9] = torch.tensor([0x7FFFFFFF, -1], dtype=torch.int32, device="cuda").view(torch.float)
    out = poisoned((256, 256), "f32", "cuda")
    call("gemm", "f32", a, b, None, None, out, **named(kernel))
    want = torch.full((256, 256), 256.0, device="cuda")
    want[3], want[90], want[200], want[77] = math.nan, math.nan, math.inf, -math.inf
    assert_same(array_of(out), array_of(want), kernel)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-tf32", "KERNELS-gemm-bits")
@pytest.mark.parametrize("kernel", TF32)
def test_tf32_has_the_same_bits_at_every_run(kernel: str) -> None:
    """And no others where launches follow each other closely, captured too."""
    has_tf32(kernel)
    x = random((1024, 1024), "f32", "cuda", seed=1)
    w = random((1024, 1024), "f32", "cuda", seed=2).T
    outs = [torch.empty_like(x) for _ in range(6)]
    gemm = importlib.import_module("aicf_cuda.gemm")

    def chain() -> None:
        y = x
        for out in outs:
            assert gemm.gemm_f32(y, w, None, None, out, alpha=0.03, **named(kernel))
            y = out

    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        chain()
    graph.replay()
    first = [out.clone() for out in outs]
    for _ in range(10):
        for out in outs:
            out.fill_(math.nan)
        chain()
        assert all(torch.equal(a, b) for a, b in zip(first, outs, strict=True))


# ---- the library's kernel ------------------------------------------------------------------------


def lt_of(dtype: str) -> str:
    return "lt" if dtype == "f32" else "lt_half"


def has_lt() -> None:
    gemm = importlib.import_module("aicf_cuda.gemm")
    t = torch.zeros(2, 2, device="cuda")
    if not gemm.gemm_f32(t, t, None, None, t.clone(), kernel="lt"):
        pytest.skip(f"gpu: {[line for line in gemm.explain(t, t) if line.startswith('lt')]}")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-lt")
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_lt_in_all_layouts(sizes: tuple[int, int, int], dtype: str) -> None:
    has_lt()
    m, n, k = sizes
    bias = random((n,), dtype, "cuda", seed=3)
    for first, second in itertools.product(LAYOUTS, LAYOUTS):
        a = matrix((m, k), dtype, "cuda", first, 1)
        b = matrix((k, n), dtype, "cuda", second, 2)
        check(a, b, dtype, kernel=lt_of(dtype), alpha=-1.5, what=f"{first} {second}")
        if dtype == "f32":
            rows = "pitched" if first in ("swapped", "pitched columns") else first
            c = random((m, n), dtype, "cuda", rows, seed=4)
            check(a, b, dtype, kernel="lt", bias=bias, c=c, beta=0.5, alpha=-1.5)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-lt")
@pytest.mark.parametrize("batches", BATCHES, ids=str)
def test_lt_batches(batches: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    has_lt()
    a = random((*batches[0], 40, 24), "bf16", "cuda", seed=1)
    b = random((*batches[1], 72, 24), "bf16", "cuda", seed=2).mT
    bias = random((72,), "bf16", "cuda", seed=3)
    check(a, b, "bf16", kernel="lt_half")
    check(a.float(), b.float(), "f32", kernel="lt", bias=bias.float())
    backwards = random((3, 2, 40, 24), "bf16", "cuda", seed=1).transpose(0, 1)
    check(backwards, random((1, 24, 72), "bf16", "cuda", seed=2), "bf16", kernel="lt_half")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-lt")
def test_lt_is_the_last_and_uses_tf32_if_it_may() -> None:
    has_lt()
    gemm = importlib.import_module("aicf_cuda.gemm")
    a, b = (random((256, 256), "f32", "cuda", seed=i) for i in (1, 2))
    order = [line.partition(":")[0] for line in gemm.explain(a, b)]
    assert order.index("lt") > order.index("simt")
    exact = array_of(a) @ array_of(b)
    errors = []
    for precision in ("ieee", "tf32"):
        out = torch.empty_like(a)
        call("gemm", "f32", a, b, None, None, out, kernel="lt", precision=precision)
        errors.append(float(np.abs(array_of(out) - exact).max()))
    assert errors[0] < 1e-3 < errors[1] < 1.0
    for act in ("relu", "gelu"):
        assert gemm.gemm_f32(a, b, None, None, torch.empty_like(a), act=act, kernel="lt") is False


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-lt")
def test_lt_of_16_bits_adds_nothing_to_the_product() -> None:
    """It would round before."""
    has_lt()
    gemm = importlib.import_module("aicf_cuda.gemm")
    a, bias, out = (random(n, "bf16", "cuda", seed=1) for n in ((64, 64), (64,), (64, 64)))
    assert gemm.gemm_bf16(a, a, None, None, out, kernel="lt_half") is True
    assert gemm.gemm_bf16(a, a, bias, None, out, kernel="lt_half") is False
    assert gemm.gemm_bf16(a, a, None, a, out, beta=1.0, kernel="lt_half") is False


FIRST_CALL = """
import torch, aicf_cuda.gemm as gemm
a = torch.randn(64, 64, device="cuda").half()
out = torch.empty_like(a)
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    done = gemm.gemm_f16(a, a, None, None, out, kernel="lt_half")
print([x for x in gemm.explain(a, a) if x.startswith("lt")] if not done else "captured")
graph.replay()
torch.cuda.synchronize()
if done:
    assert (out.float() - a.float() @ a.float()).abs().max() < 0.1
"""


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-lt")
@pytest.mark.parametrize("library", ["", "/nowhere/libcublasLt.so"])
def test_lt_captured_as_the_first_call(library: str) -> None:
    """And where the library is not found, that is the reason."""
    has_lt()
    said = subprocess.run(
        [sys.executable, "-c", FIRST_CALL],
        env={**os.environ, "AICF_LIB_CUBLASLT": library, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert ("cublasLt was not found" if library else "captured") in said.stdout


# ---- no more than was asked for ------------------------------------------------------------------


@pytest.mark.promise("KERNELS-gemm-tf32")
def test_no_silent_tf32(device: str) -> None:
    """Without a word, and on the CPU with it too, f32 is f32."""
    row = importlib.import_module("aicf_cuda.gemm").capability
    assert [x["default"] for x in row["args"] if x["name"] == "precision"] == ["ieee"]
    a, b = random((300, 257), "f32", device, seed=1), random((257, 300), "f32", device, seed=2)
    check(a, b, "f32")
    check(a, b, "f32", precision="ieee")
    gemm = importlib.import_module("aicf_cuda.gemm")
    told = gemm.explain(a, b)
    for line in told:
        if line.split(":")[0] in TF32:
            assert "fits" not in line, line
    if device == "cpu":
        check(a, b, "f32", precision="tf32")


@pytest.mark.promise("KERNELS-gemm")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (7, 17, 9), (100, 300, 20), (40, 136, 72), (9, 136, 512)], ids=str
)
def test_epilogues_by_every_kernel(device: str, sizes: tuple[int, int, int], dtype: str) -> None:
    skip_without(dtype, device)
    m, n, k = sizes
    a, b = random((m, k), dtype, device, seed=1), random((k, n), dtype, device, seed=2)
    bias, c = random((n,), dtype, device, seed=3), random((m, n), dtype, device, "pitched", seed=4)
    for kernel in kernels_of(dtype, device):
        if kernel in ALIGNED and (n % 8 or k % 8):
            continue  # their guards ask for rows that are aligned to 16 bytes
        for with_bias, with_c, act in itertools.product((0, 1), (0, 1), ("none", "relu", "gelu")):
            for alpha, beta in [(1.0, 1.0), (-0.7, 0.5), (0.0, 1.0), (2.0, 0.0)]:
                options: dict[str, Any] = {"alpha": alpha, "act": act}
                if with_c:
                    options |= {"beta": beta, "c": c}
                if with_bias:
                    options["bias"] = bias
                check(a, b, dtype, kernel=kernel, **options)


@pytest.mark.promise("KERNELS-gemm", "KERNELS-in-place")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["dense", "pitched"])
def test_out_may_be_c(device: str, layout: str, dtype: str) -> None:
    skip_without(dtype, device)
    a, b = random((33, 20), dtype, device, seed=1), random((20, 70), dtype, device, seed=2)
    c = random((33, 70), dtype, device, layout, seed=3)
    for kernel in kernels_of(dtype, device):
        if kernel in ALIGNED:
            continue  # rows of 70 are not aligned
        out = empty((33, 70), dtype, device, layout).copy_(c)
        given = array_of(c)
        call("gemm", dtype, a, b, None, out, out, beta=0.5, act="relu", **named(kernel))
        x, y = array_of(a), array_of(b)
        want = references.gemm(x, y, None, given, beta=0.5, act="relu")
        eps = 20 * EPS[dtype] + (EPS_TF32 if kernel in TF32 else 0.0)
        slack = eps * (np.abs(x) @ np.abs(y))
        assert_close(array_of(out), want, dtype, f"gemm {kernel}, out is c, {layout}", slack)


@pytest.mark.promise("KERNELS-gemm")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("batches", BATCHES, ids=str)
def test_batches(device: str, batches: tuple[tuple[int, ...], tuple[int, ...]], dtype: str) -> None:
    skip_without(dtype, device)
    for m, n, k in [(5, 7, 3), (8, 16, 8), (6, 16, 256)]:
        for first, second in [("dense", "dense"), ("swapped", "pitched"), ("pitched", "swapped")]:
            a = matrix((*batches[0], m, k), dtype, device, first, 1)
            b = matrix((*batches[1], k, n), dtype, device, second, 2)
            full = np.broadcast_shapes(*batches)
            bias = random((n,), dtype, device, seed=3)
            c = random((*full, m, n), dtype, device, seed=4)
            check(a, b, dtype, what=f"{first} {second}")
            check(a, b, dtype, bias=bias, c=c, beta=-1.0, act="gelu", what=f"{first} {second}")


@pytest.mark.promise("KERNELS-gemm")
@pytest.mark.parametrize("dtype", FLOATS)
def test_batches_that_do_not_merge(device: str, dtype: str) -> None:
    """Batch dims in another order in memory, and every second matrix of a larger batch."""
    skip_without(dtype, device)
    a = random((3, 2, 5, 4), dtype, device, seed=1).transpose(0, 1)
    b = random((5, 3, 4, 6), dtype, device, seed=2)[1::2]
    check(a, b, dtype)
    out = poisoned((3, 2, 5, 6), dtype, device).transpose(0, 1)
    check(a, b, dtype, out=out)


@pytest.mark.promise("C1", "KERNELS-gemm")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("act", ["none", "relu", "gelu"])
def test_no_products(device: str, act: str, dtype: str) -> None:
    """K = 0: act(beta * c + bias), and 0 without them."""
    skip_without(dtype, device)
    a, b = random((3, 0), dtype, device), random((0, 5), dtype, device)
    bias, c = random((5,), dtype, device, seed=3), random((3, 5), dtype, device, seed=4)
    for kernel in kernels_of(dtype, device):
        if kernel in ALIGNED:
            continue  # rows of 5 are not aligned
        # First a product, so that sums which are not set to 0 hold something else.
        check(random((3, 9), dtype, device), random((9, 5), dtype, device), dtype, kernel=kernel)
        check(a, b, dtype, act=act, kernel=kernel)
        check(a, b, dtype, bias=bias, act=act, kernel=kernel)
        check(a, b, dtype, c=c, beta=2.0, act=act, kernel=kernel)
        check(a, b, dtype, bias=bias, c=c, beta=2.0, act=act, kernel=kernel)


@pytest.mark.promise("C1")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(0, 3, 2), (3, 0, 2), (0, 0, 0)], ids=str)
def test_an_empty_out(device: str, sizes: tuple[int, int, int], dtype: str) -> None:
    skip_without(dtype, device)
    m, n, k = sizes
    check(random((m, k), dtype, device), random((k, n), dtype, device), dtype)


@pytest.mark.promise("KERNELS-special-values", "KERNELS-gemm")
@pytest.mark.parametrize("dtype", FLOATS)
def test_c_is_not_read_where_beta_is_0(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    a, b = random((7, 9), dtype, device, seed=1), random((9, 11), dtype, device, seed=2)
    c = poisoned((7, 11), dtype, device)
    for kernel in kernels_of(dtype, device):
        if kernel not in ALIGNED:
            check(a, b, dtype, c=c, beta=0.0, kernel=kernel)
            check(a, b, dtype, c=c, out=c, beta=0.0, kernel=kernel)
            c.fill_(math.nan)


@pytest.mark.promise("KERNELS-special-values", "KERNELS-gemm")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("alpha", [1.0, 0.0])
@pytest.mark.parametrize("m, n, k", [(20, 24, 8), (200, 240, 80)])
def test_nan_and_infinity_reach_their_rows_alone(
    device: str, m: int, n: int, k: int, alpha: float, dtype: str
) -> None:
    """And through alpha = 0 too: 0 * NaN is NaN, also in sizes where BLAS would not look at a."""
    skip_without(dtype, device)
    x = np.ones((m, k))
    x[3, 2], x[11, 5] = math.nan, math.inf
    a, b = tensor_of(x, dtype, device), tensor_of(np.ones((k, n)), dtype, device)
    want = np.full((m, n), k * alpha)
    want[3], want[11] = math.nan, math.inf if alpha else math.nan
    for kernel in kernels_of(dtype, device):
        out = poisoned((m, n), dtype, device)
        call("gemm", dtype, a, b, None, None, out, alpha=alpha, **named(kernel))
        assert_same(array_of(out), want, f"gemm {kernel} {dtype}")


@pytest.mark.promise("KERNELS-special-values", "KERNELS-gemm")
@pytest.mark.parametrize("dtype", FLOATS)
def test_activations_of_the_odd_values(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    bias = np.array([math.nan, -math.inf, math.inf, -1e4, 1e4, -0.0, 0.0, 1.0])
    a, b = tensor_of(np.zeros((3, 8)), dtype, device), tensor_of(np.zeros((8, 8)), dtype, device)
    for act in ("relu", "gelu"):
        want = references.gemm(np.zeros((3, 8)), np.zeros((8, 8)), bias, act=act)
        if dtype == "f16" or dtype == "bf16":
            want = array_of(tensor_of(want, dtype, "cpu"))
        out = tensor_of(np.full((3, 8), 7.0), dtype, device)
        call("gemm", dtype, a, b, tensor_of(bias, dtype, device), None, out, act=act)
        assert_close(array_of(out), want, dtype, f"act {act}")


@pytest.mark.promise("KERNELS-gemm")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_products_are_summed_in_f32(device: str, dtype: str) -> None:
    """The running sum passes what f16 holds, and 256, where bf16 stops counting."""
    a = tensor_of(np.ones((8, 512)), dtype, device)
    b = tensor_of(np.full((512, 8), 200.0), dtype, device)
    check(a, b, dtype, alpha=0.25)  # 102400 before alpha
    ones = tensor_of(np.ones((512, 8)), dtype, device)
    out = poisoned((8, 8), dtype, device)
    call("gemm", dtype, a, ones, None, None, out)
    assert_same(array_of(out), np.full((8, 8), 512.0), f"512 ones in {dtype}")


@pytest.mark.promise("KERNELS-gemm", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_that_overlap_or_coincide(device: str, dtype: str) -> None:
    """Inputs with any pitch: 0 (one row for all) and less than a row (windows of a signal)."""
    skip_without(dtype, device)
    signal = random((40,), dtype, device, seed=1)
    windows = signal.as_strided((8, 16), (3, 1))
    one = random((1, 16), dtype, device, seed=2).expand(8, 16)
    b = random((16, 9), dtype, device, seed=3)
    for a in (windows, one):
        for kernel in kernels_of(dtype, device):
            if kernel not in ALIGNED:
                check(a, b, dtype, kernel=kernel)
        check(b.T, a.T, dtype)


@pytest.mark.promise("KERNELS-gemm")
@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
def test_rows_that_run_backwards(dtype: str) -> None:
    """Which numpy has, and BLAS has no word for."""
    rng = np.random.default_rng(0)
    kind = {"f32": "f4", "f16": "f2", "f64": "f8"}[dtype]
    a, b = rng.standard_normal((9, 20)).astype(kind), rng.standard_normal((20, 17)).astype(kind)
    bias = rng.standard_normal(17).astype(kind)
    for x, y in [(a[::-1], b), (a, b[::-1]), (a[::-2], b[::-1])]:
        out = np.full((len(x), 17), np.nan, kind)[::-1]
        call("gemm", dtype, x, y, bias, None, out, act="relu")
        given = [v.astype(np.float64) for v in (x, y, bias)]
        want = references.gemm(*given, act="relu")
        slack = 20 * EPS[dtype] * (np.abs(given[0]) @ np.abs(given[1]))
        assert_close(out.astype(np.float64), want, dtype, "gemm backwards", slack)


@pytest.mark.promise("KERNELS-blas")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_blas_and_loop_agree(dtype: str) -> None:
    if not blas_is_there():  # then it does not fit, and says what it wants
        t = torch.zeros(1, 1)
        gemm = importlib.import_module("aicf_cuda.gemm")
        assert any("blas" in line and "openblas" in line for line in map(str, gemm.explain(t, t)))
        return
    for m, n, k in SIZES:
        for first, second in itertools.product(LAYOUTS, LAYOUTS):
            a = matrix((m, k), dtype, "cpu", first, 1)
            b = matrix((k, n), dtype, "cpu", second, 2)
            for kernel in ("blas", "loop"):
                check(a, b, dtype, kernel=kernel, what=f"{first} {second}")
