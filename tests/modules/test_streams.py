"""Streams, devices and workspaces, on the fake backend of zoo/: it serves what claims to be on cuda
and notes what it is asked."""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import others
from modules.fake_backend import Fake, interface, on_cuda
from modules.fake_producer import FakeInterface, FakeProducer


class Stream:
    """torch's and CUDA's protocol."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, 77)


class OldTorch:
    cuda_stream = 78


class Cupy:
    ptr = 79


@pytest.mark.promise("S1", "S2")
@pytest.mark.parametrize(
    ("stream", "used"),
    [
        (None, 1), (0, 1), (1, 1), (2, 2), (7, 7), (2**40, 2**40), (Stream(), 77), (OldTorch(), 78),
        (Cupy(), 79),
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, int) else str(v),
)  # fmt: skip
@pytest.mark.parametrize("form", ["typed", "generic", "bound"])
def test_the_stream(zoo: Any, fake: Fake, form: str, stream: object, used: int) -> None:
    """What is launched on is what producers are told; 1, the default, where nobody says."""
    x, out = on_cuda(), on_cuda()
    call: Callable[[], object] = {
        "typed": lambda: zoo.twin.twin_f32(x, out, stream=stream),
        "generic": lambda: zoo.twin.twin(x, out=out, stream=stream),
        "bound": lambda: zoo.twin.bind(x, out, stream=stream)(),
    }[form]
    call()
    assert fake.of("launch") == [f"launch 0 {used}"]
    assert fake.of("allocate", "release") == [f"allocate 0 {used} 16", f"release 0 {used}"]
    assert [asked["stream"] for asked in x.asked + out.asked] == [used, used]
    assert out.values[:4] == [1.0] * 4
    assert fake.of("wait") == []


@pytest.mark.promise("S2", "FAULT-18")
@pytest.mark.parametrize(
    "stream",
    [-1, -2, 2**64, -(2**63), True, False, 1.0, "7", b"7", (0, 7), object, np.int64(3), [7]],
    ids=repr,
)
def test_what_is_no_stream(zoo: Any, fake: Fake, stream: object) -> None:
    x = on_cuda()
    with pytest.raises(TypeError, match="twin: stream"):
        zoo.twin.twin_f32(x, x, stream=stream)
    assert x.asked == []
    assert fake.log == []


@pytest.mark.promise("S2", "FAULT-18")
@pytest.mark.parametrize("answer", [(1, 7), (0,), (0, 7, 7), 7, None, (0, -1), (0, "7"), (0, None)])
def test_a_stream_object_that_answers_oddly(zoo: Any, fake: Fake, answer: object) -> None:
    class Odd:
        def __cuda_stream__(self) -> object:
            return answer

    with pytest.raises(TypeError, match="twin: stream"):
        zoo.twin.twin_f32(on_cuda(), on_cuda(), stream=Odd())

    class Raises:
        @property
        def __cuda_stream__(self) -> object:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        zoo.twin.twin_f32(on_cuda(), on_cuda(), stream=Raises())


def test_a_stream_means_nothing_on_the_cpu(add: Any) -> None:
    x = FakeProducer(4)
    assert add.add_f32(x, x, np.ones(4, "f4"), stream=5) is True
    assert all("stream" not in asked for asked in x.asked)


@pytest.mark.promise("S1", "T10")
@pytest.mark.parametrize(("stream", "waits"), [(None, []), (1, []), (9, ["wait 0 9 1"])])
def test_a_producer_that_knows_no_streams(
    zoo: Any, fake: Fake, stream: int | None, waits: list[str]
) -> None:
    """Its work is on the default stream: another one waits for that."""
    x = on_cuda(knows=["max_version"])
    assert zoo.twin.twin_f32(x, on_cuda(), stream=stream) is True
    assert fake.of("wait") == waits
    assert all(fake.log.index(w) < fake.log.index("launch 0 9") for w in waits)


@pytest.mark.promise("A4")
def test_the_device_is_current_while_producers_are_asked(zoo: Any, fake: Fake) -> None:
    seen: list[int] = []

    class Looks(FakeProducer):
        def __dlpack__(self, **keywords: Any) -> Any:
            seen.append(fake.current.value)
            return super().__dlpack__(**keywords)

    fake.current.value = 1
    for fails in (False, True):
        x = Looks(4, device_type=2, device_index=3, major=2 if fails else 1)
        try:
            assert zoo.twin.twin_f32(x, on_cuda(3)) is True
        except BufferError:
            assert fails
        assert fake.current.value == 1
    assert seen == [3, 3]
    assert fake.of("launch") == ["launch 3 1"]
    for request in ("launch", "enter", "allocate"):
        fake.reset(fails=request)
        fake.current.value = 1
        with pytest.raises(zoo.CudaError):
            zoo.twin.twin_f32(on_cuda(3), on_cuda(3))
        assert fake.current.value == 1
        assert len(fake.of("allocate")) - (request == "allocate") == len(fake.of("release"))


@pytest.mark.promise("A4")
def test_mixed_devices(zoo: Any, fake: Fake) -> None:
    assert zoo.twin.twin_f32(on_cuda(0), on_cuda(1)) is False
    assert zoo.twin.twin_f32(on_cuda(0), FakeProducer(4)) is False
    with pytest.raises(zoo.Unsupported, match=r"out.*x is on cuda:0.*cuda:1"):
        zoo.twin.twin(on_cuda(0), out=on_cuda(1))
    assert fake.of("launch") == []


@pytest.mark.promise("C3", "C5", "D4")
@pytest.mark.parametrize("form", ["typed", "generic", "bound", "run"])
def test_a_failed_launch(zoo: Any, fake: Fake, form: str) -> None:
    call = zoo.twin.bind(on_cuda(), on_cuda())
    fake.reset(fails="launch")
    run = {
        "typed": lambda: zoo.twin.twin_f32(on_cuda(), on_cuda()),
        "generic": lambda: zoo.twin.twin(on_cuda(), out=on_cuda()),
        "bound": call,
        "run": lambda: zoo.run([call]),
    }[form]
    with pytest.raises(
        zoo.CudaError, match="twin: kernel note failed: fakeErrorNumber700"
    ) as raised:
        run()
    fault = raised.value
    assert (fault.op, fault.kernel, fault.code) == ("twin", "note", 700)
    assert fault.name == "fakeErrorNumber700"
    assert len(fake.of("allocate")) == len(fake.of("release")) == 1


@pytest.mark.promise("C1")
def test_an_empty_call_launches_nothing(zoo: Any, fake: Fake) -> None:
    x, out = on_cuda(shape=[0]), on_cuda(shape=[0])
    assert zoo.twin.twin_f32(x, out) is True
    zoo.twin.bind(x, out)()
    assert fake.of("launch", "allocate") == []


@pytest.mark.promise("S7")
def test_a_first_launch_and_a_blocked_driver_let_others_run(zoo: Any, alone: Any) -> None:
    """Loading a kernel's code takes long at its first launch."""
    path = zoo.__path__[0].rsplit("/", 1)[0]
    alone(f"""
        import sys, time
        sys.path.insert(0, {path!r})
        import zoo_ops, importlib, others
        from modules.test_streams import Fake, on_cuda
        twin = importlib.import_module("zoo_ops.twin")
        fake = Fake(twin.__file__)
        fake.reset(sleeps="launch")
        x, out, begin = on_cuda(), on_cuda(), time.monotonic()
        assert others.run_beside(lambda: twin.twin_f32(x, out), once=True)
        assert time.monotonic() - begin > 0.9
    """)


