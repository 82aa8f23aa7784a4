"""Launches past the CUDA runtime: when they go that way, and who tells what went wrong there. Each
test runs over both ways; where they differ, `way` says which it is."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

Over = Callable[..., Any]

HEAD = """
    import os
    BY_DRIVER = os.environ["AICF_LAUNCH"] == "driver"
    SECOND = "driver" if BY_DRIVER else "runtime"

    def since(run):
        '''What a run was recorded as; it must work.'''
        before = len(shim.lines())
        assert run() is True
        return shim.lines()[before:]

    def ways(run):
        '''How it launched.'''
        launches = [line for line in since(run) if line.name.startswith("cudaLaunchKernel")]
        assert launches and all(line.words["error"] == "0" for line in launches)
        return [line.words.get("by", "runtime") for line in launches]
"""


def code(text: str) -> str:
    return textwrap.dedent(HEAD) + textwrap.dedent(text)


@pytest.mark.promise("DESIGN-5-launch")
def test_which_way(over: Over, ops: list[str]) -> None:
    """A kernel's first launch in the process is the runtime's, all later ones are the driver's;
    what is launched is the same."""
    over(
        code("""
        seen = set()
        for op in OPS:
            for call in calls_of(op, (3, 200), 600):
                tensors = call.tensors()
                run = lambda: call.run_on(tensors, stream=64)
                shim.reset()
                if not run():
                    continue
                first = shim.launches()
                for line in first:
                    known = line.words["kernel"] in seen
                    assert "by" not in line.words or (BY_DRIVER and known), line.text
                    seen.add(line.words["kernel"])
                for form in ("handle", "function", "function"):
                    again = [x for x in since(run) if x.name.startswith("cudaLaunch")]
                    assert {x.words.pop("by", "runtime") for x in again} == {SECOND}, call
                    forms = {x.words.pop("as", form) for x in again}
                    assert forms <= {form, "function"}, (call, form)
                    assert [a.words for a in again] == [
                        {k: v for k, v in b.words.items() if k not in ("by", "as")}
                        for b in first], call
        """)
    )


@pytest.mark.promise("DESIGN-5-launch")
def test_what_is_around_a_launch(over: Over, ops: list[str]) -> None:
    """Where the device is current: one question, one launch, and no other call."""
    told = over(
        code("""
        call = module("add").bind(fake(64), fake(64), fake(64), stream=64)
        call(), call(), call()
        before = len(shim.lines())
        call()
        tell([line.name for line in shim.lines()[before:]])
        """)
    )
    assert told in (
        ["cuCtxGetId", "cudaLaunchKernel"],
        ["cudaPeekAtLastError", "cudaGetDevice", "cudaPeekAtLastError", "cudaLaunchKernel"],
    )


@pytest.mark.promise("DESIGN-5-launch", "C3")
def test_what_the_driver_refuses_the_runtime_tells(over: Over, ops: list[str]) -> None:
    """It is launched after all, or the error is the runtime's and nobody else's."""
    over(
        code("""
        run = next(calls_of("add")).run
        run(), run()
        for error in (1, 201, 400, 700, 701, 719, 900, 901, 999):
            shim.fails("cuLaunchKernel", error, 1)
            assert ways(run) == ["runtime"], error
            assert shim.last_error() == 0
            assert ways(run) == [SECOND]
            shim.fails("cuLaunchKernel", error, 1)
            shim.fails("cudaLaunchKernel", 9, 1)
            try:
                run()
            except aicf_rt.CudaError as e:
                assert e.code == 9 and "Launched with grid" in str(e), e
            else:
                raise AssertionError(error)
            assert shim.last_error() == 0
            shim.fails("cuLaunchKernel", error, 0)
            assert ways(run) == [SECOND]
        """)
    )


@pytest.mark.promise("DESIGN-5-launch", "C3")
def test_an_error_that_stands_there(over: Over, ops: list[str]) -> None:
    """It does not keep a launch from going either way, and stays."""
    over(
        code("""
        run = next(calls_of("add")).run
        run(), run()
        shim._library.cudaSetDevice(99)
        for _ in range(3):
            assert ways(run) == [SECOND]
            assert shim.last_error() == 101
        """)
    )


@pytest.mark.promise("DESIGN-5-launch", "S8")
def test_a_thread_without_a_context(over: Over, ops: list[str]) -> None:
    """Its first launch is the runtime's, which starts what is missing; its next is the driver's.
    Of every op, during a capture."""
    over(
        code("""
        import threading
        failures = []
        def bound(call):
            named = {**call.attributes, "kernel": call.kernel}
            ready = module(call.op).bind(*call.tensors(), stream=64, **named)
            ready()
            return lambda: ready() is None
        runs = [bound(next(calls_of(op, (3, 200), 600))) for op in OPS]
        def body(run):
            try:
                lines = since(run)
                needs = [x for x in lines if x.name.startswith(("cudaMalloc", "cudaLaunch"))]
                assert "by" not in needs[0].words, needs[0].text
                assert set(ways(run)) == {SECOND}
                assert shim.failed() == []
            except BaseException as e:
                failures.append(repr(e))
        for run in runs:
            shim.reset()
            shim.capture(True)
            thread = threading.Thread(target=body, args=(run,))
            thread.start()
            thread.join()
        assert not failures, failures
        """)
    )


@pytest.mark.promise("DESIGN-5-launch", "A4")
def test_devices_in_turn(over: Over, ops: list[str]) -> None:
    """One device or the other, whichever is current; a device made current by hand is seen."""
    over(
        code("""
        add = next(calls_of("add"))
        calls = [lambda: add.run(0), lambda: add.run(1)]
        for call in calls:
            call()
        for current in (0, 1, 1, 0, 0):
            shim.set_device(current)
            for device in (0, 1, 1, 0):
                lines = since(calls[device])
                assert {x.device for x in lines if x.name == "cudaLaunchKernel"} == {device}
                changed = sum(x.name == "cudaSetDevice" for x in lines)
                assert bool(changed) == (device != current), [x.text for x in lines]
                assert shim.device() == current
        """)
    )


@pytest.mark.promise("DESIGN-5-launch", "I3")
def test_a_context_that_goes(over: Over, ops: list[str]) -> None:
    """A kernel's function is of one context, and is launched in no other: not on another device,
    not after a reset, not by a thread that has none."""
    over(
        code("""
        import threading
        add = next(calls_of("add"))
        for device in (0, 1, 0, 1, 0, 0):
            add.run(device)
        for turn in range(3):
            shim._library.shim_renew()
            for current in (0, 1):
                shim.set_device(current)
                for device in (0, 0, 1, 1, 0):
                    assert since(lambda: add.run(device))
            thread = threading.Thread(target=lambda: [add.run(1) for _ in range(3)])
            thread.start()
            thread.join()
        assert shim.failed() == []
        """)
    )


@pytest.mark.promise("DESIGN-5-launch", "C8")
def test_a_driver_without_the_calls(over: Over, ops: list[str]) -> None:
    """All goes through the runtime, with no error left behind, until they are there."""
    over(
        code("""
        run = next(calls_of("add")).run
        shim.fails("cudaGetDriverEntryPointByVersion", 500)
        for _ in range(3):
            assert ways(run) == ["runtime"]
            assert shim.last_error() == 0
        shim.fails("cudaGetDriverEntryPointByVersion", 500, 0)
        shim.set_device(1), shim.set_device(0)
        run(), run()
        assert ways(run) == [SECOND]
        """)
    )


@pytest.mark.promise("DESIGN-5-launch")
def test_a_module_that_goes(over: Over, ops: list[str]) -> None:
    """Its addresses may be another's next: nothing is kept of any kernel."""
    over(
        code("""
        run = next(calls_of("add")).run
        run(), run()
        assert ways(run) == [SECOND]
        shim._library.__getattr__("__cudaUnregisterFatBinary")(None)
        assert ways(run) == ["runtime"]
        assert ways(run) == [SECOND]
        """)
    )


