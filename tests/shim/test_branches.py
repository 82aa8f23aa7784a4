"""Graphs whose calls may run at once: what the edges let come in another order gives the same bits,
however memory is shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Over = Callable[..., Any]

HEAD = """
import random
import numpy as np
add, relu = module("add"), module("relu")
BYTES = 2048

class Program:
    # Calls and copies over one arena: what each reads and writes, element by element, as bytes.
    def __init__(self, r, count):
        self.r, self.arena = r, aicf_rt.empty((BYTES,), "u8", "cuda")
        self.work, self.uses = [], []
        while len(self.work) < count:
            try:
                self.take()
            except aicf_rt.Unsupported:  # an out that overlaps an operand, and is not it
                pass

    def tensor(self, shape):
        r = self.r
        steps = [1] * len(shape)
        if len(shape) == 2:
            steps[0] = shape[1] + r.choice((0, 0, 3))
        span = 1 + sum((n - 1) * s for n, s in zip(shape, steps))
        first = 4 * r.randrange(BYTES // 4 - span + 1)
        t = aicf_rt.view(self.arena, shape, strides=tuple(steps), offset=first, dtype="f32")
        at = first + 4 * sum(np.ix_(*(np.arange(n) * s for n, s in zip(shape, steps)))).ravel()
        return t, (at[:, None] + np.arange(4)).ravel()

    def take(self):
        r = self.r
        shape = r.choice([(8,), (16,), (40,), (3, 5), (4, 4)])
        (a, read_a), (b, read_b), (c, written) = (self.tensor(shape) for _ in range(3))
        kind = r.choice(["copy", "relu", "add", "add", "in place", "through"])
        if kind == "copy":
            part, reads, writes = (a, c), [read_a], written
            aicf_rt.capture([part])  # is it one?
        elif kind == "relu":
            part, reads, writes = relu.bind(a, c), [read_a], written
        elif kind == "in place":
            part, reads, writes = add.bind(a, b, a), [read_a, read_b], read_a
        elif kind == "through" and self.uses:  # of what was written before
            out, before = r.choice(self.kept)
            if tuple(out.shape) != shape:
                return
            part, reads, writes = add.bind(out, b, c), [before, read_b], written
        else:
            part, reads, writes = add.bind(a, b, c), [read_a, read_b], written
        self.kept = [*getattr(self, "kept", ()), (c, written)][-6:]
        self.work.append(part)
        self.uses.append((reads, writes))

    def run(self, order):
        # Every byte that is written is another number for anything else that was read.
        state = np.arange(BYTES, dtype=np.uint64)
        for i in order:
            reads, writes = self.uses[i]
            seen = np.concatenate([state[x] for x in reads])
            key = np.uint64(i + 1)
            for x in seen:
                key = (key ^ x) * np.uint64(0x9E3779B97F4A7C15)
            state[writes] = (key ^ np.arange(len(writes), dtype=np.uint64)) * np.uint64(0xBF58476D)
        return state

def edges(graph):
    # Which nodes each node follows.
    found = [line.words["after"] for line in shim.played(graph)]
    assert len(found) == graph.nodes
    return [[int(n) for n in x.split(",")] if x != "-" else [] for x in found]

def some_order(r, after):
    # And how many ran at once at most, where those that began end in any order.
    left, done, running, order, most = set(range(len(after))), set(), [], [], 0
    while left or running:
        ready = [i for i in left if done.issuperset(after[i])]
        if ready and (not running or r.random() < 0.7):
            i = r.choice(ready)
            left.remove(i)
            running.append(i)
            order.append(i)
            most = max(most, len(running))
        else:
            done.add(running.pop(r.randrange(len(running))))
    return order, most

def past(after):
    sets = []
    for i, own in enumerate(after):
        assert all(k < i for k in own)
        sets.append(set(own).union(*(sets[k] for k in own)))
    return sets
"""


@pytest.mark.promise("GRAPH-branches")
@pytest.mark.parametrize("seed", range(2))
def test_any_order_that_the_edges_allow_is_right(over: Over, ops: list[str], seed: int) -> None:
    """Random programs over one arena, by an interpreter of bytes; no edge follows from others, and
    no more run at once than may."""
    over(
        HEAD
        + f"""
np.seterr(over="ignore")
r = random.Random({seed})
"""
        + """
wide = roots = 0
for trial in range(40):
    program = Program(r, r.randrange(2, 24))
    branches = r.choice((2, 3, 64))
    after = edges(aicf_rt.capture(program.work, branches=branches))
    sets = past(after)
    for own in after:
        assert not any(k in sets[j] for k in own for j in own), after
    wanted = program.run(range(len(after)))
    for _ in range(8):
        order, most = some_order(r, after)
        assert most <= branches
        wide = max(wide, most)
        wrong = (program.run(order) != wanted).sum()
        assert not wrong, (trial, order, after)
    roots += sum(not own for own in after) - 1
    chain = edges(aicf_rt.capture(program.work))
    assert chain == [[], *([i] for i in range(len(after) - 1))]
assert wide >= 4 and roots >= 40, (wide, roots)
assert shim.failed() == []
"""
    )


@pytest.mark.promise("GRAPH-branches")
def test_workspaces_of_calls_that_run_at_once_are_apart(over: Over, ops: list[str]) -> None:
    """Also those that the caller gave, who may give one to all. What would take much waits."""
    over(
        HEAD
        + """
total = module("sum")
MIB = 1 << 20

def summed(rows, n):
    call = total.bind(fake(rows, n), fake(rows), axes=(1,))
    return call, call.workspace_size

def taken(calls, branches):
    shim.reset()
    graph = aicf_rt.capture(calls, branches=branches)
    return sum(int(line.words["bytes"]) for line in shim.lines("cudaMallocAsync")), graph

def after(graph):
    found, each = edges(graph), graph.nodes // len(graph.calls)  # launches of a call
    assert all(found[i] == [i - 1] for i in range(len(found)) if i % each), found
    return [sorted(k // each for k in own) for own in found[::each]]

pairs = [summed(4, 1 << 20) for _ in range(4)]
calls, size = [call for call, _ in pairs], pairs[0][1]
each = -(-size // 256) * 256
assert size and {own for _, own in pairs} == {size}
for branches in (2, 3, 4, 64):
    bytes, graph = taken(calls, branches)
    lanes = min(branches, 4)
    assert bytes == lanes * each, (branches, bytes, size)
    assert after(graph) == [[] if i < lanes else [i - 1] for i in range(4)], after(graph)
given = aicf_rt.empty((size,), "u8", "cuda")
for call in calls:
    call.set(workspace=given)
bytes, graph = taken(calls, 4)
assert bytes == 4 * each and after(graph) == [[]] * 4
bytes, graph = taken(calls, 1)
assert bytes == 0 and after(graph) == [[], [0], [1], [2]]

# Of larger ones eight are apart. Those behind wait for one of them; with one of their own they use
# that, one after the other.
pairs = [summed(1 << 14, 1 << 16) for _ in range(10)]
calls, size = [call for call, _ in pairs], pairs[0][1]
assert size == 8 * MIB
bytes, graph = taken(calls, 64)
assert bytes == 64 * MIB and after(graph) == [[]] * 8 + [[0], [1]], (bytes, after(graph))
there = fake(size, dtype="u8")
for call in calls:
    call.set(workspace=there)
bytes, graph = taken(calls, 64)
assert bytes == 64 * MIB and after(graph) == [[]] * 9 + [[8]], (bytes, after(graph))
"""
    )


@pytest.mark.promise("GRAPH-branches")
def test_who_may_start_early(over: Over, ops: list[str]) -> None:
    """Behind one call alone, whose first follower it is: behind several a kernel sees their ends.
    SHIM refuses a launch behind several that may start early."""
    over(
        HEAD
        + """
total = module("sum")

def matrix(rows, columns):
    return aicf_rt.empty((rows, columns), "f32", "cuda")

a, b, c, d = (matrix(64, 512) for _ in range(4))
x, y, z, w = (aicf_rt.empty((64,), "f32", "cuda") for _ in range(4))
tall, tall_too = matrix(4096, 64), matrix(4096, 64)
rows = [total.bind(t, out, axes=(1,)) for t, out in ((b, x), (b, y), (b, z))]
calls = [
    relu.bind(a, b), rows[0], rows[1],            # two behind one
    relu.bind(z, w), rows[2],                     # one behind two: z was read
    relu.bind(tall, tall_too), relu.bind(x, y),
    total.bind(tall_too, y, axes=(0,)),           # likewise, two launches
]

def early(branches):
    played = shim.played(aicf_rt.capture(calls, branches=branches))
    return [(line.words["after"], line.words.get("early") == "1") for line in played]

chain, forked = early(1), early(64)
assert [k for _, k in chain] == [False, True, True, False, True, False, False, True, True], chain
assert forked == [
    ("-", False), ("0", True), ("0", False), ("-", False), ("0,3", False),
    ("-", False), ("1,2", False), ("5,6", False), ("7", True),
], forked
"""
    )


@pytest.mark.promise("GRAPH-branches", "GRAPH-update")
def test_a_graph_of_other_edges_is_another(over: Over, ops: list[str]) -> None:
    over(
        HEAD
        + """
a, b, c, d, e, f = [aicf_rt.empty((64,), "f32", "cuda") for _ in range(6)]
first = [relu.bind(a, b), relu.bind(c, d), relu.bind(b, e)]
alike = [relu.bind(e, f), relu.bind(b, a), relu.bind(f, c)]
second = [relu.bind(a, b), relu.bind(c, d), relu.bind(d, e)]
graph = aicf_rt.capture(first, branches=2)
assert edges(graph) == [[], [], [0]]
assert graph.update(alike) == "updated" and edges(graph) == [[], [], [0]]
shim.reset()
for i in range(6):
    assert graph.update(second) == "instantiated"
    assert graph.update(second) == "updated"
    assert graph.update(first) == "instantiated"
    assert graph.update(first) == "updated"
tries = [line.words["error"] != "0" for line in shim.lines("cudaGraphExecUpdate")]
assert sum(tries) == 2 and len(tries) == 14, tries  # one way, and the other
graph.update(second)
assert edges(graph) == [[], [], [1]]
chain = aicf_rt.capture(first)
assert edges(chain) == [[], [0], [1]]
assert chain.update(second) == "updated"  # where nothing branches, no edge is another
"""
    )


@pytest.mark.promise("GRAPH-branches", "GRAPH-failure", "GRAPH-refuses")
def test_branches_that_fail(over: Over, ops: list[str]) -> None:
    over(
        HEAD
        + """
a, b, c, d = (aicf_rt.empty((64,), "f32", "cuda") for _ in range(4))
calls = [relu.bind(a, b), relu.bind(c, d), add.bind(b, d, a)]
for call in ("cudaStreamGetCaptureInfo", "cudaStreamUpdateCaptureDependencies"):
    shim.reset()
    shim.fails(call, 801)
    try:
        aicf_rt.capture(calls, branches=2)
    except aicf_rt.CudaError as e:
        assert "cudaErrorNotSupported" in str(e), str(e)
    else:
        raise AssertionError(call)
    assert shim.last_error() == 0
    begun = len(shim.lines("cudaStreamBeginCapture"))
    assert begun == len(shim.lines("cudaStreamEndCapture")) == 1
shim.reset()
assert edges(aicf_rt.capture(calls, branches=2)) == [[], [], [0, 1]]
for wrong in (0, -1, 65):
    try:
        aicf_rt.capture(calls, branches=wrong)
    except ValueError as e:
        assert str(e) == "capture: branches is how many calls may run at once, from 1 to 64"
    else:
        raise AssertionError(wrong)
"""
    )


@pytest.mark.promise("GRAPH-branches", "GRAPH-whole")
def test_launches_that_need_the_whole_device_follow_each_other(over: Over, ops: list[str]) -> None:
    """Cooperative ones wait for blocks of their own: two that each hold a part of the device would
    wait for ever. What else the branches have runs beside them."""
    over(
        HEAD
        + """
lstm = module("lstm")
T, N, I, H = 3, 64, 32, 128

def layer():
    ins = [(T, N, I), (N, H), (N, H), (4 * H, I), (4 * H, H)]
    outs = [(T, N, H), (N, H), (N, H), (T, N, 4 * H), (T, N, H)]
    tensors = [fake(*s, dtype="bf16") for s in ins]
    return lstm.bind(*tensors, None, None, *(fake(*s, dtype="bf16") for s in outs))

def whole_of(lines):
    return [i for i, line in enumerate(lines) if "Cooperative" in line.name]

layers = [layer() for _ in range(5)]
assert {call.kernel for call in layers} == {"persistent"}, layers
for branches in (2, 3, 64):
    graph = aicf_rt.capture(layers, branches=branches)
    lines, after = shim.played(graph), edges(graph)
    sets = past(after)
    whole = whole_of(lines)
    assert len(whole) == 5, lines
    for before, then in zip(whole, whole[1:]):
        assert before in sets[then], (branches, before, then, after)
    assert sum(not own for own in after) == min(branches, 5), after
chain = edges(aicf_rt.capture(layers))
assert chain == [[], *([i] for i in range(len(chain) - 1))], chain
# One that is behind the other anyway gets no edge of its own; captures know nothing of each other.
small = [relu.bind(fake(8), fake(8)) for _ in range(2)]
graph = aicf_rt.capture([layers[0], small[0], layers[0]], branches=2)
assert edges(graph) == [[], [0], [], [1], [3]], edges(graph)
assert graph.update([layers[1], small[1], layers[1]]) == "updated"
assert edges(graph) == [[], [0], [], [1], [3]], edges(graph)
assert shim.failed() == []
"""
    )
