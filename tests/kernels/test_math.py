"""aicf/cpu/math.h: each function's worst error over f32, its corners, and that loops of it are
vectorised, as the CPU kernels are compiled."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("KERNELS-math")]

NAN, INF = np.nan, np.inf
Values = npt.NDArray[np.float64]

# Units of the last place, as the header says; the functions in f64.
WORST: dict[str, tuple[float, Callable[[torch.Tensor], torch.Tensor]]] = {
    "exp": (1.1, torch.exp),
    "expm1": (1.8, torch.expm1),
    "log": (1.0, torch.log),
    "log1p": (1.5, torch.log1p),
    "log1p_unit": (1.5, torch.log1p),
    "tanh": (2.3, torch.tanh),
    "sigmoid": (2.3, torch.sigmoid),
    "erfc": (6.0, torch.special.erfc),
}

# The same of f64, in what has 11 bits more.
LONG = np.longdouble
WORST_F64: dict[str, tuple[float, Callable[[Any], Any]]] = {
    "exp": (1.5, np.exp),
    "expm1": (2.0, np.expm1),
    "log1p_unit": (1.5, np.log1p),
    "tanh": (3.0, np.tanh),
    "sigmoid": (2.5, lambda x: 1 / (1 + np.exp(-x))),
}
DOMAINS = {"log1p_unit": (0.0, 1.0)}

SOURCE = """
#include <aicf/cpu/math.h>
#define LOOP(name, real, s)                                              \\
    void name##_##s(const real *x, real *y, long n)                      \\
    {                                                                    \\
        AICF_INDEPENDENT                                                 \\
        for (long i = 0; i < n; i++) y[i] = aicf_##name(x[i]);           \\
    }
"""


def command(*more: str) -> list[str]:
    """As AICF_COMPILE_KERNEL_cpu, but for what AICF_CLONES adds."""
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-O3", "-fno-math-errno"]
    return [os.environ.get("CC", "gcc"), *flags, f"-I{ROOT}/include", *more]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("math")
    source = folder / "math.c"
    loops = [f"LOOP({name}, float, f32)" for name in WORST]
    loops += [f"LOOP({name}, double, f64)" for name in WORST_F64]
    source.write_text(SOURCE + "\n".join(loops))
    subprocess.run(command("-shared", str(source), "-o", f"{folder}/m.so", "-lm"), check=True)
    return ctypes.CDLL(f"{folder}/m.so")


def run(library: ctypes.CDLL, name: str, x: npt.NDArray[Any]) -> Values:
    y = np.empty_like(x)
    given = (ctypes.c_void_p(a.ctypes.data) for a in (x, y))
    suffix = "f32" if x.dtype == np.float32 else "f64"
    getattr(library, f"{name}_{suffix}")(*given, ctypes.c_long(x.size))
    with np.errstate(invalid="ignore"):  # of signalling NaN
        return y.astype(np.float64)


def ulps(got: Values, want: Values) -> Values:
    """Units of the last place that f32 has at `want`; infinity is one past the largest."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.where(np.abs(want) < 2.0**128, want, np.copysign(2.0**128, want))
        got = np.where(np.isinf(got), np.copysign(2.0**128, got), got)
        _, exponent = np.frexp(np.where(near == 0, 2.0**-149, near))
        error = np.abs(got - near) / np.exp2(np.maximum(exponent - 24, -149))
    return np.where(np.isnan(want) & np.isnan(got), 0.0, np.where(np.isnan(error), INF, error))


@pytest.mark.parametrize("name", WORST)
def test_worst_error(library: ctypes.CDLL, name: str) -> None:
    """2**20 bit patterns, each 4096th and a random one of those between: all exponents and signs,
    NaN, infinities, what is below the normal numbers."""
    rng = np.random.default_rng(5)
    bits = np.arange(0, 2**32, 4096, dtype=np.uint64) + rng.integers(0, 4096, 2**20, np.uint64)
    dense = np.linspace(-20, 20, 2**20).astype(np.float32)
    worst, function = WORST[name]
    low, high = DOMAINS.get(name, (-INF, INF))
    for x in (bits.astype(np.uint32).view(np.float32), dense):
        x = x[(x >= low) & (x <= high) | (np.isnan(x) & (low == -INF))]
        want = function(torch.from_numpy(x).to(torch.float64)).numpy()
        error = ulps(run(library, name, x), want)
        at = int(np.argmax(error))
        assert error[at] <= worst, f"{name}({x[at]!r}): {error[at]:.2f} ulp"


