"""A row's `aten` read backwards: which call of the row a call of ATen is.

The text `conv2d(x, w, bias, stride, pad, dilation, groups)` names at each place of ATen's schema a
parameter of the row, a type variable, or a value that must be there. What it leaves out must be as
ATen's default, and what of the row it leaves out is as the row's.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aicf.compiler.ir.node import Value
from aicf.table import Kind, Param, Row

# Arguments of ATen that change nothing of what comes out, as long as a row is chosen by the rest:
# which library computes it, how memory is laid out, and of norms the update of statistics that the
# rows do not do.
NEUTRAL: Final = frozenset(
    ("memory_format", "layout", "device", "pin_memory", "non_blocking", "cudnn_enabled")
    + ("cudnn_enable", "momentum")
)


class Mismatch(ValueError):
    """The call is not one of the row; says why."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number where the row has a tensor: for a constant, if nothing else matches."""

    value: bool | int | float


@dataclass(slots=True)
class Match:
    """A call of a row: operands by parameter, and attributes."""

    row: Row
    operands: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> bool:
        """Whether a tensor is a number only."""
        return any(isinstance(x, Number) for x in self.operands.values())


@dataclass(frozen=True, slots=True)
class Pattern:
    """The `aten` of a row, parsed."""

    row: Row
    places: tuple[ast.expr, ...]
    words: Mapping[str, ast.expr]

    @staticmethod
    def of(row: Row) -> Pattern:
        call = ast.parse(row.aten or "", mode="eval").body
        assert isinstance(call, ast.Call), f"{row.name}: opgen lets only calls through"
        words = {k.arg: k.value for k in call.keywords if k.arg}
        return Pattern(row, tuple(call.args), words)

    def match(self, schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Match:
        """The call of the row that this call of ATen is. Raises Mismatch."""
        found = Match(self.row)
        for i, argument in enumerate(schema.arguments):
            name, default = argument.name, argument.default_value
            given = args[i] if i < len(args) else kwargs.get(name, default)
            if i < len(self.places):
                self.bind(found, name, self.places[i], given)
            elif name in self.words:
                self.bind(found, name, self.words[name], given)
            elif given != default and name not in NEUTRAL:
                raise Mismatch(f"{name} is {given}, which {self.row.name} does not know")
        for p in self.row.params:
            if p.required and p.name not in found.operands and p.name not in found.attrs:
                raise Mismatch(f"nothing says {p.name} of {self.row.name}")
        return found

    def bind(self, found: Match, name: str, place: ast.expr, given: Any) -> None:
        """What stands at one place."""
        match place:
            case ast.Name():
                self.named(found, place.id, given)
            case ast.List():
                if not isinstance(given, list | tuple) or len(given) != len(place.elts):
                    raise Mismatch(f"{name} is {given}, and {ast.unparse(place)} is needed")
                for part, value in zip(place.elts, given, strict=True):
                    self.bind(found, name, part, value)
            case _:
                expected = ast.literal_eval(place)
                if name not in NEUTRAL and not _equal(given, expected):
                    raise Mismatch(f"{name} is {given}, and {self.row.name} is of {expected}")

    def named(self, found: Match, name: str, given: Any) -> None:
        """A parameter, a type variable, or a dim, which its tensors say."""
        row = self.row
        p = next((p for p in row.params if p.name == name), None)
        if p is None:
            if name == row.free:
                found.attrs["dtype"] = given
        elif p.kind is Kind.ATTR:
            found.attrs[name] = _attribute(p, given)
        else:
            found.operands[name] = _operand(p, given)


def _operand(p: Param, given: Any) -> Any:
    if given is None:
        if not p.optional:
            raise Mismatch(f"{p.name} is None")
        return None
    if p.kind is Kind.LIST:
        if not isinstance(given, list | tuple) or not all(isinstance(v, Value) for v in given):
            raise Mismatch(f"{p.name} is no list of tensors")
        return tuple(given)
    if isinstance(given, Value):
        return given
    if p.kind is Kind.TENSOR and isinstance(given, bool | int | float):
        return Number(given)
    if p.kind is Kind.SCALAR and (isinstance(given, int | float) or _is_symbolic(given)):
        return given
    raise Mismatch(f"{p.name} is {given!r}")


def _attribute(p: Param, given: Any) -> Any:
    """A value of ATen's in the row's words: an enum may be a number there, all axes an empty
    list."""
    if isinstance(given, Value):
        raise Mismatch(f"{p.name} is known at run time alone")
    if given is None and p.default is not None:
        raise Mismatch(f"{p.name} is None")
    if p.word == "enum" and isinstance(given, int) and 0 <= given < len(p.values):
        return p.values[given]
    if p.word in ("axes", "ints") and isinstance(given, list | tuple):
        if p.word == "axes" and not given and p.default is None:
            return None
        return tuple(given) if len(given) != 1 or p.word == "axes" else given[0]
    return given


def _equal(given: Any, expected: Any) -> bool:
    """One number stands for several."""
    if isinstance(given, list | tuple) and not isinstance(expected, list):
        return all(_equal(v, expected) for v in given)
    return type(given) is type(expected) and bool(given == expected)


def _is_symbolic(x: object) -> bool:
    return bool(getattr(x, "is_symbolic", False))
