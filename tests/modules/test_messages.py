"""Every message of a refusal, word for word: it names the op and the argument, says what came and
what is allowed. And odd keywords, and values that run Python while a call reads them."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from modules.conftest import ROOT
from modules.fake_producer import FakeProducer

Case = tuple[str, Callable[[], object], str]


def arrays() -> tuple[Any, Any, Any]:
    return np.ones((3, 4), "f4"), np.ones(3, "f4"), np.zeros((3, 4), "f4")


def unsupported_cases(add: Any, zoo: Any) -> Iterator[Case]:
    """The check's name in status.h, a call, the whole message."""
    x, short, out = arrays()
    grid = np.ones((4, 4), "f4")
    fixed = np.ones((3, 4), "f4")
    fixed.setflags(write=False)
    unaligned = np.frombuffer(bytearray(65), "u1")[1:].view("f4")
    every, many = zoo.every.every, [x, x]
    numbers = "f32, f16, bf16, f64, i8, u8, i16, i32, i64"
    yield (
        "DTYPE",
        lambda: add.add(x, x.astype("f8")),
        (f"add: b: its dtype is not taken; allowed: {numbers} with a f32; got f64 (3, 4) on cpu"),
    )
    yield (
        "DTYPE",
        lambda: add.add(x.astype("c8"), x),
        f"add: a: its dtype is not taken; allowed: {numbers}; got c64 (3, 4) on cpu",
    )
    yield (
        "DTYPE",
        lambda: zoo.join.join([x, x.astype("f8")]),
        ("join: xs[1]: its dtype is not taken; allowed: f32, i32; got f64 (3, 4) on cpu"),
    )
    yield (
        "DTYPE",
        lambda: zoo.join.join([x, x, x.astype("i4")]),
        (
            "join: xs[2]: the tensors of a list are of one dtype; xs[0] is f32; "
            "got i32 (3, 4) on cpu"
        ),
    )
    unknown = f"its dtype is not taken; allowed: {numbers}; got an unknown dtype (3,) on cpu"
    yield (
        "DTYPE",
        lambda: add.add(np.array([None] * 3), short),
        f"add: a: {unknown}; its dtype is called object: convert it to an allowed one",
    )
    yield (
        "DTYPE",
        lambda: add.bind(np.zeros(3, [("p", "f4"), ("q", "i4")]), short, short),
        f"add: a: {unknown}; its dtype is called [('p', '<f4'), ('q', '<i4')]: "
        "give one of its fields, as p",
    )
    yield (
        "DTYPE",
        lambda: zoo.join.join([short, np.array(["x", "y", "z"])]),
        "join: xs[1]: its dtype is not taken; allowed: f32, i32; got an unknown dtype (3,) on cpu; "
        "its dtype is called <U1: convert it to an allowed one",
    )
    yield (
        "RANK",
        lambda: add.add(FakeProducer(4, rank=65), x),
        ("add: a: dims must be 0 to 64, sizes not negative; got f32 of 65 dims on cpu"),
    )
    yield (
        "SHAPE",
        lambda: add.add(x, x, out=short),
        (
            "add: out: its shape must be broadcast(A, B), with a: A.. = (3, 4), b: B.. = (3, 4); "
            "got f32 (3,) on cpu"
        ),
    )
    yield (
        "SHAPE",
        lambda: zoo.join.join([x, grid[:, :3]]),
        ("join: xs[1]: its shape must be N C; got f32 (4, 3) strides (4, 1) on cpu"),
    )
    yield (
        "DEVICE",
        lambda: zoo.twin.twin(FakeProducer(4, device_type=2), out=FakeProducer(4)),
        ("twin: out: all tensors must be on one device; x is on cuda:0; got f32 (4,) on cpu"),
    )
    yield (
        "BACKEND",
        lambda: add.add(FakeProducer(4, device_type=99), FakeProducer(4, device_type=99)),
        (
            "add: a: no backend of aicf_cuda serves its device; there are cuda, cpu; "
            "got f32 (4,) on a device of unknown type 99"
        ),
    )
    yield (
        "READ_ONLY",
        lambda: add.add(x, x, out=fixed),
        ("add: out: it is read-only, and would be written; got f32 (3, 4) on cpu"),
    )
    yield (
        "OVERLAP",
        lambda: add.add(x, x, out=x[:, ::-1]),
        (
            "add: out: it is written, and shares memory with a; got f32 (3, 4) strides (4, -1) "
            "on cpu"
        ),
    )
    yield (
        "OVERLAP",
        lambda: zoo.step.step([out, grid[:3], out], [x, x, x], lr=1),
        "step: ps[2]: it is written, and shares memory with ps[0]; got f32 (3, 4) on cpu",
    )
    yield (
        "OVERLAP",
        lambda: zoo.step.step([out, grid[:3]], [grid[1:], x], lr=1),
        "step: ps[1]: it is written, and shares memory with gs[0]; got f32 (3, 4) on cpu",
    )
    yield (
        "OVERLAP",
        lambda: zoo.join.join([short[None], grid[1:, :3]], out=grid[:, :3]),
        (
            "join: out: it is written, and shares memory with xs[1]; "
            "got f32 (4, 3) strides (4, 1) on cpu"
        ),
    )
    yield "SELF_OVERLAP", lambda: add.add(x, x, out=np.lib.stride_tricks.as_strided(
        out, (3, 4), (4, 4))), (
        "add: out: its own elements share memory; got f32 (3, 4) strides (1, 1) on cpu"
    )  # fmt: skip
    yield (
        "BYTE_ORDER",
        lambda: add.add(x.astype(">f4"), x),
        ("add: a: its byte order is not this machine's; got f32 (3, 4) on cpu"),
    )
    yield (
        "ALIGNMENT",
        lambda: add.add(unaligned, short),
        ("add: a: its address or a stride is no multiple of the item size; got f32 (16,) on cpu"),
    )
    yield (
        "MEMORY",
        lambda: add.add(FakeProducer(4, data=0), short),
        ("add: a: it has no plain memory; got f32 (4,) on cpu"),
    )
    yield (
        "RANGE",
        lambda: add.add(FakeProducer(4, [2**62, 2**62]), x),
        (
            "add: a: its elements are more than memory can hold; got f32 "
            "(4611686018427387904, 4611686018427387904) on cpu"
        ),
    )
    yield (
        "MASKED",
        lambda: add.add(np.ma.ones((3, 4), "f4"), x),
        ("add: a: it is masked, and the mask would be ignored"),
    )
    yield (
        "VALUE",
        lambda: every(x, lr=1, times=0),
        ("every: times = 0 is out of range; allowed: at least 1, at most 100"),
    )
    yield (
        "VALUE",
        lambda: every(x, lr=1, times=2**70),
        (
            "every: times = 9223372036854775807 or more is out of range; allowed: at least 1, "
            "at most 100"
        ),
    )
    yield (
        "VALUE",
        lambda: zoo.nap.nap(x, ms=2**70),
        (
            "nap: ms = 9223372036854775807 or more is out of range; allowed: at least 0, "
            "at most 9223372036854775807"
        ),
    )
    yield (
        "VALUE",
        lambda: every(x, lr=1, alpha=2.5),
        ("every: alpha = 2.5 is out of range; allowed: at most 2"),
    )
    yield (
        "VALUE",
        lambda: every(x, lr=1, alpha=-(10**400)),
        ("every: alpha = -inf is out of range; allowed: at most 2"),
    )
    yield (
        "VALUE",
        lambda: every(x, lr=1, pad=(1, -1)),
        ("every: pad = (1, -1) is out of range; allowed: at least 0, at most 9"),
    )
    yield "VALUE", lambda: every(x, lr=1, axis=2), ("every: axis = 2 is out of range; x has 2 dims")
    yield (
        "VALUE",
        lambda: every(x, lr=1, axes=(0, -2)),
        ("every: axes = (0, 0) is out of range or names an axis twice; x has 2 dims"),
    )
    yield (
        "VALUE",
        lambda: every(x, lr=10**400),
        ("every: lr = inf is out of range; allowed: what its dtype holds, f32"),
    )
    yield (
        "VALUE",
        lambda: zoo.shift.shift(np.ones(3, "i4"), by=2**31),
        ("shift: by = 2147483648 is out of range; allowed: what its dtype holds, i32"),
    )
    yield (
        "VALUE",
        lambda: zoo.shift.shift(np.ones(3, "i4"), by=-(2**70)),
        (
            "shift: by = -9223372036854775808 or less is out of range; "
            "allowed: what its dtype holds, i32"
        ),
    )
    yield (
        "VALUE",
        lambda: zoo.shift.shift(np.ones(3, "i4"), by=0.5),
        ("shift: by = 0.5 is out of range; allowed: what its dtype holds, i32"),
    )
    yield (
        "SCALAR",
        lambda: every(x, lr=np.ones(2, "f4")),
        ("every: lr: a scalar is a number or one element of f32 on cpu; got f32 (2,) on cpu"),
    )
    yield (
        "LIST",
        lambda: zoo.step.step(many, [x], lr=1),
        (
            "step: gs: lists that go together must have one length: it has 1, ps 2; give one "
            "tensor for each of ps"
        ),
    )
    yield (
        "LIST",
        lambda: zoo.step.step([x], [x], [x] * 3, lr=1),
        (
            "step: bufs: lists that go together must have one length: it has 3, ps 1; give one "
            "tensor for each of ps"
        ),
    )
    yield (
        "WHERE",
        lambda: every(x, lr=1, act="relu"),
        (
            "every: an act needs a bias (present(bias) or act == 'none': bias = absent, "
            "act = 'relu')"
        ),
    )
    yield (
        "WHERE",
        lambda: zoo.bounds.bounds(np.ones((0, 4), "f4")),
        "bounds: an empty tensor has no bounds (A > 0: A = 0)",
    )
    yield (
        "KERNEL",
        lambda: add.add(x, x, kernel="vec"),
        ("add: no kernel fits: vec: for cuda, the tensors are on cpu"),
    )
    yield (
        "KERNEL",
        lambda: every(np.ones((1, 1000), "f4"), lr=1, kernel="rows"),
        ("every: no kernel fits: rows: N < 1000: N = 1000"),
    )


