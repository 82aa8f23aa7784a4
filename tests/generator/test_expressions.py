"""Expressions: the C and the Python of one tree agree, the text parses back, every mistake is told."""

# ruff: noqa: E501 (tables of cases read best one a line)

from __future__ import annotations

import importlib.util
import math
import os
import random
import re
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import languages

EXPRESSIONS = languages.ROOT / "runtime" / "python" / "aicf_rt" / "expressions.py"

# x and y are there, z is absent, ys is a list whose V differs from one tensor to the next.
ROW = [
    "type\tT\tf32 f16",
    "attr\tflag\tbool",
    "attr\tk\tint",
    "attr\talpha\tfloat",
    "attr\tact\tenum\tnone relu gelu",
    "attr\twindow\tints\t2",
    "attr\taxes\taxes",
    "attr\tax\taxis",
    "attr\tlr\tscalar",
    "arg\tx\tT\t-\tA.. N",
    "arg\ty\tT\t-\tB.. M",
    "arg\tz\tT\toptional\tC..",
    "arg\tys\tT\tlist=n\tV.. 4",
    "let\tP\tN // 2",
    "out\tout\tT\t-\tbroadcast(A, B)",
    "shapes",
]
TREES = 10_000
EDGE = [0, 1, -1, 2, 3, -7, 8, 2**31, 2**53, 2**53 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63)]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return languages.build(tmp_path_factory.mktemp("expressions"))


