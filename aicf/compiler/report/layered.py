"""A picture of a graph without cycles, in layers from top to bottom.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures" (1981): a layer for each node, a point for each layer that an edge crosses, an order in
each layer with few crossings, then places that pull what is joined together. Places in a layer are
those nearest to what each node wants that keep order and distance: a regression that is monotone,
by pooling what violates it.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

GAP = 22.0  # between boxes of a layer
LANE = 9.0  # between edges that pass a layer
RISE = 46.0  # between layers
SWEEPS = 10
MOST_POINTS = 12_000  # of edges in layers between: beyond, long edges pass behind boxes


@dataclass(frozen=True, slots=True)
class Size:
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is drawn: its upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes in the order of the nodes, and the points of each edge, from node to node."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


@dataclass(slots=True)
class _Layers:
    """Vertices, the nodes first, then the points of long edges; each layer's in its order."""

    widths: list[float]
    layer: list[int]
    above: list[list[int]]
    below: list[list[int]]
    rows: list[list[int]]
    nodes: int
    chains: list[list[int]] = field(default_factory=list)  # of each edge, ends included


def draw(sizes: Sequence[Size], edges: Sequence[tuple[int, int]]) -> Drawing:
    """`edges` go from an earlier node to a later one: nodes stand in an order of their needs."""
    if not sizes:
        return Drawing((), (), 0.0, 0.0)
    layers = _spread(sizes, edges)
    _order(layers)
    x = _places(layers)
    return _drawn(sizes, layers, x)


# ---- layers --------------------------------------------------------------------------------------


def _spread(sizes: Sequence[Size], edges: Sequence[tuple[int, int]]) -> _Layers:
    level = _levels(len(sizes), edges)
    made = _Layers(
        [s.width for s in sizes], level, [[] for _ in sizes], [[] for _ in sizes], [], len(sizes)
    )
    points = sum(level[b] - level[a] - 1 for a, b in edges)
    for a, b in edges:
        made.chains.append(_chain(made, a, b, points <= MOST_POINTS))
    made.rows = [[] for _ in range(max(level) + 1)]
    for vertex, row in enumerate(made.layer):
        made.rows[row].append(vertex)
    return made


