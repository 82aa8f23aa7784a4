"""Other threads of Python beside a call, with verdicts that no speed of a machine decides."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

PATIENCE = 100.0  # seconds: what is never seen is told after that


@contextlib.contextmanager
def unforced() -> Iterator[None]:
    """No thread is made to give the GIL away: it goes where a thread sleeps, waits or says so."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10 * PATIENCE)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_beside(call: Callable[[], object], once: bool = False) -> bool:
    """Whether another thread runs during the call: made again until that is seen, as a thread that
    may run still has to be woken; where a first call differs, `once`, and it is a long one. Within
    a call that keeps the GIL none can."""
    inside, seen, done = threading.Event(), threading.Event(), threading.Event()

    def look() -> None:
        while not done.is_set():
            if inside.is_set():
                seen.set()
            time.sleep(0.001)

    thread = threading.Thread(target=look)
    with unforced():
        thread.start()
        deadline = time.monotonic() + PATIENCE
        try:
            while not seen.is_set() and time.monotonic() < deadline:
                time.sleep(0.002)
                inside.set()
                call()
                inside.clear()
                if once:
                    break
        finally:
            done.set()
            thread.join()
    return seen.is_set()
