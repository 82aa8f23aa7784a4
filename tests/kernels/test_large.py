"""Tensors of more elements than 32 bits count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kernels.calls import call

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("A2")]

COUNTS = [2**31 - 1, 2**31, 2**31 + 512]
ENDS = 4096  # elements looked at on both sides


@pytest.fixture
def memory() -> Iterator[None]:
    yield
    torch.cuda.empty_cache()


@pytest.mark.large
def test_a_copy_of_more_bytes_than_an_int_counts() -> None:
    """On the CPU: from one element, so that only the out takes memory."""
    count = 2**31 + 513
    out = torch.zeros(count, dtype=torch.uint8)
    call("copy", "u8", torch.full((1,), 7, dtype=torch.uint8).expand(count), out)
    assert int(out[0]) == int(out[-1]) == int(out[2**31 - 1]) == int(out[2**31]) == 7
    assert int(out.view(torch.int8).amin()) == 7


@pytest.mark.gpu
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.usefixtures("memory")
@pytest.mark.large
def test_elementwise(count: int) -> None:
    x = torch.zeros(count, dtype=torch.float16, device="cuda")
    for part in (x[:ENDS], x[-ENDS:], x[2**31 - ENDS : 2**31]):
        part.copy_(torch.randn(len(part)))
    for op, args, options, want in [
        ("add", (x, x), {}, 2 * x),
        ("relu", (x,), {}, torch.relu(x)),
        ("scale", (x,), {"factor": 0.5}, x * 0.5),
        ("copy", (x,), {}, x),
    ]:
        out = torch.full_like(x, torch.nan)
        call(op, "f16", *args, out, **options)
        assert torch.equal(out, want), f"{op} of {count}"
        del out, want


@pytest.mark.gpu
@pytest.mark.usefixtures("memory")
@pytest.mark.large
def test_strided_and_broadcast() -> None:
    """Offsets beyond 2**31 though each dim is short."""
    rows, columns = 70_000, 31_000
    x = torch.zeros(columns, rows, dtype=torch.float16, device="cuda").T
    x[-1], x[:, -1] = 3, 5
    y = torch.ones(columns, dtype=torch.float16, device="cuda")
    out = torch.full((rows, columns), torch.nan, dtype=torch.float16, device="cuda")
    call("add", "f16", x, y, out)
    assert bool((out[:-1, :-1] == 1).all())
    assert bool((out[-1, :-1] == 4).all())
    assert bool((out[:, -1] == 6).all())
    call("bias_add", "f16", out, y, out)
    assert bool((out[:-1, :-1] == 2).all())


@pytest.mark.gpu
@pytest.mark.usefixtures("memory")
@pytest.mark.large
def test_rows_of_a_large_matrix() -> None:
    """gemm whose out, and whose a, have more than 2**31 elements."""
    rows = 2**31 // 64 + 3
    a = torch.zeros(rows, 64, dtype=torch.float16, device="cuda")
    a[0], a[-1] = 1, 2
    b = torch.ones(64, 64, dtype=torch.float16, device="cuda")
    out = torch.full((rows, 64), torch.nan, dtype=torch.float16, device="cuda")
    call("gemm", "f16", a, b, None, None, out)
    assert bool((out[0] == 64).all())
    assert bool((out[-1] == 128).all())
    assert bool((out[1:-1] == 0).all())
