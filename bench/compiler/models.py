"""The networks, in our ops and in torch's: an MLP of 784-512-512-10 and a small CNN of 28 x 28."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import aicf

OPS = aicf.ops


@dataclass(frozen=True)
class Model:
    """`forward` and `torch_forward` give scores of ten classes, of inputs of `shape`."""

    name: str
    shape: tuple[int, ...]
    weights: dict[str, tuple[int, ...]]
    forward: Callable[..., Any]
    torch_forward: Callable[..., Any]

    def first(self) -> dict[str, Any]:
        r = np.random.default_rng(0)
        return {name: _first(r, shape) for name, shape in self.weights.items()}


def _first(r: np.random.Generator, shape: tuple[int, ...]) -> Any:
    if len(shape) == 1:
        return np.zeros(shape, "f4")
    inputs = shape[0] if len(shape) == 2 else math.prod(shape[1:])
    return (r.standard_normal(shape) * math.sqrt(2 / inputs)).astype("f4")


def _mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    h = OPS.gemm(x, w1, b1, act="relu")
    h = OPS.gemm(h, w2, b2, act="relu")
    return OPS.gemm(h, w3, b3)


def _torch_mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    import torch

    h = torch.addmm(b1, x, w1).relu()
    h = torch.addmm(b2, h, w2).relu()
    return torch.addmm(b3, h, w3)


def _cnn(x: Any, k1: Any, c1: Any, k2: Any, c2: Any, w: Any, b: Any) -> Any:
    h = OPS.relu(OPS.conv2d(x, k1, c1, pad=1))
    h = OPS.max_pool2d(h, window=2, stride=2)
    h = OPS.relu(OPS.conv2d(h, k2, c2, pad=1))
    h = OPS.max_pool2d(h, window=2, stride=2)
    return OPS.gemm(h.reshape(x.shape[0], 1568), w, b)


def _torch_cnn(x: Any, k1: Any, c1: Any, k2: Any, c2: Any, w: Any, b: Any) -> Any:
    import torch
    from torch.nn import functional as f

    h = f.max_pool2d(f.conv2d(x, k1, c1, padding=1).relu(), 2)
    h = f.max_pool2d(f.conv2d(h, k2, c2, padding=1).relu(), 2)
    return torch.addmm(b, h.reshape(len(x), 1568), w)


MLP = Model(
    "mlp", (784,),
    {"w1": (784, 512), "b1": (512,), "w2": (512, 512), "b2": (512,), "w3": (512, 10), "b3": (10,)},
    _mlp, _torch_mlp,
)  # fmt: skip
CNN = Model(
    "cnn", (1, 28, 28),
    {
        "k1": (16, 1, 3, 3), "c1": (16,), "k2": (32, 16, 3, 3), "c2": (32,),
        "w": (1568, 10), "b": (10,),
    },
    _cnn, _torch_cnn,
)  # fmt: skip
MODELS = (MLP, CNN)
