"""Frameworks' tensors on a GPU: every way that they lie in memory, and imports in any order."""

from __future__ import annotations

import ctypes
import gc
import importlib
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpu.cases import SUFFIX  # noqa: E402
from gpu.frameworks import numba_cuda  # noqa: E402

pytestmark = [pytest.mark.guests("torch")]

# Views of a tensor of shape (6, 8, 10), by what they are for.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "slice": lambda x: x[4:],
    "slice of the last dim": lambda x: x[..., 3:],
    "steps": lambda x: x[::2, 1::3, ::5],
    "narrow": lambda x: x.narrow(1, 3, 4),
    "chunk": lambda x: x.chunk(3, 2)[1],
    "split": lambda x: x.split(4)[1],
    "select": lambda x: x[2, :, 7],
    "one element": lambda x: x[5, 7, 9],
    "as_strided": lambda x: x.as_strided((3, 7), (20, 2), 11),
    "windows that overlap": lambda x: x.as_strided((9, 16), (3, 1), 5),
    "transposed": lambda x: x.mT,
    "permuted": lambda x: x.permute(2, 0, 1),
    "flat, one past an alignment": lambda x: x.view(-1)[1:],
    "flat, three past an alignment": lambda x: x.view(-1)[3:-2],
    "expanded": lambda x: x[:, :1].expand(6, 8, 10),
    "a dim of 1 in front": lambda x: x[None],
    "a dim of 1 behind": lambda x: x[..., None],
    "dims of 1 with odd strides": lambda x: x.as_strided((1, 6, 1, 10), (7, 80, 3, 1), 2),
    "dims of 1 without strides": lambda x: x.as_strided((6, 1, 10), (80, 0, 1)),
    "0-d": lambda x: x.sum(),
    "channels last": lambda x: x[None].contiguous(memory_format=torch.channels_last),
    "empty": lambda x: x[:0],
    "empty inside": lambda x: x[:, 4:4],
    "empty, at an offset": lambda x: x.view(-1)[480:],
    "unfolded": lambda x: x.unfold(2, 4, 3),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "detached": lambda x: x.clone().requires_grad_().detach(),
}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def numbers(device: str, dtype: Any = None) -> Any:
    return torch.randn(6, 8, 10).to(device, dtype or torch.float32)


@pytest.mark.promise("T1", "T2", "T3", "T18")
@pytest.mark.parametrize("view", VIEWS)
def test_views(add: Any, device: str, view: str) -> None:
    """As inputs, read where they lie; the same of a clone."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        typed = getattr(add, f"add_{SUFFIX[dtype]}")
        base = numbers(device, dtype)
        x = VIEWS[view](base)
        y = torch.randn(x.shape, device=device).to(dtype)
        for a, b in ((x, y), (y, x), (x, x)):
            out = torch.full(x.shape, float("nan"), dtype=dtype, device=device)
            assert typed(a, b, out) is True, add.explain(a, b, out)
            assert torch.equal(out, a + b), f"{view} {dtype}"
            assert torch.equal(add.add(a, b), a.clone() + b.clone())


@pytest.mark.promise("T1", "T2", "T3", "T18")
@pytest.mark.parametrize(
    "view", [v for v in VIEWS if not v.startswith(("windows", "expanded", "0-d", "unfolded"))]
)
def test_views_as_outs(add: Any, device: str, view: str) -> None:
    """Exactly what the view shows is written."""
    base = numbers(device)
    want = base.clone()
    if view in ("channels last", "detached"):  # copies: what they show is all there is
        base = VIEWS[view](base)
        want = base.clone()
        target, expected = base, want
    else:
        target, expected = VIEWS[view](base), VIEWS[view](want)
    x, y = torch.randn(2, *target.shape, device=device)
    expected.copy_(x + y)
    assert add.add_f32(x, y, target) is True
    assert torch.equal(base, want)


@pytest.mark.promise("T3", "C1")
def test_empty_tensors(add: Any, device: str) -> None:
    for shape in ((0,), (0, 5), (5, 0), (2, 0, 3), (0, 0)):
        x = torch.empty(shape, device=device)
        made = add.add(x, x)
        assert (made.shape, made.device) == (x.shape, x.device)
        assert add.add_f32(x, x, x) is True
        assert add.add_f32(x, x, torch.empty((*shape, 1), device=device)) is False


@pytest.mark.promise("A12")
def test_requires_grad(add: Any, device: str) -> None:
    x = torch.ones(4, device=device, requires_grad=True)
    y = torch.ones(4, device=device)
    with pytest.raises(importlib.import_module("aicf_rt").Unsupported, match="requires grad"):
        add.add(x, y)
    assert add.add_f32(x, y, torch.empty(4, device=device)) is True
    with torch.no_grad():
        assert torch.equal(add.add(x, y), y + y)


@pytest.mark.promise("T6", "T7", "T20")
def test_calls_that_fail_keep_nothing(add: Any, device: str) -> None:
    """10,000 of them, on tensors whose memory would show."""
    unsupported = importlib.import_module("aicf_rt").Unsupported
    big = torch.zeros(1 << 18, device=device)
    other = torch.zeros(1 << 17, device=device)

    class Only:
        """The same by __dlpack__, capsule and all."""

        def __init__(self, t: Any) -> None:
            self.t = t

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.t.__dlpack__(**keywords)

        def __dlpack_device__(self) -> Any:
            return self.t.__dlpack_device__()

    def fail() -> None:
        assert add.add_f32(big, other, big) is False
        assert add.add_f32(big[1:], Only(other), Only(big)) is False
        with pytest.raises(unsupported):
            add.add(big, Only(other))
        with pytest.raises(unsupported):
            add.bind(big, big, other)
        with pytest.raises(TypeError):
            add.add_f32(Only(big), big, 3)

    def held() -> int:
        return int(torch.cuda.memory_allocated()) if device == "cuda" else 0

    for _ in range(20):
        fail()
    gc.collect()
    before = held()
    for _ in range(2_000 if device == "cuda" else 100):
        fail()
    gc.collect()
    assert held() == before


@pytest.mark.gpu
@pytest.mark.promise("T7")
def test_calls_that_work_keep_nothing(add: Any, rt: Any) -> None:
    big = torch.zeros(1 << 18, device="cuda")
    add.add(big, big)
    before, pooled = torch.cuda.memory_allocated(), used_of_the_pool()
    for i in range(10_000):
        add.add(big, big)
        if i % 100 == 0:
            torch.from_dlpack(rt.empty((1 << 18,), "f32", "cuda")).zero_()
            add.bind(big, big, big)()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
    assert used_of_the_pool() == pooled


def used_of_the_pool() -> int:
    """Bytes that this process has of CUDA's own stream-ordered allocator."""
    torch.cuda.synchronize()
    driver = ctypes.CDLL("libcuda.so.1")
    pool, used = ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
    current = 7  # CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    assert driver.cuMemPoolGetAttribute(pool, current, ctypes.byref(used)) == 0
    return used.value


