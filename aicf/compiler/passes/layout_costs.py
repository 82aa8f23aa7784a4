"""What a call is taken to cost on a device: as it was measured, else by the roofline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from aicf.backend.device import Device
from aicf.compiler.kernels.cost import work_of
from aicf.compiler.kernels.registry import Candidates, NoKernel
from aicf.compiler.kernels.request import Request
from aicf.table import BYTES, Kernel, Row

if TYPE_CHECKING:
    from aicf.compiler.kernels.selector import Selector

Seconds: TypeAlias = Callable[[Request], "float | None"]

# Of the roofline, what the first kernel of a row is taken to reach, and each further one less: rows
# have them in the order in which their authors would try them.
_REACHED, _FALLING = 0.5, 0.9


class Costs:
    """Of one device, each request asked once. `seconds` stands for all of it where it is given."""

    def __init__(
        self, device: Device, place: str, selector: Selector | None = None,
        seconds: Seconds | None = None,
    ) -> None:  # fmt: skip
        self.device, self.place, self.selector, self.given = device, place, selector, seconds
        self._known: dict[Request, tuple[float | None, float] | None] = {}

    @property
    def asked(self) -> list[Request]:
        """What was asked for and has a kernel, each once."""
        return [request for request, found in self._known.items() if found is not None]

    def of(self, request: Request) -> float | None:
        """Seconds; None where the device has no kernel for it."""
        found = self._asked(request)
        return None if found is None else found[1] if found[0] is None else found[0]

    def both(self, a: Request, b: Request) -> tuple[float, float] | None:
        """Of two ways to do one thing. Where one was measured alone, the other is in proportion to
        it as their rooflines are: a measured time and a guess are never compared."""
        first, second = self._asked(a), self._asked(b)
        if first is None or second is None:
            return None
        (real_a, guess_a), (real_b, guess_b) = first, second
        if real_a is not None and real_b is not None:
            return real_a, real_b
        if real_a is not None:
            return real_a, real_a * guess_b / guess_a
        if real_b is not None:
            return real_b * guess_a / guess_b, real_b
        return guess_a, guess_b

    def _asked(self, request: Request) -> tuple[float | None, float] | None:
        if request not in self._known:
            self._known[request] = self._ask(request.on(self.place))
        return self._known[request]

    def _ask(self, request: Request) -> tuple[float | None, float] | None:
        """What was measured, and what the roofline says."""
        from aicf_rt import Unsupported

        if self.given is not None:
            seconds = self.given(request)
            return None if seconds is None else (seconds, seconds)
        try:
            legal = Candidates(request).require()
        except (NoKernel, Unsupported):
            return None
        first = next(k for k in request.row.kernels if k.id in legal)
        work = work_of(request)
        best = replace(work, dtype=computing(first, work.dtype, self.device)).seconds(self.device)
        guess = best / (_REACHED * _FALLING ** _place(request.row, first))
        return self._measured(request, legal), guess

    def _measured(self, request: Request, legal: Sequence[str]) -> float | None:
        """Under the conditions that hold here; also of a kernel that is the only one."""
        records = self.selector.stored(request, legal) if self.selector is not None else ()
        return records[0].ranking[0][1] * 1e-6 if records else None


def computing(kernel: Kernel, dtype: str, device: Device) -> str:
    """The dtype whose peak bounds a kernel: of a device whose peak of halves is that of matrix
    units, which are asked for by an arch or are a library's, another kernel has that of f32."""
    if BYTES[dtype] > 2 or device.peak("f16") <= device.peak("f32"):
        return dtype
    if kernel.arch is None and not kernel.libs:
        return "f32"
    return "f16" if BYTES[dtype] == 1 else dtype


def _place(row: Row, kernel: Kernel) -> int:
    """Of a kernel among those of its backend."""
    return [k.id for k in row.kernels if k.backend == kernel.backend].index(kernel.id)
