"""What goes wrong in CUDA, in words: launches, sticky errors, drivers, forks, AICF_DEBUG."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Over = Callable[..., Any]

# code: the name, and what helps.
LAUNCH_ERRORS = {
    1: ("cudaErrorInvalidValue", "invalid argument"),
    2: ("cudaErrorMemoryAllocation", "free some, or split the work"),
    9: ("cudaErrorInvalidConfiguration", "beyond what this GPU takes"),
    98: ("cudaErrorInvalidDeviceFunction", "in CUDA_ARCHS"),
    209: ("cudaErrorNoKernelImageForDevice", "in CUDA_ARCHS"),
    222: ("cudaErrorUnsupportedPtxVersion", "The driver is for CUDA 12.8, the PTX"),
    700: ("cudaErrorIllegalAddress", "restart the process"),
    701: ("cudaErrorLaunchOutOfResources", "more registers or shared memory"),
    719: ("cudaErrorLaunchFailure", "restart the process"),
    900: ("cudaErrorStreamCaptureUnsupported", "captured into a graph"),
}


@pytest.mark.promise("C3", "C7", "D4")
def test_a_failed_launch(over: Over, ops: list[str]) -> None:
    """Every op: op, kernel, the error's name, grid, block, shared memory, device, archs."""
    over(f"""
        import re
        for op in OPS:
            for call in calls_of(op, (3, 200), 600):
                for error, (name, words) in {LAUNCH_ERRORS!r}.items():
                    shim.reset()
                    if error == 222:
                        shim.driver(13000)
                    tensors = call.tensors(1)
                    shim.fails("cudaLaunchKernel", error)
                    try:
                        ran = call.run_on(tensors)
                    except aicf_rt.CudaError as e:
                        text, fault = str(e), e
                    else:
                        assert ran is False, call
                        break
                    line = shim.launches()[0]
                    x, y, z = line.three("grid")
                    a, b, c = line.three("block")
                    smem = line.words["smem"]
                    assert (fault.op, fault.kernel, fault.code) == (op, call.kernel, error), text
                    assert fault.name == name, text
                    lost = isinstance(fault, aicf_rt.CudaLost)
                    assert lost == (error in (700, 719)), text
                    start = f"{{op}}: kernel {{call.kernel}} failed: {{name}} ("
                    assert text.startswith(start), text
                    if error != 222:
                        assert words in text, text
                    launch = (f"Launched with grid ({{x}}, {{y}}, {{z}}), block ({{a}}, {{b}}, "
                              f"{{c}}) and {{smem}} bytes of dynamic shared memory")
                    assert launch in text, text
                    code = call.row["code"]
                    assert re.search(r"sm_\\d+", code) and text.endswith(
                        f" (on cuda:1, code for {{code}})"), text
                    assert shim.last_error() == 0 or error in (700, 719)
    """)


@pytest.mark.promise("C7")
def test_ptx_that_the_driver_does_not_know(over: Over, ops: list[str]) -> None:
    text = over("""
        shim.driver(13000)
        shim.fails("cudaLaunchKernel", 222)
        try:
            next(calls_of("add")).run()
        except aicf_rt.CudaError as e:
            tell(str(e))
    """)
    assert "The driver is for CUDA 13.0, the PTX of the kernel is from 13." in text
    assert "update the driver" in text


@pytest.mark.promise("C3")
def test_an_error_of_somebody_else(over: Over, ops: list[str]) -> None:
    """It stays where it is, is not reported as ours, and a failure of ours tells of it."""
    text = over("""
        call = next(calls_of("add"))
        shim._library.cudaSetDevice(99)
        assert shim.last_error() == 101
        assert call.run() is True
        assert call.run(1) is True
        assert shim.last_error() == 101
        shim.fails("cudaMallocAsync", 2, 1)
        try:
            module("relu").relu(fake(4))
        except aicf_rt.CudaError as e:
            assert "cudaErrorInvalidDevice (101) stood" in str(e), e
        else:
            raise AssertionError
        assert shim.last_error() != 0  # theirs is gone, and nobody who looks is told of none
        shim._library.cudaGetLastError()
        shim._library.cudaSetDevice(99)
        shim.fails("cudaLaunchKernel", 9)
        try:
            call.run()
        except aicf_rt.CudaError as e:
            assert e.code == 9
            tell(str(e))
    """)
    assert "Before the call cudaErrorInvalidDevice (101) stood on this thread" in text


