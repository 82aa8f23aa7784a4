"""The tools beside the build: new-op, promises, and what the tests refuse in CI."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from checkout import OPS, ROOT, Checkout

TESTS = """
import pytest

@pytest.mark.promise("X1")
def test_one(): pass

@pytest.mark.promise("X1", "X2")
@pytest.mark.{marker}
def test_two(): pass
"""


def first_test(tree: Checkout, op: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the first test of an op in the checkout, which gets what all tests of kernels share, as
    on a machine without torch."""
    for shared in ("conftest.py", "kernels/conftest.py", "kernels/ran.py", "kernels/tolerance.py"):
        shutil.copy(ROOT / "tests" / shared, tree.root / "tests" / shared)
    shutil.copy(ROOT / "pyproject.toml", tree.root)
    absent = tree.root / "absent"
    absent.mkdir(exist_ok=True)
    (absent / "torch.py").write_text("raise ModuleNotFoundError(name='torch')\n", encoding="utf-8")
    asked = ["-m", "pytest", f"tests/kernels/test_{op}.py", "-rfs", *options]
    return run(tree.root, *asked, ci=True, PYTHONPATH=str(absent))


@pytest.mark.promise("DESIGN-6-new-op")
def test_new_op_builds_and_passes_its_first_test(tree: Checkout) -> None:
    made = tree.make("new-op", "OP=soft_clip")
    written = ["kernels/soft_clip/soft_clip.cu", "kernels/soft_clip/soft_clip.c"]
    written += ["tests/rows/soft_clip.py", "tests/kernels/test_soft_clip.py"]
    assert made.out.splitlines()[:5] == [f"  {path}" for path in ("ops.yaml", *written)]
    tree.make("-j2")
    assert tree.call("soft_clip", 3.0) == [3.0]
    assert tree.call("add", 1.0, 2.0) == [3.0]
    assert tree.fresh()
    tested = first_test(tree, "soft_clip", "-k", "cpu")
    assert tested.returncode == 0, tested.stdout
    assert "skip" not in tested.stdout.lower()


@pytest.mark.promise("DESIGN-6-new-op")
@pytest.mark.parametrize(
    "old, new", [("out[i] = x[i];", "out[i] = 2 * x[i];"), ("i < A; i++", "i + 1 < A; i++")]
)
def test_the_first_test_sees_a_wrong_kernel(tree: Checkout, old: str, new: str) -> None:
    tree.make("new-op", "OP=soft_clip")
    tree.edit("kernels/soft_clip/soft_clip.c", old, new)
    tree.make("-j2", "OPS=soft_clip")
    tested = first_test(tree, "soft_clip", "-k", "cpu")
    assert tested.returncode == 1, tested.stdout
    assert "FAILED tests/kernels/test_soft_clip.py::test_it_computes" in tested.stdout


@pytest.mark.promise("DESIGN-6-new-op")
@pytest.mark.guests("nvcc")
def test_new_op_compiles_for_cuda(tree: Checkout) -> None:
    tree.make("new-op", "OP=soft_clip")
    made = tree.make("CUDA=1", "CUDA_ARCHS=90", "OPS=soft_clip", "kernels")
    assert made.verbs("NVCC") == ["kernels/soft_clip/soft_clip.cu"]


@pytest.mark.promise("DESIGN-6-new-op")
@pytest.mark.parametrize("op", ["x", "soft_clip", "a_name_of_just_forty_characters_in_lengt"])
def test_what_new_op_writes_is_laid_out_as_check_wants_it(tree: Checkout, op: str) -> None:
    tree.make("new-op", f"OP={op}")
    for path in (".clang-format", "pyproject.toml", "tests/kernels/tolerance.py"):
        shutil.copy(ROOT / path, tree.root / path)
    clang_format, ruff = (str(Path(sys.executable).parent / t) for t in ("clang-format", "ruff"))
    tests = [f"tests/rows/{op}.py", f"tests/kernels/test_{op}.py"]
    for command in (
        [clang_format, "--dry-run", "--Werror", f"kernels/{op}/{op}.c"],
        [ruff, "format", "--check", *tests],
        [ruff, "check", *tests],
    ):
        looked = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)
        assert looked.returncode == 0, looked.stdout + looked.stderr


@pytest.mark.promise("DESIGN-6-new-op")
@pytest.mark.parametrize(
    "op, said",
    [
        ("", "is no name for an op"),
        ("Clip", "is no name for an op"),
        ("a__b", "is no name for an op"),
        ("common/x", "is no name for an op"),
        ("a b", '"a b" is no name for an op'),
        ("it's", "is no name for an op"),
        ("--help", "is no name for an op"),
        ("a" * 41, "has 41 letters"),
        ("lambda", "`lambda` is a keyword of Python"),
        ("double", "`double` is a keyword of C"),
        ("add", "ops.yaml has add already"),
        ("twice", "ops.yaml has twice already"),
    ],
)
def test_new_op_refuses_names(tree: Checkout, op: str, said: str) -> None:
    before = tree.times(".")
    assert said in tree.make("new-op", f"OP={op}", fails=True).err
    assert tree.times(".") == before


