"""Programs that are exported for all sizes at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = [pytest.mark.guests("jax"), pytest.mark.promise("JAX-symbolic")]


def ramp(*shape: int) -> Any:
    return jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape) / 8 - 1


def exported(f: Callable[..., Any], *shapes: str, known: tuple[str, ...] = ()) -> Any:
    """Of arrays whose sizes are no numbers yet; equal names are one size. `known`: of the sizes."""
    from jax import export

    scope = export.SymbolicScope(known)
    likes = [
        jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), jnp.float32)
        for shape in shapes
    ]
    names = ("aicf_call", "aicf_call_capturable")
    checks = [export.DisabledSafetyCheck.custom_call(name) for name in names]
    return export.export(jax.jit(f), disabled_checks=checks)(*likes)


def loss(ops: Any) -> Callable[..., Any]:
    return lambda x, w, b: ops.mean(ops.relu(ops.gemm(x, w, b)))


CASES: dict[str, tuple[Callable[[Any], Callable[..., Any]], list[str], list[dict[str, int]]]] = {
    "elementwise": (
        lambda ops: lambda a: ops.relu(ops.add(a, a)), ["n, 4"], [{"n": 3}, {"n": 1}],
    ),
    "broadcast": (lambda ops: ops.add, ["n, m", "1, m"], [{"n": 3, "m": 2}]),
    "product": (lambda ops: ops.gemm, ["n, 8", "8, m"], [{"n": 2, "m": 5}, {"n": 1, "m": 1}]),
    "divided": (
        lambda ops: lambda x, w: ops.conv2d(x, w, pad=1, stride=2), ["n, 3, h, 8", "4, 3, 3, 3"],
        [{"n": 2, "h": 8}, {"n": 1, "h": 9}],
    ),
    "gradient": (
        lambda ops: jax.grad(loss(ops), argnums=(0, 1, 2)), ["n, 8", "8, 3", "3"],
        [{"n": 2}, {"n": 5}],
    ),
    "list": (
        lambda ops: lambda a, b: ops.concat([a, b], axis=0), ["n, 4", "m, 4"], [{"n": 2, "m": 3}],
    ),
    "in place": (
        lambda ops: lambda p, g: ops.sgd([p], [g], lr=0.5).p[0], ["n, 4", "n, 4"], [{"n": 2}],
    ),
    "another dtype": (lambda ops: lambda a: ops.cast(a, dtype="i32"), ["n, 4"], [{"n": 2}]),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_program_is_exported_for_all_sizes(ops: Any, case: str) -> None:
    make, shapes, values = CASES[case]
    program = exported(make(ops), *shapes)
    for sizes in values:
        given = [ramp(*(sizes.get(n) or int(n) for n in s.split(", "))) for s in shapes]
        found, want = program.call(*given), make(ops)(*given)
        jax.tree_util.tree_map(np.testing.assert_array_equal, found, want)


@pytest.mark.parametrize(
    "make, shapes, error, words",
    [
        (lambda ops: ops.add, ["n, 4", "m, 4"], ValueError,
         r"^add: .m, 4. does not broadcast to .n, 4."),
        (lambda ops: ops.gemm, ["n, 8", "7, m"], ValueError, r"^gemm: b: B\.\. K N is .7, m."),
        (lambda ops: lambda a: ops.add(a, a.astype("int32")), ["n, 4"], ValueError,
         "^add: no variant takes a: f32, b: i32"),
        (lambda ops: lambda a: ops.max_pool2d(a), ["1, 1, n, 4"], TypeError,
         "^max_pool2d: missing a required .*'window'"),
        (lambda ops: lambda a: ops.concat([a, a], axis="x"), ["n, 4"], TypeError,
         "^concat: axis: 'str' object"),
        (lambda ops: lambda a: ops.concat([a, a], ax=0), ["n, 4"], TypeError, "^concat: .*'ax'"),
    ],
)  # fmt: skip
def test_what_is_wrong_for_all_sizes_is_refused(
    ops: Any, make: Callable[[Any], Any], shapes: list[str], error: type, words: str
) -> None:
    with pytest.raises(error, match=words):
        exported(make(ops), *shapes)


def test_what_must_be_known_of_sizes_is_said(ops: Any) -> None:
    """A window must lie within the image."""

    def pool(x: Any) -> Any:
        return ops.max_pool2d(x, window=3, stride=1)

    with pytest.raises(NotImplementedError, match=r"^max_pool2d: .*'n - 2' >= '1'.*constraint"):
        exported(pool, "1, 1, n, n")
    program, x = exported(pool, "1, 1, n, n", known=("n >= 3",)), ramp(1, 1, 4, 4)
    np.testing.assert_array_equal(program.call(x), pool(x))
    with pytest.raises(ValueError, match="n >= 3"):
        program.call(ramp(1, 1, 2, 2))


def test_what_the_relation_does_not_say_is_refused_when_it_runs(ops: Any) -> None:
    program = exported(lambda x, w: ops.gemm(x, w, act="loud"), "n, 4", "4, 4")
    with pytest.raises(Exception, match="act"):
        program.call(ramp(2, 4), ramp(4, 4)).block_until_ready()
