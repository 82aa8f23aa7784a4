"""The runtime of generated kernel packages: tensors, bound calls, exceptions."""

from ._core import (
    INTERFACE,
    Call,
    CudaError,
    CudaLost,
    Event,
    Graph,
    Spec,
    Stream,
    Tensor,
    Unsupported,
    capture,
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
    "Graph",
    "Spec",
    "Stream",
    "Tensor",
    "Unsupported",
    "capture",
    "copy",
    "empty",
    "run",
    "synchronize",
    "view",
]
