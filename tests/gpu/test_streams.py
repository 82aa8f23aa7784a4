"""Streams: work of ours comes after what the framework queued, on the stream that it should, and
memory outlives it. SPIN keeps a stream busy while the host goes on, so that what is launched on
another stream runs at once and is seen to be early."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gpu.cases import OPS, Case, cases  # noqa: E402
from gpu.frameworks import numba_cuda  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.guests("torch")]

SPIN = 2_000_000  # cycles, a millisecond
LONG = 100_000_000  # 50 ms
COUNT = 65_537
REPEATS = 300


@pytest.fixture
def side() -> Iterator[Any]:
    """A stream that the default one does not wait for."""
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    yield stream
    torch.cuda.synchronize()


def full(value: float, count: int = COUNT) -> Any:
    return torch.full((count,), float(value), device="cuda")


def repeated(stream: Any, call: Callable[[Any, Any, Any], Any], times: int = REPEATS) -> list[int]:
    """The repeats whose sum was not that of what was queued just before. `call` gets what is
    written late, a constant and an out; it may give another out."""
    x, one, out = full(0), full(1), full(0)
    torch.cuda.synchronize()
    wrong = []
    for i in range(1, times + 1):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(LONG if i <= 3 else SPIN)
            x.fill_(i)
        made = call(x, one, out)
        torch.cuda.synchronize()
        if not bool(((out if made is None else made) == i + 1).all()):
            wrong.append(i)
    return wrong


@pytest.mark.promise("S1")
def test_the_window_is_open(add: Any, side: Any) -> None:
    """What these tests look for can be seen: a call on a stream that knows of nothing is early."""

    def call(x: Any, one: Any, out: Any) -> None:
        assert add.add_f32(x, one, out) is True

    assert len(repeated(side, call, 20)) > 10


def within(stream: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    def run(*tensors: Any) -> Any:
        with torch.cuda.stream(stream):
            return call(*tensors)

    return run


@pytest.mark.promise("S1", "S5")
@pytest.mark.parametrize("form", ["typed", "generic", "generic, out", "bound", "run"])
def test_the_current_stream(add: Any, rt: Any, side: Any, form: str) -> None:
    bound: list[Any] = []

    def call(x: Any, one: Any, out: Any) -> Any:
        if form == "typed":
            assert add.add_f32(x, one, out) is True
        elif form == "generic":
            return add.add(x, one)
        elif form == "generic, out":
            assert add.add(x, one, out=out) is out
        else:
            bound[:] = bound or [add.bind(x, one, out)]
            bound[0]() if form == "bound" else rt.run(bound)
        return None

    assert repeated(side, within(side, call)) == []


@pytest.mark.promise("S2")
@pytest.mark.parametrize("said", ["number", "object", "with __cuda_stream__", "with ptr"])
def test_a_stream_that_is_said(add: Any, side: Any, said: str) -> None:
    """The current stream is another one; the call still goes where the work is."""

    class Speaks:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, side.cuda_stream)

    class Points:
        ptr = side.cuda_stream

    streams = {
        "number": side.cuda_stream,
        "object": side,
        "with __cuda_stream__": Speaks(),
        "with ptr": Points(),
    }

    def call(x: Any, one: Any, out: Any) -> None:
        assert add.add_f32(x, one, out, stream=streams[said]) is True

    assert repeated(side, call, 100) == []
    bound: list[Any] = []

    def through_bound(x: Any, one: Any, out: Any) -> None:
        bound[:] = bound or [add.bind(x, one, out, stream=streams[said])]
        bound[0]()

    assert repeated(side, through_bound, 100) == []


@pytest.mark.promise("S2")
def test_work_on_the_current_stream_is_waited_for_on_another(add: Any, side: Any) -> None:
    """Pending on torch's current stream, and the call is told to use a third."""
    other = torch.cuda.Stream()

    def call(x: Any, one: Any, out: Any) -> None:
        with torch.cuda.stream(side):
            assert add.add_f32(x, one, out, stream=other) is True

    assert repeated(side, call, 100) == []


