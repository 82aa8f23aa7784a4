"""Whether a tensor may stand for another one in calls that were checked with that, by what is cheap
to ask; and where its memory is."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from aicf.backend.host import as_array
from aicf.backend.tensors import dtype_of, strides_of
from aicf.table import BYTES


def alike(x: Any, before: Any) -> bool:
    """Of one type of objects, shape, dtype, strides and device. False may mean that it is not
    known."""
    kind = type(x)
    found = _LIKE.get((kind.__module__, kind.__name__))
    if found is None or kind is not type(before):
        return False
    return x.shape == before.shape and x.dtype == before.dtype and found(x, before)


def _arrays(x: Any, y: Any) -> bool:
    return bool(x.strides == y.strides)


def _ours(x: Any, y: Any) -> bool:
    return bool(x.strides == y.strides and x.device == y.device)


def _torch(x: Any, y: Any) -> bool:
    if x.layout != y.layout or x.requires_grad != y.requires_grad:
        return False
    return bool(x.stride() == y.stride() and x.device == y.device)


# By module and name: what is not imported is not asked for.
_LIKE: dict[tuple[str, str], Callable[[Any, Any], bool]] = {
    ("numpy", "ndarray"): _arrays,
    ("torch", "Tensor"): _torch,
    ("torch.nn.parameter", "Parameter"): _torch,
    ("aicf_rt", "Tensor"): _ours,
    ("aicf.backend.null", "NullTensor"): _ours,
}


# ---- memory -------------------------------------------------------------------------------------


def mover(x: Any) -> Callable[[], Any] | None:
    """What says where a tensor is, of what and how large, since its owner may change that under
    way, as by `x.shape =` of numpy's, `x.data =` of torch's, or another tensor behind the same
    wrapper; None where that stays, or nobody can say."""
    import aicf_rt

    kind = type(x)
    if (kind.__module__, kind.__name__) in _FIXED or kind.__module__.startswith("jax"):
        return None
    ask = functools.partial(aicf_rt.layouts, (x,))
    try:
        ask()
    except Exception:  # whatever a class of somebody's says that no call was given yet
        is_torch = any(c.__module__.partition(".")[0] == "torch" for c in kind.__mro__)
        return (lambda: (x.data_ptr(), x.shape, x.stride(), x.dtype)) if is_torch else None
    return ask


_FIXED = {("aicf_rt", "Tensor"), ("aicf.backend.null", "NullTensor")}


def extent(x: Any) -> tuple[int, int]:
    """The addresses from its first byte to behind its last one. Of what does not say where it is,
    and of what has no elements, a place that nothing else has."""
    start = _start(x)
    if start is None or math.prod(x.shape) == 0:
        return -id(x) - 1, -id(x)
    if getattr(getattr(x, "flags", None), "c_contiguous", False):
        return start, start + int(x.nbytes)
    size = BYTES[dtype_of(x)]
    steps = strides_of(x)
    if steps is None:
        return start, start + math.prod(x.shape) * size
    reach = [(n - 1) * step * size for n, step in zip(x.shape, steps, strict=True)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + size


def _start(x: Any) -> int | None:
    if hasattr(x, "data_ptr"):
        return int(x.data_ptr())
    for name in ("__array_interface__", "__cuda_array_interface__"):
        found = getattr(x, name, None)
        if found is not None:
            return int(found["data"][0])
    if type(x).__module__ == "aicf_rt":  # on the host
        return int(as_array(x).__array_interface__["data"][0])
    return None
