"""The workspace that a bound call is given: what it must be, who keeps it, and that a launch then
takes no memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from modules.fake_backend import Fake, on_cuda
from modules.fake_producer import READ_ONLY


class Owned(np.ndarray):
    """Can be referred to weakly."""


def room(rt: Any, size: int = 64) -> Any:
    return np.asarray(rt.empty((size,), "u8"))


@pytest.fixture
def nap(zoo: Any) -> Any:
    x, out = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    return zoo.nap.bind(x, out)


@pytest.mark.promise("DESIGN-5-workspace")
def test_the_kernel_works_in_it(zoo: Any, rt: Any, nap: Any, add: Any) -> None:
    assert (nap.workspace_size, nap.workspace) == (16, None)
    given = room(rt)
    given[...] = 0xAA
    nap.set(workspace=given)
    assert nap.workspace is given
    nap()
    assert np.array_equal(given[:16].view("f4"), np.arange(4, dtype="f4"))
    assert (given[16:] == 0xAA).all()  # of what is larger, the first bytes alone
    given[...] = 0xAA
    rt.run([nap, nap])
    assert np.array_equal(given[:16].view("f4"), np.arange(4, dtype="f4"))
    assert np.array_equal(nap.tensors["out"], np.arange(4, dtype="f4"))
    given[...] = 0xAA
    nap.set(workspace=None)
    nap()
    assert (given == 0xAA).all()
    assert nap.workspace is None
    x = np.ones(4, "f4")
    assert add.bind(x, x, x).workspace_size == 0
    call = zoo.nap.bind(x, np.zeros(4, "f4"), workspace=given)
    call()
    assert (given[:16].view("f4") == 1).all()
    assert call.workspace is given


@pytest.mark.promise("DESIGN-5-workspace")
def test_what_it_must_be(zoo: Any, rt: Any, nap: Any, unsupported: type[Exception]) -> None:
    read_only = room(rt)
    read_only.flags.writeable = False
    for given, words in [
        (room(rt, 15), "kernel loop needs 16 bytes, it has 15"),
        (room(rt)[1:], "its address is no multiple of 64"),
        (room(rt, 128)[::2], "it has gaps"),
        (read_only, "it is read-only"),
        (on_cuda(), "it lies on device 0 of type 2"),
    ]:
        with pytest.raises(unsupported, match=f"nap: workspace: {words}") as caught:
            nap.set(workspace=given)
        assert (caught.value.op, caught.value.arg) == ("nap", "workspace")  # type: ignore[attr-defined]
        assert nap.workspace is None
        nap()
    whole = np.asarray(rt.empty((64,), "f32"))
    for name, x, out in [("x", whole[:4], whole[60:]), ("out", np.ones(4, "f4"), whole[12:16])]:
        with pytest.raises(unsupported, match=f"nap: workspace: it shares memory with {name}"):
            zoo.nap.bind(x, out, workspace=whole[:16])
    with pytest.raises(TypeError, match="bind"):
        nap.set(workspace=3)


@pytest.mark.promise("DESIGN-5-workspace")
def test_it_is_an_option_of_bound_calls_alone(zoo: Any, add: Any, rt: Any) -> None:
    x = np.ones(4, "f4")
    for call in (
        lambda: zoo.nap.nap(x, workspace=room(rt)),
        lambda: zoo.nap.nap_f32(x, x.copy(), workspace=room(rt)),
        lambda: zoo.nap.explain(x, workspace=room(rt)),
        lambda: zoo.nap.infer(x, workspace=room(rt)),
    ):
        with pytest.raises(TypeError, match="nap has no argument 'workspace'"):
            call()
    with pytest.raises(TypeError, match="is it 'workspace'"):
        add.bind(x, x, x, workspaces=room(rt))
    unused = add.bind(x, x, np.empty(4, "f4"), workspace=np.empty(1, "u1"))  # it needs none
    unused()


@pytest.mark.promise("DESIGN-5-workspace")
def test_a_set_that_needs_more_is_refused(nap: Any, rt: Any, unsupported: type[Exception]) -> None:
    given = room(rt, 16)
    nap.set(workspace=given)
    wide = np.ones(8, "f4")
    with pytest.raises(unsupported, match="kernel loop needs 32 bytes, it has 16"):
        nap.set(x=wide, out=wide.copy())
    nap()  # as it was
    assert np.array_equal(nap.tensors["out"], np.arange(4, dtype="f4"))
    nap.set(x=wide, out=wide * 0, workspace=room(rt, 32))
    nap()
    assert (nap.tensors["out"] == 1).all()
    nap.set(x=wide[:2], out=np.zeros(2, "f4"))  # what it was given stays
    assert nap.workspace is not None
    assert nap.workspace_size == 8


@pytest.mark.promise("DESIGN-5-workspace", "FAULT-23")
def test_the_call_keeps_it(zoo: Any, rt: Any) -> None:
    x, out = np.ones(4, "f4"), np.zeros(4, "f4")
    given = room(rt).view(Owned)
    gone = weakref.ref(given)
    call = zoo.nap.bind(x, out, workspace=given)
    del given
    gc.collect()
    assert gone() is not None
    call.set(ms=1)
    call()
    assert gone() is not None
    assert (out == 1).all()
    call.set(workspace=None)
    assert gone() is None

    given = room(rt).view(Owned)
    gone = weakref.ref(given)
    given.call = zoo.nap.bind(x, out, workspace=given)
    del given
    gc.collect()
    assert gone() is None


@pytest.mark.promise("DESIGN-5-workspace")
def test_a_torch_tensor_that_is_resized(nap: Any, unsupported: type[Exception]) -> None:
    torch = pytest.importorskip("torch")
    given = torch.zeros(64, dtype=torch.uint8)
    nap.set(workspace=given)
    nap()
    assert given[:16].view(torch.float32).tolist() == [0, 1, 2, 3]
    given.resize_(1 << 20)
    with pytest.raises(unsupported, match="nap: workspace: its memory was resized"):
        nap()
    nap.set(workspace=given)
    nap()


@pytest.mark.promise("DESIGN-5-workspace")
def test_on_a_device_nothing_is_allocated(
    zoo: Any, rt: Any, fake: Fake, unsupported: type[Exception]
) -> None:
    host = np.asarray(rt.empty((256 + 64,), "f32"))
    start = -host.ctypes.data % 256

    def at(offset: int, index: int = 0, **fields: Any) -> Any:
        made = on_cuda(index, **fields)
        made.managed.tensor.data = host.ctypes.data + start + offset
        return made

    x, out = on_cuda(), on_cuda()
    call = zoo.twin.bind(x, out, stream=5)
    call()
    assert fake.of("allocate") == ["allocate 0 5 16"]
    fake.reset()
    call.set(workspace=at(0))
    call()
    rt.run([call])
    assert fake.of("allocate", "release") == []
    assert fake.of("launch") == ["launch 0 5"] * 2
    assert out.values[:4] == [1.0] * 4
    for given, words in [
        (at(0, index=1), "it lies on device 1 of type 2"),
        (at(64), "its address is no multiple of 256"),
        (at(0, flags=READ_ONLY), "it is read-only"),
    ]:
        with pytest.raises(unsupported, match=words):
            call.set(workspace=given)
