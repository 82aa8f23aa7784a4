"""Bad calls, each written once, for every door: how a call is wrong, and what is said of it.

A tensor is described (`T`), so that each door makes it in its own framework; what one producer
alone has is made by it (`Only`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from modules.fake_producer import FakeProducer

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class T:
    """Tensors with the same `memory` lie in one; strides and offset are in elements."""

    shape: Shape
    dtype: str = "f32"
    strides: tuple[int, ...] | None = None
    device: str = "cpu"
    memory: str | None = None
    offset: int = 0
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Only:
    """What one producer alone has. `of`: that framework; None: whoever takes any object."""

    make: Callable[[], Any]
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A call of an op, of the main table or of the zoo's. `what` is the check of status.h that
    refuses it, or a kind of misuse in small letters; `says` what the generic form says, outs left
    out; `says_with`: where outs are given, None: the same."""

    what: str
    op: str
    args: tuple[Any, ...]
    says: str
    named: dict[str, Any] = field(default_factory=dict)
    outs: dict[str, Any] | None = None  # beside those of OUTS
    says_with: str | None = None
    about_outs: bool = False  # wrong by its outs alone: with none it is right
    generic: bool = False  # typed and bound forms take it, or do not know the word
    records: bool = False  # explain takes it: it is about what the generic form would not record
    suffix: str = "f32"  # of the typed form that is asked

    @property
    def misuse(self) -> bool:
        return self.what.islower()

    @property
    def id(self) -> str:
        return f"{self.what}: {self.says.split(chr(10))[0][:60]}"


X = T((3, 4))
LONG = T((1, 1000))
# The outs of the forms that need them, right for arguments of X's shape.
OUTS: dict[str, dict[str, Any]] = {
    "add": {"out": X},
    "scale": {"out": X},
    "sum": {"out": T(())},
    "bias_add": {"out": X},
    "gemm": {"out": T((3, 5))},
    "copy": {"out": X},
    "zoo.every": {"out": X},
    "zoo.join": {"out": T((6, 4))},
    "zoo.step": {},
    "zoo.cast": {"out": T((3, 4), "f64")},
    "zoo.shift": {"out": X},
    "zoo.bounds": {"least": T(()), "most": T(())},
    "zoo.twin": {"out": X},
    "zoo.nap": {"out": X},
}
# Right arguments, which a bound call has before it is set to the wrong ones.
RIGHT: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "add": ((X, X), {}),
    "scale": ((X,), {"factor": 2}),
    "sum": ((X,), {}),
    "bias_add": ((X, T((4,))), {}),
    "gemm": ((X, T((4, 5))), {}),
    "copy": ((X,), {}),
    "zoo.every": ((X,), {"lr": 1}),
    "zoo.join": (((X, X),), {}),
    "zoo.step": (((X,), (X,)), {"lr": 1}),
    "zoo.cast": ((X,), {}),
    "zoo.shift": ((X,), {"by": 1}),
    "zoo.bounds": ((X,), {}),
    "zoo.twin": ((X,), {}),
    "zoo.nap": ((X,), {}),
}


def every(what: str, says: str, *args: Any, **named: Any) -> Case:
    """Of the row that has every kind of attribute."""
    return Case(what, "zoo.every", args or (X,), f"every: {says}", {"lr": 1, **named})


