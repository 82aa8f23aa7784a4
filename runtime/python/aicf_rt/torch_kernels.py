"""The kernels of torch's ops: each calls the op's module, which checks and launches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from torch.autograd import forward_ad

from ._core import Unsupported
from .dtypes import WORDS
from .torch_schema import Overload, Row

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, word) for name, word in WORDS.items()}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

Kernel = Callable[..., Any]

_is_grad_enabled = torch.is_grad_enabled


def _increments() -> Callable[[Sequence[torch.Tensor]], None]:
    """Torch's own function takes three times as long as what it calls."""
    public: Callable[[Sequence[torch.Tensor]], None] = torch.autograd.graph.increment_version
    private: Any = getattr(torch._C, "_increment_version", None)
    if private is None:
        return public
    try:
        private([torch.empty(0)])
    except TypeError:  # an older one takes a single tensor
        return public
    found: Callable[[Sequence[torch.Tensor]], None] = private
    return found


increment_version = _increments()


class _Always:
    """In the place of a `forward_ad` without its level: each tensor is asked."""

    _current_level = 0


_forward_ad: Any = forward_ad if hasattr(forward_ad, "_current_level") else _Always


def forward_level() -> int:
    """How deep forward mode is nested, -1 outside of it."""
    level: int = _forward_ad._current_level
    return level


def _asked(*args: Any, **kwargs: Any) -> bool:
    return any(x.requires_grad for x in tensors_of([*args, *kwargs.values()]))


any_requires_grad: Callable[..., bool] = getattr(torch._C, "_any_requires_grad", _asked)


class Module:
    """The functions of an op's module, which is imported when the first of them is asked for."""

    __slots__ = ("generic", "infer", "package", "row", "typed", "unasked")

    generic: Kernel
    unasked: Kernel  # the same for callers who know that nothing is recorded
    infer: Kernel
    typed: dict[torch.dtype, Kernel]  # the typed functions by the dtype of `row.lead`

    def __init__(self, package: str, row: Row) -> None:
        self.package, self.row = package, row

    def __getattr__(self, name: str) -> Any:
        """Of what is not there yet."""
        if name not in self.__slots__:
            raise AttributeError(name)
        module = importlib.import_module(f"{self.package}.{self.row.name}")
        self.generic, self.infer = getattr(module, self.row.name), module.infer
        self.typed, self.unasked = self._typed(module), module._unasked
        return object.__getattribute__(self, name)

    def _typed(self, module: ModuleType) -> dict[torch.dtype, Kernel]:
        row = self.row
        if row.lead is None:
            return {}
        lead = row.tensors[row.lead].name
        return {
            DTYPES[dtypes[lead]]: getattr(module, f"{row.name}_{suffix}")
            for suffix, dtypes in zip(row.suffixes, row.dtypes, strict=True)
        }


def tensors_of(args: Sequence[Any]) -> Iterator[torch.Tensor]:
    """All that are present, lists flattened."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from tensors_of(arg)


# ---- what ops that write must refuse ----------------------------------------------------------


def named_tensors(
    overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor of a call with the name of its argument."""
    for t, arg in zip(overload.row.tensors, args, strict=False):
        yield from ((t.name, x) for x in tensors_of([arg]))
    for name, arg in kwargs.items():
        yield from ((name, x) for x in tensors_of([arg]))


