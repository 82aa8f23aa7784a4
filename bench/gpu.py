"""CUDA kernels beside torch in one run: `python gpu.py LIBRARY.so RESULT.json [VARIANT.so ...]`.

Each pair is measured interleaved on random data, f32 without tf32: a graph of several launches
over rotating buffers, larger together than the L2, is replayed; the median replay counts. "copy"
is torch's device-to-device copy in the same run, read and write counted. A VARIANT is a library
with other gemm or relu kernels, measured beside. tests/gpu/launchers.py builds libraries.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

# In the place of this file's own folder, where this file is `gpu`.
sys.path[0] = str(Path(__file__).resolve().parents[1] / "tests")
from gpu.launchers import F32, Launchers, Scalar, source_hash, suffix  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIB = 1 << 20
ROTATED = 192 * MIB  # bytes of all buffers of a measurement, at least: three times the L2
REPEATS = 15


def measure(runs: dict[str, Callable[..., Any]], sets: int, launches: int) -> dict[str, float]:
    """Seconds a launch, by name."""
    graphs = {}
    for name, run in runs.items():
        run(0)
        torch.cuda.synchronize()
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name]):
            for i in range(launches):
                run(i % sets)
        graphs[name].replay()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) / 1e3 / launches)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def sets_for(bytes_each: int) -> int:
    return max(1, min(64, -(-ROTATED // max(bytes_each, 1))))


def random(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="cuda").normal_()


class Bench:
    def __init__(self, launch: Launchers, variants: dict[str, Launchers]) -> None:
        self.launch, self.variants = launch, variants
        self.rows: list[dict[str, Any]] = []
        self.copy = 0.0

    def row(self, name: str, seconds: dict[str, float], **work: float) -> None:
        """`bytes` or `flops`: what an ideal kernel moves or does."""
        entry: dict[str, Any] = {"name": name, "us": {k: v * 1e6 for k, v in seconds.items()}}
        text = []
        for kind, time in seconds.items():
            if "bytes" in work:
                rate = work["bytes"] / time
                entry.setdefault("of_copy", {})[kind] = rate / self.copy if self.copy else 1.0
                text.append(f"{kind} {time * 1e6:.1f} us {entry['of_copy'][kind]:.2f} of copy")
            else:
                entry.setdefault("tflops", {})[kind] = work["flops"] / time / 1e12
                text.append(f"{kind} {time * 1e6:.1f} us {work['flops'] / time / 1e12:.0f}")
        if "ours" in seconds and "torch" in seconds:
            entry["ratio"] = seconds["torch"] / seconds["ours"]
            text.append(f"{entry['ratio']:.2f}x torch")
        self.rows.append(entry)
        print(f"{name}: " + ", ".join(text), flush=True)

    def moved(self, name: str, bytes_: int, sets: int, **runs: Callable[..., Any]) -> None:
        launches = max(2, min(50, int(2e-3 * 4e12 / max(bytes_, 1))))
        self.row(name, measure(runs, sets, launches), bytes=bytes_)

    # ---- bound by bytes -----------------------------------------------------------------------

    def copies(self) -> None:
        x, y = random((256 * MIB // 4,), torch.float32), random((256 * MIB // 4,), torch.float32)
        seconds = measure(
            {
                "torch": lambda _: y.copy_(x),
                "ours": lambda _: self.launch.elementwise("copy", "flat", y, x),
            },
            1,
            4,
        )
        self.copy = 512 * MIB / seconds["torch"]
        print(f"copy: {self.copy / 1e12:.2f} TB/s")
        self.row("copy 256 MiB", seconds, bytes=512 * MIB)
        for dtype in (torch.float32, torch.bfloat16):
            n = 8192
            a, b = random((n, n), dtype), random((n, n), dtype)
            bytes_ = 2 * a.numel() * a.element_size()
            self.moved(
                f"transposing copy {suffix(dtype)} {n}x{n}",
                bytes_,
                1,
                ours=lambda _, a=a, b=b: self.launch.elementwise("copy", "strided", b, a.t()),
                torch=lambda _, a=a, b=b: b.copy_(a.t()),
            )

    def elementwise(self) -> None:
        for dtype in (torch.float32, torch.bfloat16):
            for size in (MIB, 64 * MIB, 256 * MIB):
                n = size // torch.empty(0, dtype=dtype).element_size()
                sets = sets_for(3 * size)
                x, y, z = ([random((n,), dtype) for _ in range(sets)] for _ in range(3))
                where = f"{suffix(dtype)} {size // MIB} MiB"
                vec = self.launch.elementwise
                self.moved(
                    f"add {where}",
                    3 * size,
                    sets,
                    ours=lambda i: vec("add", "vec", z[i], x[i], y[i]),
                    torch=lambda i: torch.add(x[i], y[i], out=z[i]),
                )
                if size < 64 * MIB:
                    continue
                variants = {
                    name: lambda i, v=variant: v.elementwise("relu", "vec", z[i], x[i])
                    for name, variant in self.variants.items()
                    if variant.addresses.get(f"aicf_cuda_relu_vec_{suffix(dtype)}")
                }
                self.moved(
                    f"relu {where}",
                    2 * size,
                    sets,
                    ours=lambda i: vec("relu", "vec", z[i], x[i]),
                    torch=lambda i: torch.clamp_min(x[i], 0, out=z[i]),
                    **variants,
                )
                self.moved(
                    f"gelu_bwd {where}",
                    3 * size,
                    sets,
                    ours=lambda i: vec(
                        "gelu_bwd", "vec", z[i], x[i], y[i], more=(ctypes.c_int(0),)
                    ),
                    torch=lambda i: torch.ops.aten.gelu_backward(x[i], y[i]),
                )
                factor = Scalar(None, F32, 0.5)
                self.moved(
                    f"scale {where}",
                    2 * size,
                    sets,
                    ours=lambda i: vec("scale", "vec", z[i], x[i], more=(factor,)),
                    torch=lambda i: torch.mul(x[i], 0.5, out=z[i]),
                )
                # A column of elements less: rows of odd length and a pitch.
                a, b, c = (t[0].view(8192, -1)[:, :-1] for t in (x, y, z))
                self.moved(
                    f"add, pitched rows, {where}",
                    3 * a.numel() * a.element_size(),
                    1,
                    ours=lambda _: vec("add", "strided", c, a, b),
                    torch=lambda _: torch.add(a, b, out=c),
                )

    def biases(self) -> None:
        for dtype in (torch.float32, torch.bfloat16):
            each = torch.empty(0, dtype=dtype).element_size()
            shapes: list[tuple[int, ...]] = [(8192, 8192), (64, 256, 56, 56), (65536, 768)]
            axis = 1
            for shape in shapes:
                x, y = random(shape, dtype), random(shape, dtype)
                b, gb = random((shape[axis],), dtype), random((shape[axis],), dtype)
                along = b.view([-1 if d == axis else 1 for d in range(len(shape))])
                others = [d for d in range(len(shape)) if d != axis]
                where = f"{suffix(dtype)} {'x'.join(map(str, shape))}"
                self.moved(
                    f"bias_add {where}",
                    2 * x.numel() * each,
                    1,
                    ours=lambda _, x=x, b=b, y=y, axis=axis: self.launch.bias_add(x, b, y, axis),
                    torch=lambda _, x=x, y=y, along=along: torch.add(x, along, out=y),
                )
                self.moved(
                    f"bias_add_bwd {where}",
                    x.numel() * each,
                    1,
                    ours=lambda _, x=x, gb=gb, axis=axis: self.launch.bias_add_bwd(x, gb, axis),
                    torch=lambda _, x=x, gb=gb, o=others: torch.sum(x, o, out=gb),
                )

    def sums(self) -> None:
        for dtype in (torch.float32, torch.bfloat16):
            each = torch.empty(0, dtype=dtype).element_size()
            side = 8192 if each == 4 else 11584
            cases: list[Any] = [((side, side), (0, 1)), ((side, side), (0,)), ((side, side), (1,))]
            cases += [
                ((65536, 1024), (1,)),
                ((1 << 20, 64), (0,)),
                ((1 << 20, 64), (1,)),
                ((32, 256, 8192), (1,)),
            ]
            cases += [((1024, 1024), (1,)), ((4096, 4095), (1,)), ((4096, 4095), (0,))]
            for shape, axes in cases:
                x = random(shape, dtype)
                kept = [s for d, s in enumerate(shape) if d not in axes]
                out = torch.empty(kept, dtype=dtype, device="cuda")
                self.moved(
                    f"sum {suffix(dtype)} {'x'.join(map(str, shape))} over {axes}",
                    x.numel() * each,
                    1,
                    ours=lambda _, x=x, out=out, axes=axes: self.launch.sum(x, out, axes),
                    torch=lambda _, x=x, out=out, axes=axes: torch.sum(x, axes, out=out),
                )

    # ---- bound by flops -----------------------------------------------------------------------

    def gemm(
        self,
        dtype: torch.dtype,
        m: int,
        n: int,
        k: int,
        layouts: str = "rr",
        batch: int = 0,
        **more: Any,
    ) -> None:
        lead = (batch,) if batch else ()
        bytes_ = (
            (m * k + k * n + m * n) * max(batch, 1) * torch.empty(0, dtype=dtype).element_size()
        )
        sets = sets_for(bytes_)
        a, b, out = [], [], []
        for _ in range(sets):
            a.append(
                random((*lead, m, k), dtype)
                if layouts[0] == "r"
                else random((*lead, k, m), dtype).mT
            )
            b.append(
                random((*lead, k, n), dtype)
                if layouts[1] == "r"
                else random((*lead, n, k), dtype).mT
            )
            out.append(random((*lead, m, n), dtype))
        whole = all(
            s % 8 == 0
            for s in (a[0].stride(-1) * a[0].stride(-2), b[0].stride(-1) * b[0].stride(-2), n)
        )
        kernel = "mma" if dtype != torch.float32 and whole else "simt"
        runs: dict[str, Callable[..., Any]] = {
            "ours": lambda i: self.launch.gemm(kernel, a[i], b[i], out[i], **more),
            "torch": lambda i: torch.matmul(a[i], b[i], out=out[i]),
        }
        for name, variant in self.variants.items():
            if variant.addresses.get(f"aicf_cuda_gemm_{kernel}_{suffix(dtype)}"):
                runs[name] = lambda i, v=variant: v.gemm(kernel, a[i], b[i], out[i], **more)
        flops = 2.0 * m * n * k * max(batch, 1)
        launches = max(2, min(40, int(3e-3 / (flops / 4e14))))
        size = f"{batch}x" if batch else ""
        name = f"gemm {kernel} {suffix(dtype)} {size}{m}x{n}x{k} {layouts}"
        name += "".join(f" {key}" if key != "act" else f" {value}" for key, value in more.items())
        self.row(name, measure(runs, sets, launches), flops=flops)

    def gemms(self) -> None:
        f32, f16, bf16 = torch.float32, torch.float16, torch.bfloat16
        for layouts in ("rr", "rc", "cr", "cc"):
            self.gemm(bf16, 4096, 4096, 4096, layouts)
        for layouts in ("rr", "rc", "cr"):
            self.gemm(f32, 4096, 4096, 4096, layouts)
        self.gemm(f16, 4096, 4096, 4096)
        for dtype in (bf16, f32):
            self.gemm(dtype, 1024, 1024, 1024)
            self.gemm(dtype, 2048, 2048, 2048)
            self.gemm(dtype, 4096, 4096, 1024)
            self.gemm(dtype, 1, 4096, 4096)
            self.gemm(dtype, 1, 4096, 4096, "rc")
            self.gemm(dtype, 16, 4096, 4096)
            self.gemm(dtype, 256, 4096, 4096)
            self.gemm(dtype, 512, 512, 512, batch=64)
            self.gemm(dtype, 4095, 4095, 4095)
        self.gemm(bf16, 8192, 8192, 8192)
        self.gemm(bf16, 4096, 4096, 1024, act="gelu", bias=random((4096,), bf16))


def about() -> dict[str, Any]:
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "device": torch.cuda.get_device_name(),
        "driver": driver.stdout.strip(),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "sources": source_hash(),
    }


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    variants = {Path(path).stem: Launchers(Path(path).resolve()) for path in sys.argv[3:]}
    bench = Bench(Launchers(Path(sys.argv[1]).resolve()), variants)
    print(json.dumps(about()))
    for part in (bench.copies, bench.gemms, bench.elementwise, bench.biases, bench.sums):
        part()
        torch.cuda.empty_cache()
        result = {**about(), "copy_bytes_per_s": bench.copy, "rows": bench.rows}
        Path(sys.argv[2]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
