"""Trials: a rule is kept only if it is as exact as before and not slower; verdicts are stored."""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aicf.backend.cpu import CpuBackend
from aicf.backend.null import NullBackend
from aicf.cli import main
from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph
from aicf.compiler.kernels import timing
from aicf.compiler.kernels.store import FILE, Store
from aicf.compiler.passes import draw
from aicf.compiler.passes.bisect import bisect
from aicf.compiler.passes.exact import exact
from aicf.compiler.passes.execution import Execution, interpreted
from aicf.compiler.passes.numeric import Budget, Run, error, judge
from aicf.compiler.passes.pipeline import Pipeline
from aicf.compiler.passes.rule import Context, Rule
from aicf.compiler.passes.rules.matmul_bias_act import MatmulBiasAct
from aicf.compiler.passes.trial import Jury, NotTried, source_digest, trial
from compiler.test_pipeline import Negations, mlp
from compiler.wrong_rules import Lies

CPU = CpuBackend()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / FILE) as opened:
        yield opened


class Same(MatmulBiasAct):
    """The same, written elsewhere."""


class Reused(Rule):
    """exp(x) = exp(x), another way"""

    name = "reused"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.relu(x)

    def rewrite(self, m: Any, e: Any) -> Any:
        return e.node("leaky_relu", m.x, slope=0.0)


class Cancels(Rule):
    """x + b = (x + 1000) - 1000 + b, which loses digits"""

    name = "cancels"
    number = 1000.0

    def pattern(self, op: Any, x: Any, b: Any) -> Any:
        return op.add(op.gemm(x, b, ...).kept(), b) | op.relu(x)

    def rewrite(self, m: Any, e: Any) -> Any:
        type = m.x.type
        far = e.node("add", m.x, e.number(self.number, type.dtype, type.device)).out
        back = e.node("sub", far, e.number(self.number, type.dtype, type.device)).out
        return e.node("leaky_relu", back, slope=0.0)


class Rigged(CpuBackend):
    """A CPU whose clock says of each program what a test says, before and after in turn."""

    times: tuple[Iterator[float], Iterator[float]]

    def rig(self, before: Iterator[float], after: Iterator[float]) -> Rigged:
        self.times, self.calls = (before, after), []  # type: ignore[var-annotated]
        return self

    def time(self, call: Any, count: int) -> float:
        if call not in self.calls:
            self.calls.append(call)
        call()
        return next(self.times[self.calls.index(call) % 2]) * 1e-3


def rigged(before: float, after: float) -> Rigged:
    return Rigged().rig(itertools.repeat(before), itertools.repeat(after))


# ---- f64 -----------------------------------------------------------------------------------------


@pytest.mark.promise("AICF-trial")
@pytest.mark.guests("ml_dtypes")
def test_exact_is_f64_also_through_shorter_floats() -> None:
    graph = Graph.parse(
        "graph g {\n input %x: f32[64]\n constant %c: f32[] = 0.1\n"
        ' %h: bf16[64] = cast(%x, dtype="bf16")\n'
        ' %w: f32[64] = cast(%h, dtype="f32")\n %y: f32[64] = mul(%w, %c)\n return %y, %h\n}'
    )
    x = np.linspace(1, 2, 64, dtype="f4")
    found = exact(graph, {"x": x})
    np.testing.assert_array_equal(found["output 0"], x.astype("f8") * 0.1)
    np.testing.assert_array_equal(found["output 1"], x.astype("f8"))
    assert interpreted(graph, {"x": x})["output 1"].dtype != np.float64


