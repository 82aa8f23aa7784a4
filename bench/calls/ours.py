"""The rows that are ours, and the floors: three-tensor `add_f32` of 1,024 elements."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import aicf_cuda
import aicf_rt
import torch

from bench.calls.clock import Block, Clock, Row

ELEMENTS = 1024

LONE = "torch"  # tensors that Python alone holds
HELD = "torch, held"  # tensors that C++ holds as well: a third of the cost to borrow


class Tensors:
    """Three f32 tensors of each kind on one device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.lone = self.three()
        self.held = self.three()
        self.loop = self.three()
        # torch makes a Python reference at each 1 -> 2 of a tensor's C++ count and drops it at
        # 2 -> 1; a capsule is a second owner in C++.
        self.holders = [t.__dlpack__() for t in self.held]

    def three(self) -> tuple[Any, Any, Any]:
        a, b, out = (torch.ones(ELEMENTS, device=self.device) for _ in range(3))
        return a, b, out

    def kinds(self) -> Iterator[tuple[str, tuple[Any, Any, Any]]]:
        yield LONE, self.lone
        yield HELD, self.held


def address(library: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found


def floors(clock: Clock, tensors: Tensors, library: ctypes.CDLL) -> Iterator[Row]:
    """What nobody can be faster than: borrowing alone, and launching alone."""
    for kind, three in tensors.kinds():
        exchange = clock.call(clock.floor.exchange, three)
        yield Row(f"bare exchange: {kind}", "C", kind, empty=exchange)
    if tensors.device == "cpu":
        launcher = address(library, "bench_cpu")
        pointers = [t.data_ptr() for t in tensors.loop]

        def loop(times: int) -> int:
            taken: int = clock.floor.loop(launcher, *pointers, ELEMENTS, 0, times)
            return taken

        yield Row("C loop", "C", "pointers", full=Block(loop))


def calls(clock: Clock, tensors: Tensors, hollow: Any) -> Iterator[Row]:
    """The forms of a call on torch's tensors."""
    add = aicf_cuda.add
    for kind, (a, b, out) in tensors.kinds():
        beside = (f"bare exchange: {kind}", "C loop", f"tvm-ffi: {kind}")
        three = (a, b, out)

        def row(what: str, full: Any, empty: Any, arguments: Any, **options: Any) -> Row:
            blocks = [clock.call(f, arguments, **options) if f else None for f in (full, empty)]
            return Row(f"{what}: {kind}", "ours", kind, *blocks, beside=beside)

        yield row("typed", add.add_f32, hollow.add_f32, three)
        yield row("typed, named", add.add_f32, hollow.add_f32, three, names=("a", "b", "out"))
        yield row("generic, out=", add.add, hollow.add, three, names=("out",))
        yield row("generic, allocating", add.add, hollow.add, (a, b))
        # Of tensors of their own: what a bound call has is held.
        other = tensors.three()
        yield row("bound", add.bind(*other), hollow.bind(*other), ())
        hundred = [[m.bind(*other) for _ in range(100)] for m in (add, hollow)]
        blocks = [clock.call(aicf_rt.run, (many,), each=100) for many in hundred]
        yield Row(f"run of 100, each: {kind}", "ours", kind, *blocks, beside=beside)
