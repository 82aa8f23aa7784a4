"""What jax does to functions, done to ops."""

from __future__ import annotations

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.guests("jax")


def ramp(*shape: int) -> Any:
    return jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape) / 8 - 1


@pytest.mark.promise("JAX-transforms")
def test_vmap_runs_the_op_once_an_element(ops: Any, kinds: Any) -> None:
    """One after the other: no row says that an op does not mix what stands along an axis."""
    x, w, s = ramp(3, 4), ramp(4, 2), jnp.arange(3.0)
    got = jax.jit(jax.vmap(lambda r: ops.gemm(r[None], w)[0]))(x)
    np.testing.assert_allclose(got, x @ w, rtol=1e-5)
    got = jax.vmap(ops.relu, in_axes=1, out_axes=1)(x)
    np.testing.assert_array_equal(got, jax.nn.relu(x))
    got = jax.vmap(lambda r, s: ops.scale(r, factor=s))(x, s)
    np.testing.assert_array_equal(got, x * s[:, None])
    got = jax.vmap(lambda p, g: kinds.step([p], [g], lr=0.5).ps[0], (0, None))(x, x[0])
    np.testing.assert_array_equal(got, x - x[0] / 2)
    got = jax.vmap(lambda r: kinds.every(r, lr=1.0, mean=True))(x.reshape(3, 2, 2))
    assert got.out.shape == (3, 2, 2)
    np.testing.assert_allclose(got.mean, x.reshape(3, 2, 2).mean(2), rtol=1e-6)


