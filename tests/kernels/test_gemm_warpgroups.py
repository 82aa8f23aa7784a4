"""gemm's kernels of sm_90a by name, on and around every edge they have, against float64 on the GPU.

Operands lie in buffers of NaN, so that a read past an edge shows; outs too, with guards around and
between their rows, so that a missing or a stray write shows.
"""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import pytest
import torch

from kernels.calls import call
from kernels.tensors import DTYPES

pytestmark = [pytest.mark.guests("torch"), pytest.mark.gpu]

HALVES = ("bf16", "f16")
GUARD = 4096 + 8  # elements around every buffer: bases are on 16 bytes and no more
HALF_ULP = {"bf16": 2.0**-8, "f16": 2.0**-11}
LAYOUTS = ("rr", "rc", "cr", "cc")

# M: one row, the edge of few rows, within, at and past the 64 rows of a consumer and the tile's
# 128. N: 16 bytes of the copy engine, within a panel, across panels and tiles. K: one product,
# below, at and past a slab, more slabs than stages.
SHAPES = [
    (1, 8, 1), (1, 4096, 4096), (3, 8, 7), (8, 24, 1000), (16, 4096, 999), (16, 20480, 136),
    (17, 40, 65), (64, 136, 64), (64, 4096, 1000), (65, 64, 8), (72, 1000, 264), (129, 264, 63),
    (130, 8, 999), (255, 256, 255), (256, 4096, 1032), (257, 1000, 72), (1000, 1000, 1000),
    (1024, 1024, 520), (2056, 2048, 136), (4095, 4104, 72), (8191, 8, 8), (40, 50304, 72),
    (256, 4096, 4096), (200, 4088, 3000), (70, 1000, 8200),  # two blocks a tile
    (1030, 5640, 520), (2048, 4104, 136), (3080, 3080, 72),  # whole tiles with a fringe
]  # fmt: skip


@pytest.fixture(autouse=True)
def need_90a() -> None:
    built = importlib.import_module("aicf_cuda.gemm").capability["built"]
    if torch.cuda.get_device_capability() != (9, 0) or not built["wgmma"]:
        pytest.skip("gpu: of another arch than sm_90a, or CUDA_ARCHS is without 90a")


def guarded(
    rows: int, columns: int, dtype: str, order: str, slack: int, lead: tuple[int, ...] = ()
) -> tuple[torch.Tensor, torch.Tensor]:
    """A buffer of NaN, and a view of matrices in it whose rows (or columns: c) end in slack."""
    inner, outer = (columns, rows) if order == "r" else (rows, columns)
    pitch = inner + slack
    count = 1
    for size in lead:
        count *= size
    flat = torch.full((2 * GUARD + count * outer * pitch,), torch.nan, device="cuda")
    flat = flat.to(DTYPES[dtype])
    view = flat[GUARD : flat.numel() - GUARD].view(*lead, outer, pitch)[..., :inner]
    return flat, view if order == "r" else view.mT


def filled(*args: Any, seed: int = 0, **options: Any) -> torch.Tensor:
    _, view = guarded(*args, **options)
    generator = torch.Generator("cuda").manual_seed(seed)
    view.copy_(torch.randn(view.shape, device="cuda", generator=generator))
    return view


