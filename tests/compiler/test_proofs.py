"""Each rule of the standard pipeline on generated graphs; and proofs that a wrong rule fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from aicf.compiler.passes.pipeline import standard
from aicf.compiler.passes.proof import Disproved, Draw, prove
from aicf.compiler.passes.rule import STANDING, Rule
from aicf.compiler.passes.rules.matmul_bias_act import MatmulBiasAct
from compiler.rule_examples import ALSO, EXACT, EXAMPLES
from compiler.test_pipeline import Negations
from compiler.wrong_rules import Lies

RULES = {
    rule.name: rule
    for one in standard().passes
    for rule in getattr(one, "rules", (one,))
    if isinstance(rule, Rule)
}


@pytest.mark.promise("COMPILER-rules-proven")
@pytest.mark.guests("ml_dtypes")
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_rule(rule: Rule) -> None:
    """50 that must fire, 100 that must refuse by name or be found no match, 50 that are random."""
    also = ALSO.get(rule.name, ())
    proof = prove(rule, EXAMPLES[rule.name], also=also, is_exact=rule.name in EXACT)
    assert (proof.fired, proof.random) == (50, 50)
    assert set(rule.refusals) <= set(proof.refused)
    assert set(proof.missed) == set(rule.misses)
    assert sum((proof.refused | proof.missed).values()) >= 100
    assert set(proof.refused) <= {*rule.refusals, *STANDING}


def test_each_example_is_of_a_rule() -> None:
    assert set(EXAMPLES) == set(RULES)


# ---- what a proof finds --------------------------------------------------------------------------


def negations(d: Draw, broken: str) -> None:
    """What is given back does not lie in the memory of an input."""
    twice = d.op("neg", d.op("neg", d.tensor(*d.sizes(2))))
    d.output(twice if broken == "shares-memory" else d.op("exp", twice))


@pytest.mark.promise("AICF-proof")
def test_a_rule_of_a_user_s() -> None:
    proof = prove(Negations(), negations, also=["shares-memory"])
    assert proof.refused == {"shares-memory": 50, "overwritten": 50}
    assert "double-negation: fired on 50 of 50 matches" in str(proof)
    assert proof.random_fired > 0


def a_sum(d: Draw, broken: str) -> None:
    shape = d.sizes(2)
    d.output(d.op("add", d.tensor(*shape), d.tensor(*shape)))


@pytest.mark.promise("AICF-proof")
def test_a_wrong_result_is_found() -> None:
    with pytest.raises(Disproved, match=r"lies .*wrong_rules.py:.*: it computes another thing"):
        prove(Lies(), a_sum)


class Zero(Rule):
    """x + 0 = x, which it is not of -0.0"""

    name = "zero"

    def pattern(self, op: Any, x: Any) -> Any:
        return op.add(x, 0.0)

    def rewrite(self, m: Any, e: Any) -> Any:
        return m.x


def plus_zero(d: Draw, broken: str) -> None:
    x = d.op("add", d.tensor(*d.sizes(2)), d.constant(fill=0.0))
    d.output(d.op("tanh", x))


@pytest.mark.promise("AICF-proof")
def test_the_sign_of_a_zero_is_found() -> None:
    prove(Zero(), plus_zero)
    with pytest.raises(Disproved, match=r"it computes another thing: output 0 is .*-0\.0"):
        prove(Zero(), plus_zero, is_exact=True)


class Hungry(MatmulBiasAct):
    """act(a @ b + bias) = gemm(a, b, bias, act=act), whatever the bias"""

    name = "hungry"

    def check(self, m: Any) -> None:
        if m.bias:
            m.require(m.bias.type.rank < 9, "bias-not-a-row")


@pytest.mark.promise("AICF-proof")
def test_a_condition_that_is_not_asked_is_found() -> None:
    with pytest.raises(Disproved, match="it must refuse by has-act, and not: it fires"):
        prove(Hungry(), EXAMPLES["matmul-bias-act"])


class Shy(MatmulBiasAct):
    """act(a @ b + bias) = gemm(a, b, bias, act=act), of some"""

    name = "shy"
    refusals: ClassVar[Sequence[str]] = (*MatmulBiasAct.refusals, "shy")  # type: ignore[assignment]

    def check(self, m: Any) -> None:
        super().check(m)
        m.require(m.product.out.type.shape[-1] != 3, "shy", "it is 3")


@pytest.mark.promise("AICF-proof")
def test_a_match_that_is_refused_is_found() -> None:
    with pytest.raises(Disproved, match=r"it must fire and does not \(shy: it is 3\)"):
        prove(Shy(), EXAMPLES["matmul-bias-act"])


class Misnamed(MatmulBiasAct):
    """act(a @ b + bias) = gemm(a, b, bias, act=act), for the wrong reason"""

    name = "misnamed"

    def check(self, m: Any) -> None:
        m.require(m.product.attrs["act"] == "none", "has-bias")
        super().check(m)


@pytest.mark.promise("AICF-proof")
def test_a_wrong_reason_is_found() -> None:
    with pytest.raises(Disproved, match="it must refuse by has-act, and not: has-bias"):
        prove(Misnamed(), EXAMPLES["matmul-bias-act"])


@pytest.mark.promise("AICF-proof")
def test_a_proof_is_the_same_each_time_and_another_with_another_seed() -> None:
    def drawn(seed: int) -> list[str]:
        texts: list[str] = []

        def example(d: Draw, broken: str) -> None:
            negations(d, broken)
            texts.append(str(d.graph))

        prove(Negations(), example, fire=10, refuse=0, anywhere=0, seed=seed)
        return texts

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(set(drawn(1))) > 5