def torch_cases(add: Any) -> Iterator[Case]:
    import torch
    from torch.autograd import forward_ad

    t, grad = torch.ones(4), torch.ones(4, requires_grad=True)
    lazy = torch.ones(4, dtype=torch.complex64).conj().imag

    def tangent() -> None:
        with forward_ad.dual_level():
            add.add(forward_ad.make_dual(t, t), t)

    yield (
        "NEGATIVE",
        lambda: add.add(lazy, t),
        ("add: a: it is negated lazily: call its resolve_neg()"),
    )
    yield (
        "GRADIENT",
        lambda: add.add(t, grad),
        (
            "add: b: it requires grad, which this call does not record: detach() it, call under "
            "no_grad(), or use torch.ops without an out"
        ),
    )
    yield (
        "TANGENT",
        tangent,
        ("add: a: it carries a forward-mode tangent, which this call would lose"),
    )


def misuse_cases(add: Any, zoo: Any, rt: Any) -> Iterator[Case]:
    x, short, out = arrays()
    every, call = zoo.every.every, add.bind(x, x, out)
    typed = add.add_f32
    yield "missing", lambda: typed(x, out=out), "add: b is missing"
    yield "None", lambda: typed(x, None, out), "add: b is None"
    yield "None in a list", lambda: zoo.join.join([x, None]), "join: xs[1] is None"
    yield (
        "None in a list, bound",
        lambda: zoo.step.bind([x, out], [x, None], lr=1),
        "step: gs[1] is None",
    )
    yield "out missing", lambda: typed(x, x), "add: out is missing"
    yield "attribute missing", lambda: every(x), "every: lr is missing"
    yield "no tensor", lambda: typed(x, 3, out), "add: b is not a tensor but int"
    yield "no tensor, out", lambda: add.add(x, x, out="x"), "add: out is not a tensor but str"
    yield "many", lambda: typed(x, x, x, x), "add takes 3 arguments by position, 4 were given"
    yield (
        "many, generic",
        lambda: add.add(x, x, x),
        ("add takes 2 arguments by position, 3 were given: outs are given by name"),
    )
    yield "twice", lambda: typed(x, x, x, b=x), "add: b is given twice"
    yield "unknown", lambda: typed(x, x, x, q=1), "add has no argument 'q'"
    yield (
        "unknown, near",
        lambda: typed(x, x, x, strem=1),
        ("add has no argument 'strem': is it 'stream'?"),
    )
    yield (
        "unknown, near an attribute",
        lambda: every(x, lr=1, alhpa=1),
        ("every has no argument 'alhpa': is it 'alpha'?"),
    )
    yield (
        "unknown, near an out",
        lambda: add.add(x, x, ouT=x),
        ("add has no argument 'ouT': is it 'out'?"),
    )
    yield (
        "unknown, known elsewhere",
        lambda: add.add(x, x, dtype="f32"),
        ("add has no argument 'dtype'"),
    )
    yield (
        "kernel",
        lambda: typed(x, x, x, kernel="lop"),
        ("add: kernel takes one of 'vec', 'strided', 'loop', not 'lop'"),
    )
    yield (
        "dtype",
        lambda: zoo.cast.cast(x, dtype="f16"),
        ("cast: dtype takes one of 'f64', 'f32', 'i32', not 'f16'"),
    )
    yield (
        "stream",
        lambda: typed(x, x, x, stream="1"),
        ("add: stream takes an int or an object with __cuda_stream__, not '1'"),
    )
    yield (
        "stream, a bool",
        lambda: typed(x, x, x, stream=True),
        ("add: stream takes an int or an object with __cuda_stream__, not True"),
    )
    yield (
        "stream, negative",
        lambda: typed(x, x, x, stream=-1),
        ("add: stream cannot be -1: it is a handle, 1 the default and 2 the per-thread stream"),
    )
    yield "bool", lambda: every(x, lr=1, twice=1), "every: twice takes True or False, not 1"
    yield "int", lambda: every(x, lr=1, times=1.0), "every: times takes an int, not 1.0"
    yield "float", lambda: every(x, lr=1, alpha="1"), "every: alpha takes a number, not '1'"
    yield (
        "enum",
        lambda: every(x, lr=1, act="tanh"),
        ("every: act takes one of 'none', 'relu', not 'tanh'"),
    )
    yield (
        "ints",
        lambda: every(x, lr=1, pad="1"),
        ("every: pad takes an int or a list of ints, not '1'"),
    )
    yield (
        "ints, an item",
        lambda: every(x, lr=1, pad=(1, "1")),
        ("every: pad takes an int, not '1'"),
    )
    yield (
        "ints, how many",
        lambda: every(x, lr=1, pad=(1, 2, 3)),
        ("every: pad takes 2 ints or one for all, not (1, 2, 3)"),
    )
    yield (
        "axes",
        lambda: every(x, lr=1, axes=1.0),
        ("every: axes takes an int or a list of ints, not 1.0"),
    )
    yield (
        "scalar",
        lambda: every(x, lr="1"),
        ("every: lr takes a number or a tensor of one element, not '1'"),
    )
    yield "list", lambda: zoo.join.join(short), "join: xs takes a list or tuple of tensors"
    yield "list, an item", lambda: zoo.join.join([x, 3]), "join: xs is not a tensor but int"
    yield "call", lambda: call(x), "a bound call takes no arguments; use set()"
    yield "set", lambda: call.set(x), ("add: set() takes its arguments by name, 1 came by position")
    yield "set, unknown", lambda: call.set(c=x), "add has no argument 'c'"
    lists = zoo.join.bind([x], x.copy())
    yield "set, a list", lambda: lists.set(xs=None), "join: xs is None"
    yield "run", lambda: rt.run(call), "run() takes a list or tuple of calls, not a Call"
    yield (
        "run, an item",
        lambda: rt.run([call, add.bind]),
        ("run() takes bound calls; item 1 is a builtin_function_or_method"),
    )


