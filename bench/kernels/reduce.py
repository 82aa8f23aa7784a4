"""Reductions over each kind of axis beside torch's, and the gradient of extrema."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from bench import kernels
from bench.kernels import GIB, KIB, MIB, SUFFIX, Case, Runs, Sets, random, typed

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
FLOOR = 64 * MIB  # bytes of a tensor from which on a share of the copy rate is asked for

PEERS: dict[str, Callable[..., Any]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.amax,
    "min": torch.amin,
    "argmax": torch.argmax,
}

# Shape of 2**k elements, and the axis.
PLACES: dict[str, Callable[[int], tuple[tuple[int, ...], int]]] = {
    "all": lambda k: ((2**k,), 0),
    "first": lambda k: ((2 ** (k // 2), 2 ** (k - k // 2)), 0),
    "last": lambda k: ((2 ** (k // 2), 2 ** (k - k // 2)), 1),
    "middle": lambda k: ((2 ** (k // 4), 2 ** (k // 3), 2 ** (k - k // 4 - k // 3)), 1),
}


def reduction(op: str, dtype: torch.dtype, shape: tuple[int, ...], axis: int, words: str) -> Case:
    size = math.prod(shape) * dtype.itemsize
    kept = shape[:axis] + shape[axis + 1 :]
    kind = torch.int64 if op == "argmax" else dtype
    written = math.prod(kept) * kind.itemsize

    def make() -> Runs:
        call = typed(op, SUFFIX[dtype])
        x = Sets.of(size, lambda: random(shape, dtype))
        out = Sets.of(size, lambda: torch.empty(kept, dtype=kind, device=kernels.DEVICE))
        return Runs(
            lambda i: call(x[i], out[i], axes=[axis]),
            lambda i: PEERS[op](x[i], dim=axis, out=out[i]),
            len(x),
        )

    floor = 0.85 if size >= FLOOR else None
    name = f"{'x'.join(map(str, shape))} over {axis}"
    return Case(op, SUFFIX[dtype], name, make, bytes=size + written, floor=floor, words=words)


def shares(dtype: torch.dtype, shape: tuple[int, ...], axis: int) -> Case:
    """torch's formula, as its autograd runs it."""
    size = math.prod(shape) * dtype.itemsize

    def make() -> Runs:
        call = typed("extremum_bwd", SUFFIX[dtype])

        def one() -> tuple[torch.Tensor, ...]:
            x = random(shape, dtype)
            top = x.amax(axis)
            return random(tuple(top.shape), dtype), x, top, torch.empty_like(x)

        made = Sets.of(2 * size, one)

        def theirs(i: int) -> torch.Tensor:
            gy, x, top, _ = made[i]
            ties = x == top.unsqueeze(axis)
            return gy.unsqueeze(axis) * ties / ties.sum(axis, keepdim=True)

        return Runs(lambda i: call(*made[i], axes=[axis]), theirs, len(made))

    name = f"{'x'.join(map(str, shape))} over {axis}"
    return Case("extremum_bwd", SUFFIX[dtype], name, make, bytes=2 * size)


def placed(op: str, dtype: torch.dtype, size: int, place: str) -> Case:
    shape, axis = PLACES[place]((size // dtype.itemsize).bit_length() - 1)
    return reduction(op, dtype, shape, axis, place)


def cases() -> Iterator[Case]:
    for size in (4 * KIB, MIB, 64 * MIB, GIB):
        for place in PLACES:
            for dtype in (F32, BF16):
                yield placed("sum", dtype, size, place)
    for op, size, dtypes, places in [
        ("sum", 64 * MIB, (F16,), ("all", "first", "last")),
        ("mean", 64 * MIB, (BF16,), ("all", "last")),
        ("max", MIB, (BF16,), ("all", "last")),
        ("max", 64 * MIB, (F32, BF16), tuple(PLACES)),
        ("min", 64 * MIB, (F16,), ("last",)),
        ("argmax", MIB, (F32,), ("all", "last")),
        ("argmax", 64 * MIB, (F32, BF16), ("all", "first", "last")),
    ]:
        for dtype in dtypes:
            for place in places:
                yield placed(op, dtype, size, place)
    for dtype in (F32, BF16):
        yield reduction("sum", dtype, (4096, 4095), 1, "odd")
        yield shares(dtype, (8192, 4096), 1)
    yield reduction("sum", BF16, (16384, 8191), 0, "odd")
    yield reduction("sum", BF16, (1048576, 64), 0, "narrow")
    yield reduction("sum", BF16, (1048576, 64), 1, "narrow")
    yield reduction("sum", F32, (1024, 1024), 1, "4 MiB")