@pytest.mark.promise("AICF-trial")
def test_exact_has_what_is_updated_in_place_and_leaves_the_data() -> None:
    graph = Graph.parse(
        "graph g {\n input %g: f32[3]\n param %w: f32[3]\n"
        " p -> [%w1: f32[3]] = sgd([%w], [%g], lr=0.1)\n return %w1\n}"
    )
    data = draw.fill(graph, {})
    kept = {k: v.copy() for k, v in data.items()}
    found = exact(graph, data)
    want = kept["w"].astype("f8") - 0.1 * kept["g"].astype("f8")
    for name in ("output 0", "w"):
        np.testing.assert_allclose(found[name], want, rtol=1e-15)
    for name in kept:
        np.testing.assert_array_equal(kept[name], data[name])
    run = Execution(graph, CPU, data)
    for _ in range(2):
        np.testing.assert_allclose(run.run()["w"], want, rtol=1e-6)
    np.testing.assert_array_equal(kept["w"], data["w"])


@pytest.mark.promise("AICF-trial")
def test_what_is_f32_in_every_variant_is_updated() -> None:
    graph = Graph.parse(
        "graph g {\n input %x: f32[4]\n param %lo: f32[1]\n param %hi: f32[1]\n"
        " lo -> %l: f32[1], hi -> %h: f32[1] = observe_minmax(%x, %lo, %hi)\n return %l\n}"
    )
    data = {"x": np.arange(-1, 3, dtype="f4"), "lo": np.zeros(1, "f4"), "hi": np.ones(1, "f4")}
    found = exact(graph, data)
    assert [found[name].tolist() for name in ("output 0", "lo", "hi")] == [[-1], [-1], [2]]


@pytest.mark.promise("AICF-trial")
def test_a_row_without_f64_runs_as_it_stands() -> None:
    """Products of integers give f32 at most."""
    graph = Graph.parse(
        "graph g {\n input %a: i8[2, 4]\n input %b: i8[4, 3]\n input %s: f32[]\n input %t: f32[1]\n"
        ' %y: f32[2, 3] = gemm_i8(%a, %b, %s, %t, dtype="f32")\n %z: f32[2, 3] = exp(%y)\n'
        " return %z\n}"
    )
    data = draw.fill(graph, {"s": np.float32(0.5) * np.ones((), "f4"), "t": np.full(1, 0.5, "f4")})
    want = np.exp(0.25 * (data["a"].astype("f8") @ data["b"].astype("f8")))
    np.testing.assert_allclose(exact(graph, data)["output 0"], want, rtol=1e-12)


# ---- the numeric gate ----------------------------------------------------------------------------


@pytest.mark.promise("AICF-trial-budget")
def test_errors() -> None:
    want = np.array([3.0, -4.0, 0.0, 0.0])
    got = want.astype("f4")
    assert error(got, want, "f32") == 0
    got[2] = 0.25
    assert error(got, want, "f32") == 0.25 / (0 + 1.75)
    got[2], got[1] = 0, -4.25
    assert error(got, want, "f32") == 0.25 / (4 + 1.75)
    for bad in (math.nan, math.inf):
        got[2] = bad
        assert error(got, want, "f32") == math.inf
        assert error(np.array([bad, 1]), np.array([bad, 1.0]), "f64") == 0
    assert error(np.array([np.inf], "f2"), np.array([1e5]), "f16") == 0
    assert error(np.zeros(3), np.zeros(2), "f64") == math.inf
    assert error(np.zeros(0), np.zeros(0), "f64") == 0
    assert error(np.array([1e-3]), np.array([0.0]), "f64") == 1e-3
    assert error(np.array([1, 2]), np.array([1, 3]), "i32") == 0.5


@pytest.mark.promise("AICF-trial-budget")
def test_the_budget_is_that_of_the_worst_result() -> None:
    right = {"output 0": np.ones(4), "w": np.ones(4)}
    before = {k: (v + 1e-6).astype("f4") for k, v in right.items()}
    after = {"output 0": right["output 0"].astype("f4"), "w": (right["w"] + 1e-3).astype("f4")}
    run = Run(before, after, right)
    found = judge([run], Budget())
    assert (found.name, found.is_within) == ("w", False)
    assert found.after == pytest.approx(1e-3 / 2, rel=1e-3)
    assert judge([run], Budget(times=2000)).is_within
    assert judge([Run(before, before, right)], Budget(1, 0)).is_within
    lucky = Run(right, before, right)
    assert not judge([lucky], Budget()).is_within
    assert judge([lucky, Run(before, right, right)], Budget()).is_within
    whole = {"output 0": np.array([1, 2])}
    assert not judge([Run(whole, {"output 0": np.array([1, 3])}, whole)], Budget()).is_within


