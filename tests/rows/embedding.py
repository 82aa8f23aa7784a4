"""embedding with its gradient, and one_hot."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from rows import Maker, Row, Sample, sample


def chosen(t: Maker, values: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=t.device)


def embedding_samples(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 4), t.ints(0, 5, 2, 3)),
        sample(t(3, 5), chosen(t, [2, 0, 2, 2], torch.int32), padding_idx=1),
        sample(t(7, 3), chosen(t, 4)),
        sample(t(4, 2), chosen(t, [[1, 3]], torch.int32), padding_idx=0),
    ]


def embedding(weight: torch.Tensor, idx: torch.Tensor, *, padding_idx: int = -1) -> torch.Tensor:
    """torch's own takes padding_idx from the end, and None for none."""
    return F.embedding(idx, weight, None if padding_idx < 0 else padding_idx)


def embedding_bwd_samples(t: Maker) -> list[Sample]:
    return [
        sample(t(2, 3, 4), t.ints(0, 5, 2, 3), V=5),
        sample(t(6, 3), chosen(t, [1, 2, 1, 0, 1, 2], torch.int32), V=4, padding_idx=1),
        sample(t(5), chosen(t, 1), V=2),
        sample(t(4, 2), chosen(t, [0, 7, -1, 2]), V=3),  # two that are in no row
    ]


def embedding_bwd(
    gy: torch.Tensor, idx: torch.Tensor, *, V: int, padding_idx: int = -1
) -> torch.Tensor:
    places, rows = idx.reshape(-1).long(), gy.reshape(-1, gy.shape[-1])
    kept = (places >= 0) & (places < V) & (places != padding_idx)
    return torch.zeros(V, gy.shape[-1], dtype=gy.dtype).index_add(0, places[kept], rows[kept])


def one_hot_samples(t: Maker) -> list[Sample]:
    return [
        sample(t.ints(0, 5, 2, 3), classes=5, dtype=t.dtype),
        sample(chosen(t, [0, 2, 3, -1], torch.int32), classes=3, dtype=t.dtype),
        sample(chosen(t, 1), classes=17, dtype=t.dtype),
    ]


def one_hot(idx: torch.Tensor, *, classes: int, **_: Any) -> torch.Tensor:
    return (idx[..., None] == torch.arange(classes)).double()


def refused_embedding(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(3, 4), t(2)), "idx"),
        (sample(t(3), t.ints(0, 3, 2)), "weight"),
        (sample(t(3, 4), t.ints(0, 3, 2), padding_idx=-2), "padding_idx"),
        (sample(t(3, 4), t.ints(0, 3, 2), padding_idx=3), "padding_idx"),
    ]


def refused_bwd(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(3, 4), t.ints(0, 3, 2), V=3), "idx"),
        (sample(t(2, 4), t.ints(0, 3, 2), V=-1), "V"),
        (sample(t(2, 4), t.ints(0, 3, 2), V=3, padding_idx=3), "padding_idx"),
    ]


def refused_one_hot(t: Maker) -> list[tuple[Sample, str]]:
    floats = torch.zeros(2, device=t.device)
    return [(sample(t.ints(0, 3, 2), classes=0), "classes"), (sample(floats, classes=3), "idx")]


ROWS = [
    Row("embedding", embedding_samples, embedding, refused=refused_embedding),
    Row("embedding_bwd", embedding_bwd_samples, embedding_bwd, refused=refused_bwd),
    Row(
        "one_hot",
        one_hot_samples,
        one_hot,
        dtypes=("i64", "f32", "f16", "bf16", "f64"),
        refused=refused_one_hot,
    ),
]
