"""Calls of each row to check it with: at least three of each, of what it takes by kind.

Each is the arguments of the plain form; `forms_of` makes those of the row's other forms of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

FEWEST = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """One call. Tensors of floats require a gradient where the row declares one."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def copy(self) -> Sample:
        return Sample(*copy.deepcopy((self.args, self.kwargs)))


class Maker:
    """Makes tensors of one dtype and device, from one seed."""

    def __init__(self, dtype: torch.dtype, device: str, grad: bool) -> None:
        self.dtype, self.device, self.grad = dtype, device, grad
        self.source = torch.Generator().manual_seed(7)

    def __call__(self, *shape: int, grad: bool | None = None) -> torch.Tensor:
        x = torch.randn(shape, generator=self.source, dtype=torch.float64)
        made = x.to(self.dtype).to(self.device)
        wanted = self.grad if grad is None else grad
        return made.requires_grad_(wanted and made.is_floating_point())

    def turned(self, *shape: int) -> torch.Tensor:
        """A leaf whose last two dims lie the other way round."""
        *lead, m, n = shape
        return self(*lead, n, m, grad=False).mT.requires_grad_(self.grad)

    def sliced(self, *shape: int) -> torch.Tensor:
        """A leaf with gaps."""
        *lead, n = shape
        return self(*lead, 2 * n, grad=False)[..., ::2].requires_grad_(self.grad)


def sample(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


# ---- the main table ---------------------------------------------------------------------------


def unary(t: Maker) -> list[Sample]:
    return [sample(t(3, 4)), sample(t.turned(2, 3, 4)), sample(t.sliced(2, 5)), sample(t())]


def binary(t: Maker) -> list[Sample]:
    return [
        sample(t(3, 4), t(3, 4)),
        sample(t.turned(3, 4), t.turned(3, 4)),
        sample(t.sliced(2, 3), t(2, 3)),
    ]


def gemm(t: Maker) -> list[Sample]:
    return [
        sample(t(3, 4), t(4, 5)),
        sample(t(2, 3, 4), t.turned(4, 5), t(5), act="relu", alpha=0.5),
        sample(t.sliced(3, 4), t(4, 2), t(2), t(3, 2), beta=0.5, act="gelu"),
        sample(t(3, 4), t(2, 4, 5), None, t(2, 3, 5), beta=2.0),
    ]


MAIN: dict[str, Callable[[Maker], list[Sample]]] = {
    "add": lambda t: [*binary(t), sample(t(2, 1, 3), t(4, 1)), sample(t(3), t())],
    "relu": unary,
    "relu_bwd": binary,
    "gelu_bwd": lambda t: [*binary(t), sample(t(2, 3), t(2, 3), approx="tanh")],
    "scale": lambda t: [Sample(s.args, {"factor": 1.5}) for s in unary(t)],
    "copy": unary,
    "bias_add": lambda t: [
        sample(t(3, 4), t(4)),
        sample(t.turned(2, 3, 4), t(4), axis=-1),
        sample(t.sliced(3, 2), t(3), axis=0),
    ],
    "bias_add_bwd": lambda t: [
        sample(t(3, 4)), sample(t(2, 3, 4), axis=-1), sample(t.turned(3, 2), axis=0),
    ],
    "gemm": gemm,
    "sum": lambda t: [
        sample(t(3, 4)), sample(t.turned(2, 3, 4), axes=[-1]),
        sample(t(2, 3), axes=[0, 1], keepdim=True), sample(t.sliced(2, 3), axes=0),
    ],
}  # fmt: skip


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

NO_GRADIENT = ("relu_bwd", "gelu_bwd", "bias_add_bwd", "norm_bwd", "sincos_bwd", "cube", "argmost",
               "momentum", "running")  # fmt: skip
ROWS = [*(("aicf", name) for name in MAIN), *(("kinds", name) for name in KINDS)]


def samples_of(
    name: str, dtype: torch.dtype = torch.float64, device: str = "cpu", grad: bool | None = None
) -> list[Sample]:
    """Those of a row; what requires a gradient is what the row declares, if not told."""
    wanted = name not in NO_GRADIENT if grad is None else grad
    found = {**MAIN, **KINDS}[name](Maker(dtype, device, wanted))
    assert len(found) >= FEWEST
    return found


# ---- other forms ------------------------------------------------------------------------------


def forms_of(op: Any, one: Sample) -> Iterator[tuple[Any, Sample]]:
    """A call of each overload of an op but the plain one."""
    names = {o: getattr(op, o) for o in op.overloads() if o != "default"}
    for name, overload in names.items():
        given = one.copy()
        plain = _plain(overload, given, name)
        if "want" in name:
            yield overload, Sample(plain.args, {**plain.kwargs, "want": [True, False]})
        elif "out" in name:
            yield overload, _into(op, overload, given, plain)
        else:
            yield overload, plain


def _plain(overload: Any, given: Sample, name: str) -> Sample:
    """With tensors for scalars where the overload takes them."""
    kwargs = dict(given.kwargs)
    for a in overload._schema.arguments if "dev" in name else ():
        if str(a.type) == "Tensor" and isinstance(kwargs.get(a.name), int | float):
            kwargs[a.name] = _scalar(overload, a.name, given, kwargs[a.name])
        if str(a.type) == "Optional[Tensor]" and isinstance(kwargs.get(a.name), int | float):
            kwargs[a.name] = torch.tensor([kwargs[a.name]], device=_first(given).device)
    return Sample(given.args, kwargs)


def _first(one: Sample) -> torch.Tensor:
    x: Any = one.args[0]
    return x[0] if isinstance(x, list) else x


def _scalar(overload: Any, name: str, given: Sample, value: Any) -> torch.Tensor:
    x = _first(given)
    dtype = {"seed": torch.int64, "lr": torch.float32}.get(name, x.dtype)
    return torch.tensor([value], dtype=dtype, device=x.device)


def _into(op: Any, overload: Any, given: Sample, plain: Sample) -> Sample:
    """Into outs of the plain call, without what requires a gradient."""
    args, kwargs = _detached((plain.args, plain.kwargs))
    args = torch.utils._pytree.tree_map(_dense, args)  # functional forms alone make dense ones
    outs = [a for a in overload._schema.arguments if a.alias_info and a.kwarg_only]
    if "norm_bwd" in str(op):
        found = op.default(*args, **kwargs)
    else:
        found = op.default(*_detached(given.args), **given.kwargs)
    found = found if isinstance(found, tuple) else (found,)
    made = {a.name: torch.full_like(x.contiguous(), 9) for a, x in zip(outs, found, strict=False)}
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
