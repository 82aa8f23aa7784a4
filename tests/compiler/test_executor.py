"""Graphs run op by op and replayed: the same bits, what changes between runs, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aicf
from aicf.backend.cpu import CpuBackend
from aicf.backend.null import NullBackend
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.training import Training, training_step
from aicf.compiler.runtime.executor import ExecutorV2
from aicf.compiler.runtime.interpret import interpret
from compiler.emulated import host

Array = Any
MODES = ("eager", "replay", "graph")
promise = pytest.mark.promise("MARK-8-executor")


def mlp(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    h = aicf.ops.gemm(x, w1, b1, act="relu")
    return aicf.ops.cross_entropy(aicf.ops.gemm(h, w2, b2), y)


def forward() -> Graph:
    p = aicf.param
    params = p("f32[8, 16]"), p("f32[16]"), p("f32[16, 3]"), p("f32[3]")
    graph: Graph = aicf.trace(mlp, "f32[N, 8]", "i64[N]", *params, symbols={"N": (1, 64)})
    return graph


def weights(seed: int = 0) -> dict[str, Array]:
    r = np.random.default_rng(seed)
    shapes = {"w1": (8, 16), "b1": (16,), "w2": (16, 3), "b2": (3,)}
    return {n: r.normal(size=s).astype("f4") / 4 for n, s in shapes.items()}


def batches(count: int) -> Iterator[tuple[Array, Array]]:
    r = np.random.default_rng(1)
    for i in range(count):
        n = 12 if i % 3 else 7
        yield r.normal(size=(n, 8)).astype("f4"), r.integers(0, 3, n)


def executor(training: Training, mode: str = "replay", **options: Any) -> ExecutorV2:
    backend = host(mode, strict=True)
    made = ExecutorV2(training.graph, backend, params=weights(), mode=mode, **options)  # type: ignore[arg-type]
    made.zero(*training.states)
    return made


def values(executor: ExecutorV2) -> list[Array]:
    return [np.array(executor.param(p.name)) for p in executor.graph.params]


# ---- the same bits -----------------------------------------------------------------------------


@promise
@pytest.mark.parametrize(
    "optimizer, options",
    [
        ("sgd", {"momentum": 0.9, "states": ("buf",)}),
        ("adamw", {"weight_decay": 0.1}),
        ("rmsprop", {}),
    ],
)
def test_op_by_op_and_replayed_are_the_same_bits(optimizer: str, options: dict[str, Any]) -> None:
    training = training_step(forward(), optimizer, **options)
    found = []
    for mode in MODES:
        run = executor(training, mode)
        losses = []
        for i, (x, y) in enumerate(batches(12)):
            rest = {v.name: i + 1 for v in training.graph.inputs if v.name == "step"}
            losses.append(float(run(x, y, lr=0.1 / (i + 1), **rest)))
        found.append((losses, values(run)))
    assert found[0][0] == found[1][0]
    assert all((a == b).all() for a, b in zip(found[0][1], found[1][1], strict=True))
    assert len(set(found[0][0])) == 12


@promise
@pytest.mark.parametrize("mode", MODES)
def test_what_it_gives_is_what_the_interpreter_gives(mode: str) -> None:
    graph = aicf.value_and_grad(forward())
    run = ExecutorV2(graph, host(mode), params=weights(), mode=mode)  # type: ignore[arg-type]
    for x, y in batches(3):
        expected = interpret(graph, {"x": x, "y": y, **weights()})
        for a, b in zip(run(x, y), expected, strict=True):
            assert (np.asarray(a) == np.asarray(b)).all()


# ---- what changes from run to run --------------------------------------------------------------


@pytest.mark.promise("COMPILER-run-scalars")
@pytest.mark.parametrize("mode", MODES)
def test_a_learning_rate_is_that_of_the_run(mode: str) -> None:
    """Not that of the first; and Adam's step counts."""
    x, y = next(batches(1))
    training = training_step(forward(), "adam")
    run, other = executor(training, mode), executor(training, mode)
    run(x, y, lr=0.1, step=1)
    before = values(run)
    run(x, y, lr=0.0, step=2)
    assert all((a == b).all() for a, b in zip(before[:4], values(run)[:4], strict=True))
    run(x, y, lr=0.1, step=3)
    other(x, y, lr=0.1, step=1)
    other(x, y, lr=0.0, step=2)
    other(x, y, lr=0.1, step=300)
    assert any((a != b).any() for a, b in zip(values(run), values(other), strict=True))


