"""Every op behind a launch that lets the next one begin long before it has written that one's
input."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpu.cases import OPS, Case, cases  # noqa: E402
from rows.table import WORDS  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.guests("torch")]

LONG = 2**24  # elements that are read for an input: some 20 us


def late(x: Any) -> None:
    """x's values, by a sum of two launches, of which the second waits beside whatever is next."""
    flat = x.view(-1)
    many = torch.zeros(flat.numel(), LONG // flat.numel(), dtype=x.dtype, device="cuda")
    many[:, -1] = flat
    flat.fill_(float("nan"))
    module = importlib.import_module("aicf_cuda.sum")
    assert getattr(module, f"sum_{WORDS[x.dtype]}")(many, flat, axes=[1]) is True


def last_to_come(case: Case) -> list[int]:
    """The inputs that may be: floats that lie dense and are not large."""
    return [
        i
        for i, x in enumerate(case.inputs)
        if x.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and x.is_contiguous()
        and 0 < x.numel() <= 2**16
    ]


@pytest.mark.promise("KERNELS-early")
@pytest.mark.parametrize("op", OPS)
def test_an_input_that_is_being_written(op: str) -> None:
    for case in cases(op):
        for i in last_to_come(case)[:4]:
            case.change(i)
            junk = [torch.full((300_000,), float("nan"), device="cuda") for _ in range(3)]
            torch.cuda.synchronize()
            del junk  # a workspace is of NaN
            late(case.inputs[i])
            case.run()
            case.check()
