"""Arithmetic of one and two tensors, copies, casts, fill and where, beside torch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from bench import kernels
from bench.kernels import FLOATS, KIB, MIB, SIZES, SUFFIX, Case, Runs, Sets, random, typed

F32, BF16 = torch.float32, torch.bfloat16
FLOOR = 64 * MIB  # bytes of a tensor from which on a share of the copy rate is asked for
FEW = [(F32, 4 * KIB), (F32, 64 * MIB), (BF16, 64 * MIB)]
ALL = [(dtype, size) for dtype in FLOATS for size in SIZES]


def text(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def flat(
    op: str,
    inputs: int,
    dtype: torch.dtype,
    size: int,
    peer: Callable[..., Any],
    positive: bool = False,
    words: str = "",
    **options: Any,
) -> Case:
    """Of dense tensors of `size` bytes; `peer(*inputs, out)`."""
    n = size // dtype.itemsize
    moved = (inputs + 1) * size

    def made() -> tuple[torch.Tensor, ...]:
        tensors = [random(n, dtype) for _ in range(inputs + 1)]
        return tuple(x.abs_() if positive else x for x in tensors)

    def make() -> Runs:
        call = typed(op, SUFFIX[dtype])
        sets = Sets.of(moved, made)
        return Runs(lambda i: call(*sets[i], **options), lambda i: peer(*sets[i]), len(sets))

    floor = 0.85 if size >= FLOOR else None
    return Case(op, SUFFIX[dtype], text(size), make, bytes=moved, floor=floor, words=words)


def out_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *tensors: function(*tensors[:-1], out=tensors[-1])


def arithmetic() -> Iterator[Case]:
    for dtype, size in ALL:
        yield flat("add", 2, dtype, size, out_of(torch.add))
    for dtype, size in FEW:
        for op in ("sub", "mul", "div"):
            yield flat(op, 2, dtype, size, out_of(getattr(torch, op)))
        for op in ("neg", "exp"):
            yield flat(op, 1, dtype, size, out_of(getattr(torch, op)))
        for op in ("log", "sqrt"):
            yield flat(op, 1, dtype, size, out_of(getattr(torch, op)), positive=True)
        times = lambda x, out: torch.mul(x, 0.5, out=out)  # noqa: E731
        yield flat("scale", 1, dtype, size, times, factor=0.5)


def views() -> Iterator[Case]:
    """A column of elements less, so rows of odd length and a pitch; a row or a column for all."""
    for dtype in (F32, BF16):
        columns = 8192
        shape = (64 * MIB // dtype.itemsize // columns, columns)

        def pitched(dtype: torch.dtype = dtype, shape: tuple[int, int] = shape) -> Any:
            return tuple(random(shape, dtype)[:, :-1] for _ in range(3))

        def row(dtype: torch.dtype = dtype, shape: tuple[int, int] = shape) -> Any:
            return random(shape, dtype), random(shape[1], dtype), random(shape, dtype)

        def column(dtype: torch.dtype = dtype, shape: tuple[int, int] = shape) -> Any:
            return random(shape, dtype), random((shape[0], 1), dtype), random(shape, dtype)

        for words, made, tensors in (
            ("pitched", pitched, 3),
            ("a row", row, 2),
            ("a column", column, 2),
        ):
            moved = tensors * math.prod(shape) * dtype.itemsize

            def make(made: Any = made, moved: int = moved, suffix: str = SUFFIX[dtype]) -> Runs:
                call, sets = typed("add", suffix), Sets.of(moved, made)
                peer = out_of(torch.add)
                return Runs(lambda i: call(*sets[i]), lambda i: peer(*sets[i]), len(sets))

            yield Case("add", SUFFIX[dtype], "64 MiB", make, bytes=moved, floor=0.85, words=words)


def copies() -> Iterator[Case]:
    for dtype, size in FEW:
        yield flat("copy", 1, dtype, size, lambda x, out: out.copy_(x))
    for dtype, side in ((F32, 8192), (BF16, 8192), (BF16, 512)):
        moved = 2 * side * side * dtype.itemsize

        def make(dtype: torch.dtype = dtype, side: int = side, moved: int = moved) -> Runs:
            call = typed("copy", SUFFIX[dtype])
            sets = Sets.of(
                moved, lambda: (random((side, side), dtype).mT, random((side, side), dtype))
            )
            return Runs(lambda i: call(*sets[i]), lambda i: sets[i][1].copy_(sets[i][0]), len(sets))

        floor = 0.8 if moved >= FLOOR else None
        shape = f"{side}x{side}"
        yield Case(
            "copy", SUFFIX[dtype], shape, make, bytes=moved, floor=floor, words="transposing"
        )


def whole(n: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(0, 2, (n,), device=kernels.DEVICE).to(dtype)


def casts() -> Iterator[Case]:
    words = {**SUFFIX, torch.int8: "i8", torch.int64: "i64", torch.bool: "bool"}
    pairs = [(F32, BF16), (BF16, F32), (F32, torch.int8), (torch.int64, F32), (torch.bool, F32)]
    for source, target in pairs:
        for n in (KIB, 16 * MIB):
            moved = n * (source.itemsize + target.itemsize)

            def make(
                n: int = n, source: Any = source, target: Any = target, moved: int = moved
            ) -> Runs:
                call = typed("cast", f"{words[source]}_{words[target]}")
                sets = Sets.of(moved, lambda: (whole(n, source), whole(n, target)))
                return Runs(
                    lambda i: call(*sets[i]), lambda i: sets[i][1].copy_(sets[i][0]), len(sets)
                )

            floor = 0.85 if n > KIB and min(source.itemsize, target.itemsize) > 1 else None
            pair = f"{words[source]} to {words[target]}"
            yield Case("cast", pair, f"{n} elements", make, bytes=moved, floor=floor)


def choices() -> Iterator[Case]:
    for dtype, size in FEW:
        n = size // dtype.itemsize

        def filled(dtype: torch.dtype = dtype, n: int = n, size: int = size) -> Runs:
            call, sets = typed("fill", SUFFIX[dtype]), Sets.of(size, lambda: random(n, dtype))
            return Runs(lambda i: call(sets[i], value=1.5), lambda i: sets[i].fill_(1.5), len(sets))

        def chosen(dtype: torch.dtype = dtype, n: int = n, size: int = size) -> Runs:
            call = typed("where", SUFFIX[dtype])
            sets = Sets.of(
                3 * size + n,
                lambda: (whole(n, torch.bool), *(random(n, dtype) for _ in range(3))),
            )
            peer = out_of(torch.where)
            return Runs(lambda i: call(*sets[i]), lambda i: peer(*sets[i]), len(sets))

        floor = 0.85 if size >= FLOOR else None
        yield Case("fill", SUFFIX[dtype], text(size), filled, bytes=size, floor=floor)
        yield Case("where", SUFFIX[dtype], text(size), chosen, bytes=3 * size + n, floor=floor)


def cases() -> Iterator[Case]:
    yield from arithmetic()
    yield from views()
    yield from copies()
    yield from casts()
    yield from choices()
