"""The reader: which YAML is taken, what its scalars mean, and that no input breaks opgen."""

from __future__ import annotations

import json
import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generator.faults import BASE, CASES, EPS, SHIFT, bare
from generator.program import ROOT, Fault, Opgen
from generator.test_faults import BYTES

SMALL = """schema: 1
package: demo
namespace: demo
backends: {cpu: {devices: [cpu], suffix: .c}}
ops:
  - op: copy
    doc: DOC
    types: {T: [f32]}
    args: [{name: x, tensor: T, shape: "A.."}]
    outs: [{name: out, tensor: T, shape: "A.."}]
    kernels: [{id: loop, backend: cpu}]
"""


def rows_of(opgen: Opgen, text: str, folder: Path) -> tuple[list[dict[str, Any]], list[Fault]]:
    """The rows as opgen understood them, or the faults."""
    table = folder / "ops.yaml"
    table.write_bytes(text.encode())
    said = opgen.run("--list", "--json", table)
    return (json.loads(said.stdout), []) if said.returncode == 0 else ([], opgen.faults(table))


def growth(check: Callable[[int], None], count: int) -> float:
    """How many times as long opgen takes for ten times as much: 10, and 100 by the square of it."""

    def least(count: int) -> float:
        took = []
        for _ in range(3):
            spent = resource.getrusage(resource.RUSAGE_CHILDREN)
            check(count)
            since = resource.getrusage(resource.RUSAGE_CHILDREN)
            took.append(since.ru_utime + since.ru_stime - spent.ru_utime - spent.ru_stime)
        return min(took)

    return least(10 * count) / least(count)


def row_of(rows: list[dict[str, Any]], op: str) -> dict[str, Any]:
    return next(row for row in rows if row["op"] == op)


# ---- numbers (G3) -------------------------------------------------------------------------------

INTS = [
    ("0", 0),
    ("7", 7),
    ("-3", -3),
    ("0x1f", 31),
    ("-0x10", -16),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    ("010", "not-an-int"),
    ("0o17", "not-an-int"),
    ("0b11", "not-an-int"),
    ("1_000", "not-an-int"),
    ("+1", "not-an-int"),
    ("1:30", "not-an-int"),
    ("1e3", "not-an-int"),
    ("1.0", "not-an-int"),
    ("0x", "not-an-int"),
    ("--1", "not-an-int"),
    ("'1'", "not-an-int"),
    ("true", "not-an-int"),
    ("~", "not-an-int"),
    ("9223372036854775808", "number-range"),
    ("0x10000000000000000", "number-range"),
]
REALS = [
    ("0", 0.0),
    ("1", 1.0),
    ("1.5", 1.5),
    ("1e5", 1e5),
    ("1e-5", 1e-5),
    ("1E+2", 100.0),
    ("-2.5e-3", -2.5e-3),
    ("0.1", 0.1),
    ("4.9e-324", 4.9e-324),
    ("1.7976931348623157e308", 1.7976931348623157e308),
    ("1.", "not-a-number"),
    (".5", "not-a-number"),
    ("01.5", "not-a-number"),
    ("1e", "not-a-number"),
    ("0x1p3", "not-a-number"),
    ("1:30", "not-a-number"),
    ("1_0.5", "not-a-number"),
    ("1,5", "yaml-syntax"),
    (".nan", "not-finite"),
    (".inf", "not-finite"),
    ("-.INF", "not-finite"),
    ("nan", "not-finite"),
    ("1e309", "not-finite"),
    ("-1e309", "not-finite"),
    ("'1.0'", "not-a-number"),
]


@pytest.mark.promise("G3")
@pytest.mark.parametrize("text, value", INTS)
def test_int(opgen: Opgen, text: str, value: int | str, tmp_path: Path) -> None:
    table = BASE.replace(SHIFT, f"{{name: shift, attr: int, default: {text}}}")
    rows, faults = rows_of(opgen, table, tmp_path)
    if isinstance(value, str):
        assert [f.id for f in faults] == [value]
    else:
        default = row_of(rows, "pool")["args"][2]["default"]
        assert (default, type(default)) == (value, int)


