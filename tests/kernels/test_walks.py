"""The host's part of walk.cuh, which says what reductions read: without a GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runtime import building


@pytest.mark.guests("nvcc")
@pytest.mark.promise("KERNELS-reduce-values", "KERNELS-reduce-gradient")
def test_each_element_is_walked_over(tmp_path: Path) -> None:
    """Views of any order, gaps, strides backwards and of 0, each with axes of its own."""
    source, program = Path(__file__).with_name("walks.cu"), tmp_path / "walks"
    options = ["-std=c++17", "-Werror=all-warnings", f"-I{building.ROOT / 'include'}"]
    building.run(["nvcc", *options, source, "-o", program])
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout) == 20_000
