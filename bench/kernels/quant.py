"""quantize, dequantize and the observers; torch quantizes f32 alone, by channels in no graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from bench import kernels
from bench.kernels import MIB, SIZES, SUFFIX, Case, Runs, Sets, random, typed

F32, BF16 = torch.float32, torch.bfloat16
STEP, ZERO = 0.03, 5
COLUMNS = 4096


def filled(n: int, value: float, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.full((n,), value, dtype=dtype, device=kernels.DEVICE)


def rotated(run: Callable[[int], Any], sets: int) -> Callable[[int], Any]:
    """Keeps what torch gives until the set's next turn: else it would be the same memory each time,
    which stays in the L2."""
    kept: list[Any] = [None] * sets

    def kept_run(i: int) -> Any:
        kept[i] = run(i)
        return kept[i]

    return kept_run


def quantize(size: int, dtype: torch.dtype, axis: int | None) -> Case:
    n = size // dtype.itemsize
    shape = (n,) if axis is None else (n // COLUMNS, COLUMNS)
    channels = 1 if axis is None else shape[axis]

    def make() -> Runs:
        call = typed("quantize", f"{SUFFIX[dtype]}_i8")
        x = Sets.of(size + n, lambda: random(shape, dtype))
        out = Sets.of(size + n, lambda: torch.empty_like(x[0], dtype=torch.int8))
        scale, zero = filled(channels, STEP), filled(channels, ZERO, torch.int32)
        where = {} if axis is None else {"axis": axis}

        def peer(i: int) -> Any:
            return torch.quantize_per_tensor(x[i], STEP, ZERO, torch.qint8)

        return Runs(
            lambda i: call(x[i], scale, zero, out[i], **where),
            rotated(peer, len(x)) if dtype == F32 and axis is None else None,
            len(x),
        )

    words = "" if axis is None else f"axis {axis}"
    floor = 0.85 if size >= 64 * MIB else None
    name = "x".join(map(str, shape))
    return Case("quantize", SUFFIX[dtype], name, make, bytes=size + n, floor=floor, words=words)


def dequantize(size: int, dtype: torch.dtype, axis: int | None) -> Case:
    n = size // dtype.itemsize
    shape = (n,) if axis is None else (n // COLUMNS, COLUMNS)
    channels = 1 if axis is None else shape[axis]

    def make() -> Runs:
        call = typed("dequantize", f"i8_{SUFFIX[dtype]}")
        scale, zero = filled(channels, STEP), filled(channels, ZERO, torch.int32)
        where = {} if axis is None else {"axis": axis}

        def quantized() -> torch.Tensor:
            return torch.quantize_per_tensor(random(shape, F32), STEP, ZERO, torch.qint8)

        q = Sets.of(size + n, quantized)
        codes = [one.int_repr() for one in q.made]
        out = Sets.of(size + n, lambda: random(shape, dtype))
        return Runs(
            lambda i: call(codes[i], scale, zero, out[i], **where),
            rotated(lambda i: q[i].dequantize(), len(q)) if dtype == F32 and axis is None else None,
            len(q),
        )

    words = "" if axis is None else f"axis {axis}"
    floor = 0.85 if size >= 64 * MIB else None
    name = "x".join(map(str, shape))
    return Case("dequantize", SUFFIX[dtype], name, make, bytes=size + n, floor=floor, words=words)


def minmax(size: int, dtype: torch.dtype, axis: int | None) -> Case:
    n = size // dtype.itemsize
    shape = (n,) if axis is None else (n // COLUMNS, COLUMNS)
    channels = 1 if axis is None else shape[axis]

    def make() -> Runs:
        call = typed("observe_minmax", SUFFIX[dtype])
        x = Sets.of(size, lambda: random(shape, dtype))
        lo, hi = filled(channels, 0.0), filled(channels, 0.0)
        where = {} if axis is None else {"axis": axis}

        def peer(i: int) -> Any:
            found = torch.aminmax(x[i], **({} if axis is None else {"dim": 1 - axis}))
            return torch.minimum(lo, found.min, out=lo), torch.maximum(hi, found.max, out=hi)

        return Runs(lambda i: call(x[i], lo, hi, **where), peer, len(x))

    words = "" if axis is None else f"axis {axis}"
    name = "x".join(map(str, shape))
    return Case("observe_minmax", SUFFIX[dtype], name, make, bytes=size, words=words)


def histogram(size: int, dtype: torch.dtype, bins: int) -> Case:
    n = size // dtype.itemsize

    def make() -> Runs:
        call = typed("observe_histogram", SUFFIX[dtype])
        x = Sets.of(size, lambda: random(n, dtype))
        hist, counts = filled(bins, 0, torch.int64), filled(bins, 0.0)

        def peer(i: int) -> Any:
            return counts.add_(torch.histc(x[i], bins, -4.0, 4.0))

        return Runs(
            lambda i: call(x[i], hist, lo=-4.0, hi=4.0), peer if dtype == F32 else None, len(x)
        )

    name = f"{n} to {bins}"
    return Case("observe_histogram", SUFFIX[dtype], name, make, bytes=size)


def cases() -> Iterator[Case]:
    of: list[Callable[[int, torch.dtype, int | None], Case]] = [quantize, dequantize, minmax]
    for make in of:
        for dtype in (F32, BF16):
            for size in SIZES:
                yield make(size, dtype, None)
            for axis in (0, 1):
                yield make(256 * MIB, dtype, axis)
    for dtype in (F32, BF16):
        for size in SIZES:
            yield histogram(size, dtype, 2048)
        for bins in (16, 256, 8192, 20_000):
            yield histogram(64 * MIB, dtype, bins)