def check(
    cases: Iterator[Case], kind: type[Exception], not_kind: type[Exception] | None
) -> set[str]:
    names, faults = set(), []
    for name, call, message in cases:
        names.add(name)
        with pytest.raises(kind) as raised:
            call()
        assert not_kind is None or not isinstance(raised.value, not_kind), name
        if str(raised.value) != message:
            faults.append(f"{name}:\n    {raised.value}\n    {message}")
    assert not faults, "\n".join(["", *faults])
    return names


@pytest.mark.promise("D4")
def test_what_is_unsupported(add: Any, zoo: Any, unsupported: type[Exception]) -> None:
    check(unsupported_cases(add, zoo), unsupported, None)


@pytest.mark.promise("D4")
@pytest.mark.guests("torch")
def test_what_is_unsupported_of_torch(add: Any, unsupported: type[Exception]) -> None:
    pytest.importorskip("torch")
    check(torch_cases(add), unsupported, None)


@pytest.mark.promise("D4")
def test_what_is_misuse(add: Any, zoo: Any, rt: Any, unsupported: type[Exception]) -> None:
    check(misuse_cases(add, zoo, rt), TypeError, unsupported)


@pytest.mark.promise("D4")
@pytest.mark.guests("torch")
def test_no_check_is_without_its_words(add: Any, zoo: Any) -> None:
    """Of status.h's: no row here has an expression that overflows, that is in tests/runtime; and no
    table has complex numbers, which alone are conjugated."""
    pytest.importorskip("torch")
    header = (ROOT / "include/aicf/status.h").read_text()
    known = set(re.findall(r"\bAICF_CHECK_(\w+)", header)) - {"NONE", "EXPRESSION", "CONJUGATE"}
    cases = [*unsupported_cases(add, zoo), *torch_cases(add)]
    assert {name for name, _, _ in cases} == known


