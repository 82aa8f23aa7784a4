"""conv2d and its gradients: every form of the kernels, inputs that broke others, empty ones, bits.

A sum of K products may be off by K * eps * the sum of their sizes, and is rounded once.
"""

from __future__ import annotations

import hashlib
import importlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kernels.calls import call, printed_with_threads, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, poisoned, tensor_of
from kernels.tolerance import EPS, Array, assert_close
from rows.conv import attributes, conv2d_dw, conv2d_dx

pytestmark = [pytest.mark.guests("torch")]

Shape = tuple[int, int, int, int]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Conv:
    """A call: the shapes of x and w and the row's attributes."""

    x: Shape
    w: Shape
    stride: Pair = (1, 1)
    pad: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def __str__(self) -> str:
        named = (("s", self.stride), ("p", self.pad), ("d", self.dilation))
        words = [f"{k}{v[0]},{v[1]}" for k, v in named]
        return " ".join([*("x".join(map(str, s)) for s in (self.x, self.w)), *words,
                         f"g{self.groups}"])  # fmt: skip

    @property
    def named(self) -> dict[str, Any]:
        return {"stride": self.stride, "pad": self.pad, "dilation": self.dilation,
                "groups": self.groups}  # fmt: skip

    @property
    def size(self) -> dict[str, int]:
        return {"H": self.x[2], "W": self.x[3]}

    @property
    def window(self) -> dict[str, int]:
        return {"R": self.w[2], "S": self.w[3]}

    def forward(self, x: torch.Tensor, w: torch.Tensor, bias: Any = None) -> torch.Tensor:
        return F.conv2d(x, w, bias, *attributes(**self.named))

    def outs(self) -> Shape:
        n, o, p, q = self.forward(
            torch.empty(self.x, device="meta"), torch.empty(self.w, device="meta")
        ).shape
        return n, o, p, q


