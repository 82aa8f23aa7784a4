"""Facts as one HTML page that holds all it needs: no server, no network, no other file."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import words
from .drawing import ArenaPicture, GraphPicture, arena_picture, colours_of, graph_picture
from .facts import Chosen, Facts, Op, Passed, Said

if TYPE_CHECKING:
    import jinja2

LARGEST = 1_000_000  # bytes of a page

# How many rows of a list and ops in a picture a page has at most, and how many lines of a text: the
# first that keeps it small enough. Texts say what tables say, too.
_CUTS = (
    (4000, 4000), (4000, 400), (2000, 200), (1500, 200), (1000, 200), (700, 100), (500, 100),
    (350, 100), (250, 100), (120, 60), (60, 60), (25, 25), (10, 10),
)  # fmt: skip


def render(every: Sequence[Facts], largest: int = LARGEST) -> str:
    """A page of one or several executables. Where it would be too large it says less, and says
    that."""
    at = 0
    drawn: dict[int, GraphPicture] = {}  # which takes the longest, and is the same each time
    while True:
        page = _rendered(every, drawn, *_CUTS[at])
        size = len(page.encode())
        if size <= largest or at == len(_CUTS) - 1:
            return page
        wanted = 1.3 * _CUTS[at][0] * largest / size  # the tables are most of it
        later = (i for i, (rows, _) in enumerate(_CUTS) if i > at and rows <= wanted)
        at = max(at + 1, next(later, len(_CUTS) - 1)) if size > 2 * largest else at + 1


def _rendered(every: Sequence[Facts], drawn: dict[int, GraphPicture], cut: int, lines: int) -> str:
    script = _part("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _template().render(
        views=[_View(f, i, drawn, cut, lines) for i, f in enumerate(every)],
        script=script, style=_part("page.css"), script_hash=digest,
    )  # fmt: skip


def _part(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


@functools.cache
def _template() -> jinja2.Template:
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ImportError("a report needs jinja2: pip install jinja2") from error

    def shown(value: Any) -> Any:
        return words.visible(value) if type(value) is str else value

    made = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=shown,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    made.filters |= {
        "bytes": words.bytes_text, "time": words.time_text, "percent": words.percent_text,
        "short": words.short, "px": words.pixel_text,
    }  # fmt: skip
    made.globals |= {"count": words.count_text}
    return made.from_string(_part("page.html"))


@dataclass(frozen=True, slots=True)
class Cut:
    """The first of some rows, and how many were left out."""

    rows: Sequence[Any]
    left: int

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


@dataclass(frozen=True, slots=True)
class Group:
    """Refusals of one rule for one reason."""

    rule: str
    reason: str
    said: tuple[Said, ...]


class _View:
    """What the template asks of one executable; `at` stands before its anchors."""

    def __init__(
        self, facts: Facts, number: int, drawn: dict[int, GraphPicture], cut: int, lines: int
    ) -> None:
        self.facts, self.number, self.cut, self.lines = facts, number, cut, lines
        self.at = f"g{number + 1}-" if number else ""
        self.colours, self.drawn = colours_of(facts), drawn

    def first(self, rows: Iterable[Any], share: int = 1) -> Cut:
        every = list(rows)
        most = max(1, self.cut // share)
        return Cut(every[:most], max(0, len(every) - most))

    def listing(self, text: str) -> Cut:
        every = text.splitlines()
        return Cut(every[: self.lines], max(0, len(every) - self.lines))

    @property
    def picture(self) -> GraphPicture | None:
        """None of a graph that is too large to be drawn."""
        if len(self.facts.ops) > self.cut:
            return None
        if self.number not in self.drawn:
            self.drawn[self.number] = graph_picture(self.facts, self.colours)
        return self.drawn[self.number]

    @property
    def arena(self) -> ArenaPicture | None:
        arena = self.facts.arena
        if arena is None or len(arena.rects) > self.cut:
            return None
        return arena_picture(arena, [op.op for op in self.facts.ops])

    # ---- what is said at the top ---------------------------------------------------------------

    @property
    def fired(self) -> int:
        return sum(len(p.fired) for p in self.facts.passes)

    @property
    def refused(self) -> int:
        return sum(len(p.refused) for p in self.facts.passes)

    @property
    def found(self) -> Mapping[str, int]:
        """How kernels were found: of how many ops."""
        found: dict[str, int] = {}
        for choice in self.facts.choices:
            found[choice.how] = found.get(choice.how, 0) + len(choice.ops)
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    @property
    def computing(self) -> list[Op]:
        return [op for op in self.facts.ops if not op.is_view]

    # ---- passes --------------------------------------------------------------------------------

    @property
    def told(self) -> list[tuple[int, Passed]]:
        """The passes of which there is something to say, with their numbers."""
        return [(i, p) for i, p in enumerate(self.facts.passes) if _is_told(p)]

    @property
    def silent(self) -> list[str]:
        return [p.name for p in self.facts.passes if not _is_told(p)]

    def groups(self, said: Iterable[Said]) -> list[Group]:
        found: dict[tuple[str, str], list[Said]] = {}
        for s in said:
            found.setdefault((s.rule, s.reason), []).append(s)
        return [Group(rule, reason, tuple(every)) for (rule, reason), every in found.items()]

    @staticmethod
    def paragraphs(doc: str) -> list[str]:
        """Of a docstring; lines stay apart where most of them are equations."""
        found = []
        for part in doc.split("\n\n"):
            lines = [line.strip() for line in part.splitlines()]
            are_equations = sum(" = " in line for line in lines) * 2 >= len(lines)
            found.append(("\n" if are_equations else " ").join(lines))
        return [part for part in found if part]

    # ---- times ---------------------------------------------------------------------------------

    @property
    def bars(self) -> list[tuple[Op, float, float]]:
        """Each op that was timed, where its time begins and how long it is, in percent of all."""
        total, at = self.facts.total or 1.0, 0.0
        found = []
        for op in self.facts.ops:
            if op.seconds is not None:
                found.append((op, at / total * 100, op.seconds / total * 100))
                at += op.seconds
        return found

    def slowest(self, choice: Chosen) -> float:
        return max((c.us for c in choice.candidates if c.us), default=1.0)


def _is_told(p: Passed) -> bool:
    return bool(p.changed or p.fired or p.refused or p.failed or p.verdict)
