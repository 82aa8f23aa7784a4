"""torch's tensors: what they hide beside their memory, and tensors that have none."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.guests("torch")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.promise("T2", "T3", "T18")
def test_layouts(add: Any) -> None:
    grid = torch.randn(4, 6, 8)
    views = [
        grid, grid.mT, grid[1:, 2:, 3:], grid[::2, 1::2, ::4], grid.permute(2, 0, 1), grid[0, 0, 0],
        grid[:, :1].expand(4, 5, 8), grid[:0], grid.view(-1)[1:], grid.reshape(1, 24, 1, 8).mT,
    ]  # fmt: skip
    for x in views:
        out = torch.full(x.shape, float("nan"))
        assert add.add_f32(x, x, out) is True
        assert torch.equal(out, x + x)
        assert torch.equal(add.add(x, x), x + x)


@pytest.mark.promise("T17", "FAULT-15")
@pytest.mark.parametrize("count", [1, 2, 8])
def test_negation_that_is_pending(add: Any, unsupported: Any, count: int) -> None:
    class Only:
        """The same by __dlpack__ alone."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.inner.__dlpack__(**keywords)

    z = torch.ones(count, dtype=torch.complex64) * (1 + 2j)
    negative, plain = z.conj().imag, z.imag
    assert negative.is_neg()
    out = torch.zeros(count)
    assert add.add_f32(negative, out, out) is False
    assert add.add_f32(out, out, negative) is False
    with pytest.raises(unsupported, match="resolve_neg"):
        add.add(out, negative)
    with pytest.raises(unsupported, match="resolve_neg"):
        add.bind(negative, out, out)
    assert add.add_f32(plain, plain, out) is True
    assert out.tolist() == [4.0] * count
    assert add.add_f32(negative.resolve_neg(), plain, out) is True
    assert out.tolist() == [0.0] * count
    sub = negative.as_subclass(type("Sub", (torch.Tensor,), {}))
    assert add.add_f32(sub, out, out) is False


@pytest.mark.promise("T17")
def test_conjugation_that_is_pending(add: Any) -> None:
    z = torch.ones(4, dtype=torch.complex64).conj()
    assert add.add_f32(z, z, torch.ones(4)) is False
    assert add.add_f32(z.real, z.real, torch.ones(4)) is True


@pytest.mark.promise("D4")
def test_what_was_not_read_is_not_described(add: Any, unsupported: Any) -> None:
    x, plain = torch.ones(4, requires_grad=True), torch.ones(4)
    masked: Any = np.ma.array(np.ones(4, "f4"))
    negative = torch.ones(4, dtype=torch.complex64).conj().imag
    for wrong in (x, masked, negative):
        with pytest.raises(unsupported) as refused:
            add.add(wrong, plain)
        assert "got" not in str(refused.value)
        assert "unknown" not in str(refused.value)


@pytest.mark.promise("A12", "T17")
def test_requires_grad(add: Any, unsupported: Any) -> None:
    x, y = torch.ones(4, requires_grad=True), torch.ones(4)
    for args, name in (((x, y), "a"), ((y, x), "b")):
        with pytest.raises(unsupported, match=r"requires grad.*detach") as refused:
            add.add(*args)
        assert refused.value.arg == name
    with pytest.raises(unsupported, match="requires grad"):
        add.add(y, y, out=x)
    assert add.add_f32(x, y, torch.empty(4)) is True
    with torch.no_grad():
        assert torch.equal(add.add(x, y), torch.full((4,), 2.0))
    with torch.inference_mode():
        assert torch.equal(add.add(x, y), torch.full((4,), 2.0))
    assert torch.equal(add.add(x.detach(), y), torch.full((4,), 2.0))
    assert torch.equal(add.add(torch.nn.Parameter(y, requires_grad=False), y), y + y)


@pytest.mark.promise("FAULT-15")
def test_forward_mode(add: Any, unsupported: Any) -> None:
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(4), torch.ones(4))
        with pytest.raises(unsupported, match="tangent"):
            add.add(dual, torch.ones(4))
        assert torch.equal(add.add(torch.ones(4), torch.ones(4)), torch.full((4,), 2.0))


