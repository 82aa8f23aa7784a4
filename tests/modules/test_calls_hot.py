"""Calls in loops: what set() takes and leaves, what run() promises, what a call shows, and that
many threads may do all of it at once."""

from __future__ import annotations

import copy
import gc
import inspect
import itertools
import pickle
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import others
from modules.fake_producer import FakeProducer


def triple(count: int = 4) -> list[Any]:
    return [np.ones(count, "f4"), np.ones(count, "f4"), np.zeros(count, "f4")]


# ---- what a call shows ----------------------------------------------------------------------


@pytest.mark.promise("DESIGN-5-call")
def test_what_a_call_shows(add: Any, zoo: Any) -> None:
    a, b, out = triple()
    call = add.bind(a, b, out)
    assert (call.op, call.kernel, call.dtype, call.device) == ("add", "loop", "f32", "cpu")
    assert [(k, id(v)) for k, v in call.tensors.items()] == [
        ("a", id(a)), ("b", id(b)), ("out", id(out)),
    ]  # fmt: skip
    call.tensors.clear()
    assert call.tensors["out"] is out
    call.set(a=b)
    assert call.tensors["a"] is b
    wide = [np.ones((2, 3), "f8") for _ in range(3)]
    call.set(a=wide[0], b=wide[1], out=wide[2])
    assert call.dtype == "f64"
    assert (
        repr(call) == "<aicf_rt.Call add_f64(a (2, 3), b (2, 3), out (2, 3)) on cpu, kernel loop>"
    )
    xs = [np.ones((2, 2), "f4"), np.ones((1, 2), "f4")]
    call = zoo.join.bind(xs, np.ones((3, 2), "f4"))
    assert repr(call) == "<aicf_rt.Call join_f32(xs (2, 2) (1, 2), out (3, 2)) on cpu, kernel rows>"
    assert call.tensors["xs"][0] is xs[0]
    x = np.ones((2, 3), "f4")
    call = zoo.every.bind(x, None, x, lr=2)
    assert repr(call) == "<aicf_rt.Call every_f32(x (2, 3), out (2, 3)) on cpu, kernel rows>"
    assert [call.tensors[name] for name in ("bias", "mean", "lr")] == [None] * 3
    rate = np.array(3, "f4")
    call.set(lr=rate)
    assert call.tensors["lr"] is rate
    assert repr(call).endswith("out (2, 3), lr ()) on cpu, kernel rows>")
    empty = zoo.join.bind([], np.ones((0, 0), "f4"))
    assert repr(empty) == "<aicf_rt.Call join_f32(out (0, 0)) on cpu, kernel rows>"


@pytest.mark.promise("DESIGN-5-call")
def test_the_types_do_not_change(add: Any, rt: Any) -> None:
    call = add.bind(*triple())
    kinds: list[Any] = [rt.Call, rt.Tensor]
    for kind in kinds:
        for name in ("__call__", "__dlpack__", "__dlpack_c_exchange_api__", "op", "x"):
            with pytest.raises(TypeError, match="immutable type"):
                setattr(kind, name, 1)
            with pytest.raises(TypeError):
                delattr(kind, name)
        for attempt in (kind, lambda kind=kind: type("Sub", (kind,), {})):
            with pytest.raises(TypeError):
                attempt()
    for name in ("op", "kernel", "tensors", "x"):
        with pytest.raises(AttributeError):
            setattr(call, name, 1)
    assert "dlpack_exchange_api" in repr(rt.Tensor.__dlpack_c_exchange_api__)


@pytest.mark.promise("DESIGN-5-call")
def test_a_call_as_an_object(add: Any) -> None:
    call, other = add.bind(*triple()), add.bind(*triple())
    assert {call: 1, other: 2}[call] == 1
    assert call == call
    assert call != other
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"aicf_rt\.Call cannot be pickled or copied"):
            attempt(call)
    gone: list[str] = []
    weak = weakref.ref(call, lambda _: gone.append("callback"))
    assert weak() is call
    weakref.finalize(call, gone.append, "finalize")
    del call
    assert weak() is None
    assert sorted(gone) == ["callback", "finalize"]


