"""Every row over SHIM, by each of its kernels: what launches look like, and what is not called on
their way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shim.test_launches import code

Over = Callable[..., Any]

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("ROWS-launches")]


@pytest.mark.promise("S1", "S2", "S8", "C4")
def test_every_row(over: Over, ops: list[str]) -> None:
    """During a capture: the first call, by hand and bound, works on the stream that is said, waits
    for nothing, allocates what the row says in the order of the stream, and gives it back."""
    told = over(
        code("""
        import torch
        torch.set_num_threads(1)
        from shim.samples import every, unreached

        def works(lines):
            # What the driver refuses is the runtime's next.
            words = ("kernel", "grid", "block", "bytes")
            return [(line.name, *(line.words.get(word) for word in words)) for line in lines
                    if "stream" in line.words and line.name.startswith("cuda")]

        def check(call, run):
            before = len(shim.lines())
            run()
            lines = shim.lines()[before:]
            assert shim.live() == 0, call
            for line in lines:
                failed = line.words["error"] != "0" and line.name.startswith("cuda")
                assert not failed, (call, line.text)
                ordered = line.name in ("cudaMallocAsync", "cudaFreeAsync")
                assert ordered or not FORBIDDEN.match(line.name), (call, line.text)
                assert not ordered or call.workspace, (call, line.text)
                assert "stream" not in line.words or line.stream == 64, (call, line.text)
            return works(lines)

        for call in every(device=1):
            shim.reset()
            assert call.run(stream=64), call
            assert {line.device for line in shim.lines() if "stream" in line.words} <= {1}, call
            assert shim.device() == 0 and shim.live() == 0, call
        called = every()
        launches = 0
        for call in called:
            shim.reset()
            shim.capture(True)
            first = check(call, lambda: call.run(stream=64) or quit(f"refused: {call}"))
            if first and shim.launches():
                check_grids(call)
            assert call.empty or first, call
            bound = []
            made = check(call, lambda: bound.append(call.bind(stream=64)))
            assert made == [], call
            for _ in range(6):  # the last of them repeat what was launched, where that can be
                assert check(call, bound[0]) == first, call
            launches += len(first)
            call = bound = None
        tell([len(called), launches, sorted({call.op for call in called}), unreached(called)])
        """),
        timeout=300,
    )
    count, launches, reached, missing = told
    assert set(reached) >= set(ops)
    assert missing == []
    assert launches >= count - len(reached)
