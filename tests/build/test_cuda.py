"""The build with nvcc: archs, records, backends that come and go. Needs the compiler and no GPU."""

from __future__ import annotations

import fcntl
import importlib.util
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import checkout
from checkout import OPS, PACKAGE, Checkout, script

KERNELS = [
    "kernels/add/add.cu",
    "kernels/hop/hop.cu",
    "kernels/hop/hop_sm_90a.cu",
    "kernels/shift/shift.cu",
]
pytestmark = pytest.mark.guests("nvcc")


@pytest.fixture(scope="session")
def cuda_once(built_once: Checkout, scratch: Path) -> Checkout:
    """The small table, built with CUDA for the default archs. Not to be changed."""
    with open(scratch / "cuda.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = scratch / "cuda"
        made = Checkout(root, {**built_once.variables, "CUDA": "1"})
        assert not root.exists() or (root / "cuda-done").exists(), "the first build failed"
        if not root.exists():
            built_once.copy(root)
            made.make("-j2")
            (root / "cuda-done").touch()
    return made


@pytest.fixture
def cuda(cuda_once: Checkout, tmp_path: Path) -> Iterator[Checkout]:
    """A checkout built with CUDA, of this test's own."""
    copy = cuda_once.copy(tmp_path / "tree")
    yield copy
    shutil.rmtree(tmp_path, ignore_errors=True)


def cuobjdump() -> str:
    """The tool that lists device code: the toolkit's, or the one of requirements.txt."""
    beside = importlib.util.find_spec("nvidia")
    for folder in beside.submodule_search_locations or [] if beside else []:
        for path in sorted(Path(folder).glob("cu*/bin/cuobjdump")):
            path.chmod(0o755)
            return str(path)
    found = shutil.which("cuobjdump")
    assert found, "no cuobjdump: make bootstrap"
    return found


def device_code(path: Path) -> set[str]:
    """The archs in a file: sm_80 for machine code, compute_90 for PTX."""
    found = set()
    for option, pattern in (("-lelf", r"\.sm_(\w+)\.cubin"), ("-lptx", r"\.sm_(\w+)\.ptx")):
        said = subprocess.run(
            [cuobjdump(), option, str(path)], capture_output=True, text=True, check=False
        ).stdout
        found |= {
            ("sm_" if option == "-lelf" else "compute_") + a for a in re.findall(pattern, said)
        }
    return found


def module(tree: Checkout, op: str) -> Path:
    return tree.root / f"build/python/{PACKAGE}/{op}.abi3.so"


def kernel(tree: Checkout, source: str) -> Path:
    op = source.split("/")[1]
    return tree.root / f"build/kernels/{op}/{source}.o"


@pytest.mark.promise("B12", "B19", "B13")
def test_default_archs_and_the_kernel_for_one_alone(cuda_once: Checkout) -> None:
    everything = {"sm_80", "sm_90", "compute_90"}
    assert device_code(module(cuda_once, "add")) == everything
    assert device_code(kernel(cuda_once, "kernels/hop/hop.cu")) == everything
    assert device_code(kernel(cuda_once, "kernels/hop/hop_sm_90a.cu")) == {"sm_90a"}
    assert device_code(module(cuda_once, "hop")) == everything | {"sm_90a"}
    assert device_code(module(cuda_once, "twice")) == set()


@pytest.mark.promise("B4", "DESIGN-6-second-make")
def test_second_make_does_nothing(cuda_once: Checkout) -> None:
    assert cuda_once.fresh()
    assert cuda_once.make().steps == []


@pytest.mark.promise("B12", "DESIGN-6-flags")
def test_other_archs_rebuild_what_they_touch(cuda: Checkout) -> None:
    made = cuda.make("-j2", "CUDA_ARCHS=90 90a")
    assert made.verbs("NVCC", "CC") == [k for k in KERNELS if "90a" not in k]
    assert {Path(p).name for p in made.verbs("LINK")} == {
        "add.abi3.so",
        "hop.abi3.so",
        "shift.abi3.so",
    }
    assert device_code(module(cuda, "add")) == {"sm_90"}
    assert cuda.fresh("CUDA_ARCHS=90 90a")

    made = cuda.make("-j2", "CUDA_ARCHS=90")
    assert made.verbs("NVCC") == []
    assert [Path(p).name for p in made.verbs("LINK")] == ["hop.abi3.so"]
    assert device_code(module(cuda, "hop")) == {"sm_90"}

    made = cuda.make("-j2", "CUDA_ARCHS=sm_90a compute_80", "OPS=add hop")
    assert device_code(module(cuda, "add")) == {"sm_90a", "compute_80"}
    assert device_code(module(cuda, "hop")) == {"sm_90a", "compute_80"}


@pytest.mark.promise("DESIGN-6-flags")
def test_nvcc_flags_touch_kernels_alone(cuda: Checkout) -> None:
    made = cuda.make("-j2", "NVCCFLAGS=--maxrregcount=64", "CUDA_ARCHS=90 90a", "kernels")
    assert made.verbs("NVCC") == KERNELS
    assert made.verbs("CC") == []


@pytest.mark.promise("DESIGN-6-flags")
def test_cflags_touch_no_cuda_kernel(cuda: Checkout) -> None:
    made = cuda.make("-j2", "CFLAGS=-DNOTHING", "kernels")
    assert made.verbs("NVCC") == []
    assert "kernels/add/add.c" in made.verbs("CC")


KINDS = {
    r"generator/.*\.o$": "opgen",
    r"build/opgen$": "link opgen",
    r"ops/hop_op\.o$": "descriptor",
    r"ops/hop_code\.o$": "code",
    r"modules/hop\.o$": "module",
    r"kernels/hop/hop\.cu\.o$": "cuda kernel",
    r"kernels/hop/hop\.c\.o$": "cpu kernel",
    r"hop\.abi3\.so$": "link",
    r"runtime/core/.*\.o$": "core",
    r"_core\.abi3\.so$": "link core",
    r"cuda/cudart\.(a|o)$": "cudart",
    r"libaicf/cuda/(?!cudart|absent).*\.o$": "cuda runtime",
    r"runtime/libaicf/\w+\.o$": "runtime",
    r"libaicf\.so\.1$": "link runtime",
}
C = {"opgen", "descriptor", "code", "module", "cpu kernel", "core", "runtime", "cuda runtime"}
LINKS = {"link", "link core", "link runtime", "link opgen"}
REMAKES = {
    "CC=env gcc": C | LINKS | {"cudart"},
    "CFLAGS=-DNOTHING": C | LINKS,
    "LDFLAGS=-Wl,--hash-style=gnu": LINKS,
    "NVCC=env nvcc": {"cuda kernel", "cuda runtime", "cudart", "link", "link runtime"},
    "NVCCFLAGS=--maxrregcount=64": {"cuda kernel", "link"},
    "CUDA_ARCHS=90 90a": {"cuda kernel", "code", "link"},
    "PYTHON={python}": {"module", "core", "link", "link core"},
    "CUDA=0": {"link", "link runtime"},
}


def written(tree: Checkout) -> dict[str, set[int]]:
    """When what compilers and linkers made for one op and for all was written, by its kind."""
    found: dict[str, set[int]] = {kind: set() for kind in KINDS.values()}
    for path, when in tree.times("build").items():
        for pattern, kind in KINDS.items():
            if re.search(pattern, path):
                found[kind].add(when)
    assert all(found.values()), found
    return found


@pytest.mark.promise("DESIGN-6-flags")
@pytest.mark.parametrize("given", REMAKES)
def test_a_variable_remakes_all_that_is_made_with_it_and_nothing_else(
    cuda: Checkout, tmp_path: Path, given: str
) -> None:
    include = tmp_path / "include"
    shutil.copytree(sysconfig.get_paths()["include"], include)
    python = script(tmp_path / "python", f"echo .abi3.so -DPy_LIMITED_API=0x030b0000 {include}\n")
    variable = given.format(python=python)
    before = written(cuda)
    cuda.make("-j2", "OPS=hop", variable)
    after = written(cuda)
    for kind, times in before.items():
        remade, left = after[kind] - times, after[kind] & times
        assert not left if kind in REMAKES[given] else not remade, f"{given}: {kind}"
    assert cuda.fresh("OPS=hop", variable)


@pytest.mark.promise("DESIGN-6-flags", "B14")
def test_another_nvcc_of_two_words(cuda: Checkout, tmp_path: Path) -> None:
    log = tmp_path / "log"
    wrapper = script(tmp_path / "wrap", f'echo "$*" >>{log}\nexec "$@"\n')
    made = cuda.make("-j2", f"NVCC={wrapper} {shutil.which('nvcc')}", "kernels")
    assert made.verbs("NVCC") == KERNELS
    assert made.verbs("CC") == []
    assert len([x for x in log.read_text(encoding="utf-8").splitlines() if " -c " in x]) == len(
        KERNELS
    )


@pytest.mark.promise("B5", "B7")
def test_headers_of_cuda_kernels(cuda: Checkout) -> None:
    before = kernel(cuda, "kernels/shift/shift.cu").read_bytes()
    cuda.edit("kernels/common/amount.h", "AMOUNT 10", "AMOUNT 20")
    made = cuda.make("-j2")
    assert made.verbs("CC", "NVCC") == ["kernels/shift/shift.c", "kernels/shift/shift.cu"]
    assert kernel(cuda, "kernels/shift/shift.cu").read_bytes() != before
    assert cuda.fresh()

    (cuda.root / "kernels/common/amount.h").rename(cuda.root / "kernels/common/quantity.h")
    cuda.edit("kernels/shift/shift.h", "../common/amount.h", "../common/quantity.h")
    assert cuda.make("-j2").verbs("NVCC") == ["kernels/shift/shift.cu"]
    assert cuda.fresh()


@pytest.mark.promise("B5")
def test_what_is_said_of_kernels_on_the_host(cuda: Checkout) -> None:
    """Once an object, not once a kernel: how `<<<>>>` launches and how a kernel is registered. No
    depfile names the header that says it, and its edit remakes all that has it in."""
    objects = [kernel(cuda, source) for source in KERNELS]
    for path in objects:
        said = subprocess.run(
            ["objdump", "-dr", str(path)], capture_output=True, text=True, check=True
        ).stdout
        for call in ("__cudaRegisterFunction", "__cudaPopCallConfiguration"):
            assert len(re.findall(rf"R_X86_64_\w+\s+{call}\b", said)) == 1, (path.name, call)
        assert "__cudaGetKernel" not in said
    cuda.edit("include/aicf/cuda/host/crt/host_runtime.h", "bool tile = false", "bool tile = true")
    assert cuda.make("-j2").verbs("CC", "NVCC") == sorted(KERNELS)
    assert cuda.fresh()


@pytest.mark.promise("B7")
def test_a_toolkit_that_moved_stops_nothing(cuda: Checkout) -> None:
    """Depfiles may name headers of a toolkit that is gone: as if one had been recorded."""
    depfile = Path(f"{kernel(cuda, 'kernels/add/add.cu')}.d")
    text = depfile.read_text(encoding="utf-8")
    depfile.write_text(
        text.replace(":", ": /opt/old-cuda/include/gone.h", 1)
        + "\n/opt/old-cuda/include/gone.h:\n",
        encoding="utf-8",
    )
    assert cuda.make().verbs("NVCC") == ["kernels/add/add.cu"]
    assert cuda.fresh()


@pytest.mark.promise("DESIGN-3-backends", "DESIGN-6-flags")
def test_backends_come_and_go_without_a_clean(cuda: Checkout) -> None:
    ask = (
        f"from {PACKAGE} import add; import numpy; x = numpy.ones(4, 'f4')\n"
        "print(add.explain(x, x, numpy.empty_like(x)))"
    )
    assert "not built" not in cuda.python(ask)

    made = cuda.make("-j2", "CUDA=0")
    assert made.verbs("CC", "NVCC") in ([], ["runtime/libaicf/cuda/absent.c"])
    assert device_code(module(cuda, "add")) == set()
    assert cuda.call("add", 1.0, 2.0) == [3.0]

    made = cuda.make("-j2", "CUDA=1", "CPU=0")
    assert made.verbs("CC", "NVCC") == []
    assert device_code(module(cuda, "add")) == {"sm_80", "sm_90", "compute_90"}
    assert "not built" in cuda.python(ask)

    assert cuda.make("-j2").verbs("CC", "NVCC") == []
    assert cuda.call("add", 1.0, 2.0) == [3.0]
    assert cuda.fresh()


@pytest.mark.promise("DESIGN-6-identical")
def test_cuda_kernels_are_the_same_bytes_elsewhere(cuda_once: Checkout, tmp_path: Path) -> None:
    there = cuda_once.sources(tmp_path / "a longer path" / "with spaces")
    checkout.copy_tree(cuda_once.root / "build", there.root / "build")
    checkout.copy_tree(cuda_once.root / "generated", there.root / "generated")
    shutil.rmtree(there.root / "build/kernels")
    made = there.make("-j2")
    assert made.verbs("NVCC") == KERNELS
    for source in KERNELS:
        assert kernel(there, source).read_bytes() == kernel(cuda_once, source).read_bytes(), source
    for op in OPS:
        assert module(there, op).read_bytes() == module(cuda_once, op).read_bytes(), op
    shutil.rmtree(tmp_path)


@pytest.mark.promise("I8", "STYLE-exports")
def test_cuda_modules_need_nothing_but_libaicf(cuda_once: Checkout) -> None:
    for op in OPS:
        run = subprocess.run(
            ["readelf", "-dW", str(module(cuda_once, op))],
            capture_output=True,
            text=True,
            check=True,
        )
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", run.stdout))
        assert needed <= {"libaicf.so.1", "libc.so.6", "libm.so.6"}
        names = subprocess.run(
            ["nm", "-D", "--defined-only", str(module(cuda_once, op))],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[2::3]
        assert names == [f"PyInit_{op}"]


@pytest.mark.promise("I2", "B13")
def test_cuda_modules_import_without_a_driver(cuda_once: Checkout) -> None:
    assert cuda_once.python(f"import {PACKAGE}.add, {PACKAGE}.hop; print('here')") == "here"


@pytest.mark.promise("DESIGN-6-debug")
def test_line_numbers_only_for_debuggers(cuda: Checkout) -> None:
    given = ("OPS=shift", "CUDA_ARCHS=90", "OPGEN=build/opgen", "kernels")
    cuda.make("-j2", "DEBUG=1", *given)
    debug = cuda.root / "build-debug/kernels/shift/kernels/shift/shift.cu.o"
    assert b"shift.cu" in debug.read_bytes().replace(b"shift/shift.cu", b"shift.cu")
    assert ".nv_debug_line" not in kernel(cuda, "kernels/shift/shift.cu").read_bytes().decode(
        "latin-1"
    )


def test_release_takes_every_arch_of_the_toolkit(cuda: Checkout, nvcc: str) -> None:
    said = subprocess.run(
        [nvcc, "--list-gpu-arch"], capture_output=True, text=True, check=True
    ).stdout
    numbers = [int(n) for n in re.findall(r"compute_(\d+)\n", said) if int(n) >= 75]
    cuda.make("-j2", "release", "OPS=hop", "CPU=0")
    expected = {f"sm_{n}" for n in numbers} | {f"compute_{max(numbers)}", "sm_90a"}
    assert device_code(module(cuda, "hop")) == expected


@pytest.mark.promise("B14")
def test_a_compiler_cache_hits(cuda: Checkout, tmp_path: Path) -> None:
    if shutil.which("ccache") is None:
        pytest.skip("ccache is not installed")
    environment = {"CCACHE_DIR": str(tmp_path / "cache"), "CCACHE_NOHASHDIR": "1"}
    given = [
        "CC=ccache gcc",
        f"NVCC=ccache {shutil.which('nvcc')}",
        "CUDA_ARCHS=90",
        "B=cached",
        "OPS=add shift",
        "OPGEN=build/opgen",
        "kernels",
    ]

    def hits() -> dict[str, int]:
        said = subprocess.run(
            ["ccache", "--print-stats"],
            env=cuda.environment(more=environment),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        pairs = (line.split("\t") for line in said.splitlines())
        return {name: int(value) for name, value in pairs}

    made = cuda.make("-j2", *given, environment=environment)
    compiled = len(made.verbs("CC", "NVCC"))
    objects = {p: p.read_bytes() for p in (cuda.root / "cached").rglob("*.o")}
    first = hits()
    shutil.rmtree(cuda.root / "cached")
    cuda.make("-j2", *given, environment=environment)
    second = hits()
    found = sum(second[k] - first[k] for k in ("direct_cache_hit", "preprocessed_cache_hit"))
    assert second["cache_miss"] == first["cache_miss"]
    assert found >= compiled
    assert {p: p.read_bytes() for p in (cuda.root / "cached").rglob("*.o")} == objects
    cuda.edit("kernels/common/amount.h", "AMOUNT 10", "AMOUNT 30")
    cuda.make("-j2", *given, environment=environment)
    assert hits()["cache_miss"] == second["cache_miss"] + 2


@pytest.mark.promise("BENCH-builds")
@pytest.mark.parametrize("source", ["bench/launch.cu", "bench/calls/loop.cu"])
def test_what_benchmarks_launch_compiles(source: str, tmp_path: Path) -> None:
    """They are compiled where they are measured, on machines that tests seldom see."""
    command = ["nvcc", "-std=c++17", "-arch=sm_90", "-c", f"-I{checkout.ROOT / 'include'}"]
    command += ["-o", str(tmp_path / "loops.o"), str(checkout.ROOT / source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
