"""The bits of a result do not depend on the number of threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels.calls import call
from kernels.tensors import FLOATS, poisoned, random

THREADS = (1, 2, 3, 7)


def digest() -> str:
    """One hash over results of every op, each long enough for many parts."""
    h = hashlib.sha256()

    def run(op: str, dtype: str, *args: Any, **options: Any) -> None:
        call(op, dtype, *args, **options)
        h.update(args[-1].contiguous().view(-1).view(torch.uint8).numpy().tobytes())

    for dtype in FLOATS:
        x, y = (random((300, 517), dtype, "cpu", seed=seed) for seed in (1, 2))
        for layout in ("dense", "reversed"):
            out = poisoned(x.shape, dtype, "cpu", layout)
            run("add", dtype, x, y, out)
            run("gelu_bwd", dtype, x, y, out)
            run("scale", dtype, x, out, factor=0.3)
        for shape, axes in [
            ((1_000_003,), [0]),
            ((3, 300_001), [1]),
            ((300_001, 3), [0]),
            ((300, 700), [0]),
        ]:
            z = random(shape, dtype, "cpu")
            kept = [s for i, s in enumerate(shape) if i not in axes]
            run("sum", dtype, z, poisoned(kept, dtype, "cpu"), axes=axes)
        run("bias_add_bwd", dtype, random((70, 5, 901), dtype, "cpu"), poisoned((5,), dtype, "cpu"))
        a, b = random((201, 300), dtype, "cpu"), random((300, 517), dtype, "cpu")
        run("gemm", dtype, a, b, None, None, poisoned((201, 517), dtype, "cpu"), kernel="loop")
        a, b = random((64, 9, 30), dtype, "cpu"), random((64, 30, 20), dtype, "cpu")
        run("gemm", dtype, a, b, None, None, poisoned((64, 9, 20), dtype, "cpu"), kernel="loop")
    return h.hexdigest()


@pytest.mark.guests("torch")
@pytest.mark.promise("KERNELS-threads")
def test_bits_do_not_depend_on_the_threads() -> None:
    tests = Path(__file__).resolve().parents[1]
    found = {}
    for threads in THREADS:
        run = subprocess.run(
            [sys.executable, "-c", "import kernels.test_threads as t; print(t.digest())"],
            env={
                **os.environ,
                "AICF_THREADS": str(threads),
                "PYTHONPATH": os.pathsep.join([str(tests), *sys.path]),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        found[threads] = run.stdout.strip()
    assert len(set(found.values())) == 1, found