SHAPES = [
    Case(
        "SHAPE", "add", (X, T((3, 5))),
        "add: out: its shape must be broadcast(A, B), with a: A.. = (3, 4), b: B.. = (3, 5)",
        says_with="add: out: its shape must be broadcast(A, B), with a: A.. = (3, 4), "
        "b: B.. = (3, 5); got f32 (3, 4) on cpu",
    ),
    Case(
        "SHAPE", "add", (X, X),
        "add: out: its shape must be broadcast(A, B), with a: A.. = (3, 4), b: B.. = (3, 4); "
        "got f32 (3,) on cpu",
        outs={"out": T((3,))}, about_outs=True,
    ),
    Case(
        "SHAPE", "gemm", (X, T((5, 4))),
        "gemm: b: its shape must be B.. K N, with a: A.. M K = (3, 4); got f32 (5, 4) on cpu",
    ),
    Case(
        "SHAPE", "gemm", (X, T((4,))),
        "gemm: b: its shape must be B.. K N, with a: A.. M K = (3, 4); got f32 (4,) on cpu",
    ),
    Case(
        "SHAPE", "gemm", (X, T((4, 5)), T((3,))),
        "gemm: bias: its shape must be N, with a: A.. M K = (3, 4), b: B.. K N = (4, 5); "
        "got f32 (3,) on cpu",
    ),
    Case(
        "SHAPE", "bias_add", (X, T((3,))),
        "bias_add: bias: its shape must be N, with x: L.. N@axis R.. = (3, 4); got f32 (3,) on cpu",
    ),
    Case(
        "SHAPE", "zoo.join", ((X, T((3, 3), strides=(4, 1))),),
        "join: xs[1]: its shape must be N C; got f32 (3, 3) strides (4, 1) on cpu",
    ),
    Case("SHAPE", "zoo.every", (T((3,)),), "every: x: its shape must be M N; got f32 (3,) on cpu",
         {"lr": 1}),
    Case(
        "SHAPE", "zoo.join", ((T((2**60, 0)),) * 9,),
        "join: out: its shape must be sum(N) C, with xs: N C = (1152921504606846976, 0)",
        says_with="join: out: its shape must be sum(N) C, with xs: N C = (1152921504606846976, 0); "
        "got f32 (6, 4) on cpu",
    ),
    Case("LIST", "zoo.step", ((X, X), (X,)),
         "step: gs: lists that go together must have one length: it has 1, ps 2; give one tensor "
         "for each of ps", {"lr": 1}),
    every("WHERE", "an act needs a bias (present(bias) or act == 'none': bias = absent, "
          "act = 'relu')", act="relu"),
    Case("WHERE", "gemm", (X, T((4, 5))),
         "gemm: beta needs c (present(c) or beta == 0: c = absent, beta = 1)", {"beta": 1.0}),
    Case("WHERE", "zoo.bounds", (T((0,)),),
         "bounds: an empty tensor has no bounds (A > 0: A = 0)"),
]  # fmt: skip

NUMBERS = "f32, f16, bf16, f64, i8, u8, i16, i32, i64"
DTYPES = [
    Case(
        "DTYPE", "add", (X, T((3, 4), "f64")),
        f"add: b: its dtype is not taken; allowed: {NUMBERS} with a f32; got f64 (3, 4) on cpu",
        says_with=f"add: b: its dtype is not taken; allowed: {NUMBERS} with a f32; "
        "got f64 (3, 4) on cpu",
    ),
    Case(
        "DTYPE", "add", (T((3, 4), "i64"), X),
        f"add: b: its dtype is not taken; allowed: {NUMBERS} with a i64; got f32 (3, 4) on cpu",
    ),
    *(
        Case(
            "DTYPE", "add", (T((3, 4), dtype), X),
            f"add: a: its dtype is not taken; allowed: {NUMBERS}; got {dtype} (3, 4) on cpu",
        )
        for dtype in ("c64", "c128", "u16", "u32", "u64", "bool")
    ),
    Case(
        "DTYPE", "add", (X, X),
        f"add: out: its dtype is not taken; allowed: {NUMBERS} with a f32, b f32; "
        "got f16 (3, 4) on cpu",
        outs={"out": T((3, 4), "f16")}, about_outs=True,
    ),
    Case(
        "DTYPE", "zoo.join", ((X, T((3, 4), "f64")),),
        "join: xs[1]: its dtype is not taken; allowed: f32, i32; got f64 (3, 4) on cpu",
    ),
    Case(
        "DTYPE", "zoo.cast", (T((3, 4), "i32"),),
        "cast: x: its dtype is not taken; allowed: f32, f64; got i32 (3, 4) on cpu",
        suffix="f32_f64",
    ),
    Case(
        "dtype", "zoo.cast", (X,), "cast: dtype takes one of 'f64', 'f32', 'i32', not 'f16'",
        {"dtype": "f16"}, generic=True,
    ),
]  # fmt: skip