def refuse_gradients(overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Where grad mode is on, of an op that writes: in the words of the generic function."""
    for name, x in named_tensors(overload, args, kwargs):
        if x.requires_grad:
            raise unsupported(overload.row, name, GRADIENT)


def refuse_tangents(overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Where a level of forward mode is open."""
    for name, x in named_tensors(overload, args, kwargs):
        if forward_ad.unpack_dual(x).tangent is not None:
            raise unsupported(overload.row, name, TANGENT)


GRADIENT = (
    "it requires grad, which this call does not record: detach() it, call under no_grad(), or use "
    "torch.ops without an out"
)
TANGENT = "it carries a forward-mode tangent, which this call would lose"


def unsupported(row: Row, name: str, why: str) -> Unsupported:
    error = Unsupported(f"{row.name}: {name}: {why}")
    error.op, error.arg = row.name, name
    return error


# ---- memory order -----------------------------------------------------------------------------


def order_of(shape: Sequence[Any], model: torch.Tensor | None) -> tuple[Any, ...]:
    """The strides of an omitted out: in the order of `model` where that has its rank and no gaps,
    and the out elements, else row-major; as `order_as` in libaicf. Sizes and strides may be
    symbolic."""
    order = None
    if model is not None and len(model.shape) == len(shape) and not is_empty(shape):
        order = innermost(model)
    strides: list[Any] = [1] * len(shape)
    below: Any = 1
    for i in range(len(shape))[::-1] if order is None else order:
        strides[i] = below
        below = below * (1 if isinstance(shape[i], int) and shape[i] == 0 else shape[i])
    return tuple(strides)


def innermost(x: torch.Tensor) -> list[int] | None:
    """The dims, the innermost first; None if sorted by stride not each stride is the product of the
    sizes below it. Of the dims of size 1 the first ones are put outside of all, a last one just
    inside of the dim to its left, others just outside of the one to their right."""
    ones = [i for i, n in enumerate(x.shape) if is_known(n == 1)]
    rest = [i for i in range(x.dim()) if i not in ones]
    order: list[int] = []
    expected: Any = 1
    while rest:
        found = next((i for i in reversed(rest) if is_known(x.stride(i) == expected)), None)
        if found is None:
            return None
        rest.remove(found)
        order.append(found)
        expected = expected * x.shape[found]
    first, last = min(order, default=x.dim()), max(order, default=0)
    for i in reversed(ones):
        if i < first:
            order.append(i)
        elif i + 1 < x.dim():
            order.insert(order.index(i + 1) + 1, i)
        else:
            order.insert(order.index(last), i)
    return order


def is_empty(shape: Sequence[Any]) -> bool:
    """Nobody makes a symbol for a size of 0."""
    return any(isinstance(n, int) and n == 0 for n in shape)


def is_known(condition: bool | torch.SymBool) -> bool:
    """Whether it holds; not, where nobody knows before run time."""
    if isinstance(condition, torch.SymBool):
        from torch.fx.experimental import symbolic_shapes  # there by now, and slow to import

        return bool(symbolic_shapes.guard_or_false(condition))
    return bool(condition)


# ---- operands that no kernel takes as they lie ------------------------------------------------


def dense_choices(args: Sequence[Any], kept: Collection[int]) -> Iterator[list[Any]]:
    """The arguments with one operand marked to be made dense, for each but those that are written;
    then with all of them. What is marked is a one-element tuple of the tensor."""
    read = [(i, x) for i, x in enumerate(args) if i not in kept]
    loose = [i for i, x in read if isinstance(x, torch.Tensor) and not _is_dense(x)]
    lists = [i for i, x in read if isinstance(x, list) and not all(map(_is_dense, x))]
    for chosen in (*([i] for i in loose + lists), loose + lists):
        yield [(x,) if i in chosen else x for i, x in enumerate(args)]


def _is_dense(x: torch.Tensor) -> bool:
    return bool(x.is_contiguous())


class Functional:
    """Calls the generic function; where no kernel takes the operands as they lie, on dense ones."""

    __slots__ = ("changing", "copy", "module", "overload")

    def __init__(self, overload: Overload, module: Module, copy: Kernel) -> None:
        self.overload, self.module, self.copy = overload, module, copy
        self.changing = [i for i, t in enumerate(overload.row.tensors) if t.inout]

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return self.module.generic(*args, **kwargs)
        except Unsupported as error:
            return self.refused(args, kwargs, error)

    def refused(self, args: Sequence[Any], kwargs: dict[str, Any], error: Unsupported) -> Any:
        """Tries what else there is, or raises."""
        if error.arg is not None and not _is_grad_enabled():
            raise error
        with torch.no_grad():  # who may need a gradient was asked above this kernel
            return self.again(args, kwargs, error)

    def again(self, args: Sequence[Any], kwargs: dict[str, Any], first: Unsupported) -> Any:
        try:
            return self.module.generic(*args, **kwargs)
        except Unsupported as error:
            if error.arg is not None:
                raise
        return self.in_order(self.on_dense(args, kwargs, first), args)

    def writing(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Of an op that writes, to where it is told: only what it reads is made dense."""
        try:
            return self.module.generic(*args, **kwargs)
        except Unsupported as error:
            if error.arg is not None:
                raise
            return self.on_dense(args, kwargs, error)

    def on_dense(self, args: Sequence[Any], kwargs: dict[str, Any], first: Unsupported) -> Any:
        for choice in dense_choices(args, self.changing):
            try:
                return self.module.generic(*(self.densified(x) for x in choice), **kwargs)
            except Unsupported:
                continue
        raise first

    def densified(self, x: Any) -> Any:
        if not isinstance(x, tuple):
            return x
        inner = x[0]
        return [self.copied(t) for t in inner] if isinstance(inner, list) else self.copied(inner)

    def copied(self, x: torch.Tensor) -> torch.Tensor:
        if x.is_contiguous():
            return x
        try:
            dense: torch.Tensor = self.copy(x)
        except Unsupported:
            dense = x.contiguous()
        return dense

    def in_order(self, result: Any, args: Sequence[Any]) -> Any:
        """In the memory order that the op gives, however its operands were made dense."""
        row = self.overload.row
        if not any(o.order for o in row.outs):
            return result
        alone = isinstance(result, torch.Tensor)
        given = [result] if alone else list(result)
        for i, out in enumerate(row.outs[: len(given)]):
            if out.order and given[i] is not None:
                given[i] = _reordered(given[i], args[row.index[out.order]])
        return given[0] if alone else tuple(given)


def _reordered(x: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    strides = order_of(x.shape, model)
    if tuple(x.stride()) == strides:
        return x
    return x.new_empty_strided(x.shape, strides).copy_(x)


# ---- kernels ----------------------------------------------------------------------------------


def kernel_of(overload: Overload, module: Module, copy: Kernel) -> Kernel:
    """What torch calls for an overload, below autograd."""
    functional = Functional(overload, module, copy)
    if overload.form == "out":
        return _out(overload, functional)
    if overload.row.writes:
        return _in_place(overload, functional)
    if overload.form == "want":
        return _want(overload, functional)
    if overload.form == "aux":
        return _aux(overload, functional)
    return _plain(overload, functional)


def _plain(overload: Overload, functional: Functional) -> Kernel:
    required = overload.row.required
    cut = 1 < required < len(overload.row.outs)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        result = functional(args, kwargs)
        return tuple(result[:required]) if cut else result

    return kernel


def _aux(overload: Overload, functional: Functional) -> Kernel:
    every = {o.name: True for o in overload.row.outs if o.optional}

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return functional(args, {**kwargs, **every})

    return kernel


def check_want(row: Row, want: Sequence[bool]) -> None:
    """torch takes a list of any length."""
    if len(want) != len(row.outs):
        raise TypeError(f"{row.name}: want has {len(want)} entries, not one for each of "
                        f"{len(row.outs)} outs")  # fmt: skip


def _want(overload: Overload, functional: Functional) -> Kernel:
    names = [o.name for o in overload.row.outs]

    def kernel(*args: Any, want: Sequence[bool], **kwargs: Any) -> Any:
        check_want(overload.row, want)
        asked = {name: True for name, is_asked in zip(names, want, strict=True) if is_asked}
        return functional(args, {**kwargs, **asked}) if asked else (None,) * len(names)

    return kernel


def _out(overload: Overload, functional: Functional) -> Kernel:
    """Of outs that are all optional those that are given; nothing where none is."""
    row, module, changing = overload.row, functional.module, functional.changing
    names = [o.name for o in row.outs]
    required = [o.name for o in row.outs if not o.optional]
    lead = row.lead

    def kernel(*args: Any, **kwargs: Any) -> None:
        if _is_grad_enabled() and any_requires_grad(*args, **kwargs):
            refuse_gradients(overload, args, kwargs)
        if _forward_ad._current_level >= 0:
            refuse_tangents(overload, args, kwargs)
        written = [kwargs[name] for name in names if kwargs.get(name) is not None]
        for name in required:
            if kwargs.get(name) is None:  # which torch passes for a Tensor
                raise TypeError(f"{row.name}: {name} is None")
        if not written:
            return
        if changing:
            written += tensors_of([args[i] for i in changing if i < len(args)])
        model = None if lead is None else args[lead]
        typed = None if model is None else module.typed.get(model.dtype)
        if typed is None or not typed(*args, **kwargs):
            functional.writing(args, kwargs)
        increment_version(written)

    return kernel


def _in_place(overload: Overload, functional: Functional) -> Kernel:
    row, changing = overload.row, functional.changing
    every = {o.name: True for o in row.outs if o.optional} if overload.form == "aux" else {}
    names = [o.name for o in row.outs]

    def kernel(*args: Any, want: Sequence[bool] | None = None, **kwargs: Any) -> Any:
        if _is_grad_enabled() and any_requires_grad(*args, **kwargs):
            refuse_gradients(overload, args, kwargs)
        if _forward_ad._current_level >= 0:
            refuse_tangents(overload, args, kwargs)
        kwargs.update(every)
        if want is not None:
            check_want(row, want)
            kwargs.update((n, True) for n, asked in zip(names, want, strict=True) if asked)
        result = functional.writing(args, kwargs)
        increment_version(list(tensors_of([args[i] for i in changing if i < len(args)])))
        if want is not None:
            return tuple(x if asked else None for x, asked in zip(result, want, strict=True))
        return tuple(result[: row.required]) if row.required > 1 and not every else result

    return kernel
