"""Reductions over axes, and the gradient of extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from rows import Maker, Row, Sample, sample

Axes = int | Sequence[int] | None


def dims_of(x: torch.Tensor, axes: Axes) -> list[int]:
    """The axes as a list, counted from the front; None: all."""
    if axes is None:
        return list(range(x.ndim))
    given = [axes] if isinstance(axes, int) else list(axes)
    return [axis % max(x.ndim, 1) for axis in given]


def over(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A function of torch with `dim` and `keepdim`, to which no dims are all of them, as an op."""

    def run(x: torch.Tensor, axes: Axes = None, keepdim: bool = False) -> torch.Tensor:
        dims = dims_of(x, axes)
        return function(x, dim=dims, keepdim=keepdim) if dims else x.clone()

    return run


def argmax(x: torch.Tensor, axes: Axes = None, keepdim: bool = False) -> torch.Tensor:
    """Over the axes in x's order, whatever the order they are named in."""
    dims = sorted(dims_of(x, axes))
    kept = [d for d in range(x.ndim) if d not in dims]
    lines = x.detach().permute(kept + dims).reshape([x.shape[d] for d in kept] + [-1])
    if lines.is_floating_point() and lines.isnan().any():
        lines = torch.where(lines.isnan(), torch.inf, lines.clamp(max=3.0e38))
    top = lines.amax(-1, keepdim=True)
    places = (lines == top).to(torch.int8).argmax(-1)  # of ones: torch takes the first
    return (
        places.view([1 if d in dims else s for d, s in enumerate(x.shape)]) if keepdim else places
    )


def extremum_bwd(
    gy: torch.Tensor, x: torch.Tensor, fwd: torch.Tensor, axes: Axes = None, keepdim: bool = False
) -> torch.Tensor:
    dims = dims_of(x, axes)
    kept = [1 if d in dims else s for d, s in enumerate(x.shape)]
    gy, fwd = gy.reshape(kept), fwd.reshape(kept)
    ties = (x == fwd).to(x.dtype)
    return gy * ties / (ties.sum(dims, keepdim=True) if dims else ties)


# ---- samples -------------------------------------------------------------------------------------


def reduced(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 7)),
        sample(t(5, 7), axes=[0]),
        sample(t(5, 7), axes=1, keepdim=True),
        sample(t(2, 3, 5), axes=[1]),
        sample(t(2, 3, 5), axes=[-1, 0]),
        sample(t(2, 3, 2, 3), axes=[0, 2], keepdim=True),
        sample(t.turned(2, 3, 4), axes=[2]),
        sample(t.sliced(4, 3), axes=[0]),
        sample(t(33)),
        sample(t()),
        sample(t(2, 3), axes=[]),
    ]


def told_apart(t: Maker) -> list[Sample]:
    """Where a difference quotient may not change which element is the largest."""
    return [
        sample(t.distinct(5, 7)),
        sample(t.distinct(5, 7), axes=[0]),
        sample(t.distinct(5, 7), axes=1, keepdim=True),
        sample(t.distinct(2, 3, 5), axes=[1]),
        sample(t.distinct(2, 3, 5), axes=[-1, 0]),
        sample(t.distinct(2, 3, 2, 3), axes=[0, 2], keepdim=True),
        sample(t.distinct(33)),
        sample(t.distinct(1)),
    ]


def placed(t: Maker) -> list[Sample]:
    ties = t(6, 8, grad=False)
    return [
        *told_apart(t),
        sample(ties),
        sample(ties, axes=[0]),
        sample(ties.mT, axes=[0, 1]),
        sample(ties.mT, axes=[1, 0], keepdim=True),
        sample(t.turned(2, 3, 4), axes=[1, 2]),
        sample(t.sliced(4, 3), axes=[1]),
    ]


def shared(t: Maker) -> list[Sample]:
    def of(x: torch.Tensor, axes: Axes = None, keepdim: bool = False) -> Sample:
        fwd = over(torch.amax)(x, axes, keepdim).detach()
        gy = t(*fwd.shape, grad=False)
        options: dict[str, Any] = {} if axes is None else {"axes": axes}
        return sample(gy, x, fwd, keepdim=keepdim, **options)

    tied = t.ints(-2, 3, 4, 9).to(t.dtype)
    return [
        of(tied),
        of(tied, [0]),
        of(tied, [1], keepdim=True),
        of(tied.mT, [0]),
        of(t(2, 3, 5, grad=False), [1]),
        of(t(2, 3, 2, 3, grad=False), [0, 2]),
        of(t(33, grad=False)),
    ]


def refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(2, 3), axes=[2]), "axes"),
        (sample(t(2, 3), axes=[0, 0]), "axes"),
        (sample(t(2, 3), axes=[-3]), "axes"),
    ]


def refused_of_nothing(word: str) -> Callable[[Maker], list[tuple[Sample, str]]]:
    message = f"there is no {word} of nothing"
    return lambda t: [
        *refused(t),
        (sample(t(0)), message),
        (sample(t(3, 0), axes=[1]), message),
        (sample(t(0, 3), axes=[0], keepdim=True), message),
    ]


def shared_refused(t: Maker) -> list[tuple[Sample, str]]:
    x = t(2, 3, grad=False)
    return [
        (sample(x[0], x, x[0], axes=[1]), "gy"),
        (sample(x[0], x, x[:, 0], axes=[0]), "fwd"),
    ]


ROWS = [
    Row("sum", reduced, over(torch.sum), refused=refused),
    Row("mean", reduced, over(torch.mean), refused=refused),
    Row("max", told_apart, over(torch.amax), refused=refused_of_nothing("largest")),
    Row("min", told_apart, over(torch.amin), refused=refused_of_nothing("smallest")),
    Row("argmax", placed, argmax, refused=refused_of_nothing("largest")),
    Row("extremum_bwd", shared, extremum_bwd, refused=shared_refused),
]
