"""Cross entropy and its gradient: classes of any number, targets that do not count, bits, and the
inputs that broke others."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from kernels.calls import call, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, poisoned, random, tensor_of
from kernels.test_softmax import on_both
from kernels.tolerance import assert_close
from rows import rows

pytestmark = [pytest.mark.guests("torch")]

# [N, C, R]: a row in 16 lanes, a warp, 1 to 4 packs a lane, a block; of odd width, so that rows
# start at all phases; columns; more lines than there are parts to sum.
SHAPES = [
    (5, 1, 1), (7, 3, 1), (33, 10, 1), (21, 129, 1), (9, 513, 1), (9, 1024, 1), (6, 1025, 1),
    (5, 3584, 1), (3, 8193, 1), (3, 50257, 1), (9001, 5, 1), (8200, 1030, 1),
    (2, 7, 5), (3, 21, 300), (1, 1000, 33), (9, 5, 2000),
]  # fmt: skip

MANY = 2**20

ON_CPU = [(5, 1, 1), (33, 10, 1), (3, 129, 1), (600, 5, 1), (2, 7, 5), (3, 21, 100)]

OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"ignore_index": 0},
    {"label_smoothing": 0.1},
    {"label_smoothing": 0.3, "ignore_index": 0, "reduction": "none"},
]


def acc(dtype: str) -> str:
    return "f64" if dtype == "f64" else "f32"


@dataclass(slots=True)
class Case:
    """Logits, targets, maybe weights, on a device."""

    logits: torch.Tensor
    target: torch.Tensor
    weight: torch.Tensor | None
    dtype: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[int, ...]:
        return tuple(self.target.shape)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.lines if self.options.get("reduction") == "none" else ()

    @property
    def suffix(self) -> str:
        return f"{self.dtype}_{'i64' if self.target.dtype == torch.int64 else 'i32'}"

    @property
    def exactly(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Of many elements where they lie: a CPU would take half a second."""
        place = "cpu" if self.logits.numel() < MANY else self.logits.device
        weight = None if self.weight is None else self.weight.to(place).double()
        return self.logits.to(place).double().clone(), self.target.to(place).long(), weight

    def wanted(self) -> list[torch.Tensor]:
        """out, lse, divisor in float64."""
        found = rows()["cross_entropy"].reference(*self.exactly, **self.options)
        return [x.cpu() for x in found]

    def forward(self) -> list[torch.Tensor]:
        device = self.logits.device.type
        out = poisoned(self.out_shape, self.dtype, device)
        lse = poisoned(self.lines, acc(self.dtype), device)
        divisor = poisoned((), acc(self.dtype), device)
        inputs = self.logits, self.target, self.weight
        call("cross_entropy", self.suffix, *inputs, out, lse, divisor, **self.options)
        return [out, lse, divisor]

    def backward(self, gy: torch.Tensor, lse: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
        gx = poisoned(self.logits.shape, self.dtype, self.logits.device.type)
        inputs = gy, self.logits, self.target, lse, divisor, self.weight
        call("cross_entropy_bwd", self.suffix, *inputs, gx, **self.options)
        return gx

    def slope(self, gy: torch.Tensor) -> torch.Tensor:
        """The gradient in float64, by torch."""
        logits, target, weight = self.exactly
        logits.requires_grad_()
        out = functional.cross_entropy(logits, target, weight, **self.options)
        out.backward(gy.to(out.device).double())
        assert logits.grad is not None
        return logits.grad.cpu()

    def check(self) -> None:
        what = f"of {tuple(self.logits.shape)} {self.options}"
        got = self.forward()
        for x, y, name in zip(got, self.wanted(), ("out", "lse", "divisor"), strict=True):
            kind = self.dtype if name == "out" else acc(self.dtype)
            assert_close(array_of(x), y.numpy(), kind, f"{name} {what}", 1e-6 * abs(array_of(x)))
        gy = random(self.out_shape, self.dtype, self.logits.device.type, seed=9)
        gx = self.backward(gy, *got[1:])
        assert_close(array_of(gx), self.slope(gy).numpy(), self.dtype, f"gx {what}")


def made(
    shape: tuple[int, int, int], dtype: str, device: str, weighted: bool, layout: str = "dense"
) -> Case:
    """Every fifth target is class 0."""
    n, c, r = shape
    rng = np.random.default_rng([7, *shape])
    target = torch.from_numpy(rng.integers(0, c, (n, r)) * (rng.random((n, r)) > 0.2))
    logits = random(shape, dtype, device, layout)
    if r == 1:
        logits, target = logits.squeeze(2), target.squeeze(1)
    kind = torch.int32 if weighted else torch.int64
    weight = tensor_of(0.25 + rng.random(c), dtype, device) if weighted else None
    return Case(logits, target.to(kind).to(device), weight, dtype)


def with_options(case: Case) -> Iterator[Case]:
    for options in OPTIONS:
        case.options = options
        yield case


@pytest.mark.promise("KERNELS-cross-entropy-values", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("device, shape", on_both(ON_CPU, SHAPES))
def test_values(device: str, shape: tuple[int, int, int], dtype: str) -> None:
    skip_without(dtype, device)
    for weighted in (False, True):
        for case in with_options(made(shape, dtype, device, weighted, "odd")):
            case.check()


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-cross-entropy-values")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("shape", [(8500, 2056), (2300, 6003), (600, 16_390)], ids=str)
def test_teams_that_go_from_row_to_row(shape: tuple[int, int], dtype: str) -> None:
    """A row a warp, some warps, a block: more rows than there are of these."""
    case = made((*shape, 1), dtype, "cuda", True, "odd")
    weight = case.weight
    for options in (OPTIONS[0], OPTIONS[2], OPTIONS[4]):
        for case.weight in (None, weight):
            case.options = options
            out, lse, _ = case.forward()
            exactly = case.logits.double(), case.target.long()
            doubled = None if case.weight is None else case.weight.double()
            want = functional.cross_entropy(*exactly, doubled, **options)
            assert_close(array_of(out), array_of(want), dtype, f"{shape} {options}")
            want = torch.logsumexp(exactly[0], 1)
            assert_close(
                array_of(lse), array_of(want), "f32", f"lse {shape}", 1e-6 * array_of(want)
            )


@pytest.mark.promise("KERNELS-cross-entropy-values")
@pytest.mark.parametrize("dtype", FLOATS)
def test_optional_outs(device: str, dtype: str) -> None:
    """Each is right without the others; in place the gradient is too."""
    skip_without(dtype, device)
    for case in with_options(made((33, 70, 1), dtype, device, False)):
        out = poisoned(case.out_shape, dtype, device)
        inputs = case.logits, case.target, case.weight
        call("cross_entropy", case.suffix, *inputs, out, **case.options)
        got = case.forward()
        assert torch.equal(out, got[0])
        gy = random(case.out_shape, dtype, device)
        want = case.backward(gy, *got[1:])
        copy = case.logits.clone()
        inputs = gy, copy, case.target, *got[1:], case.weight
        call("cross_entropy_bwd", case.suffix, *inputs, copy, **case.options)
        assert torch.equal(copy, want)


# ---- targets that do not count -------------------------------------------------------------------


@pytest.mark.promise("KERNELS-cross-entropy-targets")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(6, 5, 1), (6, 3000, 1), (3, 5, 4)], ids=str)
def test_every_target_ignored(device: str, shape: tuple[int, int, int], dtype: str) -> None:
    """The mean of nothing is NaN, its gradient 0; the sum 0."""
    skip_without(dtype, device)
    for weighted in (False, True):
        for smoothing in (0.0, 0.2):
            case = made(shape, dtype, device, weighted)
            case.target.fill_(-100)
            for reduction, want in [("mean", math.nan), ("sum", 0.0), ("none", 0.0)]:
                case.options = {"reduction": reduction, "label_smoothing": smoothing}
                out, lse, divisor = case.forward()
                got = array_of(out)
                assert np.all(np.isnan(got) if math.isnan(want) else got == want), (reduction, got)
                assert float(divisor) == (0.0 if reduction == "mean" else 1.0)
                gy = random(case.out_shape, dtype, device)
                assert not array_of(case.backward(gy, lse, divisor)).any()


