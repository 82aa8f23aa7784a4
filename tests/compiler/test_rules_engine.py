"""Rules and the engine: patterns, what fires, what is refused by name, memory, order, loops."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import pytest

from aicf import ops, param, trace
from aicf.compiler.ir.graph import Graph
from aicf.compiler.passes.engine import Endless, apply
from aicf.compiler.passes.rule import Applied, Context, Group, Rule, RuleError
from aicf.compiler.passes.rules.dense_permutes import DensePermutes
from aicf.compiler.passes.rules.double_negation import DoubleNegation
from aicf.compiler.passes.rules.matmul_bias_act import MatmulBiasAct
from aicf.compiler.passes.rules.times_one import TimesOne
from aicf.compiler.runtime.interpret import interpret

np: Any = pytest.importorskip("numpy")
pytestmark = pytest.mark.promise("MARK-9-rules")


def ops_of(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def reasons(found: Applied) -> list[str]:
    return [r.reason for r in found.refused]


def data_of(graph: Graph, seed: int = 0) -> dict[str, Any]:
    """Random numbers for what a graph is given."""
    source = np.random.default_rng(seed)
    words = {"f32": "f4", "f64": "f8", "f16": "f2"}
    given = [*graph.inputs, *graph.params, *(c for c, n in graph.constants.items() if n is None)]
    found: dict[str, Any] = {}
    for v in given:
        shape, dtype = v.type.shape, v.type.dtype  # type: ignore[union-attr]
        if dtype in words:
            found[v.name] = source.standard_normal(shape).astype(words[dtype])
        elif dtype == "bf16":
            import ml_dtypes

            found[v.name] = source.standard_normal(shape).astype(ml_dtypes.bfloat16)
        else:
            found[v.name] = source.integers(0, 5, shape).astype(dtype.replace("i", "int"))
    return found


def run(graph: Graph, data: dict[str, Any], more: Any = ()) -> list[Any]:
    """The outputs, and the params and inputs as they are afterwards."""
    given = {**copy.deepcopy(data), **dict(more)}
    found = interpret(graph, given)
    return [*found, *(given[v.name] for v in (*graph.inputs, *graph.params))]


def same(a: list[Any], b: list[Any], rtol: float = 0.0) -> None:
    """Bit by bit but for NaN, or within a part of the largest."""
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        if x.dtype.kind not in "fV":
            assert np.array_equal(x, y)
            continue
        wide = [np.asarray(v, "f8") for v in (x, y)]
        if rtol:
            assert np.allclose(*wide, rtol=rtol, atol=rtol * (np.abs(wide[0]).max(initial=0) + 1))
        else:
            assert np.array_equal(*wide, equal_nan=True)
            signs = [np.signbit(v) & ~np.isnan(v) for v in wide]
            assert np.array_equal(*signs)


def applied(rule: Any, graph: Graph, rtol: float = 0.0, context: Context | None = None) -> Applied:
    """A pass on a graph: the given one is as it was, the new one is right and gives the same."""
    text = graph.text()
    found: Applied = rule.run(graph, context)
    assert graph.text() == text
    if not found.fired:
        assert found.graph is graph
        return found
    found.graph.verify()
    assert [v.name for v in found.graph.inputs] == [v.name for v in graph.inputs]
    assert [v.type for v in found.graph.outputs] == [v.type for v in graph.outputs]
    data = data_of(graph) | dict(context.data if context else {})
    same(run(graph, data), run(found.graph, data, found.data), rtol)
    return found


# ---- what is found ------------------------------------------------------------------------------


def test_a_chain_in_one_run() -> None:
    graph = trace(lambda x: ops.relu(ops.neg(ops.neg(ops.neg(ops.neg(ops.neg(x)))))), "f32[3]")
    found = applied(DoubleNegation(), graph)
    assert ops_of(found.graph) == ["neg", "relu"]
    assert [v.name for v in found.graph.outputs] == ["relu"]


def test_what_fired_says_what_went_and_what_came() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        return ops.relu(x @ w + b)

    graph = trace(f, "f32[N, 4]", param("f32[4, 8]"), param("f32[8]"), symbols={"N": (1, 64)})
    found = MatmulBiasAct().run(graph)
    first, second = found.fired
    assert [line.partition(" @ ")[0] for line in first.nodes] == [
        "%gemm: f32[N, 8] = gemm(%x, %w)",
        "%add: f32[N, 8] = add(%gemm, %b)",
    ]
    assert second.by[0].startswith('%relu: f32[N, 8] = gemm(%x, %w, %b, act="relu")')
    assert second.loc is not None
    assert second.loc.line == inspect.getsourcelines(f)[1] + 1
    file, _, line = second.at.rpartition(":")
    assert file.endswith("matmul_bias_act.py")
    assert "def rewrite" in Path(file).read_text("utf-8").splitlines()[int(line) - 1]
    assert found.graph.nodes[0].loc == graph.nodes[-1].loc
    applied(MatmulBiasAct(), graph.bind({"N": 3}), 1e-6)


class Seen(Rule):
    """f(...) = f(...), where it is looked at"""

    name = "seen"

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern  # type: ignore[method-assign]
        self.matches: list[Any] = []

    def check(self, m: Any) -> None:
        self.matches.append(m)
        m.refuse("type", "it is only looked at")

    def rewrite(self, m: Any, e: Any) -> Any:
        raise AssertionError


def seen(pattern: Any, graph: Graph) -> list[Any]:
    rule = Seen(pattern)
    assert rule.run(graph).graph is graph
    return rule.matches


def small() -> Graph:
    """Of each kind of operand something."""
    graph = Graph()
    x, y = graph.input("x", "f32[3, 3]"), graph.input("y", "f32[3, 3]")
    two = graph.constant("two", "f32[]", 2)
    graph.add("gemm", x, y, act="relu", alpha=2.0)
    graph.add("gemm", x, y, graph.input("bias", "f32[3]"))
    graph.add("mul", two, x)
    graph.add("scale", x, factor=0.5)
    graph.add("concat", (x, y), axis=-1)
    graph.add("sub", x, x)
    graph.add("view.permute", x, perm=(1, 0))
    graph.add("cross_entropy", x, graph.input("t", "i64[3]"), want=(True, True, False))
    graph.output(x)
    return graph


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        (lambda op, a, b: op.gemm(a, b), 0),
        (lambda op, a, b: op.gemm(a, b, ...), 2),
        (lambda op, a, b: op.gemm(a, b, ..., act="relu"), 1),
        (lambda op, a, b: op.gemm(a, b, act="relu", alpha=2), 1),
        (lambda op, a, b, n: op.gemm(a, b, act="relu", alpha=n), 1),
        (lambda op, a, b, c: op.gemm(a, b, c), 1),
        (lambda op, a, b, c=None: op.gemm(a, b, c, ...), 2),
        (lambda op, a, b: op.gemm(a, b, None, ...), 1),
        (lambda op, a: op.gemm(a, a, ...), 0),
        (lambda op, a: op.mul(a, 2), 0),
        (lambda op, a: op.mul(a, 2).commuted(), 1),
        (lambda op, a: op.mul(2.0, a), 1),
        (lambda op, a: op.mul(3, a), 0),
        (lambda op, a, n: op.mul(op.filled(n), a), 1),
        (lambda op, x: op.scale(x, factor=0.5), 1),
        (lambda op, x: op.scale(x, factor=1), 0),
        (lambda op, x, f: op.scale(x, factor=f), 1),
        (lambda op, x, y: op.concat([x, y], axis=1), 1),
        (lambda op, x, y: op.concat([x, y], axis=-1), 1),
        (lambda op, x, y: op.concat([x, y], axis=0), 0),
        (lambda op, x, y: op.concat([x, y], axis=7), 0),
        (lambda op, x, y, z: op.concat([x, y, z], ...), 0),
        (lambda op, xs: op.concat(xs, ...), 1),
        (lambda op, x: op.sub(x, x), 1),
        (lambda op, x, y: op.sub(x, y), 1),
        (lambda op, x: op.view.permute(x, perm=(1, 0)), 1),
        (lambda op, x: op.view.permute(x, perm=(0, 1)), 0),
        (lambda op, x, y: op.cross_entropy(x, y), 1),
        (lambda op, x, y: op.sub(x, y) | op.mul(x, y), 2),
        (lambda op, x: op.relu(x), 0),
        (lambda op, x: op.no_such_row(x), 0),
    ],
)
def test_patterns(pattern: Any, count: int) -> None:
    assert len(seen(pattern, small())) == count


def test_what_a_match_has() -> None:
    def pattern(op: Any, a: Any, b: Any, bias: Any = None) -> Any:
        return op.gemm(a, b, bias, ...).named("product")

    first, second = seen(pattern, small())
    assert (str(first.a), str(first.b), first.bias, str(second.bias)) == (
        "%x", "%y", None, "%bias"
    )  # fmt: skip
    assert first.product is first.root
    assert ("bias" in first, "bias" in second, "product" in first) == (False, True, True)
    with pytest.raises(AttributeError, match="found no variable or node 'c'"):
        first.c


def test_zeros_differ_by_their_signs() -> None:
    graph = Graph()
    x = graph.input("x", "f32[3]")
    for i, zero in enumerate((0.0, -0.0)):
        graph.add("mul", x, graph.constant(f"c{i}", "f32[]", zero))
        graph.add("scale", x, factor=zero)
    assert len(seen(lambda op, x: op.mul(x, 0), graph)) == 1
    assert len(seen(lambda op, x: op.mul(x, -0.0), graph)) == 1
    assert len(seen(lambda op, x: op.scale(x, factor=0), graph)) == 1


def test_a_call_that_stands_twice_is_one_node() -> None:
    def pattern(op: Any, x: Any) -> Any:
        half = op.sigmoid(x)
        return op.mul(half, half)

    same_node = trace(lambda x: (lambda s: s * s)(ops.sigmoid(x)), "f32[3]")
    two = trace(lambda x: ops.sigmoid(x) * ops.sigmoid(x), "f32[3]")
    assert len(seen(pattern, same_node)) == 1
    assert not seen(pattern, two)


def test_a_pattern_that_is_wrong_is_refused() -> None:
    with pytest.raises(TypeError, match="a pattern says colour of gemm, which has none"):
        seen(lambda op, a, b: op.gemm(a, b, ..., colour=1), small())
    with pytest.raises(RuleError, match="'root' is the name of something else"):
        seen(lambda op, root: op.relu(root), small())
    with pytest.raises(RuleError, match="'x' is the name of something else"):
        seen(lambda op, x: op.relu(op.neg(x).named("x")), small())
    for what in (lambda op, x: x, lambda op, x: None, lambda op, x: op.relu(x) | x):
        with pytest.raises(RuleError, match="seen: a pattern is a call of an op, or one of"):
            seen(what, small())
    with pytest.raises(RuleError, match="refusals in a tuple"):
        made(lambda m, e: m.x, refusals="whim").run(one())


# ---- what the engine refuses --------------------------------------------------------------------


def product(x: Any, w: Any, b: Any) -> Any:
    return x @ w, b


TYPES = ("f32[2, 4]", param("f32[4, 4]"), param("f32[4]"))


def test_read_elsewhere() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        h = x @ w
        return ops.relu(h), ops.sigmoid(h)

    found = applied(MatmulBiasAct(), trace(f, *TYPES))
    assert reasons(found) == ["read-elsewhere"]
    assert "%gemm is read by %sigmoid: f32[2, 4] = sigmoid(%gemm)" in found.refused[0].detail
    assert found.refused[0].node.startswith("%relu: f32[2, 4] = relu(%gemm)")


def test_read_elsewhere_before() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        h = x @ w
        s = ops.sigmoid(h)
        return ops.relu(h), s

    assert reasons(applied(MatmulBiasAct(), trace(f, *TYPES))) == ["read-elsewhere"]


@pytest.mark.promise("COMPILER-fusion-output")
def test_is_output() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        h = x @ w
        return ops.relu(h), h

    assert reasons(applied(MatmulBiasAct(), trace(f, *TYPES))) == ["is-output"]


def test_out_used() -> None:
    """Another out of what goes is read; of a root, where the rule gives one value alone."""

    class Loss(Rule):
        """cross_entropy(x, y) = cross_entropy(x, y, reduction=sum), which it is not"""

        name = "loss"

        def pattern(self, op: Any, x: Any, y: Any) -> Any:
            return op.cross_entropy(x, y)

        def rewrite(self, m: Any, e: Any) -> Any:
            return e.node("cross_entropy", m.x, m.y, reduction="sum").out

    graph = Graph()
    x, y = graph.input("x", "f32[3, 4]"), graph.input("y", "i64[3]")
    node = graph.add("cross_entropy", x, y, want=(True, True, False))
    graph.output(*node.results)
    found = Loss().run(graph)
    assert reasons(found) == ["out-used"]
    assert "%lse is read, and the rule gives none" in found.refused[0].detail
    graph.outputs.pop()
    assert len(Loss().run(graph).fired) == 1


def test_overwritten() -> None:
    """What the new node would read is updated between the nodes that go."""

    def f(x: Any, w: Any, b: Any) -> Any:
        h = x @ w
        ops.sgd([w], [w * w], lr=0.1)
        return ops.relu(h), w

    found = applied(MatmulBiasAct(), trace(f, *TYPES))
    assert reasons(found) == ["overwritten"]
    assert "%w was updated by p -> [%w_1: f32[4, 4]] = sgd([%w]" in found.refused[0].detail


def test_overwritten_later() -> None:
    """The result would lie in what is updated afterwards, and be read then."""

    def f(x: Any, w: Any, b: Any) -> Any:
        before = w * 1
        ops.sgd([w], [w * w], lr=0.1)
        return before @ w

    found = applied(TimesOne(), trace(f, *TYPES))
    assert reasons(found) == ["overwritten"]


def test_shares_memory() -> None:
    """A result of its own is not given back, or updated, with what it would share memory with."""

    def given(x: Any) -> Any:
        return x * 1

    def twice(x: Any) -> Any:
        h = ops.relu(x)
        return h, h * 1

    def updated(x: Any) -> Any:
        h = x * 1
        ops.fill(h, value=3.0)
        return ops.relu(h) + ops.relu(x)

    for f in (given, twice, updated):
        assert reasons(applied(TimesOne(), trace(f, "f32[3]"))) == ["shares-memory"]
    fine = trace(lambda x: ops.relu(x) * 1, "f32[3]")
    assert ops_of(applied(TimesOne(), fine).graph) == ["relu"]


def test_what_stands_for_a_value_is_updated_as_it_was() -> None:
    """In one run of a rule: a new value, and what would be read as that after its update."""

    def f(x: Any) -> Any:
        p = ops.permute(ops.permute(x, perm=(1, 0)), perm=(1, 0))
        before = ops.copy(p)
        ops.fill(p, value=1.0)
        return ops.relu(before)

    found = applied(DensePermutes(), trace(f, "f32[3, 2]"))
    assert ops_of(found.graph) == ["permute", "copy", "fill", "relu"]
    assert reasons(found) == ["overwritten"]


def test_updates() -> None:
    class Filled(Rule):
        """relu(fill(x, n)) = relu(x), which it is not"""

        name = "filled"

        def pattern(self, op: Any, x: Any, n: Any) -> Any:
            return op.fill(x, value=n)

        def rewrite(self, m: Any, e: Any) -> Any:
            return m.x

    def f(x: Any) -> Any:
        h = ops.relu(x)
        ops.fill(h, value=1.0)
        return h

    assert reasons(Filled().run(trace(f, "f32[3]"))) == ["updates"]


def made(give: Any, pattern: Any = lambda op, x: op.relu(x), **members: Any) -> Rule:
    """A rule of what it gives."""
    space = {
        "__doc__": "relu(x) = ?",
        "name": "made",
        "pattern": lambda self, *args: pattern(*args),
        "rewrite": lambda self, m, e: give(m, e),
        **members,
    }
    if "refusals" in members:
        space["refusals"] = members["refusals"]
    space["pattern"] = lambda self, op, x: pattern(op, x)
    rule: Rule = type("Made", (Rule,), space)()
    return rule


def one(type: str = "f32[3, 4]") -> Graph:
    graph = Graph()
    graph.output(graph.add("relu", graph.input("x", type)).out)
    return graph


def test_what_a_rule_gives_is_of_the_type_that_went() -> None:
    def turned(m: Any, e: Any) -> Any:
        return e.node("neg", e.permute(m.x, (1, 0)))

    found = made(turned).run(one())
    assert reasons(found) == ["type"]
    assert found.graph.text() == one().text()  # what was added for it is not there
    with pytest.raises(RuleError, match="made gives 3, and not a value or a node"):
        made(lambda m, e: 3).run(one())


def test_what_a_rule_gives_is_of_the_graph() -> None:
    other = one().outputs[0]
    with pytest.raises(RuleError, match=r"made gives %relu: f32\[3, 4\], which is no value of the"):
        made(lambda m, e: other).run(one())
    with pytest.raises(RuleError, match="which is no value of the graph"):
        made(lambda m, e: m.root).run(one())


def test_a_constant_may_stand_for_a_result_but_is_not_given_back() -> None:
    rule = made(lambda m, e: e.number(2, "f32", "cpu"))
    assert reasons(rule.run(one("f32[]"))) == ["shares-memory"]
    inside = trace(lambda x: ops.neg(ops.relu(x)), "f32[]")
    found = rule.run(inside).graph
    assert interpret(found, {"x": np.ones((), "f4")}) == [-2]


def test_layouts_that_no_kernel_takes() -> None:
    def turned(m: Any, e: Any) -> Any:
        return e.node("softmax", e.permute(m.x, (1, 0)))

    assert reasons(made(turned).run(one("f32[4, 4]"))) == ["layout"]


def test_a_size_that_is_not_known() -> None:
    graph = Graph()
    n = graph.symbol("N", 1, 64)
    graph.output(graph.add("relu", graph.input("x", f"f32[{n}, 4]")).out)
    rule = made(lambda m, e: m.refuse("type") if m.x.type.shape[0] > 8 else m.x)
    assert reasons(rule.run(graph)) == ["symbol"]


def test_a_size_that_a_check_does_not_know() -> None:
    graph = Graph()
    n = graph.symbol("N", 1, 64)
    graph.output(graph.add("relu", graph.input("x", f"f32[{n}, 4]")).out)
    check = lambda self, m: m.require(m.x.type.shape[0] > 8, "type")  # noqa: E731
    found = made(lambda m, e: e.node("neg", m.x), check=check).run(graph)
    assert reasons(found) == ["symbol"]
    assert "N in 1..64" in found.refused[0].detail


def test_a_reason_that_is_not_listed() -> None:
    rule = made(lambda m, e: m.refuse("whim"))
    with pytest.raises(RuleError, match="made refuses by 'whim', which it does not list"):
        rule.run(one())
    listed = made(lambda m, e: m.refuse("whim", "of mine"), refusals=("whim",)).run(one())
    assert [(r.reason, r.detail) for r in listed.refused] == [("whim", "of mine")]
    file, _, line = listed.refused[0].at.rpartition(":")
    assert file == __file__
    assert "of mine" in Path(file).read_text("utf-8").splitlines()[int(line) - 1]


def test_a_rule_that_raises_leaves_the_graph() -> None:
    graph = one()
    text = graph.text()

    def broken(m: Any, e: Any) -> Any:
        e.node("neg", m.x)
        raise ZeroDivisionError("oh")

    with pytest.raises(ZeroDivisionError, match="oh"):
        made(broken).run(graph)
    assert graph.text() == text


@pytest.mark.promise("COMPILER-rule-loops")
def test_a_rule_that_comes_to_no_end() -> None:
    rule = made(lambda m, e: e.node("relu", m.x))
    with pytest.raises(Endless, match="made comes to no end: it was applied 20 times"):
        rule.run(one())
    found = apply(one(), rule, Context(limit=3))
    assert len(found.fired) == 3


def test_rules_that_undo_each_other() -> None:
    there = made(lambda m, e: e.node("neg", m.x))
    back = made(lambda m, e: e.node("relu", m.x), lambda op, x: op.neg(x))
    with pytest.raises(Endless, match="both: made and others come to no end"):
        Group("both", [there, back]).run(one())
    assert len(Group("both", [there, back]).run(one(), Context(limit=5)).fired) == 5


def test_a_limit_stops_after_so_many() -> None:
    graph = trace(
        lambda x, w: ops.relu(ops.relu(ops.relu(x @ w) @ w) @ w), "f32[4, 4]", "f32[4, 4]"
    )
    for limit in range(4):
        found = applied(MatmulBiasAct(), graph, 1e-6, Context(limit=limit))
        assert len(found.fired) == limit
        assert ops_of(found.graph).count("relu") == 3 - limit


def test_constants_that_a_refused_match_added_are_not_there() -> None:
    def give(m: Any, e: Any) -> Any:
        e.number(7, "f32", "cpu")
        m.refuse("type")

    found = made(give).run(one())
    assert found.graph.text() == one().text()

    def give_then(m: Any, e: Any) -> Any:
        if m.x.name == "x":
            e.number(7, "f32", "cpu")
            m.refuse("type")
        return e.node("neg", m.x)

    two = trace(lambda x: ops.relu(ops.relu(x)), "f32[3]")
    found = made(give_then).run(two)
    assert ops_of(found.graph) == ["relu", "neg"]
    assert not found.graph.constants


def test_names_stay_and_are_nobody_elses() -> None:
    """What stands for a value is called as it was; what is new is called otherwise."""
    graph = trace(lambda x, w: ops.neg(ops.relu(x @ w)), "f32[4, 4]", "f32[4, 4]")
    found = applied(MatmulBiasAct(), graph, 1e-6).graph
    assert [v.name for n in found.nodes for v in n.results] == ["relu", "neg"]
    rule = made(lambda m, e: e.node("neg", e.node("neg", e.node("relu", m.x).out).out))
    twice = apply(trace(lambda x: ops.neg(ops.relu(x)), "f32[3]"), rule, Context(limit=1)).graph
    twice.verify()
    assert [v.name for v in twice.outputs] == ["neg"]


def test_training_graphs() -> None:
    """Fused after differentiation: what the backward reads stays."""
    from aicf import training_step

    def loss(x: Any, y: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
        h = ops.relu(x @ w + b)
        return ops.cross_entropy(ops.gelu(h @ v + c), y)

    types = ("f32[6, 4]", "i64[6]", param("f32[4, 8]"), param("f32[8]"), param("f32[8, 5]"),
             param("f32[5]"))  # fmt: skip
    graph = training_step(trace(loss, *types), "sgd", lr=0.1).graph
    found = applied(MatmulBiasAct(), graph, 1e-5)
    assert ops_of(found.graph)[:3] == ["gemm", "gemm", "gelu"]
    assert reasons(found) == ["read-elsewhere"]  # gelu's backward reads its argument
