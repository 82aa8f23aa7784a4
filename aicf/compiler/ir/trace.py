"""A graph from a function of plain Python: it is called once, with tracers for its tensors.

    def loss(x, y, w, b):
        return ops.cross_entropy(ops.gemm(x, w, b, act="relu"), y)

    graph = trace(loss, "f32[N, 784]", "i64[N]", param("f32[784, 10]"), param("f32[10]"),
                  symbols={"N": (1, 4096)})

What the function does to tensors becomes nodes; what else it does happens now. A tracer has no
values, so that what asks for one (`if`, `float`, `>`) is refused with its line of source instead of
being answered for one run and kept for all.
"""

from __future__ import annotations

import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from aicf.compiler.ir import emit, types
from aicf.compiler.ir.emit import Emitter, tensor
from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.node import NAME, Value, values_of
from aicf.compiler.ir.types import Type
from aicf.dim import Dim, Ratio, Size
from aicf.table import Row, Table, TableError

PACKAGE = f"{Path(__file__).parents[2]}/"  # as code objects have it


class TraceError(TypeError):
    """A function asks for what is known at run time alone, or mixes graphs; says where."""


@dataclass(frozen=True, slots=True)
class Param:
    """An argument that becomes a param of the graph."""

    type: Type | str


def param(type: Type | str) -> Param:
    """Of `trace`: what lives on between runs, and may be updated in place."""
    return Param(type)


def trace(
    function: Callable[..., Any], *arguments: Any, symbols: Mapping[str, Any] | None = None,
    table: Table | None = None, name: str | None = None,
) -> Graph:  # fmt: skip
    """The graph of `function(*arguments)`. An argument is a type or its text; `param` of one;
    lists, tuples and dicts of these; anything else is handed on as it is. `symbols` has ranges by
    name, as (1, 4096). Values are called as the function calls its arguments."""
    graph = Graph(table or Table.default(), name or _name_of(function))
    for symbol, limits in (symbols or {}).items():
        graph.symbol(symbol, *(limits if isinstance(limits, tuple) else (1, limits)))
    names = list(inspect.signature(function).parameters)
    names += [f"argument_{i}" for i in range(len(names), len(arguments))]
    given = [_entered(graph, n, x) for n, x in zip(names, arguments, strict=False)]
    found = function(*given)
    graph.output(*(t.value for t in _leaves(found)))
    graph.verify()
    return graph


def _name_of(function: Callable[..., Any]) -> str:
    """As a graph may be called: lambda, of what has no name."""
    found = re.sub(r"[^\w.]", "", getattr(function, "__name__", ""), flags=re.ASCII)
    return found if NAME.fullmatch(found) else "graph"


def _entered(graph: Graph, name: str, spec: Any) -> Any:
    """Tracers in place of types."""
    if isinstance(spec, Mapping):
        return {k: _entered(graph, f"{name}.{k}", v) for k, v in spec.items()}
    if isinstance(spec, list | tuple):
        named = getattr(spec, "_fields", range(len(spec)))  # of a namedtuple
        parts = [_entered(graph, f"{name}.{k}", v) for k, v in zip(named, spec, strict=True)]
        return type(spec)(*parts) if hasattr(spec, "_fields") else type(spec)(parts)
    if isinstance(spec, Param):
        return Tracer(graph, graph.param(name, spec.type))
    if isinstance(spec, str | types.TensorType | types.ScalarType):
        return Tracer(graph, graph.input(name, spec))
    return spec


def _leaves(found: Any) -> Iterator[Tracer]:
    if isinstance(found, Tracer):
        yield found
    elif isinstance(found, Mapping):
        for part in found.values():
            yield from _leaves(part)
    elif isinstance(found, Sequence) and not isinstance(found, str):
        for part in found:
            yield from _leaves(part)
    elif found is not None:
        message = f"the function gives {found!r}, which is no tensor of the graph"
        raise TraceError(message)


