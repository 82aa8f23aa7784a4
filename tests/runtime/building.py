"""Builds what the tests of libaicf run: the C driver in several ways, the library, SHIM."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "tests" / "runtime"
LIBRARY = ROOT / "runtime" / "libaicf"
WARNINGS = ("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror")


def tests_of(source: str) -> list[tuple[str, list[str]]]:
    """The tests of a C file and their promises, as its TEST lines say."""
    text = (HERE / source).read_text(encoding="utf-8")
    found = re.findall(r'^TEST\((\w+), "([^"]*)"\)', text, re.MULTILINE)
    assert found, f"{source} has no tests"
    return [(name, ids.split()) for name, ids in found]


def run(command: Sequence[str | Path], **environment: str) -> str:
    """Runs a command that must succeed. Gives its stdout."""
    done = subprocess.run(
        [str(c) for c in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (
        f"{command[0]}: status {done.returncode}\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def cuda_tool(*arguments: str | Path) -> str:
    """What cudart.sh answers."""
    return run(["sh", LIBRARY / "cuda" / "cudart.sh", *arguments]).strip()


def build_driver(out: Path, options: Sequence[str]) -> Path:
    """The driver with all of libaicf inside, without CUDA."""
    tests = ("main", "rows", "settle", "overlap", "prepare", "infer", "parallel")
    sources = [*(HERE / f"{name}.c" for name in tests), *sorted(LIBRARY.glob("*.c"))]
    command: list[str | Path] = ["gcc", *WARNINGS, *options]
    command += [f"-I{ROOT / 'include'}", f"-I{LIBRARY}", *sources, LIBRARY / "cuda" / "absent.c"]
    run([*command, "-o", out, "-lm", "-ldl", "-lpthread"])
    return out


def make(folder: Path, target: str, *variables: str) -> None:
    """Makes a target of the runtime with its outputs under a folder. No table is read."""
    foreign = re.compile(r"MAKE|MFLAGS|CFLAGS|LDFLAGS|B$|GEN$|OPGEN")
    kept = {k: v for k, v in os.environ.items() if not foreign.match(k)}
    done = subprocess.run(
        ["make", "-j2", f"B={folder}", f"GEN={folder / 'generated'}", *variables, target],
        cwd=ROOT,
        env=kept,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
