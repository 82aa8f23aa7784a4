"""Omitted outs: whose memory they are, what of a framework's modes reaches them, and that the call
that is made most gives what the long way gives."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from modules.fake_exchange import Framework
from modules.fake_producer import FakeProducer

SMALL = 64 * 1024  # bytes up to which torch is handed memory of ours


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def twice(function: Callable[[], Any]) -> Any:
    """What the second call gives: the first learns the types, and takes the long way."""
    function()
    return function()


def steps(x: Any) -> list[int]:
    """The strides that say anything."""
    strides = x.strides if isinstance(x, np.ndarray) else x.stride()
    return [step for size, step in zip(x.shape, strides, strict=True) if size > 1]


@pytest.mark.promise("OUTS-most")
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 1, 5), (1,), (), (0, 3), (1, 1, 1), (64, 257)])
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8"])
def test_numpy(add: Any, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(len(shape))
    a, b = (np.asarray(rng.integers(-9, 9, shape), dtype) for _ in range(2))
    for _ in range(2):
        out = np.full(shape, np.nan, dtype)
        made, long = add.add(a, b), add.add(a, b, kernel="loop")
        for one in (made, long):
            assert type(one) is np.ndarray
            assert (one.shape, one.dtype, one.flags.c_contiguous) == (shape, a.dtype, True)
            assert one.base is None
            np.testing.assert_array_equal(one, a + b)
        assert add.add(a, b, out=out) is out
        np.testing.assert_array_equal(out, a + b)


@pytest.mark.guests("torch")
@pytest.mark.promise("OUTS-most")
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 1, 5), (1,), (), (0, 3), (64, 257), (SMALL,)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_torch(add: Any, torch: Any, shape: tuple[int, ...], dtype: str) -> None:
    a, b = (torch.randint(-9, 9, shape).to(getattr(torch, dtype)) for _ in range(2))
    for _ in range(2):
        out = torch.full(shape, float("nan"), dtype=a.dtype)
        made, long = add.add(a, b), add.add(a, b, kernel="loop")
        for one in (made, long):
            assert type(one) is torch.Tensor
            assert (one.shape, one.dtype, one.device) == (a.shape, a.dtype, a.device)
            assert one.is_contiguous()
            assert one.data_ptr() % 64 == 0
            assert not one.requires_grad
            assert torch.equal(one, a + b)
        version = out._version
        assert add.add(a, b, out=out) is out
        assert out._version == version + 1
        assert torch.equal(out, a + b)


@pytest.mark.promise("OUTS-most")
def test_calls_of_other_kinds_in_turn(add: Any, torch: Any, unsupported: Any) -> None:
    """One shape, broadcasts, other dtypes, refusals: no call sees what the one before was."""
    row, grid = np.ones(4, "f4"), np.ones((3, 4), "f4")
    wide, half = torch.ones(3, 4), torch.ones(3, 4, dtype=torch.float16)
    for _ in range(3):
        assert add.add(grid, grid).tolist() == [[2.0] * 4] * 3
        assert add.add(grid, row).shape == (3, 4)
        assert add.add(row, grid).shape == (3, 4)
        assert add.add(row, row).shape == (4,)
        assert type(add.add(wide, grid)) is torch.Tensor
        assert type(add.add(grid, wide)) is np.ndarray
        assert add.add(half, half).dtype == torch.float16
        for wrong in (
            (wide, half),
            (grid, grid[:, :3]),
            (row, row.astype("f8")),
            (wide, wide[0, :3]),
        ):
            with pytest.raises(unsupported):
                add.add(*wrong)
        with pytest.raises(unsupported, match="out: "):
            add.add(row, row, out=row[:3])
        with pytest.raises(unsupported, match="shares memory"):
            add.add(row[:3], row[:3], out=row[1:])
        fixed = np.ones(4, "f4")
        fixed.flags.writeable = False
        with pytest.raises(unsupported, match="read-only"):
            add.add(row, row, out=fixed)


@pytest.mark.guests("torch")
@pytest.mark.promise("OUTS-order")
def test_the_memory_order_of_an_input(add: Any, torch: Any) -> None:
    grid = torch.arange(24.0).reshape(2, 3, 4)
    for a in (grid.permute(2, 0, 1), grid.mT, grid.permute(1, 2, 0), grid[:, :1].mT, grid):
        for big in (a, a.repeat(1, 1, SMALL // 96)):
            made = twice(partial(add.add, big, big))
            assert torch.equal(made, big + big)
        array = a.numpy()
        for x in (a, array):
            made = twice(partial(add.add, x, x))
            assert steps(made) == steps(x + x)


@pytest.mark.guests("torch")
@pytest.mark.promise("OUTS-modes")
@pytest.mark.parametrize("count", [8, SMALL])
def test_defaults_do_not_reach_it(add: Any, torch: Any, count: int) -> None:
    a = torch.ones(count)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.use_deterministic_algorithms(True)
        made = twice(lambda: add.add(a, a))
        with torch.device("meta"):
            inside = add.add(a, a)
    finally:
        torch.set_default_dtype(before)
        torch.set_default_device(None)
        torch.use_deterministic_algorithms(False)
    for one in (made, inside):
        assert (one.dtype, one.device.type) == (torch.float32, "cpu")
        assert torch.equal(one, a + a)


@pytest.mark.guests("torch")
@pytest.mark.promise("OUTS-modes")
@pytest.mark.parametrize("count", [8, SMALL])
def test_modes_of_torch(add: Any, torch: Any, count: int) -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return f(*args, **(kwargs or {}))

    class Dispatches(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return f(*args, **(kwargs or {}))

    a = torch.ones(count)
    add.add(a, a)
    for mode in (Functions(), Dispatches(), torch.no_grad(), torch.enable_grad()):
        with mode:
            made = twice(lambda: add.add(a, a))
        assert type(made) is torch.Tensor
        assert torch.equal(made, a + a)
    with torch.inference_mode():
        made = twice(lambda: add.add(a, a))
        assert made.is_inference()
    assert torch.equal(made, torch.full((count,), 2.0))


@pytest.mark.guests("torch")
@pytest.mark.promise("OUTS-modes", "FAULT-11")
def test_a_mode_that_moves_an_input(add: Any, torch: Any) -> None:
    """Python that runs while the out is made: what was seen before that is looked at again."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Moves(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "empty" in str(f):
                a.set_(torch.full((SMALL,), 5.0))
            return f(*args, **(kwargs or {}))

    a, b = torch.ones(SMALL), torch.ones(SMALL)
    add.add(a, b)
    with Moves():
        made = add.add(a, b)
    assert torch.equal(made, torch.full((SMALL,), 6.0))