# 16-bit kernels of tensor cores take channels in eights, and make tiles of 64 to 256 pixels and
# outputs; those of f32 take channels in fours or rows of pixels. Each side is once whole and once
# cut, the depth longer and shorter than a slab.
CONVS = [
    Conv((2, 8, 9, 7), (16, 8, 3, 3), pad=(1, 1)),
    Conv((1, 64, 12, 12), (64, 64, 3, 3), pad=(1, 1)),
    Conv((3, 72, 7, 7), (136, 72, 1, 1)),  # cut tiles of every side
    Conv((2, 16, 15, 14), (24, 16, 3, 3), (2, 2), (1, 1)),
    Conv((2, 16, 15, 14), (24, 16, 1, 1), (2, 3)),  # elements in no window
    Conv((1, 32, 10, 11), (40, 16, 3, 2), (1, 2), (2, 1), (2, 3), 2),
    Conv((2, 3, 17, 19), (5, 3, 3, 3), pad=(1, 1)),  # odd and prime
    Conv((1, 3, 20, 22), (64, 3, 7, 7), (2, 2), (3, 3)),
    Conv((2, 12, 8, 8), (12, 1, 3, 3), pad=(1, 1), groups=12),
    Conv((2, 8, 9, 8), (24, 1, 3, 5), (2, 1), (1, 2), (1, 2), 8),
    Conv((3, 64, 9, 10), (136, 64, 3, 3), (2, 2), (1, 1)),  # 64 channels: warpgroups
    Conv((2, 128, 7, 9), (264, 128, 2, 3), pad=(1, 2), dilation=(2, 1)),
    Conv((5, 64, 11, 6), (72, 64, 3, 1), (3, 2), (2, 0), (1, 1)),
    Conv((3, 24, 9, 8), (128, 24, 3, 2), pad=(0, 1), dilation=(1, 2)),
    Conv((2, 72, 9, 10), (64, 72, 3, 3), (2, 2), (1, 1)),  # phases of strides on warpgroups
    Conv((3, 64, 13, 8), (128, 64, 4, 3), (3, 2), (2, 0)),
    Conv((3, 40, 7, 9), (40, 1, 3, 3), (2, 1), (1, 1), groups=40),  # whole packs of channels
    Conv((1, 264, 5, 6), (264, 1, 5, 5), pad=(2, 2), groups=264),
    Conv((2, 132, 17, 9), (132, 1, 3, 3), pad=(1, 1), groups=132),  # depthwise by strips of rows
    Conv((3, 36, 30, 18), (36, 1, 3, 3), (2, 2), (1, 0), groups=36),
    Conv((2, 6, 31, 20), (12, 1, 3, 3), pad=(0, 2), groups=6),
    Conv((2, 12, 9, 8), (16, 12, 3, 3), (2, 1), (1, 1)),  # padded to eights
    Conv((2, 4, 9, 13), (8, 4, 3, 4), (1, 2), (1, 2)),  # columns in pairs
    Conv((1, 2, 6, 12), (16, 2, 2, 5), (3, 2), (0, 1), (2, 1)),
    Conv((1, 300, 2, 3), (7, 300, 2, 2)),  # more channels than a tile is deep
    Conv((1, 4, 3, 150), (4, 4, 1, 5), pad=(0, 2)),  # a row longer than a CPU's tile
    Conv((1, 1, 1, 1), (1, 1, 1, 1)),
    Conv((2, 8, 7, 9), (8, 8, 3, 3), (4, 5), (2, 2), (3, 2)),  # strides above the windows
    Conv((1, 8, 6, 6), (8, 8, 2, 2), (2, 2), (0, 0), (2, 2)),  # phases without a tap
    Conv((1, 8, 12, 12), (8, 8, 3, 3), (4, 6), (4, 3), (2, 4)),
    Conv((9, 16, 14, 14), (32, 16, 3, 3), pad=(1, 1)),  # windows of 3 x 3 at every element, f32
    Conv((3, 33, 14, 7), (20, 33, 3, 3), pad=(1, 1)),  # cut sets of channels
    Conv((5, 7, 9, 21), (13, 7, 3, 3)),  # cut outputs, rows and strips
    Conv((2, 5, 3, 61), (9, 5, 3, 3), pad=(2, 2)),  # few rows of many strips
    Conv((40, 18, 7, 7), (64, 18, 3, 3), pad=(1, 1)),  # images together
    Conv((301, 3, 15, 13), (6, 3, 3, 3), pad=(1, 1)),  # threads of two rows, the last one cut
]
PADDED = [
    Conv((2, 8, 5, 6), (8, 8, 3, 3), pad=(0, 3)),
    Conv((2, 8, 5, 6), (8, 8, 3, 1), pad=(2, 0)),
    Conv((1, 3, 6, 5), (4, 3, 2, 2), (2, 2), (1, 1)),  # padding that only one end meets
    Conv((1, 8, 3, 2), (8, 8, 2, 2), pad=(5, 4)),  # windows of nothing else
    Conv((1, 8, 3, 2), (8, 8, 2, 2), (3, 4), (5, 4)),
    Conv((1, 8, 2, 3), (8, 8, 5, 7), pad=(2, 3)),  # larger than the input
    Conv((1, 4, 1, 1), (4, 4, 3, 3), pad=(1, 1)),
]
LAYOUTS = [("dense", "dense"), ("odd", "odd"), ("nhwc", "nhwc"), ("nhwc", "dense"),
           ("stepped", "pitched")]  # fmt: skip


