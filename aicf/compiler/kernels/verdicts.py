"""Verdicts on disk, beside the choices of kernels: one row a verdict, a broken one is a miss."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from .database import Database, transaction
from .verdict import COLUMNS, Verdict

_COLUMNS = f"{', '.join(COLUMNS)}, checksum"
# Its number changes with the columns.
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS verdicts_1 (
    key TEXT PRIMARY KEY NOT NULL, {", ".join(COLUMNS[1:])}, checksum TEXT NOT NULL
) WITHOUT ROWID
"""
_PUT = f"""
INSERT OR REPLACE INTO verdicts_1 ({_COLUMNS}) VALUES ({", ".join("?" * (len(COLUMNS) + 1))})
"""


class Verdicts:
    """Of a store, in the same file, with its care for files that cannot be read or written."""

    def __init__(self, path: Path | None) -> None:
        self._memory: dict[str, Verdict] = {}  # what could not be written
        self._file = Database(
            path, _SCHEMA, f"SELECT {_COLUMNS} FROM verdicts_1 LIMIT 1", "verdicts",
            "rules are tried anew",
        )  # fmt: skip

    def put(self, verdict: Verdict) -> None:
        """Stores a verdict, in the place of one of the same key."""

        def write(db: sqlite3.Connection) -> bool:
            return transaction(db, lambda d: d.execute(_PUT, verdict.columns()))

        if not self._file.attempt(write, wrote=True):
            self._memory[verdict.key] = verdict

    def of_key(self, key: str) -> Verdict | None:
        return next(iter(self._read("WHERE key = ?", key)), None)

    def all(self) -> list[Verdict]:
        """By rule, the newest first."""
        return sorted(self._read(""), key=lambda v: (v.rule, -v.made))

    def broken(self) -> int:
        """How many rows are broken: misses, until they are written again."""
        return sum(Verdict.of_columns(row) is None for row in self._select(""))

    def close(self) -> None:
        self._file.close()

    def _read(self, where: str, *values: str) -> list[Verdict]:
        found = {v.key: v for v in map(Verdict.of_columns, self._select(where, *values)) if v}
        found |= {k: v for k, v in self._memory.items() if not values or k == values[0]}
        return list(found.values())

    def _select(self, where: str, *values: str) -> list[tuple[Any, ...]]:
        def read(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return db.execute(f"SELECT {_COLUMNS} FROM verdicts_1 {where}", values).fetchall()

        return self._file.attempt(read) or []
