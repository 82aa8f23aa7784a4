"""Launches past the CUDA runtime and through it, on a GPU: what is right one way is right the
other, and what fails one way fails the other, with the same error at the same place."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu.processes import BUILT, ROOT, Process, stop

pytestmark = [pytest.mark.gpu, pytest.mark.guests("nvcc")]

HERE = Path(__file__).parent
WAYS = ("driver", "runtime")


def compile_launching(out: Path, *archs: str) -> Path:
    runtime = BUILT / "aicf_rt"
    command = ["nvcc", "-std=c++17", *archs, "-shared", "-cudart", "none", "-o", str(out)]
    command += ["-Xcompiler=-fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics"]
    command += [str(HERE / "launching.cu"), f"-L{runtime}", "-l:libaicf.so.1"]
    subprocess.run([*command, f"-Xlinker=-rpath,{runtime}"], check=True)
    return out


@pytest.fixture(scope="module")
def launching(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled by the first of the workers that needs it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of this run
    out = folder / "launching.so"
    with (folder / "launching.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            compile_launching(folder / "launching-new.so", "-arch=native").rename(out)
    return out


HEAD = """
    import ctypes, json, sys, threading
    from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_void_p
    import aicf_rt
    from aicf_cuda import add
    from gpu.bare import address, check_add, runtime, tensor, values

    rt = runtime()
    lib = ctypes.CDLL(sys.argv[1])
    lib.one_by_call.argtypes = lib.one_by_chevrons.argtypes = [
        c_void_p, c_int, c_uint, c_uint, c_size_t, c_void_p]
    for name in ("nested", "cooperative", "clustered", "two_by_driver"):
        getattr(lib, name).argtypes = [c_void_p, c_int, c_void_p]
    lib.reversed.argtypes = [c_void_p, c_int, c_int, c_void_p]

    N = 256
    def zeros():
        return tensor([0.0] * N)

    def tell(what):
        print(json.dumps(what), flush=True)
