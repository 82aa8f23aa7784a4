"""Kernels beside torch in one run: `python -m bench.kernels [--device cpu] [WORD ...]`.

A WORD takes the cases whose family or name has it. The two of a case are measured in turns, on
random data, f32 without tf32: several launches over rotating sets of tensors, larger together than
a GPU's L2, and on a GPU in a graph that is replayed. The median turn counts, and of the ratio the
median over turns with the middle 90% of it. "copy" is the rate of torch's copy on the device in the
same run, read and write counted. On a CPU the largest cases are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from bench import kernels
from bench.kernels import MIB, Case, Runs, families, random

ROOT = Path(__file__).resolve().parents[2]

TURNS = {"cuda": 21, "cpu": 7}
TURN = {"cuda": 1e-3, "cpu": 2e-3}  # seconds that one lasts, about
RATE = {"cuda": 4e12, "cpu": 5e9}  # bytes a second, to guess how long a launch takes
FLOPS = {"cuda": 4e14, "cpu": 5e10}
FEWEST = {"cuda": 2, "cpu": 1}  # launches a turn
MOST = {"cuda": math.inf, "cpu": 0.1}  # seconds that a launch may take, by that guess


def in_graph(run: Callable[[int], Any], sets: int, launches: int) -> Callable[[], float]:
    """Replays a graph of the launches. Each set is used once before, so that nothing is made ready
    while they are captured."""
    for i in range(min(sets, launches)):
        run(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            run(i % sets)
    graph.replay()

    def turn() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    return turn


def in_loop(run: Callable[[int], Any], sets: int, launches: int) -> Callable[[], float]:
    run(0)

    def turn() -> float:
        start = time.perf_counter()
        for i in range(launches):
            run(i % sets)
        return time.perf_counter() - start

    return turn


def measure(runs: Runs, launches: int) -> dict[str, list[float]]:
    """Seconds a launch in each turn, of `ours` and of `torch`."""
    both = {"ours": runs.ours, "torch": runs.torch}
    prepared = in_graph if kernels.DEVICE == "cuda" else in_loop
    turns = {k: prepared(run, runs.sets, launches) for k, run in both.items() if run}
    times: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(TURNS[kernels.DEVICE]):
        for name in list(turns)[:: 1 if number % 2 else -1]:
            times[name].append(turns[name]() / launches)
    return times


def copy_rate() -> float:
    x, y = (random(256 * MIB // 4, torch.float32) for _ in range(2))
    seconds = measure(Runs(lambda _: y.copy_(x), None), 4)["ours"]
    return 512 * MIB / statistics.median(seconds)


def described() -> dict[str, Any]:
    """The machine, and on a GPU the hash of each kernel that is measured."""
    about: dict[str, Any] = {"torch": torch.__version__, "tf32": False}
    if kernels.DEVICE == "cpu":
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text("utf-8"))
        about["device"] = model.group(1) if model else "CPU"
        about["threads"] = torch.get_num_threads()
        return about | {"date": datetime.date.today().isoformat()}
    command = [sys.executable, str(ROOT / "tools" / "gpu_report.py"), "describe"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    about.update(json.loads(done.stdout))
    return about


def result(family: str, case: Case, times: dict[str, list[float]], copy: float) -> dict[str, Any]:
    """A row of the JSON."""
    seconds = {name: statistics.median(found) for name, found in times.items()}
    row: dict[str, Any] = {
        "family": family,
        "name": case.name,
        "op": case.op,
        "dtype": case.dtype,
        "shape": case.shape,
        "us": {name: value * 1e6 for name, value in seconds.items()},
    }
    if case.bytes:
        row["of_copy"] = {name: case.bytes / value / copy for name, value in seconds.items()}
    else:
        row["tflops"] = {name: case.flops / value / 1e12 for name, value in seconds.items()}
    if "torch" in times:
        ratios = sorted(t / o for t, o in zip(times["torch"], times["ours"], strict=True))
        row["ratio"] = statistics.median(ratios)
        row["ratio_90"] = [ratios[len(ratios) // 20], ratios[-1 - len(ratios) // 20]]
    row["missed"] = list(missed(case, row)) if kernels.DEVICE == "cuda" else []
    return row


def missed(case: Case, row: dict[str, Any]) -> Iterator[str]:
    """The marks of the case that the row does not meet."""
    if case.floor and row["of_copy"]["ours"] < case.floor:
        yield f"{case.floor:.2f} of copy"
    if case.ratio and row.get("ratio", case.ratio) < case.ratio:
        yield f"{case.ratio:.2f}x torch"


def line(row: dict[str, Any]) -> str:
    def figure(who: str) -> str:
        rate = row["of_copy"][who] if "of_copy" in row else row["tflops"][who]
        unit = f"{rate:5.2f}" if "of_copy" in row else f"{rate:4.0f}T"
        return f"{row['us'][who]:9.1f} us {unit}"

    text = f"{row['name'][:58]:58} {figure('ours')}"
    if "ratio" in row:
        text += f"  torch {figure('torch')}  {row['ratio']:5.2f}x"
    return text + "".join(f"  < {what}" for what in row["missed"])


def guess(case: Case) -> float:
    """Seconds a launch."""
    return case.bytes / RATE[kernels.DEVICE] + case.flops / FLOPS[kernels.DEVICE] + 2e-6


def run(case: Case) -> dict[str, list[float]]:
    runs = case.make()
    times = measure(
        runs, max(FEWEST[kernels.DEVICE], min(200, int(TURN[kernels.DEVICE] / guess(case))))
    )
    del runs
    return times


def chosen(family: str, words: list[str]) -> Iterator[Case]:
    for case in families()[family]():
        wanted = not words or any(w == family or w in case.name for w in words)
        if wanted and guess(case) <= MOST[kernels.DEVICE]:
            yield case


def run_family(family: str, words: list[str], copy: float) -> Iterator[dict[str, Any]]:
    """The rows of one family; that of a case that failed has `failed`."""
    for case in chosen(family, words):
        try:
            row = result(family, case, run(case), copy)
            print(line(row), flush=True)
        except Exception as error:  # one that fails must not lose the others
            row = {"name": case.name, "failed": f"{type(error).__name__}: {error}"[:300]}
            print(f"{case.name}: FAILED: {row['failed']}", flush=True)
        yield row
        gc.collect()
        if kernels.DEVICE == "cuda":
            with contextlib.suppress(RuntimeError):
                torch.cuda.synchronize()
            torch.cuda.empty_cache()


def in_a_process(family: str, words: list[str], copy: float) -> list[dict[str, Any]]:
    """What is left broken by a family, a captured stream say, ends with its process."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "bench.kernels", "--device", kernels.DEVICE]
        command += ["--family", family, "--copy", repr(copy), "--json", file.name, *words]
        done = subprocess.run(command, check=False)
        text = Path(file.name).read_text("utf-8")
    if done.returncode or not text:
        return [{"name": family, "failed": f"its process ended with {done.returncode}"}]
    rows: list[dict[str, Any]] = json.loads(text)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--json", type=Path, help="where the result goes")
    parser.add_argument("--family", help=argparse.SUPPRESS)
    parser.add_argument("--copy", type=float, help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", metavar="WORD")
    given = parser.parse_args()
    kernels.DEVICE = given.device
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    if given.family:
        found = list(run_family(given.family, given.words, given.copy))
        given.json.write_text(json.dumps(found), encoding="utf-8")
        return 0
    report, copy = described(), copy_rate()
    print(f"{report['device']}: copy {copy / 1e12:.2f} TB/s", flush=True)
    wanted = [family for family in families() if any(chosen(family, given.words))]
    rows = [row for family in wanted for row in in_a_process(family, given.words, copy)]
    good = [row for row in rows if "failed" not in row]
    if given.json:
        report |= {"copy_bytes_per_s": copy, "rows": good}
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    short, failed = sum(bool(row["missed"]) for row in good), len(rows) - len(good)
    print(f"{len(good)} cases, {short} with a mark missed, {failed} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
