"""Graphs of aicf_rt on a GPU: numbers that are fed, updates, streams, threads, devices."""

from __future__ import annotations

import contextlib
import importlib
import random
import threading
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.gpu]

LAUNCHES = 1000


def ones(rt: Any, count: int = 4, value: float = 1.0, device: str = "cuda") -> Any:
    """As f32; so many that a launch of many calls takes its time."""
    made = rt.empty((count,), "f32", device)
    rt.copy(np.full(count, value, "f4"), made)
    return made


def values(rt: Any, tensor: Any) -> list[float]:
    found = np.empty(tensor.shape, "f4")
    rt.synchronize(tensor.device)
    rt.copy(tensor, found)
    return sorted(set(found.tolist()))


FIRST = """
    import numpy as np
    import aicf_cuda.add as add
    import aicf_rt
    tensors = [aicf_rt.empty((1000,), "f32", "cuda") for _ in range(3)]
    graph = aicf_rt.capture([add.bind(*tensors), add.bind(tensors[2], tensors[1], tensors[2])])
    for i in range(2):
        aicf_rt.copy(np.full(1000, i + 1.0, "f4"), tensors[i])
    graph.launch()
    found = np.empty(1000, "f4")
    aicf_rt.copy(tensors[2], found)
    print(graph.nodes, sorted(set(found.tolist())))
"""


@pytest.mark.promise("COMPILER-capture-first")
@pytest.mark.parametrize("loading", ["LAZY", "EAGER"])
def test_a_capture_as_the_first_work_of_a_process(start: Any, loading: str) -> None:
    """No kernel was loaded before, nor a stream used."""
    assert start(FIRST, CUDA_MODULE_LOADING=loading).output().strip() == "2 [5.0]"


