"""What is in the libraries that are built: what they export, ask for and weigh."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from checkout import OPS, PACKAGE, ROOT, Checkout

BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"


def run(*command: str | Path) -> str:
    """What a tool of binutils says."""
    return subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=True
    ).stdout


def modules(tree: Checkout) -> list[Path]:
    found = sorted((tree.root / "build/python" / PACKAGE).glob("*.so"))
    assert [p.name for p in found] == sorted(f"{op}.abi3.so" for op in OPS)
    return found


@pytest.mark.promise("STYLE-exports", "I1")
def test_a_module_exports_its_init_function_alone(built_once: Checkout) -> None:
    for module in modules(built_once):
        exported = run("nm", "-D", "--defined-only", module).split("\n")
        names = [line.split()[-1] for line in exported if line]
        assert names == [f"PyInit_{module.name.split('.')[0]}"]


def bytes_beside_device_code(module: Path, scratch: Path) -> int:
    """What a module weighs without its CUDA kernels and the names that debuggers alone read."""
    stripped = scratch / module.name
    run("strip", "-o", stripped, module)
    device = re.search(r" \.nv_fatbin +PROGBITS +\w+ \w+ (\w+)", run("readelf", "-SW", stripped))
    return stripped.stat().st_size - (int(device[1], 16) if device else 0)


# Bytes of the modules that are larger, with CUDA: they have many kernels. They may not grow.
LARGER = {"gemm": 132_000}


@pytest.mark.promise("STYLE-exports")
def test_a_module_is_small(built_once: Checkout, tmp_path: Path) -> None:
    """The small table's, and those that this tree was built to, with CUDA or without."""
    whole = sorted((BUILT / "aicf_cuda").glob("*.so"))
    assert whole, f"no modules in {BUILT}: run make first"
    large = {}
    for module in [*modules(built_once), *whole]:
        size = bytes_beside_device_code(module, tmp_path)
        if size >= LARGER.get(module.name.split(".")[0], 100_000):
            large[module.name] = size
    assert not large, f"bytes beside device code: {large}"


def weak_functions(file: Path) -> dict[str, str]:
    """What each function of an object does of which the linker keeps one among equal names."""
    weak = {line.split()[-1] for line in run("nm", file).splitlines() if " W " in line}
    code = run("objdump", "-drw", "--no-show-raw-insn", file)
    found = {}
    for block in re.split(r"\n(?=[0-9a-f]+ <.*>:\n)", code):
        named = re.match(r"[0-9a-f]+ <(.*)>:\n", block)
        if named and named[1] in weak:
            # Where an object keeps its strings and what is its own differs from one to the next.
            found[named[1]] = re.sub(r"\.(rodata|data|bss|text|L)[^\s>]*", "local", block)
    return found


@pytest.mark.promise("STYLE-exports")
def test_a_name_is_one_function_in_all_sources_of_a_module() -> None:
    """Of two weak functions of one name the linker takes one for both, without a word: templates of
    two sources over types of one name and different members."""
    differ = []
    for folder in sorted((BUILT.parent / "kernels").iterdir()):
        seen: dict[str, tuple[str, Path]] = {}
        for file in sorted(folder.rglob("*.cu.o")):
            for name, code in weak_functions(file).items():
                first = seen.setdefault(name, (code, file))
                if first[0] != code:
                    differ.append(f"{name}: {first[1].name} and {file.name}")
    assert not differ, "\n".join(differ)


@pytest.mark.promise("I8")
def test_libraries_are_looked_for_beside_the_module_alone(built_once: Checkout) -> None:
    core = built_once.root / "build/python/aicf_rt/_core.abi3.so"
    for library in [*modules(built_once), core]:
        dynamic = run("readelf", "-dW", library)
        paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic)
        assert paths == ["$ORIGIN" if library == core else "$ORIGIN/../aicf_rt"]
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        assert "libaicf.so.1" in needed
        unwinder = {"libgcc_s.so.1"} if library == core else set()  # libc's own, see guarded.c
        assert needed <= {"libaicf.so.1", "libc.so.6", "libm.so.6"} | unwinder
        assert "BIND_NOW" in dynamic or "NOW" in dynamic


@pytest.mark.promise("I8")
def test_the_runtime_asks_for_no_library_of_a_toolkit(built_once: Checkout) -> None:
    dynamic = run("readelf", "-dW", built_once.root / "build/python/aicf_rt/libaicf.so.1")
    assert "[libaicf.so.1]" in dynamic
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed <= {
        "libc.so.6",
        "libm.so.6",
        "libdl.so.2",
        "librt.so.1",
        "libpthread.so.0",
        "ld-linux-x86-64.so.2",
    }
    assert "RUNPATH" not in dynamic


def test_sections_that_nothing_uses_are_dropped(tree: Checkout) -> None:
    source = tree.root / "kernels/hop/hop.c"
    with open(source, "a", encoding="utf-8") as file:
        file.write("\nconst char *unused_text(void);\nconst char *\nunused_text(void)\n{\n")
        file.write('    return "nobody reads this";\n}\n')
    tree.make()
    module = tree.root / f"build/python/{PACKAGE}/hop.abi3.so"
    assert b"nobody reads this" not in module.read_bytes()
