"""Builds side by side, interrupted, short of disk, and from other folders."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import checkout
from checkout import PACKAGE, Checkout, script


def digests(root: Path, *folders: str) -> dict[str, str]:
    """The hash of every file below the folders."""
    found = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = str(path.relative_to(root))
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def drop_ops(tree: Checkout) -> None:
    """Removes all that came from the table."""
    for folder in (
        "generated",
        "build/ops",
        "build/modules",
        "build/kernels",
        f"build/python/{PACKAGE}",
    ):
        shutil.rmtree(tree.root / folder, ignore_errors=True)


@pytest.mark.promise("B8")
def test_opgen_runs_once_in_a_parallel_build(tree: Checkout, tmp_path: Path) -> None:
    log = tmp_path / "log"
    opgen = script(tmp_path / "opgen", f'echo run >>{log}\nexec build/opgen "$@"\n')
    expected = digests(tree.root, "generated", f"build/python/{PACKAGE}")
    for _ in range(5):
        drop_ops(tree)
        log.unlink(missing_ok=True)
        tree.make("-j32", f"OPGEN={opgen}")
        assert log.read_text(encoding="utf-8").splitlines() == ["run"]
        assert digests(tree.root, "generated", f"build/python/{PACKAGE}") == expected


@pytest.mark.promise("B10")
def test_a_build_killed_at_any_moment_is_finished_by_the_next(tree: Checkout) -> None:
    dice = random.Random(7)
    for _ in range(8):
        drop_ops(tree)
        (tree.root / "build/python/aicf_rt/_core.abi3.so").unlink()
        (tree.root / "build/opgen").unlink()
        running = subprocess.Popen(
            ["make", "-j2", *(f"{k}={v}" for k, v in tree.variables.items())],
            cwd=tree.root,
            env=tree.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(dice.uniform(0.0, 2.0))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        tree.make("-j2")
        assert tree.call("add", 1.0, 2.0) == [3.0]
        assert tree.call("thrice", 2.0) == [6.0]
        assert tree.fresh()


@pytest.mark.promise("B10")
def test_a_full_disk_leaves_nothing_that_is_taken_later(tree: Checkout, tmp_path: Path) -> None:
    expected = digests(tree.root, f"build/python/{PACKAGE}")
    drop_ops(tree)
    limited = script(tmp_path / "limited", 'ulimit -f "$1"; shift; trap "" XFSZ; exec "$@"\n')
    given = [f"{k}={v}" for k, v in tree.variables.items()]
    for blocks in (1, 4, 12, 20, 28):
        run = subprocess.run(
            [str(limited), str(blocks), "make", "-k", "-j2", *given],
            cwd=tree.root,
            env=tree.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode != 0, f"{blocks} blocks sufficed"
    tree.make("-j2")
    assert digests(tree.root, f"build/python/{PACKAGE}") == expected
    assert tree.fresh()


@pytest.mark.promise("DESIGN-6-two-builds")
def test_two_builds_at_once_share_generated(tree: Checkout) -> None:
    for build in ("one", "two"):
        checkout.copy_tree(tree.root / "build", tree.root / build)
        shutil.rmtree(tree.root / build / "ops")
        (tree.root / build / "opgen").unlink()
    shutil.rmtree(tree.root / "generated")
    running = [
        subprocess.Popen(
            ["make", "-j2", f"B={build}", *(f"{k}={v}" for k, v in tree.variables.items())],
            cwd=tree.root,
            env=tree.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for build in ("one", "two")
    ]
    for process in running:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
    for build in ("one", "two"):
        assert tree.call("add", 1.0, 2.0, build=build) == [3.0]
    tree.make("B=one")
    assert tree.fresh("B=one")


@pytest.mark.promise("DESIGN-6-two-builds")
def test_two_builds_generate_one_after_the_other(tree: Checkout, tmp_path: Path) -> None:
    """They write into one generated/: the generator sees no other at work."""
    log = tmp_path / "log"
    opgen = script(
        tmp_path / "opgen",
        f"mkdir {tmp_path}/busy 2>/dev/null || echo two >>{log}\n"
        'sleep 0.5; build/opgen "$@"; status=$?\n'
        f"rmdir {tmp_path}/busy; echo one >>{log}; exit $status\n",
    )
    (tree.root / "generated/made").unlink()
    command = ["make", "generated/made", f"OPGEN={opgen}"]
    running = [
        subprocess.Popen(
            [*command, f"B={build}", *(f"{k}={v}" for k, v in tree.variables.items())],
            cwd=tree.root,
            env=tree.environment(),
            stdout=subprocess.DEVNULL,
        )
        for build in ("one", "two")
    ]
    assert [process.wait(timeout=60) for process in running] == [0, 0]
    assert log.read_text(encoding="utf-8").split() == ["one", "one"]


@pytest.mark.promise("B15", "DESIGN-6-identical", "B13")
def test_odd_path_gives_the_same_bytes(built_once: Checkout, tmp_path: Path) -> None:
    odd = built_once.sources(tmp_path / "an odd 'path' with $HOME, #1 & \"ümlaut\"" / "aicf")
    odd.make("-j2")
    assert odd.fresh()
    assert odd.call("shift", 1.0) == [11.0]
    kinds = ("build/python", "build/ops", "build/modules", "build/kernels", "build/runtime")
    here, there = (
        digests(odd.root, *kinds, "generated"),
        digests(built_once.root, *kinds, "generated"),
    )
    here.pop("generated/.lock", None)
    there.pop("generated/.lock", None)
    assert here == there
    shutil.rmtree(odd.root)


@pytest.mark.promise("DESIGN-6-identical")
def test_outputs_name_no_folder_of_the_build(tree: Checkout) -> None:
    for path in [*(tree.root / "build").rglob("*.so*"), *(tree.root / "generated").rglob("*")]:
        if path.is_file():
            assert str(tree.root).encode() not in path.read_bytes(), path


@pytest.mark.promise("DESIGN-6-opgen-empty")
def test_generated_builds_without_opgen(tree: Checkout) -> None:
    shutil.rmtree(tree.root / "generator")
    (tree.root / "build/opgen").unlink()
    assert tree.make("OPGEN=").steps == []
    tree.edit("kernels/common/amount.h", "AMOUNT 10", "AMOUNT 20")
    tree.make("OPGEN=")
    assert tree.call("shift", 1.0) == [21.0]
    shutil.rmtree(tree.root / "generated")
    made = tree.make("OPGEN=", fails=True)
    assert "there is no generated/ops.mk" in made.err


@pytest.mark.promise("DESIGN-6-opgen-empty")
def test_dist_packs_a_tree_that_builds_without_libyaml(tree: Checkout, tmp_path: Path) -> None:
    made = tree.make("dist")
    tarball = tree.root / made.out.strip().splitlines()[-1]
    first = tarball.read_bytes()
    tree.make("dist")
    assert tarball.read_bytes() == first, "the same tree packed twice differs"
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xf", tarball, "-C", tmp_path / "unpacked"], check=True)
    (root,) = (tmp_path / "unpacked").iterdir()
    unpacked = Checkout(root)
    no_yaml = script(
        tmp_path / "cc",
        'case "$*" in *yaml*) echo no yaml here >&2; exit 1;; esac\nexec gcc "$@"\n',
    )
    made = unpacked.make("-j2", "OPGEN=", f"CC={no_yaml}", "OPS=add")
    assert not [p for p in made.verbs("CC") if p.startswith("generator/")]
    assert [p for p in made.verbs("LINK") if PACKAGE in p] == [
        f"build/python/{PACKAGE}/add.abi3.so"
    ]
    assert unpacked.call("add", 1.0, 2.0) == [3.0]
    unpacked.make("clean")
    assert (root / "generated/ops.mk").exists()
