"""What each module takes and refuses, from the row it carries: every op, dtype and kernel."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch

from kernels.capability import (
    BOUND,
    OPS,
    Relation,
    Row,
    Sizes,
    attrs_of,
    conditions_hold,
    kernel_fits,
    options_of,
    row_of,
    shapes_fit,
    variants_of,
)
from kernels.tensors import DTYPES, poisoned, random

pytestmark = [pytest.mark.guests("torch"), pytest.mark.promise("KERNELS-contract")]

LAYOUTS = ("dense", "odd", "reversed", "swapped", "stepped", "pitched", "broadcast")

Tensors = dict[str, torch.Tensor | None]
Shapes = dict[str, Sizes | None]


@functools.cache
def libs() -> frozenset[str]:
    """The libraries that kernels open and that are installed."""
    t = torch.zeros(1, 1)
    gemm = importlib.import_module("aicf_cuda.gemm")
    there = gemm.gemm_f32(t, t, None, None, t.clone(), kernel="blas")
    return frozenset(["openblas"] if there else [])


def given_shapes(row: Row) -> Iterator[tuple[Shapes, dict[str, Any]]]:
    """Shapes that the row takes, and attributes with them; optional tensors present and absent."""
    for dims, packs in BOUND:
        for attrs in attrs_of(row, packs):
            relation = Relation(attrs, dict(dims), dict(packs))
            shapes: Shapes = {p.name: relation.sizes(p.shape) for p in row.params}
            yield shapes, attrs
            for p in row.params:
                if p.optional:
                    yield shapes | {p.name: None}, attrs


def tensors_for(
    row: Row, shapes: Shapes, dtype: str, device: str, layout: str = "dense"
) -> Tensors:
    """Inputs of random values and poisoned outs; an out is never broadcast."""
    found: Tensors = {}
    for at, p in enumerate(row.params):
        sizes = shapes[p.name]
        if sizes is None:
            found[p.name] = None
        elif p.out:
            lies = "dense" if layout == "broadcast" else layout
            found[p.name] = poisoned(sizes, dtype, device, lies)
        else:
            found[p.name] = random(sizes, dtype, device, layout, seed=at)
    return found


def attempt(row: Row, dtype: str, given: Tensors, options: Mapping[str, Any]) -> bool:
    """The typed call's answer. A refusal has written nothing."""
    outs = {p.name: t for p in row.params if p.out and (t := given[p.name]) is not None}
    before = {name: t.clone() for name, t in outs.items()}
    function = getattr(importlib.import_module(f"aicf_cuda.{row.op}"), f"{row.op}_{dtype}")
    answer = function(*given.values(), **options)
    assert answer is True or answer is False
    if not answer:
        for name, t in outs.items():
            assert torch.equal(t.cpu().nan_to_num(7), before[name].cpu().nan_to_num(7)), (
                f"{row.op}_{dtype} refused and wrote {name}"
            )
    return bool(answer)


def expected(row: Row, dtype: str, device: str, given: Tensors, kernel: str | None = None) -> bool:
    fitting = [k["id"] for k in row.kernels if kernel_fits(row, k, dtype, device, given, libs())]
    return kernel in fitting if kernel else bool(fitting)


def describe(row: Row, dtype: str, given: Tensors, options: Mapping[str, Any]) -> str:
    tensors = {
        name: None if t is None else (tuple(t.shape), t.stride(), str(t.dtype))
        for name, t in given.items()
    }
    return f"{row.op}_{dtype}({tensors}, {dict(options)})"


@pytest.mark.parametrize("op", OPS)
def test_each_variant_is_taken_where_a_kernel_covers_it(op: str, device: str) -> None:
    row = row_of(op)
    taken = 0
    for dtype in variants_of(op):
        for shapes, attrs in given_shapes(row):
            given = tensors_for(row, shapes, dtype, device)
            options = options_of(attrs)
            want = expected(row, dtype, device, given)
            got = attempt(row, dtype, given, options)
            assert got == want, describe(row, dtype, given, options)
            taken += got
    assert taken


