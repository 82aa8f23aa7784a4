"""Choices on disk: nothing is lost, nothing broken is believed, no state of a file is fatal."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aicf.compiler.kernels import database as module
from aicf.compiler.kernels.key import Hard, Soft, Subject, bucket, order_text, sizes_text
from aicf.compiler.kernels.record import Record
from aicf.compiler.kernels.store import FILE, Store, StoreWarning, default_path
from compiler.records import HARD, SOFT, record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / FILE


def raw(path: Path, statement: str, *values: Any) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        return db.execute(statement, values).fetchall()


# ---- keys ----------------------------------------------------------------------------------------


@pytest.mark.promise("COMPILER-tune-sizes")
def test_buckets() -> None:
    """Each size is in one bucket, which is its own; none is far below or above its sizes."""
    seen = set()
    for n in [*range(5000), 2001, 2**31 - 1, 2**31 + 1, 2**40]:
        b = bucket(n)
        assert n <= b <= max(16, 1.25 * n), n
        assert bucket(b) == b, n
        seen.add(b)
    assert bucket(2001) == bucket(2048) == 2048
    assert bucket(1024) != bucket(2001)
    assert len([b for b in seen if b <= 4096]) == 17 + 4 * 8
    assert sizes_text((2001, 3)) == "2048x3"
    assert sizes_text(()) == "()"


@pytest.mark.promise("AICF-store-key")
def test_orders() -> None:
    assert order_text((4, 8), (8, 1)) == "01"
    assert order_text((4, 8), (1, 4)) == "10"
    assert order_text((4, 8), (16, 1)) == "01+"
    assert order_text((4, 8), (0, 1)) == "10="
    assert order_text((1, 8), (77, 1)) == "1"
    assert order_text((), ()) == ""


@pytest.mark.promise("AICF-store-key")
def test_texts_of_keys_parse_back() -> None:
    for part in (record().subject, HARD, SOFT, Soft('"', "\\", "ü", "")):
        assert type(part).parse(part.text()) == part
    for text in ("[]", "{}", '["a"]', "[1,2,3]", "x"):
        with pytest.raises(ValueError, match=r".+"):
            Hard.parse(text)
    assert SOFT.differs(SOFT) == ""
    told = SOFT.differs(Soft("H200", "570", "13.0", "1 GHz"))
    assert told == "driver 580, not 570, clocks 1980 MHz, not 1 GHz"


# ---- what it keeps -------------------------------------------------------------------------------


@pytest.mark.promise("AICF-store")
def test_what_is_put_is_found(path: Path) -> None:
    first, second = record(made=1), record("conv", made=2)
    with Store(path) as store:
        assert store.all() == []
        store.put_all([first, second])
        other = record(made=9, soft=Soft("A100", "580", "13.0", ""))
        store.put(other)
    with Store(path) as store:
        assert store.of_op("gemm") == [other, first]
        assert store.all() == [second, other, first]
        store.put(record(made=3, ranking=(("simt", 1.0),)))
        assert [r.kernel for r in store.of_op("gemm")] == ["fma", "simt"]
        assert store.broken() == 0


@pytest.mark.promise("COMPILER-tune-arch")
def test_another_arch_is_another_row(path: Path) -> None:
    with Store(path) as store:
        here, there = record(), record(hard=Hard("sm_80", "k1", "p1"), ranking=(("simt", 1.0),))
        store.put_all([here, there])
        assert {r.hard.arch: r.kernel for r in store.of_op("gemm")} == {
            "sm_90": "fma",
            "sm_80": "simt",
        }


@pytest.mark.promise("AICF-store")
def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AICF_CACHE", str(tmp_path))
    assert default_path() == tmp_path / FILE
    monkeypatch.delenv("AICF_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".cache" / "aicf" / FILE
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert default_path() is None
    store = Store()
    store.put(record())
    assert store.all() == [record()]


# ---- as JSON -------------------------------------------------------------------------------------


@pytest.mark.promise("AICF-store-json")
def test_export_and_load(path: Path, tmp_path: Path) -> None:
    with Store(path) as store, Store(tmp_path / "other" / FILE) as other:
        store.put_all([record(made=5), record("conv", made=5)])
        text = store.export()
        assert other.load(text, "x.json") == 2
        assert other.all() == store.all()
        newer = record(made=6, ranking=(("simt", 1.0),))
        other.put(newer)
        assert other.load(text, "x.json") == 0  # what is newer stays
        assert newer in other.all()


BAD: list[tuple[Callable[[Any], Any], str]] = [
    (lambda d: "{", "x.json: it is not JSON"),
    (lambda d: [], "x.json: it is not what `aicf cache export` writes"),
    (lambda d: {**d, "aicf choices": 2}, "x.json: it is not what"),
    (lambda d: {**d, "choices": {}}, "x.json: choices must be a list"),
    (lambda d: d["choices"].append(3) or d, r"x.json: choices\[1\]: it is no object"),
    (lambda d: d["choices"][0].pop("hard") and d, r"choices\[0\]: hard must be an object of arch"),
    (lambda d: d["choices"][0]["soft"].update(driver=5) or d, "soft.driver must be a text, not 5"),
    (lambda d: d["choices"][0].update(ranking=[]) or d, "ranking must be a list of"),
    (lambda d: d["choices"][0].update(ranking=[["a", -1]]) or d, r"ranking has \['a', -1\]"),
    (lambda d: d["choices"][0].update(ranking=[[0, 1]]) or d, r"ranking has \[0, 1\]"),
    (lambda d: d["choices"][0].update(model="1") or d, "model must be a number, not '1'"),
    (lambda d: d["choices"][0].update(model=10**400) or d, "model must be a number, not 1000"),
    (lambda d: d["choices"][0].update(ranking=[["a", 10**400]]) or d, "ranking has"),
    (lambda d: d["choices"][0].update(made=2**70) or d, "made must be a time, not 1180591"),
    (lambda d: d["choices"][0].update(made=-1) or d, "made must be a time, not -1"),
    (lambda d: "[" * 100000, "x.json: it is not JSON"),
]


@pytest.mark.promise("AICF-store-json")
@pytest.mark.parametrize("change, message", BAD)
def test_a_bad_file_is_refused_whole(path: Path, change: Any, message: str) -> None:
    with Store(path) as store:
        store.put(record())
        changed = change(json.loads(store.export()))
        text = changed if isinstance(changed, str) else json.dumps(changed)
        with pytest.raises(ValueError, match=message):
            store.load(text, "x.json")
        assert store.all() == [record()]


# ---- what is broken ------------------------------------------------------------------------------


@pytest.mark.promise("COMPILER-tune-truncated")
@pytest.mark.parametrize(
    "change",
    [
        "ranking = substr(ranking, 1, 9)",
        "ranking = '[[\"simt\",1.0]]'",
        "subject = '{}'",
        "soft = ''",
        "model = 'x'",
        "checksum = ''",
        "ranking = x'ff00'",
        "made = made + 1",
    ],
)
def test_a_broken_row_is_a_miss(path: Path, change: str) -> None:
    """However it is broken, and it takes no other row along."""
    with Store(path) as store:
        store.put_all([record(sizes="a 8x8"), record(sizes="a 9x9")])
    raw(path, f"UPDATE choices SET {change} WHERE subject LIKE '%9x9%'")
    with Store(path) as store:
        assert store.of_op("gemm") == [record(sizes="a 8x8")]
        assert store.broken() == 1
        assert len(json.loads(store.export())["choices"]) == 1
        store.put(record(sizes="a 9x9"))
        assert len(store.of_op("gemm")) >= 2


@pytest.mark.promise("COMPILER-tune-truncated")
@pytest.mark.parametrize("length", [1, 15, 50, 100, 1000, 4096, 5000, 8192, 12288, 40000])
def test_a_truncated_file(path: Path, length: int) -> None:
    """It is read as far as it is right, or moved aside; then all works."""
    records = [record(sizes=f"a {i}x{i}") for i in range(300)]
    with Store(path) as store:
        store.put_all(records)
    with path.open("r+b") as file:
        file.truncate(length)
    with warnings.catch_warnings(record=True) as caught, Store(path) as store:
        warnings.simplefilter("always")
        assert set(store.all()) <= set(records)
        store.put(record("conv"))
        assert store.of_op("conv") == [record("conv")]
    assert all(w.category is StoreWarning for w in caught)
    with Store(path) as store:
        assert store.of_op("conv") == [record("conv")]


@pytest.mark.promise("AICF-store-unreadable")
@pytest.mark.parametrize(
    "content", [b"not a database" * 400, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_an_unreadable_file_is_moved_aside(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with Store(path) as store, pytest.warns(StoreWarning, match="is kept as .*bad-1"):
        assert store.all() == []
    assert path.with_name(f"{FILE}.bad-1").read_bytes() == content
    with Store(path) as store, warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(record())
        assert store.all() == [record()]


@pytest.mark.promise("AICF-store-unreadable")
def test_a_database_of_somebody_else_is_moved_aside(path: Path) -> None:
    path.parent.mkdir()
    raw(path, "CREATE TABLE choices (op TEXT)")
    with Store(path) as store:
        with pytest.warns(StoreWarning, match="no such column"):
            store.put(record())
        assert store.all() == [record()]


@pytest.mark.promise("AICF-store-unreadable")
def test_others_notice_that_it_was_moved(path: Path) -> None:
    with Store(path) as first, Store(path) as second:
        first.put(record())
        os.replace(path, path.with_name("aside"))
        second.put(record("conv"))
        assert first.all() == [record("conv")]
        first.put(record())
        assert second.of_op("gemm") == [record()]


# ---- what cannot be written ----------------------------------------------------------------------


def quiet(store: Store, records: list[Record]) -> list[str]:
    """What it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for r in records:
            store.put(r)
            assert r in store.of_op(r.subject.op)
    return [str(w.message) for w in caught]


