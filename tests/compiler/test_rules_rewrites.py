"""Each rewrite: that it fires, what comes, the same numbers; and each of its refusals by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from aicf import ops, param, trace
from aicf.backend.host import numpy_dtype
from aicf.compiler.ir.graph import Graph
from aicf.compiler.passes.canonicalise import VIEWS, canonicalise
from aicf.compiler.passes.dce import Dce
from aicf.compiler.passes.fold import Fold
from aicf.compiler.passes.pipeline import standard
from aicf.compiler.passes.rule import Context, Rule
from aicf.compiler.passes.rules import fusing, simplifying
from aicf.compiler.runtime.interpret import interpret
from compiler.test_rules_engine import applied, data_of, ops_of, reasons, same

np: Any = pytest.importorskip("numpy")
pytestmark = pytest.mark.promise("MARK-9-rewrites")

FUSING = [rule for rule in fusing() if isinstance(rule, Rule)]
RULES = {rule.name: rule for rule in (*simplifying(), *FUSING, *VIEWS)}
INEXACT = (
    "matmul-bias-act", "scaled-operand", "product-plus", "scale-into-product", "conv-bias",
    "conv-batch-norm", "scale-of-scale", "log-of-softmax",
)  # fmt: skip
TOLERANCES = {"f64": 1e-13, "f32": 1e-5, "f16": 1e-2, "bf16": 3e-2}


@dataclass(frozen=True)
class Case:
    """A graph of one dtype and what a rule makes of it."""

    rule: str
    function: Callable[..., Any]
    shapes: tuple[str, ...]
    ops: str = ""  # afterwards; empty: it does not fire
    reasons: str = ""
    dtypes: str = "f32 f64 f16 bf16"


M, N = "4, 6", "6, 5"
IMAGE, KERNEL = "2, 4, 5, 5", "6, 4, 3, 3"
c = Case

CASES = [
    c("double-negation", lambda x: ops.neg(ops.neg(x)) + 1, (M,), "add"),
    c("double-negation", lambda x: ops.neg(ops.relu(ops.neg(x))), (M,)),
    c("relu-twice", lambda x: ops.relu(ops.relu(x)), (M,), "relu"),
    c("relu-twice", lambda x: (lambda h: (ops.relu(h) + x, h))(ops.relu(x)), (M,), "relu add"),
    c("minus-negative", lambda x, y: x + ops.neg(y), (M, M), "sub"),
    c("minus-negative", lambda x, y: ops.neg(y) + x, (M, M), "sub"),
    c("minus-negative", lambda x, y: x - ops.neg(y), (M, "6"), "add"),
    c("minus-negative", lambda x, y: ops.neg(y) - x, (M, M)),
    c("times-one", lambda x: ops.relu(x) * 1, (M,), "relu"),
    c("times-one", lambda x: 1 * ops.relu(x) / 1, (M,), "relu"),
    c("times-one", lambda x: ops.scale(ops.relu(x), factor=1.0), (M,), "relu"),
    c("times-one", lambda x: ops.dropout(ops.relu(x), seed=3, p=0.0), (M,), "relu"),
    c("times-one", lambda x: ops.dropout(ops.relu(x), seed=3, p=0.5), (M,)),
    c("times-one", lambda x: 1 / ops.relu(x) * 1.5, (M,)),
    c("plus-zero", lambda x: ops.relu(x) - 0, (M,), "relu"),
    c("plus-zero", lambda x: ops.relu(x) + -0.0, (M,), "relu"),
    c("plus-zero", lambda x: -0.0 + ops.relu(x), (M,), "relu"),
    c("plus-zero", lambda x: ops.neg(x) + 0.0, (M,), "", "signed-zero"),
    c("plus-zero", lambda x: ops.neg(x) - -0.0, (M,), "", "signed-zero"),
    c("plus-zero", lambda x: x + 1, (M,)),
    c("plus-zero", lambda x: x * 1 + 0, (M,), "mul", "", "i64 i32"),
    c("number-to-scale", lambda x: x * 0.75, (M,), "scale"),
    c("number-to-scale", lambda x: 0.1 * x, (M,), "scale"),
    c("number-to-scale", lambda x: x / 8, (M,), "scale"),
    c("number-to-scale", lambda x: x / -0.5, (M,), "scale"),
    c("number-to-scale", lambda x: x / 3, (M,), "", "rounds"),
    c("number-to-scale", lambda x: x / 0, (M,), "", "rounds"),
    c("number-to-scale", lambda x: 3 / x, (M,)),
    c("number-to-scale", lambda x: x * 3, (M,), "", "", "i64"),
    c("scale-of-scale", lambda x: ops.scale(ops.scale(x, factor=3), factor=0.3), (M,), "scale"),
    c("scale-of-scale", lambda x: ops.neg(ops.scale(x, factor=3)), (M,), "scale"),
    c("scale-of-scale", lambda x: ops.scale(ops.neg(x), factor=3), (M,), "scale"),
    c("scale-of-scale", lambda x: ops.scale(ops.scale(x, factor=1e300), factor=1e300), (M,), "",
      "out-of-range"),
    c("scale-of-scale", lambda x: ops.scale(ops.scale(x, factor=1e-200), factor=1e-200), (M,), "",
      "out-of-range"),
    c("log-of-softmax", lambda x: ops.log(ops.softmax(x, axis=0)), (M,), "log_softmax"),
    c("log-of-softmax", lambda x: ops.exp(ops.softmax(x, axis=0)), (M,)),
    c("dense-permutes", lambda x: ops.permute(ops.permute(x, perm=(1, 2, 0)), perm=(0, 2, 1)),
      ("2, 3, 4",), "permute"),
    c("dense-permutes", lambda x: ops.copy(ops.relu(x)), (M,), "relu"),
    c("dense-permutes", lambda x: ops.copy(x), (M,), "", "shares-memory"),
    c("copy-into-product", lambda x, w: ops.copy(x.T) @ w, ("6, 4", N), "view.permute gemm"),
    c("copy-into-product", lambda x, w: x @ ops.permute(w, perm=(1, 0)), (M, "5, 6"),
      "view.permute gemm"),
    c("copy-into-product", lambda x, w: ops.permute(x, perm=(1, 0)) @ ops.copy(w.T),
      ("6, 4", "5, 6"), "view.permute view.permute gemm"),
    c("copy-into-product", lambda x, w: ops.permute(x, perm=(2, 1, 0)) @ w, ("6, 4, 3", N), "",
      "layout"),
    c("scale-into-product", lambda x, w: ops.scale(x @ w, factor=0.3), (M, N), "gemm"),
    c("scale-into-product", lambda x, w: ops.neg(x @ w), (M, N), "gemm"),
    c("scale-into-product", lambda x, w: ops.scale(ops.gemm(x, w, alpha=0.5), factor=3), (M, N),
      "gemm"),
    c("scale-into-product", lambda x, w: ops.scale(ops.gemm(x, w, act="relu"), factor=3), (M, N),
      "", "has-act"),
    c("scale-into-product", lambda x, w, b: ops.scale(ops.gemm(x, w, b), factor=3), (M, N, "5"),
      "", "has-bias"),
    c("scale-into-product", lambda x, w, a: ops.neg(ops.gemm(x, w, c=a, beta=1.0)),
      (M, N, "4, 5"), "", "has-addend"),
    c("scale-into-product", lambda x, w: ops.scale(ops.gemm(x, w, alpha=1e300), factor=1e300),
      (M, N), "", "out-of-range", "f32 f16"),
    c("scaled-operand", lambda x, w: ops.scale(x, factor=0.3) @ w, (M, N), "gemm"),
    c("scaled-operand", lambda x, w: ops.scale(x, factor=3) @ ops.scale(w, factor=0.3), (M, N),
      "gemm"),
    c("scaled-operand", lambda x, w, b: ops.gemm(x, ops.scale(w, factor=0.3), b, act="relu"),
      (M, N, "5"), "gemm"),
    c("scaled-operand", lambda x, w: ops.gemm(ops.scale(x, factor=1e300), w, alpha=1e300),
      (M, N), "", "out-of-range", "f32 f16"),
    c("matmul-bias-act", lambda x, w, b: ops.relu(x @ w + b), (M, N, "5"), "gemm"),
    c("matmul-bias-act", lambda x, w, b: ops.gelu(b + x @ w), (M, N, "5"), "gemm"),
    c("matmul-bias-act", lambda x, w, b: ops.bias_add(x @ w, b, axis=-1), ("3, 4, 6", N, "5"),
      "gemm"),
    c("matmul-bias-act", lambda x, w, b: ops.bias_add(x @ w, b, axis=1), ("3, 5, 6", N, "5")),
    c("matmul-bias-act", lambda x, w: ops.gelu(x @ w, approx="tanh"), (M, N)),
    c("matmul-bias-act", lambda x, w, b: x @ w + b, (M, N, "4, 5"), "", "bias-not-a-row"),
    c("matmul-bias-act", lambda x, w, b: x @ w + b, (M, N, "1"), "", "bias-not-a-row"),
    c("matmul-bias-act", lambda x, w, b: x @ w + b, (M, "6, 1", "5"), "", "bias-not-a-row"),
    c("matmul-bias-act", lambda x, w, b: ops.gemm(x, w, b) + b, (M, N, "5"), "", "has-bias"),
    c("matmul-bias-act", lambda x, w, b: ops.gemm(x, w, act="relu") + b, (M, N, "5"), "",
      "has-act"),
    c("matmul-bias-act", lambda x, w: ops.relu(ops.gemm(x, w, act="gelu")), (M, N), "", "has-act"),
    c("product-plus", lambda x, w, r: x @ w + r, (M, N, "4, 5"), "gemm"),
    c("product-plus", lambda x, w, r: r + x @ w, (M, N, "4, 5"), "gemm"),
    c("product-plus", lambda x, w, b, r: ops.gemm(x, w, b) + ops.scale(r, factor=0.5),
      (M, N, "5", "4, 5"), "gemm"),
    c("product-plus", lambda x, w, y, v: x @ w + y @ v, (M, N, "4, 3", "3, 5"), "gemm gemm"),
    c("product-plus", lambda x, w, b: x @ w + b, (M, N, "5"), "", "broadcasts"),
    c("product-plus", lambda x, w, r: ops.gemm(x, w, act="relu") + r, (M, N, "4, 5"), "",
      "has-act"),
    c("product-plus", lambda x, w, r: ops.gemm(x, w, c=r, beta=2.0) + r, (M, N, "4, 5"), "",
      "has-addend"),
    c("product-plus", lambda x, w, r: (x @ w) * r, (M, N, "4, 5")),
    c("conv-bias", lambda x, w, b: ops.conv2d(x, w, pad=1) + b, (IMAGE, KERNEL, "6, 1, 1"),
      "view.reshape conv2d"),
    c("conv-bias", lambda x, w, b: b + ops.conv2d(x, w), (IMAGE, KERNEL, "1, 6, 1, 1"),
      "view.reshape conv2d"),
    c("conv-bias", lambda x, w, b: ops.bias_add(ops.conv2d(x, w, stride=2), b),
      (IMAGE, KERNEL, "6"), "conv2d"),
    c("conv-bias", lambda x, w, b: ops.conv2d(x, w, groups=4) + b,
      (IMAGE, "8, 1, 3, 3", "8, 1, 1"), "view.reshape conv2d"),
    c("conv-bias", lambda x, w, b: ops.conv2d(x, w, groups=4) + b,
      (IMAGE, "8, 1, 3, 3", "2, 8, 3, 3"), "", "not-per-channel"),
    c("conv-bias", lambda x, w, b: ops.conv2d(x, w, groups=4) + b,
      (IMAGE, "4, 1, 2, 2", "4"), "", "not-per-channel"),
    c("conv-bias", lambda x, w, b: ops.conv2d(x, w, groups=4) + b,
      (IMAGE, "4, 1, 3, 3", "4, 1, 3"), "", "not-per-channel"),
    c("conv-bias", lambda x, w, b: ops.conv2d(x, w, groups=2) + b,
      (IMAGE, "2, 2, 3, 3", "2, 1, 1, 1"), "", "not-per-channel"),
    c("conv-bias", lambda x, w, b: ops.conv2d(x, w) + b, (IMAGE, KERNEL, "1, 1, 1"), "",
      "not-per-channel"),
    c("conv-bias", lambda x, w, b: ops.bias_add(ops.conv2d(x, w, b), b),
      (IMAGE, KERNEL, "6"), "", "has-bias"),
    c("conv-bias", lambda x, w, b: ops.bias_add(ops.conv2d(x, w), b, axis=2),
      (IMAGE, KERNEL, "3")),
    c("permute-twice", lambda x: ops.relu(x.permute(1, 2, 0).permute(0, 2, 1)), ("2, 3, 4",),
      "view.permute relu"),
    c("reshape-twice", lambda x: ops.relu(x.reshape(24).reshape(2, 12)), (M,),
      "view.reshape relu"),
    c("reshape-twice", lambda x: ops.relu(x.reshape(24).reshape(4, 6)), (M,),
      "view.reshape relu"),
    c("expand-twice", lambda x: ops.relu(x.expand(2, 1, 4).expand(2, 3, 4)), ("1, 4",),
      "view.expand relu"),
    c("slice-twice", lambda x: ops.relu(x[1:9:2][1:4:2]), ("12, 3",), "view.slice relu"),
    c("slice-twice", lambda x: ops.relu(x[1:12:5][1:3]), ("12, 3",), "view.slice relu"),
    c("slice-twice", lambda x: ops.relu(x[2:][:-1]), ("12, 3",), "view.slice relu"),
    c("slice-twice", lambda x: ops.relu(x[1:, 1:][2:]), ("12, 3",)),
    c("slice-twice", lambda x: ops.relu(x[::2][3:3]), ("12, 3",), "", "may-be-empty"),
    c("slice-twice", lambda x: ops.relu(x[1:][3:3]), ("12, 3",), "view.slice relu"),
]  # fmt: skip


def graph_of(case: Case, dtype: str) -> Graph:
    types = [f"{dtype}[{shape}]" for shape in case.shapes]
    graph: Graph = trace(case.function, types[0], *map(param, types[1:]))
    return graph


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.reasons or case.ops}")
def test_rewrite(case: Case) -> None:
    for dtype in case.dtypes.split():
        graph = graph_of(case, dtype)
        rtol = TOLERANCES[dtype] if case.rule in INEXACT else 0.0
        found = applied(RULES[case.rule], graph, rtol)
        assert bool(found.fired) == bool(case.ops), (dtype, reasons(found), found.graph)
        if case.ops:
            assert ops_of(found.graph) == case.ops.split()
        elif case.reasons:
            assert case.reasons in reasons(found)
        else:
            assert reasons(found) == []


ON_A_DEVICE = (*INEXACT, "copy-into-product")  # where other kernels take views


@pytest.mark.gpu
@pytest.mark.guests("torch")
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_on_a_device(dtype: str) -> None:
    """The same as before in each case that fires: epilogues of the device's kernels."""
    import torch

    def run(graph: Graph) -> list[Any]:
        given = {k: torch.as_tensor(v.astype("f4")).to("cuda", kind) for k, v in data.items()}
        found = [x.double().cpu().numpy() for x in interpret(graph, given)]
        torch.cuda.synchronize()
        return found

    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    for case in CASES:
        if case.ops and dtype in case.dtypes.split():
            graph = graph_of(case, dtype).place("cuda")
            data = data_of(graph)
            found = RULES[case.rule].run(graph)
            assert ops_of(found.graph) == case.ops.split(), case
            rtol = TOLERANCES[dtype] if case.rule in ON_A_DEVICE else 0.0
            same(run(graph), run(found.graph), rtol)


