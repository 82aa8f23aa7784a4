"""What is the same in every run is computed once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from aicf import bindings, dim
from aicf.compiler.ir import text
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.infer import symbols
from aicf.compiler.ir.node import Node, Value, values_of
from aicf.compiler.ir.types import TensorType
from aicf.compiler.passes.rule import Applied, Context, Fired, Refused
from aicf.compiler.runtime import interpret
from aicf.table import BYTES

BYTES_AT_MOST: Final = 1 << 24  # of a result: more takes longer to read than most to compute
FLOPS_AT_MOST: Final = 1e8  # of a node: what a core does in some hundredths of a second

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "no-data": "the data of a constant, or of a frozen param, was not given",
        "symbol": "sizes are known at run time alone",
        "too-large": "the result would take more memory, or longer, than folding may",
        "is-output": "a run gives it back, in memory that is the caller's",
        "updates": "it is updated in place",
        "no-kernel": "the CPU has no kernel for it, or numpy no such dtype",
    }
)


class Fold:
    """f(constants) = constant

    Constants are those with a number, those whose data is in the context, and frozen params with
    data there. Nodes are run on the CPU; `fold_bytes` and `fold_flops` of the context's options
    bound what one may give and take. What is one number everywhere becomes that number."""

    name = "fold"

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        folding = _Folding(graph, context or Context())
        return folding.applied()


class _Folding:
    def __init__(self, graph: Graph, context: Context) -> None:
        self.graph, self.context = graph, context
        self.values: dict[Value, Any] = {}  # what is known, as arrays
        self.fixed = context.fixed(graph)
        self.made: set[Value] = set()  # results of nodes that go
        self.gone: list[Node] = []
        self.refused: list[Refused] = []
        self.call: Any = None
        states = (s for n in graph.nodes for s in n.states.values())
        self.written = {graph.buffer_of(v) for s in states for v in values_of(s)}
        self.returned = {graph.buffer_of(v) for v in graph.outputs}

    def applied(self) -> Applied:
        most = self.context.limit
        for node in self.graph.nodes:
            if node.states or not self.is_constant(node):
                continue
            if node.is_view:
                self.fixed.add(node.out)  # shown when it is read
            elif most is None or len(self.gone) < most:
                self.fold(node)
        if not self.gone:
            return Applied(self.graph, (), tuple(self.refused))
        return self.without()

    def is_constant(self, node: Node) -> bool:
        reads = list(node.reads)
        return bool(reads) and all(v in self.fixed or v in self.made for v in reads)

    def fold(self, node: Node) -> None:
        why = self.why_not(node)
        if why is None:
            why = self.ran(node)
        if why is None:
            self.gone.append(node)
            self.made.update(node.results)
        else:
            line = text.line(self.graph, node)
            self.refused.append(Refused(Fold.name, *why, line, node.loc, ""))

    # ---- whether --------------------------------------------------------------------------------

    def why_not(self, node: Node) -> tuple[str, str] | None:
        for v in node.results:
            if self.graph.buffer_of(v) in self.returned:
                return "is-output", f"{v} is given back"
            if self.graph.buffer_of(v) in self.written:
                return "updates", f"{v} is updated in place"
        parts = (*node.inputs, *node.attrs.values())
        if any(map(_is_symbolic, parts)) or any(any(v.type.symbols) for v in node.results):
            return "symbol", f"{', '.join(map(repr, node.results))}"
        return self.why_too_large(node) or self.why_no_data(node)

    def why_too_large(self, node: Node) -> tuple[str, str] | None:
        options = self.context.options
        most = options.get("fold_bytes", BYTES_AT_MOST)
        for v in node.results:
            assert isinstance(v.type, TensorType)
            size = v.type.numel * BYTES[v.type.dtype]
            if size > most:
                return "too-large", f"{v!r} has {size} bytes, of {most}"
        row = self.graph.table[node.op]
        types = [_typed(x) for x in node.inputs[: len(row.tensors)]]
        cost = row.cost["flops"]
        flops = bindings.evaluate(cost, bindings.bind(row, types, node.attrs)) if cost else 0
        most = options.get("fold_flops", FLOPS_AT_MOST)
        return ("too-large", f"{flops:.3g} operations, of {most:.3g}") if flops > most else None

    def why_no_data(self, node: Node) -> tuple[str, str] | None:
        for v in node.reads:
            try:
                self.look_up(v)
            except _Unknown as unknown:
                return unknown.why
        return None

    # ---- values ---------------------------------------------------------------------------------

    def look_up(self, value: Value) -> None:
        """Puts what is known of a value, and what it is a view of, into `values`."""
        shown: list[Node] = []
        while value not in self.values and (node := self.graph.producer(value)) is not None:
            shown.append(node)
            value = next(node.reads)
        if value not in self.values:
            self.load(value)
        for node in reversed(shown):
            interpret.run(self.graph, node, self.values)

    def load(self, value: Value) -> None:
        fill = self.graph.constants.get(value)
        try:
            if fill is not None:
                self.values[value] = interpret.filled(value.type, fill)
            elif value.name in self.context.data:
                self.values[value] = self.array(value)
            else:
                raise _Unknown("no-data", f"of {value!r}")
        except ImportError as error:
            raise _Unknown("no-kernel", str(error)) from error

    def array(self, value: Value) -> Any:
        """The data of an entry in host memory, as an array of numpy's."""
        import numpy as np

        from aicf.backend.tensors import dtype_of

        try:
            given = self.on_host(self.context.data[value.name])
            dtype = dtype_of(given)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise _Unknown("no-data", f"of {value!r} in host memory: {error}") from error
        assert isinstance(value.type, TensorType)
        if dtype != value.type.dtype or given.shape != value.type.shape:
            raise _Unknown("no-data", f"of {value!r}: it is {dtype} {given.shape}")
        return np.asarray(given)

    def on_host(self, x: Any) -> Any:
        """What is not there the backend brings."""
        from aicf.backend.host import as_array

        given = x.detach() if hasattr(x, "detach") else x
        try:
            return as_array(given)
        except (BufferError, RuntimeError, TypeError, ValueError):
            if self.context.backend is None:
                raise
            return self.context.backend.to_host(given)

    def ran(self, node: Node) -> tuple[str, str] | None:
        """Runs a node; why it cannot be."""
        from aicf_rt import Unsupported

        from aicf.backend.cpu import CpuBackend

        self.call = self.call or CpuBackend(self.graph.table, strict=True).call
        try:
            interpret.run(self.graph, node, self.values, self.call)
        except (Unsupported, ImportError) as error:
            return "no-kernel", str(error)
        return None

    # ---- the graph without them -----------------------------------------------------------------

    def without(self) -> Applied:
        old, new = self.graph, self.graph.clone()
        gone = set(self.gone)
        new.nodes = [n for n in old.nodes if n not in gone]
        needed = {v for n in new.nodes for v in n.reads} & self.made
        data: dict[str, Any] = {}
        fired: list[Fired] = []
        for node in self.gone:
            lines = []
            for v in node.results:
                if v in needed:
                    fill = new.constants[v] = _one_number(self.values[v])
                    lines.append(f"constant {v!r}" + ("" if fill is None else f" = {fill!r}"))
                    if fill is None:
                        data[v.name] = self.values[v]
            fired.append(Fired(Fold.name, (text.line(old, node),), tuple(lines), node.loc, ""))
        new.__post_init__()
        return Applied(new, tuple(fired), tuple(self.refused), data)


class _Unknown(Exception):
    def __init__(self, *why: str) -> None:
        self.why = (why[0], why[1])
        super().__init__(why)


def _typed(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(_typed, x))
    return x.type if isinstance(x, Value) else x


def _is_symbolic(x: Any) -> bool:
    if isinstance(x, tuple):
        return any(map(_is_symbolic, x))
    return any(x.type.symbols if isinstance(x, Value) else symbols(x)) or any(dim.symbols(x))


def _one_number(x: Any) -> bool | int | float | None:
    """The number that an array has everywhere, bit by bit."""
    if not x.size:
        return None
    first = x.reshape(-1)[:1]
    found: bool | int | float = first.item() if first.dtype.kind in "biuf" else float(first[0])
    is_finite = found - found == 0
    return found if is_finite and x.tobytes() == first.tobytes() * x.size else None