# ---- other producers ----------------------------------------------------------------------------


class Interface:
    """A torch tensor by the array interface alone."""

    def __init__(self, t: Any, **changed: Any) -> None:
        self.t = t
        entries = {
            "shape": tuple(t.shape),
            "typestr": "<f4",
            "data": (t.data_ptr(), False),
            "strides": tuple(4 * s for s in t.stride()),
            "version": 3,
            **changed,
        }
        self.__cuda_array_interface__ = {k: v for k, v in entries.items() if v != "absent"}


@pytest.mark.gpu
@pytest.mark.promise("T5")
@pytest.mark.parametrize("view", VIEWS)
def test_the_array_interface(add: Any, view: str) -> None:
    x = VIEWS[view](numbers("cuda"))
    out = torch.full(x.shape, float("nan"), device="cuda")
    torch.cuda.synchronize()
    assert add.add_f32(Interface(x), Interface(x), Interface(out)) is True
    torch.cuda.synchronize()
    assert torch.equal(out, x + x)
    dense, torn = x.clone().contiguous(), torch.full(x.shape, float("nan"), device="cuda")
    torch.cuda.synchronize()
    for strides in (None, "absent"):
        assert add.add_f32(Interface(dense, strides=strides), dense, torn) is True
    pointer = (None if x.numel() == 0 else dense.data_ptr(), False)
    assert add.add_f32(Interface(dense, data=pointer), dense, torn) is True
    torch.cuda.synchronize()
    assert torch.equal(torn, dense + dense)
    read_only = Interface(torn, data=(torn.data_ptr(), True))
    assert add.add_f32(dense, dense, read_only) is False


@pytest.mark.gpu
@pytest.mark.guests("cupy")
@pytest.mark.promise("T2", "T3", "T4", "T5", "FAULT-15")
def test_cupys_arrays(add: Any) -> None:
    cupy = pytest.importorskip("cupy")
    base = cupy.asarray(torch.randn(6, 8, 10).numpy())
    views = [
        base, base[4:], base[..., 3:], base[::2, 1::3, ::5], base.transpose(2, 0, 1), base[None],
        base[..., None], base[:0], base[:, 4:4], base[2, 3, 4], base.ravel()[1:], base.sum(),
        cupy.broadcast_to(base[:, :1], (6, 8, 10)), base[:1].swapaxes(1, 2),
    ]  # fmt: skip
    for x in views:
        out = cupy.full(x.shape, cupy.nan, "f4")
        assert add.add_f32(x, x, out) is True, add.explain(x, x, out)
        assert bool((out == x + x).all())
        made = add.add(x, x)
        assert isinstance(made, cupy.ndarray)
        assert bool((made == out).all())
        mixed = torch.full(x.shape, float("nan"), device="cuda")
        cupy.cuda.get_current_stream().synchronize()
        torch.cuda.synchronize()
        assert add.add_f32(x, out, mixed) is True
        torch.cuda.synchronize()
        assert bool((cupy.asarray(mixed) == x + out).all())
    # cupy 14 divides strides as unsigned numbers: what it exports of a negative one is no stride.
    assert add.add_f32(base[::-1], base, cupy.empty_like(base)) is False
    assert add.add_f32(base, base, cupy.zeros((6, 8, 9), "f4")) is False


