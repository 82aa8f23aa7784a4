"""Graphs beside threads, forks, the garbage collection and the end of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime import building
from shim.conftest import Over
from shim.test_graphs import HEAD


@pytest.mark.promise("GRAPH-lives")
def test_what_a_graph_keeps(over: Over, ops: list[str]) -> None:
    """Calls as they were and their memory, until it goes or has others; what cycles is found."""
    over(
        HEAD
        + """
import numpy as np
a, b, c, d = take(4)
call = add.bind(a, b, c)
graph = aicf_rt.capture([call, (c, d)])
shim.reset()
call.set(a=b, b=b)
x, y, z = take(3, 128)
call.set(a=x, b=y, out=z)  # the graph's is another
del a, b, c, d
gc.collect()
assert shim.lines("cudaFreeAsync") == []
graph.launch(7)
assert len(shim.launches()) == 1
shim.reset()
update = graph.update([call, (y, z)])
assert len(shim.lines("cudaFreeAsync")) == 4, update
del call, x, y, z
gc.collect()
assert len(shim.lines("cudaFreeAsync")) == 4
weak = weakref.ref(graph)
shim.reset()
del graph
assert weak() is None and len(shim.lines("cudaFreeAsync")) == 3
assert kinds().index("cudaGraphExecDestroy") < kinds().index("cudaFreeAsync")

class Array(np.ndarray):
    pass
def cycle():
    host = np.zeros(4, np.float32).view(Array)
    host.graph = aicf_rt.capture([tuple(take(2, 4))], feed=(host, take(1, 4)[0]))
    host.graph.launch()
    return weakref.ref(host.graph)
found = [cycle() for _ in range(3)]
gc.collect()
assert [w() for w in found] == [None] * 3

# A list that holds its graph, by what it was captured from.
tensors = take(2)
class Owner(list):
    pass
owner = Owner()
bound = relu.bind(*tensors)
owner.append(aicf_rt.capture([bound]))
weak = weakref.ref(owner)
owner.append(owner)
del owner
gc.collect()
assert weak() is None
before = shim.live()
for _ in range(200):
    graph = aicf_rt.capture([bound, tuple(tensors)], feed=(np.zeros(64, np.float32), tensors[0]))
    graph.launch()
    graph.update([bound])
del graph
assert shim.live() == before
made, gone = shim.count(b"cudaGraphInstantiate"), shim.count(b"cudaGraphExecDestroy")
assert made + 1 == gone, (made, gone)  # and the first
streams = shim.lines("cudaStreamCreateWithFlags")
assert streams == [], [line.text for line in streams]  # one serves all captures
"""
    )


@pytest.mark.promise("GRAPH-lives")
def test_the_stream_of_the_last_launch_is_kept(over: Over, ops: list[str]) -> None:
    """Of the last that was queued, whichever thread is the last to come back from its launch; and
    where a launch does not even wait for the one before, that one's."""
    over(
        HEAD
        + """
import time
class Stream:
    def __init__(self, handle):
        self.handle = handle
    def __cuda_stream__(self):
        return 0, self.handle

graph = aicf_rt.capture([tuple(take(2))])
graph.launch()
shim.reset()
shim.delay(b"cudaStreamSynchronize", 0.5)
first, second = Stream(0x70), Stream(0x80)
kept = [weakref.ref(first), weakref.ref(second)]
thread = threading.Thread(target=lambda stream: graph.launch(stream), args=(first,))
thread.start()
while not shim.count(b"cudaGraphLaunch"):
    pass
time.sleep(0.05)  # it waits by now
shim.delay(b"cudaStreamSynchronize", 0)
graph.launch(second)
thread.join()
del first, second, thread
gc.collect()
assert [k() is not None for k in kept] == [False, True]
shim.fails("cudaStreamWaitEvent", 2)
third = Stream(0x90)
try:
    graph.launch(third)
except aicf_rt.CudaError:
    pass
else:
    raise AssertionError
gc.collect()
assert kept[1]() is not None
""",
        AICF_DEBUG="sync",
    )


