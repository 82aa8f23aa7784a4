"""Layout: NHWC is chosen where it wins, and graphs mean the same either way."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aicf
from aicf import Graph, ops, param
from aicf.backend.cpu import CpuBackend
from aicf.backend.device import Device
from aicf.compiler.ir.emit import Emitter, tensor
from aicf.compiler.ir.training import training_step
from aicf.compiler.kernels.record import Record
from aicf.compiler.kernels.registry import Candidates
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.selector import Selector
from aicf.compiler.kernels.store import FILE, Store
from aicf.compiler.passes.layout import Layout
from aicf.compiler.passes.layout_costs import Costs, computing
from aicf.compiler.passes.layout_forms import LAST, REFUSALS, lying, side_of
from aicf.compiler.passes.mincut import FOREVER, Choices
from aicf.compiler.passes.rule import Context
from aicf.compiler.runtime.interpret import interpret

PARAMS = {
    "k1": "f32[16, 3, 3, 3]",
    "c1": "f32[16]",
    "k2": "f32[32, 16, 3, 3]",
    "c2": "f32[32]",
    "w": "f32[128, 10]",
    "b": "f32[10]",
}


def forward(x: Any, k1: Any, c1: Any, k2: Any, c2: Any, w: Any, b: Any) -> Any:
    h = ops.max_pool2d(ops.relu(ops.conv2d(x, k1, c1, pad=1)), window=2, stride=2)
    h = ops.relu(ops.conv2d(ops.batch_norm(h), k2, c2, pad=1))
    h = ops.max_pool2d(h + h * 0.5, window=2, stride=2)
    return ops.gemm(h.reshape(x.shape[0], 128), w, b)


def loss(x: Any, y: Any, *weights: Any) -> Any:
    return ops.cross_entropy(forward(x, *weights), y)


def traced(function: Any, *more: str) -> Graph:
    given = [param(t) for t in PARAMS.values()]
    return aicf.trace(function, "f32[N, 3, 8, 8]", *more, *given, symbols={"N": (2, 4096)})


def is_last(request: Request) -> bool:
    spec = request.flat()[0]
    return side_of(aicf.TensorType(spec.dtype, spec.shape, spec.strides)) == LAST


def last_wins(request: Request) -> float:
    """Seconds of a device that likes NHWC."""
    dear = (
        request.row.name != "permute" and not is_last(request) and len(request.flat()[0].shape) == 4
    )
    return 1e-4 if dear else 1e-6


def rows_win(request: Request) -> float:
    return 1e-4 if is_last(request) else 1e-6


def data(graph: Graph, size: int = 5) -> dict[str, Any]:
    draw = np.random.default_rng(3)
    found: dict[str, Any] = {}
    for v in graph.entries:
        shape = [n if isinstance(n, int) else size for n in getattr(v.type, "shape", ())]
        found[v.name] = draw.standard_normal(shape).astype("f4") * 0.2
        if getattr(v.type, "strides", None) is not None:
            whole = draw.standard_normal(256).astype("f4")
            steps = [4 * n for n in tensor(v).steps]
            found[v.name] = np.lib.stride_tricks.as_strided(whole, shape, steps)
        if v.type.dtype == "i64":
            found[v.name] = draw.integers(0, 10, shape)
        if v.name.endswith(".v") or v.name.endswith(".m"):
            found[v.name] *= 0
    return found | {"lr": 1e-2, "step": 1}


def same(a: Graph, b: Graph, places: float = 1e-4) -> None:
    """Two graphs give and update the same values."""
    one, two = data(a), data(b)
    for x, y in zip(interpret(a, one), interpret(b, two), strict=True):
        assert x.shape == y.shape
        assert np.abs(x - y).max() <= places
    for v in a.params:
        assert np.abs(one[v.name] - two[v.name]).max() <= places, v


def turns(graph: Graph) -> int:
    return sum(n.op == "permute" for n in graph.nodes)


def by_reason(found: Any) -> dict[str, Any]:
    return {r.reason: r for r in found.refused}


# ---- choosing -----------------------------------------------------------------------------------


@pytest.mark.promise("AICF-layout")
def test_a_region_lies_as_nhwc_where_that_wins() -> None:
    graph = traced(forward)
    before = graph.text()
    found = Layout(last_wins).run(graph)
    assert graph.text() == before
    found.graph.verify()
    convolutions = [n for n in found.graph.nodes if n.op in ("conv2d", "max_pool2d", "batch_norm")]
    assert len(convolutions) == 5
    assert all(side_of(n.out.type) == LAST for n in convolutions)
    assert turns(found.graph) == 4  # the image, two filters, and back before the rows
    (fired,) = found.fired
    assert fired.rule == "layout"
    assert any("conv2d" in line for line in fired.nodes)
    assert any("permute" in line for line in fired.by)
    same(graph, found.graph)


@pytest.mark.promise("AICF-layout")
def test_what_wins_nothing_stays_the_same_object() -> None:
    graph = traced(forward)
    for seconds in (rows_win, lambda request: 1e-6, None):
        found = Layout(seconds).run(graph, Context(backend=CpuBackend(strict=True)))
        assert found.graph is graph
        assert not found.fired
        assert "which is the least" in by_reason(found)["no-gain"].detail
    assert Layout(last_wins).run(aicf.trace(lambda x: x @ x, "f32[4, 4]")).refused == ()


@pytest.mark.promise("AICF-layout")
def test_a_gain_below_the_margin_is_refused_with_both_times() -> None:
    graph = traced(forward)
    found = Layout(last_wins, margin=0.99).run(graph)
    assert found.graph is graph
    refused = by_reason(found)["no-gain"]
    assert "another way" in refused.detail
    assert "99%" in refused.detail
    assert refused.loc is not None
    assert "conv2d" in refused.node


@pytest.mark.promise("AICF-layout")
def test_turning_that_costs_more_than_it_gains_is_not_done() -> None:
    graph = traced(forward)
    dear = Layout(lambda q: 1.0 if q.row.name == "permute" else last_wins(q)).run(graph)
    assert dear.graph is graph


@pytest.mark.promise("AICF-layout")
def test_a_training_step_is_the_same_step() -> None:
    step = training_step(traced(loss, "i64[N]"), "adamw", states=())
    found = Layout(last_wins).run(step.graph)
    found.graph.verify()
    ops_last = {n.op for n in found.graph.nodes if n.outs and side_of(n.outs[0].type) == LAST}  # type: ignore[union-attr]
    assert {"conv2d", "conv2d_dx", "conv2d_dw", "batch_norm_bwd", "max_pool2d_bwd"} <= ops_last
    bias = [n for n in found.graph.nodes if n.op == "bias_add_bwd"]
    assert [n.attrs["axis"] for n in bias] == [3, 3]  # seen with its channels last, nothing copied
    same(step.graph, found.graph, places=0.03)  # AdamW divides gradients that are nearly 0
    again = Layout(last_wins).run(found.graph)
    assert again.graph is found.graph  # there is nothing more to win


@pytest.mark.promise("AICF-layout")
def test_turns_that_undo_each_other_are_taken_out() -> None:
    step = training_step(traced(loss, "i64[N]"), "sgd")
    last = Layout(last_wins).run(step.graph).graph
    back = Layout(rows_win).run(last).graph
    back.verify()
    assert turns(last) == 7
    assert turns(back) == 2  # for the rows that were made to go along the last axis
    same(step.graph, back)
    pair = Graph.parse(
        "graph g {\n  input %x: f32[2, 3, 4, 4]\n"
        "  %a: f32[2, 4, 4, 3] = permute(%x, perm=(0, 2, 3, 1))\n"
        "  %b: f32[2, 3, 4, 4; 48, 1, 12, 3] = view.permute(%a, perm=(0, 3, 1, 2))\n"
        "  %c: f32[2, 3, 4, 4] = copy(%b)\n"
        "  %d: f32[2, 3, 2, 2], _ = max_pool2d(%c, window=(2, 2), stride=(2, 2))\n"
        "  return %d\n}\n"
    )
    found = Layout(lambda request: 1e-6).run(pair)
    assert [n.op for n in found.graph.nodes] == ["max_pool2d"]
    same(pair, found.graph)


@pytest.mark.promise("AICF-layout")
def test_a_copy_that_keeps_what_is_updated_later_stays() -> None:
    source = (
        "graph g {\n  param %x: f32[2, 3, 4, 4]\n"
        "  %a: f32[2, 4, 4, 3] = permute(%x, perm=(0, 2, 3, 1))\n"
        "  %b: f32[2, 3, 4, 4; 48, 1, 12, 3] = view.permute(%a, perm=(0, 3, 1, 2))\n"
        "  x -> %x_1: f32[2, 3, 4, 4] = fill(%x, value=0.0)\n"
        "  %d: f32[2, 3, 2, 2; 12, 1, 6, 3], _ = max_pool2d(%b, window=(2, 2), stride=(2, 2))\n"
        "  return %d\n}\n"
    )
    graph = Graph.parse(source)
    found = Layout(rows_win).run(graph)
    found.graph.verify()
    assert [n.op for n in found.graph.nodes].count("permute") >= 1
    one, two = data(graph), data(graph)
    (a,), (b,) = interpret(graph, one), interpret(found.graph, two)
    assert np.abs(a).max() > 0
    assert np.array_equal(a, b)


@pytest.mark.promise("AICF-layout")
def test_sizes_may_be_those_of_a_run_but_not_one() -> None:
    def net(x: Any, k: Any) -> Any:
        h = ops.max_pool2d(ops.relu(ops.conv2d(x, k, pad=1)), window=2, stride=2)
        return ops.max_pool2d(h, window=2, stride=2)

    symbols = {"N": (0, 64), "H": (4, 64), "W": (5, 64), "C": (1, 8)}
    graph = aicf.trace(net, "f32[N, 3, H, W]", param("f32[8, 3, 3, 3]"), symbols=symbols)
    found = Layout(last_wins).run(graph)
    assert "%max_pool2d_1: f32[N, 8, " in by_reason(found)["maybe-one"].detail
    lasts = [n.op for n in found.graph.nodes if n.outs and side_of(n.out.type) == LAST]
    assert lasts == ["view.permute", "view.permute", "conv2d", "relu", "max_pool2d"]
    draw = np.random.default_rng(1)
    k = draw.standard_normal((8, 3, 3, 3)).astype("f4")
    for n, h, w in ((1, 4, 5), (2, 4, 9), (3, 17, 64)):
        given = {"x": draw.standard_normal((n, 3, h, w)).astype("f4"), "k": k}
        exact, ours = (interpret(g, given)[0] for g in (graph, found.graph))
        assert np.abs(exact - ours).max() <= 1e-4
    found.graph.bind({"N": 0, "H": 4, "W": 5})
    any_c = aicf.trace(net, "f32[N, C, H, W]", "f32[8, C, 3, 3]", symbols=symbols)
    kept = Layout(last_wins).run(any_c)
    assert ("maybe-one", "%x: f32[N, C, H, W]") in [(r.reason, r.detail) for r in kept.refused]
    kept.graph.bind({"N": 1, "C": 1, "H": 4, "W": 5})


# ---- refusals -----------------------------------------------------------------------------------

BODIES = {
    "in-place": "  x -> %y: f32[2, 3, 4, 4] = fill(%x, value=1.0)\n",
    "strided": "  %s: f32[2, 3, 2, 4; 48, 16, 4, 1] = view.slice("
    "%x, axis=2, start=0, stop=2, step=1)\n"
    "  %y: f32[2, 3, 2, 4; 24, 8, 4, 1] = relu(%s)\n",
    "mixed": "  %t: f32[2, 4, 4, 3] = permute(%x, perm=(0, 2, 3, 1))\n"
    "  %y: f32[2, 3, 4, 4; 48, 1, 12, 3] = view.permute(%t, perm=(0, 3, 1, 2))\n"
    "  %z: f32[2, 3, 4, 4] = add(%x, %y)\n",
    "no-kernel": "  %y: f32[2, 3, 4, 4] = dropout(%x, seed=1, p=0.5)\n",
    "order-lost": "  %y: f32[3, 2, 4, 4] = permute(%x, perm=(1, 0, 2, 3))\n",
    "view": "  %y: f32[2, 48] = view.reshape(%x, shape=(2, 48))\n",
}


@pytest.mark.promise("AICF-layout")
@pytest.mark.parametrize("reason", BODIES)
def test_what_stays_as_it_is_has_its_reason_by_name(reason: str) -> None:
    entry = "param" if reason == "in-place" else "input"
    pool = "  %p: f32[2, 3, 2, 2], _ = max_pool2d(%q, window=(2, 2), stride=(2, 2))\n"
    source = f"graph g {{\n  {entry} %x: f32[2, 3, 4, 4]\n  input %q: f32[2, 3, 4, 4]\n"
    graph = Graph.parse(f"{source}{pool}{BODIES[reason]}  return %p\n}}\n")
    found = Layout(lambda request: 1e-6).run(graph)
    assert reason in by_reason(found), found.refused
    assert reason in REFUSALS
    assert set(by_reason(found)) <= set(REFUSALS)


@pytest.mark.promise("AICF-layout")
def test_where_no_kernel_is_here_it_says_so() -> None:
    graph = traced(forward)
    found = Layout(lambda request: None if is_last(request) else 1e-6).run(graph)
    assert found.graph is graph
    assert by_reason(found)["not-here"].detail == "as NHWC"


# ---- any graph ----------------------------------------------------------------------------------


def any_graph(draw: random.Random) -> Graph:
    """Of tensors of four dims, made by what takes them either way, one way or turned."""
    graph = Graph()
    sizes = (draw.choice((1, 2)), draw.choice((1, 2, 4, 4)), draw.choice((1, 4, 4)), 4)
    types = [f"f32[{', '.join(map(str, sizes))}]"] * 2
    pool = [graph.input("x", types[0]), graph.param("p", types[1])]
    last = f"f32[2, 4, 4, 4; {', '.join(map(str, draw.choice(((64, 1, 16, 4), (128, 16, 4, 1)))))}]"
    pool.append(graph.input("strided", last))
    for i in range(draw.randint(4, 12)):
        readable = [v for v in pool if graph.overwritten_by(v) is None]
        x = draw.choice(readable)
        n, c, h, w = tensor(x).shape
        like = [v for v in readable if tensor(v).shape == (n, c, h, w)]
        emit = Emitter(graph)
        match draw.randrange(10):
            case 0:
                k = graph.param(f"k{i}", f"f32[{draw.choice((1, 4))}, {c}, 3, 3]")
                pool.append(emit.node("conv2d", x, k, pad=1).out)
            case 1 if h > 1 and w > 1:
                pool.append(emit.node("max_pool2d", x, window=2, stride=draw.choice((1, 2))).out)
            case 2 if n * h * w > 1:
                pool.append(emit.node("batch_norm", x).out)
            case 3:
                pool.append(emit.node("add", x, draw.choice(like)).out)
            case 4:
                pool.append(emit.node("bias_add", x, graph.param(f"b{i}", f"f32[{c}]")).out)
            case 5:
                pool.append(emit.copy(x))
            case 6:
                turned = emit.node("permute", x, perm=(0, 2, 3, 1)).out
                pool.append(emit.permute(turned, (0, 3, 1, 2)))
            case 7 if graph.buffer_of(x) in graph.params and x.type == graph.buffer_of(x).type:
                state = emit.node("fill", x, value=0.5).states["x"]
                assert not isinstance(state, tuple)
                pool.append(state)
            case 8:
                pool.append(emit.reshape(emit.reshape(x, (n * c * h * w,)), (n, c, h, w)))
            case _:
                pool.append(emit.node("relu", x).out)
    readable = [v for v in pool[3:] if graph.overwritten_by(v) is None]
    graph.output(*draw.sample(readable, min(3, len(readable))))
    return graph


@pytest.mark.promise("AICF-layout")
@pytest.mark.parametrize("seed", range(4))
def test_any_graph_means_the_same_whatever_things_cost(seed: int) -> None:
    fired = 0
    for i in range(20):
        draw = random.Random(100 * seed + i)
        graph = any_graph(draw)
        known: dict[Any, float] = {}

        def seconds(request: Request, known: Any = known, draw: Any = draw) -> float | None:
            if draw.random() < 0.05:
                return None
            return float(known.setdefault(request, draw.choice((0.0, 1.0, 1.0, 3.0, 20.0))))

        found = Layout(seconds).run(graph)
        found.graph.verify()
        fired += bool(found.fired)
        assert [v.type for v in found.graph.outputs] == [v.type for v in graph.outputs]
        same(graph, found.graph)
    assert fired >= 4


# ---- costs --------------------------------------------------------------------------------------


@pytest.mark.promise("AICF-layout")
def test_a_measured_time_is_not_compared_with_a_guess() -> None:
    row = aicf.Table.default()["max_pool2d"]
    text = "max_pool2d(f32[8, 16, 32, 32{}], window=(2, 2), stride=(2, 2))"
    rows = Request.parse(aicf.Table.default(), text.format(""))
    last = Request.parse(aicf.Table.default(), text.format("; 16384, 1, 512, 16"))
    assert rows.row is row
    device = Device("cpu", "x86-64", "a CPU", bandwidth=1e10)
    guessed = Costs(device, "cpu").both(rows, last)
    assert guessed is not None
    assert guessed[0] < guessed[1]

    class Known(Costs):
        def _measured(self, request: Request, legal: Any) -> float | None:
            return 7.0 if is_last(request) else None

    known = Known(device, "cpu").both(rows, last)
    assert known is not None
    assert known[1] == 7.0
    assert known[0] / known[1] == pytest.approx(guessed[0] / guessed[1])
    assert Costs(device, "cpu").of(Request.parse(aicf.Table.default(), "relu(f32[4])")) is not None


@pytest.mark.promise("AICF-layout")
def test_halves_go_through_matrix_units_where_a_kernel_asks_for_them() -> None:
    row = aicf.Table.default()["conv2d"]
    kernels = {k.id: k for k in row.kernels}
    peaks = {"f32": 6e13, "f16": 9e14, "bf16": 9e14}
    gpu, cpu = (Device("cuda", "sm_90", "a GPU", flops=peaks), CpuBackend().info)
    found = {
        (name, dtype): computing(kernels[name], dtype, gpu)
        for name in ("warpgroups", "igemm")
        for dtype in ("f16", "i8", "f32")
    }
    assert found == {
        ("warpgroups", "f16"): "f16", ("warpgroups", "i8"): "f16", ("warpgroups", "f32"): "f32",
        ("igemm", "f16"): "f32", ("igemm", "i8"): "f32", ("igemm", "f32"): "f32",
    }  # fmt: skip
    assert computing(kernels["loop"], "f16", cpu) == "f16"  # halves are slow there


@pytest.mark.promise("AICF-layout")
def test_the_store_of_a_selector_decides(tmp_path: Path) -> None:
    graph = aicf.trace(lambda x: ops.max_pool2d(x, window=2, stride=2), "f32[N, 16, 32, 32]",
                       symbols={"N": (1, 64)})  # fmt: skip
    backend = CpuBackend(strict=True)
    with Store(tmp_path / FILE) as store:
        selector = Selector(backend.info, store)

        def run() -> Graph:
            options = {"selector": selector, "sizes": {"N": 8}}
            return Layout().run(graph, Context(backend=backend, options=options)).graph

        assert run() is graph
        pool = "max_pool2d(f32[8, 16, 32, 32{}], window=(2, 2), stride=(2, 2))"
        for times in ((100.0, 20.0), (20.0, 100.0)):
            for us, strides in zip(times, ("", "; 16384, 1, 512, 16"), strict=True):
                request = Request.parse(graph.table, pool.format(strides))
                legal = Candidates(request).legal
                hard = selector.hard(request.row)
                ranking = ((legal[0], us),)
                subject = request.subject(legal)
                store.put(Record(subject, hard, selector.soft, ranking, 5.0, int(us)))
            for side in ("f32[8, 16, 32, 32]", "f32[8, 16, 16, 16]"):
                request = Request.parse(graph.table, f"permute({side}, perm=(0, 2, 3, 1))")
                legal = Candidates(request).legal
                subject, hard = request.subject(legal), selector.hard(request.row)
                store.put(Record(subject, hard, selector.soft, ((legal[0], 5.0),), 5.0, int(us)))
            selector.forget()
            assert (run() is not graph) == (times[0] > times[1])
            same(graph, run())


@pytest.mark.promise("AICF-layout")
def test_the_least_cut_is_the_least_of_all_choices() -> None:
    draw = random.Random(11)
    for _ in range(150):
        n = draw.randint(1, 6)
        alone_ = [(draw.choice((0, 1, 3, 7, FOREVER)), draw.choice((0, 1, 2, 5))) for _ in range(n)]
        pairs = [(draw.randrange(n), draw.randrange(n), draw.randint(0, 9)) for _ in range(9)]
        choices = Choices()
        things = [choices.thing(*cost) for cost in alone_]
        for a, b, cost in pairs:
            if a != b:
                choices.differ(things[a], things[b], cost)
        sides = choices.settle()

        def total(side: Any, alone_: Any = alone_, pairs: Any = pairs) -> int:
            both = sum(c for a, b, c in pairs if a != b and (side[a], side[b]) == (0, 1))
            return int(both + sum(c[s] for c, s in zip(alone_, side, strict=True)))

        least = min(map(total, itertools.product((0, 1), repeat=n)))
        assert total([sides[t] for t in things]) == least


@pytest.mark.promise("AICF-layout")
def test_a_type_lies_one_way_where_both_are_the_same() -> None:
    assert side_of(aicf.TensorType("f32", (2, 1, 4, 4))) is None
    assert side_of(aicf.TensorType("f32", (2, 3, 1, 1))) is None
    assert side_of(aicf.TensorType("f32", (2, 3, 4))) is None
    t = aicf.TensorType("f32", (2, 3, 4, 5))
    assert lying(t, LAST).strides == (60, 1, 15, 3)
    assert lying(lying(t, LAST), 0) == t


@pytest.mark.promise("AICF-layout")
@pytest.mark.gpu
def test_halves_on_a_gpu_lie_as_nhwc() -> None:
    """There the kernels of NHWC come first, and those of other layouts have no matrix unit."""

    def net(x: Any, k1: Any, k2: Any) -> Any:
        h = ops.max_pool2d(ops.relu(ops.conv2d(x, k1, pad=1)), window=2, stride=2)
        return ops.conv2d(h, k2, pad=1)

    types = ("f16[N, 64, 56, 56]", param("f16[64, 64, 3, 3]"), param("f16[64, 64, 3, 3]"))
    graph = aicf.trace(net, *types, symbols={"N": (1, 64)}).place("cuda:0")
    cuda = aicf.backends.get("cuda")
    options = {"sizes": {"N": 32}}
    found = Layout().run(graph, Context(backend=cuda, options=options)).graph
    found.verify()
    assert all(side_of(n.out.type) == LAST for n in found.nodes if n.op == "conv2d")
    draw = np.random.default_rng(0)
    params = {n: (draw.standard_normal((64, 64, 3, 3)) / 24).astype("f2") for n in ("k1", "k2")}
    x = cuda.from_host(draw.standard_normal((32, 64, 56, 56)).astype("f2"))
    both = [cuda.to_host(aicf.ExecutorV2(g, cuda, params=params)(x)) for g in (graph, found)]
    exact, ours = (y.astype("f4") for y in both)
    assert np.abs(exact - ours).max() <= 0.01 * np.abs(exact).max()
