"""When a CPU launch lets go of the GIL: `python bench/gil.py [--json FILE]`, on what `make` built.

Two things decide. What letting go costs: a release and the return, alone, and beside one thread
that runs Python, which may have the GIL when a kernel of 50 us is done and then keeps it for one
switch interval. And from how many bytes on a kernel takes 50 us, on one thread of ours,
in which the others could run: the bytes of a call are those of all its tensors, as libaicf counts
them. Times are the least of several runs, so that a busy machine counts little.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import itertools
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LONG = 50e-6  # seconds
SIZES = 2.0 ** np.arange(10, 25, 0.5)

CYCLE = """
#include <time.h>
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *);
static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
/* Nanoseconds of a release and the return, without those in between. */
double
cycle(long count, double between)
{
    double begin = now();
    for (long i = 0; i < count; i++) {
        void *state = PyEval_SaveThread();
        for (double end = between ? now() + between : 0; between && now() < end;) {
        }
        PyEval_RestoreThread(state);
    }
    return (now() - begin) / (double)count - between;
}
"""

Make = Callable[[float], tuple[Any, int]]  # of bytes: a bound call, and the bytes it has


def module(op: str) -> Any:
    return importlib.import_module(f"aicf_cuda.{op}")


def full(shape: tuple[int, ...], kind: str = "f4") -> Any:
    return np.full(shape, 0.5, kind)


def size_of(arrays: list[Any]) -> int:
    return sum(a.nbytes for a in arrays)


def elementwise(op: str, tensors: int, kind: str = "f4", **options: Any) -> Make:
    def make(size: float) -> tuple[Any, int]:
        n = max(1, int(size) // tensors // np.dtype(kind).itemsize)
        arrays = [full((n,), kind) for _ in range(tensors)]
        return module(op).bind(*arrays, **options), size_of(arrays)

    return make


def reduction(axes: list[int], width: int) -> Make:
    def make(size: float) -> tuple[Any, int]:
        x = full((max(1, int(size) // 4 // width), width))
        out = np.zeros([s for d, s in enumerate(x.shape) if d not in axes], "f4")
        return module("sum").bind(x, out, axes=axes), size_of([x, out])

    return make


def product(kernel: str, kind: str, rows: int | None = None) -> Make:
    """Of square matrices, or of a few rows and a square one."""

    def make(size: float) -> tuple[Any, int]:
        parts = 3 if rows is None else 1
        n = max(2, int(math.sqrt(size / parts / np.dtype(kind).itemsize)))
        m = rows or n
        a, b, out = full((m, n), kind), full((n, n), kind), full((m, n), kind)
        return module("gemm").bind(a, b, None, None, out, kernel=kernel), size_of([a, b, out])

    return make


CASES: dict[str, tuple[bool, Make]] = {  # whether the row is elementwise; calls of it
    "add f32": (True, elementwise("add", 3)),
    "add f16": (True, elementwise("add", 3, "f2")),
    "relu f32": (True, elementwise("relu", 2)),
    "copy f32": (True, elementwise("copy", 2)),
    "gelu_bwd f32": (True, elementwise("gelu_bwd", 3)),
    "gelu_bwd f64": (True, elementwise("gelu_bwd", 3, "f8")),
    "sum f32, of rows": (False, reduction([1], 512)),
    "sum f32, of columns": (False, reduction([0], 512)),
    "sum f32, of all": (False, reduction([0, 1], 512)),
    "gemm f32 loop, square": (False, product("loop", "f4")),
    "gemm f64 loop, square": (False, product("loop", "f8")),
    "gemm f16 loop, square": (False, product("loop", "f2")),
    "gemm f32 loop, 1 row": (False, product("loop", "f4", 1)),
    "gemm f32 blas, square": (False, product("blas", "f4")),
}


def least(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    best, spent = math.inf, 0.0
    call()
    while spent < 0.03:
        begin = time.perf_counter()
        call()
        took = time.perf_counter() - begin
        best, spent = min(best, took), spent + took + 2e-6
    return best


def crossing(points: list[tuple[int, float]]) -> int | None:
    """The bytes at which a call takes LONG, between the sizes that were measured."""
    for (less, below), (more, above) in itertools.pairwise(points):
        if below < LONG <= above:
            share = math.log(LONG / below) / math.log(above / below)
            return int(less * (more / less) ** share)
    return None


def kernels() -> Iterator[dict[str, object]]:
    for what, (plain, make) in CASES.items():
        points: list[tuple[int, float]] = []
        for size in SIZES:
            try:
                call, count = make(float(size))
            except ValueError:  # no OpenBLAS
                break
            points.append((count, least(call)))
            if points[-1][1] > 4 * LONG:
                break
        if points:
            yield {
                "what": what,
                "elementwise": plain,
                "bytes at 50 us": crossing(points),
                "us": [[count, round(took * 1e6, 2)] for count, took in points],
            }


def released() -> dict[str, float]:
    """Nanoseconds of a release and the return."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "cycle.c"), Path(folder, "cycle.so")
        source.write_text(CYCLE, encoding="utf-8")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        cycle = ctypes.PyDLL(str(library)).cycle
    cycle.restype, cycle.argtypes = ctypes.c_double, [ctypes.c_long, ctypes.c_double]
    alone = min(cycle(100_000, 0) for _ in range(9))
    done: list[int] = []

    def busy() -> None:
        while not done:
            sum(range(100))

    thread = threading.Thread(target=busy)
    thread.start()
    beside = [cycle(1, LONG * 1e9) for _ in range(301)]
    done.append(1)
    thread.join()
    mean = sum(beside) / len(beside)
    return {
        "alone": round(alone, 1),
        "beside a busy thread, mean": round(mean, 1),
        "beside a busy thread, worst": round(max(beside), 1),
    }


def processor() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    where = parser.parse_args().json
    os.environ["AICF_THREADS"] = "1"
    cost = released()
    print(f"release and return: {cost['alone']:.0f} ns alone, ", end="")
    print(f"{cost['beside a busy thread, mean'] / 1e3:,.0f} us beside a busy thread")
    found = []
    for case in kernels():
        found.append(case)
        at = case["bytes at 50 us"]
        print(f"{case['what']:<24}{f'{at:>12,} bytes' if at else 'more than measured'}", flush=True)
    told = {
        "device": processor(),
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "switch interval": sys.getswitchinterval(),
        "release and return, ns": cost,
        "kernels": found,
    }
    if where:
        text = re.sub(r"\[\s+(\d+),\s+([\d.]+)\s+\]", r"[\1, \2]", json.dumps(told, indent=1))
        Path(where).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