@pytest.mark.promise("JAX-transforms")
def test_vmap_of_gradients_and_gradients_of_vmap(ops: Any) -> None:
    x, w = ramp(3, 4), ramp(4, 2)

    def loss(f: Any) -> Any:
        return lambda r, w: jnp.sum(f(r[None], w) ** 2)

    ours, right = loss(lambda a, b: ops.relu(ops.gemm(a, b))), loss(lambda a, b: jax.nn.relu(a @ b))
    for f in (
        lambda loss: jax.vmap(jax.grad(loss, (0, 1)), (0, None)),
        lambda loss: jax.grad(lambda x, w: jax.vmap(loss, (0, None))(x, w).sum(), (0, 1)),
    ):
        for got, want in zip(jax.jit(f(ours))(x, w), f(right)(x, w), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.promise("JAX-transforms")
def test_control_flow_and_recomputation(ops: Any) -> None:
    x = ramp(3, 4)

    def scanned(c: Any) -> Any:
        return jax.lax.scan(lambda c, r: (ops.add(c, r), ops.relu(c)), c, x)[1].sum()

    def right(c: Any) -> Any:
        return sum(jax.nn.relu(c + x[:i].sum(0)).sum() for i in range(3))

    c = x[0] + 0.03
    np.testing.assert_allclose(jax.jit(scanned)(c), right(c), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(scanned)(c), jax.grad(right)(c))
    got = jax.grad(lambda c: jax.checkpoint(lambda c: ops.relu(ops.add(c, c)))(c).sum())(c)
    np.testing.assert_allclose(got, 2.0 * (c > 0))
    branch = jax.jit(lambda p, c: jax.lax.cond(p, ops.relu, lambda c: ops.scale(c, factor=3.0), c))
    np.testing.assert_allclose(branch(False, c), 3 * c, rtol=1e-6)
    np.testing.assert_allclose(branch(True, c), jax.nn.relu(c))


@pytest.mark.promise("JAX-transforms")
def test_export(ops: Any) -> None:
    """As all custom calls that are not XLA's own: where the caller answers for them."""
    from jax import export

    x, f = ramp(3, 4), jax.jit(lambda a: ops.relu(ops.add(a, a)))
    with pytest.raises(ValueError, match="custom call"):
        export.export(f)(x)
    check = export.DisabledSafetyCheck.custom_call("aicf_call_capturable")
    exported = export.export(f, disabled_checks=[check])(x)
    np.testing.assert_array_equal(exported.call(x), jax.nn.relu(2 * x))


TWO = """
import numpy as np, jax, jax.numpy as jnp, aicf_cuda, aicf_cuda.jax as ops
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = jax.devices()
assert len(devices) == 2
x = jnp.arange(24, dtype="f4").reshape(6, 4)
on = jax.device_put(x, devices[1])
out = ops.add(on, on)
assert out.devices() == {devices[1]} and (out == 2 * x).all()
for dtype in ("bfloat16", "float32", "float32"):  # the last two are read in other ways
    assert (aicf_cuda.add.add(on.astype(dtype), x.astype(dtype)) == 2 * x).all()
mesh = Mesh(np.array(devices), ("rows",))
spread = jax.device_put(x, NamedSharding(mesh, P("rows", None)))
assert (jax.jit(ops.relu)(spread) == x).all()
shard_map = getattr(jax, "shard_map", None)
if shard_map is None:
    from jax.experimental.shard_map import shard_map
each = jax.jit(shard_map(lambda r: ops.sum(r, axes=0, keepdim=True), mesh=mesh,
                         in_specs=P("rows", None), out_specs=P("rows", None)))
assert (each(spread) == jnp.stack([x[:3].sum(0), x[3:].sum(0)])).all()
rows, same = P("rows"), P()
def sharded(f):
    return shard_map(f, mesh=mesh, in_specs=(rows, same, same), out_specs=rows)
def ours(x, w, bias):
    return ops.scale(ops.gemm(x, w, bias, ops.copy(x), beta=0.5), factor=3.0)
def theirs(x, w, bias):
    return (x @ w + 0.5 * x + bias) * 3
w, bias = jnp.arange(16, dtype="f4").reshape(4, 4), jnp.ones(4)
for run in (lambda f: f, jax.jit):
    found, want = (
        run(jax.grad(lambda *xs: (sharded(f)(*xs) * x).sum(), argnums=(0, 1, 2)))(x, w, bias)
        for f in (ours, theirs)
    )
    assert all((a == b).all() for a, b in zip(found, want))
try:
    shard_map(lambda r: ops.sum(r), mesh=mesh, in_specs=rows, out_specs=same)(x)
except ValueError as error:
    assert "out_specs" in str(error), error
else:
    raise AssertionError("a sum of each shard passed for the sum")
print("right")
"""


@pytest.mark.promise("JAX-transforms")
def test_several_devices(alone: Any) -> None:
    flags = "--xla_force_host_platform_device_count=2"
    assert alone(TWO, XLA_FLAGS=flags, JAX_PLATFORMS="cpu").split() == ["right"]


@pytest.mark.promise("JAX-transforms")
def test_a_zero_with_a_sign_is_another_program(ops: Any) -> None:
    x = jnp.ones((2, 2))

    def signs(x: Any) -> list[Any]:
        return [jnp.signbit(ops.gemm(x, x, alpha=zero)).any() for zero in (0.0, -0.0, 0.0)]

    assert [bool(s) for s in signs(x)] == [False, True, False]
    assert [bool(s) for s in jax.jit(signs)(x)] == [False, True, False]


@pytest.mark.promise("JAX-threads")
def test_threads_call_one_program(ops: Any) -> None:
    """The same compiled program and others, first calls of ops included."""
    x, w = ramp(8, 8), jnp.eye(8)
    shared = jax.jit(lambda a, b: ops.relu(ops.add(ops.gemm(a, b), a)))
    want = np.maximum(2 * np.asarray(x), 0)
    begin, wrong = threading.Barrier(8), []

    def work(number: int) -> None:
        own = jax.jit(lambda a: ops.scale(shared(a, w), factor=float(number)))
        begin.wait()
        for _ in range(100):
            if not np.array_equal(shared(x, w), want):
                wrong.append("shared")
            if not np.array_equal(own(x), want * number):
                wrong.append("own")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
