"""Calls of every op with what each gives, worked out without AICF by draw.py, whose file AICF_DRAWN
names. Values are a thread's own: a result that came from another thread's memory is another
number."""

from __future__ import annotations

import functools
import importlib
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@functools.cache
def _drawn() -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = pickle.loads(Path(os.environ["AICF_DRAWN"]).read_bytes())
    return found


def ops() -> tuple[str, ...]:
    return tuple(one["op"] for one in _drawn()[0])


def copies(value: Any) -> Any:
    if isinstance(value, list):
        return [copies(x) for x in value]
    return value.copy() if isinstance(value, np.ndarray) else value


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of `op`, and its result."""

    op: str
    suffix: str
    inputs: list[Any]  # arrays, None, lists of arrays
    before: list[Any]  # the same, of the values that they begin with
    options: Mapping[str, Any]
    outs: Mapping[str, Array]
    places: Mapping[str, int]  # of inputs that are written in place
    expected: Mapping[str, Any]

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"aicf_cuda.{self.op}")

    @property
    def arguments(self) -> list[Any]:
        """By position, optional outs that it does not have left out."""
        names = [o["name"] for o in self.module.capability["outs"]]
        return [*self.inputs, *(self.outs.get(name) for name in names)]

    @property
    def typed_options(self) -> dict[str, Any]:
        return {k: v for k, v in self.options.items() if k != "dtype"}

    @property
    def function(self) -> Callable[[], Any]:
        """The typed form with its arguments: what a loop calls."""
        typed = getattr(self.module, f"{self.op}_{self.suffix}")
        return functools.partial(typed, *self.arguments, **self.typed_options)

    @property
    def written(self) -> dict[str, Any]:
        return {name: self.inputs[at] for name, at in self.places.items()} | dict(self.outs)

    def typed(self) -> None:
        verdict = self.function()
        assert verdict is True, (self.op, verdict)

    def generic(self) -> dict[str, Any]:
        """What it gives, all outs asked for, and what it wrote."""
        optional = [o["name"] for o in self.module.capability["outs"] if o.get("optional")]
        asked = {name: True for name in optional if name in self.outs}
        found = getattr(self.module, self.op)(*self.inputs, **self.options, **asked)
        given = found if isinstance(found, tuple) else (found,)
        names = [name for name in self.outs] if not hasattr(found, "_fields") else found._fields
        outs = dict(zip(names, given, strict=True)) if self.outs else {}
        return {**{n: self.inputs[at] for n, at in self.places.items()}, **outs}

    def bound(self) -> Any:
        return self.module.bind(*self.arguments, **self.typed_options)

    def poison(self) -> None:
        """What is written begins anew."""
        for out in self.outs.values():
            out.fill(np.nan if out.dtype.kind == "f" else 85)
        for at in self.places.values():
            restore(self.inputs[at], self.before[at])

    def check(self, found: Mapping[str, Any]) -> None:
        for name, want in self.expected.items():
            good = alike(found[name], want)
            assert good, (self.op, name, found[name], want)


def restore(value: Any, before: Any) -> None:
    if isinstance(value, list):
        for x, y in zip(value, before, strict=True):
            restore(x, y)
    else:
        value[...] = before


def alike(found: Any, want: Any) -> bool:
    if isinstance(want, list):
        return all(alike(x, y) for x, y in zip(found, want, strict=True))
    if want.dtype.kind != "f":
        return bool((np.asarray(found) == want).all())
    return np.allclose(found, want, rtol=1e-4, atol=1e-5, equal_nan=True)


def samples(seed: int) -> list[Sample]:
    """One of each op, in the order of ops()."""
    made = _drawn()[seed % len(_drawn())]
    return [
        Sample(
            one["op"], one["suffix"], copies(one["inputs"]), one["inputs"], copies(one["options"]),
            {k: v.copy() for k, v in one["outs"].items()}, one["places"], one["expected"],
        )
        for one in made
    ]  # fmt: skip