@pytest.mark.parametrize("name", WORST_F64)
def test_worst_error_of_f64(library: ctypes.CDLL, name: str) -> None:
    rng = np.random.default_rng(6)
    bits = rng.integers(0, 2**64, 2**18, np.uint64).view(np.float64)
    worst, function = WORST_F64[name]
    low, high = DOMAINS.get(name, (-INF, INF))
    dense = [np.linspace(-end, end, 2**17) for end in (1.0, 40.0, 760.0)]
    for x in (bits[~np.isnan(bits)], *dense, np.array([0.0, -0.0, INF, -INF])):
        x = x[(x >= low) & (x <= high)]
        with np.errstate(all="ignore"):
            want = function(x.astype(LONG))
            rounded = want.astype(np.float64)
            got = run(library, name, x)
            unit = np.maximum(np.spacing(np.abs(rounded)), 5e-324).astype(LONG)
            error = np.where(got == rounded, 0, np.abs(got.astype(LONG) - want) / unit)
        at = int(np.argmax(np.where(np.isnan(error), INF, error)))
        assert error[at] <= worst, f"{name}({x[at]!r}): {error[at]:.2f} ulp"
    assert np.isnan(run(library, name, np.array([NAN]))[0])


CORNERS = {
    "exp": [(-INF, 0.0), (INF, INF), (-104.0, 0.0), (-1e30, 0.0), (89.0, INF), (0.0, 1.0)],
    "expm1": [(-INF, -1.0), (INF, INF), (-1e30, -1.0), (89.0, INF), (0.0, 0.0), (1e-30, 1e-30)],
    "log": [(0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN), (1.0, 0.0)],
    "log1p": [(-1.0, -INF), (INF, INF), (-2.0, NAN), (-INF, NAN), (0.0, 0.0), (1e-30, 1e-30)],
    "log1p_unit": [(0.0, 0.0), (1e-30, 1e-30)],
    "tanh": [(-INF, -1.0), (INF, 1.0), (100.0, 1.0), (0.0, 0.0), (1e-30, 1e-30)],
    "sigmoid": [(-INF, 0.0), (INF, 1.0), (-709.0, 0.0), (709.0, 1.0), (0.0, 0.5)],
    "erfc": [(-INF, 2.0), (INF, 0.0), (-1e20, 2.0), (1e20, 0.0), (0.0, 1.0)],
}


@pytest.mark.parametrize("name", WORST)
def test_corners(library: ctypes.CDLL, name: str) -> None:
    x, want = np.array([*CORNERS[name], (NAN, NAN), (-NAN, NAN)]).T
    got = run(library, name, x.astype(np.float32))
    np.testing.assert_array_equal(got, want.astype(np.float32).astype(np.float64))
    negative = run(library, "tanh", np.array([-0.0], np.float32))
    assert np.signbit(negative[0])


@pytest.mark.parametrize("name", WORST)
def test_loops_are_vectorised(name: str, tmp_path: Path) -> None:
    """For the baseline too, which has neither blends nor rounding."""
    source = tmp_path / "one.c"
    source.write_text(SOURCE + f"LOOP({name}, float, f32)")
    made = subprocess.run(
        command("-c", str(source), "-S", "-o", "-"), capture_output=True, text=True, check=True
    )
    assert re.search(r"\bmulps\b", made.stdout), f"{name}: no vectors in its loop"


@pytest.mark.parametrize("name", WORST_F64)
def test_loops_of_f64_are_vectorised(name: str, tmp_path: Path) -> None:
    """For x86-64-v3: the baseline has no comparisons of 64 bits."""
    source = tmp_path / "one.c"
    source.write_text(SOURCE + f"LOOP({name}, double, f64)")
    options = ("-march=x86-64-v3", "-ffp-contract=off", "-c", str(source), "-S", "-o", "-")
    made = subprocess.run(command(*options), capture_output=True, text=True, check=True)
    assert re.search(r"\bvmulpd\b.*ymm", made.stdout), f"{name}: no vectors in its loop"
