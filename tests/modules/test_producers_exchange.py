"""DLPack's C exchange API as frameworks may offer it: without the function that borrows, of another
version, without an allocator, or wrong."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modules.fake_backend import Fake, interface, on_cuda
from modules.fake_exchange import Exchange, Framework, Taken, capsule_of
from modules.fake_producer import READ_ONLY, FakeProducer
from modules.test_dlpack import PATHS, ones


def floats(taken: Taken, count: int) -> list[float]:
    return list((ctypes.c_float * count).from_address(taken.managed.tensor.data))


# ---- the function that borrows is missing ----------------------------------------------------


@pytest.mark.promise("EXCHANGE-managed", "T6", "T7")
@pytest.mark.parametrize("path", PATHS)
def test_without_borrow_the_managed_one_is_used(add: Any, path: str) -> None:
    framework = Framework("own")
    made = framework.type()
    producers = [FakeProducer(4) for _ in range(3)]
    things = [made(x) for x in producers]
    call = PATHS[path]
    try:
        if "shape" in path:  # the path turns the out into a scalar
            producers[2].managed.tensor.rank = 0
            call = {"shape": PATHS["generic"], "bind, shape": PATHS["bind"]}[path]
        call(add, *things)
    except (TypeError, ValueError):
        assert path not in ("typed", "generic", "bind", "explain")
    gc.collect()
    assert set(framework.calls) == {"own"}
    for x in producers:
        assert x.deleted == len(x.asked), path
    assert producers[0].deleted > 0


@pytest.mark.promise("EXCHANGE-managed")
def test_what_the_managed_one_says_counts(add: Any, unsupported: Any) -> None:
    made = Framework("own").type()
    x = FakeProducer(4, byte_offset=16, flags=READ_ONLY)
    for i in range(8):
        x.buffer[i] = i
    out = np.zeros(4, "f4")
    assert add.add_f32(made(x), ones(), out) is True
    assert out.tolist() == [5.0, 6.0, 7.0, 8.0]
    assert add.add_f32(ones(), ones(), made(x)) is False
    with pytest.raises(unsupported, match=r"out: .*read-only"):
        add.add(ones(), ones(), out=made(x))
    call = add.bind(made(x), ones(), out)
    before = x.deleted
    call.set(b=made(FakeProducer(4)))
    out[:] = 0
    call()
    assert out.tolist() == [5.0, 6.0, 7.0, 8.0]
    assert x.deleted == before
    del call
    gc.collect()
    assert x.deleted == before + 1 == len(x.asked)


@pytest.mark.promise("EXCHANGE-managed", "T6")
@pytest.mark.parametrize("answer", [-1, 1])
@pytest.mark.parametrize("function", ["own", "borrow"])
def test_a_function_that_refuses_lets_the_protocols_try(
    add: Any, function: str, answer: int
) -> None:
    framework = Framework("own", "borrow", answers={"own": answer, "borrow": answer})
    if function == "own":
        framework = Framework("own", answers={"own": answer})
    with pytest.raises(TypeError, match="add: a is not a tensor but Exchanged"):
        add.add_f32(framework.type()(FakeProducer(4)), ones(), ones())
    also = framework.type(__dlpack__=lambda self, **keywords: self.fake.__dlpack__(**keywords))
    x = FakeProducer(4)
    assert add.add_f32(also(x), ones(), ones()) is True
    assert framework.calls.count(function) >= 2
    assert x.deleted == len(x.asked) == 1


@pytest.mark.promise("EXCHANGE-managed", "T6", "T10")
@pytest.mark.parametrize("form", ["typed", "bind"])
def test_a_managed_tensor_of_another_version(add: Any, form: str) -> None:
    x = FakeProducer(4, major=2)
    thing = Framework("own").type()(x)
    with pytest.raises(BufferError, match="add: b came as DLPack of major version 2"):
        add.add_f32(ones(), thing, ones()) if form == "typed" else add.bind(ones(), thing, ones())
    assert x.deleted == len(x.asked) == 1


@pytest.mark.promise("EXCHANGE-managed")
def test_nothing_handed_over(add: Any) -> None:
    framework = Framework("own")
    framework.hands_over = 0
    thing = framework.type()(FakeProducer(4))
    for call in (lambda: add.add_f32(thing, ones(), ones()), lambda: add.bind(thing, thing, thing)):
        with pytest.raises(TypeError, match="add: a is not a tensor"):
            call()


# ---- versions ---------------------------------------------------------------------------------


@pytest.mark.promise("EXCHANGE-version")
def test_an_api_of_another_version(add: Any) -> None:
    """Its functions are not called; the older one that it names is, else the protocols."""
    newer = Framework("own", "borrow", major=2)
    with pytest.raises(TypeError, match="add: a is not a tensor"):
        add.add_f32(newer.type()(FakeProducer(4)), ones(), ones())
    speaks = newer.type(__dlpack__=lambda self, **keywords: self.fake.__dlpack__(**keywords))
    assert add.add_f32(speaks(FakeProducer(4)), ones(), ones()) is True
    known = Framework("own", "borrow")
    middle = Framework("own", major=3, older=known.api)
    chain = Framework("own", major=4, older=middle.api)
    assert add.add_f32(chain.type()(FakeProducer(4)), ones(), ones()) is True
    assert known.calls == ["borrow"]
    assert newer.calls == middle.calls == chain.calls == []


@pytest.mark.promise("EXCHANGE-version")
def test_an_api_that_leads_to_itself(alone: Callable[..., str]) -> None:
    code = """
    import ctypes
    from modules.fake_exchange import Exchange, capsule_of
    from modules.fake_producer import FakeProducer
    import numpy as np
    from aicf_cuda import add
    circle = Exchange(major=2)
    circle.older = ctypes.addressof(circle)
    FakeProducer.__dlpack_c_exchange_api__ = capsule_of(circle)
    print(add.add_f32(FakeProducer(4), FakeProducer(4), np.ones(4, "f4")))
    """
    assert alone(code).split() == ["True"]


@pytest.mark.promise("EXCHANGE-version")
@pytest.mark.parametrize(
    "attribute",
    [None, 3, "capsule", capsule_of(Exchange(major=1), b"something else")],
    ids=["None", "a number", "a word", "a capsule of another name"],
)
def test_what_is_no_api(add: Any, attribute: object) -> None:
    class Odd(FakeProducer):
        __dlpack_c_exchange_api__ = attribute

    assert add.add_f32(Odd(4), Odd(4), ones()) is True


# ---- outs -------------------------------------------------------------------------------------


@pytest.mark.promise("EXCHANGE-allocator")
def test_outs_are_made_by_the_allocator(add: Any) -> None:
    framework = Framework("own", "borrow", "allocate", "wrap")
    made = framework.type()
    shape, order = [3, 4], [1, 3]  # column by column
    x = FakeProducer(12, shape, order)
    result = add.add(made(x), made(x))
    assert framework.calls.count("allocate") == framework.calls.count("wrap") == 1
    tensor = result.fake.managed.tensor
    assert list((ctypes.c_int64 * 2).from_address(tensor.shape)) == shape
    assert list((ctypes.c_int64 * 2).from_address(tensor.strides)) == order
    assert framework.made[0].values[:13] == [2.0] * 12 + [1.0]
    first = add.add(np.ones((3, 4), "f4").data, made(x))
    assert type(first).__name__ == "Exchanged"  # the first that makes tensors, not the first


@pytest.mark.promise("EXCHANGE-allocator", "T7")
@pytest.mark.parametrize("shape", [[3], [2, 3], []])
def test_without_an_allocator_ours_is_wrapped(add: Any, shape: list[int]) -> None:
    framework = Framework("own", "wrap")
    made, count = framework.type(), int(np.prod(shape))
    result = add.add(made(FakeProducer(count, shape)), np.ones(shape, "f4"))
    assert framework.calls.count("wrap") == 1
    assert floats(result.fake, count) == [2.0] * count
    result.fake.delete()


@pytest.mark.promise("EXCHANGE-allocator", "FAULT-13")
@pytest.mark.parametrize(
    ("has", "answers", "error", "text"),
    [
        (("allocate", "wrap"), {"allocate": -1}, MemoryError, "no room"),
        (("allocate", "wrap"), {"wrap": -1}, RuntimeError, "did not take"),
        (("wrap",), {"wrap": -1}, RuntimeError, "did not take"),
    ],
)
def test_an_allocator_that_fails(
    add: Any, has: tuple[str, ...], answers: dict[str, int], error: type[Exception], text: str
) -> None:
    framework = Framework("own", *has, answers=answers)
    x = FakeProducer(4)
    with pytest.raises(error, match=text):
        add.add(framework.type()(x), ones())
    assert x.deleted == len(x.asked)
    assert all(made.deleted == 0 for made in framework.made)


@pytest.mark.promise("EXCHANGE-allocator")
@pytest.mark.parametrize("lie", ["nothing", "rank", "strides", "size", "dtype", "address"])
def test_an_allocator_that_is_wrong(add: Any, unsupported: Any, lie: str) -> None:
    """What it gave is read as any out is, and refused where it does not fit."""
    framework = Framework("own", "borrow", "allocate", "wrap")
    made = framework.type()
    other = FakeProducer(
        12, [4, 3] if lie == "size" else [3, 4], [3, 1] if lie == "size" else [4, 1]
    )
    tensor = other.managed.tensor
    if lie == "rank":
        tensor.rank = 1
    elif lie == "strides":
        tensor.strides = None
    elif lie == "dtype":
        tensor.bits = 16
    elif lie == "address":
        tensor.data = None
    framework.hands_over = 0 if lie == "nothing" else ctypes.addressof(other.managed)
    x = made(FakeProducer(12, [3, 4], [1, 3] if lie in ("rank", "strides") else [4, 1]))
    with pytest.raises((unsupported, RuntimeError), match=r"out: |allocator"):
        add.add(x, x)
    assert other.values == [1.0] * 76


# ---- streams ----------------------------------------------------------------------------------


@pytest.mark.promise("STREAMS-one-rule", "S1", "S4")
@pytest.mark.parametrize("stream", [None, 9])
def test_every_framework_is_waited_for(zoo: Any, fake: Fake, stream: int | None) -> None:
    """The work runs on the stream of the first framework that has one; the others' come before."""
    first, second = Framework("borrow", "own", "stream", stream=5), Framework("own", "stream")
    second.current = 6
    x, out = first.type()(on_cuda()), second.type()(on_cuda())
    used = stream or 5
    assert zoo.twin.twin_f32(x, out, stream=stream) is True
    waits = [6] if stream is None else [5, 6]
    assert sorted(fake.of("wait")) == [f"wait 0 {used} {w}" for w in waits]
    assert fake.of("launch") == [f"launch 0 {used}"]
    assert all(fake.log.index(w) < fake.log.index(f"launch 0 {used}") for w in fake.of("wait"))
    fake.reset()
    second.current = used
    first.current = used
    assert zoo.twin.twin_f32(x, out, stream=stream) is True
    assert fake.of("wait") == []


