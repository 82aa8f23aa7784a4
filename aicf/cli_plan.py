"""The command `plan`: a file of buffers is packed into one arena, or a plan in it is checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from aicf.compiler.runtime.plan import csv
from aicf.compiler.runtime.plan.check import check, check_offsets
from aicf.compiler.runtime.plan.pack import THOROUGH, given, pack
from aicf.compiler.runtime.plan.problem import Plan, PlanError


@click.command(epilog="FILE has the columns id, lower, upper, size, and offset where it is a plan.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--capacity", type=click.IntRange(0), help="Bytes that there are.")
@click.option(
    "--align", default=1, show_default=True, type=click.IntRange(1), help="Of each offset."
)
@click.option("--seed", default=0, show_default=True, help="Of the search; one gives one plan.")
@click.option(
    "--effort", default=THOROUGH, show_default=True, type=click.IntRange(0),
    help="Buffers that the search may place.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write the plan to it."
)
@click.option("--json", "as_json", is_flag=True, help="For programs, on stdout.")
def plan(
    file: Path, capacity: int | None, align: int, seed: int, effort: int, output: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Pack the buffers of FILE into one arena, and say how far that is from the least possible.

    Each lives from `lower` until before `upper`. The plan is checked by other means than it was
    made. With a column `offset` FILE is a plan, which is checked and not made. Ends with 1 where
    the plan is wrong or needs more than the capacity."""
    try:
        buffers, offsets = csv.read(file)
        if offsets is None:
            found = pack(buffers, align=align, effort=effort, seed=seed)
        else:
            check_offsets(buffers, offsets, align=align)
            found = given(buffers, offsets, align)
        check(found)
    except (PlanError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if output:
        atomic = output != "-" and (Path(output).is_file() or not Path(output).exists())
        with click.open_file(output, "w", encoding="utf-8", atomic=atomic) as out:
            out.write(csv.write(found))
    fits = capacity is None or found.peak <= capacity
    if as_json:
        click.echo(json.dumps({**found.as_dict(), "capacity": capacity, "fits": fits}, indent=1))
    elif output != "-":
        _print(found, capacity)
    if not fits:
        sys.exit(1)


def _print(found: Plan, capacity: int | None) -> None:
    click.echo(f"{found}\nby: {found.by}, {found.seconds:.2f} s")
    if capacity is None:
        return
    if found.peak <= capacity:
        click.echo(f"capacity: {capacity}, {capacity - found.peak} to spare")
        return
    least = "as does every plan" if found.bound > capacity else "where a plan of less may exist"
    click.echo(f"capacity: {capacity}, which is {found.peak - capacity} too few, {least}")
    click.echo(f"most is live at {found.bound_at}:\n{found.largest()}")