@pytest.mark.promise("DESIGN-6-new-op")
@pytest.mark.parametrize(
    "path",
    [
        "kernels/clip/clip.c",
        "tests/kernels/test_clip.py",
        "tests/rows/clip.py",
        "kernels/clip",
        "tests/kernels",
    ],
)
def test_new_op_overwrites_nothing(tree: Checkout, path: str) -> None:
    """Also where the last of its files cannot be written: then the others are not there either."""
    (tree.root / path).parent.mkdir(parents=True, exist_ok=True)
    (tree.root / path).write_text("mine", encoding="utf-8")
    before = tree.times(".")
    error = tree.make("new-op", "OP=clip", fails=True).err
    assert f"error: {path}" in error
    assert tree.times(".") == before
    assert not list(tree.root.glob("kernels/clip/*.cu"))


def table(tree: Checkout) -> str:
    return (tree.root / "ops.yaml").read_text(encoding="utf-8")


LAYOUTS: dict[str, Callable[[str, str], str]] = {
    "no end of line": lambda head, ops: head + "ops:\n" + ops.rstrip(),
    "a key behind": lambda head, ops: f"ops:\n{ops.rstrip()}\n\n# Behind.\n{head}",
    "no indentation": lambda head, ops: head + "ops:\n" + re.sub("(?m)^  ", "", ops),
    "more indentation": lambda head, ops: head + "ops:\n" + re.sub("(?m)^(?=.)", "   ", ops),
    "CRLF": lambda head, ops: f"{head}ops:\n{ops}".replace("\n", "\r\n"),
    "a comment behind": lambda head, ops: f"{head}ops:\n{ops}\n\n# The end.\n  # Really.\n",
    "an end of document": lambda head, ops: f"{head}ops:\n{ops}...\n",
    "one backend": lambda head, ops: re.sub(
        r"(?m)^(  cuda: |.*backend: cuda).*\n", "", f"{head}ops:\n{ops}"
    ),
}


@pytest.mark.promise("DESIGN-6-new-op")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_new_op_finds_its_place_in_a_table(tree: Checkout, layout: str) -> None:
    head, ops = table(tree).split("ops:\n", 1)
    text = LAYOUTS[layout](head, ops)
    (tree.root / "ops.yaml").write_bytes(text.encode())
    tree.make("new-op", "OP=clip")
    listed = subprocess.run(
        ["build/opgen", "--list", "ops.yaml"],
        cwd=tree.root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    kernels = 1 if layout == "one backend" else 2
    assert listed[-1] == f"clip(x) -> out  [1 dtypes, {kernels} kernels]"
    assert len(listed) == len(OPS) + 1
    assert len(list(tree.root.glob("kernels/clip/*"))) == kernels
    after = (tree.root / "ops.yaml").read_bytes().decode()
    kept = [line for line in text.splitlines() if line.strip()]
    there = iter(after.splitlines())
    assert all(line in there for line in kept), "a line of the table went or moved"
    assert after.count("\r\n") == (after.count("\n") if layout == "CRLF" else 0)


@pytest.mark.promise("DESIGN-6-new-op")
@pytest.mark.parametrize(
    "old, new, said",
    [
        ("layout: flat, arch", "layout: falt, arch", "did you mean `flat`?"),
        ("ops:\n", "ops: [\n", "ops.yaml has faults, which come first"),
    ],
)
def test_new_op_leaves_a_faulty_table_alone(tree: Checkout, old: str, new: str, said: str) -> None:
    text = table(tree)
    (tree.root / "ops.yaml").write_text(text.replace(f"\n{old}", f"\n{new}").replace(old, new))
    before = tree.times(".")
    assert said in tree.make("new-op", "OP=clip", fails=True).err
    assert tree.times(".") == before


def test_new_op_says_where_a_row_cannot_be_added(tree: Checkout) -> None:
    head = table(tree).split("ops:\n", 1)[0]
    row = "{op: c, doc: x., types: {T: [f32]}, args: [{name: x, tensor: T, shape: A..}], "
    row += "outs: [{name: out, tensor: T, shape: A..}], kernels: [{id: loop, backend: cpu}]}"
    (tree.root / "ops.yaml").write_text(f"{head}ops: [{row}]\n", encoding="utf-8")
    before = tree.times(".")
    assert "no line `- op: NAME`" in tree.make("new-op", "OP=clip", fails=True).err
    assert tree.times(".") == before


@pytest.mark.promise("DESIGN-6-light")
def test_the_table_is_checked_by_opgen_alone(tree: Checkout) -> None:
    bare = tree.sources(tree.root.parent / "bare")
    made = bare.make("check-table", "-j2")
    assert {step.split("/")[0] for step in made.steps} == {"CC generator", "LINK build"}
    assert "ops.yaml: no faults, 5 ops" in made.out
    assert not (bare.root / "generated").exists()
    bare.edit("ops.yaml", "layout: flat, arch", "layout: falt, arch")
    made = bare.make("check-table", fails=True)
    assert "did you mean `flat`?" in made.err
    assert made.steps == []
    assert not (bare.root / "generated").exists()


def project(folder: Path, marker: str, promises: str) -> Path:
    """A folder with our conftest and tools, a list of promises and two tests."""
    (folder / "tests").mkdir(parents=True)
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tests/conftest.py", folder / "tests")
    shutil.copy(ROOT / "tools/promises.py", folder / "tools")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests/promises.toml").write_text(promises, encoding="utf-8")
    (folder / "tests/test_x.py").write_text(TESTS.replace("{marker}", marker), encoding="utf-8")
    return folder


def run(
    folder: Path, *command: str, ci: bool = False, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "CI"))}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment | ({"CI": "true"} if ci else {}) | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def absent_guest() -> str:
    """A guest that this machine does not have."""
    for name in ("cupy", "jax", "numba", "torch", "tvm_ffi"):
        if importlib.util.find_spec(name) is None:
            return name
    pytest.skip("all guests are installed: none is absent")


