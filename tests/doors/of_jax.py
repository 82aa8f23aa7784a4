"""The doors of `PACKAGE.jax`: op by op, and inside a program that jax compiles."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from doors.cases import Case, Only, T
from doors.doors import Door, Memories, Said, hear, values_of

# What jax's way in answers first, in its own words: nothing of it reaches our checks.
FIRST = {
    "add: stream takes an int or an object with __cuda_stream__, not '1'":
    "add: stream: XLA runs ops on its own: leave it out",
}  # fmt: skip


def takes(case: Case) -> bool:
    """Arrays of jax have no strides, memory or place that a call could be wrong by; outs are none
    of its arguments."""
    values = [v for v in values_of(case, False) if isinstance(v, (T, Only))]
    plain = all(
        isinstance(v, T)
        and v.strides is None
        and v.device == "cpu"
        and not (v.memory or v.read_only)
        for v in values
    )
    return plain and not case.about_outs


def function_of(module: ModuleType) -> Any:
    package, _, name = module.__name__.rpartition(".")
    return getattr(importlib.import_module(f"{package}.jax"), name)


def operands(value: Any) -> Iterator[T]:
    if isinstance(value, T):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from operands(item)


def rebuilt(value: Any, arrays: Iterator[Any]) -> Any:
    """The value with arrays in the places of descriptions."""
    if isinstance(value, T):
        return next(arrays)
    if isinstance(value, tuple) and any(isinstance(v, T) for v in value):
        return [rebuilt(v, arrays) for v in value]
    return value


def asks(compiled: bool) -> Callable[[ModuleType, Case], Said]:
    def ask(module: ModuleType, case: Case) -> Said:
        import jax

        function, memories = function_of(module), Memories()
        given = (*case.args, *case.named.values())

        def call(*arrays: Any) -> Any:
            left = iter(arrays)
            args = [rebuilt(a, left) for a in case.args]
            return function(*args, **{n: rebuilt(v, left) for n, v in case.named.items()})

        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            made = [jax.numpy.asarray(memories.array(t)) for t in operands(given)]
            said = hear(lambda: (jax.jit(call) if compiled else call)(*made))
        own = FIRST.get(case.says)
        return Said(said.verdict, case.says) if own and said.words == own else said

    return ask


DOORS = [
    Door("jax", False, takes, asks(compiled=False)),
    Door("jax.jit", False, takes, asks(compiled=True)),
]
