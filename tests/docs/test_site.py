"""`make docs`: the site with a page an op, its measured speed on it, and no broken link."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = Path(os.environ.get("GEN", ROOT / "generated")).resolve()

pytestmark = pytest.mark.promise("DOCS-site")


def site(where: Path, generated: Path = GENERATED) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "docs.py")],
        env={**os.environ, "B": str(where), "GEN": str(generated)},
        capture_output=True,
        text=True,
        check=False,
    )


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("docs_tool", ROOT / "tools" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_op_has_its_page(tmp_path: Path) -> None:
    done = site(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.stem for page in (GENERATED / "docs").glob("*.md")}
    made = {page.stem for page in (tmp_path / "docs" / "site" / "ops").glob("*.html")}
    assert made == pages


def test_a_broken_link_is_a_fault(tmp_path: Path) -> None:
    copied = tmp_path / "generated"
    shutil.copytree(GENERATED / "docs", copied / "docs")
    page = copied / "docs" / "add.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[gone](no-such-page.md)\n", "utf-8")
    done = site(tmp_path / "build", copied)
    assert done.returncode != 0
    assert "no-such-page.md" in done.stdout + done.stderr


def test_measured_speed_is_joined() -> None:
    row = {"op": "add", "name": "add f32 1 MiB", "us": {"ours": 2.5, "torch": 5.0}, "ratio": 2.0}
    row["of_copy"] = {"ours": 0.5, "torch": 0.25}
    report = {"device": "GPU X", "date": "2026-01-02", "torch": "2.11"}
    text = tool().measured("add", [{**report, "rows": [row]}])
    assert "GPU X, 2026-01-02" in text
    assert "| add f32 1 MiB | 2.5 us, 0.50 | 5.0 us, 0.25 | 2.00 |" in text
    assert tool().measured("relu", [{**report, "rows": [row]}]) == ""