@pytest.mark.promise("GRAPH-lives")
def test_no_stream_that_somebody_had_is_captured(over: Over, ops: list[str]) -> None:
    """What was taken on it may be given back there at any moment, and calls be launched."""
    over(
        HEAD
        + """
stream = aicf_rt.Stream("cuda")
handle = stream.__cuda_stream__()[1]
tensor = aicf_rt.empty((64,), "f32", "cuda", stream=handle)
del stream
gc.collect()
shim.reset()
aicf_rt.capture([tuple(take(2))])
assert [x.stream for x in shim.lines("cudaStreamBeginCapture")] != [handle]
assert aicf_rt.Stream("cuda").__cuda_stream__()[1] == handle  # the next object has it
"""
    )


@pytest.mark.promise("GRAPH-lives", "COMPILER-capture-devices")
def test_a_capture_beside_work_of_others(over: Over, ops: list[str]) -> None:
    """On cuda:1, while another thread waits, allocates and launches on cuda:0: a capture forbids
    that to its own thread alone."""
    over(
        HEAD
        + """
shim.delay(b"cudaStreamBeginCapture", 0.2)
shim.delay(b"cudaStreamEndCapture", 0.2)
there = [aicf_rt.empty((64,), "f32", "cuda:1") for _ in range(3)]
call = add.bind(*there)
call()
done, failed, ticks = [], [], []
def work():
    try:
        while not done:
            a, b, c = take()
            add.bind(a, b, c)()
            aicf_rt.synchronize("cuda:0")
            ticks.append(len([x for x in shim.lines("cudaStreamBeginCapture")])
                         - len(shim.lines("cudaStreamEndCapture")))
    except BaseException as e:
        failed.append(e)
        raise
thread = threading.Thread(target=work)
thread.start()
while 1 not in ticks:  # until some work went on within a capture
    graph = aicf_rt.capture([call] * 4)
    assert graph.device == "cuda:1" and shim.device() == 0
    graph.launch()
    shim.lines()
done.append(1)
thread.join()
assert not failed
launched = shim.lines("cudaGraphLaunch")
assert launched and {line.device for line in launched} == {1}
# What the thread itself does within, none of us does: it would end the capture.
"""
    )


@pytest.mark.promise("GRAPH-failure", "GRAPH-lives")
def test_a_capture_that_others_spoil(over: Over, ops: list[str]) -> None:
    """Who waits for a whole device is refused by CUDA while anything is captured there, and ends
    the capture: that is tried again."""
    over(
        HEAD
        + """
a, b, c = take()
call = add.bind(a, b, c)
graph = aicf_rt.capture([call])

def spoil(times):
    shim.reset()
    shim.delay(b"cudaStreamEndCapture", 0.2)
    refused, done = [], []
    def wait():
        while not done and len(refused) < times:
            open_now = (len(shim.lines("cudaStreamBeginCapture"))
                        - len(shim.lines("cudaStreamEndCapture")))
            if open_now == 1 and len(shim.lines("cudaStreamEndCapture")) == len(refused):
                refused.append(shim._library.cudaDeviceSynchronize())
    thread = threading.Thread(target=wait)
    thread.start()
    try:
        return graph.update([call])
    except aicf_rt.CudaError as e:
        return str(e)
    finally:
        done.append(1)
        thread.join()
        assert refused == [900] * times, refused
        assert shim.count(b"cudaStreamBeginCapture") == shim.count(b"cudaStreamEndCapture")

assert spoil(0) == spoil(1) == spoil(3) == "updated"
said = spoil(4)
assert said.startswith("capture: cudaErrorStreamCaptureInvalidated (901)"), said
assert "another thread waited for the whole device" in said and "item" not in said, said
assert shim.last_error() == 0
shim.reset()
graph.launch()
assert len(shim.launches()) == 1
"""
    )