@pytest.mark.promise("DESIGN-5-launch")
def test_the_switch(over: Over, ops: list[str]) -> None:
    """aicf_cuda_use_driver, for one process that compares the two."""
    over(
        code("""
        run = next(calls_of("add")).run
        run(), run()
        for on, way in ((True, "driver"), (False, "runtime"), (False, "runtime"), (True, "driver")):
            shim._library.aicf_cuda_use_driver(on)
            run(), run()
            assert ways(run) == [way]
        """)
    )


@pytest.mark.promise("DESIGN-5-launch", "C3")
def test_configurations_nest(over: Over, ops: list[str]) -> None:
    """What `<<<>>>` pushes comes back last first, however deep; what is not there is an error; each
    thread has its own."""
    over(
        code("""
        import ctypes, threading

        class Dim3(ctypes.Structure):
            _fields_ = [(axis, ctypes.c_uint) for axis in "xyz"]

        push = shim._library.__getattr__("__cudaPushCallConfiguration")
        push.argtypes = [Dim3, Dim3, ctypes.c_size_t, ctypes.c_void_p]
        pop = shim._library.__getattr__("__cudaPopCallConfiguration")

        def popped():
            grid, block = Dim3(), Dim3()
            shared, stream = ctypes.c_size_t(), ctypes.c_void_p()
            error = pop(*(ctypes.byref(x) for x in (grid, block, shared, stream)))
            return error or (grid.x, grid.y, grid.z, block.x, block.y, block.z, shared.value,
                             stream.value)

        def pushed(i):
            assert push(Dim3(i, 2, 3), Dim3(4, i, 6), 7 * i, 8 * i) == 0
            return (i, 2, 3, 4, i, 6, 7 * i, 8 * i)

        def check():
            assert popped() == 52
            for depth in (1, 2, 8, 9, 12, 3):
                made = [pushed(i) for i in range(1, depth + 1)]
                assert popped() == made.pop()
                made.append(pushed(99))
                assert [popped() for _ in made] == made[::-1]
                assert popped() == 52

        check()
        pushed(5)  # this thread's alone
        wrong = []
        def body():
            try:
                check()
            except BaseException as e:
                wrong.append(repr(e))
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        assert not wrong, wrong
        assert popped()[0] == 5
        """)
    )


