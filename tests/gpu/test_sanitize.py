"""What sanitize.py makes of what the tools say; the tools themselves need a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu import touch
from gpu.cases import cases
from gpu.processes import ROOT
from gpu.sanitize import kernels_to_run

pytestmark = [pytest.mark.guests("torch", "nvcc"), pytest.mark.promise("C5")]

OPS = ("sum", "add", "relu")

# A compute-sanitizer that says what it is told to; kernels are those of the modules.
STAND_IN = """#!{python}
import json, os, subprocess, sys
words, how = sys.argv[1:], os.environ["STAND_IN"]
tool = words[words.index("--tool") + 1]
if "planted-" in words[-2]:
    if how == "blind":
        print("========= ERROR SUMMARY: 0 errors")
        sys.exit(0)
    said = {{
        "write": "Invalid __global__ write of size 4",
        "race": "1 hazard",
        "read": "Uninitialized __global__ memory read of size 4 at aicf::planted::add",
    }}
    print("=========", said[words[-1]])
    sys.exit(9)
asked = words[next(i for i, w in enumerate(words) if w.endswith("touch.py")) + 1:]
assert (asked[0] == "--written") == (tool == "initcheck")
asked = [w.partition(":")[0] for w in asked]
ran = []
for kernel in json.loads(os.environ["KERNELS"]):
    if kernel.partition("/")[0] in asked:
        ran.append(kernel)
if how == "late" and tool == "synccheck" and "sum" in asked:
    subprocess.run(["sleep", "60"])
if how == "forgets":
    ran = [kernel for kernel in ran if kernel != "sum/two_stage f32"]
if how != "silent":
    print("========= COMPUTE-SANITIZER")
print(json.dumps({{"ran": ran}}))
if how == "reports" and tool == "racecheck" and "sum" in asked:
    print("=========     at void aicf::sum::two_stage<float>(float *)+0x10")
    print("========= RACECHECK SUMMARY: 2 hazards displayed")
    sys.exit(9)
if how == "theirs" and tool == "initcheck":
    print("=========     at void at::native::copy<float>(float *)+0x10")
    sys.exit(9)
if how != "silent":
    print("========= SUMMARY: 0 errors" if tool != "racecheck" else "SUMMARY: 0 hazards displayed")
"""


@pytest.mark.parametrize(
    "how, status, text",
    [
        ("sees", 0, "planted read: reported"),
        ("theirs", 0, "planted race: reported"),
        ("blind", 1, "memcheck planted write: MISSED"),
        ("forgets", 1, "not clean: sum/two_stage f32\n"),
        ("reports", 1, "not clean: sum/two_stage bf16, sum/two_stage f16, sum/two_stage f32"),
        ("late", 1, ": not done, "),
        ("silent", 1, ": failed, "),
    ],
)
def test_verdicts(tmp_path: Path, how: str, status: int, text: str) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(STAND_IN.format(python=sys.executable))
    tool.chmod(0o755)
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done; [ $1 = --version ] || : >$1\n")
    nvcc.chmod(0o755)
    report = tmp_path / "report.json"
    limit = ["--all-dtypes", *(["--limit", "10"] if how == "late" else [])]
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "gpu" / "sanitize.py", "--json", report, *limit, *OPS],
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "STAND_IN": how,
            "KERNELS": json.dumps(sorted(kernels_to_run(OPS, every=True))),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert text in done.stdout, done.stdout
    assert report.exists()


def test_what_the_copy_engine_writes_is_written_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one whose kernel has a workspace on the CPU."""
    rooms: list[torch.Tensor] = []
    zeros = torch.zeros

    def kept(*args: Any, **kwargs: Any) -> torch.Tensor:
        rooms.append(zeros(*args, **kwargs))
        return rooms[-1]

    monkeypatch.setattr(torch, "zeros", kept)
    monkeypatch.setattr(touch, "READ_BEHIND_THE_ENGINE", {("embedding_bwd", "loop")})
    for written in (False, True):
        case = cases("embedding_bwd", "cpu")[0]
        rooms.clear()
        touch.launch(case, written)
        case.check()
        assert len(rooms) == written
    assert rooms[0].any()  # it was given, and used
