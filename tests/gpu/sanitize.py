"""Every CUDA kernel under compute-sanitizer, or those of the ops that are named:
`python sanitize.py [--json FILE] [--limit SECONDS] [--all-dtypes] [OP ...]`.

First that the tools see: planted faults must be reported. Then touch.py runs every kernel of the
built modules, each in one dtype or in all, in processes beside each other: under memcheck and
initcheck all of them, under racecheck and synccheck those that share memory between threads. What
is not done within the limit, which is for all of it, is not clean.

Exits 1 where a tool reports anything of ours, misses a planted fault or a kernel was not run, 2
where the tools do not work on this machine."""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu.processes import BUILT, ROOT

sys.path[:0] = [str(BUILT), str(ROOT / "tools")]

from gpu.cases import OPS, planned, unreached  # noqa: E402
from gpu.touch import named, plans_of  # noqa: E402
from rows.table import facts  # noqa: E402

HERE = Path(__file__).resolve().parent

# How many processes share a tool's work, for one dtype a kernel. All begin at once: to begin takes
# them longer than most of what they do.
PROCESSES = {"memcheck": 4, "synccheck": 2, "initcheck": 7, "racecheck": 4}
SHARED_ONLY = ("racecheck", "synccheck")
PLANTED = {
    "memcheck": ("write", "Invalid __global__ write"),
    "racecheck": ("race", "hazard"),
    "initcheck": ("read", "Uninitialized __global__ memory read"),
}
AT_ONCE = max(2, (os.cpu_count() or 2) + 1) + len(PLANTED)
# initcheck must see who wrote: torch's kernels are looked at too, and only ours are judged.
OURS = ["--kernel-name", "kernel_substring=aicf"]
# torch's allocator would hide what is past an end, or was never written.
ADDRESSES = ("memcheck", "initcheck")
REPORTS = 1000  # that a tool prints: none of ours may be cut off
SUMMARY = re.compile(r"SUMMARY: 0 (errors|hazards)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One process under one tool."""

    tool: str
    what: str
    verdict: str  # "clean", "reported", "not done", "unsupported", "failed"
    seconds: float
    text: str = field(repr=False)

    @property
    def ran(self) -> set[str]:
        found = re.findall(r'^\{"ran": .*\}$', self.text, re.MULTILINE)
        return {kernel for line in found for kernel in json.loads(line)["ran"]}

    @property
    def blamed(self) -> set[str]:
        """The ops that reports name: kernels are in namespaces of their op's name."""
        return set(re.findall(r"aicf::(\w+)::", self.text)) & {*OPS, "planted"}

    @property
    def clean(self) -> set[str]:
        """What ran without a report of its own, as far as its process came. A report that does not
        say whose it is spoils all."""
        if self.verdict == "clean":
            return self.ran
        looked = "COMPUTE-SANITIZER" in self.text
        if not looked or (self.verdict == "reported" and not self.blamed):
            return set()
        return {kernel for kernel in self.ran if kernel.split("/")[0] not in self.blamed}


def verdict_of(tool: str, status: int, text: str) -> str:
    if "not supported" in text.lower():
        return "unsupported"
    if status == 9:
        return "clean" if tool == "initcheck" and "aicf::" not in text else "reported"
    if status != 0 or not SUMMARY.search(text):
        return "failed"  # or it ended well without having looked
    return "clean"


def sanitize(tool: str, what: str, command: Iterable[str | Path], end: float) -> Outcome:
    options = ["--tool", tool, "--error-exitcode", "9", "--print-limit", str(REPORTS)]
    options += [] if tool == "initcheck" else OURS
    environment = {
        **os.environ,
        **({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if tool in ADDRESSES else {}),
        "PYTHONPATH": os.pathsep.join([str(BUILT), str(HERE.parent)]),
        "OMP_NUM_THREADS": "1",
    }
    begin = time.monotonic()
    if begin >= end:
        return Outcome(tool, what, "not done", 0.0, "it did not begin within the limit")
    try:
        process = subprocess.Popen(
            ["compute-sanitizer", *options, *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # what it starts ends with it
        )
    except FileNotFoundError:
        return Outcome(tool, what, "unsupported", 0.0, "compute-sanitizer is not installed")
    try:
        text = process.communicate(timeout=end - begin)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return Outcome(tool, what, "not done", end - begin, process.communicate()[0])
    verdict = verdict_of(tool, process.returncode, text)
    return Outcome(tool, what, verdict, time.monotonic() - begin, text)


# ---- what is to run ------------------------------------------------------------------------------


def plant(tool: str, folder: Path, end: float) -> Outcome:
    """A fault of the tool's kind, in a program of its own."""
    word, program = PLANTED[tool][0], folder / f"planted-{tool}"
    command = ["nvcc", "-gencode", "arch=compute_80,code=compute_80"]
    command += ["-gencode", "arch=compute_90,code=sm_90", str(HERE / "planted.cu")]
    subprocess.run([*command, "-o", str(program)], check=True)
    return sanitize(tool, f"planted {word}", [program, word], end)


def asked(ops: Sequence[str], tool: str) -> list[str]:
    return [op for op in ops if tool not in SHARED_ONLY or shares(op)]


def units(ops: Sequence[str], tool: str, every: bool) -> list[str]:
    """What touch.py is asked for: each kernel in all the Maker's dtypes, or in one, another one for
    another op or tool."""
    found = []
    for op in asked(ops, tool):
        kernels: dict[str, list[str]] = {}  # by dtype
        turn = OPS.index(op) + list(PROCESSES).index(tool)
        for kernel in dict.fromkeys(plan.kernel for plan in planned(op)):
            words = dict.fromkeys(plan.word for plan in planned(op) if plan.kernel == kernel)
            for word in words if every else [list(words)[turn % len(words)]]:
                kernels.setdefault(word, []).append(kernel)
        forms = ":all" if every else ""
        found += [f"{op}:{word}:{'+'.join(names)}{forms}" for word, names in kernels.items()]
    return found


def kernels_to_run(ops: Sequence[str], tool: str = "memcheck", every: bool = False) -> set[str]:
    """CUDA kernels of the built modules, in the dtypes in which they are asked for."""
    reached = {
        named(unit.partition(":")[0], plan)
        for unit in units(ops, tool, every)
        for plan in plans_of(unit)
    }
    return reached | {f"{op}/{kernel}" for op in asked(ops, tool) for kernel in unreached(op)}


@functools.cache
def shares(op: str) -> bool:
    """Whether threads of a kernel of the op may share memory, as its sources have it."""
    sources = importlib.import_module("gpu_report").sources
    files = {ROOT / k["src"] for k in facts(op).kernels if k["backend"] == "cuda"}
    words = ("__shared__", "__syncthreads")
    return any(
        word in path.read_text(encoding="utf-8")
        for file in files
        for path in sources(file, set())
        for word in words
    )


def groups(ops: Sequence[str], tool: str, every: bool) -> list[list[str]]:
    """What a tool looks at, in lists for a process each, what is little first."""
    size = {
        unit: 2 + sum(4 if plan.large else 1 for plan in plans_of(unit))
        for unit in units(ops, tool, every)
    }
    made: list[list[str]] = [[] for _ in range(PROCESSES[tool] * (3 if every else 1))]
    for unit in sorted(size, key=lambda unit: -size[unit]):
        min(made, key=lambda group: sum(size[u] for u in group)).insert(0, unit)
    return [group for group in made if group]


def every_kernel(
    ops: Sequence[str], every: bool, end: float
) -> tuple[list[Outcome], list[Outcome]]:
    """The planted faults, and the runs of ours, at once."""
    touch = [sys.executable, str(HERE / "touch.py")]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        planted = [pool.submit(plant, tool, Path(folder), end) for tool in PLANTED]
        ours = []
        for tool in PROCESSES:
            options = ["--written"] if tool == "initcheck" else []
            for group in groups(ops, tool, every):
                command = [*touch, *options, *group]
                ours.append(pool.submit(sanitize, tool, " ".join(group), command, end))
        return [job.result() for job in planted], [job.result() for job in ours]


# ---- what became of it ---------------------------------------------------------------------------


def reports(text: str) -> str:
    """The first of what a tool said, or else the end of all."""
    said = [line for line in text.splitlines() if line.startswith("=========")]
    found = [line for line in said if not line.startswith("========= COMPUTE-SANITIZER")]
    return "\n".join(line[:160] for line in found[:24]) or text[-1500:]


def judge_planted(planted: list[Outcome]) -> int:
    status = 0
    for outcome in planted:
        seen = PLANTED[outcome.tool][1]
        good = outcome.verdict == "reported" and seen in outcome.text
        print(f"{outcome.tool} {outcome.what}: {'reported' if good else 'MISSED'}")
        if not good:
            print(outcome.text[-1500:])
            status = max(status, 2 if outcome.verdict == "unsupported" else 1)
    return status


def judge(ours: list[Outcome]) -> int:
    status = 0
    for outcome in ours:
        if outcome.verdict != "clean":
            print(f"\n{outcome.tool} {outcome.what}: {outcome.verdict}, {outcome.seconds:.0f} s")
            print(reports(outcome.text))
            status = max(status, 2 if outcome.verdict == "unsupported" else 1)
    return status


def table(ours: list[Outcome], wanted: dict[str, set[str]]) -> dict[str, list[str]]:
    """Printed; by tool what was not run clean."""
    print(f"\n{'tool':<12}{'processes':>9}{'longest':>9}{'clean':>8}{'of':>6}  kernels and dtypes")
    missing = {}
    for tool, names in wanted.items():
        mine = [outcome for outcome in ours if outcome.tool == tool]
        clean = names & {kernel for outcome in mine for kernel in outcome.clean}
        longest = max(outcome.seconds for outcome in mine) if mine else 0.0
        missing[tool] = sorted(names - clean)
        left = ", ".join(missing[tool][:6]) + (" ..." if len(missing[tool]) > 6 else "")
        print(
            f"{tool:<12}{len(mine):>9}{longest:>7.0f} s{len(clean):>8}{len(names):>6}"
            f"{'  not clean: ' + left if left else ''}"
        )
    return missing


def described() -> dict[str, object]:
    """The machine, and the hash of each kernel's sources."""
    command = [sys.executable, str(ROOT / "tools" / "gpu_report.py"), "describe"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, object] = json.loads(said)
    return found


def by_kernel(ours: list[Outcome]) -> dict[str, list[str]]:
    """The tools under which each ran clean."""
    found: dict[str, set[str]] = {}
    for outcome in ours:
        for kernel in outcome.clean:
            found.setdefault(kernel, set()).add(outcome.tool)
    return {kernel: sorted(tools) for kernel, tools in sorted(found.items())}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("ops", nargs="*", metavar="OP", default=OPS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--all-dtypes", action="store_true", help="else each kernel in one")
    limit = float(os.environ.get("SANITIZE_LIMIT", 150))
    parser.add_argument("--limit", type=float, default=limit, help="seconds for all of it")
    known = parser.parse_args()
    begin = time.monotonic()
    torch.set_num_threads(1)  # what is planned is little
    planted, ours = every_kernel(known.ops, known.all_dtypes, begin + known.limit)
    status = max(judge_planted(planted), judge(ours))
    every = known.all_dtypes
    wanted = {tool: kernels_to_run(known.ops, tool, every) for tool in PROCESSES}
    missing = table(ours, wanted)
    seconds = round(time.monotonic() - begin)
    print(f"{seconds} s")
    if known.json is not None:
        report = described() | {
            "seconds": seconds,
            "planted": [asdict(o) | {"text": ""} for o in planted],
            "runs": [
                asdict(o) | {"text": "" if o.verdict == "clean" else reports(o.text)} for o in ours
            ],
            "clean": by_kernel(ours),
            "missing": missing,
        }
        known.json.parent.mkdir(parents=True, exist_ok=True)
        known.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return status or int(any(missing.values()))


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
