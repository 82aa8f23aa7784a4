"""Runs that are done again without being looked at in full: what is given again is, and what is
another is seen."""

from __future__ import annotations

import struct
import threading
from typing import Any

import aicf_rt
import numpy as np
import pytest

import aicf
from aicf.compiler.runtime.executor import ExecutorV2
from compiler.emulated import host

Held = tuple[Any, list[int], dict[str, Any], Any]


def held(*, numbers: Any = (), named: Any = None, inputs: Any = (), **options: Any) -> Held:
    """An Again whose work counts."""
    again, ran, cells = aicf_rt.Again(), [0], np.zeros(32, "u1")
    kept: dict[str, Any] = {}

    def work() -> None:
        ran[0] += 1

    with again:
        again.hold(
            tuple(inputs), {} if named is None else named, options.get("watched", ()),
            options.get("asked", ()), options.get("work", work), "result", cells, tuple(numbers),
            kept,
        )  # fmt: skip
    return again, ran, kept, cells


@pytest.mark.promise("AICF-again")
def test_what_is_the_same_is_done_again() -> None:
    x, y = object(), object()
    again, ran, _, _ = held(inputs=(x,), named={"y": y})
    assert again((x,), {"y": y}) == "result"
    for inputs, named in [
        ((y,), {"y": y}), ((), {"y": y}), ((x, x), {"y": y}), ((x,), {"y": x}), ((x,), {}),
        ((x,), {"z": y}), ((x,), {"y": y, "z": y}),
    ]:  # fmt: skip
        assert again(inputs, named) is NotImplemented
    assert ran == [1]
    with again:
        assert again((x,), {"y": y}) is NotImplemented
    assert again((x,), {"y": y}) is NotImplemented
    assert ran == [1]


@pytest.mark.promise("AICF-again")
@pytest.mark.parametrize(
    "format, low, high, good, bad",
    [
        ("f", -3.4028234663852886e38, 3.4028234663852886e38, [0.1, -0.0, 1e-45, 3.4e38],
         [1, True, float("nan"), float("inf"), 3.5e38, None, np.float32(1)]),
        ("d", 0.0, 1.0, [0.1, 1.0], [1.0000000000000002, -1e-300, 1]),
        ("d", -float("inf"), float("inf"), [float("inf"), 1e308], [float("nan"), 0]),
        ("?", 0, 1, [True, False], [0, 1, 1.0]),
        ("b", -128, 127, [-128, 127, 0], [128, -129, 1.0, True, 2**70]),
        ("B", 0, 255, [255, 0], [-1, 256]),
        ("h", -(2**15), 2**15 - 1, [-1, 258], [2**15]),
        ("H", 0, 2**16 - 1, [2**16 - 1], [-1]),
        ("i", 1, 2**31 - 1, [1, 2**31 - 1], [0, -1, 2**31]),
        ("I", 0, 2**32 - 1, [2**32 - 1], [2**32]),
        ("q", -(2**63), 2**63 - 1, [-(2**63), 2**63 - 1], [2**63, -(2**63) - 1]),
        ("Q", 0, 2**64 - 1, [2**63 - 1, 0], [2**63, 2**64, -1]),
    ],
)  # fmt: skip
def test_numbers_are_written_where_they_are_plainly_right(
    format: str, low: Any, high: Any, good: list[Any], bad: list[Any]
) -> None:
    """As struct writes them, and nowhere else; what is told of them is told at the end."""
    first, key = object(), object()
    named = {"a": first}
    again, ran, kept, cells = held(named=named, numbers=[("a", key, 8, format, low, high)])
    for x in good:
        cells[:] = 255
        assert again((), {"a": x}) == "result"
        size = struct.calcsize(format)
        assert cells.tobytes() == b"\xff" * 8 + struct.pack(format, x) + b"\xff" * (24 - size)
        assert named == {"a": first}
        assert kept == {}
    before = cells.tobytes()
    for x in bad:
        assert again((), {"a": x}) is NotImplemented, x
        assert cells.tobytes() == before
    assert ran == [len(good)]
    with again:
        assert named["a"] is good[-1]
        assert kept == {key: good[-1]}


