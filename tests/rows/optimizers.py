"""Steps of optimizers over lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from rows import Maker, Row, Sample, sample

Tensors = Sequence[torch.Tensor]


def gradients(p: Tensors, grads: Tensors, named: dict[str, Any]) -> list[torch.Tensor]:
    """With the weight decay that is added to them."""
    scale, decay = named.get("grad_scale", 1.0), named.get("weight_decay", 0.0)
    return [scale * g + decay * x for x, g in zip(p, grads, strict=True)]


def mixed(old: Tensors, new: Tensors, share: float) -> list[torch.Tensor]:
    return [share * x + (1 - share) * y for x, y in zip(old, new, strict=True)]


def sgd(p: Tensors, grads: Tensors, buf: Tensors | None = None, *, lr: Any, **named: Any) -> Any:
    momentum = named.get("momentum", 0.0)
    g = gradients(p, grads, named)
    new = g if buf is None else [momentum * b + x for b, x in zip(buf, g, strict=True)]
    step = new
    if named.get("nesterov"):
        step = [x + momentum * b for x, b in zip(g, new, strict=True)]
    moved = [x - lr * s for x, s in zip(p, step, strict=True)]
    return moved, (None if buf is None else new)


def adam(
    p: Tensors, grads: Tensors, m: Tensors, v: Tensors, *, lr: Any, step: Any, **named: Any
) -> Any:
    beta1, beta2 = named.get("beta1", 0.9), named.get("beta2", 0.999)
    g = gradients(p, grads, named)
    m = mixed(m, g, beta1)
    v = mixed(v, [x * x for x in g], beta2)
    first, second = 1 - beta1**step, 1 - beta2**step
    eps = named.get("eps", 1e-8)
    moved = [
        x - lr * (a / first) / ((b / second).sqrt() + eps) for x, a, b in zip(p, m, v, strict=True)
    ]
    return moved, m, v


def adamw(p: Tensors, *rest: Any, lr: Any, weight_decay: float = 0.0, **named: Any) -> Any:
    shrunk = [x * (1 - lr * weight_decay) for x in p]
    return adam(shrunk, *rest, lr=lr, **named)


def rmsprop(
    p: Tensors, grads: Tensors, v: Tensors, buf: Tensors | None = None, *, lr: Any, **named: Any
) -> Any:
    g = gradients(p, grads, named)
    v = mixed(v, [x * x for x in g], named.get("alpha", 0.99))
    eps, momentum = named.get("eps", 1e-8), named.get("momentum", 0.0)
    step = [x / (y.sqrt() + eps) for x, y in zip(g, v, strict=True)]
    if buf is not None:
        step = [momentum * b + s for b, s in zip(buf, step, strict=True)]
    moved = [x - lr * s for x, s in zip(p, step, strict=True)]
    return moved, v, (None if buf is None else step)


def adagrad(p: Tensors, grads: Tensors, s: Tensors, *, lr: Any, step: Any, **named: Any) -> Any:
    g = gradients(p, grads, named)
    s = [x + y * y for x, y in zip(s, g, strict=True)]
    rate = lr / (1 + (step - 1) * named.get("lr_decay", 0.0))
    eps = named.get("eps", 1e-10)
    return [x - rate * y / (z.sqrt() + eps) for x, y, z in zip(p, g, s, strict=True)], s


# ---- samples -------------------------------------------------------------------------------------

# Of the lists: none, one, several of several ranks, nothing in the middle and at the end.
SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 4), (5,), ()),
    ((17,), (0, 3), (2, 1, 3), (0,)),
    ((2, 3),),
)


def lists(t: Maker, shapes: Sequence[tuple[int, ...]], states: int) -> list[list[torch.Tensor]]:
    """p, gradients, states: positive ones, as squares are."""
    p = [t(*shape, grad=False) for shape in shapes]
    grads = [t(*shape, grad=False) for shape in shapes]
    return [p, grads, *([t.acc(*s, grad=False).abs() for s in shapes] for _ in range(states))]


def samples(states: int, *options: tuple[int, dict[str, Any]]) -> Callable[[Maker], list[Sample]]:
    """One a shape and more, each with options: how many states are given, and the named."""

    def made(t: Maker) -> list[Sample]:
        return [
            sample(*lists(t, SHAPES[i % len(SHAPES)], given), **named)
            for i, (given, named) in enumerate(options)
        ]

    assert all(given <= states for given, _ in options)
    return made


def large(states: int, **named: Any) -> Callable[[Maker], list[Sample]]:
    """More tensors than a launch of few holds, some of several blocks."""

    def made(t: Maker) -> list[Sample]:
        shapes = [(1 + i % 5,) for i in range(150)] + [(2049,), (0,), (4103,)]
        return [sample(*lists(t, shapes, states), **named)]

    return made


def refused(
    states: int, words: str, bad: dict[str, Any], **good: Any
) -> Callable[[Maker], list[tuple[Sample, str]]]:
    def made(t: Maker) -> list[tuple[Sample, str]]:
        p, grads, *state = lists(t, SHAPES[0], states)
        twice, others, *more = lists(t, [(2, 3), (2, 3)], states)
        return [
            (sample(p, grads, *state, **good | bad), words),
            (sample(p, grads[:-1], *state, **good), "must have one length"),
            (sample(p, grads[::-1], *state, **good), "its shape must be A.."),
            (sample(p, p, *state, **good), "shares memory with grads"),
            (sample(twice[:1] * 2, others, *more, **good), "shares memory with p"),
            (sample([t.turned(3, 4), *p[1:]], grads, *state, **good), "no kernel fits"),
        ]

    return made


LATE = 1_000_000

ROWS = [
    Row(
        "sgd",
        samples(
            1,
            (0, {"lr": 0.5}),
            (1, {"lr": 0.25, "momentum": 0.5, "weight_decay": 0.125}),
            (1, {"lr": 0.25, "momentum": 0.875, "nesterov": True, "grad_scale": 0.5}),
            (1, {"lr": 0.0}),
        ),
        sgd,
        large=large(1, lr=0.25, momentum=0.5),
        refused=refused(0, "momentum needs buf", {"momentum": 0.5}, lr=0.5),
    ),
    Row(
        "adam",
        samples(
            2,
            (2, {"lr": 0.5, "step": 1}),
            (2, {"lr": 0.25, "step": 7, "weight_decay": 0.125, "grad_scale": 2.0}),
            (2, {"lr": 0.25, "step": LATE, "beta1": 0.5, "beta2": 0.75, "eps": 0.5}),
            (2, {"lr": 0.25, "step": 2, "beta1": 0.0, "beta2": 0.0}),
        ),
        adam,
        slack=2.0,
        large=large(2, lr=0.25, step=3),
        refused=refused(2, "beta1 and beta2 must be below 1", {"beta2": 1.0}, lr=0.5, step=1),
    ),
    Row(
        "adamw",
        samples(
            2,
            (2, {"lr": 0.5, "step": 1}),
            (2, {"lr": 0.25, "step": 7, "weight_decay": 0.125, "grad_scale": 2.0}),
            (2, {"lr": 0.25, "step": LATE, "beta1": 0.5, "beta2": 0.75, "eps": 0.5}),
        ),
        adamw,
        slack=2.0,
        large=large(2, lr=0.25, step=3),
        refused=refused(2, "at least 1", {"step": 0}, lr=0.5, step=1),
    ),
    Row(
        "rmsprop",
        samples(
            2,
            (1, {"lr": 0.5}),
            (2, {"lr": 0.25, "momentum": 0.5, "weight_decay": 0.125, "alpha": 0.5}),
            (2, {"lr": 0.25, "momentum": 0.875, "eps": 0.5, "grad_scale": 0.5}),
        ),
        rmsprop,
        slack=2.0,
        large=large(2, lr=0.25),
        refused=refused(1, "momentum needs buf", {"momentum": 0.5}, lr=0.5),
    ),
    Row(
        "adagrad",
        samples(
            1,
            (1, {"lr": 0.5, "step": 1}),
            (1, {"lr": 0.25, "step": 5, "lr_decay": 0.25, "weight_decay": 0.125}),
            (1, {"lr": 0.25, "step": LATE, "eps": 0.5, "grad_scale": 0.5}),
        ),
        adagrad,
        slack=2.0,
        large=large(1, lr=0.25, step=3),
        refused=refused(1, "at least 0", {"lr_decay": -1.0}, lr=0.5, step=1),
    ),
]
