"""The plain reader of YAML: what it takes, libyaml takes too, and both make the same tree of it."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from generator.faults import BASE, CASES, bare
from generator.program import FLAGS, ROOT, SANITIZERS

SOURCES = ["yaml_plain", "yaml_read", "tree", "arena", "buffer", "dict", "fault", "format"]

# What tables are made of, what is YAML but left to libyaml, and what is neither.
WORDS = [
    "a", "b: ", "b:", "op: x", "- ", "-", "-1", "- - ", "[", "]", "{", "}", ", ", ",", ": ", ":",
    "\n", "\n", "\n", "\n  ", "\n  ", "\n    ", "\n- ", "\n  - ", " ", "  ", "# c", " # c\n", "#",
    '"q"', '"q\\"\\n"', '"\\x41"', "'q'", "'it''s'", '"', "'", "? ", "?", "&a ", "*a", "!t ", "|\n",
    ">\n", "---\n", "...\n", "%Y 1\n", "~", "<<: ", "é", "\t", "\r\n", "\\", "a b", "1.5", "a:b",
    "[a, b]", "{a: b}", "{a: b, c: [d]}", "a: {b: c}\n", '"k": v\n', "k : v\n", "@", "`", "=", ".",
]  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("yaml") / "driver"
    sources = [ROOT / "generator" / f"{name}.c" for name in SOURCES]
    compiler = [os.environ.get("CC", "gcc"), *FLAGS, *SANITIZERS]
    here = Path(__file__).parent / "yaml_driver.c"
    subprocess.run([*compiler, here, *sources, "-lyaml", "-o", target], check=True)
    return target


def verdicts(driver: Path, texts: list[str]) -> list[str]:
    data = b"".join(b"%d\n%s" % (len(text.encode()), text.encode()) for text in texts)
    said = subprocess.run([driver], input=data, capture_output=True, check=False)
    assert said.returncode == 0, said.stderr.decode()
    found = said.stdout.decode().splitlines()
    assert len(found) == len(texts)
    return found


def differing(driver: Path, texts: list[str]) -> dict[str, str]:
    """The texts of which libyaml makes something else."""
    found = zip(texts, verdicts(driver, texts), strict=True)
    return {text: said for text, said in found if said not in ("same", "unsure")}


def test_tables_are_read_plainly(driver: Path) -> None:
    """Those of the project: else every table would take the slow way, and no test would tell."""
    golden = Path(__file__).parent / "golden"
    paths = [ROOT / "ops.yaml", golden / "small.yaml"]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    assert verdicts(driver, texts) == ["same"] * len(texts)


# One construct each, as it stands in tables.
@pytest.mark.parametrize(
    "text",
    [
        "a: b\n",
        "a: b",
        "a:\n  b: c\n",
        "a:\n- b\n- c\n",
        "a:\n  - b: c\n    d: e\n  -\n    f: g\n",
        "- - a\n  - b\n- [c]\n",
        "a: [b, 'c', \"d\", -1, {e: f},]\n",
        "a: {b: c,\n    # of d\n    d: e}\n",
        "a: [\n]\n",
        "a: {}  # nothing\n\n# the end\n",
        '"a b": "c: d # e \\" \\\\ \\n"\n',
        "a: b c#d (e, f) [g]\n",
        "  a: b\n  c: d\n",
        "a: 'it''s'\n",
        "é: ü\n",
        "a : b\n",
    ],
)
def test_constructs(driver: Path, text: str) -> None:
    assert verdicts(driver, [text]) == ["same"]


# What ends or changes a node where a reader by lines does not see it, and what is a fault.
@pytest.mark.parametrize(
    "text",
    [
        "a: b\n  c\n",
        "a: b: c\n",
        "a: b\n c: d\n",
        "a:\n  b: c\n d: e\n",
        "a: - b\n",
        "- a\nb: c\n",
        "a: b\n- c\n",
        "a: [b\n  c]\n",
        "a: [b: c]\n",
        "a: {b}\n",
        "a: {b:c}\n",
        "a: [,b]\n",
        "a: [b,,c]\n",
        "a: [b]c\n",
        "a: [b]: c\n",
        'a: "b" c\n',
        'a: "b"#c\n',
        "a: [b]#c\n",
        "[a]: b\n",
        "a: b\n---\nc: d\n",
        "a: b\n...\n",
        "%YAML 1.1\n---\na: b\n",
        "a: &b c\n",
        "a: *b\n",
        "a: !b c\n",
        "a: |\n  b\n",
        "<<: {a: b}\n",
        "a: b\na: c\n",
        "{a: b, a: c}\n",
        "a:\n",
        "-\n",
        "a: \tb\n",
        "a: b\t\n",
        "a: 'b\n  c'\n",
        "? a\n: b\n",
        "a: @b\n",
        "a",
        "",
        "[" * 17 + "]" * 17,
        "a" * 1025 + ": b\n",
        "a" + " " * 1100 + ": b\n",
        '"a"' + " " * 1100 + ": b\n",
        '"' + "\\n" * 600 + '": b\n',
        "{'" + "''" * 600 + "': b}\n",
    ],
)
def test_the_rest_is_left_to_libyaml(driver: Path, text: str) -> None:
    assert verdicts(driver, [text]) == ["unsure"]


@pytest.mark.promise("G1", "G6")
def test_random_texts(driver: Path) -> None:
    """Of words of YAML; most are faulty, and some hundreds are not."""
    chosen = random.Random(7)
    texts = ["".join(chosen.choices(WORDS, k=chosen.randrange(1, 12))) for _ in range(60_000)]
    found = verdicts(driver, texts)
    assert differing(driver, texts) == {}
    assert found.count("same") > 300


@pytest.mark.promise("G1", "G6")
def test_edited_tables(driver: Path) -> None:
    """A word more, or some characters less, anywhere in a table."""
    chosen = random.Random(11)
    texts = [bare(case.text()) for case in CASES if case.id != "bad-character"]
    tables = [BASE, (ROOT / "ops.yaml").read_text(encoding="utf-8")]
    for _ in range(4_000):
        text = chosen.choice(tables)
        at = chosen.randrange(len(text))
        word = chosen.choice(["", *WORDS])
        texts.append(text[:at] + word + text[at + chosen.randrange(4) :])
    assert differing(driver, texts) == {}
