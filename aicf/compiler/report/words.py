"""Numbers and texts as a page has them."""

from __future__ import annotations

import unicodedata


def bytes_text(count: float) -> str:
    """1536 -> "1.50 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{_digits(count)} {unit}"


def time_text(seconds: float | None) -> str:
    """0.00042 -> "420 µs"."""
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)):
        if abs(seconds) * scale >= 1:
            return f"{_digits(seconds * scale)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _digits(x: float) -> str:
    """Three of them."""
    return f"{x:.0f}" if abs(x) >= 99.95 else f"{x:.1f}" if abs(x) >= 9.995 else f"{x:.2f}"


def pixel_text(x: float) -> str:
    """To a tenth: 12.0 -> "12"."""
    return f"{x:.1f}".removesuffix(".0")


def count_text(n: int, one: str, many: str = "") -> str:
    """2, "rule" -> "2 rules"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def percent_text(share: float) -> str:
    return f"{share * 100:.1f} %"


def short(text: str, most: int) -> str:
    """Cut in the middle: ends tell names apart."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


# What would turn the direction of text around it, or join what looks apart.
_UNSEEN = frozenset("\u00ad\u200b\u2060\ufeff")


def visible(text: str) -> str:
    """What a reader would not see, or no page may hold, as its escape: control characters, those
    that turn the direction of text, halves of surrogate pairs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(c) for c in text)


def _seen(c: str) -> str:
    if c in "\n\t":
        return c
    category = unicodedata.category(c)
    if (
        category in ("Cc", "Cs", "Co", "Cn")
        or c in _UNSEEN
        or unicodedata.bidirectional(c) in _TURNS
    ):
        return c.encode("unicode_escape", "backslashreplace").decode()
    return c


_TURNS = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))
