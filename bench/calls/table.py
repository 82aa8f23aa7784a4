"""The table that a run prints, of the JSON that it writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DASH = "\N{EN DASH}"  # in a column that is not measured for a row
COLUMNS = ("empty", "full")
HEAD = (
    f"{'call':28}{'tensors':18}{'no launch':>10}{'/ bare':>8}{'/ tvm':>7}"
    f"{'launch':>10}{'/ C loop':>9}{'/ tvm':>7}{'/ ours':>8}"
)


def number(value: float | None, width: int, digits: int) -> str:
    return f"{value:{width}.{digits}f}" if value is not None else f"{DASH:>{width}}"


def beside(
    row: dict[str, Any], column: str, start: str, pick: Callable[..., float | None] = max
) -> float | None:
    """The ratio to the rows whose names start so: to the fastest of them, by `min` the slowest."""
    found = row["ratios"].get(column, {}).items()
    return pick((r["median"] for name, r in found if name.startswith(start)), default=None)


def line(row: dict[str, Any]) -> str:
    empty, full = (row["ns"].get(c, {}).get("median") for c in COLUMNS)
    against = (
        beside(row, "full", "typed", min)
        or beside(row, "full", "generic")
        or beside(row, "full", "torch.ops.aicf", min)
    )
    return (
        f"{row['who']:28}{row['tensors']:18}"
        f"{number(empty, 10, 1)}{number(beside(row, 'empty', 'bare'), 8, 2)}"
        f"{number(beside(row, 'empty', 'tvm'), 7, 2)}"
        f"{number(full, 10, 1)}{number(beside(row, 'full', 'C loop'), 9, 2)}"
        f"{number(beside(row, 'full', 'tvm'), 7, 2)}{number(against, 8, 2)}"
    )


def text(data: dict[str, Any]) -> str:
    """All of it; the marks last."""
    about = ", ".join(f"{k} {v}" for k, v in data["versions"].items())
    pairs = data["method"]["pairs"]
    lines = [
        f"add_f32 of 1,024 elements on {data['device']}, {data['date']}: ns a call above an empty",
        f"Python call, medians of {pairs} pairs; Python {data['python']}, {about}",
        "",
        HEAD,
        *map(line, data["rows"]),
        "",
    ]
    lines += [f"{name}: {why}" for name, why in data["absent"].items()]
    seconds, imported = data["compile_s"], data["import_ms"]
    lines += [
        "",
        "compile, processor time: "
        + ", ".join(f"{k} {v} s" for k, v in seconds.items() if k != "times" and v is not None),
        f"import, processor time: package and runtime {imported['package_and_runtime']} ms, "
        f"then one op {imported['op']} ms",
        "bytes, stripped: "
        + ", ".join(
            f"{k} {v['bytes']:,}"
            + (f" ({v['device_code']:,} of device code)" * bool(v["device_code"]))
            for k, v in data["sizes"].items()
        ),
        "",
        *data["marks_text"],
    ]
    return "\n".join(lines)