@pytest.mark.gpu
@pytest.mark.guests("numba")
@pytest.mark.promise("T5")
def test_numbas_arrays(add: Any) -> None:
    cuda = numba_cuda()
    host = torch.randn(6, 8).numpy()
    for x in (cuda.to_device(host), cuda.to_device(host)[2:], cuda.to_device(host.T)):
        out = cuda.to_device(torch.full(x.shape, float("nan")).numpy())
        cuda.synchronize()
        assert add.add_f32(x, x, out) is True, add.explain(x, x, out)
        torch.cuda.synchronize()
        assert (out.copy_to_host() == 2 * x.copy_to_host()).all()
    empty = cuda.device_array((0, 5), host.dtype)
    assert add.add_f32(empty, empty, empty) is True


JAX = """
    import jax, jax.numpy as jnp, numpy as np
    from aicf_cuda import add
    x = jnp.asarray(np.random.default_rng(0).standard_normal((6, 8, 10)), dtype="float32")
    assert x.devices().pop().platform == "gpu", x.devices()
    for view in (x, x[4:], x[:0], x[:, :1], x[2, 3, 4], x[None]):
        made = add.add(view, view)
        assert isinstance(made, jax.Array), type(made)
        assert made.shape == view.shape
        np.testing.assert_array_equal(np.asarray(made), 2 * np.asarray(view))
        assert add.add_f32(view, view, view) is False  # jax's arrays are immutable
    jitted = jax.jit(lambda a: a * 3)(x)
    np.testing.assert_array_equal(np.asarray(add.add(jitted, x)), np.asarray(jitted + x))
"""


@pytest.mark.gpu
@pytest.mark.guests("jax")
@pytest.mark.promise("T2", "T3", "T4")
def test_jaxs_arrays(start: Any) -> None:
    start(JAX, XLA_PYTHON_CLIENT_PREALLOCATE="false").output()


# ---- imports ------------------------------------------------------------------------------------

OURS_FIRST = """
    from gpu.bare import check_add
    check_add()
    import torch
    from aicf_cuda import add, gemm
    x = torch.randn(1000, device="cuda")
    assert torch.equal(add.add(x, x), x + x)
    a = torch.randn(64, 64, device="cuda").half()
    assert torch.allclose(gemm.gemm(a, a), a @ a, atol=0.1)
    check_add()
    graph, out = torch.cuda.CUDAGraph(), torch.zeros_like(x)
    with torch.cuda.graph(graph):
        add.add_f32(x, x, out)
    graph.replay()
    assert torch.equal(out, x + x)
"""

TORCH_FIRST = """
    import torch
    from aicf_cuda import add
    x = torch.randn(1000, device="cuda")
    assert torch.equal(add.add(x, x), x + x)
    from gpu.bare import check_add
    check_add()
    assert torch.equal(torch.cumsum(x, 0), torch.cumsum(x, 0))
"""

# Counting devices, importing and asking what an op can do is no use of a GPU.
NO_CONTEXT = """
    import ctypes
    from aicf_cuda import add, gemm, sum
    import aicf_rt
    assert add.capability["op"] == "add"
    add.explain(memoryview(bytes(4)).cast("f"), memoryview(bytes(4)).cast("f"))
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuInit(0) == 0
    flags, active = ctypes.c_uint(), ctypes.c_int(-1)
    assert driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0
    assert active.value == 0
    from gpu.bare import check_add
    check_add()
    driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active))
    assert active.value == 1
"""


@pytest.mark.gpu
@pytest.mark.promise("I3", "I6")
def test_imports_in_any_order(start: Any) -> None:
    running = [start(code) for code in (OURS_FIRST, TORCH_FIRST, NO_CONTEXT)]
    for process in running:
        process.output()


# A tensor that claims to be on a GPU, for there may be none to put one on.
HIDDEN = """
    import aicf_rt
    from aicf_cuda import add
    from modules.fake_producer import FakeProducer
    x = memoryview(bytearray(16)).cast("f")
    assert add.add_f32(x, x, x) is True
    made = lambda: FakeProducer(device_type=2)
    for call in (
        lambda: aicf_rt.empty((4,), "f32", "cuda"),
        lambda: add.add_f32(made(), made(), made()),
        lambda: add.bind(made(), made(), made())(),
    ):
        try:
            call()
        except aicf_rt.CudaError as error:
            assert error.name in ("cudaErrorNoDevice", "cudaErrorInsufficientDriver"), error
            print(error)
        else:
            raise AssertionError("nothing was raised")
"""


@pytest.mark.gpu
@pytest.mark.promise("C8", "I2")
def test_a_gpu_that_is_hidden(start: Any) -> None:
    running = {text: start(HIDDEN, CUDA_VISIBLE_DEVICES=text) for text in ("", "99")}
    for text, process in running.items():
        lines = process.output().strip().splitlines()
        assert len(lines) == 3, (text, lines)
        for line in lines:
            assert "cudaErrorNoDevice (100)" in line, (text, line)
            assert "CUDA_VISIBLE_DEVICES" in line, (text, line)
