"""Runs check.py --quick under compute-sanitizer: `python sanitize.py LIBRARY.so [TOOL ...]`.

memcheck looks at every group, racecheck and synccheck at those whose kernels share memory between
threads. torch's allocator would hide reads past an end: it is told to keep nothing. Exits 1 where a
tool reports anything, 2 where it cannot run on this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GROUPS = {
    "memcheck": ("vec", "strided", "special", "copy", "bias", "sums", "gemm"),
    "racecheck": ("copy", "bias", "sums", "gemm"),
    "synccheck": ("copy", "sums", "gemm"),
}


def sanitize(tool: str, library: str, groups: tuple[str, ...], limit: float) -> int:
    check = Path(__file__).with_name("check.py")
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--print-limit", "5"]
    command += ["--kernel-name", "kernel_substring=aicf"]
    command += [sys.executable, str(check), library, "--quick", *groups]
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except FileNotFoundError:
        print("compute-sanitizer is not installed")
        return 2
    except subprocess.TimeoutExpired as late:
        out = late.stdout.decode() if late.stdout else ""
        print(f"{tool} {' '.join(groups)}: not done in {limit:.0f} s\n{out[-400:]}")
        return 2
    text = done.stdout + done.stderr
    print(f"{tool} {' '.join(groups)}: exit {done.returncode}")
    print(text[-1500:])
    if "not supported" in text.lower():
        return 2
    return 1 if done.returncode else 0


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    limit = float(os.environ.get("SANITIZE_LIMIT", "300"))
    tools = sys.argv[2:] or list(GROUPS)
    results = [sanitize(tool, sys.argv[1], (g,), limit) for tool in tools for g in GROUPS[tool]]
    raise SystemExit(max(results))


if __name__ == "__main__":
    main()
