"""The report: what it says, that it says it safely, and that it stays one small file."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from aicf.cli import main
from aicf.compiler import report as package
from aicf.compiler.ir.errors import Location
from aicf.compiler.report import Report, layered, words
from aicf.compiler.report import page as page_of
from aicf.compiler.report.facts import Facts, Place, place_of
from aicf.compiler.report.page import LARGEST, render
from compiler.conftest import BUILT
from compiler.pages import Page, full, poisoned, trained

SECTIONS = ("graph", "ops", "passes", "kernels", "memory", "timeline", "text")


@pytest.fixture(scope="module")
def facts() -> Facts:
    found: tuple[Facts, ...] = trained().report().facts
    return found[0]


# ---- what it says --------------------------------------------------------------------------------


@pytest.mark.promise("AICF-report")
def test_what_was_made_is_all_there(facts: Facts) -> None:
    page = Page(render([full(facts)]))
    assert [a["id"] for a in page.of("h2")] == list(SECTIONS)
    said = page.words
    for op in facts.ops:
        assert op.op in said
        assert op.text in said
        assert op.place is None or (op.place.short in said and op.place.text in said)
        assert op.is_view or words.time_text(op.seconds) in said
    for choice in facts.choices:
        assert choice.call in said
        for c in choice.candidates:
            assert c.kernel in said
            assert c.legal or c.reason in said
    assert "pages.py:" in said
    assert "h = ops.relu(ops.gemm(x, w, b))" in said


@pytest.mark.promise("AICF-report")
def test_passes_say_what_they_did_and_why_not(facts: Facts) -> None:
    said = Page(render([full(facts)])).words
    for text in (
        "relu(a) = a", "1 fired", "2 refused", "read-elsewhere", "%b is read by %e", "model.py:12",
        "act.py:7", "h = relu(x @ w + b)", "Rolled back: ValueError: no", "9 → 8 ops",
        "Kept: 0.5 of the time", "- %a = relu(%b)", "+ %c = gemm(%d)", "Nothing to do for quiet",
    ):  # fmt: skip
        assert text in said, text


@pytest.mark.promise("AICF-report")
def test_memory_has_its_peak_and_its_bound(facts: Facts) -> None:
    text = render([full(facts)])
    assert Page(text).words.count("optimal: not proven") == 1
    assert text.count('class="peak"') >= 2
    assert text.count('class="bound"') >= 2
    heights = [
        float(y) for y in re.findall(r'<line class="(?:bound|peak)"[^>]*y1="([\d.]+)"', text)
    ]
    assert heights[0] > heights[1], "the bound lies below the peak"
    arena = full(facts).arena
    assert arena is not None
    tiles = re.findall(
        r'<g class="tile k\d"><rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', text
    )
    assert len(tiles) == len(arena.rects)
    best = dataclasses.replace(arena, peak=arena.bound, optimal=True)
    text = render([dataclasses.replace(facts, arena=best)])
    assert "optimal: yes" in text
    assert "peak = lower bound 5.00 KiB" in text


@pytest.mark.promise("AICF-report")
def test_a_training_step_that_did_not_run() -> None:
    made = trained(runs=False)
    said = Page(made.report().html()).words
    assert "It has not run, so that no op is timed" in said
    assert "Nothing was timed" in said
    given = np.eye(4, dtype="f4"), np.array([0, 1, 2, 0])
    before = np.array(made.param("w"))
    assert made.report(*given, lr=0.1, step=1).facts[0].total
    assert np.array_equal(before, made.param("w")), "what is timed changes nothing"


@pytest.mark.promise("AICF-report")
def test_it_may_be_asked_again() -> None:
    made = trained()
    first, second = made.report(), made.report()
    assert [o.op for o in first.facts[0].ops] == [o.op for o in second.facts[0].ops]
    assert second.facts[0].total


@pytest.mark.promise("AICF-report")
def test_several_graphs_share_a_page(facts: Facts) -> None:
    page = Page(Report.join([Report((facts,)), Report((full(facts),))]).html())
    assert [a["id"] for a in page.of("h2")] == [*SECTIONS, *(f"g2-{s}" for s in SECTIONS)]
    assert len(page.of("main")) == 2
    check_sound(page)


# ---- that it is safe -----------------------------------------------------------------------------

EVIL = (
    "</script><script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "<!--", "]]>",
    "</style><style>*{display:none}</style>", "{{ 7 * 7 }}{% raw %}", "&lt;b&gt;", "</title>",
    "javascript:alert(1)", "ё 漢字 👩\u200d🔬 \u202ereversed", "\x00\x01\x1b[31m", "\ud800",
)  # fmt: skip


def check_sound(page: Page) -> None:
    """Ids are there once, what is linked to is there, and nothing is fetched."""
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for tag, attrs in page.elements:
        for name in ("href", "src", "action", "data", "poster", "srcset", "xlink:href"):
            if name in attrs:
                link = attrs[name]
                assert (tag, link) == ("link", "data:,") or link[1:] in ids, (tag, link)
        assert not [name for name in attrs if name.startswith("on")], (tag, attrs)
    for text in page.scripts:
        assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp|WebSocket|import\(", text)
    assert len(page.of("script")) == len(page.of("style")) == 1


@pytest.mark.promise("AICF-report-safe")
@pytest.mark.parametrize("evil", EVIL)
def test_names_are_texts_and_nothing_else(facts: Facts, evil: str) -> None:
    plain, page = Page(render([full(facts)])), Page(render([poisoned(full(facts), evil)]))
    check_sound(page)
    assert page.tags == plain.tags
    assert page.scripts == plain.scripts
    assert words.visible(evil) in "".join(page.said)
    page.text.encode()


@pytest.mark.promise("AICF-report-safe")
def test_places_may_name_any_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # who reads it waits for ever
    for file in ("a\0b.py", "\ud800.py", "/dev/zero", str(pipe), str(tmp_path), ""):
        assert place_of(Location(file, 1, "f")) == Place(file, 1, "f", "")
    known = place_of(Location(__file__, 3, "f"))
    assert known == Place(__file__, 3, "f", "from __future__ import annotations")


@pytest.mark.promise("AICF-report-safe")
def test_a_script_that_got_in_would_not_run(facts: Facts) -> None:
    """The page lets only its own run, by its hash, and asks nobody for anything."""
    (policy,) = [m["content"] for m in Page(render([facts])).of("meta") if "http-equiv" in m]
    assert policy.startswith("default-src 'none';")
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2]


@pytest.mark.promise("AICF-report-safe")
def test_what_nobody_would_see_is_written_out() -> None:
    assert words.visible("a\u202eb\x00\ud800\u200b") == "a\\u202eb\\x00\\ud800\\u200b"
    assert words.visible("é 漢 👍\tx\n") == "é 漢 👍\tx\n"


# ---- that it is one small file -------------------------------------------------------------------


@pytest.mark.promise("AICF-report-small")
@pytest.mark.parametrize("count", [450, 5000])
def test_a_large_graph_makes_a_page_of_a_megabyte(facts: Facts, count: int) -> None:
    ops = tuple(
        dataclasses.replace(
            facts.ops[0], number=i, reads=((i - 1, f"v{i}"),) if i else (("x", "x"),), seconds=1e-6
        )
        for i in range(count)
    )
    large = full(dataclasses.replace(facts, ops=ops, text="line\n" * count))
    one = dataclasses.replace(large.passes[0], diff=(("+", "x" * 90),) * (3 * count))
    text = render([dataclasses.replace(large, passes=(one, *large.passes[1:]))])
    assert len(text.encode()) <= LARGEST
    page = Page(text)
    check_sound(page)
    assert ("left out, so that the page stays small" in page.words) == (count > 1000)
    assert ("too many to be drawn here" in page.words) == (count > 1000)
    if count == 450:
        assert len(re.findall(r'<a class="node op', text)) == count


@pytest.mark.promise("AICF-report-small")
def test_texts_go_before_pictures(facts: Facts) -> None:
    """What is said twice is left out first."""
    long = dataclasses.replace(facts, text="x" * 400 + "\n", source_text=("y" * 400 + "\n") * 3000)
    page = render([long])
    assert len(page.encode()) <= LARGEST
    assert "2,600 more lines are left out" in Page(page).words
    assert page.count('<a class="node op') == sum(not op.is_view for op in facts.ops)


@pytest.mark.promise("AICF-report-small")
def test_without_jinja_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch, facts: Facts) -> None:
    page_of._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match="a report needs jinja2: pip install jinja2"):
        render([facts])


@pytest.mark.promise("AICF-report-small")
def test_the_same_facts_are_the_same_page(facts: Facts) -> None:
    assert Report((full(facts),)).html() == Report((full(facts),)).html()


@pytest.mark.promise("AICF-report-small")
def test_two_processes_make_the_same_page(tmp_path: Path) -> None:
    code = """
        import dataclasses, hashlib
        from compiler.pages import full, trained
        from aicf.compiler.report.page import render
        (facts,) = trained(runs=False).report().facts
        page = render([full(dataclasses.replace(facts, seconds=()))])
        print(hashlib.sha256(page.encode()).hexdigest())
    """
    paths = os.pathsep.join([str(BUILT), str(Path(__file__).parents[1])])
    said = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed}, cwd=tmp_path,
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1


# ---- that everybody can read it ------------------------------------------------------------------


@pytest.mark.promise("AICF-report-readable")
def test_landmarks_headings_and_labels(facts: Facts) -> None:
    page = Page(render([full(facts)]))
    assert page.of("html")[0]["lang"] == "en"
    assert {"header", "nav", "main"} <= set(page.tags)
    levels = [int(t[1]) for t in page.tags if re.fullmatch(r"h\d", t)]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    ids = {a["id"] for _, a in page.elements if "id" in a}
    for tag, attrs in page.elements:
        if tag == "section":
            assert attrs["aria-labelledby"] in ids
        if attrs.get("role") in ("img", "region", "group"):
            assert attrs["aria-label"], attrs
        if "tabindex" in attrs and tag != "a":
            assert attrs["role"] in ("region", "group"), attrs
    for th in page.of("th"):
        assert th["scope"] in ("row", "col")


PAIRS = [
    ("ink", "paper"), ("ink", "sheet"), ("ink", "wash"), ("soft", "paper"), ("soft", "sheet"),
    ("soft", "wash"), ("link", "paper"), ("link", "sheet"), ("good", "good-wash"),
    ("warn", "warn-wash"), ("bad", "bad-wash"), ("warn", "paper"), ("bad", "sheet"),
    ("soft", "warn-wash"), ("ink", "warn-wash"), ("link", "warn-wash"),
]  # fmt: skip


@pytest.mark.promise("AICF-report-readable")
@pytest.mark.parametrize("theme", [0, 1])
def test_texts_stand_out(theme: int) -> None:
    """By WCAG 2: 4.5 to 1 for text, 3 to 1 for what pictures are made of."""
    style = Path(package.__file__).with_name("page.css").read_text()
    blocks = [dict(re.findall(r"--([\w-]+): (#\w{6})", b)) for b in style.split("@media")[:2]]
    colours = blocks[theme]
    for text, ground in PAIRS:
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for i in range(10):
        assert contrast(colours[f"c{i}"], colours["sheet"]) >= 3, i
    assert contrast(colours["focus"], colours["paper"]) >= 3


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


# ---- the picture of a graph ----------------------------------------------------------------------


@st.composite
def drawn(draw: st.DrawFn) -> tuple[list[layered.Size], list[tuple[int, int]]]:
    count = draw(st.integers(1, 30))
    numbers = st.integers(0, count - 1)
    pairs = draw(st.sets(st.tuples(numbers, numbers), max_size=60))
    sizes = draw(st.lists(st.integers(20, 200), min_size=count, max_size=count))
    return [layered.Size(w, 40) for w in sizes], [(a, b) for a, b in sorted(pairs) if a < b]


@pytest.mark.promise("AICF-report")
@given(drawn())
@settings(max_examples=60, deadline=None)
def test_boxes_lie_apart_and_edges_lead_down(given: Any) -> None:
    sizes, edges = given
    drawing = layered.draw(sizes, edges)
    boxes = drawing.boxes
    for i, a in enumerate(boxes):
        assert a.x >= -0.01
        assert a.x + a.width <= drawing.width + 0.01
        assert a.y >= 0
        assert a.y + a.height <= drawing.height + 0.01
        for b in boxes[:i]:
            assert (
                a.x >= b.x + b.width + 1 or b.x >= a.x + a.width + 1
                or a.y >= b.y + b.height or b.y >= a.y + a.height
            )  # fmt: skip
    for (a, b), points in zip(edges, drawing.edges, strict=True):
        assert boxes[a].y + boxes[a].height < boxes[b].y
        assert [y for _, y in points] == sorted(y for _, y in points)
        for x, y in points[1:-1]:
            assert not any(c.x < x < c.x + c.width and c.y < y < c.y + c.height for c in boxes)


@pytest.mark.promise("AICF-report")
def test_a_chain_is_a_straight_line() -> None:
    sizes = [layered.Size(50 + 10 * (i % 3), 40) for i in range(12)]
    drawing = layered.draw(sizes, [(i, i + 1) for i in range(11)])
    middles = {round(b.x + b.width / 2, 3) for b in drawing.boxes}
    assert len(middles) == 1


# ---- the command line ----------------------------------------------------------------------------

PROGRAM = """
import sys
import numpy as np
import aicf
from aicf import ops
def double(x):
    return ops.add(x, x)