@pytest.mark.promise("DESIGN-8-promises")
def test_promises_lists_tests_and_their_last_result(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "gpu", '[a]\nX1 = "one"\nX2 = "two"\n')
    said = run(folder, "tools/promises.py")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "2 not run" in said.stdout
    run(folder, "-m", "pytest", "-k", "test_one")
    said = run(folder, "tools/promises.py")
    assert "1 not run, 1 passed" in said.stdout
    assert "    tests/test_x.py::test_one" in said.stdout
    assert "2 of 2 promises have tests" in said.stdout


@pytest.mark.promise("DESIGN-8-promises")
def test_an_id_without_a_test_or_off_the_list_fails(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "gpu", '[a]\nX1 = "one"\nX3 = "three"\n')
    said = run(folder, "tools/promises.py")
    assert said.returncode == 1
    assert "error: X3 has no test: three" in said.stderr
    assert "error: X2 is not in tests/promises.toml" in said.stderr


@pytest.mark.promise("DESIGN-8-promises")
def test_an_id_whose_tests_want_an_absent_guest_is_said(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "gpu", '[a]\nX1 = "one"\nX2 = "two"\nX3 = "three"\n')
    text = f"import {absent_guest()}.more\nimport pytest\n"
    text += 'pytestmark = pytest.mark.promise("X2", "X3")\n'
    (folder / "tests/test_y.py").write_text(text, encoding="utf-8")
    said = run(folder, "tools/promises.py")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "3 of 3 promises have tests; not run for want of guests: X3\n" in said.stdout
    assert (
        "not run: its tests want a guest that is not installed\n    tests/test_y.py\n"
        in said.stdout
    )
    said = run(folder, "tools/promises.py", ci=True)
    assert said.returncode == 1
    assert said.stderr == "error: X3 is not tested here: tests/test_y.py\n"
    (folder / "tests/test_y.py").unlink()
    said = run(folder, "tools/promises.py")
    assert (said.returncode, said.stderr) == (1, "error: X3 has no test: three\n")


@pytest.mark.promise("DESIGN-8-promises")
@pytest.mark.parametrize(
    "marker, verdict",
    [
        ('skip(reason="no mood")', 1),
        ('skip(reason="guest no_such is not installed")', 1),
        ('skip(reason="guest pytest is not installed")', 1),
        ("gpu", 0),
        ('guests("cupy")', 0),
    ],
)
def test_a_skip_in_ci_fails_unless_it_says_what_is_missing(
    tmp_path: Path, marker: str, verdict: int
) -> None:
    folder = project(tmp_path / "p", marker, "")
    assert run(folder, "-m", "pytest").returncode == 0
    said = run(folder, "-m", "pytest", ci=True)
    assert said.returncode == verdict, said.stdout


@pytest.mark.parametrize("module, verdict, said", [("", 0, "1 skipped"), ("no_such", 1, "1 error")])
def test_a_file_that_imports_an_absent_guest_is_skipped(
    tmp_path: Path, module: str, verdict: int, said: str
) -> None:
    folder = project(tmp_path / "p", "gpu", "")
    text = f"import {module or absent_guest()}.more\n"
    (folder / "tests/test_y.py").write_text(text, encoding="utf-8")
    tested = run(folder, "-m", "pytest", "-k", "test_one", ci=True)
    assert (tested.returncode != 0) == verdict, tested.stdout
    assert said in tested.stdout


def test_guests_and_gpus_are_reported(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "gpu", "")
    said = run(folder, "-m", "pytest").stdout
    assert "guests met: " in said
    assert "GPUs: " in said
