"""A type whose buffers say whatever they are told to: the buffer protocol's side of the fake
producer, which no class of Python can be before 3.12."""

from __future__ import annotations

import ctypes
from typing import Any


class Buffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


class Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(Slot)),
    ]


GETBUFFER, RELEASEBUFFER = 1, 2  # slots of the stable ABI
DEFAULT, BASETYPE = 1 << 18, 1 << 10
Get = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Buffer), ctypes.c_int)
Release = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.POINTER(Buffer))


def _get(exporter: Any, view: Any, flags: int) -> int:
    return int(exporter.fill(view.contents))


def _release(exporter: Any, view: Any) -> None:
    exporter.released += 1


GET, RELEASE = Get(_get), Release(_release)


def _exporting() -> Any:
    slots = (Slot * 3)(
        Slot(GETBUFFER, ctypes.cast(GET, ctypes.c_void_p)),
        Slot(RELEASEBUFFER, ctypes.cast(RELEASE, ctypes.c_void_p)),
        Slot(0, None),
    )
    spec = Spec(b"modules.Exporting", object.__basicsize__, 0, DEFAULT | BASETYPE, slots)
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return make(ctypes.addressof(spec))


Exporting: Any = _exporting()


class LyingExporter(Exporting):  # type: ignore[misc]
    """`count` floats of 1.0, row-major, unless a field says otherwise. `filled` and `released`
    count."""

    def __init__(
        self, count: int = 4, shape: list[int] | None = None, strides: list[int] | None = None,
        suboffsets: list[int] | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        shape = [count] if shape is None else shape
        self.buffer = (ctypes.c_float * (count + 64))(*([1.0] * (count + 64)))
        if strides is None:
            strides, step = [0] * len(shape), 4
            for i in reversed(range(len(shape))):
                strides[i] = step
                step *= shape[i]
        self.numbers = [
            None if n is None else (ctypes.c_ssize_t * max(1, len(n)))(*n)
            for n in (shape, strides, suboffsets)
        ]
        self.fields = {
            "len": 4 * count,
            "itemsize": 4,
            "ndim": len(shape),
            "format": b"f",
            **fields,
        }
        self.filled = self.released = 0

    def fill(self, view: Buffer) -> int:
        self.filled += 1
        view.buf = ctypes.addressof(self.buffer)
        view.readonly = 0
        for name, numbers in zip(("shape", "strides", "suboffsets"), self.numbers, strict=True):
            setattr(view, name, None if numbers is None else ctypes.addressof(numbers))
        for name, value in self.fields.items():
            setattr(view, name, value)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        view.obj = id(self)
        return 0

    @property
    def values(self) -> list[float]:
        return list(self.buffer)
