"""Producers beside one another on a GPU: torch, cupy, numba, jax, tvm-ffi and our own, mixed in one
call, each with work pending on a stream of its own."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from conftest import gpu_count, guest_version

torch = pytest.importorskip("torch")

from gpu.frameworks import numba_cuda  # noqa: E402
from gpu.test_exchange import Interface  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.guests("torch")]

COUNT = 1 << 16
SPIN = 2_000_000  # cycles: about a millisecond


def of_cupy(t: Any) -> Any:
    cupy = pytest.importorskip("cupy", reason="gpu: guest cupy")
    return cupy.from_dlpack(t)


def of_numba(t: Any) -> Any:
    return numba_cuda().as_cuda_array(t)


def of_tvm_ffi(t: Any) -> Any:
    return pytest.importorskip("tvm_ffi", reason="gpu: guest tvm_ffi").from_dlpack(t)


def of_ours(t: Any) -> Any:
    made = importlib.import_module("aicf_rt").empty(tuple(t.shape), "f32", "cuda")
    torch.from_dlpack(made).copy_(t)
    return made


class Only:
    """`__dlpack__` alone, with keywords."""

    def __init__(self, t: Any) -> None:
        self.t = t

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.t.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.t.__dlpack_device__()


# By the guest that each needs beside torch. They share the memory of a torch tensor, or copy it.
PRODUCERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "torch": ("torch", lambda t: t),
    "capsules": ("torch", Only),
    "array interface": ("torch", Interface),
    "Tensor": ("torch", of_ours),
    "cupy": ("cupy", of_cupy),
    "numba": ("numba", of_numba),
    "tvm-ffi": ("tvm_ffi", of_tvm_ffi),
}
KINDS = [
    pytest.param(name, marks=[pytest.mark.guests(guest)]) for name, (guest, _) in PRODUCERS.items()
]


@pytest.mark.promise("PRODUCERS-mixed")
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_mixed_producers(add: Any, first: str, second: str) -> None:
    x, y = torch.randn(2, 6, 8, device="cuda")
    torch.cuda.synchronize()
    a, b = PRODUCERS[first][1](x), PRODUCERS[second][1](y)
    torch.cuda.synchronize()
    out = torch.full_like(x, float("nan"))
    assert add.add_f32(a, b, out) is True, add.explain(a, b, out)
    assert torch.equal(out, x + y)
    made = add.add(a, b)
    torch.cuda.synchronize()
    if not isinstance(made, torch.Tensor):
        made = torch.from_dlpack(made) if hasattr(made, "__dlpack__") else torch.as_tensor(made)
    assert torch.equal(made, x + y)


@pytest.mark.promise("PRODUCERS-mixed", "S1", "S4", "STREAMS-one-rule")
@pytest.mark.guests("cupy", "numba")
@pytest.mark.parametrize("order", list(itertools.permutations(("torch", "cupy", "numba"), 2)))
@pytest.mark.parametrize("given", [False, True])
def test_each_ones_work_comes_first(add: Any, order: tuple[str, str], given: bool) -> None:
    """Both inputs are written on busy streams of their own; the sum is exact each time."""
    cupy = pytest.importorskip("cupy", reason="gpu: guest cupy")
    streams = {name: torch.cuda.Stream() for name in ("torch", "cupy", "numba", "given")}
    memory = {name: torch.zeros(COUNT, device="cuda") for name in order}
    out = torch.zeros(COUNT, device="cuda")
    torch.cuda.synchronize()
    views: dict[str, Any] = {}
    for name, t in memory.items():
        views[name] = {"torch": lambda t: t, "cupy": of_cupy}.get(
            name, lambda t: Interface(t, stream=streams["numba"].cuda_stream)
        )(t)
    current = cupy.cuda.ExternalStream(streams["cupy"].cuda_stream)
    stream = streams["given"] if given else None
    for i in range(1, 100):
        for k, name in enumerate(order):
            with torch.cuda.stream(streams[name]):
                torch.cuda._sleep(SPIN)
                memory[name].fill_(i * (k + 1))
        with torch.cuda.stream(streams["torch"]), current:
            assert add.add_f32(views[order[0]], views[order[1]], out, stream=stream) is True
        torch.cuda.synchronize()
        assert bool((out == 3 * i).all()), f"repeat {i}"


@pytest.mark.promise("T5", "PRODUCERS-all")
@pytest.mark.guests("numba")
@pytest.mark.parametrize("kind", ["device_array", "managed_array", "mapped_array"])
def test_numbas_kinds_of_memory(add: Any, kind: str) -> None:
    cuda = numba_cuda()
    if not hasattr(cuda, kind):
        pytest.skip("gpu: this numba has no such array")
    x, out = (getattr(cuda, kind)(COUNT, "f4") for _ in range(2))
    views = [torch.as_tensor(t, device="cuda") for t in (x, out)]
    views[0].copy_(torch.randn(COUNT))
    torch.cuda.synchronize()
    assert add.add_f32(x, x, out) is True
    torch.cuda.synchronize()
    assert torch.equal(views[1], 2 * views[0])


@pytest.mark.promise("T5", "T18", "PRODUCERS-all")
@pytest.mark.guests("cupy")
def test_cupys_views(add: Any) -> None:
    """cupy 14 exports negative strides as huge ones: refused, whatever the place."""
    cupy = pytest.importorskip("cupy", reason="gpu: guest cupy")
    x, out = cupy.arange(48, dtype="f4").reshape(6, 8), cupy.zeros((6, 8), "f4")
    for view in (x, x.T, x[1:, 1:], x[::2, ::3], x[:0], x[3, 5]):
        made = add.add(view, view)
        assert isinstance(made, cupy.ndarray)
        assert bool((made == view + view).all())
    for view in (x[::-1], x[:, ::-1]):
        assert add.add_f32(view, x, out) is False
        assert add.add_f32(x, x, view) is False
    flags = x > 3
    copied = importlib.import_module("aicf_cuda.copy").copy(flags)
    assert copied.dtype == flags.dtype
    assert bool((copied == flags).all())


@pytest.mark.promise("T5", "PRODUCERS-hostile")
@pytest.mark.parametrize("place", range(3))
def test_an_address_that_is_no_memory_of_a_device(add: Any, place: int) -> None:
    """Host memory that nobody registered, and none at all: refused; the context lives on."""
    host = torch.ones(COUNT)
    x = torch.ones(COUNT, device="cuda")
    for address in (host.data_ptr(), 4096):
        args: list[Any] = [x, x, torch.zeros_like(x)]
        args[place] = Interface(x, data=(address, False))
        with pytest.raises(TypeError, match="which is no memory of a device"):
            add.add_f32(*args)
    assert torch.equal(add.add(x, x), x + x)
    torch.cuda.synchronize()


@pytest.mark.promise("T16")
def test_pinned_memory(add: Any) -> None:
    """No backend of the table takes it by DLPack; by the array interface it is the device's."""
    pinned = torch.ones(COUNT).pin_memory()
    x = torch.ones(COUNT, device="cuda")
    assert add.add_f32(Only(pinned), x, x.clone()) in (False, True)
    out = torch.zeros_like(x)
    assert add.add_f32(Interface(pinned), x, out) is True
    torch.cuda.synchronize()
    assert bool((out == 2).all())