class Tracer:
    """A tensor of a graph while it is traced. After an op that updates it in place it stands for
    what is there then."""

    __array_priority__ = 1000  # numpy leaves operators to it
    __slots__ = ("graph", "value")

    def __init__(self, graph: Graph, value: Value) -> None:
        self.graph, self.value = graph, value

    @property
    def shape(self) -> tuple[Size, ...]:
        return tensor(self.value).shape

    @property
    def dtype(self) -> str:
        return self.value.type.dtype

    @property
    def device(self) -> str:
        return tensor(self.value).device

    @property
    def ndim(self) -> int:
        return tensor(self.value).rank

    def __repr__(self) -> str:
        return f"Tracer({self.value!r})"

    # ---- operators ----------------------------------------------------------------------------

    def __add__(self, other: Any) -> Tracer:
        return self._binary(emit.ADD, self, other)

    def __radd__(self, other: Any) -> Tracer:
        return self._binary(emit.ADD, other, self)

    def __sub__(self, other: Any) -> Tracer:
        return self._binary(emit.SUB, self, other)

    def __rsub__(self, other: Any) -> Tracer:
        return self._binary(emit.SUB, other, self)

    def __mul__(self, other: Any) -> Tracer:
        return self._binary(emit.MUL, self, other)

    def __rmul__(self, other: Any) -> Tracer:
        return self._binary(emit.MUL, other, self)

    def __truediv__(self, other: Any) -> Tracer:
        return self._binary(emit.DIV, self, other)

    def __rtruediv__(self, other: Any) -> Tracer:
        return self._binary(emit.DIV, other, self)

    def __matmul__(self, other: Any) -> Tracer:
        return self._binary(emit.MATMUL, self, other)

    def __rmatmul__(self, other: Any) -> Tracer:
        return self._binary(emit.MATMUL, other, self)

    def __neg__(self) -> Tracer:
        return Tracer(self.graph, self._emitter().aten(emit.NEG, self.value))

    def _binary(self, aten: str, a: Any, b: Any) -> Tracer:
        emitter = self._emitter()
        left, right = (self._operand(emitter, x) for x in (a, b))
        return Tracer(self.graph, emitter.aten(aten, left, right))

    def _operand(self, emitter: Emitter, x: Any) -> Value:
        if isinstance(x, Tracer):
            if x.graph is not self.graph:
                raise TraceError(f"{emitter.loc}: {x!r} is of another graph")
            return x.value
        x = _number(emitter, x)
        if isinstance(x, bool | int | float):
            return emitter.number(x, self.dtype, self.device)
        message = f"{emitter.loc}: {x!r} is no tensor of the graph: give it as an argument"
        raise TraceError(message)

    def _emitter(self) -> Emitter:
        return Emitter(self.graph, location())

    # ---- views --------------------------------------------------------------------------------

    @property
    def T(self) -> Tracer:
        """Its dims in reverse order."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> Tracer:
        """Its last two dims exchanged."""
        return Tracer(self.graph, self._emitter().transpose(self.value))

    def permute(self, *perm: int | Sequence[int]) -> Tracer:
        """Axes by number, from behind too, alone or as one sequence."""
        axes = [a + self.ndim if isinstance(a, int) and a < 0 else a for a in _flat(perm)]
        return Tracer(self.graph, self._emitter().permute(self.value, axes))

    def reshape(self, *shape: Size | Sequence[Size]) -> Tracer:
        """-1 is what is left."""
        sizes = self._sizes(_flat(shape))
        return Tracer(self.graph, self._emitter().reshape(self.value, sizes))

    def expand(self, *shape: Size | Sequence[Size]) -> Tracer:
        return Tracer(self.graph, self._emitter().expand(self.value, _flat(shape)))

    def _sizes(self, shape: Sequence[Size]) -> list[Size]:
        """With -1 as what is left."""
        given = [n for n in shape if n != -1]
        if len(given) == len(shape):
            return given
        if len(given) < len(shape) - 1 or 0 in given:
            raise TraceError(f"{location()}: {tuple(shape)} leaves open what -1 is")
        rest = tensor(self.value).numel
        for n in given:
            rest = rest // n
        return [rest if n == -1 else n for n in shape]

    def __getitem__(self, index: Any) -> Tracer:
        """By integers and slices of positive step."""
        emitter, value, axis = self._emitter(), self.value, 0
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) > self.ndim:
            raise TraceError(f"{emitter.loc}: {len(indices)} indices of {self.ndim} dims")
        for i in indices:
            size: Any = tensor(value).shape[axis]
            if isinstance(i, slice):
                start, stop = (_folded(n, size, d) for n, d in ((i.start, 0), (i.stop, size)))
                step = 1 if i.step is None else i.step
                value = emitter.slice(value, axis, start, stop, step)
                axis += 1
            else:
                value = emitter.select(value, axis, _index(i, size, emitter.loc))
        return Tracer(self.graph, value)

    def __len__(self) -> int:
        if not self.ndim:
            raise TraceError(f"{location()}: {self.value!r} has no dims, and no length")
        first = self.shape[0]
        if not isinstance(first, int):
            self._refuse(f"its length {first}")
        return first

    def __iter__(self) -> Iterator[Tracer]:
        return (self[i] for i in range(len(self)))

    # ---- what is known at run time alone ------------------------------------------------------

    def _refuse(self, what: str) -> NoReturn:
        raise TraceError(
            f"{location()}: {what} of {self.value!r} is known at run time alone: branching on "
            "values would keep one answer for all runs; choose by an op, or branch outside"
        )

    def __bool__(self) -> NoReturn:
        self._refuse("the truth")

    def __float__(self) -> NoReturn:
        self._refuse("the number")

    def __int__(self) -> NoReturn:
        self._refuse("the number")

    def __index__(self) -> NoReturn:
        self._refuse("the number")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("the array")

    def __contains__(self, _: object) -> NoReturn:
        self._refuse("what it contains")

    def __eq__(self, other: object) -> NoReturn:
        self._refuse("a comparison")

    def __ne__(self, other: object) -> NoReturn:
        self._refuse("a comparison")

    def __lt__(self, other: object) -> NoReturn:
        self._refuse("a comparison")

    def __le__(self, other: object) -> NoReturn:
        self._refuse("a comparison")

    def __gt__(self, other: object) -> NoReturn:
        self._refuse("a comparison")

    def __ge__(self, other: object) -> NoReturn:
        self._refuse("a comparison")

    __hash__ = None  # type: ignore[assignment]


def _flat(given: Sequence[Any]) -> Sequence[Any]:
    """What is given one by one or as one sequence."""
    one = len(given) == 1 and isinstance(given[0], list | tuple)
    return given[0] if one else given


def _index(index: Any, size: Any, loc: Location | None) -> Any:
    """Of one place in an axis, from the front."""
    if isinstance(index, Dim):
        return index
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TraceError(f"{loc}: {index!r} is no integer and no slice")
    found = operator.index(index)
    if isinstance(size, int) and not -size <= found < size:
        raise TraceError(f"{loc}: index {found} is outside of an axis of {size}")
    return found + size if found < 0 else found


def _folded(index: Any, size: Any, default: Any) -> Any:
    """From the front, within the axis."""
    if index is None:
        return default
    found = index + size if isinstance(index, int) and index < 0 else index
    return min(max(found, 0), size) if isinstance(found, int) and isinstance(size, int) else found


def location() -> Location | None:
    """The line of source that called into this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    if frame is None:
        return None
    return Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


