"""Conversion of 16-bit floats on the host: every pattern, also with subnormals flushed to zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from kernels.calls import call
from kernels.tensors import DTYPES
from kernels.tolerance import assert_same

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("FAULT-22")]


@pytest.fixture(params=[False, True], ids=["subnormals kept", "subnormals flushed"])
def flushed(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Sets the FPU of this thread as torch users do, and puts it back."""
    assert torch.set_flush_denormal(request.param)
    yield request.param
    torch.set_flush_denormal(False)


def patterns() -> torch.Tensor:
    return torch.arange(65536, dtype=torch.int32).to(torch.int16)


def values_of(bits: torch.Tensor, dtype: str) -> torch.Tensor:
    """What the patterns mean, by integers: no FPU that flushes has a say."""
    b = bits.to(torch.int64) & 0xFFFF
    exponent_bits, fraction_bits = (5, 10) if dtype == "f16" else (8, 7)
    exponent = (b >> fraction_bits) & ((1 << exponent_bits) - 1)
    fraction = b & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    normal = torch.ldexp(
        ((1 << fraction_bits) + fraction).double(), (exponent - bias - fraction_bits)
    )
    small = torch.ldexp(fraction.double(), torch.tensor(1 - bias - fraction_bits))
    value = torch.where(exponent == 0, small, normal)
    top = exponent == (1 << exponent_bits) - 1
    value = torch.where(top, torch.where(fraction == 0, torch.inf, torch.nan), value)
    return torch.where(b >= 0x8000, -value, value)


@pytest.mark.parametrize("step", [1, 2], ids=["vectors", "one by one"])
def test_every_f16_survives_the_way_to_f32_and_back(flushed: bool, step: int) -> None:
    bits = patterns()
    x = torch.empty(step * 65536, dtype=torch.int16)[::step].copy_(bits)
    out = torch.full_like(x, 0x1234)
    call("scale", "f16", x.view(torch.float16), out.view(torch.float16), factor=1.0)
    nan = np.isnan(values_of(bits, "f16").numpy())
    assert np.array_equal(out.numpy()[~nan], bits.numpy()[~nan])
    assert np.isnan(values_of(out, "f16").numpy()[nan]).all()


def test_every_f16_is_read_as_what_it_is(flushed: bool) -> None:
    """Times 2**12 even the smallest is a normal f16, so reading it is all there is to get wrong."""
    bits = patterns()
    x = bits.view(torch.float16)
    out = torch.zeros(65536, dtype=torch.float16)
    call("scale", "f16", x, out, factor=4096.0)
    want = values_of(bits, "f16").numpy() * 4096
    want = np.where(np.abs(want) >= 65520, np.copysign(np.inf, want), want)
    assert_same(values_of(out.view(torch.int16), "f16").numpy(), want, "f16 times 4096")


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_every_pattern_plus_another_rounds_to_nearest_even(dtype: str) -> None:
    """Sums are exact in f32, so the rounding of the result is all there is to get wrong."""
    rng = np.random.default_rng(22)
    bits = patterns()
    other = torch.from_numpy(rng.permutation(65536).astype(np.int32)).to(torch.int16)
    a, b = bits.view(DTYPES[dtype]), other.view(DTYPES[dtype])
    out = torch.zeros(65536, dtype=DTYPES[dtype])
    call("add", dtype, a, b, out)
    exact = values_of(bits, dtype).float() + values_of(other, dtype).float()
    want = exact.to(DTYPES[dtype])  # torch's own rounding
    assert_same(
        values_of(out.view(torch.int16), dtype).numpy(),
        values_of(want.view(torch.int16), dtype).numpy(),
        f"add {dtype}",
    )


def test_halfway_cases_of_f16(flushed: bool) -> None:
    """x + half an ulp is a tie, one bit beside it is not; subnormal results among them."""
    bits = torch.arange(0, 0x7BFF, dtype=torch.int16)
    low, high = values_of(bits, "f16"), values_of(bits + 1, "f16")
    middle = ((low + high) / 2).float()
    for nudge, want in [(0, torch.where(bits % 2 == 0, bits, bits + 1)), (-1, bits), (1, bits + 1)]:
        exact = (middle.view(torch.int32) + nudge).view(torch.float32)
        one = torch.ones(1, dtype=torch.float16)
        for at in range(0, len(bits), 997):  # a scalar at a time: the factor is f32, exactly
            out = torch.zeros(1, dtype=torch.float16)
            call("scale", "f16", one, out, factor=float(exact[at]))
            assert int(out.view(torch.int16)) == int(want[at]), (float(exact[at]), nudge)


def test_beyond_the_largest_f16_is_infinity() -> None:
    one = torch.ones(1, dtype=torch.float16)
    for factor, want in [
        (65504.0, 65504.0),
        (65519.99, 65504.0),
        (65520.0, np.inf),
        (-1e30, -np.inf),
    ]:
        out = torch.zeros(1, dtype=torch.float16)
        call("scale", "f16", one, out, factor=factor)
        assert float(out) == want
