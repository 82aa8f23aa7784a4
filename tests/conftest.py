"""What all tests share: what a test needs (GPU, guests), what it proves; no silent skips in CI."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

# Frameworks, the CUDA compiler, a browser: tests meet them where they are installed. No part of a
# module needs one.
GUESTS = (
    "torch", "jax", "ml_dtypes", "cupy", "numba", "tvm_ffi", "nvtx", "nvcc", "sklearn",
    "matplotlib", "chromium",
)  # fmt: skip

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")  # what it may be called

# How many processes of pytest-xdist have tests of a marker. Two large ones, and what others keep,
# fit into 141 GB.
AT_ONCE = {"large": 2, "compiler": 5}

RESULTS = "aicf/promises"  # in pytest's cache: {test: [ids, outcome]}

# Of libraries that start a thread for each core, and wait for each other busily.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
LONGEST = 30  # tests of which a report says how long they took
TESTS = Path(__file__).resolve().parent
REPORT = TESTS.parent / "docs" / "measurements" / "gpu-tests.json"


@functools.cache
def guest_version(name: str) -> str | None:
    """The version of a guest, None if it is not installed. Looks, imports nothing."""
    if name == "nvcc":
        return nvcc_version()
    if name == "chromium":
        return "found" if any(map(shutil.which, CHROMIUM)) else None
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.metadata.version(name.replace("tvm_ffi", "apache-tvm-ffi"))
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def nvcc_version() -> str | None:
    if shutil.which("nvcc") is None:
        return None
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release ([0-9.]+)", said)
    return found.group(1) if found else "of unknown version"


@functools.cache
def gpu_count() -> int:
    """How many CUDA devices the driver counts; 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def pytest_addoption(parser: pytest.Parser) -> None:
    promises = "with --collect-only: write {id: [tests]} to FILE as JSON"
    results = (
        "write how many tests passed, failed and were skipped, which failed and which took longest "
        "to FILE as JSON"
    )
    parser.addoption("--promises", metavar="FILE", help=promises)
    parser.addoption("--gpu-results", metavar="FILE", help=results)


def on_gpu_alone(config: pytest.Config) -> bool:
    """Whether only tests that need a GPU are asked for."""
    return re.match(r"gpu\b", config.getoption("markexpr", "")) is not None


def share_cores() -> None:
    """Workers beside each other share the cores, also in what they start: references are worked out
    on the CPU. Unless somebody has said how many threads there shall be."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    if workers > 1:
        threads = str(max(1, (os.cpu_count() or 1) // workers))
        for name in THREADS:
            os.environ.setdefault(name, threads)
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # else a pool of processes each


@functools.cache
def has_gpu_tests(folder: Path) -> bool:
    """Whether the mark is written in it, maybe in its conftest.py."""
    return any("mark.gpu" in file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of the other folders each worker would compile every file."""
    folder = collection_path.parent == TESTS and collection_path.is_dir()
    return True if folder and on_gpu_alone(config) and not has_gpu_tests(collection_path) else None


def longest_first(items: list[pytest.Item]) -> None:
    """As the last report has them, so that none is left over when the others are done."""
    with contextlib.suppress(OSError):
        took = json.loads(REPORT.read_text(encoding="utf-8")).get("longest", {})
        items.sort(key=lambda item: -took.get(item.nodeid, 0.0))


