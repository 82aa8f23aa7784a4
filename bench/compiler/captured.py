"""What captured graphs promise, counted on a device for the networks that are timed.

`schedule`: a training step under a learning-rate schedule, captured once and not captured, step by
step; bits of losses, and of weights in the end, that differ. `sizes`: inference of random batch
sizes, by graphs and without; graphs that were made, and sizes whose results differ in a bit.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

import aicf
from aicf.compiler.runtime.executor import ExecutorV2

from .models import Model
from .steps import RATE, Scene

COUNT = 1000
LARGEST = 512


def schedule(model: Model, backend: Any, device: str, count: int = COUNT) -> dict[str, Any]:
    start = time.perf_counter()
    scene = Scene(model, 32, "training", backend, device)
    r = np.random.default_rng(2)
    given = [scene.given] + [
        (backend.from_host(r.standard_normal(scene.x.shape).astype("f4")),
         backend.from_host(r.integers(0, 10, scene.batch)))
        for _ in range(4)
    ]  # fmt: skip
    runs = [scene.executor(mode) for mode in ("replay", "graph")]
    differ, loss = 0, np.empty(())
    for i in range(count):
        rate = RATE * min(1.0, (i + 1) / 50) * (1 + math.cos(math.pi * i / count)) / 2
        plain, loss = (
            np.asarray(backend.to_host(run(*given[i % 5], lr=rate, step=i + 1))) for run in runs
        )
        differ += plain.tobytes() != loss.tobytes()
    weights = [
        [np.asarray(backend.to_host(run.param(v.name))).tobytes() for v in run.graph.params]
        for run in runs
    ]
    return {
        "model": model.name, "steps": count, "losses that differ": differ,
        "weights that differ": sum(a != b for a, b in zip(*weights, strict=True)),
        "captures": len(runs[1].captured), "loss": float(loss),
        "reasons": list(runs[1].reasons.values()), "took_s": time.perf_counter() - start,
    }  # fmt: skip


def sizes(model: Model, backend: Any, device: str, count: int = COUNT) -> dict[str, Any]:
    start = time.perf_counter()
    scene = Scene(model, LARGEST, "inference", backend, device)
    params = {f"weights.{name}": w for name, w in model.first().items()}
    by_graph = ExecutorV2(scene.graph(), backend, params=params, mode="graph", buckets="auto")
    plain = ExecutorV2(scene.graph(), backend, params=params, mode="eager")
    differ, drawn = 0, np.random.default_rng(4).integers(1, LARGEST + 1, count)
    for n in drawn:
        x = backend.from_host(scene.x[: int(n)])
        found, expected = (np.asarray(backend.to_host(run(x))) for run in (by_graph, plain))
        differ += found.tobytes() != expected.tobytes()
    return {
        "model": model.name, "sizes": count, "of": len(set(drawn.tolist())),
        "graphs": len(by_graph.captured), "sizes that differ": differ,
        "run exactly": len(by_graph.reasons), "took_s": time.perf_counter() - start,
    }  # fmt: skip


def marks(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def mark(what: str, key: str, most: int) -> dict[str, Any]:
        value = max(one[key] for one in found if key in one)
        return {"what": what, "value": value, "most": most, "passed": value <= most}

    if not found:
        return []
    return [
        mark(f"{COUNT:,} steps under a schedule, captured: losses that differ in a bit",
             "losses that differ", 0),
        mark(f"{COUNT:,} steps under a schedule, captured: weights that differ in a bit",
             "weights that differ", 0),
        mark(f"{COUNT:,} random batch sizes: graphs", "graphs", 8),
        mark(f"{COUNT:,} random batch sizes: results that differ in a bit", "sizes that differ", 0),
    ]  # fmt: skip


def counted(models: list[Model], device: str) -> list[dict[str, Any]]:
    backend = aicf.backends.get(device)
    return [f(model, backend, device) for model in models for f in (schedule, sizes)]
