"""The runtime of generated kernel packages: tensors, bound calls, exceptions."""

from ._core import (
    INTERFACE,
    Call,
    CudaError,
    CudaLost,
    Event,
    Spec,
    Stream,
    Tensor,
    Unsupported,
    copy,
    empty,
    run,
    synchronize,
    view,
)

__all__ = [
    "INTERFACE",
    "Call",
    "CudaError",
    "CudaLost",
    "Event",
    "Spec",
    "Stream",
    "Tensor",
    "Unsupported",
    "copy",
    "empty",
    "run",
    "synchronize",
    "view",
]
