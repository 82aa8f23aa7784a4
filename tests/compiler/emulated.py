"""Graphs on the host, as strict as a device's: what was captured keeps the tensors and numbers that
its calls had then, whatever they are given later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aicf_rt
import numpy as np

from aicf.backend.cpu import CpuBackend


class Emulated(CpuBackend):
    """`refused`: why nothing is captured; `host_only`: ops that take numbers on the host alone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.refused: str = options.pop("refused", "")
        self.host_only: frozenset[str] = frozenset(options.pop("host_only", ()))
        super().__init__(*args, **options)
        self.graphs: list[Graph] = []
        self.tries = 0
        self.branches = 0  # of the last capture

    def prepare(self, op: str, *args: Any, **options: Any) -> Any:
        row = self.table[op]
        names = (p.name for p in (*row.tensors, *row.outs))
        return Call(self, op, {**dict(zip(names, args, strict=False)), **options})

    def bind(self, op: str, named: dict[str, Any]) -> Any:
        for p in self.table[op].scalars if op in self.host_only else ():
            if hasattr(named.get(p.name), "shape"):
                raise aicf_rt.Unsupported(f"{op}: {p.name}: only a number on the host is taken")
        return super().prepare(op, **named)

    def run(self, calls: Sequence[Any], names: Sequence[str] = ()) -> None:
        super().run([call.call for call in calls], names)

    def capture(
        self, work: Sequence[Any], feed: tuple[Any, Any] | None = None, *, branches: int = 1
    ) -> Graph:
        self.tries += 1
        self.branches = branches
        if self.refused:
            raise RuntimeError(self.refused)
        self.graphs.append(Graph(self, work, feed))
        return self.graphs[-1]


class Call:
    """A prepared call that knows what it has."""

    def __init__(self, backend: Emulated, op: str, named: dict[str, Any]) -> None:
        self.backend, self.op, self.named = backend, op, named
        self.call = backend.bind(op, named)

    @property
    def kernel(self) -> str:
        return str(self.call.kernel)

    def set(self, **arguments: Any) -> None:
        named = self.named | arguments
        self.call, self.named = self.backend.bind(self.op, named), named

    def __call__(self) -> None:
        self.call()


class Graph:
    def __init__(self, backend: Emulated, work: Sequence[Any], feed: Any) -> None:
        self.backend, self.feed = backend, feed
        self.updates: list[str] = []
        self.launches = 0
        self._take(work)

    def _take(self, work: Sequence[Any]) -> None:
        self.frozen = [self.backend.bind(call.op, dict(call.named)) for call in work]

    @property
    def nodes(self) -> int:
        return len(self.frozen)

    def update(self, work: Sequence[Any]) -> str:
        if self.backend.refused:
            raise RuntimeError(self.backend.refused)
        self._take(work)
        self.updates.append("updated")
        return "updated"

    def launch(self) -> None:
        self.launches += 1
        if self.feed is not None:
            host, out = self.feed
            np.asarray(out)[...] = host
        aicf_rt.run(self.frozen)


def host(mode: str, **options: Any) -> CpuBackend:
    """The CPU, with graphs for what captures."""
    return Emulated(**options) if mode == "graph" else CpuBackend(**options)
