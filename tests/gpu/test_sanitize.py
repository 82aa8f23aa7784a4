"""What sanitize.py makes of what the tools say; the tools themselves need a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu.processes import ROOT
from gpu.sanitize import kernels_to_run

pytestmark = [pytest.mark.guests("torch", "nvcc"), pytest.mark.promise("C5")]

# A compute-sanitizer that says what it is told to; kernels are those of the modules.
STAND_IN = """#!{python}
import json, os, sys
words, how = sys.argv[1:], os.environ["STAND_IN"]
tool = words[words.index("--tool") + 1]
if words[-2].endswith("planted"):
    if how == "blind":
        print("========= ERROR SUMMARY: 0 errors")
        sys.exit(0)
    said = {{"write": "Invalid __global__ write of size 4", "race": "1 hazard"}}
    print("=========", said[words[-1]])
    sys.exit(9)
asked = words[next(i for i, w in enumerate(words) if w.endswith("touch.py")) + 1:]
ran = []
for kernel in json.loads(os.environ["KERNELS"]):
    if kernel.partition("/")[0] in asked:
        ran.append(kernel)
if how == "forgets":
    ran = [kernel for kernel in ran if kernel != "sum/two_stage f32"]
print(json.dumps({{"ran": ran}}))
if how == "reports" and tool == "racecheck" and "sum" in asked:
    print("========= RACECHECK SUMMARY: 2 hazards displayed")
    sys.exit(9)
if how != "silent":
    print("========= SUMMARY: 0 errors" if tool != "racecheck" else "SUMMARY: 0 hazards displayed")
"""


@pytest.mark.parametrize(
    "how, status, text",
    [
        ("sees", 0, "sum/two_stage             bf16 f16 f32"),
        ("blind", 1, "memcheck planted write: MISSED"),
        ("forgets", 1, "not run clean under memcheck: sum/two_stage f32"),
        ("reports", 1, ": reported, "),
        ("silent", 1, ": failed, "),
    ],
)
def test_verdicts(tmp_path: Path, how: str, status: int, text: str) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(STAND_IN.format(python=sys.executable))
    tool.chmod(0o755)
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done; : >$1\n")
    nvcc.chmod(0o755)
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "gpu" / "sanitize.py", "--json", report],
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "STAND_IN": how,
            "KERNELS": json.dumps(sorted(kernels_to_run())),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert text in done.stdout, done.stdout
    assert report.exists()
