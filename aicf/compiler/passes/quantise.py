"""Products and convolutions in 8-bit integers, by the ranges that a calibration found.

An activation is `(q - zero) * scale` of integers q, with one scale and one zero: 0 is always exact,
so that padding is. A weight has a scale for each channel of the out, and the zero 0. Sums are exact
in 32 bits, the bias among them; a chain of products hands integers on, what reads numbers gets
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from aicf.compiler.ir import text
from aicf.compiler.ir.emit import Emitter
from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.infer import infer
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.ir.types import TensorType, innermost
from aicf.compiler.passes.observe import Calibration, Data, host, needed
from aicf.compiler.passes.rule import Applied, Context, Fired, Refused
from aicf.compiler.passes.rules.int8 import DEQUANTIZE, QUANTIZE, TWINS, Twin

REFUSALS: Final = {
    "kept": "it was asked to stay as it is",
    "kept-first": "the first one was asked to stay as it is",
    "kept-last": "the last one was asked to stay as it is",
    "addend": "it adds a tensor that the row of integers does not take",
    "weight-not-frozen": "its weight may be another at each run",
    "weight-batched": "its weight is not one matrix",
    "weight-not-finite": "its weight has infinities or NaN",
    "bias-not-frozen": "its bias may be another at each run",
    "bias-not-finite": "its bias has infinities or NaN",
    "not-observed": "the calibration has no range of what it reads",
    "not-finite": "what it reads had infinities or NaN",
    "scale-range": "a product of scales is no normal number in 32 bits",
    "no-call": "the row of integers does not take such a call",
    "error-budget": "its error is beyond the budget",
}


# ---- integers for numbers -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Affine:
    """Integers q of a dtype that stand for (q - zero) * scale."""

    dtype: str
    scale: float
    zero: int

    @classmethod
    def of(cls, lo: float, hi: float, symmetric: bool = False) -> Affine:
        """Of a range, which is widened to have 0 in it: what is never negative is u8, else i8."""
        lo, hi = min(lo, 0.0), max(hi, 0.0)
        if symmetric and lo < 0:
            return cls("i8", _scale(max(-lo, hi) / 127), 0)
        if lo == 0:
            return cls("u8", _scale(hi / 255), 0)
        scale = _scale((hi - lo) / 255)
        return cls("i8", scale, max(-128, min(127, round(-128 - lo / scale))))


_LEAST, _MOST = 2.0**-100, 2.0**100  # of scales: they, their inverses and products are normal


def _scale(x: float) -> float:
    """A scale as 32 bits hold it; of nothing but zeros 1."""
    return float(np.float32(max(x, _LEAST))) if x else 1.0


@dataclass(frozen=True, slots=True)
class Weight:
    """Integers of a weight, whose channel is axis 0, one scale for each, and the bias in units of
    the sums."""

    codes: Any
    scales: Any
    bias: Any

    @classmethod
    def of(cls, w: Any, bias: Any, x: Affine) -> Weight:
        """A channel's scale is that of its largest weight, and so large that the largest sum with
        the bias fits 32 bits: of a channel of zeros the bias is all there is."""
        flat = w.reshape(len(w), -1).astype("f8")
        scales = np.abs(flat).max(axis=1, initial=0.0) / 127
        if bias is not None:
            most = 2**31 - 2 - 128 * flat.shape[1]  # 128: what codes are rounded up by, times 255
            sums = np.abs(bias.astype("f8")) / x.scale + 255 * np.abs(flat).sum(axis=1)
            scales = np.maximum(scales, np.where(bias == 0, 0.0, sums / most))
        scales = np.where(scales == 0, 1.0, np.maximum(scales, _LEAST)).astype("f4")
        codes = np.clip(np.rint(flat / scales[:, None].astype("f8")), -127, 127)
        units = None
        if bias is not None:
            exact = bias.astype("f8") / (scales.astype("f8") * x.scale)
            units = np.clip(np.rint(exact), -(2**31) + 1, 2**31 - 1).astype("i4")
        return cls(codes.astype("i1").reshape(w.shape), scales, units)


# ---- which nodes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layer:
    """A node that is to be one of integers."""

    node: Node
    twin: Twin
    x: Value
    root: Value  # what x is a view of, or x: it is what becomes integers
    range: Affine
    weight: Weight
    tail: Node | None  # what is done behind it, and then by it
    act: str

    @property
    def out(self) -> Value:
        """What it gives, with what is done behind it."""
        return (self.tail or self.node).out

    @property
    def name(self) -> str:
        """By which it is known to people."""
        return self.node.out.name


class _Refuse(Exception):
    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail


def twin_of(graph: Graph, node: Node) -> Twin | None:
    return next((t for t in TWINS if t.row == node.op and t.twin in graph.table), None)


def layers_of(graph: Graph) -> list[Node]:
    """The nodes that have a twin of integers, in order."""
    return [node for node in graph.nodes if twin_of(graph, node) is not None]


def root_of(graph: Graph, value: Value) -> Value:
    """What a value is a view of."""
    while (node := graph.producer(value)) is not None and node.is_view:
        value = next(node.reads)
    return value


def operand(graph: Graph, node: Node, name: str) -> Any:
    row = graph.table[node.op]
    return node.inputs[row.operands.index(row.param(name))]


def observed(graph: Graph) -> list[str]:
    """The names of the values that a calibration has to see."""
    found = [
        root_of(graph, operand(graph, n, twin.x)).name
        for n in layers_of(graph)
        if (twin := twin_of(graph, n)) is not None
    ]
    return list(dict.fromkeys(found))


class Quantise:
    """x @ w + b, and convolutions, in integers of 8 bits: s * ((q(x) - zero) @ q(w) + q(b))."""

    name = "quantise"

    def __init__(
        self, calibration: Calibration, *, keep: str | Collection[str] = (),
        keep_first: bool = False, keep_last: bool = False, symmetric: bool = False,
        over: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """`keep` names the outs of nodes that stay as they are, `over` those that are beyond an
        error budget, with the words. `symmetric`: activations have the zero 0."""
        self.calibration, self.symmetric = calibration, symmetric
        self.keep = frozenset([keep] if isinstance(keep, str) else keep)
        self.keep_first, self.keep_last = keep_first, keep_last
        self.over = dict(over or {})

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        """`context.data` has the values of constants and of params, which `context.frozen` names.
        Raises StaleCalibration where they are not those of the calibration."""
        context = context or Context()
        self.calibration.check(graph, context.data)
        layers, refused = self.plan(graph, context)
        if not layers:
            return Applied(graph, (), refused)
        made = Rewritten(graph, layers)
        made.new.prune()
        return Applied(made.new, tuple(made.fired), refused, made.data)

    def plan(self, graph: Graph, context: Context) -> tuple[list[Layer], tuple[Refused, ...]]:
        """What is to be of integers, and why the rest is not."""
        nodes = layers_of(graph)
        frozen = _frozen(graph, context)
        found: list[Layer] = []
        refused: list[Refused] = []
        unknown = self.keep - {v.name for n in nodes for v in n.results}
        if unknown:
            known = ", ".join(n.out.name for n in nodes) or "none"
            raise ValueError(f"no layer gives %{min(unknown)}, which was to be kept: {known}")
        for node in nodes:
            try:
                self._check_wanted(node, nodes)
                found.append(self._layer(graph, node, context.data, frozen))
            except _Refuse as why:
                line = text.line(graph, node)
                at = f"{__file__}:{self.plan.__func__.__code__.co_firstlineno}"  # type: ignore[attr-defined]
                refused.append(Refused(self.name, why.reason, why.detail, line, node.loc, at))
        return found, tuple(refused)

    def _check_wanted(self, node: Node, nodes: list[Node]) -> None:
        if node.out.name in self.keep:
            raise _Refuse("kept")
        if self.keep_first and node is nodes[0]:
            raise _Refuse("kept-first")
        if self.keep_last and node is nodes[-1]:
            raise _Refuse("kept-last")
        if node.out.name in self.over:
            raise _Refuse("error-budget", self.over[node.out.name])

    def _layer(self, graph: Graph, node: Node, data: Data, frozen: set[Value]) -> Layer:
        twin = twin_of(graph, node)
        assert twin is not None
        x, w, bias = (operand(graph, node, n) for n in (twin.x, twin.w, twin.bias))
        if twin.absent and operand(graph, node, twin.absent) is not None:
            raise _Refuse("addend", f"{twin.absent} is {operand(graph, node, twin.absent)}")
        if w not in frozen:
            raise _Refuse("weight-not-frozen", f"{w}")
        if twin.matrix and w.type.rank != 2:
            raise _Refuse("weight-batched", f"{w!r}")
        if bias is not None and bias not in frozen:
            raise _Refuse("bias-not-frozen", f"{bias}")
        root = root_of(graph, x)
        affine = self._affine(root)
        weight = _weight(graph, node, twin, data, affine)
        tail, act = _tail(graph, node, twin)
        layer = Layer(node, twin, x, root, affine, weight, tail, act)
        _check_call(graph, layer)
        return layer

    def _affine(self, root: Value) -> Affine:
        ends = self.calibration.ranges.get(root.name)
        if ends is None:
            raise _Refuse("not-observed", f"{root}")
        if not all(map(math.isfinite, ends)):
            raise _Refuse("not-finite", f"{root} was within {ends[0]} and {ends[1]}")
        return Affine.of(*ends, symmetric=self.symmetric)


def _frozen(graph: Graph, context: Context) -> set[Value]:
    """The values that are the same in all runs."""
    found = context.fixed(graph)
    for node in graph.nodes:
        if not node.states and all(v in found for v in node.reads):
            found.update(node.results)
    return found


def _weight(graph: Graph, node: Node, twin: Twin, data: Data, x: Affine) -> Weight:
    w, bias = operand(graph, node, twin.w), operand(graph, node, twin.bias)
    values = [
        host(v).astype("f8") for v in evaluate(graph, [w, *([] if bias is None else [bias])], data)
    ]
    for name, v in zip(("weight", "bias"), values, strict=False):
        if not np.isfinite(v).all():
            raise _Refuse(f"{name}-not-finite")
    factor = node.attrs[twin.factor] if twin.factor else 1.0
    channels_first = np.moveaxis(values[0] * factor, twin.channel, 0)
    found = Weight.of(channels_first, values[1] if len(values) > 1 else None, x)
    products = found.scales.astype("f8") * x.scale
    if x.scale > _MOST or not ((products > 2.0**-125) & (products < _MOST)).all():
        raise _Refuse(
            "scale-range", f"{x.scale:.3g} by {found.scales.min():.3g} to {found.scales.max():.3g}"
        )
    return found


def evaluate(graph: Graph, values: list[Value], data: Data) -> list[Any]:
    """Of values that depend on params and constants alone."""
    from aicf.compiler.runtime.interpret import interpret

    return interpret(needed(graph, values), data)


def _tail(graph: Graph, node: Node, twin: Twin) -> tuple[Node | None, str]:
    """What is done to the out and to nothing else of it, if the twin can; and the twin's word for
    what it does. What the row itself does and the twin cannot is left to `Rewritten`."""
    act = str(node.attrs[twin.act]) if twin.act else twin.acts[0]
    if act != twin.acts[0]:
        return None, act
    users = graph.users(node.out)
    if len(users) == 1 and node.out not in graph.outputs:
        word = twin.behind.get(users[0].op)
        if word is not None:
            return users[0], word
    return None, act


def _check_call(graph: Graph, layer: Layer) -> None:
    """Whether the twin takes it, so that nothing is refused half-way."""
    twin, x = layer.twin, layer.x.type
    assert isinstance(x, TensorType)
    row = graph.table[twin.twin]
    shape = _as_matrix(x.shape) if twin.matrix else x.shape
    scalar, channels = TensorType("f32", ()), (len(layer.weight.scales),)
    w = np.moveaxis(layer.weight.codes, 0, twin.channel).shape
    given: dict[str, Any] = {
        twin.x: TensorType(layer.range.dtype, shape),
        twin.w: TensorType("i8", w),
        twin.scale: scalar,
        twin.channel_scale: TensorType("f32", channels),
    }
    attrs = {name: layer.node.attrs[name] for name in twin.same}
    if layer.act not in (*twin.acts, *twin.beyond):
        raise _Refuse("no-call", f"{twin.act} is {layer.act}")
    try:
        infer(
            graph.table, twin.twin, [given.get(p.name) for p in row.operands],
            {**attrs, "dtype": x.dtype},
        )  # fmt: skip
    except IRError as error:
        raise _Refuse("no-call", error.message) from None


def _as_matrix(shape: Any) -> Any:
    from aicf import dim

    return (dim.product(shape[:-1]), shape[-1])


# ---- the graph with integers --------------------------------------------------------------------


@dataclass(eq=False)
class Rewritten:
    """A graph in which layers are of integers. `beside`: they are added beside what is there, which
    goes on by itself, and `shadows` has what each gives, in numbers."""

    old: Graph
    layers: list[Layer]
    beside: bool = False
    data: dict[str, Any] = field(default_factory=dict)  # of new constants
    fired: list[Fired] = field(default_factory=list)
    shadows: dict[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        old = self.old
        self.new, self.map = old.begun()
        self.codes: dict[Value, Value] = {}  # of roots of the old graph: their integers
        self.of = {layer.node: layer for layer in self.layers}
        self.tails = (
            {layer.tail for layer in self.layers if layer.tail} if not self.beside else set()
        )
        for node in old.nodes:
            self._add(node)
        self.new.output(*(self.map[v] for v in old.outputs))

    # ---- nodes ----------------------------------------------------------------------------------

    def _add(self, node: Node) -> None:
        layer = self.of.get(node)
        if layer is None or self.beside:
            self._carry(node)
        if layer is not None:
            begin = len(self.new.nodes)
            self._add_layer(layer)
            self._say(layer, begin)

    def _carry(self, node: Node) -> None:
        """As it is, unless all that it makes are views that only integers are read of."""
        if node in self.tails or any(v not in self.map for v in node.reads):
            return
        inputs = [self._put(x) for x in node.inputs]
        made = Emitter(self.new, node.loc).node(
            node.op, *inputs, want=[v is not None for v in node.outs] if node.outs else None,
            names=[v.name for v in node.results], **node.attrs,
        )  # fmt: skip
        self.map.update(zip(node.results, made.results, strict=True))

    def _put(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(self._put(part) for part in x)
        return self.map[x] if isinstance(x, Value) else x

    def _say(self, layer: Layer, begin: int) -> None:
        gone = (layer.node,) if layer.tail is None else (layer.node, layer.tail)
        lines = tuple(text.line(self.old, n) for n in gone)
        by = tuple(text.line(self.new, n) for n in self.new.nodes[begin:])
        at = f"{__file__}:{Quantise.run.__code__.co_firstlineno}"
        self.fired.append(Fired(Quantise.name, lines, by, layer.node.loc, at))

    def _add_layer(self, layer: Layer) -> None:
        emit = Emitter(self.new, layer.node.loc)
        twin, name, device = layer.twin, layer.name, _device(layer.x)
        x = self._integers_of(layer.x, layer.root, layer.range, emit)
        if twin.matrix:
            x = emit.reshape(x, _as_matrix(x.type.shape))  # type: ignore[union-attr]
        keywords: dict[str, Any] = {
            twin.scale: emit.number(layer.range.scale, "f32", device),
            twin.channel_scale: self._constant(f"{name}.scale", layer.weight.scales, "f32", device),
        }
        if layer.range.zero:
            keywords[twin.zero] = emit.number(layer.range.zero, "i32", device)
        if layer.weight.bias is not None:
            keywords[twin.bias] = self._constant(f"{name}.bias", layer.weight.bias, "i32", device)
        keywords |= {attr: layer.node.attrs[attr] for attr in twin.same}
        keywords["act"] = twin.acts[0] if layer.act in twin.beyond else layer.act
        stays = self.beside or layer.act in twin.beyond
        reader = None if stays else self.reader(layer.out)
        dtype = layer.node.out.type.dtype
        if reader is not None:
            dtype = reader.dtype
            keywords[twin.out_scale] = emit.number(reader.scale, "f32", device)
            if reader.zero:
                keywords[twin.out_zero] = emit.number(reader.zero, "i32", device)
        w = self._weight(layer, emit, device)
        out = emit.node(twin.twin, x, w, dtype=dtype, **keywords).out
        self._give(layer, out, reader is not None, emit)

    def _give(self, layer: Layer, out: Value, is_codes: bool, emit: Emitter) -> None:
        shape = layer.node.out.type.shape  # type: ignore[union-attr]
        out = emit.reshape(out, shape)
        if is_codes:
            self.codes[layer.out] = out
            return
        if layer.act in layer.twin.beyond:
            out = emit.node(layer.twin.beyond[layer.act], out).out
        if self.beside:
            self.shadows[layer.name] = out
        else:
            self.map[layer.out] = out

    # ---- operands -------------------------------------------------------------------------------

    def _integers_of(self, x: Value, root: Value, affine: Affine, emit: Emitter) -> Value:
        """Of a root once, seen as x sees it."""
        if root not in self.codes:
            self.codes[root] = quantized(emit, self.map[root], affine)
        chain: list[Node] = []
        here = x
        while here is not root:
            node = self.old.producer(here)
            assert node is not None
            chain.append(node)
            here = next(node.reads)
        found = self.codes[root]
        for node in reversed(chain):
            found = emit.view(node.op, found, **node.attrs)
        return found

    def reader(self, value: Value) -> Affine | None:
        """How the integers of a value are read, where all that read it read integers."""
        found: list[Affine] = []

        def only(v: Value) -> bool:
            if v in self.old.outputs:
                return False
            users = self.old.users(v)
            for node in users:
                layer = self.of.get(node)
                if layer is not None and _reads_once(node, v) and layer.x is v:
                    found.append(layer.range)
                elif not node.is_view or not only(node.out):
                    return False
            return bool(users)

        return found[0] if only(value) else None

    def _weight(self, layer: Layer, emit: Emitter, device: str) -> Value:
        """The integers lie with a channel's beside each other, as kernels read them."""
        codes, channel = layer.weight.codes, layer.twin.channel
        w = self._constant(f"{layer.name}.weight", codes, "i8", device)
        rank = codes.ndim
        order = [*range(1, channel + 1), 0, *range(channel + 1, rank)]
        return emit.permute(w, order)

    def _constant(self, name: str, array: Any, dtype: str, device: str) -> Value:
        value = self.new.constant(name, TensorType(dtype, array.shape, None, device))
        self.data[value.name] = np.ascontiguousarray(array)
        return value


