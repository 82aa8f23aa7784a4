"""Ops inside jax on a GPU: each row by each of its kernels, several in one program, in the order of
XLA's stream, with memory of XLA's allocator. jax runs in processes of its own, where it takes no
memory ahead."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.guests("jax")]

BEGIN = """
import threading
import jax, jax.numpy as jnp, numpy as np
import aicf_cuda.jax as ops
from aicf_rt import Unsupported
from in_jax.references import CASES, DTYPES, REFERENCES, Case, close
assert jax.default_backend() == "gpu", jax.default_backend()
"""

ROWS = """
def tensors(case, arrays):
    given = iter(arrays)
    return [None if s is None else next(given) for s in case.shapes]

ran = set()
for case in CASES:
    op, reference = getattr(ops, case.op), REFERENCES[case.op]
    exact = [a for a in case.arrays(jnp.float64) if a is not None]
    want = reference(*tensors(case, exact), **case.attributes)
    for dtype in ("f32", "f16", "bf16"):
        arrays = [a.astype(DTYPES[dtype]) for a in exact]
        ids = [k["id"] for k in table[case.op]["kernels"] if k["backend"] == "cuda"]
        for kernel in (None, *ids):
            call = jax.jit(lambda *a: op(*tensors(case, a), **case.attributes, kernel=kernel))
            try:
                jax.eval_shape(lambda: op(*tensors(case, arrays), **case.attributes, kernel=kernel))
            except Unsupported:
                assert kernel, (case, dtype)  # a guard of that kernel
                continue
            try:
                got = jax.block_until_ready(call(*arrays))
            except jax.errors.JaxRuntimeError as error:
                assert kernel and "no kernel fits" in str(error), error
                continue
            assert got.dtype == DTYPES[dtype]
            assert {d.platform for d in got.devices()} == {"gpu"}
            close(got, want, dtype, f"{case} {kernel}")
            ran.add((case.op, kernel))
every = {(op, k["id"]) for op in table for k in table[op]["kernels"] if k["backend"] == "cuda"}
print("not run:", sorted(every - ran))
assert {op for op, _ in every} == {op for op, _ in ran}
assert every - ran <= {("gemm", "mma")}, every - ran

x = jnp.ones((2, 2))
assert x.dtype == jnp.float64
try:
    ops.relu(x)
    raise AssertionError("f64 has no kernel on CUDA")
except Unsupported as error:
    print("eager:", error)
try:
    jax.block_until_ready(jax.jit(ops.relu)(x))
    raise AssertionError("f64 has no kernel on CUDA")
except jax.errors.JaxRuntimeError as error:
    print("jit:", error)
on_host = jax.device_put(x, jax.devices("cpu")[0])
assert (ops.relu(on_host) == 1).all() and (jax.jit(ops.relu)(on_host) == 1).all()
print("right")
"""

ORDER = """
def slow(x, times=60):
    return jax.lax.fori_loop(0, times, lambda i, y: jnp.tanh(y @ y) * 0 + y, x)

@jax.jit
def program(x, b):
    # Ours reads what XLA writes late, and XLA what ours does; sums take memory of XLA's allocator.
    y = ops.add(slow(x), b)
    z = ops.relu(ops.scale(slow(y), factor=2.0))
    rows, columns = ops.sum(z, axes=1), ops.bias_add_bwd(z, axis=1)
    return slow(z).sum(), ops.sum(z), rows, columns, ops.sum(rows), ops.sum(columns)

b = jnp.arange(512, dtype=jnp.float32) / 512
for i in range(100):
    x = jnp.full((512, 512), float(i - 50))
    got = program(x, b)
    z = np.maximum(2 * (np.full((512, 512), i - 50.0) + np.arange(512) / 512), 0)
    for value, want in zip(got, (z.sum(), z.sum(), z.sum(1), z.sum(0), z.sum(), z.sum())):
        np.testing.assert_allclose(value, want, rtol=1e-5, err_msg=str(i))
text = program.lower(x, b).compile().as_text()
assert text.count('custom_call_target="aicf_call') == 8, text.count("aicf_call")
print("captured in a command buffer:", "command_buffer" in text)

