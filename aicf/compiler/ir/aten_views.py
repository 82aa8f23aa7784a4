"""Ops of ATen that show, make or name tensors, and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from aicf_rt.torch_kernels import NAMES

from aicf.compiler.ir.aten import Import, Words, axis_of, known
from aicf.compiler.ir.emit import tensor
from aicf.compiler.ir.node import Value
from aicf.compiler.ir.pattern import Mismatch
from aicf.dim import Size, product

WORDS: Final = Words()


# ---- what stays as it is ----------------------------------------------------------------------


SAME: Final = frozenset(
    ("alias.default", "detach.default", "clone.default", "contiguous.default")
    + ("lift_fresh_copy.default", "dropout.default", "feature_dropout.default")
)  # also where a row copies


@WORDS.enter(*SAME)
def same(at: Import, x: Value, p: float = 0.0, train: bool = False, **_: Any) -> Value:
    """Values do not change, so that a copy is the value."""
    if train is True and p != 0.0:
        raise Mismatch("it draws random numbers: import the module in eval mode")
    return x


@WORDS.enter("to.dtype", "_to_copy.default", "type_as.default", "to.dtype_layout", "to.device")
def to(at: Import, x: Value, *args: Any, **kwargs: Any) -> Value:
    dtype = kwargs.get("dtype", args[0] if args else None)
    if isinstance(dtype, Value):
        dtype = dtype.type.dtype
    if dtype is None:
        return x
    return at.emit.cast(x, NAMES.get(dtype, str(dtype)))


@WORDS.enter("_assert_tensor_metadata.default")
def asserted(at: Import, x: Value, *_: Any, **__: Any) -> None:
    """Of dtypes and devices, which types of the graph say."""


# ---- views ------------------------------------------------------------------------------------


@WORDS.enter("view.default", "reshape.default", "_unsafe_view.default")
def view(at: Import, x: Value, shape: Sequence[Size]) -> Value:
    known: Any = product([n for n in shape if n != -1])
    total = tensor(x).numel
    return at.emit.reshape(x, [total // known if n == -1 else n for n in shape])


@WORDS.enter("flatten.using_ints")
def flatten(at: Import, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    shape, first, last = tensor(x).shape, axis_of(x, start_dim), axis_of(x, end_dim)
    return at.emit.reshape(
        x, [*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :]]
    )


@WORDS.enter("unflatten.int")
def unflatten(at: Import, x: Value, dim: int, sizes: Sequence[Size]) -> Value:
    shape, axis = tensor(x).shape, axis_of(x, dim)
    return view(at, x, [*shape[:axis], *_filled_in(shape[axis], sizes), *shape[axis + 1 :]])


def _filled_in(total: Any, sizes: Sequence[Size]) -> list[Size]:
    known: Any = product([n for n in sizes if n != -1])
    return [total // known if n == -1 else n for n in sizes]


@WORDS.enter("permute.default")
def permute(at: Import, x: Value, dims: Sequence[int]) -> Value:
    return at.emit.permute(x, [axis_of(x, d) for d in dims])


@WORDS.enter("transpose.int")
def transpose(at: Import, x: Value, dim0: int, dim1: int) -> Value:
    perm = list(range(tensor(x).rank))
    a, b = axis_of(x, dim0), axis_of(x, dim1)
    perm[a], perm[b] = perm[b], perm[a]
    return at.emit.permute(x, perm)


@WORDS.enter("t.default", "numpy_T.default", "mT.default")
def t(at: Import, x: Value) -> Value:
    return x if tensor(x).rank < 2 else at.emit.transpose(x)


@WORDS.enter("unsqueeze.default")
def unsqueeze(at: Import, x: Value, dim: int) -> Value:
    return at.emit.unsqueeze(x, dim % (tensor(x).rank + 1))


@WORDS.enter("squeeze.dim", "squeeze.dims", "squeeze.default")
def squeeze(at: Import, x: Value, dim: int | Sequence[int] | None = None) -> Value:
    rank = tensor(x).rank
    given = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [a for a in (axis_of(x, d) for d in given) if tensor(x).shape[a] == 1]
    return at.emit.squeeze(x, axes)


@WORDS.enter("expand.default")
def expand(at: Import, x: Value, size: Sequence[Size], implicit: bool = False) -> Value:
    shape = tensor(x).shape
    lead = len(size) - len(shape)
    return at.emit.expand(x, [shape[i - lead] if n == -1 else n for i, n in enumerate(size)])


@WORDS.enter("expand_as.default")
def expand_as(at: Import, x: Value, other: Value) -> Value:
    return at.emit.expand(x, tensor(other).shape)


@WORDS.enter("slice.Tensor")
def slice_(
    at: Import, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:  # fmt: skip
    axis = axis_of(x, dim)
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


@WORDS.enter("narrow.default")
def narrow(at: Import, x: Value, dim: int, start: Any, length: Any) -> Value:
    return at.emit.slice(x, axis_of(x, dim), start, start + length)


@WORDS.enter("select.int")
def select(at: Import, x: Value, dim: int, index: Any) -> Value:
    axis = axis_of(x, dim)
    size = tensor(x).shape[axis]
    found = index + size if isinstance(index, int) and index < 0 else index
    return at.emit.select(x, axis, found)


@WORDS.enter("unbind.int")
def unbind(at: Import, x: Value, dim: int = 0) -> list[Value]:
    axis = axis_of(x, dim)
    return [at.emit.select(x, axis, i) for i in range(known(x, axis))]


@WORDS.enter("split.Tensor")
def split(at: Import, x: Value, size: int, dim: int = 0) -> list[Value]:
    total = known(x, axis_of(x, dim))
    sizes = [min(size, total - i) for i in range(0, total, size)]
    return split_with_sizes(at, x, sizes, dim)


@WORDS.enter("split_with_sizes.default", "split.sizes")
def split_with_sizes(at: Import, x: Value, sizes: Sequence[Size], dim: int = 0) -> list[Value]:
    axis = axis_of(x, dim)
    found: list[Value] = []
    start: Any = 0
    for size in sizes:
        found.append(at.emit.slice(x, axis, start, start + size))
        start = start + size
    return found


@WORDS.enter("chunk.default")
def chunk(at: Import, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    return split(at, x, math.ceil(known(x, axis_of(x, dim)) / chunks), dim)


@WORDS.enter("constant_pad_nd.default")
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


@WORDS.enter("stack.default")
def stack(at: Import, tensors: Sequence[Value], dim: int = 0) -> Value:
    axis = dim % (tensor(tensors[0]).rank + 1)
    found: Value = at.call("cat.default", [at.emit.unsqueeze(x, axis) for x in tensors], axis)
    return found


# ---- tensors of one number, sizes -------------------------------------------------------------


@WORDS.enter("sym_size.int")
def sym_size(at: Import, x: Value, dim: int) -> Size:
    return tensor(x).shape[axis_of(x, dim)]


@WORDS.enter("zeros.default")
def zeros(at: Import, size: Sequence[Size], **options: Any) -> Value:
    return full(at, size, 0, **options)


@WORDS.enter("ones.default")
def ones(at: Import, size: Sequence[Size], **options: Any) -> Value:
    return full(at, size, 1, **options)


@WORDS.enter("full.default")
def full(at: Import, size: Sequence[Size], value: Any, **options: Any) -> Value:
    dtype = NAMES.get(options.get("dtype"), "f32")
    device = str(options.get("device") or "cpu")
    return at.emit.expand(at.emit.number(value, dtype, device), size)


@WORDS.enter("zeros_like.default")
def zeros_like(at: Import, x: Value, **_: Any) -> Value:
    return at.emit.filled(0, tensor(x))
