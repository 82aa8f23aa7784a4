"""Every op in a CUDA graph: captured as the first AICF call of its process, replayed, bound."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpu.processes import Process, stop

torch = pytest.importorskip("torch")

from gpu.capturing import CAPTURES, REPLAYS  # noqa: E402
from gpu.cases import OPS, cases  # noqa: E402

pytestmark = [pytest.mark.guests("torch")]

EVERY = ("first calls", "one by one", "bound", "on a stream")
# One op with a workspace and one without; it takes no more of other ops to see the rest.
SOME = {op: ("modes", "in a thread") for op in ("add", "sum")}


@pytest.fixture(scope="module")
def captured() -> Iterator[dict[str, Process]]:
    """A process an op, all at once; each tells what became of its captures."""
    code = "from gpu.capturing import main; main()"
    started = {op: Process(code, op, *EVERY, *SOME.get(op, ())) for op in OPS}
    started |= {
        f"{op} by the runtime": Process(code, op, *EVERY, *more, AICF_LAUNCH="runtime")
        for op, more in SOME.items()
    }
    yield started
    stop(list(started.values()))


@pytest.mark.gpu
@pytest.mark.promise("S8")
@pytest.mark.parametrize("name", [*OPS, *(f"{op} by the runtime" for op in SOME)])
def test_captures(captured: dict[str, Process], name: str) -> None:
    """Past the CUDA runtime, and some through it."""
    op = name.split()[0]
    told = json.loads(captured[name].output().strip().splitlines()[-1])
    wrong = {what: text for what, text in told.items() if text}
    assert not wrong, "\n".join(f"{what}: {text}" for what, text in wrong.items())
    assert set(told) == {*EVERY, *SOME.get(op, ())}
    assert set(told) <= set(CAPTURES)
    assert REPLAYS >= 10


@pytest.mark.promise("S8")
@pytest.mark.parametrize("op", OPS)
def test_the_calls_that_are_captured(op: str) -> None:
    """On the CPU: they are taken, they are right, and a result that nobody wrote is seen."""
    for dtype in (torch.float32, torch.bfloat16):
        for case in cases(op, "cpu", dtype):
            case.change(1)
            with pytest.raises(AssertionError, match="off by"):
                case.check()
            case.run()
            case.check()
            call = case.bind()
            case.change(2)
            call()
            case.check()