@pytest.mark.promise("AICF-again")
def test_what_is_held_is_checked() -> None:
    again: Any = aicf_rt.Again()
    cells = np.zeros(8, "u1")
    with pytest.raises(RuntimeError, match="within `with`"):
        again.hold((), {}, (), (), int, None, None, (), {})
    with pytest.raises(RuntimeError, match="has not entered"):
        again.__exit__()
    number = ("a", 0, 0, "d", 0.0, 1.0)
    unlike: list[Any] = [
        ("a",), 5, number[:5], ("a", 0, 1, "d", 0.0, 1.0), ("a", 0, -1, "d", 0.0, 1.0),
        ("a", 0, 0, "e", 0.0, 1.0), ("a", 0, 2**62, "d", 0.0, 1.0), ("a", 0, 0, "\x00", 0.0, 1.0),
        ("a", 0, 0, "d", "0", 1.0), ("a", 0, 0, "q", 0.5, 1), ("a", 0, 0, "é", 0, 1),
    ]  # fmt: skip
    for wrong in unlike:
        with again, pytest.raises((TypeError, ValueError)):
            again.hold((), {"a": 1.0}, (), (), int, None, cells, (wrong,), {})
        assert again((), {"a": 1.0}) is NotImplemented
    read_only = np.zeros(8, "u1")
    read_only.flags.writeable = False
    with again, pytest.raises((BufferError, ValueError)):
        again.hold((), {"a": 1.0}, (), (), int, None, read_only, (number,), {})
    with again, pytest.raises(TypeError, match="pair"):
        again.hold((), {}, (), (5,), int, None, None, (), {})
    badly: list[Any] = [(), ((),), ([], {}), ((), None), ((), {}, 1)]
    for args in badly:
        with pytest.raises(TypeError):
            again(*args)


@pytest.mark.promise("AICF-again")
def test_what_is_asked_is_asked_each_time() -> None:
    answers, answer = [1], [1]

    def ask() -> Any:
        if answer[0] == 0:
            raise KeyError("no answer")
        return list(answer)

    again, ran, _, _ = held(asked=((ask, answers),))
    assert again((), {}) == "result"
    answer[0] = 2
    assert again((), {}) is NotImplemented
    answer[0] = 0
    with pytest.raises(KeyError, match="no answer"):
        again((), {})
    answer[0] = 1
    assert again((), {}) == "result"
    assert ran == [2]


