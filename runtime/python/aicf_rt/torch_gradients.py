"""Autograd for torch's ops, from the gradients of the rows.

An op has an Autograd kernel of its own: it refuses forward mode, records where an argument requires
a gradient, and else goes on, in the common case straight to the kernel. What torch needs for that
is partly private; where a name is missing, `register_by_torch` does the same by the public way, at
twice the cost, and there forward mode goes unnoticed by torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from . import torch_exact
from .torch_fakes import dtypes_of, padded, values_of
from .torch_kernels import (
    DTYPES,
    NAMES,
    Functional,
    Kernel,
    Module,
    _forward_ad,
    any_requires_grad,
    refuse_gradients,
    refuse_tangents,
    unsupported,
)
from .torch_schema import FLOATS, Overload, Row

SCALAR = "it requires grad, and scalars have no gradient: detach() it"


# ---- the names that a gradient calls ----------------------------------------------------------


class Namespace:
    """`_f` of the gradients: each op of the table by name, and the fixed functions. All are
    operators of torch, so that a gradient is traced and differentiated as any other code."""

    def __init__(self, ops: Any, rows: dict[str, Row]) -> None:
        self._ops, self._rows = ops, rows

    def __getattr__(self, name: str) -> Kernel:
        """Of an op that was not asked for before."""
        row = self._rows.get(name)
        if row is None:
            raise AttributeError(name)
        found = _called(getattr(self._ops, name), row)
        setattr(self, name, found)
        return found

    @staticmethod
    def t(x: torch.Tensor) -> torch.Tensor:
        return x.mT

    @staticmethod
    def reshape(x: torch.Tensor, like: Any) -> torch.Tensor:
        return x.reshape(like.shape)

    @staticmethod
    def zeros(like: Any) -> torch.Tensor:
        return torch.zeros(like.shape, dtype=like.dtype, device=like.device)

    def sum_to(self, x: torch.Tensor, like: Any) -> torch.Tensor:
        lead = x.dim() - len(like.shape)
        if not lead and tuple(x.shape) == tuple(like.shape):
            return x
        axes = list(range(lead))
        axes += [lead + i for i, n in enumerate(like.shape) if n == 1 and x.shape[lead + i] != 1]
        if not axes:
            return x
        summed = self._summed(x, axes, len(axes) > lead)
        return summed.reshape(like.shape) if lead and len(axes) > lead else summed

    def _summed(self, x: torch.Tensor, axes: list[int], keepdim: bool) -> torch.Tensor:
        row = self._rows.get("sum")
        if row is not None and _sums(row) and row.variant(_first(row, x), None) is not None:
            found: torch.Tensor = self._ops.sum.default(x, axes=axes, keepdim=keepdim)
            return found
        return x.sum(axes, keepdim=keepdim)

    @staticmethod
    def unreduce(x: torch.Tensor, like: Any, axes: Any, keepdim: bool) -> torch.Tensor:
        rank = len(like.shape)
        axes = range(rank) if axes is None else [axes] if isinstance(axes, int) else axes
        if not keepdim:
            for axis in sorted(a % rank for a in axes):
                x = x.unsqueeze(axis)
        return x.expand(like.shape)

    @staticmethod
    def split(x: torch.Tensor, lists: Any, axis: int) -> list[torch.Tensor]:
        return list(x.split([like.shape[axis] for like in lists], axis))


def _sums(row: Row) -> bool:
    return [v.name for v in row.values] == ["axes", "keepdim"] and len(row.tensors) == 1


def _first(row: Row, x: torch.Tensor) -> dict[str, str]:
    name = row.tensors[0].name
    return {name: NAMES.get(x.dtype, ""), row.outs[0].name: NAMES.get(x.dtype, "")}


def _called(packet: Any, row: Row) -> Kernel:
    """An op as gradients call it: one out gives it, several a tuple of all, None for unwanted."""
    scalars = [v.name for v in row.scalars]
    required, count = row.required, len(row.outs)

    def call(*args: Any, want: Sequence[bool] | None = None, dtype: Any = None, **kw: Any) -> Any:
        if dtype is not None:
            kw["dtype"] = DTYPES.get(dtype, dtype)
        dev = "dev" if any(isinstance(kw.get(s), torch.Tensor) for s in scalars) else ""
        if count == 1 and not row.all_optional:
            return getattr(packet, dev or "default")(*args, **kw)
        if row.all_optional:
            wanted = [True] * count if want is None else list(want)
            found = getattr(packet, "dev_want" if dev else "want")(*args, want=wanted, **kw)
            return found
        if required < count and (want is None or any(want[required:])):
            return getattr(packet, "dev_aux" if dev else "aux")(*args, **kw)
        found = getattr(packet, dev or "default")(*args, **kw)
        found = found if isinstance(found, tuple) else (found,)
        return (*found, *(None for _ in range(count - required)))

    return call


# ---- what a call saves, and its backward ------------------------------------------------------


class Like:
    """A tensor of which only this is known later."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, x: torch.Tensor) -> None:
        self.shape, self.dtype, self.device = x.shape, x.dtype, x.device


