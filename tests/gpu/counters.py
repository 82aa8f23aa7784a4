"""Hardware counters of one launch: `python counters.py LIBRARY.so CASE [...]`, CASES below.

Runs ncu on a process of its own and prints, by kernel, what bounds it. The clocks are left alone.
Exits 2 where ncu cannot read counters on this machine.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu.launchers import Launchers

if TYPE_CHECKING:
    from collections.abc import Callable

METRICS = {
    "gpu__time_duration.sum": "time",
    "sm__cycles_elapsed.max": "cycles",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram %",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed": "L2 %",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed": "shared %",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "bank conflicts",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active": "tensor instructions %",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": "fma %",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue %",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps %",
    "smsp__average_warp_latency_issue_stalled_barrier.pct": "stall: barrier",
    "smsp__average_warp_latency_issue_stalled_math_pipe_throttle.pct": "stall: math",
    "smsp__average_warp_latency_issue_stalled_mio_throttle.pct": "stall: mio",
    "smsp__average_warp_latency_issue_stalled_short_scoreboard.pct": "stall: shared",
    "smsp__average_warp_latency_issue_stalled_long_scoreboard.pct": "stall: global",
    "smsp__average_warp_latency_issue_stalled_wait.pct": "stall: wait",
}


def matrices(n: int, dtype: torch.dtype) -> list[torch.Tensor]:
    return [torch.empty(n, n, dtype=dtype, device="cuda").normal_() for _ in range(3)]


def gemm(launch: Launchers, kernel: str, dtype: torch.dtype) -> None:
    a, b, out = matrices(4096, dtype)
    launch.gemm(kernel, a, b, out)


def transpose(launch: Launchers, dtype: torch.dtype) -> None:
    a, out, _ = matrices(8192, dtype)
    launch.elementwise("copy", "strided", out, a.t())


def sums(launch: Launchers, axis: int) -> None:
    a, _, _ = matrices(8192, torch.bfloat16)
    launch.sum(a, torch.empty(8192, dtype=a.dtype, device="cuda"), (axis,))


CASES: dict[str, Callable[[Launchers], None]] = {
    "gemm_bf16": lambda launch: gemm(launch, "mma", torch.bfloat16),
    "gemm_f32": lambda launch: gemm(launch, "simt", torch.float32),
    "transpose_f32": lambda launch: transpose(launch, torch.float32),
    "transpose_bf16": lambda launch: transpose(launch, torch.bfloat16),
    "sum_rows": lambda launch: sums(launch, 1),
    "sum_columns": lambda launch: sums(launch, 0),
}


def profile(library: str, case: str) -> int:
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "-k", "regex:aicf"]
    command += ["--kernel-name-base", "demangled", "--metrics", ",".join(METRICS)]
    command += [sys.executable, __file__, library, "--run", case]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError:
        print("ncu is not installed")
        return 2
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode or len(lines) < 3:
        print(f"{case}: ncu: exit {done.returncode}", (done.stdout + done.stderr)[-500:])
        return 2
    names, units, *rows = list(csv.reader(lines))
    for row in rows:
        print(f"{case}: {row[names.index('Kernel Name')][:60]}")
        values = dict(zip(names, zip(row, units, strict=True), strict=True))
        stalls = {m: float(values[m][0].replace(",", "")) for m in METRICS if "stalled" in m}
        for name, label in METRICS.items():
            if name in stalls:
                share = 100 * stalls[name] / sum(stalls.values())
                print(f"    {label}: {share:.0f} % of these stalls")
            else:
                print(f"    {label}: {' '.join(values[name])}")
    return 0


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    if sys.argv[2] == "--run":
        CASES[sys.argv[3]](Launchers(Path(sys.argv[1]).resolve()))
        torch.cuda.synchronize()
        return
    raise SystemExit(max(profile(sys.argv[1], case) for case in sys.argv[2:]))


if __name__ == "__main__":
    main()