@pytest.mark.promise("G3")
@pytest.mark.parametrize("text, value", REALS)
def test_real(opgen: Opgen, text: str, value: float | str, tmp_path: Path) -> None:
    table = BASE.replace(EPS, f"{{name: eps, attr: float, default: {text}}}")
    rows, faults = rows_of(opgen, table, tmp_path)
    if value == "yaml-syntax":
        assert faults
    elif isinstance(value, str):
        assert [f.id for f in faults] == [value]
    else:
        assert float(row_of(rows, "norm")["args"][2]["default"]) == value


# ---- words (G2) ---------------------------------------------------------------------------------

WORDS = [
    "on",
    "On",
    "ON",
    "off",
    "yes",
    "Yes",
    "no",
    "No",
    "true",
    "True",
    "TRUE",
    "false",
    "null",
    "Null",
    "~",
    "y",
    "n",
    "Y",
    "N",
    "1",
    "1.5",
    "1e3",
    "010",
    "0o7",
    "0x1F",
    "1:30",
    "12:30:45",
    "1_000",
    "0b1",
    ".inf",
    ".NaN",
    "2026-01-31",
    "2026-1-1",
    "=",
    "none",
    "plain",
    "maybe",
    "x1",
    "-1",
    "+1",
    "1.2.3",
    "e5",
    "-",
    "?",
    "!",
    "&",
    "*",
    "%",
    "@",
    "`",
    "|",
    ">",
    "'on'",
    '"on"',
    "'null'",
    '"010"',
    '"1:30"',
    '"~"',
    "''",
    "a:b",
    "a#b",
    "#a",
    "a,b",
    "[]",
    "{}",
    "[a]",
    "{a:",
    "b}",
    "<<",
]


@pytest.mark.promise("G2")
@pytest.mark.parametrize("word", WORDS)
def test_text_means_the_same_to_python(opgen: Opgen, word: str, tmp_path: Path) -> None:
    """As a text, unquoted or quoted: what opgen takes, PyYAML reads as that very text."""
    yaml = pytest.importorskip("yaml")
    table = SMALL.replace("DOC", word)
    rows, faults = rows_of(opgen, table, tmp_path)
    if faults:
        return
    assert yaml.safe_load(table)["ops"][0]["doc"] == row_of(rows, "copy")["doc"]


@pytest.mark.promise("G2")
@pytest.mark.parametrize(
    "word",
    [
        "yes",
        "no",
        "on",
        "off",
        "Yes",
        "NO",
        "On",
        "OFF",
        "true",
        "False",
        "TRUE",
        "null",
        "Null",
        "NULL",
        "~",
        "010",
        "1:30",
    ],
)
def test_ambiguous_words_want_quotes(opgen: Opgen, word: str, tmp_path: Path) -> None:
    rows, faults = rows_of(opgen, SMALL.replace("DOC", word), tmp_path)
    assert [f.id for f in faults] == ["ambiguous"]
    rows, faults = rows_of(opgen, SMALL.replace("DOC", f'"{word}"'), tmp_path)
    assert not faults
    assert row_of(rows, "copy")["doc"] == word


def test_y_and_n_are_names(opgen: Opgen, tmp_path: Path) -> None:
    text = (
        SMALL.replace("DOC", "a copy").replace("name: x,", "name: y,").replace("id: loop", "id: n")
    )
    assert rows_of(opgen, text, tmp_path)[1] == []


# ---- structure (G4, G6) -------------------------------------------------------------------------

EMPTY = [
    ("ops", "", "empty-value"),
    ("ops", " {}", "wrong-kind"),
    ("ops", " []", "empty-list"),
    ("ops", " ~", "wrong-kind"),
    ("ops", " [~]", "wrong-kind"),
    ("ops", " [[]]", "wrong-kind"),
    ("ops", " [{}]", "op-or-family"),
    ("backends", "", "empty-value"),
    ("backends", " {}", "empty-map"),
    ("backends", " []", "wrong-kind"),
    ("backends", " {cpu: {}}", "missing-key"),
    ("backends", " {cpu: ~}", "wrong-kind"),
    ("dtypes", "", "empty-value"),
    ("dtypes", " {}", "empty-map"),
    ("dtypes", " {a: {}}", "empty-map"),
    ("dtypes", " {a: []}", "empty-list"),
    ("schema", "", "not-an-int"),
    ("package", "", "empty-value"),
    ("package", " {}", "wrong-kind"),
    ("package", ' ""', "empty-value"),
]


