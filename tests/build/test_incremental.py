"""What a make does after a change: what the change touches, all of it, and nothing else."""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

import checkout
from checkout import OPS, PACKAGE, Checkout

MODULE = "build/python/" + PACKAGE + "/{}.abi3.so"


def linked(made: checkout.Made) -> set[str]:
    """The ops whose modules were linked."""
    return {Path(p).name.split(".")[0] for p in made.verbs("LINK") if PACKAGE in p}


@pytest.mark.promise("B4", "DESIGN-6-second-make")
def test_second_make_does_nothing(tree: Checkout) -> None:
    before = tree.times(".")
    assert tree.fresh()
    made = tree.make()
    assert made.steps == []
    assert checkout.changed(before, tree.times(".")) == set()


@pytest.mark.promise("B4")
def test_touched_table_runs_opgen_and_compiles_nothing(tree: Checkout) -> None:
    # In a copy of a tree a file may be newer than opgen's stamp, which is then renewed once.
    os.utime(tree.root / "ops.yaml")
    assert tree.make().steps == ["OPGEN ops.yaml"]
    os.utime(tree.root / "ops.yaml")
    before = tree.times(".")
    assert tree.make().steps == ["OPGEN ops.yaml"]
    assert checkout.changed(before, tree.times(".")) == {"generated/made"}
    assert tree.fresh()


@pytest.mark.promise("DESIGN-6-doc-edit")
def test_doc_edit_recompiles_one_module_and_no_kernel(tree: Checkout) -> None:
    tree.edit("ops.yaml", 'doc: "out = a + b."', 'doc: "The sum of a and b."')
    made = tree.make()
    assert linked(made) == {"add"}
    assert made.verbs("CC") == ["generated/modules/add.c", "generated/ops/add_op.c"]
    assert "The sum of a and b." in tree.python(f"import {PACKAGE}.add as m; print(m.add.__doc__)")
    assert tree.fresh()


@pytest.mark.promise("B1")
def test_edited_row_rebuilds_that_op_alone(tree: Checkout) -> None:
    ask = (
        f"import numpy; from {PACKAGE} import shift; x = numpy.ones(3, 'f4')\n"
        "print(shift.shift_f32(x, numpy.empty_like(x)))"
    )
    assert tree.python(ask) == "True"
    before = tree.times("build")
    tree.edit(
        "ops.yaml",
        "backend: cpu, layout: flat}\n\n  - family",
        'backend: cpu, layout: flat, when: ["A % 2 == 0"]}\n\n  - family',
    )
    tree.make()
    assert tree.python(ask) == "False"
    written = {p for p in checkout.changed(before, tree.times("build")) if "__pycache__" not in p}
    package = {p for p in written if p.startswith(f"build/python/{PACKAGE}/__init__")}
    assert {p for p in written - package if "shift" not in p} <= {
        f"build/python/{PACKAGE}/_table.json",
        f"build/python/{PACKAGE}/_table.py",
    }
    assert MODULE.format("shift") in written
    assert not [p for p in written if p.startswith("build/kernels/") and "shift" not in p]
    assert tree.fresh()


def busy() -> float:
    """Processor seconds of our children so far, in which no other work on the machine is."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Processor seconds here for what took one where the promise was made: the compiler at work on
    the headers that every binding includes, twenty times."""
    source = tmp_path_factory.mktemp("second") / "empty.c"
    source.write_text("#include <Python.h>\n")
    command: list[str | Path] = [os.environ.get("CC", "cc"), "-O2", "-c", source]
    command += ["-o", source.with_suffix(".o"), f"-I{sysconfig.get_path('include')}"]
    took = []
    for _ in range(5):
        start = busy()
        subprocess.run(command, check=True)
        took.append(busy() - start)
    return 20 * min(took)


@pytest.mark.promise("DESIGN-6-speed")
def test_edited_row_is_an_imported_module_in_two_seconds(tree: Checkout, second: float) -> None:
    took = []
    docs = ["out = a + b.", "out = b + a.", "a and b.", "Sum."]
    for old, new in itertools.pairwise(docs):
        tree.edit("ops.yaml", old, new)
        start = busy()
        made = tree.make("-j2")
        tree.python(f"import {PACKAGE}.add")
        took.append(busy() - start)
        assert linked(made) == {"add"}
    assert min(took) <= 2.0 * second, f"an edited row took {took} s, where {second} are one"