@pytest.mark.promise("AICF-store-disk")
def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / FILE)
    (said,) = quiet(store, [record(), record("conv")])
    assert "keeps its choices in memory. Set AICF_CACHE to a folder that can be written" in said
    assert len(store.all()) == 2


@pytest.mark.promise("AICF-store-disk")
def test_a_full_disk(path: Path) -> None:
    """SQLite is told that there is no more room; what was there is still read."""
    with Store(path) as store:
        store.put(record())
        db = store._file.connection()
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        many = [record(sizes=f"a {i}x{'9' * 200}") for i in range(40)]
        (said,) = quiet(store, many)
        assert "database or disk is full: its choices are used, and new ones kept in memory" in said
        assert set(store.all()) == {record(), *many}
    with Store(path) as store:
        assert record() in store.all()


@pytest.mark.promise("AICF-store-disk")
def test_a_file_that_may_not_grow(path: Path) -> None:
    """A real one: the system refuses to write beyond a limit."""
    code = f"""
        import resource, sys, warnings
        sys.path[:0] = {[str(ROOT / "tests"), *sys.path]!r}
        from pathlib import Path
        from aicf.compiler.kernels.store import Store
        from compiler.records import record
        store = Store(Path({str(path)!r}))
        store.put(record())
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        many = [record(sizes="a %dx%s" % (i, "9" * 999)) for i in range(200)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for r in many:
                store.put(r)
        assert set(store.all()) == {{record(), *many}}
        print(len(caught), caught[0].message)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 "), done.stdout
    with Store(path) as store:
        assert record() in store.all()


@pytest.mark.promise("AICF-store-disk")
def test_a_cache_that_is_read_only() -> None:
    """Its choices are used. root may write anywhere: the process gives that up."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    path = folder / FILE
    with Store(path) as store:
        store.put(record())
    path.chmod(0o444)
    folder.chmod(0o555)

    def check(results: Any) -> None:
        if os.geteuid() == 0:
            os.setuid(65534)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            store = Store(path)
            store.put(record("conv"))
            store.close()
            store.put(record("conv", made=2))
            results.put((len(store.all()), [str(w.message) for w in caught]))

    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=check, args=(results,))
    process.start()
    found, said = results.get(timeout=60)
    process.join()
    folder.chmod(0o755)
    shutil.rmtree(folder)
    assert found == 2
    assert len(said) == 1
    assert "new ones kept in memory" in said[0]


