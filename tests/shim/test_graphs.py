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
    played = shim.played(graph, given)
    assert [line.stream for line in shim.lines("cudaGraphLaunch")] == [used]
    assert [line.name for line in played] == ["cudaLaunchKernel"] * 2 + ["cudaMemcpyAsync"]
    assert {line.words["on"] for line in played} == {hex(used)}
    assert shim.failed() == []
"""
    )


@pytest.mark.promise("GRAPH-feed")
@pytest.mark.parametrize(
    "count, offset, fed, refused, written",
    [(3, 4, True, 0, True), (64, 0, True, 0, True), (65, 0, True, 0, False),
     (4, 0, False, 0, False), (4, 0, True, 801, False)],
)  # fmt: skip
def test_what_is_fed_is_that_of_each_launch(
    over: Over, ops: list[str], count: int, offset: int, fed: bool, refused: int, written: bool
) -> None:
    """Written over at once, many launches in flight; a few words go with the commands, what is
    more, or lies in a pool's memory, is copied; on the launch's stream, and first."""
    over(
        HEAD
        + f"""
count, offset, refused, written, fed = {count}, {offset}, {refused}, {written}, {fed}
"""
        + """
import numpy as np
memory = aicf_rt.empty((count + offset // 4,), "f32", "cuda", fed=fed)
seen = aicf_rt.empty((count,), "f32", "cuda")
numbers = aicf_rt.view(memory, (count,), offset=offset)
out, host = np.zeros(count, np.float32), np.zeros(count, np.float32)
graph = aicf_rt.capture([(numbers, seen)], feed=(host, numbers))
assert graph.feed == (host, numbers) or graph.feed[0] is host
asked = 0
for i in range(100):
    host[:] = i + np.arange(count)
    shim.reset()
    if refused:
        shim.fails("cuStreamBatchMemOp", refused)
    stream = 7 if i % 3 else None
    graph.launch(stream)
    host[:] = -1
    lines = shim.lines("cuStreamBatchMemOp", "cudaMemcpyAsync", "cudaGraphLaunch")
    lines = [line for line in lines if "node" not in line.words]
    asked += sum(line.name == "cuStreamBatchMemOp" for line in lines)
    fed, launch = [line for line in lines if line.words["error"] == "0"]
    assert fed.name == ("cuStreamBatchMemOp" if written else "cudaMemcpyAsync"), fed.text
    assert launch.name == "cudaGraphLaunch"
    assert fed.stream == launch.stream == (7 if stream else 1)
    assert written or fed.words["bytes"] == str(4 * count)
    # Nothing is waited for but, now and then, a launch of long ago.
    assert shim.count(b"cudaEventSynchronize") <= (0 if written else 2)
    assert not {"cudaStreamSynchronize", "cudaDeviceSynchronize"} & set(kinds())
    assert shim.last_error() == 0
    aicf_rt.copy(seen, out)
    assert out.tolist() == [i + k for k in range(count)], (i, out)
assert asked == 100 if written else asked <= 2, asked  # what was refused is not asked for again
"""
    )


@pytest.mark.promise("GRAPH-feed")
def test_what_is_fed_from_threads(over: Over, ops: list[str]) -> None:
    """A thread that never used the device before; a failure is told, and the graph goes on."""
    over(
        HEAD
        + """
import numpy as np
numbers = aicf_rt.empty((4,), "f32", "cuda", fed=True)
seen = aicf_rt.empty((4,), "f32", "cuda")
out, host = np.zeros(4, np.float32), np.zeros(4, np.float32)
graph = aicf_rt.capture([(numbers, seen)], feed=(host, numbers))
for i in range(5):
    host[:] = i
    shim.reset()
    thread = threading.Thread(target=graph.launch)
    thread.start()
    thread.join()
    assert shim.count(b"cuStreamBatchMemOp") and not shim.count(b"cudaEventRecord")
    aicf_rt.copy(seen, out)
    assert out.tolist() == [i] * 4
shim.reset()
shim.fails("cuStreamBatchMemOp", 719)
try:
    graph.launch()
except aicf_rt.CudaLost as e:
    assert str(e).startswith("launch: cudaErrorLaunchFailure (719)"), e
else:
    raise AssertionError
assert shim.count(b"cudaGraphLaunch") == 0 and shim.last_error() == 0
shim.reset()
host[:] = 9
graph.launch()
aicf_rt.copy(seen, out)
assert out.tolist() == [9] * 4 and shim.count(b"cuStreamBatchMemOp") == 1
"""
    )


@pytest.mark.promise("GRAPH-feed")
def test_memory_that_is_fed_is_taken_again(over: Over, ops: list[str]) -> None:
    """From one allocation, behind who gave it back, on whichever streams; on its device."""
    over(
        HEAD
        + """
def take_fed(stream=None, device="cuda"):
    return aicf_rt.empty((4,), "f32", device, stream=stream, fed=True)

shim.reset()
several = [take_fed() for _ in range(257)]
first = [t.__cuda_array_interface__["data"][0] for t in several]
assert len({at // 256 for at in first}) == 257
assert shim.count(b"cudaMalloc") == 2 and not shim.count(b"cudaMallocAsync")
other = take_fed(device="cuda:1")
assert shim.count(b"cudaMalloc") == 3
shim.reset()
several[7] = None
recorded = shim.lines("cudaEventRecord")
assert [line.stream for line in recorded] == [1] and not shim.count(b"cudaFreeAsync")
again = take_fed(stream=9)
assert again.__cuda_array_interface__["data"][0] in (first[7], first[-1] + 256)
several[3] = None
while first[3] not in [t.__cuda_array_interface__["data"][0] for t in several if t]:
    shim.reset()
    several.append(take_fed(stream=9))
(waited,) = shim.lines("cudaStreamWaitEvent")
assert waited.stream == 9 and not shim.count(b"cudaMalloc") and shim.failed() == []
assert len({at // 256 for at in first}) == 257
shim.reset()
shim.fails("cudaEventRecord", 2)
several[5] = None  # when it is free nobody knows: it is never taken again
shim.reset()
assert first[5] not in [take_fed().__cuda_array_interface__["data"][0] for _ in range(2)]
assert shim.last_error() == 0
"""
    )


@pytest.mark.promise("GRAPH-feed")
def test_memory_that_is_fed_is_given_back_in_a_capture(over: Over, ops: list[str]) -> None:
    """Of somebody else's: what is made of it uses the memory for as long as it is there."""
    over(
        HEAD
        + """
tensor = aicf_rt.empty((4,), "f32", "cuda", fed=True)
first = tensor.__cuda_array_interface__["data"][0]
shim.reset()
shim.capture(True)
del tensor
shim.capture(False)
assert not shim.count(b"cudaEventRecord"), [line.text for line in shim.lines()]
assert aicf_rt.empty((4,), "f32", "cuda", fed=True).__cuda_array_interface__["data"][0] != first
assert shim.failed() == [] and not shim.count(b"cudaStreamWaitEvent")
"""
    )


@pytest.mark.promise("GRAPH-feed", "GRAPH-lives")
def test_launches_of_threads_on_streams_of_their_own(over: Over, ops: list[str]) -> None:
    """Stream 2 is another in each thread: what the next launch writes comes behind the one before
    it, whoever's that is."""
    over(
        HEAD
        + """
import numpy as np
numbers = aicf_rt.empty((4,), "f32", "cuda", fed=True)
seen = aicf_rt.empty((4,), "f32", "cuda")
graph = aicf_rt.capture([(numbers, seen)], feed=(np.zeros(4, np.float32), numbers))

def launch():
    shim.reset()
    thread = threading.Thread(target=graph.launch, args=(2,))
    thread.start()
    thread.join()
    recorded = {line.words["event"]: line.stream for line in shim.lines("cudaEventRecord")}
    return [
        (line.stream, recorded[line.words["event"]]) if "event" in line.words else line.stream
        for line in shim.lines("cudaStreamWaitEvent", "cuStreamBatchMemOp")
    ]

first, second = launch(), launch()
assert first[0] == 2 and len(first) == 2, first
own, theirs = first[1]
assert own > 2 and theirs == 2, first
assert second == [(2, own), 2, (own, 2)], second
shim.reset()
graph.launch(7)
assert [line.stream for line in shim.lines("cudaEventRecord")] == [own, 7]
del graph  # what it had is there for others
shim.reset()
aicf_rt.capture([(numbers, seen)])
assert [line.stream for line in shim.lines("cudaStreamBeginCapture")] == [own]
"""
    )


@pytest.mark.promise("GRAPH-feed")
def test_a_slot_is_not_written_before_its_copy_is_made(over: Over, ops: list[str]) -> None:
    """Of what is too large to be written: between two copies from one place lies an event behind
    the first, which was waited for."""
    over(
        HEAD
        + """
import numpy as np
numbers, seen = aicf_rt.empty((99,), "f32", "cuda"), aicf_rt.empty((99,), "f32", "cuda")
host = np.zeros(99, np.float32)

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


@pytest.mark.promise("GRAPH-capture", "COMPILER-capture-first")
def test_a_capture_as_the_first_call_of_a_process(over: Over, ops: list[str]) -> None:
    """Of tensors that only claim to be there: nothing else touched CUDA before."""
    over(
        HEAD
        + """
graph = aicf_rt.capture([add.bind(fake(64), fake(64), fake(64))])
assert graph.nodes == 1 and shim.failed() == [] and shim.launches() == []
names = kinds()
begin, end = names.index("cudaStreamBeginCapture"), names.index("cudaStreamEndCapture")
assert not any(FORBIDDEN.match(name) for name in names[begin:end + 1]), names
assert set(names[:begin]) <= {"cudaGetDevice", "cudaGetDeviceCount", "cudaDeviceGetAttribute",
    "cudaStreamCreateWithFlags", "cudaGetDriverEntryPointByVersion", "cuDeviceGet",
    "cuCtxGetDevice", "cuCtxGetId"}, names
graph.launch()
assert len(shim.launches()) == 1
"""
    )


@pytest.mark.promise("GRAPH-capture")
def test_what_a_launch_calls(over: Over, ops: list[str]) -> None:
    """One question and the launch, or what the runtime asks besides; no error is left."""
    over(
        HEAD
        + """
import os
a, b, c = take()
graph = aicf_rt.capture([add.bind(a, b, c)] * 3)
for _ in range(3):
    graph.launch()
shim.reset()
shim.set_device(0)
graph()
shim.reset()
shim.set_device(0)
graph()
names = [name for name in kinds() if name not in ("cudaSetDevice", "cudaLaunchKernel")]
fast = os.environ["AICF_LAUNCH"] == "driver"
assert names == (["cuCtxGetId"] if fast else ["cudaGetDevice"]) + ["cudaGraphLaunch"], names
assert shim.lines("cudaGraphLaunch")[0].words.get("by") == ("driver" if fast else None)
"""
    )


@pytest.mark.promise("GRAPH-capture")
def test_workspaces_are_there_before_and_are_one(over: Over, ops: list[str]) -> None:
    over(
        HEAD
        + """
total = module("sum")
def sums(n):
    tensors = [aicf_rt.empty((4, n), "f32", "cuda"), aicf_rt.empty((4,), "f32", "cuda")]
    call = total.bind(tensors[0], tensors[1], axes=(1,))
    return call

def bytes_of(call):
    shim.reset()
    call()
    return [int(line.words["bytes"]) for line in shim.lines("cudaMallocAsync")]

calls = [sums(1 << k) for k in range(3, 24)]
sizes = [sum(bytes_of(call)) for call in calls]
assert max(sizes) > 0, sizes
shim.reset()
graph = aicf_rt.capture(calls)
taken = shim.lines("cudaMallocAsync")
assert [int(line.words["bytes"]) for line in taken] == [max(sizes)]
names = kinds()
order = ["cudaMallocAsync", "cudaStreamSynchronize", "cudaStreamBeginCapture",
         "cudaStreamEndCapture"]
assert [name for name in names if name in order] == order, names
shim.reset()
graph.launch(7)
(behind,) = [line.stream for line in shim.lines("cudaStreamWaitEvent")]
small = [call for call, size in zip(calls, sizes) if size < max(sizes)]
assert graph.update(small) == "instantiated"
assert not {"cudaMallocAsync", "cudaFreeAsync"} & set(kinds())  # what there is will do
del graph
freed = shim.lines("cudaFreeAsync")
assert [line.stream for line in freed] == [behind], freed  # the last launch
assert freed[0].words["memory"] == taken[0].words["memory"]
# A call that was given one works there, and asks for nothing.
large = calls[sizes.index(max(sizes))]
large.set(workspace=aicf_rt.empty((max(sizes),), "u8", "cuda"))
shim.reset()
graph = aicf_rt.capture([large])
assert "cudaMallocAsync" not in kinds()
del graph
assert "cudaFreeAsync" not in kinds()
large.set(workspace=None)
# Where there is no memory, nothing is captured and nothing is left.
shim.reset()
shim.fails("cudaMallocAsync", 2)
try:
    aicf_rt.capture(calls)
except aicf_rt.CudaError as e:
    assert "cudaErrorMemoryAllocation" in str(e), e
else:
    raise AssertionError
assert shim.count(b"cudaStreamBeginCapture") == 0 and shim.last_error() == 0
# What was taken for a capture that fails is given back.
for call, error in (("cudaStreamBeginCapture", 900), ("cudaGraphInstantiate", 2)):
    shim.reset()
    before = shim.live()
    shim.fails(call, error)
    try:
        aicf_rt.capture(calls)
    except aicf_rt.CudaError:
        pass
    else:
        raise AssertionError(call)
    assert shim.count(b"cudaMallocAsync") == 1 and shim.live() == before, call
"""
    )


@pytest.mark.promise("GRAPH-update", "COMPILER-update-refused")
def test_updates(over: Over, ops: list[str]) -> None:
    """Changed where that can be, made anew where not; what was refused is not asked for again."""
    over(
        HEAD
        + """
a, b, c = take()
d, e, f = take(n=128)
graph = aicf_rt.capture([add.bind(a, b, c), relu.bind(c, a)])
assert graph.update([add.bind(d, e, f), relu.bind(f, d)]) == "updated"
assert graph.update([(a, b), relu.bind(c, a)]) == "instantiated"  # a copy is no launch
assert graph.nodes == 2
assert graph.update([add.bind(a, b, c)] * 3) == "instantiated" and graph.nodes == 3
shim.reset()
graph.launch()
assert len(shim.launches()) == 3

# Refused where it looks alike: asked once for each pair, and at last never.
shim.reset()
shim.fails("cudaGraphExecUpdate", 910)
pairs = [[add.bind(a, b, c)] * 2, [relu.bind(a, b)] * 2]
assert [graph.update(pairs[i % 2]) for i in range(12)] == ["instantiated"] * 12
assert shim.count(b"cudaGraphExecUpdate") == 3  # from three, and both ways between the two
assert shim.last_error() == 0
made, gone = shim.count(b"cudaGraphInstantiate"), shim.count(b"cudaGraphExecDestroy")
assert made == gone == 12
shim.reset()
for n in range(1, 40):
    graph.update([add.bind(a, b, c)] * n)
assert shim.count(b"cudaGraphExecUpdate") <= 16
"""
    )


@pytest.mark.promise("GRAPH-failure")
def test_a_capture_that_fails(over: Over, ops: list[str]) -> None:
    """The reason and the call come up; the stream is usable, no error is left, nothing ran."""
    over(
        HEAD
        + """
a, b, c = take()
calls = [add.bind(a, b, c), relu.bind(c, a), relu.bind(a, b)]
graph = aicf_rt.capture(calls)

def refused(do, *words):
    before = shim.live()
    try:
        do()
    except aicf_rt.CudaError as e:
        for word in words:
            assert word in str(e), (word, str(e))
        found = e
    else:
        raise AssertionError(words)
    ran = [line for line in shim.launches() if line.words["error"] == "0"]
    assert shim.last_error() == 0 and ran == [] and shim.live() == before
    begun = shim.count(b"cudaStreamBeginCapture") - len(
        [x for x in shim.lines("cudaStreamBeginCapture") if x.words["error"] != "0"])
    assert shim.count(b"cudaStreamEndCapture") == begun
    assert shim.count(b"cudaGraphDestroy") == len(
        [x for x in shim.lines("cudaStreamEndCapture") if x.words["error"] == "0"])
    shim.reset()
    return found

again = lambda: graph.update(calls)
anew = lambda: aicf_rt.capture(calls)
for do in (anew, again):
    shim.reset()
    shim.fails("cudaStreamBeginCapture", 900)
    refused(do, "capture: cudaErrorStreamCaptureUnsupported")
    shim.fails("cudaStreamEndCapture", 901)
    refused(do, "cudaErrorStreamCaptureInvalidated", "does not allow")
    shim.fails("cudaGraphInstantiate", 2)
    if do is anew:
        refused(do, "capture: cudaErrorMemoryAllocation")
    shim.reset()
    shim.fails("cudaLaunchKernel", 701, 1)
    found = refused(do, "add", "701", "capture() stopped at item 0 of 3: nothing was launched")
    assert found.item == 0 and found.op == "add" and found.kernel
    calls[2] = relu.bind(*take(2, 1 << 20))
    shim.fails("cudaLaunchKernel", 1, 2)
    refused(do, "capture() stopped at item 0 of 3")
# What was made is kept where what it was made of is not given back: an earlier launch failed.
for call in ("cudaGraphDestroy", "cudaGraphExecDestroy"):
    shim.reset()
    shim.fails(call, 700, 1)
    assert graph.update([calls[0]] if call == "cudaGraphDestroy" else calls) == "instantiated"
    assert shim.last_error() == 0
shim.reset()
# The graph is as it was, and what fails at its launch is told.
graph.launch()
assert len(shim.launches()) == 3
shim.reset()
shim.fails("cudaGraphLaunch", 719)
try:
    graph.launch()
except aicf_rt.CudaLost as e:
    assert str(e).startswith("launch: cudaErrorLaunchFailure (719)"), e
else:
    raise AssertionError
shim.reset()
aicf_rt.capture(calls).launch()
assert len(shim.launches()) == 3 and shim.failed() == []
"""
    )


@pytest.mark.promise("GRAPH-refuses")
def test_what_is_no_graph(over: Over, ops: list[str]) -> None:
    over(
        HEAD
        + """
import numpy as np
a, b, c = take()
x, y, z = take(device="cuda:1")
h, i, j = take(device="cpu")
one = add.bind(a, b, c)
graph = aicf_rt.capture([one])
host = np.zeros(64, np.float32)
large, deep = aicf_rt.empty((1 << 15,), "f32", "cuda"), np.zeros(1 << 15, np.float32)

class Broken:
    def __cuda_stream__(self):
        raise KeyError(5)

def raises(kind, words, do):
    shim.reset()
    try:
        do()
    except kind as e:
        assert words in str(e), (words, str(e))
        assert shim.launches() == [] and not shim.count(b"cudaStreamBeginCapture"), e
        return e
    raise AssertionError(words)

U, T, V = aicf_rt.Unsupported, TypeError, ValueError
for take_in in (aicf_rt.capture, graph.update):
    for wrong in (None, 1, "add", {1: one}, iter([one]), one):
        raises(T, "takes a list or tuple of calls, not a", lambda: take_in(wrong))
    for wrong in (None, add, (a,), (a, b, c), [a, b], a, graph, object()):
        raises(T, "item 1 is a", lambda: take_in([one, wrong]))
    e = raises(U, "capture: item 1, add: it runs on cpu, which has no graphs",
               lambda: take_in([one, add.bind(h, i, j)]))
    assert (e.op, e.item) == ("add", 1)
    raises(U, "item 1, add: it is on cuda:1, and those before it are on cuda:0",
           lambda: take_in([one, add.bind(x, y, z)]))
    raises(U, "item 1, copy: one side of it is on the host", lambda: take_in([one, (host, a)]))
    raises(U, "copy: out: its shape is not that of source",
           lambda: take_in([(a, take(1, 65)[0])]))
    raises(U, "copy: out: it overlaps source", lambda: take_in(
        [(aicf_rt.view(a, (32,), offset=64), aicf_rt.view(a, (32,)))]))
    raises(U, "copy: out: it is on another device", lambda: take_in([(a, x)]))
    raises(T, "", lambda: take_in([(a, None)]))
    raises(U, "it was bound with another stream= than item 0",
           lambda: take_in([one, add.bind(a, b, c, stream=7)]))
raises(U, "update: the calls are on another device", lambda: graph.update([add.bind(x, y, z)]))
raises(U, "or one of the two launches nothing", lambda: graph.update([]))
raises(U, "or one of the two launches nothing", lambda: aicf_rt.capture([]).update([one]))
for wrong in (1, a, [host, a], (host,), (host, a, a)):
    raises(T, "feed is a tuple", lambda: aicf_rt.capture([one], feed=wrong))
raises(U, "feed: it is a pair (host, out)", lambda: aicf_rt.capture([one], feed=(a, host)))
raises(U, "feed: it is a pair (host, out)", lambda: aicf_rt.capture([one], feed=(a, b)))
raises(U, "feed: out is on another device", lambda: aicf_rt.capture([one], feed=(host, x)))
raises(U, "feed: it is of 64 KiB at most", lambda: aicf_rt.capture([one], feed=(deep, large)))
raises(U, "copy: out: its dtype is not", lambda: aicf_rt.capture(
    [one], feed=(np.zeros(64, np.int32), a)))
raises(T, "", lambda: aicf_rt.capture())
raises(T, "", lambda: aicf_rt.capture([one], None))
raises(T, "", lambda: aicf_rt.capture([one], fed=None))
for wrong in (-1, True, 1.0, "7", (0, 7), object(), 2**64):
    raises(T, "launch: stream", lambda: graph.launch(wrong))
raises(KeyError, "5", lambda: graph.launch(Broken()))
raises(T, "launch() takes a stream at most", lambda: graph.launch(1, 2))
raises(T, "launch() takes a stream at most", lambda: graph.launch(1, stream=2))
raises(T, "launch() takes stream=, not streams=", lambda: graph.launch(streams=2))
raises(T, "", lambda: graph(streams=2))
raises(T, "", lambda: aicf_rt.Graph())
raises(T, "", lambda: type("Mine", (aicf_rt.Graph,), {}))
import copy, pickle
raises(T, "it stands for memory", lambda: copy.copy(graph))
raises(T, "it stands for memory", lambda: pickle.dumps(graph))
# What launches nothing is a graph of nothing, wherever it is.
empty = [aicf_rt.empty((0,), "f32", "cuda") for _ in range(3)]
for calls in ([], (), [add.bind(*empty)], [(empty[0], empty[1])]):
    nothing = aicf_rt.capture(calls)
    shim.reset()
    nothing.launch()
    nothing(stream=7)
    assert shim.lines() == [] and (nothing.nodes, nothing.device) == (0, None), calls
assert repr(graph) == "<aicf_rt.Graph of 1 calls, 1 nodes on cuda:0>", graph
graph.launch()
"""
    )


@pytest.mark.promise("GRAPH-capture", "S2")
def test_streams_of_frameworks(over: Over, ops: list[str]) -> None:
    """A launch is on the current stream of the calls' framework, behind those of others, as each
    launch finds them; launches on two streams follow each other."""
    over(
        HEAD
        + """
from modules.fake_exchange import Framework
ours, theirs = (Framework("own", "borrow", "stream", stream=n) for n in (7, 9))
Ours, Theirs = ours.type(), theirs.type()
alone = aicf_rt.capture([add.bind(*(Ours(fake(64)) for _ in range(3)))])
mixed = aicf_rt.capture([add.bind(Ours(fake(64)), Theirs(fake(64)), Ours(fake(64)))])
assert not [line for line in shim.launches()]

def launched(graph, *args):
    shim.reset()
    graph.launch(*args)
    found = []
    for line in shim.lines("cudaEventRecord", "cudaStreamWaitEvent", "cudaGraphLaunch"):
        found.append((line.name, line.stream))
    return found

def behind(stream, other):
    return [("cudaEventRecord", other), ("cudaStreamWaitEvent", stream)]

# Of each graph a stream of its own is behind its launches, as theirs may be gone by the next.
L = "cudaGraphLaunch"
(_, (_, one)) = launched(alone)[1:]
def on(stream, own, first=()):
    return list(first) + behind(stream, own) + [(L, stream)] + behind(own, stream)
ours.current = 8
assert launched(alone) == on(8, one)
assert launched(alone) == on(8, one)
assert launched(alone, 5) == on(5, one)
first = launched(mixed)
two = first[-1][1]
assert first == behind(8, 9) + [(L, 8)] + behind(two, 8) and two != one
theirs.current = 8
assert launched(mixed) == on(8, two)
theirs.current = 4
assert launched(mixed, 3) == on(3, two, behind(3, 4))
named = [add.bind(*take(), stream=6), add.bind(*take(), stream=6)]
assert launched(aicf_rt.capture(named + [tuple(take(2))])) == [(L, 6)]
class Stream:
    def __cuda_stream__(self):
        return 0, 77
stream = Stream()
weak = weakref.ref(stream)
assert launched(alone, stream) == behind(77, one) + [(L, 77)]
del stream
assert weak() is not None  # who keeps the stream of the last launch is kept
alone.launch(1)
assert weak() is None
own = aicf_rt.Stream("cuda")
assert launched(alone, own)[-1] == (L, own.__cuda_stream__()[1])
"""
    )


@pytest.mark.promise("GRAPH-capture")
def test_a_launch_that_is_waited_for(over: Over, ops: list[str]) -> None:
    """AICF_DEBUG=sync waits after each launch, and never within a capture."""
    over(
        HEAD
        + """
a, b, c = take()
graph = aicf_rt.capture([add.bind(a, b, c)] * 2)
graph.update([add.bind(c, b, a)] * 2)
assert shim.count(b"cudaStreamSynchronize") == 0 and shim.failed() == []
graph.launch(7)
assert [line.stream for line in shim.lines("cudaStreamSynchronize")] == [7]
shim.fails("cudaStreamSynchronize", 700)
try:
    graph.launch()
except aicf_rt.CudaLost:
    pass
else:
    raise AssertionError
""",
        AICF_DEBUG="sync",
    )
