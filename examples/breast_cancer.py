"""The Wisconsin breast-cancer table: 30 measures of a cell to benign or not, 30-16-1, by Adam."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from learning import Problem, kernel, main

import aicf


def forward(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    h = aicf.ops.gemm(x, w1, b1, act="relu")
    return aicf.ops.gemm(h, w2, b2)


def torch_forward(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return (x @ w1 + b1).relu() @ w2 + b2


def weights(r: np.random.Generator) -> dict[str, Any]:
    return {
        "w1": kernel(r, 30, 16),
        "b1": np.zeros(16, "f4"),
        "w2": kernel(r, 16, 1),
        "b2": np.zeros(1, "f4"),
    }


def problem() -> Problem:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    order = np.random.default_rng(3).permutation(len(data.data))
    x, y = data.data[order], data.target[order]
    known = x[:-120]  # what is scaled by may not be seen in the rows that are asked
    x = ((x - known.mean(0)) / known.std(0)).astype("f4")

    def torch_loss(scores: Any, y: Any) -> Any:
        functional = importlib.import_module("torch.nn.functional")
        return functional.binary_cross_entropy_with_logits(scores, y)

    def torch_optimizer(params: Any) -> Any:
        return importlib.import_module("torch.optim").Adam(params, lr=3e-3)

    return Problem(
        name="breast_cancer", x=x, y=y[:, None].astype("f4"), held_out=120, forward=forward,
        loss=aicf.ops.bce_with_logits, right=lambda scores, y: (scores > 0) == (y > 0.5),
        weights=weights, torch_forward=torch_forward, torch_loss=torch_loss, optimizer="adam",
        torch_optimizer=torch_optimizer, rate=3e-3, epochs=40, batch=32, least=0.95,
    )  # fmt: skip


if __name__ == "__main__":
    main(problem)
