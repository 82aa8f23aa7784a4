"""Relations of a table in Python beside `infer` of the same table in C, asked with random calls."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from generator.program import ROOT

HERE = ROOT / "tests" / "generator"
CALLED: dict[str, ModuleType] = {}  # once loaded: Refused is one class
Shapes = list[Any]  # of the arguments: tuples of sizes, None, lists of both


def load(path: Path, name: str) -> ModuleType:
    """A generated file, with what it calls of aicf_rt as that is in this tree: the package around
    it needs a build. Other tests' aicf_rt stays what it is."""
    before = {k: m for k, m in sys.modules.items() if k.partition(".")[0] == "aicf_rt"}
    for key in before:
        del sys.modules[key]
    package = sys.modules["aicf_rt"] = ModuleType("aicf_rt")
    try:
        if not CALLED:
            for name in ("expressions", "relations"):
                file = ROOT / "runtime" / "python" / "aicf_rt" / f"{name}.py"
                CALLED[name] = execute(file, f"aicf_rt.{name}")
        vars(package).update(CALLED)
        return execute(path, name)
    finally:
        for key in [k for k in sys.modules if k.partition(".")[0] == "aicf_rt"]:
            del sys.modules[key]
        sys.modules.update(before)


def execute(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


LIBRARY = ROOT / "runtime" / "libaicf"
COMPILE = (
    os.environ.get("CC", "gcc"),
    "-std=gnu11",
    "-O0",
    "-shared",
    "-fPIC",
    "-I",
    ROOT / "include",
)


def compile_shared(out: Path, *arguments: str | Path) -> Path:
    said = subprocess.run(
        [*COMPILE, *arguments, "-o", out], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    return out


def build_runtime(folder: Path) -> Path:
    """libaicf without CUDA, every symbol of it."""
    sources = [*LIBRARY.glob("*.c"), LIBRARY / "cuda" / "absent.c"]
    out = folder / "libaicf_tested.so"
    return compile_shared(out, "-I", LIBRARY, *sources, "-lm", "-ldl", "-lpthread")


def build(generated: Path, table: Mapping[str, Any], runtime: Path, folder: Path) -> ctypes.CDLL:
    """All rows' descriptors in one library. No kernel is built: none is asked for."""
    symbol = table["namespace"]
    lines = [f"extern const aicf_op {symbol}_{name}_op;" for name in table["ops"]]
    entries = ", ".join(f"&{symbol}_{name}_op" for name in table["ops"])
    lines.append(f"const aicf_op *all[] = {{{entries}}};")
    for name in set(table["backends"]) - {"cpu", "cuda"}:  # of a module: nothing is asked of it
        lines.append(f"const aicf_backend aicf_backend_{name};")
    (folder / "all.c").write_text("\n".join(["#include <aicf/call.h>", *lines, ""]))
    sources = [folder / "all.c", HERE / "relations_driver.c", *generated.glob("ops/*_op.c")]
    headers: list[str | Path] = [
        "-I",
        generated / "include",
        "-I",
        ROOT / "tests/modules/zoo/include",
    ]
    out = compile_shared(folder / "relations.so", *headers, *sources, runtime, "-lm")
    loaded = ctypes.CDLL(str(out))
    loaded.relation_infer.restype = ctypes.c_bool
    return loaded


@dataclass(frozen=True, slots=True)
class Call:
    """Shapes and attributes of one call."""

    shapes: Shapes
    attributes: dict[str, Any]


@dataclass(slots=True)
class Row:
    """What calls of a row are drawn from: `_table.json` says how its shapes are made up."""

    name: str
    said: Mapping[str, Any]
    evaluate: Mapping[str, Any]  # what expressions call

    @property
    def inputs(self) -> list[Mapping[str, Any]]:
        return [p for p in self.said["params"] if p["role"] in ("IN", "INOUT")]

    @property
    def attributes(self) -> list[Mapping[str, Any]]:
        return [a for a in self.said["row"]["args"] if "attr" in a]

    def draw(self, rng: random.Random) -> Call:
        """A call that mostly fits; then, half the time, something about it is changed."""
        dims: dict[str, Any] = {}
        for d in self.said["dims"]:
            if d["pack"]:
                dims[d["name"]] = tuple(rng.choices((1, 2, 3), k=rng.choice((0, 1, 1, 2))))
            else:
                dims[d["name"]] = rng.choice((0, 1, 2, 2, 3, 4))
        names = {d["name"] for d in self.said["dims"] if d["pack"]}
        if rng.random() < 0.6 and len(names) > 1:  # packs that broadcast
            shared = dims[sorted(names)[0]]
            for name in names:
                dims[name] = tuple(rng.choice((n, n, 1)) for n in shared)[rng.choice((0, 0, 1)) :]
        counts = {d["name"]: rng.choice((0, 1, 2, 3)) for d in self.said["dims"] if d["list"]}
        values = {a["name"]: self.value(a, rng) for a in self.attributes}
        if rng.random() < 0.5:
            values = {a["name"]: self.within(a, values[a["name"]]) for a in self.attributes}
        self.follow(dims, values, rng)
        if rng.random() < 0.7:
            self.obey(dims, values)
        shapes: Shapes = []
        for p in self.inputs:
            if p["optional"] and rng.random() < 0.4:
                shapes.append(None)
            elif p["list"]:
                one = [
                    self.shape(p, dims, values, rng, each=True) for _ in range(counts[p["list"]])
                ]
                shapes.append(one)
            else:
                shapes.append(self.shape(p, dims, values, rng))
        if rng.random() < 0.5:
            self.spoil(shapes, rng)
        return Call(shapes, values)

    def follow(self, dims: dict[str, Any], values: Mapping[str, Any], rng: random.Random) -> None:
        """Mostly, P is what the row computes as P0."""
        for d in self.said["dims"]:
            name = d["name"].removesuffix("0")
            if d["value"] and name != d["name"] and name in dims and rng.random() < 0.7:
                known = {**dims, **values, "_e": self.evaluate["_e"]}
                (dims[name],) = self.item({"kind": "VALUE", "python": d["value"]}, known)

    @staticmethod
    def within(a: Mapping[str, Any], value: Any) -> Any:
        """Integers as their bounds allow them."""
        least, most = a.get("min", -(2**63)), a.get("max", 2**63 - 1)
        if a["attr"] == "int":
            return min(max(value, least), most)
        if a["attr"] == "ints":
            return tuple(min(max(v, least), most) for v in value)
        return value

    def obey(self, dims: dict[str, Any], values: Mapping[str, Any]) -> None:
        """Dims as conditions of the row would have them that say so simply, one after the other."""
        for part in (
            p for where in self.said["row"].get("where", {}) for p in where.split(" and ")
        ):
            said = re.fullmatch(r"(\w+) (==|>=|% \w+ ==) (.+)", part)
            if not said or not isinstance(dims.get(said[1]), int):
                continue
            name, how, wanted = said.groups()
            try:
                value = eval(wanted, {**dims, **values})
                by = values[how.split()[1]] if how.startswith("%") else 1
            except (ArithmeticError, KeyError, TypeError, NameError, SyntaxError):
                continue
            if how == "==" and isinstance(value, int) and value <= 64:
                dims[name] = value
            elif how == ">=" and isinstance(value, int):
                dims[name] = max(dims[name], min(value, 64))
            elif how.startswith("%") and 0 < by <= 64:
                dims[name] *= by

    def shape(
        self,
        p: Mapping[str, Any],
        dims: Mapping[str, Any],
        values: Mapping[str, Any],
        rng: random.Random,
        each: bool = False,
    ) -> tuple[int, ...]:
        known = {**dims, **values, "_e": self.evaluate["_e"]}
        for d in self.said["dims"]:
            if each and d["varies"]:
                known[d["name"]] = (
                    tuple(rng.choices((1, 2, 3), k=rng.choice((0, 1, 2)))) if d["pack"] else 2
                )
        items = p["items"]
        if "test" in p and rng.random() < 0.5:
            items = p["other"]
        sizes: list[int] = []
        for item in items:
            sizes += self.item(item, known)
        axis = next((i for i in items if i["kind"] == "AXIS"), None)
        if axis is not None and rng.random() < 0.9:  # as many dims before it as it says
            before = items.index(axis)
            left = [n for i in items[:before] for n in self.item(i, known)]
            want = values[axis["axis"]]
            if isinstance(want, int) and want >= 0:
                sizes = [2] * max(want - len(left), 0) + sizes
        return tuple(max(n, 0) for n in sizes)

    def item(self, item: Mapping[str, Any], known: Mapping[str, Any]) -> list[int]:
        kind = item["kind"]
        try:
            if kind == "VALUE":
                return [int(eval(item["python"], dict(known)))]
            if kind == "BROADCAST":
                return list(known["_e"].broadcast(*(known[n] for n in item["packs"])))
            if kind == "REDUCED":
                pack = known[item["dim"]]
                axes = known[item["axis"]]
                axes = range(len(pack)) if axes is None else axes
                axes = [a % max(len(pack), 1) for a in ([axes] if isinstance(axes, int) else axes)]
                return list(known["_e"].reduced(pack, axes, known.get(item.get("keep", ""), False)))
            if kind == "PERMUTED":
                return list(known[item["dim"]])
        except (ArithmeticError, TypeError, NameError):
            return [2]
        value = known[item["dim"]]
        return list(value) if kind == "PACK" else [value]

    @staticmethod
    def value(a: Mapping[str, Any], rng: random.Random) -> Any:
        """Canonical, now and then beyond the bounds, rarely where 64 bits end."""
        huge = rng.random() < 0.05
        whole = (2**62, -(2**62), 2**63 - 1, -(2**63)) if huge else (-2, -1, 0, 1, 1, 2, 3)
        kind = a["attr"]
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "int":
            return rng.choice(whole)
        if kind == "float":
            return rng.choice((0.0, 0.0, 1.0, -0.5, 0.5, math.nan if huge else 2.0))
        if kind == "enum":
            return rng.choice(a["values"])
        if kind == "ints":
            return tuple(rng.choice(whole) for _ in range(a["size"]))
        if kind == "axis":
            return rng.choice((-2, -1, 0, 0, 1, 1, 2))
        if a.get("default") == "all" and rng.random() < 0.4:
            return None
        rank = rng.choice((0, 1, 2, 2, 3))
        order = list(range(rank))
        rng.shuffle(order)
        folded = [i - rank if rng.random() < 0.3 else i for i in order]
        return tuple(folded[: rng.choice((rank, rank, 1))])

    @staticmethod
    def spoil(shapes: Shapes, rng: random.Random) -> None:
        index = rng.randrange(len(shapes)) if shapes else 0
        if not shapes or shapes[index] is None:
            return
        if isinstance(shapes[index], list):
            if not shapes[index]:
                return
            Row.spoil(shapes[index], rng)
            return
        sizes = list(shapes[index])
        at = rng.randrange(len(sizes) + 1)
        if at < len(sizes) and rng.random() < 0.7:
            sizes[at] = rng.choice((0, 1, 2, 5))
        elif at < len(sizes) and rng.random() < 0.5:
            del sizes[at]
        else:
            sizes.insert(at, rng.choice((1, 2)))
        shapes[index] = tuple(sizes)

    # ---- the two answers ------------------------------------------------------------------------

    def in_c(self, library: ctypes.CDLL, index: int, call: Call) -> tuple[Any, ...] | None:
        """The shapes of the outs; None where C refuses."""
        given: list[int] = []
        for d in self.said["dims"]:
            if d["list"]:
                of = [p["list"] == d["name"] for p in self.inputs]
                lists = [s for s, is_of in zip(call.shapes, of, strict=True) if is_of]
                given.append(max((len(s) for s in lists if s is not None), default=0))
                count = given[-1]
        for p, shape in zip(self.inputs, call.shapes, strict=True):
            if p["list"]:
                for one in shape if shape is not None else [None] * count:
                    given += [-1] if one is None else [len(one), *one]
            else:
                given += [-1] if shape is None else [len(shape), *shape]
        for a in self.said["row"]["args"]:
            if "tensor" not in a or "attr" in a:
                given += self.numbers(a, call.attributes.get(a["name"]))
        buffer = (ctypes.c_int64 * (len(given) + 1))(*given)
        found = (ctypes.c_int64 * 1024)()
        ops = (ctypes.c_void_p * (index + 1)).in_dll(library, "all")
        if not library.relation_infer(ctypes.c_void_p(ops[index]), buffer, found):
            return None
        at, outs = 0, []
        for _ in [p for p in self.said["params"] if p["role"] == "OUT"]:
            outs.append(tuple(found[at + 1 : at + 1 + found[at]]))
            at += 1 + found[at]
        return tuple(outs)

    @staticmethod
    def numbers(a: Mapping[str, Any], value: Any) -> list[int]:
        kind = a.get("attr", "scalar")
        if kind == "scalar":
            return [0]
        if kind == "axes":
            return [-1] if value is None else [len(value), *value]
        if kind == "ints":
            return [len(value), *value]
        if kind == "enum":
            return [1, a["values"].index(value)]
        if kind == "float":
            return [1, struct.unpack("q", struct.pack("d", value))[0]]
        return [1, int(value)]


def rows_of(table: Mapping[str, Any], expressions: ModuleType) -> list[Row]:
    return [Row(name, said, {"_e": expressions}) for name, said in table["ops"].items()]


def equal_lists(row: Row, call: Call) -> bool:
    """Whether lists of one length have it: the driver of C has one number for all."""
    for name in {p["list"] for p in row.inputs if p["list"]}:
        pairs = zip(row.inputs, call.shapes, strict=True)
        lengths = {len(s) for p, s in pairs if p["list"] == name and s is not None}
        if len(lengths) > 1:
            return False
    return True


ELEMENTS = (2**63 - 1) // 8  # of any dtype fit into 64 bits of bytes


def compare(
    row: Row,
    index: int,
    library: ctypes.CDLL,
    relation: Callable[..., Any],
    refused: type[Exception],
    calls: Sequence[Call],
) -> tuple[int, int]:
    """How many calls both took, and both refused; they differ in none."""
    taken = 0
    for call in calls:
        want = row.in_c(library, index, call)
        try:
            found = relation(*call.shapes, **call.attributes)
        except refused as error:
            assert want is None, f"{row.name}{call}: C gives {want}, Python refuses: {error}"
            continue
        if want is None and any(math.prod(n for n in out if n) > ELEMENTS for out in found):
            continue  # a relation does not know how many bytes an element has
        assert found == want, f"{row.name}{call}: C gives {want}, Python {found}"
        assert all(type(n) is int for out in found for n in out), found
        taken += 1
    return taken, len(calls) - taken


def table_of(generated: Path) -> Mapping[str, Any]:
    (path,) = generated.glob("python/*/_table.json")
    found: Mapping[str, Any] = json.loads(path.read_text())
    return found
