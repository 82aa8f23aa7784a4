"""What it costs to make a graph and to compile it, in milliseconds of one thread, the least of some
runs.

    python -m bench.compiler.graphs [--json FILE]

Of each network: the functions of `aicf.compiler.ir` one by one, and, in processes of their own,
imports not counted: "cold", from reading the table to a graph with gradients that is bound to a
batch; "compile cold", from reading the table to an executable of a training step for a batch, by
the standard passes and with choices by score, nothing in the cache; "compile warm", the same graph
once it is in the cache, from the graph to the executable; "CPU" is the processor's time of both,
which other processes do not lengthen. The deep one is a chain of products whose
gradients make about 450 ops of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aicf
from aicf.compiler.ir.graph import Graph

from .models import MODELS, OPS, Model

RUNS = 5
MOST = {"mlp": 300.0, "cnn": 300.0, "deep": 1000.0}  # cold
WARM = {"mlp": 20.0, "cnn": 20.0, "deep": 300.0}  # of the deep one there is no mark: not a third


def _deep(x: Any, **params: Any) -> Any:
    for i in range(DEPTH):
        x = OPS.gemm(x, params[f"w{i}"], params[f"b{i}"], act="relu")
    return x


DEPTH = 65
SHAPES: dict[str, tuple[int, ...]] = {f"w{i}": (64, 64) for i in range(DEPTH)} | {
    f"b{i}": (64,) for i in range(DEPTH)
}
DEEP = Model("deep", (64,), SHAPES, _deep, _deep)
ALL = {m.name: m for m in (*MODELS, DEEP)}


def forward(model: Model) -> Graph:
    """Its loss for a batch of any size."""

    def loss(x: Any, y: Any, params: Any) -> Any:
        return OPS.cross_entropy(model.forward(x, **params), y)

    def typed(shape: tuple[Any, ...]) -> str:
        return f"f32[{', '.join(map(str, shape))}]"

    params = {name: aicf.param(typed(shape)) for name, shape in model.weights.items()}
    arguments = (typed(("N", *model.shape)), "i64[N]", params)
    graph: Graph = aicf.trace(loss, *arguments, symbols={"N": (1, 4096)})
    return graph


def least(function: Callable[[], Any]) -> float:
    took = []
    for _ in range(RUNS):
        start = time.perf_counter()
        function()
        took.append(time.perf_counter() - start)
    return round(min(took) * 1e3, 2)


def parts(model: Model) -> dict[str, float]:
    graph = forward(model)
    whole = aicf.value_and_grad(graph)
    text = whole.text()
    return {
        "ops": len(whole.nodes),
        "trace": least(lambda: forward(model)),
        "derive": least(lambda: aicf.value_and_grad(graph)),
        "bind": least(lambda: whole.bind({"N": 32})),
        "verify": least(whole.verify),
        "key": least(whole.key),
        "text": least(whole.text),
        "parse": least(lambda: Graph.parse(text)),
    }


def cold(model: Model) -> float:
    """In this process, which has made no graph before."""
    start = time.perf_counter()
    aicf.value_and_grad(forward(model)).bind({"N": 32}).key()
    return (time.perf_counter() - start) * 1e3


def compiled(model: Model, cache: str) -> dict[str, float]:
    """In this process, which has compiled nothing before."""
    import sqlite3  # noqa: F401

    import aicf.compiler.compile
    from aicf.compiler.passes.pipeline import standard

    standard()  # imports rules
    cpu = aicf.backends.get("cpu")
    start, began = time.perf_counter(), time.process_time()
    graph = aicf.training_step(forward(model), "adamw", weight_decay=0.01).graph
    traced, half = time.perf_counter(), time.process_time()
    made = aicf.compile(graph, backend=cpu, sizes={"N": 32}, cache=cache)
    done, end = time.perf_counter(), time.process_time()
    return {
        "trace": (traced - start) * 1e3, "compile": (done - traced) * 1e3,
        "trace, CPU": (half - began) * 1e3, "compile, CPU": (end - half) * 1e3,
        "ops": len(made.graph.nodes), "found": float(made.made.is_kept),
    }  # fmt: skip


def alone(*words: str) -> str:
    """What this program says in a process of its own."""
    command = [sys.executable, "-m", "bench.compiler.graphs", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def cold_alone(name: str) -> float:
    return round(min(float(alone("--cold", name)) for _ in range(3)), 1)


def compiled_alone(name: str) -> dict[str, float]:
    cold: list[tuple[float, float]] = []
    warm: list[tuple[float, float]] = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            first, again = (
                json.loads(alone("--compile", name, "--cache", cache)) for _ in range(2)
            )
        assert (first["found"], again["found"]) == (0, 1), (first, again)
        whole = (first[f"trace{what}"] + first[f"compile{what}"] for what in ("", ", CPU"))
        cold.append((next(whole), next(whole)))
        warm.append((again["compile"], again["compile, CPU"]))
    cold_ms, cold_cpu = map(min, zip(*cold, strict=True))
    warm_ms, warm_cpu = map(min, zip(*warm, strict=True))
    return {
        "compile cold": round(cold_ms, 1), "compile warm": round(warm_ms, 1),
        "cold, CPU": round(cold_cpu, 1), "warm, CPU": round(warm_cpu, 1),
        "compiled ops": first["ops"],
    }  # fmt: skip


def verdict(name: str, ms: dict[str, float]) -> str:
    marks = (("cold", MOST), ("compile cold", MOST), ("compile warm", WARM))
    told = [
        f"{what} {ms[what]:g} of {most[name]:g} ms: {'met' if ms[what] <= most[name] else 'missed'}"
        for what, most in marks
    ]
    known = {what for what, _ in marks}
    words = ", ".join(f"{what} {value:g}" for what, value in ms.items() if what not in known)
    return f"{name}: {', '.join(told)}; {words}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cold", choices=ALL, help="print that alone, of this process")
    parser.add_argument("--compile", choices=ALL, help="the same of a compilation")
    parser.add_argument("--cache", metavar="FOLDER", help="with --compile")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.cold:
        print(cold(ALL[given.cold]))
        return
    if given.compile:
        print(json.dumps(compiled(ALL[given.compile], given.cache)))
        return
    figures = {
        name: {"cold": cold_alone(name)} | compiled_alone(name) | parts(model)
        for name, model in ALL.items()
    }
    for name, ms in figures.items():
        print(verdict(name, ms))
    if given.json:
        from .__main__ import facts

        report = facts("cpu") | {"ms": figures}  # compiling is Python's work, whatever will run it
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
