"""Ends code of somebody's that comes to no end, in the thread where it runs.

An exception is raised there between two steps of Python; what hangs in C is waited for.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_LATE = 1.0  # seconds in which what was raised in a thread arrives there


class OutOfPatience(TimeoutError):
    """It did not end in time; its traceback is of where it was."""


class _Ended(BaseException):
    """It did not end in time. No Exception: code that catches those would go on for ever."""


def within(seconds: float | None, work: Callable[[], Result]) -> Result:
    """What `work` gives, or raises. Raises OutOfPatience where it does not end in so many
    seconds; None: it is waited for."""
    if seconds is None:
        return work()
    try:
        watch = _Watch(seconds)
        try:
            found = work()
        except _Ended:
            raise
        except BaseException:
            watch.end()
            raise
        watch.end()
        return found
    except _Ended as ended:
        message = f"it did not end in {seconds:g} s"
        raise OutOfPatience(message).with_traceback(ended.__traceback__) from None


class _Watch:
    """Over the thread that makes it. After `end` nothing more is raised there."""

    def __init__(self, seconds: float) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._is_over = False
        self._timer = threading.Timer(seconds, self._strike)
        self._timer.daemon = True
        self._timer.start()

    def _strike(self) -> None:
        with self._lock:
            if not self._is_over:
                self._is_over = True
                thread, kind = ctypes.c_ulong(self._thread), ctypes.py_object(_Ended)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, kind)

    def end(self) -> None:
        """Raises what is on its way: it was raised as the work ended, or was caught by it."""
        self._timer.cancel()
        with self._lock:
            is_late, self._is_over = self._is_over, True
        end = time.monotonic() + _LATE
        while is_late and time.monotonic() < end:
            pass
        if is_late:
            raise _Ended
