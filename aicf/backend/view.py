"""A part of a tensor, or the same memory in another shape, as a tensor of its own.

DLPack by ctypes, so that it serves every dtype and device and whoever reads that protocol; it needs
no framework.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

_NAME = b"dltensor_versioned"
_USED = b"used_dltensor_versioned"
_OLD = b"dltensor"
_VERSION = (1, 0)
_READ_ONLY = 1

# DLPack's kinds of dtypes, and the bits of an element.
_CODES = {
    "bool": (6, 8),
    "i8": (0, 8),
    "u8": (1, 8),
    "i16": (0, 16),
    "i32": (0, 32),
    "i64": (0, 64),
    "f16": (2, 16),
    "bf16": (4, 16),
    "f32": (2, 32),
    "f64": (2, 64),
}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)

# What was handed out and not given back, by the address of its description: the description, its
# sizes, and the view, which keeps the memory.
_handed_out: dict[int, tuple[Any, ...]] = {}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # type: ignore[untyped-decorator]
def _delete(address: int) -> None:
    """Called by whoever took a capsule, from any thread, when it is done with the memory."""
    _handed_out.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # type: ignore[untyped-decorator]
def _unused(capsule: int) -> None:
    """Called with a capsule that dies; one that was taken has another name by then."""
    if _raw_is_valid(capsule, _NAME):
        _handed_out.pop(_raw_pointer(capsule, _NAME), None)


# Frameworks may give memory back while the interpreter ends: the two must still be there.
for _callback in (_delete, _unused):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


class View:
    """Shape, strides and offset over the memory of another tensor, which it keeps."""

    __slots__ = ("_address", "_capsule", "_device", "_flags", "dtype", "shape", "strides")

    def __init__(
        self, tensor: Any, shape: Sequence[int], strides: Sequence[int], offset: int = 0
    ) -> None:
        """`strides` and `offset` in elements. Raises ValueError beyond what the tensor spans."""
        self._open(tensor)
        base = _described(self._capsule)
        self.dtype = _dtype(base)
        self.shape, self.strides = tuple(shape), tuple(strides)
        low, high = _span(shape, strides)
        first, last = _span(*_sizes(base))
        if 0 not in self.shape and not (first <= offset + low and offset + high <= last):
            raise ValueError(
                f"a view of {self.shape}, strides {self.strides}, offset {offset} is beyond its "
                f"tensor's {last - first + 1} elements"
            )
        self._address = (base.data or 0) + base.byte_offset + offset * (base.bits // 8)

    @classmethod
    def of_all(cls, tensor: Any) -> View:
        """The tensor as it lies."""
        found = cls.__new__(cls)
        found._open(tensor)
        base = _described(found._capsule)
        found.dtype = _dtype(base)
        found.shape, found.strides = _sizes(base)
        found._address = (base.data or 0) + base.byte_offset
        return found

    @classmethod
    def of_bits(cls, tensor: Any) -> View:
        """The bits of 16-bit floats as integers, for who does not know such floats."""
        found = cls.of_all(tensor)
        found.dtype = "i16"
        return found

    def _open(self, tensor: Any) -> None:
        self._device = tuple(map(int, tensor.__dlpack_device__()))
        try:
            self._capsule = tensor.__dlpack__(max_version=_VERSION)
        except TypeError:  # older than that argument
            self._capsule = tensor.__dlpack__()
        self._flags = _flags(self._capsule)

    @property
    def device(self) -> str:
        """ "cpu", or as "cuda:0"."""
        kind, index = self._device
        return f"cuda:{index}" if kind in (2, 13) else "cpu"

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self._device
        return kind, index

    def __dlpack__(self, *, max_version: Any = None, **options: Any) -> Any:
        """Versioned, also for who does not ask for it: older ones cannot be told of read-only."""
        rank = len(self.shape)
        shape, strides = (
            (ctypes.c_int64 * rank)(*self.shape),
            (ctypes.c_int64 * rank)(*self.strides),
        )
        pointer = ctypes.POINTER(ctypes.c_int64)
        code, bits = _CODES[self.dtype]
        tensor = _Tensor(
            self._address,
            *self._device,
            rank,
            code,
            bits,
            1,
            ctypes.cast(shape, pointer),
            ctypes.cast(strides, pointer),
            0,
        )
        delete = ctypes.cast(_delete, ctypes.c_void_p).value
        managed = _Managed(*_VERSION, None, delete, self._flags, tensor)
        address = ctypes.addressof(managed)
        _handed_out[address] = (managed, shape, strides, self)
        return _new(address, _NAME, ctypes.cast(_unused, ctypes.c_void_p))

    def __repr__(self) -> str:
        return f"<View {self.dtype} {self.shape}, strides {self.strides}, on {self.device}>"


def _described(capsule: Any) -> Any:
    if _is_valid(capsule, _NAME):
        return _Managed.from_address(_pointer(capsule, _NAME)).tensor
    return _Tensor.from_address(_pointer(capsule, _OLD))


def _flags(capsule: Any) -> int:
    if _is_valid(capsule, _NAME):
        return int(_Managed.from_address(_pointer(capsule, _NAME)).flags) & _READ_ONLY
    return 0


def _dtype(tensor: Any) -> str:
    found = (tensor.code, tensor.bits)
    return next(name for name, code in _CODES.items() if code == found)


def _sizes(tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        return shape, tuple(tensor.strides[: tensor.ndim])
    strides: list[int] = []
    below = 1
    for size in reversed(shape):
        strides.insert(0, below)
        below *= size
    return shape, tuple(strides)


def _span(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The least and the greatest index of an element, from the first."""
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps)


def address_of(tensor: Any) -> int:
    """Where the first element lies."""
    address: int = View.of_all(tensor)._address
    return address


def is_dense(tensor: Any) -> bool:
    """Whether its elements lie one after another, in whichever order of dims."""
    view = View.of_all(tensor)
    low, high = _span(view.shape, view.strides)
    count = 1
    for n in view.shape:
        count *= n
    return count == 0 or (low == 0 and high == count - 1 and _is_once(view))


def _is_once(view: View) -> bool:
    """No element has two places."""
    below = 1
    for stride, size in sorted(zip(view.strides, view.shape, strict=True)):
        if size != 1:
            if stride != below:
                return False
            below *= size
    return True
