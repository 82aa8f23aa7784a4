"""Typed calls of built ops: those that must be taken, those written by hand with their verdict."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from kernels.ran import RAN
from kernels.tensors import array_of
from kernels.tolerance import TOLERANCES, Array, assert_close


def skip_without(dtype: str, device: str) -> None:
    """f64 has no kernel on CUDA: the table says so, and test_contract.py that it is refused."""
    if device == "cuda" and dtype == "f64":
        pytest.skip("gpu: the table leaves f64 to the CPU")


def call(op: str, dtype: str, *args: Any, **options: Any) -> None:
    """`op.op_dtype(*args, **options)`, done when this returns."""
    module = importlib.import_module(f"aicf_cuda.{op}")
    done = getattr(module, f"{op}_{dtype}")(*args, **options)
    if done is not True:
        options.pop("kernel", None)
        pytest.fail(f"{op}_{dtype} refused: {module.explain(*args, **options)}")
    if any(isinstance(a, torch.Tensor) and a.is_cuda for a in args):
        torch.cuda.synchronize()
        note_kernel(op, module.explain(*args, **options), options.get("kernel"))


def note_kernel(op: str, lines: list[str], demanded: str | None) -> None:
    """The kernel that ran is the one demanded, or the first that fits."""
    fits = (line.partition(":")[0] for line in lines if ": fits" in line)
    RAN.add(f"{op}/{demanded or next(fits)}")


def printed_with_threads(program: str, threads: int) -> str:
    """What a Python program prints, run on so many threads."""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "AICF_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def outcome(op: str, dtype: str, args: tuple[Any, ...], outs: int, options: dict[str, Any]) -> bool:
    """The answer of a typed call; what a refused one was to write is as it was."""
    module = importlib.import_module(f"aicf_cuda.{op}")
    written = [np.array(as_array(t)) for t in args[len(args) - outs :]]
    answer = getattr(module, f"{op}_{dtype}")(*args, **options)
    assert answer is True or answer is False
    if not answer:
        for t, before in zip(args[len(args) - outs :], written, strict=True):
            np.testing.assert_array_equal(as_array(t), before)
    return answer


def as_array(t: Any) -> Array:
    if isinstance(t, torch.Tensor):
        return array_of(t)
    return np.asarray(t, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Call:
    """A call written by hand. `args` are its tensors, the out last; `want` is what torch or numpy
    say the out is, or None where the call must be refused."""

    name: str
    dtype: str
    args: tuple[Any, ...]
    want: Any
    options: dict[str, Any] = field(default_factory=dict)


def check_call(op: str, c: Call) -> None:
    answer = outcome(op, c.dtype, c.args, 1, c.options)
    assert answer == (c.want is not None), f"{op}: {c.name}: answered {answer}"
    if c.want is not None:
        dtype = c.dtype if c.dtype in TOLERANCES else "f64"
        assert_close(as_array(c.args[-1]), as_array(c.want), dtype, f"{op}: {c.name}")


def by_name(made: Iterable[Call]) -> list[Any]:
    """Calls as parameters of a test, each with its name as id."""
    calls = list(made)
    assert len({c.name for c in calls}) == len(calls) >= 20
    return [pytest.param(c, id=c.name) for c in calls]
