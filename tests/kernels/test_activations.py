"""Functions of one real and their gradients: over their range, at its ends, in place, unaligned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from kernels.calls import call, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, poisoned, random, tensor_of
from kernels.tolerance import Array, assert_close, assert_same
from rows import rows

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("KERNELS-activations")]

NAN, INF = math.nan, math.inf

# With every option that takes another formula.
FORWARD: list[tuple[str, dict[str, Any]]] = [
    *((op, {}) for op in ("neg", "exp", "log", "sqrt", "relu", "tanh", "sigmoid", "silu")),
    ("leaky_relu", {"slope": 0.2}),
    ("gelu", {"approx": "none"}),
    ("gelu", {"approx": "tanh"}),
    ("elu", {"alpha": 1.5}),
    ("softplus", {"beta": 2.0, "threshold": 15.0}),
]
BACKWARD: list[tuple[str, dict[str, Any]]] = [
    *((f"{op}_bwd", {}) for op in ("relu", "tanh", "sigmoid", "silu")),
    ("leaky_relu_bwd", {"slope": 0.2}),
    ("gelu_bwd", {"approx": "none"}),
    ("gelu_bwd", {"approx": "tanh"}),
    ("elu_bwd", {"alpha": 1.5}),
    ("softplus_bwd", {"beta": 2.0, "threshold": 15.0}),
]


def reference(op: str, *args: torch.Tensor, **options: Any) -> Array:
    exact = [x.detach().cpu().double() for x in args]
    return array_of(rows()[op].reference(*exact, **options))


def names(cases: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [" ".join([op, *map(str, options.values())]) for op, options in cases]


# Dense about 0, then every exponent that all dtypes have, of both signs.
RANGE = np.concatenate([np.linspace(-15, 15, 20_001), np.logspace(-7, 4, 3000),
                        -np.logspace(-7, 4, 3000)])  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op, options", FORWARD, ids=names(FORWARD))
def test_over_its_whole_range(device: str, op: str, options: dict[str, Any], dtype: str) -> None:
    skip_without(dtype, device)
    x = tensor_of(RANGE if op not in ("log", "sqrt") else np.abs(RANGE), dtype, device)
    out = poisoned(x.shape, dtype, device)
    call(op, dtype, x, out, **options)
    assert_close(array_of(out), reference(op, x, **options), dtype, f"{op} {options}")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op, options", BACKWARD, ids=names(BACKWARD))
def test_backward_over_its_whole_range(
    device: str, op: str, options: dict[str, Any], dtype: str
) -> None:
    skip_without(dtype, device)
    y = tensor_of(RANGE, dtype, device)
    if op in ("tanh_bwd", "sigmoid_bwd"):  # of the result
        y = torch.tanh(y) if op == "tanh_bwd" else torch.sigmoid(y)
    gy = tensor_of(np.resize([1.0, -0.75, 3.0], RANGE.shape), dtype, device)
    gx = poisoned(y.shape, dtype, device)
    call(op, dtype, gy, y, gx, **options)
    assert_close(array_of(gx), reference(op, gy, y, **options), dtype, f"{op} {options}")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["tanh", "silu", "elu", "gelu", "sigmoid"])
def test_small_values_keep_their_digits(device: str, op: str, dtype: str) -> None:
    """Relative to themselves: a difference of nearly equal numbers would lose them."""
    skip_without(dtype, device)
    low = 4 if dtype == "f16" else 30  # f16 has no smaller ones whole
    x = tensor_of(np.concatenate([s * np.logspace(-low, -1, 500) for s in (1, -1)]), dtype, device)
    out = poisoned(x.shape, dtype, device)
    call(op, dtype, x, out)
    want = reference(op, x)
    bound = {"f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2, "f64": 1e-12}[dtype]
    error = np.abs(array_of(out) - want) / np.abs(want)
    assert error.max() < bound, f"{op} {dtype}: {error.max():.2e} at {array_of(x)[error.argmax()]}"


# ---- the ends ------------------------------------------------------------------------------------

# x and what comes of it: limits, where the formula has infinities less infinities or times 0.
ENDS: list[tuple[str, dict[str, Any], list[tuple[float, float]]]] = [
    ("neg", {}, [(INF, -INF), (-INF, INF), (0.0, -0.0)]),
    ("exp", {}, [(INF, INF), (-INF, 0.0), (-1e4, 0.0), (1e4, INF), (0.0, 1.0)]),
    ("log", {}, [(INF, INF), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (1.0, 0.0)]),
    ("sqrt", {}, [(INF, INF), (0.0, 0.0), (-0.0, -0.0), (-1.0, NAN), (-INF, NAN)]),
    ("relu", {}, [(INF, INF), (-INF, 0.0), (-1e4, 0.0)]),
    ("tanh", {}, [(INF, 1.0), (-INF, -1.0), (1e4, 1.0), (-1e4, -1.0)]),
    ("sigmoid", {}, [(INF, 1.0), (-INF, 0.0), (1e4, 1.0), (-1e4, 0.0)]),
    ("silu", {}, [(INF, INF), (-INF, 0.0), (709.0, 709.0), (-709.0, 0.0), (-1e4, 0.0)]),
    ("leaky_relu", {"slope": 0.25}, [(INF, INF), (-INF, -INF), (-8.0, -2.0)]),
    ("gelu", {"approx": "none"}, [(INF, INF), (-INF, 0.0), (1e4, 1e4), (-1e4, 0.0)]),
    ("gelu", {"approx": "tanh"}, [(INF, INF), (-INF, 0.0), (1e4, 1e4), (-1e4, 0.0)]),
    ("elu", {"alpha": 1.5}, [(INF, INF), (-INF, -1.5), (-1e4, -1.5), (1e4, 1e4)]),
    ("softplus", {}, [(INF, INF), (-INF, 0.0), (-1e4, 0.0), (1e4, 1e4), (20.5, 20.5)]),
    ("softplus", {"threshold": 1e5}, [(INF, INF), (-INF, 0.0), (1e4, 1e4), (300.0, 300.0)]),
    ("softplus", {"beta": -1.0}, [(-INF, -INF), (INF, -0.0), (1e4, -0.0), (-300.0, -300.0)]),
]
SLOPES: list[tuple[str, dict[str, Any], list[tuple[float, float]]]] = [
    ("silu_bwd", {}, [(INF, 1.0), (-INF, 0.0), (709.0, 1.0), (-709.0, 0.0), (0.0, 0.5)]),
    ("elu_bwd", {"alpha": 1.5}, [(INF, 1.0), (-INF, 0.0), (-1e4, 0.0), (0.0, 1.5)]),
    ("softplus_bwd", {}, [(INF, 1.0), (-INF, 0.0), (-1e4, 0.0), (1e4, 1.0), (0.0, 0.5)]),
    ("softplus_bwd", {"threshold": 1e5}, [(INF, 1.0), (-INF, 0.0), (1e4, 1.0)]),
    ("leaky_relu_bwd", {"slope": 0.25}, [(INF, 1.0), (-INF, 0.25), (0.0, 0.25), (-0.0, 0.25)]),
    ("sigmoid_bwd", {}, [(0.0, 0.0), (1.0, 0.0), (0.5, 0.25)]),
    ("tanh_bwd", {}, [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0)]),
]  # fmt: skip


@pytest.mark.promise("KERNELS-activations-ends")
@pytest.mark.parametrize("dtype", FLOATS)
def test_ends(device: str, dtype: str) -> None:
    """In vectors and in tails, NaN among them; relu(NaN) is NaN."""
    skip_without(dtype, device)
    for op, options, pairs in ENDS:
        given = [*pairs, (NAN, NAN)]
        x, want = (np.array([p[i] for p in given] * 5) for i in range(2))
        far = [1e20, -1e20] if dtype != "f16" and op in ("gelu", "silu", "softplus", "elu") else []
        out = poisoned(x.shape, dtype, device)
        call(op, dtype, tensor_of(x, dtype, device), out, **options)
        assert_close(array_of(out), want, dtype, f"{op} {options} at its ends")
        for value in far if "beta" not in options else []:
            one = poisoned((1,), dtype, device)
            call(op, dtype, tensor_of(np.array([value]), dtype, device), one, **options)
            limit = value if value > 0 else -1.5 if op == "elu" else 0.0
            assert_close(array_of(one), np.array([limit]), dtype, f"{op} {options} of {value}")


@pytest.mark.promise("KERNELS-activations-ends")
@pytest.mark.parametrize("dtype", FLOATS)
def test_slopes_at_the_ends(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for op, options, pairs in SLOPES:
        given = [*pairs, *([] if op == "leaky_relu_bwd" else [(NAN, NAN)])]
        y, slope = (np.array([p[i] for p in given] * 5) for i in range(2))
        for factor in (1.0, -2.0):
            gy = tensor_of(np.full(y.shape, factor), dtype, device)
            gx = poisoned(y.shape, dtype, device)
            call(op, dtype, gy, tensor_of(y, dtype, device), gx, **options)
            what = f"{op} {options} at the ends"
            assert_close(array_of(gx), factor * slope, dtype, what)


@pytest.mark.promise("KERNELS-activations-ends")
def test_where_torch_has_a_number_it_is_the_same(device: str) -> None:
    """Ours differ from torch's eager f32 at the ends where that is NaN, and nowhere else."""
    x = torch.tensor([INF, -INF, NAN, 0.0, -0.0, 88.0, -88.0, 104.0, -104.0, 1e30, -1e30])
    x = x.to(device)
    for op, peer in [("silu", functional.silu), ("gelu", functional.gelu), ("elu", functional.elu),
                     ("softplus", functional.softplus), ("tanh", torch.tanh),
                     ("sigmoid", torch.sigmoid)]:  # fmt: skip
        out = torch.full_like(x, 7)
        call(op, "f32", x, out)
        want = peer(x)
        same = torch.isclose(out, want, rtol=2e-6, atol=1e-30) | (out.isnan() & want.isnan())
        assert bool((same | (want.isnan() & ~x.isnan())).all()), f"{op}: {out}, torch {want}"