@pytest.mark.promise("FAULT-11")
def test_autograd_is_told_of_a_write(add: Any) -> None:
    w, x = torch.ones(4, requires_grad=True), torch.ones(4) * 3
    loss = (w * x).sum()
    add.add(torch.ones(4), torch.ones(4), out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


class Wrapper(torch.Tensor):  # type: ignore[misc]
    """A tensor around another, without memory of its own."""

    @staticmethod
    def __new__(cls: Any, inner: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return f(*args, **(kwargs or {}))


def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(4)


def freed() -> Any:
    x = torch.ones(4)
    x.untyped_storage().resize_(0)
    return x


WITHOUT_MEMORY = {
    "fake": fake,
    "meta": lambda: torch.ones(4, device="meta"),
    "sparse": lambda: torch.ones(4).to_sparse(),
    "csr": lambda: torch.eye(4).to_sparse_csr(),
    "zero": lambda: torch._efficientzerotensor(4),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(4)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(4)], layout=torch.jagged),
    "wrapper": lambda: Wrapper(torch.ones(4)),
    "freed": freed,
    "mkldnn": lambda: torch.ones(4).to_mkldnn(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8),
    "masked": lambda: __import__("torch.masked").masked.masked_tensor(
        torch.ones(4), torch.tensor([True, False, True, True])
    ),
}


@pytest.mark.promise("A11", "FAULT-15")
@pytest.mark.parametrize("kind", WITHOUT_MEMORY)
def test_tensors_without_plain_memory(add: Any, unsupported: Any, kind: str) -> None:
    """One verdict for all of them, though torch has another exception for each."""
    x, plain, out = WITHOUT_MEMORY[kind](), torch.ones(4), torch.zeros(4)
    for place, name in enumerate(("a", "b", "out")):
        args = [plain, plain, out]
        args[place] = x
        assert add.add_f32(*args) is False
        for call in (add.bind, lambda a, b, c: add.add(a, b, out=c)):
            with pytest.raises(unsupported, match=f"^add: {name}: ") as refused:
                call(*args)
            assert refused.value.arg == name
            assert "unknown" not in str(refused.value)
    assert out.tolist() == [0.0] * 4
    assert plain.tolist() == [1.0] * 4


@pytest.mark.promise("A11")
@pytest.mark.parametrize("how", ["vmap", "grad", "jvp", "functionalize"])
def test_transforms(add: Any, unsupported: Any, how: str) -> None:
    """What a transform hands out is no plain tensor: refused, never a wrong result."""
    one = torch.ones(4)
    run = {
        "vmap": lambda f: torch.func.vmap(f)(torch.ones(3, 4)),
        "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(one),
        "jvp": lambda f: torch.func.jvp(f, (one,), (one,)),
        "functionalize": lambda f: torch.func.functionalize(f)(one),
    }[how]
    with pytest.raises(unsupported):
        run(lambda x: add.add(x, x))


