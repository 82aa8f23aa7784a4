"""What a launch costs the host, on a GPU: `python launch.py B INCLUDE RESULT.json`.

Add of 1,024 f32, in one process: C loops over the CUDA runtime in libaicf and over one of their
own, by the runtime and past it, a prepared call from C, and calls from Python. B holds what `make`
built; INCLUDE is the folder that holds `aicf_ops/`. A turn is 200 launches, then a wait, so that
the queue is never full; each turn is paired with one of the baseline, `<<<>>>` over a runtime of
its own, in alternating order. The median of the pairs' ratios counts, with its 95% interval.
"""

from __future__ import annotations

import ctypes
import datetime
import functools
import hashlib
import importlib
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    "bench/launch.*",
    "runtime/libaicf/**/*.[ch]",
    "include/aicf/**/*.*h",
    "kernels/binary/*",
)
TURN, PAIRS = 200, 61
COUNT = 1024
QUESTIONS = (
    "cudaGetDevice",
    "cudaPeekAtLastError",
    "cuCtxGetDevice",
    "cuCtxGetCurrent",
    "cuCtxGetId",
    "cudaFuncSetAttribute",
)
Turn = Callable[[], float]  # nanoseconds a launch


def source_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in ROOT.glob(pattern)):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def build(built: Path, include: Path, folder: Path, arch: str) -> tuple[Path, Path]:
    """The loops over libaicf, with add's own objects beside, and over a runtime of their own."""
    bare, ours = folder / "bare.so", folder / "ours.so"
    source = str(ROOT / "bench" / "launch.cu")
    command = ["nvcc", "-std=c++17", "-O3", f"-arch={arch}", "-shared", f"-I{ROOT / 'include'}"]
    command += [f"-I{include}", "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-exceptions"]
    subprocess.run([*command, "-cudart=static", "-o", str(bare), source], check=True)
    objects = [*built.glob("ops/add_*.o"), *built.glob("kernels/add/**/*.o")]
    runtime = built / "python" / "aicf_rt"
    command += ["-cudart=none", "-DWITH_AICF", "-Xcompiler=-fno-threadsafe-statics"]
    command += ["-o", str(ours), source, *map(str, sorted(objects)), f"-L{runtime}"]
    command += ["-l:libaicf.so.1", "-lm", f"-Xlinker=-rpath,{runtime},-z,now"]
    subprocess.run(command, check=True)
    return bare, ours


class Loops:
    """The loops of one library, over three tensors, on one stream."""

    def __init__(self, path: Path, tensors: Sequence[Any], stream: int) -> None:
        self.library = ctypes.CDLL(str(path))
        self.words = [*(ctypes.c_void_p(t.data_ptr()) for t in tensors), ctypes.c_int64(COUNT)]
        self.words.append(ctypes.c_void_p(stream))

    def run(self, name: str, turns: int = TURN) -> float:
        loop = getattr(self.library, f"loop_{name}")
        loop.restype = ctypes.c_double
        took = float(loop(turns, *self.words))
        if took < 0:
            raise SystemExit(f"{name}: error {-took:.0f}")
        return took

    def question(self, which: int) -> float:
        self.library.loop_question.restype = ctypes.c_double
        return float(self.library.loop_question(1000, which))


