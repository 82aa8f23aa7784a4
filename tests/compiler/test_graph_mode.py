"""Captured graphs: the same bits as op by op and replayed, nothing frozen in them that may change,
and what happens where nothing can be captured."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import aicf
from aicf.backend.cpu import CpuBackend
from aicf.backend.null import NullBackend
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.training import Training, training_step
from aicf.compiler.runtime.executor import ExecutorV2
from compiler.emulated import Emulated
from compiler.test_executor import batches, forward, values, weights

Array = Any
INPUTS = ("auto", "copy", "repoint")
promise = pytest.mark.promise("MARK-9-graph-bits")


def training(optimizer: str = "adamw", **options: Any) -> Training:
    return training_step(forward(), optimizer, **options)


def executor(of: Training, mode: str = "graph", backend: Any = None, **options: Any) -> ExecutorV2:
    made = ExecutorV2(
        of.graph, backend or Emulated(strict=True), params=weights(), mode=mode, **options  # type: ignore[arg-type]
    )  # fmt: skip
    made.zero(*of.states)
    return made


def same(a: Any, b: Any) -> bool:
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


# ---- the same bits -----------------------------------------------------------------------------


@promise
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("outputs", ["fresh", "reused"])
@pytest.mark.parametrize(
    "optimizer, options",
    [
        ("sgd", {"momentum": 0.9, "states": ("buf",)}),
        ("adamw", {"weight_decay": 0.1}),
        ("rmsprop", {}),
    ],
)
def test_eager_replay_and_graph_are_the_same_bits(
    optimizer: str, options: dict[str, Any], inputs: str, outputs: str
) -> None:
    step = training(optimizer, **options)
    found = []
    for mode in ("eager", "replay", "graph"):
        run = executor(step, mode, inputs=inputs, outputs=outputs)
        losses = []
        for i, (x, y) in enumerate(batches(12)):
            rest = {v.name: i + 1 for v in step.graph.inputs if v.name == "step"}
            losses.append(float(run(x, y, lr=0.1 / (i + 1), **rest)))
        assert run.reasons == {}
        found.append((losses, values(run)))
    for other in found[1:]:
        assert other[0] == found[0][0]
        assert all(same(a, b) for a, b in zip(other[1], found[0][1], strict=True))
    assert len(set(found[0][0])) == 12


@promise
def test_branches_are_what_the_capture_is_asked_for() -> None:
    """Of backends that know of them: one that does not is asked for a chain as ever."""
    step = training()
    for branches in (1, 4):
        run = executor(step, branches=branches)
        x, y = next(iter(batches(1)))
        run(x, y, lr=0.1, step=1)
        assert run.backend.branches == branches
        assert not run.reasons
    for wrong, error in ((0, ValueError), (65, ValueError), (True, TypeError), (2.0, TypeError)):
        with pytest.raises(error, match="branches"):
            executor(step, branches=wrong)
    with pytest.raises(ValueError, match="branches are of mode"):
        executor(step, mode="replay", branches=2)


@pytest.mark.promise("MARK-9-graph-schedule")
def test_a_thousand_steps_under_a_schedule() -> None:
    """Warm-up and cosine: bit for bit those of uncaptured calls, with weights that still move."""
    step = training("adamw", weight_decay=0.01)
    runs = executor(step, "replay"), executor(step, "graph")
    given = list(batches(9))
    for i in range(1000):
        lr = 0.01 * min(1.0, (i + 1) / 50) * (1 + float(np.cos(np.pi * i / 1000))) / 2
        x, y = given[i % 9]
        losses = [float(run(x, y, lr=lr, step=i + 1)) for run in runs]
        assert losses[0] == losses[1], i
    assert all(same(a, b) for a, b in zip(*map(values, runs), strict=True))
    assert len(runs[1].backend.graphs) == 2  # one a size
    assert sum(graph.launches for graph in runs[1].backend.graphs) == 1000


@promise
def test_the_whole_step_is_one_graph() -> None:
    step = training()
    backend = NullBackend()
    run = ExecutorV2(step.graph, backend, mode="graph")
    run.zero(*(p.name for p in run.graph.params))
    x, y = backend.empty((5, 8), "f32"), backend.empty((5,), "i64")
    for i in range(3):
        run(x, y, lr=0.1 * i, step=i + 1)
    nodes = [n.op for n in step.graph.nodes if not n.is_view]
    (graph,) = backend.graphs
    assert graph.nodes == len(nodes)
    assert graph.updates == 0
    ops = [launch.op for launch in backend.launches]
    assert ops[-3 * len(nodes) :] == nodes * 3
    assert set(ops[: -3 * len(nodes)]) <= {"fill"}  # of constants


# ---- what must not be frozen -------------------------------------------------------------------


@pytest.mark.promise("COMPILER-graph-scalars")
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad"])
def test_the_learning_rate_and_the_step_are_those_of_the_run(optimizer: str) -> None:
    step = training(optimizer)
    run, other = executor(step), executor(step, "replay")
    x, y = next(batches(1))
    for i, lr in enumerate((0.1, 0.0, 0.1, 3e-4, 0.1)):
        rest = {"step": 10 * i + 1} if "step" in [v.name for v in step.graph.inputs] else {}
        before = values(run)[:4]
        run(x, y, lr=lr, **rest)
        other(x, y, lr=lr, **rest)
        assert (lr == 0) == all(same(a, b) for a, b in zip(before, values(run), strict=False))
    assert all(same(a, b) for a, b in zip(values(run), values(other), strict=True))
    assert [graph.updates for graph in run.backend.graphs] == [[]]


@pytest.mark.promise("COMPILER-graph-scalars")
def test_a_number_that_is_taken_on_the_host_alone_is_captured_anew() -> None:
    step = training("adam")
    backend = Emulated(strict=True, host_only={"adam"})
    run, other = executor(step, backend=backend), executor(step, "replay")
    x, y = next(batches(1))
    for i in range(5):
        lr = 0.1 / (1 + i // 2)
        assert float(run(x, y, lr=lr, step=i + 1)) == float(other(x, y, lr=lr, step=i + 1))
    assert all(same(a, b) for a, b in zip(values(run), values(other), strict=True))
    assert [len(graph.updates) for graph in backend.graphs] == [4]
    assert run.reasons == {}


@pytest.mark.promise("COMPILER-graph-offset")
def test_seed_and_offset_of_dropout_are_those_of_the_run() -> None:
    graph = Graph()
    x = graph.input("x", "f32[64]")
    seed, offset = graph.input("seed", "i64"), graph.input("offset", "i64")
    graph.output(graph.add("dropout", x, seed=seed, offset=offset, p=0.5).out)
    run = ExecutorV2(graph, Emulated(strict=True), mode="graph")
    other = ExecutorV2(graph, CpuBackend(), mode="eager")
    ones = np.ones(64, "f4")
    seen = set()
    for key, at in [(1, 0), (1, 1), (2, 1), (1, 0), (2**62, 2**40), (-1, 3)]:
        found = run(ones, seed=key, offset=at)
        assert same(found, other(ones, seed=key, offset=at))
        seen.add(np.asarray(found).tobytes())
    assert len(seen) == 5
    assert len(run.backend.graphs) == 1


@pytest.mark.promise("COMPILER-graph-scalars")
@pytest.mark.parametrize("dtype", ["bool", "i8", "u8", "i32", "i64", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("named", [False, True])
def test_numbers_are_rounded_as_calls_round_them(dtype: str, named: bool) -> None:
    """A number on the device has the bits that the call would have made of it."""
    graph = Graph()
    x, value = graph.input("x", f"{dtype}[3]"), graph.input("value", dtype)
    graph.output(*graph.add("fill", x, value=value).results)
    backend = Emulated(strict=True)
    given: tuple[Any, ...] = (0, 1, 127)
    if dtype == "bool":
        given = (True, False, True)
    elif "f" in dtype:
        given = (0.1, -0.0, 1e-6, 65504.0, 65519.9, 65520.0, 1 + 2**-11, 1 + 2**-8 + 2**-30, 3e38,
                 3.4e38, 1e300, float("inf"), float("nan"), 5, np.float64(0.3))  # fmt: skip
    elif dtype == "i64":
        given = (0, -1, 2**63 - 1, -(2**63), np.int64(7))
    runs = [ExecutorV2(graph, backend, mode=mode) for mode in ("replay", "graph")]
    memory = backend.empty((3,), dtype)
    for number in given:
        outs = []
        for run in runs:
            x = memory if named else backend.empty((3,), dtype)
            backend.fill_bytes(x, 0x55)
            try:
                run(x, **{"value": number}) if named else run(x, number)
            except (TypeError, ValueError, OverflowError, aicf.IRError) as error:
                outs.append(f"{type(error).__name__}: {error}".encode())
            else:
                outs.append(backend.to_host(x).tobytes())
        assert outs[0] == outs[1], number
    assert runs[1].reasons == {}


# ---- what must not be lost, advanced or overwritten ----------------------------------------------


@pytest.mark.promise("COMPILER-graph-in-place")
@pytest.mark.parametrize("inputs", INPUTS)
def test_an_input_that_is_updated_and_not_returned(inputs: str) -> None:
    def bump(x: Any, y: Any) -> Any:
        aicf.ops.sgd([y], [x], lr=-1.0)
        return x + x

    graph = aicf.trace(bump, "f32[4]", "f32[4]")
    run = ExecutorV2(graph, Emulated(strict=True), mode="graph", inputs=inputs)  # type: ignore[arg-type]
    kept = np.zeros(4, "f4")
    for i in range(6):
        y = np.zeros(4, "f4")
        x = np.full(4, i, "f4")
        for count in (1, 2):
            assert same(run(x, y), x + x)
            assert (y == count * i).all()
        run(x, kept)
    assert (kept == 15).all()


@pytest.mark.promise("COMPILER-graph-in-place")
def test_what_is_given_back_of_an_input_is_the_input() -> None:
    def show(x: Any, y: Any) -> Any:
        return x, x.T, x + y

    run = ExecutorV2(
        aicf.trace(show, "f32[2, 3]", "f32[2, 3]"), Emulated(), mode="graph", inputs="copy"
    )
    for i in range(4):
        x, y = np.full((2, 3), i, "f4"), np.ones((2, 3), "f4")
        same_x, turned, total = run(x, y)
        assert same_x is x
        assert np.shares_memory(np.asarray(turned), x)
        assert same(total, x + y)


@pytest.mark.promise("COMPILER-graph-micro-batches")
@pytest.mark.parametrize("outputs", ["fresh", "reused"])
def test_gradients_of_four_micro_batches(outputs: str) -> None:
    """Summed while the next ones are computed; reused ones are summed before."""
    graph = aicf.grad(forward())
    run = ExecutorV2(graph, Emulated(), params=weights(), mode="graph", outputs=outputs)  # type: ignore[arg-type]
    other = ExecutorV2(graph, CpuBackend(), params=weights(), mode="eager")
    given = list(batches(12))[1::3]
    expected = [[np.array(g) for g in other(x, y)] for x, y in given]
    if outputs == "fresh":
        found = [run(x, y) for x, y in given]
    else:
        found = [[np.array(g) for g in run(x, y)] for x, y in given]
    for a, b in zip(found, expected, strict=True):
        assert all(same(g, h) for g, h in zip(a, b, strict=True))


@pytest.mark.promise("COMPILER-graph-micro-batches")
def test_accumulated_in_place() -> None:
    """Four backward runs into one accumulator, then a step: two executors over the same memory."""
    graph = aicf.grad(forward())

    def add_up(mode: str) -> list[Array]:
        backend = Emulated(strict=True)
        run = ExecutorV2(graph, backend, params=weights(), mode=mode, outputs="reused")  # type: ignore[arg-type]
        sums = [np.zeros_like(w) for w in weights().values()]

        def accumulate(*pairs: Any) -> Any:
            half = len(pairs) // 2
            aicf.ops.sgd(list(pairs[:half]), list(pairs[half:]), lr=-0.25)

        types = [f"f32[{', '.join(map(str, w.shape))}]" for w in weights().values()]
        total = ExecutorV2(aicf.trace(accumulate, *types, *types), backend, mode=mode)  # type: ignore[arg-type]
        for x, y in list(batches(12))[1::3]:
            total(*sums, *run(x, y))
        return sums

    assert all(same(a, b) for a, b in zip(add_up("graph"), add_up("eager"), strict=True))


@pytest.mark.promise("COMPILER-graph-warm-ups")
@pytest.mark.parametrize("warm_ups", [0, 1, 2, 3, 4])
def test_warm_ups_change_nothing(warm_ups: int) -> None:
    """Neither preparing nor capturing is a run: whatever came before, a step is the next one."""
    step = training("adamw", weight_decay=0.1)
    run, other = executor(step), executor(step, "eager")
    x, y = next(batches(1))
    before = values(run)
    for _ in range(warm_ups):
        run.prepare(x, y, lr=0.1, step=1)
        run.per_op(x, y, lr=0.1, step=1, count=1)
        run.kernels(x, y, lr=0.1, step=1)
    assert all(same(a, b) for a, b in zip(before, values(run), strict=True))
    assert sum(graph.launches for graph in run.backend.graphs) == 0
    for i in range(4):
        assert float(run(x, y, lr=0.1, step=i + 1)) == float(other(x, y, lr=0.1, step=i + 1))
    assert all(same(a, b) for a, b in zip(values(run), values(other), strict=True))
    assert len(run.backend.graphs) == 1


@pytest.mark.promise("COMPILER-graph-warm-ups")
def test_running_statistics_do_not_advance_when_captured() -> None:
    def norm(x: Any, mean: Any, var: Any, m: Any, v: Any) -> Any:
        aicf.ops.running_stats(mean, var, m, v, count=8, momentum=0.5)
        return x + x

    row = "f32[3]"
    graph = aicf.trace(norm, row, aicf.param(row), aicf.param(row), row, row)
    found = []
    for mode in ("eager", "graph"):
        params = {v.name: np.zeros(3, "f4") for v in graph.params}
        run = ExecutorV2(graph, Emulated(strict=True), params=params, mode=mode)
        x = np.ones(3, "f4")
        if mode == "graph":
            run.prepare(x, x, x)
            assert not any(values(run)[0])
        for _ in range(3):
            run(x, x, x)
        found.append(values(run))
    assert all(same(a, b) for a, b in zip(*found, strict=True))
    assert found[0][0].any()


# ---- weights and inputs that move ----------------------------------------------------------------


@pytest.mark.promise("COMPILER-graph-moved")
def test_a_weight_that_is_another_tensor_is_captured_anew() -> None:
    step = training("sgd")
    run, other = executor(step), executor(step, "eager")
    given = list(batches(9))[1::3]
    for i, (x, y) in enumerate(given * 3):
        if i % 2:
            for each in (run, other):
                old = np.array(each.param("w1"))
                each.adopt("w1", old.copy())
        assert float(run(x, y, lr=0.1)) == float(other(x, y, lr=0.1))
    assert all(same(a, b) for a, b in zip(values(run), values(other), strict=True))
    assert len(run.backend.graphs) == 1


@pytest.mark.promise("COMPILER-graph-moved")
@pytest.mark.guests("torch")
@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("mode", ["eager", "replay", "graph"])
def test_a_tensor_of_torch_that_is_given_other_memory(mode: str, is_own: bool) -> None:
    """`x.data = ...` and `resize_` of what is adopted or given: seen at the next run."""
    import torch

    class Own(torch.Tensor):  # type: ignore[misc]
        pass

    graph = aicf.trace(lambda x, w: x * w, "f32[3]", aicf.param("f32[3]"))
    run = ExecutorV2(graph, Emulated(), params={}, mode=mode)  # type: ignore[arg-type]
    w, x = torch.ones(3), torch.ones(3)
    if is_own:
        w, x = w.as_subclass(Own), x.as_subclass(Own)
    run.adopt("w", w)
    for i in range(5):
        assert np.asarray(run(x)).tolist() == (x * w).tolist()
        w.data = torch.full((3,), float(i))
        assert np.asarray(run(x)).tolist() == (x * w).tolist()
        x.data = torch.full((3,), i + 0.5)
        assert np.asarray(run(x)).tolist() == (x * w).tolist()
        x.untyped_storage().resize_(4096 << i)
        x.fill_(2.0)
        assert np.asarray(run(x)).tolist() == (x * w).tolist()
    x.data = x.data.view(torch.int32)  # where it was
    with pytest.raises(TypeError, match=r"x must be f32\[3\], and not i32\[3\]"):
        run(x)
    x.data = x.data.view(torch.float32)
    assert np.asarray(run(x)).tolist() == (x * w).tolist()
    x.resize_(4)
    with pytest.raises((TypeError, ValueError, aicf.IRError)):
        run(x)


@pytest.mark.promise("MARK-9-graph-inputs")
@pytest.mark.parametrize(
    "inputs, updates", [("auto", 3), ("copy", 0), ("repoint", 5)]
)  # fmt: skip
def test_how_inputs_reach_a_graph(inputs: Any, updates: int) -> None:
    """Read where they lie, copied, or copied once they have come as others twice."""
    run = ExecutorV2(
        aicf.trace(lambda x, y: x * y, "f32[3]", "f32[3]"), Emulated(strict=True), mode="graph",
        inputs=inputs,
    )  # fmt: skip
    y = np.full(3, 2, "f4")
    for i in range(6):
        x = np.full(3, i, "f4")
        for _ in range(2):
            assert same(run(x, y), x * y)
            x += 1  # where it lies
            assert same(run(x, y), x * y)
    (graph,) = run.backend.graphs
    assert len(graph.updates) == updates


@pytest.mark.promise("MARK-9-graph-inputs")
def test_what_cannot_stand_for_a_copied_input_is_refused_as_by_calls() -> None:
    run = ExecutorV2(
        aicf.trace(lambda x: x + x, "f32[3]"), Emulated(strict=True), mode="graph", inputs="copy"
    )
    good = np.ones(3, "f4")
    run(good)
    for wrong in (np.ones(3), np.ones(4, "f4"), [1, 2, 3], None, "x"):
        with pytest.raises((TypeError, ValueError, aicf.IRError)):
            run(wrong)
        assert same(run(good), good + good)


# ---- what fails ----------------------------------------------------------------------------------


@pytest.mark.promise("MARK-9-graph-falls-back")
def test_a_capture_that_fails_is_replayed_and_not_tried_again() -> None:
    step = training()
    backend = Emulated(strict=True, refused="the driver is too old")
    run, other = executor(step, backend=backend), executor(step, "eager")
    x, y = next(batches(1))
    for i in range(5):
        lr = 0.1 / (i + 1)
        assert float(run(x, y, lr=lr, step=i + 1)) == float(other(x, y, lr=lr, step=i + 1))
        x = x.copy()
    assert backend.tries == 1
    assert run.reasons == {"N = 7": "the driver is too old"}
    for n in range(1, 30):
        run(x[:1].repeat(n, 0), y[:1].repeat(n, 0), lr=0.1, step=9)
    assert backend.tries <= 8
    assert run.reasons["N = 29"] == "the driver is too old"
    assert all(
        same(a, b) for a, b in zip(values(executor(step)), values(executor(step)), strict=True)
    )


@pytest.mark.promise("MARK-9-graph-falls-back")
def test_a_backend_without_graphs_replays() -> None:
    step = training()
    run, other = executor(step, backend=CpuBackend()), executor(step, "replay")
    for i, (x, y) in enumerate(batches(6)):
        assert float(run(x, y, lr=0.1, step=i + 1)) == float(other(x, y, lr=0.1, step=i + 1))
    assert run.reasons == dict.fromkeys(("N = 7", "N = 12"), "cpu has no graphs")


@pytest.mark.promise("COMPILER-graph-refused-update")
def test_a_refused_update_is_not_retried_for_ever() -> None:
    backend = Emulated(strict=True)
    run = ExecutorV2(aicf.trace(lambda x: x + x, "f32[3]"), backend, mode="graph", inputs="repoint")
    assert same(run(np.ones(3, "f4")), np.full(3, 2, "f4"))
    backend.refused = "topologies differ"
    for i in range(5):
        assert same(run(np.full(3, i, "f4")), np.full(3, 2 * i, "f4"))
    assert run.reasons == {"": "topologies differ"}
    assert (backend.tries, backend.graphs[0].launches) == (1, 1)


@pytest.mark.promise("MARK-9-graph-falls-back")
def test_a_step_without_a_kernel_is_named() -> None:
    pytest.importorskip("torch")
    import aicf_rt

    class Without(Emulated):
        def launch(self, row: Any, args: Any, options: Any) -> Any:
            if row.name == "exp":
                raise aicf_rt.Unsupported("no kernel of this device")
            return super().launch(row, args, options)

        def bind(self, op: str, named: dict[str, Any]) -> Any:
            if op == "exp":
                raise aicf_rt.Unsupported("no kernel of this device")
            return super().bind(op, named)

    run = ExecutorV2(aicf.trace(lambda x: aicf.ops.exp(x + x), "f32[3]"), Without(), mode="graph")
    for i in range(3):
        assert np.allclose(np.asarray(run(np.full(3, i, "f4"))), np.exp(2.0 * i))
    assert run.reasons == {"": "exp falls back: no kernel of this device"}


@pytest.mark.promise("MARK-9-graph-falls-back")
def test_a_number_that_a_row_refuses_is_refused_and_not_captured() -> None:
    """As by calls: in the same words, and the next run is right."""
    step = training("adam")
    run, other = executor(step), executor(step, "replay")
    x, y = next(batches(1))
    for first in (True, False):
        for wrong in (0, -3, 2**70, 1.5, "1", None, x):
            words = []
            for each in (run, other):
                with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
                    each(x, y, lr=0.1, step=wrong)
                words.append(str(caught.value))
            assert words[0] == words[1]
        if first:
            assert float(run(x, y, lr=0.1, step=1)) == float(other(x, y, lr=0.1, step=1))
    assert float(run(x, y, lr=0.1, step=2)) == float(other(x, y, lr=0.1, step=2))
    assert run.reasons == {}


# ---- looking at it -------------------------------------------------------------------------------


@pytest.mark.promise("MARK-9-graph-per-op")
def test_ops_of_a_captured_graph_are_timed_one_by_one() -> None:
    """With the numbers and inputs of the run, over memory that it left; nothing advances."""
    step = training("adamw")
    run, other = executor(step, inputs="copy"), executor(step, "replay")
    x, y = next(batches(1))
    for i in (1, 2, 3):
        times = run.per_op(x.copy(), y, lr=0.1 / i, step=i, count=2)
        assert float(run(x, y, lr=0.1, step=i)) == float(other(x, y, lr=0.1, step=i))
    assert all(same(a, b) for a, b in zip(values(run), values(other), strict=True))
    nodes = [n for n in step.graph.nodes if not n.is_view]
    assert [(t.op, t.loc) for t in times] == [(n.op, n.loc) for n in nodes]
    assert all(t.seconds > 0 and t.kernel for t in times)
    assert len(run.backend.graphs) == 1


@pytest.mark.promise("MARK-9-graph-per-op")
@pytest.mark.parametrize("mode", ["eager", "replay", "graph"])
def test_the_program_of_sizes_that_did_not_come(mode: str) -> None:
    step = training("adamw")
    run, other = executor(step, mode), executor(step, "eager")
    before = values(run)
    program = run.program(N=12)
    assert [s.node.op for s in program.steps] == [n.op for n in step.graph.nodes if not n.is_view]
    assert all(same(a, b) for a, b in zip(before, values(run), strict=True))
    for i, (x, y) in enumerate(batches(4)):
        assert float(run(x, y, lr=0.1, step=i + 1)) == float(other(x, y, lr=0.1, step=i + 1))
    with pytest.raises(TypeError, match="mlp: N missing"):
        run.program()
    with pytest.raises(aicf.IRError, match="no symbol M"):
        run.program(N=1, M=2)


@pytest.mark.promise("MARK-9-graph-per-op")
def test_ranges_are_of_the_graph_and_of_ops_that_are_timed(monkeypatch: Any) -> None:
    """A launch of a graph is one range; by ops it is told apart where they are timed."""
    from aicf.backend import nvtx

    seen: list[str] = []
    monkeypatch.setattr(nvtx, "_found", (seen.append, lambda: None))
    run = ExecutorV2(forward(), Emulated(), params=weights(), mode="graph")
    x, y = next(batches(1))
    run(x, y)
    assert not seen
    nodes = [n for n in run.graph.nodes if not n.is_view]
    with aicf.nvtx():
        run(x, y)
        assert seen == [f"graph mlp, {len(nodes)} launches"]
        seen.clear()
        times = run.per_op(x, y, count=1)
    kept = [text for text in seen if not text.startswith("graph")][-len(nodes) :]
    assert kept == [f"{t.op} {t.kernel} {t.loc}" for t in times]
    seen.clear()
    run(x, y)
    assert not seen


@pytest.mark.promise("MARK-9-graph-per-op")
@pytest.mark.parametrize("inputs", INPUTS)
def test_calls_that_are_launched_one_by_one_have_the_numbers_of_the_run(inputs: Any) -> None:
    graph = Graph()
    x, y, value = (
        graph.input("x", "f32[3]"),
        graph.input("y", "f32[3]"),
        graph.input("value", "f32"),
    )
    graph.output(graph.add("scale", x, factor=value).out)
    graph.add("sgd", [y], [graph.outputs[0]], lr=-1.0)
    run = ExecutorV2(graph, Emulated(), mode="graph", inputs=inputs)
    sums = np.zeros(3, "f4")
    for i in range(1, 5):
        run.prepare(np.full(3, i, "f4"), sums, 10.0)
        program = run.program()
        for step in program.steps:
            program.run_step(step)
    assert sums.tolist() == [100, 100, 100]


@pytest.mark.promise("COMPILER-run-memory")
@pytest.mark.parametrize("options", [
    {"mode": "eager"}, {"mode": "replay"}, {"mode": "replay", "outputs": "reused"},
    {"mode": "graph"}, {"mode": "graph", "inputs": "copy", "outputs": "reused"},
    {"mode": "graph", "buckets": "auto"},
])  # fmt: skip
def test_memory_goes_when_the_executor_goes(options: dict[str, Any]) -> None:
    """At once, and not when cycles are looked for: a device's memory is scarce."""
    graph = aicf.trace(lambda x, w: aicf.ops.bias_add(aicf.ops.relu(x), w), "f32[N, 3]",
                       aicf.param("f32[3]"), symbols={"N": (1, 9)})  # fmt: skip
    backend = Emulated()
    made: list[Any] = []

    class Kept(np.ndarray[Any, Any]):
        """An array that knows when it goes."""

    empty = backend.empty

    def noted(shape: Any, dtype: str) -> Any:
        found = np.asarray(empty(shape, dtype)).view(Kept)
        made.append(weakref.ref(found))
        return found

    backend.empty = noted  # type: ignore[method-assign]
    run = ExecutorV2(graph, backend, params={"w": np.ones(3, "f4")}, **options)
    gc.collect()
    gc.disable()
    try:
        for n in (2, 3, 2):
            run(np.ones((n, 3), "f4"))
            run.per_op(np.ones((n, 3), "f4"), count=1)
        assert any(x() is not None for x in made)
        backend.graphs.clear()
        del run
        assert [x().shape for x in made if x() is not None] == []
    finally:
        gc.enable()
