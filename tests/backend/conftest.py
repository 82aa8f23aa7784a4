"""Tests of backends: the same suite on each, and on one that a test writes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from modules.conftest import alone

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"
if str(BUILT) not in sys.path:
    sys.path.insert(0, str(BUILT))

__all__ = ["alone"]

BACKENDS = ("cpu", "null", "toy", pytest.param("cuda", marks=pytest.mark.gpu))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Any:
    """A new one of each kind, which counted nothing yet."""
    from aicf.backend import Dispatcher
    from backend.toy import ToyBackend

    dispatcher = Dispatcher()
    dispatcher.register("toy", ToyBackend)
    return dispatcher.get(request.param)


@pytest.fixture
def cpu() -> Any:
    from aicf.backend.cpu import CpuBackend

    return CpuBackend()
