"""The capability table as Python reads it: `Table.default().ops["add"]`.

All that this layer knows of an op comes from here: parameters, dtypes, shapes, gradients, kernels,
guards, costs, what the op is in ATen's terms. It reads what opgen wrote beside the modules of a
package (`_table`, `_relations`, `_gradients`), and imports a module when its op is first called.
"""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any, Final

Relation = Callable[..., tuple[tuple[Any, ...], ...]]
Saved = Callable[..., tuple[str, ...]]
Backward = Callable[..., tuple[Any, ...]]

FLOATS: Final = frozenset(("f16", "bf16", "f32", "f64"))
BYTES: Final = {
    "bool": 1, "i8": 1, "u8": 1, "i16": 2, "i32": 4, "i64": 8,
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8,
}  # fmt: skip


class Missing(enum.Enum):
    """In place of a default, where there is none."""

    NO_DEFAULT = enum.auto()

    def __repr__(self) -> str:
        return "no default"


NO_DEFAULT: Final = Missing.NO_DEFAULT


class Kind(enum.Enum):
    """What a parameter takes."""

    TENSOR = "tensor"
    LIST = "list"  # of tensors
    ATTR = "attr"  # a value that is known when a graph is made
    SCALAR = "scalar"  # a number, or a tensor of one element on the op's device


class TableError(LookupError):
    """The table, or a package of it, does not have what was asked for."""


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a row, an argument or an out."""

    name: str
    kind: Kind
    dtype: str = ""  # as the row has it: "f32", "T", "acc(T)"; of an attribute ""
    shape: str = ""  # as the row has it: "A.. M K"; of an attribute or a scalar ""
    optional: bool = False
    inout: bool = False
    default: Any = NO_DEFAULT
    layouts: tuple[str, ...] = ()  # what the row says; that of a kernel is in `Kernel.layouts`
    list: str = ""  # of a list: the name of its length, which lists may share
    order: str = ""  # of an out: the argument whose order in memory an omitted one takes
    word: str = ""  # of an attribute: bool, int, float, enum, ints, axis, axes
    values: tuple[str, ...] = ()  # of an enum
    size: int = 0  # of ints
    of: str = ""  # of an axis or axes: the argument that they count in
    min: float | None = None
    max: float | None = None

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT and not self.optional

    @property
    def is_tensor(self) -> bool:
        return self.kind in (Kind.TENSOR, Kind.LIST)


@dataclass(frozen=True, slots=True)
class Guard:
    """What must hold for a kernel, as written, and in Python over `_e` and the row's names."""

    text: str
    python: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that a row declares; whether it was built, the op's `explain` says."""

    id: str
    backend: str
    variants: tuple[str, ...]  # suffixes of the typed functions that it stands behind
    layouts: Mapping[str, tuple[str, ...]]  # by parameter
    guards: tuple[Guard, ...]
    arch: str | None
    workspace: str | None  # bytes, in Python
    determinism: str
    src: str
    libs: tuple[str, ...]
    tolerance: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Variant:
    """The dtypes of one typed function."""

    suffix: str
    dtypes: Mapping[str, str]  # by parameter: tensors, outs, scalars
    types: Mapping[str, str]  # by type variable


