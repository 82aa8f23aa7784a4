"""The buffer protocol, and numpy's arrays read as a structure."""

from __future__ import annotations

import array
import ctypes
from typing import Any

import numpy as np
import pytest

from modules.lying_exporter import LyingExporter


@pytest.mark.promise("T3")
def test_buffers_of_the_standard_library(add: Any) -> None:
    x, out = array.array("f", [1, 2, 3]), array.array("f", [0, 0, 0])
    assert add.add_f32(x, memoryview(x), out) is True
    assert list(out) == [2.0, 4.0, 6.0]
    assert add.add_f32(x, x, memoryview(bytes(12)).cast("f")) is False
    made = add.add(x, x)
    assert isinstance(made, np.ndarray)
    assert made.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.promise("FAULT-7")
def test_ctypes_has_no_strides(add: Any) -> None:
    row = ctypes.c_float * 3
    x = (row * 2)(row(1, 2, 3), row(4, 5, 6))
    out = np.zeros((2, 3), "f4")
    assert add.add_f32(x, x, out) is True
    assert out.tolist() == [[2, 4, 6], [8, 10, 12]]


@pytest.mark.promise("FAULT-7", "T12")
def test_items_of_no_bytes(add: Any) -> None:
    class Nothing(ctypes.Structure):
        pass

    x = (Nothing * 3)()
    assert memoryview(x).itemsize == 0
    assert add.add_f32(x, x, x) is False


class Exporter:
    """What a type of Python cannot do before 3.12: a buffer of any description."""

    def __new__(cls, itemsize: int, format: bytes, shape: tuple[int, ...] = (4,)) -> Any:
        return _exporter(itemsize, format, shape)


