"""Tests of graphs, kernels' choice, and what runs them: on what `make` built, without a GPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from modules.conftest import alone

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"
if str(BUILT) not in sys.path:
    sys.path.insert(0, str(BUILT))

__all__ = ["alone"]
