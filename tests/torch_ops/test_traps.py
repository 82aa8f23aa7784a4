"""What torch does silently, or trips over, where an op is registered the obvious way."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_ops.conftest import build  # noqa: E402
from torch_ops.test_gradients import Recorder  # noqa: E402

pytestmark = pytest.mark.guests("torch")


@pytest.mark.promise("TORCH1")
def test_the_cache_of_the_compiler_sees_an_edited_gradient(
    alone: Callable[..., str], kinds: Path, tmp_path: Path
) -> None:
    """Two processes share a cache; the second has the table with another gradient."""
    before, after = 'grad: {x: "square_bwd(g, x)"}', 'grad: {x: "turn(square_bwd(g, x))"}'
    after = after.replace("turn(square_bwd(g, x))", "turn(square_bwd(g, x), how='double')")

    def edit(text: str) -> str:
        assert text.count(before) == 1
        return text.replace(before, after)

    edited = build(tmp_path / "edited", edit)
    program = """
        import torch, kinds_ops.torch
        f = torch.compile(lambda x: torch.ops.kinds.square(x), fullgraph=True)
        x = torch.full((3,), 5.0, requires_grad=True)
        f(x).sum().backward()
        print(x.grad.tolist())
    """
    cache = str(tmp_path / "cache")
    for folder, slope in ((kinds, 10.0), (edited, 20.0), (kinds, 10.0)):
        assert alone(program, folder, TORCHINDUCTOR_CACHE_DIR=cache).strip() == str([slope] * 3)


@pytest.mark.promise("TORCH1")
def test_the_key_is_there_once_and_is_the_tables(ops: Any) -> None:
    import aicf_cuda.torch

    tag = torch.compiler.config.cache_key_tag
    hashed = aicf_cuda.__table_hash__[:32]
    assert tag.count(f"aicf={hashed}") == 1
    assert "kinds=" in tag


@pytest.mark.promise("TORCH2")
def test_writing_is_seen_by_autograd(ops: Any) -> None:
    """A backward that saved what was then overwritten must not run."""
    x = torch.randn(4, requires_grad=True)
    kept = x.detach().clone()
    y = torch.ops.aicf.gemm(x[None], kept[:, None])
    with torch.no_grad():
        ops.aicf.add.out(kept, kept, out=kept)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.promise("TORCH2")
def test_versions(ops: Any) -> None:
    a, out = torch.randn(3), torch.empty(3)
    m, ps, gs, bufs = torch.zeros(3), [torch.randn(2)], [torch.randn(2)], [torch.zeros(2)]
    calls: list[tuple[Callable[[], Any], list[Any], list[Any]]] = [
        (lambda: ops.aicf.add.out(a, a, out=out), [out], [a]),
        (lambda: ops.kinds.running(m, a), [m], [a]),
        (lambda: ops.kinds.running.out(m, a, out=out), [m, out], [a]),
        (lambda: ops.kinds.momentum(ps, gs, lr=0.1), ps, [*gs, *bufs]),
        (lambda: ops.kinds.momentum(ps, gs, bufs, lr=0.1), [*ps, *bufs], gs),
        (lambda: ops.kinds.momentum.dev(ps, gs, bufs, lr=torch.ones(1)), [*ps, *bufs], gs),
    ]
    for call, written, read in calls:
        before = [t._version for t in (*written, *read)]
        call()
        now = [t._version for t in (*written, *read)]
        assert [n > b for n, b in zip(now, before, strict=True)] == (
            [True] * len(written) + [False] * len(read)
        )


@pytest.mark.promise("TORCH2")
def test_what_requires_grad_is_not_written_silently(ops: Any) -> None:
    a, b = torch.randn(3), torch.randn(3, requires_grad=True)
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("add: b", lambda: ops.aicf.add.out(a, b, out=torch.empty(3))),
        ("add: out", lambda: ops.aicf.add.out(a, a, out=b)),
        ("running: m", lambda: ops.kinds.running(b, a)),
        ("running: x", lambda: ops.kinds.running(a, b)),
        ("momentum: ps", lambda: ops.kinds.momentum([b], [a], lr=0.1)),
        ("momentum: gs", lambda: ops.kinds.momentum([a], [b], lr=0.1)),
    ]
    for named, call in calls:
        with pytest.raises(TypeError, match=f"{named}: it requires grad, which this call does not"):
            call()
        with torch.no_grad():
            call()
    # The words are those of the generic function.
    from aicf_cuda import add

    with pytest.raises(TypeError) as eager:
        ops.aicf.add.out(a, b, out=torch.empty(3))
    with pytest.raises(TypeError) as generic:
        add.add(a, b)
    assert str(eager.value) == str(generic.value)


@pytest.mark.promise("TORCH2")
def test_nor_when_compiled(ops: Any) -> None:
    def step(p: Any, g: Any) -> None:
        ops.kinds.momentum([p], [g], lr=0.1)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    p, g = torch.randn(3, requires_grad=True), torch.randn(3)
    with pytest.raises(RuntimeError, match="momentum: ps: it requires grad"):
        compiled(p, g)
    want = p.detach() - 0.1 * g
    with torch.no_grad():
        compiled(p, g)
    torch.testing.assert_close(p.detach(), want)


@pytest.mark.promise("TORCH3")
def test_arguments_as_their_defaults_are_left_out_by_torch(ops: Any) -> None:
    """Then kernels, fakes and gradients see fewer arguments than the schema has."""
    a = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    with_none = lambda a, b: ops.aicf.gemm(  # noqa: E731
        a, b, None, None, alpha=1.0, beta=0.0, act="none"
    )
    for backend in ("eager", "aot_eager"):
        function = (
            torch.compile(with_none, backend=backend, fullgraph=True) if backend else with_none
        )
        assert torch.autograd.gradcheck(function, (a, b))
    assert torch.autograd.gradcheck(lambda a: ops.kinds.norm(a, None, eps=1e-5), (a,))
    assert torch.autograd.gradcheck(lambda a: ops.kinds.total(a, axes=None, keepdim=False), (a,))


@pytest.mark.promise("TORCH3")
def test_lists_have_as_many_gradients_as_tensors(ops: Any) -> None:
    xs = [torch.randn(2, 3, requires_grad=i != 1) for i in range(3)]
    ops.kinds.concat(xs).sum().backward()
    assert [x.grad is None for x in xs] == [False, True, False]
    assert ops.kinds.concat([x.detach() for x in xs]).requires_grad is False


@pytest.mark.promise("TORCH4")
def test_forward_mode_is_refused(ops: Any) -> None:
    """The gradients of a custom op answer it with nothing, or zero, silently."""
    x, t = torch.randn(3), torch.randn(3)
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(x, t)
        calls: list[tuple[str, Callable[[], Any]]] = [
            ("add: a", lambda: ops.aicf.add(dual, x)),
            ("add: b", lambda: ops.aicf.add(x, dual)),
            ("add: b", lambda: ops.aicf.add.out(x, dual, out=torch.empty(3))),
            ("running: m", lambda: ops.kinds.running(dual, x)),
            ("concat: xs", lambda: ops.kinds.concat([x, dual])),
            ("norm: x", lambda: ops.kinds.norm.aux(dual[None])),
            ("cube: x", lambda: ops.kinds.cube(dual)),
        ]
        for named, call in calls:
            with pytest.raises(TypeError, match=f"{named}: it carries a forward-mode tangent"):
                call()
        torch.testing.assert_close(ops.aicf.add(x, t), x + t)
    with pytest.raises(TypeError, match="add: a: it carries a forward-mode tangent"):
        torch.func.jvp(lambda x: ops.aicf.add(x, x), (x,), (t,))


@pytest.mark.promise("TORCH5")
def test_a_scalar_on_the_device_is_not_read(ops: Any) -> None:
    """The overload for it is found first: one of numbers would call item(), which waits."""
    x = torch.randn(3)
    order = list(ops.aicf.scale.overloads())
    assert order.index("dev") < order.index("default")
    factor = torch.tensor([2.0])
    with Recorder() as seen:
        found = [ops.aicf.scale(x, factor=f) for f in (2.0, factor)]
    for y in found:
        torch.testing.assert_close(y, 2 * x)
    scales = [n for n in seen.names if n.startswith("aicf.")]
    assert scales == ["aicf.scale.default", "aicf.scale.dev"]
    assert not any("item" in n or "local_scalar" in n for n in seen.names)


@pytest.mark.promise("TORCH6")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_forward_without_a_backward_compiles(ops: Any, backend: str) -> None:
    compiled = torch.compile(lambda x: ops.kinds.cube(x) * 2, fullgraph=True, backend=backend)
    x = torch.randn(3, requires_grad=True)
    y = compiled(x)
    torch.testing.assert_close(y.detach(), 2 * x.detach() ** 3)
    with pytest.raises(NotImplementedError, match="kinds::cube has no gradient"):
        y.sum().backward()


@pytest.mark.promise("TORCH7")
def test_fake_and_real_agree_on_the_order_of_memory(ops: Any) -> None:
    """In every view of one storage; `shift` has an order and only kernels that take dense ones."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    base = torch.randn(3, 4, 5)
    views = [
        base, base.permute(1, 2, 0), base.mT, base[:, ::2], base[..., 1:], base[:1].mT,
        base.permute(2, 0, 1)[:, :1], base[0].t(), base[0, 0, :1], base[:0].mT,
        base[:, :1].expand(3, 4, 5),
    ]  # fmt: skip
    calls: list[Callable[[Any], Any]] = [
        lambda x: ops.aicf.relu(x),
        lambda x: ops.aicf.add(x, x),
        lambda x: ops.aicf.add(x, torch.zeros((2, 1, 1, 1))),
        lambda x: ops.kinds.shift(x, by=1.0),
        lambda x: ops.kinds.turn(x),
        lambda x: ops.kinds.cast(x, dtype=torch.float64),
        lambda x: ops.kinds.square(x),
    ]
    for x in views:
        for call in calls:
            real = call(x)
            with FakeTensorMode() as mode:
                fake_x = mode.from_tensor(x)
            with mode:
                fake = call(fake_x)
            assert fake.shape == real.shape
            counted = [i for i, n in enumerate(real.shape) if n > 1]
            assert [fake.stride(i) for i in counted] == [real.stride(i) for i in counted]
            assert fake.dtype == real.dtype