# ---- functions of the ops ---------------------------------------------------------------------


class Ops:
    """Each op of a table as a function: of tracers it adds a node, of tensors it calls the op."""

    def __init__(self, table: Table | None = None) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            found = _function((self._table or Table.default())[name])
        except TableError as error:
            raise AttributeError(str(error)) from None
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted(self._table.ops if self._table else Table.default().ops)


def _function(row: Row) -> Callable[..., Any]:
    def call(*tensors: Any, **keywords: Any) -> Any:
        tracers = [t for x in (*tensors, *keywords.values()) for t in _tracers(x)]
        if not tracers:
            return row.call(*tensors, **keywords)
        return _traced(row, tracers[0].graph, tensors, keywords)

    call.__name__ = call.__qualname__ = row.name
    call.__doc__ = row.doc
    call.__signature__ = row.signature  # type: ignore[attr-defined]
    return call


def _traced(
    row: Row, graph: Graph, tensors: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:  # fmt: skip
    """As the generic function: one required out as it is, several as a tuple, those that are asked
    for by name too. Tracers of what is updated in place stand for the new state."""
    emitter = Emitter(graph, location())
    for o in row.outs:
        given = keywords.get(o.name)
        if given is not None and not (o.optional and isinstance(given, bool)):
            raise TraceError(f"{emitter.loc}: {row.name}: {o.name} is new in a graph: give none")
    asked = {o.name for o in row.outs if o.optional and keywords.get(o.name)}
    rest = {k: v for k, v in keywords.items() if k not in {o.name for o in row.outs}}
    want = [not o.optional or o.name in asked for o in row.outs] if asked else None
    plain = [_plain(emitter, graph, x) for x in tensors]
    named = {k: _plain(emitter, graph, v) for k, v in rest.items()}
    node = emitter.node(row.name, *plain, want=want, **named)
    bound = row.signature.bind_partial(*tensors, **rest).arguments
    for name, state in node.states.items():
        for tracer, value in zip(_tracers(bound[name]), values_of(state), strict=True):
            tracer.value = value
    found = [Tracer(graph, v) for v in node.outs if v is not None]
    return None if not found else found[0] if len(found) == 1 else tuple(found)


def _tracers(x: Any) -> Iterator[Tracer]:
    if isinstance(x, Tracer):
        yield x
    elif isinstance(x, list | tuple):
        for part in x:
            yield from _tracers(part)


def _number(emitter: Emitter, x: Any) -> Any:
    try:
        return types.python_number(x)
    except ValueError as error:
        raise TraceError(f"{emitter.loc}: {error}") from None


def _plain(emitter: Emitter, graph: Graph, x: Any) -> Any:
    """Values for tracers; numbers, words and sizes as they are."""
    if isinstance(x, Tracer):
        if x.graph is not graph:
            raise TraceError(f"{emitter.loc}: {x!r} is of another graph")
        return x.value
    if isinstance(x, list | tuple):
        return tuple(_plain(emitter, graph, part) for part in x)
    x = _number(emitter, x)
    if x is None or isinstance(x, bool | int | float | str | Dim | Ratio):
        return x
    raise TraceError(
        f"{emitter.loc}: {type(x).__name__} is no tensor of the graph: give it as an argument"
    )