@pytest.mark.promise("COMPILER-fusion-error")
def test_a_rule_that_multiplies_the_error_is_refused(store: Store) -> None:
    """By far more than 25 times, and by exactly what the budget does not allow."""
    verdict = trial(mlp(), Cancels(), CPU, timed=False, store=store)
    assert not verdict.kept
    assert verdict.error_after > 25 * verdict.error_before > 0
    assert verdict.error_after > verdict.budget
    assert verdict.why.startswith("output 0: error ")
    assert ", over " in verdict.why
    less = Cancels()
    less.number = 64.0
    some = trial(mlp(), less, CPU, timed=False)
    assert not some.kept
    assert some.error_after < verdict.error_after / 4
    assert trial(mlp(), less, CPU, timed=False, budget=Budget(1000, 0)).kept


@pytest.mark.promise("AICF-trial-budget")
@pytest.mark.guests("ml_dtypes")
def test_a_lie_is_refused_whatever_the_dtype() -> None:
    for dtype in ("f32", "f16", "bf16", "f64"):
        text = str(mlp()).replace("f32", dtype)
        verdict = trial(Graph.parse(text), Lies(), CPU, timed=False)
        assert not verdict.kept
        assert trial(Graph.parse(text), MatmulBiasAct(), CPU, timed=False).kept


@pytest.mark.promise("AICF-trial-budget")
def test_data_that_shows_it_is_used(store: Store) -> None:
    """A rule that is right of random numbers, and wrong of these."""

    class Positive(Rule):
        """relu(x) = x, of what is positive"""

        name = "positive"

        def pattern(self, op: Any, x: Any) -> Any:
            return op.relu(x)

        def rewrite(self, m: Any, e: Any) -> Any:
            return e.copy(m.x)

    graph = Graph.parse("graph g {\n input %x: f32[4]\n %y: f32[4] = relu(%x)\n return %y\n}")
    right, wrong = np.ones(4, "f4"), np.array([1, 1, 1, -1], "f4")
    assert trial(graph, Positive(), CPU, data={"x": right}, timed=False, store=store).kept
    assert not trial(graph, Positive(), CPU, data={"x": wrong}, timed=False, store=store).kept
    assert len(store.verdicts.all()) == 2


@pytest.mark.promise("AICF-trial")
def test_what_leads_to_nans_is_run_on_positive_numbers() -> None:
    graph = Graph.parse(
        "graph g {\n input %x: f32[32]\n %l: f32[32] = log(%x)\n"
        " %y: f32[32] = relu(%l)\n return %y\n}"
    )
    for case in Jury(graph, CPU).cases:
        assert np.isfinite(case.right["output 0"]).all()
        assert np.isfinite(case.before["output 0"]).all()
    assert not trial(graph, Cancels(), CPU, timed=False).kept


# ---- times ---------------------------------------------------------------------------------------


@pytest.mark.promise("AICF-trial-times")
@pytest.mark.parametrize("after, kept", [(0.5, True), (1.0, True), (1.01, True), (1.2, False)])
def test_what_is_slower_is_rolled_back(after: float, kept: bool, store: Store) -> None:
    verdict = trial(mlp(), MatmulBiasAct(), rigged(1.0, after), store=store)
    assert verdict.kept == kept
    assert (verdict.seconds_before, verdict.seconds_after) == pytest.approx((1e-3, after * 1e-3))
    assert ("it is slower: 1000 us before" in verdict.why) == (not kept)
    assert store.verdicts.all() == [verdict]


