"""What each rule matches and what it just does not, for `proof.prove`: by the rule's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aicf.compiler.ir.emit import tensor
from aicf.compiler.ir.node import Value
from aicf.compiler.passes.proof import Draw, Example


def give_back(d: Draw, x: Value, broken: str = "") -> None:
    """In memory of its own; of what stands for an entry, where that is to be broken, as it is."""
    d.output(x if broken == SHARED else d.op("tanh", x))


SHARED = "shares-memory"


def swapped(d: Draw, a: Value, b: Value) -> Sequence[Value]:
    return (a, b) if d.coin() else (b, a)


def filled(d: Draw, number: float, *shape: int, dtype: str | None = None) -> Value:
    """A number everywhere: a constant of the shape, or one of rank 0 that is shown so."""
    if d.coin() or not shape:
        return d.constant(*shape, fill=number, dtype=dtype)
    return d.op("view.expand", d.constant(fill=number, dtype=dtype), shape=shape)


def tiny(d: Draw) -> float:
    """A factor whose square a sum's dtype does not hold in full precision."""
    return 1e-200 if d.sums == "f64" else 1e-30


# ---- views ---------------------------------------------------------------------------------------


def same_view(d: Draw, broken: str) -> None:
    """Or of another type: by one size, the strides alone, or the order of the axes."""
    m, n = d.sizes(2, 2)
    x = d.tensor(m, n)
    views: list[tuple[str, dict[str, Any]]] = [
        ("view.permute", {"perm": (0, 1)}),
        ("view.reshape", {"shape": (m, n)}),
        ("view.expand", {"shape": (m, n)}),
        ("view.slice", {"axis": 0, "start": 0, "stop": m, "step": 1}),
    ]
    if broken == "another-type":
        first = d.op("view.slice", x, axis=0, start=0, stop=1, step=1)
        views = [
            ("view.permute", {"perm": (1, 0)}),
            ("view.reshape", {"shape": d.choice(((m * n,), (m, n, 1), (1, m, n)))}),
            ("view.expand", {"shape": (d.size(), m, n)}),
            ("view.slice", {"axis": d.choice((0, 1)), "start": 0, "stop": 1, "step": 1}),
            ("view.slice", {"axis": 0, "start": 1, "stop": m, "step": 1}),
            ("view.slice", {"axis": 0, "start": 0, "stop": m, "step": 2}),
            ("view.expand", {"x": first, "shape": (m, n)}),
        ]
    word, attrs = d.choice(views)
    give_back(d, d.op(word, attrs.pop("x", x), **attrs))


def twice(d: Draw, word: str, x: Value, broken: str, *attrs: dict[str, Any]) -> None:
    """`another-view`: between the two lies one of another word, or a copy."""
    inner = d.op(word, x, **attrs[0])
    if broken == "another-view":
        shape = tensor(inner).shape
        others: dict[str, dict[str, Any]] = {
            "view.permute": {"perm": tuple(range(len(shape)))},
            "view.expand": {"shape": shape},
            "view.slice": {"axis": 0, "start": 0, "stop": shape[0], "step": 1},
            "copy": {},
        }
        between = d.choice([name for name in others if name != word])
        inner = d.op(between, inner, **others[between])
    give_back(d, d.op(word, inner, **attrs[1]))


def permute_twice(d: Draw, broken: str) -> None:
    x = d.tensor(*d.sizes(3, 2))
    p, q = ([*d.random.sample(range(3), 3)] for _ in range(2))
    twice(d, "view.permute", x, broken, {"perm": p}, {"perm": q})


def reshape_twice(d: Draw, broken: str) -> None:
    m, n = d.sizes(2)
    twice(d, "view.reshape", d.tensor(m, n), broken, {"shape": (m * n,)}, {"shape": (n, m)})


def expand_twice(d: Draw, broken: str) -> None:
    m, n = d.sizes(2)
    shapes = {"shape": (m, n)}, {"shape": (d.size(), m, n)}
    twice(d, "view.expand", d.tensor(1, n), broken, *shapes)


