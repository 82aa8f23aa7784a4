"""Every op in a CUDA graph: captured as the first AICF call of its process, replayed, bound."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpu.processes import Process, stop

torch = pytest.importorskip("torch")

from gpu.capturing import CAPTURES, REPLAYS  # noqa: E402
from gpu.cases import OPS, cases, unreached  # noqa: E402

pytestmark = [pytest.mark.guests("torch")]

EVERY = ("first calls", "one by one", "bound", "on a stream")
# One op with a workspace and one without; it takes no more of other ops to see the rest.
SOME = {op: ("modes", "in a thread") for op in ("add", "sum")}


LIMIT = 400.0  # seconds for all of them


@pytest.fixture(scope="module")
def captured() -> Iterator[dict[str, Process]]:
    """All ops past the CUDA runtime, some through it; each tells what became of its captures."""
    code = "from gpu.capturing import main; main()"
    every = {op: [*EVERY, *SOME.get(op, ())] for op in OPS}
    some = {op: [*EVERY, *more] for op, more in SOME.items()}
    started = {
        "driver": Process(code, json.dumps(every)),
        "runtime": Process(code, json.dumps(some), AICF_LAUNCH="runtime"),
    }
    yield started
    stop(list(started.values()))


@pytest.mark.gpu
@pytest.mark.promise("S8")
@pytest.mark.parametrize(
    "way, op", [*(("driver", op) for op in OPS), *(("runtime", op) for op in SOME)]
)
def test_captures(captured: dict[str, Process], way: str, op: str) -> None:
    told = json.loads(captured[way].output(LIMIT).strip().splitlines()[-1])[op]
    wrong = {what: text for what, text in told.items() if text}
    assert not wrong, "\n".join(f"{what}: {text}" for what, text in wrong.items())
    assert set(told) == {*EVERY, *SOME.get(op, ())}
    assert set(told) <= set(CAPTURES)
    assert REPLAYS >= 10


@pytest.mark.promise("ROWS-kernels")
@pytest.mark.parametrize("op", OPS)
def test_a_sample_fits_each_kernel(op: str) -> None:
    """Without a GPU: by what the guards say of descriptions."""
    missing = unreached(op)
    assert not missing, f"no sample of {op} fits: {', '.join(missing)}"


@pytest.mark.promise("S8")
@pytest.mark.parametrize("op", OPS)
def test_the_calls_that_are_captured(op: str) -> None:
    """On the CPU: they are taken, they are right, and a result that nobody wrote is seen."""
    for dtype in (torch.float32, torch.bfloat16):
        for case in cases(op, "cpu", dtype):
            case.change(1)
            if any(x.is_floating_point() for x in case.call.outs.values()):
                with pytest.raises(AssertionError, match=" wrong, the worst at "):
                    case.check()
            case.run()
            case.check()
            assert case.same(1)
            call = case.bind()
            case.change(2)
            call()
            case.check()
