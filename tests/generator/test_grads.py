"""Gradients: what is read, what is saved, and every gradient that cannot be."""

# ruff: noqa: E501 (tables of cases read best one a line)

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import languages

# Rows that gradients call. Kernels do not matter here: one takes everything.
LIBRARY = """\
schema: 1
package: demo
namespace: demo
backends:
  cpu: {devices: [cpu], suffix: .c}
dtypes:
  float: [f32, f16, f64]
  number: [float, i32, i64]
  any: [number, bool]
  index: [i64, i32]
  acc: {f16: f32, f32: f32, f64: f64}
ops:
  - family: unary
    ops: {neg: {doc: "-x."}, halve: {doc: "x / 2."}}
    types: {T: float}
    args: [{name: x, tensor: T, shape: "A.."}]
    outs: [{name: out, tensor: T, shape: "A.."}]
    kernels: [{id: loop, backend: cpu, layout: strided}]
  - op: mul
    doc: "a * b."
    types: {T: number}
    args: [{name: a, tensor: T, shape: "A.."}, {name: b, tensor: T, shape: "B.."}]
    outs: [{name: out, tensor: T, shape: "broadcast(A, B)"}]
    kernels: [{id: loop, backend: cpu, layout: strided}]
  - op: scale
    doc: "factor * x."
    types: {T: [f32, f16]}
    args: [{name: x, tensor: T, shape: "A.."}, {name: factor, scalar: f32}]
    outs: [{name: out, tensor: T, shape: "A.."}]
    kernels: [{id: loop, backend: cpu, layout: strided}]
  - op: cast
    doc: "x in another dtype."
    types: {T: any, U: any}
    args: [{name: x, tensor: T, shape: "A.."}]
    outs: [{name: out, tensor: U, shape: "A.."}]
    kernels: [{id: loop, backend: cpu, layout: strided}]
  - op: gemm
    doc: "a @ b + bias."
    types: {T: float}
    args:
      - {name: a, tensor: T, shape: "A.. M K"}
      - {name: b, tensor: T, shape: "B.. K N"}
      - {name: bias, tensor: T, shape: "N", optional: true}
      - {name: act, attr: enum, values: [none, relu], default: none}
      - {name: alpha, attr: float, default: 1.0, min: 0.0}
    outs: [{name: out, tensor: T, shape: "broadcast(A, B) M N"}]
    kernels: [{id: loop, backend: cpu, layout: strided}]
  - op: norm_bwd
    doc: "All of norm's."
    types: {T: float}
    args:
      - {name: gy, tensor: T, shape: "L.. N"}
      - {name: x, tensor: T, shape: "L.. N"}
      - {name: rstd, tensor: acc(T), shape: "L.."}
      - {name: weight, tensor: T, shape: "N", optional: true}
    outs:
      - {name: gx, tensor: T, shape: "L.. N", optional: true}
      - {name: gw, tensor: T, shape: "N", optional: true}
    kernels: [{id: loop, backend: cpu}]
  - op: pick
    doc: "Rows of a table by index."
    types: {T: float, I: index}
    args:
      - {name: gy, tensor: T, shape: "A.. D"}
      - {name: idx, tensor: I, shape: "A.."}
      - {name: V, attr: int, min: 0}
      - {name: window, attr: ints, size: 2, default: 1}
    outs: [{name: gw, tensor: T, shape: "V D"}]
    kernels: [{id: loop, backend: cpu}]
  - op: permute
    doc: "Axes in another order."
    types: {T: any}
    args: [{name: x, tensor: T, shape: "A.."}, {name: perm, attr: axes, of: x}]
    outs: [{name: out, tensor: T, shape: "permuted(A, perm)"}]
    kernels: [{id: loop, backend: cpu, layout: strided}]
  - op: concat
    doc: "xs joined."
    types: {T: any}
    args: [{name: xs, list: n, tensor: T, shape: "L.. N@axis R.."}, {name: axis, attr: axis, of: xs}]
    outs: [{name: out, tensor: T, shape: "L.. sum(N) R.."}]
    kernels: [{id: loop, backend: cpu}]
  - op: bump
    doc: "x += 1."
    types: {T: float}
    args: [{name: x, tensor: T, shape: "A..", inout: true}]
    outs: []
    kernels: [{id: loop, backend: cpu, layout: strided}]
"""

