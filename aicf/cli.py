"""The command line: `tune` measures kernels, `cache` shows and moves what was found."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from aicf.backend.base import AicfBackend
from aicf.backend.dispatcher import Dispatcher
from aicf.cli_plan import plan
from aicf.cli_report import report
from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph
from aicf.compiler.kernels.record import Record
from aicf.compiler.kernels.registry import Candidates, NoKernel
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.selector import Selector
from aicf.compiler.kernels.store import FILE, Store, StoreWarning, default_path
from aicf.compiler.kernels.tune import Result, Status, Tuner, requests_of
from aicf.compiler.passes import layout
from aicf.table import Table, TableError

_CALL = "A call is written as 'gemm(f32[64, 64], f32[64, 32], act=relu)'."

_cache_option = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the choices; else AICF_CACHE, else ~/.cache/aicf.",
)
_backend_option = click.option(
    "--backend", default="cpu", show_default=True, help="Whose kernels: cpu, cuda."
)
_package_option = click.option(
    "--package", default="aicf_cuda", show_default=True, help="The package of the table."
)
_json_option = click.option("--json", "as_json", is_flag=True, help="For programs, on stdout.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Which kernels the ops run: measure them, and see what was found."""


main.add_command(plan)
main.add_command(report)


# ---- tune ----------------------------------------------------------------------------------------


@main.command(epilog=_CALL)
@click.argument("calls", nargs=-1, metavar="[CALL]...")
@click.option(
    "--graph",
    "graphs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A graph's text: each of its ops. May be repeated.",
)
@click.option("--size", "sizes", multiple=True, metavar="N=32", help="A symbol of the graphs.")
@click.option(
    "--budget", default=60.0, show_default=True, type=click.FloatRange(0), help="Seconds in all."
)
@click.option("--force", is_flag=True, help="Measure again what is stored.")
@click.option(
    "--layouts", is_flag=True, help="Of graphs: also as NCHW and as NHWC, and what turns them."
)
@_backend_option
@_package_option
@_cache_option
@_json_option
def tune(
    calls: Sequence[str],
    graphs: Sequence[Path],
    sizes: Sequence[str],
    budget: float,
    force: bool,
    layouts: bool,
    backend: str,
    package: str,
    cache: Path | None,
    as_json: bool,
) -> None:
    """Measure the kernels that CALLs and graphs may run, and store the fastest of each.

    Ends with 1 where a call is refused or no kernel of it is right. What is measured is stored at
    once: an interrupted run goes on where it was."""
    with _errors():
        table = Table.of(package)
        known = _sizes(sizes)
        requests = [Request.parse(table, call) for call in calls]
        bound = [_bound(table, path, known) for path in graphs]
        requests += [request for graph in bound for request in requests_of(graph)]
        if not requests:
            raise click.UsageError("nothing to tune: give a CALL or --graph FILE")
        with _store(cache) as store:
            runs = _backend(table, backend)
            tuner = Tuner(runs, store, budget=budget, force=force, single=layouts)
            for graph in bound if layouts else ():
                requests += layout.requests_of(graph.place(runs.device))
            each = dict.fromkeys(request.on(runs.device) for request in requests)
            results = list(_with_progress(tuner, list(each)))
            _print_results(results, store, as_json)
    if any(r.status in (Status.REFUSED, Status.WRONG) for r in results):
        sys.exit(1)


