"""max_pool2d, avg_pool2d and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from rows import Maker, Row, Sample, sample

# (N, C, H, W) and the attributes of a call; pairs, as torch.compile takes one number that it may
# see change for no list.
MAX: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 5, 6), {"window": (3, 3), "stride": (2, 2), "pad": (1, 1)}),  # windows overlap
    ((2, 1, 4, 4), {"window": (2, 2), "stride": (2, 2)}),  # and do not
    ((1, 1, 5, 4), {"window": (2, 3), "stride": (3, 1), "pad": (1, 0), "ceil_mode": True}),
    (
        (2, 2, 2, 3),
        {"window": (1, 1), "stride": (2, 2), "ceil_mode": True},
    ),  # elements in no window
]
AVG: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 5, 6), {"window": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
    ((1, 2, 5, 6), {"window": (3, 3), "stride": (2, 2), "pad": (1, 1), "count_include_pad": False}),
    ((2, 1, 4, 4), {"window": (2, 2), "stride": (2, 2)}),
    ((1, 1, 4, 5), {"window": (1, 2), "stride": (2, 2), "pad": (0, 1), "ceil_mode": True}),
    (
        (1, 1, 5, 4),
        {
            "window": (2, 2),
            "stride": (3, 3),
            "pad": (1, 1),
            "ceil_mode": True,
            "count_include_pad": False,
        },
    ),
]


def layouts(t: Maker, shape: tuple[int, ...]) -> list[torch.Tensor]:
    """No two equal, since a maximum has no gradient at a tie."""
    last = t.distinct(*shape, grad=False).contiguous(memory_format=torch.channels_last)
    return [t.distinct(*shape), last.requires_grad_(t.grad)]


def max_pool2d(
    x: torch.Tensor, *, window: Any, stride: Any, pad: Any = 0, ceil_mode: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    out, indices = F.max_pool2d(x, window, stride, pad, ceil_mode=ceil_mode, return_indices=True)
    return out, indices


def avg_pool2d(
    x: torch.Tensor,
    *,
    window: Any,
    stride: Any,
    pad: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> torch.Tensor:
    return F.avg_pool2d(x, window, stride, pad, ceil_mode, count_include_pad)


def max_pool2d_bwd(
    gy: torch.Tensor, indices: torch.Tensor, *, H: int, W: int, **_: Any
) -> torch.Tensor:
    gx = torch.zeros(*gy.shape[:2], H * W, dtype=gy.dtype)
    return gx.scatter_add(2, indices.flatten(2), gy.flatten(2)).unflatten(2, (H, W))


def avg_pool2d_bwd(gy: torch.Tensor, *, H: int, W: int, **attributes: Any) -> torch.Tensor:
    x = torch.zeros(*gy.shape[:2], H, W, dtype=gy.dtype, requires_grad=True)
    out = avg_pool2d(x, **attributes)
    if out.shape != gy.shape:
        out = avg_pool2d(x, ceil_mode=True, **attributes)
    (gx,) = torch.autograd.grad(out, x, gy)
    return gx


def forward_samples(
    cases: Sequence[tuple[tuple[int, ...], dict[str, Any]]],
) -> Any:
    def samples(t: Maker) -> list[Sample]:
        return [sample(x, **kwargs) for shape, kwargs in cases for x in layouts(t, shape)]

    return samples


def backward_samples(cases: Sequence[tuple[tuple[int, ...], dict[str, Any]]], largest: bool) -> Any:
    """Calls as autograd makes them, gy and indices in one layout."""

    def samples(t: Maker) -> list[Sample]:
        made = []
        for shape, kwargs in cases:
            options = {k: v for k, v in kwargs.items() if k != "ceil_mode"}
            x = Maker(torch.float64).distinct(*shape)
            for layout in (torch.contiguous_format, torch.channels_last):
                if largest:
                    out, indices = max_pool2d(x, **kwargs)
                    rest = [indices.to(t.device).contiguous(memory_format=layout)]
                else:
                    out, rest = avg_pool2d(x, **kwargs), []
                dense = layout == torch.contiguous_format
                gy = t(*out.shape) if dense else t.channels_last(*out.shape)
                made.append(sample(gy, *rest, H=shape[2], W=shape[3], **options))
        return made

    return samples


def refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(1, 1, 4, 4), window=2, stride=2, pad=2), "padding is at most half the window"),
        (sample(t(1, 1, 2, 4), window=3, stride=1), "the window is larger than the padded input"),
        (sample(t(1, 1, 0, 4), window=2, stride=1, pad=1), "there must be something to pool"),
        (sample(t(1, 4, 4), window=2, stride=2), "x"),
        (sample(t(1, 1, 4, 4), window=0, stride=2), "window"),
        (sample(t(1, 1, 4, 4), window=2, stride=0), "stride"),
        (sample(t(1, 1, 4, 4), window=(2, 2, 2), stride=1), "window"),
    ]


def refused_bwd(largest: bool) -> Any:
    def calls(t: Maker) -> list[tuple[Sample, str]]:
        def bwd(p: int, q: int, **kwargs: Any) -> Sample:
            rest = [t.ints(0, 1, 1, 1, p, q)] if largest else []
            return sample(t(1, 1, p, q), *rest, **kwargs)

        return [
            (bwd(2, 2, H=4, W=4, window=2, stride=2, pad=2), "padding is at most half the window"),
            (bwd(3, 2, H=4, W=4, window=2, stride=2), "H has not as many windows as gy has rows"),
            (bwd(2, 1, H=4, W=4, window=2, stride=2), "W has not as many windows as gy has"),
        ]

    return calls


ROWS = [
    Row("max_pool2d", forward_samples(MAX), max_pool2d, refused=refused),
    Row("avg_pool2d", forward_samples(AVG), avg_pool2d, refused=refused),
    Row("max_pool2d_bwd", backward_samples(MAX, True), max_pool2d_bwd, refused=refused_bwd(True)),
    Row("avg_pool2d_bwd", backward_samples(AVG, False), avg_pool2d_bwd, refused=refused_bwd(False)),
]
