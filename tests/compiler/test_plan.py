"""The planner: what lives when, packed near the least possible, and checked by other means."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aicf
from aicf.backend.cpu import CpuBackend
from aicf.compiler.ir.graph import Graph, values_of
from aicf.compiler.ir.training import training_step
from aicf.compiler.runtime.arena import OutOfMemory
from aicf.compiler.runtime.executor import ExecutorV2
from aicf.compiler.runtime.interpret import interpret
from aicf.compiler.runtime.plan import csv, firstfit, skyline
from aicf.compiler.runtime.plan.bound import bound
from aicf.compiler.runtime.plan.check import check, check_offsets
from aicf.compiler.runtime.plan.lifetimes import ALIGN, lifetimes, plan_of, written_over
from aicf.compiler.runtime.plan.pack import extend, pack
from aicf.compiler.runtime.plan.problem import Buffer, Plan, PlanError
from aicf.compiler.runtime.plan.work import Work
from compiler.emulated import host

DATA = Path(__file__).resolve().parents[1] / "data" / "planner"


@st.composite
def problems(draw: st.DrawFn, most: int = 24) -> list[Buffer]:
    found = []
    for i in range(draw(st.integers(0, most))):
        lower = draw(st.integers(-3, 12))
        upper = lower + draw(st.integers(1, 8))
        found.append(Buffer(f"b{i}", lower, upper, draw(st.integers(0, 40))))
    return found


# ---- packing -----------------------------------------------------------------------------------


@pytest.mark.promise("COMPILER-plan-checked")
@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from([1, 8, 256]))
def test_random_lifetimes(buffers: list[Buffer], align: int) -> None:
    plan = pack(buffers, align=align, effort=400)
    check(plan)
    assert plan.bound <= plan.peak <= plan.unshared
    assert plan.optimal == (plan.peak == plan.bound)
    work = Work(buffers, align)
    tries = [*firstfit.found(work, 5, 0), *(("", o) for o in skyline.found(work, 3, 0, 999_999))]
    for _, offsets in tries if work.items else ():  # each heuristic alone is right
        named = {b.id: 0 for b in buffers} | {
            b.id: at for b, at in zip(work.buffers, offsets, strict=True)
        }
        check_offsets(buffers, named, align=align)


def least(buffers: Sequence[Buffer]) -> int:
    """By trying every order with first fit, which some order makes the best plan."""
    found = []
    for order in itertools.permutations(buffers):
        placed: list[tuple[Buffer, int]] = []
        for b in order:
            taken = [
                (at, at + o.size) for o, at in placed if o.lower < b.upper and b.lower < o.upper
            ]
            ends = [0, *(end for _, end in taken)]
            at = min(e for e in ends if all(e + b.size <= s or e >= t for s, t in taken))
            placed.append((b, at))
        found.append(max((at + b.size for b, at in placed), default=0))
    return min(found)


@pytest.mark.promise("COMPILER-plan-checked")
@settings(max_examples=25, deadline=None)
@given(problems(most=5))
def test_tiny_problems_are_solved(buffers: list[Buffer]) -> None:
    assert pack(buffers, effort=2000).peak == least(buffers)


@pytest.mark.promise("COMPILER-plan-hard")
@pytest.mark.parametrize("name", "ABCDEF")
def test_hard_problems(name: str) -> None:
    (path,) = DATA.glob(f"{name}.*.csv")
    buffers, _ = csv.read(path)
    plan = pack(buffers, effort=100_000)
    check(plan)
    assert plan.ratio <= 1.10


def many(count: int, longest: int) -> list[Buffer]:
    """Of which up to so many moments' worth live at once."""
    draw = random.Random(count)
    begins = [draw.randrange(count) for _ in range(count)]
    return [
        Buffer(f"b{i}", at, at + 1 + draw.randrange(longest), draw.randrange(1, 1 << 20))
        for i, at in enumerate(begins)
    ]