# ---- places --------------------------------------------------------------------------------------


@pytest.mark.promise("KERNELS-activations-views")
@pytest.mark.parametrize("count", [1, 7, 8, 9, 257, 1024, 4099])
def test_views_of_two_bytes_alignment(device: str, count: int) -> None:
    """x[1:1025] in bf16, of one phase with its out and of another; nothing beside is written."""
    memory = random((count + 9,), "bf16", device)
    for first, second in [(1, 1), (1, 0), (3, 8), (7, 7), (8, 8)]:
        x = memory[first : first + count]
        made = torch.full((count + 17,), 5.0, dtype=torch.bfloat16, device=device)
        out = made[second : second + count]
        call("silu", "bf16", x, out)
        assert_close(array_of(out), reference("silu", x), "bf16", f"silu of {first} to {second}")
        assert bool((made[:second] == 5).all()), f"before {first} to {second}"
        assert bool((made[second + count :] == 5).all()), f"behind {first} to {second}"


@pytest.mark.promise("KERNELS-activations-views")
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    "pitch, start, columns",
    [(64, 0, 64), (64, 0, 61), (72, 3, 65), (136, 5, 129), (67, 0, 65), (40, 1, 7)],
)
def test_pitched_rows(device: str, pitch: int, start: int, columns: int, dtype: str) -> None:
    """Rows of packs with heads and tails, of one phase and not, and rows too short for them."""
    skip_without(dtype, device)
    x = random((9, pitch), dtype, device)[:, start : start + columns]
    y = random((9, pitch), dtype, device, seed=1)[:, start : start + columns]
    made = torch.full((9, pitch), 5.0, dtype=DTYPES[dtype], device=device)
    out = made[:, start : start + columns]
    call("gelu_bwd", dtype, x, y, out)
    assert_close(array_of(out), reference("gelu_bwd", x, y), dtype, f"pitch {pitch}")
    made[:, start : start + columns] = 5
    assert bool((made == 5).all()), f"{pitch} {start} {columns}: what lies between rows is written"


@pytest.mark.promise("KERNELS-in-place")
@pytest.mark.parametrize("dtype", FLOATS)
def test_in_place(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for op, options in FORWARD:
        x = random((1031,), dtype, device).abs_()
        want = reference(op, x, **options)
        call(op, dtype, x, x, **options)
        assert_close(array_of(x), want, dtype, f"{op} in place")


@pytest.mark.promise("KERNELS-activations-repeat")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_bits_do_not_depend_on_where_it_lies(device: str, dtype: str) -> None:
    """Packs, heads, tails and single elements are one arithmetic, on the CPU any thread's."""
    x = random((9_001,), dtype, device)
    for op, options in FORWARD:
        first, second = poisoned(x.shape, dtype, device), poisoned(x.shape, dtype, device, "odd")
        stepped = poisoned(x.shape, dtype, device, "stepped")
        for out in (first, second, stepped):
            call(op, dtype, x, out, **options)
        assert_same(array_of(second), array_of(first), f"{op}, unaligned")
        assert_same(array_of(stepped), array_of(first), f"{op}, stepped")
