"""A second reading of the rows that modules carry: what they take, without the runtime's help."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kernels.tensors import DTYPES

Sizes = tuple[int, ...]

OPS = (
    "add", "relu", "relu_bwd", "gelu_bwd", "scale", "copy",
    "bias_add", "bias_add_bwd", "gemm", "sum",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Param:
    """A tensor argument or an out."""

    name: str
    shape: str
    layouts: frozenset[str]  # those of kernels that say nothing of their own
    optional: bool
    out: bool


@dataclass(frozen=True, slots=True)
class Row:
    """What a row says, as far as its contract goes."""

    op: str
    params: tuple[Param, ...]
    attrs: tuple[Mapping[str, Any], ...]
    kernels: tuple[Mapping[str, Any], ...]
    built: Mapping[str, Sequence[str]]  # the dtypes of each kernel
    where: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if not p.out)

    def layouts(self, kernel: Mapping[str, Any], param: Param) -> frozenset[str]:
        """The layouts in which a kernel takes a parameter."""
        said = kernel.get("layout")
        if isinstance(said, Mapping):
            said = said.get(param.name)
        return words(said) if said else param.layouts


def words(layout: str | Sequence[str] | None) -> frozenset[str]:
    return frozenset([layout] if isinstance(layout, str) else layout or ["dense"])


def row_of(op: str) -> Row:
    said = importlib.import_module(f"aicf_cuda.{op}").capability

    def param(entry: Mapping[str, Any], out: bool) -> Param:
        optional = bool(entry.get("optional", False))
        return Param(entry["name"], entry["shape"], words(entry.get("layout")), optional, out)

    tensors = [param(a, False) for a in said["args"] if "tensor" in a]
    return Row(
        op=said["op"],
        params=(*tensors, *(param(o, True) for o in said["outs"])),
        attrs=tuple(a for a in said["args"] if "attr" in a or "scalar" in a),
        kernels=tuple(said["kernels"]),
        built=said["built"],
        where=tuple(said.get("where", {})),
    )


def variants_of(op: str) -> list[str]:
    """The dtypes that the op has a typed form for."""
    module = importlib.import_module(f"aicf_cuda.{op}")
    return [dtype for dtype in DTYPES if hasattr(module, f"{op}_{dtype}")]


# ---- shapes --------------------------------------------------------------------------------------

ITEM = re.compile(
    r"(?P<function>broadcast|reduced)\((?P<of>[^)]*)\)|(?P<pack>\w+)\.\.|(?P<at>\w+)@(?P<axis>\w+)|(?P<dim>\w+)"
)


@dataclass(slots=True)
class Relation:
    """The dims and packs of a row, as the tensors seen so far bind them."""

    attrs: Mapping[str, Any]
    dims: dict[str, int] = field(default_factory=dict)
    packs: dict[str, Sizes] = field(default_factory=dict)

    def value(self, item: re.Match[str]) -> Sizes | None:
        """The sizes that an item stands for; None if it is not bound yet."""
        if item["pack"]:
            return self.packs.get(item["pack"])
        if item["function"] == "broadcast":
            of = [self.packs[name.strip()] for name in item["of"].split(",")]
            return tuple(np.broadcast_shapes(*of))
        if item["function"] == "reduced":
            pack, axes_name, keep_name = (name.strip() for name in item["of"].split(","))
            sizes = self.packs[pack]
            axes = self.attrs[axes_name]
            over = range(len(sizes)) if axes is None else [a % len(sizes) for a in axes]
            if len(set(over)) < len(over):
                raise ValueError("an axis twice")
            keep = self.attrs[keep_name]
            return tuple(
                1 if d in over else n for d, n in enumerate(sizes) if keep or d not in over
            )
        name = item["at"] or item["dim"]
        return (self.dims[name],) if name in self.dims else None

    def sizes(self, shape: str) -> Sizes:
        """The sizes of a shape of which all is bound."""
        found: list[int] = []
        for item in ITEM.finditer(shape):
            value = self.value(item)
            assert value is not None, f"{item[0]} is not bound"
            found += value
        return tuple(found)

    def bind(self, shape: str, sizes: Sizes) -> bool:
        """Whether `sizes` are of this shape; binds what is new in it."""
        items = list(ITEM.finditer(shape))
        for at, item in enumerate(items):
            if item["axis"]:
                axis = self.attrs[item["axis"]]
                if not -len(sizes) <= axis < len(sizes):
                    return False
                axis %= len(sizes)
                before, here, after = sizes[:axis], sizes[axis : axis + 1], sizes[axis + 1 :]
                return (
                    self.bind_items(items[:at], before)
                    and self.bind_items([item], here)
                    and self.bind_items(items[at + 1 :], after)
                )
        return self.bind_items(items, sizes)

    def bind_items(self, items: Sequence[re.Match[str]], sizes: Sizes) -> bool:
        try:
            values = [self.value(item) for item in items]
        except ValueError:  # packs that do not broadcast, an axis twice
            return False
        free = [
            i
            for i, (it, v) in enumerate(zip(items, values, strict=True))
            if v is None and it["pack"]
        ]
        assert len(free) <= 1, "two packs that nothing separates"
        taken = sum(1 if v is None else len(v) for i, v in enumerate(values) if i not in free)
        if taken > len(sizes) or (not free and taken != len(sizes)):
            return False
        at = 0
        for i, (item, value) in enumerate(zip(items, values, strict=True)):
            length = len(sizes) - taken if i in free else 1 if value is None else len(value)
            here = sizes[at : at + length]
            at += length
            if value is not None and here != value:
                return False
            if value is None and item["pack"]:
                self.packs[item["pack"]] = here
            elif value is None:
                self.dims[item["at"] or item["dim"]] = here[0]
        return True


def shapes_fit(row: Row, shapes: Mapping[str, Sizes | None], attrs: Mapping[str, Any]) -> bool:
    """Whether the tensors are of the row's shapes; None is an absent one."""
    relation = Relation(attrs)
    try:
        return all(
            relation.bind(p.shape, sizes)
            for p in row.params
            if (sizes := shapes[p.name]) is not None
        )
    except ZeroDivisionError:
        return False


