"""A row that the table gets is usable in graphs at once: traced, said as text, derived, run. No
line of this layer knows of it, nor of any other."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aicf import grad, param, trace
from aicf.compiler.ir.errors import IRError
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.trace import Ops
from aicf.compiler.passes.rules import fusing, simplifying
from aicf.compiler.runtime.interpret import interpret
from aicf.table import Table
from torch_ops.conftest import build

pytestmark = pytest.mark.promise("MARK-8-new-row")
np: Any = pytest.importorskip("numpy")
ROOT = Path(__file__).resolve().parents[2]

ROWS = """
  - op: warp
    doc: "out = rate * x**power, power 2 or 3."
    types: {T: [f32]}
    args:
      - {name: x, tensor: T, shape: "A.."}
      - {name: rate, scalar: f32}
      - {name: power, attr: int, default: 2, min: 2, max: 3}
    outs:
      - {name: out, tensor: T, shape: "A.."}
    kernels: [{id: loop, backend: cpu, src: kernels/warp.c}]
    grad: {x: "warp_bwd(g, x, rate=rate, power=power)"}

  - op: warp_bwd
    doc: "gx = gy * rate * power * x**(power - 1)."
    types: {T: [f32]}
    args:
      - {name: gy, tensor: T, shape: "A.."}
      - {name: x, tensor: T, shape: "A.."}
      - {name: rate, scalar: f32}
      - {name: power, attr: int, default: 2, min: 2, max: 3}
    outs:
      - {name: gx, tensor: T, shape: "A.."}
    kernels: [{id: loop, backend: cpu, src: kernels/warp.c}]

  - op: plus
    doc: "out = a + b."
    aten: "add.Tensor(a, b)"
    types: {T: [f32]}
    args:
      - {name: a, tensor: T, shape: "A.."}
      - {name: b, tensor: T, shape: "A.."}
    outs:
      - {name: out, tensor: T, shape: "A.."}
    kernels: [{id: loop, backend: cpu, src: kernels/warp.c}]
    grad: {a: "g", b: "g"}

  - op: double_up
    doc: "out = x, from any strides."
    aten: "clone(x)"
    types: {T: [f32]}
    args:
      - {name: x, tensor: T, shape: "M N", layout: strided}
    outs:
      - {name: out, tensor: T, shape: "M N"}
    kernels: [{id: loop, backend: cpu, src: kernels/warp.c}]
    grad: {x: "g"}
"""

KERNELS = """
#include <math.h>

#include "aicf_ops/double_up.h"
#include "aicf_ops/plus.h"
#include "aicf_ops/warp.h"
#include "aicf_ops/warp_bwd.h"

static float
rate_of(const aicf_scalar *s)
{
    return s->data ? *(const float *)s->data : (float)s->host.real;
}

aicf_status
kinds_cpu_warp_loop_f32(
    const float *x, float *out, int64_t A, const aicf_scalar *rate, int64_t power,
    aicf_stream stream)
{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {
        out[i] = rate_of(rate) * powf(x[i], (float)power);
    }
    return aicf_ok();
}

aicf_status
kinds_cpu_warp_bwd_loop_f32(
    const float *gy, const float *x, float *gx, int64_t A, const aicf_scalar *rate, int64_t power,
    aicf_stream stream)
{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {
        gx[i] = gy[i] * rate_of(rate) * (float)power * powf(x[i], (float)(power - 1));
    }
    return aicf_ok();
}

aicf_status
kinds_cpu_plus_loop_f32(const float *a, const float *b, float *out, int64_t A, aicf_stream stream)
{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {
        out[i] = a[i] + b[i];
    }
    return aicf_ok();
}

aicf_status
kinds_cpu_double_up_loop_f32(
    const aicf_view *x, float *out, int64_t M, int64_t N, aicf_stream stream)
{
    (void)stream;
    for (int64_t m = 0; m < M; m++) {
        for (int64_t n = 0; n < N; n++) {
            out[m * N + n] = ((const float *)x->data)[m * x->strides[0] + n * x->strides[1]];
        }
    }
    return aicf_ok();
}
"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The table of tests of torch's ops, of another package, with rows more: it, and its ops."""
    where = tmp_path_factory.mktemp("fresh")
    (where / "kernels").mkdir()
    (where / "kernels" / "warp.c").write_text(KERNELS, encoding="utf-8")
    path = build(
        where, lambda text: text.replace("package: kinds_ops", "package: fresh_ops") + ROWS
    )
    sys.path.insert(0, str(path))
    table = Table.of("fresh_ops")
    yield SimpleNamespace(table=table, ops=Ops(table))
    sys.path.remove(str(path))


