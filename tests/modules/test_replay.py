"""What a bound call does once its tensors were resized, re-seated or freed: the table in
docs/calling.md, "What a bound call keeps", one test a line. Either it computes on the memory that
it was bound to, which it keeps alive, or an error says that this memory is gone."""

from __future__ import annotations

import array
import gc
import mmap
import weakref
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.promise("S5", "DESIGN-5-replay")

COUNT = 4096  # 16 KiB: freed memory of that size is given out again at once


def churn() -> None:
    """Takes what was freed, and spoils it."""
    gc.collect()
    for _ in range(50):
        np.full(COUNT, np.nan, "f4")


def numbers(value: float = 1) -> Any:
    return np.full(COUNT, value, "f4")


def replays(call: Any, out: Any, want: float) -> None:
    churn()
    out[:] = -1
    assert call() is None
    assert (np.asarray(out) == want).all()


def moved(call: Any, rt: Any, unsupported: type[Exception], arg: str = "a") -> None:
    """Both ways of launching refuse, and say which tensor it is."""
    churn()
    for launch in (call, lambda: rt.run([call])):
        words = f"add: {arg}: its memory was resized after it was bound: set\\(\\) it again"
        with pytest.raises(unsupported, match=words) as refused:
            launch()
        assert (refused.value.op, refused.value.arg) == ("add", arg)  # type: ignore[attr-defined]


# ---- torch ----------------------------------------------------------------------------------


@pytest.fixture
def torch_bound(add: Any) -> tuple[Any, Any, Any]:
    torch = pytest.importorskip("torch")
    a, out = torch.ones(COUNT), torch.zeros(COUNT)
    return add.bind(a, torch.ones(COUNT), out), a, out


@pytest.mark.guests("torch")
def test_torch_resize_past_the_storage(torch_bound: Any, rt: Any, unsupported: Any) -> None:
    call, a, out = torch_bound
    a.resize_(COUNT * 64)
    moved(call, rt, unsupported)
    with pytest.raises(unsupported, match="add: a: its memory was resized"):
        call.set(b=out.clone())
    a.resize_(COUNT).fill_(3)
    moved(call, rt, unsupported)
    call.set(a=a)
    replays(call, out, 4)