@pytest.mark.promise("FAULT-15")
def test_a_dispatching_subclass_is_left_to_torch(add: Any, unsupported: Any) -> None:
    class Logs(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_dispatch__(cls, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return f(*args, **(kwargs or {}))

    x = torch.ones(4).as_subclass(Logs)
    assert add.add_f32(x, torch.ones(4), torch.ones(4)) is False
    with pytest.raises(unsupported):
        add.add(x, torch.ones(4))


@pytest.mark.promise("FAULT-15")
def test_a_plain_subclass_is_a_tensor(add: Any) -> None:
    x = torch.ones(4).as_subclass(type("Sub", (torch.Tensor,), {}))
    out = torch.zeros(4)
    assert add.add_f32(x, torch.nn.Parameter(torch.ones(4)), out) is True
    assert out.tolist() == [2.0] * 4


@pytest.mark.promise("FAULT-11")
def test_a_lazy_clone_is_no_alias(add: Any) -> None:
    x = torch.ones(4)
    clone = torch._lazy_clone(x)
    wrote = add.add_f32(torch.ones(4) * 5, torch.ones(4) * 5, clone)
    assert x.tolist() == [1.0] * 4
    assert clone.tolist() == ([10.0] if wrote else [1.0]) * 4


# ---- Python that runs while arguments are read ----------------------------------------------


class Hook:
    """A producer that runs something when it is asked for its memory."""

    def __init__(self, run: Any, count: int) -> None:
        self.run, self.x = run, np.ones(count, "f4")

    def __dlpack__(self, **keywords: Any) -> Any:
        self.run()
        return self.x.__dlpack__(**keywords)


@pytest.mark.promise("FAULT-3")
@pytest.mark.parametrize("place", range(3))
def test_a_producer_that_reseats_another_argument(add: Any, place: int) -> None:
    """The other is torch's, borrowed: what it says is read only after the last Python ran."""
    count = 400_000
    others = [torch.full((count,), 5.0) for _ in range(3)]

    def reseat() -> None:
        for x in others:
            x.set_(torch.zeros(count))
        gc.collect()

    args: list[Any] = list(others)
    args[place] = Hook(reseat, count)
    assert add.add_f32(*args) is True
    out = args[2].x if place == 2 else others[2].numpy()
    assert (out == (0.0 if place == 2 else 1.0)).all()


@pytest.mark.promise("FAULT-3", "FAULT-9")
def test_is_neg_that_reseats_another_argument(add: Any) -> None:
    count = 100_000
    first = torch.full((count,), 5.0)

    class Evil(torch.Tensor):  # type: ignore[misc]
        def is_neg(self) -> bool:
            first.set_(torch.zeros(count))
            gc.collect()
            return False

    second = torch.zeros(count, 2)[:, 0].as_subclass(Evil)
    out = torch.full((count,), 7.0)
    assert add.add_f32(first, second, out) is True
    assert (out == 0).all()


@pytest.mark.promise("FAULT-9", "T7")
def test_is_neg_that_raises(add: Any) -> None:
    class Raises(torch.Tensor):  # type: ignore[misc]
        def is_neg(self) -> bool:
            raise RuntimeError("neg")

    x = torch.zeros(4, 2)[:, 0].as_subclass(Raises)
    held = torch.zeros(4)
    before = sys.getrefcount(x), sys.getrefcount(held)
    for _ in range(10):
        for call in (add.add_f32, add.bind):
            with pytest.raises(RuntimeError, match="neg"):
                call(held, x, held)
    assert (sys.getrefcount(x), sys.getrefcount(held)) == before


# ---- memory that a call keeps ---------------------------------------------------------------


@pytest.mark.promise("FAULT-4", "S5")
def test_a_bound_call_keeps_the_memory(add: Any) -> None:
    x, y, out = torch.full((1000,), 3.0), torch.ones(1000), torch.zeros(1000)
    call = add.bind(x, y, out)
    x.set_(torch.zeros(1))
    del y
    gc.collect()
    for _ in range(20):
        torch.full((1000,), 9.0)
    call()
    assert (out == 4).all()


def resized(x: Any) -> None:
    x.resize_(100_000)


def refilled(x: Any) -> None:
    """As sharded training frees a parameter's memory and takes some again."""
    kept = x.untyped_storage()
    held = torch.empty(kept.nbytes() * 4)
    kept.resize_(0)
    kept.resize_(kept.nbytes() + held.nbytes)


@pytest.mark.promise("FAULT-4", "S5")
@pytest.mark.parametrize("move", [resized, refilled])
@pytest.mark.parametrize("name", ["a", "b", "out"])
def test_memory_that_torch_resized(
    add: Any, rt: Any, unsupported: Any, name: str, move: Any
) -> None:
    """Then the old memory is free, and somebody else's: nothing is launched on it."""
    tensors = {n: torch.full((1000,), 1.0) for n in ("a", "b", "out")}
    call = add.bind(**tensors)
    call()
    move(tensors[name])
    for launch in (call, lambda: rt.run([call]), call.set):
        with pytest.raises(unsupported, match=f"^add: {name}: .*resized") as refused:
            launch()
        assert refused.value.arg == name
    tensors[name] = torch.full((1000,), 3.0)
    call.set(**{name: tensors[name]})
    call()
    assert torch.equal(tensors["out"], torch.full((1000,), 2.0 if name == "out" else 4.0))


@pytest.mark.promise("S5")
def test_memory_that_torch_gave_back_and_took_again_at_its_place(add: Any) -> None:
    """What lies where it lay, as large as it was, may be launched on."""
    x, out = torch.ones(4), torch.zeros(4)
    call = add.bind(x, x, out)
    x.resize_(2)  # keeps its memory
    call()
    assert out.tolist() == [2.0] * 4


@pytest.mark.promise("FAULT-4")
@pytest.mark.parametrize("answer", [None, 3, "self", "other"])
def test_a_subclass_that_detaches_oddly(add: Any, unsupported: Any, answer: Any) -> None:
    class Odd(torch.Tensor):  # type: ignore[misc]
        def detach(self) -> Any:
            return {"self": self, "other": torch.full((4,), 9.0)}.get(answer, answer)

    x, out = torch.ones(4).as_subclass(Odd), torch.zeros(4)
    call = add.bind(x, x, out)
    call()
    assert out[0] in (2, 18)
    if answer == "self":
        x.resize_(100_000)
        with pytest.raises(unsupported, match="resized"):
            call()


@pytest.mark.promise("FAULT-23")
def test_a_bound_call_is_collected_with_its_tensors(add: Any) -> None:
    x = torch.ones(4)
    x.call = add.bind(x, x, torch.zeros(4))
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


@pytest.mark.promise("FAULT-15")
def test_a_compiled_caller(add: Any) -> None:
    torch._dynamo.reset()

    def f(x: Any) -> Any:
        return add.add(x + 1, x) * 2

    compiled = torch.compile(f, backend="eager")
    assert torch.equal(compiled(torch.ones(4)), torch.full((4,), 6.0))


@pytest.mark.promise("FAULT-15")
def test_inference_mode(add: Any) -> None:
    with torch.inference_mode():
        x, out = torch.ones(4), torch.empty(4)
        assert add.add_f32(x, x, out) is True
        assert add.add(x, x, out=out) is out
        call = add.bind(x, x, out)
    call()
    assert add.add(x, x, out=out) is out
    assert out.tolist() == [2.0] * 4


@pytest.mark.promise("FAULT-15")
def test_mixed_frameworks_make_the_first_ones_out(add: Any) -> None:
    x: Any = np.ones(4, "f4")
    t = torch.ones(4)
    assert isinstance(add.add(t, x), torch.Tensor)
    assert isinstance(add.add(x, t), np.ndarray)
    assert isinstance(add.add(memoryview(x), t), torch.Tensor)


@pytest.mark.promise("FAULT-15")
def test_order_of_an_out(add: Any) -> None:
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert add.add(x, x).stride() == x.stride()
    assert torch.equal(add.add(x, x), x + x)
    for x in (torch.randn(3, 4).mT, torch.randn(2, 3, 4).permute(2, 0, 1)):
        assert add.add(x, x).stride() == x.stride()
    assert add.add(x[:, :1], x).stride() == x.stride()  # the order of the dims, not of the sizes
    assert add.add(x[::2, :1], x[::2]).is_contiguous()  # with gaps there is none


class Old(torch.Tensor):  # type: ignore[misc]
    """As torch was before it had the exchange API."""

    __dlpack_c_exchange_api__ = None


@pytest.mark.promise("T10", "FAULT-15")
def test_a_torch_without_the_exchange_api(add: Any, unsupported: Any) -> None:
    x = torch.arange(6.0).reshape(2, 3).as_subclass(Old)
    out = torch.zeros(2, 3)
    assert add.add_f32(x, x, out) is True
    assert torch.equal(out, torch.arange(6.0).reshape(2, 3) * 2)
    made = add.add(x, x)
    assert type(made) is torch.Tensor
    assert torch.equal(made, out)
    turned = x.mT
    assert add.add(turned, turned).stride() == turned.stride()
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        assert add.add(x.to(dtype), x.to(dtype)).dtype == dtype
    call = add.bind(x, x, out)
    out.zero_()
    call()
    assert torch.equal(made, out)
    negative = (torch.ones(4, dtype=torch.complex64) * 1j).conj().imag.as_subclass(Old)
    with pytest.raises(unsupported, match="resolve_neg"):
        add.add(negative, negative)
    with pytest.raises(unsupported, match="requires grad"):
        add.add(x.clone().requires_grad_(), x)
