"""Backends: who runs ops on a kind of device. `backends` dispatches those of the default table."""

from __future__ import annotations

from .base import AicfBackend, NoGraphs
from .dispatcher import Dispatcher, UnknownBackend

__all__ = ["AicfBackend", "Dispatcher", "NoGraphs", "UnknownBackend", "backends"]

backends = Dispatcher()