def _exporter(itemsize: int, format: bytes, shape: tuple[int, ...]) -> Any:
    """A memoryview over a hand-made Py_buffer: PyMemoryView_FromBuffer copies its fields."""

    class View(ctypes.Structure):
        _fields_ = [
            ("buf", ctypes.c_void_p),
            ("obj", ctypes.c_void_p),
            ("len", ctypes.c_ssize_t),
            ("itemsize", ctypes.c_ssize_t),
            ("readonly", ctypes.c_int),
            ("ndim", ctypes.c_int),
            ("format", ctypes.c_char_p),
            ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
            ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
            ("suboffsets", ctypes.c_void_p),
            ("internal", ctypes.c_void_p),
        ]

    memory = ctypes.create_string_buffer(256)
    count = len(shape)
    strides = [itemsize] * count
    for i in reversed(range(count - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    numbers = (ctypes.c_ssize_t * count)(*shape), (ctypes.c_ssize_t * count)(*strides)
    size = itemsize
    for n in shape:
        size *= n
    view = View(
        ctypes.addressof(memory), None, size, itemsize, 0, count, format, numbers[0], numbers[1]
    )
    make = ctypes.pythonapi.PyMemoryView_FromBuffer
    make.restype = ctypes.py_object
    made = make(ctypes.byref(view))
    KEPT.append((memory, numbers, format, view))
    return made


KEPT: list[Any] = []


@pytest.mark.promise("T12", "FAULT-7")
@pytest.mark.parametrize(
    ("itemsize", "format", "taken"),
    [
        (4, b"f", True), (4, b"<f", True), (4, b"@f", True), (4, b"=f", True),
        (2, b"f", False), (8, b"f", False), (4, b"d", False), (2, b"B", False), (4, b"e", False),
        (4, b">f", False), (4, b"!f", False), (8, b"Zf", False), (16, b"Zd", False),
        (16, b"g", False), (4, b"ff", False), (4, b"", False), (4, b"T{f:x:}", False),
        (4, b"<", False), (4, b"i", False), (4, b"x", False),
    ],
)  # fmt: skip
def test_the_format_must_fit_the_item(add: Any, itemsize: int, format: bytes, taken: bool) -> None:
    x = Exporter(itemsize, format)
    assert add.add_f32(x, x, np.zeros(4, "f4")) is taken


@pytest.mark.promise("T14")
def test_byte_order(add: Any) -> None:
    swapped: Any = np.ones(4, ">f4")
    out = np.zeros(4, "f4")
    assert add.add_f32(swapped, out, out) is False
    assert add.add_f32(out, out, swapped) is False
    assert add.add_f32(memoryview(swapped), out, out) is False
    assert out.tolist() == [0.0] * 4


@pytest.mark.promise("T14")
def test_strides_that_are_no_multiple(add: Any) -> None:
    """The second field of packed pairs: five bytes from one to the next."""
    packed: Any = np.zeros(4, [("tag", "u1"), ("value", "<f4")])["value"]
    out = np.zeros(4, "f4")
    assert packed.strides == (5,)
    for x in (packed, memoryview(packed)):
        assert add.add_f32(x, out, out) is False
        assert add.add_f32(out, out, x) is False
    assert not packed.any()


@pytest.mark.promise("T14")
def test_the_real_part_of_complex(add: Any) -> None:
    x = (np.arange(4) + 1j).astype("c8")
    out = np.zeros(4, "f4")
    assert add.add_f32(x.real, x.imag, out) is True
    assert out.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert add.add_f32(x, x, out) is False


@pytest.mark.promise("FAULT-12", "T14")
def test_addresses_that_are_no_multiple(add: Any) -> None:
    shifted = memoryview(bytearray(17))[1:].cast("f")
    out = np.ones(4, "f4")
    assert add.add_f32(shifted, out, out) is False
    assert add.add_f32(np.asarray(shifted), out, out) is False
    assert add.add_f32(out, out, shifted) is False


@pytest.mark.promise("FAULT-15")
def test_masked_arrays_are_refused(add: Any, unsupported: type[Exception]) -> None:
    x = np.ma.masked_array(np.ones(4, "f4"), [False, True, False, False])
    out = np.zeros(4, "f4")
    assert add.add_f32(x, out, out) is False
    assert add.add_f32(out, out, x) is False
    with pytest.raises(unsupported, match="masked"):
        add.add(out, x)


@pytest.mark.promise("T12")
@pytest.mark.parametrize(
    "dtype", ["f8", "f2", "i4", "u4", "c8", "c16", "g", "M8[s]", "S4", "V4", "O", "?"]
)
def test_dtypes_of_numpy(add: Any, dtype: str) -> None:
    x = np.zeros(4, dtype)
    assert add.add_f32(x, x, np.zeros(4, "f4")) is False
    assert add.add_f64(x, x, np.zeros(4, "f8")) is (dtype == "f8")
    assert add.add_f16(x, x, np.zeros(4, "f2")) is (dtype == "f2")


@pytest.mark.promise("FAULT-15")
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_subclasses_of_ndarray(add: Any) -> None:
    out = np.zeros((2, 2), "f4")
    assert add.add_f32(np.matrix([[1, 2], [3, 4]], "f4"), out, out) is True
    assert out.tolist() == [[1, 2], [3, 4]]
    record = np.rec.array([(1.0,), (2.0,)], dtype=[("x", "f4")])
    assert add.add_f32(record.x, record.x, np.zeros(2, "f4")) is True


LIES: dict[str, dict[str, Any]] = {
    "negative ndim": {"ndim": -1},
    "ndim of 65": {"ndim": 65},
    "ndim beyond memory": {"ndim": 2**31 - 1},
    "no shape": {"shape": None, "no": "shape"},
    "negative size": {"shape": [-4]},
    "sizes that overflow": {"shape": [2**32, 2**32]},
    "less memory than items": {"len": 12},
    "more memory than items": {"len": 1 << 40},
    "no memory": {"len": 0},
    "negative length": {"len": -16},
    "item size 0": {"itemsize": 0},
    "negative item size": {"itemsize": -4},
    "item size of another": {"itemsize": 8, "len": 32},
    "pointers to pointers": {"suboffsets": [0]},
    "no address": {"buf": None},
    "strides beyond memory": {"shape": [2, 2], "strides": [2**62, 2**62]},
    "the least stride": {"shape": [2, 2], "strides": [-(2**63), 4]},
    "strides that are no multiple": {"strides": [6]},
}


@pytest.mark.promise("FAULT-7", "FAULT-2", "T20", "PRODUCERS-hostile")
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("lie", LIES)
def test_an_exporter_that_lies(add: Any, unsupported: Any, lie: str, place: int) -> None:
    fields = dict(LIES[lie])
    no = fields.pop("no", None)
    x = LyingExporter(4, **{k: v for k, v in fields.items() if k != no})
    if no:
        x.numbers[0] = None
    args: list[Any] = [np.ones(4, "f4") for _ in range(3)]
    args[place] = x
    assert add.add_f32(*args) is False
    for call in (lambda: add.add(*args[:2], out=args[2]), lambda: add.bind(*args)):
        with pytest.raises(unsupported) as refused:
            call()
        assert refused.value.arg == ("a", "b", "out")[place], refused.value
    assert x.released == x.filled == 3
    assert x.values == [1.0] * 68


@pytest.mark.promise("FAULT-7")
def test_what_an_exporter_may_say(add: Any) -> None:
    for fields in ({}, {"suboffsets": [-1]}, {"format": None, "itemsize": 4, "len": 16}):
        x = LyingExporter(4, **fields)
        taken = "format" not in fields  # bytes, where it says nothing
        assert add.add_f32(x, x, LyingExporter(4)) is taken
    empty = LyingExporter(0, [0, 3], len=0, buf=None)
    assert add.add_f32(empty, empty, empty) is True
    assert empty.filled == empty.released


@pytest.mark.promise("FAULT-7", "PRODUCERS-hostile")
def test_an_exporter_that_fills_nothing(add: Any) -> None:
    class Lazy(LyingExporter):
        def fill(self, view: Any) -> int:
            return 0

    assert add.add_f32(Lazy(4), np.ones(4, "f4"), np.ones(4, "f4")) is False
