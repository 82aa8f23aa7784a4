"""Handwritten digits of 8 x 8 pixels, by a small convolutional network and AdamW."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from learning import Problem, kernel, main

import aicf


def forward(x: Any, k1: Any, c1: Any, k2: Any, c2: Any, w: Any, b: Any) -> Any:
    h = aicf.ops.relu(aicf.ops.conv2d(x, k1, c1, pad=1))
    h = aicf.ops.max_pool2d(h, window=2, stride=2)
    h = aicf.ops.relu(aicf.ops.conv2d(h, k2, c2, pad=1))
    h = aicf.ops.max_pool2d(h, window=2, stride=2)
    return aicf.ops.gemm(h.reshape(x.shape[0], 128), w, b)


def torch_forward(x: Any, k1: Any, c1: Any, k2: Any, c2: Any, w: Any, b: Any) -> Any:
    f = importlib.import_module("torch.nn.functional")
    h = f.max_pool2d(f.conv2d(x, k1, c1, padding=1).relu(), 2)
    h = f.max_pool2d(f.conv2d(h, k2, c2, padding=1).relu(), 2)
    return h.reshape(len(x), 128) @ w + b


def weights(r: np.random.Generator) -> dict[str, Any]:
    return {
        "k1": kernel(r, 16, 1, 3, 3),
        "c1": np.zeros(16, "f4"),
        "k2": kernel(r, 32, 16, 3, 3),
        "c2": np.zeros(32, "f4"),
        "w": kernel(r, 128, 10),
        "b": np.zeros(10, "f4"),
    }


def problem() -> Problem:
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(5).permutation(len(data.images))
    x = (data.images[order, None] / 16).astype("f4")

    def torch_loss(scores: Any, y: Any) -> Any:
        return importlib.import_module("torch.nn.functional").cross_entropy(scores, y)

    def torch_optimizer(params: Any) -> Any:
        return importlib.import_module("torch.optim").AdamW(params, lr=3e-3, weight_decay=0.01)

    return Problem(
        name="digits", x=x, y=data.target[order].astype("i8"), held_out=360, forward=forward,
        loss=aicf.ops.cross_entropy, right=lambda scores, y: scores.argmax(1) == y,
        weights=weights, torch_forward=torch_forward, torch_loss=torch_loss, optimizer="adamw",
        torch_optimizer=torch_optimizer, rate=3e-3, epochs=15, batch=64, least=0.95,
        options={"weight_decay": 0.01},
    )  # fmt: skip


if __name__ == "__main__":
    main(problem)
