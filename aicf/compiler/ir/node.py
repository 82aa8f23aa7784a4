"""What graphs are made of: values, and nodes that make values of values."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from aicf.compiler.ir import view
from aicf.compiler.ir.errors import IRError, Location, Rule
from aicf.compiler.ir.types import Type
from aicf.dim import Dim, Ratio


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What an input is or a node gives. Two values are the same only if they are one object."""

    name: str
    type: Type

    def __str__(self) -> str:
        return f"%{self.name}"

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


NAME: Final = re.compile(r"\w[\w.]*", re.ASCII)  # of a value


# What a node reads at one parameter: a list has several values, a scalar may be a number, None is
# absent.
Operand: TypeAlias = "Value | tuple[Value, ...] | bool | int | float | Dim | Ratio | None"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One call of a row, or one view."""

    op: str
    inputs: tuple[Operand, ...]  # as `Row.operands`: tensors and lists, then scalars
    attrs: Mapping[str, Any]  # all of them, canonical
    outs: tuple[Value | None, ...]  # as `Row.outs`; None: an optional one that is not computed
    states: Mapping[str, Value | tuple[Value, ...]]  # of operands updated in place, by parameter
    loc: Location | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        parts = dict(self.attrs), self.outs, dict(self.states), self.loc
        return _node_again, (self.op, self.inputs, *parts)

    @property
    def is_view(self) -> bool:
        return self.op in view.VIEWS

    @property
    def out(self) -> Value:
        """The first out."""
        if not self.outs or self.outs[0] is None:
            raise IRError(Rule.OUTS, "it has no first out", self.op, where=self.loc)
        return self.outs[0]

    @property
    def reads(self) -> Iterator[Value]:
        """Every value among its inputs, in order."""
        found: list[Value] = []
        for operand in self.inputs:
            if type(operand) is Value:
                found.append(operand)
            elif type(operand) is tuple:
                found += values_of(operand)
        return iter(found)

    def reading(self, others: Mapping[Value, Value]) -> Node:
        """The same with other values where they have one; itself where it reads none of those."""

        def put(x: Any) -> Any:
            if isinstance(x, tuple):
                return tuple(map(put, x))
            return others.get(x, x) if isinstance(x, Value) else x

        if not any(v in others for v in self.reads):
            return self
        return dataclasses.replace(self, inputs=put(self.inputs))

    @property
    def results(self) -> Iterator[Value]:
        """Every value that it defines: outs, then states."""
        found = [out for out in self.outs if out is not None]
        for state in self.states.values():
            found += values_of(state)
        return iter(found)


def _node_again(
    op: str, inputs: tuple[Operand, ...], attrs: dict[str, Any], *rest: Any
) -> Node:  # fmt: skip
    return Node(op, inputs, MappingProxyType(attrs), *rest)


def values_of(operand: object) -> Iterator[Value]:
    """The values of an operand."""
    if isinstance(operand, Value):
        yield operand
    elif isinstance(operand, tuple):
        for part in operand:
            yield from values_of(part)
