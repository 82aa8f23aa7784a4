"""Choices of kernels on disk, for all processes of a user: SQLite, one row a choice.

What is put is there once `put` returns, also if the process is killed then; writers wait for each
other. A broken row is a miss. A file that cannot be read is moved aside, and one that cannot be
written (a full disk, a folder that is read-only) is done without: the process then keeps its
choices in memory. Both are said once, as a StoreWarning; neither is ever an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from .key import Hard, Soft, Subject
from .record import Record

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

_PATIENCE = 20.0  # seconds that a process waits for others which write
_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))
# The file is no database, or not this one.
_UNREADABLE = frozenset((sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR))

Key = tuple[Subject, Hard, Soft]
Result = TypeVar("Result")


class StoreWarning(UserWarning):
    """The choices on disk could not be used as they are; says what was done instead."""


def default_path() -> Path | None:
    """`AICF_CACHE`, a folder, else ~/.cache/aicf; None where there is no home."""
    folder = os.environ.get("AICF_CACHE")
    if folder:
        return Path(folder) / FILE
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aicf" / FILE
    except RuntimeError:
        return None


class Store:
    """Opened when it is first asked; may be used by any thread, and after a fork."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else default_path()
        self._memory: dict[Key, Record] = {}  # what could not be written
        self._opened: _Opened | None = None
        self._is_done_without = self.path is None
        self._has_warned = False
        self._lock = threading.RLock()

    def put(self, record: Record) -> None:
        """Stores a choice, in the place of one of the same key."""
        self.put_all([record])

    def put_all(self, records: Iterable[Record]) -> None:
        """All of them or, where the process is killed, none."""
        records = list(records)
        if not self._attempt(lambda db: _write(db, records), wrote=True):
            self._memory |= {(r.subject, r.hard, r.soft): r for r in records}

    def of_op(self, op: str) -> list[Record]:
        """The choices of an op under all conditions, the newest first."""
        return self._read("WHERE op = ?", op)

    def all(self) -> list[Record]:
        """By op, the newest first."""
        return self._read("")

    def broken(self) -> int:
        """How many rows are broken: misses, until they are written again."""
        rows = self._attempt(lambda db: _select(db, "")) or []
        return sum(Record.of_columns(row) is None for row in rows)

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

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

    # ---- the file -----------------------------------------------------------------------------

    def _read(self, where: str, *values: str) -> list[Record]:
        rows = self._attempt(lambda db: _select(db, where, *values)) or []
        found = {(r.subject, r.hard, r.soft): r for r in map(Record.of_columns, rows) if r}
        found |= {k: r for k, r in self._memory.items() if not values or k[0].op == values[0]}
        return sorted(found.values(), key=lambda r: (r.subject.op, -r.made))

    def _attempt(self, work: Callable[[sqlite3.Connection], Result], wrote: bool = False) -> Any:
        """What `work` gives; None where the file is done without."""
        end = time.monotonic() + _PATIENCE
        moved = False
        with self._lock:
            while not (self._is_done_without or (wrote and self._is_read_only())):
                try:
                    return work(self._connection())
                except (sqlite3.Error, OSError) as error:
                    code = _code(error)
                    if code in _BUSY and time.monotonic() < end:
                        time.sleep(0.005)
                    elif code in _UNREADABLE and not moved:
                        moved = True
                        self._move_aside(str(error))
                    else:
                        self._do_without(error)
        return None

    def _is_read_only(self) -> bool:
        return self._opened is not None and self._opened.read_only

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None or not self._opened.is_current():
            self.close()
            assert self.path is not None
            self._opened = _Opened(self.path)
        return self._opened.db

    def _do_without(self, error: Exception) -> None:
        """From now on this process reads what there is and writes to its memory."""
        assert self.path is not None
        self.close()
        kept = "this process keeps its choices in memory"
        with contextlib.suppress(sqlite3.Error, OSError):
            self._opened = _Opened(self.path, read_only=True)
            kept = "its choices are used, and new ones kept in memory"
        self._is_done_without = self._opened is None
        if self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"{self.path}: {error}: {kept}. Set AICF_CACHE to a folder that can be written, with "
            "room for it",
            StoreWarning,
            stacklevel=5,
        )

    def _move_aside(self, why: str) -> None:
        """Where others have not done it yet: they are asked under a lock."""
        assert self.path is not None
        self.close()
        with _exclusive(self.path.with_suffix(".lock")):
            if _is_readable(self.path):
                return
            aside = _free_name(self.path)
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        warnings.warn(
            f"{self.path}: {why}: its choices are lost; it is kept as {aside.name}, and a new one "
            "is begun. `python -m aicf tune` finds choices anew",
            StoreWarning,
            stacklevel=5,
        )


class _Opened:
    """A connection, and what tells that it is still one to the file of that name."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        self.path, self.read_only, self.process = path, read_only, os.getpid()
        if read_only:
            # A database with a log beside it can only be opened so where nothing may be written.
            self.db = _connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
            _select(self.db, "LIMIT 1")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.db = _connect(str(path), uri=False)
            try:
                _prepare(self.db)
            except BaseException:
                self.db.close()
                raise
        self.file = _identity(path)

    def is_current(self) -> bool:
        """Not after a fork, nor once somebody moved the file aside."""
        return self.process == os.getpid() and self.file == _identity(self.path)

    def close(self) -> None:
        """A child leaves its parent's connection alone: it is not its own to close."""
        if self.process == os.getpid():
            self.db.close()
        else:
            _inherited.append(self.db)


_inherited: list[sqlite3.Connection] = []


def _connect(name: str, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(
        name, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, uri=uri
    )


def _prepare(db: sqlite3.Connection) -> None:
    """A log of what is written (WAL), in which a process that is killed leaves whole rows or none,
    and readers wait for nobody. That a power cut may take the last rows is no loss here."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(_SCHEMA)
    _select(db, "LIMIT 1")


def _select(db: sqlite3.Connection, where: str, *values: str) -> list[tuple[Any, ...]]:
    return db.execute(f"SELECT {_COLUMNS} FROM choices {where}", values).fetchall()


def _write(db: sqlite3.Connection, records: Iterable[Record]) -> bool:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.executemany(_PUT, [record.columns() for record in records])
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    return True


def _code(error: Exception) -> int | None:
    """SQLite's primary code; None of another error."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_readable(path: Path) -> bool:
    try:
        opened = _Opened(path)
    except (sqlite3.Error, OSError) as error:
        return _code(error) not in _UNREADABLE
    try:
        return bool(opened.db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.Error as error:
        return _code(error) not in _UNREADABLE
    finally:
        opened.close()


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Let go by the system if the process is killed."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _free_name(path: Path) -> Path:
    numbers = iter(range(1, 1_000_000))
    return next(p for n in numbers if not (p := path.with_name(f"{path.name}.bad-{n}")).exists())


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
