"""The kernels that a call may run, and for each of the others the guard that keeps it out.

They are those of the row, in its order; what is legal the op's own module says.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from aicf.table import Row

from .request import Request


@dataclass(frozen=True, slots=True)
class Candidate:
    """`reason` is why it is not legal: the guard with its values, the build that has it not; of a
    legal one, what is said of it ("x86-64-v3")."""

    kernel: str
    legal: bool
    reason: str


class NoKernel(LookupError):
    """No kernel is legal; says of each why."""


class Candidates:
    """All kernels of a request's row, in the order in which they are tried without a choice."""

    __slots__ = ("_lines", "legal", "request")

    def __init__(self, request: Request, deterministic: bool = True) -> None:
        """Raises aicf_rt.Unsupported where the op takes no such operands. `deterministic` leaves
        out kernels whose bits differ from run to run."""
        row = request.row
        names, fits, differing = _kernels(row)
        lines = row.explain(*request.tensors, **request.keywords())
        if len(lines) != len(names) or not lines[0].startswith(f"{names[0]}: "):
            raise _unsupported(row.name, lines[0])
        for i in differing if deterministic else ():
            if lines[i].startswith(fits[i]):
                lines[i] = f"{names[i]}: its bits differ from run to run"
        self.request, self._lines = request, lines
        self.legal = tuple(itertools.compress(names, map(str.startswith, lines, fits)))

    def __iter__(self) -> Iterator[Candidate]:
        for kernel, line in zip(self.request.row.kernels, self._lines, strict=True):
            reason = line[len(kernel.id) + 2 :]
            legal = kernel.id in self.legal
            yield Candidate(kernel.id, legal, reason[4:].strip(" ()") if legal else reason)

    def require(self) -> tuple[str, ...]:
        """The names of the legal ones; raises NoKernel where there is none."""
        if not self.legal:
            told = "; ".join(f"{c.kernel}: {c.reason}" for c in self)
            raise NoKernel(f"{self.request}: no kernel is legal: {told}")
        return self.legal


@functools.cache
def _kernels(row: Row) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
    """Their names; how the line of one begins that is legal; the places of those that do not give
    the same bits at each run."""
    names = tuple(k.id for k in row.kernels)
    differing = tuple(i for i, k in enumerate(row.kernels) if k.determinism != "bitwise")
    return names, tuple(f"{name}: fits" for name in names), differing


def _unsupported(op: str, line: str) -> Exception:
    from aicf_rt import Unsupported

    error: Exception = Unsupported(line)
    error.op = op  # type: ignore[attr-defined]
    return error
