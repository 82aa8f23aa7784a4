"""layer_norm and rms_norm, forward and backward: what is special in them beside tests/rows."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from kernels.calls import call, printed_with_threads, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, assert_near, poisoned, random, tensor_of
from kernels.tolerance import EPS, assert_close
from rows import norms as entries

pytestmark = [pytest.mark.guests("torch")]

F64 = torch.float64
norms: Any = entries  # whose references take lists of arguments
# Widths: 1, odd, a vector +-1, a prime, a warp's, hidden sizes that are no powers of two, a
# block's, beyond it, a cluster's odd one.
WIDTHS = [1, 2, 7, 8, 9, 31, 127, 128, 257, 513, 768, 1025, 3584, 4095, 8192]
WIDE = [8193, 16385, 16640, 50257, 65537, 131_073]  # of clusters, and what none of them holds
ROWS = [1, 2, 5, 133]


def acc(dtype: str) -> str:
    return "f64" if dtype == "f64" else "f32"


def forward(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    dtype: str,
    out: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    device = x.device.type
    out = poisoned(x.shape, dtype, device) if out is None else out
    mean, rstd = (poisoned(x.shape[:-1], acc(dtype), device) for _ in range(2))
    call("layer_norm", dtype, x, weight, bias, out, mean, rstd, eps=eps)
    return out, mean, rstd


def doubles(*tensors: torch.Tensor | None) -> list[Any]:
    return [None if t is None else t.cpu().to(F64) for t in tensors]


MANY = 2**20


def exactly(x: torch.Tensor, *others: torch.Tensor | None) -> list[Any]:
    """In float64; on the CPU but of many elements, which it would look at for seconds."""
    place = x.device if x.numel() > MANY else "cpu"
    return [None if t is None else t.to(place, F64) for t in (x, *others)]


def near(got: torch.Tensor, want: torch.Tensor, kind: str, what: str) -> None:
    if want.is_cuda:
        assert_near(got, want, kind, what)
    else:
        assert_close(array_of(got), want.numpy(), kind, what)


def check_forward(x: torch.Tensor, dtype: str, what: str, eps: float = 1e-5) -> None:
    """layer_norm and rms_norm of x, with weights and without."""
    n, device = x.shape[-1], x.device.type
    weight, bias = (random((n,), dtype, device, seed=s) for s in (3, 4))
    for w, b in [(weight, bias), (None, None), (weight, None), (None, bias)]:
        given = x.clone()
        out, mean, rstd = forward(x, w, b, dtype, eps=eps)
        wants = norms.layer_norm(*exactly(given, w, b), eps=eps)
        for got, want, kind in zip(
            (out, mean, rstd), wants, (dtype, acc(dtype), acc(dtype)), strict=True
        ):
            near(got, want, kind, f"layer_norm {what}")
    rstd = poisoned(x.shape[:-1], acc(dtype), device)
    for w in (weight, None):
        out = poisoned(x.shape, dtype, device)
        call("rms_norm", dtype, x, w, out, rstd, eps=eps)
        want, want_rstd = norms.rms_norm(*exactly(x, w), eps=eps)
        near(out, want, dtype, f"rms_norm {what}")
        near(rstd, want_rstd, acc(dtype), f"rms_norm {what}: rstd")


@pytest.mark.promise("KERNELS-norm")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", WIDTHS)
def test_forward(device: str, width: int, dtype: str) -> None:
    skip_without(dtype, device)
    for rows in ROWS if width < 512 else (1, 3):
        check_forward(random((rows, width), dtype, device), dtype, f"{rows} x {width}")
    check_forward(random((3, width), dtype, device, "odd"), dtype, f"odd 3 x {width}")


@pytest.mark.promise("KERNELS-norm")
def test_forward_of_wide_rows() -> None:
    check_forward(random((2, 20_001), "f32", "cpu"), "f32", "20001")
    check_forward(random((1, 70_000), "bf16", "cpu"), "bf16", "70000")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-norm", "KERNELS-norm-gradients")
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("width", WIDE)
def test_wide_rows_on_a_gpu(width: int, dtype: str) -> None:
    for layout in ("dense", "odd"):
        check_forward(random((5, width), dtype, "cuda", layout), dtype, f"{layout} {width}")
        check_backward((9, width), dtype, "cuda", layout)


@pytest.mark.promise("KERNELS-norm")
@pytest.mark.parametrize("dtype", FLOATS)
def test_many_rows(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for shape in [(1003, 33), (3011, 16), (3, 4, 5, 6, 7)]:
        check_forward(random(shape, dtype, device), dtype, str(shape))


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-norm")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("width", [264, 1000, 2304])
def test_many_wide_rows(width: int, dtype: str) -> None:
    """Blocks that go over several rows, among them one whose squares overflow."""
    x = random((4099, width), dtype, "cuda")
    check_forward(x, dtype, f"4099 x {width}")
    x[4000] *= 1e30 if dtype == "bf16" else 1e4
    check_out(x, dtype, f"4099 x {width}, a large one")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-norm", "KERNELS-norm-gradients")
@pytest.mark.parametrize(
    ("dtype", "rows", "width"),
    [("f32", 141, 9001), ("f16", 141, 17_002), ("bf16", 141, 17_001), ("bf16", 2200, 17_001)],
)
def test_many_rows_of_clusters(rows: int, width: int, dtype: str) -> None:
    """Clusters that go over several rows, parts of the next on their way; some are taken again."""
    x = random((rows, width), dtype, "cuda")
    check_forward(x, dtype, f"{rows} x {width}")
    x[70] *= {"f32": 1e30, "f16": 1e4, "bf16": 1e30}[dtype]
    for row in (3, 139, rows - 1):
        x[row, looked_at(width)] += 1000
    check_out(x, dtype, f"{rows} x {width}, some taken again")
    if rows == 141:
        check_backward((rows, width), dtype, "cuda", weights=(True,))


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-norm")
@pytest.mark.parametrize(
    ("dtype", "rows", "width"),
    [("f32", 141, 32768), ("f32", 281, 16384), ("f16", 281, 32768), ("bf16", 281, 32768)],
)
def test_few_rows_that_fill_their_clusters(rows: int, width: int, dtype: str) -> None:
    """Rows of clusters that ask early for what the launch before writes."""
    x = random((rows, width), dtype, "cuda")
    weight, bias = (random((width,), dtype, "cuda", seed=s) for s in (3, 4))
    x[70] *= {"f32": 1e30, "f16": 1e4, "bf16": 1e30}[dtype]
    for row in (3, 139, rows - 1):  # taken again, as the one before
        x[row, looked_at(width)] += 1000
    got = forward(x, weight, bias, dtype)
    wants = norms.layer_norm(*doubles(x, weight, bias))
    slacks = (0.0, 8 * EPS["f32"] * x.double().abs().mean(1).cpu().numpy(), 0.0)
    for y, want, kind, slack in zip(got, wants, (dtype, "f32", "f32"), slacks, strict=True):
        assert_close(array_of(y), want.numpy(), kind, f"layer_norm {rows} x {width}", slack)

    def chain(pause: bool) -> torch.Tensor:
        y = x.clone()
        for _ in range(6):
            torch.cuda.synchronize() if pause else None
            forward(y, weight, bias, dtype, out=y)
            call("rms_norm", dtype, y, weight, y, eps=1e-6)
        return y

    assert torch.equal(chain(False), chain(True))


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-norm", "KERNELS-norm-inputs")
@pytest.mark.parametrize(("dtype", "rows"), [("f32", 141), ("f16", 530), ("bf16", 530)])
@pytest.mark.parametrize("width", [24_576, 26_624, 32_768])
def test_rows_of_whole_slices(dtype: str, rows: int, width: int) -> None:
    """Warps that each sum a slice about a number of its own; rows far from it, or too large."""
    x = random((rows, width), dtype, "cuda")
    check_forward(x, dtype, f"{rows} x {width}")
    x[3] += 1449.0
    x[70] *= 1e4 if dtype == "f16" else 1e30
    x[71, ::512] += 1000  # first packs of slices
    x[72, :512] += 1000  # the first slice
    x[73, -1] += 3e4
    x[74] = 1234.0
    x[rows - 1] = torch.arange(width, device="cuda") % 4 + 40_000
    check_out(x, dtype, f"{rows} x {width}, some far from 0")
    got = forward(x, None, None, dtype)
    assert (got[0][74] == 0).all()
    assert all(torch.equal(a, b) for a, b in zip(forward(x, None, None, dtype), got, strict=True))
    x[5, 700], x[6, -1] = torch.nan, torch.inf
    out = forward(x, None, None, dtype, out=x)[0]  # in place
    wrong = (~out.isfinite()).any(-1).nonzero().flatten()
    assert wrong.tolist() == [5, 6]
    assert torch.equal(out[:5], got[0][:5])
    assert torch.equal(out[7:], got[0][7:])


@pytest.mark.promise("KERNELS-norm")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("offset", [1, 3])
def test_in_place(device: str, dtype: str, offset: int) -> None:
    skip_without(dtype, device)
    for width in (7, 129, 1024, 9001):
        x = random((4 * width + offset,), dtype, device)[offset:].view(4, width)
        want = norms.layer_norm(*doubles(x, None, None))[0]
        forward(x, None, None, dtype, out=x)
        assert_close(array_of(x), want.numpy(), dtype, f"in place, {width}")


@pytest.mark.promise("KERNELS-norm")
@pytest.mark.parametrize("dtype", FLOATS)
def test_empty(device: str, dtype: str) -> None:
    """No rows: nothing; rows of nothing: their statistics are NaN, as 0 / 0 is."""
    skip_without(dtype, device)
    forward(random((0, 5), dtype, device), None, None, dtype)
    _, mean, rstd = forward(random((3, 0), dtype, device), None, None, dtype)
    assert mean.isnan().all()
    assert rstd.isnan().all()
    gy, x = random((0, 5), dtype, device), random((0, 5), dtype, device)
    got = backward(
        gy, x, random((0,), acc(dtype), device), random((0,), acc(dtype), device), None, dtype
    )
    for sums in got[1:]:
        assert sums is not None
        assert bool((sums == 0).all())


# ---- inputs that broke others --------------------------------------------------------------------


@pytest.mark.promise("KERNELS-norm-inputs")
@pytest.mark.parametrize("width", [256, 1000, 5001])
def test_zeros_and_a_tiny_eps(device: str, width: int) -> None:
    """eps is nothing in f16; where it is lost, 0 / 0."""
    x = torch.zeros(3, width, dtype=torch.float16, device=device)
    weight = random((width,), "f16", device)
    out, mean, rstd = forward(x, weight, weight, "f16", eps=1e-12)
    assert torch.equal(out, weight.expand(3, width))
    assert (mean == 0).all()
    assert_close(array_of(rstd), np.full(3, 1e6), "f32", "rstd")


@pytest.mark.promise("KERNELS-norm-inputs")
@pytest.mark.parametrize("width", [64, 1024, 4096, 50_001])
@pytest.mark.parametrize("base", [1449.0, 40_000.0, -1e6])
def test_far_from_zero(device: str, base: float, width: int) -> None:
    """The mean of the squares less the square of the mean has no digit left here."""
    noise = np.random.default_rng(5).uniform(-1, 1, (3, width))
    x = tensor_of(base + noise, "f32", device)
    check_out(x, "f32", f"{base} +- 1")


def looked_at(width: int) -> list[int]:
    """The elements of a row by which the CUDA kernels guess its mean."""
    return sorted({i * width // 16 for i in range(16)})


@pytest.mark.promise("KERNELS-norm-inputs")
@pytest.mark.parametrize("width", [100, 1000, 1024, 4096, 5001, 20_001, 70_000])
def test_guesses_that_are_far_from_the_mean(device: str, width: int) -> None:
    """Sums of squares about such a guess have lost the digits of the variance."""
    x = random((5, width), "f32", device)
    x[1:4, looked_at(width)] += 1e4
    check_out(x, "f32", f"{width} about 1e4")


def check_out(x: torch.Tensor, dtype: str, what: str) -> None:
    out, _, rstd = forward(x, None, None, dtype)
    want, _, want_rstd = norms.layer_norm(*exactly(x, None, None))
    near(out, want, dtype, what)
    near(rstd, want_rstd, acc(dtype), f"{what}: rstd")


@pytest.mark.promise("KERNELS-norm-inputs")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [1234.0, 1e30, -3.0, 1e200])
def test_equal_numbers_are_zeros(device: str, dtype: str, value: float) -> None:
    skip_without(dtype, device)
    value = min(value, {"f16": 60_000.0, "f64": 1e200}.get(dtype, 1e30))
    for width in (256, 2048, 20_000):
        x = torch.full((2, width), value, dtype=DTYPES[dtype], device=device)
        out, mean, rstd = forward(x, None, None, dtype)
        assert (out == 0).all(), out
        assert_close(array_of(mean), array_of(x[:, 0]), acc(dtype), "mean")
        assert_close(array_of(rstd), np.full(2, 1e-5**-0.5), acc(dtype), "rstd")


@pytest.mark.promise("KERNELS-norm-inputs")
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_row_of_four(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    values = np.array([[40000.0, 40001.0, 40002.0, 40003.0]])
    check_out(tensor_of(values, dtype, device), dtype, "40000 ...")


@pytest.mark.promise("KERNELS-norm-inputs")
@pytest.mark.parametrize("width", [33, 1024, 40_000, 70_000])
def test_squares_that_overflow(device: str, width: int) -> None:
    data = np.random.default_rng(6).standard_normal((4, width)) * np.array(
        [[1e30], [1], [1e18], [3e37]]
    )
    check_out(tensor_of(data, "f32", device), "f32", "1e30")
    x = tensor_of(data, "f32", device)
    out = poisoned(x.shape, "f32", device)
    call("rms_norm", "f32", x, None, out)
    assert_close(array_of(out), norms.rms_norm(*doubles(x))[0].numpy(), "f32", "rms_norm of 1e30")


@pytest.mark.promise("KERNELS-norm-inputs")
def test_a_view_of_halves_from_an_odd_address(device: str) -> None:
    x = random((1026,), "bf16", device)
    check_forward(x[1:1025], "bf16", "x[1:1025]")
    check_forward(x[1:1025].view(8, 128), "bf16", "x[1:1025] as 8 x 128")


@pytest.mark.promise("KERNELS-norm-inputs", "KERNELS-special-values")
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinities_stay_in_their_row(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for width in (16, 100, 3000, 12_000):
        x = random((4, width), dtype, device)
        x[0, width // 2], x[2, -1] = torch.nan, torch.inf
        for op in ("layer_norm", "rms_norm"):
            out = poisoned(x.shape, dtype, device)
            call(op, dtype, x, *[None] * (2 if op == "layer_norm" else 1), out)
            wrong = (~out.isfinite()).any(-1)
            assert wrong.tolist() == [True, False, True, False], f"{op} {width}"
            assert out[0].isnan().all()


# ---- backward ------------------------------------------------------------------------------------


def backward(
    gy: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    dtype: str,
    want: str = "xwb",
    gx: torch.Tensor | None = None,
) -> list[torch.Tensor | None]:
    n, device = x.shape[-1], x.device.type
    gx = poisoned(x.shape, dtype, device) if gx is None else gx
    outs = [gx if "x" in want else None]
    outs += [poisoned((n,), dtype, device) if w in want else None for w in "wb"]
    call("layer_norm_bwd", dtype, gy, x, mean, rstd, weight, *outs)
    return outs


def sizes(gy: Any, x: Any, mean: Any, rstd: Any, weight: Any) -> list[torch.Tensor]:
    """What the terms of gx, gw and gb add up to without their signs."""
    h = ((x - mean.unsqueeze(-1)) * rstd.unsqueeze(-1)).abs()
    q = (gy if weight is None else gy * weight).abs()
    gx = q + q.mean(-1, keepdim=True) + h * (q * h).mean(-1, keepdim=True)
    rows = tuple(range(gy.ndim - 1))
    return [(gx * rstd.unsqueeze(-1)), (gy.abs() * h).sum(rows), gy.abs().sum(rows)]


def check_backward(
    shape: tuple[int, ...],
    dtype: str,
    device: str,
    layout: str = "dense",
    weights: tuple[bool, ...] = (True, False),
) -> None:
    n = shape[-1]
    gy, x = (random(shape, dtype, device, layout, seed=s) for s in (1, 2))
    slack = 16 + (gy.numel() // max(n, 1)) ** 0.5  # roundings: they do not all go one way
    for weighted in weights:
        w = random((n,), dtype, device, layout, seed=3) if weighted else None
        for op, saved in (("layer_norm", 2), ("rms_norm", 1)):
            forth, back = getattr(norms, op), getattr(norms, f"{op}_bwd")
            exact = forth(*doubles(x), eps=1e-5)
            saves = [tensor_of(t.numpy(), acc(dtype), device) for t in exact[-saved:]]
            given = doubles(gy, x, *saves, w)
            wants = back(*given)
            means = given[2] if saved == 2 else given[2] * 0
            allowed = sizes(
                given[0], given[1], means, given[1 + saved], w if w is None else given[-1]
            )
            names = "xwb"[: 1 + saved]
            for want in (names, *names, "wb"[:saved]):
                outs = [
                    poisoned(shape if k == "x" else (n,), dtype, device) if k in want else None
                    for k in names
                ]
                call(f"{op}_bwd", dtype, gy, x, *saves, w, *outs)
                for k, got, exact_g, size in zip(names, outs, wants, allowed, strict=False):
                    if got is not None:
                        what = f"{op}: g{k} of {want}, {shape}, {layout}"
                        room = slack * EPS[dtype] * size.numpy()
                        assert_close(array_of(got), exact_g.numpy(), dtype, what, room)


@pytest.mark.promise("KERNELS-norm-gradients")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", WIDTHS)
def test_backward(device: str, width: int, dtype: str) -> None:
    skip_without(dtype, device)
    for rows in (1, 5, 133) if width < 512 else (3,):
        check_backward((rows, width), dtype, device)
    check_backward((3, width), dtype, device, "odd")


@pytest.mark.promise("KERNELS-norm-gradients", "KERNELS-norm-inputs")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_backward_of_100000_rows(device: str, dtype: str) -> None:
    check_backward((100_000, 8), dtype, device, weights=(False,))
    check_backward((300, 16, 9), dtype, device)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-norm-gradients")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("layout", ["dense", "odd"])
def test_backward_of_rows_of_many_phases(layout: str, dtype: str) -> None:
    """Clusters that have some of one phase, then some of another; the first row may start in a pack
    that is not the tensors' alone, the last one end in one. Means are near 0 and far from it."""
    rows, width = 2200, 40_001
    shapes = [(rows, width), (rows, width), (width,)]
    gy, x, w = (random(s, dtype, "cuda", layout, seed=i) for i, s in enumerate(shapes))
    x[::5] += 100
    mean, rstd = (s.float() for s in norms.layer_norm(*exactly(x))[1:])
    given = exactly(gy, x, mean, rstd, w)
    gx = poisoned(x.shape, dtype, "cuda", layout)
    gots = backward(gy, x, mean, rstd, w, dtype, gx=gx)
    slack = (16 + rows**0.5) * EPS[dtype]
    for got, want, size in zip(gots, norms.layer_norm_bwd(*given), sizes(*given), strict=True):
        assert got is not None
        assert_near(got, want, dtype, f"{layout} {rows} x {width}", slack * size)


