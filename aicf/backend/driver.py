"""The CUDA driver by ctypes: what this layer asks of a device beside launches of ops.

Nothing here needs CUDA's toolkit or a framework; without a driver every call says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

# CUdevice_attribute, of cuda.h.
_CLOCK_KHZ = 13
_PROCESSORS = 16
_MEMORY_CLOCK_KHZ = 36
_BUS_BITS = 37
_MAJOR = 75
_MINOR = 76


class DriverError(RuntimeError):
    """The driver is not there, or refused a call; says which."""


class Driver:
    """Of one device, in its primary context, which CUDA's runtime has too."""

    def __init__(self, index: int) -> None:
        self.index = index
        device = ctypes.c_int()
        call("cuDeviceGet", ctypes.byref(device), index)
        self._device = device.value
        self._context = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """The device is the thread's current one within."""
        call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    # ---- memory: addresses and bytes -----------------------------------------------------------

    def to_device(self, address: int, host: int, size: int) -> None:
        with self.current():
            call("cuMemcpyHtoD_v2", _address(address), ctypes.c_void_p(host), _size(size))

    def to_host(self, host: int, address: int, size: int) -> None:
        with self.current():
            call("cuMemcpyDtoH_v2", ctypes.c_void_p(host), _address(address), _size(size))

    def copy(self, to: int, of: int, size: int, stream: int) -> None:
        with self.current():
            call("cuMemcpyDtoDAsync_v2", _address(to), _address(of), _size(size), _handle(stream))

    def fill(self, address: int, byte: int, size: int, stream: int) -> None:
        with self.current():
            value = ctypes.c_ubyte(byte)
            call("cuMemsetD8Async", _address(address), value, _size(size), _handle(stream))

    def synchronize(self) -> None:
        """Waits for all of the context's streams."""
        with self.current():
            call("cuCtxSynchronize")

    # ---- what the device is --------------------------------------------------------------------

    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        call("cuDeviceGetName", text, len(text), self._device)
        return text.value.decode()

    def arch(self) -> str:
        """ "sm_90"."""
        return f"sm_{self._attribute(_MAJOR)}{self._attribute(_MINOR)}"

    def processors(self) -> int:
        return self._attribute(_PROCESSORS)

    def clock(self) -> float:
        """Of the processors at best, in Hz."""
        return self._attribute(_CLOCK_KHZ) * 1e3

    def bandwidth(self) -> float:
        """Of the memory at best, in bytes a second: two transfers a cycle."""
        return 2 * self._attribute(_MEMORY_CLOCK_KHZ) * 1e3 * self._attribute(_BUS_BITS) / 8

    def clocks(self) -> str:
        return f"{self._attribute(_CLOCK_KHZ)} kHz, {self._attribute(_MEMORY_CLOCK_KHZ)} kHz"

    def _attribute(self, which: int) -> int:
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), which, self._device)
        return value.value

    # ---- time ----------------------------------------------------------------------------------

    def event(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        with self.current():
            call("cuEventCreate", ctypes.byref(made), 0)
        return made

    def record(self, event: ctypes.c_void_p, stream: int) -> None:
        with self.current():
            call("cuEventRecord", event, _handle(stream))

    def seconds(self, first: ctypes.c_void_p, last: ctypes.c_void_p) -> float:
        """Between two events; waits for the later one."""
        passed = ctypes.c_float()
        with self.current():
            call("cuEventSynchronize", last)
            call("cuEventElapsedTime", ctypes.byref(passed), first, last)
        return passed.value / 1e3

    def destroy(self, *events: ctypes.c_void_p) -> None:
        with self.current():
            for event in events:
                call("cuEventDestroy_v2", event)


def version() -> str:
    """The version of CUDA that the driver has: "13.0"."""
    found = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(found))
    return f"{found.value // 1000}.{found.value % 1000 // 10}"


def installed() -> str:
    """The driver's own version, "580.82.07"; "" where the system does not say."""
    with contextlib.suppress(OSError), open("/sys/module/nvidia/version") as file:
        return file.read().strip()
    return ""


def count() -> int:
    """How many devices there are; 0 without a driver."""
    found = ctypes.c_int()
    try:
        call("cuDeviceGetCount", ctypes.byref(found))
    except DriverError:
        return 0
    return found.value


@functools.cache
def _library() -> Any:
    try:
        found = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"no CUDA driver: {error}") from error
    code = found.cuInit(0)
    if code:
        raise DriverError(f"cuInit failed with error {code}: no device can be used")
    return found


def call(name: str, *args: Any) -> None:
    """A function of the driver's. Raises DriverError by the driver's own words."""
    library = _library()
    code = getattr(library, name)(*args)
    if code:
        text = ctypes.c_char_p()
        library.cuGetErrorString(code, ctypes.byref(text))
        raise DriverError(f"{name} failed: {(text.value or b'').decode()} (error {code})")


def _address(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def _handle(value: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(value or None)
