"""Ranges for profilers: around each op, named by the op, its kernel and the line of the program.

On by `AICF_NVTX=1`, or within `with aicf.nvtx():`. They go through NVTX, by the package `nvtx` in
the domain "aicf", else by torch; NVTX tells the profiler that started the process (nsys, ncu).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

_DOMAIN = "aicf"


class _State(threading.local):
    """How many contexts of a thread ask for ranges."""

    depth = 0


_state = _State()
_always = os.environ.get("AICF_NVTX", "0") not in ("", "0")
_lock = threading.Lock()
asked = int(_always)  # by how many contexts, of any thread; 0: no thread is on
_found: tuple[Callable[[str], Any], Callable[[], Any]] | None = None


def is_on() -> bool:
    """Of this thread."""
    return asked > 0 and (_always or _state.depth > 0)


def _ask(by: int) -> None:
    global asked
    with _lock:
        asked += by
        _state.depth += by


@contextlib.contextmanager
def nvtx() -> Iterator[None]:
    """Ranges for the ops that this thread runs within. Raises ImportError without NVTX."""
    _calls()
    _ask(1)
    try:
        yield
    finally:
        _ask(-1)


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
    """How a range begins and ends; looked for once."""
    global _found
    if _found is None:
        _found = _of_package() or _of_torch()
    if _found is None:
        raise ImportError(
            "ranges need the package nvtx: pip install nvtx, or leave AICF_NVTX unset"
        )
    return _found


def _of_package() -> tuple[Callable[[str], Any], Callable[[], Any]] | None:
    try:
        package = importlib.import_module("nvtx")
    except ImportError:
        return None

    def push(text: str) -> None:
        package.push_range(text, domain=_DOMAIN)

    def pop() -> None:
        package.pop_range(domain=_DOMAIN)

    return push, pop


def _of_torch() -> tuple[Callable[[str], Any], Callable[[], Any]] | None:
    try:
        module = importlib.import_module("torch.cuda.nvtx")
    except ImportError:
        return None
    return module.range_push, module.range_pop
