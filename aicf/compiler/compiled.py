"""What compiling gave, on disk, for all processes of a user: a row for each key.

A key is a hash of all that the row was made from, so that a row is right or is not met. A broken
row, or one that this version does not read, is a miss; a file that cannot be used is done without.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aicf.compiler.kernels.database import Database, default_folder, transaction

# Its number changes with the columns and with what they mean.
FILE = "compiled-2.sqlite"

ROWS = 512  # the least used go
LARGEST = 64 << 20  # bytes of an entry: a larger one is not kept

_COLUMNS = "key, head, records, data, used, checksum"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS compiled (
    key TEXT PRIMARY KEY, head BLOB NOT NULL, records BLOB NOT NULL, data BLOB NOT NULL,
    used INTEGER NOT NULL, checksum TEXT NOT NULL
) WITHOUT ROWID
"""
_PUT = f"INSERT OR REPLACE INTO compiled ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_TRIM = """
DELETE FROM compiled WHERE key IN (SELECT key FROM compiled ORDER BY used DESC LIMIT -1 OFFSET ?)
"""
_DAY = 86400


@dataclass(frozen=True, slots=True)
class Entry:
    """`graph` is what was optimised, as `ir.packed` has it, void without `ops`, digests of its ops'
    modules; `bound` the same for the sizes of the key, "" where it has no symbols or there are no
    sizes; `choices` are kernels by the call, for these sizes; `data` has constants that passes
    made, by name. Records are unpacked when they are asked for."""

    graph: str
    ops: Mapping[str, str]
    choices: Mapping[str, str]
    bound: str = ""
    records: bytes = b""
    data: Mapping[str, Any] = field(default_factory=dict)

    def columns(self, key: str) -> tuple[str | bytes | int, ...] | None:
        """None of one that is too large."""
        head = {
            "graph": self.graph, "ops": dict(self.ops), "choices": dict(self.choices),
            "bound": self.bound,
        }  # fmt: skip
        packed = json.dumps(head, separators=(",", ":")).encode()
        data = _packed(self.data)
        if len(packed) + len(self.records) + len(data) > LARGEST:
            return None
        parts = (packed, self.records, data)
        return (key, *parts, int(time.time()), _checksum(key, *parts))

    @classmethod
    def of_columns(cls, row: tuple[Any, ...]) -> Entry | None:
        """None of a row that is broken, in whatever way."""
        key, head, records, data, _, checksum = row
        try:
            if checksum != _checksum(key, head, records, data):
                return None
            found = json.loads(head)
            return cls(
                str(found["graph"]), dict(found["ops"]), dict(found["choices"]),
                str(found["bound"]), records, _unpacked(data),
            )  # fmt: skip
        except (ValueError, TypeError, LookupError):
            return None


class Cache:
    """Of entries by key."""

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder if folder is not None else default_folder()
        self.path = folder and folder / FILE
        self._memory: dict[str, Entry] = {}  # what could not be written
        self._file = Database(
            self.path, _SCHEMA, f"SELECT {_COLUMNS} FROM compiled LIMIT 1", "compiled graphs",
            "They are compiled anew when they are asked for",
        )  # fmt: skip

    def get(self, key: str) -> Entry | None:
        if key in self._memory:
            return self._memory[key]
        row = self._file.attempt(lambda db: _row(db, key))
        if row is None:
            return None
        found = Entry.of_columns(row)
        if found is not None and time.time() - row[4] > _DAY:  # seldom: a hit should write nothing
            self._file.attempt(lambda db: db.execute(_USED, (int(time.time()), key)), wrote=True)
        return found

    def put(self, key: str, entry: Entry) -> None:
        row = entry.columns(key)
        if row is not None and not self._file.attempt(lambda db: _write(db, row), wrote=True):
            self._memory[key] = entry

    def keys(self) -> list[str]:
        """Of all that is there, broken rows too."""
        rows = self._file.attempt(lambda db: db.execute("SELECT key FROM compiled").fetchall())
        return sorted({*self._memory, *(key for (key,) in rows or ())})

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_USED = "UPDATE compiled SET used = ? WHERE key = ?"


def _row(db: sqlite3.Connection, key: str) -> Any:
    return db.execute(f"SELECT {_COLUMNS} FROM compiled WHERE key = ?", (key,)).fetchone()


def _write(db: sqlite3.Connection, row: tuple[Any, ...]) -> bool:
    def work(d: sqlite3.Connection) -> None:
        d.execute(_PUT, row)
        d.execute(_TRIM, (ROWS,))

    return transaction(db, work)


def _checksum(key: str, *parts: bytes) -> str:
    found = hashlib.blake2b(key.encode(), digest_size=16)
    for part in parts:
        found.update(b"%d:" % len(part) + part)
    return found.hexdigest()


# ---- what is packed ------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    """What JSON says, small."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def unpack(data: bytes) -> Any:
    """Raises ValueError."""
    try:
        return json.loads(zlib.decompress(data))
    except zlib.error as error:
        raise ValueError(str(error)) from None


def _packed(data: Mapping[str, Any]) -> bytes:
    """Arrays by name: a line of JSON that says where each is, then their bytes."""
    if not data:
        return b""
    from aicf.backend.host import as_array
    from aicf.backend.tensors import dtype_of

    arrays = {name: as_array(x) for name, x in data.items()}
    head = [(name, dtype_of(data[name]), a.shape, a.nbytes) for name, a in arrays.items()]
    return json.dumps(head).encode() + b"\n" + b"".join(a.tobytes() for a in arrays.values())


def _unpacked(data: bytes) -> dict[str, Any]:
    if not data:
        return {}
    from aicf_rt import empty

    from aicf.backend.host import bytes_of

    head, _, rest = data.partition(b"\n")
    found, start = {}, 0
    for name, dtype, shape, size in json.loads(head):
        made = empty(tuple(shape), dtype)
        bytes_of(made)[...] = memoryview(rest)[start : start + size]
        found[name], start = made, start + size
    return found
