"""batch_norm of ResNet-50's activations at batch 32. Trained, x is read twice and written once, and
its gradient reads gy and x twice; an ideal kernel does no less where a channel is too large for a
multiprocessor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from bench.kernels import MIB, SUFFIX, Case, Runs, Sets, random, typed

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
SHAPES = [
    (32, 64, 112, 112), (32, 256, 56, 56), (32, 128, 28, 28), (32, 512, 28, 28),
    (32, 1024, 14, 14), (32, 2048, 7, 7),
]  # fmt: skip
PASSES = {"batch_norm": 3, "batch_norm_eval": 2, "batch_norm_bwd": 5}


def case(op: str, dtype: torch.dtype, shape: tuple[int, ...], last: bool = False) -> Case:
    call, channels = typed(op, SUFFIX[dtype]), shape[1]
    item = torch.empty(0, dtype=dtype).element_size()
    tensor = torch.Size(shape).numel() * item

    def laid(x: torch.Tensor) -> torch.Tensor:
        return x.contiguous(memory_format=torch.channels_last) if last else x

    def make() -> Runs:
        def one() -> Any:
            x = laid(random(shape, dtype))
            gy = laid(random(shape, dtype)) if op == "batch_norm_bwd" else None
            return x, torch.empty_like(x), gy

        sets = Sets.of((3 if op == "batch_norm_bwd" else 2) * tensor, one)
        weight, bias, mean, stat = (random((channels,), F32) for _ in range(4))
        var, gw, gb = stat.abs() + 0.5, torch.empty_like(mean), torch.empty_like(mean)
        rstd = var.rsqrt()

        def ours(i: int) -> Any:
            x, out, gy = sets[i]
            if op == "batch_norm":
                return call(x, weight, bias, out, mean, var)
            if op == "batch_norm_eval":
                return call(x, mean, var, weight, bias, out)
            return call(gy, x, mean, var, weight, out, gw, gb)

        def theirs(i: int) -> Any:
            x, _, gy = sets[i]
            if op == "batch_norm_bwd":
                return torch.ops.aten.native_batch_norm_backward(
                    gy, x, weight, None, None, mean, rstd, True, 1e-5, (True, True, True)
                )
            trained = op == "batch_norm"
            given = (None, None) if trained else (mean, var)
            return torch.ops.aten.native_batch_norm(x, weight, bias, *given, trained, 0.1, 1e-5)

        return Runs(ours, theirs, len(sets))

    share = 0.85 if op == "batch_norm_eval" else 0.8
    return Case(
        op, SUFFIX[dtype], "x".join(map(str, shape)), make, bytes=PASSES[op] * tensor,
        floor=share if tensor >= 64 * MIB else None, words="nhwc" if last else "nchw",
    )  # fmt: skip


def cases() -> Iterator[Case]:
    for dtype in (F32, BF16):
        for shape in SHAPES:
            yield case("batch_norm", dtype, shape)
        for shape in SHAPES[:2] + SHAPES[4:5]:
            yield case("batch_norm", dtype, shape, last=True)
            yield case("batch_norm_bwd", dtype, shape)
        yield case("batch_norm_bwd", dtype, SHAPES[1], last=True)
        for last in (False, True):
            yield case("batch_norm_eval", dtype, SHAPES[1], last)
    yield case("batch_norm", F16, SHAPES[1])
    yield case("batch_norm", F16, SHAPES[1], last=True)