def test_views_that_show_all_as_it_lies() -> None:
    graph = Graph()
    x = graph.input("x", "f32[4, 4, 1]")
    words: dict[str, dict[str, Any]] = {
        "permute": {"perm": (0, 1, 2)},
        "reshape": {"shape": (4, 4, 1)},
        "expand": {"shape": (4, 4, 1)},
        "slice": {"axis": 1, "start": 0, "stop": 4},
    }
    v = x
    for word, attrs in words.items():
        v = graph.add(f"view.{word}", v, **attrs).out
    turned = graph.add("view.permute", v, perm=(1, 0, 2)).out
    graph.output(graph.add("relu", turned).out, graph.add("relu", v).out)
    found = applied(RULES["same-view"], graph)
    assert ops_of(found.graph) == ["view.permute", "relu", "relu"]
    assert reasons(found) == []


def test_every_reason_is_met() -> None:
    met = {(case.rule, case.reasons) for case in CASES}
    elsewhere = {
        "factor-at-run-time", "narrows", "wraps", "16-bits", "weights-change", "broadcasts",
    }  # fmt: skip
    for rule in RULES.values():
        for reason in rule.refusals:
            is_met = (rule.name, reason) in met or rule.name == "product-batch-norm"
            assert is_met or reason in elsewhere, (rule.name, reason)


