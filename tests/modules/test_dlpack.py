"""DLPack as all kinds of producers speak it: what is read, what is refused, who deletes."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modules.fake_exchange import Framework
from modules.fake_producer import COPIED, READ_ONLY, FakeProducer


def ones(count: int = 4) -> Any:
    return np.ones(count, "f4")


class Wrapped:
    """Only DLPack, and only the keywords named, of another object."""

    def __init__(
        self, inner: Any, knows: tuple[str, ...] = ("max_version", "stream", "copy")
    ) -> None:
        self.inner, self.knows = inner, knows

    def __dlpack__(self, **keywords: Any) -> Any:
        for name in keywords:
            if name not in self.knows:
                raise TypeError(f"unexpected keyword argument {name!r}")
        return self.inner.__dlpack__(**keywords)


# ---- what is read ---------------------------------------------------------------------------


@pytest.mark.promise("T1")
@pytest.mark.parametrize("legacy", [False, True])
def test_byte_offset(add: Any, legacy: bool) -> None:
    x = FakeProducer(4, byte_offset=8 * 4, legacy=legacy)
    for i in range(12):
        x.buffer[i] = i
    out = np.zeros(4, "f4")
    assert add.add_f32(x, ones(), out) is True
    assert out.tolist() == [9.0, 10.0, 11.0, 12.0]


@pytest.mark.promise("T1")
def test_byte_offset_of_an_out(add: Any) -> None:
    out = FakeProducer(4, byte_offset=8 * 4)
    assert add.add_f32(ones(), ones(), out) is True
    assert out.values[6:14] == [1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0]


@pytest.mark.promise("T6", "PRODUCERS-hostile")
@pytest.mark.parametrize("offset", [2**62, 2**63, 2**64 - 16])
def test_byte_offset_beyond_all_memory(add: Any, unsupported: type[Exception], offset: int) -> None:
    """An address that no process has is refused before anything is read, by the short way too."""
    for has in (("borrow",), ("own",)):
        x = Framework(*has).type()(FakeProducer(4, byte_offset=offset))
        y = FakeProducer(4)
        assert add.add_f32(x, y, FakeProducer(4)) is False
        assert add.add_f32(x, y, FakeProducer(4)) is False
        with pytest.raises(unsupported, match="add: a: "):
            add.add(x, y)


@pytest.mark.promise("T1")
def test_byte_offset_reaches_aliasing(add: Any) -> None:
    """The overlap is found where the elements are, not where the base is."""
    x = FakeProducer(4, byte_offset=4)
    out = FakeProducer(4)
    out.managed.tensor.data = x.managed.tensor.data
    assert add.add_f32(x, ones(), out) is False
    x.managed.tensor.byte_offset = 16
    assert add.add_f32(x, ones(), out) is True


@pytest.mark.promise("T2")
@pytest.mark.parametrize("unit", [0, 1, -3, 2**40, 2**62])
def test_strides_of_unit_dims_do_not_matter(add: Any, unit: int) -> None:
    x = FakeProducer(12, [1, 3, 1, 4], [unit, 4, -unit, 1])
    out = FakeProducer(12, [1, 3, 1, 4], [unit, 4, unit, 1])
    assert add.add_f32(x, x, out) is True
    assert out.values[:13] == [2.0] * 12 + [1.0]


@pytest.mark.promise("T3")
@pytest.mark.parametrize("shape", [(0,), (0, 2), (2, 0, 1), (1, 0), (0, 0, 0)])
@pytest.mark.parametrize("address", [None, 0x1000])
def test_empty(add: Any, shape: tuple[int, ...], address: int | None) -> None:
    def empty() -> FakeProducer:
        return FakeProducer(1, shape, [7 * i - 3 for i in range(len(shape))], data=address)

    x, y, out = empty(), empty(), empty()
    assert add.add_f32(x, y, out) is True
    assert [x.deleted, y.deleted, out.deleted] == [1, 1, 1]
    assert add.add(x, y).shape == shape


@pytest.mark.promise("T4", "FAULT-8")
@pytest.mark.parametrize("rank", range(9))
def test_missing_strides_are_row_major(add: Any, rank: int) -> None:
    x = FakeProducer(2**rank, [2] * rank, strides=None)
    out = np.zeros([2] * rank, "f4")
    assert add.add_f32(x, x, out) is True
    assert (out == 2).all()


@pytest.mark.promise("T4", "FAULT-8")
def test_a_scalar_needs_no_shape(add: Any) -> None:
    x = FakeProducer(1, [])
    x.managed.tensor.shape = 0xDEAD0
    x.managed.tensor.strides = 0xDEAD0
    out = np.zeros((), "f4")
    assert add.add_f32(x, x, out) is True
    assert out == 2


MALFORMED: list[tuple[str, dict[str, Any]]] = [
    ("rank -1", {"rank": -1}),
    ("rank 65", {"rank": 65}),
    ("rank 2**31 - 1", {"rank": 2**31 - 1}),
    ("no shape", {"shape": [2, 2], "no_shape": True}),
    ("no data", {"data": None}),
    ("no data, an offset", {"data": None, "byte_offset": 64}),
    ("negative size", {"shape": [-1]}),
    ("2**62 elements", {"shape": [2**62]}),
    ("2**64 elements", {"shape": [2**32, 2**32]}),
    ("an offset that wraps", {"byte_offset": 2**64 - 8}),
    ("strides beyond memory", {"shape": [2, 2], "strides": [2**62, 2**62]}),
    ("the least stride", {"shape": [2, 2], "strides": [-(2**63), 1]}),
    ("two lanes", {"lanes": 2}),
    ("no lanes", {"lanes": 0}),
    ("no bits", {"bits": 0}),
    ("complex", {"code": 5, "bits": 64}),
    ("opaque", {"code": 3}),
    ("unknown code", {"code": 99}),
]


@pytest.mark.promise("T4", "FAULT-8", "FAULT-2", "T6")
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("fields", [f for _, f in MALFORMED], ids=[n for n, _ in MALFORMED])
def test_malformed(add: Any, unsupported: Any, fields: dict[str, Any], place: int) -> None:
    fields = dict(fields)
    no_shape = fields.pop("no_shape", False)
    x = FakeProducer(4, fields.pop("shape", None), fields.pop("strides", None), **fields)
    if no_shape:
        x.managed.tensor.shape = None
    args: list[Any] = [np.ones(4, "f4") for _ in range(3)]
    args[place] = x
    assert add.add_f32(*args) is False
    assert x.deleted == 1
    with pytest.raises(unsupported) as refused:
        add.add(args[0], args[1], out=args[2])
    assert refused.value.arg == ("a", "b", "out")[place], refused.value
    assert x.deleted == 2
    assert x.values == [1.0] * 68


@pytest.mark.promise("T11")
@pytest.mark.parametrize("code", range(7))
@pytest.mark.parametrize("bits", [1, 4, 8, 16, 32, 64])
def test_dtypes_are_the_tables(code: int, bits: int) -> None:
    """copy takes every dtype of the table, and nothing that is not in it."""
    import aicf_cuda

    table = {(6, 8), (0, 8), (1, 8), (0, 16), (0, 32), (0, 64), (2, 16), (4, 16), (2, 32), (2, 64)}
    x = FakeProducer(4, code=code, bits=bits)
    out = FakeProducer(4, code=code, bits=bits)
    taken = [
        name
        for name in dir(aicf_cuda.copy)
        if name.startswith("copy_") and getattr(aicf_cuda.copy, name)(x, out)
    ]
    assert len(taken) == ((code, bits) in table), taken
    if code == 6 and bits == 8:
        assert taken == ["copy_bool"]


@pytest.mark.promise("T18", "FAULT-12")
@pytest.mark.parametrize("offset", range(1, 65))
def test_alignment_is_the_items(add: Any, offset: int) -> None:
    for place in range(3):
        args: list[Any] = [ones(), ones(), np.zeros(4, "f4")]
        args[place] = FakeProducer(4, byte_offset=offset)
        assert add.add_f32(*args) is (offset % 4 == 0)


# ---- devices --------------------------------------------------------------------------------


@pytest.mark.promise("FAULT-6", "T16")
@pytest.mark.parametrize("device", [*range(20), 99, 2**31 - 1])
def test_a_device_that_no_backend_serves(add: Any, unsupported: Any, device: int) -> None:
    tensors = [FakeProducer(4, device_type=device) for _ in range(3)]
    if device == 1:
        assert add.add_f32(*tensors) is True
        return
    if device == 2 and add.capability["built"].get("vec"):
        return  # CUDA is built here and serves it; tests/shim and tests/gpu call that
    assert add.add_f32(*tensors) is False
    with pytest.raises(unsupported):
        add.add(tensors[0], tensors[1], out=tensors[2])
    assert tensors[2].values == [1.0] * 68
    assert "fits" not in "".join(add.explain(*tensors))


@pytest.mark.promise("A4", "FAULT-14")
def test_mixed_devices_name_both(add: Any, unsupported: Any) -> None:
    x, y = FakeProducer(4), FakeProducer(4, device_type=2, device_index=1)
    assert add.add_f32(x, y, ones()) is False
    with pytest.raises(unsupported, match=r"b.*a is on cpu.*cuda:1"):
        add.add(x, y)


# ---- what may be written --------------------------------------------------------------------


@pytest.mark.promise("FAULT-11", "A9")
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("read-only", {"flags": READ_ONLY}),
        ("copied", {"flags": COPIED}),
        ("legacy, of unknown writability", {"legacy": True}),
    ],
)
def test_an_out_that_must_not_be_written(
    add: Any, unsupported: Any, name: str, fields: dict[str, Any]
) -> None:
    x = FakeProducer(4, **fields)
    assert add.add_f32(x, x, ones()) is True, name
    assert add.add_f32(ones(), ones(), x) is False, name
    with pytest.raises(unsupported, match="read-only"):
        add.add(ones(), ones(), out=x)
    assert x.values == [1.0] * 68


@pytest.mark.promise("FAULT-11", "T10")
def test_only_an_out_is_asked_not_to_be_copied(add: Any) -> None:
    x, out = FakeProducer(4), FakeProducer(4)
    assert add.add_f32(x, x, out) is True
    assert all("copy" not in asked for asked in x.asked)
    assert [asked["copy"] for asked in out.asked] == [False]


@pytest.mark.promise("FAULT-11")
def test_a_read_only_array_is_read(add: Any) -> None:
    x = ones()
    x.setflags(write=False)
    assert add.add_f32(x, x, ones()) is True
    assert add.add_f32(ones(), ones(), x) is False
    assert x.tolist() == [1.0] * 4


# ---- keywords -------------------------------------------------------------------------------


@pytest.mark.promise("T10", "FAULT-13")
@pytest.mark.parametrize(
    "knows", [(), ("stream",), ("max_version",), ("max_version", "copy"), ("copy",), None]
)
def test_older_producers_are_asked_in_their_way(add: Any, knows: tuple[str, ...] | None) -> None:
    x, out = FakeProducer(4, knows=knows), FakeProducer(4, knows=knows)
    assert add.add_f32(x, x, out) is True
    assert out.values[:4] == [2.0] * 4
    assert set(x.asked[-1]) <= set(knows if knows is not None else ("max_version",))
    assert ("max_version" in x.asked[-1]) is (knows is None or "max_version" in knows)
    assert x.deleted == 2
    assert out.deleted == 1


@pytest.mark.promise("T10")
def test_a_legacy_capsule_despite_max_version(add: Any) -> None:
    x = FakeProducer(4, legacy=True)
    assert add.add_f32(x, x, ones()) is True
    assert x.deleted == 2


@pytest.mark.promise("T10", "T6")
def test_a_major_version_that_is_unknown(add: Any) -> None:
    x = FakeProducer(4, major=2)
    with pytest.raises(BufferError, match="major version 2"):
        add.add_f32(x, ones(), ones())
    assert x.deleted == 1


@pytest.mark.promise("T10", "FAULT-13")
def test_a_genuine_type_error_comes_through(add: Any) -> None:
    class Faulty:
        asked = 0

        def __dlpack__(self, **keywords: Any) -> Any:
            type(self).asked += 1

            def deep() -> Any:
                return 1 + "x"  # type: ignore[operator]

            return deep()

    with pytest.raises(TypeError, match="unsupported operand") as raised:
        add.add_f32(Faulty(), ones(), ones())
    assert Faulty.asked == 1
    assert [entry.name for entry in raised.traceback][-2:] == ["__dlpack__", "deep"]


@pytest.mark.promise("FAULT-13", "T20")
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError, ValueError])
@pytest.mark.parametrize("where", ["look-up", "call", "device look-up", "device call"])
def test_exceptions_are_neither_swallowed_nor_replaced(
    add: Any, error: type[BaseException], where: str
) -> None:
    thrown = error("mine")

    class Producer(FakeProducer):
        def __getattribute__(self, name: str) -> Any:
            if (name, where) in (
                ("__dlpack__", "look-up"),
                ("__dlpack_device__", "device look-up"),
            ):
                raise thrown
            return super().__getattribute__(name)

        def __dlpack__(self, **keywords: Any) -> Any:
            if where == "call":
                raise thrown
            return super().__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            if where == "device call":
                raise thrown
            return super().__dlpack_device__()

    for call in (lambda x: add.add_f32(x, ones(), ones()), lambda x: add.add(ones(), x)):
        with pytest.raises(error, match="mine") as raised:
            call(Producer(4))
        assert raised.value is thrown


@pytest.mark.promise("FAULT-13")
@pytest.mark.parametrize("error", [BufferError, TypeError])
def test_a_refusal_lets_the_next_protocol_try(add: Any, error: type[Exception]) -> None:
    class Refuses(np.ndarray):
        def __dlpack__(self, **keywords: Any) -> Any:
            raise error("I refuse: units")

    out = np.zeros(4, "f4")
    assert add.add_f32(ones().view(Refuses), ones(), out) is True
    assert out.tolist() == [2.0] * 4

    class OnlyRefuses:
        def __dlpack__(self, **keywords: Any) -> Any:
            raise error("I refuse: units")

    with pytest.raises(error, match="I refuse: units"):
        add.add_f32(OnlyRefuses(), ones(), ones())


@pytest.mark.promise("FAULT-13", "T20")
@pytest.mark.parametrize("given", [None, "text", 3, (1, 2, 3), object()])
def test_what_is_no_capsule(add: Any, unsupported: Any, given: object) -> None:
    class Producer:
        def __dlpack__(self, **keywords: Any) -> Any:
            return given

    with pytest.raises(TypeError, match=r"add: b gave .* for a DLPack capsule") as raised:
        add.add_f32(ones(), Producer(), ones())
    assert not isinstance(raised.value, unsupported)


@pytest.mark.promise("T20")
@pytest.mark.parametrize("said", [None, "cpu", (1,), (1, 0, 0), (2**80, 0), (1.5, 0), (-1, 0), 7])
def test_a_device_that_is_no_pair(add: Any, said: object) -> None:
    class Producer(FakeProducer):
        def __dlpack_device__(self) -> Any:
            return said

    x = Producer(4)
    with pytest.raises(TypeError, match="add: a answers __dlpack_device__ with"):
        add.add_f32(x, ones(), ones())
    assert x.deleted == 0
    assert x.asked == []


@pytest.mark.promise("FAULT-13", "D4")
@pytest.mark.parametrize("thing", [3, "x", object(), [1.0], np.ndarray, FakeProducer, None])
def test_what_is_no_tensor(add: Any, unsupported: Any, thing: object) -> None:
    for place, name in enumerate(("a", "b", "out")):
        args: list[Any] = [ones(), ones(), ones()]
        args[place] = thing
        with pytest.raises(TypeError) as raised:
            add.add_f32(*args)
        assert not isinstance(raised.value, unsupported)
        if not isinstance(thing, type):
            assert str(raised.value).startswith(f"add: {name}"), raised.value


# ---- who deletes ----------------------------------------------------------------------------


@pytest.mark.promise("T6", "FAULT-13")
def test_one_capsule_as_two_arguments(add: Any) -> None:
    x = FakeProducer(4)
    capsule = x.__dlpack__()

    class Same:
        def __dlpack__(self, **keywords: Any) -> Any:
            return capsule

    with pytest.raises(ValueError, match="used before"):
        add.add_f32(Same(), Same(), ones())
    assert x.deleted == 1


Call = Callable[[Any, FakeProducer, FakeProducer, FakeProducer], object]
PATHS: dict[str, Call] = {
    "typed": lambda add, x, y, z: add.add_f32(x, y, z),
    "typed, another dtype": lambda add, x, y, z: add.add_f16(x, y, z),
    "typed, keywords": lambda add, x, y, z: add.add_f32(x, out=z, b=y, kernel="loop"),
    "generic": lambda add, x, y, z: add.add(x, y, out=z),
    "explain": lambda add, x, y, z: add.explain(x, y, z),
    "bind": lambda add, x, y, z: add.bind(x, y, z)(),
    "shape": lambda add, x, y, z: (setattr(z.managed.tensor, "rank", 0), add.add(x, y, out=z)),
    "later argument": lambda add, x, y, z: add.add_f32(x, y, 3),
    "bind, later argument": lambda add, x, y, z: add.bind(x, y, 3),
    "bind, shape": lambda add, x, y, z: (setattr(z.managed.tensor, "rank", 0), add.bind(x, y, z)),
    "bind, kernel": lambda add, x, y, z: add.bind(x, y, z, kernel="vec"),
    "generic, kernel": lambda add, x, y, z: add.add(x, y, out=z, kernel="vec"),
}


@pytest.mark.promise("T6", "T7")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("deleter", [True, False])
def test_each_capsule_is_deleted_once(add: Any, path: str, deleter: bool) -> None:
    producers = [FakeProducer(4, deleter=deleter) for _ in range(3)]
    with contextlib.suppress(TypeError, ValueError):
        PATHS[path](add, *producers)
    gc.collect()
    for x in producers:
        assert x.deleted == (len(x.asked) if deleter else 0)


@pytest.mark.promise("T6", "T7")
def test_a_wrong_keyword_takes_nothing(add: Any) -> None:
    x = FakeProducer(4)
    with pytest.raises(TypeError, match="strem"):
        add.add_f32(x, x, x, strem=1)
    assert x.asked == []


@pytest.mark.promise("FAULT-10")
@pytest.mark.parametrize("path", ["later argument", "bind, later argument", "shape", "bind, shape"])
def test_a_deleter_meets_no_exception(add: Any, path: str) -> None:
    """A deleter that runs Python would lose the exception, or crash on it."""
    met = []

    def look() -> None:
        met.append(compile("1 + 1", "deleter", "eval"))

    producers = [FakeProducer(4, on_delete=look) for _ in range(3)]
    with pytest.raises((TypeError, ValueError)) as raised:
        PATHS[path](add, *producers)
    assert "add" in str(raised.value)
    assert len(met) == sum(x.deleted for x in producers) >= 2


@pytest.mark.promise("FAULT-9", "T6")
def test_reading_is_all_or_nothing(add: Any) -> None:
    """Each argument in turn is the one that fails; those before it are given back."""
    for failing in range(3):
        producers: list[Any] = [FakeProducer(4) for _ in range(3)]
        producers[failing] = FakeProducer(4, major=3)
        with pytest.raises(BufferError):
            add.add_f32(*producers)
        assert [x.deleted for x in producers] == [1] * (failing + 1) + [0] * (2 - failing)


# ---- one tensor, one verdict ----------------------------------------------------------------


@pytest.mark.promise("FAULT-15")
@pytest.mark.parametrize("rank", [0, 1, 2, 8, 9, 10, 16, 17, 30])
def test_rank_by_every_protocol(add: Any, rank: int) -> None:
    array: Any = np.ones([2, 2] * min(1, rank // 2) + [1] * (rank - 2 * min(1, rank // 2)), "f4")
    turned = array.transpose(*reversed(range(array.ndim)))
    for x in (array, turned):
        answers = {
            add.add_f32(by(x), by(x), np.zeros(x.shape, "f4"))
            for by in (
                lambda v: v,
                Wrapped,
                memoryview,
                lambda v: v.view(type("Sub", (np.ndarray,), {})),
            )
        }
        assert answers == {True}


@pytest.mark.promise("FAULT-15")
def test_layouts_by_every_protocol(add: Any) -> None:
    grid: Any = np.arange(64, dtype="f4").reshape(4, 4, 4)
    views = [grid, grid.T, grid[::2], grid[:, ::-1], grid[:, 1:2], grid[1:, :, 3:], grid[..., 0]]
    for view in views:
        want = view + view
        for by in (lambda v: v, Wrapped, memoryview):
            out = np.zeros(view.shape, "f4")
            assert add.add_f32(by(view), by(view), out) is True
            assert np.array_equal(out, want)
