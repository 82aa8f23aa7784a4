"""A row of the capability table as `aicf_rt.jax` reads it, from a package's `_table.json`. Imports
no jax."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Saved = Callable[..., tuple[str, ...]]
Backward = Callable[..., tuple[Any, ...]]
Attributes = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Param:
    """All that may be a tensor."""

    name: str
    role: str  # IN, OUT, INOUT, SCALAR
    optional: bool
    is_list: bool
    default: object  # of a scalar; inspect.Parameter.empty: it has none


@dataclass(frozen=True, slots=True)
class Attr:
    name: str
    kind: str  # bool, int, float, enum, ints, axis, axes
    size: int  # of ints
    of: str  # of an axis or axes: the argument that it counts in
    default: object  # inspect.Parameter.empty: it has none


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    package: str
    name: str
    doc: str
    inputs: tuple[Param, ...]
    outs: tuple[Param, ...]
    scalars: tuple[Param, ...]
    attrs: tuple[Attr, ...]
    types: tuple[str, ...]  # type variables, as the parts of a variant's name stand
    takes_dtype: bool  # one of them is bound by no argument
    variants: Mapping[str, Mapping[str, str]]  # {"f32": {"a": "f32", ...}, ...}
    capturable: bool  # no device kernel of it takes a workspace
    gradient: tuple[Saved, Backward] | None
    reads: frozenset[str]  # the scalars and type variables that the gradient takes

    @property
    def params(self) -> Iterator[Param]:
        """In the order of the op's descriptor."""
        yield from self.inputs
        yield from self.outs
        yield from self.scalars


def row_read(table: Mapping[str, Any], name: str, gradient: tuple[Saved, Backward] | None) -> Row:
    """The row `name` of what a package's `_table.load()` gives."""
    entry = table["ops"][name]
    row = entry["row"]
    on_cuda = [b for b, backend in table["backends"].items() if "cuda" in backend["devices"]]
    defaults = {a["name"]: _plain(a["default"], a) for a in row["args"] if "default" in a}
    params = [_param(p, defaults) for p in entry["params"]]
    reads = inspect.signature(gradient[1]).parameters if gradient else ()
    variants = entry["variants"]
    return Row(
        package=table["package"],
        name=name,
        doc=row["doc"],
        inputs=tuple(p for p in params if p.role in ("IN", "INOUT")),
        outs=tuple(p for p in params if p.role == "OUT"),
        scalars=tuple(p for p in params if p.role == "SCALAR"),
        attrs=tuple(_attr(a, defaults) for a in row["args"] if "attr" in a),
        types=tuple(row.get("types", ())),
        takes_dtype=_takes_dtype(variants, [p.name for p in params if p.role != "OUT"]),
        variants=variants,
        capturable=not any(k["workspace"] for k in entry["kernels"] if k["backend"] in on_cuda),
        gradient=gradient,
        reads=frozenset(reads),
    )


def _param(p: Mapping[str, Any], defaults: Mapping[str, object]) -> Param:
    default = defaults.get(p["name"], inspect.Parameter.empty)
    return Param(p["name"], p["role"], p["optional"], p["list"] is not None, default)


def _attr(a: Mapping[str, Any], defaults: Mapping[str, object]) -> Attr:
    default = defaults.get(a["name"], inspect.Parameter.empty)
    return Attr(a["name"], a["attr"], int(a.get("size", 0)), a.get("of", ""), default)


def _plain(default: Any, arg: Mapping[str, Any]) -> object:
    """A default as a person would write it in a call."""
    if arg.get("attr") == "axes" and default == "all":
        return None
    return tuple(default) if isinstance(default, list) else default


def _takes_dtype(variants: Mapping[str, Mapping[str, str]], arguments: Sequence[str]) -> bool:
    seen = [tuple(v[name] for name in arguments) for v in variants.values()]
    return len(set(seen)) < len(seen)


# ---- values -------------------------------------------------------------------------------------


class Exact(float):
    """A number that is a part of a key: as such 0.0 is not -0.0, whose program is another."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self.hex() == other.hex() if isinstance(other, Exact) else float.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(self.hex())


def canonical(attr: Attr, value: Any, rank: int) -> Any:
    """A value that the op's checks let pass, as one that can be compared: axes count from 0, one
    number for several stands as often, None is all axes. `rank` is that of the argument it counts
    in."""
    if attr.kind == "bool":
        return bool(value)
    if attr.kind == "float":
        return Exact(value)
    if attr.kind == "enum":
        return str(value)
    if value is None:
        return None
    if attr.kind in ("int", "axis"):
        return _folded(attr, operator.index(value), rank)
    if hasattr(value, "__index__"):
        value = (operator.index(value),) * (attr.size if attr.kind == "ints" else 1)
    return tuple(_folded(attr, operator.index(v), rank) for v in value)


def _folded(attr: Attr, value: int, rank: int) -> int:
    return value + rank if attr.kind in ("axis", "axes") and value < 0 else value


def variant_of(row: Row, dtypes: Mapping[str, str]) -> str:
    """The first variant that has these dtypes of parameters."""
    for suffix, variant in row.variants.items():
        if all(variant[name] == dtype for name, dtype in dtypes.items()):
            return suffix
    raise LookupError(f"{row.name}: no variant with {dict(dtypes)}")


def types_of(row: Row, variant: str) -> dict[str, str]:
    """{"T": "f32"}: what the row's type variables are in a variant."""
    return dict(zip(row.types, variant.split("_"), strict=True)) if row.types else {}


def signature(row: Row) -> inspect.Signature:
    """Tensors by position or name; outs, attributes and scalars by name."""
    by_position, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    optional = [p.optional for p in row.inputs]
    found = [
        inspect.Parameter(
            p.name, by_position, default=None if p.optional else inspect.Parameter.empty
        )
        for p in row.inputs
    ]
    assert optional == sorted(optional), "once a tensor is optional, those after it are too"
    found += [inspect.Parameter(p.name, by_name, default=None) for p in row.outs if p.optional]
    found += [inspect.Parameter(a.name, by_name, default=a.default) for a in row.attrs]
    found += [inspect.Parameter(p.name, by_name, default=p.default) for p in row.scalars]
    if row.takes_dtype:
        found.append(inspect.Parameter("dtype", by_name, default=None))
    found.append(inspect.Parameter("kernel", by_name, default=None))
    return inspect.Signature(found)