@pytest.mark.promise("S7")
@pytest.mark.parametrize("form", ["typed", "bound"])
def test_a_long_launch_on_the_cpu_lets_others_run(zoo: Any, form: str) -> None:
    x = np.ones(1 << 18, "f4")
    out = np.zeros(1 << 18, "f4")
    call = zoo.nap.bind(x, out, ms=50)
    typed = functools.partial(zoo.nap.nap_f32, x, out, ms=50)
    assert others.run_beside(call if form == "bound" else typed)
    assert (out == 1).all()


@pytest.mark.promise("FAULT-4")
def test_one_bound_call_in_many_threads_has_many_workspaces(zoo: Any) -> None:
    x, out = np.arange(1 << 16, dtype="f4"), np.zeros(1 << 16, "f4")
    call = zoo.nap.bind(x, out, ms=20)
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(x, out)


@pytest.mark.promise("C5")
def test_debug_sync_names_the_guilty(zoo: Any, alone: Any) -> None:
    path = zoo.__path__[0].rsplit("/", 1)[0]
    code = f"""
        import sys
        sys.path.insert(0, {path!r})
        import zoo_ops, importlib
        from modules.test_streams import Fake, on_cuda
        twin = importlib.import_module("zoo_ops.twin")
        fake = Fake(twin.__file__)
        fake.reset(fails="synchronize")
        call = twin.bind(on_cuda(), on_cuda(), stream=5)
        for run in (call, lambda: twin.twin_f32(on_cuda(), on_cuda(), stream=5)):
            try:
                run()
            except zoo_ops.CudaError as e:
                print(e.op, e.kernel, e)
        print(fake.of("synchronize"))
    """
    assert alone(code).strip() == "[]"
    said = alone(code, AICF_DEBUG="sync").strip().splitlines()
    assert all(line.startswith("twin note twin: kernel note failed") for line in said[:2])
    assert all("AICF_DEBUG=sync" in line for line in said[:2])
    assert said[2] == "['synchronize 0 5', 'synchronize 0 5']"


