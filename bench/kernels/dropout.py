"""dropout beside torch's native_dropout, which writes its mask too."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from bench import kernels
from bench.kernels import FLOATS, MIB, SIZES, SUFFIX, Case, Runs, Sets, random, typed


def dropout(size: int, dtype: torch.dtype) -> Case:
    n = size // dtype.itemsize

    def make() -> Runs:
        call = typed("dropout", SUFFIX[dtype])
        x = Sets.of(2 * size, lambda: random(n, dtype))
        out = Sets.of(2 * size, lambda: random(n, dtype))
        offset = torch.zeros(1, dtype=torch.int64, device=kernels.DEVICE)
        return Runs(
            lambda i: call(x[i], out[i], seed=1, offset=offset, p=0.1),
            lambda i: torch.native_dropout(x[i], 0.1, True),
            len(x),
        )

    floor = 0.8 if size >= 64 * MIB else None
    return Case("dropout", SUFFIX[dtype], f"{n}", make, bytes=2 * size, floor=floor)


def cases() -> Iterator[Case]:
    for dtype in FLOATS:
        for size in SIZES:
            yield dropout(size, dtype)
