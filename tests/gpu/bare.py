"""aicf_rt.Tensor on a GPU without a framework, and the CUDA runtime that libaicf carries: for
processes that shall start fast, or that no other runtime shall be in."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aicf_rt

DEVICE_TO_HOST, HOST_TO_DEVICE = 2, 1


def runtime() -> Any:
    """libaicf's own CUDA runtime, as its modules call it."""
    found = ctypes.CDLL(str(Path(aicf_rt.__file__).with_name("libaicf.so.1")))
    found.cudaMemcpy.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    ]  # fmt: skip
    return found


def address(t: Any) -> int:
    return int(t.__cuda_array_interface__["data"][0])


def tensor(values: Sequence[float], shape: tuple[int, ...] | None = None) -> Any:
    """f32, on the first device."""
    made = aicf_rt.empty(shape or (len(values),), "f32", "cuda")
    host = (ctypes.c_float * len(values))(*values)
    error = runtime().cudaMemcpy(address(made), host, 4 * len(values), HOST_TO_DEVICE)
    assert error == 0, error
    return made


def values(t: Any, count: int) -> list[float]:
    host = (ctypes.c_float * count)()
    error = runtime().cudaMemcpy(host, address(t), 4 * count, DEVICE_TO_HOST)
    assert error == 0, error
    return list(host)


def check_add(count: int = 1000) -> None:
    """A sum that is right."""
    add = importlib.import_module("aicf_cuda.add")
    x, y = tensor([float(i) for i in range(count)]), tensor([1.0] * count)
    out = tensor([-1.0] * count)
    assert add.add_f32(x, y, out) is True
    assert values(out, count) == [i + 1.0 for i in range(count)]