# ---- odd keywords ---------------------------------------------------------------------------


class Word(str):
    """A name of another class; what it hashes to and equals is nobody's business."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return str.__hash__(self) ^ 1


@pytest.mark.promise("FAULT-13", "D4")
def test_odd_keywords(add: Any, zoo: Any) -> None:
    x, _, out = arrays()
    made = "".join(["o", "ut"])
    assert add.add_f32(x, x, **{made: out}) is True
    assert add.add_f32(x, x, **{Word("out"): out}) is True
    assert add.add_f32(out=out, b=x, a=x) is True
    assert add.add_f32(x, **{Word("b"): x, made: out, Word("stream"): None}) is True
    assert add.add_f32(x, x, out, **{"".join(["ker", "nel"]): "".join(["lo", "op"])}) is True
    assert zoo.every.every_f32(x, None, out, **{Word("lr"): 2, "".join(["al", "pha"]): 1}) is True
    odd: list[Any] = [{3: out}, {None: out}, {b"out": out}, {("out",): out}]
    for keywords in odd:
        with pytest.raises(TypeError, match="keywords must be strings"):
            add.add_f32(x, x, **keywords)
    for name in ("", "\udc80", "ou\0t", "out ", "Out", "a" * 10_000, "öut", "__class__", "self"):
        with pytest.raises(TypeError, match="add has no argument"):
            add.add_f32(x, x, out, **{name: x})
        with pytest.raises(TypeError, match="add has no argument"):
            add.add_f32(x, x, out, **{Word(name): x})
    with pytest.raises(TypeError, match="multiple values for keyword argument 'out'"):
        add.add_f32(x, x, out=out, **{"out": out})
    with pytest.raises(TypeError, match="add: out is given twice"):
        add.add_f32(x, x, **{"out": out, Word("out"): out})
    with pytest.raises(TypeError, match="add: a is given twice"):
        add.add_f32(x, x, out, **{Word("a"): x})


# ---- values that run Python -----------------------------------------------------------------


class Acting:
    """A number that does something when it is asked for its value."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __float__(self) -> float:
        self.act()
        return 1.0

    def __index__(self) -> int:
        self.act()
        return 1


