"""Gradients against finite differences, in f64 on the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from rows import Sample  # noqa: E402
from rows.calls import mapped  # noqa: E402
from rows.table import facts  # noqa: E402
from torch_ops.samples import ROWS, has_gradient, samples_of  # noqa: E402

pytestmark = pytest.mark.guests("torch")

WITH_GRADIENT = [row for row in ROWS if has_gradient(*row)]
WITHOUT = [row for row in ROWS if not has_gradient(*row)]
KINDS_TWICE = ("square", "square_bwd", "drop", "shift", "cast", "pad", "crop", "spread", "total",
               "turn", "concat")  # fmt: skip
TWICE = [
    (namespace, name)
    for namespace, name in WITH_GRADIENT
    if (facts(name).twice if namespace == "aicf" else name in KINDS_TWICE)
]


def flat(op: Any, one: Sample) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The op as a function of its tensors alone, lists spread."""
    leaves, spec = torch.utils._pytree.tree_flatten(one.args)
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def function(*tensors: Any) -> Any:
        given = list(leaves)
        for place, x in zip(places, tensors, strict=True):
            given[place] = x
        return op(*torch.utils._pytree.tree_unflatten(given, spec), **one.kwargs)

    return function, tuple(leaves[i] for i in places)


F64 = (None, torch.float64)


def f64(namespace: str, name: str) -> list[Sample]:
    """Finite differences need f64 throughout, and no element that stands for several."""

    def apart(x: Any) -> Any:
        if 0 in x.stride() and x.requires_grad:
            return x.detach().contiguous().requires_grad_()
        return x

    found = [s for s in samples_of(namespace, name) if s.kwargs.get("dtype") in F64]
    return [Sample(mapped(apart, s.args), s.kwargs) for s in found]


def op_of(ops: Any, namespace: str, name: str) -> Any:
    op = getattr(getattr(ops, namespace), name)
    if name == "cast":  # its default is f32
        return lambda x, dtype=torch.float64: op(x, dtype=dtype)
    return op


@pytest.mark.promise("TORCH-gradients")
@pytest.mark.parametrize("namespace, name", WITH_GRADIENT)
def test_all_needed(ops: Any, namespace: str, name: str) -> None:
    for one in f64(namespace, name):
        function, tensors = flat(op_of(ops, namespace, name), one)
        assert torch.autograd.gradcheck(function, tensors)


@pytest.mark.promise("TORCH-gradients")
@pytest.mark.parametrize("namespace, name", WITH_GRADIENT)
def test_each_needed_alone(ops: Any, namespace: str, name: str) -> None:
    for one in f64(namespace, name):
        function, tensors = flat(op_of(ops, namespace, name), one)
        for i in (i for i, t in enumerate(tensors) if t.requires_grad):
            given = [t.detach().requires_grad_(i == k) for k, t in enumerate(tensors)]
            assert torch.autograd.gradcheck(function, given)


@pytest.mark.promise("TORCH-gradients", "TORCH-compile")
@pytest.mark.parametrize("namespace, name", WITH_GRADIENT)
def test_compiled(ops: Any, namespace: str, name: str) -> None:
    function, tensors = flat(op_of(ops, namespace, name), f64(namespace, name)[1])
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.autograd.gradcheck(compiled, tensors)


@pytest.mark.promise("TORCH-second-derivative")
@pytest.mark.parametrize("namespace, name", TWICE)
def test_twice(ops: Any, namespace: str, name: str) -> None:
    function, tensors = flat(op_of(ops, namespace, name), f64(namespace, name)[0])
    assert torch.autograd.gradgradcheck(function, tensors)


@pytest.mark.promise("TORCH-second-derivative")
def test_a_third_derivative(ops: Any) -> None:
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    y = ops.kinds.square(ops.kinds.square(x)).sum()
    for power, factor in ((3, 4), (2, 12), (1, 24)):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        torch.testing.assert_close(y, factor * x.detach() ** power)
        y = y.sum()


