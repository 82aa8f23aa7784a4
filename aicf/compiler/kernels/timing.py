"""Times of several calls that do the same, beside each other."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aicf.backend.base import AicfBackend

_ROUNDS = 9
_LEAST = 2e-4  # seconds that a sample takes at least, so that a clock's step is nothing
_MOST = 2000  # calls of a sample
_SLOW = 3.0  # times the fastest: further rounds go without it
_NOISY = 0.1  # of the median, between the quartiles
_SLOWER = 1.02  # times as long: less is no difference
_ATTEMPTS = 3  # at times that are not noise


class OutOfTime(TimeoutError):
    """The budget ended before the times were taken."""


@dataclass(frozen=True, slots=True)
class Times:
    """Of one call, one sample a round, in seconds."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Between the quartiles, as a share of the median."""
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / self.median

    @property
    def is_noisy(self) -> bool:
        return self.spread > _NOISY


@dataclass(frozen=True, slots=True)
class Pair:
    """One call and what may stand in its place, round by round beside each other."""

    before: Times
    after: Times

    @property
    def ratios(self) -> list[float]:
        """How long the second took of the first in the same round. What disturbs a whole round
        leaves them as they are."""
        return [b / a for a, b in zip(self.before.samples, self.after.samples, strict=True)]

    @property
    def quartiles(self) -> tuple[float, float, float]:
        low, middle, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, middle, high

    @property
    def is_slower(self) -> bool:
        """In three rounds of four; in every one where they differ much."""
        low, middle, high = self.quartiles
        is_even = high - low <= _NOISY * middle
        return (is_even and low > _SLOWER) or min(self.ratios) > _SLOWER

    @property
    def is_noisy(self) -> bool:
        low, middle, high = self.quartiles
        return high - low > _NOISY * middle and not self.is_slower


def compare(
    backend: AicfBackend,
    before: Any,
    after: Any,
    refresh: Callable[[], None],
    deadline: float = math.inf,
) -> Pair:
    """Two calls beside each other, taken again where the times are noise; they may stay so. Raises
    OutOfTime."""
    for _ in range(_ATTEMPTS):
        calls = {"before": before, "after": after}
        times = measure(backend, calls, refresh, deadline, leaves_slow=False)
        pair = Pair(times["before"], times["after"])
        if not pair.is_noisy:
            break
    return pair


def measure(
    backend: AicfBackend,
    calls: Mapping[str, Any],
    refresh: Callable[[], None],
    deadline: float = math.inf,
    leaves_slow: bool = True,
) -> dict[str, Times]:
    """By name. In each round every call has its turn, each round another one first, so that what
    disturbs the machine disturbs all alike; `refresh` is called before each sample. A call that is
    far slower than another is left alone after three rounds, if `leaves_slow`. Raises OutOfTime
    past `deadline`, of time.monotonic()."""
    counts = {name: _count(backend, call, refresh) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    going = list(calls)
    for turn in range(_ROUNDS):
        for name in going[turn % len(going) :] + going[: turn % len(going)]:
            if time.monotonic() > deadline:
                raise OutOfTime(f"{turn} of {_ROUNDS} rounds were done")
            refresh()
            samples[name].append(backend.time(calls[name], counts[name]))
        if turn == 2 and leaves_slow:
            best = min(statistics.median(s) for s in samples.values())
            going = [n for n in going if statistics.median(samples[n]) <= _SLOW * best]
    return {name: Times(tuple(s)) for name, s in samples.items()}


def _count(backend: AicfBackend, call: Any, refresh: Callable[[], None]) -> int:
    """How many calls make a sample; what is done once at a first call is done by then."""
    refresh()
    call()
    refresh()
    once = backend.time(call, 1)
    return max(1, min(_MOST, math.ceil(_LEAST / max(once, 1e-9))))
