"""OpenBLAS and the life of a process: whose threads, forks, the end. By a library that stands in
for it, and aborts where the real one would hang or crash, sometimes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import building

BUILT = Path(os.environ.get("B", building.ROOT / "build")).resolve() / "python"
HEAD = """
    import ctypes, os, sys, threading, time
    from aicf_cuda import gemm
    import aicf_rt
    def matrix(n, value):
        made = aicf_rt.empty((n, n), "f32")
        view = memoryview(made).cast("B").cast("f")
        for i in range(n * n):
            view[i] = value
        return made
    def product(out, n=160):
        return gemm.gemm_f32(a, b, None, None, out, kernel="blas")
    def start(work, **options):
        thread = threading.Thread(target=work, **options)
        thread.start()
        return thread
    def wait_inside(count):
        while fake.fake_inside() < count:
            time.sleep(0.001)
    a, b = matrix(160, 1), matrix(160, 2)
    outs = [matrix(160, 0) for _ in range(6)]
    place = os.environ["AICF_LIB_OPENBLAS"]
    fake = ctypes.CDLL(place)
"""

Run = Callable[..., None]


def build(out: Path, parallel: int) -> Path:
    source = building.HERE / "openblas.c"
    options = ["-shared", "-fPIC", f"-DPARALLEL={parallel}"]
    building.run(["gcc", *building.WARNINGS, *options, source, "-o", out])
    return out


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("openblas") / "libfake.so", 1)


@pytest.fixture(scope="session")
def run(library: Path) -> Run:
    """Runs code in a process that takes the stand-in for OpenBLAS, and must end in silence."""

    def run(code: str, place: Path = library, **environment: str) -> None:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(HEAD + code)],
            env={
                **os.environ,
                "PYTHONPATH": str(BUILT),
                "AICF_LIB_OPENBLAS": str(place),
                "AICF_THREADS": "3",
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    return run


@pytest.mark.promise("KERNELS-threads", "PROCESS-threads")
def test_one_thread_each_and_ours(run: Run) -> None:
    """Blocks of one product are on our threads, as many as AICF_THREADS says, and the number that
    others have set is there again afterwards, whoever changed it meanwhile."""
    run("""
    assert product(outs[0]) is True
    assert memoryview(outs[0]).tolist()[0][:2] == [320.0, 320.0]
    assert fake.fake_calls() == 4 and fake.fake_most_inside() == 3
    assert fake.openblas_get_num_threads() == 8
    thread = start(lambda: [product(outs[0]) for _ in range(3)])
    wait_inside(1)
    assert fake.openblas_get_num_threads() == 1
    thread.join()
    assert fake.openblas_get_num_threads() == 8
    thread = start(lambda: product(outs[0]))
    wait_inside(1)
    fake.openblas_set_num_threads(1)
    thread.join()
    fake.openblas_set_num_threads(1)
    product(outs[0])
    assert fake.openblas_get_num_threads() == 1
    fake.openblas_set_num_threads(8)
    """)


@pytest.mark.promise("PROCESS-fork")
def test_a_fork_waits_for_those_inside(run: Run) -> None:
    run("""
    done = []
    def work(out):
        while not done:
            assert product(out)
    threads = [start(lambda out=out: work(out)) for out in outs[:5]]
    for i in range(20):
        wait_inside(1)
        if os.fork() == 0:
            assert fake.openblas_get_num_threads() == 8
            assert product(outs[5]) and product(outs[5])
            if i % 4 == 0:
                sys.exit(0)
            os._exit(0)
        assert os.wait()[1] == 0
    done.append(1)
    for t in threads:
        t.join()
    """)


@pytest.mark.promise("PROCESS-fork")
def test_forks_of_several_threads_at_once(run: Run) -> None:
    run("""
    done = []
    def work(out):
        while not done:
            assert product(out)
    def fork():
        for _ in range(10):
            child = fake.fake_fork()
            assert os.waitpid(child, 0)[1] == 0
    threads = [start(lambda out=out: work(out)) for out in outs[:3]]
    for t in [start(fork) for _ in range(3)]:
        t.join()
    done.append(1)
    for t in threads:
        t.join()
    """)


@pytest.mark.promise("PROCESS-exit")
@pytest.mark.parametrize("threads", ["1", "3"])
def test_the_end_waits_for_those_inside(run: Run, threads: str) -> None:
    for _ in range(5):
        run(
            """
    def work(out):
        while True:
            product(out)
    for out in outs:
        start(lambda out=out: work(out), daemon=True)
    wait_inside(3)
    """,
            AICF_THREADS=threads,
        )


@pytest.mark.promise("KERNELS-blas")
@pytest.mark.parametrize("parallel", [0, 2])
def test_builds_that_cannot_be_shared_are_not_taken(
    run: Run, tmp_path: Path, parallel: int
) -> None:
    """Sequential ones, and those with OpenMP."""
    run(
        """
    assert product(outs[0]) is False
    lines = gemm.explain(a, b)
    assert any(line.startswith("blas: library openblas") for line in lines), lines
    assert gemm.gemm_f32(a, b, None, None, outs[0]) is True
    assert fake.fake_calls() == 0
    """,
        build(tmp_path / "libother.so", parallel),
    )
