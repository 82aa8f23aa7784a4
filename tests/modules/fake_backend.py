"""The fake backend of zoo/ as tests steer it, and tensors that claim to be where it serves."""

from __future__ import annotations

import ctypes
from typing import Any

from modules.fake_producer import FakeInterface, FakeProducer


class Fake:
    """The fake backend's side of things."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self._log = (ctypes.c_char * (1 << 16)).in_dll(library, "fake_log")
        self._fails = (ctypes.c_char * 32).in_dll(library, "fake_fails")
        self._sleeps = (ctypes.c_char * 32).in_dll(library, "fake_sleeps")
        self._absent = (ctypes.c_char * 64).in_dll(library, "fake_absent")
        self.current = ctypes.c_int.in_dll(library, "fake_current")
        self.located = ctypes.c_int.in_dll(library, "fake_located")
        self.reset()

    def reset(self, fails: str = "", sleeps: str = "", absent: str = "") -> None:
        self._log.value = b""
        self._fails.value, self._sleeps.value = fails.encode(), sleeps.encode()
        self._absent.value = absent.encode()
        self.current.value = self.located.value = 0

    @property
    def log(self) -> list[str]:
        return self._log.value.decode().splitlines()

    def of(self, *requests: str) -> list[str]:
        return [line for line in self.log if line.split()[0] in requests]


def on_cuda(index: int = 0, **fields: Any) -> FakeProducer:
    return FakeProducer(4, device_type=2, device_index=index, **fields)


def interface(array: Any, **entries: Any) -> FakeInterface:
    made = {
        "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False),
        "version": 3, **entries,
    }  # fmt: skip
    return FakeInterface(**{k: v for k, v in made.items() if v != "absent"})
