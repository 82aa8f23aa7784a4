"""One CUDA device, with memory of the runtime's own: no framework is needed for it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from aicf.table import BYTES, Row, Table

from . import driver
from .base import AicfBackend
from .device import Device
from .host import as_array
from .tensors import dtype_of
from .view import address_of, is_dense

# Operations that a multiprocessor does in a cycle, products and sums counted: f32, and products of
# 16-bit matrices, by the arch's generation; NVIDIA's architecture white papers.
_A_CYCLE = {8: (128, 2048), 9: (256, 8192), 10: (256, 16384)}


class CudaBackend(AicfBackend):
    """Runs ops on a device, in the order of one stream."""

    name = "cuda"

    def __init__(
        self,
        table: Table | None = None,
        *,
        strict: bool = False,
        index: int = 0,
        stream: int = 0,
    ) -> None:
        """`stream` is a handle; 0 the default stream, or that of the tensors' framework."""
        super().__init__(table, strict=strict)
        self.device = f"cuda:{index}"
        self._driver = driver.Driver(index)
        self._stream = stream

    def launch(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> Any:
        return row.call(*args, **self._on_stream(options))

    def prepare(self, op: str, *args: Any, **options: Any) -> Any:
        return super().prepare(op, *args, **self._on_stream(options))

    def _on_stream(self, options: dict[str, Any]) -> dict[str, Any]:
        if self._stream and "stream" not in options:
            return {**options, "stream": self._stream}
        return options

    # ---- memory --------------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        import aicf_rt

        return aicf_rt.empty(tuple(shape), dtype, self.device, stream=self._stream or None)

    def from_host(self, array: Any) -> Any:
        made = self.empty(array.shape, dtype_of(array))
        self.copy_into(made, array)
        return made

    def to_host(self, tensor: Any) -> Any:
        import aicf_rt

        host = aicf_rt.empty(tuple(tensor.shape), dtype_of(tensor))
        self.synchronize()
        self._driver.to_host(address_of(host), address_of(_dense(tensor)), _bytes(tensor))
        return as_array(host)

    def copy_into(self, tensor: Any, source: Any) -> None:
        if tuple(tensor.shape) != tuple(source.shape) or dtype_of(tensor) != dtype_of(source):
            raise ValueError(
                f"{dtype_of(tensor)} {tuple(tensor.shape)} is not overwritten by "
                f"{dtype_of(source)} {tuple(source.shape)}"
            )
        to, size = address_of(_dense(tensor)), _bytes(tensor)
        if hasattr(source, "__dlpack_device__") and source.__dlpack_device__()[0] in (2, 13):
            self._driver.copy(to, address_of(_dense(source)), size, self._stream)
            return
        import numpy as np

        host = np.ascontiguousarray(as_array(source))
        self.synchronize()  # what still reads the memory comes first, on whichever stream
        self._driver.to_device(to, host.ctypes.data, size)

    def fill_bytes(self, tensor: Any, byte: int) -> None:
        address = address_of(_dense(tensor))
        self._driver.fill(address, byte, _bytes(tensor), self._stream)

    # ---- the device ----------------------------------------------------------------------------

    @property
    def stream(self) -> int:
        return self._stream

    def synchronize(self) -> None:
        self._driver.synchronize()

    @functools.cached_property
    def info(self) -> Device:
        of = self._driver
        return Device(
            kind="cuda",
            arch=of.arch(),
            name=of.name(),
            driver=driver.installed(),
            runtime=driver.version(),
            clocks=of.clocks(),
            flops=self._peaks(),
            bandwidth=of.bandwidth(),
            launch=2e-6,
        )

    def _peaks(self) -> Mapping[str, float]:
        major = int(self._driver.arch()[3:-1])
        f32, halves = _A_CYCLE.get(major, _A_CYCLE[min(_A_CYCLE, key=lambda m: abs(m - major))])
        cycles = self._driver.processors() * self._driver.clock()
        found = {"f32": f32 * cycles, "f16": halves * cycles, "bf16": halves * cycles}
        return MappingProxyType(found)

    def time(self, call: Callable[[], Any], count: int) -> float:
        """By events around all of them, so that what the host needs does not count while it is
        less."""
        first, last = self._driver.event(), self._driver.event()
        try:
            self._driver.record(first, self._stream)
            for _ in range(count):
                call()
            self._driver.record(last, self._stream)
            return self._driver.seconds(first, last) / count
        finally:
            self._driver.destroy(first, last)


def _dense(tensor: Any) -> Any:
    if not is_dense(tensor):
        raise ValueError(
            f"{tensor!r} is not dense: only whole rows are copied to and from a device"
        )
    return tensor


def _bytes(tensor: Any) -> int:
    size = BYTES[dtype_of(tensor)]
    for n in tensor.shape:
        size *= n
    return size
