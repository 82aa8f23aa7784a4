"""The others: each binds the same launcher, or has a kernel of its own, and is called on the same
tensors. One that is not installed, or does not build here, is named with the reason."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.calls.build import HERE, PEERS, Workshop, run


class Absent(Exception):
    """Why a peer is not in the table."""


def need(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise Absent("not installed")


def tool(name: str) -> str:
    """A program of the Python that runs, or of the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise Absent(f"no {name}")
    return found


def tvm(shop: Workshop, addresses: tuple[int, int, int]) -> tuple[Callable[..., Any], ...]:
    """Its function with the launch and without."""
    need("tvm_ffi")
    import tvm_ffi
    from tvm_ffi import libinfo

    out, source = shop.out / "tvm.so", PEERS / "tvm.cc"
    found = [*libinfo.include_paths()]
    flags = [f"-I{path}" for path in found]
    library = Path(libinfo.find_libtvm_ffi())
    command = ["g++", "-std=c++17", "-O2", "-fPIC", "-shared", f"-I{HERE}", *flags, str(source)]
    link = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    shop.make(out, [[*command, "-o", str(out), *link]], source, HERE / "launcher.h")
    module = tvm_ffi.load_module(str(out))
    module.setup(*addresses)
    return module.add_f32, module.hollow
