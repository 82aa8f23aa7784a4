"""What a node gives: types of outs and new states from the types of its operands.

All of it is the row's: dtypes by its variants, shapes by its relation, order in memory by `order`,
attributes by their bounds, layouts by its kernels. Each refusal is an IRError with its rule.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aicf import bindings, dim
from aicf.compiler.ir import layout, types, view
from aicf.compiler.ir.errors import IRError, Rule
from aicf.compiler.ir.types import HOST, ScalarType, TensorType, Type, ordered_as
from aicf.dim import Dim, Ratio, Undecided
from aicf.table import FLOATS, NO_DEFAULT, Kind, Param, Row, Table, Variant

# An operand by its type: of a tensor or scalar, a tuple for a list, a literal for itself, None for
# what is absent.
Typed = Any


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a node is once its operands are known."""

    attrs: Mapping[str, Any]  # all, canonical, in the row's order
    outs: tuple[Type | None, ...]  # None: an optional one that is not computed
    states: Mapping[str, Type | tuple[Type, ...]]  # of what is updated in place, by parameter
    variant: str | None  # suffix of the typed function; of a view None


def infer(
    table: Table, op: str, operands: Sequence[Typed], attrs: Mapping[str, Any],
    want: Sequence[bool] | None = None,
) -> Inferred:  # fmt: skip
    """`operands`: one for each of the row's, those at the end may be left out. `attrs` may have a
    `dtype`, for a row whose arguments do not say it. `want`: which outs, None: the required ones.
    Raises IRError."""
    if op in view.VIEWS:
        return _of_view(op, operands, attrs)
    if op not in table:
        raise IRError(Rule.UNKNOWN_OP, f"{table.package} has no op {op!r}", op)
    return _Call(table, table[op], operands, attrs).inferred(want)


def _of_view(op: str, operands: Sequence[Typed], attrs: Mapping[str, Any]) -> Inferred:
    if len(operands) != 1 or not isinstance(operands[0], TensorType):
        raise IRError(Rule.OPERAND, "it takes one tensor", op)
    try:
        canonical = view.canonical(op, attrs)
    except TypeError as error:
        raise IRError(Rule.ATTRIBUTE, str(error), op) from None
    try:
        return Inferred(canonical, (view.VIEWS[op](operands[0], **canonical),), {}, None)
    except view.NotExpressible as error:
        raise IRError(Rule.VIEW, str(error), op) from None
    except Undecided as error:
        raise IRError(Rule.SYMBOL, str(error), op) from None
    except (view.ViewError, ValueError) as error:
        raise IRError(Rule.SHAPE, str(error), op) from None