def test_docstrings_are_equations() -> None:
    for rule in RULES.values():
        assert "=" in rule.equation.partition("\n")[0], rule
    assert "act(a @ b + bias) = gemm" in canonicalise(tuple(FUSING)).__doc__  # type: ignore[operator]


# ---- what a table of functions does not say -----------------------------------------------------


def test_a_factor_at_run_time() -> None:
    """A number that each run gives is not in a graph."""

    def twice(x: Any, lr: Any) -> Any:
        return ops.scale(ops.scale(x, factor=lr), factor=2.0)

    def product(x: Any, w: Any, lr: Any) -> Any:
        return ops.scale(x @ w, factor=lr)

    assert reasons(applied(RULES["scale-of-scale"], trace(twice, "f32[3]", "f32[]"))) == [
        "factor-at-run-time"
    ]
    graph = trace(product, "f32[3, 4]", "f32[4, 5]", "f32[]")
    assert reasons(applied(RULES["scale-into-product"], graph)) == ["factor-at-run-time"]


def test_a_number_that_broadcasts() -> None:
    """A tensor of one number may be larger than what it is multiplied with."""
    graph = Graph()
    x = graph.input("x", "f32[3]")
    graph.output(graph.add("mul", x, graph.constant("c", "f32[2, 3]", 0.5)).out)
    assert reasons(applied(RULES["number-to-scale"], graph)) == ["broadcasts"]
    graph = Graph()
    x = graph.input("x", "f32[3]")
    graph.output(graph.add("mul", x, graph.constant("c", "f32[2, 3]", 1)).out)
    assert reasons(applied(RULES["times-one"], graph)) == ["type"]


