"""The ops of the main table in terms of jax.numpy, and arguments for each: what the tests compare
with. A reference computes in the dtype of its arguments; a test gives it f64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

TOLERANCES = {"f32": 2e-5, "f16": 4e-3, "bf16": 3e-2, "f64": 1e-12}
DTYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "f64": jnp.float64}


@dataclass(frozen=True)
class Case:
    op: str
    shapes: tuple[tuple[int, ...] | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{k}={v}" for k, v in self.attributes.items()]
        return " ".join([self.op, *(str(s).replace(" ", "") for s in self.shapes), *words])

    def arrays(self, dtype: Any, seed: int = 0) -> list[Any]:
        """Values that every dtype of the table has exactly."""
        draw = np.random.default_rng(seed)
        return [
            None if s is None else jnp.asarray(draw.integers(-16, 17, s) / 8, dtype)
            for s in self.shapes
        ]


def add(a: Any, b: Any) -> Any:
    return a + b


def relu(x: Any) -> Any:
    return jax.nn.relu(x)


def relu_bwd(gy: Any, y: Any) -> Any:
    return jnp.where(y > 0, gy, 0)


def gelu_bwd(gy: Any, y: Any, approx: str = "none") -> Any:
    return jax.vjp(lambda y: jax.nn.gelu(y, approximate=approx == "tanh"), y)[1](gy)[0]


def scale(x: Any, factor: Any) -> Any:
    return x * factor


def copy(x: Any) -> Any:
    return x


def bias_add(x: Any, bias: Any, axis: int = 1) -> Any:
    return jnp.moveaxis(jnp.moveaxis(x, axis, -1) + bias, -1, axis)


def bias_add_bwd(gy: Any, axis: int = 1) -> Any:
    return jnp.moveaxis(gy, axis, -1).reshape(-1, gy.shape[axis]).sum(0)


def gemm(
    a: Any,
    b: Any,
    bias: Any = None,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    act: str = "none",
) -> Any:
    z = alpha * jnp.matmul(a, b, precision="highest")
    z = z if c is None else z + beta * c
    z = z if bias is None else z + bias
    acts: dict[str, Callable[[Any], Any]] = {
        "none": lambda z: z,
        "relu": jax.nn.relu,
        "gelu": lambda z: jax.nn.gelu(z, approximate=False),
    }
    return acts[act](z)


def sum(x: Any, axes: Any = None, keepdim: bool = False) -> Any:
    return jnp.sum(x, axis=axes, keepdims=keepdim)


# Sizes: none, one, odd, a few vectors; shapes that broadcast; each attribute at least once.
CASES = [
    Case("add", ((5, 7), (5, 7))),
    Case("add", ((3, 1, 7), (5, 1))),
    Case("add", ((), (64,))),
    Case("add", ((0, 4), (1, 4))),
    Case("relu", ((33,),)),
    Case("relu_bwd", ((4, 9), (4, 9))),
    Case("gelu_bwd", ((4, 9), (4, 9))),
    Case("gelu_bwd", ((17,), (17,)), {"approx": "tanh"}),
    Case("scale", ((5, 3),), {"factor": -0.5}),
    Case("copy", ((2, 3, 4),)),
    Case("bias_add", ((2, 3, 4), (3,))),
    Case("bias_add", ((2, 3, 4), (4,)), {"axis": -1}),
    Case("bias_add_bwd", ((2, 3, 4),), {"axis": 2}),
    Case("gemm", ((4, 8), (8, 5))),
    Case("gemm", ((4, 8), (8, 5), (5,)), {"act": "relu"}),
    Case("gemm", ((2, 1, 4, 8), (3, 8, 5), (5,), (2, 3, 4, 5)), {"beta": 0.5, "alpha": 2.0}),
    Case("gemm", ((3, 8), (8, 5), None, (3, 5)), {"beta": -1.0, "act": "gelu"}),
    Case("gemm", ((3, 0), (0, 5), (5,))),
    Case("gemm", ((16, 32), (32, 24))),  # rows of whole vectors
    Case("sum", ((3, 5, 2),)),
    Case("sum", ((3, 5, 2),), {"axes": (0, -1)}),
    Case("sum", ((3, 5, 2),), {"axes": 1, "keepdim": True}),
    Case("sum", ((0, 5),), {"axes": 0}),
]
REFERENCES: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (add, relu, relu_bwd, gelu_bwd, scale, copy, bias_add, bias_add_bwd, gemm, sum)
}


def close(ours: Any, right: Any, dtype: str, what: str) -> None:
    """Fails with the worst error and where it is; a NaN is never close."""
    got, want = np.asarray(ours, np.float64), np.asarray(right, np.float64)
    assert got.shape == want.shape, f"{what}: {got.shape} is not {want.shape}"
    error = np.abs(got - want)
    allowed = TOLERANCES[dtype] * np.maximum(1, np.abs(want))
    bad = ~(error <= allowed)
    if bad.any():
        worst = np.unravel_index(np.argmax(np.where(bad, error, -1)), got.shape)
        raise AssertionError(
            f"{what} {dtype}: {got[worst]} is not {want[worst]} at {worst}, {bad.sum()} are wrong"
        )
