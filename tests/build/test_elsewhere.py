"""A table of somebody else's, in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import checkout
from checkout import PACKAGE, Checkout

TABLE = """
schema: 1
package: my_ops
namespace: mine
backends:
  cpu: {devices: [cpu], suffix: .c}
ops:
  - op: square
    doc: "out = x * x."
    types: {T: [f32]}
    args:
      - {name: x, tensor: T, shape: "A.."}
    outs:
      - {name: out, tensor: T, shape: "A..", order: x}
    kernels:
      - {id: loop, backend: cpu, layout: flat}
"""

KERNEL = """
#include <aicf_ops/square.h>

aicf_status
mine_cpu_square_loop_f32(const float *x, float *out, int64_t A, aicf_stream stream)
{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {
        out[i] = x[i] * x[i];
    }
    return aicf_ok();
}
"""

ASK = (
    "import numpy; from my_ops import square\n"
    "x = numpy.full(2, 3, 'f4'); out = numpy.empty_like(x)\n"
    "print(square.square_f32(x, out), out[1])"
)


@pytest.fixture
def elsewhere(built_once: Checkout, tmp_path: Path) -> Checkout:
    """A folder with a one-row table and its kernel; of ours opgen, templates, headers, runtime."""
    ours = tmp_path / "aicf"
    ours.mkdir()
    shutil.copy2(built_once.root / "build/opgen", ours / "opgen")
    checkout.copy_tree(built_once.root / "templates", ours / "templates")
    checkout.copy_tree(built_once.root / "include", ours / "include")
    checkout.copy_tree(built_once.root / "build/python/aicf_rt", ours / "aicf_rt")
    root = tmp_path / "mine"
    (root / "kernels/square").mkdir(parents=True)
    (root / "ops.yaml").write_text(TABLE, encoding="utf-8")
    (root / "kernels/square/square.c").write_text(KERNEL, encoding="utf-8")
    return Checkout(root)


def generate(folder: Checkout) -> None:
    subprocess.run(
        ["../aicf/opgen", "--templates", "../aicf/templates", "--out", "generated", "ops.yaml"],
        cwd=folder.root,
        check=True,
    )


@pytest.mark.promise("DESIGN-2-elsewhere")
def test_one_row_builds_by_ops_mk_alone(elsewhere: Checkout) -> None:
    generate(elsewhere)
    given = (
        "AICF_INCLUDE=../aicf/include",
        "AICF_RT=../aicf/aicf_rt",
        "AICF_RT_FROM_MODULE=../../../../aicf/aicf_rt",
    )
    made = elsewhere.make("-f", "generated/ops.mk", *given)
    assert set(made.verbs("CC")) == {
        "generated/modules/square.c",
        "generated/ops/square_op.c",
        "kernels/square/square.c",
    }
    assert elsewhere.fresh("-f", "generated/ops.mk", *given)
    (elsewhere.root / "build/python/aicf_rt").symlink_to(elsewhere.root.parent / "aicf/aicf_rt")
    assert elsewhere.python(ASK) == "True 9.0"
    elsewhere.edit("kernels/square/square.c", "x[i] * x[i]", "x[i] * x[i] + 1")
    assert elsewhere.make("-f", "generated/ops.mk", *given).verbs("CC") == [
        "kernels/square/square.c"
    ]
    assert elsewhere.python(ASK) == "True 10.0"


@pytest.mark.promise("DESIGN-2-elsewhere")
def test_a_makefile_of_its_own_includes_ops_mk(elsewhere: Checkout) -> None:
    makefile = """
AICF := ../aicf
AICF_INCLUDE := $(AICF)/include
AICF_RT := build/python/aicf_rt
all: aicf
generated/ops.mk: ops.yaml
\t$(AICF)/opgen --templates $(AICF)/templates --out generated $<
\ttouch $@
build/python/aicf_rt/libaicf.so.1: $(AICF)/aicf_rt/libaicf.so.1
\tmkdir -p build/python && cp -a $(AICF)/aicf_rt build/python/
include generated/ops.mk
"""
    (elsewhere.root / "Makefile").write_text(makefile, encoding="utf-8")
    elsewhere.make("-j2")
    assert elsewhere.python(ASK) == "True 9.0"
    assert elsewhere.fresh()
    assert elsewhere.make().verbs("CC", "LINK") == []


@pytest.mark.promise("DESIGN-2-elsewhere")
def test_two_packages_share_one_runtime(elsewhere: Checkout, tree: Checkout) -> None:
    generate(elsewhere)
    elsewhere.make(
        "-f", "generated/ops.mk", "AICF_INCLUDE=../aicf/include", "AICF_RT=../aicf/aicf_rt"
    )
    checkout.copy_tree(elsewhere.root / "build/python/my_ops", tree.root / "build/python/my_ops")
    said = tree.python(
        f"import {PACKAGE}, my_ops, aicf_rt, numpy\n"
        f"from {PACKAGE} import twice; from my_ops import square\n"
        f"assert {PACKAGE}.Unsupported is my_ops.Unsupported\n"
        "x = numpy.full(2, 3, 'f4'); y = numpy.empty_like(x); z = numpy.empty_like(x)\n"
        "print(twice.twice_f32(x, y), square.square_f32(y, z), z[0])"
    )
    assert said == "True True 36.0"


@pytest.mark.promise("DESIGN-2-elsewhere")
def test_kernels_lie_where_kernel_roots_say(tree: Checkout) -> None:
    (tree.root / "more/kernels").mkdir(parents=True)
    (tree.root / "kernels/add").rename(tree.root / "more/kernels/add")
    assert tree.make("KERNEL_ROOTS=more").verbs("CC") == ["more/kernels/add/add.c"]
    assert tree.fresh("KERNEL_ROOTS=more")
    tree.edit("more/kernels/add/add.c", "a[i] + b[i];", "a[i] - b[i];")
    assert tree.make("KERNEL_ROOTS=more").verbs("CC") == ["more/kernels/add/add.c"]
    assert tree.call("add", 1.0, 2.0) == [-1.0]


def test_modules_find_the_runtime_from_their_place(tree: Checkout, tmp_path: Path) -> None:
    """Import from a folder that was moved, by a shell without environment (I8)."""
    moved = tmp_path / "moved to"
    (tree.root / "build/python").rename(moved)
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(moved)!r}); import {PACKAGE}.add",
        ],
        cwd="/",
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