@pytest.fixture(scope="session")
def runtime() -> ModuleType:
    """The runtime's half, without the package around it, which needs a build."""
    spec = importlib.util.spec_from_file_location("aicf_rt_expressions", EXPRESSIONS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their module
    spec.loader.exec_module(module)
    return module


# ---- random trees ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """An expression and how tight its last operator binds, from 1 (`if`) to 9 (a name)."""

    text: str
    binding: int = 9
    mixed: bool = False  # has an `if` with an integer and a float branch: Python types it otherwise


class Trees:
    """Well-typed expressions over ROW, parentheses only where needed, and some more."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def inside(self, e: Text, binding: int) -> str:
        extra = e.binding < 9 and self.random.random() < 0.1
        return f"({e.text})" if e.binding < binding or extra else e.text

    def join(self, left: Text, sign: str, right: Text, binding: int) -> Text:
        lower = binding if binding != 5 else 6
        text = f"{self.inside(left, lower)} {sign} {self.inside(right, binding + 1)}"
        return Text(text, binding, left.mixed or right.mixed)

    def choice(self, then: Text, test: Text, other: Text, mixed: bool = False) -> Text:
        text = f"{self.inside(then, 2)} if {self.inside(test, 2)} else {self.inside(other, 1)}"
        return Text(text, 1, mixed or then.mixed or test.mixed or other.mixed)

    def call(self, name: str, *args: Text) -> Text:
        text = ", ".join(self.inside(a, 1) for a in args)
        return Text(f"{name}({text})", 9, any(a.mixed for a in args))

    def negative(self, e: Text) -> Text:
        return Text(f"-{self.inside(e, 8)}", 8, e.mixed)

    def literal(self) -> Text:
        value = self.random.choice([*EDGE, *range(-9, 20)])
        spelled = hex(value) if self.random.random() < 0.1 else str(value)
        return Text(spelled, 8 if value < 0 else 9)

    def integer_leaf(self) -> Text:
        names = ["N", "M", "A", "B", "C", "P", "k", "ax", "n", "len(A)", "len(C)", "len(ys)"]
        asked = ["len(window)", "len(axes)", "prod(A)", "prod(axes)", "prod(window)", "sum(axes)"]
        more = ["sum(V)", "min(window)", "max(axes)", "window[0]", "window[-1]", "axes[1]"]
        tensors = [
            "numel(x)",
            "numel(z)",
            "numel(ys)",
            "sizeof(T)",
            "stride(y, 0)",
            "stride(x, -1)",
        ]
        last = ["stride(z, 0)", "batches(x)", "batches(y)", "prod(broadcast(A, B, C))"]
        if self.random.random() < 0.35:
            return self.literal()
        return Text(self.random.choice([*names, *names, *asked, *more, *tensors, *last]))

    def integer(self, depth: int) -> Text:
        if depth == 0 or self.random.random() < 0.1:
            return self.integer_leaf()
        what = self.random.randrange(13)
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        if what < 4:
            return self.join(a, self.random.choice("+-"), b, 6)
        if what < 8:
            return self.join(a, self.random.choice(["*", "*", "//", "%"]), b, 7)
        if what == 8:
            return self.negative(a)
        if what == 9:
            return self.call("ceil_div", a, b)
        if what == 10:
            more = [self.integer(depth - 1)] if self.random.random() < 0.3 else []
            return self.call(self.random.choice(["min", "max"]), a, b, *more)
        if what == 11:
            index = self.integer(min(depth - 1, 1))
            literal = re.fullmatch(r"-?\w+", index.text) and index.text.lstrip("-")[0].isdigit()
            values = "axes" if literal else self.random.choice(["window", "axes"])
            return Text(f"{values}[{index.text}]", 9, index.mixed)
        return self.choice(a, self.boolean(depth - 1), b)

    def real_leaf(self) -> Text:
        value = self.random.choice(
            ["0.0", "0.5", "1.5", "1e300", "1e-300", "0.1", "3.0e0", "2.5E-3"]
        )
        return Text(self.random.choice([value, "alpha", "alpha"]))

    def number(self, depth: int) -> Text:
        return self.real(depth) if self.random.random() < 0.5 else self.integer(depth)

    def real(self, depth: int) -> Text:
        if depth == 0:
            return self.real_leaf()
        what = self.random.randrange(9)
        a, b = self.real(depth - 1), self.number(depth - 1)
        if self.random.random() < 0.5:
            a, b = b, a
        if what < 3:
            return self.join(a, self.random.choice("+-"), b, 6)
        if what < 5:
            return self.join(a, "*", b, 7)
        if what == 5:
            return self.join(self.number(depth - 1), "/", self.number(depth - 1), 7)
        if what == 6:
            return self.negative(self.real(depth - 1))
        if what == 7:
            return self.call(self.random.choice(["min", "max"]), a, b)
        mixed = self.random.random() < 0.3
        other = self.integer(depth - 1) if mixed else self.real(depth - 1)
        return self.choice(self.real(depth - 1), self.boolean(depth - 1), other, mixed)

    def boolean_leaf(self) -> Text:
        words = ["act == 'relu'", "act != 'none'", '"gelu" == act']
        if self.random.random() < 0.3:
            return Text(self.random.choice(words), 5)
        asked = ["present(z)", "present(x)", "present(ys)", "same_shape(x, y)", "same_shape(x, z)"]
        more = [
            "aligned(16, x, y)",
            "aligned(k, x)",
            "aligned(4, ys, out)",
            "flag",
            "true",
            "false",
        ]
        return Text(self.random.choice([*asked, *more]))

    def comparison(self, depth: int) -> Text:
        sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        a, b = self.number(depth), self.number(depth)
        if a.text == b.text:
            b = Text(f"{self.inside(b, 6)} + 1", 6, b.mixed)
        if self.random.random() < 0.2:
            c = self.number(depth)
            middle = Text(
                f"{self.inside(b, 6)} * 2" if b.binding > 6 else f"({b.text}) * 2", 7, b.mixed
            )
            first = self.join(a, sign, middle, 5)
            return Text(f"{first.text} <= {self.inside(c, 6)} - 1", 5, first.mixed or c.mixed)
        return self.join(a, sign, b, 5)

    def boolean(self, depth: int) -> Text:
        if depth == 0:
            return self.boolean_leaf()
        what = self.random.randrange(8)
        if what < 3:
            return self.comparison(depth - 1)
        a, b = self.boolean(depth - 1), self.boolean(depth - 1)
        if what < 5:
            return self.join(a, "and", b, 3)
        if what == 5:
            return self.join(a, "or", b, 2)
        if what == 6:
            return Text(f"not {self.inside(a, 4)}", 4, a.mixed)
        return self.choice(a, self.boolean(depth - 1), b)


# ---- where they are evaluated -----------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    itemsize: int = 4


def environment(seed: int) -> dict[str, Any]:
    """Values for all names of ROW; packs have a product of 64 bits, as what a call holds."""
    pick = random.Random(seed)

    def edge() -> int:
        return pick.choice(EDGE)

    def pack() -> tuple[int, ...]:
        return tuple(pick.choice([0, 1, 1, 2, 3, 5, 2**20]) for _ in range(pick.randrange(4)))

    def tensor() -> Tensor:
        rank = pick.randrange(5)
        shape = tuple(pick.choice([0, 1, 2, 3, 2**16, 2**31]) for _ in range(rank))
        strides = tuple(pick.choice([1, 0, -1, 2, 4, 6, 16, 2**32]) for _ in range(rank))
        return Tensor(shape, strides, pick.choice([0x1000, 0x1008, 0x1001]))

    return {
        "N": edge(), "M": edge(), "P": edge(), "k": edge(), "ax": edge(), "n": pick.choice([0, 2]),
        "A": pack(), "B": pack(), "C": None, "V": tuple(edge() for _ in range(pick.randrange(3))),
        "flag": pick.random() < 0.5, "alpha": pick.choice([0.0, 0.5, -2.0, 1e200, 2.0**53]),
        "act": pick.choice(["none", "relu", "gelu"]), "window": (edge(), edge()),
        "axes": tuple(edge() for _ in range(pick.randrange(4))), "T": pick.choice(["f32", "f16"]),
        "x": tensor(), "y": tensor(), "z": None, "out": tensor(),
    }  # fmt: skip


def environments() -> list[dict[str, Any]]:
    found = []
    for seed in range(8):
        names = environment(seed)
        pick = random.Random(seed)
        names["ys"] = [Tensor((2, 3), (3, 1), pick.choice([16, 18])) for _ in range(names["n"])]
        found.append(names)
    return found


def outcome(compute: Any) -> str:
    """A value as the C program prints it."""
    try:
        value = compute()
    except ArithmeticError:
        return "none"
    if isinstance(value, bool):
        return f"b{int(value)}"
    return (
        f"r{struct.pack('>d', value + 0.0).hex()}" if isinstance(value, float) else f"i{int(value)}"
    )


# ---- the C side ---------------------------------------------------------------------------------------

HEAD = r"""
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <aicf/expression.h>

enum { NS_ROW_ACT_NONE, NS_ROW_ACT_RELU, NS_ROW_ACT_GELU };

typedef struct ns_row_call {
    aicf_call head;
    bool flag;
    int64_t k, ax, N, M, P, n, A, B, C, window[2];
    double alpha;
    int act;
    aicf_ints axes;
} ns_row_call;

typedef struct result { int64_t i; double r; bool b, ok; } result;
typedef void function(const aicf_scope *scope, const ns_row_call *call, result *r);
"""

# The scope's functions over what the test wrote down: one tensor a parameter, but for the list's.
MAIN = r"""
typedef struct world {
    ns_row_call call;
    aicf_tensor t[6];
    aicf_pack packs[8];
    int64_t sum_v;
    bool sum_ok;
    int lists;
} world;

extern const world worlds[];
extern const int world_count;
static const world *now;

static int first_of(int p) { return p <= 3 ? p : 3 + now->lists; }
static int count_of(int p) { return p == 3 ? now->lists : 1; }

int64_t aicf_scope_numel(const aicf_scope *s, int p)
{
    int64_t n = 0;
    for (int i = 0; i < count_of(p); i++) {
        n += s->t[first_of(p) + i].absent ? 0 : s->t[first_of(p) + i].numel;
    }
    return n;
}
bool aicf_scope_present(const aicf_scope *s, int p)
{
    return p == 3 ? true : !s->t[first_of(p)].absent;
}
bool aicf_scope_same_shape(const aicf_scope *s, const int16_t *p)
{
    const aicf_tensor *first = NULL;
    for (; *p >= 0; p++) {
        const aicf_tensor *t = &s->t[first_of(*p)];
        if (t->absent) continue;
        first = first ? first : t;
        if (t->rank != first->rank || memcmp(t->sizes, first->sizes, 8 * (size_t)t->rank)) return false;
    }
    return true;
}
bool aicf_scope_aligned(const aicf_scope *s, int64_t bytes, const int16_t *p)
{
    for (; *p >= 0; p++) {
        for (int k = 0; k < count_of(*p); k++) {
            const aicf_tensor *t = &s->t[first_of(*p) + k];
            if (t->absent || !t->numel) continue;
            if ((intptr_t)t->data % bytes) return false;
            for (int i = 0; i < t->rank; i++) {
                bool counts = t->sizes[i] != 1 && t->strides[i] != 1 && t->strides[i] != -1;
                if (counts && t->strides[i] * 4 % bytes) return false;
            }
        }
    }
    return true;
}
bool aicf_scope_stride(const aicf_scope *s, int p, int64_t i, int64_t *stride)
{
    const aicf_tensor *t = &s->t[first_of(p)];
    int64_t below = 1;
    i += i < 0 ? t->rank : 0;
    if (t->absent || i < 0 || i >= t->rank) return false;
    for (int k = t->rank - 1; k >= i; k--) {
        *stride = t->sizes[k] == 1 ? below : t->strides[k];
        below = *stride * t->sizes[k];
    }
    return true;
}
int64_t aicf_scope_batches(const aicf_scope *s, int p)
{
    const aicf_tensor *t = &s->t[first_of(p)];
    int64_t count = 0, below = 0;
    for (int k = t->rank - 3; k >= 0; k--) {
        if (t->sizes[k] != 1) {
            count += !count || t->strides[k] != below;
            below = t->strides[k] * t->sizes[k];
        }
    }
    return count;
}
bool aicf_scope_sum(const aicf_scope *s, int dim, int64_t *sum)
{
    (void)s, (void)dim;
    *sum = now->sum_v;
    return now->sum_ok;
}
bool aicf_scope_broadcast_numel(const aicf_scope *s, const int16_t *packs, int64_t *numel)
{
    int64_t sizes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    bool ok = true;
    for (; *packs >= 0; packs++) {
        const aicf_pack *p = &s->packs[*packs];
        for (int i = 0; i < p->rank; i++) {
            int64_t *size = &sizes[p->rank - 1 - i];
            ok &= *size == p->sizes[i] || *size == 1 || p->sizes[i] == 1;
            *size = *size == 1 ? p->sizes[i] : *size;
        }
    }
    *numel = 1;
    for (int i = 0; i < 8; i++) *numel *= sizes[i] ? 1 : 0;
    for (int i = 0; i < 8 && *numel; i++) ok &= !__builtin_mul_overflow(*numel, sizes[i], numel);
    return ok;
}

int main(void)
{
    for (int w = 0; w < world_count; w++) {
        now = &worlds[w];
        aicf_scope scope = {&now->call.head, now->t, now->packs};
        for (int i = 0; i < FUNCTIONS; i++) {
            result r = {0};
            functions[i](&scope, &now->call, &r);
            uint64_t bits;
            double real = r.r + 0.0;
            memcpy(&bits, &real, 8);
            if (!r.ok) printf("none\n");
            else if (kinds[i] == 'i') printf("i%" PRId64 "\n", r.i);
            else if (kinds[i] == 'r') printf("r%016" PRIx64 "\n", bits);
            else printf("b%d\n", r.b);
        }
    }
    return 0;
}
"""

MEMBER = {"int": "i", "real": "r", "bool": "b"}


def c_function(number: int, kind: str, code: str) -> str:
    return (
        f"void f{number}(const aicf_scope *scope, const ns_row_call *call, result *r)\n"
        "{\n    bool no = false, *bad = &no;\n    (void)scope, (void)call, (void)bad;\n"
        f"    r->{MEMBER[kind]} = {code};\n    r->ok = !no;\n}}\n"
    )


def c_int(value: int) -> str:
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


def c_list(values: tuple[int, ...] | list[int]) -> str:
    return "{" + ", ".join(map(c_int, values)) + "}" if values else "{0}"


def c_tensor(t: Tensor | None, itself: Any) -> str:
    if t is None:
        return "{.absent = true}"
    return (
        f"{{.data = (void *){t.address}, .rank = {len(t.shape)}, "
        f".sizes = (const int64_t[]){c_list(t.shape)}, "
        f".strides = (const int64_t[]){c_list(t.strides)}, .numel = {c_int(itself(t.shape))}}}"
    )


def c_pack(pack: tuple[int, ...] | None) -> str:
    if pack is None:
        return "{NULL, -1}"
    return f"{{(const int64_t[]){c_list(pack)}, {len(pack)}}}"


def c_world(names: dict[str, Any], dims: list[str], runtime: ModuleType) -> str:
    plain = ", ".join(f".{n} = {c_int(names[n])}" for n in ("k", "ax", "N", "M", "P", "n"))
    packs = ", ".join(f".{n} = {c_int(runtime.prod(names[n]))}" for n in "ABC")
    tensors = [names["x"], names["y"], names["z"], *names["ys"], names["out"]]
    try:
        total = runtime.total(names["V"])
    except ArithmeticError:
        total = None
    scope = ", ".join(c_pack(names[d] if d in ("A", "B", "C") else None) for d in dims)
    return (
        f"{{.call = {{.head = {{.op = &the_op, .variant = {['f32', 'f16'].index(names['T'])}}}, "
        f"{plain}, {packs}, .window = {c_list(names['window'])}, .flag = {int(names['flag'])}, "
        f".alpha = {names['alpha']!r}, .act = NS_ROW_ACT_{names['act'].upper()}, "
        f".axes = {{{len(names['axes'])}, {c_list(names['axes'])}}}}}, "
        f".t = {{{', '.join(c_tensor(t, runtime.prod) for t in tensors)}}}, .packs = {{{scope}}}, "
        f".sum_v = {c_int(total or 0)}, .sum_ok = {int(total is not None)}, "
        f".lists = {names['n']}}},\n"
    )


def compile_c(folder: Path, name: str, source: str) -> Path:
    (folder / f"{name}.c").write_text(source, encoding="utf-8")
    # No warnings: random trees say `x < 1 and x > 2`, and gcc knows better.
    command = [os.environ.get("CC", "gcc"), "-std=c11", "-O1", "-w"]
    said = subprocess.run(
        [*command, "-I", str(languages.ROOT / "include"), "-c", f"{name}.c", "-o", f"{name}.o"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr[:3000]
    return folder / f"{name}.o"


def run_c(
    folder: Path, kinds: list[str], codes: list[str], worlds: list[dict[str, Any]], dims: list[str],
    runtime: ModuleType,
) -> list[list[str]]:  # fmt: skip
    """What every expression gives in every world, computed by compiled C."""
    numbered = list(enumerate(zip(kinds, codes, strict=True)))
    step = 1250
    sources = {
        f"part{i}": HEAD + "".join(c_function(n, k, c) for n, (k, c) in numbered[i : i + step])
        for i in range(0, len(numbered), step)
    }
    declared = "".join(f"function f{n};\n" for n in range(len(kinds)))
    table = ", ".join(f"f{n}" for n in range(len(kinds)))
    letters = "".join(MEMBER[k] for k in kinds)
    dtypes = "AICF_F32, AICF_F32, AICF_F32, AICF_F32, AICF_F32"
    sources["main"] = (
        f"{HEAD}{declared}#define FUNCTIONS {len(kinds)}\n"
        f"static function *const functions[] = {{{table}}};\nstatic const char kinds[] = \"{letters}\";\n"
        f"static const aicf_dtype dtypes[] = {{{dtypes}, {dtypes.replace('F32', 'F16')}}};\n"
        "static const aicf_op the_op = {.params = 5, .dtypes = dtypes};\n"
        + MAIN.replace("extern const world worlds[];\nextern const int world_count;\n",
                       "static const world worlds[] = {\n"
                       + "".join(c_world(w, dims, runtime) for w in worlds)
                       + f"}};\nenum {{ world_count = {len(worlds)} }};\n")
    )  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda item: compile_c(folder, *item), sources.items()))
    link: list[str | Path] = [os.environ.get("CC", "gcc"), *objects, "-o", folder / "all", "-lm"]
    subprocess.run(link, check=True)
    said = subprocess.run([folder / "all"], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr[-3000:]
    lines = said.stdout.split()
    return [lines[i : i + len(kinds)] for i in range(0, len(lines), len(kinds))]


# ---- Python's own reading of the same text ----------------------------------------------------------


class Real(float):
    """A float that refuses to be anything but finite, and integers that it cannot be."""


class Integer(int):
    """An integer of 64 bits."""


def exact(x: Any) -> Any:
    if isinstance(x, float):
        return float(x)
    if abs(x) > 2**53:
        raise OverflowError
    return float(x)


def operation(name: str) -> Any:
    def apply(a: Any, b: Any) -> Any:
        real = isinstance(a, float) or isinstance(b, float) or name == "__truediv__"
        if real:
            a, b = exact(a), exact(b)
            result = getattr(float, name)(a, b)
            if isinstance(result, float) and not math.isfinite(result):
                raise OverflowError
            return Real(result) if isinstance(result, float) else result
        result = getattr(int, name)(int(a), int(b))
        if isinstance(result, bool):
            return result
        if not -(2**63) <= result < 2**63:
            raise OverflowError
        return Integer(result)

    return apply


def negated(a: Any) -> Any:
    if isinstance(a, float):
        return Real(-float(a))
    return operation("__sub__")(Integer(0), a)


for _name in (
    "add",
    "sub",
    "mul",
    "floordiv",
    "mod",
    "truediv",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
):
    for _type in (Integer, Real):
        setattr(_type, f"__{_name}__", operation(f"__{_name}__"))
for _type in (Integer, Real):
    setattr(_type, "__neg__", negated)  # noqa: B010


def extremum(choose: Any) -> Any:
    def apply(*values: Any) -> Any:
        if len(values) == 1 and isinstance(values[0], tuple):
            if not values[0]:
                raise ArithmeticError
            return Integer(choose(values[0]))
        if any(isinstance(v, float) for v in values):
            return Real(choose(exact(v) for v in values))
        return Integer(choose(int(v) for v in values))

    return apply


class Values(tuple[int, ...]):
    """Several integers; as an operand of arithmetic, a pack is its product."""

    def __getitem__(self, index: Any) -> Any:
        if not -len(self) <= index < len(self):
            raise ArithmeticError
        return Integer(tuple.__getitem__(self, int(index)))


def reading(names: dict[str, Any], runtime: ModuleType) -> dict[str, Any]:
    """Names for eval() of the text itself: Python's grammar, checked numbers."""
    found = dict(names)
    for name in ("N", "M", "P", "k", "ax", "n"):
        found[name] = Integer(names[name])
    for name in "ABC":
        found[f"{name}_"] = names[name]
        found[name] = Integer(runtime.prod(names[name]))
    for name in ("window", "axes"):
        found[name] = Values(names[name])
    found["alpha"] = Real(names["alpha"])
    for name in ("numel", "sizeof", "stride", "batches", "length", "prod", "total"):
        wrapped = getattr(runtime, name)
        found[f"{name}_"] = lambda *a, wrapped=wrapped: Integer(wrapped(*a))
    for name in ("present", "same_shape", "aligned", "broadcast"):
        found[f"{name}_"] = getattr(runtime, name)
    found["ceil_div_"] = lambda a, b: Integer(runtime.ceil_div(int(a), int(b)))
    found["min_"], found["max_"] = extremum(min), extremum(max)
    return found


CALLS = {"len": "length_", "sum": "total_"}


def as_python(text: str) -> str:
    """The text with its words spelled for eval(): numbers checked, packs where packs are meant."""
    text = re.sub(r"\b(len|prod|broadcast)\(([A-C][^()]*)\)", lambda m: f"{m[1]}({re.sub('[A-C]', lambda p: p[0] + '_', m[2])})", text)  # fmt: skip
    text = re.sub(r"\b(\w+)\(", lambda m: (CALLS.get(m[1], f"{m[1]}_") if m[1] not in KEEP else m[1]) + "(", text)  # fmt: skip
    text = re.sub(
        r"(?<![\w.])(\d+\.?\d*[eE][+-]?\d+|\d+\.\d+|0x[0-9a-f]+|\d+)(?![\w.])",
        lambda m: (
            f"Real({m[1]})" if re.search(r"[.eE]", m[1]) and "x" not in m[1] else f"Integer({m[1]})"
        ),
        text,
    )
    return re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", text))


KEEP = {"and", "or", "not", "if", "else"}


# ---- tests ----------------------------------------------------------------------------------------------


def random_trees() -> tuple[list[str], list[Text]]:
    """A third of each type, depths mixed."""
    trees = Trees(20)
    makers = {"int": trees.integer, "real": trees.real, "bool": trees.boolean}
    kinds = [random.Random(i).choice(list(makers)) for i in range(TREES)]
    return kinds, [makers[kind](1 + i % 4) for i, kind in enumerate(kinds)]


@pytest.mark.promise("TABLE-expressions-agree")
def test_c_and_python_agree(driver: Path, runtime: ModuleType, tmp_path: Path) -> None:
    """10,000 trees in eight worlds: the C, the Python, and Python's own reading of the text give one
    value, or none of them gives any. The driver has checked that the text form is the same tree."""
    kinds, trees = random_trees()
    asked = [["expr", kind, "all", tree.text] for kind, tree in zip(kinds, trees, strict=True)]
    answers = languages.ask(driver, [*ROW, *asked])
    dims = [
        line.split()[1].strip(".") for line in answers[len(ROW) - 1].lines if line.startswith("dim")
    ]
    answers = answers[len(ROW) :]
    # The driver refuses what compares a thing with itself; such trees are few, and stand for nothing.
    kept = [i for i, answer in enumerate(answers) if answer.ids != ["expression-constant"]]
    assert len(kept) > TREES * 0.97
    for i in kept:
        assert not answers[i].faults, (trees[i].text, answers[i])
        assert len(answers[i].lines) == 4, (trees[i].text, answers[i])
    worlds = environments()
    found = run_c(
        tmp_path, [kinds[i] for i in kept], [answers[i]["c"] for i in kept], worlds, dims, runtime
    )
    emitted = {i: compile(answers[i]["python"], "emitted", "eval") for i in kept}
    read = {i: compile(as_python(trees[i].text), "read", "eval") for i in kept}
    values = 0
    for names, column in zip(worlds, found, strict=True):
        scope = {**names, "_e": runtime, "__builtins__": {}}
        own = {**reading(names, runtime), "Real": Real, "Integer": Integer, "__builtins__": {}}
        for i, from_c in zip(kept, column, strict=True):
            from_python = outcome(lambda i=i, s=scope: eval(emitted[i], s))
            assert from_c == from_python, f"{trees[i].text}\n{answers[i]}\n{names}"
            values += from_c != "none"
            if not trees[i].mixed:
                from_text = outcome(lambda i=i, s=own: eval(read[i], s))
                assert from_text == from_c, f"{trees[i].text}\n{answers[i]}\n{names}"
    assert 0.3 < values / (len(kept) * len(worlds)) < 0.9, (
        "the trees must give values, and none, often"
    )


FAULTS = [
    # text, type, place of the fault in it, id, part of the message
    ("", "int", 0, "expression-syntax", "a value is expected here, not the end"),
    ("N +", "int", 3, "expression-syntax", "not the end"),
    ("N + * 2", "int", 4, "expression-syntax", "a value is expected here, not `*`"),
    ("(N + 2", "int", 6, "expression-syntax", "`)` is expected to close the parenthesis"),
    ("N 2", "int", 2, "expression-syntax", "an operator or the end is expected here, not `2`"),
    ("N if flag", "int", 9, "expression-syntax", "`else` is expected after `x if condition`"),
    ("window[0", "int", 8, "expression-syntax", "`]` is expected after the index"),
    ("min(N, M", "int", 8, "expression-syntax", "`)` is expected after the arguments"),
    ("N + not flag", "int", 4, "expression-syntax", "a value is expected here, not `not`"),
    ("N & 3", "int", 2, "expression-syntax", "`&` means nothing here"),
    ("N ! 3", "int", 2, "expression-syntax", "`!` means nothing here"),
    ("N + \u00b5", "int", 4, "expression-syntax", "only plain ASCII"),
    ("act == 'relu", "bool", 7, "expression-syntax", "does not end"),
    ("N = 2", "bool", 2, "expression-syntax", "an operator or the end is expected here, not `=`"),
    ("N < ", "bool", 4, "expression-syntax", "a value is expected"),
    ("none == 2", "bool", 0, "expression-syntax", "a value is expected here, not `none`"),
    ("9223372036854775808", "int", 0, "expression-number", "beyond 64 bits"),
    ("1 + -9223372036854775809", "int", 5, "expression-number", "beyond 64 bits"),
    ("99999999999999999999999", "int", 0, "expression-number", "beyond 64 bits"),
    ("1e999", "real", 0, "expression-number", "beyond a 64-bit float"),
    ("010", "int", 0, "expression-number", "does not begin with 0"),
    ("0x", "int", 0, "expression-number", "has no digits"),
    ("3H", "int", 1, "expression-number", "is a `*` missing?"),
    ("0x1G", "int", 3, "expression-number", "is a `*` missing?"),
    ("(" * 70 + "N" + ")" * 70, "int", 64, "expression-size", "at most 64 deep"),
    ("-" * 70 + "N", "int", 63, "expression-size", "at most 64 deep"),
    ("not " * 70 + "flag", "bool", 256, "expression-size", "at most 64 deep"),
    (" + ".join(["N"] * 600), "int", 2000, "expression-size", "at most 1000 parts"),
    ("nope + 1", "int", 0, "expression-name", "`nope` is no dim or attribute of this row"),
    ("numel(q)", "int", 6, "expression-name", "`q` is no tensor of this row"),
    ("alpa + 1", "real", 0, "expression-name", "`alpa` is no dim"),
    ("numle(x)", "int", 0, "expression-function", "no function `numle`"),
    ("N < 3", "int", 2, "expression-type", "an integer is wanted here, this is a bool"),
    ("N", "bool", 0, "expression-type", "a bool is wanted here, this is an integer"),
    ("alpha", "int", 0, "expression-type", "an integer is wanted here, this is a float"),
    ("N / 2", "int", 2, "expression-type", "an integer is wanted here, this is a float"),
    ("alpha // 2", "int", 0, "expression-type", "an integer is wanted here, this is a float"),
    ("2 % alpha", "int", 4, "expression-type", "an integer is wanted here, this is a float"),
    ("N + flag", "int", 4, "expression-type", "a number is wanted here, this is a bool"),
    ("N and flag", "bool", 0, "expression-type", "a bool is wanted here, this is an integer"),
    ("not N", "bool", 4, "expression-type", "a bool is wanted here"),
    ("flag < true", "bool", 0, "expression-type", "a number is wanted here, this is a bool"),
    ("act < 'relu'", "bool", 4, "expression-type", "enum values have no order"),
    ("act + 1", "int", 0, "expression-type", "a number is wanted here, this is an enum value"),
    ("N == 'relu'", "bool", 0, "expression-type", "an enum value is wanted here"),
    ("'relu' == 'gelu'", "bool", 0, "expression-type", "compared with an enum attribute"),
    ("window + 1", "int", 0, "expression-type", "a number is wanted here, this is several integers"),
    ("N[0]", "int", 0, "expression-type", "several integers is wanted here"),
    ("window[alpha]", "int", 7, "expression-type", "an integer is wanted here"),
    ("x + 1", "int", 0, "expression-type", "tensor `x` is no value"),
    ("T + 1", "int", 0, "expression-type", "sizeof(T) is its bytes"),
    ("N if 3 else 2", "int", 5, "expression-type", "a bool is wanted here"),
    ("N if flag else true", "int", 15, "expression-type", "an integer is wanted here"),
    ("broadcast(A, B)", "int", 0, "expression-type", "stands only under prod()"),
    ("prod(broadcast(A, N))", "int", 18, "expression-type", "the name of a pack"),
    ("prod(N)", "int", 5, "expression-type", "several integers is wanted here"),
    ("len(N)", "int", 4, "expression-type", "several integers is wanted here"),
    ("numel(N)", "int", 6, "expression-type", "the name of a tensor is wanted"),
    ("stride(ys, 0)", "int", 7, "expression-type", "`ys` is a list"),
    ("sizeof(x)", "int", 7, "expression-type", "sizeof takes a type variable"),
    ("aligned(0, x)", "bool", 8, "expression-type", "a number of bytes above 0"),
    ("min(N, M)", "bool", 0, "expression-type", "a bool is wanted"),
    ("min(N)", "int", 4, "expression-type", "several integers is wanted"),
    ("min()", "int", 0, "expression-arity", "`min` takes 2 arguments or more, not 0"),
    ("ceil_div(N)", "int", 0, "expression-arity", "`ceil_div` takes 2 arguments, not 1"),
    ("numel(x, y)", "int", 0, "expression-arity", "`numel` takes 1 argument, not 2"),
    ("same_shape(x)", "bool", 0, "expression-arity", "`same_shape` takes 2 arguments or more"),
    ("aligned(16)", "bool", 0, "expression-arity", "`aligned` takes 2 arguments or more"),
    ("act == 'rleu'", "bool", 7, "expression-word", "`act` has no value 'rleu'"),
    ("window[2]", "int", 7, "expression-index", "`window` has 2 values"),
    ("window[-3]", "int", 7, "expression-index", "`window` has 2 values"),
    ("lr > 0", "bool", 0, "expression-scalar", "scalar `lr` may lie on the device"),
    ("V > 0", "bool", 0, "expression-varies", "only sum(V) has a value"),
    ("sum(N)", "int", 4, "expression-varies", "`N` does not vary over a list"),
    ("N == N", "bool", 2, "expression-constant", "both sides of `==` are the same"),
    ("act == 'relu' and N > 1 and act == 'none'", "bool", 32, "expression-constant", "is never so"),
    ("flag or (act != 'relu' or 'none' != act)", "bool", 33, "expression-constant", "is always so"),
    ("a" * 3000, "int", 0, "expression-name", "`aaaa"),
]  # fmt: skip

ATTRIBUTES_ONLY = [
    ("N > 0 and flag", 0, "`N` is a size"),
    ("numel(x) > 0", 0, "not numel()"),
    ("flag or same_shape(x, y)", 8, "not same_shape()"),
    ("len(A) == 2", 4, "`A` is a size"),
]


@pytest.mark.promise("TABLE-expression-faults")
def test_faults(driver: Path) -> None:
    """Each mistake is one fault, at the column where it is."""
    asked = [["expr", kind, "all", text] for text, kind, *_ in FAULTS]
    answers = languages.ask(driver, [*ROW, *asked])[len(ROW) :]
    for (text, kind, at, identifier, message), answer in zip(FAULTS, answers, strict=True):
        assert len(answer.faults) == 1, (text, answer)
        column, found, said = answer.faults[0]
        start = len(f"expr\t{kind}\tall\t") + 1
        # Where a tree gets too heavy is known to the operator, not further.
        close = (
            abs(column - start - at) < 200
            if identifier == "expression-size"
            else column == start + at
        )
        assert close, (text, column - start, answer)
        assert found == identifier, (text, answer)
        assert message in said, (text, answer)


@pytest.mark.promise("TABLE-expression-faults")
def test_conditions_on_attributes_alone(driver: Path) -> None:
    asked = [["expr", "bool", "attributes", text] for text, *_ in ATTRIBUTES_ONLY]
    fine = ["expr\tbool\tattributes\tflag and present(z) or act == 'relu' and window[0] > k"]
    answers = languages.ask(driver, [*ROW, *fine, *asked])[len(ROW) :]
    assert not answers[0].faults
    for (text, at, message), answer in zip(ATTRIBUTES_ONLY, answers[1:], strict=True):
        assert answer.ids == ["expression-attributes-only"], (text, answer)
        column, _, said = answer.faults[0]
        assert column == len("expr\tbool\tattributes\t") + 1 + at, (text, answer)
        assert message in said, (text, answer)


def test_all_faults_of_one_expression_are_told(driver: Path) -> None:
    answers = languages.ask(driver, [*ROW, "expr\tbool\tall\tnope > 1 and N + flag == 2 or lr"])
    assert answers[-1].ids == ["expression-name", "expression-type", "expression-scalar"]


def test_suggestions(driver: Path) -> None:
    texts = {"alpa": "alpha", "numle(x)": "numel", "act == 'geul'": "gelu", "numel(yss)": "ys"}
    answers = languages.ask(driver, [*ROW, *(f"expr\tint\tall\t{text}" for text in texts)])
    for wanted, answer in zip(texts.values(), answers[len(ROW) :], strict=True):
        assert f"did you mean `{wanted}`?" in answer.notes, answer


NORMAL = {
    "2*N+ 1": "2 * N + 1",
    "((N))": "N",
    "(N + 1) * 2": "(N + 1) * 2",
    "N + (1 * 2)": "N + 1 * 2",
    "N - (M - 1)": "N - (M - 1)",
    "(N - M) - 1": "N - M - 1",
    "-(5)": "-5",
    "--5": "--5",
    "-(-N)": "--N",
    "-(N + 1)": "-(N + 1)",
    "0x10": "16",
    "-9223372036854775808": "-9223372036854775808",
    "N if flag else (M if flag else 1)": "N if flag else M if flag else 1",
    "(N if flag else M) if flag else 1": "(N if flag else M) if flag else 1",
    "window[ -1 ]": "window[-1]",
    "min( N,M )": "min(N, M)",
}
NORMAL_BOOL = {
    "1 < N < 4": "1 < N and N < 4",
    "(1 < N) == (M < 4)": "(1 < N) == (M < 4)",
    "not (flag and true)": "not (flag and true)",
    "not flag and true": "not flag and true",
    "flag and (true or flag)": "flag and (true or flag)",
    "flag or (true and flag)": "flag or true and flag",
    'act == "relu"': "act == 'relu'",
    "alpha < 1e-5": "alpha < 1e-05",
    "alpha < 100000000000000000000.0": "alpha < 1e+20",
}


def test_text_is_normal(driver: Path) -> None:
    asked = [["expr", "int", "all", text] for text in NORMAL]
    asked += [["expr", "bool", "all", text] for text in NORMAL_BOOL]
    answers = languages.ask(driver, [*ROW, *asked])[len(ROW) :]
    for wanted, answer in zip([*NORMAL.values(), *NORMAL_BOOL.values()], answers, strict=True):
        assert answer["text"] == wanted
        assert len(answer.lines) == 4, answer


USES = {
    "1 + 2 > k": "call bad",
    "true": "",
    "present(z)": "scope",
    "flag": "call",
    "N > 1": "call",
    "aligned(16, x)": "scope",
    "stride(x, 0) == 1": "scope bad",
    "len(A) == 2": "scope",
}


def test_uses(driver: Path) -> None:
    """Locals that an expression's C does not use are not written."""
    answers = languages.ask(driver, [*ROW, *(f"expr\tbool\tall\t{text}" for text in USES)])
    for wanted, answer in zip(USES.values(), answers[len(ROW) :], strict=True):
        assert f"uses {wanted}".strip() in answer.lines, answer


def test_a_dim_named_bad_is_no_use_of_bad(driver: Path) -> None:
    row = ["type\tT\tf32", "arg\tx\tT\t-\tbad scope", "shapes"]
    answers = languages.ask(driver, [*row, "expr\tbool\tall\tbad < scope"])
    assert answers[-1]["c"] == "call->bad < call->scope"
    assert "uses call" in answers[-1].lines


def test_runtime_by_itself(runtime: ModuleType) -> None:
    """What trees do not reach: shapes, and orders of axes."""
    assert runtime.broadcast((2, 1), (3,), None) == (2, 3)
    assert runtime.broadcast() == ()
    with pytest.raises(ArithmeticError):
        runtime.broadcast((2,), (3,))
    assert runtime.broadcast((0,), (1,)) == (0,)
    assert runtime.reduced((2, 3, 4), (0, 2)) == (3,)
    assert runtime.reduced((2, 3, 4), (0, 2), True) == (1, 3, 1)
    assert runtime.permuted((2, 3, 4), (2, 0, 1)) == (4, 2, 3)
    with pytest.raises(ArithmeticError):
        runtime.permuted((2, 3, 4), (0, 0, 1))
    for perm in ((0,), (2, 0, 1), (3, 1, 0, 2)):
        assert tuple(perm[i] for i in runtime.inverse(perm)) == tuple(range(len(perm)))
    assert runtime.prod((2**62, 4, 0)) == 0
    with pytest.raises(ArithmeticError):
        runtime.aligned(0)
