"""The README's measured tables, written from docs/measurements/: no figure is typed by hand.

measured_table.py            write the tables into README.md
measured_table.py --check    exit 1 if README.md says anything else
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KERNELS = "| kernel | ours | torch | times torch's speed |\n| --- | --- | --- | --- |\n"
CALLS = "| ns a call "  # how its first line begins: devices and dates follow
STEPS = "| network, batch | ours "  # how it begins: who else is shown follows
MARKS = "| what is marked | found | mark |\n| --- | --- | --- |\n"
OURS = "aicf graph"
OTHERS = {
    "torch CUDAGraph": "torch's graph by hand",
    "torch.compile max-autotune": "torch.compile, max-autotune",
    "torch.compile default": "its default",
    "torch eager": "torch eager",
    "tinygrad": "tinygrad",
}
NETWORKS = {"mlp": "MLP 784-512-512-10", "cnn": "small CNN"}
DASH = "\N{EN DASH}"

SHOWN = [
    "add f32 64 MiB",
    "add bf16 1024 MiB",
    "relu bf16 64 MiB",
    "gelu bf16 64 MiB",
    "gelu_bwd bf16 64 MiB",
    "bias_add bf16 64x256x56x56 axis 1",
    "bias_add_bwd f32 65536x768 axis 1",
    "copy transposing f32 8192x8192",
    "sum all f32 16777216 over 0",
    "sum last bf16 4096x8192 over 1",
    "max first bf16 4096x8192 over 0",
    "softmax bf16 8192x256",
    "softmax bf16 8192x4096",
    "softmax bf16 8192x32768",
    "cross_entropy bf16 8192x50257",
    "mse mean bf16 64 MiB",
    "layer_norm f32 8192x4096",
    "layer_norm bf16 8192x4096",
    "layer_norm_bwd bf16 8192x4096",
    "rms_norm bf16 8192x4096",
    "batch_norm nchw bf16 32x64x112x112",
    "batch_norm nhwc bf16 32x64x112x112",
    "max_pool2d f32 32x64x112x112 nchw k3 s2",
    "max_pool2d bf16 32x64x112x112 nhwc k3 s2",
    "adamw f32 1000x100000",
    "adamw f32 1x100000000",
    "dropout bf16 536870912",
    "permute f32 16384x16384 by 10",
    "embedding bf16 50257x768, 8x1024 tokens",
    "quantize f32 16777216",
    "gemm rr f32 4096x4096x4096",
    "gemm rr bf16 4096x4096x4096",
    "gemm rr bf16 8192x8192x8192",
    "gemm rr bf16 4096x4096x1024",
    "gemm rr bf16 16x4096x4096",
    "gemm rr bf16 256x4096x4096",
    "gemm rr bf16 4095x4095x4095",
    "conv2d nhwc f16 64-64/56 k3 s1",
    "conv2d nhwc f16 256-256/14 k3 s1",
    "conv2d nhwc f16 1024-256/14 k1 s1",
    "conv2d nchw f32 64-64/56 k3 s1",
    "conv2d_dx nhwc f16 128-128/56 k3 s2",
    "conv2d_dw nhwc f16 128-128/56 k3 s2",
    "gemm rc tf32 f32 4096x4096x4096",
    "gemm_i8 rc i32 4096x4096x4096",
    "lstm bf16 T1024 B16 H768",
    "lstm_bwd bf16 T1024 B16 H768",
    "gru bf16 T128 B64 H512",
]

# Who is shown of those whose calls were timed: the names of rows, the fastest of which counts, and
# what the README says. A line that no device has is left out.
CALLERS = {
    ("bare exchange: torch",): "borrowing three tensors in C, nothing else",
    ("C loop: the launcher", "C loop: <<<>>>", "C loop: cuLaunchKernel"): "launching from a C loop",
    ("typed: torch",): "**`add_f32(a, b, out)`**",
    ("typed: torch, held",): "**the same, tensors that C++ holds too**",
    ("bound: torch",): "**`call()`, bound**",
    ("run of 100, each: torch",): "**each of `run` of 100**",
    ("generic, allocating: torch",): "**`add(a, b)`, which allocates**",
    ("typed: numpy",): "**`add_f32` of numpy arrays**",
    ("pybind11, torch: torch",): "pybind11, a torch extension",
    ("tvm-ffi: torch",): "apache-tvm-ffi",
    ("nanobind: torch",): "nanobind",
    ("torch.ops.aicf.add.out: torch",): "**`torch.ops.aicf.add.out(a, b, out=out)`**",
    ("torch.ops: torch",): "torch.ops, a C++ operator",
    ("torch.add(out=): torch",): "torch.add(a, b, out=out)",
    ("torch.ops.aicf.add: torch",): "**`torch.ops.aicf.add(a, b)`**",
    ("torch.ops, functional: torch",): "torch.ops, a C++ operator that allocates",
    ("torch.add: torch",): "torch.add(a, b)",
    ("Triton: torch",): "Triton",
    ("cupy RawKernel: cupy",): "cupy RawKernel, cupy's arrays",
    ("numba.cuda: its own",): "numba.cuda, its own arrays",
    ("numba njit: numpy",): "numba njit, numpy arrays",
    ("np.add: numpy",): "np.add(a, b, out), numpy arrays",
}


def read(name: str) -> dict[str, Any] | None:
    path = ROOT / "docs" / "measurements" / name
    data: dict[str, Any] | None = json.loads(path.read_text("utf-8")) if path.exists() else None
    return data


# ---- kernels -----------------------------------------------------------------------------------


def figure(row: dict[str, Any], who: str) -> str:
    """What says most of a row: the rate of products, the share of the copy rate, or the time."""
    if "tflops" in row:
        return f"{row['tflops'][who]:.0f} TFLOP/s"
    return f"{row['us'][who]:.1f} us, {row['of_copy'][who]:.2f} of copy"


def kernels() -> str:
    data = read("gpu.json")
    assert data is not None
    rows = {row["name"]: row for row in data["rows"]}
    lines = [
        f"| {name} | {figure(rows[name], 'ours')} | {figure(rows[name], 'torch')} "
        f"| {rows[name]['ratio']:.2f} |\n"
        for name in SHOWN
    ]
    return KERNELS + "".join(lines)


# ---- calls -------------------------------------------------------------------------------------


def nanoseconds(data: dict[str, Any], names: tuple[str, ...], column: str) -> str:
    """The least of the rows of these names."""
    found = [
        row["ns"][column]["median"]
        for row in data["rows"]
        if row["name"] in names and column in row["ns"]
    ]
    return f"{min(found):,.0f}" if found else DASH


def calls(runs: list[dict[str, Any]]) -> str:
    """Two columns a device: without the launch and with it."""
    heads = [f"{data['device']}, {data['date']}: no launch | launch" for data in runs]
    text = f"{CALLS}| {' | '.join(heads)} |\n|{' --- |' * (1 + 2 * len(runs))}\n"
    for names, words in CALLERS.items():
        cells = [nanoseconds(data, names, column) for data in runs for column in ("empty", "full")]
        if any(cell != DASH for cell in cells):
            text += f"| {words} | {' | '.join(cells)} |\n"
    return text


def measured_calls() -> list[dict[str, Any]]:
    return [data for device in ("cuda", "cpu") if (data := read(f"calls-{device}.json"))]


# ---- steps of networks -------------------------------------------------------------------------


def steps(data: dict[str, Any]) -> str:
    """Microseconds a step, in all; who is in no row is not shown."""
    there = {who for row in data["rows"] for who in row["us"]}
    others = {who: words for who, words in OTHERS.items() if who in there}
    heads = [*others.values(), "ours of the best other"]
    lines = [f"{STEPS}| {' | '.join(heads)} |\n|{' --- |' * (len(heads) + 2)}\n"]
    order = list(NETWORKS)
    for row in sorted(data["rows"], key=lambda r: (order.index(r["model"]), r["what"][0] == "i")):
        us = {who: times["whole"] for who, times in row["us"].items()}
        words = f"{NETWORKS[row['model']]}, {row['what']}, {row['batch']}"
        cells = [f"{us[who]:,.1f}" if who in us else DASH for who in (OURS, *others)]
        best = us[OURS] / min(us[who] for who in others if who in us)
        lines.append(f"| {words} | {' | '.join(cells)} | {best:.2f} |\n")
    return "".join(lines)


def marks(runs: list[dict[str, Any]]) -> str:
    """What was found, and what is asked for."""
    lines = []
    for mark in (mark for data in runs for mark in data["marks"]):
        found = f"{mark['value']:.3g}" if mark["passed"] else f"**{mark['value']:.3g}: missed**"
        lines.append(f"| {mark['what']} | {found} | {mark['most']:g} |\n")
    return MARKS + "".join(lines)


def of_steps() -> tuple[dict[str, Any], dict[str, Any]]:
    compiler, peers = read("compiler.json"), read("peers.json")
    assert compiler is not None
    assert peers is not None
    return compiler, peers


# ---- README.md ---------------------------------------------------------------------------------


def replaced(text: str, begin: str, table: str) -> str:
    """The text with another table where one begins so."""
    start = text.index(begin)
    end = text.index("\n\n", start) + 1
    return text[:start] + table + text[end:]


def main() -> int:
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    new = replaced(text, KERNELS, kernels())
    new = replaced(new, CALLS, calls(measured_calls()))
    compiler, peers = of_steps()
    new = replaced(new, STEPS, steps(peers))
    new = replaced(new, MARKS, marks([compiler, peers]))
    if "--check" in sys.argv[1:]:
        if new != text:
            print("README.md: a measured table is not that of docs/measurements/")
        return int(new != text)
    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