@pytest.mark.promise("AICF-trial-times")
def test_noise_decides_nothing_and_is_not_stored(store: Store) -> None:
    noise = Rigged().rig(itertools.repeat(1.0), itertools.cycle([0.5, 1.5, 1.0]))
    verdict = trial(mlp(), MatmulBiasAct(), noise, store=store)
    assert verdict.kept
    assert "times are noise, which decides nothing" in verdict.why
    assert verdict.seconds_after is None
    assert store.verdicts.all() == []


@pytest.mark.promise("AICF-trial-times")
def test_what_disturbs_both_is_no_noise() -> None:
    """A round that is slow is so for both; only what differs within rounds counts."""
    waves = [1.0, 1.0, 1.0, 3.0, 3.0, 0.5, 0.5, 1.0]
    both = Rigged().rig(itertools.cycle(waves), itertools.cycle([1.2 * w for w in waves]))
    verdict = trial(mlp(), MatmulBiasAct(), both)
    assert not verdict.kept
    assert "it is slower" in verdict.why


@pytest.mark.promise("AICF-trial-times")
def test_a_rule_that_is_far_slower_is_timed_in_every_round() -> None:
    """Three rounds in which another program had the machine decide nothing."""
    bursts = itertools.cycle([1.0] + [40.0] * 3 + [1.0] * 6)  # the first is that which counts
    verdict = trial(mlp(), MatmulBiasAct(), Rigged().rig(itertools.repeat(1.0), bursts))
    assert verdict.kept


@pytest.mark.promise("AICF-trial-times")
def test_a_pair() -> None:
    """What is slower by chance in most rounds is noise, and in all of them slower."""

    def pair(*after: float) -> timing.Pair:
        return timing.Pair(timing.Times((1.0,) * 9), timing.Times(after))

    even = pair(*[1.0, 1.1, 1.2] * 3)
    assert even.quartiles == pytest.approx((1.0, 1.1, 1.2))
    assert (even.is_noisy, even.is_slower) == (True, False)
    most = pair(0.5, 1.01, *[3.0, 7.0, 5.0] * 2, 9.0)
    assert (most.is_noisy, most.is_slower) == (True, False)
    every = pair(1.03, *[3.0, 7.0, 5.0, 2.0] * 2)
    assert (every.is_noisy, every.is_slower) == (False, True)
    little = pair(1.01, 1.01, *[1.03] * 7)
    assert (little.is_noisy, little.is_slower) == (False, True)


# ---- verdicts ------------------------------------------------------------------------------------


@pytest.mark.promise("AICF-trial-stored")
def test_a_verdict_is_used_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trial(mlp(), MatmulBiasAct(), CPU, timed=False, store=store)
    monkeypatch.setattr(Execution, "run", lambda self: pytest.fail("it is tried again"))
    assert trial(mlp(), MatmulBiasAct(), CPU, timed=False, store=store) == first
    renamed = Graph.parse(str(mlp()).replace("%h", "%other"))
    assert trial(renamed, MatmulBiasAct(), CPU, timed=False, store=store) == first
    with Store(store.path) as other:
        assert other.verdicts.all() == [first]


@pytest.mark.promise("AICF-trial-stored")
@pytest.mark.parametrize(
    "other",
    [
        lambda: trial(mlp(), Reused(), CPU, timed=False),
        lambda: trial(
            Graph.parse(str(mlp()).replace("16", "8")), MatmulBiasAct(), CPU, timed=False
        ),
        lambda: trial(mlp(), MatmulBiasAct(), CPU, timed=False, sizes={"N": 3}),
        lambda: trial(mlp(), MatmulBiasAct(), CPU, timed=False, budget=Budget(8)),
        lambda: trial(mlp(), MatmulBiasAct(), CPU, timed=False, data={"b": np.ones(4, "f4")}),
        lambda: trial(mlp(), MatmulBiasAct(), CPU),
        lambda: trial(mlp(), Same(), CPU, timed=False),
    ],
    ids=["rule", "graph", "sizes", "budget", "data", "timed", "source"],
)
def test_a_verdict_holds_for_what_it_was_made_from(other: Any) -> None:
    first = trial(mlp(), MatmulBiasAct(), CPU, timed=False)
    assert other().key != first.key
    assert trial(mlp(), MatmulBiasAct(), CPU, timed=False).key == first.key