@pytest.mark.promise("STREAMS-one-rule", "S4")
@pytest.mark.parametrize("stream", [None, 9])
def test_a_bound_call_asks_every_framework_at_each_launch(
    zoo: Any, fake: Fake, stream: int | None
) -> None:
    first, second = Framework("borrow", "own", "stream", stream=5), Framework("own", "stream")
    second.current = 6
    call = zoo.twin.bind(first.type()(on_cuda()), second.type()(on_cuda()), stream=stream)
    for theirs in (6, 7):
        fake.reset()
        second.current = theirs
        call()
        used = stream or 5
        waits = [theirs] if stream is None else [5, theirs]
        assert sorted(fake.of("wait")) == [f"wait 0 {used} {w}" for w in waits]
        assert fake.of("launch") == [f"launch 0 {used}"]
        assert fake.log[-1].startswith(("launch", "release", "leave"))
    fake.reset(fails="wait")
    with pytest.raises(zoo.CudaError, match="twin"):
        call()
    assert fake.of("launch") == []


@pytest.mark.promise("STREAMS-one-rule")
def test_types_of_one_framework_are_one(zoo: Any, fake: Fake) -> None:
    framework = Framework("borrow", "own", "stream", stream=5)
    assert zoo.twin.twin_f32(framework.type()(on_cuda()), framework.type()(on_cuda())) is True
    assert fake.of("wait") == []
    assert fake.of("launch") == ["launch 0 5"]
    fake.reset()
    assert zoo.twin.twin_f32(framework.type()(on_cuda()), framework.type()(on_cuda()), stream=9)
    assert fake.of("wait") == ["wait 0 9 5"]


