"""Style and types of the whole tree: `make check`; `--fix` lays out what can be: `make format`.

clang-format decides how C looks, ruff how Python looks and what is suspicious, mypy whether it
is typed. Each is the pinned one of requirements.txt. Prints a line a check and all output of those
that fail; exits 1 if one did.
"""

from __future__ import annotations

import os
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
    return sorted(found)


def checks(fix: bool) -> list[tuple[str, list[str]]]:
    """Name and command of each check; with `fix`, of those that rewrite."""
    tools = Path(sys.executable).parent
    c = files(C_FOLDERS, ".c", ".h")
    python = files(PYTHON_FOLDERS, ".py", ".pyi")
    ruff = str(tools / "ruff")
    layout = ["-i"] if fix else ["--dry-run", "--Werror"]
    found = [
        ("clang-format", [str(tools / "clang-format"), *layout, *c], c),
        ("ruff format", [ruff, "format", *([] if fix else ["--check"]), *python], python),
        ("ruff check", [ruff, "check", "--quiet", *(["--fix"] if fix else []), *python], python),
        ("mypy", [sys.executable, "-m", "mypy", "--no-error-summary", *python], python),
    ]
    return [(name, command) for name, command, given in found if given][: 3 if fix else 4]


def main() -> int:
    bad = 0
    environment = {**os.environ, "PYTHONPATH": ""}
    for name, command in checks("--fix" in sys.argv[1:]):
        start = time.monotonic()
        run = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        verdict = "ok" if run.returncode == 0 else "FAILED"
        print(f"  {name:<14}{verdict} ({time.monotonic() - start:.1f} s)", flush=True)
        if run.returncode != 0:
            bad += 1
            print(run.stdout + run.stderr)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
