"""Calls of samples, and what must come of them: over the entries of rows and the built table."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kernels.calls import note_kernel
from kernels.tensors import array_of, empty, poisoned
from kernels.tolerance import TOLERANCES, assert_close
from rows import Maker, Row, Sample
from rows.table import DTYPES, WORDS, Facts, facts, table


def mapped(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """`function` of each tensor of an argument; what is none stays."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, list | tuple):
        return type(value)(mapped(function, x) for x in value)
    return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    mapped(found.append, value)
    return found


# ---- what must come ------------------------------------------------------------------------------


def exact(value: Any) -> Any:
    """A copy in float64 on the CPU; integers and bools as they are."""

    def of(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().cpu().clone()
        return x.double() if x.is_floating_point() else x

    return mapped(of, value)


def takes_dtype(reference: Callable[..., Any]) -> bool:
    try:
        known = inspect.signature(reference).parameters.values()
    except ValueError:  # of torch's own
        return False
    return any(p.name == "dtype" or p.kind is p.VAR_KEYWORD for p in known)


def call_reference(row: Row, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """What it gives, as a list. `dtype` is for those that want it."""
    if not takes_dtype(row.reference):
        kwargs = {k: v for k, v in kwargs.items() if k != "dtype"}
    found = row.reference(*args, **kwargs)
    return list(found) if isinstance(found, tuple) else [found]


def wanted(row: Row, one: Sample) -> dict[str, Any]:
    """All that a call of the sample writes, by name: tensors of float64, integers or bools."""
    about = facts(row.op)
    found = call_reference(row, exact(one.args), exact(dict(one.kwargs)))
    given = dict(zip((p.name for p in about.inputs), one.args, strict=False))
    written = [p for p in about.params if p.role in ("INOUT", "OUT")]
    if len(found) != len(written):  # the absent ones are left out
        written = [p for p in written if p.role == "OUT" or given.get(p.name) is not None]
    assert len(found) == len(written), (
        f"{row.op}: its reference gives {len(found)} results, the row writes "
        f"{[p.name for p in written]}"
    )
    return {p.name: x for p, x in zip(written, found, strict=True) if x is not None}


# ---- calls ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Call:
    """A sample as a call of one typed form."""

    row: Row
    facts: Facts
    suffix: str
    inputs: list[Any]  # one a tensor argument of the row, None for an absent one
    kwargs: dict[str, Any]
    want: dict[str, Any]
    device: str
    outs: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def name(self) -> str:
        shapes = [mapped(lambda x: (tuple(x.shape), x.stride()), x) for x in self.inputs]
        return f"{self.row.op}_{self.suffix}({shapes}, {self.kwargs})"

    @property
    def options(self) -> dict[str, Any]:
        """Attributes and scalars: the suffix says the dtype."""
        return {k: v for k, v in self.kwargs.items() if k != "dtype"}

    def kind(self, name: str) -> str:
        return self.facts.variants[self.suffix][name]

    def with_outs(self, optional: bool = True, layout: str = "dense") -> Call:
        """Poisoned ones, of the right sizes."""
        self.outs = {
            p.name: poisoned(self.want[p.name].shape, self.kind(p.name), self.device, layout)
            for p in self.facts.outs
            if p.name in self.want and (optional or not p.optional)
        }
        return self

    def positional(self) -> list[Any]:
        return [*self.inputs, *(self.outs.get(p.name) for p in self.facts.outs)]

    def explain(self, **more: Any) -> list[str]:
        lines: list[str] = self.facts.module.explain(*self.positional(), **self.options, **more)
        return lines

    def kernel(self) -> str | None:
        """The one that runs."""
        fits = (line.partition(":")[0] for line in self.explain() if ": fits" in line)
        return next(fits, None)

    def typed(self, **more: Any) -> bool:
        """The answer. On a GPU the kernel that ran is noted for the report."""
        function = getattr(self.facts.module, f"{self.row.op}_{self.suffix}")
        answer = function(*self.positional(), **self.options, **more)
        assert answer is True or answer is False
        if answer and self.device == "cuda":
            torch.cuda.synchronize()
            note_kernel(self.row.op, self.explain(), more.get("kernel"))
        return bool(answer)

    def must(self, **more: Any) -> None:
        assert self.typed(**more), f"{self.name} refused: {self.explain()}"

    def generic(self, **more: Any) -> dict[str, Any]:
        """The outs of the generic form, by name; `more` asks for optional ones or gives outs."""
        given = getattr(self.facts.module, self.row.op)(*self.inputs, **self.kwargs, **more)
        named = [p.name for p in self.facts.outs if p.name in more or not p.optional]
        names = named or [p.name for p in self.facts.outs]  # all, where nothing was asked for
        if isinstance(given, torch.Tensor):
            assert len(names) == 1
            return {names[0]: given}
        return {name: getattr(given, name) for name in names}

    def written(self) -> dict[str, Any]:
        """What the call wrote: the outs, and the arguments that are written in place."""
        named = zip(self.facts.inputs, self.inputs, strict=True)
        places = {p.name: x for p, x in named if p.role == "INOUT" and x is not None}
        return {**places, **self.outs}

    def copied(self) -> Call:
        """Another one, on inputs of its own that lie as these do."""
        again = Sample(tuple(self.inputs), dict(self.kwargs)).copy()
        return Call(
            self.row, self.facts, self.suffix, list(again.args), dict(again.kwargs), self.want,
            self.device,
        )  # fmt: skip

    def relaid(self, layout: str, only: str | None = None) -> Call:
        """With all its tensors, or that of one name, in a layout of kernels.tensors."""

        def move(x: torch.Tensor) -> torch.Tensor:
            made = once = empty(tuple(x.shape), WORDS[x.dtype], self.device, layout)
            for dim in range(0, x.dim(), 2) if layout == "broadcast" else ():
                once, x = (t.narrow(dim, 0, min(t.shape[dim], 1)) for t in (once, x))
            once.copy_(x)
            return made

        again = self.copied()
        for at, p in enumerate(self.facts.inputs):
            if only in (None, p.name):
                again.inputs[at] = mapped(move, again.inputs[at])
        return again

    def check(self, got: Mapping[str, Any], what: str) -> None:
        for name, value in got.items():
            if value is not None:
                compare(value, self.want[name], self.row.slack, f"{what} {self.name}: {name}")


def canonical(call: Call) -> dict[str, Any]:
    """All attributes and scalars of a call, as generated Python takes them."""
    schema = importlib.import_module("aicf_rt.torch_schema")
    row = schema.row_of(table()[call.row.op])
    return {v.name: v.canonical(call.kwargs.get(v.name, v.default)) for v in row.values}


def compare(got: Any, want: Any, slack: float, what: str) -> None:
    """`got` is `want` rounded to its dtype, within `slack` times that dtype's tolerance."""
    if isinstance(want, list | tuple):
        assert len(got) == len(want), what
        for i, (x, y) in enumerate(zip(got, want, strict=True)):
            compare(x, y, slack, f"{what}[{i}]")
        return
    kind = WORDS[got.dtype]
    right = np.asarray(array_of(torch.as_tensor(want)))
    if kind not in TOLERANCES:
        found = array_of(got)
        assert found.shape == right.shape, f"{what}: shape {found.shape}, want {right.shape}"
        assert (found == right).all(), f"{what}:\n{found}\nis not\n{right}"
        return
    rtol, atol = TOLERANCES[kind]
    with np.errstate(invalid="ignore"):
        more = np.where(np.isfinite(right), (slack - 1) * (atol + rtol * np.abs(right)), 0.0)
    assert_close(array_of(got), right, kind, what, more)


def suffix_of(about: Facts, inputs: Sequence[Any], dtype: Any) -> str:
    """The typed form that a call is of."""
    given = {
        p.name: WORDS[tensors[0].dtype]
        for p, x in zip(about.inputs, inputs, strict=True)
        if (tensors := tensors_of(x))
    }
    word = dtype if dtype is None or isinstance(dtype, str) else WORDS[dtype]
    for suffix, kinds in about.variants.items():
        said = about.free is None or word is None or suffix.split("_")[about.free] == word
        if said and all(kinds[name] == kind for name, kind in given.items()):
            return suffix
    raise AssertionError(f"{about.op}: no typed form takes {given}, dtype {word}")


def call_of(row: Row, one: Sample, device: str = "cpu") -> Call:
    about = facts(row.op)
    missing = len(about.inputs) - len(one.args)
    inputs = [*one.args, *([None] * missing)]
    named = dict(one.kwargs)
    for at, p in enumerate(about.inputs):
        if p.name in named:  # an optional tensor by its name
            inputs[at] = named.pop(p.name)
    suffix = suffix_of(about, inputs, named.get("dtype"))
    return Call(row, about, suffix, inputs, named, wanted(row, one), device)


def samples_of(row: Row, dtype: str, device: str = "cpu", seed: int = 7) -> list[Sample]:
    return row.samples(Maker(DTYPES[dtype], device, seed=seed))


def calls_of(row: Row, dtype: str, device: str = "cpu") -> Iterator[Call]:
    """Those of a row's samples that the device has a kernel for."""
    for one in samples_of(row, dtype, device):
        call = call_of(row, one, device)
        if call.suffix in call.facts.covered.get(device, ()):
            yield call