def test_in_a_graph_at_once(fresh: Any) -> None:
    ops = fresh.ops

    def loss(x: Any, rate: Any) -> Any:
        return ops.total(ops.warp(x, rate=rate, power=3) + ops.warp(x, rate=0.5))

    graph = trace(loss, param("f32[N, 4]"), "f32[]", symbols={"N": (1, 64)}, table=fresh.table)
    assert [n.op for n in graph.nodes] == ["warp", "warp", "plus", "total"]
    assert "warp(%x, rate=%rate, power=3)" in graph.text()
    assert Graph.parse(graph.text(), fresh.table) == graph
    x, rate = np.arange(12, dtype="f4").reshape(3, 4), np.asarray(2.0, "f4")
    (found,) = interpret(graph, {"x": x, "rate": rate})
    assert np.isclose(found, (2 * x**3 + x**2 / 2).sum())
    derived = grad(graph)
    assert [n.op for n in derived.nodes][-3:] == ["warp_bwd", "warp_bwd", "plus"]
    (gradient,) = interpret(derived, {"x": x, "rate": rate})
    assert np.allclose(gradient, 6 * x**2 + x)


def test_its_rules_are_kept(fresh: Any) -> None:
    graph = Graph(fresh.table)
    x = graph.input("x", "f32[3, 4]")
    with pytest.raises(IRError, match="power must be at least 2 and at most 3, not 4"):
        graph.add("warp", x, rate=1.0, power=4)
    with pytest.raises(IRError, match="rate is missing"):
        graph.add("warp", x)
    with pytest.raises(IRError, match="fresh_ops has no op 'gemm'"):
        graph.add("gemm", x, x)
    with pytest.raises(IRError, match="no variant takes x: i64"):
        graph.add("warp", graph.input("y", "i64[3]"), rate=1.0)


def test_what_a_kernel_does_not_take_is_copied_by_the_row_that_is_clone(fresh: Any) -> None:
    ops = fresh.ops
    graph = trace(lambda x: ops.warp(x.T, rate=1.0), "f32[3, 4]", table=fresh.table)
    assert [n.op for n in graph.nodes] == ["view.permute", "double_up", "warp"]
    x = np.arange(12, dtype="f4").reshape(3, 4)
    assert np.array_equal(interpret(graph, {"x": x})[0], x.T**2)


def test_rules_of_rows_that_a_table_does_not_have_find_nothing(fresh: Any) -> None:
    graph = trace(lambda x: fresh.ops.warp(x.T, rate=1.0), "f32[3, 4]", table=fresh.table)
    for rule in (*simplifying(), *fusing()):
        assert rule.run(graph).graph is graph
        assert not rule.run(graph).refused


def test_kinds_of_rows(fresh: Any) -> None:
    """Several outs with gradients, saved optional outs, scalars as operands, lists, in place."""
    ops = fresh.ops

    def net(x: Any, w: Any, seed: Any, m: Any) -> Any:
        s, c = ops.sincos(ops.norm(x, w))
        dropped = ops.drop(s, seed=seed, p=0.25) + c
        ops.running(m, dropped, keep=0.5)
        return ops.total(ops.concat([dropped, dropped], axis=0)), m

    types = (param("f32[3, 4]"), param("f32[4]"), "i64[]", "f32[3, 4]")
    graph = trace(net, *types, table=fresh.table)
    derived = grad(graph, wrt=["x", "w"])
    assert Graph.parse(derived.text(), fresh.table) == derived
    source = np.random.default_rng(0)
    x, w = source.standard_normal((3, 4)).astype("f4"), np.ones(4, "f4")

    def run(g: Graph, x: Any) -> Any:
        m = np.zeros((3, 4), "f4")
        return interpret(g, {"x": x, "w": w, "seed": np.asarray(7), "m": m})

    gx = run(derived, x)[0]
    for place in ((0, 0), (2, 3)):
        step = np.zeros_like(x)
        step[place] = 1e-2
        change = (run(graph, x + step)[0] - run(graph, x - step)[0]) / 2e-2
        assert np.isclose(gx[place], change, atol=2e-3)


def words(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of a module but its docstrings, and ops that it asks a table or a graph for."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.Module | ast.FunctionDef | ast.ClassDef
    docs = {n.body[0] for n in ast.walk(tree) if isinstance(n, kinds) and n.body}
    inside = {n.value for n in docs if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in inside and isinstance(node.value, str):
            yield node.lineno, node.value
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("ops"):
            yield node.lineno, node.attr


RULES = "aicf/compiler/passes/rules/"  # a rewrite names the ops that it rewrites
# Bounds, what ATen calls reductions, and what becomes of an input of a captured graph.
ENGLISH = {"min", "max", "mean", "sum", "copy"}
TORCH = {"permute"}  # what its tensors have, and numpy's not


def test_no_op_is_named() -> None:
    """What is known of ops is in the table alone, and in rewrites of them. ATen's names are those
    of another."""
    ops = set(Table.default().ops) - ENGLISH - TORCH
    named = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in sorted((ROOT / "aicf").rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(RULES)
        for line, word in words(path)
        if word in ops
    ]
    assert named == []
    assert importlib.import_module("aicf.table")
