"""The runtime of generated kernel packages: tensors, bound calls, exceptions."""

from ._core import INTERFACE, Call, CudaError, CudaLost, Spec, Tensor, Unsupported, empty, run

__all__ = [
    "INTERFACE",
    "Call",
    "CudaError",
    "CudaLost",
    "Spec",
    "Tensor",
    "Unsupported",
    "empty",
    "run",
]
