"""The driver of the small languages: built from the generator's sources, asked line by line."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "tests" / "generator"
PARTS = ("arena", "buffer", "format", "fault", "fault_ids", "names", "model", "dict")
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=address,undefined")

FAULT = re.compile(r"^row:(\d+):(\d+): error: (.*) \[([a-z-]+)\]$")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the driver said to one line: `lines` where all is well, else faults and their notes."""

    lines: tuple[str, ...]
    faults: tuple[tuple[int, str, str], ...]  # column, id, message
    notes: tuple[str, ...]

    def __getitem__(self, key: str) -> str:
        """The rest of the line that begins with `key`."""
        for line in self.lines:
            if line.startswith(key + " "):
                return line.removeprefix(key + " ")
        raise KeyError(f"{key}: {self}")

    @property
    def ids(self) -> list[str]:
        return [identifier for _, identifier, _ in self.faults]


def build(folder: Path) -> Path:
    """The driver, under the sanitizers."""
    sources = [ROOT / "generator" / f"{part}.c" for part in PARTS]
    for pattern in ("expression*.c", "shape*.c"):
        sources += sorted((ROOT / "generator").glob(pattern))
    target = folder / "driver"
    command: list[str | Path] = [
        os.environ.get("CC", "gcc"),
        *FLAGS,
        "-I",
        ROOT / "include",
        "-I",
        ROOT / "generator",
    ]
    said = subprocess.run(
        [*command, HERE / "expressions_driver.c", *sources, "-o", target],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return target


def parse(text: str) -> Answer:
    lines, faults, notes = [], [], []
    for line in text.splitlines():
        head = FAULT.match(line)
        if head:
            faults.append((int(head[2]), head[4], head[3]))
        elif line.startswith("       = "):
            notes.append(line.removeprefix("       = "))
        elif not re.match(r"^ *\d* \|", line):
            lines.append(line)
    return Answer(tuple(lines), tuple(faults), tuple(notes))


def ask(driver: Path, lines: Iterable[str | Sequence[str]]) -> list[Answer]:
    """One answer a line; a line is a text, or its fields."""
    said = [line if isinstance(line, str) else "\t".join(line) for line in lines]
    run = subprocess.run(
        [driver], input="\n".join(said) + "\n", capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    answers = [parse(text) for text in re.split(r"^\.\n", run.stdout, flags=re.MULTILINE)[:-1]]
    assert len(answers) == len(said), run.stdout[-3000:]
    return answers
