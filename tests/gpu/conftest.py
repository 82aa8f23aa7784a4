"""Tests of the built modules on a GPU. What they run beside pytest finds the packages by itself."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpu.processes import BUILT, Process, stop

if str(BUILT) not in sys.path:
    sys.path.insert(0, str(BUILT))


@pytest.fixture(scope="session")
def add() -> Any:
    return importlib.import_module("aicf_cuda.add")


@pytest.fixture(scope="session")
def rt() -> Any:
    return importlib.import_module("aicf_rt")


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts code in a process of its own; what still runs when the test ends is stopped."""
    started: list[Process] = []

    def run(code: str, *words: str, **environment: str) -> Process:
        started.append(Process(code, *words, **environment))
        return started[-1]

    yield run
    stop(started)
