"""gemm_i8 and conv2d_i8: sums in whole numbers, the epilogue in f32, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from rows import Maker, Row, Sample, sample
from rows.table import DTYPES

RANGES = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int32: (-(2**31), 2**31 - 1)}


def requantized(
    sums: torch.Tensor,
    scales: tuple[Any, Any, Any],
    bias: Any,
    out_zero: Any,
    act: str,
    dtype: str,
) -> torch.Tensor:
    """Of exact sums in i64, whose columns are the last dim: the outs, to the bit."""
    least, most = RANGES[torch.int32]
    kind, scaled = DTYPES[dtype], any(s is not None for s in scales)
    q = (sums if bias is None else sums + bias).clamp(least, most)
    field, factor, out = (None if s is None else s.to(torch.float32) for s in scales)
    scale = torch.ones((), dtype=torch.float32)
    for s in (field, factor, None if out is None else 1 / out):
        scale = scale if s is None else scale * s
    y: torch.Tensor = q.to(torch.float32) * scale if scaled else q
    y = torch.where(y <= 0, torch.zeros_like(y), y) if act == "relu" else y
    if kind.is_floating_point:
        y = y.to(torch.float32)
        return (y if out_zero is None else y + out_zero.to(torch.float32)).to(kind)
    whole = y.double().nan_to_num(0.0).round().clamp(least, most).to(torch.int64)
    moved = (whole if out_zero is None else whole + out_zero).clamp(least, most)
    return moved.clamp(*RANGES[kind]).to(kind)


def less_zero(x: torch.Tensor, zero: Any) -> torch.Tensor:
    """In i64; a zero beyond the range of x is its end."""
    return x.long() if zero is None else x.long() - zero.long().clamp(*RANGES[x.dtype])


def gemm_i8(
    a: torch.Tensor, b: torch.Tensor, a_scale: Any = None, b_scale: Any = None, a_zero: Any = None,
    bias: Any = None, out_scale: Any = None, out_zero: Any = None, act: str = "none",
    dtype: str = "i32",
) -> torch.Tensor:  # fmt: skip
    sums = (less_zero(a, a_zero).double() @ b.double()).long()  # f64 has them exactly
    return requantized(sums, (a_scale, b_scale, out_scale), bias, out_zero, act, dtype)


def conv2d_i8(
    x: torch.Tensor, w: torch.Tensor, x_scale: Any = None, w_scale: Any = None, x_zero: Any = None,
    bias: Any = None, out_scale: Any = None, out_zero: Any = None, act: str = "none",
    dtype: str = "i32", stride: Any = 1, pad: Any = 0, dilation: Any = 1, groups: int = 1,
) -> torch.Tensor:  # fmt: skip
    field = less_zero(x, x_zero).double()
    sums = F.conv2d(field, w.double(), None, stride, pad, dilation, groups).long()
    last = sums.movedim(1, -1)
    return requantized(
        last, (x_scale, w_scale, out_scale), bias, out_zero, act, dtype
    ).movedim(-1, 1)  # fmt: skip


# ---- samples -------------------------------------------------------------------------------------


def codes(t: Maker, *shape: int, signed: bool = True) -> torch.Tensor:
    """Of the whole range."""
    low, high = RANGES[torch.int8 if signed else torch.uint8]
    return t.ints(low, high + 1, *shape, dtype=torch.int8 if signed else torch.uint8)


def number(t: Maker, value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float32, device=t.device)


def whole(t: Maker, value: int) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.int32, device=t.device)


def steps(t: Maker, n: int) -> torch.Tensor:
    """Scales that are no powers of two."""
    return (t.ints(1, 99, n).to(torch.float32) * 0.0137).to(t.device)


def biases(t: Maker, n: int) -> torch.Tensor:
    return t.ints(-9999, 9999, n, dtype=torch.int32)


def gemms(t: Maker) -> list[Sample]:
    out = number(t, 37.5), whole(t, 3)
    return [
        sample(codes(t, 3, 4), codes(t, 4, 5), dtype="i32"),
        sample(codes(t, 5, 33, signed=False), codes(t, 33, 7), number(t, 0.25), steps(t, 7),
               whole(t, 131), biases(t, 7), *out, act="relu", dtype="u8"),
        sample(codes(t, 7, 18), codes(t, 18, 3), number(t, 0.5), steps(t, 1), whole(t, -7), None,
               *out, dtype="i8"),
        sample(codes(t, 2, 64), codes(t, 64, 16), number(t, 0.125), steps(t, 16),
               dtype="f32"),
        sample(codes(t, 17, 32, signed=False), codes(t, 8, 32).mT, None, steps(t, 8),
               None, biases(t, 8), dtype="f16"),
        sample(codes(t, 4, 32), codes(t, 32, 8), number(t, 0.25), act="relu", dtype="bf16"),
    ]  # fmt: skip


def gemms_large(t: Maker) -> list[Sample]:
    """Tiles whole and cut, in every layout, many of them and few, deep ones."""
    found = []
    for at, (m, n, k) in enumerate(
        [(136, 264, 272), (300, 136, 144), (65, 77, 129), (1, 72, 515), (17, 1030, 1024),
         (515, 513, 48), (260, 1032, 640)]
    ):  # fmt: skip
        a = codes(t, m, k, signed=at % 2 == 0)
        for b in (codes(t, k, n), codes(t, n, k).mT):
            found.append(sample(a, b, dtype="i32"))
            found.append(
                sample(a, b, number(t, 0.25), steps(t, n), whole(t, 99 - 30 * at), biases(t, n),
                       number(t, 1234.5), whole(t, at), act="relu" if at % 2 else "none",
                       dtype=("i8", "u8", "f16", "f32", "bf16")[at % 5])
            )  # fmt: skip
    return found


def gemms_refused(t: Maker) -> list[tuple[Sample, str]]:
    a, b = codes(t, 3, 4), codes(t, 4, 5)
    return [
        (sample(a, codes(t, 5, 6), dtype="i32"), "b: its shape must be K N"),
        (sample(a, b, None, steps(t, 3), dtype="i32"), "one b_scale, or one for each column"),
        (sample(a, b, None, None, None, biases(t, 4), dtype="i32"), "bias: its shape must be N"),
        (sample(a, b, act="gelu", dtype="i32"), "act takes one of 'none', 'relu'"),
        (sample(codes(t, 1, 65794), codes(t, 65794, 1), dtype="i32"), "65793 products"),
    ]


Shape = tuple[int, int, int, int]
CASES: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 3, 5, 4), (2, 3, 3, 3), {"pad": (1, 1)}),
    ((1, 4, 6, 5), (2, 2, 2, 3),
     {"stride": (2, 1), "pad": (0, 2), "dilation": (2, 1), "groups": 2}),
    ((2, 3, 4, 4), (3, 1, 3, 2), {"stride": (2, 3), "pad": (1, 0), "groups": 3}),  # depthwise
    ((1, 16, 3, 4), (8, 16, 1, 1), {}),  # a product of matrices
]  # fmt: skip
LARGE: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 16, 23, 19), (72, 16, 3, 3), {"pad": (1, 1)}),
    ((3, 80, 14, 14), (24, 80, 3, 3), {"stride": (2, 2), "pad": (1, 1)}),
    ((2, 128, 12, 12), (136, 128, 1, 1), {"stride": (2, 2)}),
    ((2, 64, 11, 12), (64, 64, 3, 3), {"pad": (1, 1)}),
    ((2, 64, 13, 11), (48, 32, 3, 2), {"dilation": (2, 1), "pad": (2, 1), "groups": 2}),
    ((2, 3, 30, 28), (16, 3, 7, 7), {"stride": (2, 2), "pad": (3, 3)}),
    ((2, 33, 20, 20), (33, 1, 3, 3), {"pad": (1, 1), "groups": 33}),
    ((1, 7, 9, 9), (5, 7, 3, 3), {"stride": (3, 2)}),
]


def last_too(t: Maker, x: torch.Tensor) -> list[torch.Tensor]:
    """With the columns innermost, and with the channels."""
    return [x, x.contiguous(memory_format=torch.channels_last)]


def convs(cases: list[tuple[Shape, Shape, dict[str, Any]]]) -> Callable[[Maker], list[Sample]]:
    def samples(t: Maker) -> list[Sample]:
        found = []
        for at, (xs, ws, named) in enumerate(cases):
            signed, n = at % 2 == 1, ws[0]
            fields, factors = last_too(t, codes(t, *xs, signed=signed)), last_too(t, codes(t, *ws))
            for x, w in zip(fields, factors, strict=True):
                found.append(sample(x, w, dtype="i32", **named))
                found.append(
                    sample(x, w, number(t, 0.25), steps(t, n if at % 3 else 1),
                           whole(t, 200 - 90 * at), biases(t, n), number(t, 99.5), whole(t, at),
                           act="relu" if at % 2 else "none",
                           dtype=("i8", "u8", "f16", "f32", "bf16")[at % 5], **named)
                )  # fmt: skip
        return found

    return samples


def convs_refused(t: Maker) -> list[tuple[Sample, str]]:
    x, w = codes(t, 1, 4, 3, 3), codes(t, 2, 4, 3, 3)
    return [
        (sample(x, codes(t, 2, 3, 3, 3), dtype="i32"), "x must have D * groups channels"),
        (sample(x, codes(t, 3, 2, 3, 3), groups=2, dtype="i32"), "must divide by groups"),
        (sample(x, codes(t, 2, 4, 4, 3), dtype="i32"), "the window is larger than the padded"),
        (sample(x, codes(t, 2, 4, 0, 3), dtype="i32"), "there must be a window"),
        (sample(x, w, None, steps(t, 3), dtype="i32"), "one w_scale, or one for each output"),
        (sample(x, w, None, None, None, biases(t, 4), dtype="i32"), "bias: its shape must be O"),
    ]


ROWS = [
    Row("gemm_i8", gemms, gemm_i8, ("f32",), refused=gemms_refused, large=gemms_large),
    Row("conv2d_i8", convs(CASES), conv2d_i8, ("f32",), refused=convs_refused, large=convs(LARGE)),
]