@pytest.mark.promise("I2", "C8")
def test_a_backend_that_cannot_be_used(zoo: Any, fake: Fake) -> None:
    """The device is not entered for a producer; what the launch then says is the backend's."""
    fake.reset(absent="no driver", fails="enter")
    with pytest.raises(zoo.CudaError):
        zoo.twin.twin_f32(on_cuda(), on_cuda())
    assert fake.of("launch") == []


# ---- the array interface --------------------------------------------------------------------


@pytest.mark.promise("T5")
@pytest.mark.parametrize(
    "entries",
    [
        {}, {"strides": None}, {"strides": (4,)}, {"version": 0}, {"version": 2}, {"mask": None},
        {"stream": None}, {"stream": 1}, {"descr": [("", "<f4")]},
    ],
    ids=repr,
)  # fmt: skip
def test_an_array_interface(zoo: Any, fake: Fake, entries: dict[str, Any]) -> None:
    x, out = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    assert zoo.twin.twin_f32(interface(x, **entries), interface(out)) is True
    assert out.tolist() == x.tolist()
    assert fake.of("wait") == []


@pytest.mark.promise("T5", "T3")
@pytest.mark.parametrize("address", [0, None, 0x1000])
def test_an_empty_array_interface(zoo: Any, fake: Fake, address: int | None) -> None:
    empty = np.zeros((0, 5), "f4")
    x = interface(empty, data=(address, False))
    assert zoo.twin.twin_f32(x, x) is True
    array = np.zeros(4, "f4")
    some = interface(array, data=(0, False))
    assert zoo.twin.twin_f32(some, interface(array)) is False
    assert fake.of("launch") == []


@pytest.mark.promise("T5", "T20")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shape", "absent"), ("shape", [4]), ("shape", 4), ("shape", (4.0,)), ("shape", (-1,)),
        ("shape", (2**70,)), ("shape", (True,)), ("shape", (1,) * 65), ("typestr", "absent"),
        ("typestr", 4), ("typestr", ""), ("typestr", "f4"), ("typestr", "<"), ("data", "absent"),
        ("data", 4096), ("data", (4096,)), ("data", ("4096", False)), ("data", (2**70, False)),
        ("data", (-(2**70), False)), ("data", (4096, 0)), ("data", (True, False)),
        ("data", (1.5, False)), ("version", "absent"), ("version", "3"), ("version", 4),
        ("version", -1), ("version", 2**70), ("strides", [4]), ("strides", (4, 4)),
        ("strides", ("4",)), ("strides", (2**70,)), ("stream", 0), ("stream", "1"),
        ("stream", 2**70), pytest.param("mask", object(), id="mask-object"),
    ],
    ids=repr,
)  # fmt: skip
def test_an_array_interface_that_is_malformed(
    zoo: Any, fake: Fake, key: str, value: object
) -> None:
    array = np.zeros(4, "f4")
    x = interface(array, **{key: value})
    with pytest.raises(TypeError, match=f"twin: x has a __cuda_array_interface__ whose {key}") as e:
        zoo.twin.twin_f32(x, x)
    assert not isinstance(e.value, zoo.Unsupported)
    wrong: Any
    for wrong in (None, 3, [], "dict"):
        broken = FakeInterface()
        broken.__cuda_array_interface__ = wrong
        with pytest.raises(TypeError, match="whose type"):
            zoo.twin.twin_f32(broken, broken)
    assert fake.of("launch") == []


