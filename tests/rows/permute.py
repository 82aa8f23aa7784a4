"""permute and concat."""

from __future__ import annotations

from typing import Any

import torch

from rows import Maker, Row, Sample, sample

# ---- permute -------------------------------------------------------------------------------------


def permute(x: torch.Tensor, perm: Any) -> torch.Tensor:
    return x.permute(perm).contiguous()


def permuted(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 7), perm=[1, 0]),
        sample(t(2, 3, 5), perm=[2, 0, 1]),
        sample(t.turned(2, 3, 4), perm=[0, -1, 1]),
        sample(t.sliced(3, 4), perm=[1, 0]),
        sample(t(1, 2, 1, 2, 1, 2, 2, 2), perm=[7, 1, 3, 0, 5, 2, 6, 4]),
        sample(t(2, 3, 4), perm=[0, 1, 2]),
        sample(t(), perm=[]),
    ]


def permuted_refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(5, 7), perm=[0]), "perm must name every axis once"),
        (sample(t(5, 7), perm=[0, 0]), "perm"),
        (sample(t(5, 7), perm=[0, 2]), "perm"),
    ]


# ---- concat --------------------------------------------------------------------------------------


def concat(xs: list[torch.Tensor], axis: int = 0) -> torch.Tensor:
    return torch.cat(xs, axis)


def concatenated(t: Maker) -> list[Sample]:
    return [
        sample([t(2, 3), t(4, 3), t(1, 3)]),
        sample([t(2, 3), t(2, 5)], axis=-1),
        sample([t(2, 1, 3), t(2, 4, 3), t(2, 0, 3), t(2, 2, 3)], axis=1),
        sample([t(5)]),
        sample([t(3, 2, 2), t(3, 2, 2)], axis=2),
    ]


def concatenated_refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample([]), "concat needs at least one tensor"),
        (sample([t(2, 3), t(2, 4)]), "xs"),
        (sample([t(2, 3), t(2, 3)], axis=2), "axis"),
    ]


ROWS = [
    Row("permute", permuted, permute, refused=permuted_refused),
    Row("concat", concatenated, concat, refused=concatenated_refused),
]
