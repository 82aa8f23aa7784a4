"""Matrix products: rows or columns as operands, batches, an epilogue, few rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from bench.kernels import SUFFIX, Case, Runs, Sets, random, typed

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
# Torch's time over ours that each shape shall reach in 16 bits; f32 shall reach F32_MARK in all.
HALF_MARKS = {
    (1024, 1024, 1024): 0.97, (2048, 2048, 2048): 0.97, (4096, 4096, 1024): 1.05,
    (1, 4096, 4096): 1.05, (16, 4096, 4096): 1.05, (64, 4096, 4096): 0.95,
    (256, 4096, 4096): 0.95, (4095, 4095, 4095): 3.5, (4104, 4104, 4104): 0.95,
}  # fmt: skip
F32_MARK = 0.85
TF32_MARK = 0.94
# What training of small networks is made of: rows in a batch, layers of (in, out).
BATCHES = (32, 256, 4096)
LAYERS = ((784, 512), (512, 512))


def operand(rows: int, columns: int, lead: tuple[int, ...], order: str, dtype: Any) -> Any:
    if order == "r":
        return random((*lead, rows, columns), dtype)
    return random((*lead, columns, rows), dtype).mT


def product(
    dtype: torch.dtype, m: int, n: int, k: int, order: str = "rr", batch: int = 0, act: str = "",
    mark: float | None = None, tf32: bool = False, kernel: str = "",
) -> Case:  # fmt: skip
    """`order`: r or c for a and b each, whose rows or columns lie together; with act, a bias too,
    beside torch's product alone. tf32: allowed to both."""
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
        options |= {"precision": "tf32"} if tf32 else {}
        options |= {"kernel": kernel} if kernel else {}

        def ours(i: int) -> None:
            a, b, out = sets[i]
            call(a, b, bias, None, out, **options)

        def theirs(i: int) -> None:
            a, b, out = sets[i]
            torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.matmul(a, b, out=out)
            torch.backends.cuda.matmul.allow_tf32 = False

        return Runs(ours, theirs, len(sets))

    shape = "x".join(str(d) for d in (*lead, m, n, k))
    flops = 2.0 * m * n * k * max(batch, 1)
    words = " ".join(w for w in (order, act, kernel or ("tf32" if tf32 else "")) if w)
    return Case("gemm", SUFFIX[dtype], shape, make, flops=flops, words=words, ratio=mark)


def of_networks() -> Iterator[Case]:
    """A layer forward, and the gradients of its weights and, but in the first one, its inputs; the
    largest batch by weights of a row an output too."""
    for batch in BATCHES:
        for fan_in, fan_out in LAYERS:
            yield product(F32, batch, fan_out, fan_in, act="relu", mark=F32_MARK)
            yield product(F32, fan_in, fan_out, batch, "cr", mark=F32_MARK)
        fan_in, fan_out = LAYERS[-1]
        yield product(F32, batch, fan_in, fan_out, "rc", mark=F32_MARK)
    for fan_in, fan_out in LAYERS:
        yield product(F32, BATCHES[-1], fan_out, fan_in, "rc", act="relu", mark=F32_MARK)


def cases() -> Iterator[Case]:
    for order in ("rr", "rc", "cr", "cc"):
        yield product(BF16, 4096, 4096, 4096, order, mark=1.0)
    for order in ("rr", "rc", "cr"):
        yield product(F32, 4096, 4096, 4096, order, mark=F32_MARK)
    for order in ("rr", "rc"):
        yield product(F32, 4096, 4096, 4096, order, mark=TF32_MARK, tf32=True)
    yield product(F32, 4096, 4096, 4096, tf32=True, kernel="mma_tf32")
    yield product(BF16, 4096, 4096, 4096, mark=0.60, kernel="mma")
    yield product(F16, 4096, 4096, 4096, mark=1.0)
    for (m, n, k), mark in HALF_MARKS.items():
        yield product(BF16, m, n, k, mark=mark)
        if (m, n, k) not in ((64, 4096, 4096), (4104, 4104, 4104)):
            yield product(F32, m, n, k, mark=F32_MARK)
    for m in (1, 16, 256):
        yield product(BF16, m, 4096, 4096, "rc", mark=HALF_MARKS[m, 4096, 4096])
    yield product(F32, 1, 4096, 4096, "rc", mark=F32_MARK)
    for dtype, mark in ((BF16, 1.0), (F32, F32_MARK)):
        yield product(dtype, 512, 512, 512, batch=64, mark=mark)
    yield product(BF16, 8192, 8192, 8192, mark=1.0)
    yield product(BF16, 4096, 4096, 1024, act="relu", mark=1.02)
    yield product(BF16, 4096, 4096, 1024, act="gelu")
    yield from of_networks()
