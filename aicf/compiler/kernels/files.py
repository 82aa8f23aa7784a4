"""Hashes of files that are large or many, each read once for all processes.

What files hold is known as long as the system says that they are the same: by their place, size and
times, which whoever writes to them cannot leave as they are. What was known at the end of a process
is kept in a small file, which is a help and no more: a broken one is as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

FILE = "files-1.json"

_MOST = 1024  # that are kept; the newest
_SETTLED = 2e9  # ns after which a change is sure to have another time than the one before

_known: dict[str, tuple[str, str]] = {}  # by name: the stamp of its files and their hash
_read_from: set[Path] = set()
_unkept: set[str] = set()  # names that no file has yet


def digest(path: str) -> str:
    """Of one file."""
    return digest_of(path, [path], lambda: _hash(path))


def digest_of(name: str, paths: Sequence[str], read: Callable[[], str]) -> str:
    """What `read` gives of these files, once for as long as they are the same."""
    found = [os.stat(path) for path in paths]
    told = "\n".join(
        f"{path} {s.st_dev} {s.st_ino} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}"
        for path, s in zip(paths, found, strict=True)
    )
    stamp = hashlib.blake2b(told.encode(errors="surrogateescape"), digest_size=16).hexdigest()
    known = _known.get(name)
    if known is not None and known[0] == stamp:
        return known[1]
    changed = max((s.st_ctime_ns for s in found), default=0)
    is_settled = time.time_ns() - changed > _SETTLED  # asked before what may take long
    made = read()
    _known.pop(name, None)
    if is_settled:
        _known[name] = stamp, made
        _unkept.add(name)
    return made


def _hash(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


# ---- for other processes -------------------------------------------------------------------------


def recall(folder: Path | None) -> None:
    """Takes in what other processes knew, once a folder."""
    if folder is None or folder in _read_from:
        return
    _read_from.add(folder)
    for name, pair in _kept(folder).items():
        _known.setdefault(name, pair)


def keep(folder: Path | None) -> None:
    """For other processes, where there is something that they do not know."""
    if folder is None or not _unkept:
        return
    _unkept.clear()
    whole = list({**_kept(folder), **_known}.items())[-_MOST:]
    text = json.dumps(dict(whole))
    path = folder / f"{FILE}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{_sum(text)}\n{text}", encoding="utf-8")
        os.replace(path, folder / FILE)
    except (OSError, ValueError):  # a full disk has room for a part of it
        with contextlib.suppress(OSError):
            path.unlink()


def _kept(folder: Path) -> dict[str, tuple[str, str]]:
    try:
        checksum, _, text = (folder / FILE).read_text(encoding="utf-8").partition("\n")
        if checksum != _sum(text):
            return {}
        return {str(name): (str(a), str(b)) for name, (a, b) in json.loads(text).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _sum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