@jax.jit
def chain(x):
    for i in range(12):
        x = ops.relu(ops.add(ops.scale(x, factor=0.5), jnp.ones((), jnp.float32)))
    return x

print("the chain too:", "command_buffer" in chain.lower(b).compile().as_text())
for i in range(50):  # other addresses, other values
    keep = [jnp.zeros(i + 1) for _ in range(3)]
    x = np.arange(512, dtype="f4") + i
    want = x
    for _ in range(12):
        want = np.maximum(want / 2 + 1, 0)
    np.testing.assert_allclose(chain(jnp.asarray(x)), want, rtol=1e-6)
print("right")
"""

GRADIENTS = """
def net(f, g, h, s):
    def loss(x, w, b):
        y = h(g(f(x, w), b))
        return s(y * jnp.cos(y))
    return loss

ours = net(lambda x, w: ops.gemm(x, w, act="relu"), ops.bias_add, ops.relu, lambda y: ops.sum(y))
right = net(lambda x, w: jax.nn.relu(jnp.matmul(x, w, precision="highest")), lambda y, b: y + b,
            jax.nn.relu, jnp.sum)
key = jax.random.key(0)
sizes = ((64, 32), (32, 48), (48,))
x, w, b = (jax.random.normal(k, s) for k, s in zip(jax.random.split(key, 3), sizes))
want = jax.grad(right, (0, 1, 2))(x, w, b)
for f in (jax.grad(ours, (0, 1, 2)), jax.jit(jax.grad(ours, (0, 1, 2)))):
    for i, (g, v) in enumerate(zip(f(x, w, b), want)):
        np.testing.assert_allclose(g, v, rtol=2e-4, atol=2e-4, err_msg=str(i))
got = jax.jit(jax.vmap(jax.grad(ours), (0, None, None)))(x[:, None], w, b)
np.testing.assert_allclose(got[:, 0], want[0], rtol=2e-4, atol=2e-4)
print("right")
"""

THREADS = """
x, w = jnp.arange(4096, dtype=jnp.float32).reshape(64, 64) / 64 - 30, jnp.eye(64)
shared = jax.jit(lambda a, b: ops.sum(ops.relu(ops.add(ops.gemm(a, b), a)), axes=0))
want = np.asarray(jax.nn.relu(2 * x).sum(0))
begin, wrong = threading.Barrier(8), []

def work(number):
    own = jax.jit(lambda a: ops.scale(shared(a, w), factor=float(number)))
    begin.wait()
    for _ in range(200):
        if not np.allclose(shared(x, w), want) or not np.allclose(own(x), want * number):
            wrong.append(number)

threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not wrong, wrong
for device in jax.devices():
    on = jax.device_put(x, device)
    out = ops.sum(ops.add(on, on), axes=0)
    assert out.devices() == {device}
    np.testing.assert_allclose(out, 2 * np.asarray(x).sum(0), rtol=1e-5)
print("right on", len(jax.devices()))
"""

TABLE = "from aicf_cuda._table import load\ntable = load()['ops']\n"


def outcome(start: Any, code: str, **environment: str) -> str:
    out: str = start(code, XLA_PYTHON_CLIENT_PREALLOCATE="false", **environment).output()
    print(out)
    return out.splitlines()[-1]


@pytest.mark.promise("JAX-rows")
def test_every_row_by_every_kernel(start: Any) -> None:
    assert outcome(start, BEGIN + TABLE + ROWS, JAX_ENABLE_X64="1") == "right"


@pytest.mark.promise("JAX-rows")
def test_programs_in_the_order_of_the_stream(start: Any) -> None:
    assert outcome(start, BEGIN + ORDER) == "right"


@pytest.mark.promise("JAX-gradients")
def test_gradients(start: Any) -> None:
    assert outcome(start, BEGIN + GRADIENTS) == "right"


@pytest.mark.promise("JAX-threads")
def test_threads_and_devices(start: Any) -> None:
    assert outcome(start, BEGIN + THREADS).startswith("right on ")
