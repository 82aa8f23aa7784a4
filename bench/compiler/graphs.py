"""What it costs to make a graph, in milliseconds of one thread, the least of some runs.

    python -m bench.compiler.graphs [--json FILE]

Of each network: the functions of `aicf.compiler.ir` one by one, and, in a process of its own, from
reading the table to a graph with gradients that is bound to a batch; imports are not counted. The
deep one is a chain of products whose gradients make about 450 ops of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aicf
from aicf.compiler.ir.graph import Graph

from .models import MODELS, OPS, Model

RUNS = 5
MOST = {"mlp": 300.0, "cnn": 300.0, "deep": 1000.0}  # cold


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


def cold_alone(name: str) -> float:
    command = [sys.executable, "-m", "bench.compiler.graphs", "--cold", name]
    said = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    return round(min(float(s.stdout) for s in said), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cold", choices=ALL, help="print that alone, of this process")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.cold:
        print(cold(ALL[given.cold]))
        return
    figures = {name: {"cold": cold_alone(name)} | parts(model) for name, model in ALL.items()}
    for name, ms in figures.items():
        mark = "met" if ms["cold"] <= MOST[name] else "missed"
        words = ", ".join(f"{what} {value:g}" for what, value in ms.items() if what != "cold")
        print(f"{name}: cold {ms['cold']:g} of {MOST[name]:g} ms: {mark}; {words}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
