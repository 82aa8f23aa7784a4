"""Problems and plans as files: a line a buffer, as MiniMalloc writes them.

    id,lower,upper,size          or with a column `offset`, which makes it a plan

Columns may stand in any order.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from aicf.compiler.runtime.plan.problem import Buffer, Plan, PlanError

COLUMNS = ("id", "lower", "upper", "size")
OFFSET = "offset"
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def read(path: Path) -> tuple[list[Buffer], dict[str, int] | None]:
    """The buffers of a file, and the offsets where it has them. Raises PlanError with the line and
    the column of what is wrong."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}: byte {error.start} is not UTF-8") from None
    return parse(text, str(path))


def parse(text: str, name: str = "the text") -> tuple[list[Buffer], dict[str, int] | None]:
    """The same of what a file holds."""
    rows = csv.reader(io.StringIO(text), strict=True)
    columns: list[str] | None = None
    buffers: list[Buffer] = []
    offsets: dict[str, int] = {}
    lines: dict[str, int] = {}
    try:
        for row in rows:
            place = f"{name}:{rows.line_num}"
            if not any(map(str.strip, row)):
                continue
            if columns is None:
                columns = _columns(row, place)
                continue
            buffer, offset = _buffer(columns, row, place)
            if buffer.id in lines:
                raise PlanError(
                    f"{place}: id: {buffer.id} stands at line {lines[buffer.id]} before"
                )
            lines[buffer.id] = rows.line_num
            buffers.append(buffer)
            if offset is not None:
                offsets[buffer.id] = offset
    except csv.Error as error:
        raise PlanError(f"{name}:{rows.line_num}: {error}") from None
    if columns is None:
        raise PlanError(f"{name}:1: the first line must name the columns {', '.join(COLUMNS)}")
    return buffers, offsets if OFFSET in columns else None


def _columns(row: Sequence[str], place: str) -> list[str]:
    columns = [word.strip() for word in row]
    for word in columns:
        if word not in (*COLUMNS, OFFSET):
            raise PlanError(
                f"{place}: {word!r} is no column; they are {', '.join(COLUMNS)} and, of a plan, "
                f"{OFFSET}"
            )
        if columns.count(word) > 1:
            raise PlanError(f"{place}: column {word} stands there twice")
    for word in COLUMNS:
        if word not in columns:
            raise PlanError(f"{place}: column {word} is missing")
    return columns


def _buffer(columns: Sequence[str], row: Sequence[str], place: str) -> tuple[Buffer, int | None]:
    if len(row) != len(columns):
        beyond = columns[len(row)] if len(row) < len(columns) else "more"
        raise PlanError(f"{place}: {beyond}: {len(row)} fields, of {len(columns)} columns")
    fields = dict(zip(columns, map(str.strip, row), strict=True))
    if not fields["id"]:
        raise PlanError(f"{place}: id: it is empty")
    numbers = {word: _number(fields, word, place) for word in columns if word != "id"}
    if numbers["size"] < 0:
        raise PlanError(f"{place}: size: {numbers['size']} is below 0")
    if numbers["upper"] <= numbers["lower"]:
        raise PlanError(
            f"{place}: upper: {numbers['upper']} is not behind lower, {numbers['lower']}"
        )
    if numbers.get(OFFSET, 0) < 0:
        raise PlanError(f"{place}: {OFFSET}: {numbers[OFFSET]} is below 0")
    made = Buffer(fields["id"], numbers["lower"], numbers["upper"], numbers["size"])
    return made, numbers.get(OFFSET)


def _number(fields: Mapping[str, str], column: str, place: str) -> int:
    if not _NUMBER.fullmatch(fields[column]):
        shown = fields[column] if len(fields[column]) <= 40 else f"{fields[column][:37]}..."
        raise PlanError(f"{place}: {column}: {shown!r} is no whole number below 10^18")
    return int(fields[column])


def write(plan: Plan) -> str:
    """The plan, which `parse` reads."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow((*COLUMNS, OFFSET))
    rows.writerows((b.id, b.lower, b.upper, b.size, plan.offsets[b.id]) for b in plan.buffers)
    return out.getvalue()
