"""One CUDA device, with memory of the runtime's own: no framework is needed for it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from aicf.table import BYTES, Row, Table

from . import driver
from .base import AicfBackend
from .device import Device
from .host import as_array, span_of
from .tensors import dtype_of, strides_of

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
        stream: Any = None,
    ) -> None:
        """`stream` is what `stream=` takes; None is the default stream, or that of the tensors'
        framework. Raises DriverError where there is no such device."""
        super().__init__(table, strict=strict)
        self._driver = driver.Driver(index)
        self._index = index
        self.device = f"cuda:{index}"
        self._stream = stream

    def launch(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> Any:
        return row.call(*args, **self._on_stream(options))

    def prepare(self, op: str, *args: Any, **options: Any) -> Any:
        return super().prepare(op, *args, **self._on_stream(options))

    def _on_stream(self, options: dict[str, Any]) -> dict[str, Any]:
        if self._stream is not None and "stream" not in options:
            return {**options, "stream": self._stream}
        return options

    def capture(
        self, work: Sequence[Any], feed: tuple[Any, Any] | None = None, *, branches: int = 1
    ) -> Any:
        import aicf_rt

        return aicf_rt.capture(list(work), feed=feed, branches=branches)

    # ---- memory --------------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        import aicf_rt

        return aicf_rt.empty(tuple(shape), dtype, self.device, stream=_handle(self._stream))

    def fed(self, size: int) -> Any:
        import aicf_rt

        stream = _handle(self._stream)
        return aicf_rt.empty((size,), "u8", self.device, stream=stream, fed=True)

    def from_host(self, array: Any) -> Any:
        made = self.empty(array.shape, dtype_of(array))
        self.copy_into(made, array)
        return made

    def to_host(self, tensor: Any) -> Any:
        """By way of all that the tensor spans, where it has gaps: only what is dense crosses."""
        import aicf_rt

        shape, strides = tuple(tensor.shape), strides_of(tensor)
        span = None if strides is None else span_of(shape, strides)
        if span is None or strides is None:
            host = aicf_rt.empty(shape, dtype_of(tensor))
            aicf_rt.copy(tensor, host, stream=self._stream)
            return as_array(host)
        flat = self.to_host(aicf_rt.view(tensor, (span,)))
        steps = [s * flat.itemsize for s in strides]
        return np.lib.stride_tricks.as_strided(flat, shape, steps).copy()

    def copy_into(self, tensor: Any, source: Any) -> None:
        """Both dense: only whole tensors cross to and from a device."""
        import aicf_rt

        try:
            aicf_rt.copy(source, tensor, stream=self._stream)
        except aicf_rt.Unsupported:  # which asks first: to ask here takes longer than the copy
            if tuple(tensor.shape) == tuple(source.shape) and dtype_of(tensor) == dtype_of(source):
                raise
            raise ValueError(
                f"{dtype_of(tensor)} {tuple(tensor.shape)} is not overwritten by "
                f"{dtype_of(source)} {tuple(source.shape)}"
            ) from None

    def fill_bytes(self, tensor: Any, byte: int) -> None:
        import aicf_rt

        count = math.prod(tensor.shape)
        span = span_of(tuple(tensor.shape), strides_of(tensor) or ())
        if span not in (None, count):
            raise ValueError(f"{tensor!r} has gaps")
        size = count * BYTES[dtype_of(tensor)]
        if size:
            bits = aicf_rt.view(tensor, (size,), dtype="u8")
            aicf_rt.copy(np.full(size, byte, "u1"), bits, stream=self._stream)

    # ---- the device ----------------------------------------------------------------------------

    def current(self, tensors: Sequence[Any]) -> Callable[[], Any] | None:
        packages = [type(x).__module__.partition(".")[0] for x in tensors]
        found = next((p for p in packages if p in ("torch", "cupy")), None)
        if self._stream is not None or found is None:
            return None
        if found == "torch":
            import torch

            ask = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # of builds for CUDA
            return ask and (lambda: ask(self._index) or None)
        import cupy

        return lambda: cupy.cuda.get_current_stream().ptr or None

    def synchronize(self) -> None:
        import aicf_rt

        aicf_rt.synchronize(self.device, self._stream)

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
        """By the device's own clock, around all of them: what the host needs does not count while
        it is less."""
        import aicf_rt

        first, last = aicf_rt.Event(self.device), aicf_rt.Event(self.device)
        first.record(self._stream)
        for _ in range(count):
            call()
        last.record(self._stream)
        return float(first.elapsed(last)) / count


def _handle(stream: Any) -> int | None:
    """Of what `stream=` takes, as a number: of it memory is taken and given back in its order."""
    if stream is None or isinstance(stream, int):
        return stream
    _, handle = stream.__cuda_stream__()
    return int(handle)
