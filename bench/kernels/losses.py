"""Losses and their gradients: means of all sizes, and element by element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from bench.kernels import FLOATS, KIB, MIB, SIZES, SUFFIX, Case, Runs, Sets, random, typed

aten = torch.ops.aten
REDUCTIONS = ("none", "mean", "sum")  # in ATen's order


def theirs(op: str) -> Any:
    """ATen's function of an op: its arguments are gy, if it is a gradient, x, target, reduction and
    the out, which the means of ATen would resize."""

    def run(*args: Any) -> Any:
        *tensors, reduction, out = args
        given = {} if REDUCTIONS[reduction] != "none" else {"out": out}
        if op == "mse":
            return aten.mse_loss(*tensors, reduction, **given)
        if op == "huber":
            return aten.huber_loss(*tensors, reduction, 1.0, **given)
        if op == "mse_bwd":
            return aten.mse_loss_backward(*tensors, reduction, grad_input=out)
        if op == "huber_bwd":
            return aten.huber_loss_backward.out(*tensors, reduction, 1.0, grad_input=out)
        if op == "bce_with_logits":
            return aten.binary_cross_entropy_with_logits(*tensors, None, None, reduction)
        gy, x, target = tensors  # has no op of its own: what autograd runs
        return aten.mul(aten.sub(aten.sigmoid(x), target), gy)

    return run


def loss(op: str, dtype: torch.dtype, size: int, reduction: str) -> Case:
    """`size`: bytes of a tensor."""
    backward = op.endswith("_bwd")
    call, peer = typed(op, SUFFIX[dtype]), theirs(op)
    n = size // torch.empty(0, dtype=dtype).element_size()
    each = reduction == "none"
    moved = size * (2 + each + (backward and each) + (backward and not each))

    def make() -> Runs:
        def one() -> Any:
            x, target = random(n, dtype), random(n, dtype)
            target = target.sigmoid_() if op.startswith("bce") else target
            whole = random((), dtype)
            gy = [random(n, dtype) if each else whole] if backward else []
            out = random(n, dtype) if each or backward else whole
            return [*gy, x, target], out

        sets = Sets.of(moved, one)

        def ours(i: int) -> None:
            given, out = sets[i]
            call(*given, out, reduction=reduction)

        def torchs(i: int) -> None:
            given, out = sets[i]
            peer(*given, REDUCTIONS.index(reduction), out)

        return Runs(ours, torchs, len(sets))

    shape = f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"
    floor = 0.85 if size >= 64 * MIB else None
    return Case(op, SUFFIX[dtype], shape, make, moved, floor=floor, words=reduction)


def cases() -> Iterator[Case]:
    for op in ("mse", "bce_with_logits", "huber"):
        for dtype in FLOATS:
            sizes = SIZES if op == "mse" or dtype == torch.bfloat16 else (64 * MIB,)
            for size in sizes:
                yield loss(op, dtype, size, "mean")
                yield loss(f"{op}_bwd", dtype, size, "mean")
        yield loss(op, torch.float32, 64 * MIB, "none")
        yield loss(f"{op}_bwd", torch.bfloat16, 64 * MIB, "none")