@pytest.mark.promise("AICF-trial-stored")
def test_a_rule_that_was_edited_is_another(tmp_path: Path) -> None:
    """By its file; by what its methods do where it is in none."""
    digests: set[str] = set()
    for body in ("e.like(m.n)", "e.like(m.n)  # the same", "e.node('neg', m.x)"):
        text = (
            "from aicf.compiler.passes.rule import Rule\nclass Mine(Rule):\n"
            "    name = 'mine'\n    def pattern(self, op, x):\n"
            "        return op.relu(x).named('n')\n"
            f"    def rewrite(self, m, e):\n        return {body}\n"
        )
        source = tmp_path / f"rule_{len(digests)}.py"
        source.write_text(text, encoding="utf-8")
        module = types.ModuleType(source.stem)
        module.__file__ = str(source)
        sys.modules[source.stem] = module
        try:
            exec(compile(text, str(source), "exec"), vars(module))
            digests.add(source_digest(module.Mine()))
            del module.__file__
            digests.add(source_digest(module.Mine()))
        finally:
            del sys.modules[source.stem]
    assert len(digests) == 3 + 2  # a comment is no part of what a method does


@pytest.mark.promise("AICF-trial-stored")
def test_a_broken_row_is_a_miss(store: Store) -> None:
    first = trial(mlp(), MatmulBiasAct(), CPU, timed=False, store=store)
    store.close()
    assert store.path is not None
    for column, value in (("why", "x"), ("kept", "no"), ("error_after", None), ("checksum", "")):
        with sqlite3.connect(store.path) as db:
            db.execute(f"UPDATE verdicts_1 SET {column} = ?", (value,))
        db.close()
        assert store.verdicts.of_key(first.key) is None
        assert store.verdicts.broken() == 1
        again = trial(mlp(), MatmulBiasAct(), CPU, timed=False, store=store)
        assert (again.kept, again.error_after) == (first.kept, first.error_after)
        assert store.verdicts.broken() == 0


@pytest.mark.promise("AICF-trial-stored")
def test_a_store_that_cannot_be_written_keeps_them_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Store(tmp_path / "file" / FILE) as store:
        with pytest.warns(UserWarning, match="keeps its verdicts in memory"):
            first = trial(mlp(), MatmulBiasAct(), CPU, timed=False, store=store)
        assert store.verdicts.of_key(first.key) == first
        assert store.verdicts.all() == [first]


@pytest.mark.promise("AICF-trial-stored")
def test_the_command_line_lists_verdicts(store: Store, capsys: Any) -> None:
    kept = trial(mlp(), MatmulBiasAct(), CPU, timed=False, store=store)
    lost = trial(mlp(), Lies(), CPU, timed=False, store=store)
    assert store.path is not None
    folder = str(store.path.parent)
    main(["cache", "list", "--cache", folder], standalone_mode=False)
    said = capsys.readouterr()
    assert said.out.splitlines() == [str(lost), str(kept)]
    assert str(lost).startswith(f"lies on mlp, {CPU.info.name}: rolled back: output 0: error")
    assert said.err.startswith("0 choices, 2 verdicts in ")
    main(["cache", "list", "--json", "--cache", folder], standalone_mode=False)
    items = json.loads(capsys.readouterr().out)
    assert items == [lost.portable(), kept.portable()]


# ---- what cannot be tried ------------------------------------------------------------------------


