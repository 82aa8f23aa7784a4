"""Which runs of an executor are rounded up to a bucket's size, by what was found out about them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.node import Value
from aicf.compiler.runtime.bound import Bound
from aicf.compiler.runtime.buckets import Bucket, Buckets, Padded, leads, made_rows
from aicf.compiler.runtime.eager import Eager

if TYPE_CHECKING:
    from aicf.compiler.runtime.executor import ExecutorV2

Key = tuple[Any, ...]  # sizes by symbol, and the stream
_KEPT = 4096  # sizes of which it is known
_ASKED = 8  # runs of one size that tell nothing, after which none is asked


def key_of(sizes: Mapping[str, int], stream: Any) -> Key:
    return (*sorted(sizes.items()), stream)


def name_of(sizes: Mapping[str, int]) -> str:
    """ "M = 3, N = 32"."""
    return ", ".join(f"{symbol} = {size}" for symbol, size in sorted(sizes.items()))


class _Exact(Exception):
    """A size is not rounded up; says why."""


class Rounding:
    """Of one executor. `filled`: the buckets that have a program."""

    def __init__(self, owner: ExecutorV2, buckets: Buckets) -> None:
        self.owner, self.buckets = owner, buckets
        self.filled: OrderedDict[Key, Bucket] = OrderedDict()
        self._known: OrderedDict[Key, Bound | None] = OrderedDict()  # None: run exactly
        self._asked: Counter[Key] = Counter()  # runs that told nothing

    def bound(
        self, sizes: Mapping[str, int], stream: Any, given: Mapping[Value, Any]
    ) -> Bound | None:
        """What runs these sizes by a graph of larger ones; None: nothing does, and the executor has
        the reason."""
        key = key_of(sizes, stream)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        try:
            padded = self._padded(sizes, stream, given)
            if padded is None and self._asked[key] == _ASKED:
                raise _Exact("integers that are all zero do not tell whether rows are apart")
        except (_Exact, IRError) as reason:  # of IRs: the graph does not hold for the larger size
            self.owner.note(name_of(sizes), str(reason))
            self._known[key] = None
            return None
        if padded is None:
            self._asked[key] += 1
            return None
        large = padded.bucket.bound
        bound = Bound(large.graph, name_of(sizes), large.backend, lambda bound, given: padded)
        self._known[key] = bound
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return bound

    def knows(self, sizes: Mapping[str, int], stream: Any) -> bool:
        """Whether it stays with what was found out."""
        return key_of(sizes, stream) in self._known

    def _padded(
        self, sizes: Mapping[str, int], stream: Any, given: Mapping[Value, Any]
    ) -> Padded | None:
        """Runs of a size that comes for the first time. None: what is given does not tell whether
        they may be rounded up, another time may."""
        buckets = self.buckets
        if buckets.reason:
            raise _Exact(buckets.reason)
        size = sizes[buckets.symbol]
        large = buckets.rounded(size)
        if large is None:
            raise _Exact(f"{buckets.symbol} has no bucket for {size}")
        bucket = self._bucket({**sizes, buckets.symbol: large}, stream, given)
        padded = Padded(bucket, size, self.owner.entries_of(bucket.bound, given))
        if not padded.decides():
            return None
        exact = self.owner.bound_to(sizes, stream, None)
        held = self.owner.entries_of(exact, given)
        eager = Eager(exact.graph, exact.backend, held, self.owner.choose)
        reason = padded.differs(eager.outputs())
        if reason:
            raise _Exact(reason)
        return padded

    def _bucket(self, sizes: Mapping[str, int], stream: Any, given: Mapping[Value, Any]) -> Bucket:
        key, owner, symbol = key_of(sizes, stream), self.owner, self.buckets.symbol
        if key not in self.filled:
            bound = owner.bound_to(sizes, stream, None)
            graph, inputs = bound.graph, zip(owner.graph.inputs, bound.graph.inputs, strict=True)
            rows = made_rows(bound.backend, graph, [v for of, v in inputs if leads(of, symbol)])
            held = owner.entries_of(bound, given) | rows
            runner = owner.captured_runner(bound, held, owner.outputs == "fresh")
            self.filled[key] = Bucket(bound, runner, rows, sizes[symbol])
        self.filled.move_to_end(key)
        while len(self.filled) > owner.kept:
            _, old = self.filled.popitem(last=False)
            lost = [k for k, b in self._known.items() if b and b.graph is old.bound.graph]
            for at in lost:
                del self._known[at]
        return self.filled[key]
