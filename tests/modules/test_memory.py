"""Views, copies, streams and events of aicf_rt: what programs above the ops need of memory."""

from __future__ import annotations

import gc
import itertools
import time
import weakref
from typing import Any

import aicf_rt
import numpy as np
import pytest

promise = pytest.mark.promise("DESIGN-5-memory")


def numbers(*shape: int, dtype: str = "f4") -> Any:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def ours(array: Any) -> aicf_rt.Tensor:
    made = aicf_rt.empty(array.shape, array.dtype)
    aicf_rt.copy(array, made)
    return made


@promise
def test_a_view_is_the_memory_of_its_base() -> None:
    base = ours(numbers(3, 4))
    turned = aicf_rt.view(base, (4, 3), strides=(1, 4))
    assert (np.asarray(turned) == numbers(3, 4).T).all()
    part = aicf_rt.view(turned, (2, 3), strides=(1, 4), offset=4)
    assert (np.asarray(part) == numbers(3, 4).T[1:3]).all()
    np.asarray(base)[1, 1] = 100
    assert np.asarray(part)[0, 1] == 100
    assert aicf_rt.view(base, 6, dtype="i64").dtype == "i64"
    assert aicf_rt.view(base, ()).shape == ()
    assert aicf_rt.view(base, (0, 9)).shape == (0, 9)
    spread = aicf_rt.view(base, (5, 4), strides=(0, 1))
    assert (np.asarray(spread) == np.asarray(base)[0]).all()


@promise
def test_a_view_keeps_the_memory_alive_and_lets_it_go() -> None:
    class Array(np.ndarray):
        pass

    array = numbers(8).view(Array)
    gone = weakref.ref(array)
    view = aicf_rt.view(array, (8,))
    second = aicf_rt.view(view, (4,), offset=16)
    del array, view
    gc.collect()
    assert (np.asarray(second) == [4, 5, 6, 7]).all()
    del second
    gc.collect()
    assert gone() is None


@promise
def test_a_view_of_what_may_not_be_written_may_not_either() -> None:
    array = numbers(4)
    array.flags.writeable = False
    view = aicf_rt.view(array, (2,))
    assert not np.asarray(view).flags.writeable
    with pytest.raises(aicf_rt.Unsupported, match="copy: out: it is read-only"):
        aicf_rt.copy(numbers(2), view)


@promise
@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": (13,)},
        {"shape": (2,), "offset": -4},
        {"shape": (2,), "offset": 2},
        {"shape": (12,), "offset": 4},
        {"shape": (2,), "strides": (-1,)},
        {"shape": (1 << 40, 1 << 40)},
        {"shape": (3,), "strides": (1 << 62,)},
        {"shape": (2, 2), "strides": (1,)},
        {"shape": (-1,)},
        {"shape": (7,), "dtype": "f64"},
    ],
    ids=str,
)
def test_a_view_beyond_its_base_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="view: "):
        aicf_rt.view(ours(numbers(12)), **arguments)


@promise
def test_a_copy_has_the_bytes() -> None:
    for dtype, shape in itertools.product(("f4", "f8", "i1", "?"), ((), (0,), (5,), (2, 3))):
        made = ours(numbers(*shape, dtype="f8").astype(dtype))
        assert made.dtype in ("f32", "f64", "i8", "bool")
        assert np.asarray(made).tobytes() == numbers(*shape, dtype="f8").astype(dtype).tobytes()
    back = np.zeros((2, 3), "f4")
    aicf_rt.copy(ours(numbers(2, 3)), back)
    assert (back == numbers(2, 3)).all()


@promise
@pytest.mark.parametrize(
    "out, words",
    [
        (np.empty((3, 2), "f4"), "out: its shape is not that of source"),
        (np.empty((2, 3), "f8"), "out: its dtype is not that of source"),
        (np.empty((3, 2), "f4").T, "out: it is not dense and row-major"),
    ],
)
def test_a_copy_that_does_not_fit_is_refused(out: Any, words: str) -> None:
    with pytest.raises(aicf_rt.Unsupported, match=f"copy: {words}"):
        aicf_rt.copy(numbers(2, 3), out)


@promise
def test_a_copy_onto_itself() -> None:
    whole = ours(numbers(6))
    aicf_rt.copy(whole, whole)
    assert (np.asarray(whole) == numbers(6)).all()
    with pytest.raises(aicf_rt.Unsupported, match="copy: out: it overlaps source"):
        aicf_rt.copy(aicf_rt.view(whole, 5), aicf_rt.view(whole, 5, offset=4))
    with pytest.raises(TypeError, match="copy: source is not a tensor but int"):
        aicf_rt.copy(3, whole)


@promise
@pytest.mark.guests("torch")
def test_torch_sees_that_it_was_written() -> None:
    import torch

    t = torch.zeros(2, 3)
    aicf_rt.copy(numbers(2, 3), t)
    assert (t.numpy() == numbers(2, 3)).all()
    assert t._version == 1
    view = aicf_rt.view(t, (3,), offset=12)
    del t
    gc.collect()
    assert (np.asarray(view) == [3, 4, 5]).all()


@promise
def test_events_of_the_host_are_times() -> None:
    first, second = aicf_rt.Event(), aicf_rt.Event("cpu")
    with pytest.raises(ValueError, match="recorded first"):
        first.elapsed(second)
    first.record()
    time.sleep(0.02)
    second.record(stream=aicf_rt.Stream())
    assert 0.02 <= first.elapsed(second) < 60
    aicf_rt.synchronize()
    with pytest.raises(TypeError, match="stream is neither an int nor has it __cuda_stream__"):
        first.record(stream="fast")
    with pytest.raises(TypeError, match="device 'tpu'"):
        aicf_rt.Event("tpu")
    with pytest.raises(ValueError, match="neither 'cpu' nor on cuda"):
        aicf_rt.Stream("metal")
