"""Runs the tests in C: tensors, calls and threads under sanitizers, the CUDA backend over SHIM."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from runtime import building

HOST = ("settle.c", "overlap.c", "prepare.c", "infer.c", "parallel.c")


def cases_of(*sources: str) -> list[object]:
    return [
        pytest.param(name, id=name, marks=pytest.mark.promise(*ids))
        for source in sources
        for name, ids in building.tests_of(source)
    ]


@pytest.mark.parametrize("name", cases_of(*HOST))
def test_checked(checked_driver: Path, name: str) -> None:
    building.run([checked_driver, name])


# A child of a process with threads cannot start any under this sanitizer.
THREADED = [n for n, _ in building.tests_of("parallel.c") if n != "parallel_fork"]


@pytest.mark.promise("S10")
@pytest.mark.parametrize("name", THREADED)
def test_threads(threaded_driver: Path, name: str) -> None:
    building.run([threaded_driver, name], AICF_THREADS="4")


@pytest.mark.guests("nvcc")
@pytest.mark.parametrize("name", cases_of("cuda.c", "graphs.c"))
def test_over_shim(cuda_driver: Path, name: str) -> None:
    building.run([cuda_driver, name])


def test_parts_do_not_depend_on_threads(checked_driver: Path) -> None:
    said = {
        building.run([checked_driver, "parallel_parts"], AICF_THREADS=str(n)) for n in (1, 2, 3, 8)
    }
    assert len(said) == 1, said


@pytest.mark.parametrize(
    "environment, threads",
    [
        ({"AICF_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
        ({"OMP_NUM_THREADS": "2"}, 2),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"AICF_THREADS": "1"}, 1),
        ({"AICF_THREADS": "none of that"}, len(os.sched_getaffinity(0))),
    ],
)
def test_thread_count(checked_driver: Path, environment: dict[str, str], threads: int) -> None:
    given = {"AICF_THREADS": "", "OMP_NUM_THREADS": ""} | environment
    threads = min(threads, 64)  # no more parts are given out
    met: list[int] = []
    deadline = time.monotonic() + 60
    while max(met, default=0) < threads and time.monotonic() < deadline:
        met.append(int(building.run([checked_driver, "parallel_threads"], **given)))
    assert max(met) == threads, met  # on a busy machine one may come late once