@pytest.mark.promise("TORCH-second-derivative")
def test_a_missing_second_derivative_names_the_op(ops: Any) -> None:
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(ops.aicf.relu(x).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"aicf::relu_bwd has no gradient"):
        g.sum().backward()
    (g,) = torch.autograd.grad(ops.kinds.norm(x[None]).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"kinds::norm_bwd has no gradient"):
        g.sum().backward()


@pytest.mark.promise("TORCH-no-gradient")
@pytest.mark.parametrize("namespace, name", WITHOUT)
def test_a_backward_that_the_row_does_not_have(ops: Any, namespace: str, name: str) -> None:
    op = getattr(getattr(ops, namespace), name)
    one = samples_of(namespace, name, grad=True)[0]
    if any(a.alias_info for a in op.default._schema.arguments):
        with pytest.raises(TypeError, match="it requires grad, which this call does not record"):
            op(*grown(one.args), **one.kwargs)
        return
    found = op(*one.args, **one.kwargs)
    first = found[0] if isinstance(found, tuple) else found
    floats = [x for x in flat(op, one)[1] if x.requires_grad]
    if not first.is_floating_point() or not floats:
        assert not first.requires_grad
        return
    assert first.requires_grad
    with pytest.raises(NotImplementedError, match=rf"{namespace}::{name} has no gradient"):
        first.sum().backward()


def grown(args: Any) -> Any:
    """Leaves that require a gradient."""

    def leaf(x: Any) -> Any:
        return x.detach().requires_grad_(x.is_floating_point())

    return torch.utils._pytree.tree_map_only(torch.Tensor, leaf, args)


@pytest.mark.promise("TORCH-gradients")
def test_only_what_is_needed_is_computed(ops: Any) -> None:
    """Counted in the operators that backward calls."""
    a, b, bias = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)

    def called(*need: bool) -> list[str]:
        given = [t.clone().requires_grad_(n) for t, n in zip((a, b, bias), need, strict=True)]
        out = ops.aicf.gemm(*given)
        with Recorder() as seen:
            out.sum().backward()
        return [n for n in seen.names if n.startswith("aicf.")]

    assert called(True, False, False) == ["aicf.gemm.default"]
    assert called(False, False, True) == ["aicf.sum.default"]
    assert sorted(called(True, True, True)) == ["aicf.gemm.default"] * 2 + ["aicf.sum.default"]


class Recorder(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.promise("TORCH-gradients")
def test_what_is_saved(ops: Any) -> None:
    """What the gradient names, and nothing more."""

    def saved(function: Callable[[], Any]) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []

        def keep(x: Any) -> Any:
            found.append(tuple(x.shape))
            return x

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            function()
        return sorted(found)

    x = torch.randn(2, 3, requires_grad=True)
    w = torch.randn(3, 4, requires_grad=True)
    assert saved(lambda: ops.aicf.add(x, x)) == []
    assert saved(lambda: ops.aicf.sum(x)) == []
    assert saved(lambda: ops.aicf.relu(x)) == [(2, 3)]
    assert saved(lambda: ops.aicf.gemm(x, w)) == [(2, 3), (3, 4)]
    assert saved(lambda: ops.aicf.gemm(x.detach(), w)) == [(2, 3)]
    assert saved(lambda: ops.kinds.norm(x)) == [(2,), (2, 3)]


@pytest.mark.promise("TORCH-gradients")
def test_optional_outs_cost_nothing_where_nobody_needs_them(ops: Any) -> None:
    x = torch.randn(2, 3)
    with Recorder() as seen:
        ops.kinds.norm(x)
        ops.kinds.norm(x.requires_grad_())
    assert seen.names[0] == "kinds.norm.default"
    assert "kinds.norm.aux" in seen.names[1:]


@pytest.mark.promise("TORCH-gradients")
def test_one_of_several_outs_alone(ops: Any) -> None:
    """The gradient of the other is zeros, in the size that was saved."""
    for pick, both in itertools.product((0, 1), (False, True)):
        x = torch.randn(4, dtype=torch.float64, requires_grad=True)
        outs = ops.kinds.sincos(x)
        (outs[0] + outs[1] if both else outs[pick]).sum().backward()
        parts = (x.detach().cos(), -x.detach().sin())
        torch.testing.assert_close(x.grad, sum(parts) if both else parts[pick])