@pytest.mark.promise("TORCH7")
def test_the_order_of_memory_is_that_of_infer() -> None:
    """Two texts of one rule, in C and on symbolic sizes: on views of every make."""
    import aicf_rt
    from aicf_cuda import relu
    from aicf_rt.torch_kernels import order_of

    source = random.Random(1)
    for _ in range(2000):
        x = view(source)
        (spec,) = relu.infer(aicf_rt.Spec(x.shape, x.dtype, strides=x.stride()))
        found = order_of(x.shape, x)
        counted = [i for i, n in enumerate(x.shape) if n > 1 and x.numel()]
        assert [found[i] for i in counted] == [spec.strides[i] for i in counted]


@pytest.mark.promise("TORCH7", "OUTS-order")
def test_an_out_of_another_shape_lies_in_the_order_too() -> None:
    """Two texts of one rule again: dims of size 1 are longer in the out, the rest is as it was."""
    import aicf_rt
    from aicf_cuda import add
    from aicf_rt.torch_kernels import order_of

    source = random.Random(2)
    for order in itertools.permutations(range(4)):
        shape = [source.choice([1, 2, 3]) for _ in order]
        x = torch.empty([shape[i] for i in order]).permute([order.index(i) for i in range(4)])
        full = [n if n > 1 else source.choice([1, 4]) for n in shape]
        given = aicf_rt.Spec(x.shape, x.dtype, strides=x.stride())
        (spec,) = add.infer(given, aicf_rt.Spec(full, x.dtype))
        found = order_of(spec.shape, x)
        assert [s for s, n in zip(found, full, strict=True) if n > 1] == [
            s for s, n in zip(spec.strides, full, strict=True) if n > 1
        ], (order, shape, full)
        longer = [i for i, n in enumerate(shape) if n > 1]
        assert sorted(longer, key=lambda i: x.stride(i)) == sorted(longer, key=lambda i: found[i])


