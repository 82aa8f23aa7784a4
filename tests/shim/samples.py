"""Calls of every row over SHIM, from the samples of tests/rows: tensors that lie as theirs do, and
are nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from gpu.cases import fits, laid
from modules.fake_producer import FakeProducer
from rows import Maker, rows
from rows.calls import Call, call_of, mapped
from rows.table import DTYPES, WORDS, facts, table
from shim.steer import fake

OPS = tuple(op for op in rows() if op in table() and facts(op).kernels_of("cuda"))
EACH = 2  # calls of a kernel


@dataclass(frozen=True, slots=True)
class Faked:
    """A call by one kernel."""

    op: str
    kernel: str
    suffix: str
    args: list[Any]
    options: dict[str, Any]
    name: str
    empty: bool  # whether nothing is to be written

    def __repr__(self) -> str:
        return f"{self.kernel} of {self.name}"

    def run(self, **more: Any) -> bool:
        typed = getattr(facts(self.op).module, f"{self.op}_{self.suffix}")
        return bool(typed(*self.args, **self.options, kernel=self.kernel, **more))

    def bind(self, **more: Any) -> Any:
        return facts(self.op).module.bind(*self.args, **self.options, kernel=self.kernel, **more)

    @property
    def workspace(self) -> bool:
        return any(k["id"] == self.kernel and "workspace" in k for k in self.row["kernels"])

    @property
    def row(self) -> Any:
        return facts(self.op).module.capability


def faked(x: torch.Tensor, device: int) -> FakeProducer:
    """From an address that is aligned as its own, in elements."""
    offset = x.storage_offset() * x.element_size()
    return fake(
        *x.shape, dtype=WORDS[x.dtype], device=device, offset=offset, strides=tuple(x.stride())
    )


def of_call(call: Call, kernel: str, device: int) -> Faked:
    def move(x: torch.Tensor) -> FakeProducer:
        return faked(x, device)

    outs = call.written().values()
    empty = all(x.numel() == 0 for x in outs if isinstance(x, torch.Tensor))
    return Faked(
        call.row.op,
        kernel,
        call.suffix,
        mapped(move, call.positional()),
        {name: mapped(move, value) for name, value in call.options.items()},
        call.name,
        empty,
    )


def calls(op: str, device: int = 0) -> Iterator[Faked]:
    """EACH of each CUDA kernel: in the row's first dtype that the kernel has, of the larger samples
    if no other fits."""
    row, kernels = rows()[op], facts(op).kernels_of("cuda")
    count = dict.fromkeys(kernels, 0)
    for word in row.dtypes:
        for make in (row.samples, row.large):
            left = {kernel: kernels[kernel] for kernel in kernels if not count[kernel]}
            for one in make(Maker(DTYPES[word])) if left else ():
                for kernel, _, layout in fits(row, one, left, "cuda"):
                    count[kernel] += 1
                    if count[kernel] <= EACH:
                        yield of_call(laid(call_of(row, one), layout), kernel, device)


def every(device: int = 0) -> list[Faked]:
    return [call for op in OPS for call in calls(op, device)]


def unreached(called: list[Faked]) -> list[str]:
    """Built CUDA kernels that none of them was by, but for those that other archs have."""
    reached = {(call.op, call.kernel) for call in called}
    wanted = {
        (op, k["id"])
        for op in OPS
        for k in facts(op).kernels
        if k["id"] in facts(op).kernels_of("cuda") and not k.get("arch")
    }
    return sorted(f"{op}/{kernel}" for op, kernel in wanted - reached)
