"""Calls of every CUDA kernel of every op, on torch tensors, from the samples of tests/rows.

`cases(op)` are its calls, each in a layout that the kernel takes; `Case.change(seed)` gives one
other values, `run` makes it, `check` looks at what it wrote. `planned(op)` says which there are
without a GPU. The device is a parameter, so that the cases themselves are tested where there is
none."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from rows import Maker, Row, Sample, rows
from rows.calls import Call, call_of, mapped, tensors_of
from rows.table import DTYPES, WORDS, facts, table

OPS = tuple(op for op in rows() if op in table())
SUFFIX = WORDS
EACH = 3  # samples of a kernel
LAYOUTS = (None, "dense", "reversed", "nhwc")  # None: as the sample lies


@dataclass(frozen=True, slots=True)
class Plan:
    """A sample that a kernel fits, and how: the `at`-th of `samples`, or of `large`."""

    kernel: str
    suffix: str
    word: str  # of the Maker
    large: bool
    at: int
    layout: str | None


@dataclass(slots=True)
class Case:
    """One kernel's call. Its tensors stay, their values change."""

    op: str
    plan: Plan
    call: Call
    prepare: Callable[[int], Call]  # another call of other values, that lies like it
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kernel(self) -> str:
        return self.plan.kernel

    @property
    def name(self) -> str:
        return f"{self.op}/{self.kernel} {self.call.suffix} {self.plan}"

    @property
    def inputs(self) -> list[torch.Tensor]:
        return tensors_of(self.call.inputs)

    @property
    def written(self) -> list[torch.Tensor]:
        """The outs, and the arguments that are written in place."""
        return tensors_of(list(self.call.written().values()))

    def arguments(self) -> list[Any]:
        return self.call.positional()

    def keywords(self) -> dict[str, Any]:
        """The kernel is demanded where the tensors lie on a GPU."""
        demanded = {"kernel": self.kernel} if self.call.device == "cuda" else {}
        return {**self.options, **demanded}

    def run(self, of: Call | None = None, **more: Any) -> None:
        call = self.call if of is None else of
        module = call.facts.module
        typed = getattr(module, f"{self.op}_{call.suffix}")
        if typed(*call.positional(), **self.keywords(), **more) is not True:
            said = module.explain(*call.positional(), **self.options)
            raise AssertionError(f"{self.name} refused: {said}")

    def bind(self, **more: Any) -> Any:
        return self.call.facts.module.bind(*self.arguments(), **self.keywords(), **more)

    def take(self, other: Call) -> None:
        """Another call's values, and outs on which what is not written shows."""
        for mine, its in zip(self.inputs, tensors_of(other.inputs), strict=True):
            mine.copy_(its)
        for x in self.call.outs.values():
            x.fill_(float("nan") if x.is_floating_point() else 1 if x.dtype == torch.bool else 85)
        self.call.want = other.want

    def change(self, seed: int) -> None:
        self.take(self.prepare(seed))

    def check(self) -> None:
        """What was written is near the reference; NaN where none is wanted fails."""
        self.call.check(self.call.written(), f"{self.kernel} {self.plan}")

    def differs(self, seed: int) -> torch.Tensor:
        """Whether a call of its own, on the values of that seed, writes other bits: a bool on the
        device, which nothing waits for."""
        other = self.prepare(seed)
        self.run(other)
        pairs = zip(self.written, tensors_of(list(other.written().values())), strict=True)
        found = [(x.nan_to_num(9) != y.nan_to_num(9)).any() for x, y in pairs]
        return torch.stack(found).any()


@functools.lru_cache(maxsize=32)
def drawn(op: str, word: str, large: bool, device: str, seed: int) -> list[Sample]:
    row = rows()[op]
    return (row.large if large else row.samples)(Maker(DTYPES[word], device, seed=seed))


def laid(call: Call, layout: str | None) -> Call:
    """With poisoned outs that lie like it."""
    made = call.copied() if layout is None else call.relaid(layout)
    return made.with_outs(layout=layout or "dense")


