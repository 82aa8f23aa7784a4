"""Tests of the modules as Python sees them: exchange, arguments, bound calls. They run on what
`make` built; what the ops of the main table lack comes from the table in zoo/, built here."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modules.fake_backend import Fake

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"
ZOO = Path(__file__).resolve().parent / "zoo"
if str(BUILT) not in sys.path:
    sys.path.insert(0, str(BUILT))


@pytest.fixture(scope="session")
def add() -> Any:
    return importlib.import_module("aicf_cuda.add")


@pytest.fixture(scope="session")
def rt() -> Any:
    return importlib.import_module("aicf_rt")


@pytest.fixture(scope="session")
def unsupported(rt: Any) -> type[Exception]:
    found: type[Exception] = rt.Unsupported
    return found


@pytest.fixture(scope="session")
def alone() -> Callable[..., str]:
    """Runs code in a process of its own, which may crash without taking the tests along; what it
    printed. Environment variables by keyword."""

    def run(code: str, timeout: float = 120, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(BUILT), str(ROOT / "tests")]),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The package of the table in zoo/: rows with every kind of argument, on the CPU."""
    where = tmp_path_factory.mktemp("zoo")
    shutil.copytree(ZOO, where, dirs_exist_ok=True)
    command = ["make", f"ROOT={ROOT}", f"BUILT={BUILT}", f"PYTHON={sys.executable}"]
    command += [f"OPGEN={os.environ.get('OPGEN', BUILT.parent / 'opgen')}"]
    command += [f"FROM={os.path.relpath(BUILT / 'aicf_rt', where / 'python' / 'zoo_ops')}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(where / "python"))
    return importlib.import_module("zoo_ops")


@pytest.fixture
def fake(zoo: Any) -> Fake:
    """The backend behind the op `twin` of the zoo."""
    return Fake(importlib.import_module("zoo_ops.twin").__file__ or "")
