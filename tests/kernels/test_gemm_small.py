"""gemm where a product is small and its latency counts: a vector, few columns, few k; in every
layout, at every address, with every epilogue."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from kernels.calls import call, skip_without
from kernels.tensors import empty, poisoned, random
from kernels.test_gemm import LAYOUTS, check, matrix

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("KERNELS-gemm-small")]

# M, N, K. A vector: x together by 2 and 8 packs, by 1, 4 and 32 elements; k together by packs, by 8
# and 32 lanes; more than one round of loads; a matrix too large for the quick way.
VECTORS = [
    (1, 512, 784), (1, 2400, 100), (1, 10, 1568), (1, 301, 77), (1, 1201, 33), (1, 4100, 65),
    (1, 512, 10), (513, 1, 512), (40, 1, 4200), (2048, 1, 600), (1, 1040, 1100),
]  # fmt: skip
# Each number of columns that a kernel is made for, and one less; rows by blocks and by warps; k
# past one chunk, and in clusters of 2, 4 and 8.
NARROW = [
    (32, 10, 512), (533, 10, 132), (2, 2, 1), (33, 4, 515), (65, 8, 300), (256, 9, 1568),
    (7, 16, 700), (600, 13, 36), (512, 10, 32), (64, 10, 4096), (512, 10, 400), (40, 16, 2051),
    (72, 5, 1025), (30, 10, 9000),
]  # fmt: skip
SHALLOW = [(2, 17, 1), (784, 512, 1), (256, 512, 10), (1200, 1028, 10), (70, 130, 16), (33, 20, 3)]
SIZES = VECTORS + NARROW + SHALLOW


def on(device: str) -> list[tuple[int, int, int]]:
    """A processor has one way for all of them: a few will do."""
    return SIZES if device == "cuda" else SIZES[::7]


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_small_products(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for at, (m, n, k) in enumerate(on(device)):
        for i, (first, second) in enumerate(itertools.product(LAYOUTS, LAYOUTS)):
            if (i + at) % (3 if device == "cuda" else 6):
                continue
            a = matrix((m, k), dtype, device, first, 1)
            b = matrix((k, n), dtype, device, second, 2)
            check(a, b, dtype, what=f"{first} {second}")


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_their_epilogues(device: str, dtype: str) -> None:
    """Each part alone and all of them; c is the out, dense and at an odd address."""
    skip_without(dtype, device)
    for i, (m, n, k) in enumerate(on(device)):
        a = matrix((m, k), dtype, device, LAYOUTS[i % 5], 1)
        b = matrix((k, n), dtype, device, LAYOUTS[i // 5 % 5], 2)
        bias = random((n,), dtype, device, seed=3)
        for act, layout in (("none", "odd"), ("relu", "pitched"), ("gelu", "dense")):
            c = random((m, n), dtype, device, layout, seed=4)
            out = empty((m, n), dtype, device, layout)
            check(a, b, dtype, bias=bias, act=act, out=out)
            more: dict[str, Any] = {"beta": 0.5, "alpha": -2.0, "act": act}
            check(a, b, dtype, c=c, **more)
            check(a, b, dtype, bias=bias, c=c, **more)
            call("gemm", dtype, a, b, bias, c, out, **more)
            call("gemm", dtype, a, b, bias, c, c, **more)
            assert torch.equal(out, c), (m, n, k, act)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-gemm-bits")
def test_their_bits_at_every_run() -> None:
    for m, n, k in SIZES:
        for turned in (False, True):
            a = matrix((m, k), "f32", "cuda", "pitched columns" if turned else "dense", 1)
            b = random((k, n), "f32", "cuda", seed=2)
            outs = [poisoned((m, n), "f32", "cuda") for _ in range(20)]
            for out in outs:
                call("gemm", "f32", a, b, None, None, out)
            assert all(torch.equal(out, outs[0]) for out in outs), (m, n, k)


@pytest.mark.gpu
def test_what_is_outside_is_not_used() -> None:
    """NaN and infinity around the operands, and in k that other lanes have, stay where they are."""
    for m, n, k in SIZES:
        room_a = torch.full((m + 2, k + 3), float("nan"), device="cuda")
        room_b = torch.full((k + 2, n + 5), float("inf"), device="cuda")
        a, b = room_a[1 : m + 1, 1 : k + 1], room_b[1 : k + 1, 2 : n + 2]
        a.copy_(random((m, k), "f32", "cuda", seed=1))
        b.copy_(random((k, n), "f32", "cuda", seed=2))
        room_out = torch.full((m + 2, n + 3), 7.0, device="cuda")
        check(a, b, "f32", out=room_out[1 : m + 1, 1 : n + 1], what="inside")
        room_out[1 : m + 1, 1 : n + 1] = 7.0
        assert bool((room_out == 7.0).all()), (m, n, k)
