"""What is said about a run, and what is measured beside calls: compile time, import time, sizes."""

from __future__ import annotations

import datetime
import hashlib
import platform
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.calls import peers
from bench.calls.build import ROOT, Workshop, run, seconds

RUNS = 9  # of an import, each in a process of its own

IMPORT = """\
import sys, time
sys.path.insert(0, sys.argv[1])
start = time.process_time()
import aicf_cuda
package = time.process_time()
aicf_cuda.add
print((package - start) * 1e3, (time.process_time() - package) * 1e3)
"""

# All that the call path is made of.
SOURCES = ("bench/calls", "bench/peers", "include/aicf", "runtime/core", "runtime/libaicf",
           "kernels/binary", "templates")  # fmt: skip


def ask(*words: str) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def source_hash() -> str:
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def machine(device: str) -> dict[str, Any]:
    about: dict[str, Any] = {"device": processor(), "cpu": processor()}
    if device == "cuda":
        asked = ask("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        name, _, driver = asked.partition("\n")[0].partition(", ")
        release = re.search(r"release ([0-9.]+)", ask("nvcc", "--version"))
        about |= {"device": name, "driver": driver, "cuda": release.group(1) if release else ""}
    known = ("torch", "numpy", "jax", "cupy", "triton", "numba", "apache-tvm-ffi", "nanobind")
    versions = {name: peers.version(name) for name in known}
    cupy = next(
        (v for v in map(peers.version, ("cupy", "cupy-cuda13x", "cupy-cuda12x")) if v), None
    )
    return about | {
        "python": platform.python_version(),
        "compiler": ask("gcc", "--version").partition("\n")[0],
        "versions": {k: v for k, v in (versions | {"cupy": cupy}).items() if v},
        "date": datetime.date.today().isoformat(),
        "sources": source_hash(),
    }


# ---- compile time ------------------------------------------------------------------------------


def compile_seconds(shop: Workshop) -> float:
    """The generated C of one op to a module: two files and the link. Its kernels are compiled by
    themselves, as the peers' are."""
    scratch = shop.out / "compiled"
    scratch.mkdir(exist_ok=True)
    # The record names the headers of the Python that it was built for; both are as long to read.
    module = re.sub(
        r"-isystem '[^']*'", f"-isystem {shlex.quote(shop.python)}", shop.record("cc-module")
    )
    kernels = [o for o in shop.record("link.add").split() if "/kernels/" in o]
    objects = f"{scratch}/op.o {scratch}/module.o {' '.join(kernels)}"
    commands = [
        f"{shop.record('cc-op')} -c {shop.generated}/ops/add_op.c -o {scratch}/op.o",
        f"{module} -c {shop.generated}/modules/add.c -o {scratch}/module.o",
        f"{shop.record('link')} {objects} {shop.runtime_flags()} -o {scratch}/add.so",
    ]
    return statistics.median(seconds(commands) for _ in range(5))


# ---- import time and sizes ---------------------------------------------------------------------


def import_ms(shop: Workshop) -> tuple[float, float]:
    """Processor time of the package with the runtime, and then of one op; medians of processes."""
    command = [sys.executable, "-c", IMPORT, str(shop.build / "python")]
    times = [[float(word) for word in run(command).split()] for _ in range(RUNS)]
    package, op = (statistics.median(column) for column in zip(*times, strict=True))
    return package, op


def size(path: Path, scratch: Path) -> tuple[int, int]:
    """Bytes of a library without symbols, and of the device code in it."""
    stripped = scratch / "stripped"
    run(["strip", "-o", str(stripped), str(path)])
    sections = run(["readelf", "-SW", str(stripped)])
    device = sum(int(n, 16) for n in re.findall(r"\.nv_fatbin\s+\S+\s+\S+\s+\S+\s+(\S+)", sections))
    return stripped.stat().st_size, device


def host_bytes(path: Path, scratch: Path) -> int:
    total, code = size(path, scratch)
    return total - code


def figures(shop: Workshop, device: str) -> dict[str, Any]:
    """Beside the table. What could not be measured is None."""
    ours = compile_seconds(shop)
    theirs = shop.spent(shop.out / f"extension_{device}.so")
    package, op = import_ms(shop)
    core = next(shop.runtime.glob("_core.*so"))
    files = {"core": core, "libaicf": shop.runtime / "libaicf.so.1"}
    # The op that is measured, and the one that is largest beside its device code.
    ops = sorted((shop.build / "python" / "aicf_cuda").glob("*.so"))
    largest = max(ops, key=lambda path: host_bytes(path, shop.out))
    files |= {"add": next(p for p in ops if p.name.startswith("add."))}
    files |= {f"largest op, {largest.name.partition('.')[0]}": largest}
    sizes = {}
    for name, path in files.items():
        total, code = size(path, shop.out)
        sizes[name] = {"bytes": total, "device_code": code}
    return {
        "compile_s": {
            "module": round(ours, 3),
            "torch_extension": theirs,
            "torch_op": shop.spent(shop.out / f"operator_{device}.so"),
            "nanobind": shop.spent(shop.out / "bench_nanobind.so"),
            "tvm_ffi": shop.spent(shop.out / "tvm.so"),
            "times": round(theirs / ours, 1) if theirs else None,
        },
        "import_ms": {"package_and_runtime": round(package, 2), "op": round(op, 2)},
        "sizes": sizes,
    }