@pytest.mark.promise("A7", "FAULT-3")
@pytest.mark.guests("torch")
@pytest.mark.parametrize("name", ["alpha", "times", "lr", "pad", "axes"])
def test_a_value_that_changes_the_other_arguments(zoo: Any, name: str) -> None:
    """It runs before any tensor is read: the call sees what it left."""
    torch = pytest.importorskip("torch")
    every, shape = zoo.every, (1, 4096)
    base = {} if name == "lr" else {"lr": 1.0}
    wider = {"pad": (0, 0)} if name == "pad" else {}

    def typed(x: Any, out: Any, act: Callable[[], object]) -> object:
        value = [0, 0] if name == "pad" else Acting(act)
        if name == "pad":
            act()
        return every.every_f32(x, None, out, **{**base, **wider, name: value})

    x, out = torch.ones(shape), torch.zeros(shape)
    assert typed(x, out, lambda: x.resize_(1, 2)) is False
    assert not out.any()
    x = torch.ones(shape)
    assert typed(x, out, lambda: (x.resize_(1, 500_000), x.resize_(shape).fill_(3))) is True
    assert (out == 3).all()
    assert typed(x, out, lambda: x.set_(torch.full(shape, 4.0))) is True
    assert (out == 4).all()
    array, out = np.ones(shape, "f4"), np.zeros(shape, "f4")
    assert typed(array, out, lambda: array.resize((1, 2), refcheck=False)) is False
    assert not out.any()


