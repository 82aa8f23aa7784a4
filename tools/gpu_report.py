"""GPU results as a committed report: `make test-gpu` writes it, `make check` compares it.

The report names the device, the driver and the toolkit, how the suite ended, which tests failed,
which took longest (the next run begins with them), and for each CUDA kernel of the table one hash
over all that it was made from: its source, the headers of this tree that it includes, its generated
launcher header, its compile command. A kernel counts as verified while its hash is what it was when
its tests passed on a GPU. A test that fails speaks against the kernels that it ran and the ops that
it names; against all, where it names none.

    gpu_report.py run [PYTEST ARGUMENTS]   run the tests marked gpu; if all of them were run, write
                                           the report (needs a GPU)
    gpu_report.py check                    say what is verified at these sources
    gpu_report.py ready [PROGRAM...]       fail with a line if there is no GPU, or no such program
    gpu_report.py describe                 the machine and the hashes, as JSON for other reports
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("B", ROOT / "build")).resolve()
GENERATED = Path(os.environ.get("GEN", ROOT / "generated")).resolve()
REPORT = ROOT / "docs" / "measurements" / "gpu-tests.json"

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<(aicf/[^>]+)>)', re.MULTILINE)
# Options that say where things lie on this machine, and not what is made.
PLACES = re.compile(r"(?:^|\s)(?:-ccbin=\S+|-I\s*\S+|-isystem\s*\S+)")


def table() -> dict[str, Any]:
    """The capability data that opgen wrote."""
    found = sorted(GENERATED.glob("python/*/_table.json"))
    if len(found) != 1:
        sys.exit(f"error: no capability data in {GENERATED}: run make first")
    data: dict[str, Any] = json.loads(found[0].read_text(encoding="utf-8"))
    return data


def sources(path: Path, seen: set[Path]) -> Iterator[Path]:
    """`path` and all that it includes from this tree, each once."""
    if path in seen:
        return
    seen.add(path)
    yield path
    for near, ours in INCLUDE.findall(path.read_text(encoding="utf-8")):
        places = [ROOT / "include" / ours] if ours else []
        places += [path.parent / near, GENERATED / "include" / near, ROOT / near] if near else []
        for place in places:
            if place.is_file():
                yield from sources(place.resolve(), seen)
                break


def command(arch: str | None) -> str:
    """The compile command of kernels of `arch`, less the program and what lies where."""
    record = BUILD / "flags" / f"kernel-cuda-{arch or 'any'}"
    if not record.exists():
        sys.exit(f"error: {record} is missing: build with CUDA first")
    words = record.read_text(encoding="utf-8").split()
    options = words[next(i for i, word in enumerate(words) if word.startswith("-")) :]
    return PLACES.sub("", " ".join(options)).strip()


def kernel_hash(kernel: dict[str, Any]) -> str:
    total = hashlib.sha256(command(kernel["arch"]).encode())
    for path in sorted(sources(ROOT / kernel["src"], set())):
        inside = path.relative_to(GENERATED if path.is_relative_to(GENERATED) else ROOT)
        total.update(f"\0{inside}\0".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def built(op: str, kernel: dict[str, Any]) -> bool:
    """Those of libraries are not where their headers are not."""
    return not kernel["libs"] or (BUILD / "kernels" / op / f"{kernel['src']}.o").exists()


def kernels() -> dict[str, str]:
    """The hash of each CUDA kernel that is built, by op and id."""
    ops: dict[str, Any] = table()["ops"]
    return {
        f"{name}/{kernel['id']}": kernel_hash(kernel)
        for name, op in ops.items()
        for kernel in op["kernels"]
        if kernel["backend"] == "cuda" and built(name, kernel)
    }


def ask(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def device_count() -> int:
    """How many CUDA devices the driver counts; 0 without a driver."""
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    good = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return count.value if good else 0


def ready(programs: list[str]) -> int:
    """Looks for what work on a GPU needs, before anything is built or run for it."""
    if device_count() == 0:
        sys.exit(
            "error: no CUDA device here: this needs a machine with an NVIDIA GPU and its driver"
        )
    for program in programs:
        if shutil.which(program) is None:
            sys.exit(f"error: {program} is not found: it comes with the CUDA toolkit, set PATH")
    return 0


def machine() -> dict[str, str]:
    query = "--query-gpu=name,driver_version"
    device, _, driver = (
        ask("nvidia-smi", query, "--format=csv,noheader").partition("\n")[0].partition(", ")
    )
    release = re.search(r"release ([0-9.]+)", ask("nvcc", "--version"))
    return {
        "device": device,
        "driver": driver,
        "cuda": release.group(1) if release else "",
        "kernel": ask("uname", "-r"),
        "date": datetime.date.today().isoformat(),
    }


def blamed(failed: dict[str, dict[str, Any]], names: set[str]) -> set[str]:
    """Those of the kernels `names` (op/id) that a failed test speaks against."""
    against: set[str] = set()
    for test, what in failed.items():
        words = set(re.findall(r"\w+", test.partition("[")[2] + " " + what["said"]))
        ran = {name for name in names if name.partition("/")[0] in words} | set(what["kernels"])
        against |= ran or names
    return against & names


def beside_each_other() -> list[str]:
    """A worker for each core but one, unless the environment says how many."""
    said = re.search(r"(^|\s)(-n\b|--numprocesses\b)", os.environ.get("PYTEST_ADDOPTS", ""))
    if said or importlib.util.find_spec("xdist") is None:
        return []
    return ["-n", str(max(1, len(os.sched_getaffinity(0)) - 1)), "--dist", "loadgroup"]


def run(arguments: list[str]) -> int:
    """Run the tests marked gpu; write the report if none was left out."""
    ready([])
    hashes = kernels()
    with tempfile.TemporaryDirectory() as folder:
        ran, results = Path(folder) / "ran", Path(folder) / "results.json"
        ran.mkdir()
        pytest = [sys.executable, "-m", "pytest", "-m", "gpu", f"--gpu-results={results}"]
        pytest += beside_each_other()
        begin = time.monotonic()
        environment = {**os.environ, "AICF_KERNELS_RAN": str(ran)}
        done = subprocess.run([*pytest, *arguments], cwd=ROOT, env=environment, check=False)
        seconds = round(time.monotonic() - begin)
        found = json.loads(results.read_text()) if results.exists() else ({}, {}, {})
        outcomes, failed, longest = found
        seen = {name for file in ran.glob("*.json") for name in json.loads(file.read_text())}
    if arguments:
        print(f"not all tests were asked for: {REPORT.relative_to(ROOT)} is left as it was")
        return done.returncode
    for name in sorted(set(hashes) - seen):
        print(f"no test ran {name}", file=sys.stderr)
    good = seen & set(hashes) - blamed(failed, set(hashes))
    report = {
        **machine(),
        "tests": outcomes,
        "seconds": seconds,
        "longest": longest,
        "failed": {test: what["said"] for test, what in sorted(failed.items())},
        "kernels": {name: hashes[name] for name in sorted(good)},
    }
    if done.returncode in (0, 1):  # they were run to the end
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(f"{REPORT.relative_to(ROOT)}: {len(report['kernels'])} of {len(hashes)} kernels")
    return done.returncode or bool(set(hashes) - seen)


def check() -> int:
    """Never fails: what no GPU has seen is said, not hidden."""
    archs = {k["arch"] or "any" for op in table()["ops"].values() for k in op["kernels"]}
    if not all((BUILD / "flags" / f"kernel-cuda-{arch}").exists() for arch in archs):
        print("verified on GPU: not known, since CUDA is not built here")
        return 0
    report = json.loads(REPORT.read_text(encoding="utf-8")) if REPORT.exists() else {"kernels": {}}
    now = kernels()
    good = [name for name in now if report["kernels"].get(name) == now[name]]
    where = f" ({report['device']}, {report['date']})" if good else ""
    print(f"verified on GPU at these sources: {len(good)} of {len(now)}{where}")
    for name in now:
        print(f"  {name:<24}{'verified' if name in good else 'not verified'}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("what", choices=["run", "check", "ready", "describe"])
    known, rest = parser.parse_known_args()
    if known.what == "describe":
        print(json.dumps({**machine(), "kernels": kernels()}))
        return 0
    if known.what == "ready":
        return ready(rest)
    return run(rest) if known.what == "run" else check()


if __name__ == "__main__":
    sys.exit(main())
