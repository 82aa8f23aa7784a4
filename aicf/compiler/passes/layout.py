"""Chooses how tensors of four dims lie, NCHW or NHWC, where the choice makes a graph cheaper.

What a node costs lying either way is what its kernels were measured to take, else the roofline. A
tensor that one node gives lying one way and another wants lying the other way is turned once, at a
price. Over a region of nodes that hand such tensors to each other the cheapest choice is a minimal
cut, and exact. A region is changed only where that wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aicf import dim
from aicf.backend.device import Device
from aicf.compiler.ir import text
from aicf.compiler.ir.emit import COPY
from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import HOST, TensorType
from aicf.compiler.kernels.request import Request
from aicf.compiler.passes import layout_forms as forms
from aicf.compiler.passes.layout_costs import Costs, Seconds
from aicf.compiler.passes.layout_forms import LAST, ROWS, Form, Pinned
from aicf.compiler.passes.mincut import FOREVER, Choices
from aicf.compiler.passes.rule import Applied, Context, Fired, Refused

_TURN: Final = "permute_copy.default"  # in ATen's words: dims in another order, made dense
_USUAL: Final = 32  # what a symbol is taken to be, within its range, where nothing says it
_STEPS: Final = 1e15  # costs of a cut are whole: femtoseconds


class Layout:
    """The same values, lying where that is cheaper as NHWC, or as NCHW."""

    name = "layout"

    def __init__(self, seconds: Seconds | None = None, margin: float = 0.03) -> None:
        """`seconds` says what a request takes, None where no kernel takes it; without it those are
        the measured times of the context's selector, and rooflines of its device. A region is
        changed where it gains more than `margin` of what it costs."""
        self.seconds, self.margin = seconds, margin

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        """`context.options` may have `sizes`, values of symbols that costs are taken at (32 within
        a symbol's range, where it is not said), and `selector`."""
        context = context or Context()
        place = context.backend.device if context.backend else _device(graph)
        backend = graph.table.backend_of(place)
        if not any(forms.mentions_last(graph.table, node, backend) for node in graph.nodes):
            return Applied(graph)
        info = context.backend.info if context.backend else Device(place.partition(":")[0], "", "")
        costs = Costs(info, place, context.options.get("selector"), self.seconds)
        sizes = _sizes(graph, context.options.get("sizes") or {})
        regions = _Regions(graph, costs, sizes, _folded(graph, context))
        wins = [found for found in regions.settle() if self._wins(found)]
        refused = [_refusal(graph, node, why) for node, why in regions.pinned]
        refused += [self._lost(graph, f) for f in regions.found if f not in wins and f.sites]
        if not wins:
            return Applied(graph, (), tuple(refused))
        made = _Rebuilt(graph, wins)
        return Applied(made.new, tuple(map(made.fired, wins)), tuple(refused))

    def _wins(self, found: _Region) -> bool:
        return found.before - found.after > self.margin * found.before

    def _lost(self, graph: Graph, found: _Region) -> Refused:
        words = f"{_us(found.before)} as it is, which is the least"
        if found.before > found.after:
            words = (
                f"{_us(found.after)} another way, {_us(found.before)} as it is: that gains less "
            )
            words += f"than {100 * self.margin:.3g}%"
        return _refusal(graph, found.first, Pinned("no-gain", words))


def _place() -> str:
    return f"{__file__}:{Layout.run.__code__.co_firstlineno}"


def _refusal(graph: Graph, node: Node, why: Pinned) -> Refused:
    line = text.line(graph, node)
    return Refused(Layout.name, why.reason, why.detail, line, node.loc, _place())


def requests_of(graph: Graph, sizes: Mapping[str, int] | None = None) -> list[Request]:
    """The calls that are compared, lying either way, and the turns between: what a tuner measures
    for a choice of layout by times."""
    place = _device(graph)
    backend = graph.table.backend_of(place)
    if not any(forms.mentions_last(graph.table, node, backend) for node in graph.nodes):
        return []
    costs = Costs(Device(place.partition(":")[0], "", ""), place)
    _Regions(graph, costs, _sizes(graph, sizes or {}), set())
    return costs.asked


def _device(graph: Graph) -> str:
    return next((v.type.device for v in graph.values if isinstance(v.type, TensorType)), HOST)


def _sizes(graph: Graph, given: Mapping[str, int]) -> dict[str, int]:
    """A value for each symbol."""
    found = {name: max(s.min, min(_USUAL, s.max or _USUAL)) for name, s in graph.symbols.items()}
    return found | {name: n for name, n in given.items() if name in found}


def _folded(graph: Graph, context: Context) -> Set[Value]:
    """What is the same in all runs and known now."""
    known = (v for v in context.fixed(graph) if v.name in context.data)
    return {*known, *(v for v, fill in graph.constants.items() if fill is not None)}


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"


# ---- what belongs together ----------------------------------------------------------------------


@dataclass(eq=False)
class _Site:
    """A node that may be said either way. `costs` by the side that its tensors lie on."""

    node: Node
    side: int
    form: Form  # on the other one
    costs: tuple[float, float] = (0.0, 0.0)
    chosen: int = 0

    @property
    def changed(self) -> bool:
        return self.chosen != self.side


@dataclass(eq=False)
class _Tensor:
    """What may lie either way. `also` are other values that have the same elements."""

    value: Value
    turning: float  # seconds that it takes to make it lie the other way
    users: list[tuple[_Site | None, int]] = field(default_factory=list)  # and the side they want
    also: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class _Region:
    """Sites that hand tensors to each other."""

    sites: list[_Site] = field(default_factory=list)
    tensors: list[_Tensor] = field(default_factory=list)
    before: float = 0.0
    after: float = 0.0

    @property
    def first(self) -> Node:
        return next((s.node for s in self.sites if s.changed), self.sites[0].node)


class _Regions:
    """The sites, tensors and refusals of a graph."""

    def __init__(
        self, graph: Graph, costs: Costs, sizes: Mapping[str, int], folded: Set[Value]
    ) -> None:
        self.graph, self.costs, self.sizes, self.folded = graph, costs, sizes, folded
        self.sites: dict[Node, _Site] = {}
        self.pinned: list[tuple[Node, Pinned]] = []
        self.same = dict(_same_elements(graph))
        self.tensors: dict[Value, _Tensor] = {}
        self.found: list[_Region] = []
        spare = _spare(graph, self.same)
        for node in graph.nodes:
            if node not in spare:
                self._enter(node)
        for node in graph.nodes:
            if node not in spare:
                for v in (v for x in node.inputs for v in forms.tracked(x)):
                    self._use(v, self.sites.get(node))
        for v in graph.outputs:
            self._use(v, None)
        for v, root in self.same.items():
            self._tensor(root).also.append(v)

    def _enter(self, node: Node) -> None:
        found = forms.forms_of(self.graph.table, node)
        if isinstance(found, tuple):
            site = _Site(node, *found)
            costs = self._costs(site)
            if costs is not None:
                site.costs = costs
                self.sites[node] = site
                return
            found = Pinned("not-here", f"as {forms.NAMES[1 - site.side]}")
        if found is not None:
            self.pinned.append((node, found))

    def _use(self, value: Value, site: _Site | None) -> None:
        side = forms.side_of(value.type)
        if side in (ROWS, LAST):
            assert side is not None
            self._tensor(self.same.get(value, value)).users.append((site, side))

    def _tensor(self, root: Value) -> _Tensor:
        if root not in self.tensors:
            self.tensors[root] = _Tensor(root, self._turning(root))
        return self.tensors[root]

    # ---- costs ------------------------------------------------------------------------------

    def _costs(self, site: _Site) -> tuple[float, float] | None:
        if site.node.is_view:
            return 0.0, 0.0
        own = self._request(site.node, site.side, Form(site.node.attrs))
        other = self._request(site.node, 1 - site.side, site.form)
        found = self.costs.both(own, other)
        return found if found is None or site.side == ROWS else (found[1], found[0])

    def _request(self, node: Node, side: int, form: Form) -> Request:
        shown = tuple(_shown(x, side, form.turned, self.sizes) for x in node.inputs)
        attrs = {name: dim.bind(x, self.sizes) for name, x in form.attrs.items()}
        return Request.of_node(self.graph.table, replace(node, inputs=shown, attrs=attrs))

    def _turning(self, value: Value) -> float:
        """Of what is turned once and for all nothing."""
        if value in self.folded:
            return 0.0
        rows = self.graph.table.by_aten.get(_TURN)
        if not rows:
            return float(FOREVER)
        type = forms.lying(value.type, ROWS).bind(self.sizes)
        node = Node(rows[0].name, (Value("x", type),), {"perm": forms.TO_LAST}, (None,), {})
        return self.costs.of(Request.of_node(self.graph.table, node)) or float(FOREVER)

    # ---- choosing ---------------------------------------------------------------------------

    def settle(self) -> list[_Region]:
        """The regions, each with the cheapest choice."""
        choices = Choices()
        fixed = choices.thing(0, FOREVER), choices.thing(FOREVER, 0)
        things = {
            site: choices.thing(*(min(FOREVER, round(c * _STEPS)) for c in site.costs))
            for site in self.sites.values()
        }
        for t in self.tensors.values():
            maker = self._maker(t)
            made = things[maker] if maker else fixed[self._side(t)]
            users = {things[site] if site else fixed[side] for site, side in t.users}
            cost = min(FOREVER, round(t.turning * _STEPS))
            last, rows = choices.thing(), choices.thing()
            for user in users:  # on 1, `last`: there is a copy as NHWC; on 0, `rows`: as NCHW
                choices.differ(last, user, FOREVER)
                choices.differ(user, rows, FOREVER)
            choices.differ(made, last, cost)
            choices.differ(rows, made, cost)
        sides = choices.settle()
        for site, thing in things.items():
            site.chosen = sides[thing]
        self.found = self._regions()
        return self.found

    def _maker(self, t: _Tensor) -> _Site | None:
        producer = self.graph.producer(t.value)
        return None if producer is None else self.sites.get(producer)

    @staticmethod
    def _side(t: _Tensor) -> int:
        return LAST if forms.side_of(t.value.type) == LAST else ROWS

    def _regions(self) -> list[_Region]:
        of: dict[_Site, _Region] = {}
        alone: list[_Region] = []  # without sites: tensors that are turned, and back
        for t in self.tensors.values():
            near = [s for s in (self._maker(t), *(site for site, _ in t.users)) if s]
            region = _Region()
            for old in dict.fromkeys(of[s] for s in near if s in of):
                region.sites += old.sites
                region.tensors += old.tensors
            region.sites += [s for s in dict.fromkeys(near) if s not in region.sites]
            region.tensors.append(t)
            of.update((s, region) for s in region.sites)
            if not near and t.also:
                alone.append(region)
        found = [*dict.fromkeys(of.values()), *alone]
        for region in found:
            self._sum(region)
        return found

    def _sum(self, region: _Region) -> None:
        for site in region.sites:
            region.before += site.costs[site.side]
            region.after += site.costs[site.chosen]
        for t in region.tensors:
            maker = self._maker(t)
            made = maker.chosen if maker else self._side(t)
            region.before += t.turning * len(t.also)
            if any((site.chosen if site else side) != made for site, side in t.users):
                region.after += t.turning


def _shown(x: Any, side: int, turned: bool, sizes: Mapping[str, int]) -> Any:
    """An operand with sizes for symbols, as it is given to a node whose tensors lie so."""
    if isinstance(x, tuple):
        return tuple(_shown(part, side, turned, sizes) for part in x)
    if not isinstance(x, Value):
        return x
    type: Any = x.type
    if forms.side_of(type) is not None:
        type = forms.dims_last(type) if turned else forms.lying(type, side)
    return Value(x.name, type.bind(sizes))


def _same_elements(graph: Graph) -> Iterator[tuple[Value, Value]]:
    """Values that are another one made to lie in another way, and which: what copies and turns of
    dims come back to, unless the one may be read when the other was updated."""
    found: dict[Value, Value] = {}
    given = {graph.buffer_of(v) for v in graph.entries}
    place = {node: i for i, node in enumerate(graph.nodes)}
    last = {graph.buffer_of(v): i for i, node in enumerate(graph.nodes) for v in node.reads}
    last |= {graph.buffer_of(v): len(place) for v in graph.outputs}
    for node in graph.nodes:
        for v in node.outs:
            root = _origin(graph, v) if v is not None else None
            if v is None or root is None:
                continue
            root = found.get(root, root)
            moves = v in graph.outputs and graph.buffer_of(root) in given
            writer = graph.overwritten_by(root)
            until = len(place) + 1 if writer is None else place[writer]
            read = last.get(graph.buffer_of(v), 0)
            if not moves and graph.overwritten_by(v) is None and read < until:
                found[v] = root
                yield v, root


def _origin(graph: Graph, value: Value) -> Value | None:
    """The nearest value with the same elements that a value was turned or copied from."""
    if forms.side_of(value.type) not in (ROWS, LAST):
        return None
    turns = {row.name for row in graph.table.by_aten.get(_TURN, ())} | {"view.permute"}
    copies = {row.name for row in graph.table.by_aten.get(COPY, ())}
    perm, here = tuple(range(4)), value
    while (node := graph.producer(here)) is not None and node.op in turns | copies:
        here = next(node.reads)
        if node.op in turns:
            perm = tuple(node.attrs["perm"][i] for i in perm)
        if perm == tuple(range(4)) and forms.side_of(here.type) in (ROWS, LAST):
            is_copy = here.type == value.type and node.op in copies
            return None if is_copy else here
    return None


def _spare(graph: Graph, same: Mapping[Value, Value]) -> set[Node]:
    """The nodes that make nothing but values which others have the elements of."""
    found: set[Node] = set()
    roots = set(same.values())
    for node in reversed(graph.nodes):
        if node.states or not node.outs or roots & {*node.results}:
            continue
        if all(
            v in same or (v not in graph.outputs and _all_in(graph.users(v), found))
            for v in node.results
        ):
            found.add(node)
    return found


def _all_in(nodes: list[Node], found: set[Node]) -> bool:
    return bool(nodes) and all(n in found for n in nodes)


# ---- the graph with the choices -----------------------------------------------------------------


class _Rebuilt:
    """A graph in which some regions are as they were chosen to be."""

    def __init__(self, old: Graph, wins: list[_Region]) -> None:
        self.old = old
        self.sites = {site.node: site for r in wins for site in r.sites if site.changed}
        self.same = {v: t.value for r in wins for t in r.tensors for v in t.also}
        self.new, self.map = old.begun()
        self.turned: dict[Value, Value] = {}  # of the new graph: what lies the other way
        self.lines: dict[Node, list[str]] = {}
        for node in old.nodes:
            if not any(v in self.same for v in node.results):
                self._add(node)
        for v in old.outputs:
            maker = old.producer(v)
            self.new.output(self._as(v, forms.side_of(v.type), maker.loc if maker else None))
        self.new.prune()

    # ---- nodes ------------------------------------------------------------------------------

    def _add(self, node: Node) -> None:
        site = self.sites.get(node)
        begin = len(self.new.nodes)
        if site is None:
            made = self._call(node, node.attrs, [self._kept(x, node.loc) for x in node.inputs])
            self.map.update(zip(node.results, made.results, strict=True))
        elif site.form.turned:
            self._add_turned(node, site)
        else:
            put = [self._put(x, site.chosen, node.loc) for x in node.inputs]
            made = self._call(node, site.form.attrs, put)
            self.map.update(zip(node.results, made.results, strict=True))
        if site is not None:
            self.lines[node] = [text.line(self.new, n) for n in self.new.nodes[begin:]]

    def _add_turned(self, node: Node, site: _Site) -> None:
        def shown(x: Any) -> Any:
            if isinstance(x, tuple):
                return tuple(shown(part) for part in x)
            if not isinstance(x, Value) or forms.side_of(x.type) is None:
                return self.map[x] if isinstance(x, Value) else x
            return self._view(self._as(x, LAST, node.loc), forms.TO_LAST, node.loc)

        made = self._call(node, site.form.attrs, [shown(x) for x in node.inputs], named=False)
        for before, after in zip(node.results, made.results, strict=True):
            if forms.side_of(before.type) is not None:
                after = self._view(after, forms.TO_ROWS, node.loc, before.name)
            self.map[before] = after

    def _call(
        self, node: Node, attrs: Mapping[str, Any], inputs: list[Any], named: bool = True
    ) -> Node:
        return self.new.add(
            node.op, *inputs, want=[v is not None for v in node.outs] if node.outs else None,
            names=[v.name for v in node.results] if named else None, loc=node.loc, **attrs,
        )  # fmt: skip

    def _kept(self, x: Any, loc: Location | None) -> Any:
        """An operand lying as it did."""
        if isinstance(x, tuple):
            return tuple(self._kept(part, loc) for part in x)
        return self._as(x, forms.side_of(x.type), loc) if isinstance(x, Value) else x

    def _put(self, x: Any, side: int, loc: Location | None) -> Any:
        """An operand, what may lie either way lying so."""
        if isinstance(x, tuple):
            return tuple(self._put(part, side, loc) for part in x)
        if not isinstance(x, Value):
            return x
        return self._as(x, None if forms.side_of(x.type) is None else side, loc)

    def _as(self, value: Value, side: int | None, loc: Location | None) -> Value:
        """A value of the old graph in the new one, lying so."""
        found = self.map[self.same.get(value, value)]
        if side not in (ROWS, LAST) or forms.side_of(found.type) == side:
            return found
        if found not in self.turned:
            assert side is not None
            turn = self.new.table.by_aten[_TURN][0].name
            name = f"{value.name}.{forms.NAMES[side].lower()}"
            if side == LAST:
                dense = self.new.add(turn, found, perm=forms.TO_LAST, loc=loc).out
                self.turned[found] = self._view(dense, forms.TO_ROWS, loc, name)
            else:
                last = self._view(found, forms.TO_LAST, loc)
                node = self.new.add(turn, last, perm=forms.TO_ROWS, names=[name], loc=loc)
                self.turned[found] = node.out
        return self.turned[found]

    def _view(
        self, x: Value, perm: tuple[int, ...], loc: Location | None, name: str | None = None
    ) -> Value:
        return self.new.add("view.permute", x, perm=perm, names=[name], loc=loc).out

    # ---- what is said of it ---------------------------------------------------------------------

    def fired(self, region: _Region) -> Fired:
        changed = [s.node for s in region.sites if s.changed]
        before = tuple(text.line(self.old, n) for n in changed)
        after = tuple(line for n in changed for line in self.lines[n])
        loc = changed[-1].loc if changed else None
        return Fired(Layout.name, before, after, loc, _place())