VALUES = [
    every("VALUE", "times = 0 is out of range; allowed: at least 1, at most 100", times=0),
    every("VALUE", "times = 101 is out of range; allowed: at least 1, at most 100", times=101),
    every("VALUE", "times = 9223372036854775807 or more is out of range; allowed: at least 1, "
          "at most 100", times=2**70),
    every("VALUE", "alpha = 2.5 is out of range; allowed: at most 2", alpha=2.5),
    every("VALUE", "alpha = nan is out of range; allowed: at most 2", alpha=float("nan")),
    every("VALUE", "pad = (1, -1) is out of range; allowed: at least 0, at most 9", pad=(1, -1)),
    every("VALUE", "axis = 2 is out of range; x has 2 dims", axis=2),
    every("VALUE", "axes = (0, 0) is out of range or names an axis twice; x has 2 dims",
          axes=(0, -2)),
    every("VALUE", "axes = (5,) is out of range or names an axis twice; x has 2 dims", axes=(5,)),
    every("VALUE", "lr = inf is out of range; allowed: what its dtype holds, f32", lr=10**400),
    Case("VALUE", "sum", (X,), "sum: axes = (-3,) is out of range or names an axis twice; "
         "x has 2 dims", {"axes": -3}),
    Case("VALUE", "zoo.shift", (T((3,), "i32"),),
         "shift: by = 2147483648 is out of range; allowed: what its dtype holds, i32",
         {"by": 2**31}, {"out": T((3,), "i32")}, suffix="i32"),
    Case("VALUE", "zoo.shift", (T((3,), "i32"),),
         "shift: by = 0.5 is out of range; allowed: what its dtype holds, i32",
         {"by": 0.5}, {"out": T((3,), "i32")}, suffix="i32"),
    every("SCALAR", "lr: a scalar is a number or one element of f32 on cpu; got f32 (2,) on cpu",
          lr=T((2,))),
    every("SCALAR", "lr: a scalar is a number or one element of f32 on cpu; got f64 (1,) on cpu",
          lr=T((1,), "f64")),
    every("bool", "twice takes True or False, not 1", twice=1),
    every("int", "times takes an int, not 1.5", times=1.5),
    every("int", "times takes an int, not True", times=True),
    every("int", "axis takes an int, not 'x'", axis="x"),
    every("float", "alpha takes a number, not '1'", alpha="1"),
    every("float", "alpha takes a number, not None", alpha=None),
    every("float", "alpha takes a number, not 1j", alpha=1j),
    every("enum", "act takes one of 'none', 'relu', not 'tanh'", act="tanh"),
    every("enum", "act takes one of 'none', 'relu', not 1", act=1),
    every("ints", "pad takes an int or a list of ints, not '1'", pad="1"),
    every("ints", "pad takes an int, not '1'", pad=(1, "1")),
    every("ints", "pad takes 2 ints or one for all, not (1, 2, 3)", pad=(1, 2, 3)),
    every("axes", "axes takes an int or a list of ints, not 1.5", axes=1.5),
    every("scalar", "lr takes a number or a tensor of one element, not '1'", lr="1"),
    every("scalar", "lr takes a number or a tensor of one element, not True", lr=True),
    Case("scalar missing", "zoo.every", (X,), "every: lr is missing"),
    Case("KERNEL", "add", (X, X), "add: no kernel fits: vec: for cuda, the tensors are on cpu",
         {"kernel": "vec"}),
    Case("KERNEL", "zoo.every", (LONG,), "every: no kernel fits: rows: N < 1000: N = 1000",
         {"lr": 1, "kernel": "rows"}, {"out": LONG}),
    Case("KERNEL", "zoo.nap", (T((3, 4), strides=(1, 3)),),
         "nap: no kernel fits: loop: layout dense: x = f32 (3, 4) strides (1, 3) on cpu"),
    Case("kernel", "add", (X, X), "add: kernel takes one of 'vec', 'strided', 'loop', not 'lop'",
         {"kernel": "lop"}),
    Case("stream", "add", (X, X),
         "add: stream takes an int or an object with __cuda_stream__, not '1'", {"stream": "1"}),
]  # fmt: skip

MISUSE = [
    Case("missing", "add", (X,), "add: b is missing"),
    Case("missing", "zoo.step", ((X,),), "step: gs is missing", {"lr": 1}),
    Case("none", "add", (X, None), "add: b is None"),
    Case("no tensor", "add", (X, 3), "add: b is not a tensor but int"),
    Case("no tensor", "zoo.join", ((X, 3),), "join: xs is not a tensor but int"),
    Case("no tensor", "add", (X, X), "add: out is not a tensor but str", outs={"out": "x"},
         about_outs=True),
    Case("no list", "zoo.join", (X,), "join: xs takes a list or tuple of tensors"),
    Case("unknown", "add", (X, X), "add has no argument 'q'", {"q": 1}),
    Case("unknown", "zoo.every", (X,), "every has no argument 'alhpa': is it 'alpha'?",
         {"lr": 1, "alhpa": 1}),
    Case("too many", "add", (X, X, X, X), "add takes 2 arguments by position, 4 were given"),
    Case("twice", "add", (X, X), "add: b is given twice", {"b": X}),
]  # fmt: skip