@pytest.mark.promise("C5")
def test_a_sticky_error(over: Over, ops: list[str]) -> None:
    """Every later call raises, at once, in these words; the process ends well."""
    texts = over("""
        import time
        shim.break_ = getattr(shim._library, "shim_break")
        calls = [next(calls_of(op, (3, 200), 600)) for op in OPS]
        for call in calls:
            assert call.run() is True
        shim.break_(700)
        begin, texts = time.monotonic(), []
        for _ in range(3):
            for call in calls:
                try:
                    call.run()
                except aicf_rt.CudaLost as e:
                    assert e.code == 700
                    texts.append(str(e))
                else:
                    raise AssertionError(call)
        bound = module("add").bind
        for run in (lambda: aicf_rt.empty((4,), "f32", "cuda"),
                    lambda: module("relu").relu(fake(4)),
                    lambda: bound(fake(4), fake(4), fake(4))()):
            try:
                run()
            except aicf_rt.CudaLost:
                pass
            else:
                raise AssertionError(run)
        assert time.monotonic() - begin < 60  # no call waits for the device
        tell(texts)
    """)
    assert all("cudaErrorIllegalAddress (700)" in text for text in texts)
    assert all("restart the process" in text for text in texts)
    assert any("an earlier one did it" in text for text in texts)


@pytest.mark.promise("C5", "S7")
def test_debug_sync_names_the_guilty(over: Over, ops: list[str]) -> None:
    code = """
        shim.fails("cudaStreamSynchronize", 719)
        told = []
        for op in OPS:
            call = next(calls_of(op, (3, 200), 600))
            try:
                assert call.run(stream=64) is True
            except aicf_rt.CudaError as e:
                told.append([e.op, op, str(e)])
                assert shim.live() == 0
        tell([told, len(shim.lines("cudaStreamSynchronize"))])
    """
    told, waited = over(code)
    assert (told, waited) == ([], 0)
    told, waited = over(code, AICF_DEBUG="sync")
    assert len(told) == waited == len(ops)
    for blamed, op, text in told:
        assert blamed == op
        assert "cudaErrorLaunchFailure" in text
        assert "AICF_DEBUG=sync" in text


@pytest.mark.promise("C8", "I2")
def test_drivers_that_are_not_there(over: Over, ops: list[str]) -> None:
    """Each its own words; nothing is kept, so that what is mended works at the next call."""
    words = over("""
        call = next(calls_of("add"))
        told = {}

        def fails(what):
            try:
                call.run()
            except aicf_rt.CudaError as e:
                told[what] = str(e)
            else:
                raise AssertionError(what)

        shim.driver(0)
        fails("no driver")
        shim.driver(12040)
        fails("old driver")
        shim.driver(13000)
        shim.devices(0)
        fails("no device")
        shim.devices(2)
        assert call.run() is True
        for error in (3, 999, 802, 803, 804, 800):
            shim.fails("cudaGetDevice", error)
            fails(str(error))
            shim.fails("cudaGetDevice", error, 0)
            assert call.run() is True
        tell(told)
    """)
    wanted = {
        "no driver": "No CUDA driver: libcuda.so.1 is not found",
        "old driver": "The driver is for CUDA 12.4, this build needs 13.",
        "no device": "CUDA_VISIBLE_DEVICES",
        "3": "could not start",
        "999": "dmesg",
        "802": "fabricmanager",
        "803": "different versions",
        "804": "forward-compatibility",
        "800": "/dev/nvidia",
    }
    assert set(words) == set(wanted)
    for what, said in wanted.items():
        assert said in words[what], words[what]
        others = [text for other, text in words.items() if other != what]
        assert words[what] not in others


