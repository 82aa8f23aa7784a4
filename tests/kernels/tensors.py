"""Tensors to try kernels on: random or poisoned, of any dtype and in any layout, on any device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from kernels.tolerance import LARGEST, TOLERANCES, Array, assert_close

FLOATS = ("f32", "f16", "bf16", "f64")
DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}

# How a tensor of a given shape lies in memory.
LAYOUTS = {
    "dense": "row-major without gaps",
    "odd": "row-major without gaps, from an address that no vector is aligned to",
    "reversed": "column-major without gaps",
    "swapped": "the last two dims swapped in memory",
    "stepped": "every second element of a larger tensor, from its second one on",
    "pitched": "rows with a gap behind each",
    "nhwc": "the second dim last in memory, of four dims",
    "broadcast": "every second dim without a stride: inputs only",
}


def empty(shape: Sequence[int], dtype: str, device: str, layout: str = "dense") -> torch.Tensor:
    """Memory for `shape` in a layout."""
    kind, shape = DTYPES[dtype], list(shape)
    rank = len(shape)
    if layout == "dense" or (layout != "odd" and rank == 0):
        return torch.empty(shape, dtype=kind, device=device)
    if layout == "odd":
        return torch.empty(math.prod(shape) + 1, dtype=kind, device=device)[1:].view(shape)
    if layout == "reversed":
        return torch.empty(shape[::-1], dtype=kind, device=device).permute(*range(rank)[::-1])
    if layout == "swapped" and rank >= 2:
        swapped = [*shape[:-2], shape[-1], shape[-2]]
        return torch.empty(swapped, dtype=kind, device=device).transpose(-1, -2)
    if layout == "stepped":
        large = torch.empty([2 * size + 1 for size in shape], dtype=kind, device=device)
        return large[tuple(slice(1, 1 + 2 * size, 2) for size in shape)]
    if layout == "pitched":
        return torch.empty([*shape[:-1], shape[-1] + 3], dtype=kind, device=device)[
            ..., : shape[-1]
        ]
    if layout == "nhwc" and rank == 4:
        return torch.empty([shape[i] for i in (0, 2, 3, 1)], dtype=kind, device=device).permute(
            0, 3, 1, 2
        )
    if layout == "broadcast":
        once = [size if dim % 2 else min(size, 1) for dim, size in enumerate(shape)]
        return torch.empty(once, dtype=kind, device=device).expand(shape)
    assert layout in LAYOUTS, layout
    return torch.empty(shape, dtype=kind, device=device)


def tensor_of(data: Array, dtype: str, device: str, layout: str = "dense") -> torch.Tensor:
    """`data` rounded to a dtype, in a layout. What shares memory in "broadcast" takes one value."""
    t = empty(data.shape, dtype, device, layout)
    values = torch.from_numpy(np.ascontiguousarray(data)).to(DTYPES[dtype]).view(data.shape)
    if layout == "broadcast":
        for dim in range(0, data.ndim, 2):
            values = values.narrow(dim, 0, min(data.shape[dim], 1))
            t = t.narrow(dim, 0, min(data.shape[dim], 1))
    t.copy_(values)
    return t.expand(data.shape)


def random(
    shape: Sequence[int], dtype: str, device: str, layout: str = "dense", seed: int = 0
) -> torch.Tensor:
    """Normal values with both signs; integers over the whole of their range."""
    rng = np.random.default_rng([seed, *shape])
    data = rng.standard_normal(tuple(shape))
    if not DTYPES[dtype].is_floating_point:
        data = np.floor(data * 40).astype(np.float64)
        data = np.abs(data) if dtype in ("u8", "bool") else data
    return tensor_of(data, dtype, device, layout)


def poisoned(shape: Sequence[int], dtype: str, device: str, layout: str = "dense") -> torch.Tensor:
    """An out on which each element that is not written shows."""
    t = empty(shape, dtype, device, layout)
    kind = DTYPES[dtype]
    t.fill_(math.nan if kind.is_floating_point else 1 if dtype == "bool" else 85)
    return t


def array_of(t: torch.Tensor) -> Array:
    """The values, exactly (but for i64 beyond 2**53)."""
    values: Array = t.detach().cpu().to(torch.float64).numpy()
    return values


def assert_near(
    got: torch.Tensor,
    want: torch.Tensor,
    dtype: str,
    what: str,
    slack: torch.Tensor | float = 0.0,
) -> None:
    """assert_close of many elements, where they lie; `want` and `slack` are in float64."""
    assert got.shape == want.shape, f"{what} {dtype}: shape {got.shape}, want {want.shape}"
    rtol, atol = TOLERANCES[dtype]
    infinite = want.abs() > LARGEST.get(dtype, math.inf)
    best = torch.where(infinite, torch.full_like(want, math.inf).copysign(want), want)
    found = got.to(torch.float64)
    near = (found - best).abs() <= atol + rtol * best.abs() + slack
    if not bool((near | (found == best) | (found.isnan() & best.isnan())).all()):
        more = array_of(slack) if isinstance(slack, torch.Tensor) else slack
        assert_close(array_of(found), array_of(want), dtype, what, more)
        raise AssertionError(f"{what}: wrong where it lies, and right on the CPU")
