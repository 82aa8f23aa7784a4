"""Calls of sum, written by hand: the verdict is what torch or numpy say of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from kernels.calls import Call, by_name, check_call

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("KERNELS-calls")]


def t(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(float(np.prod(shape))).remainder(11).reshape(shape).sub(3).div(4).to(dtype)


def sums() -> Iterator[Call]:
    x = t(2, 3, 4)
    for axes in [[0], [1], [2], [0, 1], [2, 0], [-1], [-1, -3], [0, 1, 2]]:
        for keep in (False, True):
            want = x.sum(axes, keepdim=keep)
            options = {"axes": axes, "keepdim": keep}
            yield Call(
                f"over {axes}, keepdim {keep}", "f32", (x, torch.empty_like(want)), want, options
            )
    yield Call("over all", "f32", (x, torch.empty(())), x.sum())
    yield Call(
        "over all, kept",
        "f32",
        (x, torch.empty(1, 1, 1)),
        x.sum((0, 1, 2), keepdim=True),
        {"keepdim": True},
    )
    yield Call(
        "over no axis", "f32", (x, torch.empty(2, 3, 4)), x.numpy().sum(axis=()), {"axes": []}
    )
    for dtype, kind in [("f16", torch.float16), ("bf16", torch.bfloat16), ("f64", torch.float64)]:
        y = t(3, 40, dtype=kind)
        yield Call(
            f"{dtype}", dtype, (y, torch.empty(3, dtype=kind)), y.double().sum(1), {"axes": [1]}
        )
    yield Call("a number", "f32", (t(), torch.empty(())), t())
    yield Call("nothing", "f32", (t(0), torch.ones(())), torch.zeros(()))
    yield Call("an empty axis", "f32", (t(3, 0), torch.ones(3)), torch.zeros(3), {"axes": [1]})
    yield Call("transposed", "f32", (t(4, 3).T, torch.empty(3)), t(4, 3).sum(0), {"axes": [1]})
    yield Call("expanded", "f32", (t(4).expand(5, 4), torch.empty(4)), t(4) * 5, {"axes": [0]})
    yield Call("every third", "f32", (t(30)[::3], torch.empty(())), t(30)[::3].sum())
    back = np.arange(12, dtype="f4").reshape(3, 4)[::-1, ::-1]
    yield Call("backwards", "f32", (back, np.empty(3, "f4")), back.sum(axis=1), {"axes": [1]})
    yield Call("axes as a tuple", "f32", (x, torch.empty(4)), x.sum((0, 1)), {"axes": (0, 1)})
    yield Call(
        "out keeps the dim, keepdim does not", "f32", (x, torch.empty(1, 3, 4)), None, {"axes": [0]}
    )
    yield Call(
        "out lacks the dim", "f32", (x, torch.empty(3, 4)), None, {"axes": [0], "keepdim": True}
    )
    yield Call("out too long", "f32", (x, torch.empty(3, 5)), None, {"axes": [0]})
    yield Call("an axis beyond the rank", "f32", (x, torch.empty(3, 4)), None, {"axes": [3]})
    yield Call("an axis twice", "f32", (x, torch.empty(3, 4)), None, {"axes": [0, 0]})
    yield Call(
        "an axis twice, once negative", "f32", (x, torch.empty(3, 4)), None, {"axes": [0, -3]}
    )
    yield Call("out is not dense", "f32", (x, torch.empty(4, 3).T), None, {"axes": [0]})
    yield Call("out of another dtype", "f16", (x.half(), torch.empty(3, 4)), None, {"axes": [0]})
    yield Call("integers", "f32", (x.int(), torch.empty(()).int()), None)
    own = t(6)
    yield Call("out is x", "f32", (own, own), None, {"axes": []})


@pytest.mark.parametrize("c", by_name(sums()))
def test_sum(c: Call) -> None:
    check_call("sum", c)
