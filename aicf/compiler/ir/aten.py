"""Ops of ATen that are no row: views, and what is said by several rows.

Each word takes the import and the op's arguments, tensors as values of the graph, and gives what
the op gives. It calls other ops of ATen by `at.call`, so that rows are found by what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from aicf.compiler.ir.emit import Emitter, tensor
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.pattern import Mismatch
from aicf.dim import Size, product


class Import(Protocol):
    """What words are given."""

    emit: Emitter

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any: ...
    def constant(self, name: str, data: Any) -> Value: ...
    def dtype(self, value: Value) -> Any: ...


Word = Callable[..., Any]
Function = TypeVar("Function", bound=Word)
WORDS: Final[dict[str, Word]] = {}


def word(*names: str) -> Callable[[Function], Function]:
    """Enters a function as what these ops of ATen are."""

    def enter(function: Function) -> Function:
        WORDS.update(dict.fromkeys(names, function))
        return function

    return enter


def _axis(x: Value, axis: int) -> int:
    return axis % max(tensor(x).rank, 1)


# ---- what stays as it is ----------------------------------------------------------------------


SAME: Final = frozenset(
    ("alias.default", "detach.default", "clone.default", "contiguous.default")
    + ("lift_fresh_copy.default", "dropout.default", "feature_dropout.default")
)  # also where a row copies


@word(*SAME)
def same(at: Import, x: Value, p: float = 0.0, train: bool = False, **_: Any) -> Value:
    """Values do not change, so that a copy is the value."""
    if train is True and p != 0.0:
        raise Mismatch("it draws random numbers: import the module in eval mode")
    return x


@word("to.dtype", "_to_copy.default", "type_as.default", "to.dtype_layout", "to.device")
def to(at: Import, x: Value, *args: Any, **kwargs: Any) -> Value:
    dtype = kwargs.get("dtype", args[0] if args else None)
    if isinstance(dtype, Value):
        dtype = dtype.type.dtype
    if dtype is None:
        return x
    from aicf_rt.torch_kernels import NAMES

    return at.emit.cast(x, NAMES.get(dtype, str(dtype)))


@word("_assert_tensor_metadata.default")
def asserted(at: Import, x: Value, *_: Any, **__: Any) -> None:
    """Of dtypes and devices, which types of the graph say."""


# ---- views ------------------------------------------------------------------------------------


@word("view.default", "reshape.default", "_unsafe_view.default")
def view(at: Import, x: Value, shape: Sequence[Size]) -> Value:
    known: Any = product([n for n in shape if n != -1])
    total = tensor(x).numel
    return at.emit.reshape(x, [total // known if n == -1 else n for n in shape])


@word("flatten.using_ints")
def flatten(at: Import, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    shape, first, last = tensor(x).shape, _axis(x, start_dim), _axis(x, end_dim)
    return at.emit.reshape(
        x, [*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :]]
    )


@word("unflatten.int")
def unflatten(at: Import, x: Value, dim: int, sizes: Sequence[Size]) -> Value:
    shape, axis = tensor(x).shape, _axis(x, dim)
    return view(at, x, [*shape[:axis], *_filled_in(shape[axis], sizes), *shape[axis + 1 :]])


def _filled_in(total: Any, sizes: Sequence[Size]) -> list[Size]:
    known: Any = product([n for n in sizes if n != -1])
    return [total // known if n == -1 else n for n in sizes]


@word("permute.default")
def permute(at: Import, x: Value, dims: Sequence[int]) -> Value:
    return at.emit.permute(x, [_axis(x, d) for d in dims])


@word("transpose.int")
def transpose(at: Import, x: Value, dim0: int, dim1: int) -> Value:
    perm = list(range(tensor(x).rank))
    a, b = _axis(x, dim0), _axis(x, dim1)
    perm[a], perm[b] = perm[b], perm[a]
    return at.emit.permute(x, perm)


@word("t.default", "numpy_T.default", "mT.default")
def t(at: Import, x: Value) -> Value:
    return x if tensor(x).rank < 2 else at.emit.transpose(x)


@word("unsqueeze.default")
def unsqueeze(at: Import, x: Value, dim: int) -> Value:
    return at.emit.unsqueeze(x, dim % (tensor(x).rank + 1))


@word("squeeze.dim", "squeeze.dims", "squeeze.default")
def squeeze(at: Import, x: Value, dim: int | Sequence[int] | None = None) -> Value:
    rank = tensor(x).rank
    given = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [a for a in (_axis(x, d) for d in given) if tensor(x).shape[a] == 1]
    return at.emit.squeeze(x, axes)


@word("expand.default")
def expand(at: Import, x: Value, size: Sequence[Size], implicit: bool = False) -> Value:
    shape = tensor(x).shape
    lead = len(size) - len(shape)
    return at.emit.expand(x, [shape[i - lead] if n == -1 else n for i, n in enumerate(size)])


@word("expand_as.default")
def expand_as(at: Import, x: Value, other: Value) -> Value:
    return at.emit.expand(x, tensor(other).shape)


@word("slice.Tensor")
def slice_(
    at: Import, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:  # fmt: skip
    axis = _axis(x, dim)
    size = tensor(x).shape[axis]
    return at.emit.slice(x, axis, _bound(start, size, 0), _bound(end, size, size), step)


def _bound(index: Any, size: Any, default: Any) -> Any:
    """An index within an axis, counted from the front."""
    if index is None or (isinstance(index, int) and index >= 2**62):
        return default
    if isinstance(index, int) and index < 0:
        index = index + size
    if isinstance(index, int) and isinstance(size, int):
        return min(max(index, 0), size)
    return index


@word("narrow.default")
def narrow(at: Import, x: Value, dim: int, start: Any, length: Any) -> Value:
    return at.emit.slice(x, _axis(x, dim), start, start + length)


@word("select.int")
def select(at: Import, x: Value, dim: int, index: Any) -> Value:
    axis = _axis(x, dim)
    size = tensor(x).shape[axis]
    found = index + size if isinstance(index, int) and index < 0 else index
    return at.emit.select(x, axis, found)


@word("unbind.int")
def unbind(at: Import, x: Value, dim: int = 0) -> list[Value]:
    axis = _axis(x, dim)
    return [at.emit.select(x, axis, i) for i in range(_known(x, axis))]


@word("split.Tensor")
def split(at: Import, x: Value, size: int, dim: int = 0) -> list[Value]:
    total = _known(x, _axis(x, dim))
    sizes = [min(size, total - i) for i in range(0, total, size)]
    return split_with_sizes(at, x, sizes, dim)


@word("split_with_sizes.default", "split.sizes")
def split_with_sizes(at: Import, x: Value, sizes: Sequence[Size], dim: int = 0) -> list[Value]:
    axis = _axis(x, dim)
    found: list[Value] = []
    start: Any = 0
    for size in sizes:
        found.append(at.emit.slice(x, axis, start, start + size))
        start = start + size
    return found


@word("chunk.default")
def chunk(at: Import, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    return split(at, x, math.ceil(_known(x, _axis(x, dim)) / chunks), dim)


def _known(x: Value, axis: int) -> int:
    size = tensor(x).shape[axis]
    if not isinstance(size, int):
        raise Mismatch(f"how many results it has depends on {size}")
    return size


@word("constant_pad_nd.default")
def constant_pad(at: Import, x: Value, pad: Sequence[int], value: Any = 0) -> Any:
    """By two numbers for each dim from the last on, before and behind it."""
    if any(n < 0 for n in pad):
        raise Mismatch(f"it cuts off, by {list(pad)}")
    for i in range(len(pad) // 2):
        axis = tensor(x).rank - 1 - i
        around = [_block(at, x, axis, n, value) for n in pad[2 * i : 2 * i + 2]]
        parts = [*around[0], x, *around[1]]
        x = at.call("cat.default", parts, axis) if len(parts) > 1 else x
    return x


def _block(at: Import, x: Value, axis: int, size: int, value: Any) -> list[Value]:
    """A tensor of one number beside x; none of size 0."""
    shape = list(tensor(x).shape)
    shape[axis] = size
    one = replace(tensor(x), shape=tuple(shape), strides=None)
    return [at.emit.filled(value, one)] if size else []


@word("stack.default")
def stack(at: Import, tensors: Sequence[Value], dim: int = 0) -> Value:
    axis = dim % (tensor(tensors[0]).rank + 1)
    found: Value = at.call("cat.default", [at.emit.unsqueeze(x, axis) for x in tensors], axis)
    return found


# ---- tensors of one number, sizes -------------------------------------------------------------


@word("sym_size.int")
def sym_size(at: Import, x: Value, dim: int) -> Size:
    return tensor(x).shape[_axis(x, dim)]


@word("zeros.default")
def zeros(at: Import, size: Sequence[Size], **options: Any) -> Value:
    return full(at, size, 0, **options)


@word("ones.default")
def ones(at: Import, size: Sequence[Size], **options: Any) -> Value:
    return full(at, size, 1, **options)


@word("full.default")
def full(at: Import, size: Sequence[Size], value: Any, **options: Any) -> Value:
    from aicf_rt.torch_kernels import NAMES

    dtype = NAMES.get(options.get("dtype"), "f32")
    device = str(options.get("device") or "cpu")
    return at.emit.expand(at.emit.number(value, dtype, device), size)


@word("zeros_like.default")
def zeros_like(at: Import, x: Value, **_: Any) -> Value:
    return at.emit.filled(0, tensor(x))


# ---- arithmetic under another name ------------------------------------------------------------


def _with_number(name: str) -> Word:
    def call(at: Import, x: Value, number: Any, *rest: Any) -> Any:
        return at.call(name, x, number, *rest)

    return call


for _name in ("add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar"):
    WORDS[_name] = _with_number(_name.replace("Scalar", "Tensor"))


@word("rsub.Scalar")
def rsub(at: Import, x: Value, number: Any, alpha: Any = 1) -> Any:
    if alpha != 1:
        raise Mismatch(f"alpha is {alpha}")
    return at.call("add.Tensor", at.call("neg.default", x), number)


@word("pow.Tensor_Scalar")
def power(at: Import, x: Value, exponent: Any) -> Any:
    if exponent in (2, 3):
        square = at.call("mul.Tensor", x, x)
        return square if exponent == 2 else at.call("mul.Tensor", square, x)
    if exponent in (0.5, -0.5):
        root = at.call("sqrt.default", x)
        return root if exponent == 0.5 else reciprocal(at, root)
    raise Mismatch(f"a power of {exponent}")


@word("reciprocal.default")
def reciprocal(at: Import, x: Value) -> Any:
    return at.call("div.Tensor", at.emit.filled(1, tensor(x)), x)


@word("rsqrt.default")
def rsqrt(at: Import, x: Value) -> Any:
    return power(at, x, -0.5)


@word("sum.default")
def total(at: Import, x: Value) -> Any:
    return at.call("sum.dim_IntList", x, [])


@word("mean.default")
def mean(at: Import, x: Value) -> Any:
    return at.call("mean.dim", x, [])


@word("_softmax.default")
def softmax(at: Import, x: Value, dim: int, half_to_float: bool = False) -> Any:
    return at.call("softmax.int", x, dim)


@word("_log_softmax.default")
def log_softmax(at: Import, x: Value, dim: int, half_to_float: bool = False) -> Any:
    return at.call("log_softmax.int", x, dim)


# ---- products ---------------------------------------------------------------------------------


@word("mm.default", "bmm.default")
def mm(at: Import, a: Value, b: Value) -> Any:
    return at.call("matmul.default", a, b)


@word("linear.default")
def linear(at: Import, x: Value, weight: Value, bias: Value | None = None) -> Any:
    """x @ weight' + bias."""
    found = at.call("matmul.default", x, t(at, weight))
    return found if bias is None else at.call("add.Tensor", found, bias)