def mutations(sizes: Sizes) -> Iterator[Sizes]:
    """One relation violated, by one: a dim longer or shorter, 1 or 0, one dim more or less."""
    for d, size in enumerate(sizes):
        for other in {size + 1, size - 1, 1, 0} - {size}:
            yield (*sizes[:d], other, *sizes[d + 1 :])
    yield (2, *sizes)
    yield (*sizes, 2)
    yield (1, *sizes)
    if sizes:
        yield sizes[1:]


@pytest.mark.promise("A6")
@pytest.mark.parametrize("op", OPS)
def test_every_relation_of_sizes_is_checked(op: str, device: str) -> None:
    row = row_of(op)
    dtype = "f32"
    counts = {True: 0, False: 0}
    for shapes, attrs in given_shapes(row):
        for p in row.params:
            sizes = shapes[p.name]
            for changed in mutations(sizes) if sizes is not None else ():
                tried = shapes | {p.name: changed}
                given = tensors_for(row, tried, dtype, device)
                options = options_of(attrs)
                want = shapes_fit(row, tried, attrs) and expected(row, dtype, device, given)
                got = attempt(row, dtype, given, options)
                assert got == want, describe(row, dtype, given, options)
                counts[got] += 1
    assert counts[False]


@pytest.mark.promise("A6")
@pytest.mark.parametrize("op", OPS)
def test_the_generic_form_names_op_and_argument(op: str, device: str) -> None:
    module = importlib.import_module(f"aicf_cuda.{op}")
    unsupported = importlib.import_module("aicf_cuda").Unsupported
    assert issubclass(unsupported, ValueError)
    assert issubclass(unsupported, TypeError)
    row = row_of(op)
    shapes, attrs = next(given_shapes(row))
    for p in row.params:
        sizes = shapes[p.name]
        assert sizes is not None
        for changed in [*([(*sizes[:-1], sizes[-1] + 1)] if sizes else []), (*sizes, 2)]:
            tried = shapes | {p.name: changed}
            if shapes_fit(row, tried, attrs):
                continue
            given = tensors_for(row, tried, "f32", device)
            inputs = [given[q.name] for q in row.inputs]
            outs = {q.name: given[q.name] for q in row.params if q.out}
            with pytest.raises(unsupported) as raised:
                getattr(module, op)(*inputs, **outs, **options_of(attrs))
            text = str(raised.value)
            assert op in text
            assert any(q.name in text for q in row.params), text
            assert str(changed[-1]) in text, text


@pytest.mark.promise("A3")
@pytest.mark.parametrize("op", OPS)
def test_each_kernel_takes_its_layouts_and_no_others(op: str, device: str) -> None:
    row = row_of(op)
    counts = {True: 0, False: 0}
    for kernel in row.kernels:
        for dtype in variants_of(op):
            for shapes, attrs in list(given_shapes(row))[:9]:
                options = options_of(attrs) | {"kernel": kernel["id"]}
                for p in row.params:
                    for layout in LAYOUTS:
                        given = tensors_for(row, shapes, dtype, device)
                        sizes = shapes[p.name]
                        if sizes is None or (p.out and layout == "broadcast"):
                            continue
                        make = poisoned if p.out else random
                        given[p.name] = make(sizes, dtype, device, layout)
                        want = expected(row, dtype, device, given, kernel["id"])
                        got = attempt(row, dtype, given, options)
                        assert got == want, describe(row, dtype, given, options)
                        counts[got] += 1
    assert counts[True]


@pytest.mark.parametrize("op", OPS)
def test_tensors_all_in_one_layout(op: str, device: str) -> None:
    row = row_of(op)
    for layout in LAYOUTS:
        for dtype in variants_of(op):
            for shapes, attrs in given_shapes(row):
                given = tensors_for(row, shapes, dtype, device, layout)
                options = options_of(attrs)
                want = expected(row, dtype, device, given)
                got = attempt(row, dtype, given, options)
                assert got == want, f"{layout}: {describe(row, dtype, given, options)}"


