"""What a call should give, and whether what a kernel gave is near enough."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from aicf.backend.cpu import CpuBackend
from aicf.backend.host import numpy_dtype
from aicf.backend.tensors import dtype_of
from aicf.table import FLOATS, Row, Table

from .cost import work_of
from .registry import Candidates
from .request import Request
from .trial import Array, Trial

# What a reference on the CPU may take: operations, some seconds of one plain loop; and bytes.
_MOST = 4e9
_MOST_BYTES = 1e9

# How near to a reference in f64, (rtol, atol): four times what one rounding of the result and the
# arithmetic of the dtype come to, since what is looked for is a kernel that is broken. The own
# `tolerance` of a kernel or a row goes before.
_TOLERANCES = {
    "f32": (5e-6, 4e-5),
    "f16": (4e-3, 4e-5),
    "bf16": (6.4e-2, 4e-5),
    "f64": (4e-7, 4e-7),
}

# Of a dtype: from 1 to the next number.
ROUNDING = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7, "f64": 2.0**-52}


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """What is right, by name; in words whose it is; operations behind one element of an out."""

    values: Mapping[str, Any]
    by: str
    length: float


def of_cpu(trial: Trial) -> Reference | None:
    """By the most general kernel of the CPU: in f64 or, where an out is no float, in the request's
    own dtypes, since there a rounding decides what is right. None where the CPU has no kernel for
    it, or would need too long."""
    request = trial.request
    work, wide = work_of(request), _widened(request)
    if work.flops > _MOST or work.bytes > _MOST_BYTES or wide is None:
        return None
    names = Candidates(wide).legal
    if not names:
        return None
    start = [
        None if x is None else _as(spec, x)
        for spec, x in zip(wide.tensors, trial.start, strict=True)
    ]
    again = Trial(CpuBackend(Table.of(request.row.package)), wide, start)
    values = again.run(again.bind(names[-1]))
    variant = wide.variant()
    by = f"{names[-1]} on the CPU in {variant.suffix if variant else '?'}"
    return Reference(values, by, _length(request, values))


def of_results(request: Request, kernel: str, values: Mapping[str, Any]) -> Reference:
    """By another kernel of the same device."""
    return Reference(values, f"{kernel}, the most general here", _length(request, values))


def fault(request: Request, kernel: str, got: Mapping[str, Any], right: Reference) -> str:
    """What is wrong with a kernel's results, in words; "" where they are right."""
    for name, want in right.values.items():
        wants = want if isinstance(want, list) else [want]
        given = got[name] if isinstance(got[name], list) else [got[name]]
        for i, (g, w) in enumerate(zip(given, wants, strict=True)):
            label = f"{name}[{i}]" if isinstance(want, list) else name
            found = _fault(g, w, _tolerance(request.row, kernel, dtype_of(g)), right.length)
            if found:
                return f"{label}: {found}, by {right.by}"
    return ""


def difference(first: Mapping[str, Any], second: Mapping[str, Any], poison: int) -> str:
    """What two runs of a kernel on the same data, over different poisons, leave different, in
    words; "" where their bits are the same. `poison` is that of the first."""
    for name, one in first.items():
        ones = one if isinstance(one, list) else [one]
        others = second[name] if isinstance(second[name], list) else [second[name]]
        for a, b in zip(ones, others, strict=True):
            x, y = (np.ascontiguousarray(v).reshape(-1).view(np.uint8) for v in (a, b))
            apart = x != y
            if apart.any():
                kept = bool((x[apart] == poison).all())
                count = int(apart.reshape(a.size, -1).any(axis=1).sum())
                why = "are not written" if kept else "differ from run to run"
                return f"{name}: {count} of {a.size} elements {why}"
    return ""