@dataclass(frozen=True, slots=True)
class Gradient:
    """That of a row: `saved` and `backward` of its `_gradients`, None where it declares none."""

    row: Row
    functions: tuple[Callable[..., Sequence[str]], Callable[..., Sequence[Any]]] | None
    keywords: tuple[frozenset[str], frozenset[str]]
    names: Namespace
    missing: Kernel  # runs and raises in a backward that the row does not have

    @classmethod
    def of(cls, row: Row, functions: Any, names: Namespace, missing: Kernel) -> Gradient:
        taken = [_keywords(f) for f in functions or ()]
        keywords = (taken[0], taken[1]) if taken else (frozenset[str](), frozenset[str]())
        return cls(row, functions, keywords, names, missing)

    @property
    def outs(self) -> int:
        """How many outs, the first, gradients come from."""
        return self.row.required

    def names_saved(
        self, need: Sequence[Any], args: Sequence[Any], values: dict[str, Any]
    ) -> Sequence[str]:
        if self.functions is None:
            return ()
        chosen = {k: v for k, v in values.items() if k in self.keywords[0]}
        return self.functions[0](tuple(need), *args, **chosen)

    def needs_aux(self, saved: Sequence[str]) -> bool:
        """Whether an out is saved that a plain call does not compute."""
        return any(o.optional and o.name in saved for o in self.row.outs[self.row.required :])

    def remember(
        self, ctx: Any, args: Sequence[Any], outs: Sequence[Any], saved: Sequence[str],
        values: dict[str, Any], free: Any,
    ) -> None:  # fmt: skip
        """Keeps what backward reads: values of what is in `saved`, of the rest its shape."""
        kept: list[torch.Tensor] = []
        tensors = [*args, *outs]
        tensors += [None] * (len(self.row.index) - len(tensors))
        slots = [
            _kept(x, name in saved, kept)
            for name, x in zip(self.row.index, tensors, strict=True)
        ]  # fmt: skip
        numbers = {k: _kept(v, True, kept) for k, v in values.items()}
        ctx.save_for_backward(*kept)
        ctx.aicf = SimpleNamespace(
            slots=slots, values=numbers, dtypes=dtypes_of(self.row, args, NAMES.get(free)),
        )  # fmt: skip

    def backward(self, ctx: Any, need: Sequence[Any], grads: Sequence[Any]) -> Sequence[Any]:
        """A gradient for each tensor argument, None where it is not needed."""
        given = grads[: self.outs]
        if all(g is None for g in given) or not any(_any(n) for n in need):
            return [None] * len(need)
        kept, at = ctx.saved_tensors, ctx.aicf
        tensors = [_restored(slot, kept) for slot in at.slots]
        if self.functions is None:
            return self.refused(need, next(g for g in given if g is not None), tensors)
        values = {k: _restored(v, kept) for k, v in at.values.items()}
        values |= self.variables(at)
        chosen = {k: v for k, v in values.items() if k in self.keywords[1]}
        g = given[0] if len(given) == 1 else tuple(given)
        return self.functions[1](self.names, tuple(need), g, *tensors, **chosen)

    def variables(self, at: SimpleNamespace) -> dict[str, str]:
        for dtypes, variables in zip(self.row.dtypes, self.row.variables, strict=True):
            if dtypes == at.dtypes:
                return dict(variables)
        return {}

    def refused(self, need: Sequence[Any], g: torch.Tensor, tensors: list[Any]) -> list[Any]:
        def raised(like: Any, wanted: Any) -> Any:
            if isinstance(like, list):
                each = wanted if isinstance(wanted, list | tuple) else [wanted] * len(like)
                return [raised(x, n) for x, n in zip(like, each, strict=True)]
            if not wanted or like is None:
                return None
            return self.missing(g, list(like.shape), dtype=like.dtype, op=self.row.name)

        return [raised(x, n) for x, n in zip(tensors, need, strict=False)]


