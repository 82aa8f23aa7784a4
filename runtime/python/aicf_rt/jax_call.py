"""A call of an op as jax sees it: one custom call of XLA's FFI, and its gradient from the row.

No Python of this file runs once a program is compiled: the handlers of `aicf_rt._xla` decode the
call and launch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .dtypes import WORDS
from .jax_row import Attributes, Row, types_of

# The table's names of dtypes, and jax's.
DTYPES: dict[str, np.dtype[Any]] = {name: jnp.dtype(word) for name, word in WORDS.items()}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Like(NamedTuple):
    """An array without its elements."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Form:
    """All of a call that is known when it is traced."""

    row: Row
    functions: Functions
    variant: str
    tensors: tuple[tuple[Like, ...] | None, ...]  # one an input; None: absent
    outs: tuple[Like, ...]  # of all the row's outs
    want: tuple[bool, ...]  # of which these are computed
    attributes: Attributes
    kernel: str | None

    @property
    def in_place(self) -> list[Like]:
        """Of the arguments that are read and written."""
        pairs = zip(self.row.inputs, self.tensors, strict=True)
        return [like for p, given in pairs if p.role == "INOUT" for like in given or ()]


class Functions:
    """What a row's gradient calls: the ops of its table by name, and the fixed functions."""

    def __init__(self) -> None:
        self.ops: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in self.ops:
            return self.ops[name]
        raise AttributeError(f"the table has no op {name}")

    def t(self, x: Any) -> Any:
        return jnp.swapaxes(x, -1, -2)

    def reshape(self, x: Any, like: Any) -> Any:
        return jnp.reshape(x, like.shape)

    def sum_to(self, x: Any, like: Any) -> Any:
        """Sums over the dims that broadcasting `like` to the shape of `x` added or stretched."""
        added = x.ndim - len(like.shape)
        stretched = (i for i, n in enumerate(like.shape, added) if n == 1 and x.shape[i] != 1)
        axes = (*range(added), *stretched)
        return jnp.reshape(jnp.sum(x, axis=axes), like.shape) if axes else x

    def unreduce(self, x: Any, like: Any, axes: Sequence[int] | None, keepdim: bool) -> Any:
        """Puts the summed dims back: each element of `like`'s shape has its sum's."""
        if not keepdim:
            gone = range(len(like.shape)) if axes is None else axes
            x = jnp.expand_dims(x, tuple(gone))
        return jnp.broadcast_to(x, like.shape)

    def zeros(self, like: Any) -> Any:
        return jnp.zeros(like.shape, like.dtype)

    def split(self, x: Any, lists: Sequence[Any], axis: int) -> tuple[Any, ...]:
        """Parts along an axis, as long as those of the list."""
        begin, parts = 0, []
        for like in lists:
            end = begin + like.shape[axis]
            parts.append(jax.lax.slice_in_dim(x, begin, end, axis=axis))
            begin = end
        return tuple(parts)


# ---- inside shard_map ----------------------------------------------------------------------------


def _axes(x: Any) -> frozenset[Any]:
    """The axes of a mesh along which the shards of a traced value differ."""
    kind = jax.typeof(x)
    found: frozenset[Any] = getattr(getattr(kind, "mat", kind), "varying", frozenset())
    return getattr(kind, "vma", found)