@word("addmm.default")
def addmm(
    at: Import, bias: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1
) -> Any:  # fmt: skip
    if beta != 1 or alpha != 1:
        raise Mismatch(f"beta is {beta}, alpha {alpha}")
    return at.call("add.Tensor", at.call("matmul.default", a, b), bias)


@word("scaled_dot_product_attention.default")
def attention(
    at: Import, q: Value, k: Value, v: Value, mask: Value | None = None, dropout: float = 0.0,
    causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """softmax(q @ k' * scale + mask) @ v."""
    if dropout != 0.0 or enable_gqa:
        raise Mismatch("dropout or grouped heads")
    if scale is None:
        scale = 1 / math.sqrt(_known(q, tensor(q).rank - 1))
    scores = at.call("matmul.default", at.call("mul.Tensor", q, scale), at.emit.transpose(k))
    if causal:
        mask = _causal(at, scores)
    if mask is not None:
        scores = at.call("add.Tensor", scores, mask)
    return at.call("matmul.default", at.call("softmax.int", scores, -1), v)


def _causal(at: Import, scores: Value) -> Value:
    """-inf above the diagonal."""
    import torch

    rank = tensor(scores).rank
    rows, columns = _known(scores, rank - 2), _known(scores, rank - 1)
    kept = torch.ones(rows, columns, dtype=torch.bool).tril()
    mask = torch.zeros(rows, columns).masked_fill_(~kept, -math.inf)
    return at.constant("causal", mask.to(tensor(scores).device, at.dtype(scores)))


# ---- convolutions, pooling, norms -------------------------------------------------------------


@word("convolution.default")
def convolution(
    at: Import, x: Value, w: Value, bias: Value | None, stride: Any, pad: Any, dilation: Any,
    transposed: bool, output_pad: Any, groups: int,
) -> Any:  # fmt: skip
    if transposed or tensor(x).rank != 4:
        raise Mismatch("it is transposed, or of other than two dims")
    return at.call("conv2d.default", x, w, bias, stride, pad, dilation, groups)


@word("layer_norm.default")
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


@word("group_norm.default")
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


@word("rms_norm.default")
def rms_norm(
    at: Import, x: Value, shape: Sequence[Size], weight: Any = None, eps: float | None = None
) -> Any:
    """Its eps is the dtype's own where none is given."""
    if eps is not None:
        raise Mismatch(f"its shape is {list(shape)}")
    import torch

    return at.call("rms_norm.default", x, shape, weight, torch.finfo(at.dtype(x)).eps)


@word("max_pool2d.default")
def max_pool2d(
    at: Import, x: Value, window: Sequence[int], stride: Sequence[int] = (), *rest: Any
) -> Any:  # fmt: skip
    """Its stride is the window where none is given."""
    name = "max_pool2d_with_indices.default"
    return at.call(name, x, window, list(stride) or window, *rest)[0]


@word("adaptive_avg_pool2d.default", "_adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(at: Import, x: Value, size: Sequence[int]) -> Any:
    """Windows of one size, where the output divides the input."""
    high, wide = (_known(x, a) for a in (-2 % tensor(x).rank, -1 % tensor(x).rank))
    if high % size[0] or wide % size[1] or tensor(x).rank != 4:
        raise Mismatch(f"windows of {high} x {wide} for {tuple(size)} differ in size")
    window = [high // size[0], wide // size[1]]
    return at.call("avg_pool2d.default", x, window, window)


@word("_native_batch_norm_legit_no_training.default")
def batch_norm_eval(
    at: Import, x: Value, weight: Any, bias: Any, mean: Value, var: Value, momentum: float,
    eps: float,
) -> Any:  # fmt: skip
    call = (x, weight, bias, mean, var, False, momentum, eps, False)
    return [at.call("batch_norm.default", *call), None, None]


@word("native_layer_norm.default")
def native_layer_norm(
    at: Import, x: Value, shape: Sequence[Size], weight: Any, bias: Any, eps: float
) -> Any:  # fmt: skip
    return [at.call("layer_norm.default", x, shape, weight, bias, eps), None, None]
