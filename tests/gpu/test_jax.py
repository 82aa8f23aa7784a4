"""Ops inside jax on a GPU: each row by each of its kernels, several in one program, in the order of
XLA's stream, with memory of XLA's allocator. jax runs in processes of its own, where it takes no
memory ahead."""

from __future__ import annotations

from typing import Any

import pytest

from gpu.cases import OPS
from gpu.processes import Process, stop

pytestmark = [pytest.mark.gpu, pytest.mark.guests("jax", "torch")]

PARTS = 6

BEGIN = """
import threading
import jax, jax.numpy as jnp, numpy as np
import aicf_cuda.jax as ops
from aicf_rt import Unsupported
assert jax.default_backend() == "gpu", jax.default_backend()
"""

ROWS = """
import sys, torch
from gpu.cases import fitting, laid
from in_jax.calls import function, named
from rows import rows
from rows.calls import calls_of
from rows.table import facts
torch.set_num_threads(1)
todo, ran = set(), set()
for op in sys.argv[1:]:
    row, kernels = rows()[op], facts(op).kernels_of("cuda")
    words = [w for w in row.dtypes if any(w in s.split("_") for k in kernels.values() for s in k)]
    for word in words:
        for i, call in enumerate(calls_of(row, word)):
            if not any(call.suffix in suffixes for suffixes in kernels.values()):
                continue
            fit = fitting(laid(call, "dense"), "cuda")
            todo |= {(op, kernel) for kernel in fit}
            # All samples in f32 by whichever kernel runs, and each kernel in each dtype once.
            news = {kernel for kernel in fit if (op, kernel, word) not in ran}
            for kernel in (*([None] if word == "f32" or i == 0 else []), *sorted(news)):
                run, arrays = function(getattr(ops, op), call, kernel=kernel)
                got = jax.block_until_ready(jax.jit(run)(*arrays))
                leaves = jax.tree_util.tree_leaves(got)
                platforms = {d.platform for x in leaves for d in x.devices()}
                assert platforms <= {"gpu"}, platforms
                call.check(named(call, got), f"{op} {kernel}")
                ran.add((op, kernel, word))
assert todo == {(op, kernel) for op, kernel, _ in ran if kernel}, todo
print("right")
"""

F64 = """
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

LIMIT = 400.0  # seconds


def outcome(start: Any, code: str, **environment: str) -> str:
    out: str = start(code, XLA_PYTHON_CLIENT_PREALLOCATE="false", **environment).output()
    print(out)
    return out.splitlines()[-1]


@pytest.mark.promise("JAX-rows", "ROWS-kernels")
def test_every_row_by_every_kernel() -> None:
    """Each process has a part of the rows; all are waited for by this one test."""
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_ENABLE_X64": "1"}
    started = [Process(BEGIN + ROWS, *OPS[i::PARTS], **environment) for i in range(PARTS)]
    try:
        for process in started:
            out = process.output(LIMIT)
            assert out.splitlines()[-1] == "right", out
    finally:
        stop(started)


@pytest.mark.promise("JAX-rows")
def test_f64_stays_on_the_host(start: Any) -> None:
    assert outcome(start, BEGIN + F64, JAX_ENABLE_X64="1") == "right"


@pytest.mark.promise("JAX-rows")
def test_programs_in_the_order_of_the_stream(start: Any) -> None:
    assert outcome(start, BEGIN + ORDER) == "right"


@pytest.mark.promise("JAX-gradients")
def test_gradients(start: Any) -> None:
    assert outcome(start, BEGIN + GRADIENTS) == "right"


@pytest.mark.promise("JAX-threads")
def test_threads_and_devices(start: Any) -> None:
    assert outcome(start, BEGIN + THREADS).startswith("right on ")
