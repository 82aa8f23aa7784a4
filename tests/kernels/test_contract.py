"""What each module takes and refuses, from the row it carries: every op, each relation of sizes,
attribute, dtype and layout, beside a second reading of the row."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernels.capability import Asked, asked_of, changed, layouts_fit, moved, readdressed
from kernels.tensors import poisoned
from rows import rows
from rows.calls import Call, calls_of, mapped, tensors_of
from rows.table import DTYPES, facts, table

pytestmark = [
    pytest.mark.guests("torch"),
    pytest.mark.promise("KERNELS-contract", "ROWS-contract"),
]

OPS = tuple(op for op in rows() if op in table())
LAYOUTS = ("dense", "odd", "reversed", "swapped", "stepped", "pitched", "broadcast", "nhwc")


@functools.cache
def libs() -> frozenset[str]:
    """The libraries that kernels open and that are installed."""
    t = torch.zeros(1, 1)
    gemm = importlib.import_module("aicf_cuda.gemm")
    there = gemm.gemm_f32(t, t, None, None, t.clone(), kernel="blas")
    return frozenset(["openblas"] if there else [])


def calls(op: str, device: str) -> Iterator[Call]:
    """In the first dtype that the device has a kernel for."""
    for dtype in rows()[op].dtypes:
        found = list(calls_of(rows()[op], dtype, device))
        if found:
            yield from (call.relaid("dense") for call in found)
            return


def answer(call: Call, **more: Any) -> bool:
    """The typed call's. A refusal has written nothing."""
    before = {name: x.clone() for name, x in call.outs.items()}
    given = call.typed(**more)
    for name, x in call.outs.items() if not given else ():
        same = torch.equal(x.cpu().nan_to_num(7), before[name].cpu().nan_to_num(7))
        assert same, f"{call.name} refused and wrote {name}"
    return given


def check(one: Asked, what: str) -> bool:
    """The typed call says what the second reading does."""
    call, want = one.made(), one.taken()
    got = answer(call)
    assert got == want, f"{what}: {call.name} outs {one.outs}: answered {got}, {call.explain()}"
    return got


@pytest.mark.promise("A6", "C1")
@pytest.mark.parametrize("op", OPS)
def test_every_relation_of_sizes_is_checked(op: str, device: str) -> None:
    """Sizes of nothing among them: taken where the relation has no word against them."""
    refused = 0
    for call in calls(op, device):
        one = asked_of(call)
        assert check(one, "as it is")
        for name, tried in changed(one):
            refused += not check(tried, name)
    assert refused or len(facts(op).inputs + facts(op).outs) == 1
    if device == "cuda":
        torch.cuda.synchronize()


@pytest.mark.promise("FAULT-18")
@pytest.mark.parametrize("op", OPS)
def test_attributes_are_checked(op: str, device: str) -> None:
    """Each word of an enum, numbers in and out of range, axes that are none."""
    for call in calls(op, device):
        for name, tried in readdressed(asked_of(call)):
            check(tried, name)


@pytest.mark.promise("A6", "D4")
@pytest.mark.parametrize("op", OPS)
def test_the_generic_form_names_op_and_argument(op: str, device: str) -> None:
    unsupported = importlib.import_module("aicf_cuda").Unsupported
    assert issubclass(unsupported, ValueError)
    assert issubclass(unsupported, TypeError)
    module, seen = facts(op).module, set()
    names = [p.name for p in facts(op).params] + list(table()[op]["row"].get("where", {}).values())
    for call in calls(op, device):
        for name, tried in changed(asked_of(call)):
            if name in seen or tried.taken():
                continue
            seen.add(name)
            made = tried.made()
            with pytest.raises(unsupported) as raised:
                getattr(module, op)(*made.inputs, **made.kwargs, **made.outs)
            text = str(raised.value)
            assert text.startswith(f"{op}: "), text
            assert any(word in text for word in names), text


@pytest.mark.promise("A3", "FAULT-16")
@pytest.mark.parametrize("op", OPS)
def test_each_kernel_takes_its_layouts_and_no_others(op: str, device: str) -> None:
    """Each tensor in each layout: a kernel without a guard takes it where it lies as its row says;
    one with a guard where explain says so, and never elsewhere."""
    kernels = facts(op).kernels_of(device)
    said = [k for k in facts(op).kernels if k["id"] in kernels]
    counts = {True: 0, False: 0}
    for call in calls(op, device):
        dense = call.with_outs()
        for kernel in said:
            if call.suffix not in kernels[kernel["id"]] or not libs().issuperset(kernel["libs"]):
                continue
            for name in kernel["layouts"]:
                for layout in LAYOUTS:
                    if layout == "broadcast" and name not in {p.name for p in call.facts.inputs}:
                        continue
                    made = moved(dense, name, layout)
                    if layout == "broadcast" and any(
                        p.name == name and p.role == "INOUT" for p in call.facts.inputs
                    ):
                        continue
                    want = layouts_fit(made, kernel)
                    if kernel["guards"]:
                        want = want and f"{kernel['id']}: fits" in "".join(made.explain())
                    got = answer(made, kernel=kernel["id"])
                    assert got == want, f"{kernel['id']}: {name} {layout}: {made.explain()}"
                    counts[got] += 1
    assert counts[True]


@pytest.mark.parametrize("op", OPS)
def test_other_dtypes_are_refused(op: str, device: str) -> None:
    call = next(calls(op, device))
    for at, p in enumerate(call.facts.inputs):
        for other in DTYPES:
            if tensors_of(call.inputs[at]) and other != call.kind(p.name):
                made = call.copied().with_outs()
                made.inputs[at] = mapped(lambda x: x.to(DTYPES[other]), made.inputs[at])
                assert not answer(made), f"{p.name} as {other}: {made.name}"
    for p in call.facts.outs:
        for other in DTYPES:
            made = call.copied().with_outs()
            if p.name in made.outs and other != call.kind(p.name):
                made.outs[p.name] = poisoned(made.outs[p.name].shape, other, device)
                assert not answer(made), f"{p.name} as {other}: {made.name}"
