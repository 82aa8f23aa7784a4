"""Small tables, and what opgen writes from them, for the tests of its output."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

from generator.program import ROOT, Opgen

TEMPLATES = ROOT / "templates"
HEAD = """\
schema: 1
package: demo
namespace: demo
backends:
  cpu: {devices: [cpu], suffix: .c}
ops:
"""
# C of the modules and descriptors, as strict as it gets.
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion", "-Wtrigraphs")


def scalar(text: str) -> str:
    """The text as a double-quoted scalar of YAML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\x7f")


def row(name: str, doc: str = "out = x.", kernel: str = "loop") -> str:
    """A row of one tensor and one out. The doc may be any text: JSON strings are YAML."""
    return f"""\
  - op: {name}
    doc: {scalar(doc)}
    types: {{T: [f32, f16]}}
    args: [{{name: x, tensor: T, shape: "A.."}}]
    outs: [{{name: out, tensor: T, shape: "A.."}}]
    kernels: [{{id: {kernel}, backend: cpu}}]
"""


def table(folder: Path, *rows: str, head: str = HEAD) -> Path:
    """Writes a table of these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ops.yaml"
    path.write_text(head + "".join(rows), encoding="utf-8")
    return path


def generate(opgen: Opgen, path: Path, out: Path, templates: Path = TEMPLATES) -> None:
    """Runs opgen, which must succeed without a word."""
    said = opgen.run("--templates", templates, "--out", out, path)
    assert (said.returncode, said.stderr, said.stdout) == (0, "", "")


def files(folder: Path) -> dict[str, bytes]:
    """All files under a folder, but for the stamp."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != ".opgen"
    }


def compile_c(source: Path, generated: Path, *flags: str | Path) -> None:
    """Compiles a generated file with every warning an error."""
    said = subprocess.run(
        [
            "gcc", *STRICT, "-DPy_LIMITED_API=0x030b0000", "-I", generated / "include",
            "-I", ROOT / "include", "-I", sysconfig.get_path("include"), source, *flags,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr


def create_module(generated: Path, op: str, folder: Path, *include: Path) -> ModuleType:
    """The generated module as Python creates it: docs and methods are there, nothing is run."""
    module = generated / "modules" / f"{op}.c"
    symbol = re.search(rf"\w+_{op}_op\b", module.read_text())
    assert symbol
    source = folder / f"{op}_stub.c"
    source.write_text(f'#include "aicf_ops/{op}.h"\nconst aicf_op {symbol[0]} = {{0}};\n')
    target = folder / f"{op}.abi3.so"
    flags = [flag for path in include for flag in ("-I", path)]
    compile_c(module, generated, source, *flags, "-shared", "-fPIC", "-o", target)
    loader = importlib.machinery.ExtensionFileLoader(op, str(target))
    spec = importlib.util.spec_from_loader(op, loader)
    assert spec
    return importlib.util.module_from_spec(spec)