@pytest.mark.promise("G4")
@pytest.mark.parametrize("key, value, id", EMPTY)
def test_empty_values_of_the_table(
    sanitized_opgen: Opgen, key: str, value: str, id: str, tmp_path: Path
) -> None:
    """An absent value, {}, [] and null are each answered, whatever key they stand under."""
    head, ops = SMALL.replace("DOC", "a copy").split("ops:\n")
    lines = [line for line in head.splitlines() if not line.startswith(f"{key}:")]
    body = "" if key == "ops" else "ops:\n" + ops
    text = "\n".join([*lines, f"{key}:{value}"]) + "\n" + body
    (tmp_path / "ops.yaml").write_text(text)
    assert id in [f.id for f in sanitized_opgen.faults(tmp_path / "ops.yaml")]


@pytest.mark.promise("G4")
@pytest.mark.parametrize(
    "value", ["", " {}", " []", " ~", ' ""', " x", " [~]", " {a: ~}", " [[]]", " [{}]"]
)
@pytest.mark.parametrize(
    "key",
    [
        "op",
        "family",
        "ops",
        "doc",
        "aten",
        "types",
        "partial",
        "args",
        "let",
        "where",
        "outs",
        "overlap",
        "kernels",
        "grad",
        "cost",
        "test",
    ],
)
def test_empty_values_of_a_row(
    sanitized_opgen: Opgen, key: str, value: str, tmp_path: Path
) -> None:
    whole = SMALL.replace("DOC", "a copy").splitlines()
    lines = [line for line in whole if f" {key}:" not in line[:14]]
    if key == "op":
        lines = [*lines[:5], f"  - op:{value}", *lines[5:]]
    else:
        lines.append(f"    {key}:{value}")
    table = tmp_path / "ops.yaml"
    table.write_text("\n".join(lines) + "\n")
    harmless = (key, value) in {("doc", " x"), ("op", " x")}
    assert bool(sanitized_opgen.faults(table)) != harmless


@pytest.mark.promise("G6")
@pytest.mark.parametrize("depth", [10, 17, 100, 10_000, 200_000])
@pytest.mark.parametrize("open_close", ["[]", "{}"])
def test_depth(opgen: Opgen, depth: int, open_close: str, tmp_path: Path) -> None:
    """Answered in a line, in no more time than reading takes, and never with a stack overflow."""
    opener = "[" if open_close == "[]" else "{a: "
    text = SMALL.replace("DOC", opener * depth)
    table = tmp_path / "ops.yaml"
    table.write_text(text)
    found = opgen.faults(table)  # 200,000 levels by the square of them would end its patience
    assert len(found) == 1
    assert found[0].id == ("yaml-syntax" if depth == 10 else "too-deep")


@pytest.mark.promise("G6")
def test_alias_cycle(opgen: Opgen, tmp_path: Path) -> None:
    table = tmp_path / "ops.yaml"
    table.write_text(SMALL.replace("DOC", "&a [*a]"))
    assert [f.id for f in opgen.faults(table)] == ["anchor", "wrong-kind", "alias"]


@pytest.mark.promise("G6")
def test_many_keys_take_linear_time(opgen: Opgen, tmp_path: Path) -> None:
    """100,000 keys of one map, on one line."""
    table = tmp_path / "ops.yaml"

    def check(count: int) -> None:
        table.write_text("{" + ", ".join(f"k{i}: 1" for i in range(count)) + ", k7: 1}")
        assert "[duplicate-key]" in opgen.run("--check", table).stderr

    assert growth(check, 10_000) < 40


def test_windows_line_ends(opgen: Opgen, tmp_path: Path) -> None:
    table = tmp_path / "ops.yaml"
    table.write_bytes(BASE.replace("\n", "\r\n").encode())
    assert opgen.faults(table) == []
    table.write_bytes(
        BASE.replace('doc: "out = a * b', 'dok: "out = a * b').replace("\n", "\r\n").encode()
    )
    line = next(i for i, line in enumerate(BASE.splitlines(), 1) if "out = a * b" in line)
    assert [(f.id, f.line, f.column) for f in opgen.faults(table)] == [
        ("missing-key", line - 1, 5),
        ("unknown-key", line, 5),
    ]


