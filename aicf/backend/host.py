"""Tensors in host memory as arrays of numpy's, whoever made them."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from aicf.table import BYTES

from .tensors import dtype_of, strides_of

Array = np.ndarray[Any, Any]

_NUMPY = frozenset(("bool", "i8", "u8", "i16", "i32", "i64", "f16", "f32", "f64"))


def is_numpy_dtype(dtype: str) -> bool:
    """Whether arrays of numpy's own can have it."""
    return dtype in _NUMPY


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """bf16 is that of ml_dtypes. Raises ImportError where it is not installed."""
    if dtype != "bf16":
        kinds = {"bool": "?", "u8": "u1"}
        return np.dtype(kinds.get(dtype, f"{dtype[0]}{BYTES[dtype]}"))
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError("bf16 on the host needs ml_dtypes: pip install ml_dtypes") from error
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def as_array(x: Any) -> Array:
    """The same memory. bf16 is an array of ml_dtypes where that is installed, else of its bits.
    Raises ValueError of what torch negates when it is read, which DLPack does not say."""
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "is_neg") and x.is_neg():
        raise ValueError("torch negates it when it is read: give what resolve_neg() gives")
    if getattr(x, "dtype", None) is not None and dtype_of(x) == "bf16":
        return _bf16(x)
    return np.from_dlpack(x) if hasattr(x, "__dlpack__") else np.asarray(x)


def _bf16(x: Any) -> Array:
    from aicf_rt import view

    bits = np.asarray(view(x, tuple(x.shape), strides=strides_of(x), dtype="i16"))
    if importlib.util.find_spec("ml_dtypes"):
        import ml_dtypes

        return bits.view(ml_dtypes.bfloat16)
    return bits


def bytes_of(x: Any) -> Array:
    """Of a dense tensor, in whichever order of dims: all its bytes, in one dim. Raises ValueError
    of one with gaps."""
    array = as_array(x)
    if not array.size:
        return np.empty(0, np.uint8)
    order = sorted(range(array.ndim), key=lambda i: (-array.strides[i], array.shape[i] != 1))
    ordered = array.transpose(order)
    if not ordered.flags.c_contiguous:
        raise ValueError(f"{array.dtype} {array.shape}, strides {array.strides}: it has gaps")
    return ordered.reshape(-1).view(np.uint8)


def span_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """How many elements lie from the first to the last one of a tensor with gaps, or whose dims do
    not lie in their order; None of one without, and where strides run backwards."""
    below, span, is_dense = 1, 1, True
    for n, step in zip(reversed(shape), reversed(strides), strict=bool(strides)):
        if n == 0 or step < 0:
            return None
        if n != 1:
            is_dense = is_dense and step == below
            span += (n - 1) * step
            below *= n
    return None if is_dense else span
