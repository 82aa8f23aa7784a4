"""Every row of the main table on every sample of its entry in tests/rows: in each dtype and form,
on the CPU and on CUDA, beside its reference in float64."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernels.tensors import LAYOUTS
from rows import FEWEST, Maker, Row, rows
from rows.calls import Call, calls_of, samples_of, tensors_of
from rows.table import DTYPES, facts, table

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("ROWS-values")]

OPS = tuple(op for op in rows() if op in table())  # others are missed below
EACH = [pytest.param(op, kind, id=f"{op}-{kind}") for op in OPS for kind in rows()[op].dtypes]
INPUT_LAYOUTS = tuple(layout for layout in LAYOUTS if layout != "broadcast")


def bits(value: Any) -> list[torch.Tensor]:
    """As integers, by which NaN is NaN."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return [
        x.detach().cpu().contiguous().view(whole[x.element_size()]).clone()
        for x in tensors_of(value)
    ]


def same_bits(got: Any, want: list[torch.Tensor], what: str) -> None:
    for x, y in zip(bits(got), want, strict=True):
        assert torch.equal(x, y), f"{what} is not the same to the bit"


def calls(op: str, dtype: str, device: str) -> Iterator[Call]:
    found = list(calls_of(rows()[op], dtype, device))
    if not found:
        pytest.skip(f"gpu: the table leaves {dtype} of {op} to the CPU")
    yield from found


def a_dtype(row: Row, device: str) -> str:
    """The first that the device has a kernel for."""
    return next(kind for kind in row.dtypes if any(calls_of(row, kind, device)))


@pytest.mark.parametrize("op", OPS)
def test_entry(op: str) -> None:
    """Samples for each dtype, all of them calls of the row, in dtypes that it has."""
    row = rows()[op]
    assert len(row.dtypes) == len(set(row.dtypes))
    for dtype in row.dtypes:
        assert len(samples_of(row, dtype)) >= FEWEST
        assert list(calls_of(row, dtype)), f"no sample in {dtype} is a call of a kernel"
    if facts(op).grad:
        assert "f64" in row.dtypes, "gradients are checked in f64"


def test_every_row_has_its_entry() -> None:
    assert set(OPS) == set(table())


@pytest.mark.parametrize("op, dtype", EACH)
def test_typed(op: str, dtype: str, device: str) -> None:
    """Into poisoned outs: without the optional ones, with them, again, and bound."""
    for call in calls(op, dtype, device):
        dense = call.relaid("dense")
        for given in (call, dense):
            first = given.copied().with_outs(optional=False)
            if given is call and not first.outs and not call.facts.writes:
                continue  # all are optional
            if given is call and not first.copied().with_outs(optional=False).typed():
                continue  # a layout of the sample that no kernel takes: dense it is
            if first.outs or call.facts.writes:
                first.must()
                first.check(first.written(), "typed")
        whole = dense.copied().with_outs()
        whole.must()
        whole.check(whole.written(), "typed, all outs")
        want = bits(list(whole.written().values()))
        again = dense.copied().with_outs()
        if runs_bitwise(again):
            again.must()
            same_bits(list(again.written().values()), want, f"a second run of {call.name}")
        bound = dense.copied().with_outs()
        bound.facts.module.bind(*bound.positional(), **bound.options)()
        bound.check(bound.written(), "bound")


def runs_bitwise(call: Call) -> bool:
    said = {k["id"]: k["determinism"] for k in call.facts.kernels}
    return bool(said[call.kernel() or ""] == "bitwise")


@pytest.mark.parametrize("op, dtype", EACH)
def test_generic(op: str, dtype: str, device: str) -> None:
    """The plain outs, all outs asked for by name, and one optional out alone."""
    for call in calls(op, dtype, device):
        optional = [p.name for p in call.facts.outs if p.optional and p.name in call.want]
        asked = [[], optional, *([name] for name in optional)]
        for names in asked:
            made = call.relaid("dense") if refuses(call) else call.copied()
            got = made.generic(**dict.fromkeys(names, True))
            made.check(made.written() | {k: v for k, v in got.items() if k in made.want}, "generic")
            for name, x in got.items():
                assert x.dtype == DTYPES[call.kind(name)], name
                assert x.device.type == device


def refuses(call: Call) -> bool:
    """Whether no kernel takes the sample as it lies."""
    try:
        call.facts.module.infer(*call.inputs, **call.kwargs)
    except importlib.import_module("aicf_cuda").Unsupported as error:
        assert "no kernel fits" in str(error), f"{call.name}: {error}"
        return True
    return False


@pytest.mark.parametrize("op", OPS)
def test_layouts(op: str, device: str) -> None:
    """Each tensor alone and all of them in each layout: right where a kernel takes it, untouched
    outs where none does. Dense tensors are taken wherever they begin."""
    for call in calls(op, a_dtype(rows()[op], device), device):
        names: list[str | None] = [p.name for p in call.facts.inputs]
        for layout in INPUT_LAYOUTS:
            for only in [None, *names]:
                base = call.relaid("dense")
                made = base.relaid(layout, only).with_outs()
                before = bits(list(made.written().values()))
                if made.typed():
                    made.check(made.written(), layout)
                else:
                    assert layout not in ("dense", "odd"), f"{made.name}: {made.explain()}"
                    same_bits(list(made.written().values()), before, f"{made.name}, refused,")
            outs = call.relaid("dense").with_outs(layout=layout)
            before = bits(list(outs.written().values()))
            if outs.typed():
                outs.check(outs.written(), f"outs {layout}")
            else:
                assert layout not in ("dense", "odd"), f"{outs.name}: {outs.explain()}"
                same_bits(list(outs.written().values()), before, f"{outs.name}, refused,")
            both = call.relaid(layout).with_outs(layout=layout)
            if both.typed():
                both.check(both.written(), f"all {layout}")


