"""`aicf.compile`: a function or a graph, passes, choices of kernels; and what runs them.

    step = aicf.compile(graph, backend="cuda", params={"w": w, "b": b}, sizes={"N": 32})
    loss = step(x, y, lr=0.1)

What passes and the selector gave is kept on disk by a hash of all that it was made from: the
graph's text, sizes, table, kernels, passes, constants, device and this compiler.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aicf.backend.base import AicfBackend
from aicf.compiler.compiled import Cache, Entry
from aicf.compiler.executable import Executable, Made, choice_of
from aicf.compiler.fingerprint import NoFingerprint, fingerprint, sources
from aicf.compiler.ir import packed
from aicf.compiler.ir.errors import IRError, Rule
from aicf.compiler.ir.graph import Graph
from aicf.compiler.keeping import Packed, pack_records
from aicf.compiler.kernels import files
from aicf.compiler.kernels.database import default_folder
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.selector import Selector, module_digest
from aicf.compiler.kernels.store import FILE, Store
from aicf.compiler.runtime.executor import check_kinds
from aicf.compiler.runtime.memory import written_entries

_collector: ContextVar[list[Executable] | None] = ContextVar("aicf compiled", default=None)


def compile(
    what: Callable[..., Any] | Graph | Any, *arguments: Any, backend: str | AicfBackend = "cpu",
    params: Mapping[str, Any] | None = None, constants: Mapping[str, Any] | None = None,
    frozen: bool | Collection[str] = (), symbols: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None, passes: Any = None, selector: Selector | None = None,
    cache: bool | str | Path = True, **options: Any,
) -> Executable:  # fmt: skip
    """What runs a graph, or a function that is traced with `arguments` and `symbols`.

    `sizes` has values of the graph's symbols: for them kernels are chosen now, else at the first
    run of a shape, as memory is planned. `frozen` names params that nobody changes from now on
    (True: all that no node updates), so that passes may compute with them. `passes`: a Pipeline, or
    a sequence of passes and rules; None: the standard ones; () none. `selector`: None chooses by
    what is stored, else by a score. `cache`: a folder, else AICF_CACHE or ~/.cache/aicf; False:
    nothing is read or kept. `options` are those of ExecutorV2. Raises TraceError, IRError,
    TypeError."""
    start, folder = time.perf_counter(), _folder(cache)
    source = _graph_of(what, arguments, symbols)
    runs = _backend(backend, source)
    check_kinds(source, runs, params, constants, options.get("kept", 1), selector)
    if selector is not None and not isinstance(selector, Selector):
        raise TypeError(f"selector must be a Selector, not {selector!r}")
    asked = _Asked(
        source, runs, _sizes(source, sizes or {}),
        _frozen(source, frozen, params or {}), _constants(source, constants or {}),
        _passes(passes), selector or Selector(runs.info, _store(cache)),
    )  # fmt: skip
    made = _made(asked, None) if cache is False else _made_or_kept(asked, folder)
    found = Executable(made, runs, params=params, constants=constants, **options)
    made.seconds["all"] = time.perf_counter() - start
    collected = _collector.get()
    if collected is not None:
        collected.append(found)
    return found


@contextmanager
def collecting() -> Iterator[list[Executable]]:
    """What is compiled inside, in order."""
    found: list[Executable] = []
    token = _collector.set(found)
    try:
        yield found
    finally:
        _collector.reset(token)


# ---- what is given -------------------------------------------------------------------------------


def _graph_of(what: Any, arguments: Sequence[Any], symbols: Mapping[str, Any] | None) -> Graph:
    graph = getattr(what, "graph", what)  # of a training step
    if isinstance(graph, Graph):
        if arguments or symbols:
            raise TypeError("types of arguments and symbols are of a function, not of a graph")
        return graph
    if not callable(what):
        raise TypeError(f"a function or a graph is compiled, not {type(what).__name__}")
    from aicf.compiler.ir.trace import trace

    return trace(what, *arguments, symbols=symbols)


def _backend(backend: str | AicfBackend, graph: Graph) -> AicfBackend:
    if not isinstance(backend, str):
        return backend
    from aicf.backend import backends
    from aicf.backend.dispatcher import Dispatcher
    from aicf.table import Table

    of_default = graph.table is Table.default()
    found: AicfBackend = (backends if of_default else Dispatcher(graph.table)).get(backend)
    return found


def _sizes(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(sizes, Mapping):
        raise TypeError(f"sizes must be a mapping of symbols to numbers, not {sizes!r}")
    missing = [name for name in graph.symbols if name not in sizes]
    if sizes and missing:
        message = f"sizes has {', '.join(map(str, sizes))} and not {', '.join(missing)}"
        raise IRError(Rule.SYMBOL, message)
    for name in sizes:
        if name not in graph.symbols:
            known = ", ".join(graph.symbols) or "none"
            raise IRError(Rule.SYMBOL, f"{graph.name} has no symbol {name}; there are {known}")
        if isinstance(sizes[name], bool) or not isinstance(sizes[name], int):
            raise TypeError(f"sizes: {name} is a whole number, not {sizes[name]!r}")
    return dict(sizes)


def _frozen(
    graph: Graph, frozen: bool | Collection[str], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Data by name."""
    updated = set(written_entries(graph))
    if isinstance(frozen, bool):
        names = [v.name for v in graph.params if v not in updated and v.name in params]
        return {name: params[name] for name in names} if frozen else {}
    if not isinstance(frozen, Collection):
        raise TypeError(f"frozen must be True, or names of params, not {frozen!r}")
    found: dict[str, Any] = {}
    for name in [frozen] if isinstance(frozen, str) else frozen:
        value = next((v for v in graph.params if v.name == name), None)
        if value is None or value in updated:
            why = "is updated by the graph" if value else f"is no param of {graph.name}"
            raise ValueError(f"{name} cannot be frozen: it {why}")
        if name not in params:
            raise ValueError(f"{name} cannot be frozen: it is not among params=")
        found[name] = params[name]
    return found


