"""The shape language: what it says, in which order its dims come, and every shape that cannot be."""

# ruff: noqa: E501 (tables of cases read best one a line)

from __future__ import annotations

from pathlib import Path

import pytest

import languages

NAMES = [
    "type\tT\tf32 f16",
    "attr\tH\tint",
    "attr\tflag\tbool",
    "attr\tmode\tenum\tnone mean",
    "attr\twindow\tints\t2",
    "attr\taxis\taxis",
    "attr\tother\taxis",
    "attr\taxes\taxes",
    "attr\tlr\tscalar",
]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return languages.build(tmp_path_factory.mktemp("shapes"))


def arg(name: str, shape: str, flags: str = "-") -> list[str]:
    return ["arg", name, "T", flags, shape]


def out(name: str, shape: str) -> list[str]:
    return ["out", name, "T", "-", shape]


def let(name: str, value: str) -> list[str]:
    return ["let", name, value]


def rows(driver: Path, asked: list[list[list[str]]]) -> list[list[languages.Answer]]:
    """The answers of each row: its lines, then `shapes`."""
    return [languages.ask(driver, [*NAMES, *row, "shapes"])[len(NAMES) :] for row in asked]


# What the lines give: dims in order, then shapes as they are written back.
GOOD: list[tuple[list[list[str]], list[str], list[str]]] = [
    ([arg("a", "A.. M K"), arg("b", "B.. K N"), out("o", "broadcast(A, B) M N")],
     ["A..", "M", "K", "B..", "N"], ["A.. M K", "B.. K N", "broadcast(A, B) M N"]),
    ([arg("x", "L.. N@axis R.."), arg("bias", "N"), out("o", "L.. N R..")],
     ["L..", "N", "R.."], ["L.. N@axis R..", "N", "L.. N R.."]),
    ([arg("x", "L.. N@axis M.. K@other R.."), out("o", "()")],
     ["L..", "N", "M..", "K", "R.."], ["L.. N@axis M.. K@other R..", "()"]),
    # Arithmetic mentions, and something else binds.
    ([arg("w", "4*K D"), arg("h", "K"), out("o", "4*K")], ["K", "D"], ["4 * K D", "K", "4 * K"]),
    ([arg("g", "reduced(A, axes, flag)"), arg("x", "A.."), out("o", "A..")],
     ["A.."], ["reduced(A, axes, flag)", "A..", "A.."]),
    ([arg("x", "A.."), out("o", "permuted(A, axes)")], ["A.."], ["A..", "permuted(A, axes)"]),
    ([arg("x", "A.."), out("o", "reduced(A, axis)")], ["A.."], ["A..", "reduced(A, axis)"]),
    ([arg("x", "N R.. if mode == 'none' else ()"), arg("t", "N R.."), out("o", "N")],
     ["N", "R.."], ["N R.. if mode == 'none' else ()", "N R..", "N"]),
    ([arg("x", "N H"), out("o", "N H//2 H")], ["N"], ["N H", "N H // 2 H"]),
    ([arg("x", "N"), out("o", "(N - 1) (-1 * -N) (1 if flag else N) window[0]")],
     ["N"], ["N", "N - 1 (-1 * -N) (1 if flag else N) window[0]"]),
    ([arg("x", "N"), let("P", "N // 2"), let("Q", "P - 1"), out("o", "P Q")],
     ["N", "P", "Q"], ["N", "P Q"]),
    ([arg("x", "L.. N@axis R..", "list=n"), out("o", "L.. sum(N) R..")],
     ["L..", "N varies", "R..", "n"], ["L.. N@axis R..", "L.. sum(N) R.."]),
    ([arg("p", "A..", "list=n inout"), arg("g", "A..", "list=n"), arg("b", "A..", "list=n optional")],
     ["A.. varies", "n"], ["A..", "A..", "A.."]),
    # One mention elsewhere, and a dim is equal in all.
    ([arg("x", "N", "list=n"), arg("y", "N"), out("o", "n")], ["N", "n"], ["N", "N", "n"]),
    ([arg("x", "N", "list=n"), arg("y", "N", "list=m"), out("o", "()")], ["N", "n", "m"],
     ["N", "N", "()"]),
    ([arg("x", "N", "list=n"), let("P", "N * 2"), out("o", "P")], ["N", "n", "P"], ["N", "P"]),
    ([arg("x", "N", "list=n"), let("P", "sum(N)"), out("o", "P")], ["N varies", "n", "P"], ["N", "P"]),
    ([arg("x", "A..", "list=n"), out("o", "A..")], ["A..", "n"], ["A..", "A.."]),
    # Bound before, so nothing has to be told apart here.
    ([arg("a", "A.."), arg("b", "B.."), arg("c", "A.. B.."), out("o", "B.. A..")],
     ["A..", "B.."], ["A..", "B..", "A.. B..", "B.. A.."]),
]  # fmt: skip


