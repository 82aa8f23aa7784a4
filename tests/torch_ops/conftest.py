"""Tests of the ops as ops of torch: those of the main table, as make built them, and those of the
table in zoo/, which is built here and has the kinds of rows that the main table lacks."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"
ZOO = Path(__file__).resolve().parent / "zoo"
if str(BUILT) not in sys.path:
    sys.path.insert(0, str(BUILT))


def build(where: Path, edit: Callable[[str], str] = lambda text: text) -> Path:
    """The package of the table in zoo/, edited; the folder to import it from."""
    shutil.copytree(ZOO, where, dirs_exist_ok=True)
    table = where / "ops.yaml"
    table.write_text(edit(table.read_text(encoding="utf-8")), encoding="utf-8")
    command = ["make", f"ROOT={ROOT}", f"BUILT={BUILT}", f"PYTHON={sys.executable}"]
    command += [f"OPGEN={os.environ.get('OPGEN', BUILT.parent / 'opgen')}"]
    command += [f"FROM={os.path.relpath(BUILT / 'aicf_rt', where / 'python' / 'kinds_ops')}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return where / "python"


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package of zoo/ is imported from."""
    return build(tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="session")
def ops(kinds: Path) -> Any:
    """Both tables' ops: `ops.aicf` and `ops.kinds`, as `torch.ops` has them."""
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(kinds))
    for package in ("aicf_cuda", "kinds_ops"):
        importlib.import_module(f"{package}.torch")
    return types.SimpleNamespace(aicf=torch.ops.aicf, kinds=torch.ops.kinds)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No compiled code from other runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No compiled code from other tests."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


@pytest.fixture(scope="session")
def alone(kinds: Path) -> Callable[..., str]:
    """Runs code in a process of its own and gives what it printed. Environment by keyword."""

    def run(code: str, *first: Path, **environment: str) -> str:
        path = [*map(str, first), str(BUILT), str(kinds), str(ROOT / "tests")]
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