@pytest.mark.promise("S1")
@pytest.mark.parametrize("op", OPS)
def test_every_op_on_a_side_stream(side: Any, op: str) -> None:
    """Inputs arrive late; workspaces are those of the stream, and what takes their memory next
    comes after."""
    for case in cases(op):
        for i in range(9):
            ready = case.prepare(i % 3)
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                torch.cuda._sleep(SPIN)
                case.take(ready)
                case.run()
                junk = [torch.full((300_000,), float("nan"), device="cuda") for _ in range(3)]
                if i % 2:
                    case.written[0].mul_(1)
            torch.cuda.synchronize()
            case.check()
            del junk


@pytest.mark.promise("S5")
@pytest.mark.parametrize("given", ["current", "number"])
@pytest.mark.parametrize("op", ["sum", "bias_add_bwd"])
def test_workspaces_on_a_side_stream(side: Any, op: str, given: str) -> None:
    """From torch where the stream is its current one, else from CUDA: either way the next owner of
    the memory comes after, the bits are the same, and nothing is left taken."""
    first = cases(op)[-1]
    first.change(3)
    first.run()
    (out,) = first.written
    want = out.clone()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(60):
        out.fill_(float("nan"))
        torch.cuda.synchronize()
        if given == "current":
            with torch.cuda.stream(side):
                torch.cuda._sleep(SPIN)
                first.run()
                junk = torch.full((500_000,), float("nan"), device="cuda")
        else:
            torch.cuda._sleep(SPIN)
            first.run(stream=side.cuda_stream)
            junk = torch.full((500_000,), float("nan"), device="cuda")
        side.synchronize()
        assert torch.equal(out, want)
        del junk
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


@pytest.mark.promise("S5")
def test_a_temporary_that_goes_at_once(add: Any, side: Any) -> None:
    """x + 1 is freed when the call returns, long before it is read; its memory is taken again."""
    one = full(1)
    x = full(0)
    torch.cuda.synchronize()
    for i in range(REPEATS):
        with torch.cuda.stream(side):
            torch.cuda._sleep(LONG if i < 3 else SPIN)
            x.fill_(i)
            out = add.add(x + 1, one)
            for _ in range(3):
                torch.full((COUNT,), -1.0, device="cuda")
        elsewhere = [full(-2) for _ in range(3)]
        torch.cuda.synchronize()
        assert bool((out == i + 2).all()), f"repeat {i}"
        del elsewhere


@pytest.mark.promise("S5")
def test_a_bound_call_whose_tensors_went(add: Any, side: Any) -> None:
    """It keeps their memory; what goes with it goes in the order of the stream."""
    for i in range(50):
        with torch.cuda.stream(side):
            torch.cuda._sleep(SPIN)
            out = torch.empty(COUNT, device="cuda")
            call = add.bind(full(i), full(1), out)
            for _ in range(3):
                full(-1)
            call()
            del call
            for _ in range(3):
                full(-1)
        torch.cuda.synchronize()
        assert bool((out == i + 1).all()), f"repeat {i}"


@pytest.mark.promise("S1", "S5")
def test_an_omitted_out_is_the_streams_own(add: Any) -> None:
    """Its memory goes back to the stream that it was made on, and to no other."""
    torch.cuda.empty_cache()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    x = full(2, 3_000_001)
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        out = add.add(x, x)
        assert bool((out == 4).all())
        place = out.data_ptr()
        del out
    with torch.cuda.stream(second):
        kept = torch.empty_like(x)
        assert kept.data_ptr() != place
    with torch.cuda.stream(first):
        again = torch.empty_like(x)
        assert again.data_ptr() == place
        assert add.add(x, x).data_ptr() != place


# ---- producers that name their stream -----------------------------------------------------------


class Interface:
    """A torch tensor by the array interface alone, ready on the stream that it names."""

    def __init__(self, t: Any, stream: int | None) -> None:
        self.t = t
        self.__cuda_array_interface__ = {
            "shape": tuple(t.shape),
            "typestr": "<f4",
            "data": (t.data_ptr(), False),
            "version": 3,
            "stream": stream,
        }


