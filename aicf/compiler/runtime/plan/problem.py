"""What is planned: buffers that live for a time, and the offsets at which they lie.

Times are whole numbers in an order, of a graph the indices of its nodes. A buffer lives at `lower`,
at `upper` no more: two that meet there may lie in the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aicf.compiler.ir.errors import Location


class PlanError(ValueError):
    """What cannot be planned, or a plan that is wrong."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes that are needed from `lower` until before `upper`."""

    id: str
    lower: int
    upper: int
    size: int
    kind: str = ""  # of a graph: "value" or "workspace"
    loc: Location | None = None  # the line of the program that made it

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise PlanError(f"{self.id}: {name} is {value!r}, and no whole number")
        if self.lower >= self.upper:
            raise PlanError(f"{self.id} lives from {self.lower} until {self.upper}, which is never")
        if self.size < 0:
            raise PlanError(f"{self.id} has {self.size} bytes")


@dataclass(frozen=True, slots=True)
class Plan:
    """Buffers and where they lie, in bytes from the start of the arena, of which `peak` are used.

    `bound` is the largest sum of sizes that live at once, and that is at `bound_at`: less is needed
    by no plan. Sizes count rounded up to `align`, since all offsets are multiples of it."""

    buffers: tuple[Buffer, ...]
    offsets: Mapping[str, int]
    peak: int
    bound: int
    bound_at: int
    align: int
    by: str  # how it was found
    seconds: float  # that planning took

    @property
    def optimal(self) -> bool:
        """Whether no plan needs less."""
        return self.peak == self.bound

    @property
    def ratio(self) -> float:
        """Of the peak to the bound."""
        return self.peak / self.bound if self.bound else 1.0

    @property
    def unshared(self) -> int:
        """The bytes if no two buffers shared any."""
        return sum(rounded(b.size, self.align) for b in self.buffers)

    def live(self, time: int) -> list[Buffer]:
        """What lives at a time, the largest first."""
        alive = (b for b in self.buffers if b.lower <= time < b.upper)
        return sorted(alive, key=lambda b: (-b.size, b.id))

    def largest(self, count: int = 5) -> str:
        """Of what lives where the bound is reached, the largest, a line each."""
        alive = self.live(self.bound_at)
        lines = [f"  {b.id}: {b.size} bytes{f', {b.loc}' if b.loc else ''}" for b in alive[:count]]
        more = alive[count:]
        if more:
            lines.append(f"  and {len(more)} more: {sum(b.size for b in more)} bytes")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """For programs, as JSON has it."""
        return {
            "peak": self.peak,
            "bound": self.bound,
            "bound_at": self.bound_at,
            "optimal": self.optimal,
            "unshared": self.unshared,
            "align": self.align,
            "by": self.by,
            "seconds": self.seconds,
            "buffers": [
                {
                    "id": b.id, "lower": b.lower, "upper": b.upper, "size": b.size,
                    "offset": self.offsets[b.id], "kind": b.kind,
                    "loc": str(b.loc) if b.loc else None,
                }
                for b in self.buffers
            ],
        }  # fmt: skip

    def __str__(self) -> str:
        return (
            f"buffers: {len(self.buffers)}, {self.unshared} bytes if none were shared\n"
            f"peak: {self.peak}\n"
            f"lower bound: {self.bound}, at {self.bound_at}\n"
            f"optimal: {'yes' if self.optimal else f'no, {self.ratio:.3f} of the bound'}"
        )


def rounded(size: int, align: int) -> int:
    """Up to a multiple of `align`."""
    return -(-size // align) * align


def check_names(buffers: Sequence[Buffer]) -> None:
    """Raises PlanError where two have one name."""
    names: set[str] = set()
    for b in buffers:
        if not isinstance(b, Buffer):
            raise PlanError(f"{b!r} is no Buffer")
        if b.id in names:
            raise PlanError(f"two buffers are called {b.id}")
        names.add(b.id)
