"""The rows that have a twin over 8-bit integers, and how a call of the one is one of the other.

x @ w + bias = scale * ((q(x) - zero) @ q(w) + q(bias)), with s = scale(x) * scale(w)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

QUANTIZE: Final = "quantize"
DEQUANTIZE: Final = "dequantize"
OBSERVE_RANGE: Final = "observe_minmax"
OBSERVE_HISTOGRAM: Final = "observe_histogram"


@dataclass(frozen=True, slots=True)
class Twin:
    """A row and its twin, each with the names of its parameters. The twin takes the integers in the
    places of the numbers, and beside them `zero`, `scale`, `channel_scale`, a bias in 32 bits, and
    the scale and zero of an out in integers."""

    row: str
    x: str
    w: str
    channel: int  # the axis of w that runs over channels of the out
    twin: str
    zero: str
    scale: str
    channel_scale: str
    bias: str = "bias"
    out_scale: str = "out_scale"
    out_zero: str = "out_zero"
    matrix: bool = False  # the twin takes x of two dims; further ones of x are rows as well
    same: tuple[str, ...] = ()  # attributes that the twin has too
    factor: str = ""  # an attribute of the row that its product is multiplied by
    absent: str = ""  # an operand that the twin does not have
    act: str = ""  # the attribute of the row that says what is done behind it, by the twin's words
    acts: tuple[str, ...] = ("none", "relu")  # what the twin can do behind it
    behind: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({"relu": "relu"}))
    """Rows that are one of `acts`, by name."""
    beyond: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What the row can do behind it and the twin cannot: by the row's word the row that does it."""


TWINS: Final = (
    Twin(
        row="gemm", x="a", w="b", channel=1, twin="gemm_i8", zero="a_zero", scale="a_scale",
        channel_scale="b_scale", matrix=True, factor="alpha", absent="c", act="act",
        beyond=MappingProxyType({"gelu": "gelu"}),
    ),
    Twin(
        row="conv2d", x="x", w="w", channel=0, twin="conv2d_i8", zero="x_zero", scale="x_scale",
        channel_scale="w_scale", same=("stride", "pad", "dilation", "groups"),
    ),
)  # fmt: skip
