"""What a backend is: one method an op, which runs the op's module and falls back visibly.

A backend of a new device is a subclass that says `name` and `device`, how its memory is made and
copied, and nothing about any op.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from aicf.table import BYTES, Row, Table

from . import nvtx
from .device import Device
from .report import Report, caller
from .tensors import dtype_of

if TYPE_CHECKING:
    import numpy as np


class NoGraphs(NotImplementedError):
    """A backend captures nothing, or not this; says why."""


class AicfBackend:
    """The ops of a table on one kind of device.

    `backend.NAME(*tensors, **attributes)` is the op NAME, for each op of the table. `strict`: what
    the op's module does not take raises `aicf_rt.Unsupported` instead of falling back."""

    name = ""  # by which it is registered
    device = ""  # of its tensors: "cpu", "cuda"; with an index where there may be several

    if TYPE_CHECKING:  # its methods are those of a table

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def __new__(cls, table: Table | None = None, **options: Any) -> Self:
        made: Self = object.__new__(_with_methods(cls, table or Table.default()))  # type: ignore[arg-type]
        return made

    def __init__(self, table: Table | None = None, *, strict: bool = False) -> None:
        self.table = table or Table.default()
        self.strict = strict
        self._report = Report()
        self._stream: Any = None

    # ---- calls ---------------------------------------------------------------------------------

    def call(self, op: str, *args: Any, **options: Any) -> Any:
        """Runs an op: tensors by position or name; attributes, outs, `stream=` and `kernel=` by
        name. Returns its out. Raises TypeError where the call is wrong; where the op's module does
        not take it and there is no fallback, NoFallback."""
        row = self.table[op]
        if nvtx.is_on():
            return self._call_in_range(row, args, options)
        return self._call(row, args, options)

    def _call(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> Any:
        try:
            result = self.launch(row, args, options)
        except _unsupported() as error:
            return self._refused(row, args, options, error)
        self._report.ran(row.name)
        return result

    def _call_in_range(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> Any:
        with nvtx.range(f"{row.name} {self.kernel_of(row, args, options)} {caller()}"):
            return self._call(row, args, options)

    def launch(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """By the op's module. Raises Unsupported where that does not take it."""
        return row.call(*args, **options)

    def kernel_of(self, row: Row, args: Sequence[Any], options: dict[str, Any]) -> str:
        """The kernel that would run; "fallback" where none would."""
        if options.get("kernel"):
            return str(options["kernel"])
        lines = row.explain(*args, **{k: v for k, v in options.items() if k != "stream"})
        fitting = (line.partition(":") for line in lines)
        return next((k for k, _, why in fitting if why.startswith(" fits")), "fallback")

    def _refused(
        self, row: Row, args: Sequence[Any], options: dict[str, Any], error: Exception
    ) -> Any:
        """Falls back, and counts it; raises what the module raised where that is no way out."""
        from . import aten  # imports what computes it, for calls that need it

        if self.strict:
            error.add_note(f"{self.name} is strict: nothing falls back")
            raise error
        line = caller()
        try:
            result = aten.fall_back(row, args, options)
        except aten.NoFallback as none:
            raise aten.NoFallback(f"{none}; what its module says of the call: {error}") from error
        except Exception as refused:
            error.add_note(f"its fallback, aten {row.aten}, refused it too: {refused}")
            raise error from refused
        self._report.fell_back(row.name, str(error), str(aten.parse(row.aten or "")), line)
        return result

    def report(self) -> Report:
        """What ran and what fell back, with its reasons, since this backend was made."""
        return self._report

    # ---- prepared calls ------------------------------------------------------------------------

    def prepare(self, op: str, *args: Any, **options: Any) -> Any:
        """A call that is checked once and then only launched: `aicf_rt.Call`. All outs are given.
        Raises Unsupported; a prepared call has no fallback."""
        return self.table[op].bind(*args, **options)

    def run(self, calls: Sequence[Any], names: Sequence[str] = ()) -> None:
        """Launches prepared calls, one after another. Where ranges are on, each in one of its own,
        called by `names`, else by its op, its kernel and the line of the program that runs them."""
        if nvtx.is_on():
            self._run_in_ranges(calls, names)
            return
        # Who has calls has the runtime; to import it costs more than a call.
        sys.modules["aicf_rt"].run(calls if isinstance(calls, (list, tuple)) else list(calls))

    def _run_in_ranges(self, calls: Sequence[Any], names: Sequence[str]) -> None:
        line = caller()
        for i, call in enumerate(calls):
            with nvtx.range(names[i] if names else f"{call.op} {call.kernel} {line}"):
                call()

    def capture(
        self, work: Sequence[Any], feed: tuple[np.ndarray[Any, Any], Any] | None = None,
        *, branches: int = 1,
    ) -> Any:  # fmt: skip
        """Prepared calls, and copies as (source, out), as one graph: `launch()` does all of it in
        their order, with the tensors and numbers that they have now; `update(work)` makes it that
        of the calls as they are then, and says how; `nodes` counts them. Nothing runs meanwhile.
        `feed`: an array on the host and a tensor; each launch first copies to the tensor what the
        array then holds, which may be overwritten at once. `branches`: so many may run at once,
        where none needs what another writes. Raises NoGraphs, or why not this."""
        raise NoGraphs(f"{self.name} has no graphs")

    # ---- memory --------------------------------------------------------------------------------

    # A backend that is given all its tensors needs none of these; one that is asked for what it has
    # not got says which method that is.

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """A new row-major tensor; its elements are undefined."""
        raise NotImplementedError(f"{type(self).__name__}.empty")

    def from_host(self, array: Any) -> Any:
        """A new tensor with the values of an array in host memory."""
        raise NotImplementedError(f"{type(self).__name__}.from_host")

    def to_host(self, tensor: Any) -> Any:
        """A new numpy array with the values of a tensor. Waits for them."""
        raise NotImplementedError(f"{type(self).__name__}.to_host")

    def copy_into(self, tensor: Any, source: Any) -> None:
        """Overwrites a tensor by one of the same shape and dtype, of this device or the host."""
        raise NotImplementedError(f"{type(self).__name__}.copy_into")

    def fill_bytes(self, tensor: Any, byte: int) -> None:
        """Sets every byte of a dense tensor. Raises ValueError of one with gaps."""
        raise NotImplementedError(f"{type(self).__name__}.fill_bytes")

    def view(self, tensor: Any, shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
        """The same memory as another tensor; strides and offset in elements of its dtype."""
        from aicf_rt import view

        start = offset * BYTES[dtype_of(tensor)]
        return view(tensor, tuple(shape), strides=tuple(strides), offset=start)

    def carve(
        self, memory: Any, offset: int, shape: Sequence[int], dtype: str,
        strides: Sequence[int] | None = None,
    ) -> Any:  # fmt: skip
        """A tensor in memory that is a tensor of bytes, from byte `offset` on; row-major unless
        there are strides, in elements."""
        from aicf_rt import view

        return view(memory, tuple(shape), strides=strides, offset=offset, dtype=dtype)

    def fed(self, size: int) -> Any:
        """A tensor of bytes that graphs are fed into."""
        return self.empty((size,), "u8")

    def numbers(self, dtypes: Sequence[str]) -> tuple[Any, list[Any]]:
        """A tensor of bytes, eight for each dtype, and a tensor of one element in each eight."""
        from aicf_rt import view

        whole = self.fed(8 * len(dtypes))
        return whole, [view(whole, (), dtype=d, offset=8 * i) for i, d in enumerate(dtypes)]

    # ---- the device ----------------------------------------------------------------------------

    @property
    def stream(self) -> Any:
        """What `stream=` takes of the stream that this backend works on; None: the default."""
        return self._stream

    def current(self, tensors: Sequence[Any]) -> Callable[[], Any] | None:
        """Says at each call on which stream a run with such tensors works, where this backend has
        none of its own: the one that their framework works on. None: no framework is asked."""
        return None

    def on(self, stream: Any) -> AicfBackend:
        """The same backend with a stream; what ran and fell back is counted by this one."""
        made = copy.copy(self)
        made._stream = stream
        return made

    def synchronize(self) -> None:
        """Waits for all that was launched."""

    @functools.cached_property
    def info(self) -> Device:
        """What choices of kernels depend on."""
        return Device(kind=self.device.partition(":")[0], arch=self.device, name=self.name)

    def time(self, call: Callable[[], Any], count: int) -> float:
        """Seconds that one of `count` calls after one another takes on the device."""
        from time import perf_counter

        self.synchronize()
        start = perf_counter()
        for _ in range(count):
            call()
        self.synchronize()
        return (perf_counter() - start) / count


def _unsupported() -> type[Exception]:
    """A runtime that is not there yet has raised nothing."""
    found: type[Exception] = sys.modules["aicf_rt"].Unsupported
    return found


@functools.cache
def _with_methods(cls: type[Any], table: Table) -> type[Any]:
    """The class with a method for each op of a table, but where it has a name of its own."""
    own = set(dir(cls))
    methods = {row.name: _method(row) for row in table if row.name not in own}
    return type(
        cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__, **methods}
    )


def _method(row: Row) -> Callable[..., Any]:
    """Written for `help()` as for a call: with the row's signature and text."""

    def method(self: AicfBackend, *args: Any, **options: Any) -> Any:
        return self.call(row.name, *args, **options)

    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    outs = [
        inspect.Parameter(o.name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for o in row.outs
        if not o.optional
    ]
    parameters = list(row.signature.parameters.values())
    method.__signature__ = inspect.Signature([me, *parameters, *outs])  # type: ignore[attr-defined]
    method.__name__ = row.name
    method.__qualname__ = f"{AicfBackend.__name__}.{row.name}"
    method.__doc__ = row.doc
    return method
