"""A million calls leak nothing: references of all that a call touches, blocks of Python's
allocator, resident memory, deleters. Each path on its own, so that a leak has a name."""

from __future__ import annotations

import array
import contextlib
import copy
import gc
import itertools
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modules.fake_producer import FakeInterface, FakeProducer

pytestmark = pytest.mark.promise("T7", "T20", "DESIGN-5-leaks")

Call = Callable[[], object]

GROWTH = 2_000_000  # bytes: two a call where there are a million


class Producer:
    """Only DLPack, in Python."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.inner.__dlpack__(**keywords)


class Number:
    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def refused(call: Any, *args: Any, **keywords: Any) -> None:
    with contextlib.suppress(TypeError, ValueError, RuntimeError, MemoryError):
        call(*args, **keywords)
        raise AssertionError("it was taken")


def touched(*more: Any) -> list[Any]:
    """All that a call may hold on to: the types, names, exceptions and singletons."""
    import aicf_cuda
    import aicf_rt

    add = aicf_cuda.add
    found = [
        aicf_rt, aicf_rt.Call, aicf_rt.Tensor, aicf_rt.Unsupported, aicf_rt.CudaError, aicf_rt.run,
        add, add.add, add.add_f32, add.bind, add.explain, np.ndarray, Producer, FakeProducer,
        "a", "b", "out", "stream", "kernel", "loop", "none", TypeError, ValueError, memoryview,
        list, tuple, dict, float, *more,
    ]  # fmt: skip
    if "torch" in sys.modules:
        found += [sys.modules["torch"], sys.modules["torch"].Tensor]
    return found


def steady(call: Call, count: int, objects: list[Any], memory: bool = True) -> None:
    """Runs `call` that often. `objects`, which it was given, are referenced as before to the last
    one; what everybody uses, nearly so. Memory may grow once, for reasons of its own: a leak grows
    each time."""
    for _ in range(max(count // 50, 500)):
        call()
    grown, more = measure(call, count, objects)
    for _ in range(2):
        if more >= 200 or (memory and grown >= GROWTH):
            grown, more = measure(call, count, objects)
    assert more < 200, f"{more} blocks of Python's allocator after {count} calls"
    assert not memory or grown < GROWTH, f"{grown} bytes after {count} calls"


def references(objects: list[Any]) -> list[int]:
    """Of each, of the one weak reference that all share who have no callback, and of the one object
    that torch has for a storage."""
    weak = [weakref.ref(x) for x in objects if type(x).__weakrefoffset__]
    storages = [x.untyped_storage() for x in objects if hasattr(x, "untyped_storage")]
    return [sys.getrefcount(x) for x in [*objects, *weak, *storages]]


def measure(call: Call, count: int, objects: list[Any]) -> tuple[int, int]:
    """Bytes and blocks that so many calls leave."""
    gc.collect()
    shared = [*touched(), True, False, None]
    mine, all_of = references(objects), [sys.getrefcount(x) for x in shared]
    blocks, held = sys.getallocatedblocks(), resident()
    for _ in itertools.repeat(None, count):
        call()
    gc.collect()
    grown, more = resident() - held, sys.getallocatedblocks() - blocks
    assert references(objects) == mine
    for x, before in zip(shared, all_of, strict=True):
        assert abs(sys.getrefcount(x) - before) < 50, x
    return grown, more


# ---- the typed form -------------------------------------------------------------------------


@pytest.mark.parametrize("named", [False, True])
def test_a_million_calls_on_numpy(add: Any, named: bool) -> None:
    a, b, out = (np.ones(16, "f4") for _ in range(3))
    if named:
        steady(lambda: add.add_f32(a, b=b, out=out, stream=None), 1_000_000, [a, b, out])
    else:
        steady(lambda: add.add_f32(a, b, out), 1_000_000, [a, b, out])
    assert (out == 2).all()


@pytest.mark.guests("torch")
@pytest.mark.parametrize("named", [False, True])
def test_a_million_calls_on_torch(add: Any, named: bool) -> None:
    torch = pytest.importorskip("torch")
    a, b, out = (torch.ones(16) for _ in range(3))
    if named:
        steady(lambda: add.add_f32(a, b=b, out=out, kernel="loop"), 1_000_000, [a, b, out])
    else:
        steady(lambda: add.add_f32(a, b, out), 1_000_000, [a, b, out])


@pytest.mark.guests("torch")
def test_a_million_bound_calls(add: Any, rt: Any) -> None:
    torch = pytest.importorskip("torch")
    n, t = [np.ones(16, "f4") for _ in range(3)], [torch.ones(16) for _ in range(3)]
    calls = [add.bind(*n), add.bind(*t)]
    steady(calls[0], 1_000_000, [*n, *calls])
    steady(calls[1], 1_000_000, [*t, *calls])
    many = calls * 50
    steady(lambda: rt.run(many), 10_000, [*n, *t, *calls])


# ---- every other path -----------------------------------------------------------------------


def paths(add: Any, zoo: Any, rt: Any) -> dict[str, tuple[Call, list[Any]]]:
    """By name: what is called, and what it is given."""
    import torch

    n: list[Any] = [np.ones(8, "f4") for _ in range(3)]
    t: list[Any] = [torch.ones(8) for _ in range(3)]
    p, m = [Producer(x) for x in n], [memoryview(x) for x in n]
    call, torch_call = add.bind(*n), add.bind(*t)
    grid = torch.ones(4, 4)
    deep = np.ones([1] * 20 + [2, 2], "f4")[..., ::-1]
    letters, own = array.array("f", [1.0] * 8), [rt.empty(8, "f32") for _ in range(3)]
    grad = torch.ones(8, requires_grad=True)
    xs, joined = [np.ones((1, 8), "f4"), np.ones((2, 8), "f4")], np.ones((3, 8), "f4")
    join_call = zoo.join.bind(xs, joined)
    x, wide = np.ones((1, 8), "f4"), np.ones((1, 2000), "f4")
    half, bias = Number(0.5), np.ones(8, "f4")
    every_call = zoo.every.bind(x, None, x.copy(), lr=1)
    moving = torch.ones(8)
    moved_call = add.bind(moving, t[0], t[1])
    moving.resize_(100_000)
    broken = zoo.fail.bind(n[0], n[1], kind="backend", kernel="loop")
    keys = {"".join(("o", "ut")): n[2], "".join(("str", "eam")): None}

    def cycle() -> None:
        tensor = torch.ones(8)
        tensor.call = add.bind(tensor, t[0], t[1])
        del tensor
        gc.collect(0)

    given = [*n, *t, *p, *m, letters, *own, *xs, joined, x, wide, half, bias, grad, call, keys]
    spec, one, no = rt.Spec((2, 3), "f32"), np.array(1.0), np.array(False)
    return {
        name: (made, given)
        for name, made in {
            "torch, even strides": lambda: add.add_f32(grid[:, ::2], grid[:, ::2], grid[:, 1::2]),
            "torch, grad": lambda: add.add_f32(grad, t[1], t[2]),
            "numpy of high rank": lambda: add.add_f32(deep, deep, deep),
            "producers": lambda: add.add_f32(*p),
            "buffers": lambda: add.add_f32(*m),
            "array": lambda: add.add_f32(letters, letters, letters),
            "own": lambda: add.add_f32(*own),
            "mixed": lambda: add.add_f32(t[0], n[1], p[2]),
            "False": lambda: add.add_f32(t[0], t[1], n[0][:3]),
            "keywords": lambda: add.add_f32(t[0], out=t[2], b=t[1], stream=None, kernel="loop"),
            "made keywords": lambda: add.add_f32(n[0], n[1], **keys),
            "made by torch": lambda: add.add(t[0], t[1]),
            "made by numpy": lambda: add.add(n[0], n[1]),
            "made by us": lambda: add.add(own[0], own[1]),
            "made empty": lambda: rt.empty((2, 3), "f32"),
            "exported": lambda: np.from_dlpack(own[0]),
            "given": lambda: add.add(t[0], t[1], out=t[2]),
            "several outs": lambda: zoo.bounds.bounds(n[0]),
            "attributes": lambda: zoo.every.every_f32(x, bias, x, lr=half, alpha=half, act="relu"),
            "lists": lambda: zoo.join.join(xs),
            "lists in the typed form": lambda: zoo.join.join_f32(xs, joined),
            "workspace": lambda: zoo.every.every_f32(wide, None, wide, lr=1),
            "explain": lambda: add.explain(*p),
            "explain, refused": lambda: add.explain(n[0], n[1][:3]),
            "infer": lambda: add.infer(p[0], t[1]),
            "infer, Specs": lambda: zoo.every.infer(spec, None, lr=one, mean=True),
            "infer, refused": lambda: refused(add.infer, spec, n[1][:2]),
            "explain, Specs": lambda: add.explain(spec, n[0]),
            "a Spec": lambda: (repr(spec), hash(spec), copy.copy(spec) == spec),
            "no Spec": lambda: refused(rt.Spec, (2, 3), "f32", strides=(1,)),
            "a Spec for a tensor": lambda: refused(add.add, spec, n[0]),
            "without dims": lambda: zoo.every.every(x, lr=one, alpha=one, twice=no),
            "Unsupported": lambda: refused(add.add, t[0], n[1][:3]),
            "Unsupported, dtype": lambda: refused(add.add, p[0], n[1].astype("f8")),
            "Unsupported, grad": lambda: refused(add.add, grad, t[0]),
            "Unsupported, value": lambda: refused(zoo.every.every, x, lr=1, times=10**400),
            "Unsupported, list": lambda: refused(zoo.join.join, [xs[0], n[0]]),
            "TypeError, tensor": lambda: refused(add.add_f32, p[0], p[1], 3),
            "TypeError, missing": lambda: refused(add.add_f32, p[0], p[1]),
            "TypeError, many": lambda: refused(add.add_f32, *p, *p),
            "TypeError, twice": lambda: refused(add.add_f32, *p, a=p[0]),
            "TypeError, keyword": lambda: refused(add.add, p[0], p[1], x=3),
            "TypeError, attribute": lambda: refused(zoo.every.every, x, lr=1, alpha="x"),
            "TypeError, enum": lambda: refused(zoo.every.every, x, lr=1, act="tanh"),
            "TypeError, kernel": lambda: refused(add.add_f32, *n, kernel="none"),
            "TypeError, stream": lambda: refused(add.add_f32, *n, stream="none"),
            "CudaError": lambda: refused(zoo.fail.fail_f32, n[0], n[1], kind="backend"),
            "MemoryError": lambda: refused(zoo.fail.fail_f32, n[0], n[1], kind="memory"),
            "bind": lambda: add.bind(*n)(),
            "bind, torch": lambda: add.bind(*t)(),
            "bind, producers": lambda: add.bind(*p)(),
            "bind, buffers": lambda: add.bind(*m)(),
            "bind, lists": lambda: zoo.join.bind(xs, joined)(),
            "bind, refused": lambda: refused(add.bind, p[0], p[1], n[0][:3]),
            "bind, misused": lambda: refused(add.bind, p[0], t[1], 3),
            "set": lambda: call.set(a=n[1], b=p[1]),
            "set, torch": lambda: torch_call.set(a=t[1], b=n[1]),
            "set, attribute": lambda: every_call.set(alpha=half, lr=0.5),
            "set, tensor for a scalar": lambda: every_call.set(lr=bias[:1]),
            "set, without dims": lambda: every_call.set(lr=one, alpha=one),
            "set, list": lambda: join_call.set(xs=xs),
            "set, refused": lambda: refused(call.set, a=n[0][:3]),
            "set, misused": lambda: refused(call.set, a=p[0], q=3),
            "set, by position": lambda: refused(call.set, n[0]),
            "called wrongly": lambda: refused(call, n[0]),
            "moved": lambda: refused(moved_call),
            "run, moved": lambda: refused(rt.run, [call, moved_call]),
            "run, failed": lambda: refused(rt.run, [call, broken]),
            "run, misused": lambda: refused(rt.run, [call, call, 3]),
            "run, no list": lambda: refused(rt.run, call),
            "shown": lambda: (repr(call), call.op, call.tensors, repr(join_call)),
            "a cycle": cycle,
        }.items()
    }


KINDS = (
    "torch, even strides", "torch, grad", "numpy of high rank", "producers", "buffers", "array",
    "own", "mixed", "False", "keywords", "made keywords", "made by torch", "made by numpy",
    "made by us", "made empty", "exported", "given", "several outs", "attributes", "lists",
    "lists in the typed form", "workspace", "explain", "explain, refused", "infer",
    "infer, Specs", "infer, refused", "explain, Specs", "a Spec", "no Spec", "a Spec for a tensor",
    "without dims", "Unsupported", "Unsupported, dtype", "Unsupported, grad",
    "Unsupported, value", "Unsupported, list", "TypeError, tensor", "TypeError, missing",
    "TypeError, many", "TypeError, twice",
    "TypeError, keyword", "TypeError, attribute", "TypeError, enum", "TypeError, kernel",
    "TypeError, stream", "CudaError", "MemoryError", "bind", "bind, torch", "bind, producers",
    "bind, buffers", "bind, lists", "bind, refused", "bind, misused", "set", "set, torch",
    "set, attribute", "set, tensor for a scalar", "set, without dims", "set, list",
    "set, refused", "set, misused",
    "set, by position", "called wrongly", "moved", "run, moved", "run, failed", "run, misused",
    "run, no list", "shown", "a cycle",
)  # fmt: skip

# How often, where it is not often enough or takes too long: 20 bytes a call are still seen.
COUNTS = {
    "made by torch": 200_000, "made by numpy": 200_000, "given": 200_000, "a cycle": 20_000,
    "TypeError, keyword": 20_000, "set, misused": 20_000,
}  # fmt: skip


@pytest.mark.guests("torch")
@pytest.mark.parametrize("kind", KINDS)
def test_a_path(add: Any, zoo: Any, rt: Any, kind: str) -> None:
    pytest.importorskip("torch")
    call, given = paths(add, zoo, rt)[kind]
    steady(call, COUNTS.get(kind, 50_000), given)


@pytest.mark.guests("torch")
def test_every_path_is_tested(add: Any, zoo: Any, rt: Any) -> None:
    pytest.importorskip("torch")
    assert tuple(paths(add, zoo, rt)) == KINDS


@pytest.mark.guests("torch")
def test_no_objects_stay(add: Any, zoo: Any, rt: Any) -> None:
    """What tracemalloc sees, of which it knows where it was made."""
    pytest.importorskip("torch")
    calls = [call for call, _ in paths(add, zoo, rt).values()]

    def rounds(count: int) -> tracemalloc.Snapshot:
        for call in calls:
            for _ in range(count):
                call()
        gc.collect()
        return tracemalloc.take_snapshot()

    tracemalloc.start()
    rounds(20)
    before = rounds(20)
    tracemalloc.reset_peak()
    held, _ = tracemalloc.get_traced_memory()
    after = rounds(100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    found = [x for x in after.compare_to(before, "lineno") if "tracemalloc" not in str(x)]
    assert sum(x.size_diff for x in found) < 20_000, found[:5]
    assert peak - held < 3_000_000


# ---- deleters -------------------------------------------------------------------------------


def count_deleters(attempt: Callable[..., object], times: int, **fields: Any) -> None:
    """Each capsule's deleter has run once when all is over; `fields` may go wrong."""
    made: list[FakeProducer] = []
    for _ in range(times):
        fakes = [FakeProducer(4, **fields) for _ in range(3)]
        made += fakes
        with contextlib.suppress(TypeError, ValueError, RuntimeError, BufferError, AttributeError):
            attempt(*fakes)
    gc.collect()
    assert sum(len(x.asked) for x in made) >= times
    capsules = [sum(1 for asked in x.asked if accepted(x, asked)) for x in made]
    assert [x.deleted for x in made] == capsules