@pytest.mark.promise("DESIGN-5-call")
def test_every_way_to_call_it(add: Any) -> None:
    a, b, out = triple()
    call = add.bind(a, out, out)
    ways: list[Any] = [
        lambda: call(),
        lambda: call(*()),
        lambda: call(**{}),
        lambda: type(call).__call__(call),
        lambda: call.__call__(),
        lambda: next(map(lambda f: f(), [call])),
        lambda: next(iter(call, 3)),
    ]
    for i, way in enumerate(ways):
        assert way() is None
        assert out[0] == i + 1
    for args, keywords in (((b,), {}), ((), {"a": b}), ((b, b), {"a": b}), ((None,), {})):
        with pytest.raises(TypeError, match="takes no arguments; use set"):
            call(*args, **keywords)
    assert out[0] == len(ways)
    assert callable(call)
    assert str(inspect.signature(call.set)) == "(**arguments)"


# ---- garbage --------------------------------------------------------------------------------


@pytest.mark.promise("FAULT-23", "DESIGN-5-call")
@pytest.mark.guests("torch")
@pytest.mark.parametrize("how", ["bound", "set", "listed", "called", "weakly"])
def test_a_cycle_through_a_tensor(add: Any, rt: Any, how: str) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(4), torch.ones(4)
    x.call = add.bind(x if how != "set" else y, y, y)
    if how == "set":
        x.call.set(a=x)
    if how == "called":
        x.call()
        rt.run([x.call, x.call])
    if how == "listed":
        x.calls = [x.call, x.call]
    if how == "weakly":
        x.itself = weakref.ref(x.call)
    gone, call_gone = weakref.ref(x), weakref.ref(x.call)
    gc.collect()
    assert gone() is x
    del x
    gc.collect()
    assert gone() is None
    assert call_gone() is None
    assert y.sum() > 0


@pytest.mark.promise("FAULT-23")
def test_what_a_launch_holds_is_no_garbage(zoo: Any) -> None:
    """A call that is only in a cycle, while a launch of it sleeps without the GIL."""

    class Holder(np.ndarray):
        pass

    count = 300_000
    x = np.full(count, 7, "f4").view(Holder)
    out = np.zeros(count, "f4")
    x.call = zoo.nap.bind(x, out, ms=1000)  # type: ignore[attr-defined]
    batch = [x.call]  # type: ignore[attr-defined]
    thread = threading.Thread(target=zoo.run, args=(batch,))
    with others.unforced():
        thread.start()  # it goes on until the launch lets others run
    gone = weakref.ref(x)
    batch.clear()
    del x
    gc.collect()
    if thread.is_alive():
        assert gone() is not None
    np.full(count, np.nan, "f4")
    thread.join()
    assert (out == 7).all()
    gc.collect()
    assert gone() is None


# ---- set ------------------------------------------------------------------------------------


@pytest.mark.promise("DESIGN-5-set")
def test_set_of_several_at_once(add: Any, unsupported: type[Exception]) -> None:
    """Shapes that fit only together: one after the other neither would be taken."""
    call = add.bind(*triple())
    long = triple(9)
    for name, value in zip(("a", "b", "out"), long, strict=True):
        if name != "b":
            with pytest.raises(unsupported):
                call.set(**{name: value})
    call.set(out=long[2], b=long[1], a=long[0])
    call()
    assert long[2].tolist() == [2.0] * 9