@pytest.mark.promise("COMPILER-run-inputs")
@pytest.mark.parametrize("mode", MODES)
def test_inputs_are_read_where_they_lie(mode: str) -> None:
    def twice(x: Any, y: Any) -> Any:
        return aicf.ops.add(x.T, y), x.T[1:] * 2.0

    run = ExecutorV2(aicf.trace(twice, "f32[2, 3]", "f32[3, 2]"), host(mode), mode=mode)  # type: ignore[arg-type]
    x, y = np.arange(6, dtype="f4").reshape(2, 3), np.ones((3, 2), "f4")
    for _ in range(2):
        a, b = run(x, y)
        assert (np.asarray(a) == x.T + y).all()
        assert (np.asarray(b) == 2 * x.T[1:]).all()
        x += 10  # the same array with other numbers
        a, b = run(x, y)
        assert (np.asarray(a) == x.T + y).all()
        assert (np.asarray(b) == 2 * x.T[1:]).all()
        x, y = x.copy() - 3, y.copy()  # other arrays


@pytest.mark.promise("COMPILER-run-in-place")
@pytest.mark.parametrize("mode", MODES)
def test_an_input_that_is_updated_and_not_returned(mode: str) -> None:
    def bump(x: Any, y: Any) -> Any:
        aicf.ops.fill(y, value=3.0)
        return x + x

    run = ExecutorV2(aicf.trace(bump, "f32[4]", "f32[4]"), host(mode), mode=mode)  # type: ignore[arg-type]
    for _ in range(3):
        y = np.zeros(4, "f4")
        run(np.ones(4, "f4"), y)
        assert (y == 3).all()
        y[:] = 0
        run(np.ones(4, "f4"), y)
        assert (y == 3).all()


@pytest.mark.promise("COMPILER-run-outputs")
@pytest.mark.parametrize("mode", MODES)
def test_no_run_overwrites_what_another_gave(mode: str) -> None:
    """Gradients of four micro-batches, added up afterwards."""
    graph = aicf.grad(forward())
    run = ExecutorV2(graph, host(mode), params=weights(), mode=mode)  # type: ignore[arg-type]
    given = list(batches(8))[1::3]  # of one size
    kept = [run(x, y) for x, y in given]
    for (x, y), gradients in zip(given, kept, strict=True):
        for a, b in zip(gradients, run(x, y), strict=True):
            assert a is not b
            assert (np.asarray(a) == np.asarray(b)).all()


@promise
def test_outputs_that_are_read_or_viewed_are_copied() -> None:
    def more(x: Any) -> Any:
        a = x + x
        return a, a * a, a.T, x

    run = ExecutorV2(aicf.trace(more, "f32[2, 2]"), CpuBackend())
    x = np.eye(2, dtype="f4")
    first = run(x)
    again = run(x + 1)
    assert (np.asarray(first[0]) == 2 * x).all()
    assert (np.asarray(first[1]) == 4 * x).all()
    assert (np.asarray(first[2]) == 2 * x).all()
    assert first[3] is x
    assert (np.asarray(again[0]) == 2 * x + 2).all()
    reused = ExecutorV2(run.graph, CpuBackend(), outputs="reused")
    assert reused(x)[0] is reused(x)[0]