def accepted(fake: FakeProducer, keywords: dict[str, Any]) -> bool:
    return fake.knows is None or all(name in fake.knows for name in keywords)


ATTEMPTS: dict[str, Callable[..., Any]] = {
    "typed": lambda add, a, b, out: add.add_f32(a, b, out),
    "typed, refused": lambda add, a, b, out: add.add_f32(a, b, np.zeros(3, "f4")),
    "typed, misused": lambda add, a, b, out: add.add_f32(a, b, 3),
    "typed, a producer that raises": lambda add, a, b, out: add.add_f32(a, b, Producer(None)),
    "generic": lambda add, a, b, out: add.add(a, b),
    "generic, given": lambda add, a, b, out: add.add(a, b, out=out),
    "generic, refused": lambda add, a, b, out: add.add(a, np.zeros(3, "f4"), out=out),
    "explain": lambda add, a, b, out: add.explain(a, b, out),
    "bind": lambda add, a, b, out: add.bind(a, b, out)(),
    "bind, refused": lambda add, a, b, out: add.bind(a, np.zeros(3, "f4"), out),
    "bind, misused": lambda add, a, b, out: add.bind(a, b, 3),
    "set": lambda add, a, b, out: add.bind(a, a, out).set(a=b, b=b),
    "set, refused": lambda add, a, b, out: add.bind(a, b, out).set(a=np.zeros(3, "f4"), b=a),
    "set, misused": lambda add, a, b, out: add.bind(a, b, out).set(a=b, b=3),
    "run": lambda add, a, b, out: __import__("aicf_rt").run([add.bind(a, b, out)] * 3),
}