def _keywords(function: Callable[..., Any]) -> frozenset[str]:
    found = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in found if p.kind is p.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Kept:
    """The place of a saved tensor."""

    index: int


def _kept(x: Any, by_value: bool, kept: list[torch.Tensor]) -> Any:
    if isinstance(x, list):
        return [_kept(t, by_value, kept) for t in x]
    if not isinstance(x, torch.Tensor):
        return x
    if not by_value:
        return Like(x)
    kept.append(x)
    return Kept(len(kept) - 1)


def _restored(slot: Any, kept: Sequence[torch.Tensor]) -> Any:
    if isinstance(slot, list):
        return [_restored(s, kept) for s in slot]
    return kept[slot.index] if isinstance(slot, Kept) else slot


def _any(need: Any) -> bool:
    return any(need) if isinstance(need, list | tuple) else bool(need)


# ---- lists flattened, as autograd.Function takes them -----------------------------------------


def _flat(args: Sequence[Any]) -> Iterator[Any]:
    for arg in args:
        if isinstance(arg, list | tuple):
            yield from arg
        else:
            yield arg


def _nested(flat: Sequence[Any], counts: Sequence[int | None]) -> list[Any]:
    """`flat` in lists of these lengths; None stands for what is no list."""
    found: list[Any] = []
    at = 0
    for count in counts:
        found.append(flat[at] if count is None else list(flat[at : at + count]))
        at += 1 if count is None else count
    return found


def _flat_gradients(grads: Sequence[Any], counts: Sequence[int | None]) -> Iterator[Any]:
    for grad, count in zip(grads, counts, strict=True):
        if count is None:
            yield grad
        else:
            yield from [None] * count if grad is None else grad


# ---- an Autograd kernel of our own ------------------------------------------------------------


@dataclass(slots=True)
class Call:
    """One call on its way through autograd."""

    keyset: Any
    kwargs: dict[str, Any]
    counts: list[int | None]


class Private:
    """What of torch is private, looked up once; `here` is false where something is missing."""

    def __init__(self) -> None:
        self.here = True
        try:
            c = torch._C
            self.after, self.below = c._after_autograd_keyset, c._AutoDispatchBelowAutograd
            keys = c.DispatchKey
            # As numbers: they are compared at each call, in half the time of the sets themselves.
            self.plain = frozenset(
                (c.DispatchKeySet(a) | c.DispatchKeySet(b)).raw_repr()
                for a, b in ((keys.CPU, keys.AutogradCPU), (keys.CUDA, keys.AutogradCUDA))
            )
            self.here = "with_keyset" in inspect.signature(torch.library.Library.impl).parameters
            self.here &= hasattr(torch._ops.OpOverload, "redispatch")
        except AttributeError:
            self.here = False


def autograd_kernel(
    overload: Overload, ops: dict[str, Any], kernels: dict[str, Kernel], gradient: Gradient,
    private: Private, module: Module, copy: Kernel,
) -> Kernel:  # fmt: skip
    """`ops` and `kernels` are those of the row's overloads by form."""
    op, kernel = ops[overload.form], kernels[overload.form]
    plain = private.plain
    after, below = private.after, private.below
    apply = _function(overload, ops, kernels, gradient, private).apply
    is_grad_enabled, row = torch.is_grad_enabled, overload.row
    devices = overload.device

    def autograd(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if _forward_ad._current_level >= 0:
            refuse_tangents(overload, args, kwargs)
        if is_grad_enabled() and any_requires_grad(*args, **kwargs):
            if devices:
                refuse_scalars(row, kwargs)
            given = padded(row, args)
            counts = [len(a) if isinstance(a, list | tuple) else None for a in given]
            return apply(Call(keyset, kwargs, counts), *_flat(given))
        if keyset.raw_repr() in plain:
            return kernel(*args, **kwargs)
        with below():
            return op.redispatch(keyset & after, *args, **kwargs)

    if overload.form == "plain" and not overload.device and not row.has_lists:
        functional = Functional(overload, module, copy)
        return torch_exact.autograd(row, autograd, functional, module, plain)
    return autograd


def refuse_scalars(row: Row, kwargs: dict[str, Any]) -> None:
    for v in row.scalars:
        x = kwargs.get(v.name)
        if isinstance(x, torch.Tensor) and x.requires_grad:
            raise unsupported(row, v.name, SCALAR)


def _function(
    overload: Overload, ops: dict[str, Any], kernels: dict[str, Kernel], gradient: Gradient,
    private: Private,
) -> Any:  # fmt: skip
    row, count = overload.row, len(overload.returned)

    def computed(form: str, call: Call, args: list[Any]) -> tuple[Any, ...]:
        """The outs, below autograd."""
        if call.keyset.raw_repr() in private.plain:
            found = kernels[form](*args, **call.kwargs)
        else:
            with private.below():
                keyset = call.keyset & private.after
                found = ops[form].redispatch(keyset, *args, **call.kwargs)
        return found if isinstance(found, tuple) else (found,)

    def forward(ctx: Any, call: Call, *flat: Any) -> Any:
        ctx.set_materialize_grads(False)
        args, need = _nested(flat, call.counts), _nested(ctx.needs_input_grad[1:], call.counts)
        values = values_of(row, call.kwargs)
        saved = gradient.names_saved(need, args, values)
        aux = overload.form == "plain" and gradient.needs_aux(saved)
        outs = computed("aux" if aux else overload.form, call, args)
        gradient.remember(ctx, args, outs, saved, values, call.kwargs.get("dtype"))
        ctx.aicf_counts = call.counts
        ctx.mark_non_differentiable(*_without_gradient(row, outs))
        given = outs[:count]
        return given[0] if len(given) == 1 else tuple(given)

    def backward(ctx: Any, *grads: Any) -> Any:
        counts = ctx.aicf_counts
        need = _nested(ctx.needs_input_grad[1:], counts)
        return (None, *_flat_gradients(gradient.backward(ctx, need, grads), counts))

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"{overload.name.replace('.', '_')}", (torch.autograd.Function,), members)


