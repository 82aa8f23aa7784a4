"""Every row of the main table in jax, on the samples of tests/rows: values and gradients beside its
reference in torch, eagerly and under jit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from in_jax.calls import array, close, function, gradients_of, named, tensor
from rows import rows
from rows.calls import calls_of, samples_of
from rows.table import facts, table

pytestmark = pytest.mark.guests("jax", "torch")

OPS = tuple(op for op in rows() if op in table())
EACH = [pytest.param(op, kind, id=f"{op}-{kind}") for op in OPS for kind in rows()[op].dtypes]
GRADIENT = 1e-9  # of f64, both ways: rows differ from their references in the order of sums


@pytest.mark.promise("JAX-rows")
def test_there_is_an_entry_for_every_row(ops: Any) -> None:
    assert set(OPS) == set(ops.__all__)


@pytest.mark.promise("JAX-rows", "ROWS-values")
@pytest.mark.parametrize("op, dtype", EACH)
def test_values(ops: Any, x64: Any, op: str, dtype: str) -> None:
    """The plain outs of each sample; of the first all outs too, and under jit."""
    with x64():
        for i, call in enumerate(calls_of(rows()[op], dtype)):
            ours, arrays = function(getattr(ops, op), call)
            found = named(call, ours(*arrays))
            call.check(found, "eager")
            if i == 0:
                optional = {p.name: True for p in call.facts.outs if p.optional}
                every, arrays = function(getattr(ops, op), call, **optional)
                call.check(named(call, jax.jit(every)(*arrays)), "jit")
                shapes = jax.tree_util.tree_map(lambda x: x.shape, ours(*arrays))
                said = jax.eval_shape(ours, *arrays)
                assert jax.tree_util.tree_map(lambda x: x.shape, said) == shapes


@pytest.mark.promise("JAX-gradients", "ROWS-gradients")
@pytest.mark.parametrize("op", [op for op in OPS if facts(op).grad])
def test_gradients(ops: Any, x64: Any, op: str) -> None:
    """Of all arguments at once, under jit for the first sample, and of each one's need alone."""
    with x64():
        for i, one in enumerate(samples_of(rows()[op], "f64")):
            if str(one.kwargs.get("dtype", "f64")) not in ("f64", "torch.float64"):
                continue
            right = gradients_of(rows()[op], one)
            ours, arrays = function(getattr(ops, op), right.call)
            gs = [array(g) for g in right.gs]

            def pulled(need: list[int], under_jit: bool) -> Any:
                def of(*wanted: Any) -> list[Any]:
                    given = [*arrays]
                    for place, x in zip(need, wanted, strict=True):
                        given[place] = x
                    leaves = jax.tree_util.tree_leaves(ours(*given))
                    return [x for x in leaves if jnp.issubdtype(x.dtype, jnp.floating)]

                def pull(*wanted: Any) -> Any:
                    return jax.vjp(of, *wanted)[1](gs)

                function = jax.jit(pull) if under_jit else pull
                return function(*(arrays[place] for place in need))

            every = pulled(right.places, i == 0)
            for k, place in enumerate(right.places):
                alone = pulled([place], False)[0] if len(right.places) > 1 else every[k]
                for got in (every[k], alone):
                    np.testing.assert_allclose(
                        tensor(got).numpy(), right.want[k].numpy(), rtol=GRADIENT, atol=GRADIENT,
                        err_msg=f"{right.call.name}: gradient of tensor {place}",
                    )  # fmt: skip


@pytest.mark.promise("JAX-gradients")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_gradients_keep_their_dtype(ops: Any, dtype: Any) -> None:
    draw = np.random.default_rng(0)
    exact = [draw.integers(-16, 17, shape) / 8 for shape in ((4, 8), (8, 5), (5,))]

    def right(a: Any, b: Any, bias: Any) -> Any:
        return jax.nn.relu(jnp.matmul(a, b, precision="highest") + bias).sum()

    def ours(*given: Any) -> Any:
        return ops.gemm(*given, act="relu").astype(jnp.float32).sum()

    got = jax.grad(ours, (0, 1, 2))(*(jnp.asarray(x, dtype) for x in exact))
    want = jax.grad(right, (0, 1, 2))(*(jnp.asarray(x, jnp.float32) for x in exact))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == dtype
        close(g, w, "f32" if dtype == jnp.float32 else "bf16", "gemm")


@pytest.mark.promise("JAX-rows")
def test_several_ops_in_one_program_run_no_python(ops: Any) -> None:
    """Once compiled: a tracer would count."""
    traced = []

    def step(x: Any, w: Any, b: Any) -> Any:
        traced.append(1)
        return ops.sum(ops.relu(ops.bias_add(ops.gemm(x, w), b)), axes=1)

    draw = np.random.default_rng(0)
    x, w, b = (jnp.asarray(draw.integers(-16, 17, s) / 8, "f4") for s in ((4, 8), (8, 5), (5,)))
    compiled = jax.jit(step)
    want = jnp.maximum(x @ w + b, 0).sum(1)
    for _ in range(3):
        close(compiled(x, w, b), want, "f32", "step")
    assert len(traced) == 1
    text = compiled.lower(x, w, b).compile().as_text()
    assert text.count('custom_call_target="aicf_call') == 4
