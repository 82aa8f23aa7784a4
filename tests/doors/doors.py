"""The doors: each makes a case's tensors, calls, and tells what came of it."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from aicf_rt import Spec, Unsupported

from doors.cases import OUTS, RIGHT, Case, Only, T
from doors.draw import ALL
from modules.fake_producer import FakeProducer

DEVICES = {"cuda": 2, "metal": 8}


@dataclass(frozen=True, slots=True)
class Said:
    """`verdict`: "ran", "refused" (Unsupported) or "misuse" (any other TypeError). The words are
    None where the door has none."""

    verdict: str
    words: str | None = None


def hear(call: Callable[[], Any]) -> Said:
    try:
        call()
    except Unsupported as fault:
        return Said("refused", str(fault))
    except TypeError as fault:
        return Said("misuse", str(fault))
    return Said("ran")


# ---- tensors ---------------------------------------------------------------------------------


class Memories:
    """The tensors of one call, as numpy's arrays, and as what claims to be on a device."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}

    def array(self, t: T) -> Any:
        word = np.dtype(ALL[t.dtype])
        strides = t.strides
        if 0 in t.shape:
            return np.ones(t.shape, word)
        if strides is None:
            strides = tuple(math.prod(t.shape[i + 1 :]) for i in range(len(t.shape)))
        reach = sum((n - 1) * s for n, s in zip(t.shape, strides, strict=True)) + 1
        memory = np.ones(reach + t.offset, word)
        if t.memory:
            memory = self.named.setdefault(t.memory, np.ones(4096, word))
        view = np.lib.stride_tricks.as_strided(
            memory[t.offset :], t.shape, [s * word.itemsize for s in strides]
        )
        if t.read_only:
            view.flags.writeable = False
        return view

    def tensor(self, value: Any) -> Any:
        if isinstance(value, T):
            kind, _, index = value.device.partition(":")
            if kind != "cpu":
                return FakeProducer(
                    math.prod(value.shape), value.shape,
                    device_type=DEVICES[kind], device_index=int(index),
                )  # fmt: skip
            return self.array(value)
        if isinstance(value, Only):
            return value.make()
        if isinstance(value, tuple) and any(isinstance(v, (T, Only)) for v in value):
            return [self.tensor(v) for v in value]
        return value

    def spec(self, value: Any) -> Any:
        """The same without memory."""
        if isinstance(value, T):
            return Spec(value.shape, value.dtype, strides=value.strides, device=value.device)
        if isinstance(value, tuple) and any(isinstance(v, T) for v in value):
            return [self.spec(v) for v in value]
        return value


def parts_of(value: Any) -> list[Any]:
    return [v for item in value for v in (item if isinstance(item, tuple) else (item,))]


def values_of(case: Case, outs: bool) -> list[Any]:
    given = outs_of(case).values() if outs else ()
    return parts_of([*case.args, *case.named.values(), *given])


def outs_of(case: Case) -> dict[str, Any]:
    return {**OUTS[case.op], **(case.outs or {})}


def has_memory(case: Case, outs: bool) -> bool:
    """Whether it is about what a description does not have."""
    values = values_of(case, outs)
    known = [v for v in values if isinstance(v, T)]
    return any(isinstance(v, Only) for v in values) or any(v.memory or v.read_only for v in known)


# ---- doors -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Door:
    """`outs`: whether it is given outs. `takes`: whether the call can be made there at all."""

    name: str
    outs: bool
    takes: Callable[[Case], bool]
    ask: Callable[[ModuleType, Case], Said]


def module_of(zoo: ModuleType, case: Case) -> ModuleType:
    table, _, name = case.op.rpartition(".")
    found: ModuleType = (
        getattr(zoo, name) if table else importlib.import_module(f"aicf_cuda.{name}")
    )
    return found


def op_of(case: Case) -> str:
    return case.op.rpartition(".")[2]


def arguments(case: Case, outs: bool, make: Any) -> tuple[list[Any], dict[str, Any]]:
    given = {**case.named, **(outs_of(case) if outs else {})}
    return [make(a) for a in case.args], {n: make(v) for n, v in given.items()}


def asks(form: str, outs: bool, specs: bool = False) -> Callable[[ModuleType, Case], Said]:
    def ask(module: ModuleType, case: Case) -> Said:
        memories = Memories()
        args, named = arguments(case, outs, memories.spec if specs else memories.tensor)
        function = getattr(module, op_of(case) if form == "generic" else form)
        return hear(lambda: function(*args, **named))

    return ask