def up(x: int) -> int:
    return -(-x // 8) * 8 - x


def wanted(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, c: torch.Tensor | None,
    alpha: float, beta: float, act: str,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """In float64, and the size of the terms of each element."""
    x, y = a.double(), b.double()
    want, size = alpha * (x @ y), abs(alpha) * (x.abs() @ y.abs())
    if c is not None and beta != 0.0:
        want, size = want + beta * c.double(), size + abs(beta) * c.double().abs()
    if bias is not None:
        want, size = want + bias.double(), size + bias.double().abs()
    if act == "relu":
        want = want.relu()
    elif act == "gelu":
        want = torch.nn.functional.gelu(want)
    return want, size


def check(
    kernel: str | None, a: torch.Tensor, b: torch.Tensor, dtype: str, *, slack: int = 0,
    bias: torch.Tensor | None = None, c: torch.Tensor | None = None, what: str = "",
    alpha: float = 1.0, beta: float = 0.0, act: str = "none",
) -> torch.Tensor:  # fmt: skip
    """One call into a poisoned out; what it gave."""
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
    flat, out = guarded(m, n, dtype, "r", slack, tuple(lead))
    want, size = wanted(a, b, bias, c, alpha, beta, act)
    options: dict[str, Any] = {"alpha": alpha, "beta": beta, "act": act}
    if kernel is not None:
        options["kernel"] = kernel
    call("gemm", dtype, a, b, bias, c, out, **options)
    got = out.clone()
    allowed = 1.01 * HALF_ULP[dtype] * want.abs() + k * 2.0**-24 * size + 2.0**-20
    if act == "gelu":
        allowed += 2e-5 * (want.abs() + size)
    wrong = ~((got.double() - want).abs() <= allowed)
    label = f"{kernel} {tuple(a.shape)} @ {tuple(b.shape)} {dtype} {what} {options}"
    if bool(wrong.any()):
        at = tuple(wrong.nonzero()[0].tolist())
        pytest.fail(
            f"{label}: {int(wrong.sum())} of {wrong.numel()} wrong, first at {at}: "
            f"{float(got[at])} for {float(want[at])}"
        )
    out.fill_(torch.nan)
    assert bool(flat.isnan().all()), f"{label}: wrote outside of the out"
    return got


@pytest.mark.promise("KERNELS-gemm-wgmma")
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_and_layouts(shape: tuple[int, int, int], layouts: str) -> None:
    """Rows on 16 bytes: dense where they are, with the least slack for that, with more."""
    m, n, k = shape
    for i, more in enumerate((0, 8)):
        dtype = HALVES[(i + m + len(layouts)) % 2]
        slack_a = up(k if layouts[0] == "r" else m) + more
        slack_b = up(n if layouts[1] == "r" else k) + more
        a = filled(m, k, dtype, layouts[0], slack_a, seed=1)
        b = filled(k, n, dtype, layouts[1], slack_b, seed=2)
        if (k == 1 and layouts[0] == "c") or m == k == 1:
            continue  # a column, of which no stride says that it is one
        check("wgmma", a, b, dtype, slack=more, what=layouts)


@pytest.mark.promise("KERNELS-gemm-wgmma")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "shape",
    [
        (5, 72, 72), (64, 4096, 520), (300, 520, 104), (1024, 4096, 136), (200, 520, 8200),
        (2053, 2056, 136),
    ],
    ids=str,
)  # fmt: skip
def test_epilogues(shape: tuple[int, int, int], dtype: str) -> None:
    """Of few rows, halved ones, small and large tiles, and with a fringe; the bias where the copy
    engine takes it, from which sums begin then, and on 2 bytes alone."""
    m, n, k = shape
    a, b = filled(m, k, dtype, "r", 0, seed=1), filled(k, n, dtype, "c", 0, seed=2)
    flat = torch.randn(n + 1, device="cuda").to(DTYPES[dtype])
    c = filled(m, n, dtype, "r", 2 + m % 2, seed=3)
    biases = (None, flat[:n], flat[1:])
    for act, bias, with_c in itertools.product(("none", "relu", "gelu"), biases, (0, 1)):
        for alpha in (1.0, -0.3):
            check(
                "wgmma", a, b, dtype, bias=bias, c=c if with_c else None,
                alpha=alpha, beta=0.5 * with_c, act=act,
            )  # fmt: skip


@pytest.mark.promise("KERNELS-gemm-wgmma")
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("shape", [(4104, 4104), (4100, 4096), (4112, 4112), (4096, 4120)], ids=str)
def test_rows_and_columns_past_whole_tiles(shape: tuple[int, int], layouts: str) -> None:
    """Up to eight come along with tiles, more are launches of their own: each takes its part of c
    and bias."""
    (m, n), k = shape, 2056
    slack = up(m) if layouts[0] == "c" else 0
    a = filled(m, k, "bf16", layouts[0], slack, seed=1)
    b = filled(k, n, "bf16", layouts[1], 0, seed=2)
    bias = torch.randn(n, device="cuda").bfloat16()
    c = filled(m, n, "bf16", "r", 1, seed=3)
    check("wgmma", a, b, "bf16", bias=bias, c=c, beta=0.5, act="relu", what=layouts)


@pytest.mark.promise("KERNELS-gemm-wgmma", "KERNELS-in-place")
def test_out_is_c_and_c_is_not_read() -> None:
    a, b = filled(200, 72, "bf16", "r", 0, seed=1), filled(72, 520, "bf16", "r", 0, seed=2)
    given = torch.randn(200, 520, device="cuda").bfloat16()
    out = given.clone()
    call("gemm", "bf16", a, b, None, out, out, beta=0.5, kernel="wgmma")
    want = torch.empty_like(out)
    call("gemm", "bf16", a, b, None, given, want, beta=0.5, kernel="wgmma")
    assert torch.equal(out, want)
    check("wgmma", a, b, "bf16", c=torch.full_like(given, torch.nan), beta=0.0)


# Batch dims of a and b: in turn, one for all, several that do and do not merge, none.
BATCHES = [
    ((3,), (3,)), ((5,), ()), ((), (5,)), ((2, 3), (2, 3)), ((2, 1), (1, 3)), ((2, 3), (3,)),
    ((2, 1, 2), (3, 1)), ((0,), (0,)), ((300,), (300,)),
]  # fmt: skip


@pytest.mark.promise("KERNELS-gemm-wgmma")
@pytest.mark.parametrize("batches", BATCHES, ids=str)
def test_batches(batches: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    for i, (m, n, k) in enumerate([(5, 16, 24), (72, 136, 40), (200, 264, 136)]):
        dtype, order = HALVES[i % 2], LAYOUTS[i]
        a = filled(m, k, dtype, order[0], up(m if order[0] == "c" else k), batches[0], seed=1)
        b = filled(k, n, dtype, order[1], 8, batches[1], seed=2)
        lead = tuple(torch.broadcast_shapes(*batches))
        c = filled(m, n, dtype, "r", 0, lead, seed=3)
        bias = torch.randn(n, device="cuda").to(DTYPES[dtype])
        check("wgmma", a, b, dtype, what=order)
        check("wgmma", a, b, dtype, bias=bias, c=c, beta=-1.0, act="relu", slack=8, what=order)


@pytest.mark.promise("KERNELS-gemm-wgmma")
def test_batches_in_other_orders() -> None:
    """Dims that lie in another order in memory, every second matrix, one matrix by stride 0."""
    a = filled(40, 72, "bf16", "r", 0, (3, 2), seed=1).transpose(0, 1)
    b = filled(72, 136, "bf16", "r", 0, (5, 3), seed=2)[1::2]
    check("wgmma", a, b, "bf16")
    check("wgmma", a, b[0, :1].expand(2, 3, 72, 136), "bf16")
    overlapping = filled(1, 4096, "bf16", "r", 0, seed=3)[0].as_strided((6, 40, 72), (80, 80, 1))
    check("wgmma", overlapping, b[0, 0], "bf16", what="overlapping matrices")


@pytest.mark.promise("KERNELS-gemm-wgmma")
def test_what_it_leaves_to_the_next_kernel() -> None:
    """Each guard once; the call without a kernel's name is right all the same."""
    gemm = importlib.import_module("aicf_cuda.gemm")
    a, b = filled(72, 72, "bf16", "r", 0, seed=1), filled(72, 72, "bf16", "r", 0, seed=2)
    odd = filled(72, 72, "bf16", "r", 3, seed=3)
    moved = filled(1, 72 * 72 + 8, "bf16", "r", 0, seed=4)[0, 1 : 72 * 72 + 1].view(72, 72)
    one_row = a[:1].expand(72, 72)
    for name, x, y in [
        ("N", a, b[:, :36]), ("pitch", odd, b), ("pitch", a, odd), ("address", moved, b),
        ("address", a, moved), ("stride 0", one_row, b), ("stride 0", b, one_row),
        ("K = 0", a[:, :0], b[:0]),
    ]:  # fmt: skip
        out = torch.empty(x.shape[0], y.shape[1], device="cuda", dtype=torch.bfloat16)
        assert gemm.gemm_bf16(x, y, None, None, out, kernel="wgmma") is False, name
        check(None, x, y, "bf16", what=name)
    odd_c = filled(72, 72, "bf16", "r", 1, seed=5)
    check("wgmma", a, b, "bf16", c=odd_c, beta=1.0, what="any c will do")


# Odd in all ways: each of M, N and K, addresses, pitches.
@pytest.mark.promise("KERNELS-gemm-padded")
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize(
    "shape", [(65, 1009, 67), (255, 253, 129), (513, 72, 1031), (1024, 1001, 520)], ids=str
)
def test_operands_copied_to_where_they_fit(shape: tuple[int, int, int], layouts: str) -> None:
    m, n, k = shape
    for i, slack in enumerate((0, 5)):
        dtype = HALVES[(i + len(layouts)) % 2]
        a = filled(m, k, dtype, layouts[0], slack, seed=1)
        b = filled(k, n, dtype, layouts[1], 0, seed=2)
        bias = torch.randn(n, device="cuda").to(DTYPES[dtype])
        c = filled(m, n, dtype, "r", 1 - i, seed=3)
        check("padded", a, b, dtype, slack=slack, what=layouts)
        check(
            "padded", a, b, dtype, slack=slack, bias=bias, c=c, beta=0.5, act="relu", what=layouts
        )


@pytest.mark.promise("KERNELS-gemm-padded")
def test_copied_batches_and_addresses() -> None:
    """Batches of either and both, one matrix for all, backwards; only what does not fit moves."""
    for lead_a, lead_b in (((3,), (3,)), ((3,), ()), ((2, 1), (1, 3)), ((5, 2), (2,))):
        a = filled(70, 301, "bf16", "r", 0, lead_a, seed=1)
        b = filled(301, 203, "bf16", "c", 2, lead_b, seed=2)
        check("padded", a, b, "bf16")
    even = filled(320, 328, "bf16", "r", 0, seed=3)
    flat = filled(1, 320 * 328 + 8, "bf16", "r", 0, seed=4)[0]
    for offset in range(1, 8):
        moved = flat[offset : offset + 320 * 328].view(328, 320)
        check("padded", even, moved, "bf16", what=f"b from element {offset}")
        check("padded", moved, even, "bf16", what=f"a from element {offset}")
    check("padded", even[:1].expand(320, 328), flat[: 320 * 328].view(328, 320), "bf16")
    out = flat[3 : 3 + 320 * 320].view(320, 320)
    call("gemm", "bf16", even, even.mT, None, None, out, kernel="padded")
    want = torch.empty(320, 320, device="cuda", dtype=torch.bfloat16)
    call("gemm", "bf16", even, even.mT, None, None, want, kernel="wgmma")
    assert torch.equal(out, want)


@pytest.mark.promise("KERNELS-gemm-padded")
def test_copied_out_that_is_c() -> None:
    a, b = filled(201, 203, "f16", "r", 0, seed=1), filled(203, 205, "f16", "r", 0, seed=2)
    given = filled(201, 205, "f16", "r", 0, seed=3)
    want = torch.empty_like(given)
    call("gemm", "f16", a, b, None, given, want, beta=0.5, kernel="padded")
    call("gemm", "f16", a, b, None, given, given, beta=0.5, kernel="padded")
    assert torch.equal(given, want)


@pytest.mark.promise("KERNELS-gemm-bits")
@pytest.mark.parametrize("m", [1, 16, 64, 256, 1024])
def test_the_same_bits_at_every_run(m: int) -> None:
    """An error that moves is a race."""
    a, b = filled(m, 4096, "bf16", "r", 0, seed=1), filled(4096, 4096, "bf16", "r", 0, seed=2)
    outs = [torch.full((m, 4096), torch.nan, device="cuda").bfloat16() for _ in range(20)]
    for out in outs:
        call("gemm", "bf16", a, b, None, None, out, kernel="wgmma")
    assert all(torch.equal(outs[0], out) for out in outs)


@pytest.mark.promise("KERNELS-gemm-bits")
def test_the_same_bits_with_a_fringe() -> None:
    a, b = filled(3080, 520, "bf16", "r", 0, seed=1), filled(520, 3080, "bf16", "r", 0, seed=2)
    outs = [torch.full((3080, 3080), torch.nan, device="cuda").bfloat16() for _ in range(10)]
    for out in outs:
        call("gemm", "bf16", a, b, None, None, out, kernel="wgmma")
    assert all(torch.equal(outs[0], out) for out in outs)


@pytest.mark.promise("KERNELS-gemm-wgmma")
def test_b_of_the_launch_before() -> None:
    """Few rows ask the L2 for b while the launch that writes it runs: it is read after that."""
    gemm = importlib.import_module("aicf_cuda.gemm")
    x = torch.randn(40, 1024, device="cuda").bfloat16()
    factors = [torch.randn(1024, 1024, device="cuda").bfloat16() / 32 for _ in range(6)]
    b, out = torch.empty_like(factors[0]), torch.empty_like(x)
    outs = []
    for _ in range(20):
        for factor in factors:
            assert gemm.gemm_bf16(factor, factors[0], None, None, b, kernel="wgmma")
            assert gemm.gemm_bf16(x, b, None, None, out, kernel="wgmma")
            outs.append(out.clone())
    for i, got in enumerate(outs):
        b = (factors[i % len(factors)].float() @ factors[0].float()).bfloat16()
        want = x.float() @ b.float()
        assert float((got.float() - want).norm() / want.norm()) < 1e-2, i


@pytest.mark.promise("KERNELS-gemm-wgmma")
@pytest.mark.parametrize("m", [8, 1024])
def test_one_after_the_other(m: int) -> None:
    """A launch that starts early still sees what the one before it wrote; captured too."""
    gemm = importlib.import_module("aicf_cuda.gemm")
    weights = [torch.randn(1024, 1024, device="cuda").bfloat16() / 32 for _ in range(8)]
    first = torch.randn(m, 1024, device="cuda").bfloat16()
    outs = [torch.empty_like(first) for _ in weights]

    def chain() -> None:
        x = first
        for w, out in zip(weights, outs, strict=True):
            assert gemm.gemm_bf16(x, w, None, None, out, kernel="wgmma")
            x = out

    want = first
    for w in weights:
        want = (want.float() @ w.float()).bfloat16()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain()
    for run in (chain, graph.replay):
        for out in outs:
            out.fill_(torch.nan)
        for _ in range(20):
            run()
        error = (outs[-1].float() - want.float()).norm() / want.float().norm()
        assert float(error) < 1e-2


@pytest.mark.promise("KERNELS-gemm-wgmma")
@pytest.mark.parametrize("size", [4104, 4112])
def test_launches_beside_each_other(size: int) -> None:
    """Products in one launch, or in several that overlap, two buffers in turn: none reads what the
    product before has not written yet, or writes what it still reads."""
    gemm = importlib.import_module("aicf_cuda.gemm")
    weights = torch.randn(size, size, device="cuda").bfloat16() / 64
    first = torch.randn(size, size, device="cuda").bfloat16()

    def chain(wait: bool) -> torch.Tensor:
        x, y = first.clone(), torch.full_like(first, torch.nan)
        for _ in range(6):
            assert gemm.gemm_bf16(x, weights, None, None, y, kernel="wgmma")
            x, y = y, x
            if wait:
                torch.cuda.synchronize()
        return x

    want = chain(wait=True)
    assert not bool(want.isnan().any())
    assert all(torch.equal(chain(wait=False), want) for _ in range(5))


@pytest.mark.promise("KERNELS-gemm-wgmma", "KERNELS-special-values")
def test_nan_and_infinity_stay_in_their_rows() -> None:
    a, b = filled(130, 128, "bf16", "r", 0, seed=1), filled(128, 72, "bf16", "r", 0, seed=2)
    a[3, 5], a[129, 127] = torch.nan, torch.inf
    for act in ("none", "relu"):
        out = torch.empty(130, 72, device="cuda", dtype=torch.bfloat16)
        call("gemm", "bf16", a, b, None, None, out, act=act, kernel="wgmma")
        want = a.float() @ b.float()
        want = want.relu() if act == "relu" else want
        assert bool(out[3].isnan().all())
        assert torch.equal(out.isnan(), want.isnan())
        assert torch.equal(out.isinf(), want.isinf())


@pytest.mark.promise("KERNELS-gemm-wgmma", "KERNELS-special-values")
def test_nan_and_infinity_of_a_bias_stay_in_their_columns() -> None:
    a, b = filled(130, 128, "bf16", "r", 0, seed=1), filled(128, 136, "bf16", "r", 0, seed=2)
    bias = torch.zeros(136, device="cuda").bfloat16()
    bias[3], bias[64], bias[135] = torch.nan, torch.inf, -torch.inf
    out = torch.empty(130, 136, device="cuda", dtype=torch.bfloat16)
    call("gemm", "bf16", a, b, bias, None, out, kernel="wgmma")
    want = a.float() @ b.float() + bias.float()
    assert torch.equal(out.isnan(), want.isnan())
    assert torch.equal(out.isposinf(), want.isposinf())
    assert torch.equal(out.isneginf(), want.isneginf())


@pytest.mark.large
@pytest.mark.promise("KERNELS-gemm-large")
def test_more_than_31_bits_of_elements() -> None:
    m, n, k = 65544, 32776, 8
    a, b = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(k, n, device="cuda").bfloat16()
    out = torch.full((m, n), torch.nan, device="cuda", dtype=torch.bfloat16)
    call("gemm", "bf16", a, b, None, None, out, kernel="wgmma")
    for start in (0, m // 2, m - 256):
        want = a[start : start + 256].double() @ b.double()
        got = out[start : start + 256].double()
        assert bool(((got - want).abs() <= 2.0**-8 * want.abs() + 1e-4).all())
    assert not bool(out.isnan().any())
