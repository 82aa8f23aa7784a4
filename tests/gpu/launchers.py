"""The CUDA launchers without their modules: built into one library, called on torch tensors.

`python launchers.py build INCLUDE OUT.so [KERNEL.cu ...]` compiles; INCLUDE is the folder that
holds `aicf_ops/`. `python launchers.py link B INCLUDE OUT.so` takes the objects that `make` left in
B instead, so that what is measured is what modules have. What a module's `prepare` would do, views
included, is done here a second time, in Python, so that kernels are tested against an independent
reading of the contract.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch

ROOT = Path(__file__).resolve().parents[2]
ARCHS = ("80", "90")
MAX_RANK, MAX_DIMS = 8, 64
F32 = 2 | 32 << 8 | 1 << 16  # AICF_F32


class View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("sizes", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
    ]


class Ints(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("values", ctypes.c_int64 * MAX_DIMS)]


class Scalar(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_uint32), ("host", ctypes.c_double)]


class Status(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_uint8),
        ("backend", ctypes.c_uint8),
        ("check", ctypes.c_uint8),
        ("arg", ctypes.c_uint8),
        ("native", ctypes.c_int32),
    ]


# ---- building --------------------------------------------------------------------------------


def sources() -> list[Path]:
    return sorted(ROOT.glob("kernels/**/*.cu"))


def source_hash() -> str:
    """One hash over all that the CUDA kernels are made of."""
    digest = hashlib.sha256()
    files = [*ROOT.glob("kernels/**/*.cu*"), *ROOT.glob("include/aicf/**/*.*h")]
    for path in sorted(files):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def table_of(ops: Iterable[str], include: Path) -> str:
    """C that finds the launchers of these ops by name; one that is not there is NULL."""
    headers = [(include / "aicf_ops" / f"{op}.h").read_text() for op in set(ops)]
    names = sorted({n for text in headers for n in re.findall(r"\b(aicf_cuda_\w+)\(", text)})
    text = "".join(f"extern char {n}[] __attribute__((weak));\n" for n in names)
    text += "struct entry { const char *name; void *launcher; };\n"
    text += '__attribute__((visibility("default"))) struct entry launchers[] = {\n'
    return text + "".join(f'    {{"{n}", {n}}},\n' for n in names) + "    {0, 0},\n};\n"


def link(objects: Sequence[Path], ops: Iterable[str], include: Path, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        table = Path(scratch) / "table.c"
        table.write_text(table_of(ops, include))
        command = ["nvcc", "-shared", "-cudart", "static", "-Xcompiler", "-fPIC", "-o", str(out)]
        subprocess.run([*command, *map(str, (table, *objects))], check=True)


def link_built(build: Path, include: Path, out: Path) -> None:
    """The objects below BUILD/kernels/OP/."""
    folder = build / "kernels"
    objects = sorted(folder.glob("*/**/*.cu.o"))
    if not objects:
        raise SystemExit(f"no CUDA kernels in {folder}: run make first")
    link(objects, (path.relative_to(folder).parts[0] for path in objects), include, out)


def build(
    include: Path, out: Path, files: Sequence[Path], jobs: int | None = None, root: Path = ROOT
) -> None:
    """Compiles the kernels, and a table that finds their launchers by name."""
    flags = ["-O3", "-std=c++17", f"-I{root}/include", f"-I{include}", "--threads", "2"]
    flags += ["-Xcompiler", "-fPIC,-fvisibility=hidden,-fno-exceptions"]
    for arch in ARCHS:
        flags += ["-gencode", f"arch=compute_{arch},code=sm_{arch}"]
    with TemporaryDirectory() as scratch:
        units = [(path, Path(scratch) / f"{path.stem}.o") for path in files]

        def compile_one(unit: tuple[Path, Path]) -> None:
            subprocess.run(["nvcc", *flags, "-c", unit[0], "-o", unit[1]], check=True)

        with ThreadPoolExecutor(jobs or os.cpu_count() or 2) as pool:
            list(pool.map(compile_one, units))
        link([unit[1] for unit in units], (path.parent.name for path in files), include, out)


# ---- calling ---------------------------------------------------------------------------------


def own(t: torch.Tensor) -> View:
    """The tensor's own dims."""
    view = View(t.data_ptr(), t.dim())
    for i, (size, stride) in enumerate(zip(t.shape, t.stride(), strict=True)):
        view.sizes[i], view.strides[i] = size, stride if size != 1 else 0
    return view


def merged(shape: Sequence[int], strides: Sequence[Sequence[int]], least: int) -> list[list[Any]]:
    """Drops dims of size 1 and merges neighbours where all allow: [size, stride of each] a dim."""
    dims: list[list[Any]] = []
    for i, size in enumerate(shape):
        if size == 1:
            continue
        here = [s[i] for s in strides]
        if dims and all(dims[-1][1][j] == size * h for j, h in enumerate(here)):
            dims[-1] = [dims[-1][0] * size, here]
        else:
            dims.append([size, here])
    while len(dims) < least:
        dims.insert(0, [1, [0] * len(strides)])
    return dims


def joint(out: torch.Tensor, *inputs: torch.Tensor) -> list[View]:
    """The inputs' views and the out's, last, all of one shape."""
    tensors = [t.broadcast_to(out.shape) for t in inputs] + [out]
    dims = merged(out.shape, [t.stride() for t in tensors], 1)
    views = []
    for j, t in enumerate(tensors):
        view = View(t.data_ptr(), len(dims))
        for i, (size, strides) in enumerate(dims):
            view.sizes[i], view.strides[i] = size, strides[j]
        views.append(view)
    return views


