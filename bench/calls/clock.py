"""How calls are timed: blocks of calls from C, in turn with the blocks that they are compared with.

A block is at most 200 launches, behind a synchronisation, so that no queue is ever full. For a row
its blocks and those beside it run in turn, pair after pair, the order rotated from pair to pair; a
ratio is the median of the pairs' ratios, with the interval of the median by order statistics. An
empty Python call with as many arguments is timed in each pair and subtracted from Python calls.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

LAUNCHES = 200  # between two synchronisations, at most
FEWEST = 20  # launches of a block that would take longer than a block should
WARM_UP = 3  # blocks of each kind that do not count


# One call of a block: what is called, its arguments, the names of the last of them.
Call = tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class Block:
    """`run(times)` gives the nanoseconds of so many calls, each of which is `each` launches."""

    run: Callable[[int], int]
    each: float = 1
    calls: tuple[Call, ...] = ()  # empty: no Python call is in it, and none is subtracted


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a call as it is, and without its launch."""

    name: str
    who: str
    tensors: str
    full: Block | None = None
    empty: Block | None = None
    beside: tuple[str, ...] = ()  # rows that it is compared with
    keep: object = None  # what must live as long as the row

    def probe(self) -> None:
        """One call of each block. What answers False did nothing, and would be timed as fast."""
        for block in (self.full, self.empty):
            for function, arguments, names in block.calls if block else ():
                count = len(arguments) - len(names or ())
                named = dict(zip(names or (), arguments[count:], strict=True))
                if function(*arguments[:count], **named) is False:
                    raise ValueError("it refuses these tensors")


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and the interval that holds the true one with 95%."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        ranked = sorted(values)
        half = 1.96 * math.sqrt(len(ranked)) / 2
        first = max(0, math.floor(len(ranked) / 2 - half))
        last = min(len(ranked) - 1, math.ceil(len(ranked) / 2 + half) - 1)
        return cls(statistics.median(ranked), ranked[first], ranked[last])

    def json(self, digits: int) -> dict[str, float]:
        return {
            "median": round(self.median, digits),
            "low": round(self.low, digits),
            "high": round(self.high, digits),
        }


COLUMNS = ("empty", "full")  # without the launch and with it


@dataclass(slots=True)
class Result:
    """Nanoseconds of a launch by column, and ratios by column and the row beside."""

    ns: dict[str, Spread] = field(default_factory=dict)
    ratios: dict[str, dict[str, Spread]] = field(default_factory=dict)


class Clock:
    """Times rows by `floor`, the module of floor.c.

    A block takes no longer than `longest` nanoseconds where it can: on a busy machine others run in
    between in most of the long ones, and then also in the median.
    """

    def __init__(
        self,
        floor: Any,
        synchronize: Callable[[], object],
        pairs: int,
        longest: float = math.inf,
    ) -> None:
        self.floor, self.synchronize, self.pairs = floor, synchronize, pairs
        self.longest = longest

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        names: tuple[str, ...] | None = None,
        each: float = 1,
    ) -> Block:
        """A block of this call; the last arguments stand for `names`."""
        return self.calls((function, arguments, names), each=each)

    def calls(self, *calls: Call, each: float = 1) -> Block:
        """A block of these calls in turn."""
        repeat = self.floor.repeat

        def run(times: int) -> int:
            taken: int = repeat(calls, times)
            return taken

        return Block(run, each, calls)

    def block(self, block: Block, launches: int = LAUNCHES) -> float:
        """Nanoseconds a launch."""
        times = max(1, int(launches / block.each))
        taken = block.run(times)
        self.synchronize()
        return taken / times / block.each

    def hollow(self, block: Block) -> Block:
        """The empty calls to subtract from a block: as many arguments, all by position."""
        nothing = self.floor.nothing
        calls = [(nothing, arguments, None) for _, arguments, _ in block.calls]
        return self.calls(*calls, each=block.each)

    def measure(self, row: Row, others: Sequence[Row]) -> Result:
        """A row beside others, in the columns that both have."""
        blocks: dict[tuple[str, str], Block] = {}
        for one in (row, *others):
            for column in COLUMNS:
                block = getattr(one, column)
                if block is not None and getattr(row, column) is not None:
                    blocks[one.name, column] = block
        series = self.series(blocks)
        result = Result()
        for column in COLUMNS:
            mine = series.get((row.name, column))
            if mine is None:
                continue
            result.ns[column] = Spread.of(mine)
            result.ratios[column] = {
                other.name: Spread.of([a / b for a, b in zip(mine, theirs, strict=True)])
                for other in others
                if (theirs := series.get((other.name, column)))
            }
        return result

    def series(self, blocks: dict[tuple[str, str], Block]) -> dict[tuple[str, str], list[float]]:
        """Nanoseconds a launch of each block in each pair, empty calls subtracted."""
        timed: dict[Any, Block] = dict(blocks)
        hollow: dict[tuple[str, str], Any] = {}
        for key, block in blocks.items():
            if block.calls:
                hollow[key] = (*(len(arguments) for _, arguments, _ in block.calls), block.each)
                timed.setdefault(hollow[key], self.hollow(block))
        order = list(timed)
        seen: dict[Any, list[float]] = {key: [] for key in order}
        launches = {}
        for key in order:
            once = min(self.block(timed[key]) for _ in range(WARM_UP))
            launches[key] = max(FEWEST, int(min(LAUNCHES, self.longest / max(once, 1))))
        gc.collect()
        gc.disable()
        try:
            for pair in range(self.pairs):
                turn = pair % len(order)
                for key in order[turn:] + order[:turn]:
                    seen[key].append(self.block(timed[key], launches[key]))
        finally:
            gc.enable()
        return {
            key: [
                # A call can be no cheaper than the clock's grain above an empty one.
                max(a - b, 0.1)
                for a, b in zip(seen[key], seen[hollow[key]], strict=True)
            ]
            if key in hollow
            else seen[key]
            for key in blocks
        }