@pytest.mark.promise("TORCH7", "OUTS-order")
def test_dims_of_size_1_are_put_where_the_out_may_be_longer() -> None:
    """Channels last of one row, or one column, as strides alone do not say."""
    import aicf_rt
    from aicf_cuda import max_pool2d_bwd
    from aicf_rt.torch_kernels import order_of

    for p, q in [(1, 3), (3, 1), (3, 3)]:
        gy = torch.empty(2, p, q, 5).permute(0, 3, 1, 2)
        spec = aicf_rt.Spec(gy.shape, gy.dtype, strides=gy.stride())
        at = aicf_rt.Spec(gy.shape, torch.int64, strides=gy.stride())
        (out,) = max_pool2d_bwd.infer(spec, at, H=2 * p, W=2 * q, window=2, stride=2)
        want = (2 * p * 2 * q * 5, 1, 2 * q * 5, 5)
        assert out.strides == want == order_of(out.shape, gy)


def view(source: random.Random) -> Any:
    """Of some dims, permuted, with gaps here and there."""
    rank = source.randint(0, 4)
    shape = [source.choice([0, 1, 1, 2, 3, 4]) for _ in range(rank)]
    steps = [source.choice([1, 1, 1, 2]) for _ in shape]
    order = source.sample(range(rank), rank)
    held = torch.empty([shape[i] * steps[i] for i in order])
    x = held.permute([order.index(i) for i in range(rank)])
    for i, (n, step) in enumerate(zip(shape, steps, strict=True)):
        each = (slice(None),) * i + (slice(0, None, step),)
        x = x.narrow(i, 0, n) if source.random() < 0.5 else x[each]
    if rank and x.shape[-1] and source.random() < 0.1:
        x = x[..., :1].expand(*x.shape[:-1], 3)
    return x