@pytest.mark.promise("COMPILER-plan-checked")
@pytest.mark.parametrize(("count", "longest"), [(900, 900), (1200, 60)])
def test_where_there_are_many_few_are_looked_at(
    count: int, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the same one is found as by looking at all."""
    work = Work(many(count, longest), 1)
    few = list(skyline.found(work, 3, 0, 1 << 60))
    monkeypatch.setattr(skyline, "LARGE", count)
    assert few == list(skyline.found(work, 3, 0, 1 << 60))
    monkeypatch.setattr(skyline, "SAMPLES", 1 << 60)
    assert few == list(skyline.found(work, 3, 0, 1 << 60)), "each moment known"


@pytest.mark.promise("COMPILER-plan-checked")
def test_the_effort_is_of_looks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes too long for its worth, where many live at once, is left out."""
    buffers, made = many(600, 600), []
    of_one = skyline.Skyline.__init__
    monkeypatch.setattr(firstfit, "WIDE", 10_000)
    monkeypatch.setattr(
        skyline.Skyline, "__init__", lambda self, *given: made.append(self) or of_one(self, *given)
    )
    plan = pack(buffers, effort=1)
    check(plan)
    assert (plan.by, len(made)) == ("skyline", 1)
    assert plan.ratio < 1.1
    work = Work(buffers, 1)
    assert list(firstfit.found(work, 5, 0)) == []
    list(skyline.found(work, 50, 0, 300_000))
    assert 2 < len(made) < 40


@pytest.mark.promise("COMPILER-plan-hard")
def test_walks_that_come_not_far_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one long walk it stays above the bound."""
    buffers, _ = csv.read(next(DATA.glob("A.*.csv")))
    work = Work(buffers, 1)

    def peak() -> int:
        return min(map(work.peak, skyline.found(work, 600, 0, 1 << 60)))

    anew = peak()
    monkeypatch.setattr(skyline, "WALK", 1 << 60)
    assert anew < peak()


@pytest.mark.promise("COMPILER-plan-checked")
def test_one_seed_gives_one_plan() -> None:
    buffers, _ = csv.read(next(DATA.glob("A.*.csv")))
    plans = [pack(buffers, effort=10_000, seed=seed) for seed in (1, 1, 2)]
    assert plans[0].offsets == plans[1].offsets != plans[2].offsets
    assert pack(buffers[::-1], effort=0).peak == pack(buffers, effort=0).peak


@pytest.mark.promise("COMPILER-plan-checked")
@settings(max_examples=30, deadline=None)
@given(problems(8), problems(8))
def test_what_lies_stays_where_more_comes(some: list[Buffer], more: list[Buffer]) -> None:
    more = [Buffer(f"more {b.id}", b.lower, b.upper, b.size) for b in more]
    before = pack(some, align=8)
    after = extend(before, more)
    check(after)
    assert all(after.offsets[b.id] == before.offsets[b.id] for b in some)


# ---- the checker -------------------------------------------------------------------------------


@pytest.mark.promise("COMPILER-plan-live")
@settings(max_examples=150, deadline=None)
@given(problems(9), st.data())
def test_it_says_what_each_pair_says(buffers: list[Buffer], data: st.DataObject) -> None:
    offsets = {b.id: data.draw(st.integers(0, 90)) for b in buffers}
    shared = any(
        max(a.lower, b.lower) < min(a.upper, b.upper)
        and max(offsets[a.id], offsets[b.id]) < min(offsets[a.id] + a.size, offsets[b.id] + b.size)
        for a, b in itertools.combinations(buffers, 2)
    )
    if not shared:
        check_offsets(buffers, offsets)
        return
    with pytest.raises(PlanError, match="share the bytes"):
        check_offsets(buffers, offsets)


PAIR = [Buffer("a", 0, 4, 10), Buffer("b", 3, 6, 10), Buffer("c", 4, 5, 10)]


@pytest.mark.promise("COMPILER-plan-live")
@pytest.mark.parametrize(
    "offsets, said",
    [
        ({"a": 0, "b": 10, "c": 0}, ""),
        ({"a": 0, "b": 9, "c": 20}, "a and b both live from 3 until 4 and share the bytes from 9"),
        ({"a": 0, "b": 0, "c": 20}, "a and b both live"),
        ({"a": 0, "b": 12, "c": 5}, "b and c both live from 4 until 5"),
        ({"a": 0, "b": 10}, "c has no offset"),
        ({"a": 0, "b": -10, "c": 0}, "b lies at -10"),
        ({"a": 0, "b": 10, "c": 25}, "c ends at 35, behind the arena's end, 30"),
    ],
)
def test_two_live_buffers_never_share(offsets: dict[str, int], said: str) -> None:
    if not said:
        check_offsets(PAIR, offsets, capacity=30)
        return
    with pytest.raises(PlanError, match=said):
        check_offsets(PAIR, offsets, capacity=30)


@pytest.mark.promise("COMPILER-plan-live")
def test_an_offset_that_is_off_its_alignment_is_seen() -> None:
    offsets = {"a": 0, "b": 12, "c": 0}
    check_offsets(PAIR, offsets, align=4)
    with pytest.raises(PlanError, match="b lies at 12, which is no multiple of 8"):
        check_offsets(PAIR, offsets, align=8)
    plan = pack(PAIR, align=8)
    check(plan)
    with pytest.raises(PlanError, match="no multiple of 64"):
        check(Plan(plan.buffers, plan.offsets, plan.peak, plan.bound, 3, 64, "", 0.0))


def test_first_fit_takes_the_lowest_place_that_is_free() -> None:
    """A gap of just its size too; those that meet at a time are not beside each other."""
    buffers = [Buffer("a", 0, 4, 10), Buffer("b", 4, 8, 10), Buffer("c", 2, 6, 4)]
    items = Work(buffers, 1).items
    assert [sorted(found) for found in firstfit.neighbours(items)] == [[2], [2], [0, 1]]
    low, high, gap = Buffer("low", 0, 9, 4), Buffer("high", 0, 9, 4), Buffer("gap", 1, 2, 4)
    items = Work([low, high, gap], 1).items
    beside = firstfit.neighbours(items)
    assert firstfit.place([2], items, beside, (0, 8, None)) == [0, 8, 4]
    assert firstfit.place([2], items, beside, (0, 7, None)) == [0, 7, 11]


@pytest.mark.promise("COMPILER-plan-live")
def test_a_bound_that_is_too_low_is_seen() -> None:
    plan = pack(PAIR)
    assert (plan.peak, plan.bound, plan.optimal) == (20, 20, True)
    wrong = Plan(plan.buffers, plan.offsets, 20, 19, 3, 1, "", 0.0)
    with pytest.raises(PlanError, match="20 bytes live, more than the lower bound 19"):
        check(wrong)
    with pytest.raises(PlanError, match="behind the arena's end"):
        check(Plan(plan.buffers, plan.offsets, 19, 19, 3, 1, "", 0.0))


def test_the_bound() -> None:
    assert bound(PAIR) == (20, 3)
    assert bound(PAIR, 8) == (32, 3)
    assert bound([]) == (0, 0)
    with pytest.raises(PlanError, match="never"):
        Buffer("a", 3, 3, 1)
    with pytest.raises(PlanError, match="two buffers are called a"):
        pack([PAIR[0], PAIR[0]])
    for sizes, align in [((1 << 70, 1), 1), ((1 << 61, 1 << 61), 1), ((1, 1), 1 << 62)]:
        with pytest.raises(PlanError, match="more than 2\\^62 bytes"):
            pack([Buffer(f"b{i}", 0, 1, size) for i, size in enumerate(sizes)], align=align)
    with pytest.raises(PlanError, match="an alignment is a whole number, 1 at least, not 0"):
        pack(PAIR, align=0)


# ---- graphs ------------------------------------------------------------------------------------


def lives(graph: Graph, outside: Any = ()) -> dict[str, tuple[int, int]]:
    return {b.id: (b.lower, b.upper) for b in lifetimes(graph, outside)}


@pytest.mark.promise("COMPILER-plan-views")
def test_a_root_lives_as_long_as_any_view_of_it() -> None:
    """A permuted view that two backward calls read."""
    g = Graph()
    x = g.input("x", "f32[4, 4]")
    h = g.add("relu", x).out
    turned = g.add("view.permute", h, perm=(1, 0)).out
    row = g.add("view.slice", turned, axis=0, start=0, stop=2).out
    a = g.add("exp", x).out
    b = g.add("add", a, a).out
    c = g.add("neg", row).out
    g.output(b, c)
    assert lives(g) == {"relu": (0, 7), "exp": (3, 5), "add": (4, 8), "neg": (5, 8)} | {
        "relu": (0, 6), "neg": (5, 7), "add": (4, 7)}  # fmt: skip


@pytest.mark.promise("COMPILER-plan-views")
@pytest.mark.parametrize("outputs", ["fresh", "reused"])
def test_permuted_views_in_a_backward(outputs: Any) -> None:
    def loss(x: Any, w: Any) -> Any:
        h = aicf.ops.gemm(x, w)
        turned = h.permute(1, 0)
        return aicf.ops.sum(aicf.ops.gemm(turned, h) + aicf.ops.gemm(turned, aicf.ops.relu(h)))

    graph = aicf.value_and_grad(aicf.trace(loss, "f32[6, 4]", aicf.param("f32[4, 5]")))
    r = np.random.default_rng(0)
    x, w = r.normal(size=(6, 4)).astype("f4"), r.normal(size=(4, 5)).astype("f4")
    run = ExecutorV2(graph, CpuBackend(strict=True), params={"w": w}, outputs=outputs)
    eager = ExecutorV2(graph, CpuBackend(strict=True), params={"w": w}, mode="eager")
    for _ in range(3):
        for ours, theirs in zip(run(x), eager(x), strict=True):
            assert np.array_equal(ours, theirs)
    program = run.program()
    assert program.plan is not None
    assert program.plan.peak < program.plan.unshared
    check(program.plan)


@pytest.mark.promise("COMPILER-plan-in-place")
def test_an_activation_lies_where_its_convolution_did() -> None:
    """And all of a chain where its first does; nothing else is needed at any time."""
    g = Graph()
    x, k = g.input("x", "f32[2, 3, 8, 8]"), g.param("k", "f32[5, 3, 3, 3]")
    bias, added = g.param("bias", "f32[5]"), g.input("added", "f32[2, 5, 8, 8]")
    h = g.add("conv2d", x, k, pad=(1, 1)).out
    relu = g.add("relu", g.add("bias_add", h, bias, axis=1).out).out
    g.output(g.add("sum", g.add("add", added, relu).out, axes=(1,)).out)
    assert lives(g) == {"conv2d": (0, 5), "sum": (4, 6)}
    assert [v.name for v in written_over(g)] == ["bias_add", "relu", "add"]
    assert {v.name for v in written_over(g).values()} == {"conv2d"}
    r = np.random.default_rng(0)
    entries: list[Any] = [*g.inputs, *g.params]
    drawn = [r.normal(size=v.type.shape).astype("f4") for v in entries]
    given, params = drawn[:2], dict(zip(("k", "bias"), drawn[2:], strict=True))
    found = [
        ExecutorV2(g, host(mode), params=params, mode=mode, outputs=outputs)
        for mode in ("eager", "replay", "graph") for outputs in ("fresh", "reused")
    ]  # fmt: skip
    before = [x.copy() for x in given]
    for _ in range(3):
        first, *others = (np.array(run(*given)) for run in found)
        assert all(np.array_equal(first, other) for other in others)
    assert all(map(np.array_equal, given, before))
    plan = found[-1].program().plan
    assert plan is not None
    check(plan)
    assert plan.peak - 4 * 2 * 5 * 64 < 8192  # beside the maps sums alone, and workspaces


def near(broken: str) -> tuple[Graph, str]:
    """relu(exp(x)) with one thing that keeps it from lying where exp does."""
    g = Graph()
    x = g.input("x", "f32[4, 4]")
    h = g.add("exp", x).out
    seen = g.add("view.permute", h, perm=(1, 0)).out if broken == "a view is read later" else None
    out = g.add("relu", x if broken == "an input" else h).out
    match broken:
        case "given back":
            g.output(h)
        case "read later":
            g.output(g.add("neg", h).out)
        case "a view is read later":
            g.output(g.add("neg", seen).out)
        case "read twice":
            out = g.add("mul", h, h).out
        case "a view of it":
            out = g.add("relu", g.add("view.reshape", h, shape=(16,)).out).out
        case "broadcast":
            out = g.add("add", g.add("view.reshape", x, shape=(1, 4, 4)).out, h).out
        case "other strides":
            out = g.add("relu", g.add("view.permute", h, perm=(1, 0)).out).out
        case "smaller":
            out = g.add("sum", h, axes=(1,)).out
    g.output(out)
    return g, out.name


@pytest.mark.promise("COMPILER-plan-in-place")
@pytest.mark.parametrize(
    "broken",
    ["given back", "read later", "a view is read later", "read twice", "a view of it", "smaller",
     "broadcast", "other strides", "an input"],
)  # fmt: skip
def test_what_is_still_needed_is_not_written_over(broken: str) -> None:
    g, name = near(broken)
    g.verify()
    assert name not in [v.name for v in written_over(g)]
    assert name in lives(g)
    x = np.random.default_rng(0).normal(size=(4, 4)).astype("f4")
    runs = [ExecutorV2(g, host(m), mode=m, outputs="reused") for m in ("eager", "replay", "graph")]
    for _ in range(2):
        first, *others = ([np.array(y) for y in _several(run(x))] for run in runs)
        for other in others:
            assert all(map(np.array_equal, first, other))


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.promise("COMPILER-plan-in-place")
def test_with_branches_who_alone_reads_it_writes_over_it() -> None:
    """Another reader may come later there, whatever the order of the nodes."""
    g = Graph()
    x = g.input("x", "f32[4]")
    h = g.add("exp", x).out
    first = g.add("neg", h).out
    second = g.add("relu", h).out
    third = g.add("neg", second).out
    g.output(g.add("add", first, third).out)
    assert [v.name for v in written_over(g)] == ["relu", "neg_1", "add"]
    assert [v.name for v in written_over(g, apart=True)] == ["neg_1", "add"]
    assert [v.name for v in written_over(g, outside={second, third})] == ["add"]
    assert written_over(g, outside={first})[g.outputs[0]] is h  # and not `first`


@pytest.mark.promise("COMPILER-plan-unused")
def test_an_out_that_nothing_reads_lives_while_it_is_written() -> None:
    g = Graph()
    x = g.input("x", "f32[2, 3, 8, 8]")
    pooled = g.add("max_pool2d", x, window=2, stride=2, want=(True, True))
    kept, unused = pooled.outs
    assert kept is not None
    assert unused is not None
    g.output(g.add("neg", kept).out)
    plan = plan_of(g)
    check(plan)
    spans = lives(g)
    assert spans[unused.name] == (0, 1)
    at = plan.offsets
    assert at[kept.name] != at[unused.name]  # both are written by one call
    y = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("f4")
    run = ExecutorV2(g, CpuBackend(strict=True))
    assert np.array_equal(run(y), interpret(g, {"x": y})[0])


@pytest.mark.promise("COMPILER-plan-feed")
def test_an_output_that_is_an_input_is_not_in_the_arena() -> None:
    g = Graph()
    x, y = g.input("x", "f32[4]"), g.input("y", "f32[4]")
    h = g.add("exp", x).out
    g.output(x, g.add("view.reshape", y, shape=(2, 2)).out, g.add("neg", h).out)
    assert lives(g).keys() == {"exp"}
    assert written_over(g).keys() == {g.outputs[2]}
    for mode in ("replay", "eager"):
        run = ExecutorV2(g, CpuBackend(strict=True), mode=mode)
        a, b = np.arange(4, dtype="f4"), np.ones(4, "f4")
        for _ in range(2):
            first, second, third = run(a, b)
            assert np.array_equal(first, a)
            assert np.shares_memory(second, b)
            assert np.allclose(third, -np.exp(a))
        assert np.array_equal(a, np.arange(4, dtype="f4"))


@pytest.mark.promise("COMPILER-plan-exact")
def test_a_size_that_is_not_known_is_not_planned() -> None:
    g = Graph()
    n = g.symbol("N", 2, 64)
    g.output(g.add("exp", g.input("x", aicf.TensorType("f32", (n, 4)))).out)
    with pytest.raises(PlanError, match=r"%exp: f32.* has no size yet: bind N to one"):
        plan_of(g)
    assert plan_of(g.bind({"N": 64})).peak == 64 * 4 * 4
    run = ExecutorV2(g, CpuBackend(strict=True), outputs="reused")
    for count in (2, 64, 3):
        x = np.full((count, 4), count, "f4")
        assert np.allclose(run(x), np.exp(x))
        assert run.program(N=count).plan.peak == -(-count * 16 // ALIGN) * ALIGN  # type: ignore[union-attr]


@pytest.mark.promise("COMPILER-plan-states")
def test_a_root_lives_as_long_as_its_states() -> None:
    """An update in place of what nodes made: what it is afterwards lies there too."""
    g = Graph()
    x = g.input("x", "f32[4]")
    h, d = g.add("relu", x).out, g.add("exp", x).out
    after = next(values_of(g.add("sgd", [h], [d], lr=0.5).states["p"]))
    other = g.add("neg", x).out
    g.output(g.add("add", after, other).out, g.add("neg", other).out)
    spans = lives(g)
    assert spans["relu"] == (0, 5)
    assert spans["exp"] == (1, 3)
    plan = plan_of(g)
    check(plan)
    run = ExecutorV2(g, CpuBackend(strict=True))
    y = np.arange(4, dtype="f4") - 1
    for _ in range(2):
        assert np.allclose(run(y)[0], np.maximum(y, 0) - 0.5 * np.exp(y) - y)

    step = training_step(
        aicf.trace(
            lambda x, w: aicf.ops.sum(aicf.ops.gemm(x, w)), "f32[4, 4]", aicf.param("f32[4, 4]")
        ),
        "sgd",
    ).graph
    assert not lives(step).keys() & {v.name for v in step.params}


# ---- nodes that run at once --------------------------------------------------------------------


def behind(graph: Graph) -> tuple[list[set[int]], dict[str, set[int]]]:
    """By pairs of nodes alone: those that each node follows, and those that use each root."""
    users: dict[str, set[int]] = {}
    past: list[set[int]] = []
    uses = []
    for j, node in enumerate(graph.nodes):
        reads = {graph.buffer_of(v) for v in node.reads}
        writes = set() if node.is_view else {graph.buffer_of(v) for v in node.results}
        uses.append((set() if node.is_view else reads, writes))
        past.append(set())
        for i in range(j):
            if uses[i][1] & (uses[j][0] | uses[j][1]) or uses[i][0] & uses[j][1]:
                past[j] |= {i} | past[i]
        for root in uses[j][0] | uses[j][1]:
            users.setdefault(root.name, set()).add(j)
    return past, users


def waits_for_memory(graph: Graph, plan: Plan) -> bool:
    """Whether some node has to wait for others only because it lies where they do."""
    past, users = behind(graph)
    values = [b for b in plan.buffers if b.kind == "value" and b.size]
    for a, b in itertools.combinations(values, 2):
        first, second = (plan.offsets[x.id] for x in (a, b))
        if first < second + b.size and second < first + a.size:
            a, b = sorted((a, b), key=lambda x: x.lower)
            if any(i not in past[j] for i in users[a.id] for j in users[b.id]):
                return True
    return False


@pytest.mark.promise("COMPILER-plan-apart")
@pytest.mark.parametrize("name", ["mlp", "cnn", "deep"])
def test_what_may_run_at_once_need_not_wait_for_memory(name: str) -> None:
    from bench.compiler.graphs import ALL, forward

    graph = training_step(forward(ALL[name]), "adamw").graph.bind({"N": 32})
    plan = plan_of(graph, apart=True)
    check(plan)
    assert waits_for_memory(graph, plan_of(graph))
    assert not waits_for_memory(graph, plan)
    assert plan.peak < plan.unshared  # what is certainly done is given to others


@pytest.mark.promise("COMPILER-plan-apart")
def test_an_update_comes_behind_those_that_read_before_it() -> None:
    """So that what they used is free for what comes behind the update."""
    g = Graph()
    x, state = g.input("x", "f32[4]"), g.input("state", "f32[4]")
    h = g.add("exp", x).out
    read = g.add("add", state, h).out
    updated: Any = g.add("fill", state, value=0.0).states["x"]
    after = g.add("exp", updated).out
    g.output(read, g.add("add", after, after).out)
    apart = {b.id: (b.lower, b.upper) for b in lifetimes(g, {read}, apart=True)}
    assert apart["exp"] == (0, 2)


# ---- workspaces --------------------------------------------------------------------------------


def losses(x: Any, idx: Any, table: Any, w: Any, b: Any) -> Any:
    h = aicf.ops.layer_norm(aicf.ops.embedding(table, idx) + x, w, b)
    return aicf.ops.sum(h * h)


@pytest.mark.promise("COMPILER-plan-workspace")
@pytest.mark.parametrize("outputs", ["fresh", "reused"])
def test_workspaces_lie_in_the_arena(outputs: Any) -> None:
    params = [aicf.param(t) for t in ("f32[50, 16]", "f32[16]", "f32[16]")]
    forward = aicf.trace(losses, "f32[40, 16]", "i64[40]", *params)
    graph = training_step(forward, "sgd").graph
    r = np.random.default_rng(0)
    x, idx = r.normal(size=(40, 16)).astype("f4"), r.integers(0, 50, 40)
    weights = {n: r.normal(size=s).astype("f4") for n, s in
               {"table": (50, 16), "w": (16,), "b": (16,)}.items()}  # fmt: skip
    backend = CpuBackend(strict=True)
    run = ExecutorV2(graph, backend, params=weights, outputs=outputs)
    eager = ExecutorV2(graph, backend, params=weights, mode="eager")
    for _ in range(3):
        assert np.array_equal(run(x, idx, lr=0.1), eager(x, idx, lr=0.1))
    for name in weights:
        assert np.array_equal(run.param(name), eager.param(name))
    program = run.program()
    plan = program.plan
    assert plan is not None
    check(plan)
    rooms = {b.id: b for b in plan.buffers if b.kind == "workspace"}
    needing = [s for s in program.steps if s.call.workspace_size]
    assert len(rooms) == len(needing) >= 2
    whole = np.asarray(program.arena)
    for step in needing:
        room = rooms[f"workspace of {next(step.node.results).name}"]
        assert room.size == step.call.workspace_size
        assert step.call.workspace.shape == (room.size,)
        assert np.shares_memory(whole, np.asarray(step.call.workspace))
    for value in (v for n in graph.nodes if not n.is_view for v in n.outs if v is not None):
        inside = value.name in plan.offsets or value in written_over(graph, program.outside)
        assert inside == (outputs == "reused" or value not in graph.outputs)
        assert inside == np.shares_memory(whole, np.asarray(program.tensors[value]))


@pytest.mark.promise("COMPILER-plan-workspace")
def test_a_later_kernel_that_needs_more_takes_its_own() -> None:
    """A call whose input lies otherwise may run another kernel, for which no room was planned."""
    from aicf_rt import Unsupported

    run = ExecutorV2(
        aicf.trace(lambda g, i: aicf.ops.embedding_bwd(g, i, V=9), "f32[40, 16]", "i64[40]"),
        CpuBackend(strict=True),
    )
    g, idx = np.ones((40, 16), "f4"), np.arange(40) % 9
    first = np.array(run(g, idx))
    program = run.program()
    (step,) = program.steps
    call = step.call

    class Grown:
        """Runs another kernel from now on."""

        workspace_size = 1 << 20

        def set(self, **arguments: Any) -> None:
            if "workspace" not in arguments:
                raise Unsupported("it needs more")
            call.set(**arguments)

    step.call = Grown()
    program.put(program.graph.inputs[0], g.copy())
    program.settle()
    assert call.workspace is None
    step.call = call
    program.run()
    assert np.array_equal(program.tensors[program.graph.outputs[0]], first)


# ---- memory that is not there ------------------------------------------------------------------


class Small(CpuBackend):
    """Has no more than a megabyte in one piece."""

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        if int(np.prod(shape)) > 1 << 20:
            raise MemoryError
        return super().empty(shape, dtype)


@pytest.mark.promise("COMPILER-plan-memory")
def test_what_does_not_fit_says_how_much_and_where() -> None:
    def wide(x: Any) -> Any:
        h = aicf.ops.exp(x)
        return aicf.ops.sum(aicf.ops.relu(h) + h)

    run = ExecutorV2(aicf.trace(wide, "f32[300, 1000]"), Small(strict=True))
    with pytest.raises(
        OutOfMemory, match=r"wide needs \d+ bytes, and no plan needs less"
    ) as caught:
        run(np.zeros((300, 1000), "f4"))
    told = str(caught.value)
    assert "  exp: 1200000 bytes" in told
    assert "test_plan.py:" in told


# ---- real steps --------------------------------------------------------------------------------


@pytest.mark.promise("COMPILER-plan-real")
@pytest.mark.parametrize("name", ["mlp", "cnn", "deep"])
def test_training_steps_need_no_more_than_the_bound(name: str) -> None:
    from bench.compiler.graphs import ALL, forward

    graph = training_step(forward(ALL[name]), "adamw").graph
    for size in (1, 32, 256):
        plan = plan_of(graph.bind({"N": size}))
        check(plan)
        assert plan.optimal, (size, str(plan))


@pytest.mark.promise("COMPILER-plan-real")
@pytest.mark.guests("torch")
@pytest.mark.parametrize("name", ["lstm", "block", "encoder layer"])
def test_imported_steps_need_no_more_than_the_bound(name: str) -> None:
    nets = pytest.importorskip("compiler.test_import")
    make, inputs = nets.NETS[name]
    graph = nets.from_export(nets.exported(make().eval(), inputs(3))).graph
    graph.outputs[:] = [graph.add("sum", graph.outputs[0]).out]
    graph = aicf.value_and_grad(graph)
    (symbol,) = graph.symbols
    for size in (2, 3, 4, 6, 32):
        plan = plan_of(graph.bind({symbol: size}))
        check(plan)
        assert plan.optimal, (size, str(plan))
