"""The README's measured table, written from docs/measurements/gpu.json: no figure is typed by hand.

measured_table.py            write the table into README.md
measured_table.py --check    exit 1 if README.md says anything else
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "| kernel | ours | torch | times torch's speed |\n| --- | --- | --- | --- |\n"

SHOWN = [
    "add f32 256 MiB", "add bf16 256 MiB", "relu bf16 256 MiB", "gelu_bwd bf16 256 MiB",
    "add, pitched rows, f32 256 MiB", "add, pitched rows, bf16 256 MiB", "add f32 1 MiB",
    "bias_add bf16 64x256x56x56", "bias_add_bwd f32 65536x768", "transposing copy f32 8192x8192",
    "sum f32 8192x8192 over (0, 1)", "sum f32 8192x8192 over (0,)", "sum bf16 65536x1024 over (1,)",
    "sum bf16 4096x4095 over (1,)", "gemm simt f32 4096x4096x4096 rr",
    "gemm mma bf16 4096x4096x4096 rr", "gemm mma bf16 4096x4096x4096 rc",
    "gemm mma f16 4096x4096x4096 rr", "gemm mma bf16 8192x8192x8192 rr",
    "gemm mma bf16 4096x4096x1024 rr", "gemm mma bf16 16x4096x4096 rr",
    "gemm simt bf16 4095x4095x4095 rr",
]  # fmt: skip


def figure(row: dict[str, Any], who: str) -> str:
    """What says most of a row: the rate of products, the share of the copy rate, or the time."""
    if "tflops" in row:
        return f"{row['tflops'][who]:.0f} TFLOP/s"
    return f"{row['us'][who]:.1f} us, {row['of_copy'][who]:.2f} of copy"


def table() -> str:
    data = json.loads((ROOT / "docs/measurements/gpu.json").read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in data["rows"]}
    lines = [
        f"| {name} | {figure(rows[name], 'ours')} | {figure(rows[name], 'torch')} "
        f"| {rows[name]['ratio']:.2f} |\n"
        for name in SHOWN
    ]
    return BEGIN + "".join(lines)


def main() -> int:
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    start = text.index(BEGIN)
    end = text.index("\n\n", start) + 1
    new = text[:start] + table() + text[end:]
    if "--check" in sys.argv[1:]:
        if new != text:
            print("README.md: the measured table is not that of docs/measurements/gpu.json")
        return int(new != text)
    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
