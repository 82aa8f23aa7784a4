"""Calls of each row to check it with: at least three of each.

Those of the main table are the samples of tests/rows; those of the table in zoo/ are here. Each is
the arguments of the plain form; `forms_of` makes those of the row's other forms of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from rows import FEWEST, Maker, Sample, rows, sample
from rows.calls import suffix_of
from rows.table import DTYPES, WORDS, Facts, facts, table

PACKAGES = {"aicf": "aicf_cuda", "kinds": "kinds_ops"}  # by namespace
MAIN = {op: row.samples for op, row in rows().items() if op in table()}


def unary(t: Maker) -> list[Sample]:
    return [sample(t(3, 4)), sample(t.turned(2, 3, 4)), sample(t.sliced(2, 5)), sample(t())]


def binary(t: Maker) -> list[Sample]:
    return [
        sample(t(3, 4), t(3, 4)),
        sample(t.turned(3, 4), t.turned(3, 4)),
        sample(t.sliced(2, 3), t(2, 3)),
    ]


# ---- the table in zoo/ ------------------------------------------------------------------------


def lists(t: Maker) -> list[Sample]:
    def some(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
        return [t(*shape, grad=False) for shape in shapes]

    shapes = ((3,), (2, 2), ())
    return [
        sample(some(*shapes), some(*shapes), lr=0.1),
        sample(some(*shapes), some(*shapes), some(*shapes), lr=0.1, mu=0.5),
        sample(some((4,)), some((4,)), lr=1.0),
    ]


def norm_bwd(t: Maker) -> list[Sample]:
    return [
        sample(t(3, 4), t(3, 4), t(3)),
        sample(t(3, 4), t.turned(3, 4), t(3), t(4)),
        sample(t(1, 2), t.sliced(1, 2), t(1), t(2)),
    ]


KINDS: dict[str, Callable[[Maker], list[Sample]]] = {
    "norm": lambda t: [
        sample(t(3, 4)), sample(t.turned(3, 4), t(4)), sample(t(2, 3), t(3), eps=0.1),
    ],
    "norm_bwd": norm_bwd,
    "sincos": unary,
    "sincos_bwd": lambda t: [sample(t(3, 4), t(3, 4), t(3, 4)), sample(t(2), t.sliced(2), t(2)),
                             sample(t(), t(), t())],
    "square": unary,
    "square_bwd": binary,
    "cube": unary,
    "argmost": lambda t: [sample(t(3, 4)), sample(t.turned(2, 3)), sample(t.sliced(1, 3))],
    "concat": lambda t: [
        sample([t(2, 3), t(1, 3)]), sample([t(2, 3), t.turned(2, 2), t(2, 1)], axis=-1),
        sample([t.sliced(3)]),
    ],
    "momentum": lists,
    "running": lambda t: [
        sample(t(3, 4, grad=False), t(3, 4, grad=False)), sample(t(2, grad=False),
        t(4, grad=False)[::2].clone(), keep=0.25), sample(t(grad=False), t(grad=False)),
    ],
    "drop": lambda t: [
        sample(t(3, 4), seed=3), sample(t.turned(3, 4), seed=1, offset=5, p=0.25),
        sample(t.sliced(2, 3), seed=2),
    ],
    "shift": lambda t: [Sample(s.args, {"by": 2.0}) for s in unary(t)],
    "cast": lambda t: [
        sample(t(3, 4)), sample(t.turned(3, 4), dtype=torch.float64),
        sample(t.sliced(2, 3), dtype=torch.float32),
    ],
    "pad": lambda t: [
        sample(t(3, 4)), sample(t.turned(3, 2), by=[0, 2]), sample(t.sliced(2, 3), by=2),
    ],
    "crop": lambda t: [
        sample(t(3, 4)), sample(t.turned(3, 5), by=[0, 2]), sample(t.sliced(2, 5), by=2),
    ],
    "spread": lambda t: [sample(t(3), H=2), sample(t.sliced(4), H=3), sample(t(2), H=5)],
    "total": lambda t: [
        sample(t(3, 4)), sample(t.turned(2, 3, 4), axes=[-1]),
        sample(t(2, 3), axes=[0, 1], keepdim=True), sample(t.sliced(2, 3), axes=0),
    ],
    "turn": lambda t: [
        sample(t(3, 4)), sample(t.turned(2, 3), how="negate"), sample(t.sliced(4), how="double"),
    ],
}  # fmt: skip

KINDS_WITHOUT = ("norm_bwd", "sincos_bwd", "cube", "argmost", "momentum", "running")
ROWS = [*(("aicf", name) for name in MAIN), *(("kinds", name) for name in KINDS)]


def has_gradient(namespace: str, name: str) -> bool:
    """Known when tests are collected, where the table in zoo/ is not built yet."""
    return bool(facts(name).grad) if namespace == "aicf" else name not in KINDS_WITHOUT


def samples_of(
    namespace: str,
    name: str,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
    grad: bool | None = None,
    seed: int = 7,
) -> list[Sample]:
    """Those of a row; what requires a gradient is what the row declares, if not told. Of a row
    that does not have the dtype those in its first one."""
    wanted = has_gradient(namespace, name) if grad is None else grad
    if namespace == "aicf" and WORDS[dtype] not in rows()[name].dtypes:
        dtype = DTYPES[rows()[name].dtypes[0]]
    made = (MAIN if namespace == "aicf" else KINDS)[name](Maker(dtype, device, wanted, seed))
    assert len(made) >= FEWEST
    return [_plainly(facts(name), one) if namespace == "aicf" else one for one in made]


def _plainly(about: Facts, one: Sample) -> Sample:
    """In torch's words, all tensors by position, and without a gradient for what has none."""
    none = {name for name, text in about.grad.items() if text == "none"}
    kwargs = dict(one.kwargs)
    names = [p.name for p in about.inputs]
    args = [*one.args, *(kwargs.pop(name, None) for name in names[len(one.args) :])]
    while len(args) > len(one.args) and args[-1] is None:
        args.pop()
    args = [_detached(x) if n in none else x for n, x in zip(names, args, strict=False)]
    if isinstance(kwargs.get("dtype"), str):
        kwargs["dtype"] = DTYPES[kwargs["dtype"]]
    return Sample(tuple(args), kwargs)


