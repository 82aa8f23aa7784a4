"""Tests of PACKAGE.jax on the CPU. The folder is not called jax: where that is not installed, a
folder of the name on the path would stand for it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"
HERE = Path(__file__).resolve().parent
if str(BUILT) not in sys.path:
    sys.path.insert(0, str(BUILT))


def built(table: Path, package: str, where: Path, *arguments: str) -> Any:
    """The package of a table that is not the main one."""
    shutil.copytree(table, where, dirs_exist_ok=True)
    command = ["make", "-j2", f"ROOT={ROOT}", f"BUILT={BUILT}", f"PYTHON={sys.executable}"]
    command += [f"OPGEN={os.environ.get('OPGEN', BUILT.parent / 'opgen')}", *arguments]
    command += [f"FROM={os.path.relpath(BUILT / 'aicf_rt', where / 'python' / package)}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(where / "python"))
    return importlib.import_module(f"{package}.jax")


@pytest.fixture(scope="session")
def ops() -> Any:
    """The ops of the main table, in jax."""
    return importlib.import_module("aicf_cuda.jax")


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Rows whose gradients take every way."""
    return built(HERE / "zoo", "jax_zoo", tmp_path_factory.mktemp("jax_zoo"))


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Rows with every kind of argument."""
    some = "OPS=every join step shift bounds parts fail"
    return built(ROOT / "tests/modules/zoo", "zoo_ops", tmp_path_factory.mktemp("zoo"), some)


@pytest.fixture
def x64() -> Callable[[], Any]:
    """Inside it, jax has dtypes of 64 bits."""

    @contextmanager
    def switched() -> Iterator[None]:
        jax = importlib.import_module("jax")
        enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
        with enable(True):
            yield

    return switched


@pytest.fixture(scope="session")
def alone() -> Callable[..., str]:
    """Runs code in a process of its own; what it printed. Environment variables by keyword."""

    def run(code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", code],
            env={**os.environ, "PYTHONPATH": str(BUILT), **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
