"""layer_norm and rms_norm over rows, and their gradients: x once in and once out, or gy too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from bench.kernels import KIB, MIB, SUFFIX, Case, Runs, Sets, random, typed
from torch.nn import functional

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
FORWARD = [
    (KIB, 128), (KIB, 1024), (KIB, 4096), (KIB, 32768), (8 * KIB, 4096), (8 * KIB, 32768),
    (8 * KIB, 50257), (64 * KIB, 128), (64 * KIB, 256), (64 * KIB, 1024), (64 * KIB, 4096),
]  # fmt: skip
SOME = [(64 * KIB, 256), (64 * KIB, 1024), (8 * KIB, 4096), (8 * KIB, 32768)]
BACKWARD = [(KIB, 1024), *SOME, (64 * KIB, 128), (64 * KIB, 4096), (8 * KIB, 50257)]


def floor(rows: int, width: int, item: int, share: float) -> float | None:
    return share if rows * width * item >= 64 * MIB and width >= 1024 else None


def forward(op: str, dtype: torch.dtype, rows: int, width: int) -> Case:
    call, centred = typed(op, SUFFIX[dtype]), op == "layer_norm"
    item = torch.empty(0, dtype=dtype).element_size()

    def make() -> Runs:
        sets = Sets.of(2 * rows * width * item, lambda: [random((rows, width), dtype)] * 2)
        for s in sets.made:
            s[1] = torch.empty_like(s[0])
        weight, bias = random((width,), dtype), random((width,), dtype)

        def ours(i: int) -> Any:
            x, out = sets[i]
            return call(x, weight, bias, out) if centred else call(x, weight, out)

        def theirs(i: int) -> Any:
            if centred:
                return functional.layer_norm(sets[i][0], (width,), weight, bias, 1e-5)
            return functional.rms_norm(sets[i][0], (width,), weight, 1e-6)

        return Runs(ours, theirs, len(sets))

    bytes_ = 2 * rows * width * item
    marks = floor(rows, width, item, 0.87)
    return Case(op, SUFFIX[dtype], f"{rows}x{width}", make, bytes=bytes_, floor=marks)


def backward(op: str, dtype: torch.dtype, rows: int, width: int) -> Case:
    call, centred = typed(op, SUFFIX[dtype]), op == "layer_norm_bwd"
    item = torch.empty(0, dtype=dtype).element_size()

    def make() -> Runs:
        def one() -> Any:
            gy, x = random((rows, width), dtype), random((rows, width), dtype)
            return gy, x, torch.empty_like(x), random((rows,), F32), random((rows,), F32).abs()

        sets = Sets.of(3 * rows * width * item, one)
        weight, bias = random((width,), dtype), random((width,), dtype)
        gw, gb = torch.empty_like(weight), torch.empty_like(bias)

        def ours(i: int) -> Any:
            gy, x, gx, mean, rstd = sets[i]
            if centred:
                return call(gy, x, mean, rstd, weight, gx, gw, gb)
            return call(gy, x, rstd, weight, gx, gw)

        def theirs(i: int) -> Any:
            gy, x, _, mean, rstd = sets[i]
            mean, rstd = mean.unsqueeze(-1), rstd.unsqueeze(-1)
            if x.device.type == "cpu" and dtype != F32:
                mean, rstd = mean.to(dtype), rstd.to(dtype)
            if centred:
                return torch.ops.aten.native_layer_norm_backward(
                    gy, x, (width,), mean, rstd, weight, bias, (True, True, True)
                )
            return torch.ops.aten._fused_rms_norm_backward(
                gy, x, (width,), rstd, weight, (True, True)
            )

        known = centred or hasattr(torch.ops.aten, "_fused_rms_norm_backward")
        return Runs(ours, theirs if known else None, len(sets))

    bytes_ = 3 * rows * width * item
    marks = floor(rows, width, item, 0.75)
    return Case(op, SUFFIX[dtype], f"{rows}x{width}", make, bytes=bytes_, floor=marks)


def cases() -> Iterator[Case]:
    for dtype in (F32, BF16):
        for rows, width in FORWARD:
            yield forward("layer_norm", dtype, rows, width)
        for rows, width in SOME:
            yield forward("rms_norm", dtype, rows, width)
        for rows, width in BACKWARD:
            yield backward("layer_norm_bwd", dtype, rows, width)
        for rows, width in SOME[1:3]:
            yield backward("rms_norm_bwd", dtype, rows, width)
    for rows, width in SOME:
        yield forward("layer_norm", F16, rows, width)
    yield backward("layer_norm_bwd", F16, 64 * KIB, 1024)
