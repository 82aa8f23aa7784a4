"""A device as choices of kernels see it: what they are valid for, and how fast it could be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Device:
    """`flops` are operations a second at best, by dtype; `bandwidth` is bytes a second, `launch`
    seconds that the device needs for an empty kernel. Where they are not known, they are those of
    some small machine: scores are compared on one device alone."""

    kind: str  # "cpu", "cuda"
    arch: str  # "sm_90", "x86-64"
    name: str
    driver: str = ""
    runtime: str = ""
    clocks: str = ""
    flops: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    bandwidth: float = 1e10
    launch: float = 1e-6

    def peak(self, dtype: str) -> float:
        """Of a dtype; of one that is not listed, the least."""
        return self.flops.get(dtype) or min(self.flops.values(), default=1e10)