def _constants(graph: Graph, data: Mapping[str, Any]) -> dict[str, Any]:
    """Data by name. Passes compute with it, as with that of frozen params: a name is of one."""
    known = [v.name for v, fill in graph.constants.items() if fill is None]
    for name in data:
        if name not in known:
            raise KeyError(
                f"no constant {name} that has data; there are {', '.join(known) or 'none'}"
            )
    return dict(data)


def _store(cache: bool | str | Path) -> Store | None:
    folder = _folder(cache)
    return None if cache is False else Store(folder and folder / FILE)


def _passes(passes: Any) -> Any:
    """A Pipeline, or a tuple of passes."""
    from aicf.compiler.passes.pipeline import Pipeline, standard

    if passes is None:
        return standard()
    if isinstance(passes, Pipeline):
        return passes
    return tuple(passes) if isinstance(passes, Sequence) else (passes,)  # one alone


def _folder(cache: bool | str | Path) -> Path | None:
    """None: the user's own."""
    if isinstance(cache, bool):
        return None
    if not isinstance(cache, str | Path):
        raise TypeError(f"cache is a folder, True or False, not {cache!r}")
    return Path(cache)


# ---- what is made --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Asked:
    """All that what is made depends on."""

    source: Graph
    backend: AicfBackend
    sizes: dict[str, int]
    frozen: dict[str, Any]
    constants: dict[str, Any]
    passes: Any
    selector: Selector

    def chooser(self) -> list[Any]:
        """Of the selector, with all choices that it may know: passes ask it too."""
        s = self.selector
        return [type(s), s.frozen, s.deterministic, s.store.state() if s.store else ""]

    def key(self) -> str | None:
        """None where nothing may be kept: something of it has no hash."""
        source, info = self.source, self.backend.info
        try:
            return fingerprint(
                source.text(), source.table.package, source.table.hash,
                [self.backend.name, self.backend.device, info.kind, info.arch, info.name],
                sorted(self.sizes.items()), self.frozen, self.constants, _identity(self.passes),
                self.chooser(), _digests(source), sources(),
            )  # fmt: skip
        except NoFingerprint:
            return None