@functools.lru_cache(maxsize=512)
def called(op: str, word: str, large: bool, at: int, device: str, seed: int) -> Call:
    """A drawn call with its results, for copies of it to be run: the reference takes longest. Its
    tensors are there for every stream."""
    made = call_of(rows()[op], drawn(op, word, large, device, seed)[at], device)
    if device == "cuda":
        torch.cuda.current_stream().synchronize()
    return made


def case_of(op: str, plan: Plan, device: str) -> Case:
    def prepare(seed: int) -> Call:
        made = called(op, plan.word, plan.large, plan.at, device, seed)
        return laid(made, plan.layout)

    call = prepare(0)
    return Case(op, plan, call, prepare, call.options)


# ---- which there are -----------------------------------------------------------------------------


def fitting(call: Call, device: str) -> set[str]:
    """The kernels of a device that take a call, which has no memory there."""
    spec = importlib.import_module("aicf_rt").Spec

    def of(x: torch.Tensor) -> Any:
        return spec(tuple(x.shape), WORDS[x.dtype], strides=x.stride(), device=device)

    lines = call.facts.module.explain(*mapped(of, call.positional()), **call.options)
    return {line.partition(":")[0] for line in lines if ": fits" in line}


@functools.cache
def planned(op: str, device: str = "cuda", word: str | None = None) -> tuple[Plan, ...]:
    """For each built kernel and Maker's dtype the samples that fit it, as many as EACH says, and
    all large ones."""
    row, found = rows()[op], []
    if word is None:
        return tuple(plan for kind in row.dtypes for plan in planned(op, device, kind))
    kernels = facts(op).kernels_of(device)
    for large, make in ((False, row.samples), (True, row.large)):
        count = dict.fromkeys(kernels, 0)
        for at, one in enumerate(make(Maker(DTYPES[word])) if word in row.dtypes else ()):
            for kernel, suffix, layout in fits(row, one, kernels, device):
                count[kernel] += 1
                if large or count[kernel] <= EACH:
                    found.append(Plan(kernel, suffix, word, large, at, layout))
    return tuple(found)


def fits(
    row: Row, one: Sample, kernels: Mapping[str, tuple[str, ...]], device: str
) -> Iterator[tuple[str, str, str | None]]:
    """Kernels that take the sample, each with its suffix and the first layout that does."""
    call = call_of(row, one)
    left = {k for k, suffixes in kernels.items() if call.suffix in suffixes}
    for layout in LAYOUTS:
        if left:
            taken = fitting(laid(call, layout), device) & left
            yield from ((kernel, call.suffix, layout) for kernel in sorted(taken))
            left -= taken


def unreached(op: str) -> list[str]:
    """CUDA kernels that no sample fits. Without a GPU those for some archs fit nothing."""
    kernels = importlib.import_module(f"aicf_cuda.{op}").capability["kernels"]
    away = {k["id"] for k in kernels if k.get("arch") and not torch.cuda.is_available()}
    return sorted(set(facts(op).kernels_of("cuda")) - away - {plan.kernel for plan in planned(op)})


def cases(op: str, device: str = "cuda", dtype: torch.dtype | None = None) -> list[Case]:
    """Each kernel of `op` by at most two samples and two large ones: in one dtype; if none is said,
    in f32 or whatever the kernel takes."""
    if device == "cpu":  # any kernel: none is demanded
        plans = planned(op, "cpu", WORDS[dtype or torch.float32])
        return [case_of(op, plan, device) for plan in plans if not plan.large]
    plans = planned(op) if dtype is None else planned(op, word=WORDS[dtype])
    chosen: list[Plan] = []
    for kernel in dict.fromkeys(plan.kernel for plan in plans):
        mine = [plan for plan in plans if plan.kernel == kernel]
        first = "f32" if any(plan.word == "f32" for plan in mine) else mine[0].word
        mine = [plan for plan in mine if plan.word == first]
        small, large = ([p for p in mine if p.large is is_large] for is_large in (False, True))
        chosen += [*small[:2], *large[:2]]
    return [case_of(op, plan, device) for plan in chosen]
