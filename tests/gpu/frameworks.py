"""Guests that are installed and yet may not work with this driver."""

from __future__ import annotations

from typing import Any

import pytest


def numba_cuda() -> Any:
    """numba.cuda, if it can use the GPU."""
    cuda = pytest.importorskip("numba.cuda", reason="gpu: guest numba")
    try:
        cuda.device_array(1)
    except Exception as error:
        pytest.skip(f"gpu: numba cannot use this GPU: {error!r}"[:300])
    return cuda
