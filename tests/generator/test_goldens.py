"""What opgen writes from two small tables, byte for byte, and that it reads as written by hand.

`python tests/generator/test_goldens.py --update` writes golden/ anew; look at the difference.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from generator.program import ROOT, Opgen, build
from generator.tables import compile_c, create_module, files, generate

HERE = Path(__file__).resolve().parent
GOLDEN = HERE / "golden"
TABLES = ("small", "rich")


@pytest.fixture(scope="module", params=TABLES)
def generated(
    request: pytest.FixtureRequest, opgen: Opgen, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A fresh output of one of the tables, in a folder of the table's name."""
    out = tmp_path_factory.mktemp("golden") / str(request.param)
    generate(opgen, GOLDEN / f"{request.param}.yaml", out)
    return out


def test_output_is_golden(generated: Path) -> None:
    found, right = files(generated), files(GOLDEN / generated.name)
    assert sorted(found) == sorted(right)
    for name, content in right.items():
        assert found[name].decode() == content.decode(), name


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launch header of a third backend, as its author would write it."""
    folder = tmp_path_factory.mktemp("toy")
    header = folder / "aicf" / "backend" / "toy.h"
    header.parent.mkdir(parents=True)
    header.write_text("#include <aicf/backend.h>\nextern const aicf_backend aicf_backend_toy;\n")
    return folder


def test_c_compiles_without_a_warning(generated: Path, toy: Path) -> None:
    sources = sorted([*generated.glob("ops/*.c"), *generated.glob("modules/*.c")])
    assert sources
    for source in sources:
        compile_c(source, generated, "-I", toy, "-fsyntax-only")


def test_headers_are_c_plus_plus_too(generated: Path, tmp_path: Path) -> None:
    """Kernels of CUDA include them. Two op's headers go together."""
    source = tmp_path / "all.cpp"
    headers = sorted(generated.glob("include/aicf_ops/*.h"))
    source.write_text("".join(f'#include "aicf_ops/{h.name}"\n' for h in headers))
    command: list[str | Path] = [
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
    ]
    include: list[str | Path] = ["-I", generated / "include", "-I", ROOT / "include"]
    said = subprocess.run([*command, *include, source], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_c_is_formatted(generated: Path) -> None:
    tool = shutil.which("clang-format", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert tool, "clang-format is one of the tools that CI has"
    sources = [p for p in sorted(generated.rglob("*.[ch]"))]
    command: list[str | Path] = [
        tool,
        f"--style=file:{ROOT / '.clang-format'}",
        "--dry-run",
        "-Werror",
        *sources,
    ]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr[:4000]


def test_doc_text_is_in_no_launcher_header(generated: Path) -> None:
    docs = [row["row"]["doc"] for row in table_of(generated)["ops"].values()]
    text = "".join(p.read_text() for p in generated.glob("include/aicf_ops/*.h"))
    assert docs
    assert not any(doc in text for doc in docs)


def table_of(generated: Path) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    (path,) = generated.glob("python/*/_table.json")
    table: dict[str, dict[str, dict[str, dict[str, str]]]] = json.loads(path.read_text())
    return table


def expressions_of(value: object) -> list[str]:
    """Every text under a key `python`, `flops`, `bytes` or a dim's `value`."""
    if isinstance(value, list):
        return [text for part in value for text in expressions_of(part)]
    if not isinstance(value, dict):
        return []
    found = [text for part in value.values() for text in expressions_of(part)]
    keys = ("python", "flops", "bytes", "value")
    return found + [v for k, v in value.items() if k in keys and isinstance(v, str)]


def test_capabilities(generated: Path) -> None:
    table = table_of(generated)
    header = (generated / "ops").glob("*_op.c")
    for path in header:
        text = path.read_text()
        name = path.name.removesuffix("_op.c")
        op = table["ops"][name]
        assert f'.hash = "{op["hash"]}"' in text
        assert op["row"]["op"] == name
        assert op["kernels"]
        for kernel in op["kernels"]:
            assert set(kernel["variants"]) <= set(op["variants"]), kernel  # type: ignore[index]
    parts = {name: {k: v for k, v in op.items() if k != "row"} for name, op in table["ops"].items()}
    expressions = expressions_of(parts)
    assert expressions
    for text in expressions:
        ast.parse(text, mode="eval")


def test_stubs_and_package_parse(generated: Path) -> None:
    for path in [*generated.rglob("*.py"), *generated.rglob("*.pyi")]:
        ast.parse(path.read_text(), path.name)
        assert not any(line.rstrip() != line for line in path.read_text().splitlines()), path


def test_package_is_lazy(generated: Path, tmp_path: Path) -> None:
    """Importing the package imports no op; an op is a submodule, found when asked for."""
    package = generated.name
    copy = tmp_path / package
    shutil.copytree(generated / "python" / package, copy)
    (copy / "add.py").write_text("def add(): return 'added'\n")
    (tmp_path / "aicf_rt.py").write_text("Call = CudaError = Tensor = Unsupported = run = None\n")
    ops = list(table_of(generated)["ops"])
    code = f"""
import sys, {package}
assert not [m for m in sys.modules if m.startswith("{package}.")], sys.modules
assert "json" not in sys.modules
assert set({package}.__dir__()) == {{*{ops!r}, "Call", "CudaError", "Tensor", "Unsupported", "run"}}
for name in {ops!r}:
    try:
        getattr({package}, name)
    except ModuleNotFoundError as error:
        assert error.name == "{package}." + name
        assert name != "add"
try:
    {package}.nothing
except AttributeError as error:
    assert str(error) == "module '{package}' has no attribute 'nothing'"
else:
    raise AssertionError
from {package} import _table
assert list(_table.load()["ops"]) == {ops!r}
assert _table.load()["hash"] == {package}.__table_hash__
if "add" in {ops!r}:
    assert {package}.add.add() == "added"
"""
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr


USER = """\
import array
from typing import assert_type

import numpy as np
import numpy.typing as npt

import aicf_rt
import rich

Array = npt.NDArray[np.float32]


def use(x: Array, y: Array, raw: array.array[float], own: aicf_rt.Tensor) -> None:
    assert_type(rich.exp.exp(x), Array)
    assert_type(rich.exp.exp(x, out=y, stream=7), Array)
    assert_type(rich.exp.exp(own), aicf_rt.Tensor)
    assert_type(rich.exp.exp(raw), array.array[float])
    assert_type(rich.exp.exp_f32(x, y), bool)
    assert_type(rich.exp.bind(x, y, kernel="vec"), aicf_rt.Call)
    assert_type(rich.affine.affine(x, H=1, lr=0.5), Array)
    assert_type(rich.affine.affine(x, y, H=1, lr=own, act="relu", pad=(1, 2)), Array)
    both = rich.affine.affine(x, H=1, lr=0.5, mean=True)
    assert_type(both.out, Array)
    assert_type(both.mean, Array | None)
    out, mean, index = rich.affine.affine(x, H=1, lr=0.5, mean=y, where_most=True)
    assert_type(index, Array | None)
    assert_type(rich.affine.affine_f32(x, None, y, H=1, lr=0.5), bool)
    assert_type(rich.affine.affine_f16(x, y, y, y, None, H=1, lr=0.5, axes=None), bool)
    assert_type(rich.join.join([x, y], axis=-1), Array)
    assert_type(rich.join.join_f32([x, raw], y), bool)
    rich.update.update([x], [y], lr=0.1)
    assert_type(rich.cast.cast(x, dtype="f16"), Array)
    assert_type(rich.fold.fold(x).sum, Array | None)
    assert_type(rich.fold.explain(x), list[str])
    aicf_rt.run([rich.exp.bind(x, y)])
    rich.run([rich.exp.bind(x, y)])
    try:
        rich.exp.exp(x)
    except rich.Unsupported:
        pass
"""

# What a stub must refuse, one a line.
WRONG = """\
import numpy as np
import numpy.typing as npt
import rich
x: npt.NDArray[np.float32]
rich.exp.exp("text")
rich.exp.exp(x, 1)
rich.exp.exp_f32(x)
rich.exp.exp(x, kernel="nothing")
rich.affine.affine(x, H=1)
rich.affine.affine(x, H=1, lr=0.5, act="tanh")
rich.affine.affine(x, H=1.5, lr=0.5)
rich.join.join(x)
rich.nothing
"""


@pytest.mark.promise("D1")
def test_stubs_type_a_users_script(opgen: Opgen, tmp_path: Path) -> None:
    generate(opgen, GOLDEN / "rich.yaml", tmp_path / "generated")
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(WRONG)
    paths = f"{tmp_path / 'generated' / 'python'}:{ROOT / 'runtime' / 'python'}"
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir",
        tmp_path / "cache",
    ]
    said = subprocess.run(
        [*command, "--config-file", os.devnull, "user.py"],
        env={**os.environ, "MYPYPATH": paths}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout
    said = subprocess.run(
        [*command, "--config-file", os.devnull, "wrong.py"],
        env={**os.environ, "MYPYPATH": paths}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    flagged = {int(line.split(":")[1]) for line in said.stdout.splitlines() if ": error:" in line}
    assert flagged == set(range(5, len(WRONG.splitlines()) + 1)), said.stdout


def signature_of(function: ast.FunctionDef) -> list[tuple[str, str, object]]:
    """Name, kind and default of each parameter of a stub."""
    positional, named = function.args.args, function.args.kwonlyargs
    missing: list[ast.expr | None] = [None] * (len(positional) - len(function.args.defaults))
    defaults = [*missing, *function.args.defaults, *function.args.kw_defaults]
    kinds = ["POSITIONAL_OR_KEYWORD"] * len(positional) + ["KEYWORD_ONLY"] * len(named)
    return [
        (arg.arg, kind, inspect.Parameter.empty if value is None else ast.literal_eval(value))
        for arg, kind, value in zip([*positional, *named], kinds, defaults, strict=True)
    ]


@pytest.mark.promise("D1")
def test_signatures_of_modules_are_those_of_the_stubs(
    generated: Path, toy: Path, tmp_path: Path
) -> None:
    """For every function of every op: what `inspect` says is what the stub says."""
    for stub in sorted(generated.glob("python/*/[a-z]*.pyi")):
        module = create_module(generated, stub.stem, tmp_path, toy)
        # Of overloads the last one has every parameter with its default.
        last: dict[str, ast.FunctionDef] = {}
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                last[node.name] = node
            elif isinstance(node, ast.Assign):  # the same for another dtype
                last[ast.unparse(node.targets[0])] = last[ast.unparse(node.value)]
        assert {n for n, f in vars(module).items() if inspect.isbuiltin(f)} == set(last)
        for name, function in last.items():
            found = inspect.signature(getattr(module, name)).parameters.values()
            assert sorted((p.name, p.kind.name, p.default) for p in found) == sorted(
                signature_of(function)
            ), f"{stub.stem}.{name}"
            assert getattr(module, name).__doc__


DEFAULTS_C = """
#include <stdio.h>
#include "aicf_ops/affine.h"

int
main(void)
{
    rh_affine_call call = {0};
    rh_affine_op.defaults(&call._head);
    printf("axes=%lld axis=%lld pad=%lld,%lld act=%s alpha=%a deep=%d step=%lld",
        (long long)call.axes.count, (long long)call.axis, (long long)call.pad[0],
        (long long)call.pad[1], rh_affine_op.attrs[3].values[call.act], call.alpha, call.deep,
        (long long)call.step.host.integer);
    for (int i = 0; i < rh_affine_op.attr_count; i++) {
        if (rh_affine_op.attrs[i].required) {
            printf(" %s", rh_affine_op.attrs[i].name);
        }
    }
    return 0;
}
"""


@pytest.mark.promise("D2")
def test_defaults_shown_are_defaults_used(opgen: Opgen, toy: Path, tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    generate(opgen, GOLDEN / "rich.yaml", generated)
    source = tmp_path / "defaults.c"
    source.write_text(DEFAULTS_C)
    op = generated / "ops" / "affine_op.c"
    command = ["gcc", "-std=c11", "-Wall", "-I", generated / "include", "-I", ROOT / "include"]
    more = ["-I", toy, "-Wl,--unresolved-symbols=ignore-all", "-no-pie", "-o", tmp_path / "d"]
    subprocess.run([*map(str, [*command, source, op, *more])], check=True)
    said = subprocess.run([tmp_path / "d"], capture_output=True, text=True, check=True).stdout
    assert said == (
        "axes=-1 axis=-1 pad=0,1 act=none alpha=0x1p+0 deep=1 step=1 H lr"
    )  # as in the stub:
    stub = (generated / "python/rich/affine.pyi").read_text()
    for text in (
        "axes: int | Sequence[int] | None = None,", "axis: int = -1,",
        "pad: int | Sequence[int] = (0, 1),", "= 'none',", "alpha: float = 1.0,",
        "deep: bool = True,", "H: int,", "lr: float | TensorLike,", "step: int | TensorLike = 1,",
    ):  # fmt: skip
        assert text in stub, text


def update() -> None:
    """Writes golden/ anew."""
    with tempfile.TemporaryDirectory() as folder:
        program = Opgen(build(Path(folder)))
        for name in TABLES:
            shutil.rmtree(GOLDEN / name, ignore_errors=True)
            generate(program, GOLDEN / f"{name}.yaml", GOLDEN / name)
            (GOLDEN / name / ".opgen").unlink()


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(__doc__)
    update()
