"""Profilers show our kernels by name: aicf::<op>::<kernel>."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from build.test_cuda import cuobjdump
from gpu.processes import BUILT, ROOT

RUN = """
    import aicf_rt
    from aicf_cuda import add
    x = aicf_rt.empty((1 << 20,), "f32", "cuda")
    assert add.add_f32(x, x, x) is True
    from gpu.bare import runtime
    assert runtime().cudaDeviceSynchronize() == 0
"""


def ncu() -> str:
    found = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if found is None:
        pytest.skip("gpu: ncu is not installed")
    return found


@pytest.mark.gpu
@pytest.mark.promise("DESIGN-6-profile")
def test_ncu_shows_the_kernels_name() -> None:
    command = [
        ncu(),
        "--target-processes",
        "all",
        "--clock-control",
        "none",
        "--kernel-name-base",
        "demangled",
    ]
    command += ["-k", "regex:aicf::add::", "--metrics", "gpu__time_duration.sum"]
    command += ["env", f"PYTHONPATH={BUILT}:{ROOT / 'tests'}"]
    command += [sys.executable, "-c", textwrap.dedent(RUN)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("gpu: ncu was not done in 100 s")
    said = done.stdout + done.stderr
    if "==ERROR==" in said or "LibraryNotLoaded" in said or "ERR_NVGPUCTRPERM" in said:
        pytest.skip(f"gpu: ncu cannot read counters here: {said[-300:]}")
    assert done.returncode == 0, said
    assert "aicf::add::vec" in said, said
    assert "gpu__time_duration.sum" in said, said


def kernels_in(built: Path) -> set[tuple[str, ...]]:
    """The names, namespaces first, of the kernels of an object."""
    command = [cuobjdump(), "--dump-elf-symbols", str(built)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = set()
    for mangled in re.findall(r"STO_ENTRY\s+_ZN?(\w+)", said):
        parts: list[str] = []
        while length := re.match(r"\d+", mangled):
            end = length.end() + int(length[0])
            parts.append(mangled[length.end() : end])
            mangled = mangled[end:]
        found.add(tuple(parts))
    return found


@pytest.mark.guests("nvcc")
@pytest.mark.promise("DESIGN-6-profile")
def test_kernels_are_named_by_their_op() -> None:
    """Each lies in the namespace of its own op, or in one of its own there: what the command looks
    for."""
    folder = BUILT.parent / "kernels"
    objects = sorted(folder.glob("*/**/*.cu.o"))
    assert objects, f"no kernels in {folder}: build with CUDA first"
    for built in objects:
        kernels = kernels_in(built)
        assert kernels or built.name == "gemm_lt.cu.o", built  # a library's kernels are not in it
        for name in kernels:
            assert len(name) in (3, 4), f"{built}: {name}"
            op = built.relative_to(folder).parts[0]
            assert name[:2] == ("aicf", op), f"{built}: {name}"
