"""libaicf's CUDA runtime on a GPU: the backend, launches, a launch in a graph, torch beside."""

from __future__ import annotations

import sys
from ctypes import CDLL, byref, c_int
from pathlib import Path

import pytest

from runtime import building

pytestmark = [pytest.mark.gpu, pytest.mark.guests("nvcc")]

HEAD = """
import ctypes, sys
N = 100_000
class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]
class Status(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("backend", ctypes.c_uint8), ("check", ctypes.c_uint8),
                ("arg", ctypes.c_uint8), ("native", ctypes.c_int32)]
P, I, L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
class Backend(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("version", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("host", ctypes.c_bool), ("unusable", ctypes.CFUNCTYPE(ctypes.c_char_p)),
                ("arch", ctypes.CFUNCTYPE(I, Device)),
                ("enter", ctypes.CFUNCTYPE(Status, Device, P)),
                ("leave", ctypes.CFUNCTYPE(None, I)),
                ("allocate", ctypes.CFUNCTYPE(Status, Device, P, L, P)),
                ("release", ctypes.CFUNCTYPE(Status, Device, P, P)),
                ("wait", ctypes.CFUNCTYPE(Status, Device, P, P)),
                ("synchronize", ctypes.CFUNCTYPE(Status, Device, P)),
                ("error_text", ctypes.CFUNCTYPE(None, I, P, ctypes.c_size_t))]
library = ctypes.CDLL(sys.argv[1])
kernels = ctypes.CDLL(sys.argv[2])
kernels.test_count_up.restype = Status
kernels.test_count_up.argtypes = [P, L, ctypes.c_int, P]
kernels.test_copy.argtypes = [P, P, ctypes.c_size_t]
kernels.test_graph.argtypes = [P, L, ctypes.c_int]
cuda = Backend.in_dll(library, "aicf_backend_cuda")
assert cuda.unusable() is None
device, x, previous = Device(2, 0), P(), I()

def take():
    assert cuda.allocate(device, None, 4 * N, ctypes.byref(x)).kind == 0
    assert kernels.test_copy(x, bytes(4 * N), 4 * N) == 0

def has(times):
    host = (ctypes.c_float * N)()
    assert kernels.test_copy(host, x, 4 * N) == 0
    return all(host[i] == times * i for i in range(0, N, 997))
"""

BACKEND = """
take()
assert cuda.arch(device) >= 80
assert cuda.enter(device, ctypes.byref(previous)).kind == 0
assert kernels.test_count_up(x, N, 1, None).kind == 0
cuda.leave(previous)
assert cuda.synchronize(device, None).kind == 0
assert has(1)
assert kernels.test_count_up(x, N, 65536, None).native == 1
assert kernels.test_last_error() == 0
kernels.test_leave_error()
assert cuda.enter(device, ctypes.byref(previous)).kind == 0
assert kernels.test_count_up(x, N, 1, None).kind == 0
assert kernels.test_last_error() == 1
assert cuda.enter(Device(2, 99), ctypes.byref(previous)).native == 101
assert cuda.wait(device, None, 2).kind == 0
assert cuda.release(device, None, x).kind == 0
text = ctypes.create_string_buffer(300)
cuda.error_text(700, text, 300)
assert b"cudaErrorIllegalAddress (700)" in text.value
"""

GRAPH = """
take()
assert kernels.test_graph(x, N, 3) == 0
assert has(3)
"""

TORCH = """
s = torch.cuda.Stream()
y = torch.zeros(N, device="cuda")
with torch.cuda.stream(s):
    torch.cuda._sleep(10_000_000)
    y.add_(1)
    assert kernels.test_count_up(y.data_ptr(), N, 1, s.cuda_stream).kind == 0
torch.cuda.synchronize()
assert torch.equal(y, torch.arange(N, device="cuda") + 1.0)
"""

TWO = """
import threading
second = Device(2, 1)
for d in (second, device):
    assert cuda.enter(d, ctypes.byref(previous)).kind == 0
    assert kernels.test_get_device() == d.index
    cuda.leave(previous)
    assert kernels.test_get_device() == 0
y = P()
assert cuda.allocate(second, None, 4 * N, ctypes.byref(y)).kind == 0
assert kernels.test_get_device() == 0
assert cuda.release(second, None, y).kind == 0
"""

# Nothing of this process was on device 0 before, and nothing is afterwards.
NO_CONTEXT = """
driver = ctypes.CDLL("libcuda.so.1")
def is_active(number):
    flags, active = ctypes.c_uint(), ctypes.c_int(-1)
    assert driver.cuDevicePrimaryCtxGetState(number, ctypes.byref(flags), ctypes.byref(active)) == 0
    return active.value
assert is_active(0) == 0
device = Device(2, 1)
assert cuda.allocate(device, None, 4 * N, ctypes.byref(x)).kind == 0
for times in (1, 2):
    assert cuda.enter(device, ctypes.byref(previous)).kind == 0
    assert kernels.test_get_device() == 1
    if times == 1:
        assert kernels.test_copy(x, bytes(4 * N), 4 * N) == 0
    assert kernels.test_count_up(x, N, 1, None).kind == 0
    assert has(times)
    cuda.leave(previous)
    assert kernels.test_get_device() == 0
assert cuda.release(device, None, x).kind == 0
assert is_active(1) == 1 and is_active(0) == 0
"""


@pytest.fixture(scope="session")
def kernels(built: Path, cuda_library: Path, kernel_object: Path) -> Path:
    out = built / "kernels.so"
    place = f"-Wl,-rpath,{cuda_library.parent}"
    building.run(["gcc", "-shared", kernel_object, cuda_library, place, "-Wl,-z,now", "-o", out])
    return out


def run_on_gpu(code: str, library: Path, kernels: Path) -> None:
    building.run([sys.executable, "-c", code, library, kernels])


@pytest.mark.promise("A4", "C3")
def test_backend(cuda_library: Path, kernels: Path) -> None:
    run_on_gpu(HEAD + BACKEND, cuda_library, kernels)


@pytest.mark.promise("S8")
def test_first_launch_in_a_graph(cuda_library: Path, kernels: Path) -> None:
    run_on_gpu(HEAD + GRAPH, cuda_library, kernels)


@pytest.mark.guests("torch")
@pytest.mark.promise("I3", "S1")
@pytest.mark.parametrize("order", ["before", "after"])
def test_beside_torch(cuda_library: Path, kernels: Path, order: str) -> None:
    code = "import torch\n" + HEAD if order == "before" else HEAD + "import torch\n"
    run_on_gpu(code + TORCH, cuda_library, kernels)


@pytest.mark.promise("A4")
def test_two_devices(cuda_library: Path, kernels: Path) -> None:
    count = c_int()
    CDLL("libcuda.so.1").cuDeviceGetCount(byref(count))
    if count.value < 2:
        pytest.skip("one GPU only")
    run_on_gpu(HEAD + TWO, cuda_library, kernels)
    run_on_gpu(HEAD + NO_CONTEXT, cuda_library, kernels)
