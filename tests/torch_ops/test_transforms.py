"""What stands around a call: vmap, torch.func, autocast, grad modes, subclasses."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from rows.table import facts  # noqa: E402
from torch_ops.samples import ROWS, samples_of  # noqa: E402

pytestmark = pytest.mark.guests("torch")


def writes(namespace: str, name: str) -> bool:
    return facts(name).writes if namespace == "aicf" else name in ("momentum", "running")


def stacked(args: Any, count: int) -> Any:
    """Each tensor `count` times along a new first dim, floats times 1, 2, ..."""
    if isinstance(args, torch.Tensor) and not args.is_floating_point():
        return torch.stack([args] * count)
    if isinstance(args, torch.Tensor):
        return torch.stack([args * (i + 1) for i in range(count)])
    if isinstance(args, list):
        return [stacked(x, count) for x in args]
    return tuple(stacked(x, count) for x in args) if isinstance(args, tuple) else args


@pytest.mark.promise("TORCH-vmap")
@pytest.mark.parametrize("namespace, name", [r for r in ROWS if not writes(*r)])
def test_vmap(ops: Any, namespace: str, name: str) -> None:
    """Over every tensor, and over the first alone, along its last dim."""
    op = getattr(getattr(ops, namespace), name)
    one = samples_of(namespace, name, torch.float32, grad=False)[0]
    args = stacked(one.args, 3)
    found = torch.vmap(lambda *a: op(*a, **one.kwargs))(*args)
    pick = lambda x, i: torch.utils._pytree.tree_map(lambda t: t[i], x)  # noqa: E731
    each = [op(*pick(args, i), **one.kwargs) for i in range(3)]
    want = tuple(map(torch.stack, zip(*each, strict=True))) if isinstance(found, tuple) else (
        torch.stack(each))  # fmt: skip
    torch.testing.assert_close(found, want)
    if isinstance(one.args[0], torch.Tensor):
        last = args[0].movedim(0, -1)
        mixed = torch.vmap(lambda a: op(a, *one.args[1:], **one.kwargs), in_dims=-1)(last)
        each = [op(args[0][i], *one.args[1:], **one.kwargs) for i in range(3)]
        want = tuple(map(torch.stack, zip(*each, strict=True))) if isinstance(mixed, tuple) else (
            torch.stack(each))  # fmt: skip
        torch.testing.assert_close(mixed, want)


@pytest.mark.promise("TORCH-vmap")
def test_vmap_of_vmap_with_a_gradient_and_of_nothing(ops: Any) -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    found = torch.vmap(torch.vmap(lambda r: ops.aicf.sum(r)))(x)
    torch.testing.assert_close(found, x.sum(-1))
    found.square().sum().backward()
    torch.testing.assert_close(x.grad, (2 * x.sum(-1, keepdim=True)).expand_as(x).detach())
    assert torch.vmap(lambda r: ops.aicf.relu(r))(torch.randn(0, 3)).shape == (0, 3)
    want = torch.vmap(lambda g, x, r: ops.kinds.norm_bwd.want(g, x, r, want=[True, False])[0])
    g, x3, r = torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.randn(2, 3)
    torch.testing.assert_close(want(g, x3, r)[1], ops.kinds.norm_bwd(g[1], x3[1], r[1])[0])


@pytest.mark.promise("TORCH-vmap")
def test_vmap_of_what_writes_is_refused_by_torch(ops: Any) -> None:
    x = torch.randn(2, 3)
    for call in (
        lambda x: ops.kinds.running(x, x),
        lambda x: ops.aicf.add.out(x, x, out=torch.empty(3)),
        lambda x: ops.kinds.momentum([x], [x.clone()], lr=0.1),
    ):
        with pytest.raises(RuntimeError, match=r"Batching rule not implemented|vmap"):
            torch.vmap(call)(x.clone())


@pytest.mark.promise("TORCH-vmap")
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_over_scalars_on_the_device_is_torchs_own_loop(ops: Any) -> None:
    x, factors = torch.randn(2, 3), torch.tensor([[2.0], [3.0]])
    found = torch.vmap(lambda x, f: ops.aicf.scale(x, factor=f))(x, factors)
    torch.testing.assert_close(found, x * factors)


@pytest.mark.promise("TORCH-func")
def test_torch_func_grad_is_refused_by_torch(ops: Any) -> None:
    """In torch's words, which docs/torch.md quotes; torch.autograd.grad is the way."""
    x = torch.randn(3)
    for transform in (torch.func.grad, torch.func.jacrev):
        with pytest.raises(
            RuntimeError, match=r"In order to use an autograd\.Function with functorch"
        ):
            transform(lambda x: ops.aicf.sum(ops.aicf.relu(x)))(x)


