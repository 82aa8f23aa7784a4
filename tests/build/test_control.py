"""The control layer is Python that is copied to where the built packages lie, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkout import Checkout

FILES = {"__init__.py": "", "py.typed": "", "part/__init__.py": "", "part/of/it.py": "answer = 1\n"}


def files(folder: Path) -> set[str]:
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    return {name for name in found if "__pycache__" not in name}


@pytest.mark.promise("B4")
def test_it_is_copied_as_it_is(tree: Checkout) -> None:
    """A file that comes, changes or goes does so in the build, and no op is built for it."""
    source, built = tree.root / "aicf", tree.root / "build/python/aicf"
    for name, text in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    assert tree.make().steps == []
    assert files(built) == set(FILES)
    assert tree.fresh()
    tree.edit("aicf/part/of/it.py", "1", "22")
    assert tree.make().steps == []
    assert (built / "part/of/it.py").read_text(encoding="utf-8") == "answer = 22\n"
    (source / "part/of/it.py").unlink()
    assert not tree.fresh()
    tree.make()
    assert files(built) == set(FILES) - {"part/of/it.py"}
    assert tree.fresh()
