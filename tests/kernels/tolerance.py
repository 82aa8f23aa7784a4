"""How near a result must be to its float64 reference: said once, by dtype."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# (rtol, atol): one rounding of the result, and the arithmetic of the dtype it is computed in.
TOLERANCES = {
    "f32": (1.3e-6, 1e-5),
    "f16": (1e-3, 1e-5),
    "bf16": (1.6e-2, 1e-5),
    "f64": (1e-7, 1e-7),
}

# Of the dtype that sums are accumulated in: a sum may be off by `count * eps * sum(|x|)`.
EPS = {"f32": 2.0**-23, "f16": 2.0**-23, "bf16": 2.0**-23, "f64": 2.0**-52}

# The largest value that does not round to infinity.
LARGEST = {"f32": 3.4028235677973366e38, "f16": 65519.99, "bf16": 3.3961775292304957e38}


def assert_close(
    got: Array, want: Array, dtype: str, what: str, slack: Array | float = 0.0
) -> None:
    """`got` is `want` within the dtype's tolerance, and `slack` more. NaN and infinities must be in
    the same places, so that a poisoned element that nobody wrote fails."""
    assert got.shape == want.shape, f"{what} {dtype}: shape {got.shape}, want {want.shape}"
    rtol, atol = TOLERANCES[dtype]
    if dtype in LARGEST:
        want = np.where(np.abs(want) > LARGEST[dtype], np.copysign(np.inf, want), want)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want)
        near = error <= atol + rtol * np.abs(want) + slack
        wrong = ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))
    if wrong.any():
        worst = np.where(np.isnan(error), np.inf, error)
        index = np.unravel_index(np.argmax(np.where(wrong, worst, -1.0)), got.shape)
        raise AssertionError(
            f"{what} {dtype} {got.shape}: {wrong.sum()} of {got.size} wrong, the worst at "
            f"{tuple(map(int, index))}: got {got[index]!r}, want {want[index]!r}, "
            f"off by {error[index]:.3g}"
        )


def assert_same(got: Array, want: Array, what: str) -> None:
    """Equal, NaN where NaN is wanted."""
    wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)))
    assert got.shape == want.shape, f"{what}: shape {got.shape}, want {want.shape}"
    if wrong.any():
        index = tuple(map(int, np.argwhere(wrong)[0]))
        raise AssertionError(
            f"{what} {got.shape}: {wrong.sum()} of {got.size} differ, the first at {index}: "
            f"got {got[index]!r}, want {want[index]!r}"
        )