@pytest.mark.promise("DESIGN-5-set")
def test_set_of_attributes_and_scalars(zoo: Any, unsupported: type[Exception]) -> None:
    x, out, mean = np.ones((2, 3), "f4"), np.zeros((2, 3), "f4"), np.zeros(2, "f4")
    call = zoo.every.bind(x, None, out, lr=2)

    def gives(value: float) -> None:
        out[:] = 0
        call()
        assert (out == value).all()

    gives(2)
    call.set(alpha=0.5)
    gives(1)
    call.set(lr=8.0, twice=True)
    gives(8)
    call.set(twice=False, bias=np.full(3, 1, "f4"))
    gives(5)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"alpha": 3.0}, unsupported, "alpha = 3 is out of range"),
        ({"alpha": "1"}, TypeError, "every: alpha takes a number"),
        ({"times": 0}, unsupported, "times"),
        ({"act": "tanh"}, TypeError, "every: act takes one of"),
        ({"act": "relu", "bias": None}, unsupported, "an act needs a bias"),
        ({"lr": None}, TypeError, "every: lr takes"),
        ({"lr": np.ones(2, "f4")}, unsupported, "lr"),
        ({"pad": (1, 1)}, unsupported, "out"),
        ({"alpha": 1.0, "x": np.ones((2, 4), "f4")}, unsupported, "every"),
        ({"alpha": 1.0, "nothing": 1}, TypeError, "every has no argument 'nothing'"),
        ({"alpha": 1.0, "kernel": "none"}, TypeError, "kernel takes one of"),
        ({"alpha": 1.0, "stream": -1}, TypeError, "stream"),
        ({"alpha": 1.0, "dtype": "f32"}, TypeError, "every has no argument 'dtype'"),
        ({"x": None}, TypeError, "every: x is None"),
        ({"out": None}, TypeError, "every: out is None"),
    ]
    for keywords, kind, words in wrong:
        with pytest.raises(kind, match=words):
            call.set(**keywords)
        gives(5)
    call.set(bias=None)
    gives(4)
    call.set(mean=mean)
    gives(4)
    assert mean.tolist() == [1.0, 1.0]
    call.set(mean=None, lr=np.array(2, "f4"))
    mean[:] = 0
    gives(1)
    assert not mean.any()
    call.set(kernel="spare")
    assert call.kernel == "spare"
    gives(1)
    call.set(x=x.copy())
    assert call.kernel == "spare"
    call.set(kernel=None)
    assert call.kernel == "rows"
    call.set(stream=None)
    gives(1)


@pytest.mark.promise("DESIGN-5-set")
def test_set_picks_the_kernel_again(zoo: Any) -> None:
    call = zoo.every.bind(np.ones((1, 4), "f4"), None, np.zeros((1, 4), "f4"), lr=1)
    assert call.kernel == "rows"
    call.set(x=np.ones((1, 2000), "f4"), out=np.zeros((1, 2000), "f4"))
    assert call.kernel == "spare"
    call()
    assert (call.tensors["out"] == 1).all()


@pytest.mark.promise("DESIGN-5-set", "FAULT-4")
def test_no_set_gets_lost(add: Any) -> None:
    """Two threads, each with a tensor of its own, in producers that let the other one run."""

    class Slow:
        def __init__(self, value: float) -> None:
            self.x = np.full(4, value, "f4")

        def __dlpack__(self, **keywords: Any) -> Any:
            time.sleep(0.0002)
            return self.x.__dlpack__(**keywords)

    out = np.zeros(4, "f4")
    call = add.bind(np.zeros(4, "f4"), np.zeros(4, "f4"), out)
    last: dict[str, Any] = {}
    faults: list[BaseException] = []

    def work(name: str, base: int) -> None:
        try:
            for i in range(100):
                last[name] = Slow(base * i)
                call.set(**{name: last[name]})
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=x) for x in (("a", 1), ("b", 1000))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert call.tensors["a"] is last["a"]
    assert call.tensors["b"] is last["b"]
    call()
    assert out.tolist() == [99 + 99_000] * 4


# ---- run ------------------------------------------------------------------------------------


