"""What rules ask of numbers."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

# The least and the largest number, not 0, that a factor of a dtype has in full precision.
_F32, _F64 = (2.0**-126, 2.0**127), (2.0**-1022, 2.0**1023)
LIMITS: Final = MappingProxyType({"f16": _F32, "bf16": _F32, "f32": _F32, "f64": _F64})

# Of reals: bits of the significand, and the largest exponent.
_REALS: Final = {"f16": (11, 15), "bf16": (8, 127), "f32": (24, 127), "f64": (53, 1023)}
# Of integers: whether they have a sign, and bits beside it.
_INTEGERS: Final = {
    "bool": (0, 1), "u8": (0, 8), "i8": (1, 7), "i16": (1, 15), "i32": (1, 31), "i64": (1, 63)
}  # fmt: skip


def is_number(x: object) -> bool:
    """Whether it is known when a graph is made."""
    return isinstance(x, int | float) and not isinstance(x, bool)


def is_integer(dtype: str) -> bool:
    return dtype in _INTEGERS


def holds(dtype: str, other: str) -> bool:
    """Whether a dtype has every number that another has."""
    if dtype == other:
        return True
    if dtype in _REALS and other in _REALS:
        bits, most = _REALS[dtype]
        return bits >= _REALS[other][0] and most >= _REALS[other][1]
    if other not in _INTEGERS or dtype == "bool":
        return False
    signed, width = _INTEGERS[other]
    if dtype in _REALS:
        return _REALS[dtype][0] >= width and _REALS[dtype][1] >= width
    return _INTEGERS[dtype][0] >= signed and _INTEGERS[dtype][1] >= width
