"""Bad input in jax gets the words of the generic function, when it is traced; what fails later is
an error of XLA's with our message."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.guests("jax")

X = np.arange(12, dtype=np.float32).reshape(3, 4)
FLOATS = memoryview(X.tobytes()).cast("f", (3, 4))
BAD: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "shape": ("add", lambda add, x: add(x, x[:2])),
    "dtype": ("add", lambda add, x: add(x, x.astype("i4"))),
    "no dtype of ours": ("add", lambda add, x: add(x.astype("u4"), x)),
    "rank": ("gemm", lambda gemm, x: gemm(x[0], x)),
    "where": ("gemm", lambda gemm, x: gemm(x, x.T, beta=1.0)),
    "missing": ("add", lambda add, x: add(x)),
    "too many": ("add", lambda add, x: add(x, x, x)),
    "not a tensor": ("add", lambda add, x: add(x, 3)),
    "keyword": ("gemm", lambda gemm, x: gemm(x, x.T, alhpa=2)),
    "word": ("gemm", lambda gemm, x: gemm(x, x.T, act="selu")),
    "kind of value": ("gemm", lambda gemm, x: gemm(x, x.T, alpha="1")),
    "axis": ("sum", lambda sum, x: sum(x, axes=2)),
    "axis twice": ("sum", lambda sum, x: sum(x, axes=(1, -1))),
    "kernel": ("relu", lambda relu, x: relu(x, kernel="fast")),
    "scalar": ("scale", lambda scale, x: scale(x, factor=x)),
    "no scalar": ("scale", lambda scale, x: scale(x)),
}


def said(call: Callable[[], Any]) -> tuple[type[BaseException], str]:
    try:
        call()
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    raise AssertionError("nothing was refused")


@pytest.mark.promise("JAX-errors")
@pytest.mark.parametrize("case", BAD)
def test_the_words_are_those_of_the_generic_function(ops: Any, case: str) -> None:
    name, call = BAD[case]
    generic = getattr(importlib.import_module(f"aicf_cuda.{name}"), name)
    in_jax = getattr(ops, name)
    right = said(lambda: call(generic, jnp.asarray(X)))
    assert said(lambda: call(in_jax, jnp.asarray(X))) == right
    assert said(lambda: jax.jit(lambda x: call(in_jax, x))(X)) == right
    assert said(lambda: jax.eval_shape(lambda x: call(in_jax, x), X)) == right


@pytest.mark.promise("JAX-errors")
def test_what_only_jax_refuses(ops: Any, kinds: Any) -> None:
    x = jnp.asarray(X)
    for call, words in (
        (lambda: ops.relu(x, stream=1), "relu: stream: XLA runs ops on its own: leave it out"),
        (lambda: ops.relu(x, out=x), "relu: out: jax's arrays are not written: leave it out, and"),
        (
            lambda: ops.relu(FLOATS),
            "relu: x: takes jax's and numpy's arrays here, not built",
        ),
        (lambda: ops.relu(jax.random.key(0)), "relu: an array of key<fry> is no tensor"),
        (lambda: jax.jit(ops.relu)(jax.random.key(0)), "relu: an array of key<fry> is no tensor"),
        (
            lambda: jax.jit(lambda x, k: ops.sum(x, axes=k))(x, 1),
            "sum: axes takes an int or a list of ints, not ",
        ),
        (lambda: kinds.join([x, FLOATS]), "join: xs: takes jax's and numpy's arrays here"),
    ):
        error, text = said(call)
        assert error is TypeError
        assert text.startswith(words)
        assert "Spec" not in text


@pytest.mark.promise("JAX-errors")
def test_failures_are_errors_of_xla_with_our_message(kinds: Any) -> None:
    x = jnp.asarray(X)
    for kind, words in {
        "backend": "INTERNAL: fail: kernel loop failed: error 7 of a CPU kernel",
        "memory": "RESOURCE_EXHAUSTED: fail: no memory for 4611686018427387904 bytes",
        "internal": "INTERNAL: fail: an internal fault, check 0 of argument 0",
    }.items():
        f = jax.jit(lambda x: kinds.fail(x, kind=kind))
        for _ in range(2):
            with pytest.raises(jax.errors.JaxRuntimeError, match=f"^{words}"):
                jax.block_until_ready(f(x))
    assert jax.block_until_ready(kinds.fail(x)) is not None


def raw(row: str, operands: list[Any], results: list[Any], **attributes: Any) -> Any:
    """A custom call as nobody's Python has checked it."""
    attributes = {"aicf.op": row, **{k.replace("__", "."): v for k, v in attributes.items()}}
    return jax.block_until_ready(jax.ffi.ffi_call("aicf_call", results)(*operands, **attributes))


@pytest.mark.promise("JAX-errors")
def test_a_program_that_was_compiled_for_other_rows_is_refused(ops: Any) -> None:
    x, like = jnp.asarray(X), jax.ShapeDtypeStruct(X.shape, jnp.float32)
    two, three = np.array([1, 1]), np.array([1, 1, 1])
    good = {"aicf__counts": three}
    (out,) = raw("aicf_cuda.add", [x, x], [like], **good)
    np.testing.assert_array_equal(out, 2 * X)
    other = "the program was compiled for another row of that name: compile it again"
    for words, call in {
        "NOT_FOUND: my_ops.add is not loaded in this process: import my_ops.jax before": lambda: (
            raw("my_ops.add", [x, x], [like], **good)
        ),
        f"aicf_cuda.add: aicf.counts: {other}": lambda: raw(
            "aicf_cuda.add", [x, x], [like], aicf__counts=two
        ),
        f"aicf_cuda.add: too few buffers: {other}": lambda: raw(
            "aicf_cuda.add", [x], [like], **good
        ),
        f"aicf_cuda.add: too many buffers: {other}": lambda: raw(
            "aicf_cuda.add", [x, x, x], [like], **good
        ),
        f"aicf_cuda.bias_add: axis: {other}": lambda: raw(
            "aicf_cuda.bias_add", [x, x[0]], [like], axis=1.0, **good
        ),
        f"aicf_cuda.gemm: act: {other}": lambda: raw(
            "aicf_cuda.gemm",
            [x, x],
            [like],
            alpha=1.0,
            beta=0.0,
            act="selu",
            aicf__counts=np.array([1, 1, 0, 0, 1]),
        ),
        f"aicf_cuda.add: kernel: {other}": lambda: raw(
            "aicf_cuda.add", [x, x], [like], aicf__kernel="slow", **good
        ),
        "INVALID_ARGUMENT: add: b: its dtype": lambda: raw(
            "aicf_cuda.add", [x, x.astype("u4")], [like], **good
        ),
        "INVALID_ARGUMENT: add: out: its shape must be broadcast": lambda: raw(
            "aicf_cuda.add", [x, x[:2]], [like], **good
        ),
    }.items():
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            call()
        assert words in str(caught.value)
