"""Pipelines: what passes did is shown; one that raises, loops or lies is rolled back by name."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from aicf_rt import Unsupported
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aicf.backend.cpu import CpuBackend
from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph, Node
from aicf.compiler.passes import diff
from aicf.compiler.passes.exact import exact
from aicf.compiler.passes.execution import interpreted
from aicf.compiler.passes.numeric import Budget, Run, judge
from aicf.compiler.passes.patience import OutOfPatience, within
from aicf.compiler.passes.pipeline import Pipeline, standard
from aicf.compiler.passes.record import PassRecord
from aicf.compiler.passes.rule import Applied, Context, Fired, Rule
from aicf.compiler.passes.rules.matmul_bias_act import MatmulBiasAct
from compiler.drawing import graphs
from compiler.wrong_rules import (
    Drops,
    Forgets,
    GivesData,
    Hangs,
    HitsTheGiven,
    IllTyped,
    Lies,
    Loops,
    Mumbles,
    NoApplied,
    OtherFace,
    Raises,
    Spins,
    Tells,
)

CPU = CpuBackend()

MLP = """graph mlp {
  symbol N: 1..64
  input %x: f32[N, 16]
  param %w: f32[16, 4]
  param %b: f32[4]
  %h: f32[N, 4] = gemm(%x, %w) @ "mlp.py":3 forward
  %s: f32[N, 4] = add(%h, %b) @ "mlp.py":3 forward
  %r: f32[N, 4] = relu(%s) @ "mlp.py":4 forward
  %e: f32[N, 4] = exp(%r) @ "mlp.py":5 forward
  return %e
}
"""


def mlp() -> Graph:
    return Graph.parse(MLP)


class Negations(Rule):
    """-(-x) = x"""

    name = "double-negation"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.neg(op.neg(x).kept())

    def rewrite(self, m: Any, e: Any) -> Any:
        return m.x


# ---- in order ------------------------------------------------------------------------------------


NO_TEXTS: Any = (1,)


@pytest.mark.promise("AICF-pipeline")
def test_passes_run_in_order_and_say_what_they_did() -> None:
    graph = mlp()
    done = Pipeline([Negations(), MatmulBiasAct()]).run(graph)
    assert [r.name for r in done.records] == ["double-negation", "matmul-bias-act"]
    assert [n.op for n in done.graph.nodes] == ["gemm", "exp"]
    nothing, fused = done.records
    assert (nothing.changed, nothing.result is graph) == (False, True)
    assert fused.changed
    assert len(fused.fired) == 2
    assert fused.doc == MatmulBiasAct.__doc__
    assert 0 < fused.seconds < done.seconds
    assert graph == mlp()
    assert "matmul-bias-act: 2 fired" in str(done)
    assert "double-negation" not in str(done)
    assert "double-negation: changed nothing" in done.explain(everything=True)


@pytest.mark.promise("AICF-pipeline")
def test_the_graph_between_passes_is_verified_and_the_first_one_too() -> None:
    broken = mlp()
    broken.nodes = broken.nodes[::-1]
    with pytest.raises(ValueError, match="defines it later"):
        Pipeline([]).run(broken)


@pytest.mark.promise("AICF-pipeline")
def test_what_is_no_pass() -> None:
    with pytest.raises(TypeError, match="3 is no pass: it has a name, and run"):
        Pipeline([3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="trial is None, 'numeric' or 'full', not 'some'"):
        Pipeline([], trial="some")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a trial runs graphs: give Context\(backend="):
        Pipeline([], trial="full").run(mlp())


@pytest.mark.promise("AICF-pipeline")
@pytest.mark.parametrize(
    "options, said",
    [
        ({"budget": 3}, "budget must be a Budget, not a int"),
        ({"store": "here"}, "store must be a Store, not a str"),
        ({"patience": "long"}, "patience is seconds, more than 0, or None, not 'long'"),
        ({"patience": -1}, "patience is seconds, more than 0, or None, not -1"),
        ({"patience": float("nan")}, "patience is seconds, more than 0, or None, not nan"),
    ],
)
def test_options_that_are_none(options: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Pipeline([], **options)


@pytest.mark.promise("AICF-pipeline")
def test_what_is_no_graph_and_no_context() -> None:
    wrong: Any
    for wrong in (None, 3, "graph x {"):
        with pytest.raises(TypeError, match="graph must be a Graph, not "):
            standard().run(wrong)
    wrong = SimpleNamespace(graph=mlp())
    with pytest.raises(TypeError, match=r"not a SimpleNamespace: take its \.graph"):
        standard().run(wrong)
    for wrong in (3, {"w": 1}):
        with pytest.raises(TypeError, match="context must be a Context, not "):
            standard().run(mlp(), wrong)


@pytest.mark.promise("AICF-pipeline")
def test_data_that_a_pass_makes_is_there_for_the_next() -> None:
    seen: list[Any] = []

    class Makes:
        """Makes a constant."""

        name = "makes"

        def run(self, graph: Graph, context: Context | None = None) -> Applied:
            new = graph.clone()
            assert context is not None
            seen.append(dict(context.data))
            new.constant(f"made{len(seen)}", "f32[2]")
            return Applied(new, data={f"made{len(seen)}": [1, len(seen)]})

    done = Pipeline([Makes(), Makes()]).run(mlp(), Context(data={"mine": 1}))
    assert seen == [{"mine": 1}, {"mine": 1, "made1": [1, 1]}]
    assert done.data == {"made1": [1, 1], "made2": [1, 2]}
    assert [r.failed for r in done.records] == [None, None]


# ---- one that is wrong ---------------------------------------------------------------------------


@pytest.mark.promise("AICF-pipeline-rollback")
@pytest.mark.parametrize(
    "wrong, why",
    [
        (Raises(), "IndexError: list index out of range at .*wrong_rules.py:"),
        (Loops(), "Endless: loops comes to no end: .*and last to %s"),
        (IllTyped(), "its graph is none: mlp.py:3: gemm: %h: it is f32.* and not f64"),
        (OtherFace(), r"it gives back f32\[N, 4\], f32\[N, 4\], and not f32\[N, 4\]"),
        (Forgets(), "it takes the inputs none, and not %x"),
        (HitsTheGiven(), "it changed the graph that it was given"),
        (NoApplied(), "it gives 3, and no Applied"),
        (Spins(), "RecursionError"),
        (Mumbles(), "Unsaid: its message raises ZeroDivisionError at .*wrong_rules.py:"),
        (GivesData({"w": 0, "x": 1}), "it gives data for w, x, which has its own"),
        (Tells(fired=(3,)), "its fired has 3, and no Fired"),
        (Tells(refused=("no",)), "its refused has 'no', and no Refused"),
        (
            Tells(fired=(Fired("tells", NO_TEXTS, (), None, ""),)),
            r"its fired says \(1,\), and no text",
        ),
        (GivesData([1]), r"its data is \[1\], and not arrays by name"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_it_is_rolled_back_and_named_and_the_rest_goes_on(wrong: Any, why: str) -> None:
    graph = mlp()
    done = Pipeline([wrong, MatmulBiasAct()]).run(graph)
    (failed,) = done.failed
    assert failed.name == wrong.name
    assert failed.failed is not None
    assert re.search(why, failed.failed), failed.failed
    assert f"{wrong.name}: rolled back: " in str(done)
    assert not failed.changed
    assert [n.op for n in done.graph.nodes] == ["gemm", "exp"]
    assert graph == mlp()
    done.graph.verify()


@pytest.mark.promise("AICF-pipeline-rollback")
def test_what_hangs_is_ended_and_the_rest_goes_on() -> None:
    """Also where several threads run the same pipeline."""
    pipeline = Pipeline([Hangs(), MatmulBiasAct()], patience=0.2)
    with ThreadPoolExecutor(3) as threads:
        for done in threads.map(pipeline.run, [mlp() for _ in range(3)]):
            assert done.records[0].failed is not None
            assert done.records[0].failed.startswith("it did not end in 0.2 s, and was at ")
            assert "wrong_rules.py:" in done.records[0].failed
            assert done.graph.nodes


@pytest.mark.promise("AICF-pipeline-rollback")
def test_patience_ends_what_is_late_and_nothing_after() -> None:
    """However near the end of the work is to the end of patience."""
    late = 0
    for i in range(200):
        end = time.monotonic() + 1e-5 * (i % 20)
        try:
            within(1e-4, lambda: spin_until(end))
        except OutOfPatience:
            late += 1
        spin_until(time.monotonic() + 2e-4)  # nothing may arrive here
    assert late <= 200
    assert within(None, lambda: 3) == within(60, lambda: 3) == 3
    with pytest.raises(KeyError):
        within(60, lambda: {"a": 1}["b"])
    with pytest.raises(OutOfPatience):
        within(1e-3, swallow)


def spin_until(end: float) -> None:
    while time.monotonic() < end:
        pass


def swallow() -> None:
    try:
        while True:
            pass
    except BaseException:
        pass


@pytest.mark.promise("AICF-pipeline-rollback")
def test_an_update_that_is_lost_is_seen() -> None:
    graph = Graph.parse(
        "graph g {\n input %x: f32[4]\n param %w: f32[4]\n"
        " x -> %w1: f32[4] = fill(%w, value=2)\n return %x\n}"
    )
    (record,) = Pipeline([Drops()]).run(graph).records
    assert record.failed == "it updates none, and not %w: f32[4]"


@pytest.mark.promise("AICF-pipeline-rollback")
def test_a_wrong_result_is_seen_by_a_trial() -> None:
    passes = [Lies(), MatmulBiasAct()]
    trusted = Pipeline(passes).run(mlp())
    assert not trusted.failed
    done = Pipeline(passes, trial="numeric").run(mlp(), Context(backend=CPU))
    (failed,) = done.failed
    assert failed.name == "lies"
    assert failed.failed is not None
    assert failed.failed.startswith("output 0: error ")
    assert failed.verdict is not None
    assert not failed.verdict.kept
    assert failed.rejected is not None
    assert "+ %s: f32[N, 4] = sub(%h, %b)" in failed.diff()
    assert [n.op for n in done.graph.nodes] == ["gemm", "exp"]


# ---- diffs ---------------------------------------------------------------------------------------


def marked(before: Graph, after: Graph) -> list[str]:
    return [str(line) for line in diff.lines(before, after) if line.mark in "+-"]


@pytest.mark.promise("AICF-pipeline-diff")
def test_a_diff_is_of_values_and_not_of_names() -> None:
    before = mlp()
    renamed = Graph.parse(MLP.replace("%h", "%other").replace("%e", "%last"))
    assert diff.lines(before, renamed) == []
    moved = Graph.parse(MLP.replace("mlp.py", "elsewhere.py"))
    assert diff.lines(before, moved) == []
    reordered = Graph.parse(
        MLP.replace(
            "  return %e", "  %a: f32[N, 4] = neg(%e)\n  %c: f32[N, 4] = exp(%h)\n  return %a, %c"
        )
    )
    other = reordered.clone()
    other.nodes = [*other.nodes[:1], other.nodes[-1], *other.nodes[1:-1]]
    other.verify()
    assert diff.lines(reordered, other) == []


@pytest.mark.promise("AICF-pipeline-diff")
def test_what_stands_in_the_place_of_another_has_its_name() -> None:
    done = Pipeline([MatmulBiasAct()]).run(mlp())
    assert done.records[0].diff().splitlines() == [
        "~ 3 lines",
        "  param %b: f32[4]",
        "- %h: f32[N, 4] = gemm(%x, %w)",
        "- %s: f32[N, 4] = add(%h, %b)",
        "- %r: f32[N, 4] = relu(%s)",
        '+ %r: f32[N, 4] = gemm(%x, %w, %b, act="relu")',
        "  %e: f32[N, 4] = exp(%r)",
        "~ 1 line",
    ]


@pytest.mark.promise("AICF-pipeline-diff")
def test_a_change_in_the_middle_leaves_what_follows() -> None:
    """Also where all after it is named anew, and is read by an update of a param."""
    tail = "  p -> [%w1: f32[16, 4]] = sgd([%w], [%g], lr=1)\n  return %e\n}"
    text = MLP.replace("  return %e\n}", "  %g: f32[16, 4] = gemm(%t, %e)\n" + tail)
    text = text.replace("  %h:", "  %t: f32[16, N; 1, 16] = view.permute(%x, perm=(1, 0))\n  %h:")
    before = Graph.parse(text)
    after = Graph.parse(
        text.replace("%s: f32[N, 4] = add(%h, %b)", "%s: f32[N, 4] = sub(%h, %b)")
        .replace("%g", "%grad")
        .replace("%r", "%act")
        .replace("%w1", "%new")
    )
    assert marked(before, after) == [
        "- %s: f32[N, 4] = add(%h, %b)", "+ %s: f32[N, 4] = sub(%h, %b)",
    ]  # fmt: skip


@pytest.mark.promise("AICF-pipeline-diff")
def test_a_name_that_is_another_value_s_is_not_taken() -> None:
    before = Graph.parse("graph g {\n input %x: f32[4]\n %a: f32[4] = neg(%x)\n return %a\n}")
    after = Graph.parse(
        "graph g {\n input %x: f32[4]\n %a: f32[4] = exp(%x)\n %b: f32[4] = neg(%a)\n return %b\n}"
    )
    assert marked(before, after) == [
        "- %a: f32[4] = neg(%x)", "+ %a_1: f32[4] = exp(%x)", "+ %a: f32[4] = neg(%a_1)",
    ]  # fmt: skip


# ---- records -------------------------------------------------------------------------------------


@pytest.mark.promise("AICF-pipeline")
def test_a_record_says_what_was_refused() -> None:
    graph = mlp()
    graph.output(graph.value("s"))
    done = Pipeline([MatmulBiasAct(), Negations()]).run(graph)
    fused, nothing = done.records
    assert [r.reason for r in fused.refused] == ["is-output"]
    assert "refused, is-output: %s is given back: %r: f32[N, 4] = relu(%s) @" in str(done)
    assert (fused.before, fused.after) == (str(graph), str(done.graph))
    assert (nothing.before, nothing.diff()) == (nothing.after, "")


@pytest.mark.promise("AICF-pipeline")
def test_a_record_goes_through_json() -> None:
    passes = [Lies(), Raises(), MatmulBiasAct(), Negations()]
    graph = mlp()
    graph.output(graph.value("s"))
    done = Pipeline(passes, trial="numeric").run(graph, Context(backend=CPU))
    assert [r.failed is None for r in done.records] == [False, False, True, True]
    for record in done.records:
        read = PassRecord.of_portable(json.loads(json.dumps(record.portable())))
        assert str(read) == str(record)
        assert (read.before, read.after) == (record.before, record.after)
        assert (read.changed, read.verdict) == (record.changed, record.verdict)
        assert (read.fired, read.refused) == (record.fired, record.refused)


@pytest.mark.promise("AICF-pipeline")
def test_a_graph_s_text_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Pipeline([Negations(), MatmulBiasAct(), Negations()]).run(mlp())
    written: list[int] = []
    text = Graph.text
    monkeypatch.setattr(Graph, "text", lambda graph: written.append(id(graph)) or text(graph))
    items = [record.portable() for record in done.records]
    assert len(written) == len(set(written)) == 2
    assert items[0]["source"] == str(mlp())
    assert items[1]["result"] == items[2]["result"] == text(done.graph)


@pytest.mark.promise("AICF-pipeline")
def test_what_was_refused_may_be_told_by_anything() -> None:
    class Never(Raises):
        name, refusals = "never", ("no",)

        def check(self, m: Any) -> None:
            m.refuse("no", m.x)

    (record,) = Pipeline([Never()]).run(mlp()).records
    assert [r.detail for r in record.refused] == ["%s"]


@pytest.mark.promise("AICF-pipeline")
def test_nodes_are_known_by_line() -> None:
    done = Pipeline([MatmulBiasAct()]).run(mlp())
    node: Node = done.graph.nodes[0]
    assert str(node.loc) == "mlp.py:4"
    assert [str(f.loc) for f in done.records[0].fired] == ["mlp.py:3", "mlp.py:4"]
    assert all(f.at.partition(":")[0].endswith("matmul_bias_act.py") for f in done.records[0].fired)


# ---- on whatever graph ---------------------------------------------------------------------------


@pytest.mark.promise("AICF-pipeline-random")
@pytest.mark.guests("ml_dtypes")
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graphs(), st.integers(1, 4), st.booleans())
def test_random_graphs_of_all_rows(graph: Graph, size: int, is_frozen: bool) -> None:
    """Updates in place, views and all: no pass fails, and the results are as near to f64's."""
    from compiler.test_interpret import data_of  # needs ml_dtypes

    try:
        graph = graph.bind({"N": size})
    except IRError:
        return  # for that size the graph does not hold, and says so
    data = data_of(graph, size)
    try:
        before = interpreted(graph, data)
    except Unsupported:
        return  # a number is beyond what the row takes at run time
    frozen = frozenset(v.name for v in graph.params if is_frozen)
    done = standard().run(graph, Context(data=data, frozen=frozen))
    assert [r.failed for r in done.records if r.failed] == []
    after = interpreted(done.graph, {**data, **done.data})
    assert {k: (x.dtype, x.shape) for k, x in before.items()} == {
        k: (x.dtype, x.shape) for k, x in after.items()
    }
    if any(before[k].tobytes() != after[k].tobytes() for k in before):
        finding = judge([Run(before, after, exact(graph, data))], Budget(16, 64))
        assert finding.is_within, finding