UNARY = """\
    types: {T: float}
    args: [{name: x, tensor: T, shape: "A.."}]
    outs: [{name: out, tensor: T, shape: "A.."}]
"""
PAIR = """\
    types: {T: float}
    args: [{name: a, tensor: T, shape: "A.."}, {name: b, tensor: T, shape: "B.."}]
    outs: [{name: out, tensor: T, shape: "broadcast(A, B)"}]
"""
PRODUCT = """\
    types: {T: float}
    args:
      - {name: a, tensor: T, shape: "A.. M K"}
      - {name: b, tensor: T, shape: "B.. K N"}
      - {name: bias, tensor: T, shape: "N", optional: true}
      - {name: act, attr: enum, values: [none, relu], default: none}
      - {name: mode, attr: enum, values: [none, gelu], default: none}
    outs: [{name: out, tensor: T, shape: "broadcast(A, B) M N"}]
"""
NORM = """\
    types: {T: float}
    args:
      - {name: x, tensor: T, shape: "L.. N"}
      - {name: weight, tensor: T, shape: "N", optional: true}
    outs:
      - {name: out, tensor: T, shape: "L.. N"}
      - {name: rstd, tensor: acc(T), shape: "L..", optional: true}
"""
TABLE = """\
    types: {T: float, I: index}
    args:
      - {name: weight, tensor: T, shape: "V D"}
      - {name: idx, tensor: I, shape: "A.."}
      - {name: seed, scalar: i64}
      - {name: lr, scalar: f32}
      - {name: window, attr: ints, size: 2, default: 1}
      - {name: wide, attr: ints, size: 3, default: 1}
      - {name: beta, attr: float, default: 1.0}
    outs: [{name: out, tensor: T, shape: "A.. D"}]
"""
CAST = """\
    types: {T: any, U: any}
    args: [{name: x, tensor: T, shape: "A.."}]
    outs: [{name: out, tensor: U, shape: "A.."}]
"""
TWO = """\
    types: {T: float}
    args: [{name: x, tensor: T, shape: "S N"}, {name: flag, attr: bool, default: false}]
    outs:
      - {name: out, tensor: T, shape: "S N"}
      - {name: hn, tensor: T, shape: "N"}
      - {name: place, tensor: i64, shape: "N"}
"""
ORDER = """\
    types: {T: any}
    args:
      - {name: x, tensor: T, shape: "A.."}
      - {name: perm, attr: axes, of: x}
      - {name: keep, attr: bool, default: false}
    outs: [{name: out, tensor: T, shape: "permuted(A, perm)"}]
"""
LISTS = """\
    types: {T: float}
    args:
      - {name: xs, list: n, tensor: T, shape: "L.. N@axis R.."}
      - {name: y, tensor: T, shape: "R.."}
      - {name: axis, attr: axis, of: xs, default: 0}
    outs: [{name: out, tensor: T, shape: "L.. sum(N) R.."}]
"""
INOUT = """\
    types: {T: float}
    args: [{name: x, tensor: T, shape: "A.."}, {name: m, tensor: T, shape: "A..", inout: true}]
    outs: [{name: out, tensor: T, shape: "A.."}]
"""
SOME = """\
    types: {T: float}
    args: [{name: x, tensor: T, shape: "A.."}]
    outs: [{name: out, tensor: T, shape: "A..", optional: true}]
"""


