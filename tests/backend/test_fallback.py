"""Where an op's module does not take a call: what runs instead, and how that is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aicf.backend import aten
from aicf.table import Table


@pytest.mark.guests("torch")
@pytest.mark.promise("AICF-fallback")
def test_it_is_counted_with_its_reason_and_line(cpu: Any) -> None:
    a, b = np.ones(3, "f4"), np.ones(3, "f8")
    for _ in range(2):
        out = cpu.add(a, b)
        assert out.dtype == np.float64
    assert np.array_equal(out, a + b)
    cpu.add(a, a)
    told = cpu.report().as_dict()["add"]
    assert (told["ran"], told["fell_back"]) == (1, 2)
    (reason,) = told["reasons"]
    assert reason["by"] == "aten.add.Tensor"
    assert reason["count"] == 2
    assert "b: its dtype is not taken" in reason["reason"]
    name, _, line = reason["first"].rpartition(":")
    assert name == __file__
    assert "cpu.add(a, b)" in Path(name).read_text().splitlines()[int(line) - 1]
    text = str(cpu.report())
    assert "fell back" in text
    assert "2 by aten.add.Tensor, first at" in text
    assert cpu.report().totals() == {"ran": 1, "fell_back": 2}


@pytest.mark.promise("AICF-fallback")
def test_strict_raises_instead() -> None:
    from aicf_rt import Unsupported

    from aicf.backend.cpu import CpuBackend

    strict = CpuBackend(strict=True)
    with pytest.raises(Unsupported, match="its dtype is not taken") as caught:
        strict.add(np.ones(3, "f4"), np.ones(3, "f8"))
    assert caught.value.__notes__ == ["cpu is strict: nothing falls back"]
    assert strict.report().as_dict() == {}


@pytest.mark.promise("AICF-fallback")
def test_an_op_without_one_says_so(cpu: Any) -> None:
    row = next(row for row in Table.default() if row.aten is None and not row.inouts)
    with pytest.raises(aten.NoFallback) as caught:
        cpu.call(row.name, *(np.ones((2,) * 7, "c8") for p in row.tensors if not p.optional))
    assert f"{row.name} has no fallback: its row says no `aten`" in str(caught.value)
    assert f"what its module says of the call: {row.name}: " in str(caught.value)


@pytest.mark.guests("torch")
@pytest.mark.promise("AICF-fallback")
def test_what_the_text_does_not_say_is_no_fallback(cpu: Any) -> None:
    x, n = np.ones((2, 6), "f4")[:, ::2], np.ones(3, "f4")
    assert cpu.layer_norm(x, n, n).shape == (2, 3)
    with pytest.raises(aten.NoFallback, match=r"that gives rstd: aten.layer_norm does not"):
        cpu.layer_norm(x, n, n, rstd=True)
    with pytest.raises(aten.NoFallback, match=r"over no axes: aten.sum.dim_IntList takes that for"):
        aten.fall_back(Table.default()["sum"], (x,), {"axes": []})


@pytest.mark.guests("torch")
@pytest.mark.promise("AICF-fallback")
def test_what_the_fallback_refuses_too_is_told_of_both(cpu: Any) -> None:
    from aicf_rt import Unsupported

    with pytest.raises(Unsupported, match="out: its shape must be broadcast") as caught:
        cpu.add(np.ones(2, "f4"), np.ones(3, "f4"))
    assert "its fallback, aten add.Tensor(a, b), refused it too" in caught.value.__notes__[0]
    assert cpu.report().as_dict() == {}


@pytest.mark.guests("torch")
@pytest.mark.promise("AICF-fallback")
def test_into_the_callers_out(cpu: Any) -> None:
    import torch

    a, b, out = np.ones(3, "f4"), np.full(3, 2, "f8"), np.zeros(3, "f8")
    assert cpu.add(a, b, out=out) is out
    assert np.array_equal(out, a + b)
    given = torch.zeros(3, dtype=torch.float64)
    assert cpu.add(torch.ones(3), torch.full((3,), 2.0, dtype=torch.float64), out=given) is given
    assert given.tolist() == [3, 3, 3]
    with pytest.raises(Exception, match=r"out must be f64|its dtype"):
        cpu.add(a, b, out=np.zeros(3, "f4"))


@pytest.mark.guests("torch")
@pytest.mark.promise("AICF-fallback")
def test_what_may_not_be_written_to_is_not(cpu: Any) -> None:
    """Neither an operand that is updated in place nor an out, and no copy is taken for it."""
    from aicf_rt import Unsupported

    x = np.zeros(3, "f4")
    x.flags.writeable = False
    with pytest.raises(Unsupported) as caught:
        cpu.fill(x, value=1.0)
    assert "may not be written to" in caught.value.__notes__[0]
    out = np.zeros(3)
    out.flags.writeable = False
    with pytest.raises(Unsupported):
        cpu.add(np.ones(3, "f4"), np.ones(3), out=out)
    assert not x.any()
    assert not out.any()
    back = np.zeros(4, "f4")
    with pytest.raises(Unsupported):
        cpu.fill(back.astype("c8"), value=1.0)
    cpu.fill(back[::-1], value=1.0)
    assert (back == 1).all()


@pytest.mark.guests("torch", "jax")
@pytest.mark.promise("AICF-fallback")
def test_the_callers_kind(cpu: Any) -> None:
    import jax.numpy as jnp
    from aicf_rt import Unsupported

    x, strided = jnp.ones((2, 3)), np.ones((2, 3), "f8")
    assert type(cpu.add(x, strided)).__module__.startswith("jax")
    assert isinstance(cpu.add(strided, np.ones(3, "f4")), np.ndarray)
    loose, out = np.ones((4, 8), "f4")[:, ::2], jnp.zeros((4, 4))
    with pytest.raises(Unsupported):
        cpu.softmax(loose, axis=1, out=out)
    assert not out.any()


# ---- every row's text ----------------------------------------------------------------------------


def with_text() -> list[str]:
    return [row.name for row in Table.default() if row.aten]


@pytest.mark.guests("torch")
@pytest.mark.parametrize("op", with_text())
@pytest.mark.promise("AICF-fallback-rows")
def test_a_rows_text_is_the_op(op: str) -> None:
    """Its samples by torch agree with its kernels, or are said to have no fallback."""
    from rows import rows
    from rows.calls import call_of, samples_of
    from rows.table import WORDS

    row, done = Table.default()[op], 0
    dtype = next(d for d in ("f32", "f64") if d in rows()[op].dtypes)
    for one in samples_of(rows()[op], dtype):
        if one.kwargs.get("dtype") == "u8":  # torch does not say what it makes of numbers below 0
            continue
        call = call_of(rows()[op], one)
        again = call.copied()
        try:
            given = aten.fall_back(row, again.inputs, again.kwargs)
        except aten.NoFallback as none:
            assert re.search("has no fallback (with|without|over) ", str(none))
            continue
        except RuntimeError as refused:  # an index's dtype, of which ATen has one alone
            assert "expected target dtype to be Long" in str(refused)
            continue
        done += 1
        if row.inouts:
            call.check(again.written(), "fallback")
        else:
            first = given[0] if isinstance(given, tuple) else given
            name = row.outs[0].name
            call.check({name: first}, "fallback")
            assert WORDS[first.dtype] == call.kind(name)
    assert done, f"{op}: no sample of it has a fallback"


@pytest.mark.promise("AICF-fallback-rows")
def test_by_numpy_where_torch_is_not(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aten, "has_torch", lambda: False)
    a, b = np.array([[1, -2], [3, 4]], "f4"), np.array([5, 6], "f4")
    cases: list[tuple[str, Callable[[], Any], Any]] = [
        ("add", lambda: (a, b.astype("f8")), a + b),
        ("mul", lambda: (a, b.astype("f8")), a * b),
        ("sub", lambda: (a, b.astype("f8")), a - b),
        ("div", lambda: (a, b.astype("f8")), a / b.astype("f8")),
    ]
    for op, args, want in cases:
        assert np.array_equal(cpu.call(op, *args()), want.astype("f8"))
    table = Table.default()
    assert np.array_equal(aten.fall_back(table["relu"], (a,), {}), np.maximum(a, 0))
    assert np.array_equal(aten.fall_back(table["sum"], (a,), {"axes": 1}), a.sum(1))
    assert np.array_equal(
        aten.fall_back(table["concat"], ([a, a],), {"axis": 1}), np.hstack([a, a])
    )
    assert np.allclose(aten.fall_back(table["sigmoid"], (a,), {}), 1 / (1 + np.exp(-a)))
    assert cpu.report().totals()["fell_back"] == len(cases)
    row = table["add"]
    for wrong in (
        (a, b.astype("i4")),
        (a, np.float64(1) * np.ones(())),
    ):
        with pytest.raises(TypeError, match="otherwise than ATen"):
            aten.fall_back(row, wrong, {})
    with pytest.raises(TypeError, match="numpy promotes int32 otherwise"):
        aten.fall_back(table["exp"], (b.astype("i4"),), {})
    with pytest.raises(aten.NoFallback, match=r"without torch: numpy has no aten.elu"):
        aten.fall_back(table["elu"], (a,), {})


@pytest.mark.promise("AICF-fallback-rows")
def test_texts_are_parsed() -> None:
    word = aten.parse("layer_norm(x, [N], weight, bias, eps, k=-1, f=True)")
    assert str(word) == "aten.layer_norm"
    assert word.args[1] == (aten.Name("N"),)
    assert word.keywords == {"k": -1, "f": True}
    assert word.names() == {"x", "N", "weight", "bias", "eps"}
    with pytest.raises(ValueError, match="no call of an ATen op"):
        aten.parse("add")
