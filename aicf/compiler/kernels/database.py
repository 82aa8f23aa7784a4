"""A file of SQLite that all processes of a user share, and that none depends on.

What is written is there once `attempt` returns, also if the process is killed then; writers wait
for each other. A file that cannot be read is moved aside, and one that cannot be written (a full
disk, a folder that is read-only) is done without. Both are said once, as a StoreWarning; neither is
ever an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

_PATIENCE = 20.0  # seconds that a process waits for others which write
_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))
# The file is no database, or not this one.
_UNREADABLE = frozenset((sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR))
# Where SQLite quotes a broken file in its message, Python may not be able to read that.
_FAILURES = (sqlite3.Error, OSError, UnicodeDecodeError)

Result = TypeVar("Result")


class StoreWarning(UserWarning):
    """What is on disk could not be used as it is; says what was done instead."""


def default_folder() -> Path | None:
    """`AICF_CACHE`, else ~/.cache/aicf; None where there is no home."""
    folder = os.environ.get("AICF_CACHE")
    if folder:
        return Path(folder)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aicf"
    except RuntimeError:
        return None


class Database:
    """Opened when it is first asked; may be used by any thread, and after a fork.

    `schema` makes its table where there is none, `probe` fails where the table is another one.
    `noun` is what the file holds, for warnings, and `remedy` how what was lost is found anew."""

    def __init__(self, path: Path | None, schema: str, probe: str, noun: str, remedy: str) -> None:
        self.path, self.schema, self.probe = path, schema, probe
        self.noun, self.remedy = noun, remedy
        self._opened: _Opened | None = None
        self._is_done_without = path is None
        self._has_warned = False
        self._lock = threading.RLock()

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def attempt(self, work: Callable[[sqlite3.Connection], Result], wrote: bool = False) -> Any:
        """What `work` gives; None where the file is done without."""
        end = time.monotonic() + _PATIENCE
        moved = False
        with self._lock:
            while not (self._is_done_without or (wrote and self._is_read_only())):
                try:
                    return work(self.connection())
                except _FAILURES as error:
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

    def connection(self) -> sqlite3.Connection:
        """Opened; anew where it is not to this file any more."""
        if self._opened is None or not self._opened.is_current():
            self.close()
            assert self.path is not None
            self._opened = _Opened(self, self.path)
        return self._opened.db

    def _do_without(self, error: Exception) -> None:
        """From now on this process reads what there is and writes to its memory."""
        assert self.path is not None
        self.close()
        kept = f"this process keeps its {self.noun} in memory"
        with contextlib.suppress(*_FAILURES):
            self._opened = _Opened(self, self.path, read_only=True)
            kept = f"its {self.noun} are used, and new ones kept in memory"
        self._is_done_without = self._opened is None
        if self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"{self.path}: {error}: {kept}. Set AICF_CACHE to a folder that can be written, with "
            "room for it",
            StoreWarning,
            stacklevel=6,
        )

    def _move_aside(self, why: str) -> None:
        """Where others have not done it yet: they are asked under a lock."""
        assert self.path is not None
        self.close()
        with _exclusive(self.path.with_suffix(".lock")):
            if self._is_readable():
                return
            aside = _free_name(self.path)
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        warnings.warn(
            f"{self.path}: {why}: its {self.noun} are lost; it is kept as {aside.name}, and a new "
            f"one is begun. {self.remedy}",
            StoreWarning,
            stacklevel=6,
        )

    def _is_readable(self) -> bool:
        assert self.path is not None
        try:
            opened = _Opened(self, self.path)
        except _FAILURES as error:
            return _code(error) not in _UNREADABLE
        try:
            return bool(opened.db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        except _FAILURES as error:
            return _code(error) not in _UNREADABLE
        finally:
            opened.close()


class _Opened:
    """A connection, and what tells that it is still one to the file of that name."""

    def __init__(self, of: Database, path: Path, read_only: bool = False) -> None:
        self.path, self.read_only, self.process = path, read_only, os.getpid()
        if read_only:
            # A database with a log beside it can only be opened so where nothing may be written.
            self.db = _connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
            self.db.execute(of.probe).fetchone()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.db = _connect(str(path), uri=False)
            try:
                _prepare(self.db, of)
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
    db = sqlite3.connect(
        name, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, uri=uri
    )
    db.text_factory = _read  # or one broken row would be an error of the file
    return db


def _read(data: bytes) -> str:
    return data.decode(errors="replace")


def _prepare(db: sqlite3.Connection, of: Database) -> None:
    """A log of what is written (WAL), in which a process that is killed leaves whole rows or none,
    and readers wait for nobody. That a power cut may take the last rows is no loss here."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(of.schema)
    db.execute(of.probe).fetchone()


def transaction(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], object]) -> bool:
    """All that `work` writes or, where the process is killed, nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        work(db)
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    return True


def _code(error: Exception) -> int | None:
    """SQLite's primary code; None of another error."""
    if isinstance(error, UnicodeDecodeError):
        return sqlite3.SQLITE_CORRUPT
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Let go by the system if the process is killed."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _free_name(path: Path) -> Path:
    numbers = iter(range(1, 1_000_000))
    return next(p for n in numbers if not (p := path.with_name(f"{path.name}.bad-{n}")).exists())