@pytest.mark.parametrize("op", [op for op in OPS if facts(op).overlap])
def test_in_place(op: str, device: str) -> None:
    """An out may be exactly what `overlap` says, and no part of it."""
    done: set[tuple[str, str]] = set()
    for dtype in rows()[op].dtypes:
        for call in calls_of(rows()[op], dtype, device):
            for out, sources in call.facts.overlap.items():
                for source in sources:
                    done |= {(out, source)} & in_place(call, out, source)
    assert done == {(o, s) for o, of in facts(op).overlap.items() for s in of}, (
        "no sample has an out that fits the argument"
    )


def in_place(call: Call, out: str, source: str) -> set[tuple[str, str]]:
    made = call.relaid("dense").with_outs()
    at = next(i for i, p in enumerate(call.facts.inputs) if p.name == source)
    x = made.inputs[at]
    fits = isinstance(x, torch.Tensor) and out in made.outs
    if not fits or x.shape != made.outs[out].shape or x.dtype != made.outs[out].dtype:
        return set()
    made.outs[out] = x
    made.must()
    made.check(made.written(), f"{out} is {source}")
    if x.numel() > 1:
        memory = torch.zeros(x.numel() + 1, dtype=x.dtype, device=x.device)
        made = call.relaid("dense").with_outs()
        made.inputs[at] = memory[1:].view(x.shape).copy_(x)
        made.outs[out] = memory[:-1].view(x.shape)
        assert not made.typed(), f"{made.name}: {out} overlaps {source} in part"
    return {(out, source)}


@pytest.mark.parametrize("op", OPS)
def test_each_kernel(op: str, device: str) -> None:
    """Each built kernel is demanded by its id, and right: some sample must fit it, or a large one
    where it leaves what is small to others."""
    reached: set[str] = set()
    row, kernels = rows()[op], facts(op).kernels_of(device)
    for one in (row, replace(row, samples=row.large)):
        for dtype in row.dtypes if set(kernels) - reached else ():
            for call in calls_of(one, dtype, device):
                for kernel, suffixes in kernels.items():
                    if call.suffix in suffixes:
                        reached |= {kernel} & set(reach(call, kernel))
    unreached = {k for k in set(kernels) - reached if not wants_library(op, k)}
    assert not unreached, f"no sample of {op} fits: {', '.join(sorted(unreached))}"


def reach(call: Call, kernel: str) -> Iterator[str]:
    """The kernel, where it takes the sample as it lies, made dense, or with dims reversed."""
    made = [call.copied().with_outs(), call.relaid("dense").with_outs()]
    made += [call.relaid("reversed").with_outs(layout="reversed")]
    made += [call.relaid("nhwc").with_outs(layout="nhwc")]
    for one in made:
        if one.typed(kernel=kernel):
            one.check(one.written(), kernel)
            yield kernel


def wants_library(op: str, kernel: str) -> bool:
    """A library that is not installed."""
    return any(k["id"] == kernel and k["libs"] for k in facts(op).kernels)


@pytest.mark.parametrize("op", [op for op in OPS if facts(op).scalars])
def test_scalars_may_be_tensors(op: str, device: str) -> None:
    for call in calls(op, a_dtype(rows()[op], device), device):
        made = call.relaid("dense").with_outs()
        for p in call.facts.scalars:
            if p.name in made.kwargs:
                kind = DTYPES[made.kind(p.name)]
                made.kwargs[p.name] = torch.tensor([made.kwargs[p.name]], dtype=kind, device=device)
        made.must()
        made.check(made.written(), "scalars on the device")


@pytest.mark.parametrize("op", [op for op in OPS if facts(op).writes])
def test_what_writes_gives_nothing_else(op: str, device: str) -> None:
    """The generic form of a row without outs gives None."""
    for call in calls(op, a_dtype(rows()[op], device), device):
        if not call.facts.outs:
            made = call.relaid("dense")
            assert getattr(call.facts.module, op)(*made.inputs, **made.kwargs) is None
            made.check(made.written(), "generic")


@pytest.mark.promise("ROWS-refused")
@pytest.mark.parametrize("op", OPS)
def test_refused(op: str, device: str) -> None:
    """With the words that the entry says, by the generic form and by infer alike."""
    row, module = rows()[op], facts(op).module
    for one, words in row.refused(Maker(DTYPES[a_dtype(row, device)], device)):
        with pytest.raises((TypeError, ValueError)) as raised:
            getattr(module, op)(*one.args, **one.kwargs)
        assert words in str(raised.value), f"{op}: {raised.value}"
        if not isinstance(raised.value, importlib.import_module("aicf_cuda").Unsupported):
            continue
        with pytest.raises(type(raised.value)) as inferred:
            module.infer(*one.args, **one.kwargs)
        assert str(inferred.value) == str(raised.value)