@promise
def test_params_are_updated_where_they_lie() -> None:
    training = training_step(forward(), "sgd")
    run = executor(training)
    x, y = next(batches(1))
    run(x, y, lr=0.1)
    w = run.param("w1")
    run.load("w1", np.zeros((8, 16), "f4"))
    assert run.param("w1") is w
    assert not np.asarray(w).any()
    run(x, y, lr=0.1)
    assert np.asarray(run.param("b2")).any()
    mine = np.ones((8, 16), "f4")
    run.adopt("w1", mine)
    run(x, y, lr=0.5)
    assert (mine != 1).any()
    assert run.param("w1") is mine


@promise
def test_the_last_shapes_are_kept() -> None:
    run = ExecutorV2(forward(), CpuBackend(), params=weights(), kept=2)
    r = np.random.default_rng(2)
    for n in (3, 4, 5, 4, 3, 6, 3):
        x, y = r.normal(size=(n, 8)).astype("f4"), r.integers(0, 3, n)
        expected = interpret(run.graph, {"x": x, "y": y, **weights()})[0]
        assert float(run(x, y)) == float(expected)
        assert len(run._bounds) <= 2


# ---- looking at it -----------------------------------------------------------------------------


@pytest.mark.promise("COMPILER-run-warm-up")
def test_timing_ops_advances_nothing() -> None:
    training = training_step(forward(), "adamw")
    run, other = executor(training), executor(training)
    x, y = next(batches(1))
    for i in (1, 2):
        times = run.per_op(x, y, lr=0.1, step=i, count=3)
        assert float(run(x, y, lr=0.1, step=i)) == float(other(x, y, lr=0.1, step=i))
    assert all((a == b).all() for a, b in zip(values(run), values(other), strict=True))
    nodes = [n for n in training.graph.nodes if not n.is_view]
    assert [t.op for t in times] == [n.op for n in nodes]
    assert all(t.seconds > 0 and t.kernel for t in times)
    assert {t.loc for t in times} == {n.loc for n in nodes}


@promise
def test_kernels_are_the_selectors() -> None:
    from aicf.compiler.kernels.selector import Selector

    backend = CpuBackend()
    x, y = next(batches(1))
    run = ExecutorV2(forward(), backend, params=weights(), selector=Selector(backend.info))
    chosen = dict.fromkeys(name for _, name in run.kernels(x, y))
    assert chosen
    assert "fallback" not in chosen
    assert float(run(x, y)) > 0


@promise
@pytest.mark.parametrize("mode", MODES)
def test_null_records_what_would_run(mode: str) -> None:
    training = training_step(forward(), "sgd")
    backend = NullBackend()
    run = ExecutorV2(training.graph, backend, mode=mode)  # type: ignore[arg-type]
    run.zero(*(p.name for p in run.graph.params))
    x, y = backend.empty((5, 8), "f32"), backend.empty((5,), "i64")
    run(x, y, lr=0.1)
    backend.launches.clear()
    run(x, y, lr=0.2)
    nodes = [n.op for n in training.graph.nodes if not n.is_view]
    assert [launch.op for launch in backend.launches] == nodes


@promise
@pytest.mark.parametrize("mode", MODES)
def test_what_no_kernel_takes_falls_back_and_is_counted(mode: str) -> None:
    pytest.importorskip("torch")
    import aicf_rt

    class Without(CpuBackend):
        """A device that has no kernel of one op."""

        def launch(self, row: Any, args: Any, options: Any) -> Any:
            self.refuse(row.name)
            return super().launch(row, args, options)

        def prepare(self, op: str, *args: Any, **options: Any) -> Any:
            self.refuse(op)
            return super().prepare(op, *args, **options)

        def refuse(self, op: str) -> None:
            if op == "exp":
                raise aicf_rt.Unsupported(f"{op}: no kernel of this device takes it")

    graph = aicf.trace(lambda x: aicf.ops.exp(x + x) * x, "f32[3]")
    backend = Without()
    run = ExecutorV2(graph, backend, mode=mode)  # type: ignore[arg-type]
    for i in range(3):
        x = np.full(3, i, "f4")
        assert np.allclose(np.asarray(run(x)), np.exp(2 * x) * x)
    assert "exp" in str(backend.report())
    assert "no kernel of this device" in str(backend.report())
    with pytest.raises(aicf_rt.Unsupported, match="no kernel of this device takes it"):
        ExecutorV2(graph, Without(strict=True), mode=mode)(np.ones(3, "f4"))  # type: ignore[arg-type]


