"""The others: each binds the same launcher, or has a kernel of its own, and is called as its own
documentation says. One that is not installed, or does not build here, is named with the reason."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.calls.build import HERE, PEERS, load
from bench.calls.clock import Row
from bench.calls.scene import ELEMENTS, Absent, Scene, need

THREADS = 256
BLOCKS = ELEMENTS // THREADS

Function = Callable[..., Any]


def compile_command(*flags: str) -> list[str]:
    return ["g++", "-O2", "-fPIC", "-shared", f"-I{HERE}", f"-I{PEERS}", *flags]


def on_torch(
    scene: Scene,
    who: str,
    full: Function,
    hollow: Function | None = None,
    names: tuple[str, ...] | None = None,
    forms: tuple[str, ...] = ("typed",),
) -> Iterator[Row]:
    """A row for each kind of torch's tensors, beside these forms of ours."""
    for kind, three, owners in scene.kinds():
        launched = scene.clock.call(full, three, names)
        empty = scene.clock.call(hollow, three, names) if hollow else None
        ours = (f"{form}: {kind}" for form in forms)
        beside = (f"bare exchange: {kind}", *scene.loops, *ours)
        yield Row(f"{who}: {kind}", who, kind, launched, empty, beside, keep=owners)


# ---- those that bind the same launcher ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a peer's library is compiled."""

    out: Path
    command: list[str]
    read: tuple[Path, ...]

    def make(self, scene: Scene) -> Path:
        return scene.shop.make(self.out, [self.command], *self.read)


def tvm_recipe(scene: Scene) -> Recipe:
    found = need("tvm_ffi.libinfo")
    out, source = scene.shop.out / "tvm.so", PEERS / "tvm.cc"
    library = Path(found.find_libtvm_ffi())
    link = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    command = compile_command("-std=c++17", *(f"-I{path}" for path in found.include_paths()))
    command += [str(source), "-o", str(out), *link]
    return Recipe(out, command, (source, HERE / "launcher.h"))


def tvm_ffi(scene: Scene) -> Iterator[Row]:
    module = need("tvm_ffi")
    loaded = module.load_module(str(tvm_recipe(scene).make(scene)))
    loaded.setup(*scene.addresses())
    yield from on_torch(scene, "tvm-ffi", loaded.add_f32, loaded.hollow)


def nanobind_recipe(scene: Scene) -> Recipe:
    package = need("nanobind")
    out, source = scene.shop.out / "bench_nanobind.so", PEERS / "nanobind.cc"
    folder = Path(package.include_dir()).parent
    command = compile_command(
        "-std=c++17",
        "-fvisibility=hidden",
        "-fno-strict-aliasing",
        f"-I{scene.shop.python}",
        f"-I{folder}/include",
        f"-I{folder}/ext/robin_map/include",
    )
    command += [f"{folder}/src/nb_combined.cpp", str(source), "-o", str(out)]
    return Recipe(out, command, (source, HERE / "launcher.h"))


def nanobind(scene: Scene) -> Iterator[Row]:
    module = load("bench_nanobind", nanobind_recipe(scene).make(scene))
    module.setup(*scene.addresses())
    full, hollow = getattr(module, scene.device), getattr(module, f"{scene.device}_hollow")
    yield from on_torch(scene, "nanobind", full, hollow)


