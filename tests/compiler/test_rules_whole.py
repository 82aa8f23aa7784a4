"""Passes over a whole graph: constants are folded, what is computed twice is once, what nobody
needs goes; and what runs give, update and share stays as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from aicf import ops, param, trace, training_step, value_and_grad
from aicf.compiler.ir.graph import Graph
from aicf.compiler.passes.canonicalise import canonicalise
from aicf.compiler.passes.cse import Cse
from aicf.compiler.passes.dce import Dce
from aicf.compiler.passes.fold import REASONS, Fold
from aicf.compiler.passes.rule import Context, Pass
from aicf.compiler.passes.rules import fusing, simplifying
from aicf.compiler.passes.rules.pool_before_relu import pooling
from aicf.compiler.passes.rules.shared_product import SharedProduct
from aicf.compiler.runtime.interpret import interpret
from compiler.drawing import graphs
from compiler.test_rules_engine import applied, ops_of, reasons, run, same

np: Any = pytest.importorskip("numpy")
pytestmark = pytest.mark.promise("MARK-9-whole-graph")


# ---- dead code ----------------------------------------------------------------------------------


def test_what_nobody_needs_goes() -> None:
    def f(x: Any, w: Any) -> Any:
        ops.exp(x) + ops.log(x)
        return x @ w

    found = applied(Dce(), trace(f, "f32[3, 4]", param("f32[4, 5]")))
    assert ops_of(found.graph) == ["gemm"]
    assert [line.partition(" @ ")[0] for r in found.fired for line in r.nodes] == [
        "%exp: f32[3, 4] = exp(%x)", "%log: f32[3, 4] = log(%x)",
        "%add: f32[3, 4] = add(%exp, %log)",
    ]  # fmt: skip


def test_updates_of_entries_stay() -> None:
    """Of params and inputs, by way of views too, whether the result is read or not."""

    def f(x: Any, w: Any, v: Any) -> Any:
        ops.sgd([w], [ops.relu(w)], lr=0.5)
        ops.fill(x, value=2.0)
        ops.fill(v[1:], value=3.0)
        ops.fill(ops.relu(x), value=1.0)  # of nobody's memory
        return ops.neg(w)

    found = applied(Dce(), trace(f, "f32[3]", param("f32[4]"), param("f32[4]")))
    assert ops_of(found.graph) == ["relu", "sgd", "fill", "view.slice", "fill", "neg"]


def test_what_an_update_of_a_buffer_needs_stays_with_it() -> None:
    def f(x: Any) -> Any:
        h = ops.relu(x)
        ops.fill(h[1:], value=1.0)
        return x + 1, ops.neg(x)

    found = applied(Dce(), trace(f, "f32[3]"))
    assert ops_of(found.graph) == ["add", "neg"]


def test_outs_and_constants_that_nobody_reads() -> None:
    graph = Graph()
    x, y = graph.input("x", "f32[3, 4]"), graph.input("y", "i64[3]")
    graph.constant("idle", "f32[]", 1)
    graph.constant("weights", "f32[4]")
    two = graph.constant("kept", "f32[]", 2)
    node = graph.add("cross_entropy", x, y, want=(True, True, True))
    _, _, divisor = node.results
    graph.output(node.out, graph.add("mul", divisor, two).out)
    found = applied(Dce(), graph)
    assert [v is not None for v in found.graph.nodes[0].outs] == [True, False, True]
    assert [v.name for v in found.graph.constants] == ["kept"]
    assert not applied(Dce(), found.graph).fired


def test_entries_stay() -> None:
    graph = trace(lambda x, y, w: ops.relu(x), "f32[3]", "f32[3]", param("f32[4]"))
    assert not applied(Dce(), graph).fired


# ---- common subexpressions ----------------------------------------------------------------------


def test_computed_once() -> None:
    def f(x: Any, w: Any) -> Any:
        return ops.relu(x @ w) + ops.relu(x @ w), ops.sum(x @ w, axes=0), ops.sum(x @ w, axes=1)

    found = applied(Cse(), trace(f, "f32[3, 4]", "f32[4, 5]"))
    assert ops_of(found.graph) == ["gemm", "relu", "add", "sum", "sum"]


def test_other_attributes_operands_and_outs_are_others() -> None:
    graph = Graph()
    x, y = graph.input("x", "f32[3, 4]"), graph.input("y", "i64[3]")
    for reduction in ("mean", "sum"):
        graph.output(graph.add("cross_entropy", x, y, reduction=reduction).out)
    _, lse = graph.add("cross_entropy", x, y, want=(True, True, False)).results
    graph.output(lse)
    graph.output(graph.add("sub", x, x).out, graph.add("scale", x, factor=1).out)
    graph.output(graph.add("scale", x, factor=1.5).out, graph.add("dropout", x, seed=1).out)
    graph.output(graph.add("dropout", x, seed=2).out)
    assert not applied(Cse(), graph).fired


def test_the_same_random_numbers_are_drawn_once() -> None:
    graph = trace(lambda x: ops.dropout(x, seed=3) + ops.dropout(x, seed=3), "f32[64]")
    assert ops_of(applied(Cse(), graph).graph) == ["dropout", "add"]


def test_what_is_read_before_and_after_an_update() -> None:
    def f(w: Any) -> Any:
        before = ops.relu(w)
        ops.fill(w, value=1.0)
        return before + ops.relu(w)

    assert not applied(Cse(), trace(f, param("f32[3]"))).fired


def test_results_that_are_updated_or_given_back_are_not_shared() -> None:
    def updated(x: Any) -> Any:
        first, second = ops.relu(x), ops.relu(x)
        ops.fill(first, value=1.0)
        return first + second

    def updated_second(x: Any) -> Any:
        first, second = ops.relu(x), ops.relu(x)
        ops.fill(second, value=1.0)
        return first + second

    def overwritten(x: Any) -> Any:
        first = ops.relu(x)
        ops.fill(first, value=1.0)
        return first + ops.relu(x)

    def given(x: Any) -> Any:
        return ops.relu(x), ops.relu(x)

    def viewed(x: Any) -> Any:
        return ops.relu(x)[1:], ops.relu(x)

    expected = ("overwritten", "shares-memory", "overwritten", "shares-memory", "shares-memory")
    for f, reason in zip(
        (updated, updated_second, overwritten, given, viewed), expected, strict=True
    ):
        assert reasons(applied(Cse(), trace(f, "f32[3]"))) == [reason], f.__name__


def test_updates_are_never_taken_together() -> None:
    def f(w: Any) -> Any:
        ops.sgd([w], [ops.relu(w)], lr=0.5)
        ops.sgd([w], [ops.relu(w)], lr=0.5)
        return ops.relu(w)

    graph = trace(f, param("f32[3]"))
    assert ops_of(applied(Cse(), graph).graph).count("sgd") == 2


def test_constants_of_one_number() -> None:
    graph = Graph()
    x = graph.input("x", "f32[3]")
    numbers = [graph.constant(n, "f32[]", v) for n, v in (("a", 2), ("b", 2.0), ("c", -0.0))]
    numbers += [graph.constant("d", "f32[]", 0.0), graph.constant("e", "f64[]", 2)]
    y = [graph.add("mul", x, c).out for c in numbers[:4]]
    graph.output(graph.add("concat", tuple(y)).out)
    found = applied(canonicalise(), applied(Cse(), graph).graph)
    assert ops_of(applied(Cse(), graph).graph) == ["mul", "mul", "mul", "mul", "concat"]
    assert not found.fired
    graph.constants[numbers[0]] = 2.0
    assert ops_of(applied(Cse(), graph).graph) == ["mul", "mul", "mul", "concat"]


# ---- constants ----------------------------------------------------------------------------------


def test_numbers_are_folded_to_numbers() -> None:
    graph = Graph()
    x = graph.input("x", "f32[2, 3]")
    half = graph.constant("half", "f32[]", 0.5)
    wide = graph.add("view.expand", half, shape=(2, 3)).out
    e = graph.add("exp", graph.add("mul", wide, half).out).out
    graph.output(graph.add("mul", x, e).out)
    found = applied(Fold(), graph)
    assert ops_of(found.graph) == ["view.expand", "mul"]
    assert not found.data
    (number,) = [n for v, n in found.graph.constants.items() if v.name == "exp"]
    assert number == float(np.float32(number))
    assert number == pytest.approx(np.exp(0.25), rel=1e-6)
    assert len(found.fired) == 2
    assert found.fired[1].by == (f"constant %exp: f32[2, 3] = {number!r}",)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i64"])
def test_data_is_folded(dtype: str) -> None:
    import ml_dtypes

    kind = {"bf16": ml_dtypes.bfloat16, "i64": "i8"}.get(dtype) or "f" + str(int(dtype[1:]) // 8)
    table = np.arange(12).reshape(3, 4).astype(kind)
    graph = Graph()
    x, c = graph.input("x", f"{dtype}[4, 3]"), graph.constant("c", f"{dtype}[3, 4]")
    turned = graph.add("view.permute", graph.add("add", c, c).out, perm=(1, 0)).out
    graph.output(graph.add("mul", x, turned).out)
    found = applied(Fold(), graph, context=Context(data={"c": table}))
    assert ops_of(found.graph) == ["view.permute", "mul"]
    assert list(found.data) == ["add"]
    assert (found.data["add"] == table + table).all()


def test_data_of_torch_is_folded() -> None:
    torch = pytest.importorskip("torch")
    graph = Graph()
    c = graph.constant("c", "f32[3]")
    graph.output(graph.add("add", graph.input("x", "f32[3]"), graph.add("neg", c).out).out)
    found = Fold().run(graph, Context(data={"c": torch.ones(3, requires_grad=True)}))
    assert found.graph.constants[found.graph.value("neg")] == -1


def test_data_of_a_device_is_brought_by_the_backend() -> None:
    class Elsewhere:
        """Memory that the host does not read."""

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise TypeError("not here")

    class Device:
        def to_host(self, tensor: Any) -> Any:
            assert isinstance(tensor, Elsewhere)
            return np.full(3, 2, "f4")

    graph = Graph()
    negative = graph.add("neg", graph.constant("c", "f32[3]")).out
    graph.output(graph.add("add", graph.input("x", "f32[3]"), negative).out)
    data = {"c": Elsewhere()}
    assert folded_reasons(graph, data=data) == ["no-data"]
    found = Fold().run(graph, Context(backend=Device(), data=data))
    assert found.graph.constants[found.graph.value("neg")] == -2


def folded_reasons(graph: Graph, **context: Any) -> list[str]:
    found = Fold().run(graph, Context(**context))
    assert found.graph is graph
    return reasons(found)


def test_what_is_not_folded() -> None:
    big = trace(lambda x: x + ops.relu(ops.exp(x * 0 + 1)), "f32[3]")
    assert folded_reasons(big) == []
    met = set()

    def constant(shape: str, number: float | None = 1.0) -> tuple[Graph, Any]:
        graph = Graph()
        graph.symbol("N", 1, 8)
        c = graph.constant("c", f"f32[{shape}]", number)
        return graph, graph.add("exp", c).out

    graph, e = constant("3")
    graph.output(e)
    met.update(folded_reasons(graph))
    graph, e = constant("3")
    (state,) = graph.add("fill", e, value=1.0).results
    graph.output(graph.add("relu", state).out)
    met.update(folded_reasons(graph))
    graph, e = constant("N")
    graph.output(graph.add("relu", e).out)
    met.update(folded_reasons(graph))
    graph, e = constant("3", None)
    graph.output(graph.add("relu", e).out)
    met.update(folded_reasons(graph))
    met.update(folded_reasons(graph, data={"c": np.ones(4, "f4")}))
    met.update(folded_reasons(graph, data={"c": np.ones(3)}))
    met.update(folded_reasons(graph, data={"c": object()}))
    assert met == {"is-output", "updates", "symbol", "no-data"}
    graph.outputs.clear()
    graph.output(graph.add("add", e, graph.input("x", "f32[3]")).out)
    data = {"c": np.ones(3, "f4")}
    assert Fold().run(graph, Context(data=data)).fired
    assert folded_reasons(graph, data=data, options={"fold_bytes": 11}) == ["too-large"]
    assert folded_reasons(graph, data=data, options={"fold_flops": 3}) == ["too-large"]
    assert {*met, "too-large", "no-kernel"} == set(REASONS)


def test_params_are_folded_only_where_nobody_changes_them() -> None:
    def f(x: Any, w: Any) -> Any:
        return x @ ops.relu(w)

    graph = trace(f, "f32[3, 4]", param("f32[4, 5]"))
    data = {"w": np.full((4, 5), -0.5, "f4")}
    assert not Fold().run(graph, Context(data=data)).fired
    found = applied(Fold(), graph, context=Context(data=data, frozen=frozenset("w")))
    assert ops_of(found.graph) == ["gemm"]

    def updated(x: Any, w: Any) -> Any:
        h = x @ ops.relu(w)
        ops.fill(w, value=1.0)
        return h

    graph = trace(updated, "f32[3, 4]", param("f32[4, 5]"))
    assert not Fold().run(graph, Context(data=data, frozen=frozenset("w"))).fired


def test_a_limit_folds_so_many() -> None:
    graph = Graph()
    c = graph.constant("c", "f32[3]", 0.5)
    for _ in range(4):
        c = graph.add("exp", c).out
    graph.output(graph.add("add", c, graph.input("x", "f32[3]")).out)
    for limit in range(5):
        assert len(applied(Fold(), graph, context=Context(limit=limit)).fired) == limit


# ---- all of them --------------------------------------------------------------------------------

PASSES: tuple[Pass, ...] = (canonicalise(simplifying()), Cse(), *fusing(), Fold(), Dce())


def through(graph: Graph, context: Context | None = None) -> tuple[Graph, dict[str, Any]]:
    data: dict[str, Any] = {}
    for each in PASSES:
        text = graph.text()
        found = each.run(graph, context)
        assert graph.text() == text
        found.graph.verify()
        graph = found.graph
        data |= found.data
    return graph, data


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_random_graphs_stay_graphs(graph: Graph) -> None:
    """Of all rows, in place too, with symbolic sizes: entries, and types and count of outputs."""
    found, _ = through(graph)
    assert [v.name for v in found.inputs] == [v.name for v in graph.inputs]
    assert [v.name for v in found.params] == [v.name for v in graph.params]
    assert [v.type for v in found.outputs] == [v.type for v in graph.outputs]
    through(found)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_steps_compute_the_same(optimizer: str) -> None:
    """Every weight after the step, and the loss."""

    def loss(x: Any, y: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
        h = ops.relu(x @ w + b) * 0.5
        h = ops.dropout(ops.neg(ops.neg(h)), seed=5, p=0.25)
        return ops.cross_entropy(ops.gelu(h @ v + c), y)

    types = ("f32[6, 4]", "i64[6]", param("f32[4, 8]"), param("f32[8]"), param("f32[8, 5]"),
             param("f32[5]"))  # fmt: skip
    more = {"step": 1} if optimizer == "adam" else {}
    graph = training_step(trace(loss, *types), optimizer, lr=0.1, **more).graph
    found, data = through(graph)
    assert len(found.nodes) < len(graph.nodes)
    source = np.random.default_rng(0)
    given = {
        v.name: np.abs(source.standard_normal(v.type.shape).astype("f4"))
        if v.type.dtype == "f32" else source.integers(0, 5, 6)
        for v in (*graph.inputs, *graph.params)
    }  # fmt: skip
    same(run(graph, given), run(found, given, data), 1e-5)


# ---- pooling ------------------------------------------------------------------------------------


WINDOWS = [
    {"window": 2, "stride": 2},
    {"window": 3, "stride": 1},
    {"window": 3, "stride": 2, "pad": 1},
    {"window": (2, 3), "stride": (1, 2), "ceil_mode": True},
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_rectifier_goes_behind_the_pooling(window: dict[str, Any]) -> None:
    """Forward alone, and with its backward: the same numbers, and no large node more."""
    types = ["f32[2, 3, 6, 7]", param("f32[4, 3, 3, 3]"), param("f32[4]")]

    def small(x: Any, k: Any, c: Any) -> Any:
        return ops.max_pool2d(ops.relu(ops.conv2d(x, k, c, pad=1)), **window)

    graph = trace(small, *types)
    found = applied(pooling(), graph)
    assert ops_of(found.graph) == ["conv2d", "max_pool2d", "relu"]

    def loss(x: Any, k: Any, c: Any) -> Any:
        h = small(x, k, c)
        return ops.sum(h * ops.sigmoid(h), axes=None)

    graph = training_step(trace(loss, *types), "sgd", lr=0.1).graph
    step = applied(pooling(), graph, 1e-6)
    assert [r.rule for r in step.fired][:2] == ["pool-before-relu-backward", "pool-before-relu"]
    large = [
        n.op for n in step.graph.nodes if n.outs and n.out.type == found.graph.nodes[0].out.type
    ]
    assert large == ["conv2d", "max_pool2d_bwd"]


@pytest.mark.parametrize("axes", [None, (2, 3), (0, 2, 3), (1, 2, 3), (0, 1), (0, 2), (3,)])
def test_sums_of_what_a_pooling_gives_back(axes: tuple[int, ...] | None) -> None:
    """Are of what it was given, where they are over images."""
    graph = Graph()
    x, g = graph.input("x", "f32[2, 3, 5, 6]"), graph.input("g", "f32[2, 3, 4, 5]")
    node = graph.add("max_pool2d", x, window=2, stride=1, want=(True, True))
    _, places = node.results
    back = graph.add("max_pool2d_bwd", g, places, H=5, W=6, window=2, stride=1).out
    graph.output(graph.add("sum", back, axes=axes, keepdim=axes == (2, 3)).out)
    if axes is None:
        graph.output(graph.add("bias_add_bwd", back).out)
    found = applied(pooling(), graph, 1e-5)
    assert bool(found.fired) == (axes is None or {2, 3} <= set(axes))
    assert ("max_pool2d_bwd" in ops_of(found.graph)) == (not found.fired)


def test_views_of_views_of_constants() -> None:
    """As many as there may be."""
    graph = Graph()
    c = graph.constant("c", "f32[4]", 0.5)
    for i in range(1100):
        c = graph.add("view.reshape", c, shape=(4,) if i % 2 else (2, 2)).out
    graph.output(graph.add("add", graph.input("x", "f32[4]"), graph.add("exp", c).out).out)
    found = Fold().run(graph)
    assert ops_of(found.graph)[-1] == "add"
    assert "exp" not in ops_of(found.graph)


def test_what_the_backward_keeps_is_small() -> None:
    """It reads the result of the rectifier, which is there anyway, and not of the pooling."""

    def loss(x: Any) -> Any:
        h = ops.max_pool2d(ops.relu(x), window=2, stride=2)
        return ops.sum(h * ops.sigmoid(h), axes=None)

    found = pooling().run(value_and_grad(trace(loss, param("f32[1, 2, 4, 4]")))).graph
    assert ops_of(found).count("relu") == ops_of(found).count("max_pool2d") == 1
    (back,) = (n for n in found.nodes if n.op == "relu_bwd")
    made = found.producer([*back.reads][1])
    assert made is not None
    assert made.op == "relu"


def test_pooling_of_what_is_no_number_and_of_zeros() -> None:
    """A NaN is the largest, of zeros the sign is not promised, and where none is above 0 nothing
    goes back."""

    def loss(x: Any) -> Any:
        h = ops.max_pool2d(ops.relu(x), window=2, stride=2)
        return ops.sum(ops.sum(h * h, axes=None) * 0.5, axes=None)

    graph = value_and_grad(trace(loss, param("f32[1, 1, 4, 4]")))
    found = pooling().run(graph).graph
    assert len(found.nodes) <= len(graph.nodes)
    odd = np.array([[-1, -0.0, 0.0, -2], [-3, -4, np.inf, 1], [np.nan, 1, 2, 2], [0, 1, 2, -1]])
    for x in (odd, np.nan_to_num(odd, nan=7.0, posinf=8.0)):
        given = {"x": x.astype("f4").reshape(1, 1, 4, 4)}
        for a, b in zip(interpret(graph, given), interpret(found, given), strict=True):
            assert np.array_equal(a, b, equal_nan=True)


def test_a_rectifier_that_is_read_stays_before_the_pooling() -> None:
    def both(x: Any) -> Any:
        h = ops.relu(x)
        return ops.max_pool2d(h, window=2, stride=2), ops.sigmoid(h)

    graph = trace(both, "f32[1, 1, 4, 4]")
    assert reasons(applied(pooling(), graph)) == ["read-elsewhere"]
    graph = Graph()
    x = graph.add("relu", graph.input("x", "f32[1, 1, 4, 4]")).out
    node = graph.add("max_pool2d", x, window=2, stride=2, want=(True, True))
    graph.output(*node.results)
    assert reasons(applied(pooling(), graph)) == ["out-used"]


# ---- products that are computed twice -----------------------------------------------------------


def test_a_product_with_and_without_its_activation_is_computed_once() -> None:
    """As the gradient of gelu asks, which reads what the epilogue does not keep."""

    def loss(x: Any, w: Any, b: Any, v: Any) -> Any:
        h = ops.gemm(x, w, b, act="gelu")
        return ops.sum(ops.gemm(h, v, act="relu"), axes=None)

    types = ("f32[6, 4]", param("f32[4, 8]"), param("f32[8]"), param("f32[8, 5]"))
    graph = value_and_grad(trace(loss, *types))
    assert ops_of(graph).count("gemm") == 6
    found = applied(SharedProduct(), graph, 1e-6)
    assert ops_of(found.graph)[:3] == ["gemm", "gelu", "gemm"]
    assert ops_of(found.graph).count("gemm") == 5
    assert found.graph.nodes[2].attrs["act"] == "relu"  # whose gradient reads the result
    again, _ = through(found.graph)
    assert ops_of(again).count("gelu") == 1


def test_products_that_differ_otherwise_are_not_shared() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        plain = ops.gemm(x, w, b, alpha=2.0)
        return ops.gemm(x, w, b, act="relu"), plain, ops.gemm(x, w, act="gelu"), ops.gelu(plain)

    graph = trace(f, "f32[6, 4]", param("f32[4, 8]"), param("f32[8]"))
    assert not applied(SharedProduct(), graph).fired