@pytest.mark.guests("torch")
@pytest.mark.parametrize("size", [[COUNT // 2], [0], [2, COUNT // 2]])
def test_torch_resize_within_the_storage(torch_bound: Any, size: list[int]) -> None:
    call, a, out = torch_bound
    a.resize_(size)
    replays(call, out, 2)


@pytest.mark.guests("torch")
def test_torch_resize_of_the_out(torch_bound: Any, rt: Any, unsupported: Any) -> None:
    call, _, out = torch_bound
    out.resize_(COUNT * 64)
    moved(call, rt, unsupported, "out")


@pytest.mark.guests("torch")
def test_torch_set(torch_bound: Any) -> None:
    torch = pytest.importorskip("torch")
    call, a, out = torch_bound
    a.set_(torch.full((COUNT,), 5.0))
    replays(call, out, 2)
    a.set_()
    replays(call, out, 2)


@pytest.mark.guests("torch")
def test_torch_data(torch_bound: Any) -> None:
    torch = pytest.importorskip("torch")
    call, a, out = torch_bound
    a.data = torch.full((COUNT,), 5.0)
    replays(call, out, 2)


@pytest.mark.guests("torch")
def test_torch_lazy_clones(add: Any) -> None:
    """They share memory until one is written: what is bound as an out has its own from then on."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "_lazy_clone"):
        pytest.skip("this torch has none")
    whole, a = torch.full((COUNT,), 5.0), torch.ones(COUNT)
    for mine in (torch._lazy_clone(whole), whole):
        other = torch._lazy_clone(mine)
        call = add.bind(a, a, mine)
        replays(call, mine, 2)
        assert (other == 5).all()


@pytest.mark.guests("torch")
def test_torch_storage_freed(torch_bound: Any, rt: Any, unsupported: Any) -> None:
    call, a, out = torch_bound
    a.untyped_storage().resize_(0)
    moved(call, rt, unsupported)
    a.untyped_storage().resize_(COUNT * 4)
    a.fill_(7)
    call.set(a=a)
    replays(call, out, 8)


@pytest.mark.guests("torch")
def test_torch_storage_shrunk(torch_bound: Any, rt: Any, unsupported: Any) -> None:
    call, a, _ = torch_bound
    a.untyped_storage().resize_(16)
    moved(call, rt, unsupported)


@pytest.mark.guests("torch")
def test_torch_storage_shared(torch_bound: Any, rt: Any, unsupported: Any) -> None:
    """share_memory_() moves it to memory that processes share."""
    call, a, out = torch_bound
    a.share_memory_()
    moved(call, rt, unsupported)
    call.set(a=a)
    replays(call, out, 2)


@pytest.mark.guests("torch")
def test_torch_view_of_a_storage_that_moves(add: Any, rt: Any, unsupported: Any) -> None:
    torch = pytest.importorskip("torch")
    base, out = torch.ones(2 * COUNT), torch.zeros(COUNT)
    call = add.bind(base[COUNT:], base[:COUNT], out)
    base.resize_(COUNT * 64)
    moved(call, rt, unsupported)


@pytest.mark.guests("torch")
def test_torch_class_that_hides_its_storage(add: Any, rt: Any, unsupported: Any) -> None:
    """Then torch itself is asked at each launch where the memory is."""
    torch: Any = pytest.importorskip("torch")
    tensor: Any = torch.Tensor

    class Shy(tensor):  # type: ignore[misc]
        def untyped_storage(self) -> Any:
            return None

    a, out = torch.ones(COUNT).as_subclass(Shy), torch.zeros(COUNT)
    call = add.bind(a, a, out)
    replays(call, out, 2)
    a.resize_(COUNT * 64)
    moved(call, rt, unsupported)


@pytest.mark.guests("torch")
def test_torch_shape_changed_in_place(add: Any) -> None:
    """Sizes and strides are those that were bound, also for what is checked anew in set()."""
    torch = pytest.importorskip("torch")
    a, b, out = torch.arange(8.0).reshape(2, 4), torch.ones(2, 4), torch.zeros(2, 4)
    call = add.bind(a, b, out)
    a.t_()
    b.resize_(1)
    call.set(b=torch.full((2, 4), 3.0))
    call()
    assert out.tolist() == [[3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0]]
    call.set(a=torch.ones(2, 4))
    assert call() is None
    assert out.tolist() == [[4.0] * 4] * 2


@pytest.mark.guests("torch")
def test_torch_re_seated_while_it_is_bound(add: Any) -> None:
    """By Python that runs between two questions: what is held is what is launched on."""
    torch = pytest.importorskip("torch")
    from torch.overrides import TorchFunctionMode

    class Seats(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            answer = f(*args, **(kwargs or {}))
            if "untyped_storage" in str(f):
                args[0].set_(torch.full((COUNT,), 5.0))
            return answer

    a, b, out = torch.ones(COUNT), torch.ones(COUNT), torch.zeros(COUNT)
    with Seats():
        call = add.bind(a, b, out)
    a.set_(torch.zeros(COUNT))
    b.set_(torch.zeros(COUNT))
    churn()
    call()
    result = torch.zeros(COUNT)
    call.set(out=result)
    call()
    assert (result == 10).all()


@pytest.mark.guests("torch")
def test_torch_deleted(add: Any) -> None:
    torch = pytest.importorskip("torch")
    out = torch.zeros(COUNT)
    call = add.bind(torch.ones(COUNT), torch.ones(COUNT), out)
    replays(call, out, 2)


@pytest.mark.guests("torch")
def test_torch_written_in_place(torch_bound: Any) -> None:
    call, a, out = torch_bound
    a.fill_(3)
    replays(call, out, 4)


# ---- numpy ----------------------------------------------------------------------------------


@pytest.mark.parametrize("refcheck", [True, False])
@pytest.mark.parametrize("via", ["array", "view", "view of a view", "memoryview", "subclass"])
def test_numpy_resize(add: Any, via: str, refcheck: bool) -> None:
    """numpy would free the memory under its own views; it does not under a call."""

    class Special(np.ndarray):
        pass

    owner: Any = np.full((2, COUNT), 3, "f4")
    shown: Any = {
        "array": lambda: owner,
        "view": lambda: owner[1],
        "view of a view": lambda: owner[:, :-1][1:, 1:],
        "memoryview": lambda: memoryview(owner),
        "subclass": lambda: owner.view(Special),
    }[via]()
    out = np.zeros(np.shape(shown), "f4")
    call = add.bind(shown, shown, out)
    del shown
    with pytest.raises(ValueError, match="resize"):
        owner.resize((1000, COUNT), refcheck=refcheck)
    replays(call, out, 6)
    call.set(a=np.ones(out.shape, "f4"), b=np.ones(out.shape, "f4"))
    gc.collect()
    owner.resize((1000, COUNT), refcheck=False)
    replays(call, out, 2)


def test_numpy_shape_and_strides(add: Any) -> None:
    a, out = numbers(), numbers(0)
    call = add.bind(a, numbers(), out)
    a.shape = (2, COUNT // 2)
    replays(call, out, 2)


def test_numpy_deleted(add: Any) -> None:
    out = numbers(0)
    call = add.bind(numbers(), numbers(2), out)
    replays(call, out, 3)


# ---- others ---------------------------------------------------------------------------------


def test_bytearray_resize(add: Any) -> None:
    a, out = bytearray(numbers()), numbers(0)
    call = add.bind(memoryview(a).cast("f"), numbers(), out)
    for change in (lambda: a.extend(b"1234"), a.clear, lambda: a.pop()):
        with pytest.raises(BufferError):
            change()
    replays(call, out, 2)
    del call
    a.clear()


def test_array_resize(add: Any) -> None:
    a, out = array.array("f", [1.0] * COUNT), numbers(0)
    call = add.bind(a, numbers(), out)
    with pytest.raises(BufferError):
        a.append(1.0)
    replays(call, out, 2)


def test_memoryview_release(add: Any) -> None:
    a, out = memoryview(numbers()), numbers(0)
    call = add.bind(a, numbers(), out)
    with pytest.raises(BufferError):
        a.release()
    replays(call, out, 2)
    call.set(a=numbers())
    a.release()


def test_mmap_close(add: Any) -> None:
    a, out = mmap.mmap(-1, COUNT * 4), numbers(0)
    call = add.bind(memoryview(a).cast("f"), numbers(), out)
    with pytest.raises(BufferError):
        a.close()
    replays(call, out, 1)


@pytest.mark.guests("jax")
def test_jax_delete(add: Any) -> None:
    jnp = pytest.importorskip("jax.numpy")
    a, out = jnp.ones(COUNT, "float32"), numbers(0)
    call = add.bind(a, a, out)
    a.delete()
    replays(call, out, 2)
    call.set(b=numbers(3))
    replays(call, out, 4)
    gone = weakref.ref(a)
    del a
    assert gone() is not None
    del call
    gc.collect()
    assert gone() is None


def test_our_own_deleted(add: Any, rt: Any) -> None:
    a, out = rt.empty(COUNT, "f32"), numbers(0)
    np.asarray(a)[:] = 1
    call = add.bind(a, a, out)
    del a
    replays(call, out, 2)