@pytest.mark.promise("A4", "D4")
@pytest.mark.parametrize("kind", KINDS)
def test_host_and_device_mixed(add: Any, kind: str) -> None:
    unsupported = importlib.import_module("aicf_rt").Unsupported
    x = PRODUCERS[kind][1](torch.ones(4, device="cuda"))
    for args in ((x, torch.ones(4)), (torch.ones(4), x)):
        with pytest.raises(unsupported, match=r"cpu.*cuda:0|cuda:0.*cpu"):
            add.add(*args)


@pytest.mark.promise("A4", "T5")
@pytest.mark.parametrize("kind", KINDS)
def test_the_second_device(add: Any, kind: str) -> None:
    """The array interface does not say which device it is: the driver does."""
    if gpu_count() < 2:
        pytest.skip("gpu: needs two")
    with torch.cuda.device(1):
        t = torch.randn(COUNT, device="cuda:1")
        x = PRODUCERS[kind][1](t) if kind != "Tensor" else t
    out = torch.zeros_like(t)
    torch.cuda.synchronize(1)
    assert torch.cuda.current_device() == 0
    assert add.add_f32(x, x, out) is True, add.explain(x, x, out)
    torch.cuda.synchronize(1)
    assert torch.equal(out, 2 * t)
    assert torch.cuda.current_device() == 0


JAX = """
    import torch
    torch.zeros(1, device="cuda")
    import jax, jax.numpy as jnp, numpy as np
    from aicf_cuda import add
    x = jnp.arange(4096, dtype="float32")
    assert x.devices().pop().platform == "gpu", x.devices()
    t = torch.ones(4096, device="cuda")
    for i in range(50):
        y = jax.jit(lambda a, i: a * i)(x, i)
        out = torch.zeros(4096, device="cuda")
        assert add.add_f32(y, t, out) is True
        assert np.array_equal(out.cpu().numpy(), np.arange(4096, dtype="f4") * i + 1)
        assert isinstance(add.add(t, y), torch.Tensor)
        made = add.add(y, t)
        assert isinstance(made, jax.Array), type(made)
        assert np.array_equal(np.asarray(made), np.asarray(y) + 1)
        assert add.add_f32(t, t, y) is False
"""


@pytest.mark.guests("jax")
@pytest.mark.promise("PRODUCERS-mixed", "FAULT-11")
def test_jax_beside_torch(start: Any) -> None:
    start(JAX, XLA_PYTHON_CLIENT_PREALLOCATE="false").output()


@pytest.mark.promise("T11")
def test_bools(add: Any) -> None:
    copy = importlib.import_module("aicf_cuda.copy")
    x = torch.randn(100, device="cuda") > 0
    assert torch.equal(copy.copy(x), x)
    assert copy.copy_u8(x, x.to(torch.uint8)) is False
    if guest_version("cupy"):
        made = copy.copy(of_cupy(x))
        assert made.dtype == bool
