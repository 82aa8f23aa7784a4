"""Graphs: captures that run nothing, their launches, what changes them, and what fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Over = Callable[..., Any]

HEAD = """
import gc, threading, weakref
add = module("add")
relu = module("relu")

def take(count=3, n=64, device="cuda"):
    return [aicf_rt.empty((n,), "f32", device) for _ in range(count)]

def kinds():
    return [line.name for line in shim.lines() if not line.name.startswith("cudaPeek")]
"""


@pytest.mark.promise("GRAPH-capture")
def test_a_capture_runs_nothing_and_a_launch_all(over: Over, ops: list[str]) -> None:
    over(
        HEAD
        + """
a, b, c = take()
calls = [add.bind(a, b, c), relu.bind(c, a), (a, b)]
shim.reset()
graph = aicf_rt.capture(calls)
assert shim.launches() == [] and shim.lines("cudaMemcpyAsync") == []
kept = [line for line in shim.lines() if line.name.startswith("capture:")]
assert [line.name for line in kept] == [
    "capture:cudaLaunchKernel", "capture:cudaLaunchKernel", "capture:cudaMemcpyAsync"], kept
names = kinds()
begin, end = names.index("cudaStreamBeginCapture"), names.index("cudaStreamEndCapture")
assert shim.lines("cudaStreamBeginCapture")[0].words["mode"] == "1"  # of this thread alone
assert not any(FORBIDDEN.match(name) for name in names[begin:end + 1]), names
assert (graph.nodes, graph.device, graph.calls) == (3, "cuda:0", tuple(calls))
for given, used in ((None, 1), (0, 1), (7, 7)):
    shim.reset()
    graph.launch(given)
    assert [line.stream for line in shim.lines("cudaGraphLaunch")] == [used]
    played = [line for line in shim.lines() if "node" in line.words]
    assert [line.name for line in played] == ["cudaLaunchKernel"] * 2 + ["cudaMemcpyAsync"]
    assert {line.words["on"] for line in played} == {hex(used)}
    assert shim.failed() == []
"""
    )


@pytest.mark.promise("GRAPH-feed")
def test_what_is_fed_is_that_of_each_launch(over: Over, ops: list[str]) -> None:
    """Written over at once, many launches in flight; the copy comes first, on the launch's stream."""
    over(
        HEAD
        + """
import numpy as np
numbers, seen = aicf_rt.empty((4,), "f32", "cuda"), aicf_rt.empty((4,), "f32", "cuda")
out, host = np.zeros(4, np.float32), np.zeros(4, np.float32)
graph = aicf_rt.capture([(numbers, seen)], feed=(host, numbers))
assert graph.feed == (host, numbers) or graph.feed[0] is host
for i in range(100):
    host[:] = i
    shim.reset()
    stream = 7 if i % 3 else None
    graph.launch(stream)
    host[:] = -1
    names = [line.name for line in shim.lines("cudaMemcpyAsync", "cudaGraphLaunch")]
    assert names == ["cudaMemcpyAsync", "cudaMemcpyAsync", "cudaGraphLaunch"], names
    fed = shim.lines("cudaMemcpyAsync")[0]
    assert fed.stream == (7 if stream else 1) and fed.words["bytes"] == "16"
    # Nothing is waited for but, now and then, a launch of long ago.
    assert shim.count(b"cudaEventSynchronize") <= 2
    assert not {"cudaStreamSynchronize", "cudaDeviceSynchronize"} & set(kinds())
    aicf_rt.copy(seen, out)
    assert out.tolist() == [i] * 4, (i, out)
"""
    )


@pytest.mark.promise("GRAPH-feed")
def test_a_slot_is_not_written_before_its_copy_is_made(over: Over, ops: list[str]) -> None:
    """Between two copies from one place lies an event behind the first, which was waited for."""
    over(
        HEAD
        + """
import numpy as np
numbers, seen = aicf_rt.empty((4,), "f32", "cuda"), aicf_rt.empty((4,), "f32", "cuda")
host = np.zeros(4, np.float32)

def check(log):
    recorded, waited, used = {}, set(), {}
    for at, line in enumerate(log):
        if line.name == "cudaEventRecord":
            recorded[line.words["event"]] = at
        elif line.name == "cudaEventSynchronize":
            waited.add(recorded[line.words["event"]])
        elif line.name == "cudaMemcpyAsync" and "node" not in line.words:
            place = line.words["from"]
            if place in used:
                assert any(used[place] < event for event in waited), (at, line.text)
            used[place] = at
    return len(used)

shim.reset()
for _ in range(3):  # a graph that goes leaves its slots to the next
    graph = aicf_rt.capture([(numbers, seen)], feed=(host, numbers))
    for i in range(75):
        graph.launch(1 + i // 20 % 2 * 6)
    del graph
assert check(shim.lines()) == 32
"""
    )
