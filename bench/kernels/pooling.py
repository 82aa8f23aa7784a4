"""Pooling beside torch's, which always makes the indices of a maximum: channels first and last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from bench.kernels import SUFFIX, Case, Runs, Sets, random, typed

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
FLOOR = 0.8  # of the copy rate, of tensors that are large
LARGE = 32 << 20  # bytes of x

aten: Any = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Pool:
    """x, its windows, dtype and layout."""

    shape: tuple[int, int, int, int]
    window: int
    stride: int
    pad: int
    dtype: torch.dtype
    last: bool  # channels last

    @property
    def outs(self) -> tuple[int, int, int, int]:
        n, c, h, w = self.shape
        p, q = ((size + 2 * self.pad - self.window) // self.stride + 1 for size in (h, w))
        return n, c, p, q

    @property
    def options(self) -> dict[str, int]:
        return {"window": self.window, "stride": self.stride, "pad": self.pad}

    @property
    def bwd_options(self) -> dict[str, int]:
        return {**self.options, "H": self.shape[2], "W": self.shape[3]}

    @property
    def places(self) -> tuple[list[int], list[int], list[int]]:
        return [self.window] * 2, [self.stride] * 2, [self.pad] * 2

    def bytes(self, indices: bool) -> int:
        x, outs = math.prod(self.shape), math.prod(self.outs)
        return (x + outs) * int(self.dtype.itemsize) + (8 * outs if indices else 0)

    def laid(self, x: torch.Tensor) -> torch.Tensor:
        return x.contiguous(memory_format=torch.channels_last) if self.last else x

    def made(self) -> dict[str, torch.Tensor]:
        """Every tensor of a call, the indices as torch has them."""
        x = self.laid(random(self.shape, self.dtype))
        out, indices = aten.max_pool2d_with_indices(x, *self.places)
        gy = self.laid(random(self.outs, self.dtype))
        return {"x": x, "out": out, "indices": indices, "gy": gy, "gx": torch.empty_like(x)}

    def case(self, op: str, words: str, indices: bool, ours: Any, torchs: Any) -> Case:
        large = math.prod(self.shape) * self.dtype.itemsize >= LARGE
        size = self.bytes(indices)
        layout = "nhwc" if self.last else "nchw"
        name = f"{'x'.join(map(str, self.shape))} {layout} k{self.window} s{self.stride}"

        def make() -> Runs:
            call = typed(op, SUFFIX[self.dtype])
            sets = Sets.of(size, self.made)
            return Runs(lambda i: ours(call, sets[i]), lambda i: torchs(sets[i]), len(sets))

        floor = FLOOR if large else None
        return Case(op, SUFFIX[self.dtype], name, make, bytes=size, floor=floor, words=words)


Set = dict[str, torch.Tensor]
Call = Callable[..., bool]


def largest(p: Pool, indices: bool) -> Case:
    def ours(call: Call, t: Set) -> bool:
        return call(t["x"], t["out"], t["indices"] if indices else None, **p.options)

    def torchs(t: Set) -> Any:
        return aten.max_pool2d_with_indices.out(
            t["x"], *p.places, out=t["out"], indices=t["indices"]
        )

    return p.case("max_pool2d", "indices" if indices else "", indices, ours, torchs)


def largest_bwd(p: Pool) -> Case:
    def ours(call: Call, t: Set) -> bool:
        return call(t["gy"], t["indices"], t["gx"], **p.bwd_options)

    def torchs(t: Set) -> Any:
        return aten.max_pool2d_with_indices_backward.grad_input(
            t["gy"], t["x"], *p.places, [1, 1], False, t["indices"], grad_input=t["gx"]
        )

    return p.case("max_pool2d_bwd", "", True, ours, torchs)


def mean(p: Pool) -> Case:
    def ours(call: Call, t: Set) -> bool:
        return call(t["x"], t["out"], **p.options)

    return p.case(
        "avg_pool2d",
        "",
        False,
        ours,
        lambda t: aten.avg_pool2d.out(t["x"], *p.places, out=t["out"]),
    )


def mean_bwd(p: Pool) -> Case:
    def ours(call: Call, t: Set) -> bool:
        return call(t["gy"], t["gx"], **p.bwd_options)

    def torchs(t: Set) -> Any:
        return aten.avg_pool2d_backward.grad_input(
            t["gy"], t["x"], *p.places, False, True, None, grad_input=t["gx"]
        )

    return p.case("avg_pool2d_bwd", "", False, ours, torchs)


def all_of(p: Pool) -> Iterator[Case]:
    yield largest(p, indices=False)
    yield largest(p, indices=True)
    yield largest_bwd(p)
    yield mean(p)
    yield mean_bwd(p)


def cases() -> Iterator[Case]:
    resnet = (32, 64, 112, 112)
    for last in (False, True):
        for window, pad in ((3, 1), (2, 0)):
            for dtype in (F32, BF16):
                yield from all_of(Pool(resnet, window, 2, pad, dtype, last))
        half = Pool(resnet, 3, 2, 1, F16, last)
        yield from (largest(half, False), largest_bwd(half), mean(half))
        # Windows that the kernels have no form of their own for.
        same = Pool((32, 192, 28, 28), 3, 1, 1, F32, last)
        yield from (largest(same, True), largest_bwd(same), mean(same), mean_bwd(same))
        whole = Pool((32, 2048, 7, 7), 7, 1, 0, BF16, last)
        yield from (mean(whole), mean_bwd(whole))
    small = Pool((2, 64, 56, 56), 3, 2, 1, F32, False)
    yield from (largest(small, True), largest_bwd(small))
