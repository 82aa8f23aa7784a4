"""Tensors that say of themselves which stream they are ready on, and not which device they are on;
and the memory of a call, which is the stream's."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

Over = Callable[..., Any]

HEAD = """
    class Interface:
        def __init__(self, data, count=64, **entries):
            self.__cuda_array_interface__ = {
                "shape": (count,), "typestr": "<f4", "data": (data, False), "version": 3, **entries}

    add = module("add")
    addresses = iter(range(1 << 32, 2 << 32, 1 << 20))  # the first device's, as SHIM has it

    def ready(**entries):
        return Interface(next(addresses), **entries)
"""


def code(text: str) -> str:
    return textwrap.dedent(HEAD) + textwrap.dedent(text)


@pytest.mark.promise("S4")
def test_the_stream_of_an_array_interface(over: Over, ops: list[str]) -> None:
    """It is waited for by an event where it is another one, before the launch; nothing is waited
    for where there is none; 0 is refused."""
    over(
        code("""
        def events(x, stream):
            shim.reset()
            assert add.add_f32(x, ready(), ready(), stream=stream) is True
            lines = [x for x in shim.lines() if "stream" in x.words and x.name[:4] == "cuda"]
            assert lines[-1].name == "cudaLaunchKernel"
            return [(x.name, x.stream) for x in lines[:-1]]

        for launch, used in ((None, 1), (1, 1), (2, 2), (64, 64)):
            assert events(ready(), launch) == []
            assert events(ready(stream=None), launch) == []
            for theirs in (1, 2, 64, 80):
                want = [("cudaEventRecord", theirs), ("cudaStreamWaitEvent", used)]
                assert events(ready(stream=theirs), launch) == (want if theirs != used else [])
        for theirs in (0, -1, "1", 1.5, 2**64):
            shim.reset()
            try:
                assert add.add_f32(ready(stream=theirs), ready(), ready()) is False
            except (TypeError, ValueError, OverflowError) as e:
                assert "stream" in str(e), e
            assert shim.launches() == []
        shim.reset()
        assert shim.failed() == []
        """)
    )


@pytest.mark.promise("A4", "T5")
def test_the_device_of_an_array_interface(over: Over, ops: list[str]) -> None:
    """The one that its memory is on, whichever is current; two of them are refused."""
    over(
        code("""
        def on(device):
            kept = aicf_rt.empty((64,), "f32", f"cuda:{device}")
            made = Interface(kept.__cuda_array_interface__["data"][0])
            made.kept = kept
            return made

        for current in (0, 1):
            shim.set_device(current)
            for device in (0, 1):
                tensors = [on(device) for _ in range(3)]
                before = len(shim.lines())
                assert add.add_f32(*tensors) is True
                lines = [x for x in shim.lines()[before:] if x.name == "cudaLaunchKernel"]
                assert {x.device for x in lines} == {device}
                assert shim.device() == current
        assert add.add_f32(on(0), on(1), on(0)) is False
        assert add.add_f32(on(1), ready(), on(1)) is False  # the first device's
        shim._library.cudaSetDevice(99)
        assert add.add_f32(on(1), on(1), on(1)) is True
        assert shim.last_error() == 101
        shim._library.cudaGetLastError()
        shim.fails("cudaPointerGetAttributes", 1)
        assert add.add_f32(on(0), on(0), on(0)) is True
        assert shim.last_error() == 0
        """)
    )


@pytest.mark.promise("S5")
def test_a_workspace_is_the_streams(over: Over, ops: list[str]) -> None:
    """Taken before the launches on their stream, given back behind them on it: whoever gets the
    memory next comes after. So it is where a launch fails."""
    told = over("""
        seen = 0
        for op in OPS:
            for call in calls_of(op, (3, 200), 600):
                for fails in (0, 719):
                    shim.reset()
                    shim.fails("cudaLaunchKernel", fails)
                    try:
                        ran = call.run(stream=64)
                    except aicf_rt.CudaError as e:
                        assert e.code == fails
                    names = [x.name for x in shim.lines() if x.words.get("stream") == "0x40"]
                    if "cudaMallocAsync" in names:
                        own = [x for x in names if x != "cuLaunchKernel"]
                        launches = [x for x in own if x == "cudaLaunchKernel"]
                        assert launches, call
                        assert own == ["cudaMallocAsync", *launches, "cudaFreeAsync"], (call, own)
                        seen += 1
                    assert shim.live() == 0
        tell(seen)
    """)
    assert told > 0 or not {"sum", "bias_add_bwd"} & set(ops)


@pytest.mark.promise("S4", "DESIGN-5-launch")
def test_tensors_of_ours(over: Over, ops: list[str]) -> None:
    """They are borrowed as they are, without a call of Python or CUDA, and the launch waits for
    their own stream where it is another; in every form."""
    over(
        code("""
        def own(stream=1):
            return aicf_rt.empty((64,), "f32", "cuda", stream=stream)

        def events(call):
            before = len(shim.lines())
            call()
            lines = shim.lines()[before:]
            used = [x for x in lines if "stream" in x.words and x.name[:4] == "cuda"]
            assert used[-1].name == "cudaLaunchKernel"
            return [(x.name, x.stream) for x in used]

        def waits(theirs, used):
            first = [("cudaEventRecord", t) for t in theirs]
            then = [("cudaStreamWaitEvent", used) for t in theirs]
            return [x for pair in zip(first, then) for x in pair] + [("cudaLaunchKernel", used)]

        a, b, out, other, third = own(), own(), own(), own(64), own(80)
        for _ in range(3):
            assert events(lambda: add.add_f32(a, b, out)) == waits([], 1)
            assert events(lambda: add.add_f32(a, other, out)) == waits([64], 1)
            assert events(lambda: add.add_f32(other, b, out)) == waits([64], 1)
            assert events(lambda: add.add_f32(other, third, out)) == waits([64, 80], 1)
            assert events(lambda: add.add_f32(a, b, out=out)) == waits([], 1)
            assert events(lambda: add.add(other, b, out=out)) == waits([64], 1)
            assert events(lambda: add.add_f32(other, other, other, stream=64)) == waits([], 64)
            assert events(lambda: add.add_f32(other, b, out, stream=64)) == waits([1], 64)
            assert events(lambda: add.add_f32(fake(64), other, out)) == waits([64], 1)
            assert events(lambda: add.add_f32(other, fake(64), out, stream=64)) == waits([1], 64)
        calls = [x.name for x in shim.lines()]
        add.add_f32(a, b, out)
        more = [x.name for x in shim.lines()][len(calls):]
        assert more[-1] == "cudaLaunchKernel" and len(more) <= 4, more
        """)
    )


@pytest.mark.promise("A4")
def test_a_tensor_of_ours_on_another_device(over: Over, ops: list[str]) -> None:
    """Read where it lies, whichever device is current."""
    over(
        code("""
        def own(device):
            return aicf_rt.empty((64,), "f32", f"cuda:{device}")

        for current in (0, 1, 0):
            shim.set_device(current)
            for device in (0, 1, 1, 0):
                before = len(shim.launches())
                three = [own(device) for _ in range(3)]
                assert add.add_f32(*three) is True
                assert [x.device for x in shim.launches()[before:]] == [device]
                assert shim.device() == current
        assert add.add_f32(own(0), own(1), own(0)) is False
        assert shim.failed() == []
        """)
    )
