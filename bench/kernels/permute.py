"""permute beside torch's copy of a permuted view, and concat beside torch.cat."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from bench.kernels import GIB, KIB, MIB, SUFFIX, Case, Runs, Sets, random, typed

F32, BF16 = torch.float32, torch.bfloat16
FLOOR = 64 * MIB  # bytes of a tensor from which on a share of the copy rate is asked for

# What it is, shape, order of the axes, dtypes.
ORDERS: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[torch.dtype, ...]]] = [
    ("", (32, 32), (1, 0), (F32,)),
    ("", (512, 512), (1, 0), (F32, BF16)),
    ("", (4096, 4096), (1, 0), (F32, BF16)),
    ("", (8192, 8192), (1, 0), (F32, BF16)),
    ("", (16384, 16384), (1, 0), (F32, BF16)),
    ("odd", (8191, 8209), (1, 0), (F32, BF16)),
    ("heads", (8, 4096, 32, 128), (0, 2, 1, 3), (F32, BF16)),
    ("to nhwc", (64, 256, 56, 56), (0, 2, 3, 1), (F32, BF16)),
    ("to nchw", (64, 56, 56, 256), (0, 3, 1, 2), (F32, BF16)),
    ("to nhwc", (256, 3, 224, 224), (0, 2, 3, 1), (F32, BF16)),
    ("to nchw", (256, 224, 224, 3), (0, 3, 1, 2), (F32, BF16)),
    ("reversed", (64, 96, 80, 128), (3, 2, 1, 0), (F32, BF16)),
    ("pairs", (4096, 4096, 2), (1, 0, 2), (F32, BF16)),
]


def permute(words: str, shape: tuple[int, ...], perm: tuple[int, ...], dtype: torch.dtype) -> Case:
    size = math.prod(shape) * dtype.itemsize
    turned = [shape[i] for i in perm]

    def make() -> Runs:
        call = typed("permute", SUFFIX[dtype])
        x = Sets.of(2 * size, lambda: random(shape, dtype))
        out = Sets.of(2 * size, lambda: random(turned, dtype))
        return Runs(
            lambda i: call(x[i], out[i], perm=list(perm)),
            lambda i: out[i].copy_(x[i].permute(perm)),
            len(x),
        )

    name = f"{'x'.join(map(str, shape))} by {''.join(map(str, perm))}"
    floor = 0.8 if size >= FLOOR else None
    return Case("permute", SUFFIX[dtype], name, make, bytes=2 * size, floor=floor, words=words)


def concat(shapes: Sequence[tuple[int, ...]], axis: int, dtype: torch.dtype, words: str) -> Case:
    size = sum(math.prod(shape) for shape in shapes) * dtype.itemsize

    def make() -> Runs:
        call = typed("concat", SUFFIX[dtype])
        xs = Sets.of(2 * size, lambda: [random(shape, dtype) for shape in shapes])
        out = Sets.of(2 * size, lambda: torch.cat([x.clone() for x in xs[0]], axis))
        return Runs(
            lambda i: call(xs[i], out[i], axis=axis),
            lambda i: torch.cat(xs[i], axis, out=out[i]),
            len(xs),
        )

    name = f"{len(shapes)} of {'x'.join(map(str, shapes[0]))} along {axis}"
    floor = 0.85 if size >= FLOOR else None
    return Case("concat", SUFFIX[dtype], name, make, bytes=2 * size, floor=floor, words=words)


def concats() -> Iterator[Case]:
    for dtype in (F32, BF16):
        for size in (4 * KIB, MIB, 64 * MIB, GIB):
            n = size // dtype.itemsize
            rows = max(1, min(8192, n // 128))
            yield concat([(n // 2,)] * 2, 0, dtype, "")
            yield concat([(rows, n // rows // 2)] * 2, 1, dtype, "")
        yield concat([(8192, 2047), (8192, 1025), (8192, 3001)], 1, dtype, "odd")
        yield concat([(100_000,)] * 1000, 0, dtype, "many")
        yield concat([(1024, 97)] * 1000, 1, dtype, "many odd")


def cases() -> Iterator[Case]:
    for words, shape, perm, dtypes in ORDERS:
        for dtype in dtypes:
            yield permute(words, shape, perm, dtype)
    yield from concats()
