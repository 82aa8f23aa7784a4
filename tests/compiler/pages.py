"""Pages as tests read them, and facts to make pages of."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

import aicf
from aicf import ops, param
from aicf.compiler.report.facts import Arena, Facts, Passed, Place, Rect, Said

_VOID = frozenset(("meta", "link", "input", "br", "img", "hr"))


@dataclass
class Page(HTMLParser):
    """What a page consists of. Raises ValueError where what opens does not close."""

    text: str
    tags: list[str] = field(default_factory=list)
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self.feed(self.text)
        self.close()
        if self._open:
            raise ValueError(f"{self._open} stay open")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            raise ValueError(f"</{tag}> closes nothing, line {self.getpos()[0]}")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            self.scripts.append(data)
        else:
            self.said.append(data)

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.said).split())


def trained(cache: Path | bool = False, runs: bool = True) -> Any:
    """A small training step, compiled by no passes."""

    def small(x: Any, y: Any, w: Any, b: Any) -> Any:
        h = ops.relu(ops.gemm(x, w, b))
        return ops.cross_entropy(h, y)

    graph = aicf.trace(
        small, "f32[N, 4]", "i64[N]", param("f32[4, 3]"), param("f32[3]"), symbols={"N": (1, 64)}
    )
    training = aicf.training_step(graph, "adamw")
    params = {"w": np.ones((4, 3), "f4"), "b": np.zeros(3, "f4")}
    made = aicf.compile(training, sizes={"N": 4}, params=params, passes=(), cache=cache)
    made.zero(*training.states)
    if runs:
        made(np.eye(4, dtype="f4"), np.array([0, 1, 2, 0]), lr=0.1, step=1)
    return made


def full(facts: Facts) -> Facts:
    """With something of everything that a page may say."""
    place = Place("folder/model.py", 12, "forward", "h = relu(x @ w + b)")
    at = Place("rules/act.py", 7, "", "")
    fired = Said("a-rule", "", "", ("%a = relu(%b)",), ("%c = gemm(%d)",), place, at)
    refused = Said(
        "a-rule", "read-elsewhere", "%b is read by %e", ("%a = relu(%b)",), (), place, at
    )
    verdict = {"kept": True, "why": "0.5 of the time", "error_after": 1e-7, "seconds_after": 2e-5}
    diff = (("~", "3 lines"), (" ", "%x"), ("-", "%a = relu(%b)"), ("+", "%c = gemm(%d)"))
    passes = (
        Passed("a-rule", "relu(a) = a", 0.001, 9, 8, diff, (fired,), (refused, refused), verdict,
               "", True),
        Passed("broken", "raises", 0.002, 8, 8, (), (), (), None, "ValueError: no", False),
        Passed("quiet", "does nothing", 0.0, 8, 8, (), (), (), None, "", False),
    )  # fmt: skip
    rects = (
        Rect("h", 0, 3, 0, 4096, "value", place), Rect("g", 2, 5, 4096, 1024, "value", None),
        Rect("w.1", 1, 2, 5120, 64, "workspace", place),
    )  # fmt: skip
    arena = Arena(rects, 5184, 5120, 2, "best fit", 5184, False, 0.001)
    return dataclasses.replace(facts, passes=passes, arena=arena)


def poisoned(x: Any, by: str) -> Any:
    """The same with this behind every text but the words that the page decides by."""
    if isinstance(x, str):
        return x + by if x else x
    if isinstance(x, tuple):
        return tuple(poisoned(part, by) for part in x)
    if isinstance(x, dict):
        return {name: poisoned(value, by) for name, value in x.items()}
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        named = {f.name: getattr(x, f.name) for f in dataclasses.fields(x)}
        return type(x)(**{n: v if n == "how" else poisoned(v, by) for n, v in named.items()})
    return x
