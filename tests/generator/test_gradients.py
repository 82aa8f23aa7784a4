"""GRADIENTS of every row, run by a framework that only notes what it is asked."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from generator import relations
from generator.program import ROOT, Opgen
from generator.tables import generate

TABLES = {"words": ROOT / "tests/generator/words.yaml", "main": ROOT / "ops.yaml"}
LIKE = {"reshape": (1,), "sum_to": (1,), "unreduce": (1,), "split": (1,), "zeros": (0,)}


@dataclass(eq=False, slots=True)
class Thing:
    """A tensor: what it came of, and whether its value may be read."""

    text: str
    shape: tuple[int, ...] = ()
    value: bool = True

    def __repr__(self) -> str:
        return self.text


@dataclass(slots=True)
class Framework:
    """The `_f` of a gradient: every op and fixed function gives things named after the call."""

    table: Mapping[str, Any]
    calls: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        return lambda *operands, **named: self.call(name, operands, named)

    def note(self, x: Any) -> None:
        if isinstance(x, list):
            for one in x:
                self.note(one)
        elif isinstance(x, Thing):
            assert x.value, f"{x} is read, and was not saved"
            self.read.add(x.text.partition("[")[0])

    def call(self, name: str, operands: Sequence[Any], named: Mapping[str, Any]) -> Any:
        for i, x in enumerate(operands):
            if i not in LIKE.get(name, ()):
                self.note(x)
        said = ", ".join([*map(str, operands), *(f"{k}={v}" for k, v in named.items())])
        text = f"{name}({said})"
        if name == "split":
            return [Thing(f"{text}[{i}]", x.shape) for i, x in enumerate(operands[1])]
        if name not in self.table["ops"]:
            assert name in LIKE or name == "t", name
            assert not named
            return Thing(text, operands[LIKE[name][0]].shape if name in LIKE else ())
        return self.row(name, operands, dict(named), text)

    def row(self, name: str, operands: Sequence[Any], named: dict[str, Any], text: str) -> Any:
        op = self.table["ops"][name]
        inputs = [p for p in op["params"] if p["role"] in ("IN", "INOUT")]
        outs = [p for p in op["params"] if p["role"] == "OUT"]
        assert len(operands) == len(inputs), f"{text}: {len(inputs)} tensors"
        for p, x in zip(inputs, operands, strict=True):
            assert x is not None or p["optional"], f"{text}: {p['name']} is absent"
        want = named.pop("want", None)
        dtype = named.pop("dtype", "f32")
        assert any(dtype in v.values() for v in op["variants"].values()), dtype
        known = {a["name"]: a for a in op["row"]["args"] if "attr" in a or "scalar" in a}
        assert set(named) <= set(known), text
        assert set(named) >= {n for n, a in known.items() if "default" not in a}, text
        assert not any(text == call for call in self.calls), f"{text} is called twice"
        self.calls.append(text)
        if len(outs) == 1:
            assert want is None
            return Thing(text)
        assert len(want) == len(outs)
        assert any(want), f"{text} wants nothing"
        assert all(type(w) is bool for w in want)
        return tuple(Thing(f"{text}[{i}]") if w else None for i, w in enumerate(want))


@pytest.fixture(scope="session", params=TABLES)
def generated(
    request: pytest.FixtureRequest, opgen: Opgen, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp(request.param) / "generated"
    generate(opgen, TABLES[request.param], out)
    return out


@dataclass(slots=True)
class Case:
    """A row's gradients at a call that fits it."""

    table: Mapping[str, Any]
    row: relations.Row
    saved: Any
    backward: Any
    call: relations.Call
    outs: tuple[Any, ...]

    def things(self, shapes: Sequence[Any], names: Sequence[str], kept: Sequence[str]) -> list[Any]:
        def thing(name: str, shape: Any) -> Any:
            if shape is None:
                return None
            if isinstance(shape, list):
                return [Thing(f"{name}[{i}]", s, name in kept) for i, s in enumerate(shape)]
            return Thing(name, shape, name in kept)

        return [thing(n, s) for n, s in zip(names, shapes, strict=True)]

    def run(self, need: Sequence[Any], incoming: Any = None) -> tuple[Framework, Any, Any]:
        inputs = [p["name"] for p in self.row.inputs]
        outs = [p for p in self.row.said["params"] if p["role"] == "OUT"]
        kept = self.saved(need, *self.call.shapes, **self.call.attributes)
        f = Framework(self.table)
        arguments = self.things(self.call.shapes, inputs, kept)
        results = self.things(self.outs, [p["name"] for p in outs], kept)
        required = [p for p in outs if not p["optional"]]
        g: Any = tuple(Thing(f"g_{p['name']}") for p in required)
        g = incoming if incoming is not None else g if len(g) > 1 else g[0]
        scalars = {
            a["name"]: f"<{a['name']}>" for a in self.row.said["row"]["args"] if "scalar" in a
        }
        keywords = self.backward.__annotations__
        types = {t: "f64" for t in self.row.said["row"].get("types", {}) if t in keywords}
        found = self.backward(
            f, need, g, *arguments, *results, **self.call.attributes, **scalars, **types
        )
        return f, found, kept


