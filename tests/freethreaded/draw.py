"""Draws calls of every op, with their results, for interpreters that have no torch:

    python -m freethreaded.draw FILE COUNT

One of each op from its entry in tests/rows, as arrays of numpy, of COUNT seeds. rows.py reads
them."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import torch

from rows import Maker, rows
from rows.calls import Call, call_of, mapped
from rows.table import DTYPES, WORDS, table


def array(x: torch.Tensor) -> Any:
    return x.detach().contiguous().numpy().copy()


def drawn(op: str, seed: int) -> dict[str, Any]:
    """The first sample in the first dtype of the row's."""
    row = rows()[op]
    maker = Maker(DTYPES[row.dtypes[0]], seed=seed)
    call = call_of(row, row.samples(maker)[0]).relaid("dense").with_outs()
    options = {k: mapped(array, v) for k, v in call.kwargs.items()}
    if isinstance(options.get("dtype"), torch.dtype):
        options["dtype"] = WORDS[options["dtype"]]
    return {
        "op": op,
        "suffix": call.suffix,
        "inputs": [mapped(array, x) for x in call.inputs],
        "options": options,
        "outs": {name: array(x) for name, x in call.outs.items()},
        "places": written_at(call),
        "expected": {name: mapped(array, x) for name, x in rounded(call).items()},
    }


def written_at(call: Call) -> dict[str, int]:
    """Which of the inputs are written, by name."""
    named = enumerate(call.facts.inputs)
    return {p.name: i for i, p in named if p.role == "INOUT" and call.inputs[i] is not None}


def rounded(call: Call) -> dict[str, Any]:
    """What must be written, in the dtypes that it is written in."""

    def to(name: str, value: Any) -> Any:
        return mapped(lambda x: x.to(DTYPES[call.kind(name)]), value)

    return {name: to(name, x) for name, x in call.want.items() if name in call.written()}


def main() -> None:
    file, count = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    ops = [op for op in rows() if op in table()]
    file.write_bytes(pickle.dumps([[drawn(op, seed) for op in ops] for seed in range(count)]))


if __name__ == "__main__":
    main()