@pytest.mark.parametrize("number", [0.1, 1 / 3, 2.0**-149, 65519.0, 65520.0, 1e-8, 3.3e38])
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_numbers_are_as_the_dtype_holds_them(number: float, dtype: str) -> None:
    """The factor of the new node is the number as the tensor had it."""
    graph = trace(lambda x: x * number, f"{dtype}[64]")
    with np.errstate(over="ignore"):
        applied(RULES["number-to-scale"], graph)


@pytest.mark.parametrize("number", [0.0, -0.0, math.inf, -math.inf, math.nan])
def test_odd_numbers(number: float) -> None:
    """What is no number is no factor; 0 times infinity is none either."""
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1], "f4")
    graph = trace(lambda x: x * number, "f32[7]")
    with np.errstate(invalid="ignore"):
        for rule in (*simplifying(), *fusing()):
            found = rule.run(graph)
            same(interpret(graph, {"x": odd}), interpret(found.graph, {"x": odd}))
            assert Graph.parse(found.graph.text()) == found.graph


@pytest.mark.parametrize("number", [0.0, -0.0, math.inf, math.nan])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_odd_numbers_about_a_product(number: float, dtype: str) -> None:
    """Zero times what is infinite or NaN is NaN, and no kernel leaves it out."""
    odd = np.array([0.0, 1.0, np.inf, np.nan]).astype(numpy_dtype(dtype))
    plain = np.eye(4, dtype=odd.dtype)
    for made in (
        lambda x, y: x @ x + ops.scale(y, factor=number),
        lambda x, y: ops.scale(y, factor=number) + x @ x,
        lambda x, y: ops.scale(y @ x, factor=number),
        lambda x, y: ops.scale(y, factor=number) @ x,
        lambda x, y: x @ x + y * number,
    ):
        graph = trace(made, f"{dtype}[4, 4]", f"{dtype}[4, 4]")
        given = {"x": plain, "y": np.diag(odd)}
        with np.errstate(invalid="ignore"):
            (want,), (got,) = (interpret(g, given) for g in (graph, standard().run(graph).graph))
        np.testing.assert_array_equal(got, want)