@pytest.mark.promise("STREAMS-one-rule", "S4", "T10")
@pytest.mark.parametrize("stream", [None, 5])
@pytest.mark.parametrize("turned", [False, True])
def test_waits_of_several_kinds_add_up(
    zoo: Any, fake: Fake, stream: int | None, turned: bool
) -> None:
    """A stream that an array interface names, and a producer that knows no streams."""
    x, used = np.ones(4, "f4"), stream or 1
    old = on_cuda(knows=["max_version", "copy"])
    named = interface(x, stream=9)
    args = (old, named) if turned else (named, old)
    assert zoo.twin.twin_f32(*args, stream=stream) is True
    waits = ["wait 0 1 9"] if stream is None else ["wait 0 5 1", "wait 0 5 9"]
    assert sorted(fake.of("wait")) == waits
    assert fake.of("launch") == [f"launch 0 {used}"]


@pytest.mark.promise("STREAMS-one-rule", "FAULT-13")
@pytest.mark.parametrize("which", ["wait", "wait 0 1 9", "wait 0 1 8"])
@pytest.mark.parametrize("form", ["typed", "generic", "bind"])
def test_a_wait_that_fails_is_said(zoo: Any, fake: Fake, form: str, which: str) -> None:
    x = np.ones(4, "f4")
    two = [interface(x, stream=9), interface(x.copy(), stream=8)]
    fake.reset(fails=which)
    forms: dict[str, Callable[[], object]] = {
        "typed": lambda: zoo.twin.twin_f32(*two),
        "generic": lambda: zoo.twin.twin(two[0], out=two[1]),
        "bind": lambda: zoo.twin.bind(*two)(),
    }
    with pytest.raises(zoo.CudaError, match="twin"):
        forms[form]()
    assert fake.of("launch") == []


@pytest.mark.promise("EXCHANGE-managed", "STREAMS-one-rule")
def test_a_device_that_is_not_what_was_said(zoo: Any, fake: Fake) -> None:
    """The producer was asked for no stream, for it said to be on the host."""

    class Lies(FakeProducer):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    x = Lies(4, device_type=2)
    with pytest.raises(TypeError, match=r"twin: x answers __dlpack_device__ with \(1, 0\), and"):
        zoo.twin.twin_f32(x, on_cuda())
    assert x.deleted == len(x.asked) == 1
    assert fake.of("launch") == []
