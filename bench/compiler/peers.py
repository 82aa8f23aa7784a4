"""`python -m bench.compiler.peers [--device cuda] [--json FILE]`: a step beside who else runs it.

An MLP and a small CNN, a training step by AdamW and inference, by each of `rivals.py`, in the very
configuration whose results are compared first: losses of 100 steps, or scores, with those of torch
op by op. Of each: microseconds of the host a step, by blocks of steps behind a synchronisation, so
that no queue is full, and microseconds in all; medians of blocks in turn, and "paired", the median
over the blocks of ours by theirs. "launch" is the host's time of the graph's own launch, "beside"
what a step takes of it more: blocks of these two alone, as in a loop of one who runs it.
Memory is what a step takes beside params, states and the batch. `--tune` measures kernels before,
for so many seconds a network, which is told apart.

A process for each network and batch makes its rows while the others make theirs, so that all
compilers have all cores; then one row is timed at a time, and nobody else does anything. "made_s"
is therefore of a busy machine. What torch measures to choose by is measured by one process at a
time, but beside what the others' first steps do: its choices may be noisier than those of a quiet
machine. `--caches` keeps what was compiled for a later run.

Compile times, to the end of the first step of training, are of processes of their own, with their
caches empty and then as the first one left them; imports are not counted. Ours run alone, the
others beside as many as "beside" says.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import apart, captured
from .__main__ import BATCHES, facts, find_torch
from .models import MODELS
from .rivals import MAKERS, NotThere, Rival, arrays
from .steps import Scene
from .timing import GRAPHS, Blocks, beside, medians, ratio, timed

SAME = 5e-3  # how far losses may be from torch's, of the largest
COMPILED = ("aicf graph", "torch.compile default", "torch.compile max-autotune", "tinygrad")
OURS, HAND, EAGER = "aicf graph", "torch CUDAGraph", "torch eager"
HOST = 5.0  # microseconds beside the launch
COLD, WARM = 0.3, 0.02  # seconds that ours may take to compile
SECONDS, ALONE = 3.0, 1.0  # for the blocks of a row, and of one whose launch is told apart
STEPS = 20  # of several launches, that a queue has room for


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--batches", type=int, nargs="*", default=BATCHES)
    parser.add_argument("--blocks", type=int, default=31)
    parser.add_argument("--steps", type=int, default=100, help="whose losses are compared")
    parser.add_argument("--models", nargs="*", default=[m.name for m in MODELS])
    parser.add_argument("--who", nargs="*", default=list(MAKERS), choices=list(MAKERS))
    parser.add_argument("--tune", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--compile-batch", type=int, default=32, help="0: no compile times")
    parser.add_argument("--making", type=float, default=120.0, metavar="SECONDS",
                        help="of each process for others to compile")  # fmt: skip
    parser.add_argument("--caches", type=Path, metavar="FOLDER", help="of compilers, kept")
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--once", metavar="WHO", help=argparse.SUPPRESS)
    parser.add_argument("--captured", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--plan", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(json.dumps(first_step(given)))
        return
    if given.plan:
        rows_here(given)
        return
    if given.captured:
        models = [m for m in MODELS if m.name in given.models]
        print(json.dumps(captured.counted(models, given.device)))
        return
    report = measured(given)
    print(text(report))
    wrong = [(r["model"], r["what"], r["batch"], who) for r in report["rows"]
             for who, off in r["differ"].items() if not off < SAME]  # fmt: skip
    if wrong:
        raise SystemExit(f"results are not torch's: {wrong}")


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Rows in other processes; the largest batch first, which takes longest to be made."""
    start = time.perf_counter()
    rows, making = [], 0.0
    with contextlib.ExitStack() as stack:
        folder = given.caches or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for row in apart.rows_of(groups(given), given.who, starter(given, folder)):
            making = making or time.perf_counter() - start
            rows.append(row)
            print(line(row), flush=True)
    order = [m.name for m in MODELS]
    rows.sort(key=lambda r: (order.index(r["model"]), r["batch"], r["what"] == "inference"))
    report = facts(given.device) | {"rows": rows, "compile": [], "captured": []}
    report |= {"processes": len(groups(given)), "made_s": making}
    keep(report, given.json, start)  # before what takes another minute
    report["captured"] = apart.captured(given.models, given.device)
    if given.compile_batch:
        words = ["--device", given.device, "--compile-batch", str(given.compile_batch)]
        who = [name for name in given.who if name in COMPILED]
        report["compile"] = apart.first_steps(who, given.models, words)
        print(*map(compile_line, report["compile"]), sep="\n", flush=True)
    return keep(report, given.json, start)


