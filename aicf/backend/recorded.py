"""What the null backend records: launches, and graphs of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .report import caller


@dataclass(frozen=True, slots=True)
class Launch:
    """What a call would have launched, and the line of the program that called."""

    op: str
    kernel: str
    shapes: tuple[Any, ...]  # of the tensors, in the row's order; None of absent ones
    line: str


class NullGraph:
    """What calls and copies were when they were captured: recorded when it is launched."""

    def __init__(self, launches: list[Launch], work: Sequence[Any]) -> None:
        self._launches = launches  # of the backend
        self._captured = [_captured(part) for part in work]
        self.updates = 0

    @property
    def nodes(self) -> int:
        return len(self._captured)

    def update(self, work: Sequence[Any]) -> str:
        self._captured = [_captured(part) for part in work]
        self.updates += 1
        return "updated"

    def launch(self) -> None:
        self._launches += self._captured


def _captured(part: Any) -> Launch:
    if isinstance(part, tuple):
        return Launch("copy", "graph", tuple(tuple(x.shape) for x in part), caller())
    found: Launch = part.launch
    return found
