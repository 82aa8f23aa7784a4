"""Recurrent networks of ATen, several layers and two directions in one call, as rows.

A row is one layer in one direction, and is called as ATen's op is: lstm.input by the row `lstm` of
a table that has it. It takes x, a state for each that ATen has, and weights as ATen orders them;
its outs are all states in the order of time, then the last of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from aicf.compiler.ir.aten import Import, Words
from aicf.compiler.ir.emit import tensor
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.pattern import Mismatch
from aicf.table import Row, Table

WORDS: Final = Words()

# How many states there are: ATen takes one as a tensor, several as a list.
_STATES: Final = {"lstm.input": 2, "gru.input": 1, "rnn_tanh.input": 1}
_REVERSE: Final = "reverse"  # the attribute of a row that goes from the end of time


def row_of(name: str, table: Table) -> Row | None:
    """The row that is one layer of an op of ATen in one direction."""
    row = table.ops.get(name.partition(".")[0])
    if row is None or not any(p.name == _REVERSE for p in row.attrs):
        return None
    states = _STATES[name]
    fits = len(row.tensors) == 1 + states + 4 and row.required_outs == 1 + states
    return row if fits else None


def fits(name: str, args: Sequence[Any], table: Table) -> bool:
    """Whether rows say a call, by what is known of it without its values."""
    _, states, weights, biases, layers, _, _, two_ways, _ = args
    several = _STATES[name] > 1
    if isinstance(states, list | tuple) != several or (several and len(states) != _STATES[name]):
        return False
    count = layers * (1 + two_ways) * (4 if biases else 2)  # a projection has one more
    return len(weights) == count and row_of(name, table) is not None


def _word(name: str) -> Callable[..., list[Value]]:
    def call(
        at: Import, x: Value, states: Any, weights: Sequence[Value], biases: bool, layers: int,
        dropout: float, train: bool, two_ways: bool, batch_first: bool,
    ) -> list[Value]:  # fmt: skip
        row = row_of(name, at.emit.graph.table)
        if row is None:
            raise Mismatch("no row is one layer of it in one direction")
        if train and dropout and layers > 1:
            raise Mismatch("it draws random numbers: import the module in eval mode")
        first = list(states) if isinstance(states, list | tuple) else [states]
        ways, each = 1 + two_ways, 4 if biases else 2
        last: list[list[Value]] = [[] for _ in first]
        x = at.emit.permute(x, (1, 0, 2)) if batch_first else x
        for layer in range(layers):
            outs = []
            for way in range(ways):
                i = layer * ways + way
                given = [at.emit.select(s, 0, i) for s in first]
                own = weights[i * each : (i + 1) * each]
                backwards: dict[str, Any] = {_REVERSE: way == 1}
                node = at.emit.node(row.name, x, *given, *own, **backwards)
                found = [v for v in node.outs if v is not None]
                outs.append(found[0])
                for states_, state in zip(last, found[1:], strict=True):
                    states_.append(state)
            x = outs[0] if len(outs) == 1 else at.call("cat.default", outs, tensor(x).rank - 1)
        x = at.emit.permute(x, (1, 0, 2)) if batch_first else x
        return [x, *(_stacked(at, s) for s in last)]

    return call


def _stacked(at: Import, states: Sequence[Value]) -> Value:
    if len(states) == 1:
        return at.emit.unsqueeze(states[0], 0)
    found: Value = at.call("stack.default", states, 0)
    return found


for _name in _STATES:
    WORDS[_name] = _word(_name)
