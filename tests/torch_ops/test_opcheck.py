"""torch's own checks of an operator, the whole default set, on every overload of every row."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from rows import FEWEST, rows  # noqa: E402
from rows.table import DTYPES  # noqa: E402
from torch_ops.samples import MAIN, ROWS, few, forms_of, plain_of, samples_of  # noqa: E402

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("TORCH-opcheck")]


@pytest.mark.parametrize("namespace, name", ROWS)
def test_plain(ops: Any, namespace: str, name: str) -> None:
    op = getattr(getattr(ops, namespace), name)
    samples = few(samples_of(namespace, name))
    for one in samples:
        torch.library.opcheck(plain_of(op, one), one.args, one.kwargs)
    assert len(samples) == FEWEST


@pytest.mark.parametrize("namespace, name", ROWS)
def test_other_forms(ops: Any, namespace: str, name: str) -> None:
    op = getattr(getattr(ops, namespace), name)
    for overload, one in forms_of(op, samples_of(namespace, name)[1]):
        torch.library.opcheck(overload, one.args, one.kwargs)


@pytest.mark.parametrize("name", MAIN)
def test_other_dtypes(ops: Any, name: str) -> None:
    """One sample a row: the dtype goes through fake kernel and gradient."""
    for word in {"f32", "bf16", "i64"} & set(rows()[name].dtypes):
        one = samples_of("aicf", name, DTYPES[word])[1]
        utilities = ("test_schema", "test_faketensor", "test_autograd_registration")
        op = plain_of(getattr(ops.aicf, name), one)
        torch.library.opcheck(op, one.args, one.kwargs, test_utils=utilities)
