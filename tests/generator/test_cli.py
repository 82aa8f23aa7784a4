"""The command line: what each way of calling opgen prints, and its exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from generator.program import ROOT, Opgen
from generator.tables import TEMPLATES, files, row, table

RICH = Path(__file__).resolve().parent / "golden" / "rich.yaml"


def run(opgen: Opgen, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [opgen.path, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **more},
    )


@pytest.mark.parametrize(
    "arguments, why",
    [
        ([], "one table expected"),
        (["a.yaml", "b.yaml"], "one table expected"),
        (["--check"], "one table expected"),
        (["--schema", "a.yaml"], "no table expected"),
        (["--check", "--list", "a.yaml"], "more than one thing to do"),
        (["--json", "a.yaml"], "--json goes with --list"),
        (["--out", "", "a.yaml"], "an empty folder name"),
        (["--nonsense"], "misuse"),
        (["--out"], "misuse"),
        (["--explain", "add"], "one table expected"),
    ],
)
def test_misuse(opgen: Opgen, arguments: list[str], why: str) -> None:
    said = run(opgen, *arguments)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.splitlines()[-1] == f"opgen: {why}; opgen --help says how it is used"


def test_help_and_version(opgen: Opgen) -> None:
    said = run(opgen, "--help")
    assert (said.returncode, said.stderr) == (0, "")
    for word in ("--out", "--check", "--list", "--explain", "--schema", "--deps", "--templates"):
        assert word in said.stdout
    assert max(len(line) for line in said.stdout.splitlines()) <= 100
    assert re.fullmatch(r"opgen \d+\.\d+\n", run(opgen, "--version").stdout)


def test_check_says_nothing_of_a_right_table(opgen: Opgen, tmp_path: Path) -> None:
    said = run(opgen, "--check", RICH)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    said = run(opgen, "--check", table(tmp_path, row("relu"), row("relu")))
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith(f"{tmp_path}/ops.yaml:")


def test_a_table_that_is_not_there(opgen: Opgen, tmp_path: Path) -> None:
    said = run(opgen, "--check", tmp_path / "none.yaml")
    missing = f"opgen: {tmp_path}/none.yaml: cannot be read: No such file or directory\n"
    assert (said.returncode, said.stderr) == (1, missing)
    said = run(opgen, "--check", tmp_path)
    assert said.stderr == f"opgen: {tmp_path}: cannot be read: Is a directory\n"
    assert said.returncode == 1


def test_templates_that_are_not_there(opgen: Opgen, tmp_path: Path) -> None:
    arguments: list[str | Path] = [
        "--out",
        tmp_path / "out",
        "--templates",
        tmp_path / "none",
        RICH,
    ]
    said = run(opgen, *arguments)
    missing = f"opgen: {tmp_path}/none: cannot be read: No such file or directory\n"
    assert (said.returncode, said.stderr) == (1, missing)
    (tmp_path / "none").mkdir()
    said = run(opgen, *arguments)
    assert said.stderr == f"opgen: {tmp_path}/none: no templates in it (*.tpl)\n"
    assert said.returncode == 1
    assert not (tmp_path / "out").exists()


def test_the_default_folders(opgen: Opgen, tmp_path: Path) -> None:
    (tmp_path / "templates").symlink_to(TEMPLATES)
    table(tmp_path, row("relu"))
    subprocess.run([opgen.path, "ops.yaml"], cwd=tmp_path, check=True)
    assert "modules/relu.c" in files(tmp_path / "generated")


def test_list(opgen: Opgen) -> None:
    said = run(opgen, "--list", RICH)
    assert said.stdout.splitlines()[:2] == [
        "affine(x, bias) -> out, mean, where_most  [2 dtypes, 4 kernels]",
        "join(xs) -> out  [4 dtypes, 3 kernels]",
    ]
    rows = json.loads(run(opgen, "--list", "--json", RICH).stdout)
    assert [r["op"] for r in rows] == [
        "affine", "join", "update", "cast", "turn", "fold", "exp", "elu",
    ]  # fmt: skip
    assert all(key in rows[-1] for key in ("doc", "types", "args", "outs", "kernels"))


def test_explain(opgen: Opgen) -> None:
    said = run(opgen, "--explain", "affine", RICH)
    assert said.returncode == 0
    for text in (
        "bias         optional in, T, shape N",
        "alpha        attribute, default 1.0",
        "P            = N + pad[0] + pad[1]",
        "where        present(bias) or act == 'none': an act needs a bias",
        "workspace 4 * M * N",
        "sm_90a alone",
        "rh_cuda_affine_wide_f16",
        "no gradients",
    ):
        assert text in said.stdout
    assert "xs           split(g, xs, axis)" in run(opgen, "--explain", "join", RICH).stdout
    said = run(opgen, "--explain", "nothing", RICH)
    assert (said.returncode, said.stdout) == (1, "")
    assert "no op `nothing`" in said.stderr


def test_fault_ids(opgen: Opgen) -> None:
    ids = run(opgen, "--fault-ids").stdout.split()
    assert ids == sorted(set(ids))
    assert "template" in ids


def test_deps_are_a_rule_for_make(opgen: Opgen, tmp_path: Path) -> None:
    """Make reads it: the output depends on the table and on every template."""
    odd = tmp_path / "a b#c"
    source = table(odd, row("relu"))
    said = run(opgen, "--deps", "--out", "gen", "--templates", TEMPLATES, source)
    assert said.returncode == 0
    rule = said.stdout + "%: ; @printf '%s\\n' '$@'\n"
    made = subprocess.run(
        ["make", "-f", "-", "-n", "-B", "--trace", "gen/ops.mk"],
        input=rule + f"{TEMPLATES}/%: ;\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert str(source) in made.stdout
    for template in TEMPLATES.glob("*.tpl"):
        assert str(template) in said.stdout


def test_schema_is_one_and_fits_the_tables(opgen: Opgen, tmp_path: Path) -> None:
    """It accepts what opgen accepts, and refuses an unknown key, at every level."""
    jsonschema = pytest.importorskip("jsonschema")
    yaml = pytest.importorskip("yaml")
    schema = json.loads(run(opgen, "--schema").stdout)
    validator = jsonschema.Draft202012Validator
    validator.check_schema(schema)
    for path in (RICH, RICH.with_name("small.yaml"), ROOT / "ops.yaml"):
        found = yaml.safe_load(path.read_text())
        assert [e.message for e in validator(schema).iter_errors(found)] == []
        for breaks in mutations(found):
            assert list(validator(schema).iter_errors(breaks))


def mutations(table: dict[str, object]) -> list[object]:
    """The table with an unknown key in each kind of map, one at a time."""
    found: list[object] = []
    text = json.dumps(table)
    for place in ('"package"', '"devices"', '"op"', '"tensor"', '"id"'):
        found.append(json.loads(text.replace(place, '"strange": 1, ' + place, 1)))
    return found


def test_a_closed_output_is_a_failure(opgen: Opgen) -> None:
    with Path("/dev/full").open("w") as full:
        said = subprocess.run(
            [opgen.path, "--schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert said.returncode == 1
    assert said.stderr == "opgen: standard output: cannot be written: No space left on device\n"


@pytest.mark.promise("G4")
def test_sanitized(sanitized_opgen: Opgen, tmp_path: Path) -> None:
    """Every way of calling it, under the sanitizers, without a leak."""
    environment = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    out = tmp_path / "out"
    for arguments in (
        ["--check", RICH],
        ["--list", RICH],
        ["--list", "--json", RICH],
        ["--explain", "affine", RICH],
        ["--schema"],
        ["--deps", "--templates", TEMPLATES, RICH],
        ["--out", out, "--templates", TEMPLATES, RICH],
        ["--out", out, "--templates", TEMPLATES, RICH],
        ["--out", out, "--templates", TEMPLATES, RICH.with_name("small.yaml")],
        ["--out", out, "--templates", TEMPLATES, table(tmp_path, row("relu", "é\n*/ ??/"))],
    ):
        said = run(sanitized_opgen, *arguments, **environment)
        assert (said.returncode, said.stderr) == (0, "")
    assert sys.getsizeof(files(out))


def test_a_kernel_of_a_library_may_stand_last(opgen: Opgen, tmp_path: Path) -> None:
    """Behind one that takes all: there it is what can be named, and no `shadowed-kernel`."""
    only = "kernels: [{id: loop, backend: cpu}]"
    for more, good in ((", libs: [blas]", True), ("", False)):
        both = only[:-1] + f", {{id: last, backend: cpu{more}}}]"
        path = table(tmp_path, row("add").replace(only, both))
        said = run(opgen, "--check", path)
        assert (said.returncode == 0) is good, said.stderr
        assert good or "shadowed-kernel" in said.stderr
