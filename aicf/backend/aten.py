"""A row's `aten` text: what the op is in ATen's words, as data and as a call of torch or numpy.

It is what a backend falls back to where no kernel of its own takes a call.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aicf.bindings import bind
from aicf.table import Kind, Param, Row

from . import numpy_words
from .tensors import dtype_of, like, spec_of, to_torch, write

if TYPE_CHECKING:

    class Unsupported(TypeError, ValueError):
        """The runtime's own, which is there where it was built."""

else:
    from aicf_rt import Unsupported


class NoFallback(Unsupported):
    """An op, or a call of it, that ATen has no word for; says which, and why that was asked."""


@dataclass(frozen=True, slots=True)
class Name:
    """An argument, a dim or a type variable of the row."""

    name: str


Term = Name | tuple["Term", ...] | int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class Word:
    """`name(args, keywords)`, over the row's names."""

    name: str  # "add"
    overload: str  # "Tensor"; "default" where the text has none
    args: tuple[Term, ...]
    keywords: Mapping[str, Term]

    def __str__(self) -> str:
        return f"aten.{self.name}" + (f".{self.overload}" if self.overload != "default" else "")

    def names(self) -> set[str]:
        """The row's names that it reads."""
        found: set[str] = set()
        pending: list[Term] = [*self.args, *self.keywords.values()]
        while pending:
            term = pending.pop()
            if isinstance(term, Name):
                found.add(term.name)
            elif isinstance(term, tuple):
                pending.extend(term)
        return found


@functools.cache
def parse(text: str) -> Word:
    """Raises ValueError where it is no call."""
    tree = ast.parse(text.strip(), mode="eval").body
    if not isinstance(tree, ast.Call):
        raise ValueError(f"{text!r} is no call of an ATen op")
    name, _, overload = ast.unparse(tree.func).partition(".")
    keywords = {k.arg: _term(k.value) for k in tree.keywords if k.arg}
    return Word(name, overload or "default", tuple(map(_term, tree.args)), keywords)


def _term(node: ast.expr) -> Term:
    if isinstance(node, ast.Name):
        return Name(node.id)
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(map(_term, node.elts))
    value: Term = ast.literal_eval(node)
    return value


# ---- the fallback ------------------------------------------------------------------------------


