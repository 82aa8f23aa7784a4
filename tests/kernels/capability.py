"""A second reading of what rows take, without libaicf: sizes by the generated relation in Python,
layouts and ranges by hand."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernels.tensors import empty, poisoned
from rows.calls import Call, canonical, mapped, tensors_of
from rows.table import table

Sizes = tuple[int, ...]


# ---- sizes ---------------------------------------------------------------------------------------


def sizes_of(value: Any) -> Any:
    """As a relation takes it: those of a tensor, of each of a list, None of an absent one."""
    return mapped(lambda x: tuple(x.shape), value)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call by its sizes alone, beside the sample that it came from."""

    call: Call
    inputs: tuple[Any, ...]  # sizes
    outs: Mapping[str, Sizes]
    attrs: Mapping[str, Any]  # attributes as the sample has them, without scalars

    def relation(self) -> dict[str, Sizes] | None:
        """The sizes of all outs, as the row's relation has it; None: it refuses."""
        op, relations = self.call.row.op, importlib.import_module("aicf_cuda._relations")
        refused = importlib.import_module("aicf_rt.relations").Refused
        named = canonical(replace(self.call, kwargs=dict(self.attrs)))
        named = {k: v for k, v in named.items() if k not in self.scalars}
        try:
            found = relations.RELATIONS[op](*self.inputs, **named)
        except refused:
            return None
        names = [p.name for p in self.call.facts.outs]
        return dict(zip(names, (tuple(s) for s in found), strict=True))

    @property
    def scalars(self) -> set[str]:
        return {p.name for p in self.call.facts.scalars}

    def taken(self) -> bool:
        """Whether the row takes it: its relation, the outs' sizes, the attributes' ranges."""
        found = self.relation() if in_range(self.call.row.op, self.attrs) else None
        if found is None or not self.of_outs_hold(found):
            return False
        return all(found[name] == s for name, s in self.outs.items())

    def of_outs_hold(self, outs: Mapping[str, Sizes]) -> bool:
        """The conditions that name outs, which a relation, that gives these, does not ask."""
        inputs = dict(zip((p.name for p in self.call.facts.inputs), self.inputs, strict=True))
        scope = {"numel": math.prod, "__builtins__": {}, **inputs, **outs}
        texts = table()[self.call.row.op]["row"].get("where", {})
        about = [t for t in texts if set(outs) & set(re.findall(r"\w+", t))]
        return all(bool(eval(text, scope)) for text in about)

    def made(self) -> Call:
        """The call itself, on dense tensors of those sizes: zeros, and poisoned outs."""
        again = self.call.copied()
        again.kwargs = {
            **{k: v for k, v in again.kwargs.items() if k in self.scalars},
            **self.attrs,
        }
        again.inputs = [
            zeros(value, sizes) for value, sizes in zip(again.inputs, self.inputs, strict=True)
        ]
        again.outs = {
            name: poisoned(sizes, self.call.kind(name), self.call.device)
            for name, sizes in self.outs.items()
        }
        return again


def zeros(value: Any, sizes: Any) -> Any:
    if isinstance(value, list | tuple):
        return [zeros(x, s) for x, s in zip(value, sizes, strict=True)]
    if value is None or tuple(value.shape) == sizes:
        return value
    return torch.zeros(sizes, dtype=value.dtype, device=value.device)


def asked_of(call: Call) -> Asked:
    """A sample's call, with all its outs."""
    attrs = {k: v for k, v in call.kwargs.items() if k not in {p.name for p in call.facts.scalars}}
    attrs.pop("dtype", None)
    inputs = tuple(sizes_of(x) for x in call.inputs)
    outs = {p.name: tuple(call.want[p.name].shape) for p in call.facts.outs if p.name in call.want}
    return Asked(call, inputs, outs, attrs)


def mutations(sizes: Sizes, none: bool) -> Iterator[Sizes]:
    """One relation violated, by one: a dim longer or shorter, 1 or 0, one dim more or less."""
    for d, size in enumerate(sizes):
        for other in {size + 1, size - 1, 1, 0} - {size}:
            if other > 0 or (other == 0 and none):
                yield (*sizes[:d], other, *sizes[d + 1 :])
    yield (2, *sizes)
    yield (*sizes, 2)
    yield (1, *sizes)
    if sizes:
        yield sizes[1:]


