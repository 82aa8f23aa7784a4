"""The examples train their networks as torch does, and draw their losses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.conftest import BUILT, ROOT

NAMES = ("xor", "breast_cancer", "digits")


def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py", *options],
        env={**os.environ, "PYTHONPATH": str(BUILT)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.promise("MARK-8-examples")
@pytest.mark.guests("torch", "sklearn", "matplotlib")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_learns_what_torch_learns(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "losses.png"
    done = run(name, "--plot", str(picture))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no step saw" in done.stdout
    assert "losses differ by at most" in done.stdout
    assert picture.stat().st_size > 10_000


@pytest.mark.promise("MARK-8-examples")
@pytest.mark.gpu
@pytest.mark.guests("torch", "sklearn")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_learns_on_a_gpu(name: str) -> None:
    done = run(name, "--backend", "cuda")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on cuda" in done.stdout


@pytest.mark.promise("AICF-quantise-accuracy")
@pytest.mark.guests("sklearn")
def test_an_example_goes_to_integers() -> None:
    done = run("quantised")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in integers" in done.stdout
    assert "kept in floats" not in done.stdout


@pytest.mark.promise("AICF-quantise-accuracy")
@pytest.mark.gpu
@pytest.mark.guests("sklearn")
def test_an_example_goes_to_integers_on_a_gpu() -> None:
    done = run("quantised", "--backend", "cuda")
    assert done.returncode == 0, done.stdout + done.stderr