def _without_gradient(row: Row, outs: Sequence[Any]) -> list[torch.Tensor]:
    differentiable = [d for d in outs[: row.required] if d is not None and d.is_floating_point()]
    return [x for x in outs if x is not None and not any(x is d for d in differentiable)]


# ---- the public way ---------------------------------------------------------------------------


def register_by_torch(
    overload: Overload, qualname: str, gradient: Gradient, ops: dict[str, Any], lib: Any
) -> None:
    """By `register_autograd`. A plain form whose gradient reads optional outs calls `.aux`."""
    row = overload.row
    if overload.form == "plain" and gradient.needs_aux(_every_name(gradient)):
        required = row.required

        def through_aux(*args: Any, **kwargs: Any) -> Any:
            found = ops["aux"](*args, **kwargs)
            return found[0] if required == 1 else tuple(found[:required])

        lib.impl(overload.name, through_aux, "Autograd")
        return

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        ctx.set_materialize_grads(False)
        kwargs = keyword_only_inputs or {}
        if overload.device:
            refuse_scalars(row, kwargs)
        args = padded(row, inputs)
        need = [_requires_grad(a) for a in args]  # ctx counts arguments of torch's own
        values = values_of(row, kwargs)
        saved = gradient.names_saved(need, args, values)
        outs = output if isinstance(output, tuple) else (output,)
        gradient.remember(ctx, args, outs, saved, values, kwargs.get("dtype"))
        ctx.mark_non_differentiable(*_without_gradient(row, outs))

    def backward(ctx: Any, *grads: Any) -> Any:
        given = ctx.needs_input_grad
        found = list(gradient.backward(ctx, padded(row, given), grads))[: len(given)]
        counts = [len(n) if isinstance(n, list | tuple) else None for n in given]
        return tuple(
            g if n is None else [None] * n if g is None else list(g)
            for g, n in zip(found, counts, strict=True)
        )

    torch.library.register_autograd(qualname, backward, setup_context=setup, lib=lib)


def without_gradient(overload: Overload, kernel: Kernel) -> Kernel:
    """A kernel of an overload with tensors by keyword, for which `register_autograd` is not: what
    requires a gradient is refused instead of lost."""

    def refusing(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            refuse_gradients(overload, args, kwargs)
        return kernel(*args, **kwargs)

    return refusing


def _requires_grad(x: Any) -> Any:
    if isinstance(x, list):
        return [t.requires_grad for t in x]
    return x is not None and x.requires_grad


def _every_name(gradient: Gradient) -> Sequence[str]:
    """What any call may save: asked with all there and all needed, for each word of an enum."""
    return [o.name for o in gradient.row.outs if o.optional] if gradient.functions else ()


def differentiable(row: Row) -> bool:
    """Whether autograd has to know of the row at all."""
    floats = any(d[t.name] in FLOATS for d in row.dtypes for t in row.tensors)
    return floats and row.differentiable and not row.writes
