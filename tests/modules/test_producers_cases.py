"""Cases of tensor exchange and argument checking that a table of producers or shapes goes through:
every dtype at an offset, every small shape, every word that a producer may refuse with."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modules.fake_backend import Fake, interface
from modules.fake_producer import FakeProducer
from modules.lying_exporter import LyingExporter
from modules.test_dlpack import ones

# Code and bits of the table's dtypes, as DLPack has them.
TABLE = {"bool": (6, 8), "i8": (0, 8), "u8": (1, 8), "i16": (0, 16), "i32": (0, 32), "i64": (0, 64),
         "f16": (2, 16), "bf16": (4, 16), "f32": (2, 32), "f64": (2, 64)}  # fmt: skip


@pytest.mark.promise("T1")
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("offset", [0, 8, 64, 128])
def test_byte_offset_of_every_dtype(name: str, legacy: bool, offset: int) -> None:
    """Read from there, written there, and nowhere else."""
    copy: Any = pytest.importorskip("aicf_cuda.copy")
    code, bits = TABLE[name]
    x = FakeProducer(4, legacy=legacy, byte_offset=offset, code=code, bits=bits)
    out = FakeProducer(4, byte_offset=offset, code=code, bits=bits)
    item, source = bits // 8, bytes(i % 2 for i in range(272))
    x.buffer[:] = np.frombuffer(source, "f4").tolist()
    before = bytes(out.buffer)
    assert getattr(copy, f"copy_{name}")(x, out) is True
    shown = source[offset : offset + 4 * item]
    assert bytes(out.buffer) == before[:offset] + shown + before[offset + 4 * item :]


SMALL = [s for n in range(4) for s in itertools.product((0, 1, 2), repeat=n)]


@pytest.mark.promise("T3", "T2")
@pytest.mark.parametrize("shape", SMALL, ids=repr)
def test_every_small_shape(add: Any, zoo: Any, fake: Fake, shape: tuple[int, ...]) -> None:
    """Strides of dims of size 1, and of tensors without elements, are anything; so are addresses
    of the latter."""
    draw = random.Random(repr(shape))
    empty = 0 in shape
    dense = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    anything = [draw.choice([0, 1, -1, 7, 2**40, -(2**62)]) for _ in shape]
    strides = [a if n == 1 or empty else d for n, a, d in zip(shape, anything, dense, strict=True)]
    count = int(np.prod(shape))
    for address in (None, 0x1000) if empty else (...,):
        data: dict[str, Any] = {} if address is ... else {"data": address}
        x, y, out = (FakeProducer(count, list(shape), strides, **data) for _ in range(3))
        assert add.add_f32(x, y, out) is True
        assert out.values[:count] == [2.0] * count
        assert add.add(x, y).shape == shape
        buf: dict[str, Any] = {} if address is ... else {"buf": address}
        in_bytes = [4 * n if abs(n) < 2**60 else n for n in strides]
        made = [LyingExporter(count, list(shape), in_bytes, **buf) for _ in range(3)]
        assert add.add_f32(*made) is True
        a, b = np.ones(shape, "f4"), np.zeros(shape, "f4")
        pointer: dict[str, Any] = {} if address is ... else {"data": (address, False)}
        source = interface(a, **pointer, strides=tuple(in_bytes))
        assert zoo.twin.twin_f32(source, interface(b, **pointer)) is True
        assert np.array_equal(a, b)


@pytest.mark.promise("T10", "FAULT-13")
@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("unsupported operand", 1),
        ("cannot copy between a stream and max_version", 1),  # names them, and blames none
        ("stream must be an int", 1),
        ("f() got an unexpected keyword argument 'other'", 3),  # may be ours: asked without
        ("__dlpack__(): incompatible function arguments", 3),
    ],
)
def test_a_type_error_that_is_no_refusal_of_keywords(add: Any, text: str, times: int) -> None:
    asked: list[dict[str, Any]] = []

    class Faulty:
        def __dlpack__(self, **keywords: Any) -> Any:
            asked.append(keywords)
            raise TypeError(text)

    with pytest.raises(TypeError) as raised:
        add.add_f32(*ones_of(2), Faulty())
    assert str(raised.value) == text
    assert raised.value.__notes__ == ["add: out could not be read"]
    assert len(asked) == times
    assert all(set(a) > set(b) for a, b in itertools.pairwise(asked))


def ones_of(count: int) -> list[Any]:
    return [ones() for _ in range(count)]


@pytest.mark.promise("T10")
@pytest.mark.parametrize(
    "refusal",
    [
        "{}() got an unexpected keyword argument '{}'",
        "'{1}' is an invalid keyword argument for {0}()",
        "{}() takes no keyword arguments",
        "{}() takes exactly no arguments (1 given): unexpected keyword",
        "{}(): incompatible function arguments. The following argument types are supported:",
        "argument {1} is not supported",
    ],
)
def test_keywords_are_refused_in_many_words(add: Any, refusal: str) -> None:
    """As Python, its C interface, Cython, pybind11 and nanobind word it."""

    class Old(FakeProducer):
        def __dlpack__(self, **keywords: Any) -> Any:
            for name in sorted(keywords):
                raise TypeError(refusal.format("__dlpack__", name))
            return super().__dlpack__()

    x = Old(4, legacy=True)
    assert add.add_f32(x, x, ones()) is True
    assert x.deleted == 2
    assert all("dl_device" not in asked for asked in x.asked)


@pytest.mark.promise("T16", "D4")
@pytest.mark.parametrize(
    ("device", "name"),
    [(3, "cuda_host:1"), (4, "opencl:1"), (7, "vulkan:1"), (8, "metal:1"), (10, "rocm:1"),
     (11, "rocm_host:1"), (13, "cuda_managed:1"), (14, "oneapi:1"), (15, "webgpu:1")],
)  # fmt: skip
def test_devices_have_names(add: Any, unsupported: Any, device: int, name: str) -> None:
    x = FakeProducer(4, device_type=device, device_index=1)
    with pytest.raises(unsupported, match=f"add: b: .* on {name}$"):
        add.add(ones(), x)


@pytest.mark.promise("A9")
@pytest.mark.parametrize(
    ("written", "error"),
    [
        (np.zeros((2, 3), "i4"), "unsupported"), (np.zeros((2, 3), "f8"), "unsupported"),
        (np.zeros((2, 3), ">f4"), "unsupported"), (np.zeros((3, 2), "f4"), "unsupported"),
        ([[0.0] * 3] * 2, "type"), ("", "type"),
    ],
    ids=["i4", "f8", "swapped", "shape", "list", "word"],
)  # fmt: skip
def test_what_is_written_is_never_converted(
    zoo: Any, add: Any, unsupported: Any, written: Any, error: str
) -> None:
    """An out or inout is written where it lies, or refused; what was given stays as it was."""
    g = np.ones((2, 3), "f4")
    before = written.copy() if isinstance(written, np.ndarray) else repr(written)
    calls: list[Callable[[], object]] = [
        lambda: add.add(g, g, out=written),
        lambda: add.bind(g, g, written),
        lambda: zoo.step.step([written], [g], lr=1),
    ]
    for call in calls:
        with pytest.raises(unsupported if error == "unsupported" else TypeError):
            call()
    after = written if isinstance(written, np.ndarray) else repr(written)
    assert np.array_equal(before, after)


@pytest.mark.promise("A9")
def test_an_out_of_another_order_is_written_in_place(add: Any) -> None:
    out: Any = np.asarray(np.zeros((2, 3), "f4"), order="F")
    assert add.add(np.ones((2, 2), "f4"), np.ones((2, 2), "f4"), out=out[:, ::2]) is not None
    assert out.tolist() == [[2.0, 0.0, 2.0]] * 2


@pytest.mark.promise("A4", "D4")
@pytest.mark.parametrize(
    "places", list(itertools.permutations(((1, 0), (2, 0), (2, 1)), 2)), ids=repr
)
@pytest.mark.parametrize("form", ["generic", "bind", "explain"])
def test_two_devices_are_both_named(
    zoo: Any, fake: Fake, form: str, places: tuple[tuple[int, int], ...]
) -> None:
    x, out = (FakeProducer(4, device_type=t, device_index=i) for t, i in places)
    names = ["cpu" if t == 1 else f"cuda:{i}" for t, i in places]
    forms: dict[str, Callable[[], object]] = {
        "generic": lambda: zoo.twin.twin(x, out=out),
        "bind": lambda: zoo.twin.bind(x, out),
        "explain": lambda: zoo.twin.explain(x, out),
    }
    if form == "explain":
        said = "".join(zoo.twin.explain(x, out))
    else:
        with pytest.raises(zoo.Unsupported) as refused:
            forms[form]()
        said = str(refused.value)
    assert names[0] in said, said
    assert names[1] in said, said
    assert fake.of("launch") == []