@pytest.mark.promise("A7", "FAULT-4")
def test_a_value_that_calls_the_same_op(zoo: Any) -> None:
    every = zoo.every
    x, out = np.full((1, 8), 2, "f4"), np.zeros((1, 8), "f4")
    inner = np.zeros((1, 8), "f4")

    def again(depth: int) -> Acting:
        def act() -> None:
            if depth:
                assert every.every_f32(x, None, inner, lr=again(depth - 1)) is True
                assert every.every(x, lr=again(depth - 1), alpha=again(0))[0, 0] == 2

        return Acting(act)

    assert every.every_f32(x, None, out, lr=again(3), alpha=again(3)) is True
    assert (out == 2).all()
    call = every.bind(x, None, out, lr=1)
    seen: list[object] = []
    call.set(alpha=Acting(lambda: seen.append(call())))
    assert seen == [None]
    call.set(lr=Acting(lambda: zoo.run([call, call])))
    call()
    assert (out == 2).all()


@pytest.mark.promise("A7")
def test_a_value_that_drops_the_last_reference(zoo: Any) -> None:
    """The arguments of a call are held by the interpreter; those of set() by the call's block."""
    every = zoo.every
    box: dict[str, Any] = {"x": np.full((1, 4096), 5, "f4")}
    out = np.zeros((1, 4096), "f4")

    def forget() -> None:
        box.clear()
        gc.collect()
        np.full((1, 4096), np.nan, "f4")

    assert every.every_f32(box["x"], None, out, lr=Acting(forget)) is True
    assert (out == 5).all()
    call = every.bind(np.full((1, 4096), 6, "f4"), None, out, lr=1)
    other = np.full((1, 4096), 7, "f4")

    def replace() -> None:
        if call.tensors["x"] is not other:
            call.set(x=other)
        forget()

    call.set(lr=Acting(replace))
    forget()
    call()
    assert (out == 7).all()


@pytest.mark.promise("A7", "FAULT-13")
def test_a_value_that_raises(zoo: Any) -> None:
    x, out = np.ones((1, 4), "f4"), np.zeros((1, 4), "f4")

    def fail() -> None:
        raise KeyError("value")

    call = zoo.every.bind(x, None, out, lr=1)
    for name in ("lr", "alpha", "times", "pad", "axes", "axis"):
        for function in (
            lambda **k: zoo.every.every_f32(x, None, out, **k),
            lambda **k: zoo.every.every(x, **k),
            lambda **k: zoo.every.bind(x, None, out, **k),
            lambda **k: zoo.every.explain(x, **k),
            call.set,
        ):
            with pytest.raises(KeyError, match="value"):
                function(**{"lr": 1, name: Acting(fail)})
    call()
    assert (out == 1).all()


class Strange:
    """Answers with something that is no number."""

    def __index__(self) -> Any:
        return "1"

    def __float__(self) -> Any:
        return "1"


@pytest.mark.promise("A7")
def test_a_value_that_lies(zoo: Any) -> None:
    x = np.ones((1, 4), "f4")
    for name in ("lr", "alpha", "times", "pad", "axes", "axis"):
        with pytest.raises(TypeError, match=r"non-(int|float)"):
            zoo.every.every(x, **{"lr": 1, name: Strange()})
