"""A device that is not there: what would run is recorded, nothing is computed, no memory is taken.

For tests of what decides: dispatch, graphs, executors, selection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aicf.table import Row

from . import nvtx
from .base import AicfBackend
from .recorded import Launch, NullGraph
from .report import caller
from .tensors import dtype_of


@dataclass(frozen=True, slots=True)
class NullTensor:
    """A shape, its strides in elements, and a dtype; two are never one tensor."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    device: str = "null"

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class NullCall:
    """A prepared call: recorded when it is called."""

    def __init__(self, backend: NullBackend, row: Row, arguments: dict[str, Any]) -> None:
        self._backend, self._row = backend, row
        self._arguments: dict[str, Any] = {}
        self.set(**arguments)

    @property
    def op(self) -> str:
        return self._row.name

    @property
    def kernel(self) -> str:
        return self.launch.kernel

    @property
    def tensors(self) -> dict[str, Any]:
        named = (*self._row.tensors, *self._row.outs)
        return {p.name: self._arguments.get(p.name) for p in named}

    def set(self, **arguments: Any) -> None:
        """As a real call's: checked, and as it was where that fails."""
        changed = self._arguments | arguments
        args = [changed.get(p.name) for p in self._row.tensors]
        names = {p.name for p in self._row.tensors}
        options = {k: v for k, v in changed.items() if k not in names and v is not None}
        _, self.launch = self._backend.checked(self._row, args, options)
        self._arguments = changed

    def __call__(self) -> None:
        self._backend.launches.append(self.launch)


class NullBackend(AicfBackend):
    """Kernels are those that the CPU would run on tensors of the same shapes."""

    name = "null"
    device = "null"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.launches: list[Launch] = []
        self.graphs: list[NullGraph] = []  # that were captured

    def launch(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """The outs, by the row's checks and shapes alone."""
        made, launch = self.checked(row, args, options)
        self.launches.append(launch)
        if any(p.inout for p in row.tensors) and not row.outs:
            return None
        return made[0] if len(made) == 1 or not any(made[1:]) else tuple(made)

    def checked(
        self, row: Row, args: Sequence[Any], options: dict[str, Any]
    ) -> tuple[list[Any], Launch]:
        """What a call would give and launch, without recording it."""
        outs = {o.name: options[o.name] for o in row.outs if o.name in options}
        options = {k: v for k, v in options.items() if k not in outs and k != "stream"}
        specs = row.infer(*(_each(_spec, x) for x in args), **_with_specs(options))
        wanted = row.required_outs
        made = [
            _made(spec, outs.get(o.name)) if i < wanted or outs.get(o.name) is not None else None
            for i, (o, spec) in enumerate(zip(row.outs, specs, strict=True))
        ]
        return made, self._launch(row, args, options)

    def _refused(
        self, row: Row, args: Sequence[Any], options: dict[str, Any], error: Exception
    ) -> Any:
        error.add_note("null computes nothing, so nothing falls back")
        raise error

    def _launch(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> Launch:
        shapes = tuple(_each(lambda x: tuple(x.shape), x) for x in args)
        return Launch(row.name, self.kernel_of(row, args, options), shapes, caller())

    def kernel_of(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> str:
        specs = [_each(_spec, x) for x in args]
        return super().kernel_of(row, specs, _with_specs(options))

    def prepare(self, op: str, *args: Any, **options: Any) -> Any:
        row = self.table[op]
        named = dict(zip((p.name for p in (*row.tensors, *row.outs)), args, strict=False))
        return NullCall(self, row, named | options)

    def run(self, calls: Sequence[Any], names: Sequence[str] = ()) -> None:
        if nvtx.is_on():
            self._run_in_ranges(calls, names)
            return
        for call in calls:
            call()

    def capture(
        self, work: Sequence[Any], feed: tuple[Any, Any] | None = None, *, branches: int = 1
    ) -> NullGraph:
        self.graphs.append(NullGraph(self.launches, work))
        return self.graphs[-1]

    # ---- memory --------------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        return _made(_spec_of(shape, dtype), None)

    def from_host(self, array: Any) -> Any:
        return self.empty(array.shape, dtype_of(array))

    def to_host(self, tensor: Any) -> Any:
        raise TypeError("a tensor of the null backend has no values")

    def copy_into(self, tensor: Any, source: Any) -> None:
        """Nothing has values; shapes are checked."""
        if tuple(tensor.shape) != tuple(source.shape):
            raise ValueError(f"{tuple(tensor.shape)} is not overwritten by {tuple(source.shape)}")

    def fill_bytes(self, tensor: Any, byte: int) -> None:
        """Nothing has values."""

    def numbers(self, dtypes: Sequence[str]) -> tuple[Any, list[Any]]:
        """Eight bytes each, of which none shows another."""
        return self.empty((8 * len(dtypes),), "u8"), [self.empty((), d) for d in dtypes]

    def view(self, tensor: Any, shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
        return NullTensor(tuple(shape), tensor.dtype, tuple(strides))

    def carve(
        self, memory: Any, offset: int, shape: Sequence[int], dtype: str,
        strides: Sequence[int] | None = None,
    ) -> Any:  # fmt: skip
        return _made(_spec_of(shape, dtype, strides), None)


def _spec_of(shape: Sequence[int], dtype: str, strides: Sequence[int] | None = None) -> Any:
    from aicf_rt import Spec

    return Spec(tuple(shape), dtype, strides=strides)


def _spec(x: Any) -> Any:
    return _spec_of(x.shape, x.dtype, x.strides) if isinstance(x, NullTensor) else x


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    if x is None:
        return None
    return [function(t) for t in x] if isinstance(x, list | tuple) else function(x)


def _with_specs(options: dict[str, Any]) -> dict[str, Any]:
    return {k: _each(_spec, v) if isinstance(v, NullTensor) else v for k, v in options.items()}


def _made(spec: Any, out: Any) -> Any:
    """The out that was given, checked, or a new one."""
    if out is None or out is True:
        return NullTensor(spec.shape, spec.dtype, spec.strides)
    if tuple(out.shape) != spec.shape or out.dtype != spec.dtype:
        raise ValueError(f"out must be {spec.dtype} {spec.shape}, not {out.dtype} {out.shape}")
    return out
