"""What nobody needs goes."""

from __future__ import annotations

import dataclasses

from aicf.compiler.ir import text
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import Node, Value
from aicf.compiler.passes.rule import Applied, Context, Fired


class Dce:
    """graph = what its outputs and the updates of its entries need

    A node that updates an input or a param in place stays, whoever reads the result. Optional outs
    that nobody reads are not computed; constants that nobody reads are no part of the graph. Inputs
    and params stay: a run is given them."""

    name = "dce"

    def run(self, graph: Graph, context: Context | None = None) -> Applied:
        most = None if context is None else context.limit
        new = graph.clone()
        new.prune()
        kept = set(new.nodes)
        gone = [text.line(graph, n) for n in graph.nodes if n not in kept]
        if most is not None and len(gone) > most:
            return Applied(graph)  # what goes is needed by what else goes: all of it or nothing
        read = {v for n in new.nodes for v in n.reads} | set(new.outputs)
        new.nodes = [_narrowed(new, n, read) for n in new.nodes]
        idle = [v for v in new.constants if v not in read]
        for v in idle:
            del new.constants[v]
        lines = [*gone, *(f"constant {v!r}" for v in idle)]
        fired = [Fired(self.name, (line,), (), None, "") for line in lines]
        for before, after in zip((n for n in graph.nodes if n in kept), new.nodes, strict=True):
            if before is not after:
                was, now = text.line(graph, before), text.line(graph, after)
                fired.append(Fired(self.name, (was,), (now,), before.loc, ""))
        if not fired:
            return Applied(graph)
        new.__post_init__()
        return Applied(new, tuple(fired))


def _narrowed(graph: Graph, node: Node, read: set[Value]) -> Node:
    """Without the optional outs that nobody reads; at least one out stays."""
    if node.is_view:
        return node
    outs = tuple(
        None if v is not None and p.optional and v not in read else v
        for v, p in zip(node.outs, graph.table[node.op].outs, strict=True)
    )
    is_same = outs == node.outs or (not any(outs) and not node.states)
    return node if is_same else dataclasses.replace(node, outs=outs)