def test_odd_numbers_through_what_is_exact() -> None:
    """Zeros keep their signs, and what is no number stays none."""
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38], "f4")
    names = "double-negation relu-twice minus-negative times-one plus-zero number-to-scale"
    with np.errstate(all="ignore"):
        for case in CASES:
            if case.rule not in names.split() or not case.ops or "f32" not in case.dtypes:
                continue
            types = ["f32[8, 8]" for _ in case.shapes]
            graph = trace(case.function, *types)
            given = {"x": np.tile(odd, (8, 1)), "y": np.tile(odd, (8, 1)).T.copy()}
            found = RULES[case.rule].run(graph)
            assert found.fired
            same(interpret(graph, given), interpret(found.graph, given))


DTYPES = ("bool", "i8", "u8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")


def numbers(dtype: str) -> Any:
    """Of a dtype, its ends among them."""
    import ml_dtypes

    if dtype == "bool":
        return np.array([True, False])
    if dtype[0] in "iu":
        kind = np.dtype(dtype.replace("i", "int")) if dtype[0] == "i" else np.uint8
        info = np.iinfo(kind)
        return np.array([info.min, info.max, 0, 1, info.max // 2, 100, info.max - 100], kind)
    kind = {"f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8"}[dtype]
    given = [0.0, -0.0, 1.5, -2.7, 1e-3, 300.7, -40000.0, 1e10, -1e30, np.inf, -np.inf, np.nan]
    with np.errstate(all="ignore"):
        return np.array(given).astype(kind)


@pytest.mark.parametrize("given", DTYPES)
def test_casts_of_casts(given: str) -> None:
    """Of every two dtypes behind every other: the same where it fires."""
    rule, fired, met = RULES["cast-of-cast"], 0, set()
    x = numbers(given)
    for between in DTYPES:
        for to in DTYPES:
            graph = Graph()
            v = graph.input("x", f"{given}[{len(x)}]")
            first = graph.add("cast", v, dtype=between).out
            graph.output(graph.add("neg" if to in ("f16", "bf16", "f32", "f64") else "copy",
                                   graph.add("cast", first, dtype=to).out).out)  # fmt: skip
            found = rule.run(graph)
            met.update(reasons(found))
            if found.fired:
                fired += 1
                found.graph.verify()
                with np.errstate(all="ignore"):
                    same(interpret(graph, {"x": x}), interpret(found.graph, {"x": x}))
    assert fired >= len(DTYPES)
    assert met <= {"narrows", "wraps"}
    assert "narrows" in met or given == "bool"
    assert ("wraps" in met) == (given in ("i8", "u8", "i16", "i32"))


# ---- convolution and normalisation --------------------------------------------------------------

FROZEN = frozenset(("w", "b", "weight", "shift"))


def normalised(
    groups: int = 1, has: str = "b weight shift", act: bool = True, dtype: str = "f32"
) -> Graph:
    """relu(bn(conv2d(x, w, b)))"""
    graph = Graph()
    acc = "f64" if dtype == "f64" else "f32"
    x = graph.input("x", f"{dtype}[2, 4, 5, 5]")
    w = graph.param("w", f"{dtype}[8, {4 // groups}, 3, 3]")
    mean, var = (graph.constant(name, f"{acc}[8]") for name in ("mean", "var"))
    kinds = {"b": dtype, "weight": acc, "shift": acc}
    more = {
        n: graph.param(n, f"{kinds[n]}[8]") for n in ("b", "weight", "shift") if n in has.split()
    }
    conv = graph.add("conv2d", x, w, more.get("b"), groups=groups, pad=1, stride=2).out
    out = graph.add("batch_norm_eval", conv, mean, var, more.get("weight"), more.get("shift"),
                    eps=1e-3).out  # fmt: skip
    graph.output(graph.add("relu", out).out if act else out)
    return graph


def statistics(graph: Graph) -> dict[str, Any]:
    data = data_of(graph)
    return {**data, "var": np.abs(data["var"]) + data["var"].dtype.type(0.1)}


@pytest.mark.parametrize("has", ["b weight shift", "", "b", "weight", "shift", "b weight"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_normalisation_is_folded_into_weights(has: str, dtype: str) -> None:
    for groups in (1, 2, 4):
        graph = normalised(groups, has, dtype=dtype)
        data = statistics(graph)
        context = Context(frozen=FROZEN, data=data)
        found = applied(RULES["conv-batch-norm"], graph, TOLERANCES[dtype], context)
        assert ops_of(found.graph)[-2:] == ["conv2d", "relu"]
        assert "batch_norm_eval" not in ops_of(found.graph)
        folded = applied(Fold(), found.graph, TOLERANCES[dtype], context)
        alone = Dce().run(folded.graph)
        assert ops_of(alone.graph) == ["conv2d", "relu"]
        result = interpret(alone.graph, {**data, **folded.data})
        same(interpret(graph, data), result, TOLERANCES[dtype])


def test_a_normalisation_behind_a_product() -> None:
    """As BatchNorm1d of inference, with the activation behind."""
    graph = Graph()
    x, w = graph.input("x", "f32[3, 4]"), graph.param("w", "f32[5, 4]")
    rows = {n: graph.param(n, "f32[5]") for n in ("b", "mean", "var", "weight", "shift")}
    product = graph.add("gemm", x, graph.add("view.permute", w, perm=(1, 0)).out, rows["b"]).out
    names = ("mean", "var", "weight", "shift")
    out = graph.add("batch_norm_eval", product, *(rows[n] for n in names)).out
    graph.output(graph.add("relu", out).out)
    context = Context(frozen=frozenset(("w", *rows)), data=statistics(graph))
    found = applied(RULES["product-batch-norm"], graph, 1e-5, context)
    fused = applied(RULES["matmul-bias-act"], found.graph, 1e-5, context)
    folded = applied(Fold(), fused.graph, 1e-5, context)
    assert ops_of(Dce().run(folded.graph).graph) == ["gemm"]
    assert reasons(RULES["product-batch-norm"].run(graph)) == ["weights-change"]


@pytest.mark.promise("COMPILER-fusion-16-bits")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_normalisation_of_16_bits(dtype: str) -> None:
    graph = normalised(dtype=dtype)
    context = Context(frozen=FROZEN, data=statistics(graph))
    assert reasons(applied(RULES["conv-batch-norm"], graph, 0.0, context)) == ["16-bits"]


def test_weights_that_change_between_runs() -> None:
    """A param that somebody may change, or that a node updates, is no constant."""
    rule = RULES["conv-batch-norm"]
    graph = normalised()
    assert reasons(rule.run(graph)) == ["weights-change"]
    assert reasons(rule.run(graph, Context(frozen=FROZEN - {"shift"}))) == ["weights-change"]
    graph.add("fill", graph.value("shift"), value=0.0)  # after it was read
    context = Context(frozen=FROZEN, data=statistics(graph))
    assert reasons(applied(rule, graph, 0.0, context)) == ["weights-change"]


@pytest.mark.promise("COMPILER-fusion-addend")
def test_an_addend_is_a_bias_of_channels_alone() -> None:
    """With as many groups as channels an addend of other shapes must not become a bias."""
    cases = [x for x in CASES if x.rule == "conv-bias" and x.reasons == "not-per-channel"]
    assert len(cases) >= 4
    for case in cases:
        assert reasons(RULES["conv-bias"].run(graph_of(case, "f32"))) == ["not-per-channel"]
