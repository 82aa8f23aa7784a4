"""The guests that CI installs are those that tests name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import GUESTS

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"cupy", "numba", "nvcc", "chromium"}  # met on machines that have them
IMPORTED = {"apache-tvm-ffi": "tvm_ffi", "scikit-learn": "sklearn"}  # by another name


@pytest.mark.promise("PRODUCERS-all")
def test_guests_are_pinned() -> None:
    text = (ROOT / "requirements-guests.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    names = [line.partition("==")[0] for line in lines]
    assert {IMPORTED.get(n, n) for n in names} == set(GUESTS) - ELSEWHERE
    assert all(re.fullmatch(r"[a-z_-]+==[0-9][0-9a-z.]*", line) for line in lines)
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert ci.index("requirements-guests.txt") < ci.index("tools/run.sh test")
    assert set(re.findall(r"torch==[0-9.]+", ci)) == {line for line in lines if "torch" in line}
