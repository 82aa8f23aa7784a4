"""The device that is current: while we work, and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Over = Callable[..., Any]


@pytest.mark.promise("A4")
def test_the_device_of_the_tensors(over: Over, ops: list[str]) -> None:
    """Every op on cuda:1 with cuda:0 current, and the other way, in a new thread too."""
    over("""
        import threading

        def try_all(current, device):
            for op in OPS:
                for call in calls_of(op, (3, 200), 600):
                    shim.reset()
                    shim.set_device(current)
                    if not call.run(device):
                        continue
                    assert shim.device() == current, call
                    launches = shim.launches()
                    assert launches and {line.device for line in launches} == {device}, call
                    names = [line.name for line in shim.lines()]
                    if current != device:
                        first = names.index("cudaSetDevice", 1)
                        assert first < names.index(launches[0].name), (call, names)

        for current, device in ((0, 1), (1, 0), (1, 1), (0, 0)):
            try_all(current, device)
        failures = []
        def run():
            try:
                assert shim.device() == 0
                try_all(0, 1)
            except BaseException as e:
                failures.append(repr(e))
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert not failures, failures
    """)


@pytest.mark.promise("A4")
def test_the_device_comes_back_after_a_failure(over: Over, ops: list[str]) -> None:
    """Whatever call of a path it is that fails, the workspace is given back too."""
    over("""
        for op in OPS:
            call = next(calls_of(op, (3, 200), 600))
            shim.reset()
            assert call.run(1) is True
            names = {line.name for line in shim.lines()} - {"cudaPeekAtLastError"}
            assert "cudaLaunchKernel" in names and "cudaSetDevice" in names
            for name in sorted(names):
                for count in (1, -1):
                    shim.reset()
                    shim.fails(name, 46, count)
                    try:
                        assert call.run(1) in (True, False)
                    except aicf_rt.CudaError as e:
                        assert e.code == 46 and e.op == op, (name, e)
                    else:
                        # Where nothing was raised all was launched, or nothing.
                        assert name != "cudaLaunchKernel", call
                    shim.fails(name, 46, 0)
                    restored = name == "cudaSetDevice" and count == -1
                    assert shim.device() == 0 or restored, (call, name, count)
                    assert shim.live() == 0 or name == "cudaFreeAsync", (call, name, count)
                    shim._library.cudaGetLastError()
                    shim.set_device(0)
    """)


@pytest.mark.promise("A4")
def test_no_context_is_started_for_the_caller(over: Over, ops: list[str]) -> None:
    """The caller's device, on which it has nothing, stays as it is."""
    over("""
        for op in OPS:
            for call in calls_of(op, (3, 200), 600):
                shim.reset()
                shim.start(2)
                if call.run(1):
                    assert shim.started() == 2, call
                    assert shim.lines("cudaSetDevice") == [], call
                    assert shim.device() == 0
                    assert {line.device for line in shim.launches()} == {1}
    """)


@pytest.mark.promise("A4", "T5")
def test_the_device_of_an_array_interface(over: Over, ops: list[str]) -> None:
    """The runtime is asked, by the address; what it does not know is no memory to launch on."""
    over("""
        from modules.fake_producer import FakeInterface

        def at(address):
            return FakeInterface(shape=(4,), typestr="<f4", data=(address, False), version=3)

        add = module("add")
        first, second = 1 << 32, 2 << 32  # as SHIM has it
        for address, device in ((first, 0), (second, 1)):
            shim.reset()
            assert add.add_f32(at(address), at(address), at(address + 64)) is True
            assert {line.device for line in shim.launches()} == {device}
            assert shim.device() == 0
        shim.reset()
        assert add.add_f32(at(first), at(second), at(first + 64)) is False
        try:
            add.add_f32(at(first), at(64), at(first + 64))
        except TypeError as e:
            assert str(e).startswith("add: b has a __cuda_array_interface__ whose data is (64, ")
        else:
            raise AssertionError("an address that is no memory was taken")
        assert shim.launches() == []
        shim.fails("cudaPointerGetAttributes", 46, -1)
        assert add.add_f32(at(first), at(first), at(first + 64)) is True
        assert shim._library.cudaPeekAtLastError() == 0
    """)


@pytest.mark.promise("A4", "D4")
def test_mixed_devices(over: Over, ops: list[str]) -> None:
    """Refused by every op for every position, both devices named; nothing is launched."""
    over("""
        for op in OPS:
            call = next(calls_of(op))
            tensors = call.tensors()
            own = [i for i, t in enumerate(tensors) if t]
            for i in own if len(own) > 1 else []:
                for other in (1, "cpu"):
                    shim.reset()
                    mixed = call.tensors()
                    if other == "cpu":
                        shape = [int(n) for n in mixed[i]._shape]
                        mixed[i] = Fake(4096, shape[: mixed[i].managed.tensor.rank])
                    else:
                        mixed[i].managed.tensor.device_index = 1
                    if call.dtype == "f32":
                        assert call.run_on(mixed) is False, (call, i)
                        told = " ".join(module(op).explain(*mixed, **call.attributes))
                        assert shim.launches() == [] and shim.lines("cudaMallocAsync") == []
        x, y = fake(4), fake(4, device=1)
        for a, b, first, second in ((x, y, "cuda:0", "cuda:1"), (y, x, "cuda:1", "cuda:0")):
            try:
                module("add").add(a, b)
            except aicf_rt.Unsupported as e:
                assert first in str(e) and second in str(e), e
                assert e.arg == "b"
            else:
                raise AssertionError
        assert shim.launches() == []
    """)