@pytest.mark.promise("DESIGN-6-speed")
def test_a_binding_compiles_in_four_tenths_of_a_second(tree: Checkout, second: float) -> None:
    for kind in ("ops/add_op", "modules/add"):
        took = []
        for _ in range(3):
            os.utime(tree.root / f"generated/{kind}.c")
            start = busy()
            made = tree.make(f"build/{kind}.o")
            took.append(busy() - start)
            assert made.verbs("CC") == [f"generated/{kind}.c"]
        assert min(took) <= 0.4 * second, f"{kind}.c took {took} s, of which {second} are one"


@pytest.mark.promise("B2")
def test_edited_generator_regenerates_and_recompiles_nothing(tree: Checkout) -> None:
    for source in sorted((tree.root / "generator").glob("*.c")):
        os.utime(source)
    header = tree.root / "generator" / "arena.h"
    header.write_text(header.read_text(encoding="utf-8") + "\n/* more */\n", encoding="utf-8")
    made = tree.make("-j2")
    sources = {f"generator/{p.name}" for p in (tree.root / "generator").glob("*.c")}
    assert set(made.verbs("CC")) == sources
    assert made.verbs("LINK") == ["build/opgen"]
    assert made.verbs("OPGEN") == ["ops.yaml"]
    assert tree.fresh()


@pytest.mark.promise("B2")
def test_edited_template_rebuilds_what_it_writes(tree: Checkout) -> None:
    headers = sorted((tree.root / "templates").rglob("*.c.tpl"))
    modules = [p for p in headers if "modules/" in p.read_text(encoding="utf-8").split("\n", 1)[0]]
    assert len(modules) == 1
    with open(modules[0], "a", encoding="utf-8") as file:
        file.write("\n/* The end. */\n")
    made = tree.make("-j2")
    assert made.verbs("CC") == sorted(f"generated/modules/{op}.c" for op in OPS)
    assert linked(made) == set(OPS)
    assert tree.fresh()


@pytest.mark.promise("B2")
def test_removed_template_regenerates(tree: Checkout) -> None:
    extra = tree.root / "templates" / "extra.tpl"
    extra.write_text("@{once python/{package}/extra.txt}\nMore.\n", encoding="utf-8")
    places = [
        tree.root / folder / PACKAGE / "extra.txt"
        for folder in ("generated/python", "build/python")
    ]
    tree.make()
    assert [p.exists() for p in places] == [True, True]
    assert tree.fresh()
    extra.unlink()
    assert tree.make().steps == ["OPGEN ops.yaml"]
    assert [p.exists() for p in places] == [False, False]
    assert tree.fresh()


@pytest.mark.promise("B5")
def test_edited_header_of_a_header_rebuilds_its_users(tree: Checkout) -> None:
    assert tree.call("shift", 1.0) == [11.0]
    tree.edit("kernels/common/amount.h", "AMOUNT 10", "AMOUNT 20")
    made = tree.make()
    assert made.verbs("CC") == ["kernels/shift/shift.c"]
    assert linked(made) == {"shift"}
    assert tree.call("shift", 1.0) == [21.0]
    assert tree.fresh()


@pytest.mark.promise("B5")
def test_edited_public_header_rebuilds_every_user(tree: Checkout) -> None:
    os.utime(tree.root / "include" / "aicf" / "call.h")
    compiled = tree.make("-j2").verbs("CC")
    assert {f"generated/ops/{op}_op.c" for op in OPS} <= set(compiled)
    assert {f"generated/modules/{op}.c" for op in OPS} <= set(compiled)
    assert [p for p in compiled if p.startswith("runtime/core/")]
    assert [p for p in compiled if p.startswith("runtime/libaicf/")]
    assert tree.fresh()