def fall_back(row: Row, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The call by torch if that is installed, else by numpy: what `row.call` would have given.
    Raises NoFallback, or what torch raises of operands that it does not take either."""
    word = _word(row)
    tensors, attributes, outs = _sorted(row, args, options)
    _check_named(row, word, tensors, attributes)
    compute = _torch if has_torch() else _numpy
    results = compute(row, word, tensors, attributes, _types(row, tensors, outs, options))
    if any(p.inout for p in row.tensors):
        return None
    return _given(row, word, results, outs, [t for t in tensors if t is not None])


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def _word(row: Row) -> Word:
    if row.aten is None:
        raise NoFallback(f"{row.name} has no fallback: its row says no `aten`")
    return parse(row.aten)


def _sorted(
    row: Row, args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Tensors in the row's order, attributes and scalars by name with their defaults, outs."""
    placed = dict(zip((p.name for p in row.tensors), args, strict=False))
    placed |= {k: v for k, v in options.items() if k not in ("stream", "kernel", "dtype")}
    tensors = [placed.get(p.name) for p in row.tensors]
    attributes = {p.name: placed.get(p.name, p.default) for p in row.params if not p.is_tensor}
    outs = {o.name: placed[o.name] for o in row.outs if placed.get(o.name) is not None}
    return tensors, attributes, outs


def _check_named(
    row: Row, word: Word, tensors: Sequence[Any], attributes: Mapping[str, Any]
) -> None:
    """What the text does not name stands at its default there: elsewhere it is another op."""
    given = dict(zip((p.name for p in row.tensors), tensors, strict=True)) | dict(attributes)
    for p in row.params:
        if p.name not in word.names() and not _is_default(p, given[p.name]):
            raise NoFallback(f"{row.name} has no fallback with {p.name}: {word} does not take it")
        if p.word == "axes" and isinstance(given[p.name], list | tuple) and not given[p.name]:
            raise NoFallback(f"{row.name} has no fallback over no axes: {word} takes that for all")


def _is_default(p: Param, value: Any) -> bool:
    return value is None if p.is_tensor else bool(value == p.default)


def _types(
    row: Row, tensors: Sequence[Any], outs: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, str]:
    """The dtypes that the row's type variables stand for."""
    found: dict[str, str] = {}
    for p, x in (
        *zip(row.tensors, tensors, strict=True),
        *((o, outs.get(o.name)) for o in row.outs),
    ):
        first = x[0] if p.kind is Kind.LIST and x else x
        if first is not None and first is not True:
            found.setdefault(p.dtype, dtype_of(first))
    if row.free:
        first_type = next(iter(row.variants.values())).types[row.free]
        asked = options.get("dtype")
        default = found.get(row.free, first_type)
        found[row.free] = default if asked is None else dtype_of(asked)
    return found


def _torch(
    row: Row,
    word: Word,
    tensors: Sequence[Any],
    attributes: Mapping[str, Any],
    types: Mapping[str, str],
) -> tuple[Any, ...]:
    import torch
    from aicf_rt.dtypes import WORDS

    op = getattr(getattr(torch.ops.aten, word.name), word.overload)
    names = _names(row, tensors, attributes)
    for p, x in zip(row.tensors, tensors, strict=True):
        names[p.name] = _each(functools.partial(to_torch, written=p.inout), x)
    names |= {name: getattr(torch, WORDS[d]) for name, d in types.items()}
    result = op(**_arguments(row, word, op._schema.arguments, names))
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def _arguments(
    row: Row, word: Word, parameters: Sequence[Any], names: Mapping[str, Any]
) -> dict[str, Any]:
    """By ATen's names, as its schema takes them."""
    terms = dict(zip((p.name for p in parameters), word.args, strict=False)) | dict(word.keywords)
    found: dict[str, Any] = {}
    for p in parameters:
        if p.name in terms:
            value = _taken(_value(terms[p.name], names), str(p.type))
            if value is None and str(p.type) == "Tensor":
                raise NoFallback(f"{row.name} has no fallback without {p.name}: {word} takes it")
            found[p.name] = value
        elif p.name.endswith("dtype") and not p.has_default_value():
            found[p.name] = names[row.tensors[0].name].dtype  # gradients ask for their operand's
    return found


def _numpy(
    row: Row,
    word: Word,
    tensors: Sequence[Any],
    attributes: Mapping[str, Any],
    types: Mapping[str, str],
) -> tuple[Any, ...]:
    compute: Callable[..., Any] | None = numpy_words.find(word.name)
    if compute is None:
        raise NoFallback(f"{row.name} has no fallback without torch: numpy has no {word}")
    names = _names(row, tensors, attributes) | dict(types)
    names |= {
        p.name: _each(numpy_words.array, x) for p, x in zip(row.tensors, tensors, strict=True)
    }
    args = [_value(term, names) for term in word.args]
    return (compute(*args, **{k: _value(t, names) for k, t in word.keywords.items()}),)


def _names(row: Row, tensors: Sequence[Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return bind(row, [_each(spec_of, x) for x in tensors], attributes)
    except (ArithmeticError, IndexError):  # shapes that the op refuses; torch will say why
        return dict(attributes)


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    if x is None:
        return None
    return [function(t) for t in x] if isinstance(x, list | tuple) else function(x)


def _value(term: Term, names: Mapping[str, Any]) -> Any:
    if isinstance(term, Name):
        return names[term.name]
    return [_value(t, names) for t in term] if isinstance(term, tuple) else term


def _taken(value: Any, kind: str) -> Any:
    """As a parameter of ATen's takes it: an enum's word as its number, all axes as a list."""
    if kind == "int" and isinstance(value, str):
        from torch.nn import _reduction

        return _reduction.get_enum(value)
    if kind == "List[int]" and value is None:
        return []
    return list(value) if isinstance(value, tuple) else value


def _given(
    row: Row, word: Word, results: tuple[Any, ...], outs: Mapping[str, Any], operands: list[Any]
) -> Any:
    """What the generic function gives: the outs that were asked for, in the caller's own tensors
    or, where there are none, of the kind of its operands."""
    beyond = [o.name for o in row.outs[len(results) :] if o.name in outs or not o.optional]
    if beyond:
        raise NoFallback(f"{row.name} has no fallback that gives {beyond[0]}: {word} does not")
    found: list[Any] = [None] * len(row.outs)
    for i, (o, result) in enumerate(zip(row.outs, results, strict=False)):
        want = outs.get(o.name)
        if want is None and o.optional and row.required_outs <= i:
            continue
        if want is None or want is True:
            found[i] = like(result, operands)
        else:
            write(result, want)
            found[i] = want
    return found[0] if len(row.outs) == 1 else _together(row.name, row.outs, found)


@functools.cache
def _bundle(name: str, fields: tuple[str, ...]) -> Any:
    from collections import namedtuple

    return namedtuple(name, fields)


def _together(name: str, outs: Sequence[Param], found: Sequence[Any]) -> Any:
    """Of several outs; the required one alone where no optional one was computed."""
    required = sum(not o.optional for o in outs)
    if required == 1 and all(x is None for x in found[1:]):
        return found[0]
    return _bundle(name, tuple(o.name for o in outs))(*found)