@pytest.mark.promise("DESIGN-5-launch")
def test_more_kernels_than_are_kept(over: Over, ops: list[str]) -> None:
    """Those that find no place are launched by the runtime for ever, each as what it is."""
    told = over(
        code("""
        import ctypes
        from collections import Counter

        class Dim3(ctypes.Structure):
            _fields_ = [(axis, ctypes.c_uint) for axis in "xyz"]

        next(calls_of("add")).run()
        register = shim._library.__getattr__("__cudaRegisterFunction")
        launch = shim._library.cudaLaunchKernel
        word, size = ctypes.c_void_p, ctypes.c_size_t
        register.argtypes = [word, word, word, ctypes.c_char_p, ctypes.c_int, *[word] * 5]
        launch.argtypes = [word, Dim3, Dim3, word, size, word]
        names = [f"kernel{i}".encode() for i in range(6000)]
        for i, name in enumerate(names):
            register(None, 0x5000_0000 + 16 * i, None, name, 0, *[None] * 5)
        for _ in range(2):
            before = len(shim.lines())
            one = Dim3(1, 1, 1)
            for i in range(len(names)):
                assert launch(0x5000_0000 + 16 * i, one, one, None, 0, None) == 0
        lines = [x for x in shim.lines()[before:] if x.name == "cudaLaunchKernel"]
        assert [x.words["kernel"].encode() for x in lines] == names
        tell(Counter(x.words.get("by", "runtime") for x in lines))
        """)
    )
    assert told.get("driver", 0) in (0, *range(3000, 4097))
    assert told["runtime"] >= 1904


