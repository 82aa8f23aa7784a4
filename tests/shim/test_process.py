"""Threads, forks and the end of a process that uses CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runtime import building
from shim.conftest import Over

# How long a call takes that SHIM makes long, and whether others run beside it.
BESIDE = """
import time, others
def beside(call):
    begin = time.monotonic()
    seen = others.run_beside(call, once=True)
    return time.monotonic() - begin, seen
"""


@pytest.mark.promise("S7")
def test_a_slow_allocation_lets_others_run(over: Over, ops: list[str]) -> None:
    """A Tensor that is asked for, and one that is made as an out."""
    told = over(
        BESIDE
        + """
shim.delay(b"cudaMallocAsync", 1.0)
add = module("add")
a, b = fake(4), fake(4)
tell([
    beside(lambda: aicf_rt.empty((4,), "f32", "cuda")),
    beside(lambda: add.add(a, b)),
])
"""
    )
    assert all(took > 0.9 and seen for took, seen in told), told


@pytest.mark.promise("S7")
def test_a_slow_wait_lets_others_run(over: Over, ops: list[str]) -> None:
    told = over(
        BESIDE
        + """
shim.delay(b"cudaStreamSynchronize", 1.0)
call = next(calls_of("add"))
tensors = call.tensors()
bound = module("add").bind(*tensors)
tell([beside(lambda: call.run_on(tensors)), beside(bound)])
""",
        AICF_DEBUG="sync",
    )
    assert all(took > 0.9 and seen for took, seen in told), told


@pytest.mark.promise("S7")
def test_a_slow_first_launch_lets_others_run(over: Over, ops: list[str]) -> None:
    """It loads the kernel's code."""
    told = over(
        BESIDE
        + """
shim.delay(b"cudaLaunchKernel", 1.0)
call = next(calls_of("add"))
tell(beside(call.run))
"""
    )
    took, seen = told
    assert took > 0.9
    assert seen


WORKERS = """
import json, multiprocessing as mp, os, sys

def work(dtype):
    from shim.steer import aicf_rt, calls_of, shim
    import numpy as np
    from aicf_cuda import gemm
    shim.reset()
    x, out = np.ones((64, 64), "f4"), np.zeros((64, 64), "f4")
    on_cpu = gemm.gemm_f32(x, x, None, None, out) and out.tolist()[0][0] == 64
    try:
        ran = next(calls_of("add")).run()
        return [ran, "", on_cpu]
    except aicf_rt.CudaError as e:
        return [e.name, str(e), on_cpu and not shim.lines()]

if __name__ == "__main__":
    method, use = sys.argv[1:]
    before = work("f32") if use == "used" else None
    with mp.get_context(method).Pool(2) as pool:
        told = pool.map(work, ["f32"] * 3)
    print(json.dumps([before, told]))
"""


@pytest.mark.promise("S9", "PROCESS-fork")
@pytest.mark.parametrize("use", ["used", "unused"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(
    package: Path, ops: list[str], tmp_path: Path, method: str, use: str
) -> None:
    """A worker forked after use is told to spawn and calls nothing; its CPU ops run. Others run."""
    script = tmp_path / "workers.py"
    script.write_text(WORKERS, encoding="utf-8")
    paths = [str(package), str(building.ROOT / "tests")]
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(script), method, use],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    before, told = json.loads(done.stdout)
    assert before in (None, [True, "", True])
    for ran, text, on_cpu in told:
        assert on_cpu is True
        if (method, use) == ("fork", "used"):
            assert ran == "cudaErrorInitializationError"
            assert "forked after CUDA was used" in text
            assert "spawn" in text
        else:
            assert ran is True


HOLD = """
import builtins, gc, os, sys, threading, time
add = module("add")
tensors = [aicf_rt.empty((64,), "f32", "cuda") for _ in range(8)]
calls = [add.bind(t, t, t) for t in tensors]
capsules = [tensors[1].__dlpack__(stream=-1), tensors[2].__dlpack__(max_version=(1, 1), stream=-1)]
arrays = [tensors[3].__cuda_array_interface__]
cycle = [calls[4], tensors[4]]
cycle.append(cycle)
builtins.kept, sys.kept = tensors[5], calls[6]
class Late:
    def __init__(self, call):
        self.call = call
    def __del__(self):
        self.call()
late = Late(calls[7])
for call in calls:
    call()
temporary = add.add(tensors[0], tensors[0])
del temporary
"""


def names(log: Path) -> list[str]:
    return [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()]


@pytest.mark.promise("S5", "PROCESS-exit")
@pytest.mark.parametrize("end", ["falls off", "exits", "raises", "os._exit"])
def test_the_end_with_work_pending(
    over: Over, package: Path, ops: list[str], tmp_path: Path, end: str
) -> None:
    """What is freed is freed in the order of its stream; nothing waits, and the status is right."""
    log = tmp_path / "log"
    last = {
        "falls off": "pass",
        "exits": "sys.exit(5)",
        "raises": "raise KeyError(5)",
        "os._exit": "os._exit(6)",
    }[end]
    code = f"from shim.steer import *\n{HOLD}\nshim.delay(b'cudaStreamSynchronize', 600)\n{last}\n"
    for _ in range(5):
        log.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", code],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(package), str(building.ROOT / "tests")]),
                "AICF_SHIM_LOG": str(log),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        want = {"falls off": 0, "exits": 5, "raises": 1, "os._exit": 6}[end]
        assert done.returncode == want, done.stderr
        assert (done.stderr == "") == (end != "raises"), done.stderr
        called = names(log)
        taken, freed = called.count("cudaMallocAsync"), called.count("cudaFreeAsync")
        assert taken == 9
        assert 1 <= freed <= taken
        assert not {"cudaFree", "cudaDeviceSynchronize", "cudaStreamSynchronize"} & set(called)


@pytest.mark.promise("S7", "PROCESS-exit")
def test_the_end_beside_a_thread_in_a_slow_call(over: Over, ops: list[str]) -> None:
    """A daemon in a wait of ten minutes does not hold up the end."""
    over(
        """
        import threading, time
        shim.delay(b"cudaStreamSynchronize", 600)
        call = next(calls_of("add"))
        threading.Thread(target=call.run, daemon=True).start()
        while not shim.launches():
            time.sleep(0.01)
        time.sleep(0.05)
        """,
        timeout=300,
        AICF_DEBUG="sync",
    )


@pytest.mark.promise("S9", "PROCESS-fork")
def test_what_a_forked_child_frees(over: Over, ops: list[str], tmp_path: Any) -> None:
    """A child drops the parent's Tensors, calls, capsules and leaves by sys.exit: no CUDA call."""
    over(
        HOLD
        + """
open(os.environ["AICF_SHIM_LOG"], "w").close()
child = os.fork()
if child == 0:
    del late.call
    del late, call, calls, tensors, capsules, arrays, cycle, builtins.kept, sys.kept
    gc.collect()
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
assert open(os.environ["AICF_SHIM_LOG"]).read() == ""
calls[0]()
""",
        AICF_SHIM_LOG=str(tmp_path / "log"),
    )
