"""Copies, views, streams and events on a device, as the calls of CUDA that they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Over = Callable[..., Any]
promise = pytest.mark.promise("DESIGN-5-memory")


@promise
def test_a_copy_between_host_and_device_is_waited_for(over: Over) -> None:
    over("""
        import numpy as np
        host = np.arange(6, dtype="f4")
        device = aicf_rt.empty(6, "f32", "cuda:1")
        stream = aicf_rt.Stream("cuda:1")
        handle = stream.__cuda_stream__()[1]
        for source, out in ((host, device), (device, host)):
            shim.reset()
            aicf_rt.copy(source, out, stream=stream)
            copies, waits = shim.lines("cudaMemcpyAsync"), shim.lines("cudaStreamSynchronize")
            assert [line.stream for line in copies + waits] == [handle] * 2, shim.lines()
            assert copies[0].device == 1 and copies[0].words["bytes"] == "24", copies[0].text
            assert shim.device() == 0
            # Behind the stream that the tensor's memory was taken on.
            assert shim.lines("cudaStreamWaitEvent")
        shim.reset()
        aicf_rt.copy(device, aicf_rt.view(aicf_rt.empty(8, "f32", "cuda:1"), 6, offset=8))
        assert len(shim.lines("cudaMemcpyAsync")) == 1 and not shim.lines("cudaStreamSynchronize")
        try:
            aicf_rt.copy(device, aicf_rt.empty(6, "f32", "cuda:0"))
        except aicf_rt.Unsupported as e:
            assert "another device" in str(e)
        else:
            raise AssertionError("two devices")
    """)


@promise
def test_what_cuda_refuses_is_raised(over: Over) -> None:
    over("""
        device = aicf_rt.empty(6, "f32", "cuda")
        first, second = aicf_rt.Event("cuda"), aicf_rt.Event("cuda")
        first.record(); second.record()
        tries = {
            "cudaMemcpyAsync": lambda: aicf_rt.copy(device, aicf_rt.empty(6, "f32")),
            "cudaStreamSynchronize": lambda: aicf_rt.synchronize("cuda"),
            "cudaStreamCreateWithFlags": lambda: aicf_rt.Stream("cuda"),
            "cudaEventCreate": lambda: aicf_rt.Event("cuda"),
            "cudaEventRecord": lambda: first.record(),
            "cudaEventElapsedTime": lambda: first.elapsed(second),
        }
        for name, attempt in tries.items():
            shim.fails(name, 700, 1)
            try:
                attempt()
            except aicf_rt.CudaError as e:
                assert e.code == 700, e
            else:
                raise AssertionError(name)
            assert shim.last_error() == 0 and shim.device() == 0
            attempt()
    """)


@promise
def test_a_view_holds_the_device_memory(over: Over) -> None:
    over("""
        import gc
        before = shim.live()
        base = aicf_rt.empty((4, 4), "f32", "cuda")
        view = aicf_rt.view(base, (4,), strides=(4,), offset=4)
        assert view.device == "cuda:0"
        addresses = [t.__cuda_array_interface__["data"][0] for t in (base, view)]
        assert addresses[1] == addresses[0] + 4
        del base
        gc.collect()
        assert shim.live() == before + 1
        del view
        gc.collect()
        assert shim.live() == before
    """)


@promise
def test_memory_outlives_the_object_of_its_stream(over: Over) -> None:
    """What was taken on a stream is given back on it: so the stream stays, and serves again."""
    over("""
        import gc
        stream = aicf_rt.Stream("cuda:1")
        handle = stream.__cuda_stream__()[1]
        tensor = aicf_rt.empty(8, "f32", "cuda:1", stream=handle)
        shim.reset()
        del stream
        gc.collect()
        assert not shim.lines("cudaStreamDestroy")
        del tensor
        gc.collect()
        assert [line.stream for line in shim.lines("cudaFreeAsync")] == [handle]
        assert aicf_rt.Stream("cuda:0").__cuda_stream__()[1] != handle
        first, second = aicf_rt.Stream("cuda:1"), aicf_rt.Stream("cuda:1")
        assert first.__cuda_stream__()[1] == handle != second.__cuda_stream__()[1]
        assert first.device == "cuda:1"
    """)
