"""An op that left the table, or took another name, leaves nothing behind that builds or imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checkout import PACKAGE, Checkout


def named(tree: Checkout, op: str) -> list[str]:
    """The files below build/ and generated/ whose path has the op's name as a word."""
    word = re.compile(rf"(?:^|[/.]){op}(?:_op)?(?:[/.]|$)")
    found = [*(tree.root / "build").rglob("*"), *(tree.root / "generated").rglob("*")]
    paths = [str(p.relative_to(tree.root)) for p in found if p.is_file()]
    # Sources that ops share keep their own name below another op's folder.
    return [p for p in paths if word.search(p) and "__pycache__" not in p]


def rows(tree: Checkout) -> dict[str, str]:
    """The text of each row of the table, and what stands before the first as ""."""
    text = (tree.root / "ops.yaml").read_text(encoding="utf-8")
    head, *parts = re.split(r"(?m)^(?=  - (?:op|family): )", text)
    found = {"": head}
    for part in parts:
        found[part.split(":", 1)[1].split("\n", 1)[0].strip()] = part
    return found


@pytest.mark.promise("B3")
def test_removed_op_vanishes(tree: Checkout) -> None:
    assert named(tree, "add")
    parts = rows(tree)
    del parts["add"]
    (tree.root / "ops.yaml").write_text("".join(parts.values()), encoding="utf-8")
    tree.make("-j2")
    assert named(tree, "add") == []
    error = tree.python(f"from {PACKAGE} import add", fails=True)
    assert "ImportError" in error
    assert "add" not in tree.python(f"import {PACKAGE}; print(sorted(dir({PACKAGE})))").split("'")
    assert tree.fresh()
    (tree.root / "ops.yaml").write_text("".join([parts[""], *list(parts.values())[1:]]))
    assert tree.fresh() or tree.make()


@pytest.mark.promise("B3")
def test_renamed_op_takes_its_new_name(tree: Checkout) -> None:
    tree.edit("ops.yaml", "- op: add\n", "- op: plus\n")
    (tree.root / "kernels/add").rename(tree.root / "kernels/plus")
    source = tree.root / "kernels/plus/add.c"
    text = (
        source.read_text(encoding="utf-8")
        .replace("cpu_add", "cpu_plus")
        .replace("/add.h", "/plus.h")
    )
    (tree.root / "kernels/plus/plus.c").write_text(text, encoding="utf-8")
    source.unlink()
    (tree.root / "kernels/plus/add.cu").unlink()
    tree.make("-j2")
    assert named(tree, "add") == []
    assert tree.call("plus", 1.0, 2.0) == [3.0]
    assert "ImportError" in tree.python(f"from {PACKAGE} import add", fails=True)
    assert tree.fresh()


@pytest.mark.promise("B3")
def test_two_ops_swap_their_names(tree: Checkout) -> None:
    assert (tree.call("shift", 1.0), tree.call("hop", 1.0)) == ([11.0], [1.0])
    table = tree.root / "ops.yaml"
    text = table.read_text(encoding="utf-8")
    text = text.replace("op: shift\n", "op: SWAP\n").replace("op: hop\n", "op: shift\n")
    table.write_text(text.replace("op: SWAP\n", "op: hop\n"), encoding="utf-8")
    shift, hop = (tree.root / f"kernels/{op}/{op}.c" for op in ("shift", "hop"))
    texts = shift.read_text(encoding="utf-8"), hop.read_text(encoding="utf-8")
    hop.write_text(
        texts[0]
        .replace("cpu_shift", "cpu_hop")
        .replace("aicf_ops/shift.h", "aicf_ops/hop.h")
        .replace('"shift.h"', '"../shift/shift.h"'),
        encoding="utf-8",
    )
    shift.write_text(texts[1].replace("hop", "shift"), encoding="utf-8")
    tree.make("-j2")
    assert (tree.call("shift", 1.0), tree.call("hop", 1.0)) == ([1.0], [11.0])
    assert tree.fresh()


@pytest.mark.promise("B3")
def test_renamed_package_leaves_no_old_one(tree: Checkout) -> None:
    tree.edit("ops.yaml", f"package: {PACKAGE}", "package: other_ops")
    tree.make("-j2")
    assert not (tree.root / "build/python" / PACKAGE).exists()
    assert not (tree.root / "generated/python" / PACKAGE).exists()
    tree.python("from other_ops import add, shift, twice, thrice, hop")
    assert tree.fresh()


@pytest.mark.promise("B3")
def test_a_file_that_is_not_ours_stays(tree: Checkout) -> None:
    foreign = Path(tree.root / "build/python" / PACKAGE / "mine.py")
    foreign.write_text("", encoding="utf-8")
    parts = rows(tree)
    del parts["hop"]
    (tree.root / "ops.yaml").write_text("".join(parts.values()), encoding="utf-8")
    tree.make()
    assert foreign.exists()
