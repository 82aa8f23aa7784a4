"""`python -m bench.compiler [--device cuda] [--json FILE]`: what a step of a network costs.

Of each network, batch and question: microseconds of the host a step, by blocks of steps of at most
200 launches, each behind a step of the same and a synchronisation, so that no queue is full; and
microseconds a step in all, the device's work included. Medians of blocks in turn. "launches" is
`aicf_rt.run` of the very calls that the replay launches: the replay may cost 1.05 of it. "launch"
is that of the graph which "graph" launches, with nothing that it is fed; with another rate and
count at each step it may cost 5 us more of the host.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .models import MODELS
from .steps import Scene

ROOT = Path(__file__).resolve().parents[2]
BATCHES = (1, 32, 256, 4096)
LAUNCHES = 200
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


def measure_scene(scene: Scene, blocks: int) -> dict[str, Any]:
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
    found = timed(steps, scene.backend.synchronize, launches, blocks)
    return {
        "model": scene.model.name, "batch": scene.batch, "what": scene.what,
        "launches": launches, "us": found, "differ": scene.differ() if torch else None,
        "selector_us": selector_cost(scene, launches),
    }  # fmt: skip


def timed(
    steps: dict[str, Callable[[], Any]], synchronize: Callable[[], None], launches: int, blocks: int
) -> dict[str, dict[str, float]]:
    """Host and whole microseconds a step, medians of blocks in turn."""
    count = max(1, min(20, LAUNCHES // (3 * launches)))
    host: dict[str, list[float]] = {name: [] for name in steps}
    whole: dict[str, list[float]] = {name: [] for name in steps}
    for block in range(blocks + 3):
        for name, step in turned(steps, block):
            step()
            synchronize()
            start = time.perf_counter()
            for _ in range(count):
                step()
            submitted = time.perf_counter()
            synchronize()
            done = time.perf_counter()
            if block >= 3:
                host[name].append((submitted - start) / count * 1e6)
                whole[name].append((done - start) / count * 1e6)
    return {
        name: {"host": statistics.median(host[name]), "whole": statistics.median(whole[name])}
        for name in steps
    }


def turned(steps: dict[str, Callable[[], Any]], block: int) -> list[tuple[str, Callable[[], Any]]]:
    """In another order at each block: nobody always comes behind the same one."""
    return random.Random(block).sample(list(steps.items()), len(steps))


def selector_cost(scene: Scene, ops: int) -> float:
    """Microseconds an op, of choosing all kernels of the graph for the first time in a process that
    has chosen others before."""
    from aicf.compiler.kernels.request import Request
    from aicf.compiler.kernels.selector import Selector

    graph = scene.graph().place(scene.backend.device).bind({"N": scene.batch})
    nodes = [node for node in graph.nodes if not node.is_view]
    times = []
    for _ in range(31):
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
    ratio = max(row["us"]["replay"]["host"] / row["us"]["launches"]["host"] for row in rows)
    cost = max(row["selector_us"] for row in rows)
    beside = [us["graph"]["host"] - us["launch"]["host"] for us in (r["us"] for r in rows)
              if "graph" in us]  # fmt: skip
    values = dict(zip(MOST, (ratio, cost, *([max(beside)] if beside else ())), strict=False))
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