def changed(one: Asked) -> Iterator[tuple[str, Asked]]:
    """With one tensor of other sizes, or all that have the same; the outs as they were, and as the
    relation then has them."""
    names = [p.name for p in one.call.facts.inputs]
    kinds = [x.dtype for x in tensors_of(one.call.inputs)]
    # An index has nowhere to point where there is nothing: what kernels do then is their own test.
    none = all(kind.is_floating_point for kind in kinds)
    for at, sizes in enumerate(one.inputs):
        first = sizes[0] if isinstance(sizes, list) and sizes else sizes
        for other in mutations(first, none) if isinstance(first, tuple) else ():
            alone = [*one.inputs]
            alone[at] = [other, *sizes[1:]] if isinstance(sizes, list) else other
            alike = [swapped(s, first, other) for s in one.inputs]
            for inputs in (alone, alike):
                yield names[at], replace(one, inputs=tuple(inputs))
                found = replace(one, inputs=tuple(inputs)).relation()
                if found is not None:
                    outs = {name: s for name, s in found.items() if name in one.outs}
                    yield names[at], replace(one, inputs=tuple(inputs), outs=outs)
    for name, sizes in one.outs.items():
        for other in mutations(sizes, True):
            yield name, replace(one, outs={**one.outs, name: other})


def swapped(sizes: Any, first: Sizes, other: Sizes) -> Any:
    if isinstance(sizes, list):
        return [swapped(s, first, other) for s in sizes]
    return other if sizes == first else sizes


# ---- attributes ----------------------------------------------------------------------------------


def attributes_of(op: str) -> list[Mapping[str, Any]]:
    return [a for a in table()[op]["row"]["args"] if "attr" in a]


def in_range(op: str, attrs: Mapping[str, Any]) -> bool:
    """Whether all are where the row's `min` and `max` say."""
    for a in attributes_of(op):
        value = attrs.get(a["name"])
        for x in value if isinstance(value, list | tuple) else () if value is None else (value,):
            if isinstance(x, int | float) and not (
                a.get("min", -(2**62)) <= x <= a.get("max", 2**62)
            ):
                return False
    return True


def other_values(a: Mapping[str, Any], value: Any) -> list[Any]:
    """For an attribute that has this value."""
    kind = a["attr"]
    if kind == "bool":
        return [not value]
    if kind == "enum":
        return [word for word in a["values"] if word != value]
    if kind == "float":
        return [0.0, 1.0, -2.5, 0.25]
    if kind == "axis":
        return [0, -1, 1, 7, -8, 2**31, -(2**62)]
    if kind == "axes":
        return [[0], [0, 0], [0, -1], [9], [2**40], [1, 0]]
    if kind == "ints":
        each = [value] * a["size"] if isinstance(value, int) else [*(value or [1] * a["size"])]
        return [[x + 1 for x in each], [0] * len(each), [each[0], *(x + 2 for x in each[1:])]]
    return [x for x in (0, 1, 2, (value or 0) + 1, -1) if x != value]


def readdressed(one: Asked) -> Iterator[tuple[str, Asked]]:
    """With one attribute of another value; outs of the sizes that it has then."""
    for a in attributes_of(one.call.row.op):
        now = one.attrs.get(a["name"], a.get("default"))
        for value in other_values(a, None if now == "all" else now):
            tried = replace(one, attrs={**one.attrs, a["name"]: value})
            found = tried.relation() if in_range(one.call.row.op, tried.attrs) else None
            if found is not None:
                outs = {name: s for name, s in found.items() if name in one.outs}
                tried = replace(tried, outs=outs)
            yield a["name"], tried


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
        return dim == -1
    return bool(t.numel() == 0 or t.shape[dim] == 1 or t.stride(dim) == 1)


def layout_fits(t: torch.Tensor, layouts: Sequence[str]) -> bool:
    """Of one tensor alone; `flat` also asks for one order of all."""
    fits = {
        "dense": is_dense(t),
        "flat": is_gapless(t),
        "nhwc": t.dim() == 4 and is_dense(t.permute(0, 2, 3, 1)),
        "row": has_unit_stride(t, -1),
        "col": t.dim() >= 2 and has_unit_stride(t, -2),
        "strided": t.dim() <= 8,
    }
    return any(fits[layout] for layout in layouts)


def one_order(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether gapless tensors all have the same order."""
    if all(is_dense(t) for t in tensors):
        return True
    return all(t.shape == tensors[0].shape for t in tensors) and all(
        strides_of(t) == strides_of(tensors[0]) for t in tensors
    )


def layouts_fit(call: Call, kernel: Mapping[str, Any]) -> bool:
    """Whether the tensors lie as a kernel takes them."""
    named = {p.name: x for p, x in zip(call.facts.inputs, call.inputs, strict=True)} | call.outs
    flat: list[torch.Tensor] = []
    for name, layouts in kernel["layouts"].items():
        for t in tensors_of(named.get(name)):
            if not layout_fits(t, layouts):
                return False
            if layouts == ["flat"]:
                flat.append(t)
    return not flat or one_order(flat)


def moved(call: Call, name: str, layout: str) -> Call:
    """With the tensor of a name, an out too, in another layout."""
    again = call.relaid(layout, name)
    again.outs = dict(call.outs)
    if name in again.outs:
        x = again.outs[name]
        again.outs[name] = empty(tuple(x.shape), again.kind(name), call.device, layout)
    return again
