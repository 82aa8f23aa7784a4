"""Quantisation: the integers stand for the numbers, and what is not good enough stays in floats."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aicf
from aicf import Graph, ops, param
from aicf.backend.cpu import CpuBackend
from aicf.compiler.passes.layout import Layout
from aicf.compiler.passes.layout_forms import LAST, side_of
from aicf.compiler.passes.numeric import Budget
from aicf.compiler.passes.observe import Calibration, StaleCalibration, calibrate, least_error
from aicf.compiler.passes.quantise import REFUSALS, Affine, Quantise, Weight, observed
from aicf.compiler.passes.rule import Applied, Context
from aicf.compiler.passes.trial import trial
from aicf.compiler.runtime.interpret import interpret

DRAW = np.random.default_rng(8)


def normal(*shape: int, scale: float = 1.0) -> Any:
    return (DRAW.standard_normal(shape) * scale).astype("f4")


def context(graph: Graph, data: Any) -> Context:
    return Context(data=data, frozen=frozenset(v.name for v in graph.params))


def applied(graph: Graph, data: Any, x: Any, **options: Any) -> Applied:
    """By the ranges that one batch has."""
    batch = x if isinstance(x, dict) else {"x": x}
    found = calibrate(graph, observed(graph), data, [batch])
    result = Quantise(found, **options).run(graph, context(graph, data))
    result.graph.verify()
    return result


def both(graph: Graph, data: Any, x: Any, **options: Any) -> tuple[Any, Any, Applied]:
    """What a graph gives in floats and in integers."""
    found = applied(graph, data, x, **options)
    exact = interpret(graph, {**data, "x": x})[0]
    return exact, interpret(found.graph, {**data, **found.data, "x": x})[0], found


def words(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if not n.is_view]


def decibels(exact: Any, found: Any) -> float:
    noise = ((exact.astype("f8") - found) ** 2).sum()
    return float(10 * math.log10((exact.astype("f8") ** 2).sum() / noise))


# ---- integers for numbers -----------------------------------------------------------------------


@pytest.mark.promise("AICF-quantise-integers")
@pytest.mark.parametrize(
    ("lo", "hi"),
    [(0.0, 1.0), (-1.0, 3.0), (2.0, 3.0), (-5.0, -1.0), (0.0, 0.0), (-1e-40, 1e-40), (-3e38, 3e38)],
)
@pytest.mark.parametrize("symmetric", [False, True])
def test_zero_is_exact_and_a_step_is_the_largest_error(
    lo: float, hi: float, symmetric: bool
) -> None:
    found = Affine.of(lo, hi, symmetric)
    low, high = {"u8": (0, 255), "i8": (-128, 127)}[found.dtype]
    assert low <= found.zero <= high
    assert 1 / np.float32(found.scale) > 0
    assert np.isfinite(1 / np.float32(found.scale))
    if symmetric and lo < 0:
        assert found.zero == 0
    x = np.linspace(lo, hi, 101).astype("f4")
    scale, zero = np.array([found.scale], "f4"), np.array([found.zero], "i4")
    table = aicf.Table.default()
    codes = table["quantize"].call(x, scale, zero, dtype=found.dtype)
    back = table["dequantize"].call(codes, scale, zero, dtype="f32")
    assert np.abs(back.astype("f8") - x).max() <= 0.51 * found.scale * (1 + 1e-5) + 1e-30
    assert (
        table["quantize"].call(np.zeros(1, "f4"), scale, zero, dtype=found.dtype)[0] == found.zero
    )


@pytest.mark.promise("AICF-quantise-integers")
def test_a_channel_of_zeros_keeps_its_bias_and_a_large_bias_fits() -> None:
    x = Affine.of(0.0, 1.0)
    w = np.zeros((4, 8), "f4")
    w[1:] = normal(3, 8)
    w[2] *= 1e-12
    bias = np.array([0.75, -3e7, 100.0, 0.0], "f4")
    found = Weight.of(w, bias, x)
    back = found.bias * found.scales.astype("f8") * x.scale
    assert np.abs(found.bias.astype("i8")).max() < 2**31 - 1
    assert np.allclose(back, bias, rtol=1e-6, atol=1e-4)
    assert (found.codes[0] == 0).all()
    assert np.abs(found.codes[3].astype("i4")).max() == 127


@pytest.mark.promise("AICF-quantise-integers")
def test_the_largest_sum_and_its_bias_fit_32_bits() -> None:
    """Of as many products as a row is exact for, all at their largest: what the bias takes of the
    32 bits the weights do without."""
    k = 65793
    graph = aicf.trace(lambda x, w, b: ops.gemm(x, w, b), f"f32[1, {k}]", param(f"f32[{k}, 1]"),
                       param("f32[1]"))  # fmt: skip
    for bias, within in ((0.0, 1e-6), (1e2, 1e-6), (-7e4, 0.02), (3e5, 0.02), (1e9, 1e-4)):
        data = {"w": np.ones((k, 1), "f4"), "b": np.full(1, bias, "f4")}
        _, found, result = both(graph, data, np.ones((1, k), "f4"))
        assert "gemm_i8" in words(result.graph)
        assert abs(float(found[0, 0]) - (bias + k)) <= within * (abs(bias) + k), bias


# ---- layers -------------------------------------------------------------------------------------


def conv_case(**options: Any) -> tuple[Graph, dict[str, Any]]:
    w, b = normal(8, 4 // options.get("groups", 1), 3, 3), normal(8)
    graph = aicf.trace(
        lambda x, w, b: ops.relu(ops.conv2d(x, w, b, **options)),
        "f32[N, 4, 9, 7]", param("f32" + str(list(w.shape))), param("f32[8]"),
        symbols={"N": (1, 64)},
    )  # fmt: skip
    return graph, {"w": w, "b": b}


@pytest.mark.promise("AICF-quantise-layers")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pad": 1},
        {"pad": (2, 1), "stride": 2},
        {"dilation": 2, "pad": 2},
        {"groups": 2, "pad": 1},
    ],
)
@pytest.mark.parametrize("shift", [0.0, 1.5, -4.0])
def test_a_convolution_in_integers_is_that_of_the_rounded_numbers(
    options: dict[str, Any], shift: float
) -> None:
    """Against floats of what the integers stand for; beside the image is 0, whatever zero is."""
    graph, data = conv_case(**options)
    x = normal(3, 4, 9, 7) + np.float32(shift)
    exact, found, result = both(graph, data, x)
    assert words(result.graph) == ["quantize", "conv2d_i8"]
    assert decibels(exact, found) > 30
    affine = Affine.of(float(x.min()), float(x.max()))
    assert (affine.zero != 0) == (affine.dtype == "i8")
    codes = np.rint(x * np.float32(1 / np.float32(affine.scale))) + affine.zero
    low, high = (0, 255) if affine.dtype == "u8" else (-128, 127)
    near = (np.clip(codes, low, high) - affine.zero) * affine.scale
    weight = Weight.of(data["w"], data["b"], affine)
    scales = weight.scales.astype("f8")
    rounded = {
        "w": (weight.codes * scales[:, None, None, None]).astype("f4"),
        "b": (weight.bias * scales * affine.scale).astype("f4"),
    }
    model = interpret(graph, {**rounded, "x": near.astype("f4")})[0]
    assert np.abs(model - found).max() <= 2e-5 * np.abs(model).max()


@pytest.mark.promise("AICF-quantise-layers")
def test_a_product_of_many_dims_a_turned_weight_and_a_factor() -> None:
    def forward(x: Any, w: Any, b: Any) -> Any:
        return ops.gemm(x, w.permute(1, 0), b, alpha=0.5, act="relu")

    graph = aicf.trace(forward, "f32[N, 5, 16]", param("f32[12, 16]"), param("f32[12]"),
                       symbols={"N": (1, 64)})  # fmt: skip
    data = {"w": normal(12, 16), "b": normal(12)}
    exact, found, result = both(graph, data, normal(3, 5, 16) + np.float32(0.7))
    assert words(result.graph) == ["quantize", "gemm_i8"]
    assert decibels(exact, found) > 30
    other = normal(7, 5, 16)
    again = interpret(result.graph, {**data, **result.data, "x": other})[0]
    assert decibels(interpret(graph, {**data, "x": other})[0], again) > 20


@pytest.mark.promise("AICF-quantise-layers")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_precision_goes_in_and_out(dtype: str) -> None:
    graph = aicf.trace(lambda x, w: ops.gemm(x, w), f"{dtype}[4, 16]", param(f"{dtype}[16, 8]"))
    import ml_dtypes

    kind = {"f16": "f2", "bf16": ml_dtypes.bfloat16}[dtype]
    exact, found, result = both(
        graph, {"w": normal(16, 8).astype(kind)}, normal(4, 16).astype(kind)
    )
    assert "gemm_i8" in words(result.graph)
    assert found.dtype == exact.dtype
    assert decibels(exact, found) > 25


@pytest.mark.promise("AICF-quantise-layers")
def test_what_the_row_of_integers_cannot_do_is_done_behind_it() -> None:
    graph = aicf.trace(lambda x, w: ops.gemm(x, w, act="gelu"), "f32[4, 16]", param("f32[16, 8]"))
    exact, found, result = both(graph, {"w": normal(16, 8)}, normal(4, 16))
    assert words(result.graph) == ["quantize", "gemm_i8", "gelu"]
    assert decibels(exact, found) > 25


def chain(x: Any, w1: Any, b1: Any, w2: Any, w3: Any) -> Any:
    h = ops.relu(ops.gemm(x, w1, b1)).reshape(x.shape[0], 24)
    return ops.gemm(ops.gemm(h, w2), w3)


def chain_case() -> tuple[Graph, dict[str, Any]]:
    given = {"w1": normal(16, 24), "b1": normal(24), "w2": normal(24, 24), "w3": normal(24, 4)}
    types = [param("f32" + str(list(w.shape))) for w in given.values()]
    graph = aicf.trace(chain, "f32[N, 16]", *types, symbols={"N": (1, 99)})
    return graph, given


@pytest.mark.promise("AICF-quantise-layers")
def test_a_chain_hands_integers_on() -> None:
    graph, data = chain_case()
    exact, found, result = both(graph, data, normal(32, 16))
    assert words(result.graph) == ["quantize", "gemm_i8", "gemm_i8", "gemm_i8"]
    kinds = [n.out.type.dtype for n in result.graph.nodes if n.op == "gemm_i8"]
    assert kinds == ["u8", "i8", "f32"]
    assert decibels(exact, found) > 25
    assert len(result.fired) == 3
    assert "relu" in result.fired[0].nodes[1]


@pytest.mark.promise("AICF-quantise-layers")
def test_what_is_read_as_numbers_too_stays_numbers() -> None:
    def forward(x: Any, w1: Any, w2: Any) -> Any:
        h = ops.gemm(x, w1)
        return ops.gemm(h, w2) + h, ops.gemm(h, w2)

    graph = aicf.trace(forward, "f32[8, 16]", param("f32[16, 16]"), param("f32[16, 16]"))
    data = {"w1": normal(16, 16), "w2": normal(16, 16)}
    exact, found, result = both(graph, data, normal(8, 16))
    assert words(result.graph).count("quantize") == 2  # of h once, for both that read it
    assert decibels(exact, found) > 25


@pytest.mark.promise("AICF-quantise-layers")
def test_replays_and_what_is_compiled_give_what_single_calls_give(tmp_path: Path) -> None:
    graph, data = chain_case()
    x = normal(8, 16)
    found = aicf.quantise(graph, data, [{"x": x}], backend=CpuBackend())
    run = aicf.ExecutorV2(found.graph, CpuBackend(strict=True), params=found.params,
                          constants=found.constants)  # fmt: skip
    exact = interpret(found.graph, {**found.constants, "x": x})[0]
    assert np.array_equal(run(x), exact)
    compiled = aicf.compile(found.graph, constants=found.constants, cache=tmp_path)
    assert np.array_equal(compiled(x), exact)
    assert not found.params  # the floats are gone
    smaller = normal(3, 16)
    assert run(smaller).shape == (3, 4)


# ---- refusals -----------------------------------------------------------------------------------

X, W = "f32[4, 16]", "f32[16, 8]"


def reason_of(graph: Graph, data: Any, x: Any = None, **options: Any) -> dict[str, str]:
    given = normal(4, 16) if x is None else x
    found = applied(graph, data, given, **options)
    assert all(r.reason in REFUSALS for r in found.refused)
    if not found.fired:
        assert found.graph is graph
    return {r.reason: r.detail for r in found.refused}


@pytest.mark.promise("AICF-quantise-refuses")
def test_layers_that_stay_say_why() -> None:
    w, b = normal(16, 8), normal(8)
    plain = aicf.trace(lambda x, w: ops.gemm(x, w), X, param(W))
    biased = aicf.trace(lambda x, b, w: ops.gemm(x, w, b), X, "f32[8]", param(W))
    given = {"x": normal(4, 16), "b": b}
    assert "bias-not-frozen" in reason_of(biased, {"w": w}, given)
    c = aicf.trace(lambda x, w, c: ops.gemm(x, w, c=c, beta=1.0), X, param(W), param("f32[4, 8]"))
    assert reason_of(c, {"w": w, "c": normal(4, 8)})["addend"] == "c is %c"
    two = aicf.trace(lambda x: ops.gemm(x, x.permute(1, 0)), X)
    assert "weight-not-frozen" in reason_of(two, {})
    batched = aicf.trace(lambda x, w: ops.gemm(x, w), X, param("f32[2, 16, 8]"))
    assert "weight-batched" in reason_of(batched, {"w": normal(2, 16, 8)})
    bad = w.copy()
    bad[3, 3] = np.inf
    assert "weight-not-finite" in reason_of(plain, {"w": bad})
    x = normal(4, 16)
    x[2, 2] = np.nan
    assert "not-finite" in reason_of(plain, {"w": w}, x)
    assert "scale-range" in reason_of(
        plain, {"w": w * np.float32(1e-30)}, normal(4, 16, scale=1e-12)
    )
    other = aicf.trace(lambda x, w, b: ops.gemm(x, w, b), X, param(W), param("f32[8]"))
    assert "bias-not-finite" in reason_of(other, {"w": w, "b": b * np.float32(np.nan)})
    wide = aicf.trace(lambda x, w: ops.gemm(x, w), "f32[1, 65794]", param("f32[65794, 1]"))
    found = reason_of(wide, {"w": normal(65794, 1)}, normal(1, 65794))
    assert "not exact in 32 bits" in found["no-call"]
    double = aicf.trace(lambda x, w: ops.gemm(x, w), "f64[4, 16]", param("f64[16, 8]"))
    assert "no-call" in reason_of(double, {"w": w.astype("f8")}, normal(4, 16).astype("f8"))


@pytest.mark.promise("AICF-quantise-refuses")
def test_a_weight_that_a_step_updates_stays() -> None:
    def step(x: Any, w: Any, lr: Any) -> Any:
        h = ops.gemm(x, w)
        ops.sgd([w], [ops.gemm(x.permute(1, 0), h)], lr=lr)
        return h

    graph = aicf.trace(step, X, param(W), "f32[]")
    data = {"w": normal(16, 8)}
    seen = calibrate(graph, observed(graph), data, [{"x": normal(4, 16), "lr": 0.1}])
    found = Quantise(seen).run(graph, context(graph, data))
    assert found.graph is graph
    assert {r.reason for r in found.refused} == {"weight-not-frozen"}
    before = data["w"].copy()
    with pytest.raises(ValueError, match="step updates %w: what is quantised is inference"):
        aicf.quantise(graph, data, [{"x": normal(4, 16), "lr": 0.1}])
    assert np.array_equal(before, data["w"])


@pytest.mark.promise("AICF-quantise-refuses")
def test_a_graph_without_layers_is_as_it_was() -> None:
    graph = aicf.trace(lambda x: x + x, "f32[4]")
    found = aicf.quantise(graph, {}, [{"x": np.ones(4, "f4")}], observer="error")
    assert words(found.graph) == ["add"]
    assert not found.layers
    assert not found.refused


@pytest.mark.promise("AICF-quantise-refuses")
def test_what_is_to_be_kept_is_kept() -> None:
    graph, data = chain_case()
    x = normal(8, 16)
    found = applied(graph, data, x, keep_first=True, keep_last=True)
    assert [r.reason for r in found.refused] == ["kept-first", "kept-last"]
    found = applied(graph, data, x, keep="gemm_1")
    assert [r.reason for r in found.refused] == ["kept"]
    assert words(found.graph).count("gemm") == 1
    with pytest.raises(ValueError, match=r"no layer gives %h.*gemm, gemm_1, gemm_2"):
        applied(graph, data, x, keep=["h"])
    seen = calibrate(graph, observed(graph)[1:], data, [{"x": x}])
    found = Quantise(seen).run(graph, context(graph, data))
    assert [r.reason for r in found.refused] == ["not-observed"]


# ---- calibrations -------------------------------------------------------------------------------


@pytest.mark.promise("COMPILER-quantise-retrained")
def test_a_calibration_is_refused_after_retraining(tmp_path: Path) -> None:
    graph, data = chain_case()
    x = normal(8, 16)
    first = aicf.quantise(graph, data, [{"x": x}])
    path = tmp_path / "calibration.json"
    first.calibration.save(path)
    kept = Calibration.load(path)
    assert kept == first.calibration
    again = aicf.quantise(graph, data, [{"x": x}], calibration=kept)
    assert again.graph == first.graph
    assert all(np.array_equal(a, again.constants[n]) for n, a in first.constants.items())
    retrained = {**data, "w2": data["w2"] + np.float32(1e-7)}
    with pytest.raises(StaleCalibration, match=r"other values of w2 \(1 of 4 params\)"):
        aicf.quantise(graph, retrained, [{"x": x}], calibration=kept)
    seen = calibrate(graph, observed(graph), data, [{"x": x}])
    with pytest.raises(StaleCalibration, match="w2"):
        Quantise(seen).run(graph, context(graph, retrained))
    other = Graph.parse(graph.text().replace("%w3", "%w4"))
    with pytest.raises(StaleCalibration, match="another graph"):
        Quantise(seen).run(other, context(other, {**data, "w4": data["w3"]}))
    for text in ("", "[]", "{}", '{"graph": 1, "params": 2, "ranges": 3}', path.read_text()[:-40]):
        path.write_text(text)
        with pytest.raises(ValueError, match="no calibration"):
            Calibration.load(path)


@pytest.mark.promise("AICF-quantise-observes")
def test_observers_see_all_batches_and_may_leave_out_the_ends() -> None:
    graph = aicf.trace(lambda x, w: ops.gemm(x, w), "f32[N, 16]", param(W), symbols={"N": (1, 999)})
    data = {"w": normal(16, 8)}
    batches = [{"x": normal(400, 16)}, {"x": normal(7, 16)}, {"x": normal(1, 16)}]
    batches[1]["x"][3, 3] = 50.0
    every = np.concatenate([b["x"].ravel() for b in batches])

    def seen(observer: str, **more: Any) -> tuple[float, float]:
        found = calibrate(graph, ["x"], data, iter(batches), observer=observer, **more)
        assert found.batches == 3
        return found.ranges["x"]

    assert seen("range") == (every.min(), 50.0)
    lo, hi = seen("percentile", percentile=99.9)
    assert -4.5 < lo < -2.0
    assert 2.0 < hi < 4.5
    assert seen("error")[1] > 45.0  # without it the one number would cost more than all steps do
    bins = np.linspace(-20, 20, 2048)
    counts = (1e6 * np.exp(-bins * bins / 2)).astype("i8")
    counts[[0, -1]] += 1
    lo, hi = least_error(-20.0, 20.0, counts)
    assert lo == -hi
    assert 3 < hi < 12
    constant = [{"x": np.full((2, 16), 3.0, "f4")}]
    for observer in ("range", "percentile", "error"):
        found = calibrate(graph, ["x"], data, constant, observer=observer)
        assert found.ranges["x"] == (3.0, 3.0)


@pytest.mark.promise("AICF-quantise-observes")
def test_bad_input_is_named() -> None:
    graph, data = chain_case()
    batch = {"x": normal(8, 16)}
    with pytest.raises(ValueError, match="one batch at least"):
        calibrate(graph, ["x"], data, [])
    with pytest.raises(ValueError, match="give one at least"):
        aicf.quantise(graph, data, [])
    with pytest.raises(ValueError, match="a batch has no x; inputs are x"):
        aicf.quantise(graph, data, [{"y": 1}])
    with pytest.raises(ValueError, match="observer is one of range, percentile, error"):
        aicf.quantise(graph, data, [batch], observer="entropy")
    with pytest.raises(ValueError, match="percentile"):
        aicf.quantise(graph, data, [batch], observer="percentile", percentile=0.5)
    with pytest.raises(ValueError, match="values of %w3"):
        aicf.quantise(graph, {n: data[n] for n in ("w1", "b1", "w2")}, [batch])
    with pytest.raises(aicf.IRError, match="no such value"):
        calibrate(graph, ["nothing"], data, [batch])


# ---- accuracy -----------------------------------------------------------------------------------


@pytest.mark.promise("AICF-quantise-accuracy")
def test_a_layer_beyond_the_budget_stays_in_floats() -> None:
    """One column of what it reads is a thousand times the others, and has no weight."""
    graph = aicf.trace(
        lambda x, w, v: ops.gemm(ops.gemm(x, v), w), X, param(W), param("f32[16, 16]")
    )
    w, v = normal(16, 8), normal(16, 16)
    v[:, 5] *= 1e4
    w[5] = 0
    batches = [{"x": normal(4, 16)} for _ in range(2)]
    found = aicf.quantise(graph, {"w": w, "v": v}, batches)
    assert [x.name for x in found.layers] == ["gemm"]
    (refused,) = found.refused
    assert refused.reason == "error-budget"
    assert "dB alone" in refused.detail
    assert found.outputs[0] > 20
    assert "error-budget" in str(found)
    loose = aicf.quantise(graph, {"w": w, "v": v}, batches, least_db=-100.0)
    assert len(loose.layers) == 2


@pytest.mark.promise("AICF-quantise-accuracy")
def test_errors_are_those_of_each_layer_and_add_up() -> None:
    graph, data = chain_case()
    batches = [{"x": normal(32, 16), "label": 1}, {"x": normal(5, 16), "label": 2}]
    found = aicf.quantise(graph, data, batches)
    first, *rest = found.layers
    assert first.own == pytest.approx(first.through, abs=3.5)  # what it gives is rounded again
    assert all(x.through < x.own for x in rest)
    assert found.outputs == (found.layers[-1].through,)
    exact = np.concatenate([interpret(graph, {**data, "x": b["x"]})[0] for b in batches])
    ours = np.concatenate(
        [interpret(found.graph, {**found.constants, "x": b["x"]})[0] for b in batches]
    )
    assert found.outputs[0] == pytest.approx(decibels(exact, ours), abs=1e-3)
    assert [x.integers for x in found.layers] == ["i8", "u8", "i8"]
    assert found.before is None


@pytest.mark.promise("AICF-quantise-accuracy")
def test_layers_go_back_to_floats_until_the_metric_holds() -> None:
    graph, data = chain_case()
    x = normal(32, 16)
    exact = interpret(graph, {**data, "x": x})[0]
    calls: list[float] = []

    def metric(run: Any) -> float:
        calls.append(1 - float(np.abs(run({"x": x})[0] - exact).max() / np.abs(exact).max()))
        return calls[-1]

    found = aicf.quantise(graph, data, [{"x": x}], metric=metric, max_drop=1.0)
    assert found.before == 1.0
    assert found.after is not None
    assert 0.9 < found.after < 1.0
    assert f"{found.after:.4f} in integers" in str(found)
    drop = (1 - found.after) / 2
    fewer = aicf.quantise(graph, data, [{"x": x}], metric=metric, max_drop=drop)
    assert fewer.after is not None
    assert fewer.after >= 1 - drop
    assert len(fewer.refused) > 0
    assert "the metric is" in fewer.refused[0].detail
    none = aicf.quantise(graph, data, [{"x": x}], metric=metric, max_drop=0.0)
    assert not none.layers
    assert none.after == 1.0
    assert len(none.refused) == 3
    assert words(none.graph) == ["gemm", "gemm", "gemm"]


@pytest.mark.promise("AICF-quantise-accuracy")
def test_it_goes_through_the_gate_of_all_passes() -> None:
    graph, data = chain_case()
    given = {**data, "x": normal(8, 16)}
    one = Quantise(calibrate(graph, observed(graph), data, [given]))
    known = context(graph, data)

    def verdict(budget: Budget) -> Any:
        return trial(
            graph, one, CpuBackend(), data=given, context=known, sizes={"N": 8}, budget=budget,
            timed=False,
        )  # fmt: skip

    assert not verdict(Budget()).kept
    kept = verdict(Budget(absolute=0.2))
    assert kept.kept
    assert 1e-3 < kept.error_after < 0.2


@pytest.mark.promise("AICF-quantise-layers")
def test_layouts_are_chosen_before_or_after() -> None:
    graph = aicf.trace(
        lambda x, w: ops.max_pool2d(ops.conv2d(x, w, pad=1), window=3, stride=2),
        "f32[N, 4, 9, 7]", param("f32[8, 4, 3, 3]"), symbols={"N": (1, 64)},
    )  # fmt: skip
    data = {"w": normal(8, 4, 3, 3)}
    x = normal(3, 4, 9, 7)

    def last(request: Any) -> float:
        spec = request.flat()[0]
        is_last = side_of(aicf.TensorType(spec.dtype, spec.shape, spec.strides)) == LAST
        return 1e-6 if is_last or request.row.name == "permute" else 1e-3

    exact, found, result = both(graph, data, x)
    known = {**data, **result.data}
    after = Layout(last).run(result.graph, Context(data=known)).graph
    assert side_of(next(n for n in after.nodes if n.op == "conv2d_i8").out.type) == LAST
    assert np.array_equal(found, interpret(after, {**known, "x": x})[0])
    before = Layout(last).run(graph).graph
    turned, ours, result = both(before, data, x)
    assert side_of(next(n for n in result.graph.nodes if n.op == "conv2d_i8").out.type) == LAST
    assert np.abs(turned - exact).max() < 1e-4
    assert np.array_equal(ours, found)


@pytest.mark.promise("AICF-quantise-layers")
@pytest.mark.gpu
def test_integers_on_a_gpu_are_those_of_the_cpu() -> None:
    graph, data = chain_case()
    x = normal(8, 16)
    cuda = aicf.backends.get("cuda")
    here = aicf.quantise(graph, data, [{"x": x}])
    there = aicf.quantise(graph, data, [{"x": x}], backend=cuda)
    for name, (lo, hi) in here.calibration.ranges.items():
        assert np.allclose(there.calibration.ranges[name], (lo, hi), rtol=1e-3, atol=1e-6)
    run = aicf.ExecutorV2(here.graph, cuda, params=here.params, constants=here.constants)
    exact = interpret(here.graph, {**here.constants, "x": x})[0]
    assert np.abs(cuda.to_host(run(cuda.from_host(x))) - exact).max() <= 0.02 * np.abs(exact).max()


@pytest.mark.promise("AICF-quantise-accuracy")
@pytest.mark.compiler
@pytest.mark.guests("torch")
def test_a_module_of_torch_goes_to_integers() -> None:
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 10),
    ).eval()  # fmt: skip
    batch = torch.export.Dim("batch", min=2, max=64)
    shapes = ({0: batch},)
    program = torch.export.export(net, (torch.randn(4, 3, 6, 6),), dynamic_shapes=shapes)
    found = aicf.from_export(program, names=("N",))
    batches = [{"input": torch.randn(n, 3, 6, 6)} for n in (5, 9)]
    ours = aicf.quantise(found.graph, found.data, batches, observer="percentile")
    assert words(ours.graph) == ["quantize", "conv2d_i8", "gemm_i8"]  # the bias is in the product
    x = torch.randn(7, 3, 6, 6)
    given = {**ours.params, **ours.constants, "input": x}
    assert decibels(net(x).detach().numpy(), np.asarray(interpret(ours.graph, given)[0])) > 25
