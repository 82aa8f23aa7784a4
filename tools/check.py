"""Looks at the whole tree: `make check`; with `--fix` it lays out what can be: `make format`.

clang-format decides how C looks, ruff how Python looks and what is suspicious, mypy whether it
is typed; each is the pinned one of requirements.txt. Then pages that tools write are current, each
promise has a test, and what a GPU has verified is said. Prints a line a check, the output of those
that fail, and of the others their last line; exits 1 if one failed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
C_FOLDERS = ("generator", "include", "runtime", "kernels", "tests", "bench", "examples")
PYTHON_FOLDERS = ("aicf", "bench", "examples", "runtime", "tests", "tools")


def files(folders: tuple[str, ...], *suffixes: str) -> list[str]:
    """The files of these suffixes below the folders, relative to the root, in order."""
    found: list[str] = []
    for folder in folders:
        for suffix in suffixes:
            found += [str(p.relative_to(ROOT)) for p in (ROOT / folder).rglob(f"*{suffix}")]
    return sorted(p for p in found if "/golden/" not in p)


@dataclasses.dataclass(frozen=True)
class Check:
    """What is run, and how many of its last lines are worth showing where all is well."""

    name: str
    command: list[str]
    lines: int = 0


def layouts(fix: bool) -> list[Check]:
    """How files look: those that rewrite with `fix`."""
    tools = Path(sys.executable).parent
    c = files(C_FOLDERS, ".c", ".h")
    python = files(PYTHON_FOLDERS, ".py", ".pyi")
    ruff = str(tools / "ruff")
    layout = ["-i"] if fix else ["--dry-run", "--Werror"]
    return [
        Check("clang-format", [str(tools / "clang-format"), *layout, *c]),
        Check("ruff format", [ruff, "format", *([] if fix else ["--check"]), *python]),
        Check("ruff check", [ruff, "check", "--quiet", *(["--fix"] if fix else []), *python]),
    ]


def contents() -> list[Check]:
    """What files say."""
    python = files(PYTHON_FOLDERS, ".py", ".pyi")
    opgen = ["--opgen", os.environ.get("OPGEN", f"{os.environ.get('B', 'build')}/opgen")]
    typed = [p for p in python if not (ROOT / f"{p}i").exists()]  # a stub speaks for its module
    return [
        Check("mypy", [sys.executable, "-m", "mypy", "--no-error-summary", *typed]),
        Check("table reference", [sys.executable, "tools/table_reference.py", "--check", *opgen]),
        Check("measured table", [sys.executable, "tools/measured_table.py", "--check"]),
        Check("promises", [sys.executable, "tools/promises.py"], lines=1),
        Check("gpu", [sys.executable, "tools/gpu_report.py", "check"], lines=100),
    ]


def passes(check: Check) -> bool:
    """Runs it and prints how it ended."""
    start = time.monotonic()
    run = subprocess.run(check.command, cwd=ROOT, capture_output=True, text=True, check=False)
    good = run.returncode == 0
    took = f"({time.monotonic() - start:.1f} s)"
    print(f"  {check.name:<16}{'ok' if good else 'FAILED'} {took}", flush=True)
    if check.name == "clang-format":
        for name in sorted(set(re.findall(r"^(\S+?):\d+:", run.stderr, re.MULTILINE))):
            print(f"    {name}")
    elif not good:
        print(run.stderr if check.lines else run.stdout + run.stderr)
    for line in run.stdout.splitlines()[-check.lines :] if good and check.lines else []:
        print(f"    {line}")
    return good


def main() -> int:
    fix = "--fix" in sys.argv[1:]
    todo = layouts(fix) + ([] if fix else contents())
    return 0 if all([passes(check) for check in todo]) else 1


if __name__ == "__main__":
    sys.exit(main())
