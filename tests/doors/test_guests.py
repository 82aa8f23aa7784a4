"""docs/guests.md: each cell is what the code says now."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from conftest import guest_version
from doors.guests import DEVICE, DIFFERENCES, HOST, ON_DEVICE, SAME, Guest, Ops
from modules.conftest import ROOT

PAGE = ROOT / "docs" / "guests.md"
Table = dict[str, list[str]]


def tables() -> list[Table]:
    """The tables of the page: the cells behind each line's title, the head's among them."""
    found: list[Table] = []
    for block in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        rows = [[cell.strip() for cell in row[1:-1].split(" | ")] for row in block.splitlines()]
        found.append({row[0]: row[1:] for row in rows if row[0] != "---"})
    return found


def marked(guest: Guest) -> object:
    marks = [pytest.mark.guests(*guest.needs)] if guest.needs else []
    return pytest.param(guest, id=guest.name, marks=[*marks, *[pytest.mark.gpu] * guest.gpu])


@pytest.mark.promise("GUESTS-page")
def test_the_page_has_every_line_and_no_other() -> None:
    host, same, device = tables()
    assert host.pop("") == [g.name for g in HOST]
    assert device.pop("") == [g.name for g in DEVICE]
    assert list(host) == list(DIFFERENCES)
    assert list(same)[1:] == list(SAME)
    assert list(device) == list(ON_DEVICE)


@pytest.mark.promise("GUESTS-page")
@pytest.mark.parametrize("guest", [marked(g) for g in HOST])
def test_what_a_guest_gets(zoo: ModuleType, guest: Guest) -> None:
    ops, (host, same, _) = Ops(zoo), tables()
    column = HOST.index(guest)
    unlike = []
    for title, ask in DIFFERENCES.items():
        if title == "bf16" and not (guest_version("ml_dtypes") and guest_version("torch")):
            continue
        if ask(ops, guest) != host[title][column]:
            unlike.append((title, ask(ops, guest), host[title][column]))
    for title, ask in SAME.items():
        if [ask(ops, guest)] != same[title]:
            unlike.append((title, ask(ops, guest), same[title][0]))
    assert not unlike


@pytest.mark.promise("GUESTS-page")
@pytest.mark.parametrize("guest", [marked(g) for g in DEVICE])
def test_what_a_guest_on_a_device_gets(guest: Guest) -> None:
    """By what is built alone: a machine with a device may have no generator."""
    if guest.name == "numba":
        from gpu.frameworks import numba_cuda

        numba_cuda()
    ops, (_, _, device) = Ops(), tables()
    column = DEVICE.index(guest)
    said = {title: DIFFERENCES[title](ops, guest) for title in ON_DEVICE}
    assert said == {title: cells[column] for title, cells in device.items() if title}
