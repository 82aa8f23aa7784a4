"""Activations and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rows import Maker, Row, Sample, sample

aten = torch.ops.aten


def with_each(*options: dict[str, Any]) -> Callable[[Maker], list[Sample]]:
    """Ranks and layouts; each set of options."""

    def made(t: Maker) -> list[Sample]:
        plain = [t(5, 7), t(33), t(), t.turned(3, 4), t.sliced(3, 4)]
        return [*(sample(x) for x in plain), *(sample(t(4, 6), **each) for each in options)]

    return made


def pairs_with_each(*options: dict[str, Any]) -> Callable[[Maker], list[Sample]]:
    def made(t: Maker) -> list[Sample]:
        plain = [
            (t(5, 7), t(5, 7)),
            (t(33), t(33)),
            (t(), t()),
            (t.turned(3, 4), t(3, 4)),
            (t(3, 4), t.sliced(3, 4)),
        ]
        more = [sample(t(4, 6), t(4, 6), **each) for each in options]
        return [*(sample(*pair) for pair in plain), *more]

    return made


def large(t: Maker) -> list[Sample]:
    return [sample(t(101, 103)), sample(t(40, 264)[:, :257]), sample(t.sliced(70, 65))]


def large_pairs(t: Maker) -> list[Sample]:
    return [sample(t(101, 103), t(101, 103)), sample(t(40, 264)[:, :257], t(40, 264)[:, :257])]


def not_real(t: Maker) -> list[tuple[Sample, str]]:
    return [(sample(t.ints(0, 9, 3)), "x")]


def unlike(t: Maker) -> list[tuple[Sample, str]]:
    return [(sample(t(3, 4), t(3, 5)), "y"), (sample(t(3), t.ints(0, 9, 3)), "y")]


def no_such_approx(t: Maker) -> list[tuple[Sample, str]]:
    return [*not_real(t), (sample(t(3), approx="erf"), "approx")]


SLOPES = ({"slope": 0.25}, {"slope": -1.5}, {"slope": 0.0})
ALPHAS = ({"alpha": 0.5}, {"alpha": 2.0})
APPROXES = ({"approx": "none"}, {"approx": "tanh"})
# Thresholds that no sample is at: the function jumps there.
BETAS = ({"beta": 2.0}, {"beta": 1.5, "threshold": 1.1}, {"threshold": 100.0})


def forward(op: str, reference: Callable[..., Tensor], *options: dict[str, Any]) -> Row:
    return Row(op, with_each(*options), reference, refused=not_real, large=large)


def backward(op: str, reference: Callable[..., Tensor], *options: dict[str, Any]) -> Row:
    return Row(op, pairs_with_each(*options), reference, refused=unlike, large=large_pairs)


def leaky_relu_bwd(gy: Tensor, y: Tensor, slope: float = 0.01) -> Tensor:
    return torch.where(y > 0, gy, slope * gy)


def elu_bwd(gy: Tensor, y: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.where(y > 0, gy, gy * alpha * torch.exp(y))


def softplus_bwd(gy: Tensor, y: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return torch.where(y * beta > threshold, gy, gy * torch.sigmoid(y * beta))


def gelu(x: Tensor, approx: str = "none") -> Tensor:
    return functional.gelu(x, approximate=approx)


def gelu_bwd(gy: Tensor, y: Tensor, approx: str = "none") -> Tensor:
    return aten.gelu_backward(gy, y, approximate=approx)


ROWS = [
    forward("relu", torch.relu),
    forward("tanh", torch.tanh),
    forward("sigmoid", torch.sigmoid),
    forward("silu", functional.silu),
    forward("leaky_relu", lambda x, slope=0.01: functional.leaky_relu(x, slope), *SLOPES),
    Row("gelu", with_each(*APPROXES), gelu, refused=no_such_approx, large=large),
    forward("elu", lambda x, alpha=1.0: functional.elu(x, alpha), *ALPHAS),
    forward(
        "softplus",
        lambda x, beta=1.0, threshold=20.0: functional.softplus(x, beta, threshold),
        *BETAS,
    ),
    backward("relu_bwd", lambda gy, y: aten.threshold_backward(gy, y, 0)),
    backward("tanh_bwd", aten.tanh_backward.default),
    backward("sigmoid_bwd", aten.sigmoid_backward.default),
    backward("silu_bwd", aten.silu_backward.default),
    backward("leaky_relu_bwd", leaky_relu_bwd, *SLOPES),
    backward("gelu_bwd", gelu_bwd, *APPROXES),
    backward("elu_bwd", elu_bwd, *ALPHAS),
    backward("softplus_bwd", softplus_bwd, *BETAS),
]