def test_flow_and_block_are_one(opgen: Opgen, tmp_path: Path) -> None:
    """The style, the order of a row's keys, quotes and comments change no hash."""
    yaml = pytest.importorskip("yaml")
    plain, _ = rows_of(opgen, SMALL.replace("DOC", '"a copy"'), tmp_path)
    data = yaml.safe_load(SMALL.replace("DOC", "a copy"))
    for style in (True, False):
        text = "# another\n" + yaml.safe_dump(data, default_flow_style=style, sort_keys=True)
        assert rows_of(opgen, text, tmp_path)[0] == plain


def test_block_scalars(opgen: Opgen, tmp_path: Path) -> None:
    text = SMALL.replace("DOC", '|\n      one "two" \\ */ ??/ %s\n\n      three: [\n')
    rows, faults = rows_of(opgen, text, tmp_path)
    assert not faults
    assert row_of(rows, "copy")["doc"] == 'one "two" \\ */ ??/ %s\n\nthree: [\n'


# ---- nothing breaks it --------------------------------------------------------------------------


@pytest.mark.promise("G4", "G6", "G10")
def test_all_bad_cases_under_sanitizers(sanitized_opgen: Opgen, tmp_path: Path) -> None:
    table = tmp_path / "ops.yaml"
    for case in CASES:
        table.write_text(bare(case.text()))
        assert [f.id for f in sanitized_opgen.faults(table)] == [case.id]
    for id, data, *_ in BYTES:
        table.write_bytes(data)
        assert [f.id for f in sanitized_opgen.faults(table)] == [id]
    assert sanitized_opgen.faults(ROOT / "ops.yaml") == []


def mutants(seed: int, count: int) -> list[bytes]:
    """The base with bytes changed, words swapped, parts cut out, doubled or ended early."""
    chance = random.Random(seed)
    words = [
        "[",
        "]",
        "{",
        "}",
        ": ",
        ", ",
        "- ",
        '"',
        "'",
        "#",
        "\n",
        "~",
        "..",
        "@",
        "(",
        ")",
        "A",
        "T",
        "if",
        "else",
        "and",
        "broadcast",
        "0",
        "-1",
        "1e9",
        "\xff",
        "\0",
        "&a",
        "*a",
        "!t",
    ]
    found = []
    for _ in range(count):
        data = bytearray(BASE.encode())
        for _ in range(chance.choice([1, 1, 1, 2, 5])):
            at = chance.randrange(len(data))
            end = min(len(data), at + chance.choice([0, 1, 1, 2, 10, 200]))
            put = chance.choice(words).encode("latin-1")
            data[at:end] = chance.choice([put, put, put, bytes(data[at:end]) * 2, b""])
        found.append(bytes(data[: chance.randrange(len(data))] if chance.random() < 0.1 else data))
    return found


@pytest.mark.promise("G4", "G6")
@pytest.mark.parametrize("seed", range(4))
def test_mutants_under_sanitizers(sanitized_opgen: Opgen, seed: int, tmp_path: Path) -> None:
    """Any input is taken or answered with faults; program.Opgen.run finds crashes and reports."""
    table = tmp_path / "ops.yaml"
    for data in mutants(seed, 120):
        table.write_bytes(data)
        sanitized_opgen.faults(table)


@pytest.mark.promise("G11")
def test_faults_do_not_depend_on_the_surroundings(opgen: Opgen, tmp_path: Path) -> None:
    (tmp_path / "ops.yaml").write_text(bare(CASES[40].text()))
    (tmp_path / "deep").mkdir()
    said = {opgen.run("--check", "ops.yaml", cwd=tmp_path).stderr for _ in range(3)}
    assert len(said) == 1


def test_speed(opgen: Opgen, tmp_path: Path) -> None:
    """A thousand rows with kernels, gradients and tests, in time that grows as they do."""
    head, ops = BASE.split("ops:\n", 1)
    row = ops.split("  - op: norm\n")[0]
    table = tmp_path / "ops.yaml"

    def check(count: int) -> None:
        rows = [row.replace("op: add", f"op: add_{i}") for i in range(count)]
        table.write_text(head + "ops:\n" + "".join(rows))
        assert opgen.faults(table) == []

    assert growth(check, 100) < 40
