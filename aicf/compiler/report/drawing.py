"""The pictures of a page as numbers: the graph in layers, the arena over time."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .facts import Arena, Facts, Op, Rect
from .layered import Drawing, Size, draw
from .words import bytes_text, pixel_text, short, time_text

CHARACTER = 7.3  # the width of a letter in boxes
BOLD = 8.3
LINE = 17.0
PAD = 10.0
COLOURS = 10  # that the page has


@dataclass(frozen=True, slots=True)
class Line:
    """A text in a box; `kind` is how it is set."""

    x: float
    y: float
    text: str
    kind: str
    more: str = ""  # behind it, muted


@dataclass(frozen=True, slots=True)
class Node:
    key: str  # "op-3", "in-x", "return"
    kind: str  # "op", "view", "input", "return"
    label: str  # for who does not see it
    x: float
    y: float
    width: float
    height: float
    lines: tuple[Line, ...]
    colour: int
    share: float  # of the width, that its time is of the longest


@dataclass(frozen=True, slots=True)
class Edge:
    path: str
    of: str
    to: str
    label: str


@dataclass(frozen=True, slots=True)
class GraphPicture:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float


def colours_of(facts: Facts) -> Mapping[str, int]:
    """A colour for each op, those that take the longest first; the rest share the last one."""
    weight: dict[str, float] = {}
    for op in facts.ops:
        if not op.is_view:
            weight[op.op] = weight.get(op.op, 0.0) + (op.seconds or 0.0)
    ranked = sorted(weight, key=lambda name: (-weight[name], name))
    return {name: min(i, COLOURS - 1) for i, name in enumerate(ranked)}


# ---- the graph -----------------------------------------------------------------------------------


def graph_picture(facts: Facts, colours: Mapping[str, int]) -> GraphPicture:
    """Inputs, ops and what is given back; params stand in the ops that read them."""
    read = {key for op in facts.ops for key, _ in op.reads if isinstance(key, str)}
    inputs = [(name, type) for name, type in facts.inputs if name in read]
    keys: dict[int | str, int] = {name: i for i, (name, _) in enumerate(inputs)}
    keys |= {op.number: len(inputs) + i for i, op in enumerate(facts.ops)}
    texts = [_input_lines(name, type) for name, type in inputs]
    texts += [_op_lines(op) for op in facts.ops]
    names = [f"in-{name}" for name, _ in inputs] + [f"op-{op.number}" for op in facts.ops]
    joined: dict[tuple[int, int], list[str]] = {}
    for op in facts.ops:
        for key, value in op.reads:
            joined.setdefault((keys[key], keys[op.number]), []).append(value)
    given = [(key, value) for key, value in facts.outputs if key in keys]
    if given:
        texts.append(
            [("return", "name", ""), (short(", ".join(v for _, v in given), 40), "type", "")]
        )
        names.append("return")
        for key, value in given:
            joined.setdefault((keys[key], len(names) - 1), []).append(value)
    sizes = [_size(lines) for lines in texts]
    drawing = draw(sizes, list(joined))
    longest = max((op.seconds or 0.0 for op in facts.ops), default=0.0)
    boxes = [
        _node(i, names[i], drawing, texts[i], facts, len(inputs), colours, longest)
        for i in range(len(names))
    ]
    edges = tuple(
        Edge(_curve(points), names[a], names[b], ", ".join(f"%{v}" for v in dict.fromkeys(values)))
        for ((a, b), values), points in zip(joined.items(), drawing.edges, strict=True)
    )
    return GraphPicture(tuple(boxes), edges, drawing.width, drawing.height)


_Texts = list[tuple[str, str, str]]  # what is written, how, and what stands behind it


def _input_lines(name: str, type: str) -> _Texts:
    return [(short(name, 30), "name", "input"), (short(type, 36), "type", "")]


def _op_lines(op: Op) -> _Texts:
    more = len(op.types) - 1
    lines: _Texts = [(op.op, "name", "" if op.is_view else short(op.kernel, 22))]
    if op.types:
        lines.append((short(op.types[0], 36), "type", f"+{more}" if more > 0 else ""))
    if op.updates:
        lines.append((short(f"updates {', '.join(op.updates)}", 36), "param", ""))
    elif op.params:
        lines.append((short(f"with {', '.join(op.params)}", 36), "param", ""))
    if not op.is_view and (op.place or op.seconds is not None):
        where = short(op.place.short, 30) if op.place else ""
        lines.append((where, "place", time_text(op.seconds)))
    return lines


def _size(lines: _Texts) -> Size:
    width = max(_width(text, how) + (_width(more, "more") + 14 if more else 0)
                for text, how, more in lines)  # fmt: skip
    return Size(max(64.0, width + 2 * PAD), len(lines) * LINE + PAD + 6)


def _width(text: str, how: str) -> float:
    """Of letters that are as wide as each other, and about as much of bold ones."""
    wide = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return wide * (BOLD if how == "name" else CHARACTER)


def _node(
    i: int, key: str, drawing: Drawing, texts: _Texts, facts: Facts, inputs: int,
    colours: Mapping[str, int], longest: float,
) -> Node:  # fmt: skip
    box = drawing.boxes[i]
    op = facts.ops[i - inputs] if inputs <= i < inputs + len(facts.ops) else None
    kind = "view" if op and op.is_view else "op" if op else key.partition("-")[0]
    lines = tuple(
        Line(PAD, PAD + 3 + LINE * (j + 0.5), text, how, more)
        for j, (text, how, more) in enumerate(texts)
    )
    said = ", ".join(" ".join(filter(None, (t, m))) for t, _, m in texts)
    return Node(
        key, {"in": "input"}.get(kind, kind), said,
        box.x, box.y, box.width, box.height, lines,
        colours.get(op.op, COLOURS - 1) if op else COLOURS - 1,
        op.seconds / longest if op and op.seconds and longest else 0.0,
    )  # fmt: skip


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Through all points; straight down where it meets one."""
    x, y = points[0]
    told = [f"M{pixel_text(x)} {pixel_text(y)}"]
    down = False  # the last part leads straight down
    for nx, ny in points[1:]:
        if abs(nx - x) < 0.5:
            told[len(told) - down :] = [f"V{pixel_text(ny)}"]
            down = True
        else:
            middle = (y + ny) / 2
            places = (x, middle, nx, middle, nx, ny)
            told.append(f"C{' '.join(map(pixel_text, places))}")
            down = False
        x, y = nx, ny
    return "".join(told)


