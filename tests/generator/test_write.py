"""The write stage: all or nothing, whatever happens, and nothing that did not change."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from generator.program import Opgen
from generator.tables import TEMPLATES, files, generate, row, table

HERE = Path(__file__).resolve().parent
State = dict[str, bytes]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that kills opgen, or fails it, at the n-th call that changes files."""
    target = tmp_path_factory.mktemp("faulty") / "faulty.so"
    command: list[str | Path] = [
        "gcc",
        "-shared",
        "-fPIC",
        "-Wall",
        "-Wextra",
        "-Werror",
        HERE / "faulty.c",
    ]
    subprocess.run([*command, "-o", target, "-ldl"], check=True)
    return target


def run(
    opgen: Opgen,
    source: Path,
    out: Path,
    env: dict[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [opgen.path, "--templates", TEMPLATES, "--out", out, source],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
        preexec_fn=before,
    )


def times(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and change time of every file: a file that was written anew differs."""
    found = {p: p.stat() for p in folder.rglob("*") if p.is_file()}
    return {str(p.relative_to(folder)): (s.st_ino, s.st_ctime_ns) for p, s in found.items()}


def expected(opgen: Opgen, source: Path, folder: Path) -> State:
    generate(opgen, source, folder)
    return files(folder)


# ---- what is written ---------------------------------------------------------------------------


def test_second_run_writes_nothing(opgen: Opgen, tmp_path: Path) -> None:
    source, out = table(tmp_path, row("relu"), row("abs")), tmp_path / "out"
    generate(opgen, source, out)
    before = times(out)
    generate(opgen, source, out)
    assert times(out) == before


def test_touched_input_writes_nothing_but_the_stamp(opgen: Opgen, tmp_path: Path) -> None:
    source, out = table(tmp_path, row("relu"), row("abs")), tmp_path / "out"
    generate(opgen, source, out)
    before = times(out)
    source.write_text("# a comment\n" + source.read_text())
    generate(opgen, source, out)
    after = times(out)
    assert {name for name in after if after[name] != before[name]} == {".opgen"}


def test_an_edit_writes_the_files_of_its_op(opgen: Opgen, tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate(opgen, table(tmp_path, row("relu"), row("abs")), out)
    before = files(out)
    generate(opgen, table(tmp_path, row("relu"), row("abs", "out = |x|.")), out)
    after = files(out)
    changed = {name for name in after if after[name] != before[name]}
    per_op = {name for name in changed if "abs" in name}
    assert per_op == {
        "docs/abs.md", "modules/abs.c", "ops/abs_op.c", "python/demo/abs.pyi",
    }  # fmt: skip
    assert not any("relu" in name for name in changed)
    # A doc is in no launcher header, so its edit compiles no kernel.
    assert before["include/aicf_ops/abs.h"] == after["include/aicf_ops/abs.h"]


@pytest.mark.promise("B3")
def test_a_dropped_op_leaves_nothing(opgen: Opgen, tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate(opgen, table(tmp_path, row("relu"), row("abs")), out)
    mine = out / "modules" / "mine.c"
    mine.write_text("/* not opgen's */\n")
    generate(opgen, table(tmp_path, row("relu")), out)
    assert not any("abs" in name for name in files(out))
    assert mine.read_text() == "/* not opgen's */\n"
    assert files(out) == {
        **expected(opgen, table(tmp_path, row("relu")), tmp_path / "other"),
        "modules/mine.c": mine.read_bytes(),
    }


def test_a_dropped_package_takes_its_folder(opgen: Opgen, tmp_path: Path) -> None:
    out = tmp_path / "out"
    source = table(tmp_path, row("relu"))
    generate(opgen, source, out)
    source.write_text(source.read_text().replace("package: demo", "package: other"))
    generate(opgen, source, out)
    assert [p.name for p in (out / "python").iterdir()] == ["other"]


def test_an_edited_file_of_a_dropped_op_is_kept_and_named(opgen: Opgen, tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate(opgen, table(tmp_path, row("relu"), row("abs")), out)
    (out / "modules/abs.c").write_text("mine\n")
    said = run(opgen, table(tmp_path, row("relu")), out)
    assert said.returncode == 0
    kept = "kept, though its op is gone: it was edited"
    assert said.stderr == f"opgen: {out}/modules/abs.c: {kept}\n"
    assert (out / "modules/abs.c").read_text() == "mine\n"


def test_a_stamp_cannot_reach_out_of_the_folder(opgen: Opgen, tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate(opgen, table(tmp_path, row("relu"), row("abs")), out)
    stamp = out / ".opgen"
    victim = tmp_path / "abs.c"
    victim.write_bytes((out / "modules/abs.c").read_bytes())
    absolute = stamp.read_text().replace("modules/abs.c", str(victim))
    for text in (stamp.read_text().replace("modules/abs.c", "../abs.c"), absolute):
        stamp.write_text(text)
        generate(opgen, table(tmp_path, row("relu")), out)
        assert victim.exists()


@pytest.mark.promise("DESIGN-6-deleted-file")
@pytest.mark.parametrize("harm", ["delete", "edit", "edit_unseen", "truncate", "folder", "link"])
def test_a_harmed_file_comes_back(opgen: Opgen, tmp_path: Path, harm: str) -> None:
    source, out = table(tmp_path, row("relu"), row("abs")), tmp_path / "out"
    right = expected(opgen, source, out)
    path = out / "ops/abs_op.c"
    if harm == "edit_unseen":  # the same size and modification time
        was = path.stat()
        path.write_bytes(path.read_bytes().replace(b"AICF_F32", b"AICF_F64"))
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    elif harm == "edit":
        path.write_text("mine\n")
    elif harm == "truncate":
        path.write_text("")
    else:
        path.unlink()
    if harm == "folder":
        for other in (out / "ops").iterdir():
            other.unlink()
        (out / "ops").rmdir()
    if harm == "link":
        path.symlink_to("/dev/null")
    generate(opgen, source, out)
    assert files(out) == right
    assert not path.is_symlink()


@pytest.mark.parametrize("harm", ["missing", "garbage", "foreign"])
def test_a_lost_stamp_is_made_again(opgen: Opgen, tmp_path: Path, harm: str) -> None:
    source, out = table(tmp_path, row("relu")), tmp_path / "out"
    right = expected(opgen, source, out)
    stamp = (out / ".opgen").read_bytes()
    if harm == "missing":
        (out / ".opgen").unlink()
    else:
        other = b"\x00\xff\n" * 40 if harm == "garbage" else b"opgen stamp 9 x\n"
        (out / ".opgen").write_bytes(other)
    before = {name: t for name, t in times(out).items() if name != ".opgen"}
    generate(opgen, source, out)
    assert files(out) == right
    assert (out / ".opgen").read_bytes() == stamp
    assert {name: t for name, t in times(out).items() if name != ".opgen"} == before


def test_a_new_folder_and_those_above_it(opgen: Opgen, tmp_path: Path) -> None:
    source = table(tmp_path, row("relu"))
    generate(opgen, source, tmp_path / "a/b/c")
    generate(opgen, source, Path(f"{tmp_path}/d/"))
    assert files(tmp_path / "a/b/c") == files(tmp_path / "d")
    assert [p.name for p in (tmp_path / "a/b").iterdir()] == ["c"]


def test_an_empty_folder_and_a_linked_one(opgen: Opgen, tmp_path: Path) -> None:
    source = table(tmp_path, row("relu"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    generate(opgen, source, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert files(tmp_path / "empty") == expected(opgen, source, tmp_path / "other")


# ---- the same everywhere -----------------------------------------------------------------------


@pytest.mark.promise("G11")
def test_output_depends_on_the_input_alone(opgen: Opgen, tmp_path: Path) -> None:
    source = table(tmp_path / "here", row("relu", "naïve"), row("abs"))
    right = expected(opgen, source, tmp_path / "right")
    assert str(tmp_path).encode() not in b"".join(right.values())
    stamp = (tmp_path / "right/.opgen").read_bytes()
    for i, (env, mask, name) in enumerate(
        [
            ({"LC_ALL": "C"}, 0o022, "ops.yaml"),
            ({"LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8"}, 0o077, "other.yaml"),
            ({"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo"}, 0o000, "x y.yaml"),
            ({"TZ": "UTC+12", "HOME": "/nowhere", "SOURCE_DATE_EPOCH": "1"}, 0o027, "z.yaml"),
            ({"MALLOC_PERTURB_": "165"}, 0o022, "ops.yaml"),
        ]
    ):
        there = tmp_path / f"there {i}"
        there.mkdir()
        (there / name).write_bytes(source.read_bytes())
        subprocess.run(
            [opgen.path, "--templates", TEMPLATES, "--out", "out", name],
            env={**os.environ, **env},
            cwd=there,
            check=True,
            umask=mask,
        )
        assert files(there / "out") == right
        assert (there / "out/.opgen").read_bytes() == stamp
        assert (there / "out/ops.mk").stat().st_mode & 0o777 == 0o666 & ~mask


# ---- killed, and failing -----------------------------------------------------------------------


def strike(
    opgen: Opgen, faulty: Path, source: Path, out: Path, at: int, **env: str
) -> subprocess.CompletedProcess[str]:
    return run(opgen, source, out, {"LD_PRELOAD": str(faulty), "FAULTY_AT": str(at), **env})


def leftovers(folder: Path) -> list[str]:
    return [p.name for p in folder.rglob("*") if "opgen-" in p.name or p.name == ".opgen.work"]


@pytest.mark.promise("B10")
def test_killed_at_any_instant(opgen: Opgen, faulty: Path, tmp_path: Path) -> None:
    """Every file is old or new, and the next run makes it right and leaves nothing behind."""
    old_table = table(tmp_path / "a", row("relu"), row("gone"))
    new_table = table(tmp_path / "b", row("relu", "changed"), row("more"))
    old = expected(opgen, old_table, tmp_path / "old")
    new = expected(opgen, new_table, tmp_path / "new")
    at, mixed = 0, 0
    while True:
        at += 1
        out = tmp_path / f"out{at}"
        generate(opgen, old_table, out)
        said = strike(opgen, faulty, new_table, out, at)
        if said.returncode == 0:
            break
        assert said.returncode == -signal.SIGKILL, said.stderr
        for name, content in files(out).items():
            if "opgen-new" not in name and not name.startswith(".opgen"):
                assert content in (old.get(name), new.get(name)), name
        mixed += files(out) not in (old, new)
        # Whichever table comes next, and even if the killed run's is never seen again.
        after, right = ((old_table, old), (new_table, new))[at % 2]
        generate(opgen, after, out)
        assert files(out) == right, at
        assert leftovers(out) == [], at
    assert at > 60
    assert mixed > 10
    assert files(out) == new


@pytest.mark.promise("B10")
def test_a_new_folder_is_whole_or_not_there(opgen: Opgen, faulty: Path, tmp_path: Path) -> None:
    source = table(tmp_path, row("relu"))
    new = expected(opgen, source, tmp_path / "new")
    at = 0
    while True:
        at += 1
        out = tmp_path / "out" / str(at) / "gen"
        said = strike(opgen, faulty, source, out, at)
        if said.returncode == 0:
            break
        assert not out.exists() or files(out) == new
        generate(opgen, source, out)
        assert files(out) == new
        assert leftovers(tmp_path / "out") == []
    assert at > 30


@pytest.mark.promise("B10")
@pytest.mark.parametrize(
    "call, error",
    [("openat", errno.EACCES), ("write", errno.ENOSPC), ("close", errno.EDQUOT),
     ("mkdirat", errno.EROFS)],
)  # fmt: skip
def test_a_failure_changes_nothing(
    opgen: Opgen, faulty: Path, tmp_path: Path, call: str, error: int
) -> None:
    old_table = table(tmp_path / "a", row("relu"), row("gone"))
    new_table = table(tmp_path / "b", row("relu", "changed"), row("more"))
    new_table.write_text(new_table.read_text().replace("package: demo", "package: other"))
    out, at, failed = tmp_path / "out", 0, 0
    old = expected(opgen, old_table, out)
    before = times(out)
    while True:
        at += 1
        env = {"FAULTY_CALL": call, "FAULTY_ERROR": str(error)}
        said = strike(opgen, faulty, new_table, out, at, **env)
        if said.returncode == 0 and call == "close" and at < 80:
            generate(opgen, old_table, out)  # of a file that was only read: harmless
            before = times(out)
            continue
        if said.returncode == 0:
            break
        failed += 1
        assert said.returncode == 1
        assert len(said.stderr.splitlines()) == 1
        assert os.strerror(error) in said.stderr
        assert (files(out), times(out)) == (old, before), said.stderr
        assert leftovers(out) == []
    assert failed >= (1 if call == "mkdirat" else 10)


def test_a_full_disk_of_a_new_folder(opgen: Opgen, faulty: Path, tmp_path: Path) -> None:
    source, at = table(tmp_path, row("relu")), 0
    while True:
        at += 1
        out = tmp_path / "out"
        env = {"FAULTY_CALL": "write", "FAULTY_ERROR": str(errno.ENOSPC)}
        said = strike(opgen, faulty, source, out, at, **env)
        if said.returncode == 0:
            break
        assert said.returncode == 1
        assert sorted(p.name for p in tmp_path.iterdir()) == ["ops.yaml"]
    assert at > 10


@pytest.mark.promise("B10")
def test_a_file_size_limit(opgen: Opgen, tmp_path: Path) -> None:
    out = tmp_path / "out"
    old = expected(opgen, table(tmp_path, row("relu")), out)
    source = table(tmp_path, row("relu", "x" * 5000))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    said = run(opgen, source, out, before=limit)
    assert said.returncode == 1
    assert os.strerror(errno.EFBIG) in said.stderr
    assert files(out) == old
    assert leftovers(out) == []


def test_a_folder_in_the_place_of_a_file(opgen: Opgen, tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate(opgen, table(tmp_path, row("relu")), out)
    (out / "ops.mk").unlink()
    (out / "ops.mk").mkdir()
    before = times(out)
    said = run(opgen, table(tmp_path, row("relu"), row("abs")), out)
    assert said.returncode == 1
    assert said.stderr == f"opgen: {out}/ops.mk: cannot be written: Is a directory\n"
    assert times(out) == before


def test_a_file_in_the_place_of_a_folder(opgen: Opgen, tmp_path: Path) -> None:
    source = table(tmp_path, row("relu"))
    (tmp_path / "out").write_text("mine")
    said = run(opgen, source, tmp_path / "out")
    assert (said.returncode, (tmp_path / "out").read_text()) == (1, "mine")
    assert said.stderr == f"opgen: {tmp_path}/out: cannot be opened: Not a directory\n"
    said = run(opgen, source, tmp_path / "out/deeper")
    assert said.returncode == 1
    assert (tmp_path / "out").read_text() == "mine"


def test_a_faulty_table_changes_nothing(opgen: Opgen, tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate(opgen, table(tmp_path, row("relu")), out)
    before = times(out)
    said = run(opgen, table(tmp_path, row("relu"), row("relu")), out)
    assert said.returncode == 1
    assert times(out) == before


def test_many_at_once(opgen: Opgen, tmp_path: Path) -> None:
    """Runs on one folder wait for each other; the last one's output stands, whole."""
    tables = [table(tmp_path / str(i), row("relu", f"doc {i}"), row(f"op{i}")) for i in range(4)]
    right = [expected(opgen, t, tmp_path / f"right{i}") for i, t in enumerate(tables)]
    out = tmp_path / "out"
    running = [
        subprocess.Popen([opgen.path, "--templates", TEMPLATES, "--out", out, tables[i % 4]])
        for i in range(24)
    ]
    assert [p.wait() for p in running] == [0] * 24
    assert files(out) in right
    assert leftovers(tmp_path) == []