@pytest.mark.promise("TORCH-autocast")
def test_autocast_changes_nothing(ops: Any) -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ b).dtype == torch.bfloat16
        found = ops.aicf.gemm(a, b)
        assert ops.aicf.gemm(a.bfloat16(), b.bfloat16()).dtype == torch.bfloat16
        with pytest.raises(TypeError, match="gemm: b: its dtype is not taken"):
            ops.aicf.gemm(a.bfloat16(), b)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, a @ b)


@pytest.mark.promise("TORCH-modes")
def test_grad_modes(ops: Any) -> None:
    x = torch.randn(3, requires_grad=True)
    with torch.no_grad():
        assert not ops.aicf.relu(x).requires_grad
    with torch.inference_mode():
        y = ops.aicf.relu(x)
        assert y.is_inference()
        ops.aicf.add.out(y, y, out=y)
        ops.kinds.running(y, y.clone())
    torch.testing.assert_close(ops.aicf.relu(x.detach()), x.detach().relu())
    assert ops.aicf.relu(x).requires_grad


@pytest.mark.promise("TORCH-modes")
def test_lazy_bits_and_subclasses(ops: Any) -> None:
    z = torch.complex(torch.randn(4), torch.randn(4))
    negative = z.conj().imag
    assert negative.is_neg()
    torch.testing.assert_close(ops.aicf.relu(negative), negative.resolve_neg().relu())

    class Sub(torch.Tensor):  # type: ignore[misc]
        pass

    x = torch.randn(3)
    found = ops.aicf.add(x.as_subclass(Sub), x)
    torch.testing.assert_close(found.as_subclass(torch.Tensor), x + x)
    parameter = torch.nn.Parameter(x)
    ops.aicf.relu(parameter).sum().backward()
    torch.testing.assert_close(parameter.grad, (x > 0).float())


@pytest.mark.promise("TORCH-modes")
def test_operands_that_no_kernel_takes(ops: Any) -> None:
    """Made dense; only they are, and only where they must be."""
    from torch_ops.test_gradients import Recorder

    base = torch.randn(6, 8)
    for a, b in ((base[:, ::2], torch.randn(4, 3)), (base[::2, :4], base[:4, ::3])):
        torch.testing.assert_close(ops.aicf.gemm(a, b), a @ b)
    x = torch.randn(2, 3, 4).permute(2, 0, 1)
    torch.testing.assert_close(ops.aicf.bias_add(x, torch.ones(2)), x + torch.ones(2)[:, None])
    shifted = ops.kinds.shift(x, by=1.0)
    torch.testing.assert_close(shifted, x + 1)
    assert shifted.stride() == x.stride()
    ys = [torch.randn(3, 2).t(), torch.randn(2, 3)]
    torch.testing.assert_close(ops.kinds.concat(ys), torch.cat(ys))
    with Recorder() as seen:
        ops.aicf.gemm(base[:, :4], base[:4].t()[:4])
    assert seen.names == ["aicf.gemm.default"] or "aten.slice.Tensor" in seen.names
    out = torch.empty(4, 2, 3)
    ops.aicf.bias_add.out(x, torch.ones(2), out=out)
    torch.testing.assert_close(out, x + torch.ones(2)[:, None])
    with pytest.raises(TypeError, match="no kernel fits"):
        ops.aicf.bias_add.out(x, torch.ones(2), out=torch.empty(3, 4, 2).permute(1, 2, 0))
    with pytest.raises(TypeError, match=r"bias_add: out: .* shares memory with x"):
        ops.aicf.bias_add.out(
            x, torch.ones(2), out=torch.empty(0).set_(x.untyped_storage()).view(4, 2, 3)
        )


@pytest.mark.promise("TORCH-modes")
def test_a_scalar_that_requires_grad_is_refused(ops: Any) -> None:
    x, factor = torch.randn(3), torch.ones(1, requires_grad=True)
    with pytest.raises(TypeError, match="scale: factor: it requires grad, and scalars have no"):
        ops.aicf.scale(x, factor=factor)
