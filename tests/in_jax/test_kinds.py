"""Every kind of argument, out and gradient that a row may have, in jax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

pytestmark = pytest.mark.guests("jax")


def ramp(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jnp.arange(np.prod(shape), dtype=dtype).reshape(shape) / 8 - 1


# ---- arguments -----------------------------------------------------------------------------------


@pytest.mark.promise("JAX-kinds")
def test_attributes_of_every_kind(kinds: Any) -> None:
    x, bias = ramp(4, 8), ramp(8)
    got = jax.jit(lambda x: kinds.every(x, bias, lr=0.5, pad=(1, 2), alpha=2.0, act="relu"))(x)
    right = np.zeros((4, 11), np.float32)
    right[:, 1:9] = np.maximum(x + bias, 0)
    np.testing.assert_allclose(got[:, 1:9], right[:, 1:9], rtol=1e-6)
    one = kinds.every(x, lr=1, pad=2, axes=[0, -1], axis=1, times=3, twice=True, kernel="spare")
    assert one.shape == (4, 12)
    assert kinds.every(x, lr=1, axes=None).shape == x.shape


@pytest.mark.promise("JAX-kinds")
def test_optional_outs_are_there_where_they_are_asked_for(kinds: Any) -> None:
    x = ramp(4, 8)
    assert isinstance(kinds.every(x, lr=1.0), jax.Array)
    got = jax.jit(lambda x: kinds.every(x, lr=1.0, mean=True))(x)
    np.testing.assert_allclose(got.mean, x.mean(1), rtol=1e-6)
    assert got._fields == ("out", "mean", "counted")
    assert got.counted is None
    assert [p is None for p in kinds.parts(x)] == [False, False]
    assert [p is None for p in kinds.parts(x, half=True)] == [True, False]
    assert [float(x) for x in kinds.bounds(x)] == [-1.0, 2.875]


@pytest.mark.promise("JAX-kinds")
def test_a_scalar_is_an_operand_and_no_value_is_compiled_in(kinds: Any) -> None:
    compiled: list[Any] = []

    def scaled(x: Any, lr: Any) -> Any:
        compiled.append(lr)
        return kinds.every(x, lr=lr)

    f, x = jax.jit(scaled), ramp(4, 8)
    for lr in (0.5, 2.0, jnp.float32(3.0), jnp.full((1,), 0.25)):
        np.testing.assert_allclose(f(x, lr), x * jnp.asarray(lr), rtol=1e-6)
    assert len(compiled) == 3  # a number of Python's, of no dims, of one
    np.testing.assert_array_equal(kinds.shift(jnp.array([True, False]), by=False), [True, False])
    np.testing.assert_array_equal(kinds.shift(jnp.arange(3), by=2.0), [2, 3, 4])


@pytest.mark.promise("JAX-kinds")
def test_lists(zoo: Any, kinds: Any) -> None:
    xs = [ramp(2, 3), ramp(1, 3), ramp(0, 3)]
    right = np.concatenate(xs)
    np.testing.assert_array_equal(kinds.join(xs), right)
    np.testing.assert_array_equal(jax.jit(zoo.join)(tuple(xs)), right)
    many = [ramp(1, 3)] * 200
    np.testing.assert_array_equal(jax.jit(zoo.join)(many), np.concatenate(many))


@pytest.mark.promise("JAX-kinds")
def test_what_a_row_writes_in_place_comes_back_new(kinds: Any) -> None:
    ps, gs = [ramp(3), ramp(2, 2)], [jnp.ones(3), jnp.ones((2, 2))]
    before = [np.array(p) for p in ps]
    for f in (kinds.step, jax.jit(kinds.step)):
        got = f(ps, gs, lr=0.5)
        assert got.bufs is None
        for p, b, new in zip(ps, before, got.ps, strict=True):
            np.testing.assert_array_equal(p, b)
            np.testing.assert_array_equal(new, b - 0.5)
    bufs = [jnp.zeros(3), jnp.ones((2, 2))]
    got = kinds.step(ps, gs, bufs, lr=0.5)
    assert [float(b.max()) for b in got.bufs] == [1.0, 2.0]
    # The same array twice: it is read after the other was written, unless XLA copies it.
    (got,) = jax.jit(lambda p: kinds.step([p], [p], lr=0.5).ps)(ps[0])
    np.testing.assert_array_equal(got, before[0] / 2)
    assert kinds.step([], [], lr=1.0).ps == ()


@pytest.mark.promise("JAX-kinds")
def test_a_donated_argument_is_written_where_it_lies(kinds: Any) -> None:
    step = jax.jit(lambda p, g: kinds.step([p], [g], lr=0.5).ps[0], donate_argnums=0)
    p, g = ramp(1024), jnp.ones(1024)
    where = p.unsafe_buffer_pointer()
    assert step(p, g).unsafe_buffer_pointer() == where
    assert p.is_deleted()


@pytest.mark.promise("JAX-kinds")
def test_integers_of_64_bits_without_x64(zoo: Any, x64: Any) -> None:
    """jax makes none by itself then; outs and scalars of rows have them all the same."""
    assert not jax.config.jax_enable_x64
    with x64():
        counts = jnp.array([1, 2, 2**40], jnp.int64)
    got = jax.jit(lambda c, x: zoo.count(c, x, by=2**33))(counts, jnp.array([1.0, -1.0, 1.0]))
    assert got.counts.dtype == got.total.dtype == jnp.int64
    assert np.asarray(got.counts).tolist() == [1 + 2**33, 2, 2**40 + 2**33]
    assert int(got.total) == 3 + 2**40 + 2**34
    assert np.asarray(zoo.count(counts, jnp.ones(3)).counts).tolist() == [2, 3, 2**40 + 1]


@pytest.mark.promise("JAX-kinds")
def test_the_dtype_that_no_argument_says(zoo: Any, x64: Any) -> None:
    with x64():
        x = ramp(2, 3)
        for dtype in ("f64", jnp.float64, np.dtype("f8")):
            assert zoo.cast(x, dtype=dtype).dtype == jnp.float64
        assert zoo.cast(x).dtype == jnp.float32
        gradient = jax.grad(lambda x: (zoo.cast(x, dtype="f64") ** 2).sum())(x)
        assert gradient.dtype == jnp.float32
        np.testing.assert_allclose(gradient, 2 * x)


@pytest.mark.promise("JAX-kinds")
def test_numpy_arrays_are_taken_as_jax_takes_them(ops: Any) -> None:
    assert ops.add(np.ones(3), np.ones(3, "f4")).dtype == jnp.float32
    np.testing.assert_array_equal(ops.relu(np.array([[-1, 2]], "f4").T), [[0], [2]])
    for one in (np.float32(1), np.float64(1), np.array(1, "f4")):
        assert ops.add(one, np.ones(3, "f4")).tolist() == [2, 2, 2]


# ---- gradients -----------------------------------------------------------------------------------


@pytest.mark.promise("JAX-gradients")
def test_gradients_of_every_form(zoo: Any, x64: Any) -> None:
    with x64():
        x, y, w = (
            ramp(4, 3, dtype=jnp.float64),
            ramp(2, 3, dtype=jnp.float64) + 0.3,
            jnp.arange(3.0),
        )
        for f, arguments in {
            "optional outs": (lambda x, w: zoo.center(x, w), (x, w)),
            "an absent argument": (lambda x: zoo.center(x), (x,)),
            "a list": (lambda x, y: zoo.join([x, y, x]), (x, y)),
            "several outs": (lambda x: sum(jnp.sin(o) for o in zoo.both(x)), (x,)),
            "the first of several": (lambda x: zoo.both(x).twofold, (x,)),
            "the last of several": (lambda x: zoo.both(x).squared, (x,)),
        }.values():
            check_grads(f, arguments, order=1, modes=["rev"])
            check_grads(jax.jit(f), arguments, order=1, modes=["rev"])


@pytest.mark.promise("JAX-gradients")
def test_second_derivatives_where_the_rows_have_them(zoo: Any, x64: Any) -> None:
    with x64():
        x = ramp(5, dtype=jnp.float64)
        check_grads(zoo.square, (x,), order=3, modes=["rev"])
        check_grads(zoo.times, (x, x + 2), order=2, modes=["rev"])
        np.testing.assert_allclose(
            jax.jacrev(jax.grad(lambda x: zoo.square(x).sum()))(x), 2 * jnp.eye(5)
        )


@pytest.mark.promise("JAX-gradients")
def test_what_has_no_gradient_says_so(ops: Any, zoo: Any, kinds: Any) -> None:
    x = ramp(3, 4)
    first = jax.grad(lambda x: ops.relu(x).sum())
    with pytest.raises(NotImplementedError, match=r"^relu_bwd has no gradient: its row in the"):
        jax.grad(lambda x: first(x).sum())(x)
    with pytest.raises(NotImplementedError, match=r"^step has no gradient: its row in the table"):
        jax.grad(lambda p: kinds.step([p], [p], lr=1.0).ps[0].sum())(x)
    with pytest.raises(NotImplementedError, match=r"^scale: factor: a scalar has no gradient: jax"):
        jax.grad(lambda f: ops.scale(x, factor=f).sum())(jnp.float32(2.0))
    still = jax.grad(lambda f: ops.scale(x, factor=jax.lax.stop_gradient(f)).sum() * f)
    assert float(still(jnp.float32(2.0))) == float(2 * x.sum())
    # What is optional has none: not zeros of ours, jax stops there.
    assert not jax.grad(lambda x: zoo.center(x, mean=True).mean.sum())(x).any()
    # Nobody asks for one: nothing is refused.
    value, pull = jax.vjp(lambda w: ops.add(w, ops.relu_bwd(x, x)), x)
    assert value.shape == pull(x)[0].shape


@pytest.mark.promise("JAX-gradients")
def test_forward_mode_is_refused_by_jax(ops: Any) -> None:
    x = ramp(3)
    with pytest.raises(TypeError, match=r"forward-mode autodiff \(jvp\) to a custom_vjp function"):
        jax.jvp(ops.relu, (x,), (x,))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jacfwd(ops.relu)(x)


def calls(jaxpr: Any) -> list[str]:
    """The ops of a program, in order, also of programs inside it."""
    found: list[str] = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "ffi_call":
            found.append(dict(equation.params["attributes"])["aicf.op"].partition(".")[2])
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            found += calls(inner) if hasattr(inner, "eqns") else []
    return found


def backward_calls(f: Any, *arguments: Any) -> list[str]:
    """The ops that run after those of the forward."""
    forward = calls(jax.make_jaxpr(f)(*arguments).jaxpr)
    return calls(jax.make_jaxpr(lambda *a: jax.vjp(f, *a)[1](f(*a)))(*arguments).jaxpr)[
        2 * len(forward) :
    ]


@pytest.mark.promise("JAX-gradients")
def test_only_the_gradients_that_somebody_needs_are_computed(ops: Any, zoo: Any) -> None:
    a, b, x, w = ramp(4, 8), ramp(8, 5), ramp(4, 3), ramp(3)
    assert backward_calls(lambda a, b: ops.gemm(a, b), a, b).count("gemm") == 2
    assert backward_calls(lambda a: ops.gemm(a, b), a).count("gemm") == 1
    assert backward_calls(lambda b: ops.gemm(a, b, act="relu"), b) == ["relu_bwd", "gemm"]
    assert backward_calls(lambda x: zoo.center(x, w), x) == ["center_bwd"]


@pytest.mark.promise("JAX-gradients")
def test_what_is_saved_is_what_the_gradient_reads(ops: Any, zoo: Any) -> None:
    """The residuals are what the pullback holds: shapes alone are not saved."""

    def saved(f: Any, *arguments: Any) -> list[tuple[int, ...]]:
        pull = jax.vjp(f, *arguments)[1]
        return sorted({x.shape for x in jax.tree_util.tree_leaves(pull) if x.ndim})

    a, b, x, w = ramp(4, 8), ramp(8, 5), ramp(4, 3), ramp(3)
    assert saved(lambda a, b: ops.add(a, b), a, a[0]) == []
    assert saved(lambda a: ops.gemm(a, b), a) == [(8, 5)]
    assert saved(lambda b: ops.gemm(a, b), b) == [(4, 8)]
    assert saved(lambda a, b: ops.gemm(a, b, act="relu"), a, b) == [(4, 5), (4, 8), (8, 5)]
    assert saved(lambda x, w: zoo.center(x, w), x, w) == [(3,), (4,), (4, 3)]
    assert saved(lambda x: ops.sum(x, axes=0), x) == []
