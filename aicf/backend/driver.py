"""The CUDA driver by ctypes: what a device is.

Nothing here needs CUDA's toolkit or a framework; without a driver every call says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
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
    """Of one device: facts that choices of kernels depend on."""

    def __init__(self, index: int) -> None:
        device = ctypes.c_int()
        call("cuDeviceGet", ctypes.byref(device), index)
        self._device = device.value

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
