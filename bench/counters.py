"""Hardware counters of cases of bench/kernels: `python -m bench.counters [--json FILE] WORD ...`.

Runs each case's launch once under ncu, in a process of its own, and says of each kernel what bounds
it: how busy memory, L2, shared memory and the issue slots were, and what its warps waited for. The
clocks are left alone. Exits 2 where ncu cannot read counters on this machine.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

METRICS = {
    "gpu__time_duration.sum": "time",
    "launch__registers_per_thread": "registers",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram %",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed": "L2 %",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed": "shared %",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": "fma %",
    "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active": "alu %",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": "xu %",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue %",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps %",
    "smsp__average_warp_latency_issue_stalled_barrier.pct": "stall: barrier",
    "smsp__average_warp_latency_issue_stalled_math_pipe_throttle.pct": "stall: math",
    "smsp__average_warp_latency_issue_stalled_mio_throttle.pct": "stall: mio",
    "smsp__average_warp_latency_issue_stalled_lg_throttle.pct": "stall: memory queue",
    "smsp__average_warp_latency_issue_stalled_short_scoreboard.pct": "stall: shared",
    "smsp__average_warp_latency_issue_stalled_long_scoreboard.pct": "stall: global",
    "smsp__average_warp_latency_issue_stalled_wait.pct": "stall: wait",
}


def cases_of(word: str) -> list[Any]:
    from bench.kernels import families

    return [case for cases in families().values() for case in cases() if word in case.name]


def run(word: str) -> None:
    """What ncu looks at: the case's first launch."""
    import torch

    for case in cases_of(word)[:1]:
        case.make().ours(0)
        torch.cuda.synchronize()


def profile(word: str) -> list[dict[str, Any]]:
    """The figures of each of our kernels in the case's launch; empty where ncu gives none."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "-k", "regex:aicf"]
    command += ["--kernel-name-base", "demangled", "--metrics", ",".join(METRICS)]
    command += [sys.executable, "-m", "bench.counters", "--run", word]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError:
        print("ncu is not installed")
        return []
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode or len(lines) < 3:
        print(f"{word}: ncu: exit {done.returncode}", (done.stdout + done.stderr)[-300:])
        return []
    names, units, *rows = list(csv.reader(lines))
    return [{"case": word, **figures(names, units, row)} for row in rows]


def figures(names: list[str], units: list[str], row: list[str]) -> dict[str, Any]:
    values = dict(zip(names, zip(row, units, strict=True), strict=True))
    stalls = {m: float(values[m][0].replace(",", "")) for m in METRICS if "stalled" in m}
    total = sum(stalls.values()) or 1.0
    found: dict[str, Any] = {"kernel": values["Kernel Name"][0][:90]}
    for metric, label in METRICS.items():
        if metric in stalls:
            found[label] = round(100 * stalls[metric] / total)
        elif metric in values:
            found[label] = " ".join(w for w in values[metric] if w not in ("%", "register/thread"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="where the result goes")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="+", metavar="WORD", help="a case's name, or a part of it")
    given = parser.parse_args()
    if given.run:
        run(given.words[0])
        return 0
    rows = [row for word in given.words for row in profile(word)]
    for row in rows:
        print(" ".join(f"{k}={v}" for k, v in row.items()), flush=True)
    if given.json and rows:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0 if rows else 2


if __name__ == "__main__":
    sys.exit(main())
