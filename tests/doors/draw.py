"""Random arguments for any row of a table, by what the table says of it: mostly right, else with
one thing or another wrong."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import random
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from aicf_rt import Spec, expressions

WORDS: dict[str, Any] = {
    "bool": "?", "i8": "i1", "u8": "u1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2",
    "f32": "f4", "f64": "f8",
}  # fmt: skip
with contextlib.suppress(ImportError):  # it has the one dtype that numpy lacks
    WORDS["bf16"] = importlib.import_module("ml_dtypes").bfloat16
# No table has these: they are refused.
OTHERS: dict[str, Any] = {"u16": "u2", "u32": "u4", "u64": "u8", "c64": "c8", "c128": "c16"}
ALL = {**WORDS, **OTHERS}
NAMES = {np.dtype(word): name for name, word in ALL.items()}
Shape = tuple[int, ...]


def table_of(package: ModuleType) -> dict[str, Any]:
    """The rows by name, as the package keeps them for tools."""
    text = (Path(str(package.__file__)).parent / "_table.json").read_text(encoding="utf-8")
    ops: dict[str, Any] = json.loads(text)["ops"]
    return ops


def array_of(shape: Shape, dtype: str, strides: Sequence[int] | None = None) -> Any:
    """Of ones, over memory of its own; strides in elements, of which none is negative."""
    word = np.dtype(ALL[dtype])
    if strides is None or 0 in shape:
        return np.ones(shape, word)
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    memory = np.ones(reach, word)
    inside = [s if n > 1 else 0 for n, s in zip(shape, strides, strict=True)]
    return np.lib.stride_tricks.as_strided(memory, shape, [s * word.itemsize for s in inside])


def spec_of(array: Any) -> Any:
    strides = [s // array.itemsize for s in array.strides]
    return Spec(array.shape, NAMES[array.dtype], strides=strides)


def described(value: Any) -> Any:
    """The same argument, with Specs for arrays."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value):
        return [described(v) for v in value]
    return spec_of(value) if isinstance(value, np.ndarray) else value


