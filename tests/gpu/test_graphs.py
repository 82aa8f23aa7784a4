"""Every op in a CUDA graph: captured as the first AICF call of its process, replayed, bound."""

from __future__ import annotations

import json

import pytest

from gpu.processes import Process, stop

torch = pytest.importorskip("torch")

from gpu.capturing import CAPTURES, REPLAYS  # noqa: E402
from gpu.cases import OPS, cases, unreached  # noqa: E402

pytestmark = [pytest.mark.guests("torch")]

EVERY = ("first calls", "one by one", "bound", "on a stream")
# It takes no more of other ops to see the rest: without a workspace, with one, with lists, with
# scalars.
SOME = dict.fromkeys(("add", "sum", "softmax", "concat"), ("modes", "in a thread"))
SHARES = 4  # of the ops: each is a test, so that they run beside each other
LIMIT = 300.0  # seconds for a share


@pytest.mark.gpu
@pytest.mark.promise(
    "S8", "ROWS-kernels", "GRAPH-capture", "GRAPH-branches", "COMPILER-capture-first"
)
@pytest.mark.parametrize(
    "way", [f"{name} {i}" for name in ("driver", "ours") for i in range(SHARES)] + ["runtime"]
)
def test_captures(way: str) -> None:
    """Every op past the CUDA runtime, some through it: one process, which forks one an op. In
    torch's graphs, and in ours."""
    ops = tuple(SOME) if way == "runtime" else OPS[int(way.split()[1]) :: SHARES]
    wanted = {op: [*EVERY, *SOME.get(op, ())] for op in ops}
    if way.startswith("ours"):
        wanted = {op: ["by us", "at once"] for op in ops}
    if way == "runtime":
        wanted = {op: [*names, "by us"] for op, names in wanted.items()}
    environment = {"AICF_LAUNCH": "runtime"} if way == "runtime" else {}
    code = "from gpu.capturing import main; main()"
    process = Process(code, json.dumps(wanted), **environment)
    try:
        told = json.loads(process.output(LIMIT).strip().splitlines()[-1])
    finally:
        stop([process])
    wrong = [f"{op}: {what}: {text}" for op in ops for what, text in told[op].items() if text]
    assert not wrong, "\n".join(wrong)
    assert {op: set(done) for op, done in told.items()} == {op: set(w) for op, w in wanted.items()}
    assert {name for names in wanted.values() for name in names} <= set(CAPTURES)
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
            assert not case.differs(1)
            call = case.bind()
            case.change(2)
            call()
            case.check()
