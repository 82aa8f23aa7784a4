"""One stored verdict: whether a rule's graph is taken in the place of the one before it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .record import checksum


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of a rule on one graph and one device. `key` is a hash of all that it was made from: the
    rule's source, both graphs, the data, the device, the kernels' code.

    Errors are those of the output that came nearest to its budget, or went farthest over it, as
    `passes.numeric` measures them. Seconds are medians of one run; None: not timed, or noise."""

    key: str
    rule: str
    graph: str  # its name
    device: str
    kept: bool
    why: str  # in words
    error_before: float
    error_after: float
    budget: float  # what error_after may be
    seconds_before: float | None
    seconds_after: float | None
    made: int  # seconds since 1970

    def __str__(self) -> str:
        word = "kept" if self.kept else "rolled back"
        return f"{self.rule} on {self.graph}, {self.device}: {word}: {self.why}"

    def columns(self) -> tuple[Any, ...]:
        """As the store has it, its checksum last."""
        parts = tuple(int(x) if isinstance(x, bool) else x for x in dataclasses.astuple(self))
        return (*parts, checksum(parts))

    @classmethod
    def of_columns(cls, row: tuple[Any, ...]) -> Self | None:
        """None of a row that is broken, in whatever way: it is as if it were not there."""
        *parts, found = row
        if found != checksum(tuple(parts)) or len(parts) != len(COLUMNS):
            return None
        made = cls(*parts)
        return dataclasses.replace(made, kept=bool(made.kept)) if made._is_sound() else None

    def _is_sound(self) -> bool:
        texts = (self.key, self.rule, self.graph, self.device, self.why)
        numbers = (self.error_before, self.error_after, self.budget)
        times = (self.seconds_before, self.seconds_after)
        return (
            all(isinstance(t, str) for t in texts)
            and all(isinstance(x, float) and not math.isnan(x) for x in numbers)
            and all(t is None or (isinstance(t, float) and t > 0) for t in times)
            and isinstance(self.made, int)
        )

    def portable(self) -> dict[str, Any]:
        """As JSON for people; what no JSON number is, is a text."""
        return {
            name: value if not isinstance(value, float) or math.isfinite(value) else str(value)
            for name, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def of_portable(cls, item: Mapping[str, Any]) -> Self:
        """Raises TypeError or ValueError of what `portable` does not give."""
        floats = {"error_before", "error_after", "budget"}
        fields: dict[str, Any] = {k: float(v) if k in floats else v for k, v in item.items()}
        found = cls(**fields)
        if not isinstance(found.kept, bool) or not found._is_sound():
            raise ValueError("it is no verdict")
        return found


COLUMNS = tuple(f.name for f in dataclasses.fields(Verdict))