@pytest.mark.promise("S4")
def test_the_stream_of_the_array_interface(add: Any, side: Any) -> None:
    """It is waited for, by the default stream and by one that is said."""
    other = torch.cuda.Stream()
    for stream in (None, other.cuda_stream):

        def call(x: Any, one: Any, out: Any, stream: Any = stream) -> None:
            late, plain = Interface(x, side.cuda_stream), Interface(one, None)
            assert add.add_f32(late, plain, Interface(out, None), stream=stream) is True

        assert repeated(side, call, 100) == []


@pytest.mark.promise("S2", "S4")
def test_the_stream_that_dlpack_is_asked_with(add: Any, side: Any) -> None:
    """A producer of __dlpack__ alone makes our stream wait for its current one."""

    class Only:
        def __init__(self, t: Any) -> None:
            self.t = t

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.t.__dlpack__(**keywords)

        def __dlpack_device__(self) -> Any:
            return self.t.__dlpack_device__()

    other = torch.cuda.Stream()

    def call(x: Any, one: Any, out: Any) -> None:
        with torch.cuda.stream(side):
            assert add.add_f32(Only(x), Only(one), Only(out), stream=other) is True

    assert repeated(side, call, 100) == []


@pytest.mark.guests("cupy")
@pytest.mark.promise("S1", "S2")
@pytest.mark.parametrize("said", ["current", "number", "object"])
def test_cupys_streams(add: Any, said: str) -> None:
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x, one = cupy.zeros(COUNT, "f4"), cupy.ones(COUNT, "f4")
        out = cupy.zeros(COUNT, "f4")
    stream.synchronize()
    given = {"current": None, "number": stream.ptr, "object": stream}[said]
    for i in range(1, REPEATS // 3):
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
            torch.cuda._sleep(LONG if i <= 3 else SPIN)
        with stream:
            x.fill(i)
            if said == "current":
                assert add.add_f32(x, one, out) is True
                made = add.add(x, one)
                assert isinstance(made, cupy.ndarray)
        if said != "current":
            assert add.add_f32(x, one, out, stream=given) is True
        stream.synchronize()
        assert bool((out == i + 1).all()), f"repeat {i}"
        if said == "current":
            assert bool((made == i + 1).all()), f"repeat {i}, out omitted"


@pytest.mark.guests("numba")
@pytest.mark.promise("S4")
def test_numbas_streams(add: Any) -> None:
    cuda = numba_cuda()
    stream = cuda.stream()
    x, one, out = (cuda.device_array(COUNT, np.float32, stream=stream) for _ in range(3))
    handle = x.__cuda_array_interface__.get("stream")
    if handle is None:
        pytest.skip("gpu: this numba does not name its streams")
    views = [torch.as_tensor(array, device="cuda") for array in (x, one, out)]
    views[1].fill_(1)
    torch.cuda.synchronize()
    for i in range(1, 100):
        with torch.cuda.stream(torch.cuda.ExternalStream(handle)):
            torch.cuda._sleep(SPIN)
            views[0].fill_(i)
        assert add.add_f32(x, one, out) is True
        torch.cuda.synchronize()
        assert bool((views[2] == i + 1).all()), f"repeat {i}"


# ---- threads ------------------------------------------------------------------------------------


@pytest.mark.promise("S10", "S12")
def test_threads_with_streams_of_their_own() -> None:
    """Small and large products and sums at once: results to the bit, no attribute of a kernel
    lowered under another's launch."""
    wrong: list[str] = []
    add = importlib.import_module("aicf_cuda.add")

    def made(seed: int) -> list[Case]:
        found = [c for dtype in (torch.float32, torch.bfloat16) for c in cases("gemm", dtype=dtype)]
        found += cases("sum") + cases("bias_add_bwd")
        found = [c for c in found if c.written[0].numel()]
        for case in found:
            case.change(seed)
        return found

    def run(seed: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                mine = made(seed)
                for case in mine:
                    case.run()
                torch.cuda.current_stream().synchronize()
                want = [case.written[0].clone() for case in mine]
                for _ in range(40):
                    for case, bits in zip(mine, want, strict=True):
                        case.run()
                        out = case.written[0]
                        x = add.add(out, out)
                        torch.cuda.current_stream().synchronize()
                        if not torch.equal(out, bits) or not torch.equal(x, bits + bits):
                            wrong.append(f"{case.name} of {seed}")
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
