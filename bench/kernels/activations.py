"""Activations and their gradients beside torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from bench.kernels import FLOATS, GIB, KIB, MIB, SIZES, Case
from bench.kernels.elementwise import BF16, F32, flat

aten = torch.ops.aten
ALL = [(dtype, size) for dtype in FLOATS for size in SIZES]
FEW = [(F32, 64 * MIB), (BF16, 64 * MIB)]
SOME = [(F32, 4 * KIB), (F32, 64 * MIB), (torch.float16, 64 * MIB), (BF16, 64 * MIB), (BF16, GIB)]

# Tensors in, and torch's own with the out last.
PEERS: dict[str, tuple[int, Callable[..., Any], list[tuple[torch.dtype, int]]]] = {
    "relu": (1, lambda x, out: aten.relu.out(x, out=out), FEW),
    "gelu": (1, lambda x, out: aten.gelu.out(x, out=out), ALL),
    "silu": (1, lambda x, out: aten.silu.out(x, out=out), SOME),
    "tanh": (1, lambda x, out: torch.tanh(x, out=out), SOME),
    "sigmoid": (1, lambda x, out: torch.sigmoid(x, out=out), FEW),
    "leaky_relu": (1, lambda x, out: aten.leaky_relu.out(x, 0.01, out=out), FEW),
    "elu": (1, lambda x, out: aten.elu.out(x, out=out), FEW),
    "softplus": (1, lambda x, out: aten.softplus.out(x, out=out), FEW),
    "relu_bwd": (
        2,
        lambda g, y, gx: aten.threshold_backward.grad_input(g, y, 0, grad_input=gx),
        FEW,
    ),
    "gelu_bwd": (2, lambda g, y, gx: aten.gelu_backward.grad_input(g, y, grad_input=gx), ALL),
    "silu_bwd": (2, lambda g, y, gx: aten.silu_backward.grad_input(g, y, grad_input=gx), SOME),
    "tanh_bwd": (2, lambda g, y, gx: aten.tanh_backward.grad_input(g, y, grad_input=gx), FEW),
    "sigmoid_bwd": (2, lambda g, y, gx: aten.sigmoid_backward.grad_input(g, y, grad_input=gx), FEW),
    "leaky_relu_bwd": (
        2,
        lambda g, y, gx: aten.leaky_relu_backward.grad_input(g, y, 0.01, False, grad_input=gx),
        FEW,
    ),
    "elu_bwd": (
        2,
        lambda g, y, gx: aten.elu_backward.grad_input(g, 1.0, 1.0, 1.0, False, y, grad_input=gx),
        FEW,
    ),
    "softplus_bwd": (
        2,
        lambda g, y, gx: aten.softplus_backward.grad_input(g, y, 1.0, 20.0, grad_input=gx),
        FEW,
    ),
}


def by_tanh(x: torch.Tensor, out: torch.Tensor) -> Any:
    return aten.gelu.out(x, approximate="tanh", out=out)


def by_tanh_bwd(g: torch.Tensor, y: torch.Tensor, gx: torch.Tensor) -> Any:
    return aten.gelu_backward.grad_input(g, y, approximate="tanh", grad_input=gx)


def cases() -> Iterator[Case]:
    for op, (inputs, peer, sizes) in PEERS.items():
        for dtype, size in sizes:
            yield flat(op, inputs, dtype, size, peer)
    for dtype, size in FEW:
        yield flat("gelu", 1, dtype, size, by_tanh, words="tanh", approx="tanh")
        yield flat("gelu_bwd", 2, dtype, size, by_tanh_bwd, words="tanh", approx="tanh")
