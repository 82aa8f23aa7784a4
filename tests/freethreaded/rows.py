"""Calls of every op with what each gives, worked out without AICF. Values are a thread's own: a
result that came from another thread's memory is another number."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

OPS = (
    "add", "relu", "relu_bwd", "gelu_bwd", "scale", "copy",
    "bias_add", "bias_add_bwd", "gemm", "sum",
)  # fmt: skip

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of `op` in f32, and its result."""

    op: str
    inputs: tuple[Array | None, ...]
    options: Mapping[str, Any]
    expected: Array
    out: Array

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"aicf_cuda.{self.op}")

    @property
    def function(self) -> Callable[[], Any]:
        """The typed form with its arguments: what a loop calls."""
        typed = getattr(self.module, f"{self.op}_f32")
        return functools.partial(typed, *self.inputs, self.out, **self.options)

    def typed(self) -> None:
        verdict = self.function()
        assert verdict is True, (self.op, verdict)

    def generic(self) -> Any:
        given = [x for x in self.inputs if x is not None]
        return getattr(self.module, self.op)(*given, **self.options)

    def bound(self) -> Any:
        return self.module.bind(*self.inputs, self.out, **self.options)

    def poison(self) -> None:
        self.out.fill(np.nan)

    def check(self, found: Any) -> None:
        good = np.allclose(found, self.expected, rtol=1e-5, atol=1e-6)
        assert good, (self.op, found, self.expected)


def gelu_slope(y: Array) -> Array:
    """The derivative of y * Phi(y)."""
    phi = np.exp(-y * y / 2) / math.sqrt(2 * math.pi)
    below = np.array([(1 + math.erf(v / math.sqrt(2))) / 2 for v in y.ravel()]).reshape(y.shape)
    return np.asarray(below + y * phi)


def samples(seed: int) -> list[Sample]:
    """One of each op, in the order of OPS."""
    random = np.random.default_rng(seed)

    def some(*shape: int) -> Array:
        return random.standard_normal(shape).astype("f4")

    x, y, bias = some(4, 6), some(4, 6), some(6)
    images, left, right = some(2, 6, 3), some(4, 5), some(5, 3)
    made: list[tuple[str, tuple[Array | None, ...], dict[str, Any], Array]] = [
        ("add", (x, bias), {}, x + bias),
        ("relu", (x,), {}, np.maximum(x, 0)),
        ("relu_bwd", (x, y), {}, np.where(y > 0, x, 0)),
        ("gelu_bwd", (x, y), {}, x * gelu_slope(y)),
        ("scale", (x,), {"factor": 0.5 + seed}, x * (0.5 + seed)),
        ("copy", (x.T,), {}, x.T),
        ("bias_add", (images, bias), {}, images + bias[:, None]),
        ("bias_add_bwd", (images,), {}, images.sum((0, 2))),
        ("gemm", (left, right, None, None), {"act": "relu"}, np.maximum(left @ right, 0)),
        ("sum", (images,), {"axes": (0, 2)}, images.sum((0, 2))),
    ]
    assert tuple(m[0] for m in made) == OPS
    return [
        Sample(op, inputs, options, expected, np.empty(expected.shape, "f4"))
        for op, inputs, options, expected in made
    ]
