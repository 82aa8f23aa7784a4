"""opgen on large tables: `python bench/opgen.py [OPGEN]`, by default build/opgen.

Rows are copies of `add` of ops.yaml: three kernels, ten launchers, gradients, a cost. Times are CPU
time of the process, the least of several runs, so that a busy machine counts little. The marks:

    1,000 rows read, checked and rendered      60 ms, 96 MiB; 10,000 rows at most 10.5 times that
    1,000 rows of which nothing changed        40 ms
    the package of 1,000 rows imported         10 ms, without what it imports of aicf_rt

What is rendered is measured against a folder that has it already, below a comment that changed: all
stages run, and nothing is written but the stamp.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = 9

IMPORT = """\
import sys, time, types
sys.modules["aicf_rt"] = types.SimpleNamespace(
    Call=0, CudaError=0, Tensor=0, Unsupported=0, run=0)
sys.path.insert(0, sys.argv[1])
start = time.process_time()
import aicf_cuda
print((time.process_time() - start) * 1e3)
"""


def table(folder: Path, rows: int) -> Path:
    """A table of so many copies of the row `add`."""
    head, body = (ROOT / "ops.yaml").read_text(encoding="utf-8").split("ops:\n", 1)
    start = body.index("  - op: add\n")
    row = body[start : body.index("\n\n", start)] + "\n"
    path = folder / f"{rows}.yaml"
    text = "".join(row.replace("op: add\n", f"op: add{i}\n") for i in range(rows))
    path.write_text(f"{head}ops:\n{text}", encoding="utf-8")
    return path


def cost(*command: str | Path) -> tuple[float, float]:
    """Milliseconds of CPU time and MiB of memory of one run."""
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    return (used.ru_utime + used.ru_stime) * 1e3, used.ru_maxrss / 1024


def best(*command: str | Path, touch: Path | None = None, runs: int = RUNS) -> tuple[float, float]:
    """The least time and the most memory of several runs, each after an edit of `touch`."""
    costs = []
    for i in range(runs):
        if touch:
            with touch.open("a", encoding="utf-8") as file:
                file.write(f"# {i}\n")
        costs.append(cost(*command))
    return min(time for time, _ in costs), max(memory for _, memory in costs)


def report(what: str, value: float, mark: float, unit: str) -> None:
    verdict = "" if value <= mark else f"  over the mark of {mark:g}"
    print(f"{what:46} {value:8.1f} {unit}{verdict}")


def main() -> None:
    program = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "opgen").resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rendered = {}
        for rows, runs in ((1000, RUNS), (10000, 3)):
            source, out = table(folder, rows), folder / f"out{rows}"
            write = (program, "--templates", ROOT / "templates", "--out", out, source)
            cost(*write)
            checked, _ = best(program, "--check", source, runs=runs)
            rendered[rows], memory = best(*write, touch=source, runs=runs)
            print(f"{rows} rows, read and checked only: {checked:.1f} ms")
            if rows == 1000:
                report("1,000 rows read, checked, rendered", rendered[rows], 60, "ms")
                report("their memory", memory, 96, "MiB")
                report("1,000 rows, nothing changed", best(*write)[0], 40, "ms")
                command: list[str | Path] = [sys.executable, "-c", IMPORT, out / "python"]
                times = [float(subprocess.check_output(command)) for _ in range(RUNS)]
                report("the package of 1,000 rows imported", min(times), 10, "ms")
        report("10,000 rows beside 1,000", rendered[10000] / rendered[1000], 10.5, "times")


if __name__ == "__main__":
    main()
