"""One call whose kernel is to be chosen: an op, what its operands are, its attributes."""

from __future__ import annotations

import ast
import functools
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.text import split
from aicf.compiler.ir.types import TensorType, parse
from aicf.table import Param, Row, Table, Variant

from .key import Subject, order_text, sizes_text

# What a call has by name that no choice depends on.
_OTHERS = ("dtype", "stream", "kernel")

Operand = Any  # an aicf_rt.Spec, a tuple of them for a list, None


@dataclass(frozen=True, slots=True)
class Request:
    """`tensors` are Specs in the row's order; `options` are what stands by name beside them, in the
    order of names: attributes that are not their defaults, `dtype`, optional outs that are wanted
    (True). Scalars are left out: no kernel depends on one. Equal requests have equal answers."""

    row: Row
    tensors: tuple[Operand, ...]
    options: tuple[tuple[str, Any], ...] = ()
    _hash: int = field(default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.row, self.tensors, self.options)))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, row: Row, *tensors: Any, **options: Any) -> Request:
        """Of tensors of anybody's, or Specs, and what a call has by name; outs may be among it."""
        names = [p.name for p in row.tensors]
        placed = dict(zip(names, tensors, strict=False))
        placed |= {name: options.pop(name) for name in names if name in options}
        specs = tuple(_spec_of(placed.get(name)) for name in names)
        return cls(row, specs, _kept(row, options))

    @classmethod
    def of_node(cls, table: Table, node: Node) -> Request:
        """Of a node of a graph whose sizes are numbers."""
        row = table[node.op]
        tensors = tuple(_of_operand(x) for x in node.inputs[: len(row.tensors)])
        wanted = {
            o.name: True
            for o, value in zip(row.outs, node.outs, strict=True)
            if o.optional and value is not None
        }
        return cls(row, tensors, _kept(row, {**node.attrs, **wanted}))

    @property
    def device(self) -> str:
        """Where its first tensor lies."""
        return next((s.device for s in self.flat()), "cpu")

    def on(self, device: str) -> Request:
        """The same call with all its tensors there, of one whose tensors lie in host memory."""
        if device == "null" or self.device == device or self.device != "cpu":
            return self
        tensors = tuple(
            tuple(_moved(s, device) for s in x) if isinstance(x, tuple) else _moved(x, device)
            for x in self.tensors
        )
        return Request(self.row, tensors, self.options)

    def flat(self) -> list[Any]:
        """The Specs that are there, of lists too."""
        found: list[Any] = []
        for x in self.tensors:
            found += [] if x is None else x if isinstance(x, tuple) else [x]
        return found

    def keywords(self) -> dict[str, Any]:
        """The options, and scalars that are required, with a number that is allowed."""
        return {**_scalars(self.row), **dict(self.options)}

    def attributes(self) -> dict[str, Any]:
        """Every attribute and scalar, with its default where it is not said."""
        return {**_defaults(self.row), **dict(self.options)}

    def variant(self) -> Variant | None:
        """The dtypes of the typed function that it is of."""
        dtypes = tuple(
            [(x[0] if isinstance(x, tuple) else x).dtype if x else None for x in self.tensors]
        )
        return _variant(self.row, dtypes, dict(self.options).get("dtype"))

    def subject(self, among: Sequence[str]) -> Subject:
        """What a choice among these kernels is kept for. Tuners and executors both come here."""
        sizes, orders, variant = [], [], self.variant()
        for p, x in zip(self.row.tensors, self.tensors, strict=True):
            if isinstance(x, tuple):
                sizes.append(f"{p.name} {','.join(sizes_text(s.shape) for s in x)}")
                orders.append(f"{p.name} {','.join(order_text(s.shape, s.strides) for s in x)}")
            elif x is not None:
                shape = x.shape
                sizes.append(f"{p.name} {sizes_text(shape)}")
                orders.append(f"{p.name} {order_text(shape, x.strides)}")
        return Subject(
            self.row.name,
            variant.suffix if variant else "none",
            ", ".join(sizes),
            ", ".join(orders),
            ", ".join([f"{name}={value}" for name, value in self.options]),
            " ".join(among),
        )

    def __str__(self) -> str:
        """What `parse` reads: "gemm(f32[64, 64], f32[64, 32], act=relu)"."""
        tensors = list(self.tensors)
        while tensors and tensors[-1] is None:
            tensors.pop()
        options = (f"{name}={_word(value)}" for name, value in self.options)
        return f"{self.row.name}({', '.join([*map(_shown, tensors), *options])})"

    @classmethod
    def parse(cls, table: Table, text: str) -> Request:
        """Raises ValueError, or LookupError of an op that the table does not have."""
        name, opening, inside = text.strip().partition("(")
        if not opening or not inside.endswith(")"):
            raise ValueError(f"{text!r} is no call; one is written as add(f32[64, 64], f32[64])")
        row = table[name.strip()]
        placed: list[Operand] = []
        named: dict[str, Any] = {}
        for part in split(inside[:-1]):
            key, equals, value = part.partition("=")
            if equals:
                named[key.strip()] = _parsed(row, key.strip(), value.strip())
            elif named or len(placed) == len(row.tensors):
                raise ValueError(f"{text!r}: {part.strip()!r} is one operand too many")
            else:
                placed.append(_operand(part.strip()))
        for p in row.attrs:
            if p.required and p.name not in named:
                raise ValueError(f"{text!r}: {row.name} needs {p.name}=")
        return cls.of(row, *placed, **named)


