"""Bisecting: the guilty rule, and the rewrite by which it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aicf.backend.cpu import CpuBackend
from aicf.compiler.ir.graph import Graph
from aicf.compiler.passes.bisect import bisect
from aicf.compiler.passes.numeric import Budget
from aicf.compiler.passes.pipeline import Pipeline, standard
from aicf.compiler.passes.rule import Group
from aicf.compiler.passes.rules.matmul_bias_act import MatmulBiasAct
from compiler import wrong_rules
from compiler.test_pipeline import Negations, mlp
from compiler.wrong_rules import Drops, Lies, LiesOfSome, Loops, OtherFace, Raises

pytestmark = pytest.mark.promise("AICF-bisect")
CPU = CpuBackend()


def exps(count: int, wrong: int) -> Graph:
    """Exponentials of neighbours, of which one is of a tanh; its line is 100 and its place."""
    lines = []
    for i in range(count):
        op = "tanh" if i == wrong else "sigmoid"
        lines.append(f'%a{i}: f32[4] = {op}(%x) @ "net.py":{i}')
        lines.append(f'%b{i}: f32[4] = exp(%a{i}) @ "net.py":{100 + i}')
    returned = ", ".join(f"%b{i}" for i in range(count))
    body = "\n".join(lines)
    return Graph.parse(f"graph g {{\ninput %x: f32[4]\n{body}\nreturn {returned}\n}}")


@pytest.mark.parametrize("place", [0, 1, 4, 8])
def test_the_rule_and_its_rewrite_are_found(place: int) -> None:
    graph = exps(9, place)
    found = bisect(graph, [Negations(), MatmulBiasAct(), LiesOfSome(), Lies()], CPU)
    assert found is not None
    assert (found.rule, found.index, found.count) == ("lies-of-some", place, 9)
    assert found.firing is not None
    assert str(found.firing.loc) == f"net.py:{100 + place}"
    assert found.firing.nodes[-1].startswith(f"%b{place}: f32[4] = exp(%a{place})")
    assert found.finding is not None
    assert found.finding.name == f"output {place}"
    file, _, line = found.firing.at.rpartition(":")
    text = Path(wrong_rules.__file__).read_text(encoding="utf-8").splitlines()
    assert Path(file).name == "wrong_rules.py"
    assert "def rewrite" in text[int(line) - 1]
    told = str(found).splitlines()
    assert told[0].startswith("lies-of-some (exp(x) = exp(-(-x)), but where x is a tanh")
    assert told[1].startswith(f"rewrite {place + 1} of 9 of the rule at ")
    assert told[2].startswith(f"  - %b{place}: f32[4] = exp(%a{place})")
    assert found.after is not None
    assert len(found.before.nodes) == 18 + 2 * place
    assert len(found.after.nodes) == 18 + 2 * place + 1


def test_of_a_group_it_is_the_rule() -> None:
    group = Group("several", (MatmulBiasAct(), LiesOfSome()))
    found = bisect(exps(5, 3), [group], CPU)
    assert found is not None
    assert (found.rule, found.index, found.count) == ("lies-of-some", 3, 5)
    assert found.doc == LiesOfSome.__doc__


def test_all_are_right() -> None:
    assert bisect(mlp(), [Negations(), MatmulBiasAct()], CPU) is None
    assert bisect(mlp(), [], CPU) is None
    assert standard().bisect(mlp(), CPU) is None
    found = Pipeline([MatmulBiasAct(), LiesOfSome()]).bisect(exps(3, 1), CPU)
    assert found is not None
    assert (found.rule, found.index) == ("lies-of-some", 1)


def test_the_given_data_decides() -> None:
    """A sum and a difference are one where what is added is 0."""
    zero, one = {"b": np.zeros(4, "f4")}, {"b": np.ones(4, "f4")}
    assert bisect(mlp(), [Lies()], CPU, zero) is None
    found = bisect(mlp(), [Lies()], CPU, one)
    assert found is not None
    assert (found.rule, found.index, found.count) == ("lies", 0, 1)
    assert bisect(mlp(), [Lies()], CPU, one, budget=Budget(1e9, 1e9)) is None


def test_what_raises_is_guilty_with_its_line() -> None:
    found = bisect(mlp(), [MatmulBiasAct(), Lies(), Raises()], CPU)
    assert found is None  # the only relu is in the product by then
    found = bisect(mlp(), [Raises()], CPU)
    assert found is not None
    assert found.why.startswith("IndexError: list index out of range at ")
    assert "wrong_rules.py:" in found.why
    assert (found.count, found.index, found.firing) == (None, 0, None)


def test_what_loops_is_guilty() -> None:
    found = bisect(mlp(), [Loops()], CPU)
    assert found is not None
    assert found.why.startswith("Endless: loops comes to no end")


@pytest.mark.parametrize("wrong", [OtherFace(), Drops()], ids=lambda p: p.name)
def test_a_pass_that_is_no_rule(wrong: wrong_rules.Pass) -> None:
    """It makes all its changes or none; the diff shows them."""
    found = bisect(mlp(), [wrong], CPU)
    assert found is not None
    assert found.rule == wrong.name
    assert found.finding is None
    assert "\n  - " in str(found) or "\n  + " in str(found)
