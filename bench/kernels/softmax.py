"""softmax, log_softmax and cross entropy, rows 1K, 8K and 64K by the widths of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from bench.kernels import FLOATS, MIB, SUFFIX, Case, Runs, Sets, random, typed

ROWS = (1 << 10, 1 << 13, 1 << 16)
WIDTHS = (128, 256, 1024, 4096, 32768, 50257)
SOME = (256, 4096, 50257)
LARGE = 64 * MIB
MOST = 1 << 30  # elements: beyond, all that is measured is memory


def floor_of(width: int, size: int, dtype: torch.dtype, backward: bool) -> float | None:
    if dtype != torch.bfloat16 or size < LARGE or backward:
        return None
    return 0.85 if width >= 4096 else 0.5 if width >= 256 else None


def case(
    op: str, dtype: torch.dtype, rows: int, width: int, passes: int, make: Callable[[], Runs]
) -> Iterator[Case]:
    size = rows * width * dtype.itemsize
    yield Case(
        op,
        SUFFIX[dtype],
        f"{rows}x{width}",
        make,
        bytes=passes * size,
        floor=floor_of(width, size, dtype, "bwd" in op),
    )


def forward(op: str, dtype: torch.dtype, rows: int, width: int) -> Runs:
    run = typed(op, SUFFIX[dtype])
    theirs = getattr(torch, op)
    sets = Sets.of(
        2 * rows * width * dtype.itemsize,
        lambda: (random((rows, width), dtype), random((rows, width), dtype)),
    )
    return Runs(
        lambda i: run(*sets[i]),
        lambda i: theirs(sets[i][0], -1, out=sets[i][1]),
        len(sets),
    )


def backward(op: str, dtype: torch.dtype, rows: int, width: int) -> Runs:
    run = typed(f"{op}_bwd", SUFFIX[dtype])
    theirs = getattr(torch.ops.aten, f"_{op}_backward_data")
    into = "grad_input" if op == "softmax" else "out"

    def make() -> tuple[torch.Tensor, ...]:
        y = getattr(torch, op)(random((rows, width), dtype), -1)
        return random((rows, width), dtype), y, torch.empty_like(y)

    sets = Sets.of(3 * rows * width * dtype.itemsize, make)
    return Runs(
        lambda i: run(*sets[i]),
        lambda i: theirs(*sets[i][:2], -1, dtype, **{into: sets[i][2]}),
        len(sets),
    )


def loss(dtype: torch.dtype, rows: int, width: int) -> Runs:
    run = typed("cross_entropy", f"{SUFFIX[dtype]}_i64")

    def make() -> tuple[torch.Tensor, ...]:
        x = random((rows, width), dtype)
        return x, torch.randint(width, (rows,), device=x.device), x.new_empty(())

    sets = Sets.of(rows * width * dtype.itemsize, make)
    return Runs(
        lambda i: run(sets[i][0], sets[i][1], None, sets[i][2]),
        lambda i: torch.nn.functional.cross_entropy(sets[i][0], sets[i][1]),
        len(sets),
    )


def loss_backward(dtype: torch.dtype, rows: int, width: int) -> Runs:
    """torch's in two steps, as autograd takes them: of nll_loss and of log_softmax."""
    run = typed("cross_entropy_bwd", f"{SUFFIX[dtype]}_i64")
    aten = torch.ops.aten

    def make() -> tuple[torch.Tensor, ...]:
        x = random((rows, width), dtype)
        target = torch.randint(width, (rows,), device=x.device)
        lse = torch.logsumexp(x.float(), 1)
        count = torch.tensor(float(rows), device=x.device)
        return x.new_ones(()), x, target, lse, count, torch.empty_like(x), x.log_softmax(1)

    def theirs(i: int) -> None:
        gy, _, target, _, count, gx, y = sets[i]
        g = aten.nll_loss_backward(gy, y, target, None, 1, -100, count.to(dtype))
        aten._log_softmax_backward_data(g, y, 1, dtype, out=gx)

    sets = Sets.of(3 * rows * width * dtype.itemsize, make)
    return Runs(
        lambda i: run(*sets[i][:5], None, sets[i][5]),
        theirs,
        len(sets),
    )


def cases() -> Iterator[Case]:
    """All shapes in bf16; of the other dtypes and ops one for each way that a row is held."""
    for rows in ROWS:
        for width in WIDTHS:
            at = (torch.bfloat16, rows, width)
            if rows * width <= MOST:
                yield from case("softmax", *at, 2, partial(forward, "softmax", *at))
                yield from case("cross_entropy", *at, 1, partial(loss, *at))
    for width in WIDTHS:
        for dtype in FLOATS:
            at = (dtype, ROWS[1], width)
            if dtype != torch.float16:
                yield from case("softmax_bwd", *at, 3, partial(backward, "softmax", *at))
            if dtype == torch.float32 or (dtype == torch.float16 and width in SOME):
                yield from case("softmax", *at, 2, partial(forward, "softmax", *at))
        at = (torch.bfloat16, ROWS[1], width)
        yield from case("cross_entropy_bwd", *at, 2, partial(loss_backward, *at))
        if width in SOME:
            yield from case("log_softmax", *at, 2, partial(forward, "log_softmax", *at))
            yield from case("log_softmax_bwd", *at, 3, partial(backward, "log_softmax", *at))