def plain_of(op: Any, one: Sample) -> Any:
    """The overload that the sample's arguments are for: scalars may be tensors."""
    namespace, _, name = str(op).partition(".")
    about = facts(name, PACKAGES[namespace])
    tensors = [p for p in about.scalars if isinstance(one.kwargs.get(p.name), torch.Tensor)]
    return op.dev if tensors else op.default


def few(samples: list[Sample]) -> list[Sample]:
    """For what is dear: the first two and the last."""
    return [*samples[: FEWEST - 1], samples[-1]]


# ---- other forms ------------------------------------------------------------------------------


def forms_of(op: Any, one: Sample) -> Iterator[tuple[Any, Sample]]:
    """A call of each overload of an op but the plain one."""
    namespace, _, name = str(op).partition(".")
    about = facts(name, PACKAGES[namespace])
    device = plain_of(op, one) is not op.default
    for form in op.overloads():
        overload = getattr(op, form)
        given = one.copy()
        if form == "default" or (device and "dev" not in form):
            continue
        plain = _on_device(about, given) if "dev" in form else given
        if "want" in form:
            wants = [i % 2 == 0 for i in range(len(about.outs))]
            yield overload, Sample(plain.args, {**plain.kwargs, "want": wants})
        elif "out" in form:
            yield overload, _into(op, overload, given, plain)
        else:
            yield overload, plain


def _on_device(about: Facts, given: Sample) -> Sample:
    """With tensors for scalars."""
    found: list[torch.Tensor] = []
    torch.utils._pytree.tree_map_only(torch.Tensor, found.append, (given.args, given.kwargs))
    kwargs = dict(given.kwargs)
    for p in about.scalars:
        if isinstance(kwargs.get(p.name), bool | int | float):
            kind = DTYPES[_variant(about, given)[p.name]]
            kwargs[p.name] = torch.tensor([kwargs[p.name]], dtype=kind, device=found[0].device)
    return Sample(given.args, kwargs)


def _variant(about: Facts, given: Sample) -> Mapping[str, str]:
    """The dtypes of a typed form that takes the tensors."""
    inputs = [*given.args, *([None] * (len(about.inputs) - len(given.args)))]
    return about.variants[suffix_of(about, inputs, given.kwargs.get("dtype"))]


def _into(op: Any, overload: Any, given: Sample, plain: Sample) -> Sample:
    """Into outs of the plain call, without what requires a gradient."""
    args, kwargs = _detached((plain.args, plain.kwargs))
    args = torch.utils._pytree.tree_map(_dense, args)
    outs = [a for a in overload._schema.arguments if a.alias_info and a.kwarg_only]
    every = op.aux if "aux" in op.overloads() else op  # whichever its scalars are for
    found = every(*_detached(given.args), **_detached(given.kwargs))
    found = found if isinstance(found, tuple) else (found,)
    made = {a.name: torch.full_like(x.contiguous(), 9) for a, x in zip(outs, found, strict=True)}
    kwargs.pop("dtype", None)
    return Sample(args, {**kwargs, **made})


def _detached(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.detach()
    if isinstance(x, dict):
        return {k: _detached(v) for k, v in x.items()}
    return type(x)(_detached(v) for v in x) if isinstance(x, list | tuple) else x


def _dense(x: Any) -> Any:
    return x.contiguous() if isinstance(x, torch.Tensor) else x