@pytest.mark.promise("GRAPH-feed", "GRAPH-capture")
def test_a_thousand_launches_with_a_number_each(add: Any, rt: Any) -> None:
    """Queued without waiting, on two streams; each is written over as soon as it was fed."""
    number, total, other = (ones(rt, value=0.0) for _ in range(3))
    host = np.zeros(4, "f4")
    slow = [add.bind(ones(rt, 1 << 22), ones(rt, 1 << 22), ones(rt, 1 << 22))] * 4
    graph = rt.capture([*slow, add.bind(total, number, total), (total, other)], feed=(host, number))
    assert graph.nodes == 6
    side = rt.Stream("cuda")
    for i in range(LAUNCHES):
        host[:] = i
        graph.launch(side if i // 50 % 2 else None)
        host[:] = -1e6
    rt.synchronize("cuda", side)
    want = [float(sum(range(LAUNCHES)))]
    assert (values(rt, total), values(rt, other)) == (want, want)


@pytest.mark.promise("GRAPH-feed")
@pytest.mark.parametrize(
    "count, skip, fed",
    [(2, 0, True), (2, 0, False), (3, 1, True), (64, 0, True), (65, 0, True), (4096, 3, False)],
)
def test_each_launch_has_its_own_numbers(
    add: Any, rt: Any, count: int, skip: int, fed: bool
) -> None:
    """As words in the commands, or copied where they are more; kept of every launch, while slow
    work before them lets hundreds pile up."""
    memory, sums = rt.empty((count + skip,), "f32", "cuda", fed=fed), ones(rt, count, 0.0)
    number = rt.view(memory, (count,), offset=4 * skip)
    kept = rt.empty((LAUNCHES, count), "f32", "cuda")
    big = ones(rt, 1 << 24)
    slow = add.bind(big, big, big)
    host = np.zeros(count, "f4")
    graph = rt.capture([add.bind(number, number, sums)], feed=(host, number))
    want = np.arange(LAUNCHES, dtype="f4")[:, None] + np.arange(count, dtype="f4")
    for i in range(LAUNCHES):
        if i % 100 == 0:
            for _ in range(20):
                slow()
        host[:] = want[i]
        graph.launch()
        host[:] = -1e6
        rt.copy(sums, rt.view(kept, (count,), offset=4 * i * count))
    found = np.empty((LAUNCHES, count), "f4")
    rt.synchronize("cuda")
    rt.copy(kept, found)
    assert (found == 2 * want).all()


@pytest.mark.guests("torch")
@pytest.mark.promise("GRAPH-feed", "GRAPH-refuses")
@pytest.mark.parametrize("fed", [True, False])
def test_a_fed_graph_while_torch_captures_its_stream(add: Any, rt: Any, fed: bool) -> None:
    """It would keep the numbers of that moment: refused, and torch's capture goes on."""
    import torch

    number, out = rt.empty((4,), "f32", "cuda", fed=fed), ones(rt)
    graph = rt.capture([add.bind(number, number, out)], feed=(np.full(4, 2.0, "f4"), number))
    made, x = torch.cuda.CUDAGraph(), torch.ones(4, device="cuda")
    with torch.cuda.graph(made):
        x += 1
        stream = torch.cuda.current_stream().cuda_stream
        with pytest.raises(rt.Unsupported, match="the stream is being captured"):
            graph.launch(stream)
        x += 1
    made.replay()
    graph.launch()
    torch.cuda.synchronize()
    assert (x.tolist(), values(rt, out)) == ([3.0] * 4, [4.0])


@pytest.mark.promise("GRAPH-branches")
@pytest.mark.parametrize("seed", range(8))
def test_branches_over_shared_memory(add: Any, rt: Any, seed: int) -> None:
    """Sums, products and copies over one arena, at random: what runs at once leaves the bits that a
    chain does, launch after launch."""
    gemm, total = (importlib.import_module(f"aicf_cuda.{op}") for op in ("gemm", "sum"))
    r = random.Random(seed)
    n, size = 256, 1 << 22
    arena = rt.empty((size,), "u8", "cuda")
    whole = rt.view(arena, (size // 4,), dtype="f32")

    def matrix(rows: int = n) -> Any:
        at = 256 * r.randrange((size - rows * n * 4) // 256)
        return rt.view(arena, (rows, n), offset=at, dtype="f32")

    makers = [
        lambda: add.bind(matrix(), matrix(), matrix()),
        lambda: add.bind(*(a := (matrix(), matrix())), a[0]),
        lambda: gemm.bind(matrix(), matrix(), out=matrix(), alpha=0.05),
        lambda: total.bind(matrix(), rt.view(matrix(1), (n,)), axes=(r.randrange(2),)),
        lambda: checked((matrix(), matrix())),
    ]

    def checked(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        rt.capture([pair])
        return pair

    work: list[Any] = []
    while len(work) < 40:
        with contextlib.suppress(rt.Unsupported):  # an out that overlaps an operand
            work.append(r.choice(makers)())
    start = (np.random.default_rng(seed).standard_normal(size // 4) * 0.1).astype("f4")
    found = []
    for branches in (1, 2, 64):
        graph = rt.capture(work, branches=branches)
        for _ in range(3):
            rt.copy(start, whole)
            graph.launch()
            left = np.empty(size // 4, "f4")
            rt.synchronize("cuda")
            rt.copy(whole, left)
            found.append(left.tobytes())
    assert len(set(found)) == 1, [x == found[0] for x in found]


WHOLE = """
    import numpy as np
    import aicf_cuda.lstm as lstm
    import aicf_rt
    T, N, D, H = 32, 1024, 64, 128
    r = np.random.default_rng(0)

    def tensor(shape):
        made = aicf_rt.empty(shape, "f32", "cuda")
        aicf_rt.copy((r.standard_normal(shape) / 8).astype("f4"), made)
        return made

    def layer():
        ins = [(T, N, D), (N, H), (N, H), (4 * H, D), (4 * H, H)]
        outs = [(T, N, H), (N, H), (N, H), (T, N, 4 * H), (T, N, H)]
        made = [aicf_rt.empty(shape, "f32", "cuda") for shape in outs]
        return lstm.bind(*map(tensor, ins), None, None, *made), made[0]

    layers = [layer() for _ in range(4)]
    assert {call.kernel for call, _ in layers} == {"persistent"}
    left = []
    for branches in (1, 2, 4):
        graph = aicf_rt.capture([call for call, _ in layers], branches=branches)
        for turn in range(20):
            graph.launch()
        aicf_rt.synchronize("cuda")
        left.append([])
        for _, out in layers:
            found = np.zeros((T, N, H), "f4")
            aicf_rt.copy(out, found)
            left[-1].append(found.tobytes())
            aicf_rt.copy(np.full((T, N, H), np.nan, "f4"), out)
    print([other == left[0] for other in left[1:]], len(set(left[0])))
"""


@pytest.mark.promise("GRAPH-branches", "GRAPH-whole")
def test_branches_that_each_fill_the_device(start: Any) -> None:
    """Layers of which each launch waits for all its blocks and has as many as the device runs: they
    end, with the bits of a chain."""
    assert start(WHOLE).output(limit=90).strip() == "[True, True] 4"


@pytest.mark.promise("GRAPH-update")
def test_updates_while_it_runs(add: Any, rt: Any) -> None:
    """Launches on their way go on with what was; a graph that is let go runs to its end."""
    a, b = ones(rt, 1 << 22, 1.0), ones(rt, 1 << 22, 2.0)
    outs = [ones(rt, 1 << 22, 0.0) for _ in range(20)]
    graph = rt.capture([add.bind(a, b, outs[0])] * 5)
    graph.launch()
    for k, out in enumerate(outs[1:], 1):
        inputs = (a, b) if k % 2 else (b, b)
        assert graph.update([add.bind(*inputs, out)] * 5) == "updated"
        graph.launch()
    assert graph.update([add.bind(a, a, outs[0]), (a, b)]) == "instantiated"
    assert graph.nodes == 2
    graph.launch()
    del graph
    rt.synchronize("cuda")
    assert values(rt, outs[0]) == [2.0]
    assert values(rt, b) == [1.0]
    assert [values(rt, out) for out in outs[1:]] == [[3.0 if k % 2 else 4.0] for k in range(1, 20)]


@pytest.mark.promise("GRAPH-lives", "COMPILER-capture-devices")
def test_a_capture_beside_work_of_another_thread(add: Any, rt: Any) -> None:
    """Which allocates, waits and copies meanwhile: on another device, where there is one."""
    try:
        device = rt.empty((1,), "f32", "cuda:1").device
    except rt.CudaError:
        device = "cuda:0"
    done: list[bool] = []
    failed: list[BaseException] = []
    worked = 0

    def work() -> None:
        nonlocal worked
        try:
            while not done:
                a = ones(rt, 1000)
                add.bind(a, a, a)()
                rt.synchronize("cuda:0")
                assert values(rt, a) == [2.0]
                worked += 1
        except BaseException as e:
            failed.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        graphs = 0
        while (graphs < 50 or worked < 50) and not failed:
            a, out = ones(rt, 1000, device=device), ones(rt, 1000, device=device)
            graph = rt.capture([add.bind(a, a, out)] * 20)
            graph.launch()
            assert graph.device == device
            assert values(rt, out) == [2.0]
            graphs += 1
    finally:
        done.append(True)
        thread.join()
    assert not failed, failed


@pytest.mark.promise("GRAPH-failure")
def test_a_failure_leaves_nothing_behind(add: Any, rt: Any) -> None:
    """A launch into a capture of somebody else's."""
    torch = pytest.importorskip("torch")
    x = torch.ones(4, device="cuda")
    a, out = ones(rt), ones(rt, value=0.0)
    graph = rt.capture([add.bind(a, a, out)])
    other = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        other.capture_begin(capture_error_mode="thread_local")
        stream = torch.cuda.current_stream()
        x.add_(1)
        try:
            graph.launch(stream)
            launched = True
        except rt.CudaError as e:
            launched = False
            assert "apture" in str(e)
        try:
            other.capture_end()
        except RuntimeError:
            assert not launched
    torch.cuda.synchronize()
    rt.capture([add.bind(a, a, out)]).launch()
    assert values(rt, out) == [2.0]
    assert x.mul_(2).tolist() == [2.0] * 4


@pytest.mark.guests("torch")
@pytest.mark.promise("GRAPH-capture", "COMPILER-capture-moved")
def test_torchs_streams_and_memory(add: Any, rt: Any) -> None:
    """Launched where torch works; memory that torch moved is refused until the graph has it."""
    torch = pytest.importorskip("torch")
    a, b = torch.ones(1 << 22, device="cuda"), torch.ones(1 << 22, device="cuda")
    out = torch.zeros(1 << 22, device="cuda")
    call = add.bind(a, b, out)
    graph = rt.capture([call])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    for stream, value in ((torch.cuda.current_stream(), 2.0), (side, 5.0), (side, 7.0)):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000)
            a.fill_(value)
            graph.launch()
            found = out.clone()
        stream.synchronize()
        assert found.unique().tolist() == [value + 1]
    torch.cuda.current_stream().wait_stream(side)
    b.resize_(1 << 23).fill_(10)
    with pytest.raises(rt.Unsupported, match="b: its memory was resized after it was bound"):
        graph.launch()
    call.set(b=b[: 1 << 22])
    assert graph.update([call]) == "updated"
    graph.launch()
    assert out.unique().tolist() == [17.0]
