"""The modules that `make` built, over SHIM: every call of the CUDA runtime is recorded, no kernel
runs, and tensors only claim to be on a device. Each test has a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime import building

BUILT = Path(os.environ.get("B", building.ROOT / "build")).resolve() / "python"
Over = Callable[..., Any]


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what was built, with SHIM in the place of the CUDA runtime."""
    if not (BUILT / "aicf_cuda").is_dir():
        pytest.fail(f"{BUILT}/aicf_cuda is not there: run make first")
    folder = tmp_path_factory.mktemp("shim")
    building.make(folder, "shim", "CUDA=1")
    for name in ("aicf_cuda", "aicf_rt"):
        shutil.copytree(BUILT / name, folder / "python" / name)
    shutil.copy(folder / "shim" / "libaicf.so.1", folder / "python" / "aicf_rt" / "libaicf.so.1")
    return folder / "python"


@pytest.fixture(scope="session", params=["driver", "runtime"])
def over(package: Path, request: pytest.FixtureRequest) -> Over:
    """Runs code over SHIM after `from shim.steer import *`; what it gave to `tell`, or None. With
    steered=False there is no such import, and what was printed comes back. Every test runs twice:
    launches go past the CUDA runtime, or through it."""

    def run(code: str, *, steered: bool = True, timeout: float = 120, **environment: str) -> Any:
        head = "from shim.steer import *\n" if steered else ""
        paths = [package, building.ROOT / "tests"]
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", head + textwrap.dedent(code)],
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("AICF_")},
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "AICF_LAUNCH": request.param,
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        if not steered:
            return done.stdout
        last = done.stdout.splitlines()[-1:]
        return json.loads(last[0]) if last else None

    return run


@pytest.fixture(scope="session")
def ops(over: Over) -> list[str]:
    """The ops that have device code here."""
    found: list[str] = over("tell(OPS)")
    if not found:
        pytest.skip("the modules were built without CUDA")
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.guests("nvcc"))
