"""Tables that nobody means well with: what they cost is bounded, and what is accepted compiles."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from generator.faults import BASE
from generator.program import ROOT, Opgen
from generator.tables import compile_c, generate, row, table

ALWAYS = (
    "act != 'a' and act != 'b'",
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


@pytest.mark.parametrize(
    "head, text, most",
    [
        ("", "- &a x\n", 1000),  # the reader finds them
        ("schema: 1\nops:\n", "  - {a: 1}\n", 1000),  # the check
        ("", "a: 1\n", 1000),
        ("", "- - - - - a\n", 1),  # values without end
        ("a: [", "[],", 1),
        ("", "&a : ", 1000),
    ],
)
def test_faults_without_end(opgen: Opgen, head: str, text: str, most: int, tmp_path: Path) -> None:
    """Of 30 MB, which once took 6 GB: a thousand are said, and the memory is of the text."""
    path = tmp_path / "ops.yaml"
    path.write_text(head + text * (30_000_000 // len(text)), encoding="utf-8")
    limit = f'ulimit -v 400000; exec "{opgen.path}" --check "{path}"'
    said = subprocess.run(["sh", "-c", limit], capture_output=True, encoding="utf-8", timeout=60)
    assert said.returncode == 1
    assert 1 <= said.stderr.count(": error: ") <= most
    if most > 1 and said.stderr.count(": error: ") == most:
        end = f"opgen: {path}: too many faults: what follows is not looked at\n"
        assert said.stderr.endswith(end)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
@pytest.mark.parametrize("of", ["table", "template", "stamp"])
def test_what_is_named_like_a_file(opgen: Opgen, kind: str, of: str, tmp_path: Path) -> None:
    """A pipe would be waited for without end. A fault names it; a stamp is written anew."""
    templates = tmp_path / "templates"
    shutil.copytree(ROOT / "templates", templates)
    good = table(tmp_path, row("relu"))
    out = tmp_path / "out"
    generate(opgen, good, out, templates)
    path = {
        "table": tmp_path / "odd.yaml", "template": templates / "odd.tpl", "stamp": out / ".opgen",
    }[of]  # fmt: skip
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            here = os.open(path.parent, os.O_RDONLY)
            bound.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    source = path if of == "table" else good
    said = subprocess.run(
        [opgen.path, "--templates", templates, "--out", out, source],
        capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    if of == "stamp" and kind != "folder":
        assert (said.returncode, said.stderr) == (0, "")
        assert path.is_file()
        assert not path.is_symlink()
        return
    what = {
        "pipe": "it is a named pipe, not a file", "socket": "it is a socket, not a file",
        "device": "it is a device, not a file", "folder": "Is a directory",
    }[kind]  # fmt: skip
    doing = "replaced" if of == "stamp" else "read"
    assert (said.returncode, said.stderr) == (1, f"opgen: {path}: cannot be {doing}: {what}\n")


@pytest.mark.parametrize("name", ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])
def test_the_standard_input_may_be_a_pipe(opgen: Opgen, name: str, tmp_path: Path) -> None:
    text = table(tmp_path, row("relu")).read_text(encoding="utf-8")
    for given, status in ((text, 0), (text + "x", 1)):
        said = subprocess.run(
            [opgen.path, "--check", name], input=given, text=True, capture_output=True, check=False
        )
        assert said.returncode == status, said.stderr
    with (tmp_path / "ops.yaml").open() as file:
        assert (
            subprocess.run([opgen.path, "--check", name], stdin=file, check=False).returncode == 0
        )
