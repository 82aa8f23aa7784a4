"""Views of memory that another tensor has, by DLPack."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from aicf.backend import view
from aicf.backend.host import as_array
from aicf.backend.view import View, address_of, is_dense


@pytest.mark.promise("AICF-backend-memory")
def test_it_is_the_same_memory() -> None:
    a = np.arange(24, dtype="f4").reshape(2, 3, 4)
    turned = np.from_dlpack(View(a, (4, 2), (1, 12), 4))
    assert np.array_equal(turned, a[:, 1, :].T)
    turned[0, 0] = 99
    assert a[0, 1, 0] == 99
    assert address_of(a) == a.ctypes.data
    assert is_dense(a.T)
    assert not is_dense(a[:, :, ::2])
    assert not is_dense(np.broadcast_to(a, (2, 2, 3, 4)))


@pytest.mark.promise("AICF-backend-memory")
def test_it_stays_within_its_tensor() -> None:
    a = np.arange(6, dtype="f4")
    for shape, strides, offset in (
        ((7,), (1,), 0),
        ((6,), (1,), 1),
        ((2,), (1,), -1),
        ((2,), (6,), 0),
    ):
        with pytest.raises(ValueError, match="beyond its tensor's 6 elements"):
            View(a, shape, strides, offset)
    assert np.from_dlpack(View(a, (3,), (-1,), 2)).tolist() == [2, 1, 0]
    assert np.from_dlpack(View(a, (0, 9), (1, 1), 0)).shape == (0, 9)


class Held(np.ndarray[Any, Any]):
    """An array that can be watched."""


@pytest.mark.promise("AICF-backend-memory")
def test_memory_lives_as_long_as_it_is_used() -> None:
    a = np.arange(6, dtype="f4").view(Held)
    gone = weakref.ref(a)
    used = np.from_dlpack(View(a, (2,), (1,), 0))
    capsule = View(a, (2,), (1,), 0).__dlpack__()
    del a
    gc.collect()
    assert gone() is not None
    assert used.tolist() == [0, 1]
    del used, capsule
    gc.collect()
    assert gone() is None
    assert not view._handed_out


@pytest.mark.promise("AICF-backend-memory")
def test_read_only_and_bf16() -> None:
    import aicf_rt

    a = np.ones(3, "f4")
    a.flags.writeable = False
    assert not np.from_dlpack(View(a, (2,), (1,), 0)).flags.writeable
    x = aicf_rt.empty((4,), "bf16")
    bits = np.from_dlpack(View.of_bits(x))
    bits[:] = 0x3F80
    assert View(x, (2,), (1,), 2).dtype == "bf16"
    assert as_array(x).astype("f4").tolist() in ([1, 1, 1, 1], [0x3F80] * 4)