@pytest.mark.promise("B7")
def test_renamed_header_needs_no_clean(tree: Checkout) -> None:
    (tree.root / "kernels/common/amount.h").rename(tree.root / "kernels/common/quantity.h")
    tree.edit("kernels/shift/shift.h", "../common/amount.h", "../common/quantity.h")
    made = tree.make()
    assert made.verbs("CC") == ["kernels/shift/shift.c"]
    (tree.root / "kernels/common/quantity.h").unlink()
    tree.edit("kernels/shift/shift.h", '#include "../common/quantity.h"', "#define AMOUNT 5")
    tree.make()
    assert tree.call("shift", 1.0) == [6.0]
    assert tree.fresh()


@pytest.mark.promise("B7")
def test_missing_depfile_is_no_fault(tree: Checkout) -> None:
    for depfile in (tree.root / "build").rglob("*.d"):
        depfile.unlink()
    assert tree.make().steps == []


@pytest.mark.promise("DESIGN-6-deleted-file")
def test_each_deleted_generated_file_comes_back(tree: Checkout) -> None:
    files = [
        p
        for p in (tree.root / "generated").rglob("*")
        if p.is_file() and not p.name.startswith(".")
    ]
    assert len(files) > 5 * len(OPS)
    for file in files:
        text = file.read_bytes()
        file.unlink()
        tree.make("-j2")
        assert file.exists(), file
        assert file.name == "made" or file.read_bytes() == text
        assert tree.fresh(), file


@pytest.mark.promise("DESIGN-6-deleted-file")
def test_deleted_outputs_come_back(tree: Checkout) -> None:
    outputs = [
        "build/opgen",
        "build/python/aicf_rt/libaicf.so.1",
        "build/python/aicf_rt/__init__.py",
        f"build/python/{PACKAGE}/__init__.py",
        MODULE.format("add"),
        "build/kernels/add/kernels/add/add.c.o",
    ]
    for output in outputs:
        (tree.root / output).unlink()
        assert not tree.fresh()
        tree.make()
        assert (tree.root / output).exists()
        assert tree.fresh()


@pytest.mark.promise("DESIGN-6-gen")
def test_generated_moves(tree: Checkout) -> None:
    checkout.copy_tree(tree.root / "build", tree.root / "other")
    tree.make("GEN=some/where", "B=other", "-j2")
    assert (tree.root / "some/where/ops.mk").exists()
    assert tree.call("add", 1.0, 2.0, build="other") == [3.0]
    assert tree.fresh("GEN=some/where", "B=other")
    assert tree.fresh()


def test_a_kernel_without_source_is_said_and_left_out(tree: Checkout) -> None:
    (tree.root / "kernels/hop/hop.c").unlink()
    made = tree.make()
    assert made.verbs("MISSING") == ["kernels/hop/hop.c: its kernels of hop are not built"]
    assert linked(made) == {"hop"}
    assert tree.fresh()
    said = tree.python(
        f"import numpy; from {PACKAGE} import hop; x = numpy.ones(4, 'f4')\n"
        "print(hop.explain(x, numpy.empty_like(x)))"
    )
    assert "not built" in said


@pytest.mark.promise("B18")
@pytest.mark.parametrize(
    "source", ["ops.yaml", "kernels/shift/shift.c", "generator/arena.c", "include/aicf/half.h"]
)
def test_a_source_from_the_future(tree: Checkout, source: str) -> None:
    ahead = time.time() + 7200
    os.utime(tree.root / source, (ahead, ahead))
    tree.make("-j2", timeout=60)
    assert tree.call("shift", 1.0) == [11.0]
    os.utime(tree.root / source)
    tree.make("-j2")
    assert tree.fresh()


@pytest.mark.promise("B18")
def test_a_table_put_back_with_its_old_time(tree: Checkout) -> None:
    table = tree.root / "ops.yaml"
    old, when = table.read_text(encoding="utf-8"), table.stat()
    for _ in range(2):
        tree.edit("ops.yaml", 'doc: "out = a + b."', 'doc: "Something else."')
        tree.make()
        doc = f"import {PACKAGE}.add as m; print(m.add.__doc__)"
        assert "Something else." in tree.python(doc)
        table.write_text(old, encoding="utf-8")
        os.utime(table, ns=(when.st_atime_ns, when.st_mtime_ns))
        tree.make()
        assert "Something else." not in tree.python(doc)
        assert tree.fresh()