# ---- many processes ------------------------------------------------------------------------------


def write_until_killed(path: Path, name: str, sent: Any) -> None:
    """Puts one choice after another, and tells of each once it is there."""
    store = Store(path)
    for i in range(1_000_000):
        store.put(record(sizes=f"{name} {i}"))
        os.write(sent, f"{name} {i}\n".encode())


@pytest.mark.promise("COMPILER-tune-writers", "MARK-8-store")
def test_eight_writers_killed_at_any_time(path: Path) -> None:
    """Of what was said to be there nothing is lost, and nothing is unreadable."""
    rng = random.Random(7)
    context = multiprocessing.get_context("fork")
    running: list[tuple[Any, Any]] = []
    told: list[bytes] = []

    def start(number: int) -> None:
        reader, writer = os.pipe()
        process = context.Process(target=write_until_killed, args=(path, f"w{number}", writer))
        process.start()
        os.close(writer)
        running.append((process, reader))

    def reap(process: Any, reader: int) -> None:
        process.join()
        with os.fdopen(reader, "rb") as file:
            told.append(file.read())

    def written() -> int:
        with Store(path) as store:
            return len(store.all())

    for number in range(8):
        start(number)
    deadline = time.monotonic() + 60
    for number in itertools.count(8):
        if number >= 40 and (written() > 400 or time.monotonic() > deadline):
            break
        time.sleep(rng.uniform(0.0, 0.12))
        process, reader = running.pop(rng.randrange(len(running)))
        os.kill(process.pid, signal.SIGKILL)
        reap(process, reader)
        start(number)
    for process, reader in running:
        os.kill(process.pid, signal.SIGKILL)
        reap(process, reader)
    promised = {line for text in told for line in text.decode().split("\n")[:-1]}
    with warnings.catch_warnings(), Store(path) as store:
        warnings.simplefilter("error")
        there = {r.subject.sizes for r in store.all()}
        assert store.broken() == 0
    assert len(promised) > 300, "the writers hardly wrote"
    assert promised <= there, f"{len(promised - there)} of {len(promised)} are lost"
    assert len(there) <= len(promised) + len(told)
    assert raw(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.promise("COMPILER-tune-writers")
def test_two_who_meet_an_unreadable_file(path: Path) -> None:
    """One moves it aside; what the other wrote since is not moved after it."""
    path.parent.mkdir()
    path.write_bytes(b"x" * 9999)

    def put(number: int) -> None:
        warnings.simplefilter("ignore")
        with Store(path) as store:
            store.put(record(sizes=f"{number}"))

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=put, args=(n,)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with Store(path) as store:
        assert {r.subject.sizes for r in store.all()} == {str(n) for n in range(8)}
    assert len(list(path.parent.glob("*.bad-*"))) == 1


@pytest.mark.promise("COMPILER-tune-writers")
def test_a_writer_waits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where SQLite answers at once that the file is locked, as while a log is recovered."""
    monkeypatch.setattr(module, "_connect", lambda name, uri: sqlite3.connect(
        name, timeout=0, isolation_level=None, check_same_thread=False, uri=uri))  # fmt: skip
    path.parent.mkdir()
    with Store(path) as store, contextlib.closing(sqlite3.connect(path)) as other:
        store.put(record())
        other.isolation_level = None
        other.execute("BEGIN EXCLUSIVE")
        writer = threading.Thread(target=store.put, args=(record("conv"),))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            writer.start()
            time.sleep(0.2)
            assert writer.is_alive()
            other.execute("COMMIT")
            writer.join()
        assert raw(path, "SELECT op FROM choices ORDER BY op") == [("conv",), ("gemm",)]


@pytest.mark.promise("COMPILER-tune-writers")
def test_after_a_fork(path: Path) -> None:
    with Store(path) as store:
        store.put(record())

        def child() -> None:
            store.put(record("conv"))
            os._exit(0 if len(store.all()) == 2 else 1)

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0
        assert len(store.all()) == 2


def test_subjects_are_equal_by_their_parts() -> None:
    assert record().subject == Subject("gemm", "f32", "a 64x64", "a 01", "act=relu", "fma simt")