def _kept(row: Row, options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What may matter to a kernel, in one form for all ways to say it."""
    attributes = {p.name: p for p in row.attrs}
    outs = {o.name for o in row.outs if o.optional}
    known = {*_OTHERS, *(p.name for p in (*row.scalars, *row.outs))}
    found: dict[str, Any] = {}
    for name, value in options.items():
        p = attributes.get(name)
        if p is not None:
            value = row.canonical(name, value)
            if value != row.canonical(name, p.default) if not p.required else True:
                found[name] = value
        elif name == "dtype" and value is not None:
            found[name] = value if isinstance(value, str) else str(value)
        elif name in outs:
            if value is not None:
                found[name] = True
        elif name not in known:
            raise TypeError(f"{row.name}() has no parameter {name!r}")
    return tuple(sorted(found.items()))


@functools.cache
def _variant(row: Row, dtypes: tuple[str | None, ...], free: str | None) -> Variant | None:
    named = zip((p.name for p in row.tensors), dtypes, strict=True)
    return row.variant({name: dtype for name, dtype in named if dtype}, free)


@functools.cache
def _defaults(row: Row) -> dict[str, Any]:
    return {p.name: p.default for p in row.params if not p.is_tensor} | _scalars(row)


@functools.cache
def _scalars(row: Row) -> dict[str, Any]:
    return {p.name: _allowed(p) for p in row.scalars if p.required}


def _allowed(p: Param) -> float:
    """A number that a scalar takes: 1 where that is within its bounds."""
    low = 1 if p.min is None else max(1, p.min)
    return low if p.max is None else min(low, p.max)


def _spec_of(x: Any) -> Operand:
    from aicf_rt import Spec

    from aicf.backend.tensors import dtype_of, strides_of

    if x is None or isinstance(x, Spec):
        return x
    if isinstance(x, list | tuple):
        return tuple(_spec_of(t) for t in x)
    device = str(getattr(x, "device", "cpu"))
    if device == "null":
        device = "cpu"
    return Spec(tuple(x.shape), dtype_of(x), strides=strides_of(x), device=device)


def _of_operand(x: Any) -> Operand:
    """Of an input of a node."""
    if x is None:
        return None
    if isinstance(x, tuple):
        return tuple(_of_operand(t) for t in x)
    assert isinstance(x, Value)
    kind = x.type
    assert isinstance(kind, TensorType)
    return _of_type(kind)


def _of_type(kind: TensorType) -> Operand:
    """Of a type whose sizes are numbers."""
    from aicf_rt import Spec

    shape: Any = kind.shape
    strides: Any = kind.strides
    device = "cpu" if kind.device == "null" else kind.device
    return Spec(shape, kind.dtype, strides=strides, device=device)


def _moved(x: Any, device: str) -> Any:
    from aicf_rt import Spec

    return None if x is None else Spec(x.shape, x.dtype, strides=x.strides, device=device)


def _shown(x: Operand) -> str:
    if x is None:
        return "None"
    if isinstance(x, tuple):
        return f"[{', '.join(map(_shown, x))}]"
    return str(TensorType(x.dtype, x.shape, x.strides, x.device))


def _word(value: Any) -> str:
    """Words are written bare."""
    return value if isinstance(value, str) else repr(value)


def _operand(text: str) -> Operand:
    if text == "None":
        return None
    if text.startswith("[") and text.endswith("]"):
        return tuple(_operand(part.strip()) for part in split(text[1:-1]))
    found = parse(text)
    if not isinstance(found, TensorType):
        raise ValueError(f"{text!r} is a number's type; a tensor's is written as f32[64, 64]")
    if any(not isinstance(n, int) for n in found.shape):
        raise ValueError(f"{text!r}: its sizes must be numbers")
    try:
        return _of_type(found)
    except OverflowError:
        raise ValueError(f"{reprlib.repr(text)}: a size or a stride is too large") from None


def _parsed(row: Row, name: str, text: str) -> Any:
    """The value of an option; of an optional tensor its type."""
    if name in {p.name for p in row.tensors}:
        return _operand(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text  # a word