@pytest.mark.promise("TABLE-shapes")
def test_good_shapes(driver: Path) -> None:
    for (row, dims, shapes), answers in zip(GOOD, rows(driver, [r for r, *_ in GOOD]), strict=True):
        for answer in answers:
            assert not answer.faults, (row, answer)
        said = answers[-1].lines
        assert [line[4:] for line in said if line.startswith("dim ")] == dims, row
        assert [line[6:] for line in said if line.startswith("shape ")] == shapes, row


@pytest.mark.promise("TABLE-shapes")
def test_normal_text_parses_back(driver: Path) -> None:
    """The text that a shape is written back as means the same shape."""
    for row, answers in zip(
        (r for r, *_ in GOOD), rows(driver, [r for r, *_ in GOOD]), strict=True
    ):
        shapes = iter(line[6:] for line in answers[-1].lines if line.startswith("shape "))
        again = [line if line[0] == "let" else [*line[:4], next(shapes)] for line in row]
        assert rows(driver, [again])[0][-1] == answers[-1], again


# A row, the line of it and the column in its shape where the fault is (None: not of one shape's text),
# the id, part of the message.
BAD: list[tuple[list[list[str]], int, int | None, str, str]] = [
    ([arg("x", "")], 0, 0, "expression-syntax", "a value is expected here, not the end"),
    ([arg("x", "A.. ()")], 0, 5, "expression-syntax", "a value is expected here, not `)`"),
    ([arg("x", "() A")], 0, 3, "expression-syntax", "nothing more is expected here"),
    ([arg("x", "N,M")], 0, 1, "expression-syntax", "a value is expected here, not `,`"),
    ([arg("x", "N@3")], 0, 2, "expression-syntax", "an axis attribute is expected here"),
    ([arg("x", "N if flag")], 0, 9, "expression-syntax", "`else` is expected after the condition"),
    ([arg("x", "N if flag else M if flag else K")], 0, 17, "expression-syntax", "the end"),
    ([arg("x", "N else M")], 0, 2, "expression-syntax", "the end is expected"),
    ([arg("x", "broadcast(A, B")], 0, 14, "expression-syntax", "`)` is expected after the packs"),
    ([arg("x", "broadcast(A, 3)")], 0, 13, "expression-syntax", "a pack is expected here"),
    ([arg("x", "reduced(A)")], 0, 9, "expression-syntax", "`,` is expected after the pack"),
    ([arg("x", "A.. broadcast(A, A, A, A, A, A, A, A, A)")], 0, 38, "shape-syntax", "at most 8"),
    ([arg("x", " ".join(["N"] * 65))], 0, 128, "shape-syntax", "at most 64 items"),
    ([arg("x", "N"), out("o", "M")], 1, 0, "shape-name", "no argument's shape binds `M`"),
    ([arg("x", "N"), out("o", "M..")], 1, 0, "shape-name", "no argument's shape binds `M`"),
    ([arg("x", "A.."), out("o", "broadcast(A, B)")], 1, 0, "shape-name", "binds `B`"),
    ([arg("x", "N"), out("o", "N..")], 1, 0, "shape-name", "`N` is a single dim elsewhere"),
    ([arg("x", "A.."), out("o", "A")], 1, 0, "shape-name", "`A` is a pack elsewhere"),
    ([arg("x", "A.. N"), arg("y", "A")], 1, 0, "shape-name", "`A` is a pack elsewhere"),
    ([arg("x", "N"), arg("y", "N..")], 1, 0, "shape-name", "`N` is a single dim elsewhere"),
    ([arg("x", "A.. N@nope")], 0, 6, "shape-name", "`nope` is no attribute of this row"),
    ([arg("x", "A.. N@flag")], 0, 6, "shape-attribute", "an axis attribute is wanted here"),
    ([arg("x", "A.."), out("o", "reduced(A, flag)")], 1, 11, "shape-attribute", "axes attribute"),
    ([arg("x", "A.."), out("o", "reduced(A, axes, H)")], 1, 17, "shape-attribute", "bool attribute"),
    ([arg("x", "A.."), out("o", "permuted(A, axis)")], 1, 12, "shape-attribute", "axes attribute"),
    ([arg("x", "N flag")], 0, 2, "shape-attribute", "only an int attribute is a dim"),
    ([arg("x", "N lr")], 0, 2, "shape-attribute", "only an int attribute is a dim"),
    ([arg("x", "N -1")], 0, None, "shape-unbound", "nothing binds `N`"),
    ([arg("x", "-1")], 0, 0, "shape-value", "no negative size"),
    ([arg("x", "N"), out("o", "N/2")], 1, 1, "expression-type", "an integer is wanted here"),
    ([arg("x", "N"), out("o", "N flag*2")], 1, 2, "expression-type", "a number is wanted here"),
    ([arg("x", "N"), out("o", "numel(o)")], 1, 6, "shape-value", "out `o` is not known"),
    ([arg("x", "N"), let("P", "numel(o)"), out("o", "P")], 1, 6, "shape-value", "`o` is not known"),
    ([arg("x", "N"), out("o", "stride(x, 0)")], 1, 0, "shape-value", "stride() is of one call's"),
    ([arg("x", "N"), let("P", "2 * batches(x)"), out("o", "P")], 1, 4, "shape-value", "sizes follow"),
    ([arg("x", "4*N")], 0, 2, "shape-unbound", "nothing binds `N`"),
    ([arg("x", "reduced(A, axes)")], 0, 8, "shape-unbound", "nothing binds `A`"),
    ([arg("x", "broadcast(A, A)")], 0, 10, "shape-unbound", "nothing binds `A`"),
    ([arg("x", "A.. B..")], 0, 4, "shape-packs", "where `A..` ends and `B..` begins"),
    ([arg("x", "A.. N B..")], 0, 6, "shape-packs", "where `A..` ends"),
    ([arg("a", "A.."), arg("c", "A.. B..")], 1, 4, "shape-packs", "`B..` has to be bound here"),
    ([arg("a", "A..", "optional"), arg("c", "A.. A..")], 1, 4, "shape-packs", "to be bound here"),
    ([arg("a", "A.."), arg("c", "broadcast(A, A) B..")], 1, 16, "shape-packs", "`B..` has to be"),
    ([arg("a", "N if flag else A.. B..")], 0, 19, "shape-packs", "where `A..` ends"),
    ([arg("a", "N@axis M")], 0, 0, "shape-axis", "needs a pack before it"),
    ([arg("a", "A.. N@axis M@other B..")], 0, 11, "shape-axis", "needs a pack before it"),
    ([arg("a", "N if N > 1 else ()")], 0, 5, "expression-attributes-only", "`N` is a size"),
    ([arg("a", "N if H else ()")], 0, 5, "expression-type", "a bool is wanted here"),
    ([arg("a", "N", "list=n"), out("o", "sum(n)")], 1, 4, "expression-varies", "does not vary"),
    ([arg("a", "N 2*N", "list=n")], 0, 4, "expression-varies", "only sum(N) has a value"),
    ([arg("a", "N", "list=n"), arg("b", "N"), out("o", "sum(N)")], 2, 4, "expression-varies", ""),
    ([arg("a", "T")], 0, 0, "shape-clash", "`T` is the name of a dim and of a type variable"),
    ([arg("a", "b"), out("b", "b")], 0, 0, "shape-clash", "the name of a dim and of an out"),
    ([arg("a", "a")], 0, 0, "shape-clash", "the name of a dim and of an argument"),
    ([arg("a", "N"), let("N", "3"), out("o", "N")], 1, None, "shape-clash", "and of another one"),
    ([arg("a", "N"), let("H", "N"), out("o", "H")], 1, None, "shape-clash", "and of an attribute"),
    ([arg("a", "N"), let("P", "Q"), let("Q", "N")], 1, 0, "let-order", "not from `Q`"),
    ([arg("a", "N"), let("P", "P + 1")], 1, 0, "let-order", "not from `P`"),
    ([arg("a", "N"), let("P", "N / 2")], 1, 2, "expression-type", "an integer is wanted here"),
    ([arg("a", "bad__name")], 0, 0, "name-underscores", "bad__name"),
    ([arg("a", "N"), arg("b", "int")], 1, 0, "name-keyword", "int"),
]  # fmt: skip


