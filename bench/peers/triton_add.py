"""The kernel of Triton's row: Triton reads its source, so it is a file of its own."""

# ruff: noqa: ANN001, ANN201
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def kernel(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(a + i, inside) + tl.load(b + i, inside), inside)