"""


class Both:
    """A piece of code both ways, at once."""

    def __init__(self, launching: Path, code: str) -> None:
        text = textwrap.dedent(HEAD) + textwrap.dedent(code)
        self.processes = {way: Process(text, str(launching), AICF_LAUNCH=way) for way in WAYS}

    def told(self) -> dict[str, Any]:
        """What each way told last."""
        try:
            return {
                way: json.loads(process.output().strip().splitlines()[-1])
                for way, process in self.processes.items()
            }
        finally:
            stop(list(self.processes.values()))


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.promise("C3", "DESIGN-5-launch")
def test_errors_are_the_same(launching: Path) -> None:
    """A block, a grid and shared memory beyond what there is, first and later: the call's answer,
    and what is left on the thread for those who launch by <<<>>> and ask."""
    told = Both(
        launching,
        """
        check_add()  # libaicf has seen CUDA
        x, seen = address(zeros()), []
        sizes = [(1, 2048, 0), (0, 32, 0), (1, 0, 0), (1, 32, 300_000)]
        for _ in range(3):
            for blocks, threads, shared in sizes:
                for launch in (lib.one_by_call, lib.one_by_chevrons):
                    error = launch(x, N, blocks, threads, shared, None)
                    seen.append([error, lib.last(), lib.last()])
                seen.append(lib.one_by_call(x, N, 1, N, 0, None))
                seen.append(lib.one_by_chevrons(x, N, 1, N, 0, None))
                seen.append(lib.last())
        # The runtime takes this one by its lower 32 bits; so do we.
        whole = lib.one_by_call(x, N, 1, 32, 1 << 33, None), lib.last()
        assert rt.cudaDeviceSynchronize() == 0
        tell([*seen, *whole])
        """,
    ).told()
    assert told["driver"] == told["runtime"]
    one = told["driver"][:5]
    error = one[0][0]
    assert error in (1, 9), one
    assert one == [[error, error, 0], [0, error, 0], 0, 0, 0]
    assert all(row[1] for row in told["driver"] if isinstance(row, list)), told


@pytest.mark.promise("C3", "C5", "DESIGN-5-launch")
def test_an_error_that_stood_there(launching: Path) -> None:
    """A launch that works neither reports nor takes it."""
    told = Both(
        launching,
        """
        check_add()
        x, seen = address(zeros()), []
        for launch in (lib.one_by_call, lib.one_by_chevrons) * 2:
            assert rt.cudaSetDevice(99) == 101
            seen += [launch(x, N, 1, N, 0, None), lib.last(), lib.last()]
        tell(seen)
        """,
    ).told()
    assert told["driver"] == told["runtime"] == [0, 101, 0] * 4


@pytest.mark.promise("S12", "DESIGN-5-launch")
def test_shared_memory_that_was_allowed(launching: Path) -> None:
    """Above 48 KiB it takes the attribute, which is of the kernel whichever way it is launched."""
    told = Both(
        launching,
        """
        check_add()
        def run(n, allowed):
            x = tensor([float(i) for i in range(n)])
            error = lib.reversed(address(x), n, allowed, None)
            lib.last()
            good = not error and values(x, n) == [float(n - 1 - i) for i in range(n)]
            return [error, good]
        small, large = 1000, 20_000
        tell([run(small, 0), run(large, 0), run(small, 0), run(large, 4 * large), run(large, 0),
              run(small, 0), run(large, 0)])
        """,
    ).told()
    assert told["driver"] == told["runtime"]
    works, refused = [0, True], [1, False]
    assert told["driver"] == [works, refused, works, works, works, works, works]


@pytest.mark.promise("DESIGN-5-launch")
def test_every_form_of_a_launch(launching: Path) -> None:
    """By the call, by <<<>>>, one among the arguments of another, cooperative, in clusters."""
    told = Both(
        launching,
        """
        check_add()
        x, seen = zeros(), []
        for _ in range(3):
            a = address(x)
            seen += [lib.one_by_call(a, N, 1, N, 0, None), lib.one_by_chevrons(a, N, 1, N, 0, None),
                     lib.nested(a, N, None), lib.cooperative(a, N, None), lib.clustered(a, N, None)]
        tell([sum(seen), lib.last(), sorted(set(values(x, N)))])
        """,
    ).told()
    assert told["driver"] == told["runtime"] == [0, 0, [18.0]]


# ---- other archs ---------------------------------------------------------------------------------


@pytest.mark.promise("C3", "B19", "DESIGN-5-launch")
def test_code_for_another_gpu(tmp_path: Path) -> None:
    """Machine code alone, of a GPU that this is not: an error at every launch, and no zeros."""
    asked = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    own = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    arch = "90" if own.startswith("8") else "80"
    other = tmp_path / "other"
    variables = [f"B={other}", f"CUDA_ARCHS={arch}", "CPU=0", "OPS=add", "OPGEN=", "WERROR="]
    command = ["make", "-j4", *variables, "all"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    code = """
        import json, sys
        sys.path.insert(0, sys.argv[1])
        import aicf_rt
        assert aicf_rt.__file__.startswith(sys.argv[1]), aicf_rt.__file__
        from aicf_cuda import add
        from gpu.bare import runtime, tensor, values
        x, out = tensor([1.0] * 64), tensor([7.0] * 64)
        told = []
        for _ in range(3):
            try:
                told.append(add.add_f32(x, x, out))
            except aicf_rt.CudaError as e:
                told.append([e.code, e.kernel, str(e)])
        assert values(out, 64) == [7.0] * 64
        assert runtime().cudaPeekAtLastError() == 0
        print(json.dumps(told))
    """
    for way in WAYS:
        process = Process(code, str(other / "python"), AICF_LAUNCH=way)
        try:
            told = json.loads(process.output().strip().splitlines()[-1])
        finally:
            stop([process])
        assert len(told) == 3
        for number, kernel, text in told:
            assert (number, kernel) == (209, "vec"), text
            assert "cudaErrorNoKernelImageForDevice" in text
            assert f"code for sm_{arch}" in text, text
            assert "CUDA_ARCHS" in text, text
            assert "Launched with grid (1, 1, 1), block (256, 1, 1)" in text, text
    shutil.rmtree(other)


# ---- contexts and threads ------------------------------------------------------------------------


@pytest.mark.promise("S8", "DESIGN-5-launch")
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_a_capture_whose_first_launch_is_in_another_thread(launching: Path, mode: int) -> None:
    """The process's first launch of all, and a thread's first, which has no context: into a stream
    that is being captured. By add, and by the driver alone, which loads its code there."""
    told = Both(
        launching,
        f"""
        # Of the captured stream, as whatever a graph reads and writes has to be.
        stream = c_void_p()
        assert rt.cudaStreamCreateWithFlags(byref(stream), 1) == 0
        def filled(value):
            made = aicf_rt.empty((N,), "f32", "cuda", stream=stream.value)
            host = (c_float * N)(*[value] * N)
            assert rt.cudaMemcpy(address(made), host, 4 * N, 1) == 0
            return made

        x, out, y = filled(1.0), filled(0.0), filled(0.0)
        def in_thread(run):
            wrong = []
            def body():
                try:
                    run()
                except BaseException as e:
                    wrong.append(repr(e))
            thread = threading.Thread(target=body)
            thread.start()
            thread.join()
            assert not wrong, wrong

        def captured(run, own_thread):
            graph, ready = c_void_p(), c_void_p()
            def record():
                assert rt.cudaStreamBeginCapture(stream, {mode}) == 0
                run() if own_thread else in_thread(run)
                assert rt.cudaStreamEndCapture(stream, byref(graph)) == 0
                assert rt.cudaGraphInstantiate(byref(ready), graph, c_size_t(0)) == 0
            in_thread(record) if own_thread else record()
            for _ in range(3):
                assert rt.cudaGraphLaunch(ready, stream) == 0
            assert rt.cudaStreamSynchronize(stream) == 0

        def sum_up():
            assert add.add_f32(x, x, out, stream=stream.value) is True
        def by_call():
            assert lib.one_by_call(address(y), N, 1, N, 0, stream) == 0
        def by_driver():
            assert lib.two_by_driver(address(y), N, stream) == 0
        told = []
        for run in (sum_up, sum_up, by_call, by_call):
            for own_thread in (True, False):
                captured(run, own_thread)
        told += [values(out, N) == [2.0] * N, set(values(y, N)) == {{12.0}}]
        captured(by_driver, True)
        tell(told + [sorted(set(values(y, N)))])
        """,
    ).told()
    assert told["driver"] == told["runtime"] == [True, True, [18.0]]


@pytest.mark.promise("DESIGN-5-launch")
def test_threads_that_come_and_go(launching: Path) -> None:
    """Each starts without a context; a bound call of the first thread launches in all."""
    told = Both(
        launching,
        """
        x, y, out = tensor([1.0] * N), zeros(), zeros()
        call = add.bind(x, y, y)
        wrong = []
        def body():
            try:
                for _ in range(50):
                    call()
                rt.cudaDeviceSynchronize()
            except BaseException as e:
                wrong.append(repr(e))
        for _ in range(20):
            thread = threading.Thread(target=body)
            thread.start()
            thread.join()
        tell([wrong, sorted(set(values(y, N)))])
        """,
    ).told()
    assert told["driver"] == told["runtime"] == [[], [1000.0]]


@pytest.mark.promise("I3", "DESIGN-5-launch")
def test_a_device_that_somebody_resets(launching: Path) -> None:
    """Memory is gone with it. Afterwards it is the same both ways, right or an error that names
    itself; never a wrong sum, never a crash."""
    told = Both(
        launching,
        """
        check_add()
        driver = ctypes.CDLL("libcuda.so.1")
        assert driver.cuDevicePrimaryCtxReset(0) == 0
        def attempt():
            try:
                check_add()
                return "right"
            except aicf_rt.CudaError as e:
                return f"{e.code}"
            except AssertionError as e:
                return f"assertion {e}"
        told = [attempt() for _ in range(3)]
        tell(told)
        import os
        os._exit(0)
        """,
    ).told()
    assert told["driver"] == told["runtime"], told


FRAMEWORKS = """
    import importlib
    def of_torch():
        import torch
        x = torch.arange(1000, device="cuda", dtype=torch.float32)
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(1_000_000)
            y = x * 2
            assert torch.equal(add.add(x, y), x * 3)
        assert torch.equal(torch.add(x, x), x * 2)
    def of_cupy():
        import cupy
        with cupy.cuda.Stream(non_blocking=True) as stream:
            x = cupy.arange(1000, dtype="f4")
            y = x * 2
            out = add.add(x, y)
            stream.synchronize()
            assert bool((out == x * 3).all())
        assert bool((cupy.add(x, x) == x * 2).all())
    def of_none():
        check_add()
    def of_launching():
        x = zeros()
        for i in range(3):
            assert lib.one_by_chevrons(address(x), N, 1, N, 0, None) == 0
        assert set(values(x, N)) == {3.0}
    for name in sys.argv[2].split():
        globals()["of_" + name]()
    for name in sys.argv[2].split():
        globals()["of_" + name]()
    print("right")
"""


@pytest.fixture(scope="module")
def together(launching: Path) -> Iterator[dict[tuple[str, str], Process]]:
    guests = [name for name in ("torch", "cupy") if importlib.util.find_spec(name)]
    orders = [(*guests, "none", "launching"), ("none", "launching", *guests)]
    orders.append(("launching", *reversed(guests), "none"))
    started = {
        (way, " ".join(order)): Process(
            textwrap.dedent(HEAD) + textwrap.dedent(FRAMEWORKS),
            str(launching),
            " ".join(order),
            AICF_LAUNCH=way,
        )
        for order in orders
        for way in WAYS
    }
    yield started
    stop(list(started.values()))


@pytest.mark.promise("I3", "DESIGN-5-launch")
def test_beside_frameworks(together: dict[tuple[str, str], Process]) -> None:
    """Whoever comes first, twice around: all use one context, on streams of their own."""
    for process in together.values():
        assert process.output().strip().splitlines()[-1] == "right"
