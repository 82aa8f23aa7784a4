"""Host memory as arrays of numpy's, and views of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aicf.backend.host import as_array, bytes_of, span_of


@pytest.mark.promise("AICF-backend-memory")
def test_bf16_is_an_array_too(cpu: Any) -> None:
    x = cpu.empty((2, 3), "bf16")
    cpu.fill_bytes(x, 0)
    array = as_array(x)
    bytes_of(x)[::2], bytes_of(x)[1::2] = 0x80, 0x3F
    assert array.shape == (2, 3)
    assert array.astype("f4").tolist() in ([[1, 1, 1]] * 2, [[0x3F80] * 3] * 2)
    again = cpu.from_host(array)
    assert (cpu.to_host(cpu.relu(again)) == array).all()


@pytest.mark.promise("AICF-backend-memory")
def test_views_stay_within_their_tensor(cpu: Any) -> None:
    a = np.arange(6, dtype="f4")
    assert np.asarray(cpu.view(a, (2, 2), (1, 2), 1)).tolist() == [[1, 3], [2, 4]]
    with pytest.raises(ValueError, match="do not lie within its base's memory"):
        cpu.view(a, (2, 2), (1, 2), 3)


@pytest.mark.promise("AICF-backend-prepare")
def test_a_null_call_can_be_set() -> None:
    from aicf_rt import Unsupported

    from aicf.backend.null import NullBackend

    null = NullBackend()
    x, y = null.empty((2, 3), "f32"), null.empty((3, 2), "f32")
    call = null.prepare("relu", x, null.empty((2, 3), "f32"))
    with pytest.raises(Unsupported):
        call.set(x=null.empty((3,), "i32"))
    with pytest.raises(ValueError, match=r"out must be f32 \(3, 2\)"):
        call.set(x=y)
    assert call.tensors["x"] is x
    call.set(x=y, out=y)
    call()
    assert [launch.shapes for launch in null.launches] == [((3, 2),)]


@pytest.mark.promise("AICF-backend-memory")
def test_spans() -> None:
    assert span_of((2, 3), (3, 1)) is None
    assert span_of((), ()) is None
    assert span_of((2, 1), (1, 99)) is None
    assert span_of((0, 3), (9, 9)) is None
    assert span_of((2, 3), (-3, 1)) is None
    assert span_of((2, 3), (1, 2)) == 6
    assert span_of((2, 3), (8, 2)) == 13
    assert span_of((2, 3), (0, 1)) == 3


@pytest.mark.promise("AICF-backend-memory")
def test_bytes_of_dense_tensors(cpu: Any) -> None:
    """Whatever the order of their dims; what has gaps is refused, and nothing of it is written."""
    a = np.zeros((2, 3, 4), "f4")
    for x in (a, a.T, a.transpose(1, 0, 2), a[:1], a[:, :1].T, np.zeros(()), np.zeros((0, 3))):
        held = x.copy(order="K")
        cpu.fill_bytes(held, 0xFF)
        assert np.isnan(held).all()
    with pytest.raises(ValueError, match="it has gaps"):
        cpu.fill_bytes(a[:, :, ::2], 0xFF)
    assert not a.any()