class Draw:
    """Arguments of one call. `faults`: how likely a draw is to go wrong, each time."""

    def __init__(self, dice: random.Random, row: dict[str, Any], faults: float) -> None:
        self.dice = dice
        self.row = row
        self.faults = faults
        self.dims: dict[str, Any] = {}
        self.attrs = {a["name"]: self.attribute(a) for a in row["row"]["args"] if "attr" in a}
        self.named: dict[str, Any] = {}  # whether an attribute is passed
        known = [v for v, ds in row["variants"].items() if {*ds.values()} <= {*WORDS, None}]
        self.variant = dice.choice(known)

    def goes_wrong(self) -> bool:
        return self.dice.random() < self.faults

    # ---- shapes ------------------------------------------------------------------------------

    def size(self) -> int:
        return self.dice.choice([0, 1, 2, 2, 3, 3, 4, 5, 8])

    def pack(self) -> Shape:
        return tuple(self.size() for _ in range(self.dice.choice([0, 0, 1, 1, 2, 3])))

    def dim(self, item: dict[str, Any], fresh: bool) -> Shape:
        """What an item of a shape stands for; anything where that is not simple to say."""
        name = item.get("dim")
        pack = item["kind"] == "PACK"
        if item["kind"] == "BROADCAST":
            packs = [self.dims.get(p, ()) for p in item["packs"]]
            try:
                return tuple(np.broadcast_shapes(*packs))
            except ValueError:
                return ()
        if item["kind"] == "REDUCED":
            return self.reduced(item)
        if item["kind"] == "VALUE":
            return self.value(item["python"])
        if name is None or item["kind"] not in ("DIM", "AXIS", "PACK"):
            return (self.size(),)
        if name not in self.dims or fresh:
            drawn = self.pack() if pack else self.size()
            if pack and self.dims and self.dice.randrange(3):
                others = [d for d in self.dims.values() if isinstance(d, tuple)]
                drawn = self.dice.choice(others) if others else drawn
            self.dims[name] = drawn
        held = self.dims[name]
        return held if isinstance(held, tuple) else (held,)

    def value(self, python: str) -> Shape:
        """A size that is computed of dims, where those that it names are known."""
        with contextlib.suppress(NameError, TypeError, ArithmeticError):
            return (max(int(eval(python, {"_e": expressions, **self.dims})), 0),)
        return (self.size(),)

    def passes(self, attr: str) -> bool:
        return bool(self.named.setdefault(attr, self.dice.randrange(2)))

    def reduced(self, item: dict[str, Any]) -> Shape:
        """By the attributes as they are going to be passed, or left to their defaults."""
        sizes = self.dims.setdefault(item["dim"], self.pack())
        axes = self.attrs[item["axis"]] if self.passes(item["axis"]) else None
        keep = item.get("keep") in self.attrs and self.passes(item["keep"])
        chosen = range(len(sizes)) if axes is None else np.atleast_1d(np.asarray(axes, object))
        with contextlib.suppress(TypeError, ValueError, ZeroDivisionError):
            gone = {int(a) % len(sizes) for a in chosen}
            kept = [1 if d in gone else n for d, n in enumerate(sizes)]
            if keep and self.attrs[item["keep"]] is True:
                return tuple(kept)
            return tuple(n for d, n in enumerate(sizes) if d not in gone)
        return ()

    def shape(self, param: dict[str, Any], fresh: bool = False) -> Shape:
        varying = {d["name"] for d in self.row["dims"] if d["varies"]}
        drawn: Shape = ()
        for item in param["items"]:
            drawn += self.dim(item, fresh and item.get("dim") in varying)
        if self.goes_wrong():
            wrong = [drawn[1:], (1, *drawn), (*drawn, 2), tuple(n + 1 for n in drawn)]
            drawn = self.dice.choice(wrong)
        return drawn

    # ---- tensors -----------------------------------------------------------------------------

    def strides(self, shape: Shape) -> list[int] | None:
        if self.dice.randrange(3):
            return None
        order = list(range(len(shape)))
        self.dice.shuffle(order)
        strides, below = [0] * len(shape), 1
        for dim in order:
            strides[dim] = below
            below *= max(shape[dim], 1)
            below += self.dice.choice([0, 0, 0, 1])
        return strides

    def array(self, param: dict[str, Any], fresh: bool = False) -> Any:
        dtype = self.row["variants"][self.variant][param["name"]]
        if self.goes_wrong():
            dtype = self.dice.choice(list(ALL))
        shape = self.shape(param, fresh)
        while math.prod(shape) > 4096:
            shape = shape[1:]
        return array_of(shape, dtype, self.strides(shape))

    def tensor(self, param: dict[str, Any]) -> Any:
        if (param["optional"] and self.dice.randrange(2)) or self.goes_wrong():
            return None
        if self.goes_wrong():
            return self.dice.choice([3, "x", [], object(), 2.5])
        if param["list"] is None:
            return self.array(param)
        count = self.dims.setdefault(param["list"], self.dice.choice([0, 1, 2, 3]))
        count += self.goes_wrong()
        return [self.array(param, fresh=True) for _ in range(count)]

    # ---- attributes and scalars --------------------------------------------------------------

    def right_value(self, attr: dict[str, Any]) -> Any:
        dice = self.dice
        match attr["attr"]:
            case "bool":
                return dice.choice([True, False])
            case "enum":
                return dice.choice(attr["values"])
            case "float":
                return dice.choice([0.0, 1.0, 0.5, 1, np.float32(0.25), np.int8(1)])
            case "ints":
                return dice.choice([1, 2, [1] * attr["size"], (0, 3, 1, 2)[: attr["size"]]])
            case "axes":
                return dice.choice([None, 0, -1, [0], [0, 1], [1, -1], (), [0, 0]])
            case "axis":
                return dice.choice([0, 0, -1, 1])
        return dice.choice([1, 2, np.int64(3)])

    def attribute(self, attr: dict[str, Any]) -> Any:
        if self.goes_wrong():
            return self.dice.choice([None, "x", -7, 2**70, 1.5, True, [1, 2, 3, 4], float("nan")])
        return self.right_value(attr)

    def scalar(self, param: dict[str, Any]) -> Any:
        if self.goes_wrong():
            return self.dice.choice([None, "x", 2**70, 1.5, True, np.ones(2, "f4"), 1j])
        dtype = self.row["variants"][self.variant][param["name"]]
        one = array_of(self.dice.choice([(), (1,), (1, 1)]), dtype)
        return self.dice.choice([1, 2, np.int16(1), one])

    # ---- conditions --------------------------------------------------------------------------

    def given(self) -> dict[str, Any]:
        """The attributes as they are going to be passed, or left to their defaults."""
        found = {}
        for attr in self.row["row"]["args"]:
            if "attr" in attr:
                name = attr["name"]
                passed = "default" not in attr or self.passes(name)
                value = self.attrs[name] if passed else attr["default"]
                value = int(value) if isinstance(value, np.integer) else value
                several = attr["attr"] == "ints" and isinstance(value, int)
                found[name] = [value] * attr["size"] if several else value
        return found

    def obey(self) -> None:
        """Draws dims as conditions of the row would have them that say so simply."""
        known = self.given()
        for dim in self.row["dims"]:
            if not (dim["pack"] or dim["value"] or dim["list"] or dim["name"] in known):
                self.dims[dim["name"]] = self.size()
        for where in self.row["row"].get("where", {}):
            for part in where.split(" and "):
                said = re.fullmatch(r"(\w+) (==|>=|% \w+ ==) (.+)", part)
                if not said or not isinstance(self.dims.get(said[1]), int):
                    continue
                name, how, wanted = said.groups()
                with contextlib.suppress(Exception):  # attributes may be anything
                    value = int(eval(wanted, {**self.dims, **known}))
                    by = int(known[how.split()[1]]) if how.startswith("%") else 1
                    if how == "==" and 0 <= value <= 16:
                        self.dims[name] = value
                    elif how == ">=":
                        self.dims[name] = max(self.dims[name], min(value, 8))
                    elif how.startswith("%") and 0 < by <= 8:
                        self.dims[name] *= by

    # ---- a call ------------------------------------------------------------------------------

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of the generic form: positional, by name."""
        if self.row["row"].get("where") and self.dice.randrange(4):
            self.obey()
        inputs = [p for p in self.row["params"] if p["role"] in ("IN", "INOUT")]
        tensors = [self.tensor(p) for p in inputs]
        named = {a: v for a, v in self.attrs.items() if self.passes(a)}
        for param in self.row["params"]:
            if param["role"] == "SCALAR" and not self.goes_wrong():
                named[param["name"]] = self.scalar(param)
            if param["role"] == "OUT" and param["optional"] and self.dice.randrange(3) == 0:
                named[param["name"]] = self.dice.choice([True, False, None])
            elif param["role"] == "OUT" and self.dice.randrange(8) == 0:
                named[param["name"]] = self.array(param)
        for attr in self.row["row"]["args"]:
            if "attr" in attr and "default" not in attr and not self.goes_wrong():
                named.setdefault(attr["name"], self.attrs[attr["name"]])
        if len({*self.row["variants"]}) > 1 and self.dice.randrange(4) == 0:
            named["dtype"] = self.dice.choice([*WORDS, np.float32, "float64", None])
        if self.goes_wrong():
            named[self.dice.choice(["kernel", "nope", "kernel"])] = self.dice.choice(
                [self.row["kernels"][0]["id"], self.row["kernels"][-1]["id"], "none", None]
            )
        while tensors and (tensors[-1] is None or self.goes_wrong()):
            tensors.pop()
        return tensors, named
