"""The CPU: numpy's arrays, and tensors of the runtime where numpy has no such dtype."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .base import AicfBackend
from .device import Device
from .host import as_array, bytes_of, is_numpy_dtype
from .tensors import dtype_of


class CpuBackend(AicfBackend):
    """Runs ops in host memory; all is done when a call returns."""

    name = "cpu"
    device = "cpu"

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        import aicf_rt

        made = aicf_rt.empty(tuple(shape), dtype)
        return as_array(made) if is_numpy_dtype(dtype) else made

    def carve(
        self, memory: Any, offset: int, shape: Sequence[int], dtype: str,
        strides: Sequence[int] | None = None,
    ) -> Any:  # fmt: skip
        made = super().carve(memory, offset, shape, dtype, strides)
        return as_array(made) if is_numpy_dtype(dtype) else made

    def from_host(self, array: Any) -> Any:
        made = self.empty(array.shape, dtype_of(array))
        self.copy_into(made, array)
        return made

    def to_host(self, tensor: Any) -> Any:
        return as_array(tensor).copy()

    def copy_into(self, tensor: Any, source: Any) -> None:
        to, of = as_array(tensor), as_array(source)
        if to.shape != of.shape or to.dtype != of.dtype:
            raise ValueError(f"{to.dtype} {to.shape} is not overwritten by {of.dtype} {of.shape}")
        to[...] = of

    def fill_bytes(self, tensor: Any, byte: int) -> None:
        bytes_of(tensor)[...] = byte

    @functools.cached_property
    def info(self) -> Device:
        """Peaks of a core of the x86-64-v3 that kernels are compiled for, at 3 GHz: two products
        and sums of eight f32 a cycle."""
        threads = _threads()
        f32 = 2 * 2 * 8 * 3e9 * threads
        halves = {"f16": f32 / 4, "bf16": f32 / 4}  # converted to f32 and back
        return Device(
            kind="cpu",
            arch=platform.machine(),
            name=_model(),
            driver=platform.release(),
            clocks=f"{threads} threads",
            flops=MappingProxyType({"f32": f32, "f64": f32 / 2, **halves}),
            bandwidth=min(threads, 8) * 1e10,
            launch=2e-7,
        )


def _threads() -> int:
    """As the runtime counts them."""
    for variable in ("AICF_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(variable, "")
        if text.isdigit() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0))


def _model() -> str:
    """As the kernel calls it; the machine's kind where that is not said."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.machine())
