"""Losses element by element, their means and sums, and the gradients of those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, huber_loss, mse_loss

from rows import Maker, Row, Sample, sample

REDUCTIONS = ("mean", "sum", "none")


def bce(
    x: torch.Tensor, target: torch.Tensor, reduction: str = "mean", pos_weight: float = 1.0
) -> torch.Tensor:
    weight = torch.full_like(x, pos_weight)
    return binary_cross_entropy_with_logits(x, target, reduction=reduction, pos_weight=weight)


FORWARD: dict[str, Callable[..., torch.Tensor]] = {
    "mse": mse_loss,
    "bce_with_logits": bce,
    "huber": huber_loss,
}
OWN: dict[str, dict[str, Any]] = {
    "mse": {},
    "bce_with_logits": {"pos_weight": 2.5},
    "huber": {"delta": 0.375},
}


def backward(op: str) -> Callable[..., torch.Tensor]:
    """torch's own gradient of x."""

    def run(
        gy: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: str = "mean", **own: Any
    ) -> torch.Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            out = FORWARD[op](leaf, target, reduction=reduction, **own)
            (gx,) = torch.autograd.grad(out, leaf, gy)
        return gx

    return run


def target(t: Maker, op: str, *shape: int) -> torch.Tensor:
    """What bce wants is a share, and has no gradient."""
    return t.unit(*shape, grad=False) if op == "bce_with_logits" else t(*shape)


def forward_samples(op: str) -> Callable[[Maker], list[Sample]]:
    def made(t: Maker) -> list[Sample]:
        found = [
            sample(t(*shape), target(t, op, *shape), reduction=reduction, **OWN[op])
            for shape in [(3, 4), (2, 1, 3)]
            for reduction in REDUCTIONS
        ]
        return [
            *found,
            sample(t(5), target(t, op, 5)),
            sample(t.turned(3, 4), target(t, op, 3, 4), reduction="none"),
            sample(t.sliced(5), target(t, op, 5), reduction="sum"),
            sample(t(), target(t, op), reduction="none"),
            sample(t(), target(t, op)),
        ]

    return made


def backward_samples(op: str) -> Callable[[Maker], list[Sample]]:
    def made(t: Maker) -> list[Sample]:
        found = [
            sample(
                t(*(shape if reduction == "none" else ())), t(*shape), target(t, op, *shape),
                reduction=reduction, **OWN[op],
            )
            for shape in [(3, 4), (7,), ()]
            for reduction in REDUCTIONS
        ]  # fmt: skip
        return [*found, sample(t(), t.turned(3, 4), target(t, op, 3, 4))]

    return made


def large(op: str, backward: bool) -> Callable[[Maker], list[Sample]]:
    """Several blocks, the last one odd; x and target of one phase and of two."""

    def made(t: Maker) -> list[Sample]:
        x, more = t(5003), target(t, op, 5004)
        gy = [t()] if backward else []
        return [
            sample(*gy, x, more[first : first + 5003], reduction=reduction, **OWN[op])
            for first in (0, 1)
            for reduction in ("mean", "sum")
        ]

    return made


def refused(op: str, backward: bool) -> Callable[[Maker], list[tuple[Sample, str]]]:
    def made(t: Maker) -> list[tuple[Sample, str]]:
        gy = [t()] if backward else []
        found = [
            (sample(*gy, t(3, 4), t(4)), "target: its shape must be A.."),
            (sample(*gy, t(3), t(3), reduction="median"), "reduction takes one of"),
        ]
        if op == "huber":
            found.append((sample(*gy, t(3), t(3), delta=0.0), "delta must be above 0"))
        if backward:
            found.append((sample(t(3), t(3), t(3)), "gy: its shape must be"))
        return found

    return made


ROWS = [
    Row(
        f"{op}_bwd" if back else op,
        backward_samples(op) if back else forward_samples(op),
        backward(op) if back else FORWARD[op],
        slack=2.0,
        large=large(op, back),
        refused=refused(op, back),
    )
    for op in FORWARD
    for back in (False, True)
]
