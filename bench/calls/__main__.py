from __future__ import annotations

import argparse
import ctypes
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--build", type=Path, default=ROOT / "build")
    words.add_argument("--generated", type=Path, default=ROOT / "generated")
    words.add_argument("--pairs", type=int, default=101)
    given = words.parse_args()
    sys.path.insert(0, str(given.build.resolve() / "python"))
    import torch

    from bench.calls import ours, peers
    from bench.calls.build import Workshop
    from bench.calls.clock import Clock, Row

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    shop = Workshop(given.build, given.generated)
    clock = Clock(shop.floor(), lambda: None, given.pairs)
    library = ctypes.CDLL(str(shop.launcher()))
    addresses = tuple(ours.address(library, f"bench_{n}") for n in ("cpu", "cuda", "nothing"))
    tensors = ours.Tensors("cpu")
    rows = [*ours.floors(clock, tensors, library)]
    full, empty = peers.tvm(shop, addresses)
    for kind, three in tensors.kinds():
        rows.append(
            Row(
                f"tvm-ffi: {kind}",
                "tvm-ffi",
                kind,
                clock.call(full, three),
                clock.call(empty, three),
                beside=(f"bare exchange: {kind}", "C loop"),
            )
        )
    rows += ours.calls(clock, tensors, shop.hollow())
    named = {row.name: row for row in rows}
    for row in rows:
        result = clock.measure(row, [named[n] for n in row.beside])
        text = f"{row.name:36}"
        for column in ("empty", "full"):
            ns = result.ns.get(column)
            text += f"{ns.median:9.1f}" if ns else f"{'-':>9}"
        for column, ratios in result.ratios.items():
            for name, r in ratios.items():
                text += f"  {column[0]}/{name.split(':')[0]} {r.median:.2f} [{r.low:.2f} {r.high:.2f}]"
        print(text)


if __name__ == "__main__":
    main()
