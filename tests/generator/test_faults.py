"""Every fault that opgen can print: where, what, and nothing besides."""

from __future__ import annotations

import keyword
import re
import shutil
from pathlib import Path

import pytest

from generator.faults import ADD, BASE, CASES, MARK, OTHER, VALUE, Case, bare, place
from generator.program import ROOT, Fault, Opgen

# (id, bytes, line, column): inputs that are no text, or none that the base could be edited into.
BYTES = [
    ("empty-document", b"", 1, 1),
    ("empty-document", b"# a comment\n", 1, 1),
    ("empty-document", b"---\n", 1, 1),
    ("empty-document", b"\n\n\n", 1, 1),
    ("bad-utf8", b"schema: 1\npackage: \xff\n", 2, 10),
    (
        "bad-utf8",
        b"# \xc3\xa4\xc3\xb6 \xe2\x82\n",
        1,
        6,
    ),  # cut short, after two characters of two bytes
    ("bad-utf8", b"# \xc0\xaf\n", 1, 3),  # overlong
    ("bad-utf8", b"# \xed\xa0\x80\n", 1, 3),  # a surrogate
    ("bad-utf8", b"# \xf4\x90\x80\x80\n", 1, 3),  # beyond the last character
    ("bad-character", b"schema: 1\r\n\rpackage", 2, 1),
    ("bad-character", b"# \xc2\x85\n", 1, 3),
    ("bad-character", b"\xff\xfes\x00c\x00".replace(b"\xff\xfe", b"\x00"), 1, 1),
    ("yaml-syntax", b"schema: [1\n", 2, 1),
    ("wrong-kind", b"- schema\n", 1, 1),
    ("wrong-kind", b"schema\n", 1, 1),
]


MANY = b"- " + b"[a, 'b']\n- " * 500_000 + b"a\n"  # values


def faults_of(opgen: Opgen, text: str | bytes, folder: Path) -> list[Fault]:
    table = folder / "ops.yaml"
    table.write_bytes(text.encode() if isinstance(text, str) else text)
    return opgen.faults(table)


def check(opgen: Opgen, case: Case, folder: Path) -> None:
    marked = case.text()
    found = faults_of(opgen, bare(marked), folder)
    assert [f.id for f in found] == [case.id], found
    expected = place(marked, MARK)
    if expected:
        assert (found[0].line, found[0].column) == expected, found[0]
    assert case.message in found[0].message, found[0]
    other = place(marked, OTHER)
    if other:
        pattern = re.compile(rf"ops\.yaml:{other[0]}:{other[1]}: ")
        assert any(pattern.search(note) for note in found[0].notes), found[0].notes


def test_base_is_right(opgen: Opgen, tmp_path: Path) -> None:
    assert faults_of(opgen, BASE, tmp_path) == []


@pytest.mark.promise("G1", "G2", "G7", "G12")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fault(opgen: Opgen, case: Case, tmp_path: Path) -> None:
    check(opgen, case, tmp_path)


@pytest.mark.promise("G4", "G10", "G12")
@pytest.mark.parametrize("id, data, line, column", BYTES)
def test_fault_of_bytes(
    opgen: Opgen, id: str, data: bytes, line: int, column: int, tmp_path: Path
) -> None:
    found = faults_of(opgen, data, tmp_path)
    assert [(f.id, f.line, f.column) for f in found] == [(id, line, column)], found


def test_values_without_end(opgen: Opgen, tmp_path: Path) -> None:
    """Also of a table that is read plainly up to there; and one fault is said, not one a value."""
    found = faults_of(opgen, MANY, tmp_path)
    assert [(f.id, f.line, f.column) for f in found] == [("too-many-values", 416_667, 4)]


def template_fault(opgen: Opgen, folder: Path) -> set[str]:
    """What an unknown tag in a template is answered with."""
    templates = folder / "templates"
    shutil.copytree(ROOT / "templates", templates)
    with (templates / "index.md.tpl").open("a") as some:
        some.write("@{table.no_such_name|md}\n")
    table = folder / "ops.yaml"
    table.write_text(BASE)
    said = opgen.run("--templates", templates, "--out", folder / "out", table)
    assert said.returncode == 1
    return set(re.findall(r" error: .* \[([a-z0-9-]+)\]$", said.stderr, re.MULTILINE))


@pytest.mark.promise("G12")
def test_cases_meet_all_ids(opgen: Opgen, tmp_path: Path) -> None:
    """The ids in the binary are exactly those that the cases meet, and that the sources name."""
    ids = opgen.run("--fault-ids").stdout.split()
    met = {case.id for case in CASES} | {id for id, *_ in BYTES} | template_fault(opgen, tmp_path)
    met |= {fault.id for fault in faults_of(opgen, MANY, tmp_path)}
    assert ids == sorted(met)
    sources = (ROOT / "generator").glob("*.c")
    said = "".join(path.read_text() for path in sources if path.name != "fault_ids.c")
    assert [id for id in ids if f'"{id}"' not in said] == []


