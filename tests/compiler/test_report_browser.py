"""The report in a browser: it looks, moves and reads as it should, at two widths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aicf.compiler.report.page import render
from compiler.browser import Browser
from compiler.pages import full, trained

pytestmark = [pytest.mark.guests("chromium"), pytest.mark.promise("AICF-report-browser")]

WIDTHS = [1280, 400]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (facts,) = trained().report().facts
    path = tmp_path_factory.mktemp("pages") / "a page's name.html"
    path.write_text(render([full(facts), facts]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def browser(started: Browser, page: Path) -> Iterator[Browser]:
    """Nothing goes wrong and nothing is fetched, whatever a test does."""
    started.faults.clear()
    started.asked.clear()
    started("Page.navigate", url="about:blank")
    started.media()
    yield started
    started.eval("1")
    assert started.faults == []
    assert {a for a in started.asked if not a.startswith("data:")} <= {page.as_uri(), "about:blank"}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_its_width(browser: Browser, page: Path, width: int, scheme: str) -> None:
    browser.media(scheme=scheme)
    browser.open(page, width)
    assert browser.eval("document.documentElement.scrollWidth") <= width
    assert browser.eval("document.title") == "small, small · AICF report"
    dark = browser.eval("getComputedStyle(document.body).backgroundColor") != "rgb(252, 252, 250)"
    assert dark == (scheme == "dark")
    # What is wider than the page scrolls in a box of its own, and no text lies outside of its own.
    assert (
        browser.eval("""Array.from(document.querySelectorAll("main > section > *, .top > *"))
        .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
        .map((e) => e.className)""")
        == []
    )
    # In the graph every word lies in its box.
    assert (
        browser.eval("""Array.from(document.querySelectorAll(".dag .node")).filter((n) => {
        const box = n.querySelector(".box").getBoundingClientRect();
        return Array.from(n.querySelectorAll("text")).some((t) => {
            const b = t.getBoundingClientRect();
            return b.left < box.left - 1 || b.right > box.right + 1 || b.bottom > box.bottom + 1;
        });
    }).map((n) => n.textContent)""")
        == []
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_an_op_is_clicked_and_followed_by_keys(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    chosen = "(document.querySelector('.node.on')?.getAttribute('href') ?? '')"
    browser.click(".node[href='#op-1']")
    browser.until(f"{chosen} === '#op-1'")
    panel = "document.querySelector('.selected').innerText"
    assert "relu" in browser.eval(panel)
    assert "pages.py:" in browser.eval(panel)
    browser.key("ArrowUp")
    browser.until(f"{chosen} === '#op-0'")
    browser.key("ArrowUp")
    browser.until(f"{chosen} === '#in-x'")
    browser.key("ArrowDown")
    browser.until(f"{chosen}.startsWith('#op-')")
    assert browser.eval("document.querySelectorAll('.edges path.on').length") > 0
    browser.key("Escape")
    browser.until(f"{chosen} === ''")
    assert browser.eval("document.querySelector('.selected').hidden")


def test_the_graph_is_zoomed_and_moved(browser: Browser, page: Path) -> None:
    browser.open(page)
    wide = "document.querySelector('.dag').width.baseVal.value"
    first = browser.eval(wide)
    browser.click("[data-zoom=in]")
    browser.until(f"Math.abs({wide} / {first} - 1.25) < 0.01")
    browser.eval("document.querySelector('.viewer').focus()")
    browser.key("-")
    browser.until(f"Math.abs({wide} / {first} - 1) < 0.01")
    browser.key("0")
    browser.until("""(() => { const v = document.querySelector(".viewer");
        return v.scrollHeight <= v.clientHeight + 1; })()""")
    for _ in range(8):
        browser.key("+")
    at = "document.querySelector('.viewer').scrollTop"
    browser.eval("document.querySelector('.viewer').scrollTo({top: 0, behavior: 'instant'})")
    x, y = browser.eval("""(() => { const e = document.querySelector(".viewer");
        e.scrollIntoView({block: "center", behavior: "instant"});
        const b = e.getBoundingClientRect(); return [b.left + 8, b.top + 200]; })()""")
    for kind, dy in (("mousePressed", 0), ("mouseMoved", -60), ("mouseReleased", -60)):
        button = "none" if kind == "mouseMoved" else "left"
        browser("Input.dispatchMouseEvent", type=kind, x=x, y=y + dy, button=button,
                buttons=1, clickCount=1)  # fmt: skip
    browser.until(f"Math.abs({at} - 60) < 2")
    browser.click(".node[href='#op-0']")  # a click after a drag is one
    browser.until("document.querySelector('.node.on')?.getAttribute('href') === '#op-0'")


def test_links_open_what_they_lead_to(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.eval("document.querySelectorAll('details').forEach((d) => { d.open = false; })")
    browser.eval("location.hash = '#pass-0'")
    browser.until("document.getElementById('pass-0').open")
    browser.click("#op-1 a[href^='#call-']")
    browser.until("document.querySelector('.call:target')?.open === true")
    browser.eval("location.hash = '#%E0%A4%A'")  # no name at all
    browser.click("[data-close=pass]")
    browser.until("!document.querySelector('.pass[open]')")
    browser.click("[data-open=pass]")
    browser.until("document.querySelectorAll('.pass[open]').length === 2")


def test_ops_are_filtered_and_sorted(browser: Browser, page: Path) -> None:
    browser.open(page)
    shown = "document.querySelectorAll('#ops-table tbody tr:not([hidden])').length"
    count = browser.eval(shown)
    browser.key("/", "/")
    browser.until("document.activeElement.matches('[data-filter]')")
    for letter in "gemm":
        browser.key(letter, letter)
    browser.until(f"{shown} > 0 && {shown} < {count}")
    assert " of " in browser.eval("document.querySelector('.found').textContent")
    browser.eval("""(() => { const i = document.querySelector("[data-filter]"); i.value = "";
        i.dispatchEvent(new Event("input")); })()""")
    browser.click("#ops-table th:last-child button")
    times = browser.eval("""Array.from(document.querySelectorAll("#ops-table tbody tr"))
        .map((r) => Number(r.cells[5].dataset.value))""")
    assert times == sorted(times, reverse=True)
    assert browser.eval("document.querySelector('#ops-table [aria-sort]').ariaSort") == "descending"


def test_the_longest_ops_come_first(browser: Browser, page: Path) -> None:
    browser.open(page)
    order = """Array.from(document.querySelector(".waterfall").children)
        .map((e) => Number(e.dataset.value))"""
    before = browser.eval(order)
    browser.click("[data-order=time]")
    assert browser.eval(order) == sorted(before, reverse=True)
    browser.click("[data-order=run]")
    assert browser.eval(order) == before


@pytest.mark.parametrize("width", WIDTHS)
def test_keys_reach_everything(browser: Browser, page: Path, width: int) -> None:
    """By Tab: the link over all that is repeated, then sections, tools, boxes; each shows it."""
    browser.open(page, width)
    seen = []
    for _ in range(14):
        browser.key("Tab")
        seen.append(
            browser.eval("""new Promise((tell) => setTimeout(() => {
                const e = document.activeElement;
                const s = getComputedStyle(e); const b = e.getBoundingClientRect();
                tell([e.className || e.dataset.zoom || e.getAttribute("href") || e.tagName,
                      s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0,
                      b.left >= -1 && b.right <= innerWidth + 1 && b.width > 0]); }, 20))""")
        )
    names = [name for name, _, _ in seen]
    assert names[0] == "skip"
    assert {"#graph", "#timeline", "in", "viewer"} <= set(names)
    assert [s for s in seen if not (s[1] and s[2])] == []


def test_it_prints(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.media("print", "dark")
    assert browser.eval("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.eval("getComputedStyle(document.querySelector('.sections')).display") == "none"
    assert browser.eval("document.querySelector('.dag').getBoundingClientRect().width") <= 1280
    pdf = browser.paper()
    assert pdf.startswith(b"%PDF")
    assert 1 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 30


def test_without_scripts_it_says_the_same(browser: Browser, page: Path) -> None:
    browser("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        assert "read-elsewhere" in browser.eval("document.body.innerText")
        assert browser.eval("document.querySelectorAll('.tools:not([hidden])').length") == 0
    finally:
        browser("Emulation.setScriptExecutionDisabled", value=False)
