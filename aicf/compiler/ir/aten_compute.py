"""Ops of ATen that are said by several rows, or by a row under another name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch

from aicf.compiler.ir.aten import Import, Word, Words, known
from aicf.compiler.ir.aten_views import t
from aicf.compiler.ir.emit import tensor
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.pattern import Mismatch
from aicf.dim import Size, product

WORDS: Final = Words()


# ---- arithmetic under another name ------------------------------------------------------------


def _with_number(name: str) -> Word:
    def call(at: Import, x: Value, number: Any, *rest: Any) -> Any:
        return at.call(name, x, number, *rest)

    return call


for _name in ("add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar"):
    WORDS[_name] = _with_number(_name.replace("Scalar", "Tensor"))


@WORDS.enter("rsub.Scalar")
def rsub(at: Import, x: Value, number: Any, alpha: Any = 1) -> Any:
    if alpha != 1:
        raise Mismatch(f"alpha is {alpha}")
    return at.call("add.Tensor", at.call("neg.default", x), number)


@WORDS.enter("pow.Tensor_Scalar")
def power(at: Import, x: Value, exponent: Any) -> Any:
    if exponent in (2, 3):
        square = at.call("mul.Tensor", x, x)
        return square if exponent == 2 else at.call("mul.Tensor", square, x)
    if exponent in (0.5, -0.5):
        root = at.call("sqrt.default", x)
        return root if exponent == 0.5 else reciprocal(at, root)
    raise Mismatch(f"a power of {exponent}")


@WORDS.enter("reciprocal.default")
def reciprocal(at: Import, x: Value) -> Any:
    return at.call("div.Tensor", at.emit.filled(1, tensor(x)), x)


@WORDS.enter("rsqrt.default")
def rsqrt(at: Import, x: Value) -> Any:
    return power(at, x, -0.5)


@WORDS.enter("sum.default")
def total(at: Import, x: Value) -> Any:
    return at.call("sum.dim_IntList", x, [])


@WORDS.enter("mean.default")
def mean(at: Import, x: Value) -> Any:
    return at.call("mean.dim", x, [])


@WORDS.enter("_softmax.default")
def softmax(at: Import, x: Value, dim: int, half_to_float: bool = False) -> Any:
    return at.call("softmax.int", x, dim)


@WORDS.enter("_log_softmax.default")
def log_softmax(at: Import, x: Value, dim: int, half_to_float: bool = False) -> Any:
    return at.call("log_softmax.int", x, dim)


# ---- products ---------------------------------------------------------------------------------


@WORDS.enter("mm.default", "bmm.default")
def mm(at: Import, a: Value, b: Value) -> Any:
    return at.call("matmul.default", a, b)


@WORDS.enter("linear.default")
def linear(at: Import, x: Value, weight: Value, bias: Value | None = None) -> Any:
    """x @ weight' + bias."""
    found = at.call("matmul.default", x, t(at, weight))
    return found if bias is None else at.call("add.Tensor", found, bias)


@WORDS.enter("addmm.default")
def addmm(
    at: Import, bias: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1
) -> Any:  # fmt: skip
    if beta != 1 or alpha != 1:
        raise Mismatch(f"beta is {beta}, alpha {alpha}")
    return at.call("add.Tensor", at.call("matmul.default", a, b), bias)