@dataclass(frozen=True)
class Case:
    """A row that is the library's last, and its gradients."""

    row: str
    grad: dict[str, str]

    def table(self) -> str:
        entries = "".join(f'      {key}: "{text}"\n' for key, text in self.grad.items())
        kernels = "    kernels: [{id: loop, backend: cpu, layout: strided}]\n"
        return f'{LIBRARY}  - op: subject\n    doc: "It."\n{self.row}{kernels}    grad:\n{entries}'

    def place(self, key: str, at: int) -> tuple[int, int]:
        """Line and column of byte `at` of the text of an entry, as opgen counts them."""
        lines = self.table().splitlines()
        number = max(i for i, line in enumerate(lines) if line.startswith(f"      {key}: "))
        return number + 1, len(f'      {key}: "') + 1 + at


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = sorted((languages.ROOT / "generator").glob("*.c"))
    sources = [s for s in sources if s.name != "main.c"]
    target = tmp_path_factory.mktemp("grads") / "driver"
    includes: list[str | Path] = [
        "-I",
        languages.ROOT / "include",
        "-I",
        languages.ROOT / "generator",
    ]
    said = subprocess.run(
        [os.environ.get("CC", "gcc"), *languages.FLAGS, *includes, languages.HERE / "grads_driver.c",
         *sources, "-o", target, "-lyaml", "-lm"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    return target


@dataclass(frozen=True)
class Said:
    lines: list[str]
    faults: list[tuple[int, int, str, str]]  # line, column, id, message
    notes: list[str]


def read(driver: Path, path: Path) -> Said:
    run = subprocess.run([driver, path], capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    answer = languages.parse(run.stderr.replace(f"{path}:", "row:"))
    places = [tuple(map(int, line.split(":")[1:3])) for line in run.stderr.splitlines() if ": error: " in line]  # fmt: skip
    faults = [
        (line, column, identifier, message)
        for (line, column), (_, identifier, message) in zip(places, answer.faults, strict=True)
    ]
    assert bool(faults) == (run.returncode == 1)
    return Said(run.stdout.splitlines(), faults, list(answer.notes))


def check(driver: Path, folder: Path, case: Case) -> Said:
    path = folder / "ops.yaml"
    path.write_text(case.table(), encoding="utf-8")
    return read(driver, path)


# Row, gradients, what is saved, and how an entry is written back where that differs.
GOOD: list[tuple[str, dict[str, str], str, dict[str, str]]] = [
    (UNARY, {"x": "g"}, "", {}),
    (UNARY, {"x": "none"}, "", {}),
    (UNARY, {"x": "mul(g,out)"}, "out", {"x": "mul(g, out)"}),
    (UNARY, {"x": "mul(g, b=x)"}, "x", {"x": "mul(g, x)"}),
    (UNARY, {"x": "(g)"}, "", {"x": "g"}),
    (UNARY, {"x": "g.out"}, "", {"x": "g.out"}),
    (UNARY, {"x": "cast(scale(cast(g, dtype=f32), factor=2).out, dtype=T)"}, "", {}),
    (PAIR, {"a": "sum_to(mul(g, b), a)", "b": "sum_to(g, b)"}, "b", {}),
    (PAIR, {"h": "mul(g, b)", "k": "neg(h)", "a": "sum_to(k, a)", "b": "sum_to(h, b)"}, "b", {}),
    # The fwd's optional argument goes to one that is optional too; a shape saves nothing.
    (PRODUCT, {"a": "sum_to(gemm(g, t(b)), a)", "b": "sum_to(gemm(t(a), g), b)", "bias": "sum_to(g, bias)"}, "a b", {}),
    (PRODUCT,
     {"z": "mul(g, gemm(a, b, bias, act=act)) if act == 'relu' else g",
      "a": "sum_to(gemm(z, t(b), alpha=2), a)", "b": "none", "bias": "sum_to(z, bias)"},
     "a b bias", {}),
    (PRODUCT, {"z": "mul(g, bias) if present(bias) and act == 'relu' else g", "a": "sum_to(z, a)", "b": "none", "bias": "none"}, "bias", {}),
    (PRODUCT, {"z": "g if not present(bias) or act == 'none' else mul(g, bias)", "a": "sum_to(z, a)", "b": "none", "bias": "none"}, "bias", {}),
    (PRODUCT, {"a": "none if act == 'relu' else sum_to(g, a)", "b": "none", "bias": "mul(bias, bias)"}, "bias", {}),
    (PRODUCT, {"a": "gemm(a, b, act='relu' if mode == 'gelu' else act).out if false else none", "b": "none", "bias": "none"},
     "a b", {}),
    (NORM, {"d": "norm_bwd(g, x, rstd, weight)", "x": "d.gx", "weight": "d.gw"}, "x weight rstd", {}),
    (NORM, {"x": "norm_bwd(g, x, rstd).gx", "weight": "none"}, "x rstd", {}),
    (NORM, {"x": "norm_bwd(gy=g, x=x, rstd=rstd, weight=weight).gx", "weight": "none"},
     "x weight rstd", {"x": "norm_bwd(g, x, rstd, weight).gx"}),
    (TABLE, {"weight": "pick(g, idx, V=V)"}, "idx", {}),
    (TABLE, {"weight": "pick(g, idx, V=V, window=window)"}, "idx", {}),
    (TABLE, {"weight": "pick(g, idx, V=V + 0 * numel(out), window=3)"}, "idx", {}),
    (TABLE, {"weight": "pick(g, idx, V=V, window=window[0])"}, "idx", {}),
    (TABLE, {"weight": "cast(scale(cast(pick(g, idx, V=V), dtype=f32), factor=lr), dtype=T)"}, "idx lr", {}),
    (CAST, {"x": "cast(g, dtype=T)"}, "", {}),
    (TWO, {"x": "mul(g.out, g.hn)"}, "", {}),
    (TWO, {"x": "neg(g.out) if flag else halve(g.out)"}, "", {}),
    (TWO, {"x": "(g.out if flag else neg(g.out)) if flag else g.out"}, "",
     {"x": "(g.out if flag else neg(g.out)) if flag else g.out"}),
    (ORDER, {"x": "permute(g, perm=inverse(perm))"}, "", {}),
    (ORDER, {"x": "unreduce(g, x, perm, keep)"}, "", {}),
    (ORDER, {"x": "unreduce(g, x, 0, false)"}, "", {}),
    (ORDER, {"x": "reshape(g, x)"}, "", {}),
    (LISTS, {"xs": "split(g, xs, axis)", "y": "none"}, "", {}),
    (LISTS, {"xs": "split(g, xs, axis)", "y": "sum_to(concat(xs, axis=axis), y)"}, "xs", {}),
]  # fmt: skip


@pytest.mark.promise("TABLE-grads")
@pytest.mark.parametrize("case", GOOD, ids=[str(sorted(grad.items())) for _, grad, *_ in GOOD])
def test_good_gradients(
    driver: Path, tmp_path: Path, case: tuple[str, dict[str, str], str, dict[str, str]]
) -> None:
    row, grad, saves, written = case
    said = check(driver, tmp_path, Case(row, grad))
    assert not said.faults, said
    wanted = [f"subject.{key} = {written.get(key, text)}" for key, text in grad.items()]
    assert [line for line in said.lines if line.startswith("subject.")] == wanted
    assert said.lines[-1] == f"subject saves {saves}".rstrip()


@pytest.mark.promise("TABLE-grads")
def test_written_back_means_the_same(driver: Path, tmp_path: Path) -> None:
    for row, grad, _, _ in GOOD:
        first = check(driver, tmp_path, Case(row, grad)).lines
        texts = dict(line.removeprefix("subject.").split(" = ") for line in first if line.startswith("subject."))  # fmt: skip
        assert check(driver, tmp_path, Case(row, texts)).lines == first


# Row, gradients, the entry with the fault and the byte of its text (None: not in one), id, message.
BAD: list[tuple[str, dict[str, str], str, int | None, str, str]] = [
    (UNARY, {"x": "neg(g"}, "x", 5, "expression-syntax", "`)` is expected after the arguments"),
    (UNARY, {"x": "neg(g) 3"}, "x", 7, "expression-syntax", "the end is expected here, not `3`"),
    (UNARY, {"x": "3"}, "x", 0, "expression-syntax", "a tensor is expected here, not `3`"),
    (UNARY, {"x": "mul(b=g, g)"}, "x", 9, "expression-syntax", "name=value is expected here"),
    (UNARY, {"x": "g if true"}, "x", 9, "expression-syntax", "`else` is expected after the condition"),
    (UNARY, {"x": "(g"}, "x", 2, "expression-syntax", "to close the parenthesis"),
    (UNARY, {"x": "cast(g, dtype=3)"}, "x", 14, "expression-syntax", "a dtype is expected here"),
    (UNARY, {"x": "neg(" * 70 + "g" + ")" * 70}, "x", 256, "expression-size", "at most 64 deep"),
    (UNARY, {"x": "mul(g, y)"}, "x", 7, "grad-name", "`y` is no tensor of this row and no intermediate"),
    (UNARY, {"x": "g.nope"}, "x", 2, "grad-name", "`nope` is no out of this row"),
    (UNARY, {"x": "g.x"}, "x", 2, "grad-name", "`x` is no out of this row"),
    (UNARY, {"x": "g.3"}, "x", 2, "grad-name", "`3` is no out of this row"),
    (UNARY, {"x": "neg(g).gx"}, "x", 7, "grad-name", "`neg` has no out `gx`"),
    (UNARY, {"x": "x.out"}, "x", 2, "grad-name", "only calls have outs"),
    (UNARY, {"x": "cast(g, dtype=f8)"}, "x", 14, "grad-name", "`f8` is no dtype and no type variable"),
    (NORM, {"x": "mul(g, g.rstd)", "weight": "none"}, "x", 9, "grad-name", "out `rstd` is optional"),
    (TWO, {"x": "neg(g)"}, "x", 4, "grad-name", "this row has none or several"),
    (SOME, {"x": "neg(g)"}, "x", 4, "grad-name", "this row has none or several"),
    (UNARY, {"x": "nge(g)"}, "x", 0, "grad-call", "no op `nge` in this table"),
    (UNARY, {"x": "bump(g)"}, "x", 0, "grad-call", "`bump` writes to its argument `x`"),
    (ORDER, {"x": "inverse(perm)"}, "x", 0, "grad-call", "stands only as the value of an axes attribute"),
    (UNARY, {"x": "mul(g)"}, "x", 0, "grad-argument", "`mul` needs argument `b`"),
    (UNARY, {"x": "neg(g, g)"}, "x", 7, "grad-argument", "`neg` takes 1 tensor; attributes are given by name"),
    (UNARY, {"x": "mul(g, x, b=x)"}, "x", 10, "grad-argument", "`b` is given twice"),
    (UNARY, {"x": "scale(g, factor=1, factor=2)"}, "x", 19, "grad-argument", "`factor` is given twice"),
    (UNARY, {"x": "cast(g, dtype=T, dtype=T)"}, "x", 23, "grad-argument", "`dtype` is given twice"),
    (UNARY, {"x": "neg(g, facter=2)"}, "x", 7, "grad-argument", "`neg` has no argument `facter`"),
    (UNARY, {"x": "neg(g, out=x)"}, "x", 7, "grad-argument", "`neg` has no argument `out`"),
    (UNARY, {"x": "scale(g)"}, "x", 0, "grad-argument", "`scale` needs scalar `factor`"),
    (TABLE, {"weight": "pick(g, idx)"}, "weight", 0, "grad-argument", "`pick` needs attribute `V`"),
    (UNARY, {"x": "sum_to(g)"}, "x", 8, "grad-argument", "`sum_to` takes 2 operands"),
    (UNARY, {"x": "t(g, x)"}, "x", 3, "expression-syntax", "`)` is expected after the operands"),
    (UNARY, {"x": "sum_to(g, neg(x))"}, "x", 10, "grad-name", "`neg` is no tensor"),
    (UNARY, {"x": "scale(g, factor=true)"}, "x", 16, "expression-type", "a float is wanted here"),
    (TABLE, {"weight": "pick(g, idx, V=0.5)"}, "weight", 15, "expression-type", "an integer is wanted"),
    (TABLE, {"weight": "pick(g, idx, V=-1)"}, "weight", 15, "grad-value", "out of the bounds of `V`"),
    (TABLE, {"weight": "pick(g, idx, V=V, window=wide)"}, "weight", 25, "grad-value", "`window` takes 2 integers"),
    (TABLE, {"weight": "pick(g, idx, V=stride(out, 0))"}, "weight", 15, "grad-value", "cannot ask for stride()"),
    (TABLE, {"weight": "cast(scale(cast(pick(g, idx, V=V), dtype=f32), factor=seed), dtype=T)"}, "weight", 54, "grad-value", "scalar `factor` is a float"),
    (TABLE, {"weight": "permute(pick(g, idx, V=V), perm=window)"}, "weight", 32, "grad-value", "`perm` takes axes"),
    (TABLE, {"weight": "pick(g, idx, V=lr)"}, "weight", 15, "expression-scalar", "may lie on the device"),
    (PRODUCT, {"a": "gemm(a, b, act='gelu')", "b": "none", "bias": "none"}, "a", 15, "grad-value", "`act` has no value 'gelu'"),
    (PRODUCT, {"a": "gemm(a, b, act=mode)", "b": "none", "bias": "none"}, "a", 15, "grad-value", "`act` has no value 'gelu'"),
    (PRODUCT, {"a": "gemm(a, b, alpha=-0.5)", "b": "none", "bias": "none"}, "a", 17, "grad-value", "out of the bounds of `alpha`"),
    (PRODUCT, {"a": "sum_to(g, a) if M > 2 else none", "b": "none", "bias": "none"}, "a", 16, "expression-attributes-only", "`M` is a size"),
    (LISTS, {"xs": "split(g, y, axis)", "y": "none"}, "xs", 9, "grad-value", "`y` is no list argument"),
    (UNARY, {"x": "neg(h)", "h": "neg(g)"}, "x", 4, "grad-order", "`h` is computed after this"),
    (UNARY, {"h": "neg(g)", "x": "g"}, "h", 0, "grad-unused", "nothing after it uses"),
    (PAIR, {"a": "sum_to(g, a)"}, "b", None, "grad-missing", "`b` has no gradient: give one, or `none`"),
    (UNARY, {"x": "g", "out": "g"}, "out", 0, "grad-key", "`out` is an out"),
    (TABLE, {"weight": "none", "idx": "g"}, "idx", 0, "grad-key", "`idx` is no float"),
    (TABLE, {"weight": "none", "beta": "g"}, "beta", 0, "grad-key", "`beta` is no tensor of the row"),
    (TABLE, {"weight": "none", "lr": "g"}, "lr", 0, "grad-key", "`lr` is no tensor of the row"),
    (INOUT, {"x": "g", "m": "none"}, "x", 0, "grad-inout", "`m` is written in place"),
    (TWO, {"x": "mul(g.out, g.place)"}, "x", 11, "grad-dtype", "out `place` is no float"),
    (TABLE, {"weight": "mul(pick(g, idx, V=V), idx)"}, "weight", 23, "grad-dtype", "argument `b` of `mul` is T here, not I"),
    (NORM, {"x": "norm_bwd(g, x, x).gx", "weight": "none"}, "x", 15, "grad-dtype", "argument `rstd` of `norm_bwd` is acc here, not T"),
    (NORM, {"x": "mul(g, rstd)", "weight": "none"}, "x", 7, "grad-dtype", "is T here, not acc(T)"),
    (UNARY, {"x": "scale(g, factor=2)"}, "x", 6, "grad-dtype", "this may be f64, which argument `x` of `scale` does not take"),
    (UNARY, {"x": "cast(g)"}, "x", 0, "grad-dtype", "no argument says what `cast` gives: it needs dtype="),
    (UNARY, {"x": "neg(g, dtype=T)"}, "x", 0, "grad-dtype", "it takes no dtype="),
    (UNARY, {"x": "cast(g, dtype=f32)"}, "x", 0, "grad-dtype", "`x` is T, this gradient is f32"),
    (CAST, {"x": "g"}, "x", 0, "grad-dtype", "`x` is T, this gradient is U"),
    (CAST, {"x": "cast(g, dtype=U)"}, "x", 0, "grad-dtype", "`x` is T, this gradient is U"),
    (TWO, {"x": "g.out if flag else cast(g.out, dtype=f32)"}, "x", 6, "grad-dtype", "the two branches differ: T and f32"),
    (LISTS, {"xs": "g", "y": "none"}, "xs", 0, "grad-list", "`xs` is a list, this gradient is none"),
    (LISTS, {"xs": "split(g, xs, axis)", "y": "split(g, xs, axis)"}, "y", 0, "grad-list", "this gradient is a list"),
    (LISTS, {"xs": "none", "y": "neg(xs)"}, "y", 4, "grad-list", "argument `x` of `neg` is one tensor"),
    (LISTS, {"xs": "none", "y": "concat(y, axis=0)"}, "y", 7, "grad-list", "argument `xs` of `concat` is a list"),
    (NORM, {"x": "norm_bwd(g, x, rstd)", "weight": "none"}, "x", 0, "grad-outs", "`norm_bwd` has 2 outs: say which"),
    (NORM, {"d": "norm_bwd(g, x, rstd)", "x": "neg(d)", "weight": "none"}, "x", 4, "grad-outs", "say which"),
    (PRODUCT, {"a": "mul(g, bias)", "b": "none", "bias": "none"}, "a", 7, "grad-absent", "this may be absent, and `mul` needs it"),
    (PRODUCT, {"a": "sum_to(g, bias)", "b": "none", "bias": "none"}, "a", 10, "grad-absent", "`sum_to` needs it"),
    (PRODUCT, {"a": "mul(g, bias) if present(bias) or act == 'none' else none", "b": "none", "bias": "none"}, "a", 7, "grad-absent", "may be absent"),
    (UNARY, {"x": "neg(none)"}, "x", 4, "grad-absent", "this may be absent, and `neg` needs it"),
    (NORM, {"x": "neg(norm_bwd(g, x, rstd).gw)", "weight": "none"}, "x", 0, "grad-shape", "`x` is L.. N, this gradient is N"),
    (NORM, {"x": "norm_bwd(rstd, x, rstd).gx", "weight": "none"}, "x", 15, "grad-dtype", "is acc(T) here, not T"),
    (TWO, {"x": "g.hn"}, "x", 0, "grad-shape", "`x` is S N, this gradient is N"),
    (TWO, {"x": "t(x)"}, "x", 0, "grad-shape", "`x` is S N, this gradient is N S"),
    (TWO, {"x": "mul(x, t(g.hn))"}, "x", 7, "grad-shape", "t() needs at least two dims"),
    (TWO, {"x": "gemm(x, g.hn)"}, "x", 8, "grad-shape", "argument `b` of `gemm` is B.. K N, this is N"),
    (TWO, {"x": "gemm(x, x)"}, "x", 8, "grad-shape", "argument `b` of `gemm` is B.. K N, this is S N"),
    (TWO, {"x": "g.out if flag else g.hn"}, "x", 6, "grad-shape", "the two branches differ: S N and N"),
    (TABLE, {"weight": "pick(g, idx, V=D)"}, "weight", 0, "grad-shape", "`weight` is V D, this gradient is D D"),
]  # fmt: skip


@pytest.mark.promise("TABLE-grad-faults")
@pytest.mark.parametrize("case", BAD, ids=[f"{i}-{case[4]}" for i, case in enumerate(BAD)])
def test_bad_gradients(
    driver: Path, tmp_path: Path, case: tuple[str, dict[str, str], str, int | None, str, str]
) -> None:
    """Each mistake is told once, where it is."""
    row, grad, key, at, identifier, message = case
    said = check(driver, tmp_path, Case(row, grad))
    assert [f[2] for f in said.faults] == [identifier], said
    line, column, _, found = said.faults[0]
    assert message in found, said
    if at is not None:
        assert (line, column) == Case(row, grad).place(key, at), said


def test_all_faults_of_a_row_are_told(driver: Path, tmp_path: Path) -> None:
    grad = {"h": "nge(g)", "a": "mul(h, b)", "b": "sum_to(q, b)"}
    said = check(driver, tmp_path, Case(PAIR, grad))
    assert [f[2] for f in said.faults] == ["grad-call", "grad-name"]
    assert "did you mean `neg`?" in said.notes


def test_without_grad_nothing_is_asked(driver: Path, tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(LIBRARY, encoding="utf-8")
    assert not read(driver, path).faults


@pytest.mark.promise("TABLE-grads")
def test_the_table_itself(driver: Path) -> None:
    """Every gradient of ops.yaml passes."""
    assert not read(driver, languages.ROOT / "ops.yaml").faults
