"""What is launched and what is not: calls whose outs are all empty, on backends that tell of every
launch. The fake backend notes it; the kernel of `fail` answers with an error when it is called."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modules.fake_producer import FakeProducer

pytestmark = pytest.mark.promise("C1")

FORMS = ("typed", "generic", "bound", "run")
EMPTY = [(0,), (0, 3), (3, 0), (2, 0, 5), (1,) * 7 + (0,)]


@pytest.fixture
def noted(zoo: Any) -> Callable[[], list[str]]:
    """The launches and allocations on the fake backend since this was last called."""
    path = importlib.import_module("zoo_ops.twin").__file__ or ""
    log = (ctypes.c_char * (1 << 16)).in_dll(ctypes.CDLL(path), "fake_log")

    def lines() -> list[str]:
        found = log.value.decode().splitlines()
        log.value = b""
        return [line for line in found if line.startswith(("launch", "allocate"))]

    lines()
    return lines


def on_cuda(shape: tuple[int, ...]) -> FakeProducer:
    return FakeProducer(4, shape=shape, device_type=2)


def by(form: str, zoo: Any, op: str, *inputs: Any, out: Any, **options: Any) -> Any:
    """Calls an op with one out in one of the forms."""
    module = getattr(zoo, op)
    if form == "typed":
        return getattr(module, f"{op}_f32")(*inputs, out, **options)
    if form == "generic":
        return module.__dict__[op](*inputs, out=out, **options)
    call = module.bind(*inputs, out, **options)
    return call() if form == "bound" else zoo.run([call])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_an_empty_call_launches_and_allocates_nothing(
    zoo: Any, noted: Callable[[], list[str]], form: str, shape: tuple[int, ...]
) -> None:
    by(form, zoo, "twin", on_cuda(shape), out=on_cuda(shape))
    assert noted() == []
    by(form, zoo, "twin", on_cuda((4,)), out=on_cuda((4,)))
    assert noted() == ["allocate 0 1 16", "launch 0 1"]


def test_a_bound_call_is_empty_as_long_as_its_tensors_are(
    zoo: Any, noted: Callable[[], list[str]]
) -> None:
    call = zoo.twin.bind(on_cuda((0,)), on_cuda((0,)))
    call()
    assert noted() == []
    call.set(x=on_cuda((3,)), out=on_cuda((3,)))
    noted()
    call()
    assert noted() == ["allocate 0 1 12", "launch 0 1"]
    call.set(x=on_cuda((0, 2)), out=on_cuda((0, 2)))
    noted()
    call()
    zoo.run([call, call])
    assert noted() == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["backend", "memory", "internal"])
def test_an_empty_call_reaches_no_kernel_on_the_cpu(zoo: Any, form: str, kind: str) -> None:
    """The kernels fail where they are called, or want more memory than there is."""
    nothing = np.empty((2, 0), "f4")
    by(form, zoo, "fail", nothing, out=np.empty((2, 0), "f4"), kind=kind)
    with pytest.raises((zoo.CudaError, MemoryError, SystemError)):
        by(form, zoo, "fail", np.ones(2, "f4"), out=np.empty(2, "f4"), kind=kind)


def test_what_is_empty_is_checked_all_the_same(zoo: Any, noted: Callable[[], list[str]]) -> None:
    assert zoo.twin.twin_f32(on_cuda((0,)), on_cuda((0, 1))) is False
    with pytest.raises(zoo.Unsupported, match="twin: out"):
        zoo.twin.bind(on_cuda((0, 2)), on_cuda((0, 3)))
    assert zoo.fail.fail_f32(np.empty(0, "f4"), np.empty(0, "f8")) is False
    with pytest.raises(TypeError, match="kind"):
        zoo.fail.fail_f32(np.empty(0, "f4"), np.empty(0, "f4"), kind="none of them")
    assert noted() == []


def test_one_element_among_empty_outs_is_a_launch(zoo: Any) -> None:
    """Lists, and outs that the kernel makes larger than its empty inputs."""
    empty, one = np.empty(0, "f4"), np.ones(1, "f4")
    assert zoo.step.step_f32([empty, one], [empty, one.copy()], None, lr=0.5) is True
    assert one[0] == 0.5
    assert zoo.step.step_f32([empty, empty], [empty, empty], None, lr=0.5) is True
    padded = np.full((2, 3), np.nan, "f4")
    x = np.empty((2, 0), "f4")
    assert zoo.every.every_f32(x, None, padded, None, None, pad=[1, 2], lr=1.0) is True
    assert (padded == 0).all()
