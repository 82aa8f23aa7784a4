"""What launches look like: sizes, grids, streams, and what is not called on their way."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

Over = Callable[..., Any]

CHECK_GRIDS = """
    def check_grids(call):
        lines = shim.launches()
        assert lines, call
        for line in lines:
            assert line.words["error"] == "0", (call, line.text)
            x, y, z = line.three("grid")
            a, b, c = line.three("block")
            assert 1 <= x <= 2**31 - 1 and 1 <= y <= 65535 and 1 <= z <= 65535, (call, line.text)
            assert 1 <= a * b * c <= 1024, (call, line.text)
        return lines
"""


def code(text: str) -> str:
    return textwrap.dedent(CHECK_GRIDS) + textwrap.dedent(text)


@pytest.mark.promise("A2", "C4")
@pytest.mark.parametrize("count", [2**31 - 1, 2**31, 2**33])
def test_elements_beyond_32_bits(over: Over, ops: list[str], count: int) -> None:
    """All elements are covered: threads times what one does, or parts that add up. Indexes of a
    launch over views are of 32 bits: of packs of 16 bytes, one a thread, or of elements, four."""
    told: Any = over(
        code(f"""
        def threads(line):
            x, y, z = line.three("grid")
            a, b, c = line.three("block")
            return x * y * z * a * b * c, a * b * c

        ops = elementwise()
        for op in ops:
            for call in calls_of(op, ({count},)):
                shim.reset()
                assert call.run() is True, call
                lines = check_grids(call)
                covered = sum(threads(line)[0] for line in lines)
                pack = 128 // DTYPES[call.dtype][1]
                if call.kernel != "strided":
                    # A thread does at least an element and at most a pack, or four that it writes.
                    most = 4 * pack if op == "fill" else pack
                    assert {count} // most <= covered <= {count} + 4096, (call, covered)
                    continue
                rows = ["rows" in line.words["kernel"] for line in lines]
                assert all(rows) or not any(rows), call
                each = pack if rows[0] else 4
                need = -(-{count} // each)
                # No more than the last block's rest; a row has one pack more where it is cut.
                slack = sum(threads(line)[1] + 1 for line in lines)
                assert need <= covered <= need + slack, (call, need, covered)
                most = 2**31 - 1 if rows[0] else (2**31 - 1) // 4 + 1
                for line in lines:
                    assert threads(line)[0] - threads(line)[1] < most, (call, line.text)
        tell(ops)
        """)
    )
    assert len(told) >= 20, told


@pytest.mark.promise("A2")
def test_elements_that_overflow(over: Over, ops: list[str]) -> None:
    over("""
        sizes = [(2**31, 2**31), (2**62,), (2**63 - 1,), (2**32, 2**32), (3, 2**62)]
        for op in OPS:
            for call in calls_of(op):
                call.inputs = [sizes[0] for _ in call.inputs]
                assert call.run() is False, call
        for shape in sizes:
            assert module("relu").relu_f32(fake(*shape), fake(*shape)) is False, shape
            try:
                module("relu").relu(fake(*shape))
            except aicf_rt.Unsupported as e:
                assert "more than memory can hold" in str(e), e
            else:
                raise AssertionError(shape)
        assert shim.launches() == [] and shim.lines("cudaMallocAsync") == []
    """)


@pytest.mark.promise("C4", "A2")
@pytest.mark.parametrize("batch", [65535, 65536, 70000, 2**31])
def test_a_large_batch(over: Over, ops: list[str], batch: int) -> None:
    """Every kernel of every op, its packs this long and the other dims small, and the other way."""
    over(
        code(f"""
        import math
        n = {batch}
        for op in OPS:
            for packs, dim in (((n,), 8), ((n, 2), 8), ((2, n), 8), ((2,), n)):
                for call in calls_of(op, packs, dim):
                    shim.reset()
                    if call.run():
                        check_grids(call)
                        continue
                    largest = max(math.prod(shape) for shape in call.inputs + call.outs)
                    told = module(op).explain(*call.tensors(), **call.attributes)
                    mine = [line for line in told if line.startswith(call.kernel)]
                    assert largest >= 2**60 or (mine and "fits" not in mine[0]), (call, told)
        """),
        timeout=300,
    )


@pytest.mark.promise("C1", "T3")
def test_empty_calls_launch_nothing(over: Over, ops: list[str]) -> None:
    """Where the out is empty. Where the out of empty inputs is not, its identity is written."""
    told: Any = over("""
        ran = 0
        for op in OPS:
            for packs, dim in (((0,), 8), ((3, 0, 2), 8), ((3,), 0), ((0,), 0)):
                for call in calls_of(op, packs, dim):
                    shim.reset()
                    empty = all(0 in out for out in call.outs)
                    done = call.run()
                    if empty:
                        assert done is True, call
                        assert not [x for x in shim.lines() if "stream" in x.words], call
                        bound = module(op).bind(*call.tensors(), **call.attributes)
                        shim.reset()
                        bound()
                        assert shim.lines() == [], call
                    elif done:
                        assert shim.launches(), call
                        assert shim.failed() == [], call
                    ran += 1
        shim.reset()
        for op in OPS:
            call = next(calls_of(op, (0,), 8))
            inputs = call.tensors()[: -len(call.outs)]
            out = getattr(module(op), op)(*inputs, **call.attributes)
            assert tuple(out.shape) == call.outs[0], (call, out.shape)
        tell(ran)
    """)
    assert told >= 4 * len(ops)


@pytest.mark.promise("S1", "S2")
def test_the_stream(over: Over, ops: list[str]) -> None:
    """What launches and workspaces are on is what the producers were told, for every op."""
    over("""
        class Stream:
            def __cuda_stream__(self):
                return (0, 77)

        for op in OPS:
            call = next(calls_of(op, (3, 200), 600))
            for given, used in ((None, 1), (0, 1), (1, 1), (2, 2), (7, 7), (2**40, 2**40),
                                (Stream(), 77)):
                shim.reset()
                tensors = call.tensors()
                assert call.run_on(tensors, stream=given) is True, call
                lines = [line for line in shim.lines() if "stream" in line.words]
                assert shim.launches(), call
                assert {line.stream for line in lines} == {used}, (call, given)
                for tensor in tensors:
                    asked = tensor.asked if tensor else []
                    assert all(a["stream"] == used for a in asked), (call, given, asked)
        for wrong in (-1, True, 1.0, "7", (0, 7), object(), 2**64):
            shim.reset()
            tensors = call.tensors()
            try:
                call.run_on(tensors, stream=wrong)
            except TypeError as e:
                assert "stream" in str(e)
            else:
                raise AssertionError(wrong)
            assert all(not t.asked for t in tensors if t) and shim.lines() == []
    """)


@pytest.mark.promise("S8")
def test_what_a_launch_does_not_do(over: Over, ops: list[str]) -> None:
    """Each kernel of each op as the first call of its process, the stream being captured."""
    for op in ops:
        told = over(
            f"""
            seen = {{}}
            shim.capture(True)
            for call in calls_of({op!r}, (3, 200), 600):
                shim.reset()
                shim.capture(True)
                ran = call.run(stream=64)
                assert ran or call.kernel is not None, call
                seen[repr(call)] = len(shim.launches()) if ran else -1
                assert shim.failed() == [], call
                for line in shim.lines():
                    works = "stream" in line.words
                    ordered = line.name in ("cudaMallocAsync", "cudaFreeAsync")
                    assert ordered or not FORBIDDEN.match(line.name), (call, line.text)
                    assert not works or line.stream == 64, (call, line.text)
                    assert works or line.name in (
                        "cudaGetDevice", "cudaGetDeviceCount", "cudaPeekAtLastError",
                        "cudaDeviceGetAttribute", "cudaFuncSetAttribute", "cudaGetKernel",
                        "cudaGetDriverEntryPointByVersion", "cuCtxGetDevice", "cuDeviceGet",
                        "cuCtxGetId", "cuKernelGetFunction",
                    ), (call, line.text)
            tell(seen)
        """
        )
        assert told, op
        assert all(n != 0 for n in told.values()), told


@pytest.mark.promise("S8")
def test_without_a_workspace_nothing_is_allocated(over: Over, ops: list[str]) -> None:
    over("""
        for op in OPS:
            for call in calls_of(op, (3, 200), 600):
                own = next(k for k in call.row["kernels"] if k["id"] == call.kernel)
                shim.reset()
                if call.run() and "workspace" not in own:
                    assert shim.lines("cudaMallocAsync", "cudaFreeAsync") == [], call
                assert shim.live() == 0
    """)


@pytest.mark.promise("S12")
def test_function_attributes_never_shrink(over: Over, ops: list[str]) -> None:
    """Per kernel and device, over small and large calls of every op, in any order."""
    told = over("""
        most, seen = {}, 0
        for device in (0, 1, 0, 1):
            for packs, dim in (((2,), 64), ((2,), 2048), ((4,), 128), ((2,), 4096), ((2,), 64)):
                for op in OPS:
                    for call in calls_of(op, packs, dim):
                        call.run(device)
        for line in shim.lines("cudaFuncSetAttribute"):
            words = line.words
            key = (words["kernel"], line.device, words["attribute"])
            value = int(words["value"])
            assert value >= most.get(key, 0), (key, value, most)
            most[key] = value
            seen += 1
        tell(seen)
    """)
    assert told > 0 or "gemm" not in ops
