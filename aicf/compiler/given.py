"""What public functions are given that is of another kind altogether: it is named, before anything
is made of it. Raises TypeError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aicf.backend.base import AicfBackend
from aicf.compiler.ir.graph import Graph


def check_graph(x: Any) -> None:
    if not isinstance(x, Graph):
        hint = ": take its .graph" if isinstance(getattr(x, "graph", None), Graph) else ""
        raise TypeError(f"graph must be a Graph, not {described(x)}{hint}")


def check_backend(x: Any) -> None:
    if not isinstance(x, AicfBackend):
        hint = f": aicf.backends.get({x!r})" if isinstance(x, str) else ""
        raise TypeError(f"backend must be an AicfBackend, not {described(x)}{hint}")


def check_pass(x: Any) -> None:
    if not hasattr(x, "run") or not isinstance(getattr(x, "name", None), str):
        raise TypeError(f"{x!r} is no pass: it has a name, and run(graph, context)")


def check_arrays(name: str, x: Any, may_lack: bool = True) -> None:
    """Data by name, or None."""
    if not isinstance(x, Mapping) and not (x is None and may_lack):
        raise TypeError(f"{name} must be a mapping of names to arrays, not {described(x)}")


def check_sizes(x: Any) -> None:
    """Numbers by symbol, or None."""
    if x is not None and not isinstance(x, Mapping):
        raise TypeError(f"sizes must be a mapping of symbols to numbers, not {described(x)}")


def check_kind(name: str, x: Any, kind: type, may_lack: bool = True) -> None:
    """One of a class, or None."""
    if not isinstance(x, kind) and not (x is None and may_lack):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"{name} must be {article} {kind.__name__}, not {described(x)}")


def described(x: object) -> str:
    return "None" if x is None else f"a {type(x).__name__}"
