"""What goes wrong on a GPU, told as it is: whose error it was, and in which words."""

from __future__ import annotations

import ctypes
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpu.cases import OPS, cases  # noqa: E402
from rows.calls import mapped  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.guests("torch")]


# ---- errors that others left ---------------------------------------------------------------------


@pytest.fixture
def ours() -> Iterator[Any]:
    """The CUDA runtime in libaicf, no error on this thread before and after."""
    runtime = importlib.import_module("gpu.bare").runtime()
    runtime.cudaGetLastError()
    yield runtime
    runtime.cudaGetLastError()


@pytest.fixture
def torchs() -> Iterator[Any]:
    """The CUDA runtime that torch uses, which is another one."""
    torch.zeros(1, device="cuda")
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8")
    found = sorted(set(re.findall(r"/\S*libcudart\.so\S*", mapped)))
    if not found:
        pytest.skip("gpu: torch has its CUDA runtime inside")
    runtime = ctypes.CDLL(found[0])
    runtime.cudaGetLastError()
    yield runtime
    runtime.cudaGetLastError()


@pytest.mark.promise("C1")
@pytest.mark.parametrize("op", OPS)
def test_nothing_to_do_leaves_no_error(ours: Any, torchs: Any, op: str) -> None:
    def nothing(value: Any, dim: int) -> Any:
        return mapped(lambda t: t.narrow(dim, 0, 0) if t.dim() else t, value)

    for case in cases(op):
        typed = getattr(case.call.facts.module, f"{op}_{case.call.suffix}")
        count = len(case.call.inputs)
        for dim in (0, -1):
            inputs, outs = case.arguments()[:count], case.arguments()[count:]
            empty = nothing(inputs, dim)
            for to in (0, -1, None):
                left = outs if to is None else nothing(outs, to)
                typed(*empty, *left, **case.options)  # taken or not: nothing may break
        case.run()
        torch.cuda.synchronize()
        assert ours.cudaPeekAtLastError() == 0
        assert torchs.cudaPeekAtLastError() == 0


@pytest.mark.promise("C1")
@pytest.mark.parametrize("op", OPS)
def test_a_call_leaves_no_error(ours: Any, torchs: Any, op: str) -> None:
    for case in cases(op):
        case.change(0)
        case.run()
        torch.cuda.synchronize()
        case.check()
    assert ours.cudaPeekAtLastError() == 0
    assert torchs.cudaPeekAtLastError() == 0


@pytest.mark.promise("C3", "C5")
def test_an_error_of_somebody_else(add: Any, ours: Any, torchs: Any) -> None:
    """In our runtime as another module's, or in torch's: neither reported nor taken away."""
    x = torch.ones(100, device="cuda")
    out = torch.zeros_like(x)
    sums = cases("sum")  # torch itself reports what stands there: its tensors are made before
    for runtime in (ours, torchs):
        assert runtime.cudaSetDevice(99) == 101
        assert runtime.cudaPeekAtLastError() == 101
        assert add.add_f32(x, x, out) is True
        add.bind(x, x, out)()
        for case in sums:
            case.run()
        assert runtime.cudaPeekAtLastError() == 101
        assert runtime.cudaGetLastError() == 101
        assert runtime.cudaPeekAtLastError() == 0
    assert torch.equal(out, x + x)


@pytest.mark.promise("C3")
def test_more_memory_than_there_is(add: Any, rt: Any, ours: Any) -> None:
    """An error of CUDA's own, by its name; the next call works."""
    with pytest.raises(rt.CudaError, match="cudaErrorMemoryAllocation") as raised:
        rt.empty((1 << 50,), "u8", "cuda")
    assert raised.value.code == 2
    assert raised.value.name == "cudaErrorMemoryAllocation"
    assert ours.cudaPeekAtLastError() == 0
    x = torch.ones(100, device="cuda")
    assert torch.equal(add.add(x, x), x + x)


# ---- errors that stay: each in a process of its own ---------------------------------------------

# relu reads and writes address 16: what a bad kernel does, done by one of ours.
BREAK = """
    import aicf_rt
    from aicf_cuda import add, relu
    from gpu.bare import check_add, runtime, tensor
    from modules.fake_producer import FakeProducer

    check_add()
    x, out = tensor([1.0] * 64), tensor([0.0] * 64)
    lost = FakeProducer(1024, device_type=2, data=16)
    where = FakeProducer(1024, device_type=2, data=16)

    def attempt(call):
        try:
            return call()
        except aicf_rt.CudaError as e:
            return f"{e.op} {e.kernel} {e.code} {e.name}: {e}"
"""

LATE = """
    print(attempt(lambda: relu.relu_f32(lost, where)))
    assert runtime().cudaDeviceSynchronize() == 700
    for _ in range(3):
        print(attempt(lambda: add.add_f32(x, x, out)))
    print(attempt(lambda: aicf_rt.empty((4,), "f32", "cuda")))
"""