@pytest.mark.promise("GRAPH-lives")
def test_many_threads(over: Over, ops: list[str]) -> None:
    """Captures beside each other are on streams of their own; one graph that all launch and update
    is launched by one at a time."""
    over(
        HEAD
        + """
import numpy as np
shared = take()
host = np.zeros(64, np.float32)
graph = aicf_rt.capture([add.bind(*shared)], feed=(host, shared[0]))
start, failed = threading.Barrier(4), []
def work(k):
    try:
        mine = take()
        call = add.bind(*mine)
        start.wait()
        for i in range(60):
            if i % 5 == k:
                graph.update([call, call][: 1 + i % 2])
            graph.launch(1 + 6 * (i % 2))
            own = aicf_rt.capture([call, tuple(mine[:2])])
            own.launch(20 + k)
    except BaseException as e:
        failed.append(repr(e))
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
assert [x for x in shim.failed() if "GraphExecUpdate" not in x and "LastError" not in x] == []
open_now = {}
for line in shim.lines("cudaStreamBeginCapture", "cudaStreamEndCapture"):
    stream = line.words["stream"]
    assert open_now.get(stream, False) == (line.name == "cudaStreamEndCapture"), line.text
    open_now[stream] = line.name == "cudaStreamBeginCapture"
most = 2 * len(threads) + 1  # a thread's capture and its graph each have one, and the shared graph
assert len(open_now) <= most and not any(open_now.values()), open_now
"""
    )


@pytest.mark.promise("GRAPH-lives", "S7")
def test_what_is_slow_lets_others_run(over: Over, ops: list[str]) -> None:
    """A capture, an update, the first launch, and one that waits for slots."""
    over(
        HEAD
        + """
import time
import numpy as np
def beside(do, *calls):
    for call in calls:
        shim.delay(call, 0.3)
    ticks, end = [], []
    def tick():
        while not end:
            ticks.append(time.monotonic())
            time.sleep(0.001)
    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    do()
    finish = time.monotonic()
    end.append(1)
    thread.join()
    for call in calls:
        shim.delay(call, 0.0)
    assert finish - begin > 0.29
    within = [t for t in ticks if begin + 0.05 < t < finish - 0.05]
    assert len(within) > 3, (calls, len(within))
a, b, c = take()
call = add.bind(a, b, c)
graph = aicf_rt.capture([call], feed=(np.zeros(64, np.float32), a))
beside(lambda: aicf_rt.capture([call]), b"cudaGraphInstantiate")
beside(lambda: graph.update([call]), b"cudaGraphExecUpdate")
beside(aicf_rt.capture([call]).launch, b"cudaGraphLaunch", b"cuGraphLaunch")
for _ in range(32):
    graph.launch()
beside(graph.launch, b"cudaEventSynchronize")
"""
    )


HOLD = """
from shim.steer import *
import builtins, gc, os, sys
import numpy as np
add = module("add")
tensors = [aicf_rt.empty((64,), "f32", "cuda") for _ in range(4)]
host = np.zeros(64, np.float32)
graphs = [aicf_rt.capture([add.bind(t, t, t)], feed=(host, t)) for t in tensors]
cycle = [graphs[0]]
cycle.append(cycle)
builtins.kept, sys.kept = graphs[1], graphs[2]
class Late:
    def __init__(self, graph):
        self.graph = graph
    def __del__(self):
        self.graph.launch()
late = Late(graphs[3])
for graph in graphs:
    graph.launch()
"""


@pytest.mark.promise("GRAPH-lives", "PROCESS-exit")
@pytest.mark.parametrize("end", ["falls off", "raises", "os._exit"])
def test_the_end_with_graphs_in_flight(
    package: Path, ops: list[str], tmp_path: Path, end: str
) -> None:
    """Nothing is waited for, and the status is right."""
    log = tmp_path / "log"
    last = {"falls off": "pass", "raises": "raise KeyError(5)", "os._exit": "os._exit(6)"}[end]
    waits = "".join(
        f"shim.delay(b'{call}', 60)\n"
        for call in ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize")
    )
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HOLD + waits + last],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(package), str(building.ROOT / "tests")]),
            "AICF_SHIM_LOG": str(log),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == {"falls off": 0, "raises": 1, "os._exit": 6}[end], done.stderr
    assert (done.stderr == "") == (end != "raises"), done.stderr
    called = [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()]
    assert called.count("cudaGraphLaunch") >= 4
    assert called.count("cudaGraphExecDestroy") <= 4