def half(x):
    return ops.relu(x)
run = aicf.compile(double, "f32[4]", passes=(), cache=False)
other = aicf.compile(half, "f32[4]", passes=(), cache=False)
print(run(np.ones(4, "f4")), sys.argv[1:])
"""


def command(*words: str) -> Any:
    return CliRunner().invoke(main, ["report", *words])


@pytest.mark.promise("AICF-report-cli")
def test_a_program_is_run_and_reported(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    out = tmp_path / "page.html"
    before = list(sys.argv), list(sys.path)
    done = command(str(tmp_path / "program.py"), "-o", str(out), "--name", "double", "more")
    assert done.exit_code == 0, done.output
    assert "[2. 2. 2. 2.] ['more']" in done.output
    assert "page.html: double" in done.output
    assert (list(sys.argv), list(sys.path)) == before
    page = Page(out.read_text(encoding="utf-8"))
    assert "program.py:7" in page.words
    assert "return ops.add(x, x)" in page.words
    done = command(str(tmp_path / "program.py"), "-o", str(out))
    assert len(Page(out.read_text(encoding="utf-8")).of("h1")) == 2


@pytest.mark.promise("AICF-report-cli")
@pytest.mark.parametrize(
    "program, status, said",
    [
        ("x = 1", 1, "program.py compiles nothing: call aicf.compile"),
        ("raise ValueError('no')", 1, "ValueError: no"),
        ("import sys; sys.exit(3)", 3, ""),
        (PROGRAM + "sys.exit('enough')", 1, "enough"),
        (PROGRAM + "1 / 0", 1, "ZeroDivisionError"),
        ("def f(:", 1, "SyntaxError"),
    ],
)
def test_a_program_that_ends_badly(tmp_path: Path, program: str, status: int, said: str) -> None:
    (tmp_path / "program.py").write_text(program)
    out = tmp_path / "page.html"
    done = command(str(tmp_path / "program.py"), "-o", str(out))
    assert done.exit_code == status
    assert said in done.output
    assert out.exists() == (PROGRAM in program), "what was compiled before is reported"
    assert "runpy" not in done.output


@pytest.mark.promise("AICF-report-cli")
def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = command(str(tmp_path / "program.py"), "-o", str(tmp_path / "no" / "page.html"))
    assert done.exit_code == 1
    assert [x for x in done.output.splitlines() if x.startswith("Error: ")]
    done = command(str(tmp_path / "program.py"), "--name", "third", "-o", str(tmp_path / "x.html"))
    assert "compiles no graph 'third'; there are double, half" in done.output
    assert command(str(tmp_path / "none.py")).exit_code == 2