@pytest.mark.promise("T5", "T14", "T12")
@pytest.mark.parametrize(
    "entries",
    [
        {"typestr": ">f4"}, {"typestr": "<f8"}, {"typestr": "|V4"}, {"typestr": "<c8"},
        {"typestr": "|b1"}, {"strides": (6,)}, {"strides": (-4,)}, {"strides": (8,)},
        {"data": (0x1001, False)},
    ],
    ids=repr,
)  # fmt: skip
def test_an_array_interface_outside_the_capability(
    zoo: Any, fake: Fake, entries: dict[str, Any]
) -> None:
    array, out = np.zeros(4, "f4"), np.zeros(4, "f4")
    assert zoo.twin.twin_f32(interface(array, **entries), interface(out)) is False
    assert fake.of("launch") == []


@pytest.mark.promise("T5", "FAULT-11")
def test_a_read_only_array_interface(zoo: Any, fake: Fake) -> None:
    x = np.zeros(4, "f4")
    read_only = interface(x, data=(x.ctypes.data, True))
    y = x.copy()
    assert zoo.twin.twin_f32(read_only, interface(y)) is True
    assert zoo.twin.twin_f32(interface(y), read_only) is False


@pytest.mark.promise("S4")
@pytest.mark.parametrize("stream", [None, 5])
def test_the_stream_of_an_array_interface(zoo: Any, fake: Fake, stream: int | None) -> None:
    """Ours waits for theirs, unless they are one."""
    x, out, used = np.ones(4, "f4"), np.zeros(4, "f4"), stream or 1
    assert zoo.twin.twin_f32(interface(x, stream=9), interface(out, stream=8), stream=stream)
    waits = fake.of("wait")
    assert sorted(waits) == [f"wait 0 {used} 8", f"wait 0 {used} 9"]
    assert all(fake.log.index(w) < fake.log.index(f"launch 0 {used}") for w in waits)
    fake.reset()
    assert zoo.twin.twin_f32(interface(x, stream=used), interface(out), stream=stream)
    assert fake.of("wait") == []


@pytest.mark.promise("A4", "T5")
def test_the_device_of_an_array_interface(zoo: Any, fake: Fake) -> None:
    """Only the driver knows it."""
    x, out = np.ones(4, "f4"), np.zeros(4, "f4")
    fake.located.value = 3
    assert zoo.twin.twin_f32(interface(x), interface(out)) is True
    assert fake.of("launch") == ["launch 3 1"]
    assert zoo.twin.twin_f32(interface(x), on_cuda(0)) is False


@pytest.mark.promise("T5", "PRODUCERS-hostile")
def test_an_address_that_is_no_memory_of_a_device(zoo: Any, fake: Fake) -> None:
    x, out = np.ones(4, "f4"), np.zeros(4, "f4")
    fake.located.value = -1
    words = r"twin: x has .* whose data is \(.*, False\), which is no memory of a device"
    with pytest.raises(TypeError, match=words):
        zoo.twin.twin_f32(interface(x), interface(out))
    empty = interface(np.zeros((0, 5), "f4"), data=(0x1000, False))
    assert zoo.twin.twin_f32(empty, empty) is True
    assert fake.of("launch") == []


@pytest.mark.promise("S4")
def test_a_bound_call_waits_when_it_is_bound(zoo: Any, fake: Fake) -> None:
    x, out = np.ones(4, "f4"), np.zeros(4, "f4")
    call = zoo.twin.bind(interface(x, stream=9), interface(out))
    assert fake.of("wait", "launch") == ["wait 0 1 9"]
    call()
    assert fake.of("wait", "launch") == ["wait 0 1 9", "launch 0 1"]


@pytest.mark.promise("S4")
def test_the_owner_of_an_array_interface_stays(zoo: Any, fake: Fake) -> None:
    array, out = np.ones(4, "f4"), np.zeros(4, "f4")
    x = interface(array)
    gone = weakref.ref(x)
    call = zoo.twin.bind(x, interface(out))
    del x
    gc.collect()
    assert gone() is not None
    del call
    gc.collect()
    assert gone() is None


@pytest.mark.promise("FAULT-13")
def test_an_array_interface_that_raises(zoo: Any, fake: Fake) -> None:
    class Raises:
        @property
        def __cuda_array_interface__(self) -> object:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        zoo.twin.twin_f32(Raises(), on_cuda())


@pytest.mark.promise("S5")
def test_a_made_out_of_a_device_is_ours(zoo: Any, fake: Fake, rt: Any) -> None:
    """A producer without a framework gets a Tensor, which this machine has no device for."""
    with pytest.raises((rt.CudaError, MemoryError)):
        zoo.twin.twin(on_cuda())
    assert fake.of("launch") == []
