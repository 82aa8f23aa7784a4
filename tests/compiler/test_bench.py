"""The benchmark of steps runs, compares, and says what it measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.conftest import BUILT, ROOT


@pytest.mark.promise("MARK-8-bench")
@pytest.mark.guests("torch")
def test_a_short_run_on_the_cpu(tmp_path: Path) -> None:
    out = tmp_path / "compiler.json"
    words = ["--device", "cpu", "--batches", "2", "--blocks", "2", "--json", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.compiler", *words],
        env={**os.environ, "PYTHONPATH": str(BUILT)},
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text())
    assert [(r["model"], r["what"]) for r in report["rows"]] == [
        (model, what) for model in ("mlp", "cnn") for what in ("training", "inference")
    ]
    for row in report["rows"]:
        assert set(row["us"]) == {"replay", "eager", "torch", "launches"}
        assert row["differ"] < 2e-3
        assert row["selector_us"] > 0
    assert {m["most"] for m in report["marks"]} == {1.05, 20.0}
