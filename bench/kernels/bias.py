"""A bias along each kind of axis and its gradient, beside torch's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from bench.kernels import GIB, KIB, MIB, SUFFIX, Case, Runs, Sets, random, typed

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
FLOOR = 64 * MIB  # bytes of a tensor from which on a share of the copy rate is asked for

# Shapes of 2**k elements and the axis of channels: first of an image's, last of a matrix's.
PLACES = {
    "nchw": (lambda k: (2 ** (k - 8 - (k - 8) // 2), 2**6, 2**2, 2 ** ((k - 8) // 2)), 1),
    "last": (lambda k: (2 ** (k - k // 2), 2 ** (k // 2)), 1),
}


def name_of(shape: tuple[int, ...], axis: int) -> str:
    return f"{'x'.join(map(str, shape))} axis {axis}"


def added(dtype: torch.dtype, shape: tuple[int, ...], axis: int, words: str) -> Case:
    size = math.prod(shape) * dtype.itemsize
    along = [-1 if d == axis else 1 for d in range(len(shape))]

    def make() -> Runs:
        call = typed("bias_add", SUFFIX[dtype])
        x, out = (Sets.of(2 * size, lambda: random(shape, dtype)) for _ in range(2))
        bias = random(shape[axis], dtype)
        wide = bias.view(along)
        return Runs(
            lambda i: call(x[i], bias, out[i], axis=axis),
            lambda i: torch.add(x[i], wide, out=out[i]),
            len(x),
        )

    floor = 0.85 if size >= FLOOR else None
    name = name_of(shape, axis)
    return Case("bias_add", SUFFIX[dtype], name, make, bytes=2 * size, floor=floor, words=words)


def summed(dtype: torch.dtype, shape: tuple[int, ...], axis: int, words: str) -> Case:
    size = math.prod(shape) * dtype.itemsize
    dims = [d for d in range(len(shape)) if d != axis]

    def make() -> Runs:
        call = typed("bias_add_bwd", SUFFIX[dtype])
        gy = Sets.of(size, lambda: random(shape, dtype))
        gb = random(shape[axis], dtype)
        return Runs(
            lambda i: call(gy[i], gb, axis=axis),
            lambda i: torch.sum(gy[i], dims, out=gb),
            len(gy),
        )

    floor = 0.85 if size >= FLOOR else None
    name = name_of(shape, axis)
    return Case("bias_add_bwd", SUFFIX[dtype], name, make, bytes=size, floor=floor, words=words)


def cases() -> Iterator[Case]:
    for size in (4 * KIB, MIB, 64 * MIB, GIB):
        for dtype in (F32, BF16, F16) if size == 64 * MIB else (F32, BF16):
            for words, (shape_of, axis) in PLACES.items():
                shape = shape_of((size // dtype.itemsize).bit_length() - 1)
                yield added(dtype, shape, axis, words)
                yield summed(dtype, shape, axis, words)
    for dtype in (F32, BF16):
        for shape, axis in (((64, 256, 56, 56), 1), ((65536, 768), 1), ((8192, 8191), 1)):
            yield added(dtype, shape, axis, "")
            yield summed(dtype, shape, axis, "")