# ---- all at once --------------------------------------------------------------------------------


@pytest.mark.promise("G12")
def test_all_faults_in_one_run(opgen: Opgen, tmp_path: Path) -> None:
    """In the order of the file, whatever stage finds them."""
    text = BASE
    edits = [
        ('tensor: T, shape: "B.."', 'tensor: T, ▸shape: "B..", ▸shape: C'),
        ("N % 8 == 0 and", "▸M % 8 == 0 and"),
        (
            "order: x}\n    kernels:\n      - {id: planes",
            "▸odrer: x}\n    kernels:\n      - {id: planes",
        ),
        ("default: 1, max: 100", "default: ▸010, max: 100"),
        ('"cast(g, dtype=T)"', '"▸casst(g, dtype=T)"'),
    ]
    for old, new in edits:
        text = text.replace(old, new)
    found = faults_of(opgen, bare(text), tmp_path)
    assert [f.id for f in found] == [
        "duplicate-key",
        "expression-name",
        "unknown-key",
        "not-a-number",
        "grad-call",
    ]
    assert [(f.line, f.column) for f in found] == sorted((f.line, f.column) for f in found)


def test_a_fault_of_a_family_is_one(opgen: Opgen, tmp_path: Path) -> None:
    """It is met once a member, and said once."""
    text = BASE.replace(
        'args: [{name: x, tensor: T, shape: "A.."}]\n    outs: [{name: out, tensor: T, shape',
        'args: [{name: x, tensor: V, shape: "A.."}]\n    outs: [{name: out, tensor: T, shape',
    )
    assert [f.id for f in faults_of(opgen, text, tmp_path)] == ["unknown-dtype"]


def test_what_calls_a_faulty_row_is_not_blamed(opgen: Opgen, tmp_path: Path) -> None:
    text = BASE.replace(
        '{name: gy, tensor: T, shape: "L.. N"}', '{name: gy, tensor: T, shap: "L.. N"}'
    )
    assert [f.id for f in faults_of(opgen, text, tmp_path)] == ["missing-key", "unknown-key"]


