"""What is given to an executor and should not be: each is refused with its name, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicf
from aicf.backend.cpu import CpuBackend
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.training import training_step
from aicf.compiler.runtime.executor import ExecutorV2
from compiler.emulated import Emulated
from compiler.test_executor import batches, forward, weights

MODES = ("eager", "replay", "graph")
apart = pytest.mark.promise("COMPILER-run-apart")
refuses = pytest.mark.promise("MARK-8-run-refuses")


def updating() -> Graph:
    """Reads x before and after w is updated, by other ops than that which updates it."""

    def step(x: Any, g: Any, w: Any) -> Any:
        before = x + x
        aicf.ops.sgd([w], [g], lr=1.0)
        return before, x + x, w + w

    graph: Graph = aicf.trace(step, "f32[4]", "f32[4]", "f32[4]")
    return graph


# ---- memory that is shared -----------------------------------------------------------------------


@apart
@pytest.mark.parametrize("mode", MODES)
def test_what_is_updated_is_apart_from_other_inputs(mode: str) -> None:
    run = ExecutorV2(updating(), Emulated(strict=True), mode=mode)  # type: ignore[arg-type]
    whole = np.arange(12, dtype="f4")
    x, g, w = whole[:4], whole[4:8], whole[8:]
    for _ in range(2):
        run(x, g, w)
        for wrong in (w, whole[7:11], w[:], whole[5:9]):
            before = whole.copy()
            for given in ((wrong, g, w), (x, wrong, w)):
                with pytest.raises(TypeError, match=r"[xg] and w share memory, and sgd"):
                    run(*given)
            assert (whole == before).all()
        with pytest.raises(TypeError, match="x and w share memory"):
            run(x, g, x)
        run(g, g, w)  # who only reads may share


@apart
@pytest.mark.parametrize("mode", MODES)
def test_an_input_is_apart_from_params_that_are_updated(mode: str) -> None:
    step = training_step(aicf.trace(
        lambda x, w: aicf.ops.mean(x * w), "f32[3]", aicf.param("f32[3]")), "sgd")  # fmt: skip
    run = ExecutorV2(step.graph, Emulated(), params={"w": np.ones(3, "f4")}, mode=mode)  # type: ignore[arg-type]
    x = np.ones(3, "f4")
    run(x, lr=0.1)
    for again in range(2):
        with pytest.raises(TypeError, match="x and w share memory, and sgd"):
            run(run.param("w"), lr=0.1)
        run(x if again else x.copy(), lr=0.1)
    run.adopt("w", x)
    with pytest.raises(TypeError, match="x and w share memory, and sgd"):
        run(x, lr=0.1)


@apart
def test_params_that_are_updated_are_apart() -> None:
    step = training_step(forward(), "adam")
    run = ExecutorV2(step.graph, CpuBackend(), params=weights())
    run.zero(*step.states)
    run.adopt("w1.m", run.param("w1.v"))
    x, y = next(batches(1))
    with pytest.raises(TypeError, match=r"w1.[mv] and w1.[mv] share memory, and adam"):
        run(x, y, lr=0.1, step=1)


@apart
@pytest.mark.parametrize("mode", ["replay", "graph"])
def test_an_output_that_is_reused_is_no_input(mode: str) -> None:
    graph = aicf.trace(lambda x, y: (x + y) * y, "f32[3]", "f32[3]")
    run = ExecutorV2(graph, Emulated(), mode=mode, outputs="reused")  # type: ignore[arg-type]
    y = np.ones(3, "f4")
    h = run(y, y)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"x lies in an output of the last run, \w+, which"):
            run(h, y)
        assert np.asarray(run(y, y)).tolist() == [2, 2, 2]
    fresh = ExecutorV2(graph, Emulated(), mode=mode)  # type: ignore[arg-type]
    h = y
    for count in range(1, 5):
        h = fresh(h, y)
        assert np.asarray(h).tolist() == [count + 1] * 3


@apart
def test_where_what_is_written_lies_is_found_among_many() -> None:
    """As all pairs say, whatever lies before, behind and between."""
    from aicf.compiler.runtime.overlap import Apart

    r = np.random.default_rng(4)
    whole = np.zeros(400, "f4")
    graph = Graph()
    names = [graph.input(f"w{i}", "f32[5]") for i in range(20)]
    x, g = graph.input("x", "f32[8]"), graph.input("g", "f32[5]")
    graph.add("sgd", names[:18], [g] * 18, lr=1.0)
    for _ in range(30):
        starts = sorted(r.choice(56, 20, replace=False) * 7)
        given = {v: whole[s : s + 5] for v, s in zip(names, starts, strict=True)}
        rule = Apart(graph)
        rule.check({**given, x: np.zeros(8, "f4"), g: np.zeros(5, "f4")})
        for start in range(392):
            shares = any(s < start + 8 and start < s + 5 for s in starts[:18])
            assert rule.takes(x, whole[start : start + 8]) == (not shares)


# ---- what is of another kind ---------------------------------------------------------------------


@refuses
@pytest.mark.parametrize(
    "options, words",
    [
        ({"graph": None}, "graph must be a Graph, not None"),
        ({"graph": "f32[3]"}, "graph must be a Graph, not a str"),
        ({"graph": training_step(forward(), "sgd")}, "not a Training: take its .graph"),
        ({"backend": None}, "backend must be an AicfBackend, not None"),
        ({"backend": "cpu"}, r"not a str: aicf.backends.get\('cpu'\)"),
        ({"backend": CpuBackend}, "backend must be an AicfBackend, not a type"),
        ({"params": [1]}, "params must be a mapping of names to arrays, not a list"),
        ({"constants": "c"}, "constants must be a mapping of names to arrays, not a str"),
        ({"params": {"w9": 1}}, "no param w9; there are w1, b1"),
        ({"params": {"w1": None}}, r"w1 must be f32\[8, 16\], and not None"),
        ({"params": {"w1": [[1.0]]}}, r"w1 must be f32\[8, 16\], and not \[\[1.0\]\]"),
        ({"mode": None}, "mode is None, and may be eager, replay, graph"),
        ({"mode": ["graph"]}, r"mode is \['graph'\], and may be eager, replay, graph"),
        ({"outputs": "new"}, "outputs is 'new', and may be fresh, reused"),
        ({"inputs": 3}, "inputs is 3, and may be auto, copy, repoint"),
        ({"kept": 0}, "one program at least must be kept"),
        ({"kept": 2.5}, "kept must be an int, not a float"),
        ({"kept": True}, "kept must be an int, not a bool"),
        ({"selector": "fast"}, "selector must be a Selector, not a str"),
    ],
)  # fmt: skip
def test_an_executor_of_what_is_none(options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"graph": forward(), "backend": CpuBackend(), **options}
    with pytest.raises((TypeError, ValueError, KeyError), match=words):
        ExecutorV2(given.pop("graph"), given.pop("backend"), **given)


@refuses
@pytest.mark.parametrize("mode", MODES)
def test_runs_of_what_is_none(mode: str) -> None:
    step = training_step(forward(), "adam")
    run = ExecutorV2(step.graph, Emulated(strict=True), params=weights(), mode=mode)  # type: ignore[arg-type]
    run.zero(*step.states)
    x, y = next(batches(1))
    good = (x, y, 0.1, 1)

    class Shaped:
        shape = (7, 8)

    for _ in range(2):
        for place, name in enumerate(("x", "y", "lr", "step")):
            for wrong in (
                None,
                "x",
                [1.0],
                {},
                object(),
                Shaped(),
                Ellipsis,
                np.ones((7, 8), "M8[s]"),
            ):
                given = [*good]
                given[place] = wrong
                with pytest.raises((TypeError, ValueError, aicf.IRError), match=rf"\b{name}\b"):
                    run(*given)
        assert float(run(*good)) > 0
    for name in ("load", "adopt"):
        for wrong in (None, "x", [1.0], 3, object()):
            with pytest.raises(TypeError, match=r"w1 must be f32\[8, 16\]"):
                getattr(run, name)("w1", wrong)
    names: tuple[Any, ...] = (None, 3, ["w1"])
    for none in names:
        for method in (run.param, run.zero, lambda n: run.load(n, x), lambda n: run.adopt(n, x)):
            with pytest.raises(KeyError, match="no param"):
                method(none)
    count: Any
    for count in (0, None, 1.5, "2", True):
        with pytest.raises((TypeError, ValueError), match="once at least"):
            run.per_op(*good, count=count)
    with pytest.raises(TypeError, match="a is no input"):
        run.prepare(*good, a=1)


@refuses
@pytest.mark.parametrize("mode", MODES)
def test_runs_after_refused_ones_are_right(mode: str) -> None:
    """Of some of the inputs of a refused run, nothing stays."""
    step = training_step(forward(), "sgd")
    runs = [
        ExecutorV2(step.graph, Emulated(strict=True), params=weights(), mode=m)  # type: ignore[arg-type]
        for m in (mode, "eager")
    ]
    (x, y), (a, b) = list(batches(3))[1:]
    for _ in range(3):
        for wrong in ((a, y[:2], 0.5), (a, None, 0.5), (a, b, "fast"), (a, b, a), (a.T, b, 0.5)):
            with pytest.raises((TypeError, ValueError, aicf.IRError)):
                runs[0](*wrong)
            assert float(runs[0](x, y, 0.1)) == float(runs[1](x, y, 0.1))
        assert float(runs[0](a, b, 0.1)) == float(runs[1](a, b, 0.1))


@refuses
@pytest.mark.guests("torch")
def test_what_torch_negates_when_it_is_read() -> None:
    import torch

    lazy = torch.tensor([1 + 2j]).conj().imag
    graph = aicf.trace(lambda x, w: x + w, "f32[1]", aicf.param("f32[1]"))
    cpu = aicf.backends.get("cpu")
    with pytest.raises(ValueError, match="torch negates it when it is read"):
        aicf.ExecutorV2(graph, cpu, params={"w": lazy})
    run = aicf.ExecutorV2(graph, cpu, params={"w": lazy.resolve_neg()})
    assert np.asarray(run(np.zeros(1, "f4"))).tolist() == [-2]
