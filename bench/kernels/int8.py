"""8-bit integers: products beside torch's _int_mm (cuBLASLt), of 32-bit outs and no epilogue;
convolutions beside cuDNN's of the same layer in f16, since torch has none of integers on CUDA."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from bench import kernels
from bench.kernels import Case, Runs, Sets, random, typed
from bench.kernels.conv import LAYERS, Layer

F16, I8, I32 = torch.float16, torch.int8, torch.int32
MARK = 0.90  # of cuBLASLt's speed

aten: Any = torch.ops.aten


def codes(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=I8, device=kernels.DEVICE)


def number(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(value, dtype=dtype, device=kernels.DEVICE)


def epilogue(columns: int) -> tuple[torch.Tensor, ...]:
    """All that is optional, as quantised layers have it."""
    steps = torch.rand(columns, device=kernels.DEVICE) * 0.01 + 0.001
    bias = torch.randint(-9999, 9999, (columns,), dtype=I32, device=kernels.DEVICE)
    return number(0.02), steps, number(3, I32), bias, number(0.5), number(-4, I32)


def product(m: int, n: int, k: int, order: str = "rc", out: str = "i32") -> Case:
    """`order`: r or c for a and b each, whose rows or columns lie together."""
    plain = out == "i32"

    def make() -> Runs:
        call = typed("gemm_i8", f"i8_{out}")
        kind = I32 if plain else I8

        def one() -> Any:
            b = codes(k, n) if order[1] == "r" else codes(n, k).mT
            sums = torch.empty(m, n, dtype=I32, device=kernels.DEVICE)
            return codes(m, k), b, sums if plain else torch.empty_like(sums, dtype=kind), sums

        sets = Sets.of(m * k + k * n + m * n * (4 if plain else 5), one)
        rest = (None,) * 6 if plain else epilogue(n)
        options = {} if plain else {"act": "relu"}

        def ours(i: int) -> None:
            a, b, c, _ = sets[i]
            call(a, b, *rest, c, **options)

        def theirs(i: int) -> None:
            a, b, _, sums = sets[i]
            torch._int_mm(a, b, out=sums)

        # torch has none of 16 rows and fewer
        return Runs(ours, theirs if m > 16 else None, len(sets))

    words = order if plain else f"{order} requantised"
    shape = f"{m}x{n}x{k}"
    ratio = MARK if plain and m > 16 else None
    return Case("gemm_i8", out, shape, make, flops=2.0 * m * n * k, words=words, ratio=ratio)


def convolution(layer: Layer, out: str = "i8") -> Case:
    x_shape, w_shape, out_shape = layer.shapes
    last: Any = torch.channels_last

    def make() -> Runs:
        call, kind = typed("conv2d_i8", f"i8_{out}"), I8 if out == "i8" else I32

        def one() -> dict[str, torch.Tensor]:
            made = {"x": codes(*x_shape), "w": codes(*w_shape)}
            made |= {"out": torch.empty(out_shape, dtype=kind, device=kernels.DEVICE)}
            made |= {"fx": random(x_shape, F16), "fw": random(w_shape, F16)}
            return {name: t.contiguous(memory_format=last) for name, t in made.items()}

        sets = Sets.of(math.prod(x_shape) + math.prod(w_shape) + math.prod(out_shape), one)
        scale, steps, _, bias, out_scale, out_zero = epilogue(layer.outputs)
        places = [layer.stride] * 2, [layer.pad] * 2, [1, 1]

        def ours(i: int) -> None:
            t = sets[i]
            call(
                t["x"], t["w"], scale, steps, None, bias, out_scale, out_zero, t["out"],
                act="relu", **layer.named,
            )  # fmt: skip

        def theirs(i: int) -> Any:
            t = sets[i]
            return aten.convolution(
                t["fx"], t["fw"], None, *places, False, [0, 0], layer.groups
            )  # fmt: skip

        return Runs(ours, theirs, len(sets))

    words = "nhwc requantised beside f16"
    return Case("conv2d_i8", out, layer.name, make, flops=layer.flops, words=words, ratio=None)


def cases() -> Iterator[Case]:
    for size in (4096, 8192):
        yield product(size, size, size)
    yield product(4096, 4096, 1024)
    yield product(4096, 4096, 4096, "rr")
    for m in (16, 32):
        yield product(m, 4096, 4096)
    yield product(4096, 4096, 4096, out="i8")
    for at in (2, 3, 5, 7, 8, 9):
        yield convolution(LAYERS[at])
