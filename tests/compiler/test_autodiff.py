"""Gradients of graphs: right beside torch's, only what is needed, and what is saved is named."""

from __future__ import annotations

from typing import Any

import pytest

from aicf import grad, ops, param, trace, value_and_grad
from aicf.compiler.ir.autodiff import NoGradient, derive
from aicf.compiler.ir.graph import Graph
from aicf.compiler.runtime.interpret import interpret
from aicf.table import Table

pytestmark = pytest.mark.promise("MARK-8-autodiff")
np: Any = pytest.importorskip("numpy")


def net(x: Any, y: Any, w1: Any, b1: Any, w2: Any) -> Any:
    h = ops.gemm(x, w1, b1, act="relu")
    return ops.cross_entropy(h @ w2, y)


NET = ("f32[N, 8]", "i64[N]", param("f32[8, 16]"), param("f32[16]"), param("f32[16, 3]"))
SYMBOLS = {"N": (1, 4096)}


def test_only_what_is_needed() -> None:
    graph = trace(net, *NET, symbols=SYMBOLS)
    forward = [n.op for n in graph.nodes]
    found = grad(graph, wrt=["b1"])
    assert [n.op for n in found.nodes] == [
        *forward, "cross_entropy_bwd", "view.permute", "gemm", "relu_bwd", "sum"]  # fmt: skip
    assert [str(v.type) for v in found.outputs] == ["f32[16]"]
    whole = grad(graph)
    assert len(whole.nodes) == len(found.nodes) + 4  # w1's and w2's: a view and a product each
    assert [n.op for n in graph.nodes] == forward
    again = Graph.parse(whole.text())
    assert again == whole


def test_what_no_param_leads_to_is_not_derived() -> None:
    graph = trace(lambda x, w: ops.sum(ops.exp(x * 2.0) * w), "f32[3]", param("f32[3]"))
    found = grad(graph)
    assert [n.op for n in found.nodes] == ["mul", "exp", "view.reshape", "view.expand", "mul"]


def test_saved_values_are_named() -> None:
    graph = trace(net, *NET, symbols=SYMBOLS)
    found = derive(graph)
    assert [v.name for v in found.saved] == [
        "gemm_1", "y", "lse", "divisor", "w2", "gemm", "x"]  # fmt: skip
    assert list(found.gradients) == ["w1", "b1", "w2"]
    one = derive(graph, wrt=["w2"])
    assert "x" not in {v.name for v in one.saved}
    assert [v is not None for v in graph.nodes[2].outs] == [True, False, False]


def test_values_come_first() -> None:
    graph = trace(net, *NET, symbols=SYMBOLS)
    both = value_and_grad(graph)
    assert [str(v.type) for v in both.outputs] == ["f32[]", "f32[8, 16]", "f32[16]", "f32[16, 3]"]
    assert both.outputs[0].name == graph.outputs[0].name


def test_what_does_not_lead_to_the_loss_has_zeros() -> None:
    def alone(x: Any, w: Any, u: Any) -> Any:
        return ops.sum(x * w)

    graph = grad(trace(alone, "f32[3]", param("f32[3]"), param("f32[2]")))
    x = np.arange(3, dtype="f4")
    w, u = interpret(graph, {"x": x, "w": x, "u": x[:2]})
    assert np.array_equal(w, x)
    assert np.array_equal(u, np.zeros(2))


def test_what_several_nodes_read_gets_the_sum() -> None:
    graph = grad(trace(lambda x: ops.sum(x * x + x), param("f32[3]")))
    x = np.arange(3, dtype="f4")
    (found,) = interpret(graph, {"x": x})
    assert np.array_equal(found, 2 * x + 1)


def test_through_views() -> None:
    def views(x: Any) -> Any:
        a = x.mT.reshape(-1)[2:9]
        return ops.sum(a * a) + ops.sum(x[1].expand(3, 4) * 2.0)

    graph = grad(trace(views, param("f32[4, 4]")))
    x = np.arange(16, dtype="f4").reshape(4, 4)
    (found,) = interpret(graph, {"x": x})
    want = np.zeros(16, "f4")
    want[2:9] = 2 * x.T.reshape(-1)[2:9]
    want = want.reshape(4, 4).T.copy()
    want[1] += 6
    assert np.array_equal(found, want)