@pytest.mark.promise("AICF-again")
def test_work_that_fails_or_runs_the_same_again() -> None:
    depth: list[Any] = []

    def nested() -> None:
        depth.append(again((), {}))
        with again:
            pass

    again, _, _, _ = held(work=nested)
    assert again((), {}) == "result"
    assert depth == [NotImplemented]
    assert again((), {}) is NotImplemented
    again, _, _, _ = held(work=lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            again((), {})
    thread = threading.Thread(target=lambda: depth.append(again.__enter__()))
    thread.start()  # the lock is free
    thread.join(10)
    assert depth[-1] is None


@pytest.mark.promise("AICF-again")
def test_threads_wait_for_each_other() -> None:
    inside, most, count = [0], [0], [0]

    def work() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        count[0] += 1
        inside[0] -= 1

    again, _, _, _ = held(work=work)

    def run() -> None:
        for _ in range(500):
            if again((), {}) is NotImplemented:
                with again:
                    work()
                    again.hold((), {}, (), (), work, "result", None, (), {})

    threads = [threading.Thread(target=run) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (most[0], count[0]) == (1, 4000)


# ---- tensors that their owners change ------------------------------------------------------------


def changes(x: Any) -> list[Any]:
    def shape() -> None:
        x.shape = (6, 4)

    def strides() -> None:
        x.strides = (4, 16)

    def dtype() -> None:
        x.dtype = "i4"

    def resize() -> None:
        x.resize((40, 60), refcheck=False)

    return [shape, strides, dtype, resize]


@pytest.mark.filterwarnings("ignore:Setting the")  # numpy's own, of attributes that are set
@pytest.mark.promise("AICF-layouts")
@pytest.mark.parametrize("at", range(4))
def test_layouts_of_arrays(at: int) -> None:
    x = np.zeros((4, 6), "f4")
    before = aicf_rt.layouts((x, x))
    assert before == aicf_rt.layouts((x, x)) != aicf_rt.layouts((x,))
    again, _, _, _ = held(inputs=(x,), watched=(x,))
    assert again((x,), {}) == "result"
    changes(x)[at]()
    assert aicf_rt.layouts((x, x)) != before
    assert again((x,), {}) is NotImplemented


@pytest.mark.promise("AICF-layouts")
def test_what_has_no_layout() -> None:
    unlike: list[Any] = [[], None, np.zeros(1)]
    for wrong in unlike:
        with pytest.raises(TypeError, match="a tuple of tensors"):
            aicf_rt.layouts(wrong)
    with pytest.raises(TypeError):
        aicf_rt.layouts((object(),))
    with pytest.raises(ValueError, match="8 dims at most"):
        aicf_rt.layouts((np.zeros((1,) * 9),))
    assert len(aicf_rt.layouts((np.zeros((1,) * 8, "f4"),) * 9)) == 9 * 20 * 8
    again, _, _, _ = held(watched=(np.zeros((1,) * 9),))
    assert again((), {}) is NotImplemented  # it would not be seen to change
    assert aicf_rt.layouts((np.zeros(1, "complex64"),))
    assert aicf_rt.layouts(()) == b""


MODES = ("eager", "replay", "graph")


def sums(mode: Any, **options: Any) -> ExecutorV2:
    graph = aicf.trace(lambda x: x + x, "f32[M, N]", symbols={"M": (1, 64), "N": (1, 64)})
    return ExecutorV2(graph, host(mode), mode=mode, **options)


@pytest.mark.filterwarnings("ignore:Setting the")
@pytest.mark.promise("AICF-layouts", "COMPILER-run-moved")
@pytest.mark.parametrize("outputs", ["fresh", "reused"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", range(3))
def test_runs_see_arrays_that_were_set_in_place(mode: Any, outputs: Any, at: int) -> None:
    """Its shape, strides or dtype."""
    run, x = sums(mode, outputs=outputs), np.empty((4, 6), "f4")
    x[...] = np.arange(24).reshape(4, 6)
    for _ in range(3):
        assert (run(x) == x + x).all()
    changes(x)[at]()
    for _ in range(3):
        if at in (1, 2):  # it is no such input any more
            with pytest.raises(TypeError, match=r"x must be f32\[M, N\].*(1, 4|i32)"):
                run(x)
        else:
            found = run(x)
            assert found.shape == x.shape
            assert (found == x + x).all()


class Wrapper:
    """Another's tensor, which may become another under the same object."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    shape = property(lambda self: self.inner.shape)
    dtype = property(lambda self: self.inner.dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.inner.__dlpack_device__()


@pytest.mark.promise("AICF-layouts", "COMPILER-run-moved")
@pytest.mark.parametrize("mode", MODES)
def test_runs_see_wrappers_of_another_tensor(mode: Any) -> None:
    run = sums(mode, outputs="reused")
    x = Wrapper(np.ones((4, 6), "f4"))
    for i in range(6):
        x.inner = np.full((4, 6 - i % 2), float(i), "f4")
        for _ in range(2):
            found = run(x)
            assert found.shape == x.inner.shape
            assert (found == 2 * i).all()


# ---- what people see -----------------------------------------------------------------------------


@pytest.mark.promise("AICF-again")
def test_numbers_of_the_last_run_are_known() -> None:
    """Whether it was looked at in full or not; and a graph that cannot be any more goes on with
    them."""
    graph = aicf.trace(lambda x, a: aicf.ops.scale(x, factor=a), "f32[4]", "f32")
    backend: Any = host("graph")
    run = ExecutorV2(graph, backend, mode="graph", outputs="reused")
    x = np.ones(4, "f4")
    for i in range(6):
        assert run(x, a=float(i)).tolist() == [float(i)] * 4
        if i % 2:
            assert run.last is not None
            assert run.last.named == {"a": float(i)}
    launched = backend.graphs[0].launches
    assert launched == 6
    run(x, a=7.0)
    run(x, a=8.0)
    backend.refused = "no more graphs"
    other = np.full(4, 2.0, "f4")
    assert run(other, a=8.0).tolist() == [16.0] * 4
    assert run.reasons == {"": "no more graphs"}
    assert run(other, a=9.0).tolist() == [18.0] * 4