@WORDS.enter("scaled_dot_product_attention.default")
def attention(
    at: Import, q: Value, k: Value, v: Value, mask: Value | None = None, dropout: float = 0.0,
    causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """softmax(q @ k' * scale + mask) @ v."""
    if dropout != 0.0 or enable_gqa:
        raise Mismatch("dropout or grouped heads")
    if scale is None:
        scale = 1 / math.sqrt(known(q, tensor(q).rank - 1))
    scores = at.call("matmul.default", at.call("mul.Tensor", q, scale), at.emit.transpose(k))
    if causal:
        mask = _causal(at, scores)
    if mask is not None:
        scores = at.call("add.Tensor", scores, mask)
    return at.call("matmul.default", at.call("softmax.int", scores, -1), v)


def _causal(at: Import, scores: Value) -> Value:
    """-inf above the diagonal."""
    rank = tensor(scores).rank
    rows, columns = known(scores, rank - 2), known(scores, rank - 1)
    kept = torch.ones(rows, columns, dtype=torch.bool).tril()
    mask = torch.zeros(rows, columns).masked_fill_(~kept, -math.inf)
    return at.constant("causal", mask.to(tensor(scores).device, at.dtype(scores)))


# ---- convolutions, pooling, norms -------------------------------------------------------------


@WORDS.enter("convolution.default")
def convolution(
    at: Import, x: Value, w: Value, bias: Value | None, stride: Any, pad: Any, dilation: Any,
    transposed: bool, output_pad: Any, groups: int,
) -> Any:  # fmt: skip
    if transposed or tensor(x).rank != 4:
        raise Mismatch("it is transposed, or of other than two dims")
    return at.call("conv2d.default", x, w, bias, stride, pad, dilation, groups)


@WORDS.enter("layer_norm.default")
def layer_norm(
    at: Import, x: Value, shape: Sequence[Size], weight: Any = None, bias: Any = None,
    eps: float = 1e-5, enable: bool = True,
) -> Any:  # fmt: skip
    """Over several dims, as one."""
    if len(shape) < 2:
        raise Mismatch(f"its shape is {list(shape)}")
    whole = tensor(x).shape
    flat = at.emit.reshape(x, [*whole[: len(whole) - len(shape)], product(shape)])
    given = [at.emit.reshape(v, [product(shape)]) if v else None for v in (weight, bias)]
    found = at.call("layer_norm.default", flat, [product(shape)], *given, eps)
    return at.emit.reshape(found, whole)


@WORDS.enter("group_norm.default")
def group_norm(
    at: Import, x: Value, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    enable: bool = True,
) -> Any:  # fmt: skip
    """Groups of channels as rows; weight and bias by channel."""
    shape = tensor(x).shape
    rest: Any = product(shape[1:])
    flat = at.emit.reshape(x, [shape[0], groups, rest // groups])
    found = at.call("layer_norm.default", flat, [rest // groups], None, None, eps)
    found = at.emit.reshape(found, shape)
    for name, given in (("mul.Tensor", weight), ("add.Tensor", bias)):
        if given is not None:
            by_channel = at.emit.reshape(given, [shape[1], *(1 for _ in shape[2:])])
            found = at.call(name, found, by_channel)
    return found


@WORDS.enter("rms_norm.default")
def rms_norm(
    at: Import, x: Value, shape: Sequence[Size], weight: Any = None, eps: float | None = None
) -> Any:
    """Its eps is the dtype's own where none is given."""
    if eps is not None:
        raise Mismatch(f"its shape is {list(shape)}")
    return at.call("rms_norm.default", x, shape, weight, torch.finfo(at.dtype(x)).eps)


@WORDS.enter("max_pool2d.default")
def max_pool2d(
    at: Import, x: Value, window: Sequence[int], stride: Sequence[int] = (), *rest: Any
) -> Any:  # fmt: skip
    """Its stride is the window where none is given."""
    name = "max_pool2d_with_indices.default"
    return at.call(name, x, window, list(stride) or window, *rest)[0]


@WORDS.enter("adaptive_avg_pool2d.default", "_adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(at: Import, x: Value, size: Sequence[int]) -> Any:
    """Windows of one size, where the output divides the input."""
    high, wide = (known(x, a) for a in (-2 % tensor(x).rank, -1 % tensor(x).rank))
    if high % size[0] or wide % size[1] or tensor(x).rank != 4:
        raise Mismatch(f"windows of {high} x {wide} for {tuple(size)} differ in size")
    window = [high // size[0], wide // size[1]]
    return at.call("avg_pool2d.default", x, window, window)


@WORDS.enter("_native_batch_norm_legit_no_training.default")
def batch_norm_eval(
    at: Import, x: Value, weight: Any, bias: Any, mean: Value, var: Value, momentum: float,
    eps: float,
) -> Any:  # fmt: skip
    call = (x, weight, bias, mean, var, False, momentum, eps, False)
    return [at.call("batch_norm.default", *call), None, None]


@WORDS.enter("native_layer_norm.default")
def native_layer_norm(
    at: Import, x: Value, shape: Sequence[Size], weight: Any, bias: Any, eps: float
) -> Any:  # fmt: skip
    return [at.call("layer_norm.default", x, shape, weight, bias, eps), None, None]