@pytest.mark.promise("KERNELS-cross-entropy-targets")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("smoothing", [0.0, 0.4])
def test_weights_and_smoothing_with_ignored_targets(
    device: str, smoothing: float, dtype: str
) -> None:
    """ignore_index = -100 is no place to read a weight from."""
    skip_without(dtype, device)
    for shape in [(40, 11, 1), (5, 11, 40)] + [(40, 2000, 1)] * (device == "cuda"):
        for weighted in (False, True):
            case = made(shape, dtype, device, weighted)
            case.target.view(-1)[::3] = -100
            for reduction in ("mean", "sum", "none"):
                case.options = {"reduction": reduction, "label_smoothing": smoothing}
                case.check()


@pytest.mark.promise("KERNELS-cross-entropy-targets")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(8, 5, 1), (8, 3000, 1), (4, 5, 2)], ids=str)
def test_a_target_that_is_no_class(device: str, shape: tuple[int, int, int], dtype: str) -> None:
    """NaN for its line, forward and backward; nothing is read there."""
    skip_without(dtype, device)
    for weighted in (False, True):
        for bad in (shape[1], -1, -(2**31), 2**31 - 1):
            case = made(shape, dtype, device, weighted)
            case.target.view(-1)[2] = bad
            case.options = {"reduction": "none", "label_smoothing": 0.1 * weighted}
            out, lse, divisor = case.forward()
            nan = np.isnan(array_of(out)).reshape(-1)
            assert nan.tolist() == [i == 2 for i in range(len(nan))]
            gy = torch.ones_like(out)
            gx = torch.movedim(case.backward(gy, lse, divisor), 1, -1).reshape(-1, shape[1])
            nan = np.isnan(array_of(gx))
            assert nan[2].all()
            assert nan.sum() == shape[1]
            case.options = {}
            assert math.isnan(float(case.forward()[0]))


