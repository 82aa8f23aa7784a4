"""Samples of tests/rows as calls of jax's functions, and what comes of them as torch's tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from rows import Row, Sample
from rows.calls import Call, call_of, call_reference, mapped, tensors_of
from rows.table import WORDS

TOLERANCES = {"f32": 2e-5, "f16": 4e-3, "bf16": 3e-2, "f64": 1e-12}


def array(x: torch.Tensor) -> Any:
    """The values of a tensor, dense."""
    x = x.detach().cpu().contiguous()
    if x.dtype == torch.bfloat16:
        return jnp.asarray(x.view(torch.int16).numpy().view(jnp.bfloat16))
    return jnp.asarray(x.numpy())


def tensor(x: Any) -> torch.Tensor:
    """The same back."""
    found = np.array(x)
    if found.dtype == jnp.bfloat16:
        return torch.from_numpy(found.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(found)


def keywords(call: Call) -> dict[str, Any]:
    named = mapped_values(call.kwargs)
    if isinstance(named.get("dtype"), torch.dtype):
        named["dtype"] = WORDS[named["dtype"]]
    return named


def mapped_values(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: mapped(array, value) for name, value in kwargs.items()}


def named(call: Call, found: Any) -> dict[str, Any]:
    """What a function of jax's gave, by name."""
    about = call.facts
    names = [p.name for p in about.params if p.role in ("INOUT", "OUT")]
    if hasattr(found, "_asdict"):
        given = found._asdict()
    elif about.writes:
        given = {names[0]: found}
    else:
        given = {about.outs[0].name: found}
    tensors = {name: as_tensors(value) for name, value in given.items() if value is not None}
    return {name: value for name, value in tensors.items() if name in call.want}


def as_tensors(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [tensor(x) for x in value]
    return tensor(value)


def function(op: Any, call: Call, **more: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The op as a function of arrays alone, and those of the call."""
    tensors = tensors_of(call.inputs)
    keep = keywords(call)

    def run(*arrays: Any) -> Any:
        given = iter(arrays)
        return op(*mapped(lambda _: next(given), call.inputs), **keep, **more)

    return run, [array(x) for x in tensors]


# ---- gradients -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Gradients:
    """A sample's, beside those of the row's reference: of the tensors at `places`."""

    call: Call
    places: list[int]  # of its tensors, those that have a gradient
    gs: list[torch.Tensor]  # one for each required out, of floats
    want: list[torch.Tensor]


def gradients_of(row: Row, one: Sample) -> Gradients:
    call = call_of(row, one)
    none = {name for name, text in call.facts.grad.items() if text == "none"}
    leaves: list[torch.Tensor] = []
    places: list[int] = []

    def leaf(x: torch.Tensor, wanted: bool) -> torch.Tensor:
        made = x.detach().clone()
        if wanted and x.is_floating_point():
            places.append(len(leaves))
            made.requires_grad_()
        leaves.append(made)
        return made

    inputs = [
        mapped(functools.partial(leaf, wanted=p.name not in none), value)
        for p, value in zip(call.facts.inputs, call.inputs, strict=True)
    ]
    found = call_reference(row, inputs, call.kwargs)
    required = [x for p, x in zip(call.facts.outs, found, strict=True) if not p.optional]
    outs = [x for x in required if x.is_floating_point()]
    source = torch.Generator().manual_seed(5)
    gs = [torch.randn(x.shape, generator=source, dtype=x.dtype) for x in outs]
    wanted_of = [leaves[i] for i in places]
    got: Sequence[Any] = torch.autograd.grad(outs, wanted_of, gs, allow_unused=True)
    want = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted_of, got, strict=True)]
    return Gradients(call, places, gs, want)


def close(ours: Any, right: Any, dtype: str, what: str) -> None:
    """Fails with the worst error and where it is; a NaN is never close."""
    got, want = np.asarray(ours, np.float64), np.asarray(right, np.float64)
    assert got.shape == want.shape, f"{what}: {got.shape} is not {want.shape}"
    error = np.abs(got - want)
    allowed = TOLERANCES[dtype] * np.maximum(1, np.abs(want))
    bad = ~(error <= allowed)
    if bad.any():
        worst = np.unravel_index(np.argmax(np.where(bad, error, -1)), got.shape)
        raise AssertionError(
            f"{what} {dtype}: {got[worst]} is not {want[worst]} at {worst}, {bad.sum()} are wrong"
        )
