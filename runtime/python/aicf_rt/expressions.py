"""What expressions of the capability table compute with, in Python.

Generated code calls these; each agrees with `include/aicf/expression.h`, and where C has no answer
(overflow of 64 bits, a division by zero, an index out of range, an integer beyond 2**53 met with a
float, a float that is not finite) an ArithmeticError is raised here.

Dims are ints, packs and attributes of several integers are tuples of ints, a pack that nothing
bound is None, type variables and enum values are strings, a dim or pack that varies over a list is
a tuple with one entry a tensor. Tensors are anything with the members of `Tensor`, None where
absent; lists of tensors are sequences of those.

A size may be symbolic, as torch's are: anything that adds, multiplies and compares as an int does.
Nothing makes an int of one, and only plain ints are held to 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

_LEAST = -(2**63)
_MOST = 2**63 - 1
_EXACT = 2**53

_BYTES = {
    "bool": 1,
    "i8": 1,
    "u8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
}


class Tensor(Protocol):
    """What expressions ask: sizes, strides in elements, first address, bytes an element."""

    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def strides(self) -> Sequence[int]: ...
    @property
    def address(self) -> int: ...
    @property
    def itemsize(self) -> int: ...


Pack = Sequence[int] | None
Tensors = Tensor | Sequence[Tensor] | None
Number = TypeVar("Number", int, float)
_Plain: Any = int  # integers of any other type are symbolic


# ---- integers ---------------------------------------------------------------------------------


def checked(value: int) -> int:
    """`value`, if it is one of 64 bits; what is computed from it will be too."""
    if not isinstance(value, _Plain):
        return value
    if not _LEAST <= value <= _MOST:
        raise OverflowError(f"{value} is beyond 64 bits")
    return Int(value)


class Int(int):
    """An int whose sums and products are of 64 bits, or there is none."""

    __slots__ = ()

    def __add__(self, other: int) -> int:
        return checked(int(self) + other)

    def __radd__(self, other: int) -> int:
        return checked(other + int(self))

    def __sub__(self, other: int) -> int:
        return checked(int(self) - other)

    def __rsub__(self, other: int) -> int:
        return checked(other - int(self))

    def __mul__(self, other: int) -> int:
        return checked(int(self) * other)

    def __rmul__(self, other: int) -> int:
        return checked(other * int(self))

    def __floordiv__(self, other: int) -> int:
        return checked(int(self) // other)

    def __rfloordiv__(self, other: int) -> int:
        return checked(other // int(self))

    def __truediv__(self, other: float) -> float:
        return int(self) / other

    def __rtruediv__(self, other: float) -> float:
        return other / int(self)

    def __mod__(self, other: int) -> int:
        return checked(int(self) % other)

    def __rmod__(self, other: int) -> int:
        return checked(other % int(self))

    def __neg__(self) -> int:
        return checked(-int(self))

    # torch's symbolic sizes compare themselves with exactly int: they leave it to these.

    def __eq__(self, other: object) -> bool:
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return int(self) != other

    def __lt__(self, other: int) -> bool:
        return int(self) < other

    def __le__(self, other: int) -> bool:
        return int(self) <= other

    def __gt__(self, other: int) -> bool:
        return int(self) > other

    def __ge__(self, other: int) -> bool:
        return int(self) >= other

    def __hash__(self) -> int:
        return hash(int(self))


def add(a: int, b: int) -> int:
    return checked(a + b)


def sub(a: int, b: int) -> int:
    return checked(a - b)


def mul(a: int, b: int) -> int:
    return checked(a * b)


def neg(a: int) -> int:
    return checked(-a)


def floordiv(a: int, b: int) -> int:
    return checked(a // b)


def mod(a: int, b: int) -> int:
    return a % b


def ceil_div(a: int, b: int) -> int:
    if isinstance(a, _Plain) and isinstance(b, _Plain):
        a, b = int(a), int(b)  # as Int, -a may be beyond 64 bits where the quotient is not
    return checked(-(-a // b))


# ---- floats -----------------------------------------------------------------------------------


def exact(a: int) -> float:
    """An integer where a float is wanted."""
    if not isinstance(a, _Plain):
        return a
    if not -_EXACT <= a <= _EXACT:
        raise OverflowError(f"{a} is not exact as a float")
    return float(a)


def finite(a: float) -> float:
    if isinstance(a, float) and not math.isfinite(a):
        raise OverflowError(f"{a} is not finite")
    return a


def div(a: float, b: float) -> float:
    return finite(a / b)


# ---- numbers, and several integers --------------------------------------------------------------


def least(*values: Number) -> Number:
    """min() of all arguments; the first of equals."""
    return min(values)


def most(*values: Number) -> Number:
    """max() of all arguments; the first of equals."""
    return max(values)


def least_of(values: Sequence[int]) -> int:
    """min() of several integers."""
    return min(_some(values))


def most_of(values: Sequence[int]) -> int:
    """max() of several integers."""
    return max(_some(values))


def _some(values: Sequence[int]) -> Sequence[int]:
    if not values:
        raise ArithmeticError("the least or most of nothing")
    return values


def at(values: Sequence[int], index: int) -> int:
    if not -len(values) <= index < len(values):
        raise ArithmeticError(f"index {index} of {len(values)} values")
    return values[index]


def length(values: Sequence[object] | None) -> int:
    """len(): of a pack its rank, 0 if nothing bound it."""
    return 0 if values is None else len(values)


def prod(values: Pack) -> int:
    """The product of a pack or of several integers; 0 of a pack that nothing bound."""
    if values is None or any(value == 0 for value in values if isinstance(value, int)):
        return 0
    result = 1
    for value in values:
        result = checked(result * value)
    return result


def total(values: Sequence[int | Pack] | None) -> int:
    """sum(): of several integers, or of a dim or pack over the list that it varies with."""
    result = 0
    for value in values or ():
        if value is None or isinstance(value, Sequence):
            value = prod(value)
        result = checked(result + value)
    return result


# ---- shapes -----------------------------------------------------------------------------------


def broadcast(*packs: Pack) -> tuple[int, ...]:
    """The shape that all packs broadcast to; those that nothing bound are left out."""
    present = [pack for pack in packs if pack is not None]
    rank = max((len(pack) for pack in present), default=0)
    sizes = [1] * rank
    for pack in present:
        for i, size in enumerate(pack, rank - len(pack)):
            if size == 1:
                continue
            if sizes[i] == 1:
                sizes[i] = size
            elif sizes[i] != size:
                raise ArithmeticError(f"{tuple(pack)} does not broadcast to {tuple(sizes)}")
    return tuple(sizes)


def reduced(pack: Pack, axes: int | Sequence[int], keepdim: bool = False) -> tuple[int, ...]:
    """`pack` without its axis or `axes`, or with 1 in their place."""
    gone = frozenset(axes if isinstance(axes, Sequence) else (axes,))
    sizes = enumerate(pack or ())
    return tuple((1 if i in gone else n) for i, n in sizes if keepdim or i not in gone)


def permuted(pack: Pack, perm: Sequence[int]) -> tuple[int, ...]:
    """`pack` with its dims in another order."""
    if pack is None or sorted(perm) != list(range(len(pack))):
        raise ArithmeticError(f"{tuple(perm)} is no order of {length(pack)} axes")
    return tuple(pack[i] for i in perm)


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    """The order that undoes `perm`."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