def _fault(got: Array, want: Array, tolerance: tuple[float, float], length: float) -> str:
    if got.shape != want.shape:
        return f"its shape is {got.shape}, not {want.shape}"
    if dtype_of(got) not in FLOATS:
        wrong = np.asarray(got != want)
        allowed = "equal"
    else:
        rtol, atol = tolerance
        g, w = got.astype(np.float64), want.astype(np.float64)
        w = rounded_to_infinity(w, dtype_of(got))
        slack = _summed(w, length, dtype_of(got))
        with np.errstate(invalid="ignore"):
            near = np.abs(g - w) <= atol + rtol * np.abs(w) + slack
        wrong = ~(near | (g == w) | (np.isnan(g) & np.isnan(w)))
        allowed = f"within {rtol:g} of it and {atol + slack:.2g}"
    if not wrong.any():
        return ""
    index = tuple(map(int, np.argwhere(wrong)[0]))
    return (
        f"{int(wrong.sum())} of {got.size} elements are wrong, the first at {index}: "
        f"{got[index]!s}, not {want[index]!s} ({allowed})"
    )


def _summed(want: Array, length: float, dtype: str) -> float:
    """What a sum of so many products may be off by: four times sqrt(n) roundings of what such sums
    are in the mean, in the dtype that they are made in (f32 of shorter ones); and one rounding in
    its own, since what is carried from step to step is kept in that."""
    epsilon = 2.0**-52 if dtype == "f64" else 2.0**-23
    finite = want[np.isfinite(want)]
    mean = math.sqrt(float(np.mean(np.square(finite)))) if finite.size else 0.0
    return (4 * epsilon * math.sqrt(max(length, 1.0)) + ROUNDING[dtype]) * mean


def rounded_to_infinity(want: Array, dtype: str) -> Array:
    """A reference in f64 has numbers that shorter floats do not."""
    if dtype == "f64":
        return want
    with np.errstate(over="ignore"):
        short = want.astype(numpy_dtype(dtype)).astype(np.float64)
    return np.where(np.isinf(short), short, want)


def _tolerance(row: Row, kernel: str, dtype: str) -> tuple[float, float]:
    for k in row.kernels:
        if k.id == kernel and dtype in k.tolerance:
            return k.tolerance[dtype]
    said = row.entry["test"]["tolerance"].get(dtype)
    return (said[0], said[1]) if said else _TOLERANCES.get(dtype, (0.0, 0.0))


def _length(request: Request, values: Mapping[str, Any]) -> float:
    flat = [a for v in values.values() for a in (v if isinstance(v, list) else [v])]
    most = max((a.size for a in flat), default=1)
    return work_of(request).flops / max(most, 1)


def _widened(request: Request) -> Request | None:
    """The same call on the CPU, in f64 where that decides nothing; None where the row has no such
    kernel there."""
    from aicf_rt import Spec

    variant = request.variant()
    if variant is None:
        return None
    wide = _wide_suffix(request, variant.dtypes)
    kinds = request.row.variants[wide].dtypes if wide else variant.dtypes
    if (wide or variant.suffix) not in request.row.backends.get("cpu", ()):
        return None
    tensors = tuple(
        None
        if x is None
        else tuple(Spec(s.shape, kinds[p.name]) for s in x)
        if isinstance(x, tuple)
        else Spec(x.shape, kinds[p.name])
        for p, x in zip(request.row.tensors, request.tensors, strict=True)
    )
    return Request(request.row, tensors, request.options)


def _wide_suffix(request: Request, dtypes: Mapping[str, str]) -> str | None:
    """Of the row's variant that has f64 wherever this one has a float; None where there is none, or
    where an out is no float, or is of a dtype that the call says."""
    wanted = {o.name for o in request.row.outs if not o.optional} | dict(request.options).keys()
    if any(dtypes[o.name] not in FLOATS for o in request.row.outs if o.name in wanted):
        return None
    if request.row.free:
        return None
    wide = {name: "f64" if dtype in FLOATS else dtype for name, dtype in dtypes.items()}
    return next((s for s, v in request.row.variants.items() if dict(v.dtypes) == wide), None)


def _as(spec: Any, values: Any) -> Any:
    if isinstance(values, list):
        return [_as(s, v) for s, v in zip(spec, values, strict=True)]
    return values.astype(numpy_dtype(spec.dtype))
