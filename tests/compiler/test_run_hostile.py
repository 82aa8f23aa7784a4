"""Executors under hostile use: calls between runs, refused inputs, threads, odd constants."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

import aicf
from aicf.backend.cpu import CpuBackend
from aicf.compiler.ir.graph import Graph
from aicf.compiler.runtime.executor import ExecutorV2
from compiler.emulated import Emulated, host

MODES = ("eager", "replay", "graph")
A, B = np.array([1, 2, 3], "f4"), np.array([4, 5, 6], "f4")


def relu() -> Graph:
    graph: Graph = aicf.trace(lambda x: aicf.ops.relu(x), "f32[N]", symbols={"N": (0, 64)})
    return graph


def sgd() -> Graph:
    def step(w: Any, g: Any, lr: Any) -> Any:
        aicf.ops.sgd([w], [g], lr=lr)
        return w

    graph: Graph = aicf.trace(step, "f32[3]", "f32[3]", "f32")
    return graph


def of_constant(type: str, fill: float | None = None) -> Graph:
    graph = Graph()
    c = graph.constant("c", type, fill)
    graph.output(graph.add("view.permute", c, perm=(1, 0)).out, c)
    return graph


@pytest.mark.promise("COMPILER-run-inputs")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("outputs", ["fresh", "reused"])
def test_what_looks_at_other_inputs_changes_no_run(mode: str, outputs: str) -> None:
    run = ExecutorV2(relu(), host(mode), mode=mode, outputs=outputs)  # type: ignore[arg-type]
    run(A)
    run.kernels(B)
    assert run(A).tolist() == A.tolist()
    run.per_op(B, count=1)
    assert run(A).tolist() == A.tolist()


@pytest.mark.promise("MARK-8-run-refuses")
@pytest.mark.parametrize("mode", MODES)
def test_what_was_refused_is_refused_again(mode: str) -> None:
    run = ExecutorV2(sgd(), host(mode, strict=True), mode=mode)  # type: ignore[arg-type]
    w, fixed = A.copy(), A.copy()
    fixed.flags.writeable = False
    run(w, B, 1.0)
    for _ in range(3):
        with pytest.raises(TypeError, match="read-only"):
            run(fixed, B, 1.0)
    assert w.tolist() == (A - B).tolist()
    assert run(w, A, 1.0).tolist() == (-B).tolist()


@pytest.mark.promise("COMPILER-run-inputs")
@pytest.mark.guests("torch")
def test_an_input_that_no_view_is_made_of_is_refused_again() -> None:
    import torch

    graph = aicf.trace(lambda x: aicf.ops.relu(x.T), "f32[2, 3]")
    run = ExecutorV2(graph, CpuBackend())
    run(torch.ones(2, 3))
    wrong = torch.full((2, 3), 2.0).to("meta")
    for _ in range(2):
        with pytest.raises((TypeError, ValueError, RuntimeError, BufferError)):
            run(wrong)
    assert np.asarray(run(torch.full((2, 3), 2.0))).tolist() == [[2.0, 2.0]] * 3


@pytest.mark.promise("COMPILER-run-threads")
@pytest.mark.parametrize("mode", MODES)
def test_threads_wait_for_each_other(mode: str) -> None:
    graph = aicf.trace(
        lambda x, w: aicf.ops.relu(aicf.ops.gemm(x, w)), "f32[N, 32]", aicf.param("f32[32, 32]"),
        symbols={"N": (1, 64)},
    )  # fmt: skip
    run = ExecutorV2(graph, host(mode), params={"w": np.eye(32, dtype="f4")}, mode=mode)  # type: ignore[arg-type]
    wrong: list[Any] = []

    def work(number: int) -> None:
        x = np.full((8 + number % 2, 32), number, "f4")
        for i in range(400):
            found = run(x if i % 3 else x.copy())
            if found.shape != x.shape or not (found == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


@pytest.mark.promise("COMPILER-run-scalars")
@pytest.mark.parametrize("mode", MODES)
def test_numbers_of_numpy_are_numbers(mode: str) -> None:
    run = ExecutorV2(sgd(), host(mode), mode=mode)  # type: ignore[arg-type]
    for lr in (np.float32(0.5), np.float64(0.5)):
        assert run(A.copy(), A, lr).tolist() == (A / 2).tolist()
    assert run(A.copy(), A, np.int64(1)).tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match="lr must be a number"):
        run(A, A, np.ones(3))


@pytest.mark.promise("COMPILER-run-scalars")
def test_minus_zero_is_another_number() -> None:
    graph = Graph()
    x, value = graph.input("x", "f32[2]"), graph.input("value", "f32")
    graph.output(*graph.add("fill", x, value=value).results)
    run = ExecutorV2(graph, CpuBackend())
    assert not np.signbit(run(np.ones(2, "f4"), 0.0)).any()
    assert np.signbit(run(np.ones(2, "f4"), -0.0)).all()


@pytest.mark.promise("COMPILER-run-constants")
@pytest.mark.parametrize("mode", MODES)
def test_constants_lie_as_their_type_says(mode: str) -> None:
    given = np.asfortranarray(np.arange(12, dtype="f4").reshape(4, 3))
    graph, data = of_constant("f32[4, 3; 1, 4]"), {"c": given}
    run = ExecutorV2(graph, host(mode), constants=data, mode=mode)  # type: ignore[arg-type]
    turned, c = map(np.asarray, run())
    assert turned.tolist() == given.T.tolist()
    assert c.tolist() == given.tolist()


@pytest.mark.promise("COMPILER-run-constants")
@pytest.mark.parametrize("mode", MODES)
def test_params_lie_as_their_type_says(mode: str) -> None:
    graph = Graph()
    p = graph.param("p", "f32[4, 3; 1, 4]")
    graph.output(graph.add("view.permute", p, perm=(1, 0)).out)
    given = np.asfortranarray(np.arange(12, dtype="f4").reshape(4, 3))
    run = ExecutorV2(graph, host(mode), params={"p": given}, mode=mode)  # type: ignore[arg-type]
    assert np.asarray(run()).tolist() == given.T.tolist()


class Crossing(Emulated):
    """Copies as between devices."""

    def copy_into(self, tensor: Any, source: Any) -> None:
        import aicf_rt

        aicf_rt.copy(source, tensor)


@pytest.mark.promise("COMPILER-run-outputs")
@pytest.mark.parametrize("mode", MODES)
def test_what_has_strides_is_copied_where_only_row_major_crosses(mode: str) -> None:
    graph = Graph()
    x, c = graph.input("x", "f32[4, 3; 1, 4]"), graph.constant("c", "f32[]", 1.0)
    wide = graph.add("view.slice", graph.add("relu", x).out, axis=0, start=1, stop=4, step=2).out
    graph.output(wide, graph.add("view.expand", c, shape=(2, 3)).out)
    p = graph.param("p", "f32[4, 3; 1, 4]")
    graph.output(graph.add("relu", p).out)
    given = np.asfortranarray(np.arange(12, dtype="f4").reshape(4, 3))
    run = ExecutorV2(graph, Crossing(), params={"p": given}, mode=mode)  # type: ignore[arg-type]
    run.load("p", given + 1)
    found = [np.asarray(v).tolist() for v in run(given)]
    assert found == [given[1::2].tolist(), [[1] * 3] * 2, (given + 1).tolist()]
    assert [time.op for time in run.per_op(given, count=1)] == ["relu", "relu"]


@pytest.mark.promise("COMPILER-run-constants")
@pytest.mark.parametrize("given", [np.ones(3, "f4"), np.ones((2, 3)), np.ones((2, 1), "f4"), 3.0])
def test_data_of_constants_is_of_their_type(given: Any) -> None:
    run = ExecutorV2(of_constant("f32[2, 3]"), CpuBackend(), constants={"c": given})
    with pytest.raises(TypeError, match=r"c must be f32\[2, 3\], and not"):
        run()


@pytest.mark.promise("COMPILER-run-constants")
@pytest.mark.parametrize("mode", MODES)
def test_who_writes_to_an_output_changes_no_constant(mode: str) -> None:
    run = ExecutorV2(of_constant("f32[2, 3]", 1.0), host(mode), mode=mode)  # type: ignore[arg-type]
    for found in run():
        np.from_dlpack(found)[...] = 7
    assert all((np.asarray(found) == 1).all() for found in run())


@pytest.mark.promise("MARK-8-run-refuses")
@pytest.mark.parametrize(
    "x, words",
    [
        (A.astype(complex), r"x must be f32\[N\], N = 3, and not complex128\[3\]"),
        (A.astype("u2"), r"x must be f32\[N\].*not uint16\[3\]"),
        ([1.0, 2.0], r"x must be f32\[N\], and not \[1\.0, 2\.0\]"),
        (None, r"x must be f32\[N\], and not None"),
    ],
)
def test_what_is_no_tensor_of_the_table_is_named(x: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        ExecutorV2(relu(), CpuBackend())(x)


@pytest.mark.promise("MARK-8-run-refuses")
def test_what_no_run_could_take() -> None:
    graph = aicf.trace(
        lambda x, w: x + w, "f32[N]", aicf.param("f32[N]"), symbols={"N": (1, 9)}
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"param %w: f32\[N\] has no size: bind the graph"):
        ExecutorV2(graph, CpuBackend())
    assert ExecutorV2(graph.bind({"N": 3}), CpuBackend(), params={"w": A})(B).tolist() == [5, 7, 9]
    for count in (0, -1):
        with pytest.raises(ValueError, match="once at least"):
            ExecutorV2(relu(), CpuBackend()).per_op(A, count=count)


@pytest.mark.promise("MARK-8-run-refuses")
def test_params_of_another_rank_are_named() -> None:
    graph = aicf.trace(lambda w: aicf.ops.relu(w), aicf.param("f32[2, 3]"))
    with pytest.raises(TypeError, match=r"w must be f32\[2, 3\], and not f32\[3\]"):
        ExecutorV2(graph, CpuBackend(), params={"w": A})