@pytest.mark.promise("G12")
def test_place_is_exact_at_any_line(opgen: Opgen, tmp_path: Path) -> None:
    """An unknown key put before each line that begins a key of a row."""
    lines = BASE.splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if re.match(r"    [a-z]+:", line)]
    for at in places[:: max(1, len(places) // 25)]:
        broken = [*lines[:at], "    wrong: 1\n", *lines[at:]]
        found = faults_of(opgen, "".join(broken), tmp_path)
        assert [(f.id, f.line, f.column) for f in found] == [("unknown-key", at + 1, 5)]


def test_output_shows_the_line(opgen: Opgen, tmp_path: Path) -> None:
    """The whole of one fault: place, source line, caret, row, suggestion."""
    table = tmp_path / "ops.yaml"
    table.write_text(
        BASE.replace('{name: b, tensor: T, shape: "B.."}', '{name: b, tensor: T, sahpe: "B.."}')
    )
    said = opgen.run("--check", "ops.yaml", cwd=tmp_path).stderr
    assert said == (
        "ops.yaml:20:9: error: a tensor needs the key `shape` [missing-key]\n"
        '    20 |       - {name: b, tensor: T, sahpe: "B.."}\n'
        "       |         ^\n"
        "       = row add, arg b\n"
        "ops.yaml:20:30: error: an arg has no key `sahpe` [unknown-key]\n"
        '    20 |       - {name: b, tensor: T, sahpe: "B.."}\n'
        "       |                              ^\n"
        "       = row add, arg b\n"
        "       = did you mean `shape`?\n"
    )


def test_columns_count_characters(opgen: Opgen, tmp_path: Path) -> None:
    """Not bytes, and the caret stands under the character."""
    table = tmp_path / "ops.yaml"
    table.write_text(
        BASE.replace(f"{ADD}", 'doc: "äöü€", wrng: 1').replace(
            "  - op: add\n    doc", "  - {op: add, doc"
        )
    )
    found = opgen.faults(table)
    assert found[0].id == "yaml-syntax"
    table.write_text(BASE.replace(VALUE, '{name: value, shäpe: "äöü€", scalar: T}'))
    assert [(f.id, f.line, f.column) for f in opgen.faults(table)] == [("unknown-key", 117, 23)]


# ---- names ---------------------------------------------------------------------------------------

C = """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch
    typedef union unsigned void volatile while bool true false nullptr constexpr alignas
    alignof thread_local static_assert typeof asm
"""
CPP = """
    and catch class compl const_cast decltype delete dynamic_cast explicit export friend
    mutable namespace new noexcept not operator or private protected public reinterpret_cast
    static_cast template this throw try typeid typename using virtual xor concept requires
    co_await consteval constinit char8_t
"""
RESERVED = "stream kernel dtype g want out workspace"


@pytest.mark.promise("G8")
def test_keywords_are_refused(opgen: Opgen, tmp_path: Path) -> None:
    """All of C, C++ and Python, hard and soft, as the name of an argument, at their places."""
    words = {*C.split(), *CPP.split(), *keyword.kwlist, *keyword.softkwlist} - {"_"}
    words = {word for word in words if word[0].islower()}
    taken = sorted(words) + RESERVED.split()
    scalars = "".join(f"\n      - {{name: {name}, scalar: f32}}" for name in taken)
    quoted = scalars.replace("{name: true,", '{name: "true",').replace(
        "{name: false,", '{name: "false",'
    )
    found = faults_of(opgen, BASE.replace(VALUE, VALUE + quoted), tmp_path)
    keywords = [f for f in found if f.id == "name-keyword"]
    assert len(keywords) == len(words), words - {f.message.split("`")[1] for f in keywords}
    assert [f.message.split("`")[1] for f in found if f.id == "name-reserved"] == RESERVED.split()


@pytest.mark.promise("G8")
@pytest.mark.parametrize("name", ["None", "True", "NULL", "threadIdx", "blockDim", "EOF"])
def test_capital_keywords_are_refused(opgen: Opgen, name: str, tmp_path: Path) -> None:
    """Dims and type variables may have capitals."""
    text = BASE.replace('shape: "N C H W"', f'shape: "{name} C H W"').replace(
        '"N C P Q"', f'"{name} C P Q"'
    )
    assert {f.id for f in faults_of(opgen, text, tmp_path)} == {"name-keyword"}


@pytest.mark.parametrize(
    "name",
    [
        "run",
        "torch",
        "jax",
        "core",
        "bind",
        "explain",
        "infer",
        "capability",
        "index",
        "t",
        "reshape",
        "sum_to",
        "unreduce",
        "split",
        "inverse",
    ],
)
def test_reserved_ops_are_refused(opgen: Opgen, name: str, tmp_path: Path) -> None:
    text = BASE.replace("  - op: cast\n", f"  - op: {name}\n").replace(
        '    grad: {x: "cast(g, dtype=T)"}\n', ""
    )
    assert [f.id for f in faults_of(opgen, text, tmp_path)] == ["name-reserved"]


def test_runtime_symbols_are_known(opgen: Opgen) -> None:
    """symbols.c lists what the runtime's headers declare."""
    known = set(re.findall(r'"([a-zA-Z0-9_]+)",', (ROOT / "generator/symbols.c").read_text()))
    for header in ("call", "tensor", "status", "backend", "dtype", "module", "kernel", "explain"):
        text = (ROOT / f"include/aicf/{header}.h").read_text()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        declared = set(re.findall(r"\baicf_([a-z0-9]+(?:_[a-z0-9]+)+)\b", text))
        declared |= set(re.findall(r"\bAICF_([A-Z0-9]+(?:_[A-Z0-9]+)+)\b", text))
        assert declared <= known, declared - known


# ---- the real table ------------------------------------------------------------------------------

KEY = re.compile(r"(?:^|(?<=[{ ]))([A-Za-z_]+)(?=: |:$)", re.MULTILINE)


def keys_of(text: str) -> list[tuple[int, str]]:
    """Offsets of all plain keys outside of comments and quotes, but members of families."""
    hidden = re.sub(r'"[^"\n]*"', lambda m: '"' + "." * (len(m[0]) - 2) + '"', text)
    hidden = re.sub(r"#.*", lambda m: "." * len(m[0]), hidden)
    return [
        (m.start(1), m[1])
        for m in KEY.finditer(hidden)
        if not re.search(r"\n      $", hidden[: m.start(1)])
    ]


@pytest.mark.promise("G7")
def test_every_mutated_key_is_refused(opgen: Opgen, tmp_path: Path) -> None:
    """Each key of the real table, changed by one letter. Keys that many rows have are tried at some
    of their places."""
    text = (ROOT / "ops.yaml").read_text()
    table = tmp_path / "ops.yaml"
    seen: dict[str, int] = {}
    for offset, key in keys_of(text):
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 6 and seen[key] % 16:
            continue
        at = offset + seen[key] % len(key)
        letter = "x" if text[at] != "x" else "z"
        table.write_text(text[:at] + letter + text[at + 1 :])
        assert opgen.faults(table), (
            f"{key} became {text[offset:at]}{letter}{text[at + 1 : offset + len(key)]}"
        )
    assert len(seen) > 30


def test_real_table_is_right(opgen: Opgen) -> None:
    assert opgen.faults(ROOT / "ops.yaml") == []