@pytest.mark.promise("KERNELS-norm-gradients")
@pytest.mark.parametrize("dtype", FLOATS)
def test_backward_in_place(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for width in (7, 128, 1025, 9000):
        gy, x = random((9, width), dtype, device, seed=1), random((9, width), dtype, device, seed=2)
        exact = norms.layer_norm(*doubles(x, None, None))
        mean, rstd = (tensor_of(t.numpy(), acc(dtype), device) for t in exact[1:])
        want = backward(gy.clone(), x, mean, rstd, None, dtype)
        got = backward(gy, x, mean, rstd, None, dtype, gx=gy)
        for g, w in zip(got, want, strict=True):
            assert g is not None
            assert w is not None
            assert torch.equal(g, w)


@pytest.mark.promise("KERNELS-norm-gradients")
@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_are_the_same_again(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    wide = 50_257 if device == "cuda" else 5001
    for shape in [(1000, 130), (100, 2048), (20, wide)]:
        gy, x = random(shape, dtype, device, seed=1), random(shape, dtype, device, seed=2)
        weight = random(shape[-1:], dtype, device)
        runs = []
        for _ in range(3):
            out, mean, rstd = forward(x, weight, weight, dtype)
            runs.append([out, mean, rstd, *backward(gy, x, mean, rstd, weight, dtype)])
        for again in runs[1:]:
            for a, b in zip(runs[0], again, strict=True):
                assert a is not None
                assert b is not None
                assert torch.equal(a, b)


@pytest.mark.promise("KERNELS-norm-gradients")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_gradients_beside_torch(device: str, dtype: str) -> None:
    """Through torch's autograd on both sides: a g with gaps, each argument's need alone."""
    import aicf_cuda.torch  # noqa: F401

    data = [random(s, dtype, device, seed=i) for i, s in enumerate([(6, 5, 48), (48,), (48,)])]
    g = random((6, 5, 96), dtype, device)[..., ::2]
    for needed in [(0,), (1,), (2,), (0, 1, 2)]:
        grads = []
        for run in (
            lambda x, w, b: torch.ops.aicf.layer_norm(x, w, b, eps=1e-5),
            lambda x, w, b: functional.layer_norm(x, (48,), w, b, 1e-5),
        ):
            leaves = [t.clone().requires_grad_(i in needed) for i, t in enumerate(data)]
            run(*leaves).backward(g)
            grads.append([leaf.grad for leaf in leaves])
        for i in needed:
            got, want = (array_of(side[i]) for side in grads)
            assert_close(got, want, dtype, f"gradient {i}", 2e-5 if dtype == "f32" else 0.1)


# ---- large and threads ---------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.promise("A2", "KERNELS-norm")
@pytest.mark.parametrize("width", [128, 129, 4096, 50_257, 2**31 + 8])
@pytest.mark.large
def test_more_elements_than_32_bits_count(width: int) -> None:
    rows = (2**31 + 2**20) // width + 1
    x = torch.zeros(rows, width, dtype=torch.float16, device="cuda")
    x[-1].normal_()
    want = functional.layer_norm(x[-1].float(), (width,)) if width < 2**31 else None
    call("layer_norm", "f16", x, None, None, x)
    if want is not None:
        assert (x[-1].float() - want).abs().max() < 4e-3
        assert (x[:-1] == 0).all()
        gx = torch.full_like(x, torch.nan)
        mean = torch.zeros(rows, device="cuda")
        gw = torch.empty(width, dtype=torch.float16, device="cuda")
        call("layer_norm_bwd", "f16", x, x, mean, mean + 1, None, gx, gw)
        assert (gx[:-1] == 0).all()
        assert gx[-1].isfinite().all()
        assert (gw.float() - x[-1].float() ** 2).abs().max() < 2e-2
    else:
        part = x[-1, -(2**20) :].float()
        assert abs(part.std().item() - 1) < 0.01
    del x
    torch.cuda.empty_cache()


def digest() -> str:
    """One hash over results of every op, each long enough for many parts."""
    h = hashlib.sha256()
    for dtype in ("f32", "bf16"):
        for shape in [(1500, 70), (20, 9001)]:
            gy, x = random(shape, dtype, "cpu", seed=1), random(shape, dtype, "cpu", seed=2)
            weight = random(shape[-1:], dtype, "cpu")
            out, mean, rstd = forward(x, weight, weight, dtype)
            for t in (out, mean, rstd, *backward(gy, x, mean, rstd, weight, dtype)):
                assert t is not None
                h.update(t.view(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()


@pytest.mark.promise("KERNELS-threads")
def test_bits_do_not_depend_on_the_threads() -> None:
    program = "import kernels.test_norms as t; print(t.digest())"
    assert printed_with_threads(program, 3).strip() == digest()
