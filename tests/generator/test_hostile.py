"""Tables that nobody means well with: what they cost is bounded, and what is accepted compiles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from generator.faults import BASE
from generator.program import Opgen
from generator.tables import compile_c, generate, row, table

ALWAYS = (
    "act == 'a' and act == 'b'",
    "act == 'a' or act == 'a'",
    "k > 1 or k <= 1",
    "k == 3 and k != 3",
    "r > 1.0 or r > 1.0",
    "deep and not deep",
    "deep or deep or deep",
    "(2 if deep else 2) == 2",
    "len(st) == 2",
    "min(1, 2) == 1",
    "N % N == 0 and N // N == 1",
    "N >= 0 or N >= 0",
    "present(x) or present(x)",
)


def test_conditions_that_always_hold_compile(opgen: Opgen, tmp_path: Path) -> None:
    """Also where the user's own flags ask for more warnings than ours."""
    wheres = "".join(f'      "{text}": "m{i}"\n' for i, text in enumerate(ALWAYS))
    rows = f"""\
  - op: f
    doc: "x"
    types: {{T: [f32]}}
    args:
      - {{name: x, tensor: T, shape: "N M"}}
      - {{name: act, attr: enum, values: [a, b], default: a}}
      - {{name: r, attr: float, default: 1.0}}
      - {{name: k, attr: int, default: 1}}
      - {{name: deep, attr: bool, default: true}}
      - {{name: st, attr: ints, size: 2, default: 1}}
    where:
{wheres}    outs: [{{name: out, tensor: T, shape: "N M"}}]
    kernels: [{{id: loop, backend: cpu}}]
"""
    out = tmp_path / "out"
    generate(opgen, table(tmp_path, rows), out)
    flags = ("-Wlogical-op", "-Wduplicated-branches", "-O2", "-c", "-o", tmp_path / "f.o")
    compile_c(out / "ops" / "f_op.c", out, *flags)


def test_a_scalar_of_a_faulty_class(sanitized_opgen: Opgen, tmp_path: Path) -> None:
    """The map of a scalar's dtype has a class in it that is not there."""
    text = BASE.replace("{name: value, scalar: T}", "{name: value, scalar: acc(T)}")
    text = text.replace("acc: {f16: f32,", "acc: {nothing: f32,")
    path = tmp_path / "ops.yaml"
    path.write_text(text, encoding="utf-8")
    assert {fault.id for fault in sanitized_opgen.faults(path)} == {"unknown-dtype"}


@pytest.mark.promise("G8")
@pytest.mark.parametrize("name", ["int64_t", "int16_t", "uint8_t", "size_t"])
def test_types_of_launchers_are_no_names(opgen: Opgen, name: str, tmp_path: Path) -> None:
    path = table(tmp_path, row("f").replace("name: x,", f"name: {name},"))
    assert [fault.id for fault in opgen.faults(path)] == ["name-keyword"]


@pytest.mark.promise("G8")
@pytest.mark.parametrize(
    "name", ["doc", "module", "head", "call", "state", "file", "generic", "exp"]
)
def test_names_of_the_generated_code_are_free(opgen: Opgen, name: str, tmp_path: Path) -> None:
    """As an op, its typed functions being <op>_<suffix>, and as an argument."""
    out = tmp_path / "out"
    generate(opgen, table(tmp_path, row(name).replace("name: x,", f"name: {name},")), out)
    for source in (out / "ops" / f"{name}_op.c", out / "modules" / f"{name}.c"):
        compile_c(source, out, "-fsyntax-only")


def test_a_file_that_is_far_too_large(opgen: Opgen, tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_bytes(b"# " + b"x" * 50_000_000)
    said = opgen.run("--check", path)
    assert (said.returncode, said.stderr) == (1, f"opgen: {path}: cannot be read: File too large\n")
    assert opgen.run("--check", "/dev/zero").returncode == 1


def test_faults_without_end(opgen: Opgen, tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text("schema: 1\nops:\n" + "- &a x\n" * 100_000, encoding="utf-8")
    limit = f'ulimit -v 1000000; exec "{opgen.path}" --check "{path}"'
    said = subprocess.run(["sh", "-c", limit], capture_output=True, encoding="utf-8", timeout=60)
    assert said.returncode == 1
    assert said.stderr.count(": error: ") == 10_000
    assert said.stderr.endswith(" faults more, not shown\n")