def varying(values: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """The values, declared to differ between shards wherever one of `like` does. XLA's call does
    not say that of its results; and of what it takes all has to differ along the same axes, so that
    the gradient of what is the same everywhere is summed."""
    axes = frozenset[Any]().union(*map(_axes, like))
    if not axes:
        return [*values]
    return [_varied(x, tuple(sorted(axes - _axes(x), key=str))) for x in values]


def _varied(x: Any, axes: tuple[Any, ...]) -> Any:
    if not axes:
        return x
    cast = getattr(jax.lax, "pcast", None)
    return jax.lax.pvary(x, axes) if cast is None else cast(x, axes, to="varying")


# ---- the call ------------------------------------------------------------------------------------


def _attribute(value: Any) -> Any:
    """As the handler reads it; None stands for all axes."""
    if value is None:
        return "all"
    return np.array(value, np.int64) if isinstance(value, tuple) else value


def _counts(form: Form) -> list[int]:
    """How many buffers each parameter has."""
    counts = [0 if given is None else len(given) for given in form.tensors]
    return [*counts, *(int(wanted) for wanted in form.want), *(1 for _ in form.row.scalars)]


def _aliases(form: Form) -> dict[int, int]:
    """Operands that are written, to the results that are their new values."""
    found: dict[int, int] = {}
    operand = 0
    for p, given in zip(form.row.inputs, form.tensors, strict=True):
        for _ in given or ():
            if p.role == "INOUT":
                found[operand] = len(found)
            operand += 1
    return found


def call(form: Form, *operands: Any) -> tuple[Any, ...]:
    """The new values of what is written in place, then the wanted outs."""
    outs = [like for like, wanted in zip(form.outs, form.want, strict=True) if wanted]
    results = [jax.ShapeDtypeStruct(*like) for like in (*form.in_place, *outs)]
    if not results:
        return ()
    run = jax.ffi.ffi_call(
        "aicf_call_capturable" if form.row.capturable else "aicf_call",
        results,
        vmap_method="sequential",
        input_output_aliases=_aliases(form),
    )
    attributes = {name: _attribute(value) for name, value in form.attributes}
    attributes["aicf.op"] = f"{form.row.package}.{form.row.name}"
    attributes["aicf.counts"] = np.array(_counts(form), np.int64)
    if form.kernel is not None:
        attributes["aicf.kernel"] = form.kernel
    return tuple(varying(run(*operands, **attributes), operands))


# ---- its gradient --------------------------------------------------------------------------------

Need = tuple[bool | tuple[bool, ...], ...]


@jax.tree_util.register_static
@dataclass(frozen=True, slots=True)
class Known:
    """What backward knows without having saved it."""

    need: Need


def _grouped(form: Form, flat: Sequence[Any]) -> list[Any]:
    """One entry an input: its value, a tuple for a list, None where it is absent."""
    values = iter(flat)
    grouped: list[Any] = []
    for p, given in zip(form.row.inputs, form.tensors, strict=True):
        own = tuple(next(values) for _ in given or ())
        grouped.append(None if given is None else own if p.is_list else own[0])
    return grouped


def _needs(form: Form, operands: Sequence[Any]) -> Need:
    """Which inputs' gradients somebody asks for; refuses those that the row does not have."""
    row = form.row
    asked = [o.perturbed and jnp.issubdtype(o.value.dtype, jnp.inexact) for o in operands]
    tensors = len(operands) - len(row.scalars)
    if any(asked) and row.gradient is None:
        raise NotImplementedError(f"{row.name} has no gradient: its row in the table has no `grad`")
    for p, perturbed in zip(row.scalars, asked[tensors:], strict=True):
        if perturbed:
            raise NotImplementedError(
                f"{row.name}: {p.name}: a scalar has no gradient: jax.lax.stop_gradient says that "
                "none is wanted"
            )
    return tuple(False if n is None else n for n in _grouped(form, asked[:tensors]))


def _forward(form: Form, *operands: Any) -> tuple[tuple[Any, ...], Any]:
    """Runs the op and keeps what backward reads: no other value of a tensor. What it runs can be
    differentiated again."""
    row = form.row
    need = _needs(form, operands)
    values = [o.value for o in operands]
    inputs = _grouped(form, values)
    numbers = zip(row.scalars, values[len(values) - len(row.scalars) :], strict=True)
    scalars = {p.name: value for p, value in numbers if p.name in row.reads}
    names: tuple[str, ...] = ()
    if row.gradient is not None:
        names = row.gradient[0](need, *inputs, **dict(form.attributes))
    wider = tuple(w or p.name in names for p, w in zip(row.outs, form.want, strict=True))
    results = function(replace(form, want=wider))(*values)
    made = iter(results[len(form.in_place) :])
    computed = {p.name: next(made) for p, w in zip(row.outs, wider, strict=True) if w}
    saved = dict(zip((p.name for p in row.inputs), inputs, strict=True))
    saved |= computed
    asked = (computed[p.name] for p, w in zip(row.outs, form.want, strict=True) if w)
    kept = {name: saved[name] for name in names if saved.get(name) is not None}
    return (*results[: len(form.in_place)], *asked), (kept, scalars, Known(need))


def _likes(form: Form, saved: dict[str, Any]) -> list[Any]:
    """All inputs and outs: the saved value, or what has its shape; no tuples, which would be lists
    of tensors to expressions."""
    likes = [jax.ShapeDtypeStruct(*like) for given in form.tensors for like in given or ()]
    found = [
        saved.get(p.name, like)
        for p, like in zip(form.row.inputs, _grouped(form, likes), strict=True)
    ]
    for p, out in zip(form.row.outs, form.outs, strict=True):
        like = None if p.optional else jax.ShapeDtypeStruct(*out)
        found.append(saved.get(p.name, like))
    return found


def _backward(form: Form, residuals: Any, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
    """One gradient an operand, None where it is zero or nobody needs it. What came for optional
    outs counts for nothing: they have no gradient."""
    row = form.row
    saved, scalars, known = residuals
    cotangent = iter(cotangents[len(form.in_place) :])
    given = [next(cotangent) if wanted else None for wanted in form.want]
    zero = jax.custom_derivatives.SymbolicZero
    g = tuple(
        None if isinstance(x, zero) else x
        for p, x in zip(row.outs, given, strict=True)
        if not p.optional
    )
    nothing = (None,) * (sum(len(t or ()) for t in form.tensors) + len(row.scalars))
    if row.gradient is None or all(x is None for x in g):
        return nothing
    gradients = row.gradient[1](
        form.functions,
        known.need,
        g if len(g) > 1 else g[0],
        *_likes(form, saved),
        **dict(form.attributes),
        **scalars,
        **{k: v for k, v in types_of(row, form.variant).items() if k in row.reads},
    )
    flat: list[Any] = []
    for p, given_here, gradient in zip(row.inputs, form.tensors, gradients, strict=True):
        count = len(given_here or ())
        flat += [gradient] if count and not p.is_list else gradient or (None,) * count
    there = [x for x in flat if x is not None]
    alike = iter(varying(there, [*(x for x in g if x is not None), *there]))
    flat = [None if x is None else next(alike) for x in flat]
    return (*flat, *(None for _ in row.scalars))


@functools.lru_cache(maxsize=4096)
def function(form: Form) -> Callable[..., tuple[Any, ...]]:
    """A form of a call as a function of its operands: the tensors that are there in the row's
    order, a list's one after the other, then the scalars."""

    primal = functools.partial(call, form)
    functools.update_wrapper(primal, call)
    primal.__name__ = form.row.name  # type: ignore[attr-defined]
    differentiable = jax.custom_vjp(primal)
    differentiable.defvjp(
        functools.partial(_forward, form), functools.partial(_backward, form), symbolic_zeros=True
    )
    # A call outside jit is ten times faster so; before 0.9 jax cannot differentiate one twice.
    jitted = jax.__version_info__ >= (0, 9)
    made: Callable[..., tuple[Any, ...]] = jax.jit(differentiable) if jitted else differentiable
    return made
