"""What needs no free-threaded Python of `make test-ft`: the same threads on this interpreter, and
how builds for the two kinds are told apart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from freethreaded.prove import PLANTS, Plant
from freethreaded.work import NEEDS, SCENES

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"
OPGEN = Path(os.environ.get("OPGEN", BUILT.parent / "opgen")).resolve()


def alone(
    command: list[str], cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of Python with the packages of the tests' tables, built for this interpreter."""
    places = [str(BUILT), str(ROOT / "tests")]
    for table in (ROOT / "tests/modules/zoo", ROOT / "tests/freethreaded/table"):
        where = tmp_path_factory.mktemp("tables") / table.name
        shutil.copytree(table, where)
        package = where / "python/any"
        command = ["make", "-f", str(ROOT / "tests/modules/zoo/Makefile"), f"ROOT={ROOT}"]
        command += [f"BUILT={BUILT}", f"OPGEN={OPGEN}", f"PYTHON={sys.executable}"]
        command += [f"FROM={os.path.relpath(BUILT / 'aicf_rt', package)}"]
        done = alone(command, cwd=where)
        assert done.returncode == 0, done.stdout + done.stderr
        places.append(str(package.parent))
    return os.pathsep.join(places)


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Calls of every op."""
    file = tmp_path_factory.mktemp("drawn") / "calls"
    command = [sys.executable, "-m", "freethreaded.draw", str(file), "8"]
    done = alone(command, PYTHONPATH=os.pathsep.join([str(BUILT), str(ROOT / "tests")]))
    assert done.returncode == 0, done.stdout + done.stderr
    return str(file)


def work(packages: str, drawn: str, *words: str) -> dict[str, Any]:
    done = alone(
        [sys.executable, "-X", "faulthandler", "-m", "freethreaded.work", *words],
        PYTHONPATH=packages,
        AICF_DRAWN=drawn,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.promise("S10", "FAULT-4", "PROCESS-threads")
@pytest.mark.guests("ml_dtypes", "torch")
def test_threads_share_what_they_may(packages: str, drawn: str) -> None:
    said = work(packages, drawn, "--threads", "8", "--calls", "1000", "--grown")
    assert set(said["calls"]) == set(SCENES)
    assert said["grown_kib"] < 8192


@pytest.mark.promise("S10")
@pytest.mark.guests("torch")
def test_threads_that_import_first_do_not_meet(packages: str, drawn: str) -> None:
    """A package that another thread has begun to import, and _core before its package: each was
    an error in one of some runs."""
    for _ in range(6):
        work(packages, drawn, "--threads", "32", "--calls", "1", "--only", "first")


def test_scenes_that_need_a_guest_are_told() -> None:
    assert set(NEEDS) <= set(SCENES)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.file)
def test_what_is_planted_is_in_the_code(plant: Plant) -> None:
    text = (ROOT / "runtime/core" / plant.file).read_text(encoding="utf-8")
    assert text.count(plant.before) == 1


# ---- two kinds of Python -------------------------------------------------------------------------

MODULE = """
#include <Python.h>
static const char *version(void) { return "3.13.5 %sbuild (main, Jan 1 2025)"; }
#define Py_GetVersion version
#include <aicf/module.h>
static PyModuleDef_Slot slots[] = {AICF_MODULE_SLOTS, {0, NULL}};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "told", .m_slots = slots};
PyMODINIT_FUNC PyInit_told(void) { return aicf_module_init(&definition); }
"""


@pytest.mark.promise("I7")
@pytest.mark.parametrize("kind", ["", "experimental free-threading ", "free-threading "])
def test_a_module_of_the_stable_abi_is_none_for_a_free_threaded_python(
    kind: str, tmp_path: Path
) -> None:
    source = tmp_path / "told.c"
    source.write_text(MODULE % kind, encoding="utf-8")
    asked = alone(["sh", str(ROOT / "include/aicf/build.sh"), "python", sys.executable])
    suffix, flag, include = asked.stdout.split()
    assert (suffix, flag) == (".abi3.so", "-DPy_LIMITED_API=0x030b0000")
    command = ["gcc", "-std=c11", "-shared", "-fPIC", flag, "-isystem", include]
    command += [f"-I{ROOT / 'include'}", str(source), "-o", str(tmp_path / f"told{suffix}")]
    made = alone(command)
    assert made.returncode == 0, made.stderr
    done = alone([sys.executable, "-c", "import told"], PYTHONPATH=str(tmp_path))
    if kind:
        assert "ImportError: this module is built for Python with the GIL" in done.stderr
        assert done.returncode == 1
    else:
        assert (done.returncode, done.stderr) == (0, "")


STUB = """#!/bin/sh
exec {python} -c '
import sys, sysconfig
known = sysconfig.get_config_var
told = dict(Py_GIL_DISABLED=1, EXT_SUFFIX=".cpython-313t.so")
sysconfig.get_config_var = lambda name: told.get(name) or known(name)
sys.argv = sys.argv[3:]
exec(compile(sys.argv.pop(0), "asked", "exec"))
' "$@"
"""


@pytest.mark.promise("I7", "S10")
def test_a_free_threaded_python_gets_files_of_its_own(tmp_path: Path) -> None:
    """Also where it says that it loads the stable ABI's, as 3.13 does."""
    stub = tmp_path / "python"
    stub.write_text(STUB.format(python=sys.executable), encoding="utf-8")
    stub.chmod(0o755)
    asked = alone(["sh", str(ROOT / "include/aicf/build.sh"), "python", str(stub)])
    assert asked.stdout.split()[:2] == [".cpython-313t.so", "-UPy_LIMITED_API"], asked.stderr
