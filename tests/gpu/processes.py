"""Processes of their own for what must come first in one, or may break it: several at once, since
to import torch takes each of them seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"
LIMIT = 150.0  # seconds; the longest takes 20


class Process:
    """Python code that runs beside the caller, with the built packages and the tests at hand."""

    def __init__(self, code: str, *words: str, **environment: str) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AICF_")}
        kept["PYTHONPATH"] = os.pathsep.join([str(BUILT), str(ROOT / "tests")])
        self.start = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *words],
            env={**kept, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.text: tuple[str, str] | None = None

    def output(self, limit: float = LIMIT) -> str:
        """What it printed; fails unless it ended well within so many seconds of its start."""
        if self.text is None:
            try:
                self.text = self.process.communicate(
                    timeout=max(1.0, limit + self.start - time.monotonic())
                )
            except subprocess.TimeoutExpired:
                self.process.kill()
                out, err = self.process.communicate()
                raise AssertionError(f"not done in {limit:.0f} s\n{out}\n{err}") from None
        out, err = self.text
        status = self.process.returncode
        assert status == 0, f"status {status}\n{out[-4000:]}\n{err[-4000:]}"
        return out


def stop(processes: Sequence[Process]) -> None:
    """Ends those that nobody waited for."""
    for p in processes:
        if p.process.poll() is None:
            p.process.kill()
            p.process.communicate()
