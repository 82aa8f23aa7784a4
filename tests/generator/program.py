"""opgen as the tests see it: how it is built and run, and its faults read back."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O1", "-g")
SANITIZERS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)

HEAD = re.compile(
    r"^(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): error: "
    r"(?P<message>.*) \[(?P<id>[a-z0-9-]+)\]$"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault as opgen prints it: where, what, and the notes below it."""

    line: int
    column: int
    id: str
    message: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Opgen:
    """The program, and what its answers say."""

    path: Path

    def run(
        self, *arguments: str | Path, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs it; a crash or a sanitizer's report fails the test at once."""
        said = subprocess.run(
            [self.path, *arguments], capture_output=True, encoding="utf-8", cwd=cwd, timeout=60
        )
        assert said.returncode in (0, 1), f"exit {said.returncode}:\n{said.stderr}"
        assert "ERROR: " not in said.stderr, said.stderr
        assert "runtime error" not in said.stderr, said.stderr
        return said

    def faults(self, table: Path) -> list[Fault]:
        """The faults of a table, in the order printed."""
        said = self.run("--check", table)
        found = parse_faults(said.stderr)
        assert bool(found) == (said.returncode != 0), said.stderr
        return found


def parse_faults(text: str) -> list[Fault]:
    """Every line of the text belongs to a fault, or this fails."""
    found: list[Fault] = []
    for line in text.splitlines():
        head = HEAD.match(line)
        if head:
            found.append(
                Fault(int(head["line"]), int(head["column"]), head["id"], head["message"], ())
            )
        elif line.startswith("       = "):
            last = found.pop()
            notes = (*last.notes, line.removeprefix("       = "))
            found.append(Fault(last.line, last.column, last.id, last.message, notes))
        else:
            assert re.match(r"^ *\d* \|", line), f"no part of a fault: {line!r}"
    return found


def build(folder: Path, flags: tuple[str, ...] = ()) -> Path:
    """opgen from all sources of generator/."""
    target = folder / "opgen"
    sources = sorted((ROOT / "generator").glob("*.c"))
    compiler = [os.environ.get("CC", "gcc"), *FLAGS, *flags, "-I", str(ROOT / "include")]
    said = subprocess.run(
        [*compiler, *map(str, sources), "-o", str(target), "-lyaml", "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return target
