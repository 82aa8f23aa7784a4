"""A bias along one axis, and its gradient."""

from __future__ import annotations

import torch

from rows import Maker, Row, Sample, sample


def bias_add(x: torch.Tensor, bias: torch.Tensor, axis: int = 1) -> torch.Tensor:
    return x + bias.view([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def bias_add_bwd(gy: torch.Tensor, axis: int = 1) -> torch.Tensor:
    return gy.sum([d for d in range(gy.ndim) if d != axis % gy.ndim]) if gy.ndim > 1 else gy.clone()


def added(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 6), t(6)),
        sample(t(5, 6), t(5), axis=0),
        sample(t(2, 3, 2, 2), t(3)),
        sample(t(2, 2, 2, 3), t(3), axis=-1),
        sample(t(7), t(7), axis=0),
        sample(t(2, 1, 4), t(1)),
    ]


def added_refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(5, 6), t(5)), "bias"),
        (sample(t(5, 6), t(6), axis=2), "axis"),
        (sample(t(5, 6), t(1, 6)), "bias"),
    ]


def summed(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 6)),
        sample(t(5, 6), axis=0),
        sample(t(2, 3, 2, 2)),
        sample(t(2, 2, 2, 3), axis=-1),
        sample(t(7), axis=0),
    ]


ROWS = [
    Row("bias_add", added, bias_add, refused=added_refused),
    Row(
        "bias_add_bwd", summed, bias_add_bwd, refused=lambda t: [(sample(t(5, 6), axis=2), "axis")]
    ),
]
