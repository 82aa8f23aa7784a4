"""What it costs to choose kernels: a selector's answers, the store's, a backend's call.

    python -m bench.compiler.choosing [--json FILE]

Microseconds, medians of calls that are timed one by one: cold is a request that was never asked
for, with nothing stored, with a stored choice, and with choices of other sizes; again is one that
was. A call of a backend is beside that of the module's own function.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from aicf_rt import Spec

from aicf.backend.cpu import CpuBackend
from aicf.compiler.kernels.record import Record
from aicf.compiler.kernels.registry import Candidates
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.selector import Selector
from aicf.compiler.kernels.store import FILE, Store
from aicf.table import Table

COUNT = 400
TABLE = Table.default()


def each(function: Callable[[Any], Any], arguments: Iterable[Any]) -> float:
    """The median of single calls: what interrupts a few of them does not count."""
    took = []
    for argument in arguments:
        start = time.perf_counter_ns()
        function(argument)
        took.append(time.perf_counter_ns() - start)
    return round(statistics.median(took) / 1e3, 2)


def products(width: int) -> list[Request]:
    """Of sizes that differ."""
    row = TABLE["gemm"]
    return [
        Request.of(row, Spec((64, width + i), "f32"), Spec((width + i, 64), "f32"))
        for i in range(COUNT)
    ]


def stored(store: Store, selector: Selector, requests: Iterable[Request]) -> None:
    """A choice for each, as a tuner would leave it."""
    store.put_all(
        Record(
            r.subject(Candidates(r).legal),
            selector.hard(r.row),
            selector.soft,
            tuple((name, 10.0 + i) for i, name in enumerate(Candidates(r).legal)),
            5.0,
            1,
        )
        for r in requests
    )
    selector.forget()


def of_selector(folder: Path) -> dict[str, float]:
    device, few, many = CpuBackend().info, products(16), products(4096)
    empty = Selector(device)
    found = {"cold": each(empty.choose, few), "again": each(empty.choose, few)}
    with Store(folder / FILE) as store:
        selector = Selector(device, store)
        stored(store, selector, few)
        selector.choose(few[0])  # reads the op's choices
        found["cold, stored"] = each(selector.choose, few[1:])
        found["cold, other sizes stored"] = each(selector.choose, many)
    return found


def of_store(folder: Path) -> dict[str, float]:
    selector = Selector(CpuBackend().info)
    request = products(16)[0]
    subject, hard = request.subject(("a", "b")), selector.hard(request.row)
    records = [
        Record(subject, hard, selector.soft, (("a", 1.0 + i),), 1.0, i) for i in range(COUNT)
    ]
    with Store(folder / "other" / FILE) as store:
        store.put(records[0])
        return {"put": each(store.put, records), "read": each(store.of_op, ["gemm"] * COUNT)}


def of_calls() -> dict[str, float]:
    cpu = CpuBackend()
    a, out = np.ones(16, "f4"), np.empty(16, "f4")
    generic = TABLE["add"].call
    return {
        "module": each(lambda _: generic(a, a, out=out), range(COUNT)),
        "backend": each(lambda _: cpu.add(a, a, out=out), range(COUNT)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write them there too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = {
            "selector": of_selector(Path(folder)),
            "store": of_store(Path(folder)),
            "call": of_calls(),
        }
    for name, values in figures.items():
        print(f"{name}: " + ", ".join(f"{what} {us:.2f} us" for what, us in values.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
