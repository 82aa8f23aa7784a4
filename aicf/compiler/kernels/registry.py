"""The kernels that a call may run, and for each of the others the guard that keeps it out.

They are those of the row, in its order; what is legal the op's own module says.
"""

from __future__ import annotations

import functools
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
        lines = row.explain(*request.tensors, **request.keywords())
        if len(lines) != len(row.kernels) or not lines[0].startswith(f"{row.kernels[0].id}: "):
            raise _unsupported(row.name, lines[0])
        for i in _differing(row) if deterministic else ():
            if ": fits" in lines[i]:
                lines[i] = f"{row.kernels[i].id}: its bits differ from run to run"
        self.request, self._lines = request, lines
        self.legal = tuple(
            kernel.id
            for kernel, line in zip(row.kernels, lines, strict=True)
            if line.startswith(": fits", len(kernel.id))
        )

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
def _differing(row: Row) -> tuple[int, ...]:
    """The places of the kernels that do not give the same bits at each run."""
    return tuple(i for i, k in enumerate(row.kernels) if k.determinism != "bitwise")


def _unsupported(op: str, line: str) -> Exception:
    from aicf_rt import Unsupported

    error: Exception = Unsupported(line)
    error.op = op  # type: ignore[attr-defined]
    return error