@pytest.mark.promise("T6")
@pytest.mark.parametrize("how", ATTEMPTS)
@pytest.mark.parametrize(
    "fields",
    [
        {}, {"legacy": True}, {"knows": ()}, {"knows": ("stream",)}, {"rank": 65}, {"rank": -1},
        {"lanes": 2}, {"bits": 7}, {"major": 9}, {"device_type": 99}, {"data": 0}, {"flags": 1},
        {"shape": [2**62, 2**62]}, {"strides": [0]}, {"byte_offset": 2},
    ],
    ids=repr,
)  # fmt: skip
def test_deleters(add: Any, how: str, fields: dict[str, Any]) -> None:
    attempt = ATTEMPTS[how]
    count_deleters(lambda *fakes: attempt(add, *fakes), 40, **fields)


@pytest.mark.promise("T6", "T8")
def test_deleters_of_many_threads(add: Any) -> None:
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for attempt in ATTEMPTS.values():
                count_deleters(lambda *fakes, attempt=attempt: attempt(add, *fakes), 20)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_array_interfaces(zoo: Any) -> None:
    x = np.ones(4, "f4")
    entries = {"shape": (4,), "typestr": "<f4", "data": (x.ctypes.data, False), "version": 3}
    good, bad = FakeInterface(**entries), FakeInterface(**{**entries, "typestr": "<f3"})
    worse = FakeInterface(**{**entries, "shape": ("4",)})
    given = [good, bad, worse, x, entries, *entries.values()]
    steady(lambda: zoo.twin.twin_f32(good, bad), 20_000, given)
    steady(lambda: refused(zoo.twin.twin, good, out=worse), 20_000, given)
    steady(lambda: refused(zoo.twin.bind, good, worse), 20_000, given)


@pytest.mark.guests("jax")
def test_jax(add: Any) -> None:
    jnp = pytest.importorskip("jax.numpy")
    a, out = jnp.ones(8, "float32"), np.zeros(8, "f4")
    steady(lambda: add.add_f32(a, a, out), 5_000, [out], memory=False)
    steady(lambda: add.bind(a, a, out)(), 5_000, [out], memory=False)
    steady(lambda: add.add(a, a), 2_000, [out], memory=False)
