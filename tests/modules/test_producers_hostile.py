"""Whatever a producer does is refused with words that name the argument, or works: no crash, no
leak, no wrong number. Descriptions are drawn field by field; what a description says of memory is
judged here by a model in Python, so that one which is sound stays within the producer's memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from modules.fake_backend import Fake, interface
from modules.fake_exchange import Framework
from modules.fake_producer import COPIED, EXPORTED, READ_ONLY, FakeProducer
from modules.lying_exporter import LyingExporter

ROOM = 64  # bytes before the elements, and behind them
NAMES = ("a", "b", "out")
SETTINGS = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))

# ---- descriptions ----------------------------------------------------------------------------

HUGE = [2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -1, -(2**31), -(2**63)]
SIZES = st.one_of(st.integers(0, 4), st.integers(0, 4), st.sampled_from(HUGE))
STRIDES = st.one_of(st.integers(-4, 4), st.integers(-4, 4), st.sampled_from(HUGE))


@st.composite
def descriptions(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a tensor: those of four floats, one to three of them changed."""
    fields: dict[str, Any] = {"shape": [4], "strides": [1]}
    shape = draw(st.sampled_from([[4], [4], [2, 2], [1, 4], [4, 1], [], [0], [2, 0]]))
    fields.update(shape=shape, strides=row_major(shape))
    for change in draw(st.lists(st.sampled_from(sorted(CHANGES)), max_size=3)):
        fields.update(CHANGES[change](draw, fields["shape"]))
    return fields


