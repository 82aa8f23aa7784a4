"""Matrix products: rows or columns as operands, batches, an epilogue, few rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from bench.kernels import SUFFIX, Case, Runs, Sets, random, typed

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
SHAPES = [
    (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 1024), (1, 4096, 4096),
    (16, 4096, 4096), (256, 4096, 4096), (4095, 4095, 4095),
]  # fmt: skip


def operand(rows: int, columns: int, lead: tuple[int, ...], order: str, dtype: Any) -> Any:
    if order == "r":
        return random((*lead, rows, columns), dtype)
    return random((*lead, columns, rows), dtype).mT


def product(
    dtype: torch.dtype, m: int, n: int, k: int, order: str = "rr", batch: int = 0, act: str = ""
) -> Case:
    """`order`: r or c for a and b each, whose rows or columns lie together."""
    lead = (batch,) if batch else ()
    call = typed("gemm", SUFFIX[dtype])
    size = torch.empty(0, dtype=dtype).element_size()

    def make() -> Runs:
        def one() -> Any:
            a, b = operand(m, k, lead, order[0], dtype), operand(k, n, lead, order[1], dtype)
            return a, b, random((*lead, m, n), dtype)

        sets = Sets.of((m * k + k * n + m * n) * max(batch, 1) * size, one)
        bias = random((n,), dtype) if act else None
        options = {"act": act} if act else {}

        def ours(i: int) -> None:
            a, b, out = sets[i]
            call(a, b, bias, None, out, **options)

        def theirs(i: int) -> None:
            a, b, out = sets[i]
            torch.matmul(a, b, out=out)

        return Runs(ours, theirs, len(sets))

    shape = "x".join(str(d) for d in (*lead, m, n, k))
    flops = 2.0 * m * n * k * max(batch, 1)
    words = " ".join(w for w in (order, act) if w)
    return Case("gemm", SUFFIX[dtype], shape, make, flops=flops, words=words, ratio=None)


def cases() -> Iterator[Case]:
    for order in ("rr", "rc", "cr", "cc"):
        yield product(BF16, 4096, 4096, 4096, order)
    for order in ("rr", "rc", "cr"):
        yield product(F32, 4096, 4096, 4096, order)
    yield product(F16, 4096, 4096, 4096)
    for dtype in (BF16, F32):
        for m, n, k in SHAPES:
            yield product(dtype, m, n, k)
        yield product(dtype, 1, 4096, 4096, "rc")
        yield product(dtype, 512, 512, 512, batch=64)
    yield product(BF16, 8192, 8192, 8192)
    yield product(BF16, 4096, 4096, 1024, act="gelu")