NAMED = """
    print(attempt(lambda: add.add_f32(x, x, out)))
    print(attempt(lambda: relu.relu_f32(lost, where)))
    print(attempt(lambda: add.add_f32(x, x, out)))
"""

FOREIGN = """
    import os, sys
    import torch
    import aicf_rt
    from aicf_cuda import add
    y = torch.ones(64, device="cuda")
    assert torch.equal(add.add(y, y), y + y)
    try:
        torch.zeros(3, device="cuda")[torch.tensor([10], device="cuda")]
        torch.cuda.synchronize()
    except Exception as e:
        print("torch before:", type(e).__name__)
    for _ in range(2):
        try:
            print(add.add_f32(y, y, y))
        except aicf_rt.CudaError as e:
            print(f"{e.op} {e.code} {e.name}: {e}")
    try:
        torch.cuda.synchronize()
        print("torch: nothing")
    except Exception as e:
        print("torch after:", type(e).__name__)
    sys.stdout.flush()
    os._exit(0)  # what torch does at its end is not asked
"""

FORKED = """
    import os, sys
    from gpu.bare import check_add, tensor
    import aicf_rt
    from aicf_cuda import add
    x, out = tensor([1.0] * 64), tensor([0.0] * 64)
    check_add()
    child = os.fork()
    if child == 0:
        try:
            add.add_f32(x, x, out)
            print("nothing")
        except aicf_rt.CudaError as e:
            print(e)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    check_add()
"""

PTX = """
    from gpu.bare import check_add
    import aicf_rt
    try:
        check_add()
        print("works")
    except aicf_rt.CudaError as e:
        print(e)
"""


@pytest.fixture(scope="module")
def told() -> Iterator[dict[str, Any]]:
    """All of them at once."""
    from textwrap import dedent

    from gpu.processes import Process, stop

    broken = dedent(BREAK)
    started = {
        "late": Process(broken + dedent(LATE)),
        "named": Process(broken + dedent(NAMED), AICF_DEBUG="sync"),
        "foreign": Process(FOREIGN),
        "forked": Process(FORKED),
        "ptx": Process(PTX, CUDA_FORCE_PTX_JIT="1"),
    }
    yield started
    stop(list(started.values()))


@pytest.mark.promise("C5")
def test_a_kernel_that_went_astray(told: dict[str, Any]) -> None:
    """Without AICF_DEBUG the call had ended when it happened: every later one says so, and none
    claims that it did it; the process ends well."""
    lines = told["late"].output().strip().splitlines()
    assert lines[0] == "True", lines
    for line in lines[1:4]:
        assert line.startswith("add vec 700 cudaErrorIllegalAddress: "), line
        assert "maybe an earlier one" in line
        assert "restart the process" in line
    assert "cudaErrorIllegalAddress" in lines[4], lines


@pytest.mark.promise("C5")
def test_debug_sync_names_the_guilty(told: dict[str, Any]) -> None:
    lines = told["named"].output().strip().splitlines()
    assert lines[0] == "True", lines
    assert lines[1].startswith("relu vec 700 cudaErrorIllegalAddress: "), lines[1]
    assert "AICF_DEBUG=sync" in lines[1]
    assert "700" in lines[2], lines


@pytest.mark.promise("C3", "C5")
def test_a_sticky_error_of_torchs(told: dict[str, Any]) -> None:
    """We say that it may be an earlier kernel's, and torch still sees it after us."""
    lines = told["foreign"].output().strip().splitlines()
    assert lines[0].startswith("torch before:"), lines
    for line in lines[1:3]:
        assert re.match(r"add (710|719|700|716) cudaError", line), line
        assert "maybe an earlier one" in line
    assert lines[3].startswith("torch after:"), lines


@pytest.mark.promise("S9")
def test_a_forked_child(told: dict[str, Any]) -> None:
    text = told["forked"].output().strip()
    assert "forked after CUDA was used" in text, text
    assert "spawn" in text


@pytest.mark.promise("C7")
def test_from_ptx_alone(told: dict[str, Any]) -> None:
    """Compiled by the driver at the first call, or a line that says why not: the driver is too old,
    or the build has code and no PTX."""
    text = told["ptx"].output().strip()
    code = importlib.import_module("aicf_cuda.add").capability["code"]
    fault = "The driver is for CUDA" if "compute_" in code else "built for other GPUs"
    assert (text == "works" and "compute_" in code) or fault in text, text


@pytest.mark.promise("B19", "C3")
def test_kernels_of_an_arch(add: Any) -> None:
    """Each kernel of the table fits this GPU, or says which arch it was built for."""
    for op in OPS:
        for case in cases(op):
            lines = case.call.explain()
            line = next(line for line in lines if line.startswith(f"{case.kernel}:"))
            assert ": fits" in line or "sm_" in line, line
            if ": fits" in line:
                case.change(1)
                case.run()
                case.check()
