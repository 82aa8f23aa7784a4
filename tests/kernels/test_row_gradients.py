"""Gradients as the rows give them, run on numpy arrays by the modules' own ops: in f64 on the CPU
they are the derivatives of the forwards, for each argument alone and for all at once."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.promise("GRADIENTS-numeric")]

STEP = 1e-6  # the error of a central difference is some STEP**2, of its rounding 1e-16 / STEP


def generic(name: str) -> Any:
    return getattr(importlib.import_module(f"aicf_cuda.{name}"), name)


@dataclass
class Numpy:
    """The `_f` of gradients over numpy: ops by the generic functions, the fixed ones by hand."""

    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def call(*tensors: Any, **named: Any) -> Any:
            self.calls.append(name)
            return generic(name)(*tensors, **named)

        return call

    def t(self, x: Any) -> Any:
        return np.swapaxes(x, -1, -2)

    def sum_to(self, x: Any, like: Any) -> Any:
        extra = x.ndim - len(like.shape)
        sizes = [1] * extra + list(like.shape)
        axes = [i for i, n in enumerate(sizes) if n == 1 and (i < extra or x.shape[i] != 1)]
        if axes:
            x = generic("sum")(x, axes=axes, keepdim=True)
        return x.reshape(like.shape)

    def unreduce(self, x: Any, like: Any, axes: Sequence[int], keepdim: bool) -> Any:
        x = x if keepdim else np.expand_dims(x, tuple(axes))
        return np.broadcast_to(x, like.shape)


CASES: list[tuple[str, list[tuple[int, ...] | None], dict[str, Any], dict[str, Any]]] = [
    ("add", [(2, 3), (2, 3)], {}, {}),
    ("add", [(2, 1, 3), (4, 1)], {}, {}),
    ("add", [(), (2, 2)], {}, {}),
    ("relu", [(3, 4)], {}, {}),
    ("scale", [(3, 4)], {}, {"factor": -1.5}),
    ("copy", [(2, 3)], {}, {}),
    ("bias_add", [(2, 3, 4), (3,)], {"axis": -2}, {}),
    ("bias_add", [(5,), (5,)], {"axis": 0}, {}),
    ("gemm", [(3, 4), (4, 2), None, None], {"alpha": 0.5, "beta": 0.0, "act": "none"}, {}),
    ("gemm", [(3, 4), (4, 2), (2,), (3, 2)], {"alpha": 0.5, "beta": -2.0, "act": "relu"}, {}),
    ("gemm", [(3, 4), (4, 2), (2,), (3, 2)], {"alpha": 2.0, "beta": 0.5, "act": "gelu"}, {}),
    ("gemm", [(2, 1, 3, 2), (4, 2, 2), (2,), None], {"alpha": 1.0, "beta": 0.0, "act": "gelu"}, {}),
    ("sum", [(2, 3, 4)], {"axes": None, "keepdim": False}, {}),
    ("sum", [(2, 3, 4)], {"axes": (-1, 0), "keepdim": True}, {}),
    ("sum", [(2, 3, 4)], {"axes": (1,), "keepdim": False}, {}),
]


def slope(forward: Any, x: Any, g: Any) -> Any:
    """g @ d forward / d x, one element of x after the other."""
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = STEP
        found[index] = np.sum(g * (forward(x + step) - forward(x - step))) / (2 * STEP)
    return found


@pytest.mark.parametrize("op, shapes, attributes, scalars", CASES)
def test_gradients_are_derivatives(
    op: str,
    shapes: list[tuple[int, ...] | None],
    attributes: dict[str, Any],
    scalars: dict[str, Any],
) -> None:
    saved, backward = importlib.import_module("aicf_cuda._gradients").GRADIENTS[op]
    rng = np.random.default_rng(len(shapes))
    arrays = [
        None if s is None else rng.uniform(0.1, 1, s) * rng.choice((-1, 1), s) for s in shapes
    ]
    given = {k: v for k, v in attributes.items() if v is not None} | scalars

    def forward(*x: Any) -> Any:
        return generic(op)(*x, **given)

    out = forward(*arrays)
    g = rng.standard_normal(out.shape)
    want = []
    for i, x in enumerate(arrays):
        bent = [*arrays]

        def of(v: Any, i: int = i, bent: list[Any] = bent) -> Any:
            bent[i] = v
            return forward(*bent)

        want.append(None if x is None else slope(of, x, g))
    alone = [tuple(i == j for j in range(len(shapes))) for i in range(len(shapes))]
    for need in [*alone, (True,) * len(shapes)]:
        names = saved(need, *arrays, **attributes)
        known = list(importlib.import_module("inspect").signature(backward).parameters)[3:]
        kept = [
            x if x is None or name in names else Shape(x.shape)
            for name, x in zip(known, [*arrays, out], strict=False)
        ]
        found = backward(Numpy(), need, g, *kept, **attributes, **scalars)
        for n, x, d in zip(need, want, found, strict=True):
            assert (d is None) == (x is None or not n)
            if x is not None and d is not None:
                np.testing.assert_allclose(d, x, rtol=1e-6, atol=1e-7)


@dataclass(frozen=True)
class Shape:
    """What stands for a tensor that was not saved."""

    shape: tuple[int, ...]


def test_every_row_has_its_case() -> None:
    assert set(importlib.import_module("aicf_cuda._gradients").GRADIENTS) == {c[0] for c in CASES}