def keep(report: dict[str, Any], path: Path | None, start: float) -> dict[str, Any]:
    """With the marks that it says something of."""
    said = marks(report["rows"], report["compile"]) + captured.marks(report["captured"])
    report |= {"marks": said, "took_s": time.perf_counter() - start}
    if path:
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def groups(given: argparse.Namespace) -> list[list[apart.Row]]:
    """The rows of each process."""
    return [
        [(model.name, batch, what) for what in ("training", "inference")]
        for batch in sorted(given.batches, reverse=True)
        for model in MODELS
        if model.name in given.models
    ]


def starter(given: argparse.Namespace, folder: Path) -> Callable[[apart.Plan], apart.Running]:
    words = ["--device", given.device, "--blocks", str(given.blocks), "--steps", str(given.steps)]
    words += ["--tune", str(given.tune), "--making", str(given.making)]
    words += ["--lock", str(folder / "measuring")]
    environment = apart.caches(str(folder), max(2, (os.cpu_count() or 4) // 2))
    return functools.partial(apart.process, words, environment)


def rows_here(given: argparse.Namespace) -> None:
    """In a process of rows: makes them all, then times each when it is asked to."""
    import aicf

    backend = aicf.backends.get(given.device)
    alone = apart.one_at_a_time(given.lock)
    measure_alone(alone)
    with tempfile.TemporaryDirectory() as cache:
        made = []
        for (name, batch, what), who in given.plan:
            model = next(m for m in MODELS if m.name == name)
            made.append(Made(Scene(model, batch, what, backend, given.device), who))
            if given.tune:
                with alone():
                    made[-1].tuned = tune(made[-1].scene, given.tune, cache)
        make(made, given, cache)
        apart.tell(made=True)
        for one in made:
            if not apart.asked():
                return
            apart.tell(row=measure(one, given.blocks))


def measure_alone(alone: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
    """What torch times to choose by waits for its turn among all processes."""
    if not find_torch():
        return
    from torch._inductor.runtime.benchmarking import benchmarker

    inner = benchmarker.benchmark_gpu

    def benchmark_gpu(*args: Any, **kwargs: Any) -> Any:
        with alone():
            return inner(*args, **kwargs)

    benchmarker.benchmark_gpu = benchmark_gpu


# ---- one network, one batch ----------------------------------------------------------------------


@dataclass
class Made:
    """Who runs a row, what each gave, why the others do not, and how long each took to be made and
    to take the steps that are compared."""

    scene: Scene
    who: list[str]
    rivals: list[Rival] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    tuned: float = 0.0

    @property
    def row(self) -> apart.Row:
        return self.scene.model.name, self.scene.batch, self.scene.what


def make(rows: Sequence[Made], given: argparse.Namespace, cache: str) -> None:
    """Each who for all rows before the next: those that may take too long come last."""
    left = given.making
    for name in MAKERS:
        for one in (one for one in rows if name in one.who):
            limited = name in COMPILED and name != OURS
            if limited and left <= 0:
                one.absent[name] = "the time for compilers was used up"
                continue
            apart.tell(doing=name, at=one.row)
            start = time.perf_counter()
            with apart.within(left) if limited else contextlib.nullcontext():
                add(one, name, given.steps if one.scene.what == "training" else 5, cache)
            one.seconds[name] = time.perf_counter() - start
            left -= one.seconds[name] if limited else 0.0


def add(one: Made, name: str, steps: int, cache: str) -> None:
    try:
        rival = MAKERS[name](one.scene, cache)
        one.found[name] = arrays(rival, steps)
        one.rivals.append(rival)
    except (NotThere, ImportError) as error:
        one.absent[name] = str(error)
    except Exception as error:  # of somebody else's: it is told, and the rest goes on
        if name.startswith("aicf"):
            raise
        traceback.print_exc()
        one.absent[name] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        one.scene.backend.synchronize()  # raises where it took the device with it


def measure(one: Made, most: int) -> dict[str, Any]:
    start = time.perf_counter()
    scene, rivals = one.scene, one.rivals
    expected = one.found[EAGER] if EAGER in one.found else next(iter(one.found.values()))
    memory = {r.name: r.memory() for r in rivals if r.memory}
    wait = waiting(scene, rivals)
    room = {r.name: GRAPHS if r.launch else STEPS for r in rivals}

    def doing(name: str) -> None:
        apart.tell(doing=name, at=one.row)

    blocks = timed({r.name: r.step for r in rivals}, wait, most, SECONDS, room, doing)
    others = [name for name in blocks if name != OURS and OURS in blocks]
    alone = {r.name: launched(r, wait, most, doing) for r in rivals if r.launch}
    return {
        "model": scene.model.name, "batch": scene.batch, "what": scene.what,
        "us": medians(blocks), "paired": {n: ratio(blocks, OURS, n, "whole") for n in others},
        "launch": {name: medians(b)["launch"]["host"] for name, b in alone.items()},
        "beside": {name: beside(b, name, "launch", "host") for name, b in alone.items()},
        "differ": {name: off(a, expected) for name, a in one.found.items()},
        "memory": memory, "absent": one.absent, "tuned_s": one.tuned,
        "made_s": one.seconds, "took_s": time.perf_counter() - start,
    }  # fmt: skip


def launched(
    rival: Rival, wait: Callable[[], None], most: int, doing: Callable[[str], None]
) -> Blocks:
    """A step, and the launch of its graph with nothing that it is fed: nobody else in between."""
    assert rival.launch is not None
    steps = {rival.name: rival.step, "launch": rival.launch}
    room = dict.fromkeys(steps, GRAPHS)
    return timed(steps, wait, most, ALONE, room, lambda _: doing(rival.name))


def waiting(scene: Scene, rivals: Sequence[Rival]) -> Callable[[], None]:
    """For all that anybody has submitted to the device, on whichever stream."""
    every: list[Callable[[], Any]] = [scene.backend.synchronize]
    if scene.device != "cpu" and find_torch():
        import torch

        every.append(torch.cuda.synchronize)
    every += [r.synchronize for r in rivals if r.synchronize]

    def wait() -> None:
        for one in every:
            one()

    return wait


def off(found: Any, expected: Any) -> float:
    """The largest difference, of the largest value."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def tune(scene: Scene, seconds: float, cache: str) -> float:
    from aicf.compiler.kernels.store import FILE, Store
    from aicf.compiler.kernels.tune import Tuner, requests_of
    from aicf.compiler.passes.pipeline import standard

    start = time.perf_counter()
    graph = standard().run(scene.graph().place(scene.backend.device)).graph
    with Store(Path(cache) / FILE) as store:
        tuner = Tuner(scene.backend, store, budget=seconds)
        for request in dict.fromkeys(requests_of(graph.bind({"N": scene.batch}))):
            tuner.tune(request)
    return time.perf_counter() - start


# ---- compile times -------------------------------------------------------------------------------


def first_step(given: argparse.Namespace) -> dict[str, Any]:
    """In this process, which has compiled nothing before: seconds until the first step is done."""
    import aicf

    backend = aicf.backends.get(given.device)
    model = next(m for m in MODELS if m.name == given.models[0])
    scene = Scene(model, given.compile_batch, "training", backend, given.device)
    if given.once.startswith("aicf"):
        import aicf.compiler.compile
        from aicf.compiler.passes.pipeline import standard

        standard()  # imports rules
    elif given.once.startswith("torch") and find_torch():
        import torch

        torch.ones(1, device=given.device).sum().item()  # the device is there
        if "compile" in given.once:
            import torch._dynamo
            import torch._inductor.compile_fx
    backend.synchronize()
    start = time.perf_counter()
    try:
        rival = MAKERS[given.once](scene, os.environ["AICF_CACHE"])
        rival.read(rival.step())
        backend.synchronize()
    except Exception as error:
        return {"absent": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}
    return {"seconds": time.perf_counter() - start, **rival.took}


# ---- what is said --------------------------------------------------------------------------------


def marks(
    rows: Sequence[dict[str, Any]], compiled: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Those that the rows say something of."""
    found: list[dict[str, Any]] = []

    def mark(what: str, values: list[float], most: float) -> None:
        if values:
            worst = max(values)
            found.append({"what": what, "value": worst, "most": most, "passed": worst <= most})

    def share(model: str, what: str, batches: Callable[[int], bool], *others: str) -> list[float]:
        return [
            row["us"][OURS]["whole"] / min(row["us"][o]["whole"] for o in others if o in row["us"])
            for row in rows
            if row["model"] == model and row["what"] == what and batches(row["batch"])
            and OURS in row["us"] and any(o in row["us"] for o in others)
        ]  # fmt: skip

    for model, most in (("mlp", 0.6), ("cnn", 0.8)):
        times = share(model, "training", lambda n: n <= 256, HAND)
        mark(f"{model} training, batch <= 256, of the hand-made graph's time", times, most)
    mark("mlp inference, batch 1, of the hand-made graph's time",
         share("mlp", "inference", lambda n: n == 1, HAND), 0.7)  # fmt: skip
    of_torch = [name for name in MAKERS if name.startswith("torch")]
    for model, most in (("mlp", 1.0), ("cnn", 1.1)):
        times = [t for what in ("training", "inference")
                 for t in share(model, what, lambda n: n == 4096, *of_torch)]  # fmt: skip
        mark(f"{model}, batch 4096, of the best of torch's time", times, most)
    hosts = [row["beside"][OURS] for row in rows if OURS in row["beside"]]
    mark("host's us a step beside the graph's launch", hosts, HOST)
    plans = [m["arena"] / m["bound"] for row in rows
             if (m := row["memory"].get(OURS) or row["memory"].get("aicf replay"))]  # fmt: skip
    mark("peak of the arena, of its lower bound", plans, 1.0)
    losses = [off for row in rows if row["what"] == "training" for off in row["differ"].values()]
    mark("losses of the steps before, off torch's", losses, SAME)
    took = [one["seconds"][OURS] for one in compiled if OURS in one["seconds"]]
    mark("ours, from the function to its executable, cold, s",
         [t["trace, cold"] + t["compile, cold"] for t in took], COLD)  # fmt: skip
    mark("ours, from the graph to its executable, warm, s",
         [t["compile, warm"] for t in took], WARM)  # fmt: skip
    return found


def line(row: dict[str, Any]) -> str:
    head = f"{row['model']} {row['what']:9} {row['batch']:4}"
    each = [
        f"    {name:27} host {t['host']:9.1f}  whole {t['whole']:10.1f}"
        + f"  off {row['differ'][name]:.0e}"
        + (f"  launch {row['launch'][name]:.1f}" if name in row["launch"] else "")
        + "".join(f"  {what} {n:,}" for what, n in (row["memory"].get(name) or {}).items())
        for name, t in row["us"].items()
    ]
    each += [f"    {name:27} {why}" for name, why in row["absent"].items()]
    return "\n".join([head, *each])


def compile_line(found: dict[str, Any]) -> str:
    each = [f"{who} {t['cold']:.2f}, {t['warm']:.2f}" for who, t in found["seconds"].items()]
    return f"{found['model']} training: first step, cold and warm, s: {'; '.join(each)}"


def text(report: dict[str, Any]) -> str:
    said = [f"{m['what']:60} {m['value']:.3g}, at most {m['most']:g}: "
            f"{'pass' if m['passed'] else 'missed'}" for m in report["marks"]]  # fmt: skip
    return "\n".join(["", f"on {report['device']}, {report['date']}", *said])


if __name__ == "__main__":
    main()
