"""batch_norm by this batch's statistics or by given ones, their gradients, running statistics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rows import Maker, Row, Sample, sample


def by_channel(v: Tensor, x: Tensor) -> Tensor:
    return v.view(1, -1, *[1] * (x.ndim - 2))


def others(x: Tensor) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def batch_norm_samples(t: Maker) -> list[Sample]:
    return [
        sample(t(6, 3), t.acc(3), t.acc(3)),
        sample(t(4, 2, 5), t.acc(2), None),
        sample(t(2, 3, 2, 4), None, t.acc(3), eps=0.25),
        sample(t.channels_last(2, 3, 2, 4), t.acc(3), t.acc(3)),
        sample(t(2, 2, 2, 1, 3)),
        sample(t(1, 2, 3, 2), None, None, eps=1e-3),
    ]


def batch_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    mean = x.mean(others(x))
    var = (x - by_channel(mean, x)).square().mean(others(x))
    return batch_norm_eval(x, mean, var, weight, bias, eps), mean, var


def batch_norm_refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(1, 3)), "more than one value"),
        (sample(t(1, 3, 1, 1)), "more than one value"),
        (sample(t(6, 3), t.acc(4)), "weight"),
        (sample(t(6, 3), eps=-1.0), "eps"),
        (sample(t(6)), "x"),
    ]


def batch_norm_eval_samples(t: Maker) -> list[Sample]:
    def given(channels: int) -> tuple[Tensor, Tensor]:
        mean, var = t.acc(channels, grad=False), t.acc(channels, grad=False).abs()
        return mean, var

    return [
        sample(t(6, 3), *given(3), t.acc(3), t.acc(3)),
        sample(t(4, 2, 5), *given(2), t.acc(2), None),
        sample(t(2, 3, 2, 4), *given(3), None, t.acc(3), eps=0.25),
        sample(t.channels_last(2, 3, 2, 4), *given(3), t.acc(3), t.acc(3)),
        sample(t(1, 2, 2, 1, 3), *given(2)),
    ]


def batch_norm_eval(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    out = (x - by_channel(mean, x)) * by_channel((var + eps).rsqrt(), x)
    out = out if weight is None else out * by_channel(weight, x)
    return out if bias is None else out + by_channel(bias, x)


def batch_norm_eval_refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(6, 3), t.acc(3), t.acc(2)), "var"),
        (sample(t(6, 3), t.acc(3), t.acc(3), eps=-1.0), "eps"),
    ]


def batch_norm_bwd_samples(t: Maker) -> list[Sample]:
    made = []
    calls: list[tuple[tuple[int, ...], bool, dict[str, Any]]] = [
        ((6, 3), True, {}),
        ((4, 2, 5), False, {}),
        ((2, 3, 2, 4), True, {"eps": 0.25}),
        ((2, 2, 2, 1, 3), True, {"training": False}),
    ]
    for shape, weighted, options in calls:
        gy, x = t(*shape), t.distinct(*shape)
        mean, var = (
            v.to(t.acc(1).dtype).requires_grad_(t.grad)
            for v in batch_norm(x.detach().to(torch.float64))[1:]
        )
        weight = t.acc(shape[1]) if weighted else None
        made.append(Sample((gy, x, mean, var, weight), options))
    gy, x = t.channels_last(2, 3, 2, 4), t.channels_last(2, 3, 2, 4)
    mean, var = t.acc(3), t.acc(3, grad=False).abs().requires_grad_(t.grad)
    return [*made, sample(gy, x, mean, var, t.acc(3))]


def batch_norm_bwd(
    gy: Tensor,
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-5,
    training: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    rstd = (var + eps).rsqrt()
    h = (x - by_channel(mean, x)) * by_channel(rstd, x)
    gw, gb = (gy * h).sum(others(x)), gy.sum(others(x))
    gx = gy
    if training:
        count = x.numel() // x.shape[1]
        gx = gy - by_channel(gb, x) / count - h * by_channel(gw, x) / count
    return gx * by_channel(rstd if weight is None else rstd * weight, x), gw, gb


def batch_norm_bwd_refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(6, 3), t(6, 4), t.acc(3), t.acc(3)), "x"),
        (sample(t(6, 3), t(6, 3), t.acc(3), t.acc(2)), "var"),
    ]


def running_stats_samples(t: Maker) -> list[Sample]:
    def four(channels: int) -> tuple[Tensor, ...]:
        return tuple(t.acc(channels, grad=False) for _ in range(4))

    return [
        sample(*four(3), count=2),
        sample(*four(17), count=100, momentum=0.25),
        sample(*four(1), count=1000, momentum=1.0),
        sample(*four(5), count=7, momentum=0.0),
    ]


def running_stats(
    running_mean: Tensor,
    running_var: Tensor,
    mean: Tensor,
    var: Tensor,
    count: int,
    momentum: float = 0.1,
) -> tuple[Tensor, Tensor]:
    unbiased = var * count / (count - 1)
    return (
        (1 - momentum) * running_mean + momentum * mean,
        (1 - momentum) * running_var + momentum * unbiased,
    )


def running_stats_refused(t: Maker) -> list[tuple[Sample, str]]:
    v = [t.acc(3, grad=False) for _ in range(4)]
    return [
        (sample(*v, count=1), "count"),
        (sample(v[0], v[1], v[2], t.acc(4, grad=False), count=5), "var"),
    ]


ROWS = [
    Row("batch_norm", batch_norm_samples, batch_norm, slack=2.0, refused=batch_norm_refused),
    Row(
        "batch_norm_eval", batch_norm_eval_samples, batch_norm_eval,
        refused=batch_norm_eval_refused,
    ),
    Row(
        "batch_norm_bwd", batch_norm_bwd_samples, batch_norm_bwd, slack=2.0,
        refused=batch_norm_bwd_refused,
    ),
    Row(
        "running_stats", running_stats_samples, running_stats, dtypes=("f32", "f64"),
        refused=running_stats_refused,
    ),
]  # fmt: skip
