"""quantize, dequantize and the observers."""

from __future__ import annotations

import torch

from rows import Maker, Row, Sample, sample

# Powers of two: products and quotients of the samples are then the same in every dtype.
SCALES = (0.25, 0.125, 0.5, 1.0, 0.0625)


def scales(t: Maker, n: int) -> torch.Tensor:
    return torch.tensor(SCALES[:n], dtype=torch.float32, device=t.device)


def zeros(t: Maker, low: int, high: int, n: int) -> torch.Tensor:
    return t.ints(low, high, n, dtype=torch.int32)


def along(values: torch.Tensor | None, x: torch.Tensor, axis: int) -> torch.Tensor | float:
    """One number, or one for each index of the axis, in float64."""
    if values is None:
        return 0.0
    if values.numel() == 1:
        return float(values)
    shape = [1] * x.dim()
    shape[axis] = -1
    return values.to(torch.float64).view(shape)


# ---- quantize ------------------------------------------------------------------------------------


def quantize(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor | None = None,
    axis: int = 0,
    dtype: str = "i8",
) -> torch.Tensor:
    least, most = (-128, 127) if dtype == "i8" else (0, 255)
    at = along(zero, x, axis)
    codes = (x / along(scale, x, axis)).nan_to_num(0.0).round() + at
    return codes.clamp(least, most).to(torch.int8 if dtype == "i8" else torch.uint8)


def quantized(t: Maker) -> list[Sample]:
    return [
        sample(t(5, 7), scales(t, 1), dtype="i8"),
        sample(t(5, 7), scales(t, 1), zeros(t, 100, 140, 1), dtype="u8"),
        sample(t(2, 3, 5), scales(t, 3), zeros(t, -9, 9, 3), axis=1, dtype="i8"),
        sample(t(4, 5), scales(t, 5), zeros(t, 0, 255, 5), axis=-1, dtype="u8"),
        sample(t(3, 2, 4), scales(t, 3), dtype="i8"),
    ]


def quantized_refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(5, 7), scales(t, 3), dtype="i8"), "one scale, or one for each index of axis"),
        (sample(t(3, 7), scales(t, 3), zeros(t, 0, 9, 1), dtype="i8"), "zero"),
    ]


# ---- dequantize ----------------------------------------------------------------------------------


def dequantize(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor | None = None,
    axis: int = 0,
    dtype: str = "f32",
) -> torch.Tensor:
    return (x.to(torch.float64) - along(zero, x, axis)) * along(scale, x, axis)


NAMES = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float64: "f64",
}


def dequantized(t: Maker) -> list[Sample]:
    name = NAMES[t.dtype]
    byte, word = torch.int8, torch.int32
    return [
        sample(t.ints(-128, 128, 5, 7, dtype=byte), scales(t, 1), dtype=name),
        sample(
            t.ints(0, 256, 5, 7, dtype=torch.uint8), scales(t, 1), zeros(t, 0, 9, 1), dtype=name
        ),
        sample(
            t.ints(-99, 99, 2, 3, 5, dtype=byte),
            scales(t, 3),
            zeros(t, -9, 9, 3),
            axis=1,
            dtype=name,
        ),
        sample(
            t.ints(-999, 999, 4, 5, dtype=word),
            scales(t, 5),
            zeros(t, -9, 9, 5),
            axis=-1,
            dtype=name,
        ),
    ]


def dequantized_refused(t: Maker) -> list[tuple[Sample, str]]:
    x = t.ints(-9, 9, 5, 7, dtype=torch.int8)
    name = NAMES[t.dtype]
    return [(sample(x, scales(t, 3), dtype=name), "one scale, or one for each index of axis")]


# ---- observers -----------------------------------------------------------------------------------


def observe_minmax(
    x: torch.Tensor, lo: torch.Tensor, hi: torch.Tensor, axis: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = x.reshape(1, -1) if lo.numel() == 1 else x.movedim(axis, 0).reshape(x.shape[axis], -1)
    if rows.shape[1] == 0:
        return lo, hi
    return torch.minimum(lo, rows.amin(1)), torch.maximum(hi, rows.amax(1))


def ends(t: Maker, n: int, value: float) -> torch.Tensor:
    return torch.full((n,), value, dtype=torch.float32, device=t.device)


def observed(t: Maker) -> list[Sample]:
    inf = torch.inf
    return [
        sample(t(5, 7), ends(t, 1, inf), ends(t, 1, -inf)),
        sample(t(2, 3, 5), ends(t, 3, -1.0), ends(t, 3, 9.0), axis=1),
        sample(t(9, 4), ends(t, 4, inf), ends(t, 4, -inf), axis=-1),
        sample(t(3, 9), ends(t, 3, 0.0), ends(t, 3, 0.0)),
    ]


def observed_refused(t: Maker) -> list[tuple[Sample, str]]:
    call = sample(t(5, 7), ends(t, 3, 0.0), ends(t, 3, 0.0))
    return [(call, "one range, or one for each index of axis")]


def observe_histogram(
    x: torch.Tensor, hist: torch.Tensor, lo: float | torch.Tensor, hi: float | torch.Tensor
) -> torch.Tensor:
    low, high, bins = float(lo), float(hi), hist.numel()
    known = x[~x.isnan()]
    at = ((known - low) * (bins / (high - low))).clamp(0, bins - 1).floor().to(torch.int64)
    return hist + torch.bincount(at.view(-1), minlength=bins)


def counted(t: Maker) -> list[Sample]:
    hist = torch.arange(8, device=t.device)
    low = torch.tensor([-1.0], device=t.device)
    return [
        sample(t(5, 7), hist.clone(), lo=-2.0, hi=2.0),
        sample(t(2, 3, 5), hist.clone(), lo=low, hi=-low),
        sample(t(33), hist[:1].clone(), lo=0.0, hi=1.0),
    ]


def counted_refused(t: Maker) -> list[tuple[Sample, str]]:
    empty = torch.zeros(0, dtype=torch.int64, device=t.device)
    return [(sample(t(5), empty, lo=0.0, hi=1.0), "from 1 to 2**24 bins")]


ROWS = [
    Row("quantize", quantized, quantize, refused=quantized_refused),
    Row("dequantize", dequantized, dequantize, refused=dequantized_refused),
    Row("observe_minmax", observed, observe_minmax, refused=observed_refused),
    Row("observe_histogram", counted, observe_histogram, refused=counted_refused),
]