# ---- the arena -----------------------------------------------------------------------------------

WIDTH, HEIGHT = 960.0, 380.0
LEFT, TOP, RIGHT, BOTTOM = 74.0, 26.0, 16.0, 34.0


@dataclass(frozen=True, slots=True)
class Tile:
    x: float
    y: float
    width: float
    height: float
    label: str  # written into it, where there is room
    title: str
    kind: int  # a colour
    rect: Rect


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class ArenaPicture:
    tiles: tuple[Tile, ...]
    rows: tuple[Tick, ...]  # of addresses
    columns: tuple[Tick, ...]  # of time
    peak: float
    bound: float
    kinds: tuple[str, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def arena_picture(arena: Arena, names: Sequence[str]) -> ArenaPicture:
    """Time from left to right, addresses from below; `names` are of the ops."""
    start = min(r.lower for r in arena.rects)
    end = max(r.upper for r in arena.rects)
    across = (WIDTH - LEFT - RIGHT) / max(1, end - start)
    most = max(arena.peak, arena.bound, 1) * 1.04
    up = (HEIGHT - TOP - BOTTOM) / most
    floor = HEIGHT - BOTTOM
    kinds = tuple(sorted({r.kind for r in arena.rects}, key=lambda k: (k == "workspace", k)))

    def tile(r: Rect) -> Tile:
        width, height = (r.upper - r.lower) * across, r.size * up
        room = int((width - 8) / 6.4)
        label = short(r.name, room) if height >= 13 and room >= 3 else ""
        title = f"{r.name}: {bytes_text(r.size)} at {r.offset:,}, from {_op_at(names, r.lower)}"
        title += f" until {_op_at(names, r.upper - 1)}"
        x, y = LEFT + (r.lower - start) * across, floor - (r.offset + r.size) * up
        return Tile(x, y, width, height, label, title, kinds.index(r.kind), r)

    step = _step(most, 5)
    rows = tuple(
        Tick(floor - i * step * up, bytes_text(i * step)) for i in range(int(most / step) + 1)
    )
    count = max(1, -(-(end - start) // 12))
    columns = tuple(Tick(LEFT + (t - start) * across, str(t)) for t in range(start, end + 1, count))
    return ArenaPicture(
        tuple(tile(r) for r in arena.rects), rows, columns,
        floor - arena.peak * up, floor - arena.bound * up, kinds,
    )  # fmt: skip


def _op_at(names: Sequence[str], time: int) -> str:
    return f"{time} {names[time]}" if 0 <= time < len(names) else str(time)


def _step(most: float, count: int) -> float:
    """A power of two, so that bytes are round."""
    step = 1.0
    while most / step > count:
        step *= 2
    return step
