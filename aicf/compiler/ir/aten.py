"""What ops of ATen that are no row are made of: a table of words, each a function.

A word takes the import and the op's arguments, tensors as values of the graph, and gives what the
op gives. It calls other ops of ATen by `at.call`, so that rows are found by what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from aicf.compiler.ir.emit import Emitter, tensor
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.pattern import Mismatch

Word = Callable[..., Any]
Function = TypeVar("Function", bound=Word)


class Import(Protocol):
    """What words are given."""

    emit: Emitter

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """What another op of ATen gives."""

    def constant(self, name: str, data: Any) -> Value:
        """A constant of the graph."""

    def dtype(self, value: Value) -> Any:
        """A value's, in torch's words."""


class Words(dict[str, Word]):
    """Functions by the names of the ops that they are, with their overloads."""

    def enter(self, *names: str) -> Callable[[Function], Function]:
        """Puts a function in."""

        def put(function: Function) -> Function:
            self.update(dict.fromkeys(names, function))
            return function

        return put


def axis_of(x: Value, axis: int) -> int:
    """Counted from the front."""
    return axis % max(tensor(x).rank, 1)


def known(x: Value, axis: int) -> int:
    """The size of an axis, where that says how many results there are. Raises Mismatch."""
    size = tensor(x).shape[axis]
    if not isinstance(size, int):
        raise Mismatch(f"how many results it has depends on {size}")
    return size