# ---- tensors ----------------------------------------------------------------------------------


def present(x: object) -> bool:
    return x is not None


def numel(x: Tensors) -> int:
    """The elements of a tensor, of all tensors of a list; none of an absent one."""
    return total([prod(t.shape) for t in _each(x)])


def sizeof(dtype: str) -> int:
    """Bytes of one element."""
    return _BYTES[dtype]


def same_shape(*tensors: Tensors) -> bool:
    """Whether all that are present have the same sizes."""
    shapes = [tuple(t.shape) for x in tensors for t in _each(x)]
    return all(shape == shapes[0] for shape in shapes)


def aligned(size: int, *tensors: Tensors) -> bool:
    """Whether the address and every stride but the unit one are multiples of `size` bytes."""
    if size <= 0:
        raise ArithmeticError(f"aligned to {size} bytes")
    return all(_aligned(size, t) for x in tensors for t in _each(x))


def stride(x: Tensor | None, index: int) -> int:
    """In elements; that of a dim of size 1 as if nothing lay between it and the next."""
    if x is None:
        raise ArithmeticError("the stride of an absent tensor")
    at(x.shape, index)
    below = 1
    for size, step in reversed(list(zip(x.shape, x.strides, strict=True))[index:]):
        own = below if size == 1 else step
        below = own * size
    return own


def batches(x: Tensor | None) -> int:
    """The dims before the last two that are left once neighbours are merged where they can be."""
    if x is None:
        return 0
    count = below = 0
    for size, step in reversed(list(zip(x.shape, x.strides, strict=True))[:-2]):
        if size != 1:
            count += count == 0 or step != below
            below = step * size
    return count


def _each(x: Tensors) -> Sequence[Tensor]:
    if x is None:
        return ()
    return x if isinstance(x, Sequence) else (x,)


def _aligned(size: int, x: Tensor) -> bool:
    if 0 in x.shape:
        return True
    strides = [step for n, step in zip(x.shape, x.strides, strict=True) if n != 1]
    return x.address % size == 0 and all(
        step in (1, -1) or step * x.itemsize % size == 0 for step in strides
    )
