"""`make wheel`: what was built, installed by pip elsewhere, runs there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools import wheel

from checkout import ROOT

CALL = """
import numpy as np, aicf, aicf_cuda, aicf_rt
out = np.empty(3, "f4")
assert aicf_cuda.add.add_f32(np.ones(3, "f4"), np.ones(3, "f4"), out) is True and out[0] == 2
print(aicf.__file__, aicf_cuda.__file__, aicf_rt.__file__, sep="\\n")
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a build of one op leaves: all of them take a second to pack."""
    folder = tmp_path_factory.mktemp("built") / "python"
    others = shutil.ignore_patterns("[b-z]*.abi3.so", "a[e-z]*.abi3.so", "__pycache__")
    for package in ("aicf", "aicf_rt", "aicf_cuda"):
        ignored = others if package == "aicf_cuda" else shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(os.environ["PYTHONPATH"]) / package, folder / package, ignore=ignored)
    return folder


@pytest.mark.promise("DESIGN-6-wheel")
def test_it_installs_and_runs_elsewhere(packages: Path, tmp_path: Path) -> None:
    made = wheel.pack(packages, tmp_path / "dist")
    assert made.name.startswith("aicf-")
    assert "-cp311-abi3-linux_" in made.name
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), str(made)], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", CALL],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(Path(line).is_relative_to(target) for line in done.stdout.split())
    command = target / "bin" / "aicf"
    assert "aicf.__main__" in command.read_text(encoding="utf-8")
    assert (
        next(target.glob("*.dist-info/METADATA"))
        .read_text()
        .count(f"\nVersion: {wheel.version()}\n")
        == 1
    )


@pytest.mark.promise("DESIGN-6-wheel")
def test_it_is_the_same_bytes_each_time(packages: Path, tmp_path: Path) -> None:
    one, two = (wheel.pack(packages, tmp_path / name) for name in ("one", "two"))
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.promise("DESIGN-6-wheel")
def test_modules_of_one_python_are_for_it_alone(tmp_path: Path) -> None:
    core = tmp_path / "aicf_rt" / "_core.cpython-313t-x86_64-linux-gnu.so"
    core.parent.mkdir()
    core.touch()
    assert wheel.tag(tmp_path) == ("cp313-cp313t-linux_x86_64", "==3.13.*")


@pytest.mark.promise("DESIGN-6-wheel")
def test_nothing_built_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "wheel.py")],
        env={**os.environ, "B": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path}/python has no packages: make builds them\n"