@promise
def test_what_some_inputs_alone_have_a_kernel_for() -> None:
    """A replay falls back for these inputs, and for these alone, as op by op."""
    pytest.importorskip("torch")
    import aicf_rt

    class Picky(CpuBackend):
        """A device whose kernels take no array that starts with a seven."""

        def launch(self, row: Any, args: Any, options: Any) -> Any:
            self.refuse(args[0])
            return super().launch(row, args, options)

        def prepare(self, op: str, *args: Any, **options: Any) -> Any:
            self.refuse(args[0])
            return Asked(self, super().prepare(op, *args, **options))

        def run(self, calls: Any, names: Any = ()) -> None:
            super().run([call.call for call in calls], names)

        def refuse(self, x: Any) -> None:
            if np.asarray(x).flat[0] == 7:
                raise aicf_rt.Unsupported("a seven")

    class Asked:
        def __init__(self, backend: Picky, call: Any) -> None:
            self.backend, self.call, self.kernel = backend, call, call.kernel

        def set(self, **arguments: Any) -> None:
            for x in arguments.values():
                self.backend.refuse(x)
            self.call.set(**arguments)

    graph = aicf.trace(lambda x: aicf.ops.exp(x), "f32[3]")
    counts = []
    for mode in MODES:
        backend = Picky()
        run = ExecutorV2(graph, backend, mode=mode)  # type: ignore[arg-type]
        for first in (7, 1, 7, 7, 2, 7, 3):
            x = np.array([first, 2, 3], "f4")
            assert np.allclose(np.asarray(run(x)), np.exp(x))
        counts.append(backend.report().totals()["fell_back"])
        with pytest.raises(aicf_rt.Unsupported, match="a seven"):
            ExecutorV2(graph, Picky(strict=True), mode=mode)(np.full(3, 7, "f4"))  # type: ignore[arg-type]
    assert counts == [4, 4, 4]


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.promise("MARK-8-run-refuses")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "x, y, words",
    [
        ((4, 9), (4,), r"x.*f32\[N, 8\].*\(4, 9\)"),
        ((4, 8), (5,), r"y.*i64\[N\].*N = 4.*\(5,\)"),
        ((4, 8, 1), (4,), r"x.*f32\[N, 8\]"),
        ((65, 8), (65,), r"N is 65, and its range 1\.\.64"),
    ],
)
def test_other_shapes(mode: str, x: Any, y: Any, words: str) -> None:
    run = ExecutorV2(forward(), host(mode), params=weights(), mode=mode)  # type: ignore[arg-type]
    with pytest.raises((aicf.IRError, TypeError), match=words):
        run(np.ones(x, "f4"), np.zeros(y, "i8"))


