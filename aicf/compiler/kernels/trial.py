"""One call on data of its own, by whichever kernel: what candidates are judged on.

No kernel sees another's results: outs are poisoned before each run, what is updated in place is
copied anew, and nothing that the caller has is ever written to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aicf.backend.base import AicfBackend
from aicf.backend.host import numpy_dtype
from aicf.table import FLOATS

from .request import Request

Array = np.ndarray[Any, Any]
Values = list[Any]  # of each tensor of a request: an array, a list of them, None

# Two patterns of bytes: the first is a NaN of every float and -1 of integers, the second a number.
# What a kernel leaves unwritten differs between them, so that it is seen of every dtype.
POISONS = (0xFF, 0x55)


def drawn(request: Request, seed: int = 0) -> Values:
    """Random values for the tensors of a request. Integers may be indices: they stay within every
    dim."""
    source = np.random.default_rng(seed)
    sizes = [n for s in request.flat() for n in s.shape if n > 1]
    below = min(*sizes, 100) if len(sizes) > 1 else 2
    return [each(lambda s: _drawn(source, s, below), x) for x in request.tensors]


def copied(backend: AicfBackend, tensors: Sequence[Any]) -> Values:
    """The values of tensors that somebody uses."""
    return [each(backend.to_host, x) for x in tensors]


class Trial:
    """The tensors of a request on a backend's device, with these values, and its outs."""

    def __init__(self, backend: AicfBackend, request: Request, start: Values) -> None:
        self.backend, self.request, self.start = backend, request, start
        row = request.row
        self._inputs = [
            pairs(self._placed, x, v) for x, v in zip(request.tensors, start, strict=True)
        ]
        specs = row.infer(*request.tensors, **request.keywords()) if row.outs else ()
        wanted = dict(request.options)
        self._outs = [
            _Out(backend, s) if i < row.required_outs or wanted.get(o.name) else None
            for i, (o, s) in enumerate(zip(row.outs, specs, strict=True))
        ]
        outs = {o.name for o in row.outs}
        self._options = {
            k: v for k, v in request.keywords().items() if k not in outs and k != "dtype"
        }

    def bind(self, kernel: str) -> Any:
        """A prepared call of the kernel on this data."""
        row = self.request.row
        inputs = [each(lambda i: i.tensor, x) for x in self._inputs]
        outs = [each(lambda o: o.tensor, x) for x in self._outs]
        return self.backend.prepare(row.name, *inputs, *outs, kernel=kernel, **self._options)

    def refresh(self) -> None:
        """What is updated in place has its values of the beginning again."""
        for p, x in zip(self.request.row.tensors, self._inputs, strict=True):
            if p.inout and x is not None:
                each(lambda i: i.restore(), x)

    def restore(self, poison: int = POISONS[0]) -> None:
        """Data as at the beginning: refreshed, and outs poisoned."""
        self.refresh()
        for out in self._outs:
            if out is not None:
                self.backend.fill_bytes(out.base, poison)

    def run(self, call: Any, poison: int = POISONS[0]) -> dict[str, Any]:
        """What one run on restored data writes, by name, on the host: outs, and what is updated in
        place."""
        self.restore(poison)
        self.backend.run([call])
        self.backend.synchronize()
        row = self.request.row
        found = {
            p.name: each(lambda i: i.read(), x)
            for p, x in zip(row.tensors, self._inputs, strict=True)
            if p.inout and x is not None
        }
        outs = zip(row.outs, self._outs, strict=True)
        return found | {o.name: self.backend.to_host(x.tensor) for o, x in outs if x is not None}

    def _placed(self, spec: Any, values: Array) -> _Input:
        return _Input(self.backend, spec, values)


class _Input:
    """A tensor that lies as a Spec does, within memory of its own."""

    def __init__(self, backend: AicfBackend, spec: Any, values: Array) -> None:
        self._backend, self._spec = backend, spec
        self._low, span = _span(spec)
        self._flat = np.zeros(span, values.dtype)
        if values.size:
            self._laid(self._flat)[...] = values
        self._base = backend.from_host(self._flat)
        self.tensor = backend.view(self._base, spec.shape, spec.strides, -self._low)

    def restore(self) -> None:
        self._backend.copy_into(self._base, self._flat)

    def read(self) -> Array:
        return self._laid(self._backend.to_host(self._base)).copy()

    def _laid(self, flat: Array) -> Array:
        steps = [s * flat.itemsize for s in self._spec.strides]
        start = flat[-self._low :]
        return np.lib.stride_tricks.as_strided(start, self._spec.shape, steps)


class _Out:
    """An out that lies as the op would make it: dense, in the order of dims that a Spec has."""

    def __init__(self, backend: AicfBackend, spec: Any) -> None:
        _, span = _span(spec)
        self.base = backend.empty((span,), spec.dtype)
        self.tensor = backend.view(self.base, spec.shape, spec.strides, 0)


def _span(spec: Any) -> tuple[int, int]:
    """The least index of an element, and how many the tensor spans from there."""
    if 0 in spec.shape:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(spec.shape, spec.strides, strict=True)]
    low = sum(min(s, 0) for s in steps)
    return low, sum(max(s, 0) for s in steps) - low + 1


def _drawn(source: np.random.Generator, spec: Any, below: int) -> Array:
    """Floats are eighths, which every float dtype has exactly: a reference in f64 is of the same
    data, and sums are exact where they are not long."""
    if spec.dtype in FLOATS:
        found: Array = (source.integers(-16, 17, spec.shape) / 8).astype(numpy_dtype(spec.dtype))
        return found
    high = 2 if spec.dtype == "bool" else below
    return np.asarray(source.integers(0, high, spec.shape)).astype(numpy_dtype(spec.dtype))


def each(function: Callable[[Any], Any], x: Any) -> Any:
    """Of one, of a list's, of none."""
    if x is None:
        return None
    return [function(t) for t in x] if isinstance(x, list | tuple) else function(x)


def pairs(function: Callable[[Any, Any], Any], x: Any, values: Any) -> Any:
    if x is None:
        return None
    if isinstance(x, list | tuple):
        return [function(t, v) for t, v in zip(x, values, strict=True)]
    return function(x, values)
