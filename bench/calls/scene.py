"""What all rows of a run share: the device, its tensors, the clock, the launchers."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from bench.calls.build import Workshop
from bench.calls.clock import Clock

ELEMENTS = 1024

Three = tuple[Any, Any, Any]

LONE = "torch"  # tensors that Python alone holds
HELD = "torch, held"  # tensors that C++ holds as well: a third of the cost to borrow


class Absent(Exception):
    """Why a row is not in the table."""


def need(module: str) -> Any:
    """A module that may not be installed."""
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise Absent("not installed")
    return importlib.import_module(module)


@dataclass(frozen=True, slots=True)
class Scene:
    """One device, and what is measured with on it."""

    device: str  # "cpu" or "cuda"
    shop: Workshop
    clock: Clock
    library: ctypes.CDLL  # that of launcher.c

    @property
    def cuda(self) -> bool:
        return self.device == "cuda"

    @property
    def loops(self) -> tuple[str, ...]:
        """The rows that are C loops of launches."""
        ways = ("<<<>>>", "cuLaunchKernel") if self.cuda else ("the launcher",)
        return tuple(f"C loop: {way}" for way in ways)

    def three(self) -> Three:
        """Tensors of torch that nobody else has."""
        a, b, out = (torch.ones(ELEMENTS, device=self.device) for _ in range(3))
        return a, b, out

    def held(self) -> tuple[Three, list[Any]]:
        """Tensors, and their owners in C++.

        torch makes a Python reference at each 1 -> 2 of a tensor's C++ count and drops it at
        2 -> 1, so that one which a capsule owns as well is borrowed at a third of the cost.
        """
        three = self.three()
        return three, [t.__dlpack__() for t in three]

    def kinds(self) -> Iterator[tuple[str, Three, list[Any]]]:
        """Each kind of torch's tensors. The last must live as long as the tensors are measured."""
        yield LONE, self.three(), []
        yield HELD, *self.held()

    def address(self, name: str) -> int:
        found = ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value
        assert found is not None
        return found

    def addresses(self) -> tuple[int, int, int]:
        """The launchers on the CPU and on CUDA, and the one that returns at once."""
        cpu, cuda, nothing = (self.address(f"bench_{n}") for n in ("cpu", "cuda", "nothing"))
        return cpu, cuda, nothing
