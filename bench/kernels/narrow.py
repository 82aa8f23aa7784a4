"""Small products, whose latency counts: a vector, ten columns, ten k; of classifiers at each batch
size, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from bench.kernels import Case
from bench.kernels.gemm import product

F32 = torch.float32
BATCHES = (32, 256, 4096)
FEATURES, CLASSES = 512, 10


def cases() -> Iterator[Case]:
    for n, k, order in (
        (512, 784, "rr"), (512, 512, "rr"), (10, 512, "rr"), (10, 1568, "rr"),
        (512, 10, "rc"), (512, 512, "rc"), (1568, 10, "rc"),
    ):  # fmt: skip
        yield product(F32, 1, n, k, order, mark=0.97)
    for m in BATCHES:
        yield product(F32, m, CLASSES, FEATURES, mark=0.97)
        yield product(F32, FEATURES, CLASSES, m, "cr", mark=0.97)
        yield product(F32, m, FEATURES, CLASSES, "rc", mark=0.97)
    yield product(F32, 256, CLASSES, 1568, mark=0.97)
    yield product(F32, 1568, CLASSES, 256, "cr", mark=0.97)
    yield product(F32, 256, 1568, CLASSES, "rc", mark=0.97)
    yield product(F32, 784, 512, 1, "cr", mark=0.97)
    yield product(torch.bfloat16, 1, 512, 784, mark=0.97)
