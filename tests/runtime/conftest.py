"""What the tests of libaicf share: each thing is built once a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime import building


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="session")
def checked_driver(built: Path) -> Path:
    """Under the address and the undefined-behaviour sanitizer."""
    options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    return building.build_driver(built / "checked", options)


@pytest.fixture(scope="session")
def threaded_driver(built: Path) -> Path:
    """Under the thread sanitizer."""
    return building.build_driver(built / "threaded", ["-fsanitize=thread"])


@pytest.fixture(scope="session")
def host_library(built: Path) -> Path:
    """libaicf without CUDA."""
    library = built / "host" / "python" / "aicf_rt" / "libaicf.so.1"
    building.make(built / "host", str(library), "CUDA=0")
    return library


@pytest.fixture(scope="session")
def shim_library(built: Path) -> Path:
    building.make(built / "cuda", "shim", "CUDA=1")
    return built / "cuda" / "shim" / "libaicf.so.1"


@pytest.fixture(scope="session")
def cuda_library(built: Path) -> Path:
    """libaicf with the CUDA runtime inside."""
    library = built / "cuda" / "python" / "aicf_rt" / "libaicf.so.1"
    building.make(built / "cuda", str(library), "CUDA=1")
    return library


@pytest.fixture(scope="session")
def kernel_object(built: Path) -> Path:
    """A kernel as nvcc compiles it for modules."""
    out = built / "kernel.o"
    options = ["-std=c++17", "-O2", "-cudart", "none", "-arch=sm_90"]
    options += ["-Xcompiler=-fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics"]
    include = building.ROOT / "include"
    options += [f"-I{include / 'aicf/cuda/host'}", f"-I{include}"]
    building.run(["nvcc", *options, "-c", building.HERE / "kernel.cu", "-o", out])
    return out


@pytest.fixture(scope="session")
def cuda_driver(built: Path, shim_library: Path, kernel_object: Path) -> Path:
    """The tests of the CUDA backend, over SHIM."""
    out = built / "over_shim"
    command: list[str | Path] = ["gcc", *building.WARNINGS]
    command += [f"-I{building.ROOT / 'include'}", f"-I{building.ROOT / 'runtime' / 'shim'}"]
    command += [building.HERE / f"{name}.c" for name in ("main", "rows", "cuda", "graphs")]
    command += [kernel_object, shim_library, f"-Wl,-rpath,{shim_library.parent}"]
    building.run([*command, "-o", out])
    return out
