"""quantize, dequantize and the observers: rounding, ranges, NaN, and counts that are exact."""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path

import pytest
import torch

from kernels.calls import call, skip_without
from kernels.conftest import BUILT, ROOT
from kernels.tensors import DTYPES, FLOATS, array_of, empty, poisoned, random, tensor_of
from kernels.tolerance import assert_close, assert_same
from rows.quant import along

pytestmark = [pytest.mark.guests("torch")]

GENERATED = Path(os.environ.get("GEN", ROOT / "generated")).resolve()
RANGE = {"i8": (-128, 127), "u8": (0, 255)}

# (shape, axis): one channel, runs and no runs behind the axis, around a pack and a block's share.
PLACES = [
    ((1,), 0),
    ((4099,), 0),
    ((5, 7), 0),
    ((5, 7), 1),
    ((3, 16, 33), 1),
    ((2, 8, 64), 1),
    ((70, 129), -1),
    ((37, 264), 1),  # whole packs of channels
    ((3, 4099), 0),
    ((1000, 3), 1),
]


def parameters(channels: int, q: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales that are no powers of two, and zeros."""
    source = torch.Generator().manual_seed(channels)
    scale = torch.rand(channels, generator=source) * 0.03 + 0.003
    low, high = RANGE.get(q, (-1000, 1000))
    zero = torch.randint(low, high + 1, (channels,), generator=source, dtype=torch.int32)
    return scale.to(device), zero.to(device)


def quantized(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, axis: int, q: str
) -> torch.Tensor:
    """As the row says it, in the arithmetic of the row, on the CPU."""
    acc = torch.float64 if x.dtype == torch.float64 else torch.float32
    x, low, high = x.cpu().to(acc), *RANGE[q]
    shape = [-1 if d == axis % x.dim() else 1 for d in range(x.dim())]
    inverse = (1 / scale.cpu().to(acc)).view(shape if scale.numel() > 1 else ())
    at = 0 if zero is None else zero.cpu().view(shape if zero.numel() > 1 else ())
    return ((x * inverse).nan_to_num(0.0).round() + at).clamp(low, high).to(DTYPES[q])


# ---- quantize ------------------------------------------------------------------------------------


@pytest.mark.promise("KERNELS-quant-values", "A3")
@pytest.mark.parametrize("q", ["i8", "u8"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, axis", PLACES, ids=str)
def test_quantize(device: str, shape: tuple[int, ...], axis: int, dtype: str, q: str) -> None:
    skip_without(dtype, device)
    for channels in {1, shape[axis]}:
        scale, zero = parameters(channels, q, device)
        for layout in ("dense", "odd"):
            x = random(shape, dtype, device, layout)
            for given in (zero, None):
                out = poisoned(shape, q, device, layout)
                call("quantize", f"{dtype}_{q}", x, scale, given, out, axis=axis)
                want = quantized(x, scale, given, axis, q)
                assert_same(array_of(out), array_of(want), f"{shape} {channels} {layout}")


@pytest.mark.promise("KERNELS-quant-torch")
@pytest.mark.parametrize("q", ["i8", "u8"])
def test_quantize_agrees_with_torch(device: str, q: str) -> None:
    """With torch's fake_quantize, in every code; of 2**18 values some lie near a half of a step."""
    low, high = RANGE[q]
    x = torch.randn(1 << 18, generator=torch.Generator().manual_seed(1)).to(device)
    for step, zero in ((0.01, 3), (0.003, 0), (0.0471, 90)):
        scale = torch.tensor([step], device=device)
        at = torch.tensor([zero], dtype=torch.int32, device=device)
        out = poisoned((1 << 18,), q, device)
        call("quantize", f"f32_{q}", x, scale, at, out)
        fake = torch.fake_quantize_per_tensor_affine(x, scale, at, low, high)
        assert torch.equal(out.int(), (fake / scale).round().int() + zero)


@pytest.mark.promise("KERNELS-quant-halves")
@pytest.mark.parametrize("dtype", FLOATS)
def test_halves_round_to_even_before_zero_is_added(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, -127.5, -128.5])
    x = x.to(DTYPES[dtype]).to(device)
    one = torch.ones(1, device=device)
    for zero, want in (
        (0, [0, 2, 2, 0, -2, -2, 126, 127, -128, -128]),
        (1, [1, 3, 3, 1, -1, -1, 127, 127, -127, -127]),
    ):
        out = poisoned((10,), "i8", device)
        at = torch.tensor([zero], dtype=torch.int32, device=device)
        call("quantize", f"{dtype}_i8", x, one, at, out)
        assert out.tolist() == want


