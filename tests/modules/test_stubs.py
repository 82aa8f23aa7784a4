"""What tools see: signatures, stubs and the table say the same of every op, and a strict checker
takes a user's script."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pydoc
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from modules.conftest import BUILT

Said = list[tuple[str, str, str]]  # name, kind, default as Python prints it


def signature_of(function: Any) -> Said:
    return [
        (
            p.name,
            "keyword" if p.kind is p.KEYWORD_ONLY else "either",
            "" if p.default is p.empty else repr(p.default),
        )
        for p in inspect.signature(function).parameters.values()
    ]


def default_of(node: ast.expr | None) -> str:
    return "" if node is None else repr(ast.literal_eval(node))


def stub_of(node: ast.FunctionDef) -> Said:
    positional = node.args.args
    left_out: list[ast.expr | None] = [None] * (len(positional) - len(node.args.defaults))
    defaults = left_out + list(node.args.defaults)
    said = [(a.arg, "either", default_of(d)) for a, d in zip(positional, defaults, strict=True)]
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return said + [(a.arg, "keyword", default_of(d)) for a, d in keywords]


def stubs_of(module: ModuleType) -> dict[str, Said]:
    """Of each function in the stub beside the module; `add_f16 = add_f32` says the same of it. Of
    overloads the last counts: it takes all that the others take."""
    package = Path(str(module.__file__)).parent
    found: dict[str, Said] = {}
    name = module.__name__.rpartition(".")[2]
    for node in ast.parse((package / f"{name}.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = stub_of(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:
                assert isinstance(target, ast.Name)
                found[target.id] = found[node.value.id]
    return found


def functions_of(module: ModuleType) -> dict[str, Any]:
    members = vars(module).items()
    return {n: f for n, f in members if inspect.isbuiltin(f) and not n.startswith("_")}


def ops_of(package: ModuleType) -> list[ModuleType]:
    return [importlib.import_module(f"{package.__name__}.{n}") for n in package.__ops__]


@pytest.mark.promise("D1", "D2")
@pytest.mark.parametrize("which", ["aicf_cuda", "zoo_ops"])
def test_signature_stub_and_table_agree(which: str, zoo: ModuleType) -> None:
    package = zoo if which == "zoo_ops" else importlib.import_module(which)
    for module in ops_of(package):
        stubs, functions = stubs_of(module), functions_of(module)
        assert stubs.keys() == functions.keys(), module
        for name, function in functions.items():
            assert signature_of(function) == stubs[name], (module, name)
            assert function.__name__ == name
            assert function.__module__ == module.__name__
            assert name in pydoc.plain(pydoc.render_doc(function))
        row = module.capability
        outs = [out["name"] for out in row["outs"]]
        for name in ("bind", row["op"]):
            names = {said[0] for said in stubs[name]}
            wanted = {arg["name"] for arg in row["args"]} | set(outs) | {"stream", "kernel"}
            wanted |= {"workspace"} if name == "bind" else set()
            assert names - {"dtype"} == wanted, (module, name)


@pytest.mark.promise("D1")
def test_the_runtime_agrees_with_its_stub(rt: ModuleType) -> None:
    core = sys.modules["aicf_rt._core"]
    tree = ast.parse((BUILT / "aicf_rt" / "_core.pyi").read_text())
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    for name, node in functions.items():
        said = stub_of(node)
        given = [(a.arg, "either", "") for a in node.args.posonlyargs]
        assert signature_of(getattr(core, name)) == given + said, name
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    for name, class_ in classes.items():
        for member in class_.body:
            if isinstance(member, ast.FunctionDef) and member.name != "__buffer__":
                assert hasattr(getattr(core, name), member.name), (name, member.name)


SCRIPT = """
import array
import aicf_cuda
import aicf_rt
from aicf_cuda import add, gemm, scale, sum

a, b, out = (array.array("f", [1, 2, 3, 4]) for _ in range(3))
ran: bool = add.add_f32(a, b, out)
call: aicf_rt.Call = add.bind(a, b, out, kernel="loop")
call()
call.set(a=b)
aicf_cuda.run([call])
lines = add.explain(a, b, out)
print(lines[0].upper())
x = aicf_rt.empty((2, 2), "f32")
made = gemm.gemm(x, x, act="relu")
shape: tuple[int, ...] = made.shape
total = sum.sum(x, axes=(0, 1), keepdim=True)
scaled: aicf_rt.Tensor = scale.scale(x, factor=2.0, out=made)
try:
    add.add(a, b)
except aicf_cuda.Unsupported as fault:
    print(fault.op, fault.arg)
"""

WRONG = {
    "add.add_f32(a, b)": "Missing positional argument",
    "add.add_f32(a, b, out, kernel='none')": "arg-type",
    "gemm.gemm(x, x, act='gelo')": "arg-type",
    "add.bind(a, b, out).sett(a=b)": "attr-defined",
    "sum.sum(x, keepdim='yes')": "arg-type",
}


@pytest.mark.promise("D1")
def test_a_strict_checker_takes_a_script(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "".join(f"{line}\n" for line in WRONG))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir"]
    done = subprocess.run(
        [*command, str(tmp_path / "cache"), str(script)],
        env={**os.environ, "MYPYPATH": str(BUILT)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if ": error:" in line]
    first = SCRIPT.count("\n") + 1
    for number, (line, words) in enumerate(WRONG.items(), first):
        assert any(f":{number}: " in s and words in s for s in said), (line, done.stdout)
    assert all(int(line.split(":")[1]) >= first for line in said), done.stdout
    environment = {**os.environ, "PYTHONPATH": str(BUILT)}
    script.write_text(SCRIPT)
    subprocess.run([sys.executable, str(script)], env=environment, check=True)
