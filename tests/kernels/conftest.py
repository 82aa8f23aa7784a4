"""Kernel tests run through the built modules, on the CPU and, marked gpu, on CUDA."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"
if str(BUILT) not in sys.path:
    sys.path.insert(0, str(BUILT))


def pytest_configure() -> None:
    """References are worked out by torch: workers beside each other share the cores."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    if workers > 1 and importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Each report says which kernels its test ran."""
    from kernels.ran import RAN

    before = set(RAN)
    RAN.clear()
    try:
        yield
    finally:
        item.user_properties.append(("kernels", sorted(RAN)))
        RAN.update(before)


def pytest_sessionfinish() -> None:
    """For tools/gpu_report.py: the kernels that this process ran, maybe one of several."""
    where = os.environ.get("AICF_KERNELS_RAN")
    if where:
        from kernels.ran import RAN

        file = Path(where) / f"{os.getpid()}.json"
        file.write_text(json.dumps(sorted(RAN)), encoding="utf-8")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def op() -> Callable[[str], Any]:
    """The module of an op."""
    return lambda name: importlib.import_module(f"aicf_cuda.{name}")
