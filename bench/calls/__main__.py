"""What a call costs, beside those who are called the same way: `make bench-calls`.

    python -m bench.calls [--device cpu|cuda] [--json FILE] [--pairs N] [--peers NAME,...]

Three-tensor `add_f32` of 1,024 elements, nanoseconds above an empty Python call, with the launch
and without: then the launcher returns at once, and all checks are made on the same tensors. Run in
the root of a built tree. clock.py has the method, marks.py what is asked of the figures, peers.py
who else is measured. docs/cost.md says how to read the table.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import math
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.calls.build import ROOT, BuildError, Workshop
from bench.calls.clock import LAUNCHES, Clock, Result, Row

PAIRS = 101
LEAST_PAIRS = 3
LONGEST = {"cpu": 200_000, "cuda": math.inf}  # nanoseconds of a block


def options() -> argparse.Namespace:
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--build", type=Path, default=ROOT / "build", help="where make built")
    words.add_argument("--generated", type=Path, default=ROOT / "generated")
    words.add_argument("--device", choices=["cpu", "cuda"], help="cuda where torch has a GPU")
    words.add_argument("--pairs", type=int, default=PAIRS, help="of a ratio: %(default)s")
    words.add_argument("--peers", help="only these, by name; all that are installed if not given")
    words.add_argument("--json", type=Path, help="write the figures there; a folder: calls-DEVICE")
    given = words.parse_args()
    if given.pairs < LEAST_PAIRS:
        words.error(f"--pairs {given.pairs}: {LEAST_PAIRS} at least")
    return given


def on_cuda(asked: str | None, shop: Workshop) -> bool:
    import torch

    here = torch.cuda.is_available() and shop.cuda
    if asked == "cuda" and not here:
        missing = "no GPU for torch" if shop.cuda else "this build has no CUDA kernels"
        raise SystemExit(f"error: --device cuda: {missing}")
    return here and asked != "cpu"


def working(rows: Iterable[Row], absent: dict[str, str]) -> list[Row]:
    """Those that can be called; what the others said is put into `absent`."""
    found = []
    for row in rows:
        try:
            row.probe()
            found.append(row)
        except Exception as error:  # whatever a framework raises where it does not work
            absent[row.name] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return found


def measure(clock: Clock, rows: list[Row], say: Callable[[str], object]) -> dict[str, Result]:
    """Each row beside those of its neighbours that are here."""
    by_name = {row.name: row for row in rows}
    results = {}
    for row in rows:
        results[row.name] = clock.measure(row, [by_name[n] for n in row.beside if n in by_name])
        say(row.name)
    return results


def row_json(row: Row, result: Result) -> dict[str, Any]:
    return {
        "name": row.name,
        "who": row.who,
        "tensors": row.tensors,
        "ns": {column: spread.json(1) for column, spread in result.ns.items()},
        "ratios": {
            column: {name: spread.json(4) for name, spread in ratios.items()}
            for column, ratios in result.ratios.items()
        },
    }


def pin() -> int | None:
    """This thread to one processor, where that is possible."""
    try:
        last = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {last})
    except OSError:
        return None
    return last


def main() -> None:
    given = options()
    if importlib.util.find_spec("torch") is None:
        raise SystemExit("error: this Python has no torch, whose tensors the calls are made with")
    try:
        report(given)
    except BuildError as error:
        raise SystemExit(f"error: {error}") from error


def report(given: argparse.Namespace) -> None:
    """Builds, measures, writes and prints."""
    shop = Workshop(given.build, given.generated)
    sys.path.insert(0, str(shop.build / "python"))
    import torch

    cuda = on_cuda(given.device, shop)
    device = "cuda" if cuda else "cpu"
    if cuda:
        shop.arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    from bench.calls import facts, marks, operators, ours, peers, table
    from bench.calls.scene import ELEMENTS, Scene

    torch.set_num_threads(1)
    synchronize: Callable[[], object] = torch.cuda.synchronize if cuda else lambda: None
    clock = Clock(shop.floor(), synchronize, given.pairs, LONGEST[device])
    scene = Scene(device, shop, clock, ctypes.CDLL(str(shop.launcher())))
    hollow = shop.hollow()
    ours.check(scene, hollow)
    asked = given.peers.split(",") if given.peers is not None else None
    unknown = [name for name in asked or [] if name and name not in peers.PEERS_BY_NAME]
    if unknown:
        raise SystemExit(f"error: --peers {unknown[0]}: known are {', '.join(peers.PEERS_BY_NAME)}")

    absent: dict[str, str] = {}
    forms = ours.Forms(scene, hollow)
    rivals = list(peers.rows(scene, asked, absent))
    own = [*ours.floors(scene), *forms.torch(), *forms.others(absent)]
    own += operators.rows(scene, hollow)
    broken: dict[str, str] = {}
    rows = working(own, broken) + working(rivals, absent)
    absent |= broken
    figures = facts.figures(shop, device)
    about = facts.machine(device)
    processor = pin()
    results = measure(clock, rows, lambda name: print(f"  {name}", file=sys.stderr, flush=True))
    found = marks.verdicts(device, rows, results, figures)
    data = {
        **about,
        "method": {
            "elements": ELEMENTS,
            "pairs": clock.pairs,
            "launches_between_synchronisations": LAUNCHES,
            "processor": processor,
            "interval": "95% of the median, by order statistics",
        },
        "rows": [row_json(row, results[row.name]) for row in rows],
        "absent": absent,
        **figures,
        "marks": [verdict.json() for verdict in found],
    }
    if given.json:
        file = given.json / f"calls-{device}.json" if given.json.is_dir() else given.json
        file.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table.text(data | {"marks_text": [verdict.text() for verdict in found]}))
    if broken:
        raise SystemExit(f"error: {len(broken)} calls of our own failed: {', '.join(broken)}")


if __name__ == "__main__":
    main()