def cases_of(generated: Path, calls: int = 12) -> list[Case]:
    table = relations.table_of(generated)
    (path,) = generated.glob("python/*/_relations.py")
    related: ModuleType = relations.load(path, f"{path.parent.name}_relations_too")
    gradients = relations.load(path.with_name("_gradients.py"), f"{path.parent.name}_gradients")
    found = []
    rows = {r.name: r for r in relations.rows_of(table, related._e)}
    assert list(gradients.GRADIENTS) == [n for n, r in rows.items() if r.said["row"].get("grad")]
    for name, (saved, backward) in gradients.GRADIENTS.items():
        rng, count = random.Random(name), 0
        while count < calls:
            call = rows[name].draw(rng)
            try:
                outs = related.RELATIONS[name](*call.shapes, **call.attributes)
            except related._e.Refused:
                continue
            found.append(Case(table, rows[name], saved, backward, call, outs))
            count += 1
    return found


@pytest.mark.promise("GRADIENTS-needed")
def test_only_what_is_needed_is_read_and_computed(generated: Path) -> None:
    """For every subset of the arguments: a gradient for each that is there, has one and is asked
    for; everything saved is read, nothing else is; no call is made twice, nor one that no result
    has in it."""
    for case in cases_of(generated):
        grad = case.row.said["row"]["grad"]
        for need in itertools.product((False, True), repeat=len(case.row.inputs)):
            f, found, kept = case.run(need)
            where = f"{case.row.name}{case.call} for {need}"
            assert f.read - {"g", "g_out", "g_hn"} >= set(kept) - {""} or not any(found), where
            assert len(found) == len(need)
            for p, shape, n, d in zip(case.row.inputs, case.call.shapes, need, found, strict=True):
                has = n and shape is not None and grad.get(p["name"], "none") != "none"
                assert (d is not None) == has, f"{where}: {p['name']} gets {d}"
                assert not has or isinstance(d, list) == bool(p["list"]), where
            made = " ".join(map(str, found))
            for text in f.calls:
                assert text in made, f"{where}: {text} is for nothing"
            if not any(d is not None for d in found):
                assert not f.calls
                assert not kept


def find(generated: Path, name: str, **attributes: Any) -> Case:
    """A case of the row with all its arguments present."""
    for case in cases_of(generated, 60):
        values = case.call.attributes
        if (
            case.row.name == name
            and None not in case.call.shapes
            and all(values[k] == v for k, v in attributes.items())
        ):
            return case
    raise AssertionError(f"no call of {name} has {attributes}")


