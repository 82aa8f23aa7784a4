"""layer_norm and rms_norm over the last axis, and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from rows import Maker, Row, Sample, sample

F64 = torch.float64


def spread(t: Maker, *shape: int, grad: bool | None = None) -> Tensor:
    """Rows whose elements differ: a constant row has a gradient as steep as eps lets it be."""
    return t.distinct(*shape, grad=grad)


def layer_norm_samples(t: Maker) -> list[Sample]:
    return [
        sample(t(3, 8), t(8), t(8)),
        sample(t(2, 3, 5), t(5), t(5), eps=0.25),
        sample(t(4, 7), None, t(7)),
        sample(t(4, 7), t(7), None),
        sample(spread(t, 17)),  # no row dims
        sample(t(5, 1), t(1), t(1)),
        sample(t(2, 16), None, None, eps=1e-3),
    ]


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    mean = x.mean(-1, keepdim=True)
    rstd = ((x - mean).square().mean(-1, keepdim=True) + eps).rsqrt()
    out = (x - mean) * rstd
    out = out if weight is None else out * weight
    out = out if bias is None else out + bias
    return out, mean.squeeze(-1), rstd.squeeze(-1)


def layer_norm_refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(3, 8), t(7), t(7)), "weight"),
        (sample(t(3, 8), t(8), t(3)), "bias"),
        (sample(t(3, 8), eps=-1.0), "eps"),
        (sample(torch.zeros((), dtype=t.dtype, device=t.device)), "x"),
    ]


def rms_norm_samples(t: Maker) -> list[Sample]:
    return [
        sample(t(3, 8), t(8)),
        sample(t(2, 3, 5), t(5), eps=0.25),
        sample(t(4, 7)),
        sample(spread(t, 17)),
        sample(t(5, 1), t(1)),
    ]


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    out = x * rstd
    return out if weight is None else out * weight, rstd.squeeze(-1)


def rms_norm_refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(3, 8), t(7)), "weight"),
        (sample(t(3, 8), eps=-1e-3), "eps"),
    ]


# ---- gradients -----------------------------------------------------------------------------------


def statistics(x: Tensor, kind: torch.dtype, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    """What layer_norm saves of x."""
    _, mean, rstd = layer_norm(x.detach().to(F64), eps=eps)
    return mean.to(kind), rstd.to(kind)


def kind_of(t: Maker) -> torch.dtype:
    return F64 if t.dtype == F64 else torch.float32


def layer_norm_bwd_samples(t: Maker) -> list[Sample]:
    made = []
    for shape, weighted in [((3, 8), True), ((2, 3, 5), True), ((4, 7), False), ((17,), True)]:
        gy, x = t(*shape), spread(t, *shape)
        mean, rstd = (s.requires_grad_(t.grad) for s in statistics(x, kind_of(t)))
        made.append(sample(gy, x, mean, rstd, t(shape[-1]) if weighted else None))
    return made


def layer_norm_bwd(
    gy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    mean, rstd = mean.unsqueeze(-1), rstd.unsqueeze(-1)
    h = (x - mean) * rstd
    q = gy if weight is None else gy * weight
    gx = rstd * (q - q.mean(-1, keepdim=True) - h * (q * h).mean(-1, keepdim=True))
    rows = tuple(range(gy.ndim - 1))
    return gx, (gy * h).sum(rows) if rows else gy * h, gy.sum(rows) if rows else gy.clone()


def layer_norm_bwd_refused(t: Maker) -> list[tuple[Sample, str]]:
    x = spread(t, 3, 8, grad=False)
    mean, rstd = statistics(x, kind_of(t))
    return [
        (sample(t(3, 7), x, mean, rstd), "x"),
        (sample(t(3, 8), x, mean[:2], rstd[:2]), "mean"),
        (sample(t(3, 8), x, mean, rstd, t(3)), "weight"),
    ]


def rms_norm_bwd_samples(t: Maker) -> list[Sample]:
    made = []
    for shape, weighted in [((3, 8), True), ((2, 3, 5), True), ((4, 7), False), ((17,), True)]:
        gy, x = t(*shape), spread(t, *shape)
        rstd = rms_norm(x.detach().to(F64))[1].to(kind_of(t)).requires_grad_(t.grad)
        made.append(sample(gy, x, rstd, t(shape[-1]) if weighted else None))
    return made


def rms_norm_bwd(
    gy: Tensor, x: Tensor, rstd: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    rstd = rstd.unsqueeze(-1)
    h = x * rstd
    q = gy if weight is None else gy * weight
    gx = rstd * (q - h * (q * h).mean(-1, keepdim=True))
    rows = tuple(range(gy.ndim - 1))
    return gx, (gy * h).sum(rows) if rows else gy * h


def rms_norm_bwd_refused(t: Maker) -> list[tuple[Sample, str]]:
    x = spread(t, 3, 8, grad=False)
    rstd = rms_norm(x.to(F64))[1].to(kind_of(t))
    return [
        (sample(t(3, 7), x, rstd), "x"),
        (sample(t(3, 8), x, rstd, t(3)), "weight"),
    ]


ROWS = [
    Row("layer_norm", layer_norm_samples, layer_norm, refused=layer_norm_refused),
    Row("rms_norm", rms_norm_samples, rms_norm, refused=rms_norm_refused),
    # A row's terms are sums over it, and gw and gb over rows: some roundings of f32 each.
    Row(
        "layer_norm_bwd", layer_norm_bwd_samples, layer_norm_bwd, slack=2.0,
        refused=layer_norm_bwd_refused,
    ),
    Row(
        "rms_norm_bwd", rms_norm_bwd_samples, rms_norm_bwd, slack=2.0,
        refused=rms_norm_bwd_refused,
    ),
]  # fmt: skip