def _with_progress(tuner: Tuner, requests: Sequence[Request]) -> Iterator[Result]:
    """With a bar and the time that is left on stderr, where that is a terminal."""
    with click.progressbar(
        requests,
        label="tune",
        show_pos=True,
        show_eta=True,
        item_show_func=lambda request: str(request) if request else "",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        for request in bar:
            yield tuner.tune(request)


def _print_results(results: Sequence[Result], store: Store, as_json: bool) -> None:
    if as_json:
        _print_json({"store": _path_of(store), "results": [r.as_dict() for r in results]})
        return
    for r in results:
        times = ", ".join(f"{name} {us:.4g} us" if us else name for name, us in r.ranking)
        told = "; ".join(filter(None, (times, r.note)))
        click.echo(f"{r.status.value:<8} {r.request}: {told}" if told else f"{r.request}")
        for name, why in r.wrong.items():
            click.echo(f"         {name} is out: {why}")
    counts = {s: sum(r.status is s for r in results) for s in Status}
    told = ", ".join(f"{n} {s.value}" for s, n in counts.items() if n)
    click.echo(f"{told}; choices are in {_path_of(store)}")


def _bound(table: Table, path: Path, sizes: dict[str, int]) -> Graph:
    try:
        graph = Graph.parse(path.read_text(encoding="utf-8"), table)
        known = {name: size for name, size in sizes.items() if name in graph.symbols}
        missing = [name for name in graph.symbols if name not in known]
        if missing:
            raise click.UsageError(f"{path}: its sizes {', '.join(missing)} need --size NAME=...")
        return graph.bind(known)
    except (IRError, ValueError) as error:
        raise click.ClickException(f"{path}: {error}") from error


def _sizes(texts: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not value.strip().isdecimal():
            raise click.UsageError(f"--size {text}: it is written as N=32")
        found[name.strip()] = int(value)
    return found


# ---- cache ---------------------------------------------------------------------------------------


@main.group()
def cache() -> None:
    """The choices and verdicts that are stored."""


@cache.command("list")
@click.option("--op", help="Of this op alone.")
@_cache_option
@_json_option
def list_choices(op: str | None, cache: Path | None, as_json: bool) -> None:
    """Show the choices, by op, and the verdicts on rules, the newest first."""
    with _errors(), _store(cache) as store:
        records = store.of_op(op) if op else store.all()
        verdicts = [] if op else store.verdicts.all()
        if as_json:
            _print_json([r.portable() for r in records] + [v.portable() for v in verdicts])
            return
        for line in (*map(_line, records), *map(str, verdicts)):
            click.echo(line)
        broken = store.broken() + store.verdicts.broken()
        told = f"{len(records)} choices" + (f", {len(verdicts)} verdicts" if verdicts else "")
        told += f", {broken} broken rows, which count as not there" if broken else ""
        click.echo(f"{told} in {_path_of(store)}", err=True)


@cache.command(epilog=_CALL)
@click.argument("call")
@_backend_option
@_package_option
@_cache_option
@_json_option
def why(call: str, backend: str, package: str, cache: Path | None, as_json: bool) -> None:
    """Say which kernel CALL runs, why, and why not the others."""
    with _errors(), _store(cache) as store:
        table = Table.of(package)
        runs = _backend(table, backend)
        request = Request.parse(table, call).on(runs.device)
        selector = Selector(runs.info, store)
        found = Candidates(request)
        chosen = selector.choose(request)
        if as_json:
            _print_json(
                {
                    "request": str(request),
                    "kernel": chosen.kernel,
                    "how": chosen.how,
                    "why": chosen.why,
                    "expected_us": chosen.expected,
                    "candidates": [
                        {"kernel": c.kernel, "legal": c.legal, "reason": c.reason} for c in found
                    ],
                }
            )
            return
        click.echo(f"{request}: {chosen.kernel}, {chosen.why}")
        for c in found:
            click.echo(f"  {c.kernel}: {'legal' if c.legal else c.reason}")


@cache.command("export")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), default="-")
@_cache_option
def export_choices(file: str, cache: Path | None) -> None:
    """Write all choices as JSON to FILE, or to stdout."""
    with _errors(), _store(cache) as store:
        # as a whole or not at all; a device or a pipe is written to and not replaced
        atomic = file != "-" and (Path(file).is_file() or not Path(file).exists())
        with click.open_file(file, "w", encoding="utf-8", atomic=atomic) as out:
            out.write(store.export())


@cache.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@_cache_option
def import_choices(file: Any, cache: Path | None) -> None:
    """Take in what `export` wrote, from FILE or with - from stdin; what is newer here stays."""
    with _errors(), _store(cache) as store:
        count = store.load(file.read(), file.name)
        click.echo(f"{count} choices taken into {_path_of(store)}", err=True)


# ---- what all share ------------------------------------------------------------------------------


@contextmanager
def _errors() -> Iterator[None]:
    """What is wrong with the arguments or the machine, in a line; a StoreWarning as one too."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        click.echo(f"warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", StoreWarning)
        warnings.showwarning = show
        try:
            yield
        except (click.ClickException, BrokenPipeError):  # who reads no more needs no word
            raise
        except (TableError, NoKernel) as error:
            raise click.ClickException(str(error.args[0])) from error
        except (ValueError, TypeError, LookupError, RuntimeError, OSError, ImportError) as error:
            raise click.ClickException(str(error)) from error


def _store(folder: Path | None) -> Store:
    return Store(folder / FILE if folder else default_path())


def _path_of(store: Store) -> str:
    return str(store.path) if store.path else "the memory of this process"


def _backend(table: Table, name: str) -> AicfBackend:
    return Dispatcher(table).get(name)


def _line(r: Record) -> str:
    s = r.subject
    times = ", ".join(f"{name} {us:.4g} us" for name, us in r.ranking)
    options = f", {s.attributes}" if s.attributes else ""
    return f"{s.op} {s.dtypes} {s.sizes}{options} on {r.soft.device}: {times}"


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=1))
