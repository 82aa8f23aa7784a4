"""Gradients as the rows give them, run by the modules' own ops: in f64 on the CPU they are the
derivatives of the forwards, for each argument alone and for all at once, from a gradient that is
not contiguous."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from rows import rows
from rows.calls import Call, calls_of, canonical, mapped, tensors_of
from rows.table import DTYPES, facts, table

pytestmark = [
    pytest.mark.guests("torch"),
    pytest.mark.promise("GRADIENTS-numeric", "ROWS-gradients"),
]

STEP = 1e-6  # the error of a central difference is some STEP**2, of its rounding 1e-16 / STEP
OPS = [op for op in rows() if op in table() and facts(op).grad]


def generic(name: str) -> Any:
    return getattr(importlib.import_module(f"aicf_cuda.{name}"), name)


@dataclass
class Plainly:
    """The `_f` of gradients without autograd: ops by the generic functions, the fixed ones by
    hand. What no kernel takes as it lies is made dense, as everywhere."""

    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def call(*tensors: Any, want: Sequence[bool] | None = None, **named: Any) -> Any:
            self.calls.append(name)
            dense = [mapped(lambda x: x.contiguous(), x) for x in tensors]
            outs = [p.name for p in facts(name).outs]
            for out, wanted in zip(outs, want or (), strict=bool(want)):
                if wanted:
                    named[out] = True
            return generic(name)(*dense, **named)

        return call

    def t(self, x: Any) -> Any:
        return x.mT

    def reshape(self, x: Any, like: Any) -> Any:
        return x.reshape(like.shape)

    def zeros(self, like: Any) -> Any:
        return torch.zeros(like.shape, dtype=torch.float64)

    def sum_to(self, x: Any, like: Any) -> Any:
        extra = x.dim() - len(like.shape)
        sizes = [1] * extra + list(like.shape)
        axes = [i for i, n in enumerate(sizes) if n == 1 and (i < extra or x.shape[i] != 1)]
        if axes:
            x = generic("sum")(x.contiguous(), axes=axes, keepdim=True)
        return x.reshape(like.shape)

    def unreduce(self, x: Any, like: Any, axes: Sequence[int] | None, keepdim: bool) -> Any:
        for axis in () if keepdim else sorted(range(len(like.shape)) if axes is None else axes):
            x = x.unsqueeze(axis)
        return x.expand(like.shape)

    def split(self, x: Any, lists: Sequence[Any], axis: int) -> Any:
        return x.split([like.shape[axis] for like in lists], axis)


@dataclass(frozen=True)
class Shape:
    """What stands for a tensor that was not saved."""

    shape: tuple[int, ...]


def needs(call: Call) -> list[Any]:
    """Each tensor that has a gradient alone, and all of them."""
    none = {name for name, text in call.facts.grad.items() if text == "none"}
    places = [
        (i, k)
        for i, p in enumerate(call.facts.inputs)
        for k, x in enumerate(tensors_of(call.inputs[i]))
        if p.name not in none and x.is_floating_point()
    ]

    def need(chosen: list[tuple[int, int]]) -> tuple[Any, ...]:
        made: list[Any] = []
        for i, p in enumerate(call.facts.inputs):
            count = len(tensors_of(call.inputs[i]))
            each = tuple((i, k) in chosen for k in range(count))
            made.append(each if p.is_list else any(each))
        return tuple(made)

    alone = [need([place]) for place in places] if len(places) > 1 else []
    return [*alone, need(places)]


def slope(call: Call, x: torch.Tensor, gs: Sequence[torch.Tensor]) -> torch.Tensor:
    """g @ d forward / d x, one element of x, which is one of the call's, after the other."""
    found = torch.zeros(x.shape, dtype=torch.float64)
    required = [p.name for p in call.facts.outs if not p.optional]

    def at(index: Any, value: float) -> float:
        x[index] = value
        outs = call.generic()
        return sum(float((outs[n] * g).sum()) for n, g in zip(required, gs, strict=True))

    for place in range(x.numel()):
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(place), x.shape))
        was = float(x[index])
        found[index] = (at(index, was + STEP) - at(index, was - STEP)) / (2 * STEP)
        x[index] = was
    return found


@pytest.mark.parametrize("op", OPS)
def test_gradients_are_derivatives(op: str) -> None:
    saved, backward = importlib.import_module("aicf_cuda._gradients").GRADIENTS[op]
    reads = inspect.signature(backward).parameters
    source = torch.Generator().manual_seed(3)
    for call in calls_of(rows()[op], "f64"):
        if call.kwargs.get("dtype") not in (None, "f64", torch.float64):
            continue
        call = call.relaid("dense")
        outs = call.generic(**{p.name: True for p in call.facts.outs if p.optional})
        gs = [
            torch.randn(*outs[p.name].shape, 2, generator=source, dtype=torch.float64)[..., 0]
            for p in call.facts.outs
            if not p.optional
        ]
        named = canonical(call)
        attributes = {
            k: v for k, v in named.items() if k not in {p.name for p in call.facts.scalars}
        }
        scalars = {k: v for k, v in named.items() if k in reads and k not in attributes}
        types = dict(zip(table()[op]["row"].get("types", {}), call.suffix.split("_"), strict=False))
        scalars |= {k: v for k, v in types.items() if k in reads}
        every = dict(zip((p.name for p in call.facts.inputs), call.inputs, strict=True)) | outs
        slopes = {id(x): slope(call, x, gs) for x in wanted(call)}
        for need in needs(call):
            names = saved(need, *call.inputs, **attributes)
            kept = [
                value if name in names else mapped(lambda x: Shape(tuple(x.shape)), value)
                for name, value in every.items()
            ]
            g = gs[0] if len(gs) == 1 else tuple(gs)
            found = backward(Plainly(), need, g, *kept, **attributes, **scalars)
            for value, asked, got in zip(call.inputs, need, found, strict=True):
                alike(value, asked, got, slopes, f"{call.name}, need {need}")


def wanted(call: Call) -> list[torch.Tensor]:
    """All tensors that some need asks for."""
    every = needs(call)[-1]
    pairs = zip(call.inputs, every, strict=True)
    return [x for value, need in pairs if any_of(need) for x in tensors_of(value)]


def any_of(need: Any) -> bool:
    return any(need) if isinstance(need, tuple) else bool(need)


def alike(value: Any, asked: Any, got: Any, slopes: dict[int, torch.Tensor], what: str) -> None:
    """A gradient is there where it was asked for, and the slope."""
    if isinstance(asked, tuple):
        for x, a, d in zip(value, asked, got or [None] * len(asked), strict=True):
            alike(x, a, d if a else None, slopes, what)
        return
    assert (got is None) == (not asked), what
    if got is not None:
        assert got.dtype == DTYPES["f64"]
        torch.testing.assert_close(
            got.contiguous(), slopes[id(value)], rtol=1e-6, atol=1e-7, msg=lambda m: f"{what}: {m}"
        )


def test_every_row_with_a_gradient_is_tried() -> None:
    assert set(importlib.import_module("aicf_cuda._gradients").GRADIENTS) == set(OPS)
