"""Every bad call through every door: one verdict, one message."""

from __future__ import annotations

import importlib
import re
from types import ModuleType

import numpy as np
import pytest

from doors import of_jax, of_torch
from doors.cases import CASES, ELSEWHERE, Case
from doors.doors import (
    CORE,
    Door,
    agree,
    expected,
    module_of,
)
from modules.conftest import ROOT


def needs(case: Case, guest: str) -> bool:
    return any(getattr(a, "of", None) == guest for a in case.args)


def check(zoo: ModuleType, doors: list[Door], case: Case) -> None:
    module = module_of(zoo, case)
    faults = []
    for door in doors:
        if not door.takes(case):
            continue
        said, wanted = door.ask(module, case), expected(case, door)
        if not agree(said, wanted):
            faults.append(f"{door.name}:\n    {said}\n    {wanted}")
    assert not faults, "\n".join(["", *faults])


@pytest.mark.promise("DOORS-same", "FAULT-15", "FAULT-16")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_one_verdict_through_every_door(zoo: ModuleType, case: Case) -> None:
    if needs(case, "torch"):
        pytest.importorskip("torch")
    check(zoo, CORE, case)


@pytest.mark.promise("DOORS-same")
@pytest.mark.guests("jax")
@pytest.mark.parametrize("case", [c for c in CASES if of_jax.takes(c)], ids=lambda case: case.id)
def test_the_same_through_jax(zoo: ModuleType, case: Case) -> None:
    check(zoo, of_jax.DOORS, case)


@pytest.mark.promise("DOORS-same")
@pytest.mark.guests("jax")
def test_numbers_of_numpy_in_jax(zoo: ModuleType) -> None:
    """As in the generic form."""
    jax = importlib.import_module("jax")
    ops, x = importlib.import_module("aicf_cuda.jax"), np.ones((2, 3), "f4")
    for factor in (2, np.int8(2), np.float64(2), np.array(2), np.array(2.0), np.array(2, "f4")):
        for scale in (ops.scale, jax.jit(lambda x: ops.scale(x, factor=factor))):
            made = scale(x) if scale is not ops.scale else scale(x, factor=factor)
            assert np.asarray(made).tolist() == [[2.0] * 3] * 2
    made = ops.sum(x, axes=(np.int8(0), np.array(1)), keepdim=np.True_)
    assert made.shape == (1, 1)


@pytest.mark.promise("DOORS-same")
@pytest.mark.guests("torch")
@pytest.mark.parametrize(
    "case", [c for c in CASES if any(d.takes(c) for d in of_torch.DOORS)], ids=lambda c: c.id
)
def test_the_same_through_torch(zoo: ModuleType, case: Case) -> None:
    check(zoo, of_torch.DOORS, case)


@pytest.mark.promise("DOORS-same")
def test_what_torch_answers_first_is_what_is_listed() -> None:
    """Each entry is of a case that goes through torch's doors, and docs/torch.md has its words."""
    met = {case.says for case in CASES if any(d.takes(case) for d in of_torch.DOORS)}
    assert of_torch.FIRST.keys() | of_torch.TAKEN.keys() <= met
    page = (ROOT / "docs" / "torch.md").read_text(encoding="utf-8")
    assert all(words in page for words in [*of_torch.FIRST.values(), *of_torch.TAKEN.values()])


@pytest.mark.promise("DOORS-same")
def test_what_jax_answers_first_is_what_is_listed() -> None:
    """Each entry is of a case that goes through jax's doors."""
    assert of_jax.FIRST.keys() <= {case.says for case in CASES if of_jax.takes(case)}


@pytest.mark.promise("DOORS-same")
def test_every_check_has_a_case() -> None:
    header = (ROOT / "include/aicf/status.h").read_text()
    known = set(re.findall(r"\bAICF_CHECK_(\w+)", header)) - {"NONE"}
    met = {case.what for case in CASES if not case.misuse}
    assert met.isdisjoint(ELSEWHERE)
    assert met | ELSEWHERE.keys() == known
