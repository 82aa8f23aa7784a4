"""What the names in a row's expressions stand for in one call: dims, packs, attributes, tensors.

Costs, workspaces and what an op is in ATen's terms are written over these names.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

from aicf.table import Kind, Row

Shape = Sequence[int]

# Items of a shape that are one size each; the others, but packs that are bound, take what is left.
_ONE = frozenset(("DIM", "VALUE"))


def bind(row: Row, tensors: Sequence[Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the row's names but type variables. `tensors` has for each tensor parameter
    what has `shape` (an `aicf_rt.Spec`), None where it is absent, a sequence of a list;
    `attributes` has every attribute. The call is one that the op takes."""
    names: dict[str, Any] = dict(attributes)
    dims: dict[str, Any] = {}
    for param, described, tensor in zip(row.tensors, _described(row), tensors, strict=True):
        test = described.get("test")
        items = described["items" if test is None or evaluate(test, names) else "other"]
        if param.kind is Kind.LIST:
            given = [] if tensor is None else list(tensor)
            names[param.name] = given
            shapes = [t.shape for t in given if t is not None]
            _bind_each(row, items, shapes, names, dims)
            dims.setdefault(param.list, len(given))
        else:
            names[param.name] = tensor
            if tensor is not None:
                _bind_one(items, tuple(tensor.shape), names, dims)
    for dim in row.entry["dims"]:
        name = dim["name"]
        if name in dims:
            names[name] = dims[name]
        elif dim["value"]:
            names[name] = evaluate(dim["value"], names)
        else:
            names.setdefault(name, None if dim["pack"] or dim["varies"] else 0)
    return names


def evaluate(python: str, names: Mapping[str, Any]) -> Any:
    """An expression as opgen wrote it. Raises ArithmeticError where it has no value."""
    code, functions = _compiled(python)
    return eval(code, functions, names)


@functools.cache
def _compiled(python: str) -> tuple[CodeType, dict[str, Any]]:
    from aicf_rt import relations  # has all of what expressions call

    code = compile(python, "<the capability table>", "eval")
    return code, {"_e": relations, "__builtins__": {}}


@functools.cache
def _described(row: Row) -> tuple[Mapping[str, Any], ...]:
    """What the generator says of each tensor parameter."""
    entries = {p["name"]: p for p in row.entry["params"]}
    return tuple(entries[p.name] for p in row.tensors)


def _bind_one(
    items: Sequence[Any], shape: tuple[int, ...], names: Mapping[str, Any], dims: dict[str, Any]
) -> None:
    """Gives each item its part of a shape. One pack that is not known takes what others leave."""
    for at, item in enumerate(items):
        if item["kind"] != "AXIS":
            continue
        axis = names[items[at]["axis"]] % len(shape)
        _bind_one(items[:at], shape[:axis], names, dims)
        dims.setdefault(items[at]["dim"], shape[axis])
        _bind_one(items[at + 1 :], shape[axis + 1 :], names, dims)
        return
    rest = len(shape)
    for item in items:
        kind, name = item["kind"], item.get("dim")
        rest -= 1 if kind in _ONE else len(dims[name]) if kind == "PACK" and name in dims else 0
    place = 0
    for item in items:
        kind, name = item["kind"], item.get("dim")
        if kind == "DIM":
            dims.setdefault(name, shape[place])
            place += 1
        elif kind == "PACK":
            rank = len(dims[name]) if name in dims else rest
            dims.setdefault(name, shape[place : place + rank])
            place += rank
        else:
            place += 1 if kind in _ONE else rest


def _bind_each(
    row: Row,
    items: Sequence[Any],
    shapes: Sequence[Shape],
    names: Mapping[str, Any],
    dims: dict[str, Any],
) -> None:
    """Over a list: a dim that varies is a tuple of one a tensor, another is that of the first."""
    found: list[dict[str, Any]] = []
    for shape in shapes:
        one: dict[str, Any] = {}
        _bind_one(items, tuple(shape), names, one)
        found.append(one)
    varying = {d["name"] for d in row.entry["dims"] if d["varies"]}
    for name in found[0] if found else ():
        each = tuple(one[name] for one in found)
        dims.setdefault(name, each if name in varying else each[0])
