"""Hashes of what something was made from: what was not the same has never the same hash."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import aicf
from aicf import ops, param
from aicf.compiler.fingerprint import NoFingerprint, fingerprint

pytestmark = pytest.mark.promise("AICF-compile-cache")


@functools.cache
def cached() -> int:
    return 1


def held() -> Any:
    return held.by  # type: ignore[attr-defined]


mine: Any = None  # a module


class Own(list[int]):
    by = 1


class Chunk:
    by: Any = 1


@pytest.mark.guests("torch")
def test_frozen_tensors_of_torch(tmp_path: Path) -> None:
    import torch

    def shifted(x: Any, w: Any) -> Any:
        return ops.add(x, ops.scale(w, factor=2.0))

    for value in (1.0, 5.0, 1.0):
        step = aicf.compile(
            shifted, "f32[4]", param("f32[4]"), params={"w": torch.full((4,), value)},
            frozen=True, cache=tmp_path,
        )  # fmt: skip
        assert step(np.ones(4, "f4")).tolist() == [1 + 2 * value] * 4
    assert step.made.is_kept


@pytest.mark.guests("torch")
def test_tensors_of_torch() -> None:
    import torch

    a = torch.arange(4.0)
    others = [
        a + 1, a.double(), a[:3], a.reshape(2, 2), torch.nn.Parameter(a + 1),
        a.bfloat16(),
    ]  # fmt: skip
    found = [fingerprint(x) for x in (a, *others)]
    assert len(set(found)) == len(found)
    assert fingerprint(a.clone()) == fingerprint(a)
    assert fingerprint(torch.arange(8.0)[::2] / 2) == fingerprint(a)
    for none in (torch.empty(4, device="meta"), torch.ones(4, dtype=torch.cfloat).conj().imag):
        with pytest.raises(NoFingerprint):
            fingerprint(none)


@pytest.mark.parametrize("values", [({1}, {2}), (np.ones(1), np.zeros(1)), (Chunk, Own), (0, 1)])
def test_what_a_class_has(values: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for value in values:
        monkeypatch.setattr(Chunk, "by", value)
        found.append(fingerprint(Chunk()))
    assert found[0] != found[1]


def test_what_a_collection_and_a_function_have(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Own([1])
    assert fingerprint(own) != fingerprint([1])
    before = fingerprint(own), fingerprint(held)
    monkeypatch.setattr(Own, "by", 2)
    monkeypatch.setattr(held, "by", 2, raising=False)
    after = fingerprint(own), fingerprint(held)
    assert before[0] != after[0]
    assert before[1] != after[1]
    own.more = 1  # type: ignore[attr-defined]
    assert fingerprint(own) != after[0]


def test_what_is_bound_and_what_is_cached() -> None:
    assert fingerprint([1].append) == fingerprint([1].append) != fingerprint([2].append)
    assert fingerprint(cached) == fingerprint(cached)
    assert fingerprint(len) != fingerprint(max)


def test_what_holds_more_than_it_shows() -> None:
    class Hidden(bytearray):
        pass

    for x in (Hidden(b"1"), np.array([object()]), bytearray(b"1")):
        with pytest.raises(NoFingerprint):
            fingerprint(x)


def uses() -> Any:
    return mine.inner.factor


def test_a_module_that_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ModuleType("aicfs_user")
    mine.inner = ModuleType("aicfs_user.inner")  # type: ignore[attr-defined]
    for module in (mine, mine.inner):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(globals(), "mine", mine)
    found = []
    for factor in (1, 2):
        mine.inner.factor = factor
        found.append(fingerprint(uses))
    assert found[0] != found[1]
    with pytest.raises(NoFingerprint, match="module aicfs_user: what it holds has no hash"):
        fingerprint(mine)


def test_a_function_that_imports_when_it_runs() -> None:
    def of_library() -> Any:
        import colorsys

        return colorsys

    def of_a_user() -> Any:
        return lambda: __import__("x") or imports()

    def imports() -> Any:
        import compiler.records

        return compiler.records

    assert fingerprint(of_library) == fingerprint(of_library)
    with pytest.raises(NoFingerprint, match=r"imports compiler\.records when it runs"):
        fingerprint(of_a_user)
