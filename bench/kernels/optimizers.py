"""Optimizers over a thousand tensors and over one, 100 M parameters either way, beside torch's:
fused where it has that, else foreach; capturable, as a graph wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from bench import kernels
from bench.kernels import SUFFIX, Case, Runs, Sets, random, typed
from torch.optim import adagrad, adam, adamw, rmsprop, sgd

F32, BF16 = torch.float32, torch.bfloat16
PARAMETERS = 100_000_000

Tensors = list[torch.Tensor]
Peer = Callable[[Tensors, Tensors, list[Tensors], Tensors], Any]


def adams(function: Callable[..., Any]) -> Peer:
    def run(p: Tensors, g: Tensors, states: list[Tensors], steps: Tensors) -> None:
        function(
            p, g, *states, [], steps, fused=True, capturable=True, amsgrad=False, maximize=False,
            beta1=0.9, beta2=0.999, lr=1e-3, weight_decay=0.01, eps=1e-8,
        )  # fmt: skip

    return run


def of_sgd(p: Tensors, g: Tensors, states: list[Tensors], steps: Tensors) -> None:
    buffers: list[Any] = states[0] if states else [None] * len(p)
    sgd.sgd(
        p, g, buffers, fused=True, weight_decay=0.01, momentum=0.9 if states else 0.0, lr=1e-3,
        dampening=0.0, nesterov=False, maximize=False,
    )  # fmt: skip


def of_rmsprop(p: Tensors, g: Tensors, states: list[Tensors], steps: Tensors) -> None:
    rmsprop.rmsprop(
        p, g, states[0], [], [], steps, foreach=True, capturable=kernels.DEVICE == "cuda", lr=1e-3,
        alpha=0.99, eps=1e-8, weight_decay=0.01, momentum=0.0, centered=False,
    )  # fmt: skip


def of_adagrad(p: Tensors, g: Tensors, states: list[Tensors], steps: Tensors) -> None:
    adagrad.adagrad(
        p, g, states[0], steps, foreach=True, lr=1e-3, weight_decay=0.01, lr_decay=0.0,
        eps=1e-10, maximize=False,
    )  # fmt: skip


# Ours: the states that are given, and the options; where torch's counters lie.
OPS: dict[str, tuple[int, dict[str, Any], Peer, bool]] = {
    "adamw": (2, {"step": 3}, adams(adamw.adamw), True),
    "adam": (2, {"step": 3}, adams(adam.adam), True),
    "sgd": (1, {"momentum": 0.9}, of_sgd, True),
    "rmsprop": (1, {}, of_rmsprop, True),
    "adagrad": (1, {"step": 3}, of_adagrad, False),
}


def step(op: str, dtype: torch.dtype, tensors: int, floor: float, words: str = "") -> Case:
    """`words`: "plain" is sgd without a buffer. torch has no states of f32 for p of 16 bits."""
    states, options, theirs, on_device = OPS[op]
    options = options | {"lr": 1e-3, "weight_decay": 0.01}
    if words == "plain":
        states = 0
        options.pop("momentum")
    call = typed(op, SUFFIX[dtype])
    count = PARAMETERS // tensors
    item = torch.empty(0, dtype=dtype).element_size()
    size = PARAMETERS * (3 * item + 8 * states)

    def make() -> Runs:
        def one() -> Any:
            p, g = ([random(count, dtype) for _ in range(tensors)] for _ in range(2))
            state = [[random(count, F32).abs_() for _ in p] for _ in range(states)]
            device = kernels.DEVICE if on_device else "cpu"
            return p, g, state, [torch.full((), 3.0, device=device) for _ in p]

        sets = Sets.of(size, one)

        def ours(i: int) -> None:
            p, g, state, _ = sets[i]
            call(p, g, *state, **options)

        def peer(i: int) -> None:
            theirs(*sets[i])

        return Runs(ours, peer if dtype == F32 else None, len(sets))

    shape = f"{tensors}x{count}"
    return Case(op, SUFFIX[dtype], shape, make, size, floor=floor, words=words)


def cases() -> Iterator[Case]:
    for tensors, floor in [(1000, 0.80), (1, 0.88)]:
        yield step("adamw", F32, tensors, floor)
        yield step("adamw", BF16, tensors, floor)
    yield step("adam", F32, 1000, 0.80)
    yield step("sgd", F32, 1000, 0.80)
    yield step("sgd", F32, 1, 0.85)
    yield step("sgd", F32, 1000, 0.80, "plain")
    yield step("rmsprop", F32, 1000, 0.80)
    yield step("adagrad", F32, 1000, 0.80)
    yield step("adamw", F32, 5000, 0.60)