@pytest.mark.promise("MARK-8-run-refuses")
def test_other_calls() -> None:
    training = training_step(forward(), "sgd")
    run = ExecutorV2(training.graph, CpuBackend(), params=weights())
    x, y = next(batches(1))
    tries: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((x, y), {}, "mlp: lr missing"),
        ((x,), {"lr": 0.1}, "mlp: y missing"),
        ((x, y), {"lr": 0.1, "rate": 1}, "rate is no input; inputs are x, y, lr"),
        ((x, y), {"lr": 0.1, "x": x}, "x is given twice"),
        ((x, y, 0.1, 0.1), {}, "takes 3 inputs, not 4"),
        ((x.astype("f8"), y), {"lr": 0.1}, r"x must be f32\[N, 8\].*not f64\[7, 8\]"),
        ((np.asfortranarray(x), y), {"lr": 0.1}, r"x must be f32\[N, 8\].*not f32\[7, 8; 1, 7\]"),
        ((x.tolist(), y), {"lr": 0.1}, "x must be f32"),
        ((x, y), {"lr": x}, "lr must be a number, f32, and not f32"),
    ]
    for inputs, named, words in tries:
        with pytest.raises((TypeError, aicf.IRError), match=words):
            run(*inputs, **named)
    assert float(run(x, y, lr=0.0)) > 0
    with pytest.raises(KeyError, match="no param w3; there are w1, b1"):
        run.load("w3", x)
    with pytest.raises(TypeError, match=r"w1 must be f32\[8, 16\], and not f32\[7, 8\]"):
        run.load("w1", x)
    with pytest.raises(TypeError, match="param b1, param w2, param b2 missing"):
        ExecutorV2(forward(), CpuBackend(), params={"w1": weights()["w1"]})(x, y)
    with pytest.raises(ValueError, match=r"mode is .fast., and may be eager, replay, graph"):
        ExecutorV2(forward(), CpuBackend(), mode="fast")  # type: ignore[arg-type]


@pytest.mark.promise("MARK-8-training")
def test_an_optimizer_is_a_row_that_updates_lists() -> None:
    with pytest.raises(aicf.IRError, match="relu: it does not update a first list"):
        training_step(forward(), "relu")
    with pytest.raises(aicf.IRError, match="sgd: it has no state speed"):
        training_step(forward(), "sgd", states=("speed",))
    training = training_step(forward(), "adamw", wrt=["w2", "b2"])
    assert training.states == ("w2.m", "b2.m", "w2.v", "b2.v")
    assert [v.name for v in training.graph.inputs] == ["x", "y", "lr", "step"]
    assert training.graph.outputs == [training.loss]


@promise
def test_replayed_ops_have_ranges_by_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a profiler sees of a replay: each op, its kernel, the line that it was traced from."""
    from aicf.backend import nvtx

    seen: list[str] = []
    monkeypatch.setattr(nvtx, "_found", (seen.append, lambda: None))
    run = ExecutorV2(forward(), CpuBackend(), params=weights())
    x, y = next(batches(1))
    run(x, y)
    assert not seen
    with aicf.nvtx():
        run(x, y)
    nodes = [n for n in run.graph.nodes if not n.is_view]
    assert [text.split()[0] for text in seen] == [n.op for n in nodes]
    assert all(text.endswith(str(n.loc)) for text, n in zip(seen, nodes, strict=True))


@pytest.mark.promise("COMPILER-run-streams")
@pytest.mark.parametrize("mode", ["eager", "replay", "graph"])
def test_a_run_works_on_the_stream_of_its_framework(mode: Any) -> None:
    """All of it: calls, copies and memory of a program are on the one that is current when it runs;
    each stream has a program of its own."""
    used: list[Any] = []

    class Streams(NullBackend):
        now: Any = None

        def current(self, tensors: Any) -> Any:
            return lambda: Streams.now

        def call(self, op: str, *args: Any, **options: Any) -> Any:
            used.append(self.stream)
            return super().call(op, *args, **options)

        def run(self, calls: Any, names: Any = ()) -> None:
            used.append(self.stream)
            super().run(calls, names)

        def empty(self, shape: Any, dtype: str) -> Any:
            used.append(self.stream)
            return super().empty(shape, dtype)

        def capture(self, work: Any, feed: Any = None, **options: Any) -> Any:
            used.append(self.stream)
            return super().capture(work, feed, **options)

    backend = Streams()
    run = ExecutorV2(aicf.trace(lambda x: (x + x) * x, "f32[3]"), backend, mode=mode)
    x = backend.empty((3,), "f32")
    for stream in (None, 7, 7, 9, None, 7):
        Streams.now = stream
        used.clear()
        run(x)
        assert set(used) == {stream}
    assert len(run._bounds) == 3
    assert sum(launch.op == "mul" for launch in backend.launches) == 6
