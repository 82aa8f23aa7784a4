"""What a call takes at best: the roofline of the row's own cost, on a device's peaks."""

from __future__ import annotations

from dataclasses import dataclass

from aicf.backend.device import Device
from aicf.bindings import bind, evaluate
from aicf.table import BYTES

from .request import Request


@dataclass(frozen=True, slots=True)
class Work:
    """Of one call: operations, and bytes that it reads and writes at least."""

    flops: float
    bytes: float
    dtype: str  # that it computes in, as its first operand has it

    def seconds(self, device: Device) -> float:
        """The later of computing and moving, and the launch."""
        busy = max(self.flops / device.peak(self.dtype), self.bytes / device.bandwidth)
        return busy + device.launch


def work_of(request: Request) -> Work:
    """By the row's `cost`; bytes that it does not say are those of all operands and outs."""
    row = request.row
    names = bind(row, request.tensors, request.attributes())
    variant = request.variant()
    if variant is not None:
        names.update(variant.types)
    flops, moved = row.cost["flops"], row.cost["bytes"]
    dtype = next((s.dtype for s in request.flat()), "f32")
    return Work(
        float(evaluate(flops, names)) if flops else 0.0,
        float(evaluate(moved, names)) if moved else _weight(request),
        dtype,
    )


def _weight(request: Request) -> float:
    """Bytes of the operands, twice of those that are written, and of the outs."""
    total = 0.0
    for p, x in zip(request.row.tensors, request.tensors, strict=True):
        for s in () if x is None else x if isinstance(x, tuple) else (x,):
            total += _bytes(s) * (2 if p.inout else 1)
    outs = request.row.infer(*request.tensors, **request.keywords()) if request.row.outs else ()
    wanted = dict(request.options)
    for i, (o, s) in enumerate(zip(request.row.outs, outs, strict=True)):
        if i < request.row.required_outs or wanted.get(o.name):
            total += _bytes(s)
    return total


def _bytes(spec: object) -> float:
    size = BYTES[spec.dtype]  # type: ignore[attr-defined]
    for n in spec.shape:  # type: ignore[attr-defined]
        size *= n
    return float(size)