@pytest.mark.promise("C8")
def test_a_device_that_may_not_be_opened(over: Over, ops: list[str], tmp_path: Path) -> None:
    """To CUDA it is none, or it does not know: the permissions are looked at."""
    source, library = tmp_path / "access.c", tmp_path / "access.so"
    source.write_text(
        """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <string.h>
        int access(const char *path, int mode) {
            if (!strcmp(path, "/dev/nvidiactl")) {
                errno = EACCES;
                return -1;
            }
            return ((int (*)(const char *, int))dlsym(RTLD_NEXT, "access"))(path, mode);
        }
        """
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    code = """
        told = []
        for error in (100, 999, 3):
            shim.fails("cudaGetDevice", error)
            try:
                next(calls_of("add")).run()
            except aicf_rt.CudaError as e:
                assert e.code == error
                told.append(str(e))
        shim.fails("cudaGetDevice", 0, 0)
        assert next(calls_of("add")).run() is True
        tell(told)
    """
    none, unknown, start = over(code, LD_PRELOAD=str(library))
    assert "permissions of /dev/nvidia" in none
    assert "permissions of /dev/nvidia" in unknown
    assert "permissions" not in start
    assert not any("permissions" in text for text in over(code))


@pytest.mark.promise("S9")
def test_a_fork_after_use(over: Over, ops: list[str]) -> None:
    """The child is told once and clearly, calls nothing, and ends well; the parent goes on."""
    told = over("""
        import json, os
        calls = [next(calls_of(op, (3, 200), 600)) for op in OPS]
        bound = module("add").bind(fake(4), fake(4), fake(4))
        tensor = module("add").add(fake(4), fake(4))
        for call in calls:
            assert call.run() is True
        read, write = os.pipe()
        if os.fork() == 0:
            shim.reset()
            texts = []
            for run in [call.run for call in calls] + [bound]:
                try:
                    run()
                except aicf_rt.CudaError as e:
                    texts.append(str(e))
            del tensor
            called = [line.text for line in shim.lines()]
            os.write(write, json.dumps([texts, called]).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        assert os.wait()[1] == 0
        assert calls[0].run() is True
        print(said)
    """)
    texts, called = told
    assert len(texts) == len(ops) + 1
    assert all("forked after CUDA was used" in text and "spawn" in text for text in texts)
    assert called == []


@pytest.mark.promise("S9")
def test_the_end_of_a_forked_child(over: Over, ops: list[str], tmp_path: Any) -> None:
    """Nothing of CUDA is called as it ends, whatever it holds."""
    log = tmp_path / "log"
    over(
        """
        import os, sys
        tensor = module("add").add(fake(4), fake(4))
        bound = module("add").bind(fake(4), fake(4), fake(4))
        bound()
        open(os.environ["AICF_SHIM_LOG"], "w").close()
        if os.fork() == 0:
            sys.exit(0)
        assert os.wait()[1] == 0
        before = open(os.environ["AICF_SHIM_LOG"]).read()
        assert before == "", before
        tell(0)
        """,
        AICF_SHIM_LOG=str(log),
    )


@pytest.mark.promise("I6")
def test_a_fork_before_use(over: Over, ops: list[str]) -> None:
    over("""
        import os
        for op in OPS:
            module(op).capability, module(op).explain
        if os.fork() == 0:
            ran = next(calls_of("add")).run()
            os._exit(0 if ran is True else 1)
        assert os.wait()[1] == 0
    """)


@pytest.mark.promise("I6", "I2")
def test_import_calls_nothing(over: Over, ops: list[str]) -> None:
    """Import, help, signatures, capability: under a runtime that aborts at any call."""
    code = """
        import aicf_cuda, aicf_rt, importlib, inspect, pydoc
        for op in sorted(aicf_cuda.__ops__):
            module = importlib.import_module("aicf_cuda." + op)
            pydoc.render_doc(module)
            assert module.capability["op"] == op
            for name in dir(module):
                thing = getattr(module, name)
                if callable(thing) and not name.startswith("_"):
                    inspect.signature(thing)
        repr(aicf_rt.Tensor), repr(aicf_rt.Call)
        print("quiet")
    """
    assert over(code, steered=False, AICF_SHIM_ABORT="1").split() == ["quiet"]
    with pytest.raises(AssertionError, match="was called"):
        over(
            "from shim.steer import *\nnext(calls_of('add')).run()",
            steered=False,
            AICF_SHIM_ABORT="1",
        )
