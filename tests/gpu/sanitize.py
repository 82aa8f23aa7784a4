"""Every CUDA kernel under compute-sanitizer: `python sanitize.py [--json FILE]`.

First that the tools see: two planted faults must be reported. Then touch.py runs every kernel of
the built modules, under memcheck all of them, under racecheck and synccheck those that share
memory between threads. torch's allocator would hide accesses past an end: it is told to keep
nothing.

`python sanitize.py LIBRARY.so [TOOL ...]` runs all of check.py --quick, which takes minutes.

Exits 1 where a tool reports anything of ours, misses a planted fault or a kernel was not run, 2
where the tools do not work on this machine."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu.processes import BUILT, ROOT

sys.path[:0] = [str(BUILT), str(ROOT / "tools")]

from gpu.cases import OPS, planned, unreached  # noqa: E402
from gpu.touch import named  # noqa: E402
from rows.table import facts  # noqa: E402

HERE = Path(__file__).resolve().parent

GROUPS = {
    "memcheck": ("vec", "strided", "special", "copy", "bias", "sums", "gemm"),
    "racecheck": ("copy", "bias", "sums", "gemm"),
    "synccheck": ("copy", "sums", "gemm"),
}

PROCESSES = {"memcheck": 12, "racecheck": 12, "synccheck": 4}  # as long as each other, about
PLANTED = {"memcheck": ("write", "Invalid __global__ write"), "racecheck": ("race", "hazard")}
AT_ONCE = 12


@dataclass(frozen=True, slots=True)
class Outcome:
    """One process under one tool."""

    tool: str
    what: str
    verdict: str  # "clean", "reported", "not done", "unsupported", "failed"
    seconds: float
    text: str = field(repr=False)


def sanitize(tool: str, what: str, command: Iterable[str | Path], limit: float) -> Outcome:
    options = ["--tool", tool, "--error-exitcode", "9", "--print-limit", "5"]
    options += ["--kernel-name", "kernel_substring=aicf"]
    paths = os.pathsep.join([str(BUILT), str(HERE.parent)])
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": paths}
    begin = time.monotonic()
    try:
        done = subprocess.run(
            ["compute-sanitizer", *options, *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except FileNotFoundError:
        return Outcome(tool, what, "unsupported", 0.0, "compute-sanitizer is not installed")
    except subprocess.TimeoutExpired as late:
        out = late.stdout.decode() if isinstance(late.stdout, bytes) else str(late.stdout or "")
        return Outcome(tool, what, "not done", limit, out)
    text = done.stdout + done.stderr
    verdict = {0: "clean", 9: "reported"}.get(done.returncode, "failed")
    if "not supported" in text.lower():
        verdict = "unsupported"
    elif verdict == "clean" and not re.search(r"SUMMARY: 0 (errors|hazards)", text):
        verdict = "failed"  # it ended well without having looked
    return Outcome(tool, what, verdict, time.monotonic() - begin, text)


# ---- the built modules ---------------------------------------------------------------------------


def compile_planted(folder: Path) -> Path:
    out = folder / "planted"
    command = ["nvcc", "-gencode", "arch=compute_80,code=compute_80"]
    command += ["-gencode", "arch=compute_90,code=sm_90", str(HERE / "planted.cu"), "-o", str(out)]
    subprocess.run(command, check=True)
    return out


def kernels_to_run() -> set[str]:
    """Every CUDA kernel of the built modules, in every dtype that samples reach."""
    reached = {named(op, plan) for op in OPS for plan in planned(op)}
    return reached | {f"{op}/{kernel}" for op in OPS for kernel in unreached(op)}


def shares(op: str) -> bool:
    """Whether threads of a kernel of the op may share memory, as its sources have it."""
    sources = importlib.import_module("gpu_report").sources
    files = {ROOT / k["src"] for k in facts(op).kernels if k["backend"] == "cuda"}
    words = ("__shared__", "__syncthreads", "cluster")
    return any(
        word in path.read_text(encoding="utf-8")
        for file in files
        for path in sources(file, set())
        for word in words
    )


def groups(tool: str) -> list[list[str]]:
    """The ops that a tool looks at, in lists for a process each."""
    asked = [op for op in OPS if planned(op) and (tool == "memcheck" or shares(op))]
    made: list[list[str]] = [[] for _ in range(PROCESSES[tool])]
    size = {op: 20 + len(planned(op)) for op in asked}
    for op in sorted(asked, key=lambda op: -size[op]):
        min(made, key=lambda group: sum(size[o] for o in group)).append(op)
    return [group for group in made if group]


def ran(outcome: Outcome) -> set[str]:
    found = re.search(r'^\{"ran": .*\}$', outcome.text, re.MULTILINE)
    return set(json.loads(found[0])["ran"]) if found else set()


def every_kernel(limit: float) -> tuple[list[Outcome], list[Outcome]]:
    """The planted faults, and the runs of ours, at once."""
    touch = [sys.executable, str(HERE / "touch.py")]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        program = compile_planted(Path(folder))
        # What takes longest starts first.
        ours = [
            pool.submit(sanitize, tool, " ".join(ops), [*touch, *ops], limit)
            for tool in ("racecheck", "memcheck", "synccheck")
            for ops in groups(tool)
        ]
        planted = [
            pool.submit(sanitize, tool, f"planted {word}", [program, word], limit)
            for tool, (word, _) in PLANTED.items()
        ]
        return [job.result() for job in planted], [job.result() for job in ours]


def judge(planted: list[Outcome], ours: list[Outcome]) -> tuple[int, dict[str, list[str]]]:
    """The exit status, and by kernel the tools under which it ran clean."""
    status = 0
    for outcome in planted:
        seen = PLANTED[outcome.tool][1]
        good = outcome.verdict == "reported" and seen in outcome.text
        print(f"{outcome.tool} {outcome.what}: {'reported' if good else 'MISSED'}")
        if not good:
            print(outcome.text[-1500:])
            status = max(status, 2 if outcome.verdict == "unsupported" else 1)
    clean: dict[str, list[str]] = {}
    for outcome in ours:
        print(f"{outcome.tool} {outcome.what}: {outcome.verdict}, {outcome.seconds:.0f} s")
        if outcome.verdict == "clean":
            for kernel in ran(outcome):
                clean.setdefault(kernel, []).append(outcome.tool)
        else:
            print(outcome.text[-2500:])
            status = max(status, 2 if outcome.verdict == "unsupported" else 1)
    return status, {kernel: sorted(tools) for kernel, tools in sorted(clean.items())}


def described() -> dict[str, object]:
    """The machine, and the hash of each kernel's sources."""
    command = [sys.executable, str(ROOT / "tools" / "gpu_report.py"), "describe"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, object] = json.loads(said)
    return found