def conditions_hold(row: Row, present: Mapping[str, bool], attrs: Mapping[str, Any]) -> bool:
    class Names(dict[str, Any]):
        def __missing__(self, name: str) -> str:
            return name  # a parameter, as present() takes it

    scope = Names(attrs) | {"present": lambda name: present[name]}
    names = Names(scope)
    return all(bool(eval(text, {"__builtins__": {}}, names)) for text in row.where)


# ---- layouts -------------------------------------------------------------------------------------


def strides_of(t: torch.Tensor) -> list[tuple[int, int]]:
    """(size, stride) of each dim of which the stride matters."""
    return [(n, s) for n, s in zip(t.shape, t.stride(), strict=True) if n != 1]


def is_dense(t: torch.Tensor) -> bool:
    step = 1
    for size, stride in reversed(strides_of(t)):
        if stride != step:
            return bool(t.numel() == 0)
        step *= size
    return True


def is_gapless(t: torch.Tensor) -> bool:
    step = 1
    for size, stride in sorted(strides_of(t), key=lambda d: d[1]):
        if stride != step:
            return bool(t.numel() == 0)
        step *= size
    return True


def has_unit_stride(t: torch.Tensor, dim: int) -> bool:
    if t.dim() < -dim:
        return False
    return bool(t.numel() == 0 or t.shape[dim] == 1 or t.stride(dim) == 1)


def layout_fits(t: torch.Tensor, layouts: frozenset[str]) -> bool:
    """Of one tensor alone; `flat` also asks for one order of all."""
    fits = {
        "dense": is_dense(t),
        "flat": is_gapless(t),
        "row": has_unit_stride(t, -1),
        "col": has_unit_stride(t, -2),
        "strided": True,
    }
    return any(fits[layout] for layout in layouts)


