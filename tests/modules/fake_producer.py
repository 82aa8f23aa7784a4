"""A fake producer: a DLPack tensor over memory of its own whose every field can be set, whose
deleter counts its calls, and which notes the keywords it was asked with. It lets a machine without
a GPU meet tensors that claim to be anywhere."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

READ_ONLY, COPIED = 1, 2

# A producer's export owns what it shows. Here all that was ever exported stays, so that no order in
# which objects die can pull memory or deleter away.
EXPORTED: list[object] = []


def capsule_pointer(capsule: Any, name: bytes = b"dltensor_versioned") -> int:
    """The address in a capsule, which stays as it is."""
    return int(_pointer(capsule, name))


class FakeProducer:
    """`count` floats of 1.0 on the CPU unless said otherwise.

    `fields` sets any field of the tensor, or `major`, `minor`, `flags`. `knows` are the keywords
    that __dlpack__ takes, None: all. `deleted` counts the deleter's calls, `asked` has the keywords
    of each call of __dlpack__; `on_delete` runs inside the deleter."""

    def __init__(
        self,
        count: int = 4,
        shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        *,
        legacy: bool = False,
        deleter: bool = True,
        knows: Sequence[str] | None = None,
        on_delete: Callable[[], object] | None = None,
        **fields: Any,
    ) -> None:
        shape = [count] if shape is None else list(shape)
        self.buffer = (ctypes.c_float * (count + 64))(*([1.0] * (count + 64)))
        self._shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self._strides = (
            None if strides is None else (ctypes.c_int64 * max(1, len(strides)))(*strides)
        )
        self.legacy, self.knows, self.on_delete = legacy, knows, on_delete
        self.deleted = 0
        self.asked: list[dict[str, Any]] = []
        self._deleter = DELETER(self._delete)
        self.managed: Any = Legacy() if legacy else Versioned(major=1)
        self._fill(len(shape), deleter, fields)

    def _fill(self, rank: int, deleter: bool, fields: dict[str, Any]) -> None:
        tensor = self.managed.tensor
        tensor.data = ctypes.addressof(self.buffer)
        tensor.device_type, tensor.rank = 1, rank
        tensor.code, tensor.bits, tensor.lanes = 2, 32, 1
        tensor.shape = ctypes.addressof(self._shape)
        tensor.strides = None if self._strides is None else ctypes.addressof(self._strides)
        if deleter:
            self.managed.deleter = self._deleter
        for name, value in fields.items():
            setattr(self.managed if name in ("major", "minor", "flags") else tensor, name, value)

    def _delete(self, managed: int) -> None:
        assert managed == ctypes.addressof(self.managed)
        self.deleted += 1
        if self.on_delete:
            self.on_delete()

    @property
    def values(self) -> list[float]:
        return list(self.buffer)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.managed.tensor.device_type, self.managed.tensor.device_index)

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        for name in keywords:
            if self.knows is not None and name not in self.knows:
                raise TypeError(f"__dlpack__() got an unexpected keyword argument '{name}'")
        capsule = b"dltensor" if self.legacy else b"dltensor_versioned"
        EXPORTED.append(self)
        return _new(ctypes.addressof(self.managed), capsule, None)


class FakeInterface:
    """An object with __cuda_array_interface__ alone, whatever that is."""

    def __init__(self, **entries: Any) -> None:
        self.__cuda_array_interface__ = entries
