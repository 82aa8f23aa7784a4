"""Arithmetic of one and two tensors, scale, copy, cast, fill and where."""

from __future__ import annotations

from typing import Any

import torch

from kernels.tensors import DTYPES as WORDS
from rows import Maker, Row, Sample, sample

FLOATS = ("f32", "f16", "bf16", "f64")
INTS = ("i8", "u8", "i16", "i32", "i64")
NUMBERS = (*FLOATS, *INTS)
ANY = (*NUMBERS, "bool")

# ---- two tensors ---------------------------------------------------------------------------------


def broadcast(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 7), t(5, 7)),
        sample(t(3, 5), t(5)),
        sample(t(4), t(3, 1)),
        sample(t(2, 1, 3, 1), t(4, 1, 2)),
        sample(t.turned(3, 4), t(3, 4)),
        sample(t.sliced(3, 4), t.sliced(3, 4)),
        sample(t(), t(2, 3)),
        sample(t(33), t(33)),
    ]


def not_broadcast(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(3, 4), t(3)), "b"),
        (sample(t(2, 3), t(3, 2)), "b"),
        (sample(t(3), t(3).to(torch.float64 if t.dtype != torch.float64 else torch.float32)), "b"),
    ]


def broadcast_large(t: Maker) -> list[Sample]:
    """Packs with heads and tails, rows of packs, element by element."""
    return [
        sample(t(101, 103), t(101, 103)),
        sample(t(40, 264)[:, :257], t(257)),
        sample(t.turned(70, 130), t(70, 1)),
    ]


def binary(op: str, dtypes: tuple[str, ...] = NUMBERS) -> Row:
    function = getattr(torch, op)
    return Row(op, broadcast, function, dtypes, refused=not_broadcast, large=broadcast_large)


# ---- one tensor ----------------------------------------------------------------------------------


def any_real(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 7)),
        sample(t(33)),
        sample(t()),
        sample(t(2, 1, 3)),
        sample(t.turned(3, 4)),
        sample(t.sliced(3, 4)),
    ]


def above_0(t: Maker) -> list[Sample]:
    return [sample(t.positive(5, 7)), sample(t.positive(33)), sample(t.positive(2, 3, 4).mT)]


def large(t: Maker) -> list[Sample]:
    return [sample(t(101, 103)), sample(t(40, 264)[:, :257]), sample(t.sliced(70, 65))]


def large_above_0(t: Maker) -> list[Sample]:
    return [sample(t.positive(101, 103)), sample(t.positive(40, 264)[:, :257])]


def not_real(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t.ints(0, 9, 3)), "x"),
        (sample(torch.zeros(3, dtype=torch.complex64, device=t.device)), "x"),
    ]


def scaled(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 7), factor=1.75),
        sample(t(33), factor=-0.5),
        sample(t.turned(3, 4), factor=0.0),
        sample(t.sliced(3, 4), factor=3.0),
    ]


def not_scaled(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(3)), "factor is missing"),
        (sample(t.ints(0, 9, 3), factor=2.0), "x"),
        (sample(t(3), factor="2"), "factor"),
    ]


def scaled_large(t: Maker) -> list[Sample]:
    return [Sample(one.args, {"factor": 1.75}) for one in large(t)]


def copied(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 7)),
        sample(t.turned(3, 4)),
        sample(t.sliced(3, 4)),
        sample(t(2, 3, 4).permute(2, 0, 1)),
        sample(t()),
    ]


def copied_large(t: Maker) -> list[Sample]:
    return [*large(t), sample(t.turned(70, 130)), sample(t(3, 70, 66).permute(2, 0, 1))]


# ---- cast ----------------------------------------------------------------------------------------


