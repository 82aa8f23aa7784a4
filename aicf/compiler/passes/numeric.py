"""The numeric gate: whether a graph may stand in the place of another, by their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aicf.backend.tensors import dtype_of
from aicf.compiler.kernels.reference import ROUNDING, rounded_to_infinity
from aicf.table import FLOATS

# A rounding of f64: there what is right is no better than what is judged, and the error of a sum
# that cancels shows in one of them alone.
_F64 = 2.0**-40


@dataclass(frozen=True, slots=True)
class Budget:
    """What an error may be: so many times the error before, and so many roundings of the output's
    dtype on top, since an error may have been small by luck. `absolute` is on top of that for a
    pass that is meant to lose something, as integers of 8 bits do."""

    times: float = 4.0
    roundings: float = 4.0
    absolute: float = 0.0

    def of(self, before: float, dtype: str) -> float:
        """Of what is no float nothing on top: it is equal or not."""
        rounding = _F64 if dtype == "f64" else ROUNDING.get(dtype, 0.0)
        absolute = self.absolute if dtype in FLOATS else 0.0
        return self.times * before + self.roundings * rounding + absolute


@dataclass(frozen=True, slots=True)
class Finding:
    """Of one result: its error before and after, and what it may be."""

    name: str
    dtype: str
    before: float
    after: float
    budget: float

    @property
    def is_within(self) -> bool:
        return self.after <= self.budget

    @property
    def share(self) -> float:
        """Of its budget, what it takes."""
        if self.budget > 0 and not math.isinf(self.budget):
            return self.after / self.budget
        return 0.0 if self.is_within else math.inf

    def __str__(self) -> str:
        if self.dtype not in FLOATS and not self.is_within:
            return f"{self.name}: {self.after:.2%} of its elements differ, {self.before:.2%} before"
        times = f", {self.after / self.before:.3g} times" if self.before else ""
        over = "within" if self.is_within else "over"
        errors = f"error {self.before:.3g} before and {self.after:.3g} after{times}"
        return f"{self.name}: {errors}, {over} {self.budget:.3g}"


@dataclass(frozen=True, slots=True)
class Run:
    """What two graphs gave on one data, by name, and what f64 gives."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    right: Mapping[str, Any]


def judge(runs: Sequence[Run], budget: Budget) -> Finding:
    """The result that takes most of its budget, by the greatest errors of all runs: on one data
    either may be exact by luck."""
    found = []
    for name in runs[0].right:
        dtype = dtype_of(runs[0].before[name])
        before = max(error(r.before[name], r.right[name], dtype) for r in runs)
        after = max(error(r.after[name], r.right[name], dtype) for r in runs)
        found.append(Finding(name, dtype, before, after, budget.of(before, dtype)))
    return max(found, key=lambda f: f.share)


def error(got: Any, want: Any, dtype: str) -> float:
    """The greatest difference of an element as a share of what is right there plus what is so in
    the mean, or plus 1 where all is 0; of what is no float, the share of elements that differ.
    Infinite where a NaN or an infinity stands on one side alone."""
    if np.shape(got) != np.shape(want):
        return math.inf
    if not np.size(want):
        return 0.0
    if dtype not in FLOATS:
        return float(np.mean(np.asarray(got) != np.asarray(want)))
    g, w = np.asarray(got).astype(np.float64), np.asarray(want, np.float64)
    w = rounded_to_infinity(w, dtype)
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(w)
        if not bool(np.all(finite | (g == w) | (np.isnan(g) & np.isnan(w)))):
            return math.inf
        if not finite.any():
            return 0.0
        apart, size = np.abs(g[finite] - w[finite]), np.abs(w[finite])
        worst = float(np.max(apart / (size + (float(np.mean(size)) or 1.0))))
    return worst if math.isfinite(worst) else math.inf
