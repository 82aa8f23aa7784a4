"""Tensors of whoever brings them, as the fallbacks need them: what they are, and in torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from aicf_rt.dtypes import WORDS

_NAMES: dict[str, str] = {word: name for name, word in WORDS.items()}


def dtype_of(x: Any) -> str:
    """As the table has it: of a tensor, or of a dtype in anybody's words."""
    dtype = getattr(x, "dtype", x)
    text = str(getattr(dtype, "name", None) or dtype).removeprefix("torch.")
    if text in WORDS:
        return text
    if text in _NAMES:
        return _NAMES[text]
    name = getattr(dtype, "__name__", text)  # numpy.float32, the type
    if name in _NAMES:
        return _NAMES[name]
    raise TypeError(f"{x!r} has no dtype of the table's: {', '.join(WORDS)}")


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


def to_torch(x: Any, written: bool = False) -> Any:
    """As a tensor of torch's: the same memory, or a copy of what torch may not have. `written`: it
    must be the same memory, and one that may be written to; raises ValueError where it is not."""
    import torch

    if isinstance(x, torch.Tensor):
        return x.detach() if x.requires_grad and not torch.is_grad_enabled() else x
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        if dtype_of(x) == "bf16":  # a dtype of ml_dtypes, which torch does not know
            return to_torch(x.view(numpy.int16), written).view(torch.bfloat16)
        if x.flags.writeable and all(s >= 0 for s in x.strides):
            return torch.from_numpy(x)
        if written:
            raise ValueError("an array that may not be written to, or runs backwards")
        return torch.from_numpy(x.copy())
    if written and not _is_ours(x):
        raise ValueError(f"whether a {type(x).__name__} may be written to is not known")
    return torch.from_dlpack(x)


def _is_ours(x: Any) -> bool:
    from aicf_rt import Tensor

    return isinstance(x, Tensor)


# Who takes over memory by DLPack, by the package of its tensors' type.
_FRAMEWORKS = {"jaxlib": "jax.dlpack", "jax": "jax.dlpack", "cupy": "cupy"}


def like(result: Any, operands: Sequence[Any]) -> Any:
    """A result of torch's or numpy's in the caller's kind: that of the first operand which has a
    framework; else numpy's array on the host, an `aicf_rt.Tensor` on a device."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(result, torch.Tensor):
        return result
    flat = [t for x in operands for t in (x if isinstance(x, list | tuple) else [x])]
    for package in (type(t).__module__.partition(".")[0] for t in flat):
        if package == "torch":
            return result
        if package in _FRAMEWORKS:
            return importlib.import_module(_FRAMEWORKS[package]).from_dlpack(result.contiguous())
    if result.device.type == "cpu" and result.dtype != torch.bfloat16:
        return result.detach().numpy()
    from aicf_rt import empty

    made = empty(tuple(result.shape), dtype_of(result), str(result.device))
    write(result, made)
    return made


def write(result: Any, out: Any) -> None:
    """Into a tensor that the caller gave, as an op would: shape and dtype must be its own, and it
    one that may be written to."""
    if tuple(result.shape) != tuple(out.shape) or dtype_of(result) != dtype_of(out):
        raise ValueError(
            f"out: it must be {dtype_of(result)} {tuple(result.shape)}, not {dtype_of(out)} "
            f"{tuple(out.shape)}"
        )
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(result, torch.Tensor):
        with torch.no_grad():
            to_torch(out, written=True).copy_(result)
    else:
        import numpy as np

        np.asarray(out)[...] = result  # numpy knows of what may not be written to
