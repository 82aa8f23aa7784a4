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
