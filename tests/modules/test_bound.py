"""Bound calls: checked once, launched often, changed by set(), from many threads."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from modules.fake_producer import FakeProducer


def triple(count: int = 4) -> list[Any]:
    return [np.ones(count, "f4"), np.ones(count, "f4"), np.zeros(count, "f4")]


def test_a_bound_call_launches(add: Any, rt: Any) -> None:
    a, b, out = triple()
    call = add.bind(a, b, out)
    assert isinstance(call, rt.Call)
    assert call() is None
    assert out.tolist() == [2.0] * 4
    a[:] = 5
    call()
    assert out.tolist() == [6.0] * 4
    assert repr(call) == "<aicf_rt.Call add_f32(a (4,), b (4,), out (4,)) on cpu, kernel loop>"


def test_set_checks_again(add: Any, unsupported: type[Exception]) -> None:
    a, b, out = triple()
    call = add.bind(a, b, out)
    call.set(b=np.full(4, 10, "f4"))
    call()
    assert out.tolist() == [11.0] * 4
    with pytest.raises(unsupported):
        call.set(a=np.ones(5, "f4"))
    with pytest.raises(TypeError, match="add has no argument 'q'"):
        call.set(q=a)
    with pytest.raises(TypeError, match=r"add: set\(\) takes its arguments by name, 2 came by pos"):
        call.set(a, b)
    with pytest.raises(TypeError, match="a is None"):
        call.set(a=None)
    with pytest.raises(TypeError, match="not a tensor"):
        call.set(out=3)
    a[:] = 2
    call()
    assert out.tolist() == [12.0] * 4
    wide = [np.full(9, float(i), "f8") for i in (1, 2, 0)]
    call.set(a=wide[0], b=wide[1], out=wide[2])
    call()
    assert wide[2].tolist() == [3.0] * 9
    assert call.set() is None


def test_a_call_takes_nothing(add: Any) -> None:
    call = add.bind(*triple())
    for args, keywords in (((1,), {}), ((), {"a": 1})):
        with pytest.raises(TypeError, match="no arguments"):
            call(*args, **keywords)


@pytest.mark.promise("FAULT-18")
def test_set_keeps_the_kernel(add: Any, unsupported: type[Exception]) -> None:
    a, b, out = triple()
    call = add.bind(a, b, out, kernel="loop")
    assert call.set(a=b) is None
    with pytest.raises(unsupported, match="vec"):
        call.set(kernel="vec")
    with pytest.raises(TypeError):
        call.set(kernel="none")
    assert call.set(kernel=None) is None


def test_run(add: Any, rt: Any) -> None:
    a, _, out = triple()
    call = add.bind(a, out, out)
    assert rt.run([call] * 3) is None
    assert out.tolist() == [3.0] * 4
    assert rt.run((call,)) is None
    assert rt.run([]) is None
    for wrong in (None, call, {call}, iter([call])):
        with pytest.raises(TypeError, match="takes a list"):
            rt.run(wrong)
    with pytest.raises(TypeError, match="item 1"):
        rt.run([call, 3])
    assert out.tolist() == [4.0] * 4


@pytest.mark.promise("DESIGN-5-run")
@pytest.mark.parametrize("size", [4, 1 << 20], ids=["brief", "long"])
def test_run_is_interrupted(add: Any, rt: Any, size: int) -> None:
    """Between two launches, and the error says where; the handler may launch and set."""
    x, out = np.ones(size, "f4"), np.zeros(size, "f4")
    call, count = add.bind(x, x, out), 10_000_000 if size == 4 else 100_000

    def handler(*_: Any) -> None:
        call()
        call.set(a=x + 1)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(KeyboardInterrupt, match=r"stopped at item \d+ of") as caught:
            rt.run([call] * count)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert 0 < caught.value.item < count  # type: ignore[attr-defined]
    call()
    assert (out == 3).all()


@pytest.mark.promise("S5", "T6")
def test_a_call_owns_its_memory(add: Any) -> None:
    producers = [FakeProducer(4) for _ in range(3)]
    call = add.bind(*producers)
    assert [x.deleted for x in producers] == [0, 0, 0]
    other = FakeProducer(4)
    call.set(a=other)
    assert [x.deleted for x in producers] == [1, 0, 0]
    wrong = FakeProducer(4, [3])
    with pytest.raises(ValueError, match="add"):
        call.set(a=wrong)
    assert (wrong.deleted, other.deleted) == (1, 0)
    call()
    assert producers[2].values[:4] == [2.0] * 4
    del call
    assert [x.deleted for x in (other, *producers)] == [1, 1, 1, 1]


@pytest.mark.promise("S5")
def test_a_bound_array_cannot_be_resized(add: Any) -> None:
    a, b, out = triple(1000)
    call = add.bind(a, b, out)
    with pytest.raises(ValueError, match="resize"):
        a.resize(5)
    del call
    a.resize(5, refcheck=False)


@pytest.mark.promise("FAULT-23")
def test_a_cycle_is_collected(add: Any) -> None:
    class Holder(np.ndarray):
        pass

    x = np.ones(4, "f4").view(Holder)
    y = np.ones(4, "f4")
    x.call = add.bind(y, y, x)  # type: ignore[attr-defined]
    gone = weakref.ref(x)
    gc.collect()
    assert gone() is not None
    del x
    gc.collect()
    assert gone() is None


@pytest.mark.promise("FAULT-4")
def test_a_set_within_a_set(add: Any) -> None:
    class Producer:
        def __init__(self, run: Any = None) -> None:
            self.x, self.run = np.ones(4, "f4"), run

        def __dlpack__(self, **keywords: Any) -> Any:
            if self.run:
                self.run()
            return self.x.__dlpack__(**keywords)

    call = add.bind(Producer(), Producer(), Producer())

    first, within_out, asked = Producer(), Producer(), []

    def within() -> None:
        asked.append(1)
        call.set(a=Producer(), out=within_out)
        gc.collect()

    first.run = within
    first.x[:] = 5
    call.set(a=first)
    call()
    assert len(asked) == 1
    assert call.tensors["a"] is first
    assert within_out.x.tolist() == [6.0] * 4


@pytest.mark.promise("FAULT-4")
def test_an_attribute_that_always_sets(zoo: Any) -> None:
    x, out = np.ones((1, 4), "f4"), np.zeros((1, 4), "f4")
    call = zoo.every.bind(x, None, out, lr=1)

    class Restless:
        def __init__(self, times: int) -> None:
            self.times = times

        def __float__(self) -> float:
            if self.times:
                self.times -= 1
                call.set(lr=call.tensors["x"][0, 0] + 1)
            return 0.5

    with pytest.raises(RuntimeError, match="every: the call changes each time"):
        call.set(alpha=Restless(1000))
    call()
    assert out.tolist() == [[2.0] * 4]
    call.set(alpha=Restless(1))
    call()
    assert out.tolist() == [[1.0] * 4]


@pytest.mark.promise("FAULT-4", "S10")
def test_launches_and_sets_at_once(add: Any) -> None:
    """A launch lets others run; what it works on stays, whatever set() does meanwhile."""
    count = 1_000_000
    call = add.bind(*(np.ones(count, "f4") for _ in range(3)))
    ended = threading.Event()
    faults: list[BaseException] = []

    def launch() -> None:
        try:
            while not ended.is_set():
                call()
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=launch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        out = np.zeros(count, "f4")
        call.set(a=np.full(count, 3, "f4"), b=np.full(count, 4, "f4"), out=out)
        call()
        assert (out == 7).all()
    ended.set()
    for thread in threads:
        thread.join()
    assert not faults


@pytest.mark.promise("FAULT-4")
def test_run_copies_its_list(add: Any, rt: Any) -> None:
    count = 2_000_000
    calls = [add.bind(*(np.ones(count, "f4") for _ in range(3))) for _ in range(20)]
    thread = threading.Thread(target=lambda: (time.sleep(0.01), calls.clear()))
    thread.start()
    assert rt.run(calls) is None
    thread.join()
    assert calls == []


@pytest.mark.promise("S10")
def test_many_threads(add: Any) -> None:
    """First calls of new types at once, each thread with its own tensors."""
    start = threading.Barrier(8)
    faults: list[object] = []

    def work() -> None:
        kinds = [type(f"K{i}", (np.ndarray,), {}) for i in range(20)]
        start.wait()
        for kind in kinds * 20:
            x: Any = np.full(64, 2, "f4").view(kind)
            out = np.zeros(64, "f4")
            if add.add_f32(x, x, out) is not True or not (out == 4).all():
                faults.append(out)
            if add.add(x, out)[0] != 6:
                faults.append(x)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
