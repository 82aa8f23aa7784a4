"""How near plans come to their lower bounds, and how long planning takes.

    python -m bench.compiler.planning [--json FILE] [--effort N]

Instances A to F of MiniMalloc by the search of `aicf plan`, and training steps of the networks as a
program plans them. A plan that two live buffers share bytes in is an error here.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import aicf
from aicf.compiler.runtime.plan import csv
from aicf.compiler.runtime.plan.check import check
from aicf.compiler.runtime.plan.lifetimes import plan_of
from aicf.compiler.runtime.plan.pack import THOROUGH, pack
from aicf.compiler.runtime.plan.problem import Plan

from .models import MODELS
from .steps import Scene

ROOT = Path(__file__).resolve().parents[2]
BATCHES = (1, 32, 256, 4096)
RATIO, SECONDS = 1.10, 10.0  # of the hard ones; the bound itself of steps


def told(plan: Plan) -> dict[str, Any]:
    check(plan)
    return {
        "buffers": len(plan.buffers), "peak": plan.peak, "bound": plan.bound,
        "ratio": round(plan.ratio, 4), "unshared": plan.unshared, "by": plan.by,
        "seconds": round(plan.seconds, 4),
    }  # fmt: skip


def hard(effort: int) -> dict[str, dict[str, Any]]:
    found = {}
    for file in sorted((ROOT / "tests" / "data" / "planner").glob("*.csv")):
        buffers, _ = csv.read(file)
        found[file.name[0]] = told(pack(buffers, effort=effort))
    return found


def steps() -> dict[str, dict[str, Any]]:
    cpu = aicf.backends.get("cpu")
    return {
        f"{model.name} {batch}": told(
            plan_of(Scene(model, batch, "training", cpu, "cpu").graph().bind({"N": batch}))
        )
        for model in MODELS
        for batch in BATCHES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--effort", type=int, default=THOROUGH, help="buffers placed for each file")
    given = parser.parse_args()
    figures = {"hard": hard(given.effort), "steps": steps()}
    for kind, most in (("hard", RATIO), ("steps", 1.0)):
        for name, row in figures[kind].items():
            is_met = row["ratio"] <= most and row["seconds"] <= SECONDS
            print(
                f"{name}: {row['ratio']:.4f} of the bound (mark {most:.2f}: "
                f"{'met' if is_met else 'missed'}), {row['seconds'] * 1e3:.1f} ms, "
                f"{row['buffers']} buffers, {row['by']}"
            )
    if given.json:
        from .__main__ import facts

        report = facts("cpu") | figures
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
