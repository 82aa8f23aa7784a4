"""The template engine: its tags, its faults, and the encoder of every sink."""

from __future__ import annotations

import ast
import ctypes
import inspect
import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generator.program import ROOT, Fault, Opgen, parse_faults
from generator.tables import compile_c, create_module, generate, row, table

# Every kind of text that once broke a generator: ends of comments and strings, formats, trigraphs,
# line splices, Make's and Markdown's own characters, marks that turn text around, other scripts.
NASTY = [
    "ends */ a comment /* and opens one",
    'says "quoted" and \\ and \\n',
    "100% %s %n %d",
    "trigraphs ??/ ??= ??' ???/",
    "a line\nand another\n\nand a last",
    "ends in a backslash \\",
    "$(shell false) $x #no: a|b `code` *b* _i_ <b> & [l](x)",
    '"""triple""" and \'single\'"',
    "naïve 日本語 \U0001f600 \u202e back \u2066 in",
    "octal next to digits é1 and \x7f",
    "  spaces  around  ",
    "*\\\n/ spliced",
    "-- item\n1. one\n# title\n> quote",
    "x" * 300,
    "ends with a quote\"",
    "?", "/", "*",
]  # fmt: skip


def write(folder: Path, **templates: str) -> Path:
    """A folder of templates; each is written to a file of its own name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in templates.items():
        (folder / f"{name}.tpl").write_text(f"@{{once {name}}}\n{text}", encoding="utf-8")
    return folder


def rendered(opgen: Opgen, folder: Path, text: str, *rows: str) -> str:
    """What one template of the table says."""
    source = table(folder, *(rows or (row("relu"), row("abs"))))
    generate(opgen, source, folder / "out", write(folder / "templates", said=text))
    return (folder / "out" / "said").read_text(encoding="utf-8")


def encoded(opgen: Opgen, folder: Path, encoder: str, texts: list[str]) -> list[str]:
    """The texts as docs of rows, each through an encoder."""
    template = f'@{{for o in table.ops sep "\\n\\x01\\n"}}@{{o.doc|{encoder}}}@{{end}}'
    rows = [row(f"op{i}", text) for i, text in enumerate(texts)]
    parts = rendered(opgen, folder, template.replace("\\x01", "====="), *rows)
    return parts.split("\n=====\n")


# ---- tags --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "template, said",
    [
        ("plain $x ${y} $(z) %d {{}} @ @x\n", "plain $x ${y} $(z) %d {{}} @ @x\n"),
        ("@{table.package|name}/@{table.package|upper}\n", "demo/DEMO\n"),
        ('@{for o in table.ops sep ", "}@{o.name|name}@{end}.\n', "relu, abs.\n"),
        ("@{for o in table.ops}\n  - @{o.name|name}\n@{end}\nend\n", "  - relu\n  - abs\nend\n"),
        ('@{for o in table.ops sep "\\n\\"\\\\"}@{o.index|number}@{end}', '0\n"\\1'),
        ("@{for o in table.ops}@{if o.first}first@{else}later@{end} @{end}", "first later "),
        ("@{for o in table.ops}@{if not o.attrs}none @{end}@{end}", "none none "),
        ("@{for o in table.ops}@{if o.aten}aten@{else}-@{end}@{end}", "--"),
        ("@{# gone}\nkept\n  @{# also } gone}\n", "kept\n   gone}\n"),
        ("a @{# inside} b\n", "a  b\n"),
        ("  @{for o in table.ops}\n    @{if o.outs}\n x\n  @{end}\n@{end}\n", " x\n x\n"),
        (
            "@{for o in table.ops}@{for v in o.variants}"
            "@{o.index|number}@{v.suffix|name} @{end}@{end}",
            "0f32 0f16 1f32 1f16 ",
        ),
        ("@{quote py_string}a@{table.package|text}\nb@{end}\n", '"ademo\\nb"\n'),
        ("@{fill}short(a,\n    b);@{end}\n", "short(a,b);\n"),
    ],
)  # fmt: skip
def test_tags(opgen: Opgen, tmp_path: Path, template: str, said: str) -> None:
    assert rendered(opgen, tmp_path, template) == said


def test_values_of_several_lines_are_indented(opgen: Opgen, tmp_path: Path) -> None:
    template = "@{for o in table.ops}\n    @{o.doc|docstring}\n@{end}\n"
    said = rendered(opgen, tmp_path, template, row("relu", "one\ntwo\n\nthree"))
    assert said == '    """one\n    two\n\n    three"""\n'


def test_output_paths(opgen: Opgen, tmp_path: Path) -> None:
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "a.tpl").write_text("@{each op x/{package}/{op}.{namespace}}\n@{op.name|name}\n")
    source = table(tmp_path, row("relu"), row("abs"))
    generate(opgen, source, tmp_path / "out", templates)
    assert (tmp_path / "out/x/demo/relu.demo").read_text() == "relu\n"
    assert (tmp_path / "out/x/demo/abs.demo").read_text() == "abs\n"


@pytest.mark.parametrize(
    "template, line, column, message",
    [
        ("ok\n  @{table.nam|name}", 3, 11, "no field `nam` in a table"),
        ("@{op.name|name}", 2, 3, "no variable `op` here"),
        ("@{table.package|nme}", 2, 17, "no encoder `nme`"),
        ("@{table.package}", 2, 16, "`|` expected"),
        ("@{for o in table.ops}@{o.name|name}", 2, 1, "a tag that is not closed"),
        ("@{for o of table.ops}@{end}", 2, 7, "`for NAME in VARIABLE.LIST` expected"),
        ("@{for o in table.package}@{end}", 2, 12, "`package` is not a list"),
        ("x@{end}", 2, 2, "an @{end} without its beginning"),
        ("@{else}", 2, 1, "an @{else} without its @{if}"),
        ("@{for o in table.ops}@{else}@{end}", 2, 22, "an @{else} without its @{if}"),
        ("@{if table.package}@{else}@{else}@{end}", 2, 27, "an @{else} without its @{if}"),
        ("@{for o in table.ops}@{o.doc|name}@{end}", 2, 24, "cannot go through the encoder `name`"),
        ("@{for o in table.ops}@{o.doc|c}@{end}", 2, 24, "cannot go through the encoder `c`"),
        ("@{table.ops|name}", 2, 3, "cannot go through the encoder `name`"),
        ("@{table.package|text}", 2, 17, "only for the inside of @{quote}"),
        ("@{quote name}x@{end}", 2, 1, "`name` does not quote"),
        ("@{quote json_string}@{quote md}x@{end}@{end}", 2, 21, "a quote in a quote"),
        ("@{for o in table.ops sep ,}@{end}", 2, 26, '`"` expected'),
        ("@{table.package|name", 2, 21, "`}` expected"),
        ("@{# never closed", 2, 1, "a tag that is not closed"),
    ],
)
def test_faults(
    opgen: Opgen, tmp_path: Path, template: str, line: int, column: int, message: str
) -> None:
    said = run_faulty(opgen, tmp_path, "@{once x}\n" + template)
    assert [(f.line, f.column, f.id) for f in said] == [(line, column, "template")], said
    assert message in said[0].message


@pytest.mark.parametrize(
    "first, message",
    [
        ("no tag", "`@{each op PATH}` or `@{once PATH}` expected"),
        ("@{once ../x}", "a path inside the output folder expected"),
        ("@{once /x}", "a path inside the output folder expected"),
        ("@{each row x}", "`@{each op PATH}` or `@{once PATH}` expected"),
        ("@{once x", "a path and `}` expected"),
    ],
)
def test_faults_of_the_first_line(opgen: Opgen, tmp_path: Path, first: str, message: str) -> None:
    said = run_faulty(opgen, tmp_path, first + "\n")
    assert [f.line for f in said] == [1]
    assert message in said[0].message


def run_faulty(opgen: Opgen, folder: Path, template: str) -> list[Fault]:
    (folder / "t").mkdir()
    (folder / "t/x.tpl").write_text(template)
    said = opgen.run("--templates", folder / "t", "--out", folder / "out", table(folder, row("a")))
    assert said.returncode == 1
    assert not (folder / "out").exists()
    return parse_faults(said.stderr)


def test_a_misspelt_field_is_suggested(opgen: Opgen, tmp_path: Path) -> None:
    said = run_faulty(opgen, tmp_path, "@{once x}\n@{table.packge|name}")
    assert said[0].notes == ("did you mean `package`?",)


def test_all_templates_report(opgen: Opgen, tmp_path: Path) -> None:
    templates = write(tmp_path / "t", a="@{x.y|name}", b="@{end}")
    said = opgen.run("--templates", templates, "--out", tmp_path / "out", table(tmp_path, row("a")))
    assert len(re.findall(r"\[template\]", said.stderr)) == 2


def test_two_templates_of_one_path(opgen: Opgen, tmp_path: Path) -> None:
    templates = write(tmp_path / "t", a="")
    (templates / "b.tpl").write_text("@{once a}\n")
    said = opgen.run("--templates", templates, "--out", tmp_path / "out", table(tmp_path, row("a")))
    assert (said.returncode, said.stderr) == (1, "opgen: two templates or ops write a\n")
    assert not (tmp_path / "out").exists()


# ---- encoders ----------------------------------------------------------------------------------


def c_value(folder: Path, literals: list[str]) -> list[str]:
    """What gcc makes of C string literals."""
    source = folder / "strings.c"
    body = "".join(f"const char s{i}[] = {text};\n" for i, text in enumerate(literals))
    source.write_text(body, encoding="utf-8")
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    said = subprocess.run([*command, source, "-o", folder / "s.so"], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    library = ctypes.CDLL(str(folder / "s.so"))
    found = [ctypes.addressof(ctypes.c_char.in_dll(library, f"s{i}")) for i in range(len(literals))]
    return [ctypes.string_at(address).decode() for address in found]


@pytest.mark.promise("G10")
def test_c_strings(opgen: Opgen, tmp_path: Path) -> None:
    literals = encoded(opgen, tmp_path, "c_string", NASTY)
    assert c_value(tmp_path, literals) == NASTY
    assert max(len(line) for text in literals for line in text.splitlines()) <= 100


@pytest.mark.promise("G10")
def test_c_comments(opgen: Opgen, tmp_path: Path) -> None:
    comments = encoded(opgen, tmp_path, "c_comment", NASTY)
    for comment in comments:
        assert re.fullmatch(r"/\* .* \*/", comment, re.DOTALL)
        assert (comment.count("*/"), comment.count("/*")) == (1, 1)
    source = tmp_path / "comments.c"
    source.write_text("\n".join(comments) + "\nint x;\n", encoding="utf-8")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wbidi-chars=any", "-fsyntax-only"]
    command = ["gcc", *flags]
    said = subprocess.run([*command, source], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


@pytest.mark.promise("G10")
def test_python_strings(opgen: Opgen, tmp_path: Path) -> None:
    literals = encoded(opgen, tmp_path, "py_string", NASTY)
    assert [ast.literal_eval(text) for text in literals] == NASTY
    assert not any("\n" in text or "\u202e" in text for text in literals)


@pytest.mark.promise("G10")
def test_docstrings(opgen: Opgen, tmp_path: Path) -> None:
    literals = encoded(opgen, tmp_path, "docstring", NASTY)
    assert [ast.literal_eval(text) for text in literals] == [text.rstrip("\n") for text in NASTY]


@pytest.mark.promise("G10")
def test_json_strings(opgen: Opgen, tmp_path: Path) -> None:
    assert [json.loads(text) for text in encoded(opgen, tmp_path, "json_string", NASTY)] == NASTY


@pytest.mark.promise("G10")
def test_python_comments(opgen: Opgen, tmp_path: Path) -> None:
    for text in encoded(opgen, tmp_path, "py_comment", NASTY):
        assert len(text.splitlines()) <= 1


@pytest.mark.promise("G10")
def test_make_words(opgen: Opgen, tmp_path: Path) -> None:
    words = ["a b", "$HOME", "a#b", "c:d", "back\\slash", "odd\\ end", "plain/path.c"]
    encoded_words = encoded(opgen, tmp_path, "make", words)
    # As prerequisites: what make looks for is what was said.
    makefile = "".join(
        f"all: {text}\n{text}: ; @printf '%s\\n' '$(subst ','\\'',$@)'\n" for text in encoded_words
    )
    said = subprocess.run(["make", "-f", "-"], input=makefile, capture_output=True, text=True)
    assert said.stdout.splitlines() == words, said.stderr


@pytest.mark.promise("G10")
def test_markdown(opgen: Opgen, tmp_path: Path) -> None:
    for text, said in zip(NASTY, encoded(opgen, tmp_path, "md", NASTY), strict=True):
        assert "\n" not in said
        plain = re.sub(r"\\([\\`*_\[\]|~$#>\-+=.)])", r"\1", said)
        assert plain.replace("&lt;", "<").replace("&amp;", "&") == text.replace("\n", " ")
        assert not re.search(r"(?<!\\)[|`*\[\]<~$]", said)


@pytest.mark.promise("G10")
def test_markdown_code(opgen: Opgen, tmp_path: Path) -> None:
    for said in encoded(opgen, tmp_path, "md_code", NASTY):
        fence = re.match("`+", said)
        assert fence
        assert said.endswith(fence[0])
        inside = said[len(fence[0]) : -len(fence[0])]
        assert fence[0] not in inside
        assert "\n" not in inside
        assert not re.search(r"(?<!\\)\|", inside)


# ---- free text all the way into a module -------------------------------------------------------


@pytest.mark.promise("G10")
@pytest.mark.parametrize("doc", NASTY, ids=range(len(NASTY)))
def test_docs_reach_the_module(opgen: Opgen, tmp_path: Path, doc: str) -> None:
    source = table(tmp_path, row("relu", doc))
    generated = tmp_path / "generated"
    generate(opgen, source, generated)
    compile_c(generated / "ops/relu_op.c", generated, "-fsyntax-only")
    module = create_module(generated, "relu", tmp_path)
    assert module.__doc__ == doc
    assert module.relu_f16.__doc__.startswith(doc)
    assert str(inspect.signature(module.relu_f16)) == "(x, out, *, stream=None, kernel=None)"
    assert str(inspect.signature(module.relu)) == "(x, *, out=None, stream=None, kernel=None)"


@pytest.mark.promise("G10")
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    docs=st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\\"*/?%\n$#'))
        .map(str.strip)
        .filter(lambda text: text and "\ufeff" not in text),
        min_size=1,
        max_size=6,
    )
)
def test_any_text_survives(
    opgen: Opgen, tmp_path_factory: pytest.TempPathFactory, docs: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    template = (
        '@{for o in table.ops sep "\\n=====\\n"}@{o.doc|c_string}\n-----\n@{o.doc|py_string}\n'
        "-----\n@{o.doc|docstring}\n-----\n@{o.doc|json_string}\n-----\n@{o.doc|c_comment}@{end}"
    )
    rows = [row(f"op{i}", doc) for i, doc in enumerate(docs)]
    said = rendered(opgen, folder, template, *rows)
    parts = [part.split("\n-----\n") for part in said.split("\n=====\n")]
    if any(len(part) != 5 for part in parts):  # the text holds a separator
        return
    assert c_value(folder, [part[0] for part in parts]) == docs
    assert [ast.literal_eval(part[1]) for part in parts] == docs
    assert [ast.literal_eval(part[2]) for part in parts] == docs
    assert [json.loads(part[3]) for part in parts] == docs
    assert all(part[4].count("*/") == 1 for part in parts)


# ---- the list of names ---------------------------------------------------------------------------

MARKS = {
    "NAME": "", "NUMBER": "#", "TEXT": '"', "CODE": ":c", "PYTHON": ":py", "JSON": ":json",
    "FLAG": "?",
}  # fmt: skip


def names_in_c() -> dict[str, list[str]]:
    """The fields of every thing, as the scope files list them."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "generator").glob("scope*.c")):
        text = path.read_text()
        tables = dict(re.findall(r"static const field (\w+)\[\] = \{\n(.*?)\n\};", text, re.DOTALL))
        for thing, fields in re.findall(r'const thing thing_(\w+) = \{"[^"]+", (\w+)\};', text):
            pattern = r'\b([A-Z]+)\("(\w+)",\s*\w+(?:,\s*thing_(\w+))?\)'
            found[thing] = [
                name + (f"[{of}]" if kind == "EACH" else MARKS[kind])
                for kind, name, of in re.findall(pattern, tables[fields])
            ]
    return found


def test_readme_lists_every_name() -> None:
    text = (ROOT / "templates" / "README.md").read_text()
    listed = text.split("A test compares this list with the C.\n\n")[1].split("\n\n")[0]
    found: dict[str, list[str]] = {}
    for line in listed.splitlines():
        if line[4] != " ":
            thing, line = line.split(maxsplit=1)
            found[thing] = []
        found[thing] += line.split()
    assert found == names_in_c()


def test_readme_lists_every_encoder() -> None:
    source = (ROOT / "generator" / "encode.c").read_text().split("const encoder encoders[]")[1]
    encoders = re.findall(r'\{"(\w+)", encode_', source)
    text = (
        (ROOT / "templates" / "README.md").read_text().split("## Encoders")[1].split("## Names")[0]
    )
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell)) == sorted(
        encoders
    )