def _reads_once(node: Node, value: Value) -> bool:
    return sum(v is value for v in node.reads) == 1


def _device(x: Value) -> str:
    assert isinstance(x.type, TensorType)
    return x.type.device


def quantized(emit: Emitter, x: Value, affine: Affine) -> Value:
    """The integers of a value, lying as it does where that is without gaps."""
    return _affine_call(emit, QUANTIZE, x, affine, affine.dtype)


def dequantized(emit: Emitter, x: Value, affine: Affine, dtype: str) -> Value:
    """The numbers that integers stand for."""
    return _affine_call(emit, DEQUANTIZE, x, affine, dtype)


def _affine_call(emit: Emitter, op: str, x: Value, affine: Affine, dtype: str) -> Value:
    t = x.type
    assert isinstance(t, TensorType)
    scale = emit.reshape(emit.number(affine.scale, "f32", t.device), (1,))
    zero = emit.reshape(emit.number(affine.zero, "i32", t.device), (1,)) if affine.zero else None
    order = innermost(t)
    if t.rank == 0 or order is None or t.strides is None:
        flat = emit.reshape(x, (1,)) if t.rank == 0 else x
        out = emit.node(op, flat, scale, zero, dtype=dtype).out
        return emit.reshape(out, t.shape)
    there = order[::-1]
    out = emit.node(op, emit.permute(x, there), scale, zero, dtype=dtype).out
    return emit.permute(out, [there.index(i) for i in range(t.rank)])
