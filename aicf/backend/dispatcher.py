"""Which backend runs a call: backends by name, and the one of the tensors' device."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from aicf.table import Table

from .base import AicfBackend

Factory = Callable[..., AicfBackend]

# Ours, imported when they are first asked for.
_OURS = {
    "cpu": ("cpu", "CpuBackend"),
    "cuda": ("cuda", "CudaBackend"),
    "null": ("null", "NullBackend"),
}


class UnknownBackend(LookupError):
    """No backend has that name, or serves that device; says which there are."""


class Dispatcher:
    """Backends of one table, each made at its first use. Threads may share it."""

    def __init__(self, table: Table | None = None, **options: Any) -> None:
        """`options`, `strict=True` for one, are those of each backend."""
        self._table, self._options = table, options
        self._factories: dict[str, Factory] = {name: _ours(name) for name in _OURS}
        self._devices = {name: name for name in _OURS}  # by the kind of device, the backend's name
        self._made: dict[str, AicfBackend] = {}
        self._lock = threading.Lock()

    def register(self, name: str, factory: Factory, *, device: str | None = None) -> None:
        """Makes a backend known: `factory(table, **options)` gives it, and it serves tensors whose
        device is `device` (its name, if that is not said). A name is registered once."""
        with self._lock:
            if name in self._factories:
                raise ValueError(f"there is a backend {name!r} already")
            self._factories[name] = factory
            self._devices.setdefault(device or name, name)

    def __iter__(self) -> Iterator[str]:
        """The names that `get` takes."""
        return iter(sorted(self._factories))

    def get(self, name: str | None = None) -> AicfBackend:
        """A backend by its name; by `AICF_BACKEND`, else the CPU's, where none is said."""
        name = name or os.environ.get("AICF_BACKEND") or "cpu"
        made = self._made.get(name)
        if made is None:
            with self._lock:
                made = self._made.get(name) or self._make(name)
        return made

    def _make(self, name: str) -> AicfBackend:
        if name not in self._factories:
            raise UnknownBackend(f"no backend {name!r}; there are {', '.join(self)}")
        made = self._factories[name](self._table, **self._options)
        self._made[name] = made
        return made

    def of_device(self, device: str) -> AicfBackend:
        """The backend that serves "cuda:0"."""
        kind = device.partition(":")[0]
        if kind not in self._devices:
            known = ", ".join(sorted(self._devices))
            raise UnknownBackend(f"no backend serves the device {device!r}; served are {known}")
        return self.get(self._devices[kind])

    def call(self, op: str, *args: Any, **options: Any) -> Any:
        """Runs an op by the backend of its first tensor's device; one without tensors by `get()`.
        Arguments are those of `AicfBackend.call`."""
        device = next(filter(None, map(_device, (*args, *options.values()))), None)
        backend = self.get() if device is None else self.of_device(device)
        return backend.call(op, *args, **options)


def _ours(name: str) -> Factory:
    module, attribute = _OURS[name]

    def factory(*args: Any, **options: Any) -> AicfBackend:
        found = importlib.import_module(f".{module}", __package__)
        made: AicfBackend = getattr(found, attribute)(*args, **options)
        return made

    return factory


def _device(x: Any) -> str | None:
    """ "cpu", "cuda:0"; None of what is no tensor. numpy's arrays say "cpu" too."""
    if isinstance(x, list | tuple):
        return next(filter(None, map(_device, x)), None)
    if not hasattr(x, "shape"):
        return None
    device = getattr(x, "device", None)
    if device is not None:
        return str(device)
    return "cuda" if hasattr(x, "__cuda_array_interface__") else "cpu"