@pytest.mark.guests("torch")
@pytest.mark.promise("OUTS-modes")
def test_subclasses_and_parameters(add: Any, torch: Any, unsupported: Any) -> None:
    class Sub(torch.Tensor):  # type: ignore[misc]
        pass

    plain = torch.ones(8)
    for x in (plain.as_subclass(Sub), torch.nn.Parameter(plain, requires_grad=False)):
        assert type(twice(partial(add.add, x, plain))) is torch.Tensor
        assert type(twice(partial(add.add, plain, x))) is torch.Tensor
    needs = torch.ones(8, requires_grad=True)
    for _ in range(2):
        for args in ((needs, plain), (plain, needs)):
            with pytest.raises(unsupported, match="requires grad"):
                add.add(*args)
        with pytest.raises(unsupported, match="requires grad"):
            add.add(plain, plain, out=needs)
        with torch.no_grad():
            assert not add.add(needs, plain).requires_grad


@pytest.mark.guests("torch")
@pytest.mark.promise("OUTS-memory", "FAULT-1")
def test_the_memory_lives_as_long_as_it_is_used(add: Any, torch: Any) -> None:
    a = torch.ones(100)
    made = twice(lambda: add.add(a, a))
    view, shared = made[10:20], made.numpy()
    del made
    gc.collect()
    churn = [torch.zeros(100) for _ in range(100)]
    assert view.tolist() == [2.0] * 10
    assert shared.tolist() == [2.0] * 100
    assert len(churn) == 100
    moved = add.add(a, a).share_memory_()
    assert moved.tolist() == [2.0] * 100


@pytest.mark.promise("OUTS-memory", "EXCHANGE-allocator")
def test_other_frameworks_are_asked_also_for_little(add: Any) -> None:
    framework = Framework("own", "borrow", "allocate", "wrap")
    x = framework.type()(FakeProducer(4))
    add.add(x, x)
    before = [framework.calls.count(name) for name in ("allocate", "wrap")]
    made = add.add(x, x)
    assert type(made).__name__ == "Exchanged"
    assert [framework.calls.count(n) for n in ("allocate", "wrap")] == [n + 1 for n in before]
    del made
    framework.answers["wrap"] = -1
    with pytest.raises(RuntimeError, match="did not take"):
        add.add(x, x)
    framework.answers = {"allocate": -1}
    with pytest.raises(MemoryError, match="no room"):
        add.add(x, x)
    framework.answers = {}
    framework.hands_over = None
    assert type(add.add(x, x)).__name__ == "Exchanged"


@pytest.mark.guests("jax")
@pytest.mark.promise("PRODUCERS-all", "T12")
def test_jax_by_buffer_and_by_dlpack_in_turn(add: Any, unsupported: Any) -> None:
    """Its arrays on the host are read by their buffer, also ones that are still computed; bf16 has
    none, and what is deleted has no memory."""
    jax = pytest.importorskip("jax")
    numpy = jax.numpy
    heavy = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, y: numpy.tanh(y @ x) + i, x))
    x = numpy.ones((256, 256), "float32")
    want = np.asarray(heavy(x))
    half = numpy.ones(8, "bfloat16")
    for _ in range(3):
        out = np.zeros((256, 256), "f4")
        assert add.add_f32(heavy(x), x, out) is True
        np.testing.assert_array_equal(out, want + 1)
        assert add.add_f32(half, half, out) is False
        assert add.add(half, half).tolist() == [2.0] * 8
        with pytest.raises(unsupported, match="read-only"):
            add.add(out, out, out=x)
    gone = numpy.ones(8, "float32") + 1
    gone.delete()
    for _ in range(2):
        assert add.add_f32(gone, gone, np.zeros(8, "f4")) is False
        with pytest.raises(unsupported, match="it has no plain memory"):
            add.add(gone, gone)
        assert add.add(half, half).tolist() == [2.0] * 8
