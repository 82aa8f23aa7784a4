"""The bad inputs: each breaks bad/base.yaml in one place, and says what opgen must answer.

`▸` marks the place of the fault in what is put in; it is taken out before opgen sees the text. `»`
marks the other place that the fault names, where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MARK, OTHER = "▸", "»"
BASE = (Path(__file__).parent / "bad" / "base.yaml").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Case:
    """One fault: its id, an edit of the base, and a part of the message."""

    id: str
    edits: tuple[tuple[str, str], ...]
    message: str

    def text(self) -> str:
        """The table with the marks still in it."""
        table = BASE
        for old, new in self.edits:
            bare = table.replace(MARK, "").replace(OTHER, "")
            assert bare.count(old) >= 1, f"the base has no {old!r}"
            assert table.count(old) == 1, f"the base has {old!r} {table.count(old)} times"
            table = table.replace(old, new)
        return table


def place(text: str, mark: str) -> tuple[int, int] | None:
    """Line and column of a mark, as if the marks were not there."""
    if mark not in text:
        return None
    before = text[: text.index(mark)].replace(MARK, "").replace(OTHER, "")
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def bare(text: str) -> str:
    return text.replace(MARK, "").replace(OTHER, "")


def case(id: str, old: str, new: str, message: str = "", *more: tuple[str, str]) -> Case:
    return Case(id, ((old, new), *more), message)


ADD = 'doc: "out = a + b."'
NORM = 'doc: "Rows made of length one."'
POOL = 'doc: "Largest of each window."'
FILL = 'doc: "x = value, everywhere."'
MUL = 'doc: "out = a * b, of one shape."'
JOIN = 'doc: "Joined along one axis."'
REDUCE = 'doc: "Sum over axes."'
WINDOW = "{name: window, attr: ints, size: 2, min: 1, default: [2, 2]}"
SHIFT = "{name: shift, attr: int, min: 0, max: 8, default: 0}"
VALUE = "{name: value, scalar: T}"
VEC = '{id: vec, backend: cuda, layout: flat, when: ["same_shape(a, b)"]}'
PLANES = "{id: planes, backend: cuda}"
EPS = "{name: eps, attr: float, default: 1.0e-5, min: 0.0, max: 1.0}"
MODE = "{name: mode, attr: enum, values: [sum, mean], default: sum}"
RSTD = '{name: rstd, tensor: acc(T), shape: "L..", optional: true}'
POOL_OUT = '{name: out, tensor: T, shape: "N C P Q", order: x}'
WINDOW_LET = "window[0]"
GUARD = "N % 8 == 0 and mode == 'sum'"
AXES = "{name: axes, attr: axes, of: x, default: all}"

READING = [
    case(
        "yaml-syntax",
        'args: [{name: x, tensor: T, shape: "A.."}]\n    outs: [{name: out, tensor: U',
        'args: [{name: x, tensor: T, shape: "A.."▸]}\n    outs: [{name: out, tensor: U',
        "expected",
    ),
    case("bad-character", ADD, 'doc: "out = ▸\x07 b."', "U+0007"),
    case("bad-character", ADD, 'doc: "out ▸\u2028= b."', "U+2028"),
    case("bad-character", "# The table", "▸\ufeff# The table", "byte order mark"),
    case("nul", ADD, 'doc: ▸"out = \\0 b."', "NUL"),
    case("duplicate-key", ADD, f'»{ADD}\n    ▸doc: "again"', "`doc` is here a second time"),
    case("duplicate-key", ADD, f'»{ADD}\n    ▸"doc": "again"', "`doc` is here a second time"),
    case(
        "duplicate-key",
        '{name: a, tensor: T, shape: "A.."}\n      - {name: b, tensor: T, shape: "B.."}',
        '{»name: a, tensor: T, ▸name: c, shape: "A.."}\n      - {name: b, tensor: T, shape: "B.."}',
        "`name` is here a second time",
    ),
    case(
        "duplicate-key",
        "exp: {doc:",
        '»exp: {doc: "e", grad: {x: "g"}}\n      ▸exp: {doc:',
        "`exp`",
    ),
    case("complex-key", ADD, f"{ADD}\n    ? ▸[a]\n    : b", "a key must be text"),
    case("merge-key", ADD, f"{ADD}\n    ▸<<: {{}}", "merge keys"),
    case("anchor", ADD, f"doc: ▸&d {ADD[5:]}", "`&d`"),
    case("tag", ADD, f"doc: ▸!!str {ADD[5:]}", "str"),
    case("alias", ADD, "doc: ▸*doc", "`*doc`"),
    case("too-deep", ADD, "doc: " + "[" * 13 + "▸" + "[" * 5, "16 deep"),
    case(
        "second-document",
        MUL,
        MUL,
        "one document",
        (
            "    kernels:\n      - {id: loop, backend: cpu}\n\n  - op: fill",
            "    kernels:\n      - {id: loop, backend: cpu}\n▸---\n  - op: fill",
        ),
    ),
    case("directive", "# The table", "%YAML 1.1\n---\n# The table", "directives"),
]

FIELDS = [
    case("wrong-kind", "types: {T: float, U: float}", "types: ▸[float]", "`types` must be a map"),
    case("wrong-kind", ADD, "doc: ▸[out]", "`doc` must be text, this is a list"),
    case("wrong-kind", "overlap: {out: [a, b]}", "overlap: {out: ▸a}", "a list of names"),
    case("wrong-kind", "tolerance: {f16: [1.0e-3, 0]}", "tolerance: {f16: ▸1}", "[rtol, atol]"),
    case("wrong-kind", "  whole: [i32, i64]", "  whole: ▸i32", "a list or a map"),
    case("wrong-kind", SHIFT, "{name: shift, attr: int, default: ▸[0]}", "one value"),
    case("empty-value", ADD, "doc:▸ ", "`doc` has no value"),
    case("empty-value", ADD, 'doc: ▸""', "`doc` has no value"),
    case(
        "empty-value",
        'where: {"n >= 1": "there must be one at least"}',
        "where: {n >= 1: ▸}",
        "no value",
    ),
    case("empty-value", 'where: {"n >= 1":', 'where: {▸"":', "a key has no text"),
    case("empty-list", "kernels: [{id: loop, backend: cpu}]", "kernels: ▸[]", "`kernels` is empty"),
    case(
        "empty-list",
        "types: {T: [f32, i32]}\n    args",
        "types: {T: ▸[]}\n    args",
        "`T` is empty",
    ),
    case("empty-map", "types: {T: float, U: float}", "types: ▸{}", "`types` is empty"),
    case("unknown-key", ADD, f"{ADD}\n    ▸strem: 1", "a row has no key `strem`"),
    case("unknown-key", PLANES, "{id: planes, backend: cuda, ▸layuot: dense}", "`layuot`"),
    case(
        "missing-key",
        '  - op: cast\n    doc: "out = x in another dtype."',
        "  - ▸op: cast",
        "`doc`",
    ),
    case("missing-key", PLANES, "▸{id: planes}", "a kernel needs the key `backend`"),
    case(
        "missing-key",
        '{name: a, tensor: T, shape: "A.."}\n      - {name: b, tensor: T, shape: "B.."}',
        '▸{name: a, tensor: T}\n      - {name: b, tensor: T, shape: "B.."}',
        "a tensor needs the key `shape`",
    ),
    case("missing-key", WINDOW, "▸{name: window, attr: ints, min: 1, default: [2, 2]}", "`size`"),
    case(
        "missing-key",
        'exp: {doc: "out = e**x.", grad',
        "▸exp: {grad",
        "neither the member nor its family",
    ),
    case("unknown-word", SHIFT, "{name: shift, attr: ▸itn, default: 0}", "`attr` cannot be `itn`"),
    case("unknown-word", MODE, MODE.replace("default: sum", "default: ▸men"), "none of `values`"),
    case(
        "ambiguous",
        MODE,
        "{name: mode, attr: enum, values: [sum, mean, ▸on], default: sum}",
        "a bool",
    ),
    case(
        "ambiguous", MODE, "{name: mode, attr: enum, values: [sum, mean], default: ▸No}", "a bool"
    ),
    case("ambiguous", ADD, "doc: ▸~", "nothing"),
    case("ambiguous", ADD, "doc: ▸010", "an octal number"),
    case("ambiguous", ADD, "doc: ▸1:30", "base 60"),
    case("ambiguous", ADD, "doc: ▸2026-01-31", "a date"),
    case("ambiguous", ADD, "doc: ▸12", "a number"),
    case("ambiguous", 'workspace: "4 * N"', "workspace: ▸010", "an octal number"),
    case("ambiguous", "exp: {doc:", "▸yes: {doc:", "key `yes` reads as a bool"),
    case(
        "not-an-int",
        WINDOW,
        "{name: window, attr: ints, size: ▸02, min: 1, default: 2}",
        "no leading 0",
    ),
    case(
        "not-an-int",
        WINDOW,
        '{name: window, attr: ints, size: ▸"2", min: 1, default: 2}',
        "unquoted",
    ),
    case("not-an-int", SHIFT, "{name: shift, attr: int, default: ▸1e3}", "a whole number"),
    case("not-an-int", SHIFT, "{name: shift, attr: int, default: ▸1_000}", "a whole number"),
    case("not-a-number", EPS, "{name: eps, attr: float, default: ▸1:30}", "a number"),
    case("not-a-number", EPS, "{name: eps, attr: float, default: ▸.5}", "a number"),
    case("not-finite", EPS, "{name: eps, attr: float, default: ▸.inf}", "must be finite"),
    case("not-finite", EPS, "{name: eps, attr: float, default: ▸1e999}", "too large"),
    case("not-a-bool", RSTD, RSTD.replace("true", "▸yes"), "true or false"),
    case("not-a-bool", RSTD, RSTD.replace("true", "▸True"), "true or false"),
    case(
        "number-range",
        WINDOW,
        "{name: window, attr: ints, size: ▸0, min: 1, default: 2}",
        "within 1 and 16",
    ),
    case(
        "number-range", SHIFT, "{name: shift, attr: int, default: ▸9223372036854775808}", "within"
    ),
]

HEADS = [
    case("schema-version", "schema: 1", "schema: ▸2", "schema 2"),
    case("name-reserved", "package: demo", "package: ▸aicf_rt", "reserved"),
    case("unknown-device", "devices: [cuda]", "devices: [▸cdua]", "`cdua`"),
    case(
        "device-taken",
        "cpu: {devices: [cpu], suffix: .c}",
        "cpu: {devices: [cpu, ▸cuda], suffix: .c}",
        "served already, by `cuda`",
    ),
    case("suffix", "suffix: .cu,", "suffix: ▸cu,", "not `cu`"),
    case(
        "class-cycle",
        "  whole: [i32, i64]",
        "  whole: [i64, half]\n  half: [f16, ▸whole]",
        "contains itself",
    ),
    case("duplicate-dtype", "whole: [i32, i64]", "whole: [i32, ▸i32]", "a second time"),
    case(
        "duplicate-dtype",
        "types: {T: [float, whole]}",
        "types: {T: [float, whole, ▸i32]}",
        "i32 a second",
    ),
    case(
        "duplicate-dtype",
        "total: {whole: i64, float: same}",
        "total: {whole: i64, ▸i32: i64, float: same}",
        "i32 a second",
    ),
    case(
        "unknown-dtype", "float: [f32, f16, bf16, f64]", "float: [f32, f16, ▸fb16, f64]", "`fb16`"
    ),
    case(
        "unknown-dtype",
        "types: {T: [float, whole]}",
        "types: {T: [float, ▸whole2, i32]}",
        "no class",
    ),
    case("unknown-dtype", "types: {T: [float, whole]}", "types: {T: ▸acc}", "not a class"),
    case(
        "unknown-dtype",
        "total: {whole: i64,",
        "total: {whole: ▸same_as,",
        "neither a dtype nor `same`",
    ),
    case("unknown-dtype", RSTD, RSTD.replace("acc(T)", "▸acc(U)"), "no type variable"),
    case("unknown-dtype", RSTD, RSTD.replace("acc(T)", "▸ac(T)"), "no function"),
    case(
        "unknown-dtype",
        RSTD,
        RSTD.replace("acc(T)", "▸float"),
        "a class: give it to a type variable",
    ),
    case(
        "unknown-dtype",
        "tolerance: {f16: [1.0e-3, 0]}",
        "tolerance: {▸half: [1.0e-3, 0]}",
        "no dtype",
    ),
    case(
        "undefined-function",
        "total: {whole: i64, float: same}",
        "»total: {i64: i64, float: same}",
        "total is not defined for i32",
        ("tensor: total(T)", "tensor: ▸total(T)"),
    ),
    case("tolerance", "tolerance: {f16: [1.0e-3, 0]}", "tolerance: {f16: ▸[1.0e-3]}", "1 items"),
    case(
        "tolerance",
        "tolerance: {f16: [1.0e-3, 0]}",
        "tolerance: {f16: [1.0e-3, ▸-1]}",
        "not negative",
    ),
]

ROWS = [
    case("op-or-family", "  - op: cast", "  - op: cast\n    ▸family: casts", "not both"),
    case("op-or-family", "  - op: cast\n    doc", "  - ▸doc", "needs `op`"),
    case("op-or-family", "  - family: unary\n    ops:", "  - ▸ops:", "one of the two is missing"),
    case(
        "duplicate-op",
        "  - op: mul",
        "  - op: ▸cast",
        "`cast` is here a second time",
        ('  - op: cast\n    doc: "out = x', '  - op: »cast\n    doc: "out = x'),
        ('grad: {x: "mul(g, out)"}', 'grad: {x: "g"}'),
    ),
    case("duplicate-op", "elu: {doc", "▸norm_bwd: {doc", "`norm_bwd`"),
    case(
        "duplicate-family",
        "  - op: mul\n",
        "  - family: ▸unary\n    ops: {mul: {partial: false}}\n",
        "`unary`",
    ),
    case(
        "family-override",
        'elu: {doc: "Exponential below 0.",',
        'elu: {doc: "Exponential below 0.", ▸types: {T: float},',
        "in the family and in its member",
    ),
    case(
        "file-collision",
        "  - op: mul\n",
        "  - op: ▸unary\n",
        "kernels/unary",
        ('grad: {x: "mul(g, out)"}', 'grad: {x: "g"}'),
    ),
    case(
        "symbol-collision",
        PLANES,
        "{id: planes, backend: cuda}",
        "demo_cpu_a_b_c_f32",
        ("  - op: mul\n" + "    " + MUL, "  - op: a_b\n" + "    " + MUL),
        ('grad: {x: "mul(g, out)"}', 'grad: {x: "g"}'),
        (
            "    kernels:\n      - {id: loop, backend: cpu}\n\n  - op: fill",
            "    kernels:\n      - {id: loop, backend: cpu}\n\n  - op: fill",
        ),
        (
            '      - {name: out, tensor: T, shape: "A.."}\n    kernels:\n'
            "      - {id: loop, backend: cpu}\n",
            '      - {name: out, tensor: T, shape: "A.."}\n    kernels:\n'
            "      - ▸{id: c, backend: cpu}\n",
        ),
        ("  - op: join\n", "  - op: a\n"),
        (
            'shape: "L.. sum(N) R.."}\n    kernels:\n      - {id: loop, backend: cpu}',
            'shape: "L.. sum(N) R.."}\n    kernels:\n      - »{id: b_c, backend: cpu}',
        ),
    ),
    case(
        "symbol-collision",
        MODE,
        "»{name: a, attr: enum, values: [b_c], default: b_c}\n"
        "      - ▸{name: a_b, attr: enum, values: [c], default: c}\n"
        "      - {name: mode, attr: enum, values: [sum, mean], default: sum}",
        "DEMO_NORM_A_B_C",
    ),
    case(
        "symbol-collision",
        "namespace: demo",
        "namespace: aicf",
        "AICF_DIM_PACK is the runtime's",
        ("  - op: cast\n", "  - op: dim\n"),
        (
            'args: [{name: x, tensor: T, shape: "A.."}]\n'
            '    outs: [{name: out, tensor: U, shape: "A..", order: x}]',
            'args: [▸{name: pack, tensor: T, shape: "A.."}]\n'
            '    outs: [{name: out, tensor: U, shape: "A.."}]',
        ),
        ('    grad: {x: "cast(g, dtype=T)"}\n', ""),
    ),
    case(
        "name-grammar",
        "  - op: mul",
        "  - op: ▸Mul",
        "must match",
        ('grad: {x: "mul(g, out)"}', 'grad: {x: "g"}'),
    ),
    case("name-grammar", VALUE, "{name: ▸välue, scalar: T}", "`välue`"),
    case("name-length", VALUE, f"{{name: ▸{'v' * 41}, scalar: T}}", "41 characters"),
    case("name-underscores", VALUE, "{name: ▸va__lue, scalar: T}", "two underscores"),
    case("name-keyword", VALUE, "{name: ▸lambda, scalar: T}", "a keyword of Python"),
    case("name-keyword", VALUE, "{name: ▸restrict, scalar: T}", "a keyword of C"),
    case("name-keyword", VALUE, "{name: ▸template, scalar: T}", "a keyword of C++"),
    case("name-reserved", VALUE, "{name: ▸stream, scalar: T}", "reserved"),
    case("name-reserved", VALUE, "{name: ▸out, scalar: T}", "reserved"),
    case("name-reserved", VALUE, "{name: ▸aicf_value, scalar: T}", "reserved"),
    case("name-reserved", VALUE, "{name: ▸want, scalar: T}", "reserved"),
    case(
        "name-reserved",
        '{name: gx, tensor: T, shape: "L.. N", optional: true}',
        '{name: ▸want, tensor: T, shape: "L.. N", optional: true}',
        "reserved and cannot be an out",
        ("x: d.gx", "x: d.want"),
    ),
    case("name-reserved", "  - op: cast\n", "  - op: ▸sum_to\n", "reserved"),
    case(
        "name-taken",
        VALUE,
        "{name: ▸x, scalar: T}",
        "something else in this row",
        ('{name: x, tensor: T, shape: "A..", inout', '{name: »x, tensor: T, shape: "A..", inout'),
    ),
    case("name-taken", "whole: [i32, i64]", "whole: [i32, i64]\n  ▸f32: [f32]", "a dtype already"),
    case(
        "name-taken",
        "types: {T: float, U: float}",
        "types: {T: float, U: float, ▸whole: float}",
        "a class already",
    ),
    case("arg-kind", VALUE, "▸{name: value}", "this is none"),
    case("arg-kind", VALUE, "▸{name: value, scalar: T, attr: int}", "this is several"),
    case(
        "key-misfit",
        VALUE,
        "{name: value, scalar: T, ▸optional: true}",
        "a scalar has no `optional`",
    ),
    case(
        "key-misfit",
        MODE,
        "{name: mode, attr: enum, values: [sum, mean], ▸min: 1}".replace("▸min: 1", "min: ▸1"),
        "kind enum has no `min`",
    ),
    case(
        "key-misfit",
        '{name: b, tensor: T, shape: "B.."}',
        '{name: b, tensor: T, shape: "B..", ▸default: 1}',
        "a tensor has no `default`",
    ),
    case(
        "duplicate-word",
        MODE,
        "{name: mode, attr: enum, values: [»sum, mean, ▸sum], default: sum}",
        "`sum`",
    ),
    case(
        "too-many-words",
        MODE,
        "{name: mode, attr: enum, values: ▸["
        + "sum, "
        + ", ".join(f"w{i}" for i in range(256))
        + "], default: sum}",
        "at most 256",
    ),
    case(
        "bounds-crossed", SHIFT, "{name: shift, attr: int, min: ▸9, max: 8}", "`min` is above `max`"
    ),
    case(
        "default-range", SHIFT, "{name: shift, attr: int, min: 0, default: ▸-1}", "is below `min`"
    ),
    case(
        "default-range", EPS, "{name: eps, attr: float, max: 1.0, default: ▸1.5}", "is above `max`"
    ),
    case(
        "default-range",
        WINDOW,
        "{name: window, attr: ints, size: 2, min: 1, default: [2, ▸0]}",
        "below `min`",
    ),
    case(
        "default-size",
        WINDOW,
        "{name: window, attr: ints, size: 2, default: ▸[2, 2, 2]}",
        "3 numbers",
    ),
    case(
        "duplicate-axis",
        AXES,
        "{name: axes, attr: axes, of: x, default: [0, ▸0]}",
        "axis 0 is named twice",
    ),
    case(
        "scalar-range",
        "{name: scale, scalar: f16, default: 1, max: 100}",
        "{name: scale, scalar: f16, default: ▸65536}",
        "no value of f16",
    ),
    case(
        "scalar-range",
        "{name: scale, scalar: f16, default: 1, max: 100}",
        "{name: scale, scalar: i8, default: ▸128}",
        "no value of i8",
    ),
    case(
        "unknown-arg",
        AXES,
        "{name: axes, attr: axes, of: ▸y, default: all}",
        "`y` is no tensor argument",
    ),
    case(
        "unknown-arg",
        POOL_OUT,
        POOL_OUT.replace("order: x", "order: ▸xx"),
        "`xx` is no tensor argument",
    ),
    case("unknown-arg", "overlap: {out: [a, b]}", "overlap: {out: [a, ▸c]}", "`c`"),
    case("unknown-arg", "overlap: {out: [a, b]}", "overlap: {▸a: [b]}", "no out of this row"),
    case("unknown-arg", "layout: {x: strided}", "layout: {▸y: strided}", "no tensor of this row"),
    case(
        "order-list",
        '{name: out, tensor: T, shape: "L.. sum(N) R.."}',
        '{name: out, tensor: T, shape: "L.. sum(N) R..", order: ▸xs}',
        "a list",
    ),
    case(
        "optional-order",
        EPS,
        EPS + '\n      - ▸{name: bias, tensor: T, shape: "N"}',
        "is optional too",
    ),
    case(
        "no-outs",
        'outs: [{name: out, tensor: U, shape: "A..", order: x}]',
        "outs: ▸[]",
        "inout",
        ("types: {T: float, U: float}", "types: {T: float}"),
        ('    grad: {x: "cast(g, dtype=T)"}\n', ""),
    ),
    case(
        "no-inputs",
        '    args: [{name: x, tensor: T, shape: "A.."}]\n    outs: [{name: out, tensor: U',
        "    args: ▸[]\n    outs: [{name: out, tensor: U",
        "needs a tensor argument",
        ('    grad: {x: "cast(g, dtype=T)"}\n', ""),
    ),
    case(
        "too-many-params",
        "outs: []",
        "outs: ▸[]",
        "at most 64",
        (VALUE, VALUE + "".join(f"\n      - {{name: s{i}, scalar: f32}}" for i in range(62))),
    ),
    case(
        "too-many-attrs",
        '    args:\n      - {name: x, tensor: T, shape: "N C H W"}\n',
        '    args:\n      ▸- {name: x, tensor: T, shape: "N C H W"}\n'
        + "".join(f"      - {{name: s{i}, attr: int, default: 0}}\n" for i in range(63)),
        "at most 64",
    ),
    case(
        "too-many-dims",
        "  - op: pool\n",
        "  - op: ▸pool\n",
        "at most 64",
        ("    let:\n", "    let:\n" + "".join(f'      L{i}: "N + {i}"\n' for i in range(59))),
    ),
    case(
        "name-reserved",
        '{name: gx, tensor: T, shape: "L.. N", optional: true}',
        '{name: ▸count, tensor: T, shape: "L.. N", optional: true}',
        "a tuple has a method",
        ("x: d.gx", "x: d.count"),
    ),
    case("duplicate-overlap", "overlap: {out: [a, b]}", "overlap: {out: [a, ▸a]}", "named twice"),
    case(
        "overlap-dtype",
        "    kernels:\n      - {id: two, backend",
        "    overlap: {out: [▸x]}\n    kernels:\n      - {id: two, backend",
        "never of the out's dtype",
        ("tensor: total(T)", "tensor: bool"),
        ('    grad: {x: "unreduce(g, x, axes, keepdim)"}\n', ""),
    ),
    case(
        "unbound-types",
        "types: {T: float, U: float}",
        "types: {T: float, »U: float, ▸V: float}",
        "only one variable",
        (
            'outs: [{name: out, tensor: U, shape: "A..", order: x}]',
            'outs: [{name: out, tensor: U, shape: "A.."}, {name: two, tensor: V, shape: "A.."}]',
        ),
        ('    grad: {x: "cast(g, dtype=T)"}\n', ""),
    ),
    case(
        "unused-type",
        "types: {T: float, U: float}",
        "types: {T: float, U: float, ▸V: float}",
        "nothing in the row",
    ),
    case(
        "too-many-variants",
        "types: {T: float, U: float}",
        "types: ▸{T: all, U: all, V: all, W: all}",
        "4096",
        ("  whole: [i32, i64]", "  whole: [i32, i64]\n  all: [float, whole, i8, u8, bool]"),
    ),
    case(
        "aten",
        'aten: "add.Tensor(a, b)"',
        'aten: "add.Tensor(a, b▸"',
        "expected `,` or `)` at the end",
    ),
    case("aten", 'aten: "add.Tensor(a, b)"', 'aten: "▸(a, b)"', "the name of an ATen op"),
    case(
        "aten-name", 'aten: "add.Tensor(a, b)"', 'aten: "add.Tensor(a, ▸c)"', "`c` is no argument"
    ),
    case(
        "test-case",
        'accept: ["a=(2, 3), b=(3,)"]',
        'accept: ["a=(2, 3), ▸c=(3,)"]',
        "`c` is no argument",
    ),
    case("test-case", 'accept: ["a=(2, 3), b=(3,)"]', 'accept: [▸"a=(2, 3)"]', "`b` is not given"),
    case(
        "test-case",
        'accept: ["a=(2, 3), b=(3,)"]',
        'accept: ["a=(2, 3), ▸b=-3"]',
        "its value is a shape",
    ),
]

KERNELS = [
    case("unknown-backend", PLANES, "{id: planes, backend: ▸cdua}", "`cdua` is no backend"),
    case("unknown-type", "types: {T: [f32, i32]}}", "types: {▸U: [f32]}}", "no type variable"),
    case("type-outside", "types: {T: [f32, i32]}}", "types: {T: ▸[f32, i64]}}", "never i64"),
    case(
        "kernel-without-dtypes",
        "kernels: [{id: loop, backend: cpu}]",
        "kernels: [▸{id: vec, backend: cuda}, {id: loop, backend: cpu}]",
        "leaves out all",
        ("types: {T: float, U: float}", "types: {T: f64, U: float}"),
    ),
    case(
        "duplicate-kernel",
        "- {id: plain, backend: cpu, determinism: run}",
        "- {id: ▸loop, backend: cpu, determinism: run}",
        "`loop` is here a second time",
    ),
    case(
        "shadowed-kernel",
        "- {id: plain, backend: cpu, determinism: run}",
        "- »{id: plain, backend: cpu, determinism: run}\n"
        '      - ▸{id: never, backend: cpu, when: ["N > 2"]}',
        "`plain` is tried before",
    ),
    case(
        "shadowed-kernel",
        "- {id: vec, backend: cuda, layout: flat}\n"
        "      - {id: loop, backend: cpu, layout: strided}",
        "- »{id: loop, backend: cpu, layout: strided}\n"
        "      - ▸{id: flat, backend: cpu, layout: flat}",
        "never runs",
    ),
    case(
        "uncovered",
        "{id: loop, backend: cpu, types: {T: [f32, i32]}}",
        "{id: loop, backend: cpu, types: {T: [f32]}}",
        "`i32`",
        ("outs: []\n    kernels:\n      -", "outs: []\n    kernels:\n      ▸-"),
    ),
    case("unknown-layout", "layout: nhwc}", "layout: ▸nwhc}", "`nwhc` is no layout"),
    case("duplicate-layout", "{x: [row, strided]}", "{x: [row, ▸row]}", "named twice"),
    case(
        "layout-rank",
        '{id: rows, backend: cuda, workspace: "4 * N"}',
        "{id: rows, backend: cuda, layout: {weight: col}}".replace("{w", "▸{w"),
        "`weight` has rank 1",
    ),
    case(
        "layout-rank",
        "{id: loop, backend: cpu, src: kernels/pool/window.c}",
        "{id: loop, backend: cpu}\n      - {id: one, backend: cpu, layout: nhwc}",
        "`bias` has rank 1",
        ('let:\n      P: "H', 'let:\n      P: "H'),
        (WINDOW, '{name: bias, tensor: T, shape: "C"}\n      - ' + WINDOW),
        (
            "{id: nhwc, backend: cuda, layout: nhwc}",
            "{id: nhwc, backend: cuda, layout: {x: nhwc, out: nhwc}}",
        ),
        ("layout: nhwc}", "layout: ▸nhwc}"),
    ),
    case("arch", "arch: sm_90a", "arch: ▸sm90", "sm_80 or sm_90a"),
    case("path", "src: kernels/pool/window.c", "src: ▸../pool/window.c", "stay in the tree"),
    case("path", "src: kernels/pool/window.c", "src: ▸/pool/window.c", "stay in the tree"),
    case("path", "src: kernels/pool/window.c", "src: ▸kernels//window.c", "stay in the tree"),
    case("path", "src: kernels/pool/window.c", 'src: ▸"kernels/$(x)/window.c"', "letters"),
    case("path", "src: kernels/pool/window.c", "src: ▸kernels/pool/window.cu", "suffix"),
    case(
        "src-clash",
        "{id: rows, backend: cuda, workspace",
        "▸{id: rows, backend: cuda, src: kernels/norm/norm_sm_90a.cu, workspace",
        "for another arch",
        ("{id: wide,", "»{id: wide,"),
    ),
    case("lib", "libs: [blas]", 'libs: [▸"lib.so"]', "`lib.so`"),
]

EXPRESSIONS = [
    case("expression-syntax", GUARD, "N % 8 == ▸", "expected"),
    case("expression-number", GUARD, "N % ▸08 == 0", ""),
    case("expression-name", GUARD, "▸M % 8 == 0", "`M`"),
    case("expression-function", GUARD, "▸size(x) == 0", "no function `size`"),
    case("expression-arity", GUARD, "▸ceil_div(N) == 0", ""),
    case("expression-type", GUARD, "N ▸+ 1", ""),
    case("expression-word", GUARD, "mode == ▸'max'", "no value 'max'"),
    case("expression-size", GUARD, "N == " + "(" * 80 + "1" + ")" * 80, ""),
]

SHAPES = [
    case("expression-constant", GUARD, "N ▸== N", "are the same"),
    case("expression-constant", GUARD, "mode »== 'sum' and mode ▸== 'mean'", "is never so"),
    case("expression-constant", GUARD, "mode »!= 'sum' or mode ▸!= 'mean'", "is always so"),
    case("expression-index", WINDOW_LET, "window[▸2]", ""),
    case(
        "expression-scalar",
        "kernels:\n      - {id: loop, backend: cpu, types: {T: [f32, i32]}}",
        'where: {"▸value > 0": "m"}\n    kernels:\n'
        "      - {id: loop, backend: cpu, types: {T: [f32, i32]}}",
        "may lie on the device",
    ),
    case(
        "expression-varies",
        'where: {"n >= 1": "there',
        'where: {"▸N >= 1": "there',
        "only sum(N) has a value",
    ),
    case(
        "expression-attributes-only",
        '"N C P Q", order: x',
        '"N C P Q if ▸N > 1 else N C", order: x',
        "`N` is a size",
    ),
    case("let-order", "H // window[0]", "H // window[0] + ▸Q", "computed from lets before it"),
    case(
        "shape-syntax",
        'broadcast(A, B)", order',
        'broadcast(A, B, A, B, A, B, A, B, ▸A)", order',
        "at most 8",
    ),
    case("expression-syntax", '"N C P Q", order: x', '"N C P Q ▸)", order: x', "not `)`"),
    case("expression-syntax", '"N C P Q", order: x', '"N C P Q if shift > 0▸", order: x', "`else`"),
    case(
        "shape-name", '"N C P Q", order: x', '"N C P ▸X", order: x', "no argument's shape binds `X`"
    ),
    case(
        "shape-name",
        '{name: b, tensor: T, shape: "B.."}',
        '{name: b, tensor: T, shape: "▸A"}',
        "`A` is a pack elsewhere",
    ),
    case(
        "shape-name",
        'shape: "L.. N@axis R.."',
        'shape: "L.. N@▸axes R.."',
        "no attribute of this row",
    ),
    case("shape-unbound", 'shape: "N C H W"', 'shape: "N C H 2*▸W"', "nothing binds `W`"),
    case(
        "shape-clash",
        'shape: "N C H W"',
        'shape: "N C H ▸T"',
        "a type variable",
        ("W // window[1]", "T // window[1]"),
    ),
    case(
        "shape-clash",
        '      Q: "W // window[1] + shift"',
        '      ▸W: "2"\n      Q: "W // window[1] + shift"',
        "another one",
    ),
    case("shape-value", '"N C P Q", order: x', '"▸-1 C P Q", order: x', "no negative size"),
    case("shape-value", "H // window[0]", "H // window[0] + numel(▸out)", "`out` is not known"),
    case(
        "shape-attribute",
        '"L.. N@axis R.."',
        '"L.. N@▸k R.."',
        "an axis attribute",
        ("{name: axis, attr: axis, of: xs, default: 0}", "{name: k, attr: int, default: 0}"),
    ),
    case(
        "shape-axis",
        '"L.. N@axis R.."',
        '"▸N@axis R.."',
        "needs a pack before it",
        ('"L.. sum(N) R.."', '"sum(N) R.."'),
    ),
    case("shape-packs", '"L.. N@axis R.."', '"L.. ▸R.. N"', "cannot be told"),
]

GRADS = [
    case(
        "grad-key",
        'grad: {x: "mul(g, out)"}',
        'grad: {out: "▸mul(g, out)", x: none}',
        "`out` is an out",
    ),
    case(
        "grad-key",
        'grad: {x: "mul(g, out)"}',
        'grad: {T: "▸mul(g, out)", x: none}',
        "no tensor of the row",
    ),
    case(
        "grad-missing",
        'grad: {a: "sum_to(g, a)", b: "sum_to(g, b)"}',
        'grad: {a: "sum_to(g, a)"}',
        "`b` has no gradient",
    ),
    case(
        "grad-unused",
        'grad: {x: "mul(g, out)"}',
        'grad: {d: "▸mul(g, out)", x: "g"}',
        "nothing after it uses",
    ),
    case(
        "grad-inout",
        "types: {T: [f32, i32]}}",
        "types: {T: [f32, i32]}}\n    grad: {x: ▸none}",
        "in place",
    ),
    case(
        "grad-order",
        'grad: {x: "mul(g, out)"}',
        'grad: {x: "mul(▸d, out)", d: "»mul(g, out)"}',
        "computed after this",
    ),
    case(
        "grad-name", 'grad: {x: "mul(g, out)"}', 'grad: {x: "mul(g, ▸oot)"}', "`oot` is no tensor"
    ),
    case("grad-name", "weight: d.gw", "weight: d.▸gww", "no out `gww`"),
    case("grad-call", 'grad: {x: "mul(g, out)"}', 'grad: {x: "▸mull(g, out)"}', "no op `mull`"),
    case(
        "grad-call",
        'grad: {x: "mul(g, out)"}',
        'grad: {x: "▸fill(g, value=1)"}',
        "writes to its argument",
    ),
    case("grad-argument", 'grad: {x: "mul(g, out)"}', 'grad: {x: "▸mul(g)"}', "needs argument `b`"),
    case(
        "grad-argument",
        'grad: {x: "mul(g, out)"}',
        'grad: {x: "elu(g, ▸alhpa=1.0)"}',
        "no argument `alhpa`",
    ),
    case(
        "grad-value",
        'grad: {x: "mul(g, out)"}',
        'grad: {x: "elu(g, alpha=▸stride(x, 0) * 1.0)"}',
        "cannot ask for stride()",
    ),
    case("grad-outs", "x: d.gx", "x: ▸d", "say which with .NAME"),
    case(
        "grad-absent",
        "      x: d.gx\n      weight: d.gw",
        '      x: "mul(d.gx, ▸weight)"\n      weight: d.gw',
        "may be absent",
    ),
    case("grad-dtype", 'grad: {x: "cast(g, dtype=T)"}', 'grad: {x: "▸cast(g, dtype=U)"}', ""),
    case("grad-dtype", 'grad: {x: "cast(g, dtype=T)"}', 'grad: {x: "▸g"}', "`x` is T"),
    case(
        "grad-list",
        '"L.. sum(N) R.."}\n    kernels:\n      - {id: loop, backend: cpu}',
        '"L.. sum(N) R.."}\n    kernels:\n      - {id: loop, backend: cpu}\n    grad: {xs: "▸g"}',
        "this gradient is none",
    ),
    case("grad-shape", "weight: d.gw", 'weight: "▸t(d.gw)"', "two dims"),
]

CASES = [*READING, *FIELDS, *HEADS, *ROWS, *KERNELS, *EXPRESSIONS, *SHAPES, *GRADS]
