"""A change of compiler, options or Python rebuilds exactly what is made with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import checkout
from checkout import OPS, PACKAGE, Checkout, script


def kinds(made: checkout.Made) -> set[str]:
    """The first folders of what was compiled: generator, generated, kernels, runtime."""
    return {p.split("/")[0] + "/" + p.split("/")[1] for p in made.verbs("CC", "NVCC")}


@pytest.mark.promise("DESIGN-6-flags")
def test_cflags_recompile_all_c(tree: Checkout) -> None:
    flags = "CFLAGS=-DNOTHING='\"a, $$ (b) #c\"'"
    made = tree.make("-j2", flags)
    compiled = made.verbs("CC")
    assert len(compiled) == len(list((tree.root / "build").rglob("*.o")))
    assert tree.fresh(flags)
    assert not tree.fresh()
    assert tree.call("add", 1.0, 2.0) == [3.0]


@pytest.mark.promise("DESIGN-6-flags")
def test_ldflags_only_link(tree: Checkout) -> None:
    made = tree.make("-j2", "LDFLAGS=-Wl,--hash-style=gnu")
    assert made.verbs("CC") == []
    assert {Path(p).name for p in made.verbs("LINK")} == {
        *(f"{op}.abi3.so" for op in OPS),
        "_core.abi3.so",
        "libaicf.so.1",
        "opgen",
    }
    assert tree.fresh("LDFLAGS=-Wl,--hash-style=gnu")


@pytest.mark.promise("DESIGN-6-flags")
def test_another_compiler_of_two_words(tree: Checkout, tmp_path: Path) -> None:
    log = tmp_path / "log"
    wrapper = script(tmp_path / "wrap", f'echo "$*" >>{log}\nexec "$@"\n')
    made = tree.make("-j2", f"CC={wrapper} gcc", "kernels", "build/ops/add_op.o", "build/opgen")
    sources = [f"generator/{p.name}" for p in (tree.root / "generator").glob("*.c")]
    kernels = [f"kernels/{k}.c" for k in ("add/add", "hop/hop", "shift/shift")]
    times = [f"kernels/times/times.c for {op}" for op in ("thrice", "twice")]
    assert made.verbs("CC") == sorted(["generated/ops/add_op.c", *sources, *kernels, *times])
    said = log.read_text(encoding="utf-8").splitlines()
    assert sum(" -c " in line for line in said) == len(made.verbs("CC"))
    assert all(line.startswith("gcc ") for line in said)


@pytest.mark.promise("DESIGN-6-flags")
def test_another_python_recompiles_what_includes_its_headers(
    tree: Checkout, tmp_path: Path
) -> None:
    include = tmp_path / "include"
    shutil.copytree(sysconfig.get_paths()["include"], include)
    answer = f"echo .abi3.so -DPy_LIMITED_API=0x030b0000 {include}; exit 0"
    other = script(
        tmp_path / "python",
        f'case "$*" in *extension_suffixes*) {answer};; esac\nexec {sys.executable} "$@"\n',
    )
    made = tree.make("-j2", f"PYTHON={other}")
    assert kinds(made) == {"generated/modules", "runtime/core"}
    assert {Path(p).name for p in made.verbs("LINK")} == {
        *(f"{op}.abi3.so" for op in OPS),
        "_core.abi3.so",
    }
    assert made.verbs("OPGEN") == []


@pytest.mark.promise("DESIGN-6-flags")
def test_the_same_python_by_another_name_changes_nothing(tree: Checkout, tmp_path: Path) -> None:
    other = script(tmp_path / "python", f'exec {sys.executable} "$@"\n')
    assert tree.make(f"PYTHON={other}").steps == []


@pytest.mark.promise("DESIGN-6-flags", "I7")
def test_a_python_with_its_own_abi_replaces_the_modules(tree: Checkout, tmp_path: Path) -> None:
    include = sysconfig.get_paths()["include"]
    answer = f"echo .cpython-399t.so -DNO_LIMITED_API {include}; exit 0"
    other = script(tmp_path / "python", f"{answer}\n")
    tree.make("-j2", f"PYTHON={other}")
    package = tree.root / "build/python" / PACKAGE
    assert sorted(p.name for p in package.glob("*.so")) == sorted(
        f"{op}.cpython-399t.so" for op in OPS
    )
    runtime = tree.root / "build/python/aicf_rt"
    assert [p.name for p in runtime.glob("_core*.so")] == ["_core.cpython-399t.so"]


@pytest.mark.promise("DESIGN-6-debug")
def test_one_op_for_debuggers(tree: Checkout) -> None:
    made = tree.make("-j2", "DEBUG=1", "OPS=add")
    modules = tree.root / "build-debug/python" / PACKAGE
    assert [p.name for p in modules.glob("*.so")] == ["add.abi3.so"]
    assert made.verbs("CC").count("kernels/add/add.c") == 1
    assert "kernels/shift/shift.c" not in made.verbs("CC")
    sections = subprocess.run(
        ["readelf", "-SW", str(modules / "add.abi3.so")], capture_output=True, text=True, check=True
    ).stdout
    assert ".debug_info" in sections
    assert tree.call("add", 1.0, 2.0, build="build-debug") == [3.0]
    assert tree.fresh("DEBUG=1", "OPS=add")
    assert tree.fresh(), "the build without DEBUG was touched"


def test_ops_of_no_row_are_named(tree: Checkout) -> None:
    made = tree.make("OPS=add nope", fails=True)
    assert "the table has no op nope" in made.err
    assert made.steps == []


def test_some_ops_leave_the_others_as_they_are(tree: Checkout) -> None:
    tree.edit("kernels/common/amount.h", "AMOUNT 10", "AMOUNT 20")
    assert tree.make("OPS=add").steps == []
    assert tree.call("shift", 1.0) == [11.0]
    tree.make()
    assert tree.call("shift", 1.0) == [21.0]


def test_commands_are_shown_on_demand(tree: Checkout) -> None:
    tree.edit("kernels/common/amount.h", "AMOUNT 10", "AMOUNT 20")
    quiet = tree.copy(tree.root.parent / "quiet").make()
    assert quiet.steps
    assert max(map(len, quiet.out.splitlines())) <= 100
    assert "gcc" not in quiet.out
    assert "gcc -std=c11" in tree.make("V=1").out