@dataclass(frozen=True, eq=False, repr=False)
class Row:
    """An op. Calls go to the op's module, which is imported at the first."""

    package: str
    name: str
    doc: str
    hash: str
    params: tuple[Param, ...]  # all but outs, in the row's order
    outs: tuple[Param, ...]
    variants: Mapping[str, Variant]  # by suffix
    kernels: tuple[Kernel, ...]  # in the order in which they are tried
    aten: str | None
    cost: Mapping[str, str | None]  # flops and bytes, in Python
    backends: Mapping[str, tuple[str, ...]]  # by backend, the suffixes that it has kernels for
    free: str | None  # the type variable that no argument binds; `dtype=` says it
    entry: Mapping[str, Any]  # all of it, as the generator wrote it

    def __repr__(self) -> str:
        return f"Row({self.package}.{self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _row_again, (self.package, self.name, self.hash)

    def __deepcopy__(self, memo: Any) -> Row:
        return self

    # ---- parameters ----------------------------------------------------------------------------

    @functools.cached_property
    def tensors(self) -> tuple[Param, ...]:
        """Tensors and lists of them: what a call takes by position."""
        return tuple(p for p in self.params if p.is_tensor)

    @functools.cached_property
    def attrs(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.kind is Kind.ATTR)

    @functools.cached_property
    def scalars(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.kind is Kind.SCALAR)

    @functools.cached_property
    def operands(self) -> tuple[Param, ...]:
        """What a node of a graph has as inputs: tensors, then scalars."""
        return self.tensors + self.scalars

    @functools.cached_property
    def inouts(self) -> tuple[Param, ...]:
        return tuple(p for p in self.tensors if p.inout)

    @functools.cached_property
    def required_outs(self) -> int:
        """How many outs a call gives that asks for none; they come first. All, where all are
        optional."""
        return sum(not o.optional for o in self.outs) or len(self.outs)

    def param(self, name: str) -> Param:
        """An argument or an out."""
        for p in (*self.params, *self.outs):
            if p.name == name:
                return p
        raise TableError(f"{self.name} has no parameter {name!r}")

    # ---- dtypes and shapes ---------------------------------------------------------------------

    def variant(self, dtypes: Mapping[str, str], free: str | None = None) -> Variant | None:
        """The first variant with these dtypes of parameters, and of the free type variable."""
        for variant in self.variants.values():
            if free is not None and self.free and variant.types[self.free] != free:
                continue
            if all(variant.dtypes[name] == dtype for name, dtype in dtypes.items()):
                return variant
        return None

    @functools.cached_property
    def relation(self) -> Relation:
        """Shapes of the outs from shapes of the tensors; sizes may be symbolic. Raises
        `aicf_rt.relations.Refused`."""
        found: Relation = _part(self.package, "_relations").RELATIONS[self.name]
        return found

    # ---- gradients -----------------------------------------------------------------------------

    @functools.cached_property
    def gradient(self) -> tuple[Saved, Backward] | None:
        """What the gradients read, and the gradients, of a row that declares any."""
        found: tuple[Saved, Backward] | None
        found = _part(self.package, "_gradients").GRADIENTS.get(self.name)
        return found

    @property
    def has_gradient(self) -> bool:
        return bool(self.entry["row"].get("grad"))

    @property
    def exact(self) -> Mapping[str, Sequence[str]]:
        """The arguments that each out may be exactly; of others none."""
        found: Mapping[str, Sequence[str]] = self.entry["row"].get("overlap") or {}
        return found

    # ---- calls ---------------------------------------------------------------------------------

    @functools.cached_property
    def module(self) -> ModuleType:
        return importlib.import_module(f"{self.package}.{self.name}")

    @functools.cached_property
    def call(self) -> Callable[..., Any]:
        """The generic function: `call(*tensors, out=, **attributes)`, raises Unsupported."""
        found: Callable[..., Any] = getattr(self.module, self.name)
        return found

    def typed(self, suffix: str) -> Callable[..., bool]:
        """The typed function, which answers whether it ran: `typed("f32")(*tensors, *outs)`."""
        if suffix not in self.variants:
            known = ", ".join(self.variants)
            raise TableError(f"{self.name} has no variant {suffix!r}; there are {known}")
        found: Callable[..., bool] = getattr(self.module, f"{self.name}_{suffix}")
        return found

    def bind(self, *tensors: Any, **options: Any) -> Any:
        """A call that is checked now and then only launched."""
        return self.module.bind(*tensors, **options)

    def infer(self, *tensors: Any, **options: Any) -> list[Any]:
        """What outs a call would give, of `aicf_rt.Spec`s or tensors. Raises Unsupported."""
        found: list[Any] = self.module.infer(*tensors, **options)
        return found

    def explain(self, *tensors: Any, **options: Any) -> list[str]:
        """A line a kernel: that it fits, or the guard that failed with its values."""
        found: list[str] = self.module.explain(*tensors, **options)
        return found

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """Tensors by position or name; optional outs, attributes and scalars by name."""
        placed, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        found = [_parameter(p, placed) for p in self.tensors]
        found += [_parameter(o, named) for o in self.outs if o.optional]
        found += [_parameter(p, named) for p in self.params if not p.is_tensor]
        if self.free:
            found.append(inspect.Parameter("dtype", named, default=None))
        return inspect.Signature(found)

    # ---- values of attributes ------------------------------------------------------------------

    def canonical(self, name: str, value: Any, rank: int | None = None) -> Any:
        """A value of an attribute as it is compared and printed: one number for several stands as
        often, axes count from 0, None is all axes. `rank`: of the argument that axes count in.
        Raises TypeError or ValueError, in words without the op's name."""
        return _canonical(self.param(name), value, rank)


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """The rows of one package."""

    package: str
    namespace: str
    hash: str
    ops: Mapping[str, Row]
    backends: Mapping[str, tuple[str, ...]]  # by name, the device types that it serves

    def __repr__(self) -> str:
        return f"Table({self.package}, {len(self.ops)} ops)"

    def __reduce__(self) -> tuple[Any, ...]:
        """That of the same package, wherever it is read again: it has to be the same there."""
        if Table.of(self.package).hash != self.hash:
            raise TableError(f"{self!r} is not that of the package: it cannot be pickled")
        return _table_again, (self.package, self.hash)

    def __deepcopy__(self, memo: Any) -> Table:
        return self

    @staticmethod
    def default() -> Table:
        """That of this project."""
        return Table.of("aicf_cuda")

    @staticmethod
    @functools.cache
    def of(package: str) -> Table:
        """That of an importable package which opgen wrote, read once."""
        data = _part(package, "_table").load()
        return Table(
            package=data["package"],
            namespace=data["namespace"],
            hash=data["hash"],
            ops=MappingProxyType({name: _row(package, e) for name, e in data["ops"].items()}),
            backends=MappingProxyType(
                {n: tuple(b["devices"]) for n, b in data["backends"].items()}
            ),
        )

    def __getitem__(self, name: str) -> Row:
        try:
            return self.ops[name]
        except KeyError:
            near = _nearest(name, self.ops)
            raise TableError(f"{self.package} has no op {name!r}{near}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.ops

    def __iter__(self) -> Iterator[Row]:
        return iter(self.ops.values())

    @functools.cached_property
    def by_aten(self) -> Mapping[str, tuple[Row, ...]]:
        """The rows that say what they are in ATen's terms, by ATen's name with its overload:
        "add.Tensor", "relu.default"."""
        found: dict[str, list[Row]] = {}
        for row in self:
            if row.aten:
                name = row.aten.partition("(")[0].strip()
                found.setdefault(name if "." in name else f"{name}.default", []).append(row)
        return MappingProxyType({name: tuple(rows) for name, rows in found.items()})

    def backend_of(self, device: str) -> str | None:
        """The backend that serves "cuda:0", None where there is none."""
        kind = device.partition(":")[0]
        return next((name for name, kinds in self.backends.items() if kind in kinds), None)


def _table_again(package: str, hash: str) -> Table:
    found = Table.of(package)
    if found.hash != hash:
        raise TableError(
            f"what was pickled is of another {package}: its table was {hash[:12]}, and that "
            f"which is installed here is {found.hash[:12]}"
        )
    return found


def _row_again(package: str, name: str, hash: str) -> Row:
    row = Table.of(package)[name]
    if row.hash != hash:
        raise TableError(f"what was pickled is of another {package}: its {name} was another row")
    return row


# ---- from what opgen wrote ---------------------------------------------------------------------


def _part(package: str, name: str) -> Any:
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        remedy = f"build it, and put the folder that has {package}/ on PYTHONPATH"
        raise TableError(f"no package {package} with a capability table: {remedy}") from error


def _row(package: str, entry: Mapping[str, Any]) -> Row:
    row = entry["row"]
    written = {a["name"]: a for a in (*row["args"], *row["outs"])}
    described = {p["name"]: p for p in entry["params"]}
    types = tuple(row.get("types", ()))
    variants = {
        suffix: Variant(
            suffix,
            MappingProxyType(dtypes),
            MappingProxyType(dict(zip(types, suffix.split("_"), strict=False))),
        )
        for suffix, dtypes in entry["variants"].items()
    }
    return Row(
        package=package,
        name=row["op"],
        doc=row["doc"],
        hash=entry["hash"],
        params=tuple(_param(a, described.get(a["name"])) for a in row["args"]),
        outs=tuple(_param(written[o["name"]], described[o["name"]]) for o in row["outs"]),
        variants=MappingProxyType(variants),
        kernels=tuple(_kernel(k) for k in entry["kernels"]),
        aten=row.get("aten"),
        cost=MappingProxyType(dict(entry["cost"])),
        backends=MappingProxyType({b: tuple(v) for b, v in entry["backends"].items()}),
        free=_free(types, entry),
        entry=entry,
    )


def _free(types: Sequence[str], entry: Mapping[str, Any]) -> str | None:
    """The type variable of which variants differ that are equal in all arguments."""
    arguments = [p["name"] for p in entry["params"] if p["role"] != "OUT"]
    seen = {tuple(v[name] for name in arguments) for v in entry["variants"].values()}
    if len(seen) == len(entry["variants"]):
        return None
    bound = {p["dtype"] for p in entry["params"] if p["role"] != "OUT"}
    return next(t for t in types if not any(t == d or f"({t})" in d for d in bound))


def _param(arg: Mapping[str, Any], described: Mapping[str, Any] | None) -> Param:
    if "attr" in arg:
        return Param(
            arg["name"],
            Kind.ATTR,
            default=_default(arg),
            word=arg["attr"],
            values=tuple(arg.get("values", ())),
            size=int(arg.get("size", 0)),
            of=arg.get("of", ""),
            min=arg.get("min"),
            max=arg.get("max"),
        )
    kind = Kind.SCALAR if "scalar" in arg else Kind.LIST if "list" in arg else Kind.TENSOR
    assert described is not None
    layout = arg.get("layout", ())
    return Param(
        arg["name"],
        kind,
        dtype=described["dtype"],
        shape=described["shape"] or "",
        optional=described["optional"],
        inout=described["role"] == "INOUT",
        default=_default(arg),
        layouts=(layout,) if isinstance(layout, str) else tuple(layout),
        list=described["list"] or "",
        order=arg.get("order", ""),
        min=arg.get("min"),
        max=arg.get("max"),
    )


def _default(arg: Mapping[str, Any]) -> Any:
    """As a person would write it in a call."""
    if "default" not in arg:
        return NO_DEFAULT
    default, word = arg["default"], arg.get("attr")
    if word == "axes" and default == "all":
        return None
    if word == "ints" and isinstance(default, int):
        return (default,) * int(arg["size"])
    if word == "float":
        return float(default)
    return tuple(default) if isinstance(default, list) else default


def _kernel(k: Mapping[str, Any]) -> Kernel:
    return Kernel(
        id=k["id"],
        backend=k["backend"],
        variants=tuple(k["variants"]),
        layouts=MappingProxyType({name: tuple(words) for name, words in k["layouts"].items()}),
        guards=tuple(Guard(g["text"], g["python"]) for g in k["guards"]),
        arch=k["arch"],
        workspace=k["workspace"],
        determinism=k["determinism"],
        src=k["src"],
        libs=tuple(k["libs"]),
        tolerance=MappingProxyType({d: (t[0], t[1]) for d, t in k["tolerance"].items()}),
    )


def _parameter(p: Param, kind: Any) -> inspect.Parameter:
    default = None if p.optional else p.default
    empty = inspect.Parameter.empty
    return inspect.Parameter(p.name, kind, default=empty if default is NO_DEFAULT else default)


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    import difflib  # used for a fault alone

    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


# ---- values of attributes ----------------------------------------------------------------------


def _canonical(p: Param, value: Any, rank: int | None) -> Any:
    if p.word == "bool":
        if not isinstance(value, bool):
            raise TypeError(f"{p.name} must be a bool, not {value!r}")
        return value
    if p.word == "enum":
        if value not in p.values:
            raise ValueError(f"{p.name} must be one of {', '.join(p.values)}, not {value!r}")
        return str(value)
    if p.word == "float":
        if isinstance(value, bool | str) or not hasattr(value, "__float__"):
            raise TypeError(f"{p.name} must be a number, not {value!r}")
        return _bounded(p, float(value))
    if value is None and p.word == "axes":
        return None
    if p.word in ("int", "axis"):
        return _bounded(p, _folded(p, _integer(p, value), rank))
    if isinstance(value, str) or not isinstance(value, Sequence):
        value = (value,) * (p.size if p.word == "ints" else 1)
    if p.word == "ints" and len(value) != p.size:
        raise ValueError(f"{p.name} must be {p.size} integers, not {value!r}")
    found = tuple(_bounded(p, _folded(p, _integer(p, v), rank)) for v in value)
    if p.word == "axes" and len(set(found)) < len(found):
        raise ValueError(f"{p.name} names an axis twice: {value!r}")
    return found


def _integer(p: Param, value: Any) -> Any:
    """An int as it is; sizes of another kind, symbolic ones, stay what they are."""
    if getattr(value, "is_symbolic", False):
        return value
    if isinstance(value, bool):
        raise TypeError(f"{p.name} must be an integer, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{p.name} must be an integer, not {value!r}") from None


def _folded(p: Param, value: Any, rank: int | None) -> Any:
    if p.word not in ("axis", "axes") or rank is None:
        return value
    if not -rank <= value < rank:
        raise ValueError(f"{p.name} is {value}, of {rank} dims")
    return value % rank


def _bounded(p: Param, value: Any) -> Any:
    if getattr(value, "is_symbolic", False):
        return value
    if (p.min is not None and not value >= p.min) or (p.max is not None and not value <= p.max):
        low = "" if p.min is None else f"at least {p.min}"
        high = "" if p.max is None else f"at most {p.max}"
        raise ValueError(f"{p.name} must be {' and '.join(filter(None, (low, high)))}, not {value}")
    return value
