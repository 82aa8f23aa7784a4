"""The pages of docs/ are run. What a block is stands after its three backticks:

    python               a session; what it prints must be what the page says
    console              commands after `$ `, run in the page's folder, and what they print
    c|make|yaml|python file=F
                         the file F of the page's folder
    yaml row|table       right, as opgen sees it; a row is put under HEAD below
    yaml row fault       has a fault; the next block, `text`, is what opgen answers
    text                 only looked at

In what is printed, `...` stands for anything. The page's folder lies beside a folder `aicf`, which
looks like a checkout that was built."""

from __future__ import annotations

import doctest
import fnmatch
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BUILD = Path(os.environ.get("B", ROOT / "build")).resolve()
GENERATED = Path(os.environ.get("GEN", ROOT / "generated")).resolve()
OPGEN = Path(os.environ.get("OPGEN") or BUILD / "opgen").resolve()
ZOO = ROOT / "tests" / "modules" / "zoo"
PAGES = sorted(DOCS.glob("*.md"))
FLAGS = doctest.ELLIPSIS | doctest.REPORT_NDIFF

HEAD = """\
schema: 1
package: some_ops
namespace: some
backends:
  cuda: {devices: [cuda], suffix: .cu, without: [f64]}
  cpu: {devices: [cpu], suffix: .c}
dtypes:
  float: [f32, f16, bf16, f64]
  int: [i8, u8, i16, i32, i64]
  any: [float, int, bool]
  acc: {f16: f32, bf16: f32, f32: f32, f64: f64}
  total: {bool: i64, int: i64, float: same}
ops:
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the words behind the backticks, the text, the line where that begins."""

    words: tuple[str, ...]
    text: str
    line: int

    @property
    def file(self) -> str | None:
        named = [word.removeprefix("file=") for word in self.words if word.startswith("file=")]
        return named[0] if named else None


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    words: list[str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif words is None:
            words, lines = line[3:].split(), []
        else:
            found.append(Block(tuple(words), "\n".join(lines) + "\n", number - len(lines)))
            words = None
    assert words is None, f"{page.name}: a block does not end"
    return found


def of_kind(*words: str) -> Iterator[tuple[Path, Block, Block]]:
    """The blocks with exactly these words, and the block behind each."""
    for page in PAGES:
        for block, behind in itertools.pairwise(blocks(page)):
            if block.words == words:
                yield page, block, behind


def place(page: Path, block: Block) -> str:
    return f"{page.name}:{block.line}"


def run(command: list[str | Path], where: Path, **environment: str) -> tuple[int, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "AICF_"))}
    kept = {k: v for k, v in kept.items() if k not in ("B", "GEN", "OPGEN", "CI")}
    done = subprocess.run(
        command,
        cwd=where,
        env={**kept, "AICF_CACHE": str(where / "cache"), **environment},  # nobody's own
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


def as_said(block: Block, got: str, want: str, where: str) -> None:
    """The output is what the page says it is."""
    example = doctest.Example("", want)
    checker = doctest.OutputChecker()
    assert checker.check_output(want, got, FLAGS), (
        f"{where}: {block.text.splitlines()[0]}\n"
        + checker.output_difference(example, got, doctest.ELLIPSIS)
    )


# ---- a checkout beside the page's folder -------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder; beside it `aicf`, which looks like a checkout that was built."""
    checkout = tmp_path / "aicf"
    (checkout / "build").mkdir(parents=True)
    for part in ("include", "templates", "kernels", "ops.yaml"):
        (checkout / part).symlink_to(ROOT / part)
    (checkout / "generated").symlink_to(GENERATED)
    (checkout / "build" / "opgen").symlink_to(OPGEN)
    (checkout / "build" / "python").symlink_to(BUILD / "python")
    where = tmp_path / "mine"
    where.mkdir()
    return where


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package of the table in tests/modules/zoo is, built."""
    where = tmp_path_factory.mktemp("zoo")
    shutil.copytree(ZOO, where, dirs_exist_ok=True)
    runtime = BUILD / "python" / "aicf_rt"
    given = {"ROOT": ROOT, "BUILT": BUILD / "python", "PYTHON": sys.executable, "OPGEN": OPGEN}
    given["FROM"] = Path(os.path.relpath(runtime, where / "python" / "zoo_ops"))
    status, said = run(["make", *(f"{k}={v}" for k, v in given.items())], where)
    assert status == 0, said
    return where / "python"


# ---- what is run -------------------------------------------------------------------------------

SESSION = """
import doctest, sys
text = open(sys.argv[1], encoding="utf-8").read()
test = doctest.DocTestParser().get_doctest(text, {}, sys.argv[2], sys.argv[2], 0)
sys.exit(doctest.DocTestRunner(optionflags=int(sys.argv[3])).run(test).failed > 0)
"""


def session(page: Path) -> str:
    """The page with nothing but its sessions, each line where it was."""
    kept = [""] * len(page.read_text(encoding="utf-8").splitlines())
    for block in blocks(page):
        if block.words == ("python",):
            for i, line in enumerate(block.text.splitlines()):
                kept[block.line - 1 + i] = line
    return "\n".join(kept) + "\n"


def with_sessions() -> Iterator[object]:
    """The pages that have some, with the guests that they import."""
    for page in PAGES:
        if ("python",) in [b.words for b in blocks(page)]:
            guests = [g for g in ("torch", "jax") if f">>> import {g}\n" in session(page)]
            yield pytest.param(page, marks=pytest.mark.guests(*guests), id=page.name)


@pytest.mark.promise("DOCS-examples")
@pytest.mark.parametrize("page", list(with_sessions()))
def test_sessions(page: Path, zoo: Path, tmp_path: Path) -> None:
    (tmp_path / "session").write_text(session(page), encoding="utf-8")
    status, said = run(
        [sys.executable, "-c", SESSION, "session", page.name, str(FLAGS)],
        tmp_path,
        PYTHONPATH=os.pathsep.join([str(BUILD / "python"), str(zoo)]),
    )
    assert status == 0, said


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console, each with what it prints. One goes on behind a backslash, and as
    long as a quote is open."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0], "a console begins with `$ `"
    for part in parts[1:]:
        lines = part.splitlines(keepends=True)
        ends = 1
        while lines[ends - 1].endswith("\\\n") or "".join(lines[:ends]).count('"') % 2:
            ends += 1
        yield "".join(lines[:ends]), "".join(lines[ends:])


@pytest.mark.promise("DOCS-examples")
@pytest.mark.parametrize(
    "page", [p for p in PAGES if ("console",) in [b.words for b in blocks(p)]], ids=lambda p: p.name
)
def test_consoles(page: Path, folder: Path) -> None:
    """In the order of the page: files are written where they stand, commands run where they do."""
    python = Path(sys.executable).parent
    for block in blocks(page):
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.words == ("console",):
            for command, want in commands(block):
                status, got = run(
                    ["sh", "-c", command], folder, PATH=f"{python}:{os.environ['PATH']}"
                )
                as_said(block, got, want, place(page, block))
                assert status == 0 or "error" in want, f"{place(page, block)}: {command}{got}"


def opgen(tmp_path: Path, text: str) -> tuple[int, str]:
    (tmp_path / "ops.yaml").write_text(text, encoding="utf-8")
    return run([OPGEN, "--check", "ops.yaml"], tmp_path)


@pytest.mark.promise("DOCS-examples")
def test_rows_and_tables(tmp_path: Path) -> None:
    seen = 0
    for page in PAGES:
        for block in blocks(page):
            if block.words[:1] != ("yaml",) or "fault" in block.words:
                continue
            text = HEAD + indented(block.text) if "row" in block.words else block.text
            status, said = opgen(tmp_path, text)
            assert status == 0, f"{place(page, block)}\n{said}"
            seen += 1
    assert seen >= 10


@pytest.mark.promise("DOCS-examples")
def test_faults(tmp_path: Path) -> None:
    """The page shows what opgen answers, where the row follows HEAD."""
    cases = list(of_kind("yaml", "row", "fault"))
    assert cases
    for page, block, behind in cases:
        assert behind.words == ("text",), place(page, block)
        status, said = opgen(tmp_path, HEAD + indented(block.text))
        assert status == 1, place(page, block)
        as_said(block, said, behind.text, place(page, behind))


def indented(rows: str) -> str:
    return "".join(f"  {line}" if line.strip() else line for line in rows.splitlines(True))


@pytest.mark.promise("DOCS-examples")
def test_adding_an_op(folder: Path) -> None:
    """The row, its fault, the kernel and the call of the page, as a table of its own."""
    page = blocks(DOCS / "adding-an-op.md")
    row = next(b for b in page if b.words == ("yaml", "row"))
    fault = next(b.text for b in page if "[unknown-layout]" in b.text)
    kernel = next(b for b in page if b.words[:1] == ("c",))
    call = next(b.text for b in page if b.text.startswith("$ make\n"))
    (folder / "kernels/square").mkdir(parents=True)
    (folder / "kernels/square/square.c").write_text(kernel.text, encoding="utf-8")
    head = HEAD.replace("some_ops", "aicf_cuda").replace("namespace: some", "namespace: aicf")
    wrong = row.text.replace("cpu, layout: flat", "cpu, layout: falt")
    status, said = opgen(folder, head + indented(wrong))
    number = (head + indented(wrong)).splitlines().index(
        "      - " + wrong.splitlines()[-1][6:]
    ) + 1
    as_said(kernel, said.replace(str(number), "14"), fault, "adding-an-op.md")
    assert status == 1
    make_table(folder, head + indented(row.text))
    assert_calls(folder, call)


@pytest.mark.promise("DOCS-examples")
@pytest.mark.guests("torch", "jax")
def test_adding_its_gradient(folder: Path) -> None:
    """Both rows with the page's `grad`, and its calls from torch and jax."""
    page = blocks(DOCS / "adding-an-op.md")
    row, backward = (b.text for b in page if b.words == ("yaml", "row"))
    grad = re.search(r"^    (grad: .*)$", (DOCS / "adding-an-op.md").read_text("utf-8"), re.M)
    assert grad is not None
    kernel = next(b.text for b in page if b.words[:1] == ("c",))
    other = kernel.replace("square", "square_bwd").replace("x[i] * x[i]", "2 * x[i] * gy[i]")
    other = other.replace("(const float *x", "(const float *gy, const float *x")
    for op, text in {"square": kernel, "square_bwd": other}.items():
        doubled = text[text.index("\naicf_status") :].replace("float", "double")
        (folder / "kernels" / op).mkdir(parents=True)
        (folder / "kernels" / op / f"{op}.c").write_text(
            text + doubled.replace("f32", "f64"), encoding="utf-8"
        )
    head = HEAD.replace("some_ops", "aicf_cuda").replace("namespace: some", "namespace: aicf")
    make_table(folder, head + indented(f"{row}  {grad[1]}\n{backward}"))
    calls = [b.text for b in page if "aicf_cuda.torch" in b.text or "aicf_cuda.jax" in b.text]
    assert calls
    for call in calls:
        assert_calls(folder, call)


def make_table(folder: Path, table: str) -> None:
    (folder / "ops.yaml").write_text(table, encoding="utf-8")
    for command in (
        ["../aicf/build/opgen", "--templates", "../aicf/templates", "ops.yaml"],
        ["make", "-f", "generated/ops.mk", "CUDA=0", f"PYTHON={sys.executable}"]
        + ["AICF_INCLUDE=../aicf/include", "AICF_RT=../aicf/build/python/aicf_rt"],
    ):
        status, said = run(list(command), folder)
        assert status == 0, said
    (folder / "build/python/aicf_rt").symlink_to(BUILD / "python/aicf_rt")


def assert_calls(folder: Path, text: str) -> None:
    """Each `python -c` of a console prints what stands below it."""
    found = re.findall(r'^\$ \S+ \S+python -c "(.*?)"\n(.*?)(?=^\$|\Z)', text, re.DOTALL | re.M)
    assert found
    for code, want in found:
        status, said = run(
            [sys.executable, "-c", code], folder, PYTHONPATH=str(folder / "build/python")
        )
        assert (status, said) == (0, want)


# ---- what is only looked at --------------------------------------------------------------------


def test_every_block_says_what_it_is() -> None:
    """Nothing that looks like an example goes unchecked; adding-an-op.md has a test of its own."""
    known = {("python",), ("console",), ("text",), ("yaml", "row"), ("yaml", "table")}
    for page in PAGES:
        for block in blocks(page):
            fine = block.words in known or block.file or block.words == ("yaml", "row", "fault")
            assert fine or page.name == "adding-an-op.md", place(page, block)


@pytest.mark.promise("DOCS-table-current")
def test_the_reference_is_current() -> None:
    status, said = run(
        [sys.executable, "tools/table_reference.py", "--check", "--opgen", OPGEN], ROOT
    )
    assert status == 0, said


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.promise("DOCS-links")
@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda p: p.name)
def test_links_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file) if file else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


