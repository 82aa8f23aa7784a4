"""Ranges for profilers: around each op, named by the op, its kernel and the line of the program.

On by `AICF_NVTX=1`, or within `with aicf.nvtx():`. The ranges go through NVTX, by the package
`nvtx`, else by torch; a profiler (nsys, ncu) is told of them by NVTX itself.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

_PACKAGES = ("nvtx", "torch.cuda.nvtx")


class _State(threading.local):
    """How many contexts of a thread ask for ranges."""

    depth = 0


_state = _State()
_always = os.environ.get("AICF_NVTX", "0") not in ("", "0")
_found: tuple[Callable[[str], Any], Callable[[], Any]] | None = None


def is_on() -> bool:
    return _always or _state.depth > 0


@contextlib.contextmanager
def nvtx() -> Iterator[None]:
    """Ranges for the ops that this thread runs within. Raises ImportError without NVTX."""
    _calls()
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1


@contextlib.contextmanager
def range(text: str) -> Iterator[None]:
    """A range of that name around what is done within."""
    push, pop = _calls()
    push(text)
    try:
        yield
    finally:
        pop()


def _calls() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    global _found
    if _found is None:
        _found = _search()
    return _found


def _search() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    for name in _PACKAGES:
        try:
            package = importlib.import_module(name)
        except ImportError:
            continue
        push = getattr(package, "push_range", None) or package.range_push
        pop = getattr(package, "pop_range", None) or package.range_pop
        return push, pop
    raise ImportError("ranges need the package nvtx: pip install nvtx, or leave AICF_NVTX unset")
