"""The runtime of generated kernel packages: tensors, bound calls, exceptions."""

from ._core import INTERFACE as INTERFACE
from ._core import Again as Again
from ._core import Call as Call
from ._core import CudaError as CudaError
from ._core import CudaLost as CudaLost
from ._core import Event as Event
from ._core import Graph as Graph
from ._core import Spec as Spec
from ._core import Stream as Stream
from ._core import Tensor as Tensor
from ._core import Unsupported as Unsupported
from ._core import capture as capture
from ._core import copy as copy
from ._core import empty as empty
from ._core import layouts as layouts
from ._core import run as run
from ._core import synchronize as synchronize
from ._core import view as view

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