def _levels(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest way from above; what nothing leads to stands right above its first reader."""
    level = [0] * count
    sources = set(range(count))
    for a, b in sorted(edges, key=lambda e: e[1]):
        level[b] = max(level[b], level[a] + 1)
        sources.discard(b)
    first = dict.fromkeys(sources, -1)
    for a, b in edges:
        if a in sources:
            first[a] = level[b] if first[a] < 0 else min(first[a], level[b])
    for a, below in first.items():
        level[a] = max(0, below - 1)
    return level


def _chain(made: _Layers, a: int, b: int, is_long_drawn: bool) -> list[int]:
    """The vertices that an edge passes; new ones for the layers between."""
    chain = [a]
    for row in range(made.layer[a] + 1, made.layer[b]) if is_long_drawn else ():
        made.widths.append(0.0)
        made.layer.append(row)
        made.above.append([])
        made.below.append([])
        chain.append(len(made.layer) - 1)
    chain.append(b)
    for upper, lower in itertools.pairwise(chain):
        made.below[upper].append(lower)
        made.above[lower].append(upper)
    return chain


# ---- order in layers -----------------------------------------------------------------------------


def _order(layers: _Layers) -> None:
    """By medians of neighbours, down and up in turn; the order with the fewest crossings stays."""
    _first_order(layers)
    best, least = [list(r) for r in layers.rows], _crossings(layers)
    for sweep in range(SWEEPS):
        if not least:
            break
        rows = range(len(layers.rows)) if sweep % 2 == 0 else reversed(range(len(layers.rows)))
        near = layers.above if sweep % 2 == 0 else layers.below
        place = _positions(layers.rows)
        for row in rows:
            _sort_row(layers.rows[row], near, place)
        found = _crossings(layers)
        if found < least:
            best, least = [list(r) for r in layers.rows], found
    layers.rows = best


def _first_order(layers: _Layers) -> None:
    """As a walk in depth from the top meets them."""
    seen: dict[int, int] = {}
    for row in layers.rows:
        for root in row:
            stack = [root]
            while stack:
                vertex = stack.pop()
                if vertex not in seen:
                    seen[vertex] = len(seen)
                    stack += reversed(layers.below[vertex])
    for row in layers.rows:
        row.sort(key=seen.__getitem__)


def _positions(rows: Sequence[Sequence[int]]) -> dict[int, float]:
    return {vertex: float(i) for row in rows for i, vertex in enumerate(row)}


def _sort_row(row: list[int], near: list[list[int]], place: dict[int, float]) -> None:
    """By the median of the neighbours; who has none keeps its place."""
    wanted: dict[int, float] = {}
    for i, vertex in enumerate(row):
        found = sorted(place[n] for n in near[vertex])
        middle = len(found) // 2
        if not found:
            wanted[vertex] = float(i)
        elif len(found) % 2:
            wanted[vertex] = found[middle]
        else:
            wanted[vertex] = (found[middle - 1] + found[middle]) / 2
    row.sort(key=lambda v: wanted[v])
    place.update((vertex, float(i)) for i, vertex in enumerate(row))


def _crossings(layers: _Layers) -> int:
    """Pairs of edges between neighbouring layers that cross."""
    place = _positions(layers.rows)
    total = 0
    for row in layers.rows:
        ends = [place[b] for v in row for b in sorted(layers.below[v], key=place.__getitem__)]
        seen: list[float] = []
        for end in ends:
            at = bisect.bisect_right(seen, end)
            total += len(seen) - at
            seen.insert(at, end)
    return total


# ---- places in layers ----------------------------------------------------------------------------


def _places(layers: _Layers) -> list[float]:
    """The middle of each vertex. A point of a long edge pulls harder than a node, so that edges
    are straight."""
    x = [0.0] * len(layers.layer)
    for row in layers.rows:
        at = 0.0
        for left, vertex in zip([None, *row], row, strict=False):
            at += 0.0 if left is None else _distance(layers, left, vertex)
            x[vertex] = at
    for sweep in range(2 * SWEEPS):
        is_down = sweep % 2 == 0
        rows = layers.rows if is_down else layers.rows[::-1]
        for row in rows:
            _settle(layers, row, x, layers.above if is_down else layers.below)
    both = [a + b for a, b in zip(layers.above, layers.below, strict=True)]
    for sweep in range(2 * SWEEPS):
        for row in layers.rows if sweep % 2 == 0 else layers.rows[::-1]:
            _settle(layers, row, x, both)
    for _ in range(3):
        _straighten(layers, x)
    return x


def _straighten(layers: _Layers, x: list[float]) -> None:
    """Long edges go straight down as far as their neighbours leave room."""
    beside: dict[int, tuple[int | None, int | None]] = {}
    for row in layers.rows:
        every = [None, *row, None]
        beside.update((v, (every[i], every[i + 2])) for i, v in enumerate(row))
    for chain in layers.chains:
        run: list[int] = []
        low, high = -math.inf, math.inf
        for vertex in chain[1:-1]:
            left, right = beside[vertex]
            least = -math.inf if left is None else x[left] + _distance(layers, left, vertex)
            most = math.inf if right is None else x[right] - _distance(layers, vertex, right)
            if max(low, least) > min(high, most):
                _put(x, run, low, high)
                run, low, high = [], -math.inf, math.inf
            run.append(vertex)
            low, high = max(low, least), min(high, most)
        _put(x, run, low, high)


def _put(x: list[float], run: Sequence[int], low: float, high: float) -> None:
    if run:
        middle = sorted(x[v] for v in run)[len(run) // 2]
        for vertex in run:
            x[vertex] = min(max(middle, low), high)


def _distance(layers: _Layers, left: int, right: int) -> float:
    """Between the middles of neighbours."""
    gap = LANE if left >= layers.nodes and right >= layers.nodes else GAP
    return (layers.widths[left] + layers.widths[right]) / 2 + gap


def _settle(layers: _Layers, row: list[int], x: list[float], near: list[list[int]]) -> None:
    """Moves a row to the places nearest to those of its neighbours, in its order."""
    offset, offsets = 0.0, []
    for left, vertex in zip([None, *row], row, strict=False):
        offset += 0.0 if left is None else _distance(layers, left, vertex)
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []  # the sum of what is wanted, its weight, how many
    for vertex, shift in zip(row, offsets, strict=True):
        wanted, weight = _wanted(layers, vertex, x, near[vertex])
        blocks.append(((wanted - shift) * weight, weight, 1))
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            (a, b, c), (d, e, f) = blocks[-2:]
            blocks[-2:] = [(a + d, b + e, c + f)]
    i = 0
    for block in blocks:
        for _ in range(block[2]):
            x[row[i]] = _mean(block) + offsets[i]
            i += 1


def _mean(block: tuple[float, float, int]) -> float:
    return block[0] / block[1]


def _wanted(
    layers: _Layers, vertex: int, x: list[float], near: Sequence[int]
) -> tuple[float, float]:
    """Where a vertex would lie, and how much that weighs."""
    if not near:
        return x[vertex], 0.01
    if vertex >= layers.nodes:
        return sum(x[n] for n in near) / len(near), 8.0
    weights = [4.0 if n >= layers.nodes else 1.0 for n in near]
    total = sum(weights)
    return sum(x[n] * w for n, w in zip(near, weights, strict=True)) / total, total


# ---- boxes and lines -----------------------------------------------------------------------------


def _drawn(sizes: Sequence[Size], layers: _Layers, x: list[float]) -> Drawing:
    heights = [
        max((sizes[v].height for v in row if v < layers.nodes), default=0.0) for row in layers.rows
    ]
    tops, y = [], 0.0
    for height in heights:
        tops.append(y)
        y += height + RISE
    left = min(x[v] - layers.widths[v] / 2 for v in range(len(x)))
    right = max(x[v] + layers.widths[v] / 2 for v in range(len(x)))
    boxes = tuple(
        Box(x[v] - s.width / 2 - left, tops[row] + (heights[row] - s.height) / 2, s.width, s.height)
        for v, (s, row) in enumerate(zip(sizes, layers.layer, strict=False))
    )
    edges = []
    for chain in layers.chains:
        a, b = boxes[chain[0]], boxes[chain[-1]]
        points = [(a.x + a.width / 2, a.y + a.height)]
        for v in chain[1:-1]:
            row = layers.layer[v]
            points += [(x[v] - left, tops[row]), (x[v] - left, tops[row] + heights[row])]
        points.append((b.x + b.width / 2, b.y))
        edges.append(tuple(points))
    return Drawing(boxes, tuple(edges), right - left, y - RISE)
