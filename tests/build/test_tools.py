"""The tools beside the build: new-op, promises, and what the tests refuse in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checkout import ROOT, Checkout

TESTS = """
import pytest

@pytest.mark.promise("X1")
def test_one(): pass

@pytest.mark.promise("X1", "X2")
@pytest.mark.{marker}
def test_two(): pass
"""


@pytest.mark.promise("DESIGN-6-new-op")
def test_new_op_builds_and_runs(tree: Checkout) -> None:
    made = tree.make("new-op", "OP=soft_clip")
    assert made.out.startswith("  ops.yaml\n  kernels/soft_clip/soft_clip.c\n")
    tree.make("-j2")
    assert tree.call("soft_clip", 3.0) == [3.0]
    assert tree.call("add", 1.0, 2.0) == [3.0]
    assert tree.fresh()


@pytest.mark.promise("DESIGN-6-new-op")
@pytest.mark.guests("nvcc")
def test_new_op_compiles_for_cuda(tree: Checkout) -> None:
    tree.make("new-op", "OP=soft_clip")
    made = tree.make("CUDA=1", "CUDA_ARCHS=90", "OPS=soft_clip", "kernels")
    assert made.verbs("NVCC") == ["kernels/soft_clip/soft_clip.cu"]


@pytest.mark.promise("DESIGN-6-new-op")
@pytest.mark.parametrize(
    "op, said",
    [
        ("", "is no name for an op"),
        ("Clip", "is no name for an op"),
        ("a__b", "is no name for an op"),
        ("add", "ops.yaml has add already"),
        ("twice", "ops.yaml has twice already"),
        ("common/x", "is no name for an op"),
    ],
)
def test_new_op_overwrites_nothing(tree: Checkout, op: str, said: str) -> None:
    before = tree.times(".")
    assert said in tree.make("new-op", f"OP={op}", fails=True).err
    assert tree.times(".") == before


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


def run(folder: Path, *command: str, ci: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "CI"))}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment | ({"CI": "true"} if ci else {}),
        capture_output=True,
        text=True,
        check=False,
    )


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


@pytest.mark.parametrize(
    "module, verdict, said", [("tvm_ffi", 0, "1 skipped"), ("no_such_module", 1, "1 error")]
)
def test_a_file_that_imports_an_absent_guest_is_skipped(
    tmp_path: Path, module: str, verdict: int, said: str
) -> None:
    folder = project(tmp_path / "p", "gpu", "")
    (folder / "tests/test_y.py").write_text(f"import {module}.more\n", encoding="utf-8")
    tested = run(folder, "-m", "pytest", "-k", "test_one", ci=True)
    assert (tested.returncode != 0) == verdict, tested.stdout
    assert said in tested.stdout


def test_guests_and_gpus_are_reported(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "gpu", "")
    said = run(folder, "-m", "pytest").stdout
    assert "guests met: " in said
    assert "GPUs: " in said