@pytest.mark.promise("DESIGN-5-launch", "I3")
def test_nothing_is_known_while_a_producer_runs(over: Over, ops: list[str]) -> None:
    """Its Python may make the contexts others: what it then launches goes by none from before."""
    over(
        code("""
        import ctypes

        class Dim3(ctypes.Structure):
            _fields_ = [(axis, ctypes.c_uint) for axis in "xyz"]

        word, size = ctypes.c_void_p, ctypes.c_size_t
        register = shim._library.__getattr__("__cudaRegisterFunction")
        register.argtypes = [word, word, word, ctypes.c_char_p, ctypes.c_int, *[word] * 5]
        launch = shim._library.cudaLaunchKernel
        launch.argtypes = [word, Dim3, Dim3, word, size, word]
        name = b"theirs"
        register(None, 0x5000_0000, None, name, 0, *[None] * 5)

        class Busy(Fake):
            renews = False
            def __dlpack__(self, **keywords):
                if self.renews:
                    shim._library.shim_renew()
                assert launch(0x5000_0000, Dim3(1, 1, 1), Dim3(1, 1, 1), None, 0, None) == 0
                return super().__dlpack__(**keywords)

        fields = {"device_type": CUDA, "data": 1 << 40}
        tensors = [Busy(64, **fields), fake(64), fake(64)]
        for turn in range(9):
            tensors[0].renews = turn % 3 == 2
            assert module("add").add_f32(*tensors) is True
        assert shim.failed() == []
        """)
    )


# ---- run -----------------------------------------------------------------------------------------


@pytest.mark.promise("DESIGN-5-launch")
def test_a_run_asks_once(over: Over, ops: list[str]) -> None:
    """For the launches that follow each other; again for another device, and behind each turn that
    other threads get."""
    told = over(
        code("""
        def asked(items):
            before = len(shim.lines())
            assert aicf_rt.run(items) is None
            lines = [x for x in shim.lines()[before:]]
            assert sum(x.name == "cudaLaunchKernel" for x in lines) == len(items)
            return sum(x.name == "cuCtxGetId" for x in lines)

        bind = module("add").bind
        one, two = (bind(*[fake(64, device=d) for _ in range(3)], stream=64) for d in (0, 1))
        asked([one, two] * 4)  # by then what they launch is known
        tell([asked([one] * n) for n in (1, 5, 64, 65, 200)] + [asked([one, two, two, one]) >= 4])
        assert shim.device() == 0 and shim.failed() == []
        """)
    )
    assert told in ([1, 1, 1, 2, 4, True], [0, 0, 0, 0, 0, False])


@pytest.mark.promise("DESIGN-5-launch", "I3", "C3")
def test_nothing_of_a_run_is_left(over: Over, ops: list[str]) -> None:
    """Whether it worked or stopped: what comes next asks anew, also in other contexts."""
    over(
        code("""
        bind = module("add").bind
        calls = [bind(*[fake(64, device=d) for _ in range(3)], stream=64) for d in (0, 1)]
        one, two = calls
        for items in ([one] * 3, [one, two, one], [two] * 2, [one, two]):
            for _ in range(3):
                aicf_rt.run(items)
            shim._library.shim_renew()
            for call in calls:
                call()
            assert shim.device() == 0
        for name in ("cuLaunchKernel", "cudaLaunchKernel"):
            shim.fails(name, 719, 1)
        try:
            aicf_rt.run([one, one, two])
        except aicf_rt.CudaError as e:
            assert e.code == 719 and e.item == 0, e
        else:
            raise AssertionError("a launch that fails")
        shim._library.shim_renew()
        assert one() is None and two() is None and shim.device() == 0
        assert shim.last_error() == 0
        """)
    )


@pytest.mark.promise("DESIGN-5-launch", "S1")
def test_a_run_in_an_order_of_streams(over: Over, ops: list[str]) -> None:
    """Each launch goes to its own stream, also where some say theirs and some ask a framework."""
    over(
        code("""
        bind = module("add").bind
        def on(**options):
            return bind(*[fake(64) for _ in range(3)], **options)
        calls = [on(stream=64), on(), on(stream=80), on(), on(stream=64)]
        for _ in range(3):
            before = len(shim.launches())
            aicf_rt.run(calls * 30)
            assert [x.stream for x in shim.launches()[before:]] == [64, 1, 80, 1, 64] * 30
        """)
    )