class _Call:
    """One call of a row on its way through the rules, in their order."""

    def __init__(
        self, table: Table, row: Row, operands: Sequence[Typed], attrs: Mapping[str, Any]
    ) -> None:
        self.table, self.row = table, row
        self.operands = self.padded(operands)
        self.given = attrs

    def inferred(self, want: Sequence[bool] | None) -> Inferred:
        row = self.row
        for p, operand in zip(row.operands, self.operands, strict=True):
            self.check_operand(p, operand)
        device = self.device()
        attrs = self.attributes()
        variant = self.variant()
        self.check_scalars(variant)
        shapes = self.shapes(attrs)
        self.check_outs(attrs, shapes)
        outs = tuple(
            self.out_type(o, shape, variant.dtypes[o.name], device) if wanted else None
            for o, shape, wanted in zip(row.outs, shapes, self.wanted(want), strict=True)
        )
        self.check_layout(variant, device, outs)
        states = {p.name: self.operand(p) for p in row.inouts if self.operand(p) is not None}
        return Inferred(attrs, outs, states, variant.suffix)

    # ---- operands -------------------------------------------------------------------------------

    def padded(self, operands: Sequence[Typed]) -> tuple[Typed, ...]:
        """With defaults of scalars, and None for what is absent."""
        row = self.row
        if len(operands) > len(row.operands):
            raise IRError(
                Rule.OPERAND, f"{len(operands)} operands, of {len(row.operands)}", row.name
            )
        rest = (None,) * (len(row.operands) - len(operands))
        return tuple(
            p.default if x is None and p.default is not NO_DEFAULT else x
            for p, x in zip(row.operands, (*operands, *rest), strict=True)
        )

    def operand(self, p: Param) -> Typed:
        return self.operands[self.row.operands.index(p)]

    def check_operand(self, p: Param, operand: Typed) -> None:
        words, is_right = _KINDS[p.kind]
        if operand is None:
            if not p.optional:
                raise self.error(Rule.OPERAND, f"{p.name} is missing: {words}")
        elif not is_right(operand):
            raise self.error(Rule.OPERAND, f"{p.name} must be {words}, not {_text(operand)}")

    def tensors(self) -> Iterator[tuple[Param, TensorType]]:
        for p, operand in zip(self.row.operands, self.operands, strict=True):
            for t in _each(operand):
                yield p, t

    def device(self) -> str:
        found: dict[str, str] = {}
        for p, t in self.tensors():
            found.setdefault(t.device, p.name)
        if len(found) > 1:
            words = ", ".join(f"{name} on {device}" for device, name in found.items())
            raise self.error(Rule.DEVICE, words)
        return next(iter(found), HOST)

    # ---- attributes and dtypes ------------------------------------------------------------------

    def attributes(self) -> dict[str, Any]:
        row = self.row
        known = {p.name for p in row.attrs} | ({"dtype"} if row.free else set())
        for name in self.given:
            if name not in known:
                has = f"; it has {', '.join(sorted(known))}" if known else "; it has none"
                raise self.error(Rule.ATTRIBUTE, f"no attribute {name!r}{has}")
        found: dict[str, Any] = {}
        for p in row.attrs:
            value = self.given.get(p.name, p.default)
            if value is NO_DEFAULT:
                raise self.error(Rule.ATTRIBUTE, f"{p.name} is missing: {p.word}")
            rank = self.rank(p.of) if p.of else None
            try:
                found[p.name] = row.canonical(p.name, value, rank)
            except Undecided as error:
                raise self.error(Rule.SYMBOL, str(error)) from None
            except (TypeError, ValueError) as error:
                raise self.error(Rule.ATTRIBUTE, str(error)) from None
            except OverflowError as error:  # of an integer, which may be too long to print
                raise self.error(Rule.ATTRIBUTE, f"{p.name}: {error}") from None
        if row.free:
            found["dtype"] = self.free()
        return found

    def free(self) -> str:
        """What `dtype=` says, else the first of its list."""
        row = self.row
        assert row.free is not None
        known = list(dict.fromkeys(v.types[row.free] for v in row.variants.values()))
        found = self.given.get("dtype") or known[0]
        if found not in known:
            raise self.error(Rule.DTYPE, f"dtype must be one of {', '.join(known)}, not {found!r}")
        return str(found)

    def rank(self, name: str) -> int | None:
        first = next(_each(self.operand(self.row.param(name))), None)
        return None if first is None else first.rank

    def variant(self) -> Variant:
        row = self.row
        given: dict[str, str] = {}
        for p, t in self.tensors():
            if p.is_tensor and given.setdefault(p.name, t.dtype) != t.dtype:
                raise self.error(Rule.DTYPE, f"{p.name} has {given[p.name]} and {t.dtype}")
        found = row.variant(given, self.free() if row.free else None)
        if found is None:
            words = ", ".join(f"{name}: {dtype}" for name, dtype in given.items())
            raise self.error(Rule.DTYPE, f"no variant takes {words}; {self.known_variants()}")
        return found

    def known_variants(self) -> str:
        names = list(self.row.variants)
        return f"there are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"

    def check_scalars(self, variant: Variant) -> None:
        for p in self.row.scalars:
            operand, want = self.operand(p), variant.dtypes[p.name]
            if isinstance(operand, TensorType | ScalarType):
                if operand.dtype != want:
                    raise self.error(Rule.DTYPE, f"{p.name} must be {want}, not {operand}")
            elif not _may_be(operand, want):
                raise self.error(Rule.DTYPE, f"{p.name} must be {want}, not {operand!r}")
            else:
                try:
                    types.python_number(operand)
                except ValueError as error:
                    raise self.error(Rule.DTYPE, f"{p.name}: {error}") from None

    # ---- shapes, layouts, outs ------------------------------------------------------------------

    def shapes(self, attrs: Mapping[str, Any]) -> tuple[tuple[Any, ...], ...]:
        row = self.row
        shapes = [_shape(self.operand(p)) for p in row.tensors]
        try:
            return row.relation(*shapes, **{p.name: attrs[p.name] for p in row.attrs})
        except Undecided as error:
            raise self.error(Rule.SYMBOL, str(error)) from None
        except ValueError as error:
            message = str(error).removeprefix(f"{row.name}: ")
            raise self.error(Rule.SHAPE, f"{message}, with {self.described()}") from None

    def check_outs(self, attrs: Mapping[str, Any], shapes: Sequence[Sequence[Any]]) -> None:
        """What `where` says of outs, which a relation of arguments cannot."""
        row = self.row
        for where in _wheres_of_outs(row):
            names = bindings.bind(row, self.operands[: len(row.tensors)], attrs)
            outs = zip(row.outs, shapes, strict=True)
            names.update((o.name, TensorType("f32", tuple(shape))) for o, shape in outs)
            try:
                holds = bindings.evaluate(where["python"], names)
            except Undecided as error:
                raise self.error(Rule.SYMBOL, str(error)) from None
            if not holds:
                message = f"{where['message']}, with {self.described()}"
                raise self.error(Rule.SHAPE, message)

    def described(self) -> str:
        given = zip(self.row.tensors, self.operands, strict=False)
        return ", ".join(f"{p.name}: {_text(x)}" for p, x in given if x is not None)

    def check_layout(
        self, variant: Variant, device: str, outs: Sequence[TensorType | None]
    ) -> None:
        """Whether a kernel takes operands and outs as they lie."""
        row = self.row
        tensors = {p.name: list(_each(self.operand(p))) for p in row.tensors}
        tensors.update((o.name, list(_each(t))) for o, t in zip(row.outs, outs, strict=True))
        if all(t.strides is None for types in tensors.values() for t in types):
            return
        if not layout.fits(row, self.table.backend_of(device), variant.suffix, tensors):
            raise self.error(Rule.LAYOUT, f"no kernel takes {self.described()}")

    def wanted(self, want: Sequence[bool] | None) -> Sequence[bool]:
        outs = self.row.outs
        least = [not o.optional for o in outs]
        if want is None or not any(want):
            return least if any(least) else [True] * len(outs)
        if len(want) != len(outs):
            raise self.error(Rule.OUTS, f"{len(want)} outs, of {len(outs)}")
        for o, wanted in zip(outs, want, strict=True):
            if not wanted and not o.optional:
                raise self.error(Rule.OUTS, f"{o.name} is missing")
        return want

    def out_type(self, out: Param, shape: Sequence[Any], dtype: str, device: str) -> TensorType:
        model = next(_each(self.operand(self.row.param(out.order))), None) if out.order else None
        strides = ordered_as(shape, model) if model is not None else None
        return TensorType(dtype, tuple(shape), strides, device)

    def error(self, rule: Rule, message: str) -> IRError:
        return IRError(rule, message, self.row.name)