@pytest.mark.promise("KERNELS-cross-entropy-targets")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("width", [5, 5000])
def test_logits_that_are_no_numbers(device: str, width: int, dtype: str) -> None:
    """As torch: NaN for a row of -inf alone, one with NaN or +inf; inf for a target of -inf."""
    skip_without(dtype, device)
    x = array_of(random((6, width), dtype, "cpu"))
    x[0] = -math.inf
    x[1, 2] = math.nan
    x[2, 2] = math.inf
    x[3, 1] = -math.inf
    x[4, 1:] = -math.inf
    target = torch.tensor([1, 1, 1, 1, 0, 3], device=device)
    for smoothing in (0.0, 0.1):
        options = {"reduction": "none", "label_smoothing": smoothing}
        case = Case(tensor_of(x, dtype, device), target, None, dtype, options)
        out = case.forward()[0]
        assert_close(array_of(out), case.wanted()[0].numpy(), dtype, f"smoothing {smoothing}")


@pytest.mark.promise("KERNELS-cross-entropy-values")
@pytest.mark.parametrize("width", [10, 3000])
def test_large_logits_near_each_other(device: str, width: int) -> None:
    """Their differences count, to the last digit, smoothed too."""
    rng = np.random.default_rng(3)
    x = tensor_of(rng.random((9, width)) * 8 - 1e5, "f32", device)
    target = torch.arange(9, device=device)
    for smoothing in (0.0, 0.5):
        case = Case(x, target, None, "f32", {"label_smoothing": smoothing})
        assert_close(array_of(case.forward()[0]), case.wanted()[0].numpy(), "f32", "far from 0")


@pytest.mark.promise("C1", "KERNELS-cross-entropy-targets")
def test_of_nothing(device: str) -> None:
    """No line: the sum is 0, the mean NaN."""
    for shape in [(0, 5), (0, 3000), (0, 5, 3), (2, 5, 0)]:
        target = torch.empty((shape[0], *shape[2:]), dtype=torch.int64, device=device)
        for reduction, want in [("mean", math.nan), ("sum", 0.0)]:
            options = {"reduction": reduction}
            case = Case(torch.empty(shape, device=device), target, None, "f32", options)
            got = float(case.forward()[0])
            assert got == want or (math.isnan(got) and math.isnan(want)), (shape, reduction, got)


# ---- size and bits -------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-cross-entropy-large")
@pytest.mark.large
def test_more_logits_than_32_bits_count() -> None:
    lines, classes = 43_000, 50_257
    x = torch.empty((lines, classes), dtype=torch.bfloat16, device="cuda").normal_()
    target = torch.arange(lines, device="cuda") % classes
    case = Case(x, target, None, "bf16", {"reduction": "none"})
    out, lse, one = case.forward()
    gx = case.backward(torch.ones_like(out), lse, one)
    past = 2**31 // classes
    for line in (0, past - 1, past, past + 1, lines - 1):
        part = Case(x[line : line + 1], target[line : line + 1], None, "bf16", case.options)
        assert_close(array_of(out[line : line + 1]), part.wanted()[0].numpy(), "bf16", f"{line}")
        want = part.slope(torch.ones(1)).numpy()
        assert_close(array_of(gx[line : line + 1]), want, "bf16", f"gx of {line}")
    mean = Case(x, target, None, "bf16").forward()[0]
    assert_close(array_of(mean), array_of(out).mean(keepdims=True).reshape(()), "bf16", "mean")
    del x, out, lse, gx
    torch.cuda.empty_cache()


@pytest.mark.promise("KERNELS-cross-entropy-bits")
@pytest.mark.parametrize("shape", [(9001, 7, 1), (9, 5000, 1), (3, 9, 700)], ids=str)
def test_the_same_bits_at_every_run(device: str, shape: tuple[int, int, int]) -> None:
    case = made(shape, "f32", device, True)
    case.options = {"label_smoothing": 0.1}
    first, again = case.forward(), case.forward()
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
    gy = torch.ones((), device=device)
    gx = [case.backward(gy, *found[1:]) for found in (first, again)]
    assert torch.equal(*gx)


def digest() -> str:
    """For test_softmax.py."""
    h = hashlib.sha256()
    for dtype in FLOATS:
        for shape in [(2001, 7, 1), (9, 3000, 1), (3, 9, 700)]:
            for case in with_options(made(shape, dtype, "cpu", True)):
                found = case.forward()
                gx = case.backward(torch.ones(case.out_shape, dtype=DTYPES[dtype]), *found[1:])
                for x in (*found, gx):
                    h.update(x.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()
