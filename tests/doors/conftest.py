"""Tests of every way into an op: one verdict and one message, whichever way a call comes."""

from __future__ import annotations

from modules.conftest import add, alone, rt, unsupported, zoo

__all__ = ["add", "alone", "rt", "unsupported", "zoo"]
