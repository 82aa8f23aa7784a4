"""torch's own checks of an operator, the whole default set, on every overload of every row."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_ops.samples import FEWEST, ROWS, forms_of, samples_of  # noqa: E402

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("TORCH-opcheck")]


@pytest.mark.parametrize("namespace, name", ROWS)
def test_plain(ops: Any, namespace: str, name: str) -> None:
    op = getattr(getattr(ops, namespace), name)
    samples = samples_of(name)
    for one in samples:
        torch.library.opcheck(op.default, one.args, one.kwargs)
    assert len(samples) >= FEWEST


@pytest.mark.parametrize("namespace, name", ROWS)
def test_other_forms(ops: Any, namespace: str, name: str) -> None:
    op = getattr(getattr(ops, namespace), name)
    for overload, one in forms_of(op, samples_of(name)[1]):
        torch.library.opcheck(overload, one.args, one.kwargs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_dtypes(ops: Any, dtype: Any) -> None:
    """One sample a row: the dtype goes through fake kernel and gradient."""
    for name in ("add", "gemm", "sum", "scale"):
        one = samples_of(name, dtype)[1]
        utilities = ("test_schema", "test_faketensor", "test_autograd_registration")
        op = getattr(ops.aicf, name).default
        torch.library.opcheck(op, one.args, one.kwargs, test_utils=utilities)
