"""`python -m bench.compiler [--device cuda] [--json FILE]`: what a step of a network costs.

Of each network, batch and question: microseconds of the host a step, by blocks of steps behind a
step of the same and a synchronisation, so that no queue is full; and microseconds a step in all,
the device's work included. Medians of blocks in turn with whoever it is compared with, and nobody
else. "launches" is `aicf_rt.run` of the very calls that the replay launches: the replay may cost
1.05 of it. "launch" is that of the graph which "graph" launches, with nothing that it is fed; with
another rate and count at each step it may cost 5 us more of the host.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .models import MODELS
from .steps import Scene, Step
from .timing import GRAPHS, LAUNCHES, Blocks, beside, medians, ratio, timed

ROOT = Path(__file__).resolve().parents[2]
BATCHES = (1, 32, 256, 4096)
SECONDS = 1.0  # for the blocks of two
MOST = {
    "replay's host time / its launches": 1.05,
    "selector, cold, us an op": 20.0,
    "graph's host us beside its launch": 5.0,
}
SAME = 2e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--batches", type=int, nargs="*", default=BATCHES)
    parser.add_argument("--blocks", type=int, default=31)
    given = parser.parse_args()
    rows = measure(given.device, given.batches, given.blocks)
    report = facts(given.device) | {"rows": rows, "marks": marks(rows)}
    print(text(report))
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if any(row["differ"] is not None and not row["differ"] < SAME for row in rows):
        raise SystemExit("results are not torch's")


# ---- timing ------------------------------------------------------------------------------------


def measure(device: str, batches: Sequence[int], blocks: int) -> list[dict[str, Any]]:
    import aicf

    backend = aicf.backends.get(device)
    rows = []
    for model in MODELS:
        for batch in batches:
            for what in ("training", "inference"):
                scene = Scene(model, batch, what, backend, device)
                rows.append(measure_scene(scene, blocks))
                print(line(rows[-1]), flush=True)
    return rows


def measure_scene(scene: Scene, most: int) -> dict[str, Any]:
    import aicf_rt

    replay, replay_step = scene.ours("replay")
    _, eager_step = scene.ours("eager")
    steps = {"replay": replay_step, "eager": eager_step}
    torch = find_torch()
    if torch:
        steps["torch"] = scene.torch_step()
    replay_step()
    program = replay.program(N=scene.batch)
    launches = len(program.steps)
    calls = [call for piece in program.pieces for call in piece[0]]
    steps["launches"] = lambda: aicf_rt.run(calls)
    captured, captured_step = scene.ours("graph")
    captured_step()
    if captured.captured:  # none where the device has no graphs
        steps |= {"graph": captured_step, "launch": scene.launch(captured)}
    blocks = in_pairs(steps, scene.backend.synchronize, launches, most)
    beside_launch = beside(blocks, "graph", "launch", "host") if "graph" in blocks else None
    return {
        "model": scene.model.name, "batch": scene.batch, "what": scene.what,
        "launches": launches, "us": medians(blocks),
        "of launches": ratio(blocks, "replay", "launches", "host"), "beside launch": beside_launch,
        "differ": scene.differ() if torch else None, "selector_us": selector_cost(scene, launches),
    }  # fmt: skip


def in_pairs(
    steps: dict[str, Step], synchronize: Callable[[], None], launches: int, most: int
) -> Blocks:
    """Whoever is compared with another is timed beside that one alone: more in between would make
    the host's caches cold."""
    room = {name: min(40, LAUNCHES // launches) for name in ("replay", "launches", "eager")}
    room |= {"torch": max(1, LAUNCHES // (4 * launches)), "graph": GRAPHS, "launch": GRAPHS}
    found: Blocks = {}
    for pair in (("replay", "launches"), ("graph", "launch"), ("eager", "torch")):
        there: dict[str, Step] = {name: steps[name] for name in pair if name in steps}
        if there:
            found |= timed(there, synchronize, most, SECONDS, room)
    return found


def selector_cost(scene: Scene, ops: int) -> float:
    """Microseconds an op, of choosing all kernels of the graph for the first time in a process that
    has chosen others before."""
    from aicf.compiler.kernels.request import Request
    from aicf.compiler.kernels.selector import Selector

    graph = scene.graph().place(scene.backend.device).bind({"N": scene.batch})
    nodes = [node for node in graph.nodes if not node.is_view]
    times = []
    for _ in range(101):
        requests = [Request.of_node(graph.table, node) for node in nodes]
        selector = Selector(scene.backend.info)
        start = time.perf_counter()
        for request in requests:
            selector.choose(request)
        times.append((time.perf_counter() - start) / ops * 1e6)
    return statistics.median(times)


def find_torch() -> bool:
    try:
        import torch
    except ImportError:
        return False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return True


# ---- what is said ------------------------------------------------------------------------------


def marks(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    worst = max(row["of launches"] for row in rows)
    cost = max(row["selector_us"] for row in rows)
    hosts = [row["beside launch"] for row in rows if row["beside launch"] is not None]
    values = dict(zip(MOST, (worst, cost, *([max(hosts)] if hosts else ())), strict=False))
    return [
        {"what": what, "value": value, "most": MOST[what], "passed": value <= MOST[what]}
        for what, value in values.items()
    ]


def facts(device: str) -> dict[str, Any]:
    import platform

    import aicf

    info = aicf.backends.get(device).info
    found = {"device": info.name}
    if info.runtime:
        found |= {"driver": info.driver, "cuda": info.runtime}
    digest = hashlib.sha256()
    for path in sorted([*ROOT.glob("aicf/**/*.py"), *ROOT.glob("bench/compiler/*.py")]):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    found |= {"python": platform.python_version(), "date": time.strftime("%Y-%m-%d", time.gmtime())}
    if find_torch():
        import torch

        found["torch"] = torch.__version__
    return found | {"sources": digest.hexdigest()[:16]}


def line(row: dict[str, Any]) -> str:
    us = row["us"]
    each = "  ".join(f"{n} {t['host']:7.1f} {t['whole']:8.1f}" for n, t in us.items())
    same = "" if row["differ"] is None else f"  off by {row['differ']:.0e}"
    head = f"{row['model']} {row['what']:9} {row['batch']:4}  {row['launches']:3} launches"
    return f"{head}  {each}{same}"


def text(report: dict[str, Any]) -> str:
    head = f"us a step on {report['device']}, {report['date']}: of the host, and in all"
    said = [f"{m['what']:40} {m['value']:.3g}, at most {m['most']:g}: "
            f"{'pass' if m['passed'] else 'missed'}" for m in report["marks"]]  # fmt: skip
    return "\n".join(["", head, *map(line, report["rows"]), "", *said])


if __name__ == "__main__":
    main()