def drawn(shape: Shape | tuple[int, ...], dtype: str, seed: int) -> torch.Tensor:
    """Values of a dtype, exact in float64."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return x.to(DTYPES[dtype]).double()


def laid(x: torch.Tensor, dtype: str, device: str, layout: str) -> torch.Tensor:
    return tensor_of(array_of(x), dtype, device, layout)


def near(
    got: torch.Tensor, want: torch.Tensor, sizes: torch.Tensor, k: int, dtype: str, what: str
) -> None:
    slack: Array = np.asarray(array_of(sizes)) * k * EPS[dtype]
    assert_close(array_of(got), array_of(want), dtype, what, slack)


def depth(c: Conv) -> int:
    return c.w[1] * c.w[2] * c.w[3]


def check_forward(c: Conv, dtype: str, device: str, layouts: Any = LAYOUTS) -> None:
    x, w = drawn(c.x, dtype, 1), drawn(c.w, dtype, 2)
    bias = drawn((c.w[0],), dtype, 3)
    for first, second in layouts:
        for b in (None, bias):
            out = poisoned(c.outs(), dtype, device, first)
            given = None if b is None else laid(b, dtype, device, "dense")
            call("conv2d", dtype, laid(x, dtype, device, first), laid(w, dtype, device, second),
                 given, out, **c.named)  # fmt: skip
            sizes = c.forward(x.abs(), w.abs(), None if b is None else b.abs())
            near(out, c.forward(x, w, b), sizes, depth(c) + 1, dtype, f"conv2d {c} {first}")


def check_input(c: Conv, dtype: str, device: str, layouts: Any = LAYOUTS) -> None:
    gy, w = drawn(c.outs(), dtype, 4), drawn(c.w, dtype, 2)
    want = conv2d_dx(gy, w, **c.size, **c.named)
    sizes = conv2d_dx(gy.abs(), w.abs(), **c.size, **c.named)
    for first, second in layouts:
        gx = poisoned(c.x, dtype, device, first)
        call("conv2d_dx", dtype, laid(gy, dtype, device, first), laid(w, dtype, device, second),
             gx, **c.size, **c.named)  # fmt: skip
        k = c.w[0] // c.groups * c.w[2] * c.w[3]
        near(gx, want, sizes, k, dtype, f"conv2d_dx {c} {first}")


def check_weight(c: Conv, dtype: str, device: str, layouts: Any = LAYOUTS) -> None:
    gy, x = drawn(c.outs(), dtype, 4), drawn(c.x, dtype, 1)
    want = conv2d_dw(gy, x, **c.window, **c.named)
    sizes = conv2d_dw(gy.abs(), x.abs(), **c.window, **c.named)
    k = math.prod(c.outs()) // max(c.w[0], 1)
    for first, second in layouts:
        gw = poisoned(c.w, dtype, device, second)
        call("conv2d_dw", dtype, laid(gy, dtype, device, first), laid(x, dtype, device, first),
             gw, **c.window, **c.named)  # fmt: skip
        near(gw, want, sizes, k, dtype, f"conv2d_dw {c} {first}")


CHECKS = {"conv2d": check_forward, "conv2d_dx": check_input, "conv2d_dw": check_weight}


@pytest.mark.promise("KERNELS-conv2d-values", "A3", "C1")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("c", CONVS, ids=str)
def test_values(device: str, c: Conv, dtype: str) -> None:
    skip_without(dtype, device)
    for check in CHECKS.values():
        check(c, dtype, device)


@pytest.mark.promise("KERNELS-conv2d-values")
@pytest.mark.parametrize("op", CHECKS)
def test_each_kernel_by_name(device: str, op: str) -> None:
    """Where one of another name would run first."""
    c = Conv((2, 16, 9, 8), (24, 16, 3, 3), (2, 1), (1, 1))
    module = importlib.import_module(f"aicf_cuda.{op}")
    x, w, gy = drawn(c.x, "f32", 1), drawn(c.w, "f32", 2), drawn(c.outs(), "f32", 4)
    shapes = {
        "conv2d": ((x, w), c.outs(), c.forward(x, w), {}),
        "conv2d_dx": ((gy, w), c.x, conv2d_dx(gy, w, **c.size, **c.named), c.size),
        "conv2d_dw": ((gy, x), c.w, conv2d_dw(gy, x, **c.window, **c.named), c.window),
    }
    inputs, shape, want, more = shapes[op]  # fmt: skip
    ran = 0
    for layout in ("dense", "nhwc"):
        given: list[Any] = [laid(t, "f32", device, layout) for t in inputs]
        given += [None] if op == "conv2d" else []
        for kernel, built in module.capability["built"].items():
            out = poisoned(shape, "f32", device, layout)
            lines = module.explain(*given, out, kernel=kernel, **more, **c.named)
            if "f32" in built and any(line.startswith(f"{kernel}: fits") for line in lines):
                call(op, "f32", *given, out, kernel=kernel, **more, **c.named)
                assert_close(array_of(out), array_of(want), "f32", f"{op} {kernel}", 1e-4)
                ran += 1
    assert ran >= 2


# ---- inputs that broke others --------------------------------------------------------------------


@pytest.mark.promise("KERNELS-conv2d-corner")
@pytest.mark.parametrize("layout", ["dense", "nhwc"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("groups", [1, 8])
def test_zeros_with_one_large_corner(device: str, groups: int, dtype: str, layout: str) -> None:
    """Nothing but the windows that hold it may see it, in none of 100 images."""
    c = Conv((100, 8, 10, 10), (8, 8 // groups, 3, 3), pad=(1, 1), groups=groups)
    w = drawn(c.w, dtype, 2)
    for image, row, column in ((0, 0, 0), (57, 0, 9), (99, 9, 9)):
        x = torch.zeros(c.x, dtype=torch.float64)
        x[image, 0, row, column] = 1e10
        x = x.to(DTYPES[dtype]).double()
        out = poisoned(c.outs(), dtype, device, layout)
        call("conv2d", dtype, laid(x, dtype, device, layout), laid(w, dtype, device, layout),
             None, out, **c.named)  # fmt: skip
        want = c.forward(x, w)
        assert_close(array_of(out), array_of(want), dtype, f"conv2d {image}")
        assert (array_of(out)[array_of(want) == 0] == 0).all()


@pytest.mark.promise("KERNELS-conv2d-padding", "KERNELS-conv2d-window")
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("c", PADDED, ids=str)
def test_padding(device: str, c: Conv, dtype: str) -> None:
    for check in CHECKS.values():
        check(c, dtype, device, LAYOUTS[::2])


@pytest.mark.promise("KERNELS-conv2d-window")
def test_a_window_beyond_the_padded_input_is_refused(device: str) -> None:
    module = importlib.import_module("aicf_cuda.conv2d")
    x, w = torch.ones(1, 2, 2, 3, device=device), torch.ones(2, 2, 5, 3, device=device)
    out = torch.ones(1, 2, 1, 1, device=device)
    assert module.conv2d_f32(x, w, None, out, pad=(1, 0)) is False
    with pytest.raises(module.Unsupported if hasattr(module, "Unsupported") else Exception,
                       match="the window is larger than the padded input"):  # fmt: skip
        module.conv2d(x, w, pad=(1, 0))


@pytest.mark.promise("KERNELS-conv2d-batch")
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("layout", ["dense", "nhwc"])
def test_a_batch_of_100000(device: str, dtype: str, layout: str) -> None:
    """Images are told apart beyond the limits of a grid's second dim: all but the last ones are
    zeros."""
    c, few = Conv((100000, 8, 2, 2), (8, 8, 2, 2), pad=(1, 1)), 64
    last = Conv((few, *c.x[1:]), c.w, pad=c.pad)
    x, w, gy = drawn(last.x, dtype, 1), drawn(c.w, dtype, 2), drawn(last.outs(), dtype, 4)

    def padded(t: torch.Tensor) -> torch.Tensor:
        made = poisoned((c.x[0], *t.shape[1:]), dtype, device, layout).zero_()
        made[-few:] = t
        return made

    weight = laid(w, dtype, device, layout)
    out = poisoned(c.outs(), dtype, device, layout)
    call("conv2d", dtype, padded(x), weight, None, out, **c.named)
    gx = poisoned(c.x, dtype, device, layout)
    call("conv2d_dx", dtype, padded(gy), weight, gx, **c.size, **c.named)
    gw = poisoned(c.w, dtype, device, layout)
    call("conv2d_dw", dtype, padded(gy), padded(x), gw, **c.window, **c.named)
    wants = (
        (out, last.forward(x, w)),
        (gx, conv2d_dx(gy, w, **c.size, **c.named)),
        (gw, conv2d_dw(gy, x, **c.window, **c.named)),
    )
    for got, want in wants:
        assert_close(array_of(got)[-few:], array_of(want), dtype, str(c), 1e-4)
        assert got is gw or not got[:-few].any()


@pytest.mark.promise("KERNELS-conv2d-batch", "C1")
@pytest.mark.parametrize("layout", ["dense", "nhwc"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize(
    "c",
    [
        Conv((0, 8, 5, 5), (8, 8, 3, 3)),
        Conv((2, 8, 5, 5), (0, 8, 3, 3)),
        Conv((2, 0, 5, 5), (8, 0, 3, 3)),  # outs of nothing but the bias
        Conv((2, 8, 0, 3), (8, 8, 2, 2), pad=(1, 1)),
    ],
    ids=str,
)
def test_nothing(device: str, c: Conv, dtype: str, layout: str) -> None:
    bias = torch.arange(c.w[0], dtype=DTYPES[dtype], device=device)
    n, o = c.x[0], c.w[0]
    places = [(size + 2 * p - r) + 1 for size, p, r in zip(c.x[2:], c.pad, c.w[2:], strict=True)]
    shape = (n, o, *places)
    made = [torch.zeros(s, dtype=torch.float64) for s in (c.x, c.w, shape)]
    x, w, gy = (laid(t, dtype, device, layout) for t in made)
    out = poisoned(shape, dtype, device, layout)
    call("conv2d", dtype, x, w, bias, out, **c.named)
    assert torch.equal(out, bias[None, :, None, None].expand(shape))
    if c.x[2]:
        gx = poisoned(c.x, dtype, device, layout)
        call("conv2d_dx", dtype, gy, w, gx, **c.size, **c.named)
        assert not gx.any()
    gw = poisoned(c.w, dtype, device, layout)
    call("conv2d_dw", dtype, gy, x, gw, **c.window, **c.named)
    assert not gw.any()


@pytest.mark.promise("KERNELS-conv2d-batch")
@pytest.mark.parametrize("kernel", ["blas", "loop"])
def test_taps_of_no_outputs_are_not_counted(kernel: str) -> None:
    """One by one, 2**40 of them would take hours."""
    gy, w, gx = torch.empty(1, 0, 1, 1), torch.empty(0, 1, 2**40, 1), torch.full((1, 1, 1, 1), 9.0)
    call("conv2d_dx", "f32", gy, w, gx, H=1, W=1, pad=(2**39, 0), stride=(2**40, 1), kernel=kernel)
    assert not gx.any()


@pytest.mark.promise("KERNELS-conv2d-window")
def test_taps_in_no_window_are_not_counted(device: str) -> None:
    """A weight of one number, read as 2**28 taps or, on the CPU, as 2**40: few meet an element."""
    taps = 2**40 if device == "cpu" else 2**28
    w = torch.full((1, 1, 1, 1), 3.0, device=device).expand(1, 1, taps, 1)
    x = torch.full((1, 1, 1, 1), 2.0, device=device)
    pad, strides = (taps // 2, 0), (taps, 1)
    for kernel in ("blas", "loop") if device == "cpu" else ("direct", "igemm"):
        out, gx = torch.zeros(1, 1, 2, 1, device=device), torch.zeros(1, 1, 1, 1, device=device)
        call("conv2d", "f32", x, w, None, out, pad=pad, kernel=kernel)
        assert out.view(-1).tolist() == [6.0, 6.0], kernel
        call("conv2d_dx", "f32", out, w, gx, H=1, W=1, pad=pad, kernel=kernel)
        assert gx.item() == 36.0, kernel
        call("conv2d_dx", "f32", x, w, gx, H=1, W=1, pad=pad, stride=strides, kernel=kernel)
        assert gx.item() == 6.0, kernel


@pytest.mark.promise("KERNELS-conv2d-nan")
@pytest.mark.parametrize("layout", ["dense", "nhwc"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_nan_reaches_its_windows_and_no_others(device: str, dtype: str, layout: str) -> None:
    c = Conv((2, 8, 7, 8), (16, 8, 3, 3), (1, 2), (1, 1))
    x, w = drawn(c.x, dtype, 1), drawn(c.w, dtype, 2)
    x[0, 3, 2, 7] = math.nan
    x[1, 0, 0, 0] = math.inf
    out = poisoned(c.outs(), dtype, device, layout)
    call("conv2d", dtype, laid(x, dtype, device, layout), laid(w, dtype, device, layout), None,
         out, **c.named)  # fmt: skip
    assert_close(array_of(out), array_of(c.forward(x, w)), dtype, f"conv2d {layout}", 1e-4)


# ---- layers --------------------------------------------------------------------------------------

# Of every shape of tiles: ResNet-50's, 32 images.
LAYERS = [
    Conv((32, 3, 224, 224), (64, 3, 7, 7), (2, 2), (3, 3)),
    Conv((32, 64, 56, 56), (64, 64, 1, 1)),
    Conv((32, 64, 56, 56), (64, 64, 3, 3), pad=(1, 1)),
    Conv((32, 64, 56, 56), (256, 64, 1, 1)),
    Conv((32, 256, 56, 56), (128, 256, 1, 1)),
    Conv((32, 128, 56, 56), (128, 128, 3, 3), (2, 2), (1, 1)),
    Conv((32, 1024, 14, 14), (256, 1024, 1, 1)),
    Conv((32, 512, 7, 7), (512, 512, 3, 3), pad=(1, 1)),
]


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-conv2d-values")
@pytest.mark.parametrize("layout", ["dense", "nhwc"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("c", LAYERS, ids=str)
def test_layers(c: Conv, dtype: str, layout: str) -> None:
    """Beside torch in f64 on the GPU: its f32 may transform windows, whose error is larger."""
    last = torch.channels_last if layout == "nhwc" else torch.contiguous_format

    def made(shape: Shape, seed: int) -> torch.Tensor:
        source = torch.Generator("cuda").manual_seed(seed)
        x = torch.randn(shape, generator=source, device="cuda").to(DTYPES[dtype])
        return x.contiguous(memory_format=last)

    def check(got: torch.Tensor, want: torch.Tensor, k: int) -> None:
        bound = 8 * math.sqrt(k) * (2.0**-8 if dtype == "bf16" else 2.0**-16)
        assert float((got.double() - want).abs().max()) <= bound, f"{c} {dtype} {layout}"

    x, w, gy = made(c.x, 1), made(c.w, 2), made(c.outs(), 3)
    out, gx, gw = (torch.full_like(t, math.nan) for t in (gy, x, w))
    call("conv2d", dtype, x, w, None, out, **c.named)
    call("conv2d_dx", dtype, gy, w, gx, **c.size, **c.named)
    call("conv2d_dw", dtype, gy, x, gw, **c.window, **c.named)
    wide = [t.double() for t in (x, w, gy)]
    check(out, c.forward(wide[0], wide[1]), depth(c))
    check(gx, conv2d_dx(wide[2], wide[1], **c.size, **c.named), depth(c) * c.w[0] // c.w[1])
    check(gw, conv2d_dw(wide[2], wide[0], **c.window, **c.named), gy.numel() // c.w[0])


# ---- bits ----------------------------------------------------------------------------------------


def digest(device: str) -> str:
    """One hash over results of every op, of many parts or blocks."""
    h = hashlib.sha256()
    for dtype in ("f32", "bf16"):
        for c in (
            Conv((8, 64, 17, 17), (72, 64, 3, 3), (2, 2), (1, 1)),
            Conv((4, 33, 16, 16), (33, 1, 3, 3), pad=(1, 1), groups=33),
        ):
            for layout in ("dense", "nhwc"):
                x, w, gy = (
                    laid(drawn(s, dtype, 1), dtype, device, layout) for s in (c.x, c.w, c.outs())
                )
                out, gx, gw = (poisoned(s, dtype, device, layout) for s in (c.outs(), c.x, c.w))
                call("conv2d", dtype, x, w, None, out, **c.named)
                call("conv2d_dx", dtype, gy, w, gx, **c.size, **c.named)
                call("conv2d_dw", dtype, gy, x, gw, **c.window, **c.named)
                for t in (out, gx, gw):
                    h.update(t.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()


@pytest.mark.promise("KERNELS-conv2d-bits")
def test_the_same_bits_at_every_run(device: str) -> None:
    assert digest(device) == digest(device)


@pytest.mark.promise("KERNELS-conv2d-bits", "KERNELS-threads")
def test_bits_do_not_depend_on_the_threads() -> None:
    program = "import kernels.test_conv as t; print(t.digest('cpu'))"
    assert printed_with_threads(program, 1) == printed_with_threads(program, 3)


# ---- large ---------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-conv2d-large", "A2")
@pytest.mark.parametrize("layout", ["dense", "nhwc"])
def test_more_elements_than_32_bits_count(layout: str) -> None:
    """The last images as they are alone."""
    c = Conv((2**15 + 3, 64, 32, 32), (16, 64, 3, 3), (2, 2), (1, 1))
    last = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    x = torch.empty(c.x, dtype=torch.float16, device="cuda", memory_format=last)
    for image in range(0, c.x[0], 4096):
        x[image : image + 4096].normal_()
    w = torch.randn(c.w, device="cuda").half().contiguous(memory_format=last)
    out = torch.full(c.outs(), math.nan, dtype=x.dtype, device="cuda").to(memory_format=last)
    call("conv2d", "f16", x, w, None, out, **c.named)
    few = x[-2:].float().cpu()
    want = c.forward(few.double(), w.double().cpu())
    assert_close(array_of(out[-2:]), array_of(want), "f16", "conv2d large", 1e-3)
    gx = x.fill_(math.nan)
    call("conv2d_dx", "f16", out, w, gx, **c.size, **c.named)
    want = conv2d_dx(out[-2:].double().cpu(), w.double().cpu(), **c.size, **c.named)
    assert_close(array_of(gx[-2:]), array_of(want), "f16", "conv2d_dx large", 5e-2)
    del x, gx, out
    torch.cuda.empty_cache()
