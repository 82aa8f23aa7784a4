"""Records for tests of the store."""

from __future__ import annotations

from typing import Any

from aicf.compiler.kernels.key import Hard, Soft, Subject
from aicf.compiler.kernels.record import Record

HARD = Hard("sm_90", "k1", "p1")
SOFT = Soft("H200", "580", "13.0", "1980 MHz")


def record(op: str = "gemm", sizes: str = "a 64x64", made: int = 1, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "subject": Subject(op, "f32", sizes, "a 01", "act=relu", "fma simt"),
        "hard": HARD,
        "soft": SOFT,
        "ranking": (("fma", 3.5), ("simt", 7.25)),
        "model": 1.5,
        "made": made,
    }
    return Record(**(fields | changes))