@pytest.mark.promise("GRAPH-lives", "PROCESS-fork")
def test_a_forked_child(over: Over, ops: list[str], tmp_path: Path) -> None:
    """It drops the parent's graphs and cannot launch or capture, without a call of CUDA's."""
    over(
        HOLD.removeprefix("\nfrom shim.steer import *")
        + """
open(os.environ["AICF_SHIM_LOG"], "w").close()
child = os.fork()
if child == 0:
    told = []
    for do in (graphs[0].launch, lambda: graphs[0].update(graphs[0].calls),
               lambda: aicf_rt.capture(graphs[0].calls)):
        try:
            do()
        except aicf_rt.CudaError as e:
            told.append("forked after CUDA was used" in str(e))
    late.graph = aicf_rt.capture([])
    del late, graph, graphs, cycle, builtins.kept, sys.kept, do
    gc.collect()
    sys.exit(3 if told == [True] * 3 else 4)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == 3, status
told = open(os.environ["AICF_SHIM_LOG"]).read()
assert told == "", told
graphs[0].launch()
""",
        AICF_SHIM_LOG=str(tmp_path / "log"),
    )


@pytest.mark.promise("GRAPH-lives", "GRAPH-capture")
def test_streams_that_are_gone_are_not_asked(over: Over, ops: list[str]) -> None:
    """Named by a number, or a framework's whose object went: what comes next waits for what was
    queued there, and the handle, which may be another's by then, is never used again."""
    over(
        HEAD
        + """
from modules.fake_exchange import Framework
ours = Framework("own", "borrow", "stream", stream=9)
Ours = ours.type()
graphs = [aicf_rt.capture([add.bind(*take())]),
          aicf_rt.capture([add.bind(*(Ours(fake(64)) for _ in range(3)))])]

def used(graph, *args):
    shim.reset()
    graph.launch(*args)
    lines = shim.lines("cudaEventRecord", "cudaStreamWaitEvent", "cudaGraphLaunch")
    return [(line.name, line.stream) for line in lines]

L, R, W = "cudaGraphLaunch", "cudaEventRecord", "cudaStreamWaitEvent"
for graph, args, gone in ((graphs[0], (9,), 9), (graphs[1], (), 9), (graphs[1], (11,), 11)):
    first = used(graph, *args)
    assert (L, gone) == first[-3] and first[-2] == (R, gone), first
    own = first[-1][1]
    assert first[-1] == (W, own) and own not in (gone, 1, 2), first
    ours.current = 8  # where 9 was another's stream may be by now
    for other in (gone, 1):
        then = used(graph, other)
        assert then[:3] == [(R, own), (W, other), (L, other)], then
    ours.current = 9
    weak = weakref.ref(graph)
del graph, graphs
assert weak() is None and shim.failed() == []
# Who keeps the stream, and who has it for ever, pays nothing.
kept = aicf_rt.Stream("cuda")
graph = aicf_rt.capture([add.bind(*take())])
for args in ((kept,), (kept,), ()):
    found = used(graph, *args)
    assert [name for name, _ in found].count(L) == 1 and found[-1][0] == L, found
"""
    )


@pytest.mark.promise("GRAPH-feed", "GRAPH-refuses")
def test_a_fed_graph_on_a_stream_that_is_captured(over: Over, ops: list[str]) -> None:
    """By somebody else: what he makes would keep the numbers of that moment. Nothing is queued,
    and his capture goes on."""
    over(
        HEAD
        + """
import ctypes
import numpy as np
a, b = take(2, 4)
plain = aicf_rt.capture([(a, b)])
for fed in (True, False):  # by the stream's commands, or a copy
    numbers = aicf_rt.empty((4,), "f32", "cuda", fed=fed)
    graph = aicf_rt.capture([(numbers, a)], feed=(np.zeros(4, np.float32), numbers))
    graph.launch(7)
    library = shim._library
    assert library.cudaStreamBeginCapture(ctypes.c_void_p(7), 1) == 0
    shim.reset()
    try:
        graph.launch(7)
    except aicf_rt.Unsupported as e:
        assert str(e).startswith("launch: the stream is being captured"), e
        assert e.arg == "stream"
    else:
        raise AssertionError(fed)
    made = ctypes.c_void_p()
    names = {line.name for line in shim.lines()}
    assert not names & {"cuStreamBatchMemOp", "cudaMemcpyAsync", "cudaGraphLaunch",
                        "capture:cudaMemcpyAsync", "cudaEventRecord"}, names
    assert library.cudaStreamEndCapture(ctypes.c_void_p(7), ctypes.byref(made)) == 0
    shim.reset()
    graph.launch(7)
    assert shim.count(b"cudaGraphLaunch") == 1 and shim.failed() == []
"""
    )