def modules(json_file: Path | None, limit: float) -> int:
    begin = time.monotonic()
    planted, ours = every_kernel(limit)
    status, clean = judge(planted, ours)
    wanted = kernels_to_run()
    print("\nkernel                    dtypes                     clean under")
    by_kernel: dict[tuple[str, str], list[str]] = {}
    for name, tools in clean.items():
        kernel, _, dtype = name.partition(" ")
        by_kernel.setdefault((kernel, " ".join(tools)), []).append(dtype)
    for (kernel, under), dtypes in sorted(by_kernel.items()):
        print(f"{kernel:<26}{' '.join(dtypes):<27}{under}")
    missing = sorted(name for name in wanted if "memcheck" not in clean.get(name, ()))
    for name in missing:
        print(f"not run clean under memcheck: {name}")
    print(f"{len(wanted) - len(missing)} of {len(wanted)}, {time.monotonic() - begin:.0f} s")
    if json_file is not None:
        report = described() | {
            "planted": [asdict(o) | {"text": ""} for o in planted],
            "runs": [
                asdict(o) | {"text": "" if o.verdict == "clean" else o.text[-4000:]} for o in ours
            ],
            "clean": clean,
            "missing": missing,
        }
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return status or bool(missing)


# ---- the launchers alone -------------------------------------------------------------------------


def launchers(library: str, tools: list[str], limit: float) -> int:
    status = 0
    for tool in tools:
        for group in GROUPS[tool]:
            command = [sys.executable, str(HERE / "check.py"), library, "--quick", group]
            outcome = sanitize(tool, group, command, limit)
            print(f"{tool} {group}: {outcome.verdict}, {outcome.seconds:.0f} s")
            print(outcome.text[-1500:] if outcome.verdict != "clean" else "", end="", flush=True)
            late = outcome.verdict in ("unsupported", "not done")
            status = max(status, 0 if outcome.verdict == "clean" else 2 if late else 1)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("library", nargs="?")
    parser.add_argument("tools", nargs="*", choices=[*GROUPS, []])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit", type=float, default=float(os.environ.get("SANITIZE_LIMIT", 0)))
    known = parser.parse_args()
    if known.library:
        return launchers(known.library, known.tools or list(GROUPS), known.limit or 300.0)
    return modules(known.json, known.limit or 110.0)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
