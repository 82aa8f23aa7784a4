"""What was made of a graph, as one page that needs nothing else.

step.report(x, y, lr=0.1, step=1).save("step.html")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from aicf.compiler.executable import Executable
    from aicf.compiler.report.facts import Facts

__all__ = ["Report"]


@dataclass(frozen=True, slots=True)
class Report:
    """What was found out of one executable, or of several; the same page each time it is asked."""

    facts: tuple[Facts, ...]

    @classmethod
    def of(cls, executable: Executable, *inputs: Any, **named: Any) -> Self:
        """With a time for each op: on these inputs, else on those of the last run; without times
        where there are none, or what is timed fails."""
        from aicf.compiler.report.facts import facts_of

        times, timed, notes = None, "", []
        given = (inputs, named) if inputs or named else executable.last_inputs
        if given is None:
            notes.append("It has not run, so that no op is timed: run it, or give report() inputs")
        else:
            try:
                times = executable.per_op(*given[0], **given[1])
                timed = "each op alone, one after another, the mean of 20 runs"
            except Exception as error:  # of an op, an allocation or a device
                if inputs or named:
                    raise
                first = (str(error).splitlines() or [""])[0]
                notes.append(f"Ops could not be timed: {type(error).__name__}: {first}")
        return cls((facts_of(executable, times, timed, notes),))

    @classmethod
    def join(cls, reports: Sequence[Report]) -> Self:
        """One page of several."""
        return cls(tuple(f for r in reports for f in r.facts))

    def html(self) -> str:
        """The page, of at most a million bytes."""
        from aicf.compiler.report.page import render

        return render(self.facts)

    def save(self, path: str | Path) -> Path:
        """Writes the page."""
        found = Path(path)
        found.write_text(self.html(), encoding="utf-8")
        return found
