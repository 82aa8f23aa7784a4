"""What the built modules say of themselves."""

from __future__ import annotations

import importlib


def kernels_of(op: str) -> dict[str, list[str]]:
    """The dtypes that each CUDA kernel of an op was built for."""
    row = importlib.import_module(f"aicf_cuda.{op}").capability
    return {
        k["id"]: list(row["built"].get(k["id"], ()))
        for k in row["kernels"]
        if k["backend"] == "cuda"
    }
