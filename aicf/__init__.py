"""The control layer: Python decides what the kernels of a capability table execute.

`import aicf` loads nothing but this file; a name loads the part that has it.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` itself takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

_PLACES = {
    "Table": "aicf.table",
    "Row": "aicf.table",
    "Dim": "aicf.dim",
    "Executable": "aicf.compiler.executable",
    "ExecutorV2": "aicf.compiler.runtime.executor",
    "Graph": "aicf.compiler.ir.graph",
    "IRError": "aicf.compiler.ir.errors",
    "TensorType": "aicf.compiler.ir.types",
    "TraceError": "aicf.compiler.ir.trace",
    "compile": "aicf.compiler.compile",
    "from_export": "aicf.compiler.ir.fx",
    "from_fx": "aicf.compiler.ir.fx",
    "grad": "aicf.compiler.ir.autodiff",
    "param": "aicf.compiler.ir.trace",
    "quantise": "aicf.compiler.passes.quantised",
    "trace": "aicf.compiler.ir.trace",
    "training_step": "aicf.compiler.ir.training",
    "value_and_grad": "aicf.compiler.ir.autodiff",
    "AicfBackend": "aicf.backend",
    "backends": "aicf.backend",
    "NoFallback": "aicf.backend.aten",
    "nvtx": "aicf.backend.nvtx",
}


def __getattr__(name: str) -> Any:
    if name == "ops":
        return import_module("aicf.compiler.ir.trace").Ops()
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*globals(), *_PLACES, "ops"))
