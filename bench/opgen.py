"""opgen on large tables: `python bench/opgen.py [OPGEN] [--json FILE]`, by default build/opgen.

Rows are copies of `add` of ops.yaml: three kernels, ten launchers, gradients, a cost. Times are CPU
time of the process, the least of several runs, so that a busy machine counts little; a first write
is compared by the clock, in turns with the bare loop. The marks:

    1,000 rows read, checked and rendered      60 ms, 96 MiB; 10,000 rows at most 10.5 times that
    1,000 rows written into a new folder       1.5 times a loop that writes the same files
    1,000 rows of which nothing changed        40 ms
    the package of 1,000 rows imported         10 ms, without what it imports of aicf_rt

What is rendered is measured against a folder that has it already, below a comment that changed: all
stages run, and nothing is written but the stamp. The bare loop has the texts in memory, and makes
folders, opens, writes and closes; opgen's time beside it is the whole run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
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


@dataclass
class Report:
    """What was measured, printed as it comes."""

    lines: list[dict[str, object]] = field(default_factory=list)

    def add(self, what: str, value: float, unit: str, mark: float | None = None) -> None:
        verdict = "" if mark is None or value <= mark else f"  over the mark of {mark:g}"
        print(f"{what:46} {value:8.2f} {unit}{verdict}", flush=True)
        self.lines.append({"what": what, "value": round(value, 3), "unit": unit, "mark": mark})


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def clock(work: Callable[[Path], object], to: Path) -> float:
    """Milliseconds of one call, by the clock."""
    start = time.perf_counter()
    work(to)
    return (time.perf_counter() - start) * 1e3


def first_write(report: Report, program: Path, source: Path, folder: Path) -> None:
    """opgen into a folder that is not there, in turns with a loop that writes the same files.

    Each writes into a folder of its own: what a removal leaves to do counts for nobody.
    """
    command = (program, "--templates", ROOT / "templates", source, "--out")
    out = folder / "first"
    subprocess.run((*command, out), check=True)
    texts = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    folders = sorted({path.parent for path in texts})

    def loop(to: Path) -> None:
        for parent in folders:
            (to / parent).mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            file = os.open(to / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            os.write(file, text)
            os.close(file)

    def write(to: Path) -> None:
        subprocess.run((*command, to), check=True)

    ours, theirs = [], []
    for i in range(RUNS):
        theirs.append(clock(loop, folder / f"bare{i}"))
        ours.append(clock(write, folder / f"new{i}"))
    report.add("a bare loop that writes 1,000 rows' files", min(theirs), "ms")
    report.add("1,000 rows, first write", min(ours), "ms")
    report.add("first write beside the bare loop", min(ours) / min(theirs), "times", 1.5)


def measure(report: Report, program: Path, folder: Path) -> None:
    rendered = {}
    for rows, runs in ((1000, RUNS), (10000, 7)):
        source, out = table(folder, rows), folder / f"out{rows}"
        write = (program, "--templates", ROOT / "templates", "--out", out, source)
        cost(*write)
        checked, _ = best(program, "--check", source, runs=runs)
        rendered[rows], memory = best(*write, touch=source, runs=runs)
        report.add(f"{rows:,} rows, read and checked only", checked, "ms")
        if rows == 1000:
            report.add("1,000 rows read, checked, rendered", rendered[rows], "ms", 60)
            report.add("their memory", memory, "MiB", 96)
            report.add("1,000 rows, nothing changed", best(*write)[0], "ms", 40)
            command: list[str | Path] = [sys.executable, "-c", IMPORT, out / "python"]
            times = [float(subprocess.check_output(command)) for _ in range(RUNS)]
            report.add("the package of 1,000 rows imported", min(times), "ms", 10)
            first_write(report, program, source, folder)
    report.add("10,000 rows beside 1,000", rendered[10000] / rendered[1000], "times", 10.5)


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("opgen", nargs="?", type=Path, default=ROOT / "build" / "opgen")
    words.add_argument("--json", type=Path, help="write the figures there too")
    given = words.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        measure(report, given.opgen.resolve(), Path(name))
    if given.json:
        head = {"device": processor(), "date": date.today().isoformat()}
        text = json.dumps(head | {"opgen": report.lines}, indent=2)
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
