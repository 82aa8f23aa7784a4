"""Ops and calls shared by threads, under the thread sanitizer: `_core`, libaicf and the modules are
built with it. Python is not; its lock is seen, since it is made of what the sanitizer watches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modules.conftest import ROOT

FLAGS = ("CFLAGS=-fsanitize=thread -g -O1", "LDFLAGS=-fsanitize=thread")

WORK = """
import array, importlib, sys, threading, time
sys.setswitchinterval(1e-6)
import aicf_rt
n, k = 1 << 15, 64  # long enough to leave the GIL

def line(value):
    return array.array("f", [value]) * n

def matrix(value):
    return memoryview(array.array("f", [value]) * (k * k)).cast("B").cast("f", (k, k))

one, two, three = inputs = [line(1), line(2), line(3)]
failed, barrier = [], threading.Barrier(8)

def together(functions):
    def work(function):
        try:
            function()
        except BaseException as e:
            failed.append((function.__name__, repr(e)))
    threads = [threading.Thread(target=work, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed

def product(kernel):
    a, b, out = matrix(1), matrix(1), matrix(0)
    gemm = importlib.import_module("aicf_cuda.gemm")
    if gemm.gemm_f32(a, b, None, None, out, kernel=kernel):
        assert out[0, 0] == out[k - 1, k - 1] == k

def first():
    out = line(0)
    barrier.wait()
    add = importlib.import_module("aicf_cuda.add")
    assert add.add_f32(one, two, out) is True
    assert out[0] == out[n - 1] == 3
    product("loop")
    product("blas")
    add.bind(one, two, out)()

together([first] * 8)
add = importlib.import_module("aicf_cuda.add")
call, other = add.bind(one, one, line(0)), add.bind(one, one, line(0))
end = time.monotonic() + float(sys.argv[1])

def set_inputs(i):
    call.set(a=inputs[i % 3], b=inputs[i % 3])

def launch(i):
    call()

def launch_many(i):
    aicf_rt.run([call, other])

def typed(i):
    out = line(0)
    assert add.add_f32(inputs[i % 3], one, out) is True
    assert out[0] == out[n - 1] == inputs[i % 3][0] + 1

def generic(i):
    assert memoryview(add.add(inputs[i % 3], two))[0] == inputs[i % 3][0] + 2

def products(i):
    product(("loop", "blas")[i % 2])

def own(i):
    tensor = aicf_rt.empty((n,), "f32")
    assert add.add_f32(one, two, tensor) is True
    capsule = tensor.__dlpack__()
    del tensor
    assert add.explain(one, two)

def bind_and_drop(i):
    out = line(0)
    mine = add.bind(one, two, out)
    mine.set(a=three)
    mine()
    assert out[0] == out[n - 1] == 5

def repeated(function):
    def work():
        i = 0
        while time.monotonic() < end and not failed:
            function(i)
            i += 1
    work.__name__ = function.__name__
    return work

together([repeated(f) for f in (
    set_inputs, launch, launch_many, typed, generic, products, own, bind_and_drop)])
print("end")
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("races")
    command = ["make", "-j2", f"B={where}", f"GEN={where}/generated", "CUDA=0", "OPS=add gemm"]
    command += [*FLAGS, f"PYTHON={sys.executable}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    for name in ("B", "GEN", "CFLAGS", "LDFLAGS"):
        environment.pop(name, None)
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return where / "python"


@pytest.mark.promise("S10", "FAULT-4", "FAULT-5", "PROCESS-threads")
@pytest.mark.parametrize("threads", ["1", "3"])
def test_no_races(watched: Path, threads: str, tmp_path: Path) -> None:
    # Two threads launch one call, which has one out: those writes meet, and nothing else may.
    allowed = tmp_path / "allowed"
    allowed.write_text("race_top:aicf_store_f32\n")
    sanitizer = subprocess.run(
        ["gcc", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    done = subprocess.run(
        [sys.executable, "-c", WORK, "4"],
        env={
            **os.environ,
            "LD_PRELOAD": sanitizer,
            "TSAN_OPTIONS": f"exitcode=66 report_signal_unsafe=0 suppressions={allowed}",
            "PYTHONPATH": str(watched),
            "AICF_THREADS": threads,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
