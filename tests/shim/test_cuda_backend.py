"""The backend of CUDA devices over SHIM: its memory, its stream, the calls that it prepares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Over = Callable[..., Any]

HEAD = """
    import numpy as np
    from aicf.backend import cuda, driver

    class Facts:  # what the driver would say of a device
        def __init__(self, index): pass
        def arch(self): return "sm_90"
        def name(self): return "a shim"
        def clocks(self): return "1 kHz"
        def bandwidth(self): return 1e12
        def processors(self): return 100
        def clock(self): return 1e9

    driver.Driver, driver.version, driver.installed = Facts, lambda: "13.0", lambda: "1"
    backend = cuda.CudaBackend(stream=aicf_rt.Stream("cuda:0") if {own} else None)
    a = np.arange(24, dtype="f4").reshape(4, 6)
"""


@pytest.mark.promise("AICF-backend-memory")
@pytest.mark.parametrize("own", [False, True])
def test_memory(over: Over, own: bool) -> None:
    """A copy each, of what a tensor spans, on the backend's stream. SHIM moves no host memory."""
    code = (
        HEAD.format(own=own)
        + """
    x, y = backend.from_host(a), backend.empty((4, 6), "f32")
    shapes = [backend.to_host(x).shape]
    shapes.append(backend.to_host(backend.view(x, (6, 4), (1, 6), 0)).shape)
    shapes.append(backend.to_host(backend.view(x, (2, 3), (12, 2), 1)).shape)
    backend.copy_into(y, x)
    backend.fill_bytes(y, 0xFF)
    refused = []
    for work in (lambda: backend.fill_bytes(backend.view(y, (2, 3), (12, 2), 1), 0),
                 lambda: backend.copy_into(y, a.T)):
        try:
            work()
        except ValueError as error:
            refused.append(str(error))
    backend.synchronize()
    copies = shim.lines("cudaMemcpyAsync")
    tell([shapes, refused, [int(line.words["bytes"]) for line in copies],
          len({line.stream for line in copies}), shim.failed()])
    """
    )
    shapes, refused, copied, streams, failed = over(code)
    assert shapes == [[4, 6], [6, 4], [2, 3]]
    assert "has gaps" in refused[0]
    assert "is not overwritten by f32 (6, 4)" in refused[1]
    assert copied == [96, 96, 96, 68, 96, 96]
    assert streams == 1
    assert failed == []


@pytest.mark.promise("AICF-backend-prepare")
@pytest.mark.parametrize("own", [False, True])
def test_calls(over: Over, ops: list[str], own: bool) -> None:
    """Launched on the backend's stream, and timed there; the kernel is the one that was named."""
    if "add" not in ops:
        pytest.skip("the modules were built without CUDA")
    code = (
        HEAD.format(own=own)
        + """
    x, out = backend.from_host(a), backend.empty((4, 6), "f32")
    backend.add(x, x, out=out)
    call = backend.prepare("add", x, x, out, kernel="strided")
    before = len(shim.launches())
    backend.run([call, call])
    launched = shim.launches()[before:]
    tell([call.kernel, len(launched), len({line.stream for line in launched}),
          backend.time(call, 3) >= 0, backend.info.arch, backend.info.peak("bf16") > 1e14,
          backend.report().totals()["ran"]])
    """
    )
    assert over(code) == ["strided", 2, 1, True, "sm_90", True, 1]