@functools.cache
def _wheres_of_outs(row: Row) -> tuple[Mapping[str, str], ...]:
    outs = {o.name for o in row.outs}
    wheres: Sequence[Mapping[str, str]] = row.entry["wheres"]
    return tuple(w for w in wheres if outs & set(re.findall(r"\w+", w["text"])))


def _each(operand: Typed) -> Iterator[TensorType]:
    """The tensors of an operand."""
    for t in operand if isinstance(operand, tuple) else (operand,):
        if isinstance(t, TensorType):
            yield t


def _is_list(operand: Typed) -> bool:
    return isinstance(operand, tuple) and all(isinstance(t, TensorType) for t in operand)


def _is_scalar(operand: Typed) -> bool:
    if isinstance(operand, TensorType):
        return operand.is_one
    return isinstance(operand, ScalarType | bool | int | float | Dim | Ratio)


_KINDS: dict[Kind, tuple[str, Callable[[Typed], bool]]] = {
    Kind.TENSOR: ("a tensor", lambda operand: isinstance(operand, TensorType)),
    Kind.LIST: ("a list of tensors", _is_list),
    Kind.SCALAR: ("a number or a tensor of one element", _is_scalar),
}


def _may_be(literal: object, dtype: str) -> bool:
    if dtype in FLOATS:
        return not isinstance(literal, bool)
    if dtype == "bool":
        return isinstance(literal, bool)
    return isinstance(literal, int | Dim) and not isinstance(literal, bool)


def _shape(operand: Typed) -> Any:
    if isinstance(operand, tuple):
        return [t.shape for t in operand]
    return None if operand is None else operand.shape


def _text(operand: Typed) -> str:
    if isinstance(operand, tuple):
        return f"[{', '.join(map(_text, operand))}]"
    return str(operand)


def symbols(operand: Typed) -> Iterator[dim.Symbol]:
    """All that an operand or an attribute names."""
    if isinstance(operand, tuple):
        for part in operand:
            yield from symbols(part)
    elif isinstance(operand, TensorType):
        yield from operand.symbols
    else:
        yield from dim.symbols(operand)
