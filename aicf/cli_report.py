"""`report`: runs a program of somebody's, and makes a page of what it compiled."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument(
    "file", metavar="FILE.py", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENT]...")
@click.option(
    "-o",
    "--output",
    default="report.html",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page that is written.",
)
@click.option("--name", help="Of the graph named so alone.")
def report(file: Path, arguments: Sequence[str], output: Path, name: str | None) -> None:
    """Run FILE.py, and write a page about all that it compiles.

    The page says what each pass did, which kernels run and why, where memory lies, and how long
    each op takes on what FILE.py ran last. It is one file that needs nothing else."""
    from aicf.compiler.compile import collecting
    from aicf.compiler.report import Report

    with collecting() as compiled:
        status = _run(file, arguments)
    found = [e for e in compiled if name in (None, e.graph.name)]
    if not found:
        if status:
            sys.exit(status)
        known = ", ".join(dict.fromkeys(e.graph.name for e in compiled))
        told = f"no graph {name!r}; there are {known}" if known else "nothing: call aicf.compile"
        raise click.ClickException(f"{file} compiles {told}")
    try:
        page = Report.join([Report.of(executable) for executable in found]).html()
        output.write_text(page, encoding="utf-8")
    except (OSError, ImportError) as error:
        raise click.ClickException(str(error)) from error
    names = ", ".join(e.graph.name for e in found)
    click.echo(f"{output}: {names}, {len(page.encode()):,} bytes", err=True)
    sys.exit(status)


def _run(file: Path, arguments: Sequence[str]) -> int:
    """As `python FILE.py` would; its status. What it raises is shown without our frames."""
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(file), *arguments], str(file.resolve().parent)
    try:
        runpy.run_path(str(file), run_name="__main__")
    except SystemExit as error:
        return _status(error.code)
    except Exception as error:  # of the program, whatever it is
        inner = error.__traceback__
        while inner is not None and inner.tb_frame.f_code.co_filename != str(file):
            inner = inner.tb_next
        traceback.print_exception(type(error), error, inner)
        return 1
    finally:
        sys.argv, sys.path[0] = before
    return 0


def _status(code: Any) -> int:
    """Of what `sys.exit` was given."""
    if code is None or isinstance(code, int):
        return code or 0
    click.echo(code, err=True)
    return 1
