"""What a row is to torch: its arguments, its overloads, and their schemas. Imports no torch.

A row has up to four forms, each of which torch calls an overload:

    op         the required outs; all of them where every out is optional
    op.aux     all outs, of a row that has required and optional ones
    op.want    the outs that `want` asks for, of a row whose outs are all optional
    op.out     into the outs that are given

and, where it has scalars, each of them again with tensors of one element for scalars: `op.dev`,
`op.dev_aux`, `op.dev_want`, `op.dev_out`. Those come first: of two overloads that would do torch
takes the one that was defined earlier, and one with numbers would read a tensor from its device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FLOATS = frozenset(("f16", "bf16", "f32", "f64"))
INTEGERS = frozenset(("i8", "u8", "i16", "i32", "i64"))

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument, a list of them, or an out."""

    name: str
    is_list: bool
    optional: bool
    inout: bool
    order: str | None  # of an out: the argument whose memory order an omitted one takes


@dataclass(frozen=True, slots=True)
class Value:
    """An attribute or a scalar: `type` as in a schema, `default` in Python, `required` without."""

    name: str
    kind: str  # as in the table; "scalar" of a scalar
    type: str
    required: bool
    default: Any
    text: str  # of the default, as in a schema

    def canonical(self, value: Any) -> Any:
        """As the functions of `_relations` and `_gradients` take it."""
        return tuple(value) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table as torch meets it."""

    name: str
    tensors: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]
    values: tuple[Value, ...]  # attributes and scalars in the order of the row
    suffixes: tuple[str, ...]  # of the typed functions, one a variant
    dtypes: tuple[Mapping[str, str], ...]  # of each variant, by parameter
    variables: tuple[Mapping[str, str], ...]  # of each variant, by type variable
    free: str | None  # the type variable that no argument binds
    has_grad: bool
    lead: int | None  # the first argument, if its dtype says which variant it is
    index: Mapping[str, int] = field(default_factory=dict)  # of tensors, then outs, by name

    @property
    def scalars(self) -> tuple[Value, ...]:
        return tuple(v for v in self.values if v.kind == "scalar")

    @property
    def attributes(self) -> tuple[Value, ...]:
        return tuple(v for v in self.values if v.kind != "scalar")

    @property
    def required(self) -> int:
        """How many outs a plain call gives: they come first; all where all are optional."""
        return sum(not o.optional for o in self.outs) or len(self.outs)

    @property
    def all_optional(self) -> bool:
        return bool(self.outs) and all(o.optional for o in self.outs)

    @property
    def writes(self) -> bool:
        """Whether it writes to an argument."""
        return any(t.inout for t in self.tensors)

    @property
    def has_lists(self) -> bool:
        return any(t.is_list for t in self.tensors)

    @property
    def differentiable(self) -> bool:
        """Whether any out can be one that a gradient comes from."""
        return any(d[o.name] in FLOATS for d in self.dtypes for o in self.outs)

    def variant(self, given: Mapping[str, str], free: str | None) -> int | None:
        """The first variant that has these dtypes, by parameter; None if there is none."""
        for i, dtypes in enumerate(self.dtypes):
            bound = free is None or self.free is None or self.variables[i][self.free] == free
            if bound and all(dtypes[name] == dtype for name, dtype in given.items()):
                return i
        return None


# ---- from the table ---------------------------------------------------------------------------


def row_of(op: Mapping[str, Any]) -> Row:
    """A row from what `_table.json` says of it."""
    row, params = op["row"], op["params"]
    tensors = tuple(_tensor(p, None) for p in params if p["role"] in ("IN", "INOUT"))
    orders = {o["name"]: o.get("order") for o in row["outs"]}
    outs = tuple(_tensor(p, orders[p["name"]]) for p in params if p["role"] == "OUT")
    dims = {word for p in params if p["shape"] for word in _WORD.findall(p["shape"])}
    dims |= {word for text in row.get("let", {}).values() for word in _WORD.findall(text)}
    dtypes = tuple(op["variants"].values())
    values = tuple(_value(a, dims, dtypes) for a in row["args"] if "attr" in a or "scalar" in a)
    types = list(row.get("types", {}))
    bound = {word for p in params if p["role"] != "OUT" for word in _WORD.findall(p["dtype"])}
    return Row(
        row["op"],
        tensors,
        outs,
        values,
        tuple(op["variants"]),
        dtypes,
        tuple(dict(zip(types, suffix.split("_"), strict=False)) for suffix in op["variants"]),
        next((t for t in types if t not in bound), None),
        bool(row.get("grad")),
        _lead(tensors, dtypes),
        {t.name: i for i, t in enumerate((*tensors, *outs))},
    )


def _lead(tensors: Sequence[Tensor], dtypes: Sequence[Mapping[str, str]]) -> int | None:
    if not tensors or tensors[0].is_list or tensors[0].optional:
        return None
    return 0 if len({d[tensors[0].name] for d in dtypes}) == len(dtypes) else None


def _tensor(param: Mapping[str, Any], order: str | None) -> Tensor:
    return Tensor(
        param["name"], bool(param["list"]), param["optional"], param["role"] == "INOUT", order
    )


def _value(arg: Mapping[str, Any], dims: set[str], dtypes: Sequence[Mapping[str, str]]) -> Value:
    kind = arg.get("attr", "scalar")
    required, default = "default" not in arg, arg.get("default")
    if kind == "ints" and isinstance(default, int):
        default = [default] * arg["size"]
    if kind == "axes" and default == "all":
        default = None
    if kind in ("float", "scalar") and default is not None:
        default = _number(default, kind == "float" or {d[arg["name"]] for d in dtypes} <= FLOATS)
    written = _type(kind, arg, dims, dtypes, default)
    return Value(arg["name"], kind, written, required, default, _text(default))


def _number(value: Any, is_float: bool) -> Any:
    return float(value) if is_float else value


def _type(
    kind: str, arg: Mapping[str, Any], dims: set[str], dtypes: Sequence[Mapping[str, str]],
    default: Any,
) -> str:  # fmt: skip
    """A number of SymInt does not recompile at each value, one of int or float does."""
    if kind == "scalar":
        found = {d[arg["name"]] for d in dtypes}
        return "float" if found <= FLOATS else "SymInt" if found <= INTEGERS else "Scalar"
    if kind == "int":
        return "SymInt" if arg["name"] in dims else "int"
    if kind == "axes":  # torch reads no list as the default of an optional one
        return "int[1]" if isinstance(default, list) else "int[1]?"
    plain = {"bool": "bool", "float": "float", "enum": "str", "axis": "int"}
    return f"int[{arg['size']}]" if kind == "ints" else plain[kind]


def _text(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else str(default)


# ---- overloads --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Overload:
    """One of the forms of a row."""

    row: Row
    form: str  # "plain", "aux", "want" or "out"
    device: bool  # scalars are tensors

    @property
    def name(self) -> str:
        """As torch has it: `add.out`, `add`."""
        words = ["dev"] if self.device else []
        words += [] if self.form == "plain" else [self.form]
        return ".".join(w for w in (self.row.name, "_".join(words)) if w)

    @property
    def writes(self) -> bool:
        return self.form == "out" or self.row.writes

    @property
    def returned(self) -> tuple[Tensor, ...]:
        """The outs that it gives."""
        row = self.row
        count = {"plain": row.required, "out": 0}.get(self.form, len(row.outs))
        return row.outs[:count]

    @property
    def schema(self) -> str:
        row, letters = self.row, _letters()
        words = [_tensor_text(t, t.inout, t.optional, letters) for t in row.tensors]
        words += ["*"]
        words += [self._value_text(v) for v in row.values]
        words += ["ScalarType? dtype=None"] if row.free and self.form != "out" else []
        words += [f"bool[{len(row.outs)}] want"] if self.form == "want" else []
        if self.form == "out":
            words += [_tensor_text(o, True, o.optional, letters) for o in row.outs]
        words = words[:-1] if words[-1] == "*" else words
        gives = ", ".join("Tensor" for _ in self.returned)
        gives = gives if len(self.returned) == 1 else f"({gives})"
        return f"{self.name}({', '.join(words)}) -> {gives}"

    def _value_text(self, value: Value) -> str:
        if value.kind == "scalar" and self.device:
            return f"Tensor {value.name}" if value.required else f"Tensor? {value.name}=None"
        default = "" if value.required else f"={value.text}"
        return f"{value.type} {value.name}{default}"


def _letters() -> Iterator[str]:
    """Names of what is written: a, b, ..., z, a1, ..."""
    round = 0
    while True:
        yield from (f"{chr(ord('a') + i)}{round or ''}" for i in range(26))
        round += 1


def _tensor_text(t: Tensor, written: bool, optional: bool, letters: Iterator[str]) -> str:
    kind = f"Tensor({next(letters)}!)" if written else "Tensor"
    kind += "[]" if t.is_list else ""
    return f"{kind}? {t.name}=None" if optional else f"{kind} {t.name}"


def overloads_of(row: Row) -> tuple[Overload, ...]:
    """In the order in which torch is to have them."""
    forms = ["plain"]
    if row.all_optional:
        forms.append("want")
    elif row.required < len(row.outs):
        forms.append("aux")
    if row.outs:
        forms.append("out")
    devices = (True, False) if row.scalars else (False,)
    return tuple(Overload(row, form, device) for device in devices for form in forms)