def in_python(call: Callable[[], object], each: int = 1) -> Turn:
    """`each` launches a call."""
    turns = range(TURN // each)

    def turn() -> float:
        begin = time.perf_counter_ns()
        for _ in turns:
            call()
        return (time.perf_counter_ns() - begin) / TURN

    return turn


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and the order statistics that hold it in 95 of 100 cases."""
    ordered = sorted(values)
    n = len(ordered)
    reach = math.ceil(0.98 * math.sqrt(n))
    low, high = max(0, n // 2 - reach), min(n - 1, n // 2 + reach)
    return statistics.median(ordered), ordered[low], ordered[high]


class Bench:
    def __init__(self, wait: Callable[[], None], use_driver: Callable[[bool], None]) -> None:
        self.wait, self.use_driver = wait, use_driver
        self.cases: dict[str, tuple[Turn, bool]] = {}

    def add(self, name: str, turn: Turn, driver: bool = True) -> None:
        self.cases[name] = (turn, driver)

    def run(self, baseline: str) -> dict[str, Any]:
        first = self.cases[baseline][0]
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in self.cases}
        for i in range(PAIRS + 2):
            for name, (turn, driver) in self.cases.items():
                self.use_driver(driver)
                both = [first, turn] if i % 2 else [turn, first]
                took = [self.time(what) for what in both]
                if i >= 2:  # by then code is loaded
                    pairs[name].append((took[i % 2], took[1 - i % 2]))
        return {name: self.summary(pair) for name, pair in pairs.items()}

    def time(self, turn: Turn) -> float:
        turn()
        self.wait()
        took = turn()
        self.wait()
        return took

    def summary(self, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
        ratio, low, high = interval([mine / base for mine, base in pairs])
        took = statistics.median(mine for mine, _ in pairs)
        return {"ns": round(took, 1), "ratio": round(ratio, 4), "low": round(low, 4),
                "high": round(high, 4), "pairs": len(pairs)}  # fmt: skip


def measure(built: Path, include: Path) -> dict[str, Any]:
    sys.path.insert(0, str(built / "python"))
    torch = importlib.import_module("torch")
    add, rt = importlib.import_module("aicf_cuda.add"), importlib.import_module("aicf_rt")
    major, minor = torch.cuda.get_device_capability()
    tensors = [torch.ones(COUNT, device="cuda") for _ in range(3)]
    library = ctypes.CDLL(str(built / "python" / "aicf_rt" / "libaicf.so.1"))
    with TemporaryDirectory() as folder:
        libraries = build(built, include, Path(folder), f"sm_{major}{minor}")
        return run(torch, add, rt, library, libraries, tensors)


def run(
    torch: Any, add: Any, rt: Any, library: Any, libraries: tuple[Path, Path],
    tensors: Sequence[Any],
) -> dict[str, Any]:  # fmt: skip
    def use_driver(on: bool) -> None:
        library.aicf_cuda_use_driver(ctypes.c_bool(on))
        add.add_f32(*tensors)  # the switch counts from the next call on

    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    bare, ours = (Loops(path, tensors, stream.cuda_stream) for path in libraries)
    bench = Bench(torch.cuda.synchronize, use_driver)
    bench.add("own runtime: <<<>>>", lambda: bare.run("chevrons"))
    bench.add("own runtime: cudaLaunchKernel", lambda: bare.run("call"))
    bench.add("cuLaunchKernel, function", lambda: bare.run("function"))
    bench.add("cuLaunchKernel, kernel", lambda: bare.run("kernel"))
    bound = add.bind(*tensors)
    hundred = [add.bind(*tensors) for _ in range(100)]
    for way, driver in (("runtime", False), ("driver", True)):
        for what, name in (("<<<>>>", "chevrons"), ("cudaLaunchKernel", "call"),
                           ("aicf_call_launch", "aicf")):  # fmt: skip
            bench.add(f"{way}: {what}", functools.partial(ours.run, name), driver)
        bench.add(f"{way}: add_f32(a, b, out)", in_python(lambda: add.add_f32(*tensors)), driver)
        bench.add(f"{way}: bound call", in_python(bound), driver)
        bench.add(f"{way}: run of 100", in_python(lambda: rt.run(hundred), 100), driver)
    bench.add("no call: an empty Python function", in_python(lambda: None))
    result = bench.run("own runtime: <<<>>>")
    check(torch, tensors)
    asked = {name: statistics.median(ours.question(i) for _ in range(31))
             for i, name in enumerate(QUESTIONS)}  # fmt: skip
    return {"launches": result, "questions_ns": {k: round(v, 1) for k, v in asked.items()}}


def check(torch: Any, tensors: Sequence[Any]) -> None:
    a, b, out = tensors
    if not torch.equal(out, a + b):
        raise SystemExit("the sum is wrong")


def main() -> None:
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    built, include = (Path(word).resolve() for word in sys.argv[1:3])
    measured = measure(built, include)
    torch = importlib.import_module("torch")
    word = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    said = subprocess.run(word, capture_output=True, text=True, check=False).stdout.splitlines()
    report = {
        "device": torch.cuda.get_device_name(),
        "driver": said[0] if said else "unknown",
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "sources": source_hash(),
        "launches_a_turn": TURN,
        **measured,
    }
    Path(sys.argv[3]).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for name, row in report["launches"].items():
        span = f"{row['low']:.3f} to {row['high']:.3f}"
        print(f"{name:38} {row['ns']:8.0f} ns  {row['ratio']:.3f} ({span})")
    for name, took in report["questions_ns"].items():
        print(f"{name:38} {took:8.1f} ns")


if __name__ == "__main__":
    main()