MEMORY = [
    Case("READ_ONLY", "add", (X, X),
         "add: out: it is read-only, and would be written; got f32 (3, 4) on cpu",
         outs={"out": T((3, 4), read_only=True)}, about_outs=True),
    Case("READ_ONLY", "zoo.step", ((T((3, 4), read_only=True),), (X,)),
         "step: ps[0]: it is read-only, and would be written; got f32 (3, 4) on cpu", {"lr": 1}),
    Case("OVERLAP", "add", (T((3, 4), memory="m"), X),
         "add: out: it is written, and shares memory with a; got f32 (3, 4) on cpu",
         outs={"out": T((3, 4), memory="m", offset=1)}, about_outs=True),
    Case("OVERLAP", "zoo.step", ((T((3, 4), memory="m"),), (T((3, 4), memory="m"),)),
         "step: ps[0]: it is written, and shares memory with gs[0]; got f32 (3, 4) on cpu",
         {"lr": 1}),
    Case("SELF_OVERLAP", "add", (X, X),
         "add: out: its own elements share memory; got f32 (3, 4) strides (1, 1) on cpu",
         outs={"out": T((3, 4), strides=(1, 1))}, about_outs=True),
    Case("DEVICE", "zoo.twin", (T((3, 4), device="cuda:0"),),
         "twin: out: all tensors must be on one device; x is on cuda:0; got f32 (3, 4) on cpu",
         outs={"out": X}, about_outs=True),
    Case("DEVICE", "add", (X, T((3, 4), device="cuda:0")),
         "add: b: all tensors must be on one device; a is on cpu; got f32 (3, 4) on cuda:0"),
    Case("SCALAR", "zoo.every", (X,), "every: lr: a scalar is a number or one element of f32 on "
         "cpu; got f32 () on cuda:0", {"lr": T((), device="cuda:0")}),
    Case("BACKEND", "add", (T((3, 4), device="metal:0"), T((3, 4), device="metal:0")),
         "add: a: no backend of aicf_cuda serves its device; there are cuda, cpu; "
         "got f32 (3, 4) on metal:0", outs={"out": T((3, 4), device="metal:0")}),
]  # fmt: skip


def misaligned() -> Any:
    return np.frombuffer(bytearray(49), "u1")[1:].view("f4").reshape(3, 4)


def negated() -> Any:
    import torch

    return torch.ones((3, 4), dtype=torch.complex64).conj().imag


def differentiable() -> Any:
    import torch

    return torch.ones((3, 4), requires_grad=True)


# What only some producers have.
PRODUCERS = [
    Case("RANK", "add", (Only(lambda: FakeProducer(4, rank=65)), X),
         "add: a: dims must be 0 to 64, sizes not negative; got f32 of 65 dims on cpu"),
    Case("RANGE", "add", (Only(lambda: FakeProducer(4, [2**62, 2**62])), X),
         "add: a: its elements are more than memory can hold; got f32 "
         "(4611686018427387904, 4611686018427387904) on cpu"),
    Case("MEMORY", "add", (Only(lambda: FakeProducer(4, data=0)), X),
         "add: a: it has no plain memory; got f32 (4,) on cpu"),
    Case("BYTE_ORDER", "add", (Only(lambda: np.ones((3, 4), ">f4"), "numpy"), X),
         "add: a: its byte order is not this machine's; got f32 (3, 4) on cpu"),
    Case("ALIGNMENT", "add", (Only(misaligned, "numpy"), X),
         "add: a: its address or a stride is no multiple of the item size; got f32 (3, 4) on cpu"),
    Case("MASKED", "add", (Only(lambda: np.ma.ones((3, 4), "f4"), "numpy"), X),
         "add: a: it is masked, and the mask would be ignored"),
    Case("NEGATIVE", "add", (Only(negated, "torch"), X),
         "add: a: it is negated lazily: call its resolve_neg()"),
    Case("GRADIENT", "add", (X, Only(differentiable, "torch")),
         "add: b: it requires grad, which this call does not record: detach() it, call under "
         "no_grad(), or use torch.ops without an out", generic=True, records=True),
]  # fmt: skip

CASES = [*SHAPES, *DTYPES, *VALUES, *MISUSE, *MEMORY, *PRODUCERS]
# Checks that no call of these tables fails at, and where their words are tested instead.
ELSEWHERE = {
    "EXPRESSION": "tests/runtime: no row here computes what may overflow",
    "CONJUGATE": "nowhere: no table has complex numbers, which alone are conjugated",
    "TANGENT": "tests/modules/test_messages.py: it holds while a mode of torch's is on",
}
