"""tools/gpu_report.py: which kernels a failed test speaks against; how the tests are run."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
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


@pytest.fixture
def shared(request: pytest.FixtureRequest) -> Any:
    """tests/conftest.py."""
    place = str(ROOT / "tests" / "conftest.py")
    plugins = request.config.pluginmanager.get_plugins()
    return next(p for p in plugins if getattr(p, "__file__", None) == place)


def asking(expression: str) -> Any:
    return SimpleNamespace(getoption=lambda name, default: expression)


def test_workers_share_the_cores(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only a GPU's tests are run, and nobody has said how many threads there shall be."""
    asked = ("gpu", "gpu and not large", "not gpu", "")
    assert [shared.on_gpu_alone(asking(words)) for words in asked] == [True, True, False, False]
    for workers, threads in ((1, None), (5, "3"), (15, "1")):
        with monkeypatch.context() as patch:
            patch.setattr(os, "cpu_count", lambda: 16)
            given = {"MKL_NUM_THREADS": "2", "PYTEST_XDIST_WORKER_COUNT": str(workers)}
            patch.setattr(os, "environ", given)
            shared.share_cores()
        assert given.get("OMP_NUM_THREADS") == given.get("OPENBLAS_NUM_THREADS") == threads
        assert given["MKL_NUM_THREADS"] == "2"


def test_only_folders_with_a_gpus_tests_are_read(shared: Any) -> None:
    """By the mark, or by a fixture of their conftest.py that has it."""
    for folder, asked, left in (
        ("gpu", "gpu", None), ("kernels", "gpu", None), ("backend", "gpu", None),
        ("generator", "gpu", True), ("generator", "not gpu", None), ("generator", "", None),
    ):  # fmt: skip
        path = ROOT / "tests" / folder
        assert shared.pytest_ignore_collect(path, asking(asked)) is left
    assert (
        shared.pytest_ignore_collect(ROOT / "tests" / "gpu" / "test_jax.py", asking("gpu")) is None
    )


def test_what_took_longest_comes_first(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = shared.Recorder(None)
    for name, when, took in (
        ("a", "call", 1.0), ("b@large 0", "setup", 2.0), ("b@large 0", "call", 2.0),
        ("c", "call", 3.0),
    ):  # fmt: skip
        report = {"nodeid": name, "when": when, "outcome": "passed", "user_properties": []}
        recorder.pytest_runtest_logreport(SimpleNamespace(**report, duration=took))
    assert recorder.longest == {"b": 4.0, "c": 3.0, "a": 1.0}
    place = tmp_path / "report.json"
    monkeypatch.setattr(shared, "REPORT", place)
    items = [SimpleNamespace(nodeid=name) for name in ("x", "a", "y", "b")]
    for said, order in ((None, "xayb"), ({}, "xayb"), ({"longest": recorder.longest}, "baxy")):
        if said is not None:
            place.write_text(json.dumps(said))
        shared.longest_first(items)
        assert "".join(item.nodeid for item in items) == order


@pytest.mark.parametrize("said, given", [("", True), ("-x -n 4", False), ("-k -not", True)])
def test_a_worker_a_core(said: str, given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    monkeypatch.setenv("PYTEST_ADDOPTS", said)
    found = importlib.import_module("gpu_report").beside_each_other()
    assert found[:1] == (["-n"] if given else [])
    assert found[2:] == (["--dist", "loadgroup"] if given else [])
