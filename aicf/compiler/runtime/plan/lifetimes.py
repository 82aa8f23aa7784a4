"""How long the values of a graph are needed: its problem for the planner.

A root lives from the node that makes it to the last one that reads it, or any view or state of it;
an out that nothing reads for the time of its own node, which writes it all the same. What a graph
gives back lives to the end. Inputs, params and constants have memory of their own. An out that its
row lets be exactly an operand is written over that one where nothing needs it any more: an
activation takes no memory beside that of the convolution before it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value, values_of
from aicf.compiler.ir.types import TensorType
from aicf.compiler.runtime import memory
from aicf.compiler.runtime.plan.pack import pack
from aicf.compiler.runtime.plan.problem import Buffer, Plan, PlanError
from aicf.table import BYTES

ALIGN = 256  # as memory of its own would be on CUDA; a multiple of what kernels ask for
VALUE, WORKSPACE = "value", "workspace"


def lifetimes(graph: Graph, outside: Container[Value] = (), apart: bool = False) -> list[Buffer]:
    """Of every root that nodes make, but for those that lie `outside`. Times are the indices of
    the nodes. `apart`: what comes into its memory is behind all that use it in every order that the
    graph allows, and not in that of the nodes alone. Raises PlanError where a size is known by its
    bounds alone: bind the graph first."""
    made: dict[Value, tuple[int, Node]] = {}
    last: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        if not node.is_view:
            made.update((v, (i, node)) for v in node.outs if v is not None)
        for value in (*node.reads, *node.results):
            last[graph.buffer_of(value)] = i
    for value in graph.outputs:
        last[graph.buffer_of(value)] = len(graph.nodes)
    ends = _ends_apart(graph, last) if apart else {v: i + 1 for v, i in last.items()}
    over = written_over(graph, outside, apart)
    for value, first in over.items():
        ends[first] = max(ends[first], ends[value])
    return [
        Buffer(value.name, i, ends[value], size_of(value), VALUE, node.loc)
        for value, (i, node) in made.items()
        if value not in outside and value not in over
    ]


def written_over(
    graph: Graph, outside: Container[Value] = (), apart: bool = False
) -> dict[Value, Value]:
    """The outs that lie exactly where an operand of theirs does, and the root whose memory that was
    first. The node is the last that needs it; with `apart` it is the only one."""
    over: dict[Value, Value] = {}
    taken: set[Value] = set()
    users: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for root in {graph.buffer_of(v) for v in (*node.reads, *node.results)}:
            users.setdefault(root, []).append(node)
    kept = {graph.buffer_of(v) for v in graph.outputs}
    for node in graph.nodes:
        for out, x in () if node.is_view else _exact(graph, node):
            own = users[x][1:]  # but for the node that makes it
            dies = own[-1:] == [node] and (len(own) == 1 or not apart)
            is_free = x not in kept and x not in outside and out not in outside
            if dies and is_free and x not in taken and out not in over:
                over[out] = x
                taken.add(x)
    for out, x in over.items():  # in the order of the graph: what is before it is the first by now
        over[out] = over.get(x, x)
    return over


def _exact(graph: Graph, node: Node) -> Iterator[tuple[Value, Value]]:
    """Each out with the operands that it may be exactly: whole, of its type, made by a node, and
    read by this node as nothing else."""
    row = graph.table[node.op]
    named = list(zip(row.operands, node.inputs, strict=True))
    reads = [graph.buffer_of(v) for _, operand in named for v in values_of(operand)]
    for p, out in zip(row.outs, node.outs, strict=True):
        for q, x in named:
            if out is None or q.name not in row.exact.get(p.name, ()) or not isinstance(x, Value):
                continue
            is_whole = reads.count(x) == 1 and graph.producer(x) is not None
            if is_whole and x.type == out.type:
                yield out, x


def _ends_apart(graph: Graph, last: Mapping[Value, int]) -> dict[Value, int]:
    """From where on every node follows all that use a root, by what nodes read and write."""
    users, past = _order(graph)
    nodes = [i for i, node in enumerate(graph.nodes) if not node.is_view]
    ends: dict[Value, int] = {}
    for root, i in last.items():
        later = [k for k in reversed(nodes) if k > i]
        waits = (k for k in later if users.get(root, 0) & ~past[k])
        ends[root] = next(waits, i) + 1
    return ends


def _order(graph: Graph) -> tuple[dict[Value, int], list[int]]:
    """The nodes that use each root, and those that each node follows, as sets of bits. A view is
    no work of its own: who reads it uses the root."""
    users: dict[Value, int] = {}
    past: list[int] = []
    writer: dict[Value, int] = {}
    readers: dict[Value, int] = {}  # since it was written
    for i, node in enumerate(graph.nodes):
        past.append(0)
        if node.is_view:
            continue
        reads = {graph.buffer_of(v) for v in node.reads}
        writes = {graph.buffer_of(v) for v in node.results}
        follows = 0
        for root in reads | writes:
            follows |= writer.get(root, 0)
            if root in writes:
                follows |= readers.get(root, 0)
            users[root] = users.get(root, 0) | 1 << i
        for root in reads:
            readers[root] = readers.get(root, 0) | 1 << i
        for root in writes:
            writer[root], readers[root] = 1 << i, 0
        past[i] = follows
        while follows:
            k = follows.bit_length() - 1
            past[i] |= past[k]
            follows &= ~(past[k] | 1 << k)
    return users, past


def size_of(value: Value) -> int:
    """Bytes from the first to behind the last element."""
    type = value.type
    assert isinstance(type, TensorType)
    for symbol in type.symbols:
        raise PlanError(f"%{value.name}: {type} has no size yet: bind {symbol.name} to one")
    return int(memory.span(type)) * BYTES[type.dtype]


def workspaces(graph: Graph, sizes: Mapping[Node, int]) -> list[Buffer]:
    """What nodes need beside their operands, each for its own time."""
    return [
        Buffer(workspace_of(node), i, i + 1, sizes[node], WORKSPACE, node.loc)
        for i, node in enumerate(graph.nodes)
        if sizes.get(node)
    ]


def workspace_of(node: Node) -> str:
    """How its buffer is called; no value has such a name."""
    return f"workspace of {next(node.results).name}"


def plan_of(
    graph: Graph, outside: Container[Value] = (), sizes: Mapping[Node, int] | None = None,
    apart: bool = False,
) -> Plan:  # fmt: skip
    """Where the values of a graph without symbols lie, and workspaces of so many bytes; `apart` as
    for lifetimes. Nothing is allocated."""
    buffers = lifetimes(graph, outside, apart)
    return pack([*buffers, *workspaces(graph, sizes or {})], align=ALIGN)
