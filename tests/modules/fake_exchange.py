"""Types with DLPack's C exchange API whose functions are Python's, each of them there or not."""

from __future__ import annotations

import ctypes
from typing import Any

from modules.fake_producer import DELETER, EXPORTED, DLTensor, FakeProducer, Versioned

Object = ctypes.py_object
Out = ctypes.POINTER(ctypes.c_void_p)


class Exchange(ctypes.Structure):
    """The C exchange API as DLPack 1.3 lays it out."""

    Find = ctypes.PYFUNCTYPE(ctypes.c_int, Object, ctypes.c_void_p)
    Wrap = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, Out)
    Fail = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    Allocate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, Out, ctypes.c_void_p, Fail)
    Stream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, Out)
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", Allocate),
        ("own", Find),
        ("wrap", Wrap),
        ("borrow", Find),
        ("stream", Stream),
    ]


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

KEPT: list[object] = []  # what types point to: they may live as long as the process


def capsule_of(api: Exchange, name: bytes = b"dlpack_exchange_api") -> Any:
    KEPT.extend((api, name))
    return _capsule(ctypes.addressof(api), name, None)


class Framework:
    """An exchange API that notes its calls. `has` are the functions that it has. `answers` says
    what a function returns instead of doing anything."""

    def __init__(
        self, *has: str, major: int = 1, older: Exchange | None = None, stream: int = 0,
        answers: dict[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.calls: list[str] = []
        self.made: list[FakeProducer] = []
        self.wrapped: list[int] = []
        self.current, self.answers = stream, answers or {}
        self.hands_over: Any = None  # another address for own and allocate
        api = Exchange(major=major, minor=3)
        api.older = ctypes.addressof(older) if older else None
        for name in has:
            kind = {"own": "Find", "borrow": "Find"}.get(name, name.capitalize())
            setattr(api, name, getattr(Exchange, kind)(getattr(self, f"_{name}")))
        self.api = api
        KEPT.extend((self, api, older))

    def type(self, *bases: type, **attributes: Any) -> Any:
        """A class whose instances are read by this API: `made(fake)`."""
        return type(
            "Exchanged", (*bases, Exchanged),
            {"__dlpack_c_exchange_api__": capsule_of(self.api), **attributes},
        )  # fmt: skip

    def _own(self, thing: Any, out: int) -> int:
        self.calls.append("own")
        if "own" not in self.answers:
            EXPORTED.append(thing.fake)
            thing.fake.asked.append({})
        address = thing.fake.export() if isinstance(thing.fake, Taken) else None
        if address is None and self.hands_over is None:
            address = ctypes.addressof(thing.fake.managed)
        ctypes.c_void_p.from_address(out).value = address or self.hands_over
        return self.answers.get("own", 0)

    def _borrow(self, thing: Any, out: int) -> int:
        self.calls.append("borrow")
        source = ctypes.addressof(thing.fake.managed.tensor)
        ctypes.memmove(out, source, ctypes.sizeof(DLTensor))
        return self.answers.get("borrow", 0)

    def _allocate(self, prototype: int, out: Any, context: int, fail: Any) -> int:
        self.calls.append("allocate")
        if self.answers.get("allocate"):
            fail(context, b"MemoryError", b"no room")
            return self.answers["allocate"]
        wanted = DLTensor.from_address(prototype)
        shape = list((ctypes.c_int64 * wanted.rank).from_address(wanted.shape or 1))
        count, strides = 1, [0] * wanted.rank
        for i in reversed(range(wanted.rank)):
            strides[i] = count
            count *= shape[i]
        made = FakeProducer(count, shape, strides, code=wanted.code, bits=wanted.bits)
        self.made.append(made)
        EXPORTED.append(made)
        out[0] = ctypes.addressof(made.managed) if self.hands_over is None else self.hands_over
        return 0

    def _wrap(self, managed: int, out: Any) -> int:
        self.calls.append("wrap")
        if self.answers.get("wrap"):
            return self.answers["wrap"]
        self.wrapped.append(managed)
        thing = self.type()(Taken(managed))
        EXPORTED.append(thing)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
        out[0] = id(thing)
        return 0

    def _stream(self, device_type: int, device_index: int, out: Any) -> int:
        self.calls.append("stream")
        out[0] = self.current
        return self.answers.get("stream", 0)


class Taken:
    """What a framework took over: the managed tensor at an address."""

    def __init__(self, address: int) -> None:
        self.managed = Versioned.from_address(address)
        self.asked: list[Any] = []

    def export(self) -> int:
        """The same memory as another managed tensor, which keeps nothing."""
        other = Versioned.from_buffer_copy(self.managed)
        other.deleter = DELETER(lambda managed: None)
        EXPORTED.append(other)
        return ctypes.addressof(other)

    def delete(self) -> None:
        self.managed.deleter(ctypes.addressof(self.managed))


class Exchanged:
    def __init__(self, fake: Any) -> None:
        self.fake = fake
