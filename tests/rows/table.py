"""What the built table says of each op, as far as calls of it need to know."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}
WORDS = {kind: word for word, kind in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Param:
    """A tensor argument, a list of them, an out or a scalar."""

    name: str
    role: str  # "IN", "INOUT", "OUT" or "SCALAR"
    is_list: bool
    optional: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """One op of the table."""

    op: str
    package: str
    params: tuple[Param, ...]
    variants: Mapping[str, Mapping[str, str]]  # by suffix: the dtype of each parameter
    free: int | None  # which part of the suffix no argument says
    covered: Mapping[str, tuple[str, ...]]  # by device: suffixes that a built kernel covers
    kernels: tuple[Mapping[str, Any], ...]
    overlap: Mapping[str, tuple[str, ...]]  # by out: the arguments that it may be
    grad: Mapping[str, str]  # as the row has it; empty without

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"{self.package}.{self.op}")

    @property
    def inputs(self) -> tuple[Param, ...]:
        """Tensor arguments: those that are written too."""
        return tuple(p for p in self.params if p.role in ("IN", "INOUT"))

    @property
    def outs(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.role == "OUT")

    @property
    def scalars(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.role == "SCALAR")

    @property
    def writes(self) -> bool:
        """Whether it writes to an argument."""
        return any(p.role == "INOUT" for p in self.params)

    @property
    def twice(self) -> bool:
        """Whether its gradient has one: all rows that it calls, fixed functions' too."""
        rows = table(self.package)
        runs = {"sum_to": "sum", "unreduce": "copy", "split": "copy"}
        called = {w for text in self.grad.values() for w in re.findall(r"(\w+)\(", text)}
        names = {runs.get(w, w) for w in called} & set(rows)
        return bool(self.grad) and all(rows[name]["row"].get("grad") for name in names)

    def kernels_of(self, device: str) -> dict[str, tuple[str, ...]]:
        """The suffixes that each kernel of a device was built for."""
        built = self.module.capability["built"]
        return {
            k["id"]: tuple(built[k["id"]])
            for k in self.kernels
            if k["backend"] == device and built.get(k["id"])
        }


def table(package: str = "aicf_cuda") -> Mapping[str, Any]:
    """`_table.json`'s ops, by name."""
    found: Mapping[str, Any] = importlib.import_module(f"{package}._table").load()["ops"]
    return found


@functools.cache
def facts(op: str, package: str = "aicf_cuda") -> Facts:
    said = table(package)[op]
    row = said["row"]
    params = tuple(
        Param(p["name"], p["role"], bool(p["list"]), bool(p["optional"])) for p in said["params"]
    )
    words = {
        w for p in said["params"] if p["role"] != "OUT" for w in re.findall(r"\w+", p["dtype"])
    }
    free = [i for i, name in enumerate(row.get("types", {})) if name not in words]
    overlap = row.get("overlap", {})
    return Facts(
        op,
        package,
        params,
        said["variants"],
        free[0] if free else None,
        {device: tuple(suffixes) for device, suffixes in said["backends"].items()},
        tuple(said["kernels"]),
        {out: (of,) if isinstance(of, str) else tuple(of) for out, of in overlap.items()},
        row.get("grad", {}),
    )
