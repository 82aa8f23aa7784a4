"""The shared libraries: what they export, need, and say on a machine without a GPU."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runtime import building

CALLS = building.LIBRARY / "cuda" / "calls.txt"


def exports(library: Path) -> dict[str, str]:
    """Symbol -> version."""
    lines = building.run(["nm", "-D", "--defined-only", library]).splitlines()
    pairs = [line.split()[-1].partition("@@") for line in lines if "@@" in line]
    return {name: version for name, _, version in pairs}


def cuda_exports(library: Path) -> set[str]:
    return {name for name in exports(library) if re.match(r"(__)?cuda", name)}


def needed(library: Path) -> set[str]:
    said = building.run(["readelf", "-d", library])
    assert "RPATH" not in said
    assert "RUNPATH" not in said
    assert "Library soname: [libaicf.so.1]" in said
    return set(re.findall(r"Shared library: \[(\S+)\]", said))


def declared() -> set[str]:
    """The functions and objects that the public headers promise."""
    text = "".join(
        (building.ROOT / "include" / "aicf" / name).read_text(encoding="utf-8")
        for name in (
            "tensor.h",
            "call.h",
            "explain.h",
            "repeat.h",
            "cpu/conv.h",
            "cpu/conv_i8.h",
            "cpu/convert.h",
            "cpu/openblas.h",
            "cpu/product.h",
            "backend/cpu.h",
            "backend/cuda.h",
        )
    )
    text = re.sub(r"/\*.*?\*/|static inline[^}]*}", "", text, flags=re.DOTALL)
    lists = re.findall(
        r"^extern const aicf_(?:backend|converter|repeats \*const) ([^;]*);", text, re.MULTILINE
    )
    objects = re.findall(r"\w+", " ".join(lists))
    functions = re.findall(r"^(?:[a-z][\w \*]*?\b)?(aicf_\w+)\(", text, re.MULTILINE)
    assert len(functions) > 20
    return set(objects) | {f for f in functions if not f.endswith("_fn")}


def test_exports_are_what_headers_declare(host_library: Path) -> None:
    found = {name for name in exports(host_library) if name != "AICF_1"}
    assert found == declared()
    assert set(exports(host_library).values()) <= {"AICF_1", ""}
    assert needed(host_library) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


@pytest.mark.guests("nvcc")
@pytest.mark.promise("I2", "I3")
def test_one_cuda_runtime(cuda_library: Path, shim_library: Path) -> None:
    """The calls of the list, under our version; no libcuda, libcudart or libstdc++ is needed."""
    lines = CALLS.read_text("utf-8").splitlines()
    listed = {line.split()[0] for line in lines if not line.startswith("#")}
    archive = building.cuda_tool("archive", "nvcc")
    names = building.run(["sh", "-c", f"nm --defined-only {archive} 2>/dev/null"])
    has = {line.split()[-1] for line in names.splitlines() if len(line.split()) == 3}
    for library in (cuda_library, shim_library):
        assert cuda_exports(library) == listed & has
        assert {exports(library)[name] for name in listed & has} == {"AICF_1"}
        assert needed(library) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    rest = {n for n in exports(cuda_library) if n not in cuda_exports(cuda_library) | {"AICF_1"}}
    assert rest == declared()


@pytest.mark.guests("nvcc")
@pytest.mark.promise("I3")
def test_calls_of_kernels_are_exported(kernel_object: Path, cuda_library: Path) -> None:
    lines = building.run(["nm", "-u", kernel_object]).splitlines()
    wanted = {name for line in lines if re.match(r"(__)?cuda", name := line.split()[-1])}
    assert wanted <= cuda_exports(cuda_library)


def run_python(code: str, *arguments: str | Path, **environment: str) -> str:
    return building.run([sys.executable, "-S", "-c", code, *arguments], **environment)


SAYS = """
import ctypes, sys
class Backend(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("version", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("host", ctypes.c_bool), ("unusable", ctypes.CFUNCTYPE(ctypes.c_char_p))]
library = ctypes.CDLL(sys.argv[1])
for name in ("cpu", "cuda"):
    backend = Backend.in_dll(library, "aicf_backend_" + name)
    assert backend.name == name.encode()
    print(name, backend.host, backend.unusable())
"""


@pytest.mark.promise("I2", "C8")
def test_without_cuda(host_library: Path) -> None:
    said = run_python(SAYS, host_library).splitlines()
    assert said[0] == "cpu True None"
    assert "this build has no CUDA" in said[1]


@pytest.mark.guests("nvcc")
@pytest.mark.promise("I2", "C8")
def test_without_a_driver(cuda_library: Path) -> None:
    """The real CUDA runtime, on a machine that has no driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        said = run_python(SAYS, cuda_library).splitlines()
        assert "cudaErrorInsufficientDriver (35)" in said[1]
        assert "No CUDA driver" in said[1]
    else:
        said = run_python(SAYS, cuda_library, CUDA_VISIBLE_DEVICES="").splitlines()
        assert "cudaErrorNoDevice" in said[1]


@pytest.mark.guests("nvcc")
@pytest.mark.promise("I6")
def test_loading_calls_nothing(shim_library: Path, tmp_path: Path) -> None:
    run_python("import ctypes, sys; ctypes.CDLL(sys.argv[1])", shim_library, AICF_SHIM_ABORT="1")
    log = tmp_path / "log"
    said = run_python(SAYS, shim_library, AICF_SHIM_LOG=str(log))
    assert said.splitlines()[1] == "cuda False None"
    assert log.read_text().splitlines()[-1] == "cudaGetDeviceCount device=0 error=0"
    died = subprocess.run(
        [sys.executable, "-S", "-c", SAYS, shim_library],
        env={"AICF_SHIM_ABORT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode < 0
    assert "shim: cudaPeekAtLastError was called" in died.stderr


@pytest.mark.guests("nvcc")
def test_shim_fails_by_environment(shim_library: Path) -> None:
    said = run_python(SAYS, shim_library, AICF_SHIM_FAIL="cudaGetDeviceCount:802,cudaMalloc:2")
    assert "cudaErrorSystemNotReady (802)" in said
