"""embedding and its gradient, with words as they come and one word alone, and one_hot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from bench.kernels import SUFFIX, Case, Runs, Sets, random, typed

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
V, D = 50257, 768
TOKENS = (8, 1024)

aten: Any = torch.ops.aten


def tokens(shape: tuple[int, ...], words: str, device: torch.device) -> torch.Tensor:
    """Any words alike, as often as in texts (the r-th word 1/r as often as the first), or one."""
    if words == "one word":
        return torch.full(shape, 11, device=device)
    if words == "as in texts":
        ranks = torch.rand(shape, device=device).mul(float(torch.tensor(V).log())).exp()
        return ranks.long().clamp(1, V) - 1
    return torch.randint(0, V, shape, device=device)


def embedding(shape: tuple[int, ...], dtype: torch.dtype, words: str = "") -> Case:
    count = torch.Size(shape).numel()
    size = count * (2 * D * dtype.itemsize + 8)

    def make() -> Runs:
        call = typed("embedding", f"{SUFFIX[dtype]}_i64")

        def one() -> tuple[torch.Tensor, ...]:
            weight = random((V, D), dtype)
            idx = tokens(shape, words, weight.device)
            return weight, idx, random((*shape, D), dtype)

        sets = Sets.of(size, one)

        def torchs(i: int) -> Any:  # what F.embedding calls: one out for all would stay in the L2
            weight, idx, out = sets[i]
            return torch.index_select(weight, 0, idx.view(-1), out=out.view(-1, D))

        return Runs(lambda i: call(*sets[i]), torchs, len(sets))

    name = f"{V}x{D}, {'x'.join(map(str, shape))} tokens"
    return Case("embedding", SUFFIX[dtype], name, make, bytes=size, words=words)


def embedding_bwd(shape: tuple[int, ...], dtype: torch.dtype, words: str = "") -> Case:
    count = torch.Size(shape).numel()
    size = (count + V) * D * dtype.itemsize + 8 * count

    def make() -> Runs:
        call = typed("embedding_bwd", f"{SUFFIX[dtype]}_i64")

        def one() -> tuple[torch.Tensor, ...]:
            gy, gw = random((*shape, D), dtype), random((V, D), dtype)
            return gy, tokens(shape, words, gy.device), gw

        sets = Sets.of(size, one)

        def torchs(i: int) -> Any:
            gy, idx, _ = sets[i]
            return aten.embedding_dense_backward(gy, idx, V, -1, False)

        return Runs(lambda i: call(*sets[i], V=V), torchs, len(sets))

    name = f"{V}x{D}, {'x'.join(map(str, shape))} tokens"
    return Case("embedding_bwd", SUFFIX[dtype], name, make, bytes=size, words=words)


def one_hot(count: int, classes: int) -> Case:
    size = 8 * count * (classes + 1)

    def make() -> Runs:
        call = typed("one_hot", "i64_i64")

        def one() -> tuple[torch.Tensor, torch.Tensor]:
            out = random((count, classes), F32).long()
            return torch.randint(0, classes, (count,), device=out.device), out

        sets = Sets.of(size, one)

        def torchs(i: int) -> Any:
            idx, out = sets[i]
            return out.zero_().scatter_(1, idx[:, None], 1)

        return Runs(lambda i: call(*sets[i], classes=classes), torchs, len(sets))

    return Case("one_hot", "i64", f"{count} of {classes}", make, bytes=size)


def cases() -> Iterator[Case]:
    for dtype in (F32, F16, BF16):
        yield embedding(TOKENS, dtype)
        yield embedding_bwd(TOKENS, dtype)
    for words in ("as in texts", "one word"):
        yield embedding(TOKENS, BF16, words)
        yield embedding_bwd(TOKENS, BF16, words)
    yield embedding((64,), F32)
    yield embedding_bwd((64,), F32)
    yield embedding((64, 2048), BF16)
    yield embedding_bwd((64, 2048), BF16)
    yield one_hot(65536, 1000)
    yield one_hot(4096, 10)
