"""Steps of several who run them, timed in blocks that take turns."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Step = Callable[[], Any]
Blocks = dict[str, dict[str, list[float]]]  # host and whole microseconds a step, by who

LAUNCHES = 800  # that a queue of the device's has room for, and more
GRAPHS = 100  # the same of graphs: so many at once are enough
BLOCK = 5e-3  # seconds


def timed(
    steps: Mapping[str, Step], synchronize: Callable[[], None], most: int, seconds: float,
    room: Mapping[str, int], doing: Callable[[str], None] = lambda _: None,
) -> Blocks:  # fmt: skip
    """Blocks in turn, each behind a step of the same and a synchronisation: of steps that the queue
    has `room` for, at least half as many; `most` blocks or as many as take so many seconds, but
    five."""
    found: Blocks = {name: {"host": [], "whole": []} for name in steps}
    each = {name: duration(step, synchronize) for name, step in steps.items()}
    counts = {n: max((room[n] + 1) // 2, min(room[n], int(BLOCK / t))) for n, t in each.items()}
    turn = sum(counts[name] * t for name, t in each.items())
    for block in range(max(min(most, 5), min(most, int(seconds / turn) if turn else most))):
        for name in random.Random(block).sample(list(steps), len(steps)):
            doing(name)
            host, whole = timed_block(steps[name], counts[name], synchronize)
            found[name]["host"].append(host)
            found[name]["whole"].append(whole)
    return found


def timed_block(step: Step, count: int, synchronize: Callable[[], None]) -> tuple[float, float]:
    """Microseconds a step of the host, and in all."""
    step()
    synchronize()
    start = time.perf_counter()
    for _ in range(count):
        step()
    submitted = time.perf_counter()
    synchronize()
    done = time.perf_counter()
    return (submitted - start) / count * 1e6, (done - start) / count * 1e6


def duration(step: Step, synchronize: Callable[[], None]) -> float:
    for _ in range(5):
        step()
    synchronize()
    start = time.perf_counter()
    step()
    synchronize()
    return time.perf_counter() - start


def medians(blocks: Blocks) -> dict[str, dict[str, float]]:
    return {
        name: {what: statistics.median(values) for what, values in of.items()}
        for name, of in blocks.items()
    }


def ratio(blocks: Blocks, name: str, other: str, what: str) -> float:
    """The median, of blocks that came next to each other."""
    pairs = zip(blocks[name][what], blocks[other][what], strict=True)
    return statistics.median(a / b for a, b in pairs)


def beside(blocks: Blocks, name: str, other: str, what: str) -> float:
    """By how much more, likewise."""
    pairs = zip(blocks[name][what], blocks[other][what], strict=True)
    return statistics.median(a - b for a, b in pairs)