@pytest.mark.promise("TABLE-shape-faults")
def test_bad_shapes(driver: Path) -> None:
    """Each mistake is told once, where it is: when its shape is read, or when all are known."""
    for (row, line, column, identifier, message), answers in zip(
        BAD, rows(driver, [r for r, *_ in BAD]), strict=True
    ):
        found = [fault for answer in answers for fault in answer.faults if fault[1] == identifier]
        assert found, (row, answers)
        at, _, said = found[0]
        assert message in said, (row, answers)
        if column is not None:
            fields = row[line]
            assert at == sum(len(f) + 1 for f in fields[:-1]) + 1 + column, (row, answers)


def test_one_mistake_is_one_fault(driver: Path) -> None:
    """A shape that is read without a fault gives at most one later."""
    for (row, *_), answers in zip(BAD, rows(driver, [r for r, *_ in BAD]), strict=True):
        read = [fault for answer in answers[:-1] for fault in answer.faults]
        assert len(read) <= 1, (row, answers)
        assert read or len(answers[-1].faults) == 1, (row, answers)


def test_a_near_name_is_suggested(driver: Path) -> None:
    answers = rows(driver, [[arg("x", "Batch N"), out("o", "Bacth N")]])[0]
    assert "did you mean `Batch`?" in answers[-1].notes