def matrix(out: torch.Tensor, *inputs: torch.Tensor | None) -> list[View | None]:
    """The inputs' views and the out's, last: the last two dims as they are, batches as in joint."""
    batch = out.shape[:-2]
    present = [t for t in (*inputs, out) if t is not None]
    spread = [t.broadcast_to(*batch, *t.shape[-2:]) for t in present]
    dims = merged(batch, [t.stride()[:-2] for t in spread], 0)
    views: list[View | None] = []
    for j, t in enumerate(spread):
        view = View(t.data_ptr(), len(dims) + 2)
        for i, (size, strides) in enumerate(dims):
            view.sizes[i], view.strides[i] = size, strides[j]
        for i in (-2, -1):
            view.sizes[len(dims) + 2 + i] = t.shape[i]
            view.strides[len(dims) + 2 + i] = t.stride(i) if t.shape[i] != 1 else 0
        views.append(view)
    found = iter(views)
    return [next(found) if t is not None else None for t in (*inputs, out)]


def suffix(dtype: torch.dtype) -> str:
    names = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}
    names |= {"int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32", "int64": "i64"}
    names |= {"bool": "bool"}
    return names[str(dtype).removeprefix("torch.")]


class CudaError(RuntimeError):
    pass


class Launchers:
    """The launchers of a built library; each method takes torch tensors and the current stream."""

    def __init__(self, path: Path) -> None:
        class Entry(ctypes.Structure):
            _fields_ = [("name", ctypes.c_char_p), ("launcher", ctypes.c_void_p)]

        self.library = ctypes.CDLL(str(path))
        table = (Entry * 1000).in_dll(self.library, "launchers")
        self.addresses: dict[str, int] = {}
        for entry in table:
            if entry.name is None:
                break
            self.addresses[entry.name.decode()] = entry.launcher

    def call(self, name: str, *args: Any) -> None:
        import torch

        packed: list[Any] = []
        for arg in args:
            if arg is None:
                packed.append(ctypes.c_void_p(None))
            elif isinstance(arg, torch.Tensor):
                packed.append(ctypes.c_void_p(arg.data_ptr()))
            elif isinstance(arg, View | Ints | Scalar):
                packed.append(ctypes.byref(arg))
            elif isinstance(arg, float):
                packed.append(ctypes.c_double(arg))
            elif isinstance(arg, bool):
                packed.append(ctypes.c_bool(arg))
            elif isinstance(arg, ctypes.c_int):
                packed.append(arg)
            else:
                packed.append(ctypes.c_int64(arg))
        function = ctypes.CFUNCTYPE(Status)(self.addresses[f"aicf_cuda_{name}"])
        status = function(*packed, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        if status.kind:
            raise CudaError(f"{name}: kind {status.kind}, error {status.native}")

    def elementwise(
        self,
        op: str,
        kernel: str,
        out: torch.Tensor,
        *inputs: torch.Tensor,
        more: Sequence[Any] = (),
    ) -> None:
        dims = [t.numel() for t in inputs] if op == "add" else [out.numel()]
        tensors = joint(out, *inputs) if kernel == "strided" else [*inputs, out]
        self.call(f"{op}_{kernel}_{suffix(out.dtype)}", *tensors, *dims, *more)

    def bias_add(self, x: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, axis: int) -> None:
        split = lnr(x, axis)
        self.call(f"bias_add_vec_{suffix(x.dtype)}", x, bias, out, *split, axis)

    def bias_add_bwd(self, gy: torch.Tensor, gb: torch.Tensor, axis: int) -> None:
        import torch

        left, n, right = lnr(gy, axis)
        size = 4 * n * min(-(-left * right // 64), 1024, 524288 // max(n, 1))
        workspace = torch.empty(size, dtype=torch.uint8, device=gy.device)
        self.call(
            f"bias_add_bwd_two_stage_{suffix(gy.dtype)}", gy, gb, left, n, right, axis, workspace
        )

    def sum(self, x: torch.Tensor, out: torch.Tensor, axes: Sequence[int]) -> None:
        import torch

        folded = Ints(len(axes))
        for i, axis in enumerate(axes):
            folded.values[i] = axis % x.dim()
        outs = max(out.numel(), 1)
        size = 4 * out.numel() * min(-(-x.numel() // (64 * outs)), 1024, 524288 // outs)
        workspace = torch.empty(size, dtype=torch.uint8, device=x.device)
        name = f"sum_two_stage_{suffix(x.dtype)}"
        self.call(name, own(x), out, x.numel(), folded, False, workspace)

    def gemm(
        self,
        kernel: str,
        a: torch.Tensor,
        b: torch.Tensor,
        out: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        c: torch.Tensor | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        act: str = "none",
    ) -> None:
        view_a, view_b, view_c, view_out = matrix(out, a, b, c)
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        dims = [a.shape[:-2].numel(), m, k, b.shape[:-2].numel(), n]
        word = ctypes.c_int(["none", "relu", "gelu"].index(act))
        name = f"gemm_{kernel}_{suffix(out.dtype)}"
        self.call(
            name, view_a, view_b, bias, view_c, view_out, *dims, float(alpha), float(beta), word
        )


def lnr(x: torch.Tensor, axis: int) -> tuple[int, int, int]:
    return x.shape[:axis].numel(), x.shape[axis], x.shape[axis + 1 :].numel()


def main() -> None:
    if len(sys.argv) < 5 - (sys.argv[1:2] == ["build"]) or sys.argv[1] not in ("build", "link"):
        raise SystemExit(__doc__)
    if sys.argv[1] == "link":
        link_built(*(Path(name).resolve() for name in sys.argv[2:5]))
        return
    files = [Path(name).resolve() for name in sys.argv[4:]] or sources()
    build(Path(sys.argv[2]), Path(sys.argv[3]), files)
    print(source_hash())


if __name__ == "__main__":
    main()