@pytest.mark.promise("GRADIENTS-text")
def test_calls_are_the_rows(generated: Path) -> None:
    """What some rows say, written out."""
    if "gemm" in relations.table_of(generated)["ops"]:
        case = find(generated, "gemm", act="gelu")
        alpha, beta = case.call.attributes["alpha"], case.call.attributes["beta"]
        rest = f"precision={case.call.attributes['precision']}"
        gz = f"gelu_bwd(g_out, gemm(a, b, bias, c, alpha={alpha}, beta={beta}, {rest}))"
        f, found, kept = case.run((False, True, False, False))
        assert str(found[1]) == f"sum_to(gemm(t(a), {gz}, None, None, alpha={alpha}, {rest}), b)"
        assert kept == ("a", "b", "bias", "c")
        assert len(f.calls) == 3
        f, found, kept = find(generated, "gemm", act="none").run((False, False, True, True))
        assert kept == ()
        assert str(found[2]) == "sum_to(g_out, bias)"
        assert len(f.calls) == 1
        f, found, kept = find(generated, "gemm", act="relu").run((True, False, False, False))
        assert kept == ("b", "out")
        return
    d = "gated_bwd(g_out, kept, g_hn, b1, lr=<lr>)"
    case = find(generated, "gated")
    f, found, kept = case.run((False, False, False, True))
    assert [str(x) for x in found] == [
        "None",
        "None",
        "None",
        f"{d[:-1]}, want=(False, True, False))[1]",
    ]
    f, found, kept = case.run((True, True, False, False), (None, Thing("g_hn")))
    d = "gated_bwd(zeros(out), kept, g_hn, b1, lr=<lr>, want=(True, False, True))"
    assert [str(x) for x in found[:2]] == [f"mul({d}[0], t(h))", f"mul({d}[2], neg(g_hn))"]
    f, found, kept = case.run((False, True, False, False), (Thing("g_out"), None))
    d = "gated_bwd(g_out, kept, None, b1, lr=<lr>, want=(False, False, True))"
    assert str(found[1]) == f"mul({d}[2], neg(zeros(hn)))"
    case = find(generated, "cast")
    assert str(case.run((True,))[1][0]) == "cast(g_out, dtype=f64)"
    case = find(generated, "permute")
    perm = [p % len(case.call.shapes[0]) for p in case.call.attributes["perm"]]
    back = tuple(perm.index(i) for i in range(len(perm)))
    assert str(case.run((True,))[1][0]) == f"permute(g_out, perm={back})"
    case = find(generated, "conv")
    assert case.run((True, True, True))[1][0].text.startswith("conv_dx(g_out, w, H=")


# ---- how they look ------------------------------------------------------------------------------


@pytest.mark.promise("GRADIENTS-style")
def test_text_is_as_people_write_it(generated: Path, tmp_path: Path) -> None:
    """As the formatter lays it out, and nothing that linter or type checker complains of but what
    the row says itself: names of one letter, the order of a comparison, a long doc."""
    tools = Path(sys.executable).parent
    if not (tools / "ruff").exists() or not (tools / "mypy").exists():
        pytest.skip("ruff and mypy are not installed")
    package = tmp_path / "typed"
    package.mkdir()
    for name in ("_relations.py", "_gradients.py"):
        (path,) = generated.glob(f"python/*/{name}")
        (package / name).write_text(path.read_text())
    said = run(tools / "ruff", "check", "--config", ROOT / "pyproject.toml", "--ignore",
               "E741,SIM300,SIM108", package)  # fmt: skip
    assert said.returncode == 0, said.stdout
    said = run(tools / "ruff", "format", "--diff", "--config", ROOT / "pyproject.toml", package)
    assert said.returncode == 0, said.stdout
    said = run(tools / "mypy", "--strict", "--config-file", os.devnull, "--cache-dir",
               tmp_path / "cache", "_relations.py", "_gradients.py", cwd=package)  # fmt: skip
    assert said.returncode == 0, said.stdout


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = ROOT / "runtime" / "python"
    environment = {**os.environ, "MYPYPATH": str(path)}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
