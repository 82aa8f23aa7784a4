"""Convolutions beside torch (cuDNN): layers of ResNet-50 at batch 32, and gradients of one; both
layers of a small network, and their gradients, in f32 at batches of 1, 32 and 256."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from bench.kernels import SUFFIX, Case, Runs, Sets, random, typed

F32, F16 = torch.float32, torch.float16
BATCH = 32
FLOOR = {F16: 0.9, F32: 0.6}  # of torch's speed

aten: Any = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Layer:
    """Channels, outputs, rows and columns of x, the window's and the stride."""

    channels: int
    outputs: int
    size: int
    window: int = 1
    stride: int = 1
    groups: int = 1
    batch: int = BATCH

    @property
    def pad(self) -> int:
        return self.window // 2

    @property
    def places(self) -> int:
        return (self.size + 2 * self.pad - self.window) // self.stride + 1

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of x, w and out."""
        w = self.outputs, self.channels // self.groups, self.window, self.window
        return (
            (self.batch, self.channels, self.size, self.size),
            w,
            (self.batch, self.outputs, self.places, self.places),
        )

    @property
    def flops(self) -> float:
        _, w, out = self.shapes
        return 2.0 * math.prod(out) * math.prod(w[1:])

    @property
    def named(self) -> dict[str, int]:
        return {"stride": self.stride, "pad": self.pad, "groups": self.groups}

    @property
    def name(self) -> str:
        groups = f" g{self.groups}" if self.groups > 1 else ""
        batch = f" n{self.batch}" if self in SMALL else ""
        layer = f"{self.channels}-{self.outputs}/{self.size} k{self.window} s{self.stride}"
        return layer + groups + batch


LAYERS = [
    Layer(3, 64, 224, 7, 2), Layer(64, 64, 56), Layer(64, 64, 56, 3), Layer(64, 256, 56),
    Layer(256, 128, 56), Layer(128, 128, 56, 3, 2), Layer(128, 512, 28), Layer(256, 256, 14, 3),
    Layer(1024, 256, 14), Layer(512, 512, 7, 3),
]  # fmt: skip
FIRST, SECOND = (1, 16, 28, 3), (16, 32, 14, 3)
SMALL = [Layer(*layer, batch=n) for layer in (FIRST, SECOND) for n in (1, 32, 256)]


def case(op: str, layer: Layer, dtype: torch.dtype, last: bool) -> Case:
    x_shape, w_shape, out_shape = layer.shapes
    size = sum(math.prod(s) for s in layer.shapes) * dtype.itemsize
    layout = torch.channels_last if last else torch.contiguous_format

    def laid(shape: tuple[int, ...]) -> torch.Tensor:
        return random(shape, dtype).contiguous(memory_format=layout)

    def one() -> dict[str, torch.Tensor]:
        return {"x": laid(x_shape), "w": laid(w_shape), "out": laid(out_shape)}

    def make() -> Runs:
        call, sets = typed(op, SUFFIX[dtype]), Sets.of(size, one)
        return Runs(ours(call, sets), torchs(sets), len(sets))

    def ours(call: Callable[..., bool], sets: Sets) -> Callable[[int], Any]:
        hw, rs = {"H": layer.size, "W": layer.size}, {"R": layer.window, "S": layer.window}
        calls: dict[str, Callable[[Any], Any]] = {
            "conv2d": lambda t: call(t["x"], t["w"], None, t["out"], **layer.named),
            "conv2d_dx": lambda t: call(t["out"], t["w"], t["x"], **hw, **layer.named),
            "conv2d_dw": lambda t: call(t["out"], t["x"], t["w"], **rs, **layer.named),
        }
        return lambda i: calls[op](sets[i])

    def torchs(sets: Sets) -> Callable[[int], Any]:
        places = [layer.stride] * 2, [layer.pad] * 2, [1, 1]
        mask = [op == "conv2d_dx", op == "conv2d_dw", False]

        def run(i: int) -> Any:
            t = sets[i]
            if op == "conv2d":
                return aten.convolution(t["x"], t["w"], None, *places, False, [0, 0], layer.groups)
            return aten.convolution_backward(
                t["out"], t["x"], t["w"], None, *places, False, [0, 0], layer.groups, mask
            )

        return run

    words = "nhwc" if last else "nchw"
    ratio = FLOOR[dtype] if op == "conv2d" and layer.groups == 1 else None
    return Case(op, SUFFIX[dtype], layer.name, make, flops=layer.flops, words=words, ratio=ratio)


def cases() -> Iterator[Case]:
    for layer in LAYERS:
        yield case("conv2d", layer, F16, last=True)
    for layer in LAYERS:
        yield case("conv2d", layer, F32, last=False)
    yield case("conv2d", LAYERS[2], F32, last=True)
    yield case("conv2d", LAYERS[7], F32, last=True)
    for op in ("conv2d_dx", "conv2d_dw"):
        for layer in (LAYERS[2], LAYERS[5], LAYERS[7]):
            yield case(op, layer, F16, last=True)
        yield case(op, LAYERS[2], F32, last=False)
    depthwise = Layer(128, 128, 56, 3, groups=128)
    for op in ("conv2d", "conv2d_dx", "conv2d_dw"):
        yield case(op, depthwise, F16, last=True)
    for op in ("conv2d", "conv2d_dw"):
        yield case(op, depthwise, F32, last=False)
    for layer in SMALL:
        for op in ("conv2d", "conv2d_dx", "conv2d_dw"):
            if op != "conv2d_dx" or layer.channels > 1:  # nothing asks for the first layer's
                yield case(op, layer, F32, last=False)