@pytest.mark.promise("DESIGN-5-launch", "S1")
def test_the_stream_of_each_launch(over: Over, ops: list[str]) -> None:
    """The framework's current one on the tensors' device, as it is at the launch; the default one
    where the framework cannot say. In a run it is asked once for launches that follow each other on
    one device."""
    over(
        code("""
        from modules.fake_exchange import Framework

        class Theirs(Framework):
            def _stream(self, kind, device, out):
                self.calls.append("stream")
                out[0] = self.current + device
                return self.answers.get("stream", 0)

        theirs = Theirs("own", "borrow", "stream", stream=64)
        made = theirs.type()
        add = module("add")
        three = [[made(fake(64, device=d)) for _ in range(3)] for d in (0, 1)]
        calls = [add.bind(*tensors) for tensors in three]
        one, two = calls

        def streams(run):
            before, asked = len(shim.launches()), theirs.calls.count("stream")
            assert run() in (True, None)
            used = [(x.device, x.stream) for x in shim.launches()[before:]]
            return used, theirs.calls.count("stream") - asked

        def typed(device):
            return lambda: add.add_f32(*three[device])

        for current in (64, 80, 96):
            theirs.current = current
            on = [(0, current), (1, current + 1)]
            for _ in range(3):
                for d in (0, 1, 1):
                    assert streams(calls[d]) == streams(typed(d)) == ([on[d]], 1)
            used, asked = streams(lambda: aicf_rt.run([one, one, two, two, two, one] * 20))
            assert used == [on[0], on[0], on[1], on[1], on[1], on[0]] * 20
            assert asked < 60
        theirs.answers["stream"] = -1
        for run in (one, typed(0), lambda: aicf_rt.run([one])):
            assert streams(run)[0] == [(0, 1)]
        assert shim.failed() == []
        """)
    )


@pytest.mark.promise("DESIGN-5-launch", "S1", "S12")
def test_what_a_bound_call_launches(over: Over, ops: list[str]) -> None:
    """After a few launches by its launcher it launches what that did, without it, on the stream of
    the moment. What is set, a device that is not current, a context that goes and threads without
    one are as before."""
    over(
        code("""
        import threading

        def shown(run):
            run()
            (line,) = [x for x in shim.lines() if x.name == "cudaLaunchKernel"][-1:]
            return [line.words[k] for k in ("kernel", "grid", "block", "smem", "stream")]

        def steps(run):
            before = len(shim.lines())
            run()
            return [line.name for line in shim.lines()[before:]]

        short = ["cuCtxGetId", "cudaLaunchKernel"]
        call = next(c for c in calls_of("gemm", (64,)) if c.kernel == "mma")
        bound = module("gemm").bind(*call.tensors(), stream=64, kernel="mma")
        first = shown(bound)
        for _ in range(4):
            assert shown(bound) == first
        assert (steps(bound) == short) == BY_DRIVER
        add = module("add").bind(*[fake(64) for _ in range(3)], stream=64)
        for _ in range(5):
            add()
        assert (steps(add) == short) == BY_DRIVER

        small = shown(add)
        add.set(a=fake(4096), b=fake(4096), out=fake(4096))
        large = shown(add)
        assert large[1] == "4,1,1" != small[1]
        for _ in range(5):
            assert shown(add) == large

        shim.set_device(1)  # current, and not the call's
        assert shown(add) == large and shim.device() == 1
        shim.set_device(0)
        assert (steps(add) == short) == BY_DRIVER
        wrong = []
        def body():
            try:
                assert shown(add) == large
            except BaseException as e:
                wrong.append(repr(e))
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        assert not wrong, wrong
        assert (steps(add) == short) == BY_DRIVER
        shim._library.shim_renew()
        for _ in range(3):
            assert shown(add) == large and shown(bound) == first
        shim.fails("cuLaunchKernel", 1, 1)
        assert shown(add) == large
        shim.fails("cuLaunchKernel", 1, 0)
        assert shim.failed() == []
        """)
    )