def pytest_configure(config: pytest.Config) -> None:
    if on_gpu_alone(config):  # CPU kernels are to have all threads
        share_cores()
    for line in (
        "gpu: needs a CUDA device",
        "guests(*names): needs these frameworks installed",
        "large: takes tens of GiB; with --dist loadgroup no more than two such run at once",
        "compiler: imports torch's compiler, which takes 10 s; with --dist loadgroup few do",
        "promise(*ids): what this test proves; tests/promises.toml lists the ids",
    ):
        config.addinivalue_line("markers", line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    met = [f"{name} {version}" for name in GUESTS if (version := guest_version(name))]
    not_met = [name for name in GUESTS if guest_version(name) is None]
    terminalreporter.write_line(
        f"guests met: {', '.join(met) or 'none'}; not installed: {', '.join(not_met) or 'none'}; "
        f"GPUs: {gpu_count()}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if on_gpu_alone(config):
        longest_first(items)
    grouped = config.pluginmanager.hasplugin("xdist")
    counts = {name: itertools.count() for name in AT_ONCE}
    for item in items:
        for name in AT_ONCE if grouped else ():
            if item.get_closest_marker(name):
                group = f"{name} {next(counts[name]) % AT_ONCE[name]}"
                item.add_marker(pytest.mark.xdist_group(group))
        if item.get_closest_marker("gpu") and not gpu_count():
            item.add_marker(pytest.mark.skip(reason="no GPU"))
        for name in guests_of(item):
            if guest_version(name) is None:
                item.add_marker(pytest.mark.skip(reason=f"guest {name} is not installed"))


# ---- memory of the GPU, which tests beside each other share --------------------------------------

GIB = 2**30
KEPT = 2 * GIB  # that torch may keep for later between the tests of a process
LARGE = 40 * GIB  # that is free before a large test begins: the largest takes 30
PATIENCE = 60.0  # seconds


def cuda_of_torch() -> Any:
    """torch.cuda if it is in use, else None: nobody is made to import it."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _draw_again(cuda: Any) -> None:
    """A capture that failed leaves torch's generator of the device as if it were captured still."""
    torch = sys.modules["torch"]
    try:
        torch.rand(1, device="cuda")
    except RuntimeError as error:
        if "outside graph capture" in str(error):
            own = cuda.default_generators[cuda.current_device()]
            own.graphsafe_set_state(torch.Generator("cuda").graphsafe_get_state())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What a process keeps others cannot have. A device that was lost keeps nothing."""
    cuda = cuda_of_torch()
    if cuda is not None:
        _draw_again(cuda)
    if cuda is not None and cuda.memory_reserved() > KEPT:
        gc.collect()
        with contextlib.suppress(RuntimeError):
            cuda.empty_cache()


@pytest.fixture(autouse=True)
def room(request: pytest.FixtureRequest) -> None:
    """A large test waits until other processes have given back what it needs."""
    item = request.node
    if not (item.get_closest_marker("large") and item.get_closest_marker("gpu") and gpu_count()):
        return
    cuda = importlib.import_module("torch").cuda
    cuda.empty_cache()
    if cuda.mem_get_info()[1] < LARGE:
        pytest.skip(f"gpu: of {cuda.mem_get_info()[1] / GIB:.0f} GiB, {LARGE / GIB:.0f} are needed")
    end = time.monotonic() + PATIENCE
    while (free := cuda.mem_get_info()[0]) < LARGE:
        assert time.monotonic() < end, (
            f"{free / GIB:.1f} GiB of the GPU are free after {PATIENCE:.0f} s, and a large test "
            f"needs {LARGE / GIB:.0f}: run fewer processes, or it with --dist loadgroup"
        )
        time.sleep(0.5)


def pytest_collection_finish(session: pytest.Session) -> None:
    where = session.config.getoption("--promises")
    if where:
        tests: dict[str, list[str]] = {}
        for item in session.items:
            for promise in promises_of(item):
                tests.setdefault(promise, []).append(item.nodeid)
        Path(where).write_text(json.dumps(tests), encoding="utf-8")


def guests_of(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers("guests"):
        yield from marker.args


def promises_of(item: pytest.Item) -> list[str]:
    return sorted({promise for marker in item.iter_markers("promise") for promise in marker.args})


def may_skip(report: pytest.CollectReport | pytest.TestReport, item: pytest.Item | None) -> bool:
    """In CI a skip is a hole in the proof unless it is for want of a GPU or of a guest."""
    if item is not None and item.get_closest_marker("gpu"):
        return True
    reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return any(name in reason and guest_version(name) is None for name in GUESTS)


def refuse_skip(report: pytest.CollectReport | pytest.TestReport, item: pytest.Item | None) -> None:
    """Makes a failure of a skip in CI that has no right to be one."""
    skipped = report.skipped and not hasattr(report, "wasxfail")
    if os.environ.get("CI") and skipped and not may_skip(report, item):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, for want of no GPU and no guest: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report, item)
    report.user_properties.append(("promises", promises_of(item)))
    return report


def missing_guest(report: pytest.CollectReport) -> str | None:
    """The guest for want of which a file of tests could not be imported."""
    excinfo = getattr(getattr(report, "call", None), "excinfo", None)
    cause = excinfo.value.__cause__ if report.failed and excinfo else None
    name = cause.name if isinstance(cause, ModuleNotFoundError) else None
    return name if name in GUESTS else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    guest = missing_guest(report)
    if guest:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 1, f"Skipped: guest {guest} is not installed")
    refuse_skip(report, None)
    return report


class Recorder:
    """Keeps how tests end: on the controller, where reports meet."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.outcomes = {"passed": 0, "failed": 0, "skipped": 0}
        self.promised: dict[str, list[Any]] = {}
        self.failed: dict[str, dict[str, Any]] = {}
        self.seconds: dict[str, float] = {}

    @property
    def longest(self) -> dict[str, float]:
        """Seconds by test."""
        most = sorted(self.seconds, key=lambda test: -self.seconds[test])[:LONGEST]
        return {test: round(self.seconds[test], 1) for test in most}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.partition("@")[0]  # without its group
        self.seconds[test] = self.seconds.get(test, 0.0) + report.duration
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1
            if report.outcome == "failed":
                crash = getattr(report.longrepr, "reprcrash", None)
                self.failed[report.nodeid] = {
                    "said": crash.message.partition("\n")[0] if crash else "",
                    "kernels": dict(report.user_properties).get("kernels", []),
                }
            ids = dict(report.user_properties).get("promises")
            if ids:
                self.promised[report.nodeid] = [ids, report.outcome]

    def pytest_sessionfinish(self) -> None:
        cache = getattr(self.config, "cache", None)  # -p no:cacheprovider
        where = self.config.getoption("--gpu-results")
        if cache is not None and self.promised:
            cache.set(RESULTS, {**cache.get(RESULTS, {}), **self.promised})
        if where:
            found = [self.outcomes, self.failed, self.longest]
            Path(where).write_text(json.dumps(found), encoding="utf-8")


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Recorder(session.config), "aicf-recorder")
