"""The doors of `torch.ops`: functional, with outs given, on fake tensors, and compiled."""

from __future__ import annotations

import contextlib
import importlib
import logging
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from doors.cases import Case, Only, T
from doors.doors import Door, Memories, Said, arguments, hear, values_of

# What torch answers first, by its schemas, in words of its own: what is in them. docs/torch.md has
# these words too.
MISSING = "is missing value for argument"
UNKNOWN = "Unknown keyword argument"
TYPE = "Expected a value of type"
MANY = "argument(s) but received"
FIRST = {
    "cast: dtype takes one of 'f64', 'f32', 'i32', not 'f16'": TYPE,
    "every: times = 9223372036854775807 or more is out of range; allowed: at least 1, "
    "at most 100": TYPE,
    "every: lr = inf is out of range; allowed: what its dtype holds, f32": TYPE,
    "every: times takes an int, not 1.5": TYPE,
    "every: axis takes an int, not 'x'": TYPE,
    "every: alpha takes a number, not '1'": TYPE,
    "every: alpha takes a number, not None": TYPE,
    "every: alpha takes a number, not 1j": TYPE,
    "every: act takes one of 'none', 'relu', not 1": TYPE,
    "every: pad takes an int or a list of ints, not '1'": TYPE,
    "every: pad takes an int, not '1'": TYPE,
    "every: axes takes an int or a list of ints, not 1.5": TYPE,
    "every: lr takes a number or a tensor of one element, not '1'": TYPE,
    "every: lr is missing": MISSING,
    "add: no kernel fits: vec: for cuda, the tensors are on cpu": MANY,
    "every: no kernel fits: rows: N < 1000: N = 1000": UNKNOWN,
    "add: kernel takes one of 'vec', 'strided', 'loop', not 'lop'": MANY,
    "add: stream takes an int or an object with __cuda_stream__, not '1'": MANY,
    "add: b is missing": MISSING,
    "step: gs is missing": MISSING,
    "add: b is not a tensor but int": TYPE,
    "join: xs is not a tensor but int": TYPE,
    "add: out is not a tensor but str": TYPE,
    "join: xs takes a list or tuple of tensors": TYPE,
    "add has no argument 'q'": MANY,
    "every has no argument 'alhpa': is it 'alpha'?": UNKNOWN,
    "add takes 2 arguments by position, 4 were given": MANY,
    "add: b is given twice": MANY,
}
# What is right through torch, and where docs/torch.md says so.
TAKEN = {
    "every: twice takes True or False, not 1": "an int for a `bool`",
    "every: times takes an int, not True": "a bool for an `int`",
    "every: lr takes a number or a tensor of one element, not True":
    "a bool or an int for a `float`",
    "add: a: it is negated lazily: call its resolve_neg()": "lazy negation and conjugation",
    "nap: no kernel fits: loop: layout dense: x = f32 (3, 4) strides (1, 3) on cpu":
    "it makes dense copies",
    "add: b: it requires grad, which this call does not record: detach() it, call under "
    "no_grad(), or use torch.ops without an out": "Autograd has the row's `grad`",
}  # fmt: skip
FUNCTIONAL = ("Autograd has the row's `grad`",)  # and not `.out`


def takes(outs: bool) -> Callable[[Case], bool]:
    """torch has no read-only tensors, and those of other devices need the device; `.out` takes no
    dtype=."""

    def of_case(case: Case) -> bool:
        values = [v for v in values_of(case, outs) if isinstance(v, (T, Only))]
        known = all(
            v.device == "cpu" and not v.read_only if isinstance(v, T) else v.of == "torch"
            for v in values
        )
        return known and case.about_outs <= outs and not (outs and "dtype" in case.named)

    return of_case


def takes_fakes(case: Case) -> bool:
    """What has memory is none of a fake's; what torch answers first it answers the same way."""
    values = values_of(case, False)
    memory = any(isinstance(v, Only) or (isinstance(v, T) and v.memory) for v in values)
    return takes(False)(case) and not memory and case.says not in FIRST


def function_of(module: ModuleType) -> Any:
    package, _, name = module.__name__.rpartition(".")
    return getattr(importlib.import_module(f"{package}.torch"), name)


def maker(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    torch, memories = importlib.import_module("torch"), Memories()

    def make(value: Any) -> Any:
        if isinstance(value, T):
            return convert(torch.from_numpy(memories.array(value)))
        if isinstance(value, tuple) and any(isinstance(v, (T, Only)) for v in value):
            return [make(v) for v in value]
        return value.make() if isinstance(value, Only) else value

    return make


def listed(words: str) -> str:
    """torch makes lists of tuples."""
    return re.sub(r"not \[(.*)\]$", r"not (\1)", words)


def told(case: Case, outs: bool, call: Callable[[], Any]) -> Said:
    """What a door of torch's says, as ours where it is what is listed above."""
    ours = Said("misuse" if case.misuse else "refused", case.says)
    try:
        said = hear(call)
    except RuntimeError as fault:  # of torch's own
        first = FIRST.get(case.says)
        return ours if first and first in str(fault) else Said("torch", str(fault))
    taken = TAKEN.get(case.says)
    if taken and not (outs and taken in FUNCTIONAL):
        return ours if said.verdict == "ran" else Said("not taken any more", said.words)
    if case.says in FIRST:
        return Said("not answered first any more", said.words)
    return Said(said.verdict, listed(said.words or ""))


def asks(outs: bool) -> Callable[[ModuleType, Case], Said]:
    def ask(module: ModuleType, case: Case) -> Said:
        function = function_of(module)
        args, named = arguments(case, outs, maker(lambda t: t))
        return told(case, outs, lambda: function(*args, **named))

    return ask


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """torch logs each fake kernel that raises."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def ask_fakes(module: ModuleType, case: Case) -> Said:
    fakes = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode()
    function = function_of(module)
    with fakes, quiet():
        args, named = arguments(case, False, maker(fakes.from_tensor))
        return told(case, False, lambda: function(*args, **named))


def ask_compiled(module: ModuleType, case: Case) -> Said:
    """Inside an error of torch's stands ours."""
    torch, function = importlib.import_module("torch"), function_of(module)
    args, named = arguments(case, False, maker(lambda t: t))
    torch.compiler.reset()
    program = torch.compile(lambda: function(*args, **named), backend="eager", fullgraph=True)
    wanted = Said("misuse" if case.misuse else "refused", case.says)
    try:
        with quiet():
            program()
    except Exception as fault:
        text = re.sub(r"not \[([^\]]*)\]", r"not (\1)", str(fault)).replace("\\'", "'")
        return wanted if case.says in text else Said("torch", text)
    return wanted if case.says in TAKEN else Said("ran")


DOORS = [
    Door("torch.ops", False, takes(False), asks(False)),
    Door("torch.ops, outs given", True, takes(True), asks(True)),
    Door("fake tensors", False, takes_fakes, ask_fakes),
    Door("torch.compile", False, takes_fakes, ask_compiled),
]
