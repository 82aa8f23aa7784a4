"""tools/gpu_report.py: which kernels a failed test speaks against."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from gpu.processes import ROOT

KERNELS = {"add/vec", "add/strided", "sum/two_stage"}


def failure(said: str = "", kernels: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"said": said, "kernels": list(kernels)}


@pytest.mark.parametrize(
    ("test", "what", "against"),
    [
        ("t.py::test_typed[cuda-add-f32]", failure(), {"add/vec", "add/strided"}),
        ("t.py::test_odd_rows", failure(kernels=("sum/two_stage",)), {"sum/two_stage"}),
        ("t.py::test_captures[0]", failure("E: sum: first calls: wrong"), {"sum/two_stage"}),
        ("t.py::test_all", failure("status 1"), KERNELS),
    ],
)
def test_a_failed_test_speaks_against_what_it_ran(
    test: str, what: dict[str, Any], against: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    report = importlib.import_module("gpu_report")
    assert report.blamed({test: what}, KERNELS) == against
    assert report.blamed({}, KERNELS) == set()