def row_major(shape: list[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


CHANGES: dict[str, Callable[[st.DrawFn, list[int]], dict[str, Any]]] = {
    "shape": lambda draw, _: {"shape": (s := draw(st.lists(SIZES, max_size=5))),
                              "strides": [1] * len(s)},
    "strides": lambda draw, shape: {
        "strides": draw(st.one_of(st.none(), st.lists(STRIDES, min_size=len(shape),
                                                      max_size=len(shape))))},
    "rank": lambda draw, _: {"rank": draw(st.sampled_from([-1, -(2**31), 65, 2**31 - 1]))},
    "no shape": lambda draw, _: {"no_shape": True},
    "dtype": lambda draw, _: {"code": draw(st.integers(0, 20)),
                              "bits": draw(st.sampled_from([0, 1, 4, 8, 16, 32, 64, 128, 255]))},
    "lanes": lambda draw, _: {"lanes": draw(st.sampled_from([0, 2, 4, 65535]))},
    "device": lambda draw, _: {"device_type": draw(st.sampled_from([*range(-1, 20), 2**31 - 1])),
                               "device_index": draw(st.sampled_from([0, 1, -1, 2**31 - 1]))},
    "offset": lambda draw, _: {"byte_offset": draw(st.sampled_from(
        [0, 1, 2, 4, 8, 16, 2**31, 2**63, 2**64 - 4, 2**64 - 64]))},
    "no data": lambda draw, _: {"data": None},
    "flags": lambda draw, _: {"flags": draw(st.sampled_from([READ_ONLY, COPIED, 3, 4, 2**63]))},
    "major": lambda draw, _: {"major": draw(st.sampled_from([0, 2, 3, 2**32 - 1]))},
    "minor": lambda draw, _: {"minor": draw(st.sampled_from([0, 1, 99, 2**32 - 1]))},
    "deleter": lambda draw, _: {"deleter": False},
    "legacy": lambda draw, _: {"legacy": True},
}  # fmt: skip


def range_of(fields: dict[str, Any]) -> tuple[int, int] | None:
    """The bytes before and behind the address that the elements lie in, in numbers without end;
    None where the description says nothing of memory."""
    shape, strides = fields["shape"], fields["strides"]
    if fields.get("no_shape") or fields.get("data", 1) is None or "rank" in fields:
        return None
    if any(n <= 0 for n in shape) or fields.get("lanes", 1) != 1:
        return None
    item = fields.get("bits", 32) // 8
    reach = [(n - 1) * s for n, s in zip(shape, strides or row_major(shape), strict=True)]
    low = item * sum(r for r in reach if r < 0) + fields.get("byte_offset", 0)
    return low, item * (sum(r for r in reach if r > 0) + 1) + fields.get("byte_offset", 0)


def within(fields: dict[str, Any], before: int, behind: int) -> bool:
    """Whether the elements lie in the producer's memory; or could lie nowhere at all."""
    bytes_ = range_of(fields)
    if bytes_ is None or fields.get("device_type", 1) != 1:
        return True
    low, high = bytes_
    return (-before <= low and high <= behind) or low < -(2**62) or high >= 2**62


def producer(fields: dict[str, Any], **more: Any) -> FakeProducer:
    fields = dict(fields)
    no_shape, count = fields.pop("no_shape", False), 16
    shape, strides = fields.pop("shape"), fields.pop("strides")
    if fields.get("legacy"):
        for name in ("major", "minor", "flags"):
            fields.pop(name, None)
    made = FakeProducer(count, shape, strides, **fields, **more)
    if no_shape:
        made.managed.tensor.shape = None
    if fields.get("data", 1) is not None:  # room for strides that lead before the first element
        made.managed.tensor.data = ctypes.addressof(made.buffer) + ROOM
    return made


# ---- how a producer behaves ------------------------------------------------------------------


class Hostile:
    """A producer around a fake one. It notes the capsules that it gave, for whoever counts."""

    def __init__(self, fake: FakeProducer, behaviour: str, error: type[BaseException]) -> None:
        self.fake, self.behaviour, self.error = fake, behaviour, error
        self.capsules: list[Any] = []
        self.others: list[Any] = []
        self.before: Callable[[], object] = lambda: None

    def __dlpack_device__(self) -> Any:
        if self.behaviour == "device raises":
            raise self.error("on purpose")
        if self.behaviour == "device lies":
            return (2, 7)
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        self.before()
        if self.behaviour == "raises":
            raise self.error("on purpose")
        if self.behaviour == "raises late":
            self.give(keywords)
            raise self.error("on purpose")
        if self.behaviour == "no capsule":
            return ctypes.c_void_p(8)
        if self.behaviour == "same capsule" and self.capsules:
            return self.capsules[0]
        return self.give(keywords)

    def give(self, keywords: dict[str, Any]) -> Any:
        capsule = self.fake.__dlpack__(**keywords)
        if self.behaviour == "used":
            rename(capsule, b"used_dltensor_versioned")
        elif self.behaviour == "other name":
            rename(capsule, b"something else")
        else:
            self.capsules.append(capsule)
        return capsule

    def taken(self) -> int:
        return sum('"used_dltensor' in repr(capsule) for capsule in self.capsules)


rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = [ctypes.py_object, ctypes.c_char_p]

BEHAVIOURS = ("fine", "fine", "fine", "raises", "raises late", "device raises", "device lies",
              "no capsule", "same capsule", "used", "other name")  # fmt: skip
ERRORS: list[type[BaseException]] = [
    KeyboardInterrupt, SystemExit, MemoryError, RecursionError, TypeError, BufferError, ValueError,
    AttributeError, StopIteration, OSError, UnicodeError, AssertionError, GeneratorExit,
]  # fmt: skip
DELETERS = ("counts", "counts", "runs Python", "raises", "on another thread", "calls an op")

FORMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "typed": lambda add, x, y, out: add.add_f32(x, y, out),
    "generic": lambda add, x, y, out: add.add(x, y, out=out),
    "generic, out left out": lambda add, x, y, out: add.add(x, y),
    "bind": lambda add, x, y, out: add.bind(x, y, out)(),
    "set": lambda add, x, y, out: add.bind(*ones(3)).set(a=x, b=y, out=out),
    "run": lambda add, x, y, out: run(add.bind(x, y, out)),
    "explain": lambda add, x, y, out: add.explain(x, y, out),
}


def ones(count: int) -> list[Any]:
    return [np.ones(4, "f4") for _ in range(count)]


def run(call: Any) -> None:
    sys.modules["aicf_cuda"].run([call, call])


def deleter(kind: str, add: Any) -> Callable[[], object] | None:
    def fails() -> None:
        raise ZeroDivisionError("in a deleter")

    def elsewhere() -> None:
        thread = threading.Thread(target=lambda: compile("1 + 1", "deleter", "eval"))
        thread.start()
        thread.join()

    return {
        "counts": None,
        "runs Python": lambda: [compile("1 + 1", "deleter", "eval"), object()],
        "raises": fails,
        "on another thread": elsewhere,
        "calls an op": lambda: add.add_f32(*ones(3)),
    }[kind]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What a deleter raises is nobody's."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    try:
        yield
    finally:
        sys.unraisablehook = hook


def words_of(fault: BaseException) -> str:
    return "\n".join([str(fault), *getattr(fault, "__notes__", [])])


OUT = object()  # the out that was given came back


def attempt(add: Any, form: str, args: list[Any], rt: Any) -> Any:
    """What the form answered, or the exception, which is one that may be, and names an argument."""
    try:
        with quiet():
            answer = FORMS[form](add, *args)
        return OUT if answer is args[2] else answer
    except BaseException as fault:
        known = isinstance(fault, (TypeError, ValueError, BufferError, MemoryError, rt.Unsupported))
        assert known or "on purpose" in str(fault), repr(fault)
        if isinstance(fault, Exception) and not isinstance(fault, MemoryError):
            words = words_of(fault)
            assert any(f"add: {name}" in words for name in NAMES), repr(words)
        return fault.with_traceback(None)


def shown(x: Any) -> Any:
    """A sound producer's elements by numpy, which is whom we are compared with."""
    tensor, fields = x.fake.managed.tensor, x.fields
    shape, strides = fields["shape"], fields["strides"] or row_major(fields["shape"])
    base: Any = np.frombuffer(x.fake.buffer, "u1")
    start = ROOM + tensor.byte_offset
    steps = [4 * s for s in strides]
    low = start + sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s < 0 and n)
    if 0 in shape:
        return np.zeros(shape, "f4")
    typed = base[low % 4 :][: (base.size - low % 4) // 4 * 4].view("f4")
    return np.lib.stride_tricks.as_strided(typed[start // 4 :], shape, steps)


@SETTINGS
@given(data=st.data())
@pytest.mark.promise("PRODUCERS-hostile", "T6", "T7", "T20", "FAULT-9", "FAULT-10", "FAULT-13")
def test_any_producer_in_any_form(add: Any, rt: Any, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(sorted(FORMS)))
    made: list[Any] = []
    for name in NAMES:
        fields = data.draw(st.one_of(st.just({"shape": [4], "strides": [1]}), descriptions()))
        assume(within(fields, ROOM, 320 - ROOM))
        clean = data.draw(st.booleans())
        behaviour = "fine" if clean else data.draw(st.sampled_from(BEHAVIOURS))
        on_delete = deleter(data.draw(st.sampled_from(DELETERS)), add)
        x = Hostile(
            producer(fields, on_delete=on_delete), behaviour, data.draw(st.sampled_from(ERRORS))
        )
        x.fields = fields  # type: ignore[attr-defined]
        for i in range(80):
            x.fake.buffer[i] = i * (NAMES.index(name) + 1)
        made.append(x)
    if data.draw(st.integers(0, 4)) == 0:
        made[data.draw(st.integers(0, 2))] = made[0]
    args: list[Any] = list(made)
    if data.draw(st.booleans()):
        exchanged = Framework("own").type()
        able = [x.behaviour == "fine" and not x.fields.get("legacy") for x in made]
        args = [exchanged(x.fake) if can else x for can, x in zip(able, made, strict=True)]
        for thing, x in zip(args, made, strict=True):
            thing.origin = x
    numbers = [x.fake.values for x in made]
    counted = [sys.getrefcount(x) for x in made]
    answer = attempt(add, form, args, rt)
    assert [sys.getrefcount(x) for x in made] == counted
    for x, thing in zip(made, args, strict=True):
        taken = len(x.fake.asked) if x is not thing else x.taken()
        expected = taken if x.fields.get("deleter", True) else 0
        assert x.fake.deleted == expected, (form, x.fields, x.behaviour, repr(answer))
    check_numbers(form, made, numbers, answer)


def check_numbers(form: str, made: list[Any], numbers: list[Any], answer: Any) -> None:
    ran = answer is True or answer is OUT or (
        form in ("bind", "run") and not isinstance(answer, BaseException)
    )  # fmt: skip
    after = [x.fake.values for x in made]
    if not ran:
        assert after == numbers, form
        return
    assert all(0 <= n < 5 for x in made for n in x.fields["shape"])
    out = shown(made[2]).copy()
    for x, before in zip(made, numbers, strict=True):
        x.fake.buffer[:] = before  # in place or not, the inputs were these
    a, b = shown(made[0]), shown(made[1])
    if form == "run" and any(x is made[2] for x in made[:2]):
        return  # in place twice
    assert np.array_equal(out, a + b), (form, made[0].fields, made[1].fields)


# ---- what one producer does to the others ------------------------------------------------------


@pytest.mark.promise("PRODUCERS-hostile", "FAULT-3", "FAULT-9")
@pytest.mark.parametrize(
    ("form", "deed"),
    [
        (form, deed)
        for form in FORMS
        for deed in ("resize", "reshape", "read-only", "swap", "set a bound call")
        if deed != "resize" or form not in ("bind", "run", "set")  # those hold the array: see S5
    ],
)
def test_a_producer_that_changes_the_others(add: Any, rt: Any, form: str, deed: str) -> None:
    """The others are as they are when the last of them was asked."""
    big = np.ones(1 << 20, "f4")
    a = np.ones(4, "f4") if deed != "resize" else big.copy()
    b = Hostile(FakeProducer(4), "fine", TypeError)
    out = np.zeros(4, "f4")
    call = add.bind(*ones(3))

    def change() -> None:
        if deed == "resize":
            a.resize(4, refcheck=False)
        elif deed == "reshape":
            a.shape = (2, 2)
        elif deed == "read-only":
            out.setflags(write=False)
        elif deed == "swap":
            a.dtype = np.dtype("i4")  # type: ignore[misc]
        else:
            call.set(a=np.full(4, 2, "f4"))

    b.before = change
    answer = attempt(add, form, [a, b, out], rt)
    if isinstance(answer, list):
        return
    if deed in ("resize", "set a bound call"):
        assert not isinstance(answer, BaseException), answer
        total = answer if isinstance(answer, np.ndarray) else out
        assert form == "set" or total.tolist() == [2.0] * 4
    assert b.fake.deleted == b.taken() >= 1


@pytest.mark.promise("PRODUCERS-hostile", "FAULT-9")
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("error", ERRORS)
def test_an_exception_halfway(
    add: Any, rt: Any, form: str, place: int, error: type[BaseException]
) -> None:
    """At each argument in turn; what was taken before it is given back, and it comes through."""
    made = [Hostile(FakeProducer(4), "fine", error) for _ in NAMES]
    made[place].behaviour = "raises"
    answer = attempt(add, form, list(made), rt)
    if form == "generic, out left out" and place == 2:
        assert not isinstance(answer, BaseException)
        return
    assert type(answer) is error
    named = isinstance(answer, Exception) and error is not MemoryError
    assert getattr(answer, "__notes__", []) == (
        [f"add: {NAMES[place]} could not be read"] if named else []
    )
    assert [x.fake.deleted for x in made] == [x.taken() for x in made]


@pytest.mark.promise("PRODUCERS-hostile", "T7")
def test_one_exception_raised_for_ever(add: Any) -> None:
    """The notes on it are not as many as the calls."""
    fault = ValueError("on purpose")

    class Raises:
        def __dlpack__(self, **keywords: Any) -> Any:
            raise fault

    for _ in range(100):
        with pytest.raises(ValueError, match="on purpose"):
            add.add_f32(Raises(), *ones(2))
    assert fault.__notes__ == ["add: a could not be read"]


@pytest.mark.promise("PRODUCERS-hostile", "FAULT-13")
@pytest.mark.parametrize("where", ["__str__", "add_note", "__notes__"])
def test_an_exception_that_is_hostile_itself(add: Any, where: str) -> None:
    class Odd(ValueError):
        def __str__(self) -> str:
            return "x" if where != "__str__" else 1 / 0  # type: ignore[return-value]

        if where == "add_note":

            def add_note(self, note: str) -> None:
                raise KeyboardInterrupt

        if where == "__notes__":

            @property
            def __notes__(self) -> Any:  # type: ignore[override]
                raise KeyboardInterrupt

    class Raises:
        def __dlpack__(self, **keywords: Any) -> Any:
            raise Odd

    with pytest.raises(Odd):
        add.add_f32(Raises(), *ones(2))


@pytest.mark.promise("PRODUCERS-hostile")
@pytest.mark.parametrize("form", ["step", "join"])
def test_a_list_that_loses_its_tensors(zoo: Any, form: str) -> None:
    """A tensor of a list empties the list, and drops itself, while it is asked."""
    tensors: list[Any] = []
    fakes = [FakeProducer(4, [1, 4]), FakeProducer(4, [1, 4])]

    class Suicidal(Hostile):
        def __dlpack__(self, **keywords: Any) -> Any:
            tensors.clear()
            return super().__dlpack__(**keywords)

    tensors.extend(Suicidal(x, "fine", TypeError) for x in fakes)
    if form == "join":
        assert zoo.join.join_f32(tensors, out := np.zeros((2, 4), "f4")) is True
        assert out.tolist() == [[1.0] * 4] * 2
    else:
        zoo.step.step(tensors, [np.ones((1, 4), "f4")] * 2, lr=1)
        assert [x.values[:5] for x in fakes] == [[0.0] * 4 + [1.0]] * 2
    assert tensors == []
    assert [x.deleted for x in fakes] == [len(x.asked) for x in fakes]


# ---- buffers ---------------------------------------------------------------------------------


@st.composite
def buffers(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.sampled_from([[4], [2, 2], [], [0], [1, 4]]))
    fields: dict[str, Any] = {"shape": shape, "len": 4 * math.prod(shape)}
    for key in draw(st.lists(st.sampled_from(sorted(LIES)), max_size=2)):
        fields[key] = draw(LIES[key])
    if fields.get("strides") is not None:
        fields["strides"] = (fields["strides"] * 5)[: len(fields["shape"])]
    return fields


LIES: dict[str, st.SearchStrategy[Any]] = {
    "shape": st.lists(SIZES, max_size=4),
    "strides": st.lists(st.sampled_from([4, 8, -4, 0, 6, 2**62, -(2**63)]), min_size=1),
    "ndim": st.sampled_from([-1, 65, 2**31 - 1, -(2**31)]),
    "len": st.sampled_from([-1, 0, 15, 2**62, -(2**63)]),
    "itemsize": st.sampled_from([0, -4, 1, 2, 8, 2**62]),
    "format": st.sampled_from([b"f", b"<f", b">f", b"d", b"e", b"", b"4f", b"\xff", b"T{f:x:}"]),
    "buf": st.none(),
    "readonly": st.sampled_from([1, -1, 2**31 - 1]),
    "suboffsets": st.just([0] * 64),
}


@SETTINGS
@given(fields=buffers(), place=st.integers(0, 2), form=st.sampled_from(sorted(FORMS)))
@pytest.mark.promise("PRODUCERS-hostile", "FAULT-7", "T20")
def test_any_exporter_in_any_form(
    add: Any, rt: Any, fields: dict[str, Any], place: int, form: str
) -> None:
    x = LyingExporter(16, **fields)
    sound = "ndim" not in fields and all(n >= 0 for n in fields["shape"])
    if sound and math.prod(fields["shape"]) * 4 == fields["len"]:
        strides = fields.get("strides") or [4 * s for s in row_major(fields["shape"])]
        reach = [(n - 1) * s for n, s in zip(fields["shape"], strides, strict=True)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        assume((low >= 0 and high <= 200) or low < -(2**62) or high > 2**61 or fields["len"] == 0)
    args = ones(3)
    args[place] = x
    before = x.values
    counted = sys.getrefcount(x)
    answer = attempt(add, form, args, rt)
    assert sys.getrefcount(x) == counted
    assert x.filled == x.released
    if answer is False or isinstance(answer, BaseException):
        assert x.values == before


# ---- the array interface ---------------------------------------------------------------------


class Evil:
    """An int that does something when it is asked, and answers."""

    def __init__(self, deed: Callable[[], object], number: Any = 4) -> None:
        self.deed, self.number = deed, number

    def __index__(self) -> Any:
        self.deed()
        return self.number


def raised(error: type[BaseException]) -> Callable[[], object]:
    def deed() -> None:
        raise error("on purpose")

    return deed


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from(HUGE), st.floats(),
    st.text(max_size=9),
    st.binary(max_size=9), st.just("<f" * 100_000), st.just([]), st.just({}), st.just(object()),
    st.lists(st.integers(-1, 5)).map(tuple), st.tuples(st.integers(), st.booleans()),
    st.sampled_from([">f4", "|f4", "<f8", "<i4", "|V4", "<c8", "|b1", "\udc80", "<", "<f"]),
)  # fmt: skip


@SETTINGS
@given(
    entries=st.dictionaries(
        st.sampled_from(["shape", "typestr", "data", "strides", "version", "mask", "stream"]), ODD
    ),
    missing=st.sets(st.sampled_from(["shape", "typestr", "data", "version"]), max_size=1),
    place=st.integers(0, 1),
)
@pytest.mark.promise("PRODUCERS-hostile", "T5", "T20")
def test_any_array_interface(
    zoo: Any, fake: Fake, entries: dict[str, Any], missing: set[str], place: int
) -> None:
    array, other = np.ones(4, "f4"), np.ones(4, "f4")
    if isinstance(entries.get("data"), tuple) and len(entries["data"]) == 2:
        entries["data"] = (0, entries["data"][1])  # an address that is no memory cannot be told
    shape, strides = entries.get("shape"), entries.get("strides")
    assume(not isinstance(strides, tuple) or all(abs(s) <= 4 for s in strides))
    assume(not isinstance(shape, tuple) or math.prod(map(abs, shape)) <= 4)
    x = interface(array, **{**entries, **dict.fromkeys(missing, "absent")})
    args = [interface(other), interface(other)]
    args[place] = x
    counted = sys.getrefcount(x)
    for call in (zoo.twin.twin_f32, zoo.twin.bind, zoo.twin.explain):
        try:
            call(*args)
        except (TypeError, ValueError) as fault:
            assert words_of(fault).startswith("twin: "), fault
            assert len(str(fault)) < 1000
    assert sys.getrefcount(x) == counted


@pytest.mark.promise("PRODUCERS-hostile", "T5", "T20")
@pytest.mark.parametrize("key", ["shape", "strides", "version", "stream"])
def test_an_array_interface_that_changes_while_it_is_read(zoo: Any, fake: Fake, key: str) -> None:
    """Its numbers' own code empties the dict, which had the only reference to what is read."""
    for deed in ("clear", "replace", "shorten"):
        array, out = np.ones(4, "f4"), np.zeros(4, "f4")
        x: Any = interface(array)
        entries = x.__cuda_array_interface__

        def change(entries: Any = entries, deed: str = deed) -> None:
            if deed == "clear":
                entries.clear()
            else:
                entries["shape"] = (4,) * 60 if deed == "replace" else ()
                entries["strides"] = ()
            [tuple(range(n)) for n in range(1, 80)]

        evil = Evil(change, {"shape": 4, "strides": 4, "version": 3, "stream": 1}[key])
        entries[key] = (evil,) if key in ("shape", "strides") else evil
        assert zoo.twin.twin_f32(x, interface(out)) is True
        assert out.tolist() == [1.0] * 4


@pytest.mark.promise("PRODUCERS-hostile", "FAULT-13")
@pytest.mark.parametrize("key", ["shape", "strides", "version", "stream"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, TypeError, MemoryError])
def test_an_array_interface_whose_numbers_raise(
    zoo: Any, fake: Fake, key: str, error: type[BaseException]
) -> None:
    array = np.ones(4, "f4")
    x: Any = interface(array)
    evil = Evil(raised(error))
    x.__cuda_array_interface__[key] = (evil,) if key in ("shape", "strides") else evil
    text = f"twin: x has .* whose {key}" if error is TypeError else "on purpose"
    with pytest.raises(error, match=text) as seen:
        zoo.twin.twin_f32(x, interface(array))
    if error is ZeroDivisionError:
        assert "twin: x could not be read" in words_of(seen.value)


@pytest.mark.promise("PRODUCERS-hostile", "FAULT-13")
def test_an_array_interface_whose_keys_are_odd(zoo: Any, fake: Fake) -> None:
    class Key(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError("on purpose")

    for name in ("shape", "typestr", "data", "version", "strides", "mask", "stream"):
        kept = np.ones(4, "f4")
        x: Any = interface(kept)
        entries = x.__cuda_array_interface__
        entries.pop(name, None)
        entries[Key(name)] = None
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            zoo.twin.twin_f32(x, x)

    class Dict(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise AssertionError

    array, out = np.ones(4, "f4"), np.zeros(4, "f4")
    y = interface(array)
    y.__cuda_array_interface__ = Dict(y.__cuda_array_interface__)
    assert zoo.twin.twin_f32(y, interface(out)) is True


# ---- deleters and time -----------------------------------------------------------------------


@pytest.mark.promise("T6", "T7", "C3", "PRODUCERS-hostile")
@pytest.mark.parametrize("request_", ["launch", "enter", "allocate", "wait", "release"])
@pytest.mark.parametrize("form", ["typed", "generic", "bind"])
def test_a_failed_launch_gives_everything_back(
    zoo: Any, fake: Fake, request_: str, form: str
) -> None:
    made = [FakeProducer(4, device_type=2, knows=["copy", "max_version"]) for _ in range(2)]
    fake.reset(fails=request_)
    forms: dict[str, Callable[[], object]] = {
        "typed": lambda: zoo.twin.twin_f32(*made, stream=5),
        "generic": lambda: zoo.twin.twin(made[0], out=made[1], stream=5),
        "bind": lambda: zoo.twin.bind(*made, stream=5)(),
    }
    with pytest.raises(zoo.CudaError):
        forms[form]()
    assert [x.deleted for x in made] == [1, 1]


@pytest.mark.promise("T7", "T20")
@pytest.mark.parametrize("kind", ["capsules", "exchange", "exporters", "interfaces", "failing"])
def test_many_calls_keep_nothing(add: Any, zoo: Any, fake: Fake, kind: str) -> None:
    """Allocated blocks, by Python's own count: flat over thousands of calls."""
    x, exporter = FakeProducer(4), LyingExporter(4)
    exchanged = Framework("own").type()(x)
    array = interface(np.ones(4, "f4"))
    failing = Hostile(FakeProducer(4), "fine", TypeError)
    out = np.zeros(4, "f4")

    def call() -> None:
        if kind == "capsules":
            add.add_f32(x, x, out)
        elif kind == "exchange":
            add.add_f32(exchanged, exchanged, out)
        elif kind == "exporters":
            add.add_f32(exporter, exporter, out)
        elif kind == "interfaces":
            zoo.twin.twin_f32(array, array)
        else:
            with contextlib.suppress(TypeError):
                add.add_f32(failing, 3, out)
            failing.capsules.clear()
        x.asked.clear()
        failing.fake.asked.clear()
        fake.reset()
        EXPORTED.clear()

    def grown(calls: int) -> int:
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(calls):
            call()
        gc.collect()
        return sys.getallocatedblocks() - before

    # What leaks grows in every round; what the process does beside it, in some.
    grown(200)
    assert min(grown(2_000) for _ in range(4)) < 50


@pytest.mark.promise("T6")
def test_a_real_capsule_twice(add: Any) -> None:
    """numpy's own, from two producers: its deleter frees what it shows, once."""
    for legacy in (True, False):
        source = np.ones(4, "f4")
        capsule = source.__dlpack__() if legacy else source.__dlpack__(max_version=(1, 0))
        counted = sys.getrefcount(source)

        class Same:
            def __dlpack__(self, capsule: Any = capsule, **keywords: Any) -> Any:
                return capsule

        with pytest.raises(ValueError, match="add: b gave a DLPack capsule that was used before"):
            add.add_f32(Same(), Same(), *ones(1))
        del capsule, Same
        assert sys.getrefcount(source) == counted - 1
