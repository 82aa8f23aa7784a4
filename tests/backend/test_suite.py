"""What every backend does, whatever its device: of the null one shapes alone are looked at."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aicf.table import Table

ROOT = Path(__file__).resolve().parents[2]


def values(backend: Any, tensor: Any) -> Any:
    return None if backend.name == "null" else backend.to_host(tensor)


def same(got: Any, want: Any) -> bool:
    return got is None or bool(np.array_equal(got, want))


@pytest.mark.promise("AICF-backend-methods")
def test_a_method_an_op(backend: Any) -> None:
    """With the row's signature, its outs, and its text."""
    for row in Table.default():
        method = getattr(backend, row.name)
        assert method.__name__ == row.name
        assert inspect.getdoc(method) == inspect.cleandoc(row.doc)
        parameters = list(inspect.signature(method).parameters)
        wanted = [*row.signature.parameters, *(o.name for o in row.outs if not o.optional)]
        assert parameters == wanted


@pytest.mark.promise("AICF-backend-methods")
def test_an_op_runs_and_is_counted(backend: Any) -> None:
    a, b = np.arange(6, dtype="f4").reshape(2, 3), np.full(3, 10, "f4")
    out = backend.add(backend.from_host(a), backend.from_host(b))
    assert tuple(out.shape) == (2, 3)
    assert same(values(backend, out), a + b)
    backend.call("add", backend.from_host(a), b=backend.from_host(b), out=out)
    assert backend.report().as_dict() == {"add": {"ran": 2, "fell_back": 0, "reasons": []}}


@pytest.mark.promise("AICF-backend-methods")
def test_outs(backend: Any) -> None:
    """One as it is, several together, none of a row that writes in place."""
    x, n = backend.from_host(np.ones((2, 3), "f4")), backend.from_host(np.ones(3, "f4"))
    assert tuple(backend.layer_norm(x, n, n).shape) == (2, 3)
    _out, mean, rstd = backend.layer_norm(x, n, n, mean=True)
    assert tuple(mean.shape) == (2,)
    assert rstd is None
    assert backend.fill(x, value=4.0) is None
    assert same(values(backend, x), np.full((2, 3), 4, "f4"))


@pytest.mark.promise("AICF-backend-refuses")
def test_what_is_wrong_is_refused(backend: Any) -> None:
    from aicf_rt import Unsupported

    x = backend.from_host(np.ones((2, 3), "f4"))
    with pytest.raises(Unsupported, match="out: its shape must be"):
        backend.add(x, backend.from_host(np.ones(2, "f4")))
    with pytest.raises(TypeError, match="beta"):
        backend.add(x, x, beta=1)
    with pytest.raises(LookupError, match="no op 'ad'; did you mean 'add'"):
        backend.call("ad", x, x)


@pytest.mark.promise("AICF-backend-prepare")
def test_prepared_calls(backend: Any) -> None:
    x, out = backend.from_host(np.arange(4, dtype="f4")), backend.empty((4,), "f32")
    calls = [backend.prepare("scale", x, out, factor=2.0), backend.prepare("add", out, x, x)]
    assert [call.op for call in calls] == ["scale", "add"]
    backend.run(calls)
    backend.run(tuple(calls))
    backend.synchronize()
    assert same(values(backend, x), np.arange(4, dtype="f4") * 9)


@pytest.mark.promise("AICF-backend-memory")
def test_memory(backend: Any) -> None:
    a = np.arange(6, dtype="f4").reshape(2, 3)
    x = backend.from_host(a)
    assert x is not a
    backend.copy_into(x, a + 1)
    assert same(values(backend, x), a + 1)
    y = backend.empty((2, 3), "f32")
    backend.copy_into(y, x)
    assert same(values(backend, y), a + 1)
    turned = backend.view(y, (3, 2), (1, 3), 0)
    assert same(values(backend, backend.relu(turned)), (a + 1).T)
    backend.fill_bytes(y, 0xFF)
    got = values(backend, y)
    assert got is None or np.isnan(got).all()
    with pytest.raises(ValueError, match="overwritten"):
        backend.copy_into(y, np.ones((3, 2), "f4"))


@pytest.mark.promise("AICF-backend-small")
def test_a_backend_is_a_short_file() -> None:
    for name in ("cpu", "cuda", "null"):
        lines = (ROOT / "aicf" / "backend" / f"{name}.py").read_text().splitlines()
        assert len(lines) <= 200, f"{name}.py has {len(lines)} lines"
    toy = Path(__file__).with_name("toy.py").read_text().splitlines()
    assert len(toy) <= 200
