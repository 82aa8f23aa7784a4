"""softmax, log_softmax, cross_entropy, and their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rows import Maker, Row, Sample, sample

# ---- softmax -------------------------------------------------------------------------------------


def along_axes(t: Maker) -> list[Sample]:
    return [
        sample(t(3, 7)),  # rows, of odd length
        sample(t(2, 3, 5), axis=1),  # columns
        sample(t(6), axis=0),
        sample(t(4, 3), axis=-2),
        sample(t.turned(4, 5)),
        sample(t(3, 1)),  # of one element
    ]


def softmax_bad(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(3, 4), axis=2), "axis"),
        (sample(t(3, 4), axis=-3), "axis"),
        (sample(t.ints(0, 9, 3, 4)), "x"),
    ]


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    return torch.softmax(x, axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    return torch.log_softmax(x, axis)


def results_along_axes(t: Maker) -> list[Sample]:
    """A gradient and any result: the formulas hold for what is no softmax too."""
    return [
        sample(t(3, 7), t(3, 7)),
        sample(t(2, 3, 5), t(2, 3, 5), axis=1),
        sample(t(6), t(6), axis=0),
        sample(t(4, 3), t(4, 3), axis=-2),
    ]


def softmax_bwd_bad(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(3, 4), t(3, 5)), "fwd"),
        (sample(t(3, 4), t(3, 4), axis=2), "axis"),
    ]


def softmax_bwd(gy: Tensor, fwd: Tensor, axis: int = -1) -> Tensor:
    return fwd * (gy - (gy * fwd).sum(axis, keepdim=True))


def log_softmax_bwd(gy: Tensor, fwd: Tensor, axis: int = -1) -> Tensor:
    return gy - fwd.exp() * gy.sum(axis, keepdim=True)


# ---- cross entropy -------------------------------------------------------------------------------


def losses(t: Maker) -> list[Sample]:
    return [
        sample(t(4, 5), t.ints(0, 5, 4)),
        sample(t(3, 4, 2), t.ints(0, 4, 3, 2), t.positive(4, grad=False), reduction="sum"),
        sample(t(5, 3), t.ints(0, 3, 5), reduction="none", ignore_index=1),
        sample(t(3, 6), t.ints(0, 6, 3), label_smoothing=0.25),
        sample(
            t(2, 3, 2, 2),
            t.ints(0, 3, 2, 2, 2, dtype=torch.int32),
            t.positive(3, grad=False),
            ignore_index=2,
            label_smoothing=0.5,
        ),
        sample(t(4, 3), t.ints(0, 3, 4), reduction="none", label_smoothing=1.0),
    ]


def losses_bad(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(4, 5), t.ints(0, 5, 3)), "target"),
        (sample(t(4, 5), t.ints(0, 5, 4), t(4, grad=False)), "weight"),
        (sample(t(4, 0), t.ints(0, 5, 4)), "there must be a class"),
        (sample(t(4, 5), t.ints(0, 5, 4), label_smoothing=1.5), "label_smoothing"),
        (sample(t(4, 5), t(4, grad=False)), "target"),
    ]


def divisor_of(logits: Tensor, target: Tensor, weight: Tensor | None, **options: Any) -> Tensor:
    """What the sum of the losses is divided by."""
    if options.get("reduction", "mean") != "mean":
        return logits.new_ones(())
    kept = target != options.get("ignore_index", -100)
    if weight is None:
        return kept.sum().to(logits.dtype)
    return weight[torch.where(kept, target.long(), 0)].mul(kept).sum()


def cross_entropy(
    logits: Tensor, target: Tensor, weight: Tensor | None = None, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    out = functional.cross_entropy(logits, target.long(), weight, **options)
    divisor = divisor_of(logits, target, weight, **options)
    return out, torch.logsumexp(logits, 1), divisor


def slopes(t: Maker) -> list[Sample]:
    """Of what the forward op gives: whole numbers, so that a divisor has no digits to lose."""
    found = []
    for s in losses(Maker(t.dtype, t.device)):
        logits, target = (x.cpu() for x in s.args[:2])
        weight = s.args[2].cpu().double() if len(s.args) > 2 else None
        out, lse, divisor = cross_entropy(logits.double(), target, weight, **s.kwargs)
        acc = t.acc(1).dtype
        saved = [x.to(acc).to(t.device) for x in (lse, divisor)]
        found.append(Sample((t(*out.shape), *s.args[:2], *saved, *s.args[2:]), s.kwargs))
    return found


def slopes_bad(t: Maker) -> list[tuple[Sample, str]]:
    logits, target, lse, one = t(4, 5), t.ints(0, 5, 4), t.acc(4), t.acc()
    return [
        (sample(t(4), logits, target, lse, one), "gy"),
        (sample(t(), logits, target, t.acc(3), one), "lse"),
        (sample(t(), logits, target, lse, t.acc(1)), "divisor"),
        (sample(t(), logits, target, lse, one, reduction="none"), "gy"),
    ]


def cross_entropy_bwd(
    gy: Tensor,
    logits: Tensor,
    target: Tensor,
    lse: Tensor,
    divisor: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    classes = logits.shape[1]
    each = torch.ones(classes, dtype=logits.dtype) if weight is None else weight
    each = each.view(1, classes, *[1] * (logits.dim() - 2))
    kept = (target != ignore_index).unsqueeze(1)
    index = torch.where(kept, target.long().unsqueeze(1), 0)
    p = (logits - lse.unsqueeze(1)).exp()
    hot = torch.zeros_like(p).scatter(1, index, 1.0)
    own = (hot * each).sum(1, keepdim=True)
    share = label_smoothing / classes
    slope = (1 - label_smoothing) * own * (p - hot) + share * (p * each.sum() - each)
    gy = gy.unsqueeze(1) if reduction == "none" else gy
    return torch.where(kept, slope * gy / (divisor if reduction == "mean" else 1), 0.0)


ROWS = [
    Row("softmax", along_axes, softmax, refused=softmax_bad),
    Row("log_softmax", along_axes, log_softmax, refused=softmax_bad),
    Row("softmax_bwd", results_along_axes, softmax_bwd, refused=softmax_bwd_bad),
    Row("log_softmax_bwd", results_along_axes, log_softmax_bwd, refused=softmax_bwd_bad),
    Row("cross_entropy", losses, cross_entropy, refused=losses_bad),
    Row("cross_entropy_bwd", slopes, cross_entropy_bwd, refused=slopes_bad),
]
