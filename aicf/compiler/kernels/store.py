"""Choices of kernels on disk, for all processes of a user: SQLite, one row a choice.

What is put is there once `put` returns, also if the process is killed then; writers wait for each
other. A broken row is a miss. A file that cannot be read is moved aside, and one that cannot be
written (a full disk, a folder that is read-only) is done without: the process then keeps its
choices in memory. Both are said once, as a StoreWarning; neither is ever an error.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .database import Database, StoreWarning, default_folder, transaction
from .key import Hard, Soft, Subject
from .record import Record
from .verdicts import Verdicts

__all__ = ["FILE", "Store", "StoreWarning", "default_path"]

# Its number changes with the columns: choices of another version are another file.
FILE = "choices-1.sqlite"

_COLUMNS = "op, subject, hard, soft, ranking, model, made, checksum"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS choices (
    op TEXT NOT NULL, subject TEXT NOT NULL, hard TEXT NOT NULL, soft TEXT NOT NULL,
    ranking TEXT NOT NULL, model REAL NOT NULL, made INTEGER NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (op, subject, hard, soft)
) WITHOUT ROWID
"""
_PUT = f"INSERT OR REPLACE INTO choices ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
Key = tuple[Subject, Hard, Soft]


def default_path() -> Path | None:
    """In `AICF_CACHE`, a folder, else in ~/.cache/aicf; None where there is no home."""
    folder = default_folder()
    return folder and folder / FILE


class Store:
    """Opened when it is first asked; may be used by any thread, and after a fork. `verdicts` are
    those on rules of graphs, in the same file."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else default_path()
        self._memory: dict[Key, Record] = {}  # what could not be written
        self.verdicts = Verdicts(self.path)
        self._file = Database(
            self.path, _SCHEMA, f"SELECT {_COLUMNS} FROM choices LIMIT 1", "choices",
            "`python -m aicf tune` finds choices anew",
        )  # fmt: skip

    def put(self, record: Record) -> None:
        """Stores a choice, in the place of one of the same key."""
        self.put_all([record])

    def put_all(self, records: Iterable[Record]) -> None:
        """All of them or, where the process is killed, none."""
        records = list(records)
        if not self._file.attempt(lambda db: _write(db, records), wrote=True):
            self._memory |= {(r.subject, r.hard, r.soft): r for r in records}

    def of_op(self, op: str) -> list[Record]:
        """The choices of an op under all conditions, the newest first."""
        return self._read("WHERE op = ?", op)

    def all(self) -> list[Record]:
        """By op, the newest first."""
        return self._read("")

    def broken(self) -> int:
        """How many rows are broken: misses, until they are written again."""
        rows = self._file.attempt(lambda db: _select(db, "")) or []
        return sum(Record.of_columns(row) is None for row in rows)

    def state(self) -> str:
        """A hash of all choices: another one once there is another choice."""
        rows = self._file.attempt(_checksums) or []
        mine = [r.columns()[-1] for r in self._memory.values()]
        found = hashlib.blake2b(digest_size=16)
        for checksum in sorted([*(str(c) for (c,) in rows), *map(str, mine)]):
            found.update(checksum.encode() + b"\0")
        return found.hexdigest()

    def close(self) -> None:
        self._file.close()
        self.verdicts.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- as JSON ------------------------------------------------------------------------------

    def export(self) -> str:
        """All choices as a text that `load` takes, on any machine."""
        choices = [record.portable() for record in self.all()]
        return json.dumps({"aicf choices": 1, "choices": choices}, indent=1) + "\n"

    def load(self, text: str, name: str) -> int:
        """Takes in what `export` gave, but no choice for which there is a newer one; how many.
        Raises ValueError, which says where in the file `name`, and then nothing is taken."""
        found = _loaded(text, name)
        mine = {(r.subject, r.hard, r.soft): r.made for r in self.all()}
        newer = [r for r in found if r.made > mine.get((r.subject, r.hard, r.soft), -1)]
        self.put_all(newer)
        return len(newer)

    # ---- reading ------------------------------------------------------------------------------

    def _read(self, where: str, *values: str) -> list[Record]:
        rows = self._file.attempt(lambda db: _select(db, where, *values)) or []
        found = {(r.subject, r.hard, r.soft): r for r in map(Record.of_columns, rows) if r}
        found |= {k: r for k, r in self._memory.items() if not values or k[0].op == values[0]}
        return sorted(found.values(), key=lambda r: (r.subject.op, -r.made))


def _select(db: sqlite3.Connection, where: str, *values: str) -> list[tuple[Any, ...]]:
    return db.execute(f"SELECT {_COLUMNS} FROM choices {where}", values).fetchall()


def _checksums(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return db.execute("SELECT checksum FROM choices").fetchall()


def _write(db: sqlite3.Connection, records: Iterable[Record]) -> bool:
    return transaction(db, lambda d: d.executemany(_PUT, [r.columns() for r in records]))


def _loaded(text: str, name: str) -> list[Record]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: it is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("aicf choices") != 1:
        raise ValueError(f'{name}: it is not what `aicf cache export` writes ("aicf choices": 1)')
    choices = data.get("choices")
    if not isinstance(choices, list):
        raise ValueError(f"{name}: choices must be a list")
    return [Record.of_portable(c, f"{name}: choices[{i}]") for i, c in enumerate(choices)]