def torch_command(scene: Scene, source: Path, out: Path) -> list[str]:
    """As torch.utils.cpp_extension has it, but optimised as our modules are."""
    where = Path(torch.__path__[0])
    flags = ["-std=c++20", f"-DTORCH_EXTENSION_NAME={out.stem}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    places = [where / "include", where / "include/torch/csrc/api/include", Path(scene.shop.python)]
    libraries = ["c10", "torch_cpu", "torch", "torch_python"]
    if scene.cuda:
        flags.append("-DWITH_CUDA")
        places.append(Path(scene.shop.toolkit()))
        libraries.append("c10_cuda")
    return [
        *compile_command(*flags, *(f"-isystem{place}" for place in places)),
        str(source),
        "-o",
        str(out),
        f"-L{where}/lib",
        f"-Wl,-rpath,{where}/lib",
        *(f"-l{name}" for name in libraries),
    ]


def torch_recipe(scene: Scene, source: Path, name: str) -> Recipe:
    out = scene.shop.out / f"{name}_{scene.device}.so"
    read = (source, PEERS / "torch_add.h", HERE / "launcher.h")
    return Recipe(out, torch_command(scene, source, out), read)


def extension_recipe(scene: Scene) -> Recipe:
    return torch_recipe(scene, PEERS / "torch_extension.cc", "extension")


def operator_recipe(scene: Scene) -> Recipe:
    return torch_recipe(scene, PEERS / "torch_op.cc", "operator")


def torch_extension(scene: Scene) -> Iterator[Row]:
    out = extension_recipe(scene).make(scene)
    module = load(out.stem, out)
    module.setup(*scene.addresses())
    yield from on_torch(scene, "pybind11, torch", module.add_f32, module.hollow)


def torch_ops(scene: Scene) -> Iterator[Row]:
    out = operator_recipe(scene).make(scene)
    torch.ops.load_library(out)
    ctypes.CDLL(str(out)).bench_setup(*map(ctypes.c_int64, scene.addresses()))
    # The overload, which is found faster than the packet of all overloads.
    yield from on_torch(scene, "torch.ops", torch.ops.aicf_bench.add_out.default)
    for kind, (a, b, _), owners in scene.kinds():
        who = "torch.ops, functional"
        block = scene.clock.call(torch.ops.aicf_bench.add.default, (a, b))
        beside = (f"generic, allocating: {kind}",)
        yield Row(f"{who}: {kind}", who, kind, block, beside=beside, keep=owners)


# ---- those that have kernels of their own ------------------------------------------------------


def torch_add(scene: Scene) -> Iterator[Row]:
    forms = ("typed", "generic, out=")
    yield from on_torch(scene, "torch.add(out=)", torch.add, names=("out",), forms=forms)
    for kind, (a, b, _), owners in scene.kinds():
        block = scene.clock.call(torch.add, (a, b))
        beside = (f"generic, allocating: {kind}",)
        yield Row(f"torch.add: {kind}", "torch.add", kind, block, beside=beside, keep=owners)


def arrays() -> tuple[Any, Any, Any]:
    a, b, out = (np.ones(ELEMENTS, "f4") for _ in range(3))
    return a, b, out


def strided_arrays() -> tuple[Any, Any, Any]:
    a, b, out = (np.ones((ELEMENTS // 4, 8), "f4")[:, ::2] for _ in range(3))
    return a, b, out


def on_numpy(scene: Scene, who: str, function: Function) -> Iterator[Row]:
    for kind, make in (("numpy", arrays), ("numpy, strided", strided_arrays)):
        beside = (f"typed: {kind}",)
        yield Row(f"{who}: {kind}", who, kind, scene.clock.call(function, make()), beside=beside)


def numpy_add(scene: Scene) -> Iterator[Row]:
    yield from on_numpy(scene, "np.add", np.add)
    beside: tuple[str, ...] = ("generic, out=: numpy",)
    block = scene.clock.call(np.add, arrays(), ("out",))
    yield Row("np.add(out=): numpy", "np.add(out=)", "numpy", block, beside=beside)
    block = scene.clock.call(np.add, arrays()[:2])
    beside = ("generic, allocating: numpy",)
    yield Row("np.add, allocating: numpy", "np.add, allocating", "numpy", block, beside=beside)


def need_numba(module: str) -> Any:
    """numba, which names a function that numpy has no more from 2.5 on, and does not call it."""
    if not hasattr(np, "row_stack"):
        vars(np)["row_stack"] = np.vstack
    return need(module)


def numba_cpu(scene: Scene) -> Iterator[Row]:
    numba = need_numba("numba")

    def loop(a: Any, b: Any, out: Any) -> None:
        for i in range(len(a)):
            out[i] = a[i] + b[i]

    def one(a: float, b: float) -> float:
        return a + b

    compiled = numba.njit(loop)
    block = scene.clock.call(compiled, arrays())
    yield Row("numba njit: numpy", "numba njit", "numpy", block, beside=("typed: numpy",))
    yield from on_numpy(
        scene, "numba vectorize", numba.vectorize(["float32(float32, float32)"])(one)
    )


def numba_cuda(scene: Scene) -> Iterator[Row]:
    cuda = need_numba("numba.cuda")

    def kernel(a: Any, b: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < a.size:
            out[i] = a[i] + b[i]

    launch = cuda.jit(kernel)[BLOCKS, THREADS]
    three = tuple(cuda.as_cuda_array(t) for t in scene.three())
    block = scene.clock.call(launch, three)
    beside = (*scene.loops, "typed: torch")
    yield Row("numba.cuda: its own", "numba.cuda", "its own", block, beside=beside)


def cupy(scene: Scene) -> Iterator[Row]:
    module = need("cupy")
    text = (
        'extern "C" __global__ void add(const float *a, const float *b, float *out, long long n)'
        "{ long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;"
        " if (i < n) { out[i] = a[i] + b[i]; } }"
    )
    kernel = module.RawKernel(text, "add")
    a, b, out = (module.ones(ELEMENTS, "f4") for _ in range(3))
    arguments = ((BLOCKS,), (THREADS,), (a, b, out, np.int64(ELEMENTS)))
    block = scene.clock.call(kernel, arguments)
    beside = (*scene.loops, "typed: torch")
    yield Row("cupy RawKernel: cupy", "cupy RawKernel", "cupy", block, beside=beside)


def triton(scene: Scene) -> Iterator[Row]:
    need("triton")
    from bench.peers.triton_add import kernel

    # The launcher for a grid, taken once: what is left is what each launch costs.
    launch = kernel[(BLOCKS,)]
    for kind, three, owners in scene.kinds():
        block = scene.clock.call(launch, (*three, ELEMENTS, THREADS), ("BLOCK",))
        beside = (*scene.loops, f"typed: {kind}")
        yield Row(f"Triton: {kind}", "Triton", kind, block, beside=beside, keep=owners)


# By name: where it is measured, and how. The order is that of the table.
PEERS_BY_NAME: dict[str, tuple[str, Callable[[Scene], Iterator[Row]]]] = {
    "apache-tvm-ffi": ("cpu cuda", tvm_ffi),
    "nanobind": ("cpu cuda", nanobind),
    "pybind11": ("cpu cuda", torch_extension),
    "torch.ops": ("cpu cuda", torch_ops),
    "torch.add": ("cpu cuda", torch_add),
    "cupy": ("cuda", cupy),
    "triton": ("cuda", triton),
    "numba.cuda": ("cuda", numba_cuda),
    "numba": ("cpu", numba_cpu),
    "numpy": ("cpu", numpy_add),
}


# Those that are compiled: all at once, since torch's headers alone take as long as the others.
COMPILED: dict[str, Callable[[Scene], Recipe]] = {
    "apache-tvm-ffi": tvm_recipe,
    "nanobind": nanobind_recipe,
    "pybind11": extension_recipe,
    "torch.ops": operator_recipe,
}


def compile_ahead(scene: Scene, asked: list[str] | None) -> None:
    """What fails is told where the peer's rows are made."""

    def attempt(recipe: Callable[[Scene], Recipe]) -> None:
        with contextlib.suppress(Exception):
            recipe(scene).make(scene)

    with ThreadPoolExecutor() as pool:
        list(pool.map(attempt, [r for n, r in COMPILED.items() if asked is None or n in asked]))


def version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def rows(scene: Scene, asked: list[str] | None, absent: dict[str, str]) -> Iterator[Row]:
    """The rows of all that are here; why the others are not is put into `absent`."""
    compile_ahead(scene, asked)
    for name, (devices, make) in PEERS_BY_NAME.items():
        if scene.device not in devices.split():
            continue
        if asked is not None and name not in asked:
            absent[name] = "not asked for"
            continue
        try:
            yield from list(make(scene))
        except Absent as reason:
            absent[name] = str(reason)
        except Exception as error:  # whatever a framework raises where it does not work
            absent[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
