"""The CUDA kernels that calls of this process have run, as "add/vec"."""

from __future__ import annotations

RAN: set[str] = set()