@pytest.mark.parametrize("op", OPS)
def test_other_dtypes_are_refused(op: str, device: str) -> None:
    row = row_of(op)
    shapes, attrs = next(given_shapes(row))
    for dtype in variants_of(op):
        for p in row.params:
            for other in DTYPES:
                if other == dtype:
                    continue
                given = tensors_for(row, shapes, dtype, device)
                sizes = shapes[p.name]
                assert sizes is not None
                make = poisoned if p.out else random
                given[p.name] = make(sizes, other, device)
                options = options_of(attrs)
                assert not attempt(row, dtype, given, options), (
                    f"{p.name} as {other}: {describe(row, dtype, given, options)}"
                )


@pytest.mark.parametrize("op", OPS)
def test_conditions_of_the_row_are_asked(op: str, device: str) -> None:
    row = row_of(op)
    shapes, attrs = next(given_shapes(row))
    reals = [a["name"] for a in row.attrs if a.get("attr") == "float"]
    optional = [p.name for p in row.params if p.optional]
    counts = {True: 0, False: 0}
    for name in [*optional, None]:
        tried = shapes | ({name: None} if name else {})
        for real in [*reals, None]:
            for value in (0.0, 1.0, -2.5):
                changed = attrs | ({real: value} if real else {})
                present = {p.name: tried[p.name] is not None for p in row.params}
                given = tensors_for(row, tried, "f32", device)
                want = conditions_hold(row, present, changed)
                got = attempt(row, "f32", given, options_of(changed))
                assert got == want, describe(row, "f32", given, options_of(changed))
                counts[got] += 1
    assert counts[False] or not row.where


@pytest.mark.parametrize("op", OPS)
def test_axes_out_of_range_or_twice_are_refused(op: str, device: str) -> None:
    row = row_of(op)
    shapes, attrs = next(given_shapes(row))
    rank = len(shapes[row.params[0].name] or ())
    for a in row.attrs:
        wrong: list[Any] = []
        if a.get("attr") == "axis":
            wrong = [rank, -rank - 1, 2**31, -(2**62)]
        elif a.get("attr") == "axes":
            wrong = [[rank], [0, 0], [0, -rank], [-rank - 1], [2**40]]
        for value in wrong:
            given = tensors_for(row, shapes, "f32", device)
            assert not attempt(row, "f32", given, options_of(attrs | {a["name"]: value})), value


@pytest.mark.promise("C1")
@pytest.mark.parametrize("op", OPS)
def test_empty_tensors_are_checked_like_others(op: str, device: str) -> None:
    """Each dim 0 in turn: taken, with nothing launched or identities written; a wrong shape is
    still refused."""
    row = row_of(op)
    for dims, packs in BOUND[:3]:
        attrs = next(attrs_of(row, packs))
        names = [
            *dims,
            *(f"{name}[{i}]" for name, sizes in packs.items() for i in range(len(sizes))),
        ]
        for name in names:
            if name in dims:
                empty = Relation(attrs, dims | {name: 0}, dict(packs))
            else:
                pack, index = name[0], int(name[2:-1])
                sizes = tuple(0 if i == index else n for i, n in enumerate(packs[pack]))
                other = {p: sizes if packs[p] == packs[pack] else s for p, s in packs.items()}
                empty = Relation(attrs, dict(dims), other)
            try:
                shapes: Shapes = {p.name: empty.sizes(p.shape) for p in row.params}
            except ValueError:
                continue  # packs that do not broadcast any more
            given = tensors_for(row, shapes, "f32", device)
            options = options_of(attrs)
            assert attempt(row, "f32", given, options), describe(row, "f32", given, options)
            for p in row.params:
                if p.out:
                    out = given[p.name]
                    assert out is not None
                    assert not out.isnan().any(), f"{p.name} has elements that nobody wrote"
                    wrong = given | {p.name: poisoned((*out.shape, 2), "f32", device)}
                    assert not attempt(row, "f32", wrong, options)
    if device == "cuda":
        torch.cuda.synchronize()
        assert math.isfinite(float(torch.ones(1, device=device)))  # no error was left behind
