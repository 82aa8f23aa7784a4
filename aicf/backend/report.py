"""What a backend's ops did: how often each ran, how often it fell back, and why."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).resolve().parent.parent)  # this layer's own files


def caller() -> str:
    """The line of the program that called into this layer, "train.py:12"."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclass(slots=True)
class Fallback:
    """Calls of an op that fell back for one reason."""

    by: str  # "aten.add.Tensor"
    first: str  # the line of the program where it did so first
    count: int = 0


@dataclass(slots=True)
class Tally:
    """Of one op. A reason is what the op's module said."""

    ran: int = 0
    fallbacks: dict[str, Fallback] = field(default_factory=dict)

    @property
    def fell_back(self) -> int:
        return sum(f.count for f in self.fallbacks.values())


class Report:
    """Of all ops that were called, in the order of their first call."""

    def __init__(self) -> None:
        self.ops: dict[str, Tally] = {}
        self._lock = threading.Lock()  # no call of any thread goes uncounted

    def ran(self, op: str) -> None:
        with self._lock:
            tally = self.ops.get(op)
            if tally is None:
                tally = self.ops[op] = Tally()
            tally.ran += 1

    def fell_back(self, op: str, reason: str, by: str, line: str) -> None:
        with self._lock:
            tally = self.ops.setdefault(op, Tally())
            tally.fallbacks.setdefault(reason, Fallback(by, line)).count += 1

    def clear(self) -> None:
        self.ops.clear()

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            op: {
                "ran": tally.ran,
                "fell_back": tally.fell_back,
                "reasons": [
                    {"reason": why, "by": f.by, "first": f.first, "count": f.count}
                    for why, f in tally.fallbacks.items()
                ],
            }
            for op, tally in self.ops.items()
        }

    def totals(self) -> Counter[str]:
        """Calls that "ran" and that "fell_back", of all ops together."""
        found: Counter[str] = Counter(ran=0, fell_back=0)
        for tally in self.ops.values():
            found.update(ran=tally.ran, fell_back=tally.fell_back)
        return found

    def __str__(self) -> str:
        """A line an op, and below it one a reason."""
        if not self.ops:
            return "no op was called"
        width = max(map(len, (*self.ops, "op")))
        lines = [f"{'op':<{width}}  {'ran':>8}  {'fell back':>9}"]
        for op, tally in self.ops.items():
            lines.append(f"{op:<{width}}  {tally.ran:>8}  {tally.fell_back:>9}")
            for why, f in tally.fallbacks.items():
                lines.append(f"{'':<{width}}  {f.count} by {f.by}, first at {f.first}: {why}")
        return "\n".join(lines)