def _identity(passes: Any) -> Any:
    """Of a Pipeline, what its result depends on: not where it keeps verdicts."""
    from aicf.compiler.passes.pipeline import Pipeline

    if not isinstance(passes, Pipeline):
        return passes
    return [type(passes), passes.passes, passes.verify, passes.trial, passes.budget]


def _made_or_kept(asked: _Asked, folder: Path | None) -> Made:
    folder = folder if folder is not None else default_folder()
    files.recall(folder)
    with Cache(folder) as cache:
        made = _made(asked, cache)
    files.keep(folder)
    return made


def _made(asked: _Asked, cache: Cache | None) -> Made:
    key = asked.key() if cache else None
    entry = cache.get(key) if cache and key else None
    made = _restored(entry, asked) if entry else None
    if made is None:
        entry, made = None, _optimised(asked)
    if not made.chosen and (asked.sizes or not made.graph.symbols):
        began = time.perf_counter()
        made.chosen = choose_all(made.bound(), asked.selector)
        made.seconds["choices"] = time.perf_counter() - began
        entry = None
    if cache and key and entry is None:
        cache.put(key, _entry(made))
    return made


def _optimised(asked: _Asked) -> Made:
    placed = asked.source.place(asked.backend.device)
    began = time.perf_counter()
    made = Made(asked.source, placed, asked.sizes, asked.selector, frozenset(asked.frozen))
    if asked.passes != ():
        from aicf.compiler.passes.pipeline import Pipeline
        from aicf.compiler.passes.rule import Context

        pipeline = asked.passes if isinstance(asked.passes, Pipeline) else Pipeline(asked.passes)
        data = {**asked.frozen, **asked.constants}
        options = {"sizes": asked.sizes, "selector": asked.selector}
        context = Context(asked.backend, data, made.frozen, options=options)
        found = pipeline.run(placed, context)
        made.graph, made.records, made.data = found.graph, found.records, dict(found.data)
    made.seconds["passes"] = time.perf_counter() - began
    return made


def choose_all(graph: Graph, selector: Selector) -> dict[str, str]:
    """The kernel of each call of a graph without symbols, by the call; "" where none serves it."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        if not node.is_view:
            request = Request.of_node(graph.table, node)
            choice = choice_of(selector, request)
            found[str(request)] = choice.kernel if choice else ""
    return found


# ---- what is kept --------------------------------------------------------------------------------


def _digests(graph: Graph) -> dict[str, str]:
    ops = sorted({n.op for n in graph.nodes if not n.is_view})
    return {op: module_digest(graph.table[op]) for op in ops}


def _entry(made: Made) -> Entry:
    records = pack_records(made.records)
    digests = _digests(made.graph)
    bound = packed.pack(made.bound()) if made.sizes else ""
    return Entry(packed.pack(made.graph), digests, made.chosen, bound, records, made.data)


def _restored(entry: Entry, asked: _Asked) -> Made | None:
    """None where it is not what this process would make: as if it were not there."""
    graph = packed.unpack(entry.graph, asked.source.table)
    try:
        if graph is None or _digests(graph) != entry.ops:
            return None
    except LookupError:  # of an op that the table does not have
        return None
    made = Made(asked.source, graph, asked.sizes, asked.selector, frozenset(asked.frozen))
    made.packed = entry.bound
    made.records, made.data = Packed(entry.records), dict(entry.data)
    made.chosen = dict(entry.choices)
    made.is_kept = True
    return made