def ask_typed(module: ModuleType, case: Case) -> Said:
    """False is a refusal without words."""
    args, named = arguments(case, True, Memories().tensor)
    answers = []
    said = hear(
        lambda: answers.append(getattr(module, f"{op_of(case)}_{case.suffix}")(*args, **named))
    )
    return Said("refused") if answers == [False] else said


def explains(outs: bool, specs: bool = False) -> Callable[[ModuleType, Case], Said]:
    """One line that is no kernel's is a refusal; else one kernel fits, or none does."""

    def ask(module: ModuleType, case: Case) -> Said:
        memories = Memories()
        args, named = arguments(case, outs, memories.spec if specs else memories.tensor)
        lines: list[str] = []
        said = hear(lambda: lines.extend(module.explain(*args, **named)))
        if said.verdict != "ran":
            return said
        wanted = named.get("kernel")
        kernels = [line for line in lines if wanted is None or line.startswith(f"{wanted}: ")]
        if any(": fits" in line for line in kernels):
            return Said("ran")
        if case.what != "KERNEL":
            return Said("refused", "\n".join(lines))
        why = [line for line in kernels if wanted or ": for " not in line]
        return Said("refused", f"{op_of(case)}: no kernel fits: {'; '.join(why)}")

    return ask


def ask_bound(module: ModuleType, case: Case) -> Said:
    args, named = arguments(case, True, Memories().tensor)
    return hear(lambda: module.bind(*args, **named))


def ask_set(module: ModuleType, case: Case) -> Said:
    """A right call, set to the wrong one; it stays as it was."""
    memories = Memories()
    right, words = RIGHT[case.op]
    good = {n: memories.tensor(v) for n, v in {**words, **OUTS[case.op]}.items()}
    call = module.bind(*[memories.tensor(a) for a in right], **good)
    before = call.tensors
    names = [a["name"] for a in module.capability["args"] if "attr" not in a and "scalar" not in a]
    args, named = arguments(case, True, memories.tensor)
    said = hear(lambda: call.set(**dict(zip(names, args, strict=False)), **named))
    if said.verdict != "ran":
        now = call.tensors
        assert all(now[name] is before[name] for name in before if not isinstance(now[name], tuple))
        call()
    return said


def can_set(case: Case) -> bool:
    """What is left out, too many or twice is so at the call, not for set."""
    count = len(RIGHT[case.op][0])
    at_call = ("missing", "scalar missing", "too many", "twice")
    return case.what not in at_call and len(case.args) >= count and needs_outs(case)


def needs_outs(case: Case) -> bool:
    return not case.generic


def is_described(outs: bool) -> Callable[[Case], bool]:
    def takes(case: Case) -> bool:
        about = case.about_outs <= outs
        return about and not has_memory(case, outs)

    return takes


def without_outs(case: Case) -> bool:
    return not case.about_outs


def can_explain(case: Case) -> bool:
    return not case.records


def always(case: Case) -> bool:
    return True


CORE = [
    Door("generic", False, without_outs, asks("generic", False)),
    Door("generic, outs given", True, always, asks("generic", True)),
    Door("typed", True, needs_outs, ask_typed),
    Door("bind", True, needs_outs, ask_bound),
    Door("set", True, can_set, ask_set),
    Door("infer", False, without_outs, asks("infer", False)),
    Door("infer, outs given", True, always, asks("infer", True)),
    Door("infer of Specs", False, is_described(False), asks("infer", False, specs=True)),
    Door("infer of Specs, outs given", True, is_described(True), asks("infer", True, specs=True)),
    Door("explain", False, lambda c: can_explain(c) and without_outs(c), explains(False)),
    Door("explain, outs given", True, can_explain, explains(True)),
    Door("explain of Specs", False, is_described(False), explains(False, specs=True)),
]


def expected(case: Case, door: Door) -> Said:
    words = case.says_with if door.outs and case.says_with else case.says
    return Said("misuse" if case.misuse else "refused", words)


def counted(words: str) -> str:
    """How many arguments a form takes by position is its own."""
    return re.sub(r"takes \d+ arguments", "takes N arguments", words)


def agree(said: Said, wanted: Said) -> bool:
    wordless = said.words is None and said.verdict == wanted.verdict == "refused"
    return wordless or (
        said.verdict == wanted.verdict and counted(said.words or "") == counted(wanted.words or "")
    )
