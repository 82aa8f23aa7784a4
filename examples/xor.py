"""XOR: the smallest network that a line cannot replace, 2-8-1, by SGD with momentum."""

from __future__ import annotations

from typing import Any

import numpy as np
from learning import Problem, kernel, main

import aicf


def forward(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    h = aicf.ops.tanh(aicf.ops.gemm(x, w1, b1))
    return aicf.ops.gemm(h, w2, b2)


def torch_forward(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return (x @ w1 + b1).tanh() @ w2 + b2


def weights(r: np.random.Generator) -> dict[str, Any]:
    return {
        "w1": kernel(r, 2, 8),
        "b1": np.zeros(8, "f4"),
        "w2": kernel(r, 8, 1),
        "b2": np.zeros(1, "f4"),
    }


def problem() -> Problem:
    # Each corner several times, a little beside it: rows to train on and rows to be asked.
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "f4")
    noise = np.random.default_rng(7).normal(scale=0.1, size=(160, 2)).astype("f4")
    x = np.tile(corners, (40, 1)) + noise
    y = np.tile(np.array([[0], [1], [1], [0]], "f4"), (40, 1))
    import importlib

    def torch_loss(scores: Any, y: Any) -> Any:
        functional = importlib.import_module("torch.nn.functional")
        return functional.binary_cross_entropy_with_logits(scores, y)

    def torch_optimizer(params: Any) -> Any:
        return importlib.import_module("torch.optim").SGD(params, lr=0.5, momentum=0.9)

    return Problem(
        name="xor", x=x, y=y, held_out=40, forward=forward, loss=aicf.ops.bce_with_logits,
        right=lambda scores, y: (scores > 0) == (y > 0.5), weights=weights,
        torch_forward=torch_forward, torch_loss=torch_loss, optimizer="sgd",
        torch_optimizer=torch_optimizer, rate=0.5, epochs=30, batch=20, least=1.0,
        options={"momentum": 0.9, "states": ("buf",)},
    )  # fmt: skip


if __name__ == "__main__":
    main(problem)