def slice_twice(d: Draw, broken: str) -> None:
    """`may-be-empty`: nothing of every other one, whose last cannot be said."""
    sizes = d.sizes(2, 3, 12)
    axis = d.choice((0, 1))
    x = d.tensor(*sizes)
    for i in range(2):
        axis = 1 - axis if i and broken == "another-axis" else axis
        n = sizes[axis]
        start = d.size(0, n - 1)
        stop, step = d.size(start + 1, n), d.size(1, 3)
        if broken == "may-be-empty":
            start, stop, step = (d.size(0, n),) * 2 + (step,) if i else (0, n, d.size(2, 3))
        x = d.op("view.slice", x, axis=axis, start=start, stop=stop, step=step)
        sizes[axis] = -(-(stop - start) // step)
    give_back(d, x)


# ---- elementwise ---------------------------------------------------------------------------------


def double_negation(d: Draw, broken: str) -> None:
    give_back(d, d.op("neg", d.op("neg", d.tensor(*d.sizes(2)))), broken)


def relu_twice(d: Draw, broken: str) -> None:
    once = d.op("relu", d.tensor(*d.sizes(2)))
    if broken:
        d.output(once)
    give_back(d, d.op("relu", once), broken)


def minus_negative(d: Draw, broken: str) -> None:
    shape = d.sizes(2)
    a, b = d.tensor(*shape), d.op("neg", d.tensor(*d.choice((shape, shape[1:]))))
    give_back(d, d.op("add", *swapped(d, a, b)) if d.coin() else d.op("sub", a, b))


def times_one(d: Draw, broken: str) -> None:
    shape = d.sizes(2)
    x = d.tensor(*shape)
    match d.choice(("mul", "div", "scale", "dropout")):
        case "mul":
            x = d.op("mul", *swapped(d, x, filled(d, 1, *d.choice((shape, shape[1:], [])))))
        case "div":
            x = d.op("div", x, filled(d, 1, *d.choice((shape, shape[1:], []))))
        case "scale":
            x = d.op("scale", x, factor=1)
        case _:
            x = d.op("dropout", x, seed=d.size(), offset=0, p=0.0)
    give_back(d, x, broken)


def plus_zero(d: Draw, broken: str) -> None:
    """Of integers there is but one zero."""
    shape = d.sizes(2)
    d.dtype = d.dtype if broken or d.coin() else d.choice(("i32", "i64", "i8"))
    x, is_sum = d.tensor(*shape), d.coin()
    zero = 0.0 if d.dtype[0] != "i" else 0
    if d.dtype[0] != "i" and is_sum == (broken != "signed-zero"):
        zero = -0.0
    number = filled(d, zero, *d.choice((shape, [])))
    x = d.op("add", *swapped(d, x, number)) if is_sum else d.op("sub", x, number)
    d.output(x if broken == SHARED else d.op("add", x, x))


def cast_of_cast(d: Draw, broken: str) -> None:
    given, between, to = {
        "narrows": [("f32", "f16", "f32"), ("f64", "f32", "bf16"), ("i32", "i8", "i64")],
        "wraps": [("i32", "f64", "i8"), ("i16", "f32", "u8"), ("u8", "f32", "i8")],
        "": [
            ("f16", "f32", "bf16"), ("bf16", "f32", "f64"), ("f32", "f64", "f32"),
            ("i8", "i32", "f32"), ("i16", "f32", "i32"), ("bool", "u8", "f32"), ("f32", "", "f32"),
        ],
    }[broken][d.size(0, 2 if broken else 6)]  # fmt: skip
    x = d.tensor(*d.sizes(2), dtype=given)
    x = d.op("cast", x, dtype=between) if between else x
    x = d.op("cast", x, dtype=to)
    d.output(d.op("add", x, x))


def dense_permutes(d: Draw, broken: str) -> None:
    x = d.tensor(*d.sizes(3))
    if broken or d.coin():
        give_back(d, d.op("copy", x), broken)
        return
    p, q = ([*d.random.sample(range(3), 3)] for _ in range(2))
    give_back(d, d.op("permute", d.op("permute", x, perm=p), perm=q))


def number_to_scale(d: Draw, broken: str) -> None:
    m, n = d.sizes(2, 2)
    x = d.tensor(*d.choice(((1, n), (n,), (m, 1))) if broken == "broadcasts" else (m, n))
    shape = (m, n) if broken == "broadcasts" else d.choice(((m, n), (n,), ()))
    if broken == "rounds" or d.coin():
        factor = d.choice((3.0, 0.75, 10.0) if broken == "rounds" else (2.0, -0.5, 4.0))
        x = d.op("div", x, filled(d, factor, *shape))
    else:
        x = d.op("mul", *swapped(d, x, filled(d, d.choice((0.5, 3.0, -1.25)), *shape)))
    give_back(d, x)


def scale_of_scale(d: Draw, broken: str) -> None:
    x = d.tensor(*d.sizes(2))
    first, second = (d.choice((0.5, -3.0, 1.25, 0)) for _ in range(2))
    if broken == "out-of-range":
        x = d.op("scale", d.op("scale", x, factor=tiny(d)), factor=tiny(d))
    elif broken:
        late, first = d.number(d.sums), first or 1
        pair = (late, first) if d.coin() else (first, late)
        x = d.op("scale", d.op("scale", x, factor=pair[0]), factor=pair[1])
    else:
        kind = d.size(0, 2)
        x = d.op("neg", x) if kind == 0 else d.op("scale", x, factor=first)
        x = d.op("neg", x) if kind == 1 else d.op("scale", x, factor=second)
    give_back(d, x)


def log_of_softmax(d: Draw, broken: str) -> None:
    soft = d.op("softmax", d.tensor(*d.sizes(2)), axis=d.choice((0, 1, -1)))
    give_back(d, d.op("log", soft))


# ---- products ------------------------------------------------------------------------------------


class Product:
    """Operands of a product of a drawn size."""

    def __init__(self, d: Draw) -> None:
        self.d = d
        self.m, self.k, self.n = d.sizes(3, 2)
        self.lead = (2,) if d.coin() else ()
        self.shape = (*self.lead, self.m, self.n)

    @property
    def a(self) -> Value:
        return self.d.tensor(*self.lead, self.m, self.k)

    @property
    def b(self) -> Value:
        return self.d.tensor(self.k, self.n)

    @property
    def row(self) -> Value:
        return self.d.tensor(self.n)

    @property
    def like(self) -> Value:
        return self.d.tensor(*self.shape)

    def op(self, **keywords: Any) -> Value:
        return self.d.op("gemm", self.a, self.b, **keywords)


def copy_into_product(d: Draw, broken: str) -> None:
    m, k, n = d.sizes(3, 2)
    is_left, is_copy = d.coin(), d.coin()
    sides = {"a": (m, k), "b": (k, n)}
    x = "a" if is_left else "b"
    shape = sides[x] if is_copy else sides[x][::-1]
    taken = d.tensor(*shape)
    dense = d.op("copy", taken) if is_copy else d.op("permute", taken, perm=(1, 0))
    other = d.tensor(*sides["b" if is_left else "a"])
    give_back(d, d.op("gemm", *((dense, other) if is_left else (other, dense))))


def scaled_operand(d: Draw, broken: str) -> None:
    m, k, n = d.sizes(3)
    keywords: dict[str, Any] = {"act": d.choice(("none", "relu", "gelu"))}
    keywords["alpha"] = tiny(d) if broken == "out-of-range" else d.choice((1.0, -0.5, 3.0))
    if d.coin():
        keywords["bias"] = d.tensor(n)
    factor: Any = d.choice((0.5, -3.0, 1.25))
    if broken:
        factor = tiny(d) if broken == "out-of-range" else d.number(d.sums)
    sides = [d.tensor(m, k), d.tensor(k, n)]
    at = d.choice((0, 1))
    sides[at] = d.op("scale", sides[at], factor=factor)
    give_back(d, d.op("gemm", *sides, **keywords))


def scale_into_product(d: Draw, broken: str) -> None:
    p = Product(d)
    keywords: dict[str, Any] = {}
    match broken:
        case "has-act":
            keywords["act"] = d.choice(("relu", "gelu"))
        case "has-bias":
            keywords["bias"] = p.row
        case "has-addend":
            keywords |= {"c": p.like, "beta": 1.0}
        case "out-of-range":
            keywords["alpha"] = tiny(d)
        case _:
            keywords["alpha"] = d.choice((1.0, -0.5, 3.0))
    product = p.op(**keywords)
    match broken:
        case "out-of-range":
            scaled = d.op("scale", product, factor=tiny(d))
        case "factor-at-run-time":
            scaled = d.op("scale", product, factor=d.number(d.sums))
        case _:
            factor = d.choice((0.5, -3.0, 1.25))
            scaled = d.op("neg", product) if d.coin() else d.op("scale", product, factor=factor)
    give_back(d, scaled)


def matmul_bias_act(d: Draw, broken: str) -> None:
    p = Product(d)
    keywords: dict[str, Any] = {"bias": p.row} if broken == "has-bias" else {}
    if broken == "has-act":
        keywords["act"] = d.choice(("relu", "gelu"))
    x = p.op(**keywords)
    if broken == "bias-not-a-row":
        give_back(d, d.op("add", *swapped(d, x, d.tensor(p.m, d.choice((1, p.n))))))
        return
    is_biased, acts = bool(broken) or d.coin(), ("relu", "gelu")
    if is_biased:
        row = p.row
        by_sum = d.coin()
        x = d.op("add", *swapped(d, x, row)) if by_sum else d.op("bias_add", x, row, axis=-1)
    if not broken and (not is_biased or d.coin()):
        x = d.op(d.choice(acts), x)
    give_back(d, x)


def product_plus(d: Draw, broken: str) -> None:
    p = Product(d)
    keywords: dict[str, Any] = {"bias": p.row} if d.coin() else {}
    if broken == "has-act":
        keywords["act"] = d.choice(("relu", "gelu"))
    if broken == "has-addend":
        keywords |= {"c": p.like, "beta": 1.0}
    c = d.tensor(*d.choice(((p.n,), (p.m, 1), (3, *p.shape)))) if broken == "broadcasts" else p.like
    c = d.op("scale", c, factor=d.choice((0.5, -2.0))) if d.coin() else c
    give_back(d, d.op("add", *swapped(d, p.op(**keywords), c)))


# ---- pooling -------------------------------------------------------------------------------------


class Pool:
    """A rectifier, a pooling of windows of two, and the gradient of both."""

    def __init__(self, d: Draw) -> None:
        self.d, self.step = d, d.choice((1, 2))
        shape = self.n, self.c, self.h, self.w = (*d.sizes(2, 1, 3), *d.sizes(2, 2, 6))
        self.r = d.op("relu", d.tensor(*shape))
        self.node = d.node("max_pool2d", self.r, window=2, stride=self.step, want=(True, True))

    @property
    def back(self) -> Value:
        rows, columns = ((size - 2) // self.step + 1 for size in (self.h, self.w))
        g, indices = self.d.tensor(self.n, self.c, rows, columns), self.node.outs[1]
        sizes = {"H": self.h, "W": self.w, "window": 2, "stride": self.step}
        return self.d.op("max_pool2d_bwd", g, indices, **sizes)


def pool_before_relu(d: Draw, broken: str) -> None:
    x = d.op("relu", d.tensor(*d.sizes(2, 1, 3), *d.sizes(2, 2, 6)))
    give_back(d, d.op("max_pool2d", x, window=2, stride=d.choice((1, 2))))


def pool_before_relu_backward(d: Draw, broken: str) -> None:
    pool = Pool(d)
    give_back(d, d.op("relu_bwd", pool.back, pool.r))
    if d.coin():
        give_back(d, pool.node.out)


def bias_of_pool(d: Draw, broken: str) -> None:
    give_back(d, d.op("bias_add_bwd", Pool(d).back, axis=1))


# ---- convolutions --------------------------------------------------------------------------------


def conv_bias(d: Draw, broken: str) -> None:
    """Not one a channel, of grouped convolutions too."""
    groups, n = d.choice((1, 4)), d.size(1, 2)
    channels = 4 * d.size(1, 2)
    had = d.tensor(channels) if broken == "has-bias" else None
    x, w = d.tensor(n, 4, 3, 3), d.tensor(channels, 4 // groups, 2, 2)
    conv = d.op("conv2d", x, w, had, groups=groups)
    if broken == "not-per-channel":
        shape = d.choice(((2,), (1, 1, 1), (channels, 2, 2), (n, channels, 1, 1), (channels, 1, 2)))
        shape = (channels, 2, 1) if shape == (1, channels, 1, 1) else shape
        give_back(d, d.op("add", *swapped(d, conv, d.tensor(*shape))))
    elif d.coin():
        give_back(d, d.op("bias_add", conv, d.tensor(channels), axis=1))
    else:
        shape = d.choice(((channels, 1, 1), (1, channels, 1, 1)))
        give_back(d, d.op("add", *swapped(d, conv, d.tensor(*shape))))


def conv_batch_norm(d: Draw, broken: str) -> None:
    d.is_positive = True  # a variance is
    d.dtype = d.choice(("f16", "bf16") if broken == "16-bits" else ("f32", "f64"))
    groups, channels = d.choice((1, 2)), 2 * d.size(1, 2)
    has = [True, d.coin(), True, True, d.coin(), d.coin()]  # w, bias, mean, var, weight, shift
    changes = d.choice([i for i, there in enumerate(has) if there])
    if broken != "weights-change":
        changes = -1

    def fixed(i: int, *shape: int) -> Value | None:
        dtype = d.dtype if i < 2 else d.sums
        return d.param(*shape, dtype=dtype, frozen=i != changes) if has[i] else None

    x = d.tensor(d.size(1, 2), 2, 3, 3)
    w = fixed(0, channels, 2 // groups, 2, 2)
    conv = d.op("conv2d", x, w, fixed(1, channels), groups=groups)
    rest = [fixed(i, channels) for i in range(2, 6)]
    give_back(d, d.op("batch_norm_eval", conv, *rest, eps=d.choice((1e-5, 1e-3))))


def product_batch_norm(d: Draw, broken: str) -> None:
    d.is_positive = True
    d.dtype = d.choice(("f16", "bf16") if broken == "16-bits" else ("f32", "f64"))
    m, k, n = d.sizes(3)
    rows = [2] if broken == "not-a-matrix" else []
    has = [True, d.coin(), True, True, d.coin(), d.coin()]  # w, bias, mean, var, weight, shift
    changes = d.choice([i for i, there in enumerate(has) if there])

    def fixed(i: int, *shape: int) -> Value | None:
        dtype, stays = d.dtype if i < 2 else d.sums, broken != "weights-change" or i != changes
        return d.param(*shape, dtype=dtype, frozen=stays) if has[i] else None

    keywords: dict[str, Any] = {"alpha": d.choice((1.0, -0.5))}
    if broken == "has-act":
        keywords["act"] = d.choice(("relu", "gelu"))
    if broken == "has-addend":
        keywords |= {"c": d.tensor(m, n), "beta": 1.0}
    w = fixed(0, n, k)
    turned = d.op("view.permute", w, perm=(1, 0)) if d.coin() and w else fixed(0, k, n)
    product = d.op("gemm", d.tensor(*rows, m, k), turned, fixed(1, n), **keywords)
    rest = [fixed(i, m if rows else n) for i in range(2, 6)]
    give_back(d, d.op("batch_norm_eval", product, *rest, eps=d.choice((1e-5, 1e-3))))


EXAMPLES: dict[str, Example] = {
    example.__name__.replace("_", "-"): example
    for example in (
        same_view, permute_twice, reshape_twice, expand_twice, slice_twice, double_negation,
        relu_twice, minus_negative, times_one, plus_zero, cast_of_cast, dense_permutes,
        number_to_scale, scale_of_scale, log_of_softmax, copy_into_product, scaled_operand,
        scale_into_product, matmul_bias_act, product_plus, pool_before_relu,
        pool_before_relu_backward, bias_of_pool, conv_bias, conv_batch_norm,
        product_batch_norm,
    )
}  # fmt: skip

# Rules that leave every bit as it is.
EXACT = frozenset(
    (
        "same-view", "permute-twice", "reshape-twice", "expand-twice", "slice-twice",
        "double-negation", "relu-twice", "minus-negative", "times-one", "plus-zero",
        "cast-of-cast", "dense-permutes", "number-to-scale",
    )
)  # fmt: skip

# Conditions of the engine's that an example can break.
ALSO: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("double-negation", "relu-twice", "times-one", "plus-zero", "dense-permutes"), (SHARED,)
)