def test_paths_that_pages_name_exist() -> None:
    """In backticks, with a folder of this tree in front."""
    tops = "include|generator|templates|runtime|kernels|tests|tools|make|examples|bench|docs"
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for path in re.findall(rf"`((?:{tops})/[\w./-]*)`", text):
            if page.name == "adding-an-op.md" or "NAME" in path:
                continue
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_the_source_map_names_every_file_in_c() -> None:
    """And none that is gone. What a name is relative to, the page says."""
    page = (DOCS / "design.md").read_text(encoding="utf-8")
    table = page[page.index("## Source map") : page.index("## What a change touches")]
    named = set(re.findall(r"`([\w./*]+\.c)`", table))
    runtime = ROOT / "runtime"
    there = {
        path.name
        for folder in ("generator", "runtime/shim")
        for path in (ROOT / folder).glob("*.c")
    }
    there |= {
        str(path.relative_to(runtime))
        for folder in ("core", "libaicf", "jax")
        for path in (runtime / folder).rglob("*.c")
    }
    assert not {path for path in there if not any(fnmatch.fnmatchcase(path, n) for n in named)}
    assert not {name for name in named if not fnmatch.filter(there, name)}


def test_lines_are_not_long() -> None:
    """But in tables, and what programs print."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        prose = re.sub(r"^```(?:python|console|text)$.*?^```", "", text, flags=re.M | re.S)
        for line in prose.splitlines():
            assert len(line) <= 110 or line.startswith("|"), f"{page.name}: {len(line)}: {line}"
