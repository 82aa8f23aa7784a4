"""help, clean, -n and -q do no work; folders that cannot work are refused; faults stop a build."""

from __future__ import annotations

from pathlib import Path

import pytest

import checkout
from checkout import PACKAGE, Checkout

NOTHING = ("CC=/bin/false", "PYTHON=/bin/false", "CUDA=0")


@pytest.fixture
def bare(tmp_path: Path) -> Checkout:
    """A checkout in which nothing was built."""
    return checkout.create(tmp_path / "bare")


@pytest.mark.promise("DESIGN-6-light")
@pytest.mark.parametrize("goal", ["help", "clean"])
def test_light_goals_build_and_ask_nothing(bare: Checkout, goal: str) -> None:
    before = bare.times(".")
    made = bare.make(goal, *NOTHING)
    assert checkout.changed(before, bare.times(".")) == set()
    assert made.err == ""


@pytest.mark.promise("DESIGN-6-light")
def test_help_names_the_goals(bare: Checkout) -> None:
    said = bare.make("help").out
    for word in ("make test", "make demo", "make clean", "OP=", "CUDA_ARCHS"):
        assert word in said


@pytest.mark.promise("DESIGN-6-light")
@pytest.mark.parametrize("flags", [["-n"], ["-nj2"], ["--dry-run", "--no-print-directory"], ["-q"]])
def test_dry_runs_leave_everything_as_it_is(
    bare: Checkout, tree: Checkout, flags: list[str]
) -> None:
    for folder in (bare, tree):
        (folder.root / "ops.yaml").write_text(
            (folder.root / "ops.yaml").read_text(encoding="utf-8").replace("a + b.", "b + a."),
            encoding="utf-8",
        )
        before = folder.times(".")
        made = folder.make(*flags, fails=flags == ["-q"])
        assert checkout.changed(before, folder.times(".")) == set()
        assert "-q" in flags or "--templates templates --out generated ops.yaml" in made.out


@pytest.mark.promise("DESIGN-6-light")
def test_dry_runs_of_a_finished_build_print_nothing(tree: Checkout) -> None:
    assert tree.make("-n", "--no-print-directory").steps == []


def test_clean_leaves_the_sources(tree: Checkout) -> None:
    before = tree.times(".")
    tree.make("clean", *NOTHING)
    built = {p for p in before if p.startswith(("build/", "generated/"))}
    assert checkout.changed(before, tree.times(".")) == built
    assert not (tree.root / "build").exists()
    assert not (tree.root / "generated").exists()


@pytest.mark.parametrize("folder", ["kernels", "include"])
def test_clean_refuses_a_folder_that_is_no_build(tree: Checkout, folder: str) -> None:
    made = tree.make("clean", f"B={folder}", fails=True)
    assert made.err.startswith(f"error: {folder} is no folder of this build's making")
    assert (tree.root / folder).exists()


@pytest.mark.promise("B15")
@pytest.mark.parametrize(
    "given", ["B=bu ild", "PREFIX=/opt/my tools", "GEN=a b", "B=", "B=.", "B=generated"]
)
def test_folders_that_cannot_work_are_refused(bare: Checkout, given: str) -> None:
    before = bare.times(".")
    made = bare.make(given, fails=True)
    name = given.split("=")[0]
    assert len(made.err.strip().splitlines()) == 1
    assert f"{name}=" in made.err
    assert checkout.changed(before, bare.times(".")) == set()


@pytest.mark.promise("DESIGN-6-profile")
def test_profile_prints_the_command(bare: Checkout) -> None:
    said = bare.make("profile", "OP=add").out
    assert said.startswith("ncu ")
    assert "aicf::add::" in said
    assert "aicf::twice::" in bare.make("profile", "OP=twice").out
    assert "error: say which op" in bare.make("profile", fails=True).err
    for op in ("nope", "kernels", "ad"):
        assert f"error: ops.yaml has no op {op}" in bare.make("profile", f"OP={op}", fails=True).err


@pytest.mark.parametrize("goal", ["test-gpu", "bench-gpu", "bench-launch", "sanitize"])
def test_work_for_a_gpu_says_first_that_there_is_none(bare: Checkout, goal: str) -> None:
    before = bare.times(".")
    made = bare.make(goal, fails=True, environment={"CUDA_VISIBLE_DEVICES": "-1"})
    assert made.err.startswith("error: no CUDA device here")
    assert (made.steps, checkout.changed(before, bare.times("."))) == ([], set())


def test_a_fault_in_the_table_stops_and_changes_nothing(tree: Checkout) -> None:
    before = tree.times("generated") | tree.times("build")
    tree.edit("ops.yaml", "step, backend: cuda, layout: flat", "step, backend: cuda, layout: falt")
    made = tree.make(fails=True)
    assert "ops.yaml:" in made.err
    assert "falt" in made.err
    assert checkout.changed(before, tree.times("generated") | tree.times("build")) == set()
    tree.edit("ops.yaml", "falt", "flat")
    tree.make()
    assert tree.fresh()


def test_a_fault_in_a_kernel_keeps_the_old_module(tree: Checkout) -> None:
    tree.edit("kernels/add/add.c", "out[i] = a[i] + b[i];", "out[i] = a[i] + ;")
    made = tree.make(fails=True)
    assert "kernels/add/add.c" in made.err
    assert not list((tree.root / f"build/python/{PACKAGE}").glob("new-*"))
    tree.edit("kernels/add/add.c", "a[i] + ;", "b[i] + a[i];")
    tree.make()
    assert tree.call("add", 1.0, 2.0) == [3.0]
