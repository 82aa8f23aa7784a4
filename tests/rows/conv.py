"""conv2d and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from rows import Maker, Row, Sample, sample

Shape = tuple[int, int, int, int]

# The shapes of x and w, and the attributes of a call; pairs, as torch.compile takes one number that
# it may see change for no list.
CASES: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 3, 5, 4), (2, 3, 3, 3), {"pad": (1, 1)}),
    (
        (1, 4, 6, 5),
        (2, 2, 2, 3),
        {"stride": (2, 1), "pad": (0, 2), "dilation": (2, 1), "groups": 2},
    ),
    ((2, 3, 4, 4), (3, 1, 3, 2), {"stride": (2, 3), "pad": (1, 0), "groups": 3}),  # depthwise
    ((1, 8, 3, 4), (8, 8, 1, 1), {}),  # a product of matrices
]
# Of several tiles, whole and cut, and of each kernel.
LARGE: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 16, 23, 19), (72, 16, 3, 3), {"pad": (1, 1)}),
    ((3, 40, 14, 14), (24, 40, 3, 3), {"stride": (2, 2), "pad": (1, 1)}),
    ((2, 64, 12, 12), (136, 64, 1, 1), {"stride": (2, 2)}),
    ((2, 24, 11, 12), (64, 24, 3, 3), {"pad": (1, 1)}),
    ((2, 48, 13, 11), (48, 24, 3, 2), {"dilation": (2, 1), "pad": (2, 1), "groups": 2}),
    ((2, 3, 30, 28), (16, 3, 7, 7), {"stride": (2, 2), "pad": (3, 3)}),
    ((2, 33, 20, 20), (33, 1, 3, 3), {"pad": (1, 1), "groups": 33}),
    ((2, 32, 20, 20), (64, 1, 5, 3), {"stride": (2, 1), "pad": (2, 1), "groups": 32}),
    ((1, 7, 9, 9), (5, 7, 3, 3), {"stride": (3, 2)}),
]


def attributes(
    stride: Any = 1, pad: Any = 0, dilation: Any = 1, groups: int = 1
) -> tuple[Any, Any, Any, int]:
    """As torch's functions take them."""
    return stride, pad, dilation, groups


def conv2d(x: torch.Tensor, w: torch.Tensor, bias: Any = None, **named: Any) -> torch.Tensor:
    return F.conv2d(x, w, bias, *attributes(**named))


def conv2d_dx(gy: torch.Tensor, w: torch.Tensor, *, H: int, W: int, **named: Any) -> torch.Tensor:
    shape = gy.shape[0], w.shape[1] * named.get("groups", 1), H, W
    return torch.nn.grad.conv2d_input(shape, w, gy, *attributes(**named))


def conv2d_dw(gy: torch.Tensor, x: torch.Tensor, *, R: int, S: int, **named: Any) -> torch.Tensor:
    shape = gy.shape[1], x.shape[1] // named.get("groups", 1), R, S
    return torch.nn.grad.conv2d_weight(x, shape, gy, *attributes(**named))


def outs_of(x: Shape, w: Shape, named: dict[str, Any]) -> Shape:
    found = F.conv2d(torch.empty(x, device="meta"), torch.empty(w, device="meta"),
                     None, *attributes(**named))  # fmt: skip
    n, o, p, q = found.shape
    return n, o, p, q


def makers(t: Maker) -> list[Any]:
    """Tensors with the columns innermost, and with the channels."""
    return [t, t.channels_last]


def forward(cases: Sequence[tuple[Shape, Shape, dict[str, Any]]]) -> Any:
    def samples(t: Maker) -> list[Sample]:
        found = []
        for at, (x, w, named) in enumerate(cases):
            for make in makers(t):
                bias = t(w[0]) if at % 2 == 0 else None
                found.append(sample(make(*x), make(*w), bias, **named))
        return found

    return samples


def by_input(cases: Sequence[tuple[Shape, Shape, dict[str, Any]]]) -> Any:
    def samples(t: Maker) -> list[Sample]:
        return [
            sample(make(*outs_of(x, w, named)), make(*w), H=x[2], W=x[3], **named)
            for x, w, named in cases
            for make in makers(t)
        ]

    return samples


def by_weight(cases: Sequence[tuple[Shape, Shape, dict[str, Any]]]) -> Any:
    def samples(t: Maker) -> list[Sample]:
        return [
            sample(make(*outs_of(x, w, named)), make(*x), R=w[2], S=w[3], **named)
            for x, w, named in cases
            for make in makers(t)
        ]

    return samples


def refused(t: Maker) -> list[tuple[Sample, str]]:
    x, w = t(1, 4, 3, 3), t(2, 4, 3, 3)
    return [
        (sample(x, t(2, 3, 3, 3)), "x must have D * groups channels"),
        (sample(x, w, groups=2), "x must have D * groups channels"),
        (sample(x, t(3, 2, 3, 3), groups=2), "output channels must divide by groups"),
        (sample(x, t(2, 4, 4, 3)), "the window is larger than the padded input"),
        (sample(x, w, dilation=(1, 2)), "the window is larger than the padded input"),
        (sample(x, t(2, 4, 0, 3)), "there must be a window"),
        (sample(x, w, t(4)), "bias: its shape must be O"),
        (sample(t(4, 3, 3), w), "x"),
        (sample(x, w, stride=0), "stride"),
        (sample(x, w, pad=(0, -1)), "pad"),
        (sample(x, w, dilation=(1, 1, 1)), "dilation"),
    ]


def refused_dx(t: Maker) -> list[tuple[Sample, str]]:
    gy, w = t(1, 2, 2, 2), t(2, 3, 3, 3)
    return [
        (sample(gy, w, H=5, W=4), "H has not as many windows as gy has rows"),
        (sample(gy, w, H=4, W=5), "W has not as many windows as gy has columns"),
        (sample(gy, t(2, 3, 0, 3), H=1, W=4), "there must be a window"),
        (sample(gy, w, H=4, W=4, groups=3), "output channels must divide by groups"),
        (sample(gy, t(3, 3, 3, 3), H=4, W=4), "w"),
    ]


def refused_dw(t: Maker) -> list[tuple[Sample, str]]:
    gy, x = t(1, 2, 2, 2), t(1, 4, 4, 4)
    return [
        (sample(gy, x, R=2, S=3), "H has not as many windows of R as gy has rows"),
        (sample(gy, x, R=3, S=2), "W has not as many windows of S as gy has columns"),
        (sample(gy, x, R=3, S=3, groups=4), "channels must divide by groups"),
        (sample(gy, t(2, 4, 4, 4), R=3, S=3), "x"),
        (sample(gy, x, R=0, S=3), "R"),
    ]


ROWS = [
    Row("conv2d", forward(CASES), conv2d, refused=refused, large=forward(LARGE), slack=2.0),
    Row("conv2d_dx", by_input(CASES), conv2d_dx, refused=refused_dx, large=by_input(LARGE),
        slack=2.0),
    Row("conv2d_dw", by_weight(CASES), conv2d_dw, refused=refused_dw, large=by_weight(LARGE),
        slack=2.0),
]  # fmt: skip