@pytest.mark.promise("AICF-trial")
def test_what_cannot_be_tried_says_why() -> None:
    with pytest.raises(NotTried, match="the null backend computes nothing"):
        trial(mlp(), MatmulBiasAct(), NullBackend())
    large = Graph.parse(str(mlp()).replace("1..64", "1..1000000000"))
    with pytest.raises(NotTried, match=r"operations, more than f64 on the CPU does .* sizes="):
        trial(large, MatmulBiasAct(), CPU, sizes={"N": 1_000_000_000})
    sizes = {"N": 1_000_000_000}
    context = Context(backend=CPU, options={"sizes": sizes})
    for attempt in (
        lambda: Pipeline([MatmulBiasAct()], trial="full").run(large, context),
        lambda: bisect(large, [MatmulBiasAct()], CPU, sizes=sizes),
    ):
        with pytest.raises(NotTried, match="operations, more than"):
            attempt()
    with pytest.raises(NotTried, match=r"mlp itself does not run: w must be f32\[16, 4\], and"):
        trial(mlp(), MatmulBiasAct(), CPU, data={"w": np.ones(3, "f4")})
    with pytest.raises(LookupError, match="mlp has nothing named v to be given; it has b, w, x"):
        trial(mlp(), MatmulBiasAct(), CPU, data={"v": 1})
    with pytest.raises(IRError, match="there is no symbol M; there are N"):
        bisect(mlp(), [MatmulBiasAct()], CPU, sizes={"M": 1})
    verdict = trial(mlp(), Negations(), CPU)
    assert (verdict.kept, verdict.why) == (False, "it changes nothing")


@pytest.mark.promise("AICF-trial-times")
def test_what_takes_too_long_is_not_timed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(*arguments: Any) -> timing.Pair:
        raise timing.OutOfTime("3 of 9 rounds were done")

    monkeypatch.setattr(timing, "compare", compare)
    verdict = trial(mlp(), MatmulBiasAct(), CPU, store=store)
    assert verdict.kept
    assert verdict.why.endswith("; not timed: that takes more than 10 s")
    assert store.verdicts.all() == []


@pytest.mark.promise("AICF-trial")
def test_a_graph_that_does_not_run_is_the_rule_s_fault() -> None:
    class Invents(Rule):
        """relu(x) = a constant of which nobody knows what is in it"""

        name = "invents"

        def pattern(self, op: Any, x: Any) -> Any:
            return op.relu(x)

        def rewrite(self, m: Any, e: Any) -> Any:
            made = e.graph.constant("secret", "f32[4]")
            return e.node("add", m.x, made)

    verdict = trial(mlp(), Invents(), CPU)
    assert not verdict.kept
    assert verdict.why == "its graph does not run: nothing says what is in secret"


@pytest.mark.promise("AICF-trial")
def test_a_pipeline_tries_each_rule(store: Store) -> None:
    passes = [MatmulBiasAct(), Cancels(), Negations()]
    pipeline = Pipeline(passes, trial="full", store=store)
    graph = mlp()
    graph.output(graph.add("relu", graph.add("tanh", graph.value("e")).out).out)
    done = pipeline.run(graph, Context(backend=rigged(1.0, 1.0)))
    fused, cancels, nothing = done.records
    assert fused.verdict is not None
    assert fused.verdict.kept
    assert cancels.failed == (cancels.verdict and cancels.verdict.why)
    assert nothing.verdict is None
    assert [n.op for n in done.graph.nodes] == ["gemm", "exp", "tanh", "relu"]
    assert len(store.verdicts.all()) == 2


@pytest.mark.gpu
@pytest.mark.promise("AICF-trial")
def test_on_a_gpu(store: Store) -> None:
    from aicf.backend.cuda import CudaBackend

    cuda = CudaBackend()
    assert trial(mlp(), MatmulBiasAct(), cuda, timed=False, store=store).kept
    assert not trial(mlp(), Lies(), cuda, timed=False, store=store).kept
    assert trial(mlp(), MatmulBiasAct(), cuda, sizes={"N": 64}).seconds_before != 0