def cast(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """Reals to integers end at the ends of the range, NaN is 0; the rest is torch's."""
    kind = WORDS[dtype]
    if kind.is_floating_point:
        return x.to(torch.float64)
    if kind == torch.bool or not x.is_floating_point():
        return x.to(kind)
    ends = torch.iinfo(kind)
    return x.nan_to_num(0, ends.max, ends.min).trunc().clamp(ends.min, ends.max).to(kind)


def to_others(t: Maker) -> list[Sample]:
    whole = [sample(t(3, 5), dtype=word) for word in ANY]
    strided = [sample(t.sliced(2, 3), dtype=word) for word in ("f32", "bf16", "i8", "bool")]
    return [*whole, *strided, sample(t.turned(3, 4), dtype="f16"), sample(t(), dtype="f64")]


def to_others_large(t: Maker) -> list[Sample]:
    words = ("bf16", "f32", "i8", "i64")
    return [Sample(one.args, {"dtype": word}) for one in large(t) for word in words]


def no_dtype(t: Maker) -> list[tuple[Sample, str]]:
    complex_x = torch.zeros(3, dtype=torch.complex64, device=t.device)
    return [(sample(complex_x, dtype="f32"), "x"), (sample(t(3), dtype="f8"), "dtype")]


# ---- fill ----------------------------------------------------------------------------------------


def fill(x: torch.Tensor, value: Any) -> torch.Tensor:
    return torch.full_like(x, value)


def filled(t: Maker) -> list[Sample]:
    value: Any = True if t.dtype == torch.bool else 3
    return [
        sample(t(5, 7, grad=False), value=value),
        sample(t(33, grad=False), value=0),
        sample(t(2, 3, grad=False).mT, value=value),
        sample(t(3, 8, grad=False)[:, 1::2], value=value),
    ]


def filled_large(t: Maker) -> list[Sample]:
    value: Any = True if t.dtype == torch.bool else 3
    made = [t(101, 103, grad=False), t(40, 264, grad=False)[:, :257]]
    return [sample(x, value=value) for x in made]


# ---- where ---------------------------------------------------------------------------------------


def where(
    cond: torch.Tensor, a: torch.Tensor | None = None, b: torch.Tensor | None = None
) -> torch.Tensor:
    given = a if a is not None else b
    assert given is not None
    nothing = torch.zeros((), dtype=given.dtype)
    return torch.where(cond, nothing if a is None else a, nothing if b is None else b)


def chosen(t: Maker) -> list[Sample]:
    return [
        sample(t.bools(5, 7), t(5, 7), t(5, 7)),
        sample(t.bools(5, 1), t(5, 7), t(7)),
        sample(t.bools(4), t(3, 1), t(2, 1, 4)),
        sample(t.bools(5, 7), t(5, 7)),
        sample(t.bools(5, 7), None, t(5, 7)),
        sample(t.bools(2, 3), t(3)),
        sample(t.bools(4, 3).mT, t.turned(3, 4), t.sliced(3, 4)),
    ]


def chosen_large(t: Maker) -> list[Sample]:
    return [
        sample(t.bools(101, 103), t(101, 103), t(101, 103)),
        sample(t.bools(101, 103), None, t(101, 103)),
        sample(t.bools(40, 1), t(40, 264)[:, :257], t(257)),
    ]


def nothing_to_choose(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t.bools(3)), "one of a and b must be given"),
        (sample(t.bools(3), t(3), t(4)), "b"),
        (sample(t.ints(0, 2, 3), t(3), t(3)), "cond"),
    ]


ROWS = [
    binary("add"),
    binary("sub"),
    binary("mul"),
    binary("div", FLOATS),
    Row("neg", any_real, torch.neg, refused=not_real, large=large),
    Row("exp", any_real, torch.exp, refused=not_real, large=large),
    Row("log", above_0, torch.log, refused=not_real, large=large_above_0),
    Row("sqrt", above_0, torch.sqrt, refused=not_real, large=large_above_0),
    Row("scale", scaled, lambda x, factor: factor * x, refused=not_scaled, large=scaled_large),
    Row("copy", copied, torch.clone, ANY, large=copied_large),
    Row("cast", to_others, cast, ANY, refused=no_dtype, large=to_others_large),
    Row("fill", filled, fill, ANY, large=filled_large),
    Row("where", chosen, where, ANY, refused=nothing_to_choose, large=chosen_large),
]
