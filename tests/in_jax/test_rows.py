"""Every row of the main table in jax: values and gradients, by dtype, under jit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from in_jax.references import CASES, DTYPES, REFERENCES, Case, close

pytestmark = pytest.mark.guests("jax")


def both(ops: Any, case: Case) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The op and its reference as functions of the arrays that are there."""

    def bind(f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arrays: Any) -> Any:
            given = iter(arrays)
            tensors = [None if s is None else next(given) for s in case.shapes]
            return f(*tensors, **case.attributes)

        return call

    return bind(getattr(ops, case.op)), bind(REFERENCES[case.op])


def present(case: Case, dtype: Any, seed: int = 0) -> list[Any]:
    return [a for a in case.arrays(dtype, seed) if a is not None]


@pytest.mark.promise("JAX-rows")
def test_there_is_a_case_for_every_row(ops: Any) -> None:
    assert {case.op for case in CASES} == set(ops.__all__) == set(REFERENCES)


@pytest.mark.promise("JAX-rows")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(ops: Any, x64: Any, case: Case, dtype: str) -> None:
    with x64():
        ours, right = both(ops, case)
        want = right(*present(case, jnp.float64))
        arrays = present(case, DTYPES[dtype])
        for f in (ours, jax.jit(ours)):
            got = f(*arrays)
            assert got.dtype == DTYPES[dtype]
            close(got, want, dtype, str(case))
        assert jax.eval_shape(ours, *arrays).shape == want.shape


@pytest.mark.promise("JAX-gradients")
@pytest.mark.parametrize("case", [c for c in CASES if not c.op.endswith("_bwd")], ids=str)
def test_gradients(ops: Any, x64: Any, case: Case) -> None:
    """For all arguments at once under jit, and for each one's need alone."""
    with x64():
        arrays = [a + 0.03 for a in present(case, jnp.float64)]  # off the corner of relu
        wanted = tuple(range(len(arrays)))

        def total(f: Callable[..., Any]) -> Callable[..., Any]:
            def loss(*arrays: Any) -> Any:
                out = f(*arrays)
                return jnp.sum(out * jnp.cos(jnp.arange(out.size).reshape(out.shape)))

            return loss

        ours, right = (total(f) for f in both(ops, case))
        want = jax.grad(right, wanted)(*arrays)
        got = jax.jit(jax.grad(ours, wanted))(*arrays)
        for i in wanted:
            close(got[i], want[i], "f64", f"{case}: gradient {i}")
            close(jax.grad(ours, i)(*arrays), want[i], "f64", f"{case}: gradient {i} alone")


@pytest.mark.promise("JAX-gradients")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_gradients_keep_their_dtype(ops: Any, dtype: str) -> None:
    case = Case("gemm", ((4, 8), (8, 5), (5,)), {"act": "relu"})
    ours, right = both(ops, case)
    arrays = present(case, DTYPES[dtype])
    got = jax.grad(lambda *a: ours(*a).astype(jnp.float32).sum(), (0, 1, 2))(*arrays)
    want = jax.grad(lambda *a: right(*a).sum(), (0, 1, 2))(*present(case, jnp.float32))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == DTYPES[dtype]
        close(g, w, dtype, str(case))


@pytest.mark.promise("JAX-rows")
def test_several_ops_in_one_program_run_no_python(ops: Any) -> None:
    """Once compiled: a tracer would count."""
    traced = []

    def step(x: Any, w: Any, b: Any) -> Any:
        traced.append(1)
        return ops.sum(ops.relu(ops.bias_add(ops.gemm(x, w), b)), axes=1)

    x, w, b = Case("gemm", ((4, 8), (8, 5), (5,))).arrays(jnp.float32)
    compiled = jax.jit(step)
    want = jnp.maximum(x @ w + b, 0).sum(1)
    for _ in range(3):
        close(compiled(x, w, b), want, "f32", "step")
    assert len(traced) == 1
    text = compiled.lower(x, w, b).compile().as_text()
    assert text.count('custom_call_target="aicf_call') == 4