@pytest.mark.promise("KERNELS-quant-special")
@pytest.mark.parametrize("q", ["i8", "u8"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_infinities_and_extreme_values(device: str, dtype: str, q: str) -> None:
    skip_without(dtype, device)
    most = torch.finfo(DTYPES[dtype]).max
    least = torch.finfo(DTYPES[dtype]).tiny
    low, high = RANGE[q]
    values = [math.nan, math.inf, -math.inf, most, -most, least, -least, 0.0, -0.0]
    want = [7, high, low, high, low, 7, 7, 7, 7]
    x = torch.tensor(values * 5, dtype=DTYPES[dtype], device=device)
    for shape in ((45,), (5, 9)):
        for scale in (0.1, 1e-3):
            steps = torch.full((1,), scale, device=device)
            zero = torch.full((1,), 7, dtype=torch.int32, device=device)
            out = poisoned(shape, q, device)
            call("quantize", f"{dtype}_{q}", x.view(shape), steps, zero, out)
            assert out.flatten().tolist() == want * 5
            out = poisoned((9, 5), q, device)
            given = x.view(5, 9).T.contiguous(), steps.expand(5).contiguous()
            call("quantize", f"{dtype}_{q}", *given, zero.expand(5).contiguous(), out, axis=1)
            assert out.T.flatten().tolist() == want * 5


CONVERTED = """
#include <math.h>
#include "kernels/quantize/quantize.c"
int main(void)
{
    const float scale = 0.001f, f[] = {NAN, -NAN, INFINITY, -INFINITY, 3e38f, 1};
    const double d[] = {NAN, -NAN, INFINITY, -INFINITY, 1e308, 1};
    const int32_t zero = 7;
    int8_t out[2][6];
    aicf_cpu_quantize_loop_f32_i8(f, &scale, &zero, out[0], 1, 1, 6, 1, 0, NULL);
    aicf_cpu_quantize_loop_f64_i8(d, &scale, &zero, out[1], 1, 1, 6, 1, 0, NULL);
    return out[0][0] == 7 && out[0][1] == 7 && out[1][0] == 7 && out[1][1] == 7 ? 0 : 1;
}
"""


@pytest.mark.promise("KERNELS-quant-special")
def test_no_number_is_converted_that_an_integer_does_not_hold(tmp_path: Path) -> None:
    """On the CPU, where the processor makes some integer of NaN: compiled so that it ends there."""
    source, program = tmp_path / "converted.c", tmp_path / "converted"
    source.write_text(CONVERTED)
    options = ["-std=c11", "-O1", "-fsanitize=float-cast-overflow", "-DAICF_OP=quantize"]
    options += ["-fsanitize-undefined-trap-on-error", f"-I{ROOT}", f"-I{ROOT}/include"]
    library = BUILT / "aicf_rt" / "libaicf.so.1"
    command = [os.environ.get("CC", "gcc"), *options, f"-I{GENERATED}/include", str(source)]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-lm", "-o", str(program)]
    subprocess.run(command, check=True)
    assert subprocess.run([program], check=False).returncode == 0


@pytest.mark.promise("KERNELS-quant-special")
def test_a_zero_outside_of_the_range_is_its_end(device: str) -> None:
    x = torch.tensor([-1.0, 0.0, 1.0, math.nan], device=device)
    one = torch.ones(1, device=device)
    for zero, want in ((1000, [126, 127, 127, 127]), (-(2**31), [-128, -128, -127, -128])):
        at = torch.tensor([zero], dtype=torch.int32, device=device)
        out = poisoned((4,), "i8", device)
        call("quantize", "f32_i8", x, one, at, out)
        assert out.tolist() == want


# ---- dequantize ----------------------------------------------------------------------------------


@pytest.mark.promise("KERNELS-quant-values", "A3")
@pytest.mark.parametrize("q", ["i8", "u8", "i32"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, axis", PLACES, ids=str)
def test_dequantize(device: str, shape: tuple[int, ...], axis: int, dtype: str, q: str) -> None:
    skip_without(dtype, device)
    for channels in {1, shape[axis]}:
        scale, zero = parameters(channels, q, device)
        for layout in ("dense", "odd"):
            x = random(shape, q, device, layout)
            for given in (zero, None):
                out = poisoned(shape, dtype, device, layout)
                call("dequantize", f"{q}_{dtype}", x, scale, given, out, axis=axis)
                values = x.cpu().double()
                at = along(None if given is None else given.cpu(), values, axis)
                want = (values - at) * along(scale.cpu(), values, axis)
                assert_close(array_of(out), want.numpy(), dtype, f"{shape} {channels} {layout}")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-quant-values")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_long_runs_of_one_channel(dtype: str) -> None:
    """Enough of them that each gets blocks of its own, of which the last is not full."""
    shape, axis = (3, 750, 2056), 1
    scale, zero = parameters(shape[axis], "i8", "cuda")
    x, code = random(shape, dtype, "cuda"), empty(shape, "i8", "cuda")
    call("quantize", f"{dtype}_i8", x, scale, zero, code, axis=axis)
    assert torch.equal(code.cpu(), quantized(x, scale, zero, axis, "i8"))
    out = empty(shape, dtype, "cuda")
    call("dequantize", f"i8_{dtype}", code, scale, zero, out, axis=axis)
    at, by = (p.cpu().float().view(-1, 1) for p in (zero, scale))
    assert torch.equal(out.cpu(), ((code.cpu().float() - at) * by).to(DTYPES[dtype]))


@pytest.mark.promise("KERNELS-quant-special")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_difference_of_extreme_integers_does_not_wrap(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    ends = torch.iinfo(torch.int32)
    x = torch.tensor([ends.min, ends.max, ends.max - 1] * 5, dtype=torch.int32, device=device)
    for zero in (ends.min, ends.max):
        at = torch.tensor([zero], dtype=torch.int32, device=device)
        out = poisoned((15,), dtype, device)
        call("dequantize", f"i32_{dtype}", x, torch.ones(1, device=device), at, out)
        assert_close(array_of(out), array_of(x.long() - zero), dtype, f"zero {zero}")


@pytest.mark.promise("KERNELS-quant-values")
def test_every_byte_there_and_back(device: str) -> None:
    for q in ("i8", "u8"):
        x = torch.arange(256, dtype=torch.uint8, device=device).view(DTYPES[q])
        scale, zero = parameters(1, q, device)
        real, back = poisoned((256,), "f32", device), poisoned((256,), q, device)
        call("dequantize", f"{q}_f32", x, scale, zero, real)
        call("quantize", f"f32_{q}", real, scale, zero, back)
        assert torch.equal(back, x)


# ---- observers -----------------------------------------------------------------------------------


def observe(
    x: torch.Tensor, channels: int, axis: int, dtype: str, lo: float, hi: float
) -> tuple[list[float], list[float]]:
    ends = [torch.full((channels,), end, device=x.device) for end in (lo, hi)]
    call("observe_minmax", dtype, x, *ends, axis=axis)
    return ends[0].tolist(), ends[1].tolist()


@pytest.mark.promise("KERNELS-quant-minmax", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, axis", [*PLACES, ((2, 300), 1), ((2, 3, 40_001), 1)], ids=str)
def test_minmax(device: str, shape: tuple[int, ...], axis: int, dtype: str) -> None:
    skip_without(dtype, device)
    for layout in ("dense", "odd"):
        x = random(shape, dtype, device, layout)
        rows = x.cpu().float().movedim(axis, 0).reshape(shape[axis], -1)
        for channels, of in ((1, rows.reshape(1, -1)), (shape[axis], rows)):
            low, high = observe(x, channels, axis, dtype, math.inf, -math.inf)
            assert low == of.amin(1).tolist()
            assert high == of.amax(1).tolist()
            low, high = observe(x, channels, axis, dtype, 0.25, 0.5)
            assert low == of.amin(1).clamp(max=0.25).tolist()
            assert high == of.amax(1).clamp(min=0.5).tolist()


@pytest.mark.promise("KERNELS-quant-nan")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bits", [math.nan, -math.nan])
def test_a_nan_makes_both_ends_nan_of_its_channel_alone(
    device: str, bits: float, dtype: str
) -> None:
    skip_without(dtype, device)
    for shape, axis in (((3, 1000), 0), ((1000, 3), 1), ((50, 3, 4), 1), ((9, 3, 700), 1)):
        x = random(shape, dtype, device)
        x.movedim(axis, 0)[1][(-1,) * (len(shape) - 1)] = bits
        low, high = observe(x, 3, axis, dtype, math.inf, -math.inf)
        assert [math.isnan(v) for v in (*low, *high)] == [False, True, False] * 2
        low, high = observe(x, 1, axis, dtype, math.inf, -math.inf)
        assert [math.isnan(v) for v in low + high] == [True, True]


@pytest.mark.promise("KERNELS-quant-nan")
def test_an_end_that_is_nan_stays_it(device: str) -> None:
    x = random((3, 999), "f32", device)
    for nan in (math.nan, -math.nan):
        low, high = observe(x, 3, 0, "f32", nan, nan)
        assert all(map(math.isnan, low + high))


@pytest.mark.promise("KERNELS-quant-minmax")
@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_zeros_and_nothing(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    x = tensor_of(random((500,), dtype, "cpu").double().numpy(), dtype, device)
    x[3], x[499] = math.inf, -math.inf
    assert observe(x, 1, 0, dtype, math.inf, -math.inf) == ([-math.inf], [math.inf])
    zeros = torch.tensor([0.0, -0.0] * 99, dtype=DTYPES[dtype], device=device)
    low, high = observe(zeros, 1, 0, dtype, 1.0, -1.0)
    assert [math.copysign(1, v) for v in low + high] == [-1, 1]
    assert observe(empty((0, 3), dtype, device), 3, 1, dtype, 1.0, -1.0) == ([1.0] * 3, [-1.0] * 3)


def histogram(x: torch.Tensor, bins: int, lo: float, hi: float) -> torch.Tensor:
    """In the arithmetic of the row."""
    acc = torch.float64 if x.dtype == torch.float64 else torch.float32
    known = x.cpu().to(acc).flatten()
    known = known[~known.isnan()]
    low, high = torch.tensor(lo, dtype=acc) / 2, torch.tensor(hi, dtype=acc) / 2
    at = (known / 2 - low) * (torch.tensor(bins, dtype=acc) / (high - low))
    at = at.nan_to_num(0.0, math.inf, -math.inf).clamp(0, bins - 1)
    return torch.bincount(at.floor().long(), minlength=bins)


@pytest.mark.promise("KERNELS-quant-histogram", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 7, 2049, 140_001])
@pytest.mark.parametrize("bins", [1, 3, 256, 2048, 8192, 8193, 50_000])
def test_counts_are_exact(device: str, bins: int, n: int, dtype: str) -> None:
    skip_without(dtype, device)
    for layout in ("dense", "odd"):
        x = random((n,), dtype, device, layout)
        hist = torch.arange(bins, device=device)
        call("observe_histogram", dtype, x, hist, lo=-1.5, hi=2.25)
        got = hist - torch.arange(bins, device=device)
        assert int(got.sum()) == n
        assert torch.equal(got.cpu(), histogram(x, bins, -1.5, 2.25))


@pytest.mark.promise("KERNELS-quant-histogram")
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_outside_of_a_range_and_nan(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    most = torch.finfo(DTYPES[dtype]).max
    values = [math.nan, math.inf, -math.inf, most, -most, 0.0, 0.999, 1.0, -0.001]
    x = torch.tensor(values, dtype=DTYPES[dtype], device=device)
    for bins in (4, 10_000):
        hist = torch.zeros(bins, dtype=torch.int64, device=device)
        ends = torch.zeros(1, device=device), torch.ones(1, device=device)
        call("observe_histogram", dtype, x, hist, lo=ends[0], hi=ends[1])
        assert torch.equal(hist.cpu(), histogram(x, bins, 0.0, 1.0))
        assert [int(hist.sum()), int(hist[0])] == [len(values) - 1, 4]


@pytest.mark.promise("KERNELS-quant-histogram")
def test_a_range_of_all_finite_numbers(device: str) -> None:
    most = torch.finfo(torch.float32).max
    x = torch.tensor([-most, -most / 4, 0.0, most / 4, most], device=device)
    hist = torch.zeros(4, dtype=torch.int64, device=device)
    call("observe_histogram", "f32", x, hist, lo=-most, hi=most)
    assert hist.tolist() == [1, 1, 2, 1]


@pytest.mark.promise("KERNELS-quant-histogram")
def test_one_bin_that_all_meet_in(device: str) -> None:
    """More than 2**16 of one value, in few and in many bins."""
    x = torch.full((200_000,), 0.5, device=device)
    for bins in (2, 2048, 20_000):
        hist = torch.zeros(bins, dtype=torch.int64, device=device)
        call("observe_histogram", "f32", x, hist, lo=0.0, hi=1.0)
        assert int(hist[bins // 2]) == int(hist.sum()) == 200_000


@pytest.mark.gpu
@pytest.mark.promise(
    "A2", "KERNELS-quant-values", "KERNELS-quant-minmax", "KERNELS-quant-histogram"
)
@pytest.mark.large
def test_more_elements_than_32_bits_count() -> None:
    n = 2**31 + 4099
    x = torch.zeros(n, dtype=torch.bfloat16, device="cuda")
    x[-1], x[2**31] = 5, -7
    lo, hi = torch.zeros(1, device="cuda"), torch.zeros(1, device="cuda")
    call("observe_minmax", "bf16", x, lo, hi)
    assert (lo.item(), hi.item()) == (-7, 5)
    hist = torch.zeros(3, dtype=torch.int64, device="cuda")
    call("observe_histogram", "bf16", x, hist, lo=-1.5, hi=1.5)
    assert hist.tolist() == [1, n - 2, 1]
    out = torch.full((n,), 9, dtype=torch.int8, device="cuda")
    call("quantize", "bf16_i8", x, torch.ones(1, device="cuda"), None, out)
    assert (int(out[-1]), int(out[2**31]), int(out.count_nonzero())) == (5, -7, 2)
    x.fill_(math.nan)
    call("dequantize", "i8_bf16", out, torch.ones(1, device="cuda"), None, x)
    assert (x[-1].item(), x[2**31].item(), int(x.count_nonzero())) == (5, -7, 2)
    del x, out
    torch.cuda.empty_cache()
