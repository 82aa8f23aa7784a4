"""Tensors of whoever brings them, as the fallbacks need them: what they are, and in torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

TORCH_DTYPES = {
    "bool": "bool",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}
_NAMES = {name: short for short, name in TORCH_DTYPES.items()}


def dtype_of(x: Any) -> str:
    """As the table has it: of a tensor, or of a dtype in anybody's words."""
    dtype = getattr(x, "dtype", x)
    text = str(getattr(dtype, "name", None) or dtype).removeprefix("torch.")
    if text in TORCH_DTYPES:
        return text
    if text in _NAMES:
        return _NAMES[text]
    name = getattr(dtype, "__name__", text)  # numpy.float32, the type
    if name in _NAMES:
        return _NAMES[name]
    raise TypeError(f"{x!r} has no dtype of the table's: {', '.join(TORCH_DTYPES)}")


def spec_of(x: Any) -> Any:
    """An `aicf_rt.Spec` with its shape, strides and dtype; its device is left out."""
    from aicf_rt import Spec

    return Spec(tuple(x.shape), dtype_of(x), strides=strides_of(x))


def strides_of(x: Any) -> tuple[int, ...] | None:
    """In elements; None of what does not say."""
    stride = getattr(x, "stride", None)
    if callable(stride):  # torch's
        return tuple(stride())
    strides = getattr(x, "strides", None)
    if strides is None or callable(strides):
        return None
    itemsize = getattr(x, "itemsize", 1)  # numpy counts bytes, aicf_rt elements
    return tuple(s // itemsize for s in strides) if hasattr(x, "nbytes") else tuple(strides)


def to_torch(x: Any) -> Any:
    """The same memory as a tensor of torch's; a copy of what may not be written to."""
    import torch

    if isinstance(x, torch.Tensor):
        return x.detach() if x.requires_grad and not torch.is_grad_enabled() else x
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        if dtype_of(x) == "bf16":  # a dtype of ml_dtypes, which torch does not know
            return to_torch(x.view(numpy.int16)).view(torch.bfloat16)
        if not x.flags.writeable or any(s < 0 for s in x.strides):
            return torch.from_numpy(x.copy())
        return torch.from_numpy(x)
    return torch.from_dlpack(x)


def like(result: Any, operands: Sequence[Any]) -> Any:
    """A result of torch's or numpy's in the caller's kind: torch's tensor where an operand is one,
    else numpy's array on the host, an `aicf_rt.Tensor` on a device."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(result, torch.Tensor):
        return result
    flat = [t for x in operands for t in (x if isinstance(x, list | tuple) else [x])]
    if any(isinstance(t, torch.Tensor) for t in flat):
        return result
    if result.device.type == "cpu" and result.dtype != torch.bfloat16:
        return result.detach().numpy()
    from aicf_rt import empty

    made = empty(tuple(result.shape), dtype_of(result), str(result.device))
    write(result, made)
    return made


def write(result: Any, out: Any) -> None:
    """Into a tensor that the caller gave, as an op would: shape and dtype must be its own."""
    if tuple(result.shape) != tuple(out.shape) or dtype_of(result) != dtype_of(out):
        raise TypeError(
            f"out: it must be {dtype_of(result)} {tuple(result.shape)}, not {dtype_of(out)} "
            f"{tuple(out.shape)}"
        )
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(result, torch.Tensor):
        with torch.no_grad():
            torch.from_dlpack(out).copy_(result) if not isinstance(
                out, torch.Tensor
            ) else out.copy_(result)
    else:
        import numpy as np

        np.asarray(out)[...] = result