@pytest.mark.promise("DESIGN-5-run")
def test_run_takes_lists_and_tuples(add: Any, rt: Any) -> None:
    a, _, out = triple()
    call = add.bind(a, out, out)
    assert rt.run([]) is None
    assert rt.run(()) is None
    rt.run([call, call])
    rt.run((call,))
    assert out[0] == 3

    class Calls(list):  # type: ignore[type-arg]
        pass

    rt.run(Calls([call]))
    assert out[0] == 4
    for wrong, name in (
        ((x for x in [call]), "generator"), ({call}, "set"), (None, "NoneType"), (call, "Call"),
        (iter([call]), "list_iterator"), (np.array([call]), "ndarray"), ("", "str"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"a list or tuple of calls, not a {name}$"):
            rt.run(wrong)
    with pytest.raises(TypeError):
        rt.run(call, call)
    assert out[0] == 4


@pytest.mark.promise("DESIGN-5-run")
@pytest.mark.parametrize("at", [0, 1, 63, 64, 65, 199])
@pytest.mark.parametrize("wrong", [None, 3, "call", type])
def test_an_item_that_is_no_call(add: Any, rt: Any, at: int, wrong: object) -> None:
    a, _, out = triple()
    call = add.bind(a, out, out)
    items: list[Any] = [call] * 200
    items[at] = wrong
    before = sys.getrefcount(call)
    name = type(wrong).__qualname__
    with pytest.raises(TypeError, match=f"takes bound calls; item {at} is a {name}$"):
        rt.run(items)
    assert not out.any()
    assert sys.getrefcount(call) == before


@pytest.mark.promise("DESIGN-5-run")
def test_run_of_many(add: Any, rt: Any) -> None:
    """Each of 10,000 calls in its turn."""
    total, steps = np.zeros(1, "f4"), [np.full(1, i, "f4") for i in range(10_000)]
    seen = [np.zeros(1, "f4") for _ in steps]
    calls = []
    for step, copied in zip(steps, seen, strict=True):
        calls += [add.bind(total, step, total), add.bind(total, np.zeros(1, "f4"), copied)]
    assert rt.run(calls) is None
    assert np.array_equal(np.concatenate(seen), np.cumsum(np.concatenate(steps), dtype="f4"))
    assert rt.run([calls[0]] * 100_000) is None


@pytest.mark.promise("DESIGN-5-run")
def test_run_of_two_packages(add: Any, rt: Any, zoo: Any) -> None:
    import aicf_cuda

    a, _, out = triple()
    twofold = np.zeros(4, "f4")
    calls = [add.bind(a, out, out), zoo.shift.bind(out, twofold, by=1), add.bind(a, twofold, out)]
    for run in (aicf_cuda.run, zoo.run, rt.run):
        out[:] = 0
        run(calls)
        assert out.tolist() == [3.0] * 4
        assert twofold.tolist() == [2.0] * 4


@pytest.mark.promise("DESIGN-5-run", "FAULT-19")
@pytest.mark.parametrize("kind", ["backend", "memory", "internal"])
def test_an_error_in_the_middle(zoo: Any, add: Any, kind: str) -> None:
    a, _, out = triple()
    good = add.bind(a, out, out)
    bad = zoo.fail.bind(a, np.zeros(4, "f4"), kind=kind, kernel="loop")
    errors: dict[str, type[Exception]] = {
        "backend": zoo.CudaError, "memory": MemoryError, "internal": SystemError,
    }  # fmt: skip
    with pytest.raises(errors[kind]) as raised:
        zoo.run([good, good, bad, good, good])
    assert out.tolist() == [2.0] * 4
    words = (
        "run() stopped at item 2 of 5: those before it were launched, it and those after it "
        "were not"
    )
    assert str(raised.value).endswith(words)
    assert raised.value.item == 2  # type: ignore[attr-defined]
    if kind == "backend":
        assert str(raised.value).startswith(
            "fail: kernel loop failed: error 7 of a CPU kernel; run()"
        )
        assert (raised.value.op, raised.value.code) == ("fail", 7)  # type: ignore[attr-defined]
    with pytest.raises(errors[kind]) as alone:
        bad()
    assert "run()" not in str(alone.value)
    assert getattr(alone.value, "item", None) is None
    assert zoo.Unsupported.item is None
    assert zoo.CudaError.item is None


@pytest.mark.promise("DESIGN-5-run")
@pytest.mark.guests("torch")
def test_a_moved_tensor_in_the_middle(add: Any, rt: Any, unsupported: type[Exception]) -> None:
    torch = pytest.importorskip("torch")
    one, out, moves = torch.ones(4), torch.zeros(4), torch.ones(4)
    calls = [add.bind(one, out, out), add.bind(moves, out, out), add.bind(one, out, out)]
    moves.resize_(10_000)
    words = r"a: its memory was resized .*; run\(\) stopped at item 1 of 3"
    with pytest.raises(unsupported, match=words) as raised:
        rt.run(calls)
    assert (raised.value.op, raised.value.arg) == ("add", "a")  # type: ignore[attr-defined]
    assert out.tolist() == [1.0] * 4


@pytest.mark.promise("DESIGN-5-run", "FAULT-4", "FAULT-10")
def test_run_within_a_deleter(add: Any, rt: Any) -> None:
    """The last reference to a call goes while run holds what it launches: its deleter runs."""
    a, _, out = triple(200_000)
    inner = add.bind(a, out, out)
    told: list[str] = []

    def on_delete() -> None:
        told.append("deleted")
        rt.run([inner] * 3)
        inner()
        inner.set(a=a)

    producer = FakeProducer(4, on_delete=on_delete)
    items = [inner, add.bind(producer, producer, np.zeros(4, "f4")), inner]
    rt.run(items)
    thread = threading.Thread(target=items.clear)
    thread.start()
    rt.run(items)
    thread.join()
    assert producer.deleted == 2
    assert told == ["deleted"] * 2
    assert out[0] in (2 + 8, 4 + 8)


@pytest.mark.promise("DESIGN-5-run")
def test_run_takes_the_calls_as_they_are_at_its_beginning(add: Any, zoo: Any) -> None:
    """What another thread sets while a launch lets it run counts from the next run on."""
    count = 100_000
    x, out, other = np.ones(count, "f4"), np.zeros(count, "f4"), np.zeros(count, "f4")
    nap, later = zoo.nap.bind(x, np.zeros(count, "f4"), ms=200), add.bind(x, x, out)
    begin = threading.Event()
    thread = threading.Thread(target=lambda: (begin.wait(), later.set(out=other)))
    thread.start()
    with others.unforced():
        begin.set()
        zoo.run([nap, later])
    thread.join()
    assert (out == 2).all()
    assert not other.any()
    zoo.run([nap, later])
    assert (other == 2).all()


@pytest.mark.promise("DESIGN-5-run", "S7")
def test_others_run_during_a_long_run(add: Any, rt: Any) -> None:
    calls = [add.bind(*triple(2000))] * 40_000
    assert others.run_beside(lambda: rt.run(calls))


@pytest.mark.promise("FAULT-4", "S10")
def test_everything_at_once(add: Any, rt: Any) -> None:
    """Threads that call, set, run, show and collect one call; sums stay those of one set."""
    call = add.bind(*triple(64))
    stop = time.monotonic() + 1.5
    faults: list[BaseException] = []
    counter = itertools.count()

    def until(body: Any) -> Any:
        def work() -> None:
            try:
                while time.monotonic() < stop:
                    body()
                    next(counter)
            except BaseException as fault:
                faults.append(fault)

        return work

    def sets() -> None:
        size = 1 + next(counter) % 100
        values = [np.full(size, size, "f4"), np.full(size, 2 * size, "f4"), np.zeros(size, "f4")]
        call.set(a=values[0], b=values[1], out=values[2])

    def checks() -> None:
        tensors = call.tensors
        assert len(tensors["a"]) == len(tensors["b"]) == len(tensors["out"])

    bodies = [call, call, sets, sets, lambda: rt.run([call] * 10), checks, lambda: repr(call)]
    threads = [threading.Thread(target=until(x)) for x in [*bodies, gc.collect]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    call()
    out = call.tensors["out"]
    assert (out == call.tensors["a"] + call.tensors["b"]).all()


# ---- gradients ------------------------------------------------------------------------------


@pytest.mark.promise("DESIGN-5-gradients", "A12")
@pytest.mark.guests("torch")
def test_the_typed_form_records_nothing(add: Any) -> None:
    """Also into an out that requires grad, with grad mode on: its docstring says so."""
    torch = pytest.importorskip("torch")
    assert torch.is_grad_enabled()
    a, b = torch.ones(4, requires_grad=True), torch.ones(4)
    out = torch.zeros(4, requires_grad=True)
    call = add.bind(a, b, out)
    for launch in (lambda: add.add_f32(a, b, out) is True, lambda: call() is None):
        with torch.no_grad():
            out.zero_()
        assert launch()
        assert out.tolist() == [2.0] * 4
        assert out.grad_fn is None
        assert out.is_leaf
        assert a.grad_fn is None
    out.sum().backward()
    assert a.grad is None
    assert out.grad.tolist() == [1.0] * 4
    assert "Records no gradient" in add.add_f32.__doc__
    assert "Records no gradient" in add.bind.__doc__
    with pytest.raises(TypeError, match="add: a: it requires grad"):
        add.add(a, b)
    with pytest.raises(TypeError, match="add: out: it requires grad"):
        add.add(b, b, out=out)