def test_what_has_no_gradient_is_named() -> None:
    graph = trace(lambda x, w: ops.sum(ops.bias_add_bwd(x * w)), "f32[3, 4]", param("f32[3, 4]"))
    with pytest.raises(
        NoGradient, match=r"test_autodiff\.py:.*bias_add_bwd has no gradient: its row"
    ):
        grad(graph)

    def update(w: Any, g: Any) -> Any:
        h = ops.neg(w)
        ops.sgd([h], [g], lr=0.5)
        return ops.sum(h)

    with pytest.raises(NoGradient, match="sgd has no gradient: it updates in place"):
        grad(trace(update, param("f32[3]"), "f32[3]"))
    steps = trace(lambda w: ops.sum(w[::2]), param("f32[4]"))
    with pytest.raises(NoGradient, match="by steps of 2"):
        grad(steps)


def test_a_loss_is_one_number() -> None:
    graph = trace(lambda w: ops.neg(w), param("f32[3]"))
    with pytest.raises(ValueError, match="a loss has one, as a sum or mean gives"):
        grad(graph)
    graph = trace(lambda i: ops.sum(i), param("i64[3]"))
    with pytest.raises(ValueError, match="is of no float"):
        grad(graph)


def test_a_symbolic_mean() -> None:
    """Of a size that is known at run time the gradient is a number of then."""
    graph = grad(trace(lambda x: ops.mean(x * x), param("f32[N, 4]"), symbols={"N": 64}))
    assert "factor=1 / (4*N)" in graph.text()
    x = np.arange(12, dtype="f4").reshape(3, 4)
    (found,) = interpret(graph, {"x": x})
    assert np.allclose(found, 2 * x / 12)


def test_the_gradient_of_a_gradient() -> None:
    first = trace(lambda x: ops.sum(x * x * x), param("f64[3]"))
    found = derive(first)
    g = found.gradients["x"]
    second = found.graph
    second.outputs[:] = [second.add("sum", g).out]
    x = np.arange(3, dtype="f8")
    (twice,) = interpret(grad(second), {"x": x})
    assert np.allclose(twice, 6 * x)


# ---- every row ----------------------------------------------------------------------------------


def with_gradient() -> list[str]:
    return [row.name for row in Table.default() if row.has_gradient]


@pytest.mark.guests("torch")
@pytest.mark.parametrize("op", with_gradient())
def test_every_row_beside_torch(op: str) -> None:
    """Each sample's outs, weighted and summed, in f64: the gradients are those of torch's words for
    the row."""
    torch: Any = pytest.importorskip("torch")
    from compiler.test_graph_rows import all_tensors, node_of, taken
    from rows import rows
    from rows.calls import call_reference

    for one in taken(op, torch.float64):
        graph = Graph()
        node = node_of(graph, op, one)
        outs = [v for v in node.outs[: graph.table[op].required_outs] if v is not None]
        outs = [v for v in outs if v.type.dtype == "f64"]
        if not outs or not any(t.requires_grad for t in all_tensors(one)):
            continue
        parts = []
        for i, out in enumerate(outs):
            weight = graph.input(f"weight{i}", out.type)
            parts.append(graph.add("sum", graph.add("mul", out, weight).out).out)
        loss = parts[0]
        for part in parts[1:]:
            loss = graph.add("add", loss, part).out
        graph.output(loss)
        named = dict(zip((v.name for v in graph.inputs), all_tensors(one), strict=False))
        wrt = [name for name, t in named.items() if t.requires_grad]
        source = torch.Generator().manual_seed(1)
        weights = {
            f"weight{i}": torch.rand(v.type.shape, generator=source, dtype=torch.float64)  # type: ignore[union-attr]
            for i, v in enumerate(outs)
        }
        given = {k: t.detach() for k, t in named.items()} | weights
        found = interpret(grad(graph, loss, wrt), given)
        results = call_reference(rows()[op], one.args, one.kwargs)
        total = sum(
            (r * weights[f"weight{i}"]).sum() for i, r in enumerate(results[: len(outs)])
        )  # fmt: skip
        want = torch.autograd.grad(total, [named[n] for n in wrt], allow_unused=True)
        for name, a, b in zip(wrt, found, want, strict=True):
            b = torch.zeros_like(named[name]) if b is None else b
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-9), (op, name, (a - b).abs().max())
