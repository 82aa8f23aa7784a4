"""A checkout to build in: a copy of what the build needs, with a table that builds fast."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMALL = ROOT / "tests" / "build" / "small"
PARTS = ("Makefile", "make", "generator", "templates", "include", "runtime", "tools")
OPS = ("add", "shift", "twice", "thrice", "hop")
PACKAGE = "small_ops"

# What a build in a test must not take from the make and the shell that run the tests.
FOREIGN = re.compile(
    r"MAKE|MFLAGS|GNUMAKE|CFLAGS|CC$|CXX|LDFLAGS|NVCC|CUDA|PYTHONPATH|OPGEN|B$|GEN$|CI$"
)


@dataclasses.dataclass(frozen=True)
class Made:
    """What one make did."""

    status: int
    out: str
    err: str

    @property
    def steps(self) -> list[str]:
        """Its lines of progress, as "CC kernels/add/add.c"."""
        found = re.findall(r"^  ([A-Z]+) +(\S.*)$", self.out, re.MULTILINE)
        return [f"{verb} {what}" for verb, what in found]

    def verbs(self, *verbs: str) -> list[str]:
        """What the steps of these verbs were about, in order of name."""
        return sorted(s.split(" ", 1)[1] for s in self.steps if s.split(" ", 1)[0] in verbs)


@dataclasses.dataclass(frozen=True)
class Checkout:
    """A folder with the sources of a build. Every make gets `variables` on its command line."""

    root: Path
    variables: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"CUDA": "0", "JAX": "0", "PYTHON": sys.executable}
    )

    def make(
        self,
        *arguments: str,
        fails: bool = False,
        path: Path | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float = 300,
    ) -> Made:
        """Runs make. Asserts that it worked, or with `fails` that it did not. `path` comes first in
        PATH. A variable given in `arguments` takes the place of the checkout's own."""
        given = {a.split("=", 1)[0] for a in arguments if "=" in a}
        command = ["make", *(f"{k}={v}" for k, v in self.variables.items() if k not in given)]
        run = subprocess.run(
            [*command, *arguments],
            cwd=self.root,
            env=self.environment(path, environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert (run.returncode != 0) == fails, (
            f"make {' '.join(arguments)}: status {run.returncode}\n{run.stdout}\n{run.stderr}"
        )
        return Made(run.returncode, run.stdout, run.stderr)

    def environment(
        self, path: Path | None = None, more: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The environment of this process without what would change the build."""
        found = {k: v for k, v in os.environ.items() if not FOREIGN.match(k)}
        if path is not None:
            found["PATH"] = f"{path}:{found['PATH']}"
        return found | dict(more or {})

    def fresh(self, *arguments: str) -> bool:
        """Whether make has nothing to do, by `make -q`."""
        command = ["make", "-q", *(f"{k}={v}" for k, v in self.variables.items()), *arguments]
        run = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode in (0, 1), run.stderr
        return run.returncode == 0

    def edit(self, path: str, old: str, new: str) -> None:
        """Replaces the one place where `old` stands in a file."""
        file = self.root / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path} has {text.count(old)} of {old!r}"
        file.write_text(text.replace(old, new), encoding="utf-8")

    def python(self, code: str, build: str = "build", fails: bool = False) -> str:
        """Runs Python on what was built: what it printed; with `fails`, its last line of error."""
        run = subprocess.run(
            [self.variables["PYTHON"], "-c", code],
            cwd=self.root,
            env=self.environment(more={"PYTHONPATH": str(self.root / build / "python")}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (run.returncode != 0) == fails, run.stdout + run.stderr
        return run.stderr.strip().splitlines()[-1] if fails else run.stdout.strip()

    def call(self, op: str, *values: float, build: str = "build") -> list[float]:
        """`op`_f32 of arrays of one element each, by the module that was built."""
        arrays = ", ".join(f"numpy.full(1, {v!r}, 'f4')" for v in values)
        answer = self.python(
            f"import numpy; from {PACKAGE} import {op}; out = numpy.empty(1, 'f4')\n"
            f"print({op}.{op}_f32({arrays}, out), out[0])",
            build,
        )
        taken, value = answer.split()
        assert taken == "True"
        return [float(value)]

    def times(self, folder: str) -> dict[str, int]:
        """When each file below a folder was written, in ns."""
        top = self.root / folder
        return {
            str(p.relative_to(self.root)): p.stat().st_mtime_ns
            for p in top.rglob("*")
            if p.is_file()
        }

    def copy(self, where: Path) -> Checkout:
        """The same elsewhere, with times and all that was built."""
        copy_tree(self.root, where)
        return dataclasses.replace(self, root=where)

    def sources(self, where: Path) -> Checkout:
        """The same elsewhere, nothing built."""
        where.mkdir(parents=True)
        for path in sorted(self.root.iterdir()):
            if path.name not in ("build", "generated"):
                copy_tree(path, where / path.name)
        return dataclasses.replace(self, root=where)


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def copy_tree(source: Path, target: Path) -> None:
    """A copy with links and times to the nanosecond."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(target)], check=True)


def create(root: Path, parts: Iterable[str] = PARTS) -> Checkout:
    """A new checkout, nothing built: parts of this tree, and the small table with its kernels."""
    root.mkdir(parents=True)
    for part in parts:
        if (ROOT / part).exists():
            copy_tree(ROOT / part, root / part)
    copy_tree(SMALL / "ops.yaml", root / "ops.yaml")
    copy_tree(SMALL / "kernels", root / "kernels")
    for junk in list(root.rglob("__pycache__")):
        shutil.rmtree(junk)
    return Checkout(root)


def changed(before: Mapping[str, int], after: Mapping[str, int]) -> set[str]:
    """The files that were written, came or went between two `Checkout.times`."""
    return {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