def one_order(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether gapless tensors all have the same order."""
    if all(is_dense(t) for t in tensors):
        return True
    return all(t.shape == tensors[0].shape for t in tensors) and all(
        strides_of(t) == strides_of(tensors[0]) for t in tensors
    )


def guard_holds(text: str, given: Mapping[str, torch.Tensor | None]) -> bool:
    def aligned(count: int, *tensors: torch.Tensor) -> bool:
        return all(
            t.data_ptr() % count == 0
            and all(s == 1 or s * t.element_size() % count == 0 for _, s in strides_of(t))
            for t in tensors
        )

    def same_shape(*tensors: torch.Tensor) -> bool:
        return all(t.shape == tensors[0].shape for t in tensors)

    scope = {"aligned": aligned, "same_shape": same_shape, **given}
    return bool(eval(text, {"__builtins__": {}}, scope))


def kernel_fits(
    row: Row,
    kernel: Mapping[str, Any],
    dtype: str,
    device: str,
    given: Mapping[str, torch.Tensor | None],
    libs: frozenset[str],
) -> bool:
    """Whether a kernel takes tensors that the row takes."""
    if kernel["backend"] != device or dtype not in row.built[kernel["id"]]:
        return False
    if not libs.issuperset(kernel.get("libs", ())):
        return False
    flat: list[torch.Tensor] = []
    for p in row.params:
        t = given[p.name]
        if t is None:
            continue
        layouts = row.layouts(kernel, p)
        if not layout_fits(t, layouts):
            return False
        if layouts == {"flat"}:
            flat.append(t)
    if flat and not one_order(flat):
        return False
    return all(guard_holds(text, given) for text in kernel.get("when", ()))


# ---- calls to try --------------------------------------------------------------------------------

# Sizes for every dim and pack of the rows: no two alike where they need not be, so that none can
# stand in for another. Packs that are broadcast together are so here.
BOUND: tuple[tuple[dict[str, int], dict[str, Sizes]], ...] = (
    ({"M": 3, "K": 4, "N": 5}, {"A": (2, 6), "B": (2, 6), "L": (2, 3), "R": (4,)}),
    ({"M": 2, "K": 3, "N": 7}, {"A": (5, 1, 3), "B": (4, 1), "L": (), "R": (2, 3)}),
    ({"M": 8, "K": 16, "N": 24}, {"A": (3,), "B": (1,), "L": (4,), "R": ()}),
    ({"M": 1, "K": 1, "N": 1}, {"A": (), "B": (2,), "L": (), "R": ()}),
    ({"M": 2, "K": 5, "N": 3}, {"A": (4, 3), "B": (), "L": (1,), "R": (1, 6)}),
)


def attrs_of(row: Row, packs: Mapping[str, Sizes]) -> Iterator[dict[str, Any]]:
    """Values for all attributes: every word of an enum once, elsewhere one value that fits."""
    plain: dict[str, Any] = {}
    for a in row.attrs:
        kind = a.get("attr", "scalar")
        plain[a["name"]] = {
            "axis": len(packs["L"]),
            "axes": None if len(packs["A"]) < 2 else [0, -1],
            "scalar": 0.5,
            "bool": False,
            "float": a.get("default", 1.0),
            "enum": a.get("default"),
        }[kind]
    yield dict(plain)
    for a in row.attrs:
        for word in a.get("values", ()):
            if word != a.get("default"):
                yield plain | {a["name"]: word}
        if a.get("attr") == "bool":
            yield plain | {a["name"]: True}


def options_of(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """As keywords of a call: axes that are None are left out, for the default means all."""
    return {name: value for name, value in attrs.items() if value is not None}


def count_of(sizes: Sizes) -> int:
    return math.prod(sizes)
