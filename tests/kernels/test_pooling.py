"""Pooling: every form of the kernels, ties, NaN and infinities, indices that are none, inputs that
broke others."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernels.calls import call, printed_with_threads, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of
from kernels.tolerance import assert_close, assert_same
from rows.pooling import avg_pool2d_bwd, max_pool2d_bwd

pytestmark = [pytest.mark.guests("torch")]

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pool:
    """A call: the shape of x and the row's attributes."""

    shape: tuple[int, int, int, int]
    window: Pair
    stride: Pair
    pad: Pair = (0, 0)
    ceil_mode: bool = False

    @property
    def attributes(self) -> dict[str, Any]:
        return {"window": self.window, "stride": self.stride, "pad": self.pad}

    @property
    def forward(self) -> dict[str, Any]:
        return {**self.attributes, "ceil_mode": self.ceil_mode}

    @property
    def backward(self) -> dict[str, Any]:
        return {**self.attributes, "H": self.shape[2], "W": self.shape[3]}

    def max(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, at = F.max_pool2d(
            x, self.window, self.stride, self.pad, ceil_mode=self.ceil_mode, return_indices=True
        )
        return out, at

    def avg(self, x: torch.Tensor, include: bool) -> torch.Tensor:
        return F.avg_pool2d(x, self.window, self.stride, self.pad, self.ceil_mode, include)


# Windows of 2 and of 3 at every second element have kernels of their own where rows, or pixels, are
# whole packs of 4 or 8 elements, or backwards of twos; the rest goes an element, or a pack of
# channels, a thread.
POOLS = [
    Pool((2, 8, 16, 16), (3, 3), (2, 2), (1, 1)),  # whole packs in both layouts
    Pool((2, 8, 16, 16), (2, 2), (2, 2)),
    Pool(
        (1, 3, 7, 24), (3, 3), (2, 2), (1, 1)
    ),  # an odd height, odd channels, an odd count of packs
    Pool((3, 5, 9, 8), (2, 2), (2, 2), ceil_mode=True),  # a last row of windows that is half there
    Pool((1, 16, 1, 8), (3, 3), (2, 2), (1, 1)),  # one row
    Pool((1, 4, 33, 104), (3, 3), (2, 2), (1, 1)),  # rows that begin inside of a warp
    Pool((2, 8, 16, 12), (3, 3), (2, 2), (1, 1), ceil_mode=True),  # a window more than pairs
    Pool((2, 5, 14, 14), (2, 2), (2, 2)),  # rows of twos alone
    Pool((3, 4, 9, 70), (3, 3), (2, 2), (1, 1)),  # the same, that begin inside of a warp
    Pool((1, 8, 6, 16), (3, 3), (2, 2)),  # as pairs, but for the padding
    Pool((1, 8, 9, 16), (2, 2), (2, 2), (1, 1)),
    Pool((1, 8, 8, 8), (2, 3), (2, 2)),  # and but for a side
    Pool((2, 3, 13, 11), (3, 3), (1, 1), (1, 1)),  # primes, windows that overlap twice
    Pool((1, 2, 11, 13), (5, 1), (3, 2), (2, 0), ceil_mode=True),
    Pool((1, 7, 5, 5), (5, 5), (1, 1)),  # one window, everything
    Pool((1, 4, 3, 700), (1, 301), (1, 300), (0, 150)),  # longer than a line of the CPU's
    Pool((2, 300, 2, 3), (2, 2), (1, 1)),  # more channels than a line
    Pool((1, 1, 1, 1), (1, 1), (1, 1)),
    Pool((1, 4, 6, 5), (1, 1), (4, 3)),  # elements in no window
]
LAYOUTS = ["dense", "odd", "nhwc", "nhwc odd"]


def laid(x: torch.Tensor, device: str, layout: str) -> torch.Tensor:
    """A copy, from an aligned address or one element further."""
    rows = x.permute(0, 2, 3, 1) if "nhwc" in layout else x
    room = torch.empty(rows.numel() + 1, dtype=x.dtype, device=device)["odd" in layout :]
    made = room[: rows.numel()].view(rows.shape).copy_(rows)
    return made.permute(0, 3, 1, 2) if "nhwc" in layout else made


def poisoned(shape: torch.Size, dtype: torch.dtype, device: str, layout: str) -> torch.Tensor:
    value = math.nan if dtype.is_floating_point else 85
    return laid(torch.full(shape, value, dtype=dtype), device, layout)


def tied(shape: tuple[int, ...], dtype: str, special: bool) -> torch.Tensor:
    """Few values, so that windows have ties; with NaN and infinities among them."""
    source = torch.Generator().manual_seed(3)
    x = torch.randint(-4, 5, shape, generator=source).to(torch.float64)
    if special:
        where = torch.rand(shape, generator=source)
        for k, value in enumerate((math.nan, -math.inf, math.inf)):
            x[(where > 0.1 * k) & (where < 0.1 * k + 0.06 + 0.03 * (k == 1))] = value
    return x.to(DTYPES[dtype])


def check_max(p: Pool, x: torch.Tensor, dtype: str, device: str, layout: str) -> None:
    want, at = p.max(x.double())
    given = laid(x, device, layout)
    for indices in (True, False):
        out = poisoned(want.shape, x.dtype, device, layout)
        where = poisoned(want.shape, torch.int64, device, layout)
        call("max_pool2d", dtype, given, out, where if indices else None, **p.forward)
        assert_same(array_of(out), array_of(want), f"max_pool2d {p} {layout}")
        if indices:
            assert_same(array_of(where), array_of(at), f"indices of max_pool2d {p} {layout}")


@pytest.mark.promise("KERNELS-pooling-max", "C1", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", POOLS, ids=str)
def test_max(device: str, p: Pool, dtype: str) -> None:
    skip_without(dtype, device)
    for layout in LAYOUTS:
        for special in (False, True):
            check_max(p, tied(p.shape, dtype, special), dtype, device, layout)


@pytest.mark.promise("KERNELS-pooling-avg", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", POOLS, ids=str)
def test_avg(device: str, p: Pool, dtype: str) -> None:
    skip_without(dtype, device)
    x = torch.randn(p.shape, generator=torch.Generator().manual_seed(1)).to(DTYPES[dtype])
    for layout in LAYOUTS:
        for include in (True, False):
            want = p.avg(x.double(), include)
            out = poisoned(want.shape, x.dtype, device, layout)
            call(
                "avg_pool2d", dtype, laid(x, device, layout), out,
                count_include_pad=include, **p.forward,
            )  # fmt: skip
            assert_close(array_of(out), array_of(want), dtype, f"avg_pool2d {p} {layout}")


@pytest.mark.promise("KERNELS-pooling-max", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", POOLS, ids=str)
def test_max_bwd(device: str, p: Pool, dtype: str) -> None:
    """A gradient that is NaN reaches its element and no other."""
    skip_without(dtype, device)
    out, at = p.max(tied(p.shape, "f64", False))
    gy = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(DTYPES[dtype])
    gy.view(-1)[0] = math.nan
    want = max_pool2d_bwd(gy.double(), at, **p.backward)
    for layout in LAYOUTS:
        gx = poisoned(torch.Size(p.shape), gy.dtype, device, layout)
        given = laid(gy, device, layout), laid(at, device, layout)
        call("max_pool2d_bwd", dtype, *given, gx, **p.backward)
        assert_close(array_of(gx), array_of(want), dtype, f"max_pool2d_bwd {p} {layout}")


@pytest.mark.promise("KERNELS-pooling-avg", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", POOLS, ids=str)
def test_avg_bwd(device: str, p: Pool, dtype: str) -> None:
    skip_without(dtype, device)
    shape = p.avg(torch.zeros(p.shape), True).shape
    gy = torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(DTYPES[dtype])
    for include in (True, False):
        want = avg_pool2d_bwd(gy.double(), count_include_pad=include, **p.backward)
        for layout in LAYOUTS:
            gx = poisoned(torch.Size(p.shape), gy.dtype, device, layout)
            given = laid(gy, device, layout)
            call("avg_pool2d_bwd", dtype, given, gx, count_include_pad=include, **p.backward)
            assert_close(array_of(gx), array_of(want), dtype, f"avg_pool2d_bwd {p} {layout}")


@pytest.mark.promise("KERNELS-pooling-avg")
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_window_of_more_elements_than_are_counted(layout: str) -> None:
    """Padding counts: 2**64 elements, of which four are 1, and back."""
    last = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    x, out, gx = (
        torch.ones(1, 2, *s).contiguous(memory_format=last) for s in [(2, 2), (1, 1), (2, 2)]
    )
    window = {"window": 2**32, "stride": 2**32, "pad": 2**31}
    call("avg_pool2d", "f32", x, out, **window)
    assert out.flatten().tolist() == [2.0**-62] * 2
    call("avg_pool2d_bwd", "f32", torch.ones_like(out), gx, **window, H=2, W=2)
    assert gx.flatten().tolist() == [2.0**-64] * 8


@pytest.mark.promise("KERNELS-pooling-nan")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["dense", "nhwc"])
def test_nan_wins_and_nothing_but_minus_infinity_has_an_index(
    device: str, dtype: str, layout: str
) -> None:
    """In every place of a window, beside windows that have none; of two NaNs the last one."""
    skip_without(dtype, device)
    nan, low = math.nan, -math.inf
    windows = [
        ([1, nan, 5, 6], nan, 1), ([nan, 1, 5, 6], nan, 0), ([1, 2, nan, 6], nan, 2),
        ([1, 2, 5, nan], nan, 3), ([nan, nan, 5, 6], nan, 1), ([low] * 4, low, 0),
        ([low, low, low, nan], nan, 3), ([1, 7, 7, 6], 7, 1),
    ]  # fmt: skip
    x = torch.tensor([w[0] for w in windows], dtype=DTYPES[dtype])
    x = x.view(1, 1, 8, 2, 2).permute(0, 1, 3, 2, 4).reshape(1, 1, 2, 16)
    x = x.expand(1, 8, 2, 16)
    out = poisoned(torch.Size((1, 8, 1, 8)), x.dtype, device, layout)
    at = poisoned(torch.Size((1, 8, 1, 8)), torch.int64, device, layout)
    call("max_pool2d", dtype, laid(x, device, layout), out, at, window=2, stride=2)
    want = torch.tensor([w[1] for w in windows], dtype=torch.float64).expand(1, 8, 1, 8)
    places = torch.tensor([2 * i + w[2] % 2 + 16 * (w[2] // 2) for i, w in enumerate(windows)])
    assert_same(array_of(out), array_of(want), f"max_pool2d {layout}")
    assert_same(array_of(at), array_of(places.expand(1, 8, 1, 8)), f"its indices {layout}")


@pytest.mark.promise("KERNELS-pooling-cases")
@pytest.mark.parametrize("dtype", FLOATS)
def test_inputs_that_broke_others(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for p in (
        Pool((1, 2, 4, 4), (2, 2), (1, 1), (1, 1)),
        Pool((1, 16, 4, 4), (1, 2), (2, 2), (0, 1), ceil_mode=True),
    ):
        test_avg(device, p, dtype)
        test_avg_bwd(device, p, dtype)
        test_max(device, p, dtype)
        test_max_bwd(device, p, dtype)


@pytest.mark.promise("KERNELS-pooling-indices")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "p", [POOLS[0], POOLS[1], POOLS[10]], ids=["windows of 3", "windows of 2", "any"]
)
def test_an_index_that_is_no_place_of_its_window_is_skipped(
    device: str, p: Pool, dtype: str
) -> None:
    skip_without(dtype, device)
    out, at = p.max(tied(p.shape, "f64", False))
    wrong = at.clone()
    size = p.shape[2] * p.shape[3]
    bad = [-1, size, 2**31, 2**32 + int(at.view(-1)[4]), -(2**63), 2**63 - 1, size - 1]
    for i, value in enumerate(bad):
        wrong.view(-1)[i] = value  # the first windows: the last element is in none of them
    gy = torch.ones(out.shape, dtype=DTYPES[dtype])
    kept = gy.double()
    kept.view(-1)[: len(bad)] = 0
    want = max_pool2d_bwd(kept, at, **p.backward)
    for layout in LAYOUTS:
        gx = poisoned(torch.Size(p.shape), gy.dtype, device, layout)
        given = laid(gy, device, layout), laid(wrong, device, layout)
        call("max_pool2d_bwd", dtype, *given, gx, **p.backward)
        assert_same(array_of(gx), array_of(want), f"max_pool2d_bwd {layout}")


@pytest.mark.promise("KERNELS-pooling-max", "C1")
@pytest.mark.parametrize("shape", [(0, 4, 8, 8), (2, 0, 8, 8)], ids=str)
def test_nothing(device: str, shape: tuple[int, int, int, int]) -> None:
    p = Pool(shape, (3, 3), (2, 2), (1, 1))
    x = torch.empty(shape, device=device)
    outs = torch.empty(*shape[:2], 4, 4, device=device)
    call("max_pool2d", "f32", x, outs, outs.long(), **p.forward)
    call("avg_pool2d", "f32", x, outs, **p.forward)
    call("max_pool2d_bwd", "f32", outs, outs.long(), x, **p.backward)
    call("avg_pool2d_bwd", "f32", outs, x, **p.backward)


def digest(device: str) -> str:
    """One hash over results of every op, of many parts or blocks."""
    h = hashlib.sha256()
    for dtype in ("f32", "bf16"):
        for p in (
            Pool((2, 8, 64, 64), (3, 3), (2, 2), (1, 1)),
            Pool((2, 8, 31, 67), (3, 3), (1, 1), (1, 1)),
        ):
            for layout in ("dense", "nhwc"):
                x = torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
                x = laid(x.to(DTYPES[dtype]), device, layout)
                shape = p.max(x.cpu().float())[0].shape
                out = poisoned(shape, x.dtype, device, layout)
                at = poisoned(shape, torch.int64, device, layout)
                gx = torch.full_like(x, math.nan)
                means, slopes = torch.full_like(out, math.nan), torch.full_like(x, math.nan)
                call("max_pool2d", dtype, x, out, at, **p.forward)
                call("max_pool2d_bwd", dtype, out, at, gx, **p.backward)
                call("avg_pool2d", dtype, x, means, **p.forward)
                call("avg_pool2d_bwd", dtype, means, slopes, **p.backward)
                for t in (out, at, gx, means, slopes):
                    h.update(t.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()


@pytest.mark.promise("KERNELS-pooling-bits")
def test_the_same_bits_at_every_run(device: str) -> None:
    assert digest(device) == digest(device)


@pytest.mark.promise("KERNELS-pooling-bits", "KERNELS-threads")
def test_bits_do_not_depend_on_the_threads() -> None:
    program = "import kernels.test_pooling as t; print(t.digest('cpu'))"
    assert printed_with_threads(program, 1) == printed_with_threads(program, 3)


# ---- large ---------------------------------------------------------------------------------------

EDGE = 64  # rows of a plane that are looked at, on both sides


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-pooling-large", "KERNELS-pooling-cases", "A2")
@pytest.mark.parametrize("last", [False, True], ids=["nchw", "nhwc"])
@pytest.mark.parametrize(
    "p",
    [
        Pool((200, 512, 28, 28), (3, 3), (2, 2), (1, 1)),
        Pool((2**15 + 3, 64, 32, 32), (3, 3), (2, 2), (1, 1)),  # more than 2**31 elements
        Pool((2**15 + 3, 64, 32, 32), (2, 2), (2, 2)),
        Pool((2**15 + 3, 63, 33, 33), (3, 3), (1, 1), (1, 1)),
        Pool((1, 1, 16777217, 2), (2, 2), (1, 1), (1, 1)),
        Pool((1, 1, 46345, 46344), (3, 3), (2, 2), (1, 1)),  # in one plane
        Pool((1, 1, 2**30 + 1, 2), (3, 2), (2, 2), (1, 0)),
    ],
    ids=str,
)
@pytest.mark.large
def test_large(p: Pool, last: bool) -> None:
    """Beside torch on the first and the last rows of the first and the last plane: so few that no
    offset is large there. A gradient of ones reaches one element a window."""
    layout = torch.channels_last if last else torch.contiguous_format
    x = torch.empty(p.shape, dtype=torch.float16, device="cuda").to(memory_format=layout)
    for image in range(0, p.shape[0], 4096):
        x[image : image + 4096].normal_()
    places = zip(p.shape[2:], p.window, p.stride, p.pad, strict=True)
    outs = (*p.shape[:2], *((n + 2 * pad - w) // s + 1 for n, w, s, pad in places))
    out = torch.full(outs, math.nan, dtype=x.dtype, device="cuda").to(memory_format=layout)
    call("avg_pool2d", "f16", x, out, **p.forward)
    assert_edges(p, x, out, lambda part: p.avg(part.float(), True), 1e-3)
    at = torch.empty(outs, dtype=torch.int64, device="cuda").to(memory_format=layout)
    call("max_pool2d", "f16", x, out, at, **p.forward)
    assert_edges(p, x, out, lambda part: p.max(part.float())[0], 0)

    x.fill_(math.nan)
    call("max_pool2d_bwd", "f16", out.fill_(1), at, x, **p.backward)
    assert total(x) == out.numel()
    x.fill_(math.nan)
    call("avg_pool2d_bwd", "f16", out, x, **p.backward)
    height = min(p.shape[2], EDGE + p.shape[2] % 2)
    small = torch.ones(1, 1, (height + 2 * p.pad[0] - p.window[0]) // p.stride[0] + 1, outs[3])
    want = avg_pool2d_bwd(small, **{**p.backward, "H": height})[0, 0].cuda()
    rows = height if height == p.shape[2] else height // 2
    for image, channel in ((0, 0), (-1, -1)):
        got = x[image, channel]
        torch.testing.assert_close(got[:rows].float(), want[:rows], rtol=1e-3, atol=0)
        torch.testing.assert_close(got[-rows:].float(), want[-rows:], rtol=1e-3, atol=0)
    del x, out, at
    torch.cuda.empty_cache()


def total(x: torch.Tensor) -> int:
    """The sum of whole numbers, part by part: torch makes a copy in float64 of what it sums so."""
    flat = x.as_strided((x.numel(),), (1,))
    return int(sum(float(part.sum(dtype=torch.float64)) for part in flat.split(2**27)))


def assert_edges(p: Pool, x: torch.Tensor, out: torch.Tensor, torchs: Any, rtol: float) -> None:
    """Windows at the cut of a slice, which is at a multiple of the stride, are not looked at."""
    cut = max(0, p.shape[2] - EDGE) // p.stride[0]
    for image, channel in ((0, 0), (-1, -1)):
        plane, got = x[image, channel][None, None], out[image, channel]
        top, bottom = (
            torchs(plane[:, :, :EDGE])[0, 0],
            torchs(plane[:, :, cut * p.stride[0] :])[0, 0],
        )
        rows = len(top) if p.shape[2] <= EDGE else len(top) - 2
        skip = 2 if cut else 0
        assert len(got) == cut + len(bottom)
        for ours, want in ((got[:rows], top[:rows]), (got[cut + skip :], bottom[skip:])):
            torch.testing.assert_close(ours.float(), want.half().float(), rtol=rtol, atol=1e-4)
