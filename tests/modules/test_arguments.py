"""Attributes, scalars, lists and outs: what is taken, what is misuse, what is out of bounds."""

from __future__ import annotations

import contextlib
import decimal
import enum
import fractions
import importlib
import math
from typing import Any

import numpy as np
import pytest

from modules.fake_producer import FakeProducer


class Verdict(enum.Enum):
    UNSUPPORTED = enum.auto()
    MISUSE = enum.auto()


UNSUPPORTED, MISUSE = Verdict.UNSUPPORTED, Verdict.MISUSE


class Index:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Floating:
    def __float__(self) -> float:
        return 0.5


class Broken:
    def __index__(self) -> int:
        raise RuntimeError("index")

    def __float__(self) -> float:
        raise RuntimeError("float")


def judge(zoo: Any, value: object, name: str) -> object:
    """The out of `every` with one attribute, or what became of it; the typed form must agree."""
    x, out = np.ones((2, 3), "f4"), np.zeros((2, 3), "f4")
    keywords = {"lr": 1.0, name: value}
    fault: TypeError | None = None
    try:
        answer = zoo.every.every_f32(x, None, out, **keywords)
    except TypeError as raised:
        fault = raised
    if fault is not None:
        assert str(fault).startswith(f"every: {name} "), fault
        assert not isinstance(fault, zoo.Unsupported)
        with pytest.raises(TypeError) as generic:
            zoo.every.every(x, **keywords)
        assert not isinstance(generic.value, zoo.Unsupported)
        assert not out.any()
        return MISUSE
    if answer is False:
        with pytest.raises(zoo.Unsupported, match=name):
            zoo.every.every(x, **keywords)
        assert not out.any()
        return UNSUPPORTED
    assert np.array_equal(zoo.every.every(x, **keywords), out, equal_nan=True)
    return out[0, 0].item()


INT_CASES: list[tuple[object, object]] = [
    (1, 1.0), (100, 100.0), (0, UNSUPPORTED), (101, UNSUPPORTED), (-1, UNSUPPORTED),
    (2**31, UNSUPPORTED), (2**63 - 1, UNSUPPORTED), (2**63, UNSUPPORTED),
    (-(2**63) - 1, UNSUPPORTED), (2**64, UNSUPPORTED), (10**400, UNSUPPORTED),
    (2**31 - 1, UNSUPPORTED), (-(2**31), UNSUPPORTED), (-(2**63), UNSUPPORTED),
    (99, 99.0), (np.int64(100), 100.0), (np.int64(101), UNSUPPORTED),
    (np.uint64(2**64 - 1), UNSUPPORTED), (np.True_, MISUSE), (np.timedelta64(3), MISUSE),
    (math, MISUSE), (Floating(), MISUSE),
    (np.int64(7), 7.0), (np.uint8(7), 7.0), (np.int8(-1), UNSUPPORTED), (Index(9), 9.0),
    (True, MISUSE), (False, MISUSE), (3.0, MISUSE), (-0.0, MISUSE), (math.nan, MISUSE),
    (math.inf, MISUSE), (np.float32(3), MISUSE), ("3", MISUSE), (b"3", MISUSE), (None, MISUSE),
    ([3], MISUSE), (decimal.Decimal(3), MISUSE), (fractions.Fraction(3), MISUSE), (3j, MISUSE),
    (np.ones(1, "i8"), MISUSE), (np.array(3), 3.0), (np.array(7, "u1"), 7.0),
    (np.array(101), UNSUPPORTED), (np.array(3.0), MISUSE), (np.array(True), MISUSE),
    (np.array(3, object), MISUSE), (np.ma.array(3), MISUSE), (np.ma.masked, MISUSE),
]  # fmt: skip


@pytest.mark.promise("A7", "FAULT-18")
@pytest.mark.parametrize(("value", "want"), INT_CASES, ids=lambda v: repr(v)[:24])
def test_an_int_attribute(zoo: Any, value: object, want: object) -> None:
    assert judge(zoo, value, "times") == want


FLOAT_CASES: list[tuple[object, object]] = [
    (0.5, 0.5), (2, 2.0), (2.0, 2.0), (2.0000001, UNSUPPORTED), (3, UNSUPPORTED), (-7, -7.0),
    (-0.0, 0.0), (math.nan, UNSUPPORTED), (math.inf, UNSUPPORTED), (-math.inf, -math.inf),
    (10**400, UNSUPPORTED), (-(10**400), UNSUPPORTED), (2**70, UNSUPPORTED),
    (np.float64(0.25), 0.25), (np.float32(0.25), 0.25), (np.float16(0.25), 0.25),
    (np.int32(1), 1.0), (decimal.Decimal("0.5"), 0.5), (fractions.Fraction(1, 2), 0.5),
    (Floating(), 0.5), (Index(1), 1.0),
    (1.7976931348623157e308, UNSUPPORTED), (-1.7976931348623157e308, -math.inf),
    (np.float64(math.nan), UNSUPPORTED), (np.longdouble(0.5), 0.5), (-(2**63), -(2.0**63)),
    (decimal.Decimal("NaN"), UNSUPPORTED), (decimal.Decimal("1e999"), UNSUPPORTED),
    (np.True_, MISUSE), (np.False_, MISUSE), (np.complex128(0.5), MISUSE), (math, MISUSE),
    (True, MISUSE), (False, MISUSE), ("0.5", MISUSE), (b"1", MISUSE), (None, MISUSE), (1j, MISUSE),
    (np.complex64(1), MISUSE), ([0.5], MISUSE), (np.ones(1), MISUSE), (np.array(0.5), 0.5),
    (np.array(1, "i2"), 1.0), (np.array(2.5, "f4"), UNSUPPORTED), (np.array(True), MISUSE),
    (np.array(1j), MISUSE), (np.array("0.5"), MISUSE), (np.array(None), MISUSE),
]  # fmt: skip


@pytest.mark.promise("A7", "FAULT-18")
@pytest.mark.parametrize(("value", "want"), FLOAT_CASES, ids=lambda v: repr(v)[:24])
def test_a_float_attribute(zoo: Any, value: object, want: object) -> None:
    assert judge(zoo, value, "alpha") == want


@pytest.mark.promise("A7", "FAULT-18")
@pytest.mark.guests("torch")
def test_a_tensor_is_no_number(zoo: Any) -> None:
    torch = pytest.importorskip("torch")
    assert judge(zoo, torch.tensor(1.0), "alpha") == MISUSE
    assert judge(zoo, torch.tensor(1), "times") == MISUSE
    assert judge(zoo, torch.tensor(True), "twice") == MISUSE


@pytest.mark.promise("FAULT-18")
@pytest.mark.parametrize(
    ("value", "want"),
    [
        (True, 2.0),
        (False, 1.0),
        (1, MISUSE),
        (0, MISUSE),
        (None, MISUSE),
        ("", MISUSE),
        (np.True_, 2.0),
        (np.False_, 1.0),
        (np.array(True), 2.0),
        (np.array([True]), MISUSE),
        (np.int8(1), MISUSE),
    ],
)
def test_a_bool_attribute(zoo: Any, value: object, want: object) -> None:
    assert judge(zoo, value, "twice") == want


@pytest.mark.promise("FAULT-18")
@pytest.mark.parametrize(
    "value", ["Relu", "relu ", "", "gelu", 0, 1, None, b"relu", ["relu"], True]
)
def test_an_enum_attribute(zoo: Any, value: object) -> None:
    assert judge(zoo, value, "act") == MISUSE
    with pytest.raises(TypeError, match="one of 'none', 'relu'"):
        zoo.every.every(np.ones((1, 1), "f4"), lr=1, act=value)
    assert judge(zoo, "none", "act") == 1.0


@pytest.mark.promise("FAULT-18")
@pytest.mark.parametrize(
    ("value", "want"),
    [
        (0, (2, 3)), (2, (2, 7)), ((1, 2), (2, 6)), ([0, 1], (2, 4)), (np.int8(1), (2, 5)),
        ((Index(1), 0), (2, 4)),
        (-1, UNSUPPORTED), ((0, -1), UNSUPPORTED), ((10, 0), UNSUPPORTED), (2**80, UNSUPPORTED),
        ((0, 2**80), UNSUPPORTED),
        ((1,), MISUSE), ((1, 2, 3), MISUSE), ((), MISUSE), ("12", MISUSE), ((1, "2"), MISUSE),
        ((1, True), MISUSE), (True, MISUSE), (1.0, MISUSE), (None, MISUSE), ({1, 2}, MISUSE),
        (np.ones(2, "i8"), MISUSE), (range(2), MISUSE),
    ],
    ids=lambda v: repr(v)[:24],
)  # fmt: skip
def test_ints(zoo: Any, value: object, want: object) -> None:
    x = np.ones((2, 3), "f4")
    if want == MISUSE:
        with pytest.raises(TypeError, match="every: pad takes") as fault:
            zoo.every.every(x, lr=1, pad=value)
        assert not isinstance(fault.value, zoo.Unsupported)
    elif want == UNSUPPORTED:
        with pytest.raises(zoo.Unsupported, match="pad"):
            zoo.every.every(x, lr=1, pad=value)
        assert zoo.every.every_f32(x, None, x, lr=1, pad=value) is False
    else:
        assert zoo.every.every(x, lr=1, pad=value).shape == want


@pytest.mark.promise("FAULT-18")
@pytest.mark.parametrize("name", ["axes", "axis"])
@pytest.mark.parametrize(
    ("value", "taken"),
    [
        (0, True), (1, True), (-1, True), (-2, True), (2, False), (-3, False), (2**70, False),
        ((0, 1), "axes"), ([-1], "axes"), ((), "axes"), (None, "axes"), ((0, -2), False),
        ((0, 0), False), ((0, 2), False), (tuple(range(65)), False), (tuple(range(1000)), False),
        (True, MISUSE), ("0", MISUSE), (0.0, MISUSE), ((0, "1"), MISUSE), ((0, True), MISUSE),
    ],
    ids=lambda v: repr(v)[:24],
)  # fmt: skip
def test_axes(zoo: Any, name: str, value: object, taken: object) -> None:
    x = np.ones((2, 3), "f4")
    several = isinstance(value, (tuple, list)) or value is None
    if taken is True or taken == name:
        assert zoo.every.every(x, lr=1, **{name: value}).shape == (2, 3)
    elif taken == MISUSE or (several and name == "axis"):
        with pytest.raises(TypeError, match=f"every: {name} takes") as fault:
            zoo.every.every(x, lr=1, **{name: value})
        assert not isinstance(fault.value, zoo.Unsupported)
    else:
        with pytest.raises(zoo.Unsupported, match=name):
            zoo.every.every(x, lr=1, **{name: value})


@pytest.mark.promise("FAULT-18")
def test_an_error_of_the_value_itself(zoo: Any) -> None:
    x = np.ones((2, 3), "f4")
    for name in ("times", "pad", "axes"):
        with pytest.raises(RuntimeError, match="index"):
            zoo.every.every(x, lr=1, **{name: Broken()})
    for name in ("alpha", "lr"):
        with pytest.raises(RuntimeError, match=r"index|float"):
            zoo.every.every(x, **{"lr": 1, name: Broken()})


@pytest.mark.promise("FAULT-18", "D4")
def test_what_is_missing(zoo: Any) -> None:
    x = np.ones((2, 3), "f4")
    with pytest.raises(TypeError, match="every: lr is missing"):
        zoo.every.every(x)
    with pytest.raises(TypeError, match="every: lr is missing"):
        zoo.every.every_f32(x, None, x)
    with pytest.raises(TypeError, match="every: out is missing"):
        zoo.every.every_f32(x, lr=1)
    with pytest.raises(TypeError, match="by position"):
        zoo.every.every(x, None, 1.0, lr=1)


# ---- scalars --------------------------------------------------------------------------------


@pytest.mark.promise("A7")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "lr", [2, 2.0, np.float32(2), Index(2), 2**70, 10**400, True, "2", None, 2j]
)
def test_a_number_for_a_scalar(zoo: Any, dtype: str, lr: object) -> None:
    x = np.ones((2, 3), dtype)
    if lr is True or lr is None or isinstance(lr, (str, complex)):
        with pytest.raises(TypeError, match="every: lr takes a number or a tensor of one element"):
            zoo.every.every(x, lr=lr)
    elif isinstance(lr, int) and lr > 2**1000:
        with pytest.raises(zoo.Unsupported, match="lr"):
            zoo.every.every(x, lr=lr)
    else:
        assert (zoo.every.every(x, lr=lr) == float(lr)).all()  # type: ignore[arg-type]


@pytest.mark.promise("A7")
def test_a_tensor_for_a_scalar(zoo: Any) -> None:
    x = np.ones((2, 3), "f4")
    for lr in (
        np.array(3, "f4"),
        np.array([3], "f4"),
        np.full((1, 1, 1), 3, "f4"),
        FakeProducer(1),
    ):
        want = 1 if isinstance(lr, FakeProducer) else 3
        assert (zoo.every.every(x, lr=lr) == want).all()
        out = np.zeros((2, 3), "f4")
        assert zoo.every.every_f32(x, None, out, lr=lr) is True
        assert (out == want).all()
    for lr in (
        np.ones(2, "f4"),
        np.ones(1, "f8"),
        np.ones(0, "f4"),
        FakeProducer(1, device_type=2),
    ):
        with pytest.raises(zoo.Unsupported, match="lr"):
            zoo.every.every(x, lr=lr)
        assert zoo.every.every_f32(x, None, x, lr=lr) is False
    rate = np.array(3, "f4")
    out = np.zeros((2, 3), "f4")
    call = zoo.every.bind(x, None, out, lr=rate)
    rate[...] = 4
    call()
    assert (out == 4).all()
    call.set(lr=5)
    call()
    assert (out == 5).all()
    call.set(lr=rate)
    call()
    assert (out == 4).all()


@pytest.mark.promise("A7")
@pytest.mark.parametrize(
    ("dtype", "by", "want"),
    [
        ("f4", 1, 2), ("f4", 0.5, 1.5), ("f4", 2**70, 2.0**70), ("i4", 1, 2),
        ("i4", 2**31 - 2, 2**31 - 1),
        ("i4", 2**31, UNSUPPORTED), ("i4", -(2**31) - 1, UNSUPPORTED), ("i4", 2**70, UNSUPPORTED),
        ("i4", 0.5, UNSUPPORTED), ("i4", math.nan, UNSUPPORTED), ("i4", 1.0, 2),
        ("?", True, False), ("?", False, True), ("?", 2, UNSUPPORTED), ("?", -1, UNSUPPORTED),
        ("?", 1, False), ("?", 0.0, True), ("?", 0.5, UNSUPPORTED), ("?", math.nan, UNSUPPORTED),
        ("i4", -(2**31), -(2**31) + 1), ("i4", 2**31 - 2.0, 2**31 - 1),
        ("i4", 2.0**31, UNSUPPORTED),
        ("i4", 2**63 - 1, UNSUPPORTED), ("i4", 2**63, UNSUPPORTED),
        ("i4", -(2**63) - 1, UNSUPPORTED),
        ("i4", 2**64, UNSUPPORTED), ("i4", 10**400, UNSUPPORTED), ("i4", math.inf, UNSUPPORTED),
        ("i4", -0.0, 1), ("i4", np.int8(-1), 0), ("i4", np.uint64(2**64 - 1), UNSUPPORTED),
        ("i4", np.float32(2), 3), ("i4", decimal.Decimal(2), 3), ("i4", Index(5), 6),
        ("f4", -0.0, 1), ("f4", math.inf, math.inf), ("f4", -math.inf, -math.inf),
        ("f4", 2**64, 2.0**64), ("f4", 1e39, math.inf), ("f4", 1e-46, 1), ("f4", np.float16(2), 3),
        ("f4", 10**400, UNSUPPORTED), ("f4", decimal.Decimal("0.5"), 1.5), ("f4", Floating(), 1.5),
    ],
    ids=lambda v: repr(v)[:20],
)  # fmt: skip
def test_a_scalar_whose_dtype_varies(zoo: Any, dtype: str, by: object, want: object) -> None:
    x = np.ones(3, dtype)
    if want is UNSUPPORTED:
        with pytest.raises(zoo.Unsupported, match="by"):
            zoo.shift.shift(x, by=by)
        return
    made = zoo.shift.shift(x, by=by)
    assert made.dtype == x.dtype
    assert (made == want).all()
    assert zoo.shift.shift_f32(x, x.copy(), by=by) is (dtype == "f4")
    typed = {"f4": zoo.shift.shift_f32, "i4": zoo.shift.shift_i32, "?": zoo.shift.shift_bool}[dtype]
    out = np.zeros(3, dtype)
    assert typed(x, out, by=by) is True
    assert (out == want).all()


@pytest.mark.promise("A7")
@pytest.mark.parametrize("dtype", ["f4", "i4", "?"])
@pytest.mark.parametrize(
    "by",
    ["1", None, 1j, [1], (1,), {}, math, object(), Broken],
    ids=lambda v: repr(v)[:20],
)  # fmt: skip
def test_what_is_no_number_for_a_scalar(zoo: Any, dtype: str, by: object) -> None:
    x = np.ones(3, dtype)
    out = np.zeros(3, dtype)
    for function in (
        lambda: zoo.shift.shift(x, by=by),
        lambda: zoo.shift.shift_f32(x, out, by=by),
        lambda: zoo.shift.bind(x, out, by=by),
        lambda: zoo.shift.bind(x, out, by=1).set(by=by),
    ):
        with pytest.raises(TypeError, match="shift: by takes") as fault:
            function()
        assert not isinstance(fault.value, zoo.Unsupported)
    assert not out.any()


@pytest.mark.promise("A7")
def test_a_scalar_that_has_a_buffer(zoo: Any, unsupported: type[Exception]) -> None:
    """What is no number, but has a buffer, is a tensor: of the row's dtype or refused."""
    for by in (np.True_, np.complex64(1), b"1"):
        with pytest.raises(unsupported, match="shift: by: "):
            zoo.shift.shift(np.ones(3, "f4"), by=by)
    assert zoo.shift.shift(np.ones(3, "?"), by=np.True_).tolist() == [False] * 3


@pytest.mark.promise("A7")
def test_a_scalar_in_an_array_of_no_dims(zoo: Any, unsupported: type[Exception]) -> None:
    """Of the row's dtype it is a tensor, whose value a bound call sees change; of another it is the
    number that it was."""
    x, out = np.ones(3, "f4"), np.zeros(3, "f4")
    for by in (np.array(2.0), np.array(2), np.array(2, "u1"), np.array(2, "f2")):
        assert zoo.shift.shift(x, by=by).tolist() == [3.0] * 3
        assert zoo.shift.shift_f32(x, out, by=by) is True
        call = zoo.shift.bind(x, out, by=by)
        by[...] = 5
        call()
        assert out.tolist() == [3.0] * 3
        call.set(x=x + 1)
        call()
        assert out.tolist() == [4.0] * 3
        call.set(by=by)
        call()
        assert out.tolist() == [7.0] * 3
    by = np.array(2, "f4")
    call = zoo.shift.bind(x, out, by=by)
    by[...] = 5
    call()
    assert out.tolist() == [6.0] * 3
    with pytest.raises(unsupported, match="shift: by: a scalar is a number or one element of i32"):
        call.set(x=np.ones(3, "i4"), out=np.ones(3, "i4"))
    ints = np.ones(3, "i4")
    assert zoo.shift.shift(ints, by=np.array(2.0)).tolist() == [3] * 3
    for by in (np.array(0.5), np.array(2**31)):
        with pytest.raises(unsupported, match=r"shift: by = .* is out of range; allowed: what its"):
            zoo.shift.shift(ints, by=by)
        assert zoo.shift.shift_i32(ints, ints.copy(), by=by) is False
    for by in (np.array(True), np.array(1j), np.ones(1), np.ma.array(2.0)):
        with pytest.raises(unsupported, match="shift: by: "):
            zoo.shift.shift(x, by=by)
    assert zoo.shift.shift(np.ones(3, "?"), by=np.array(True)).tolist() == [False] * 3


@pytest.mark.promise("A7")
def test_a_scalar_that_is_nan(zoo: Any) -> None:
    x = np.ones(3, "f4")
    assert np.isnan(zoo.shift.shift(x, by=math.nan)).all()
    assert np.isnan(zoo.shift.shift(x, by=decimal.Decimal("NaN"))).all()


# ---- outs -----------------------------------------------------------------------------------


def test_outs_that_are_asked_for(zoo: Any) -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    assert isinstance(zoo.every.every(x, lr=1), np.ndarray)
    assert isinstance(zoo.every.every(x, lr=1, mean=False, counted=None), np.ndarray)
    both = zoo.every.every(x, lr=1, mean=True)
    assert both._fields == ("out", "mean", "counted")
    assert type(both).__name__ == "every"
    assert both.mean.tolist() == [1.0, 4.0]
    assert both.counted is None
    assert np.array_equal(both.out, x)
    _, mean, count = zoo.every.every(x, lr=1, counted=True)
    assert mean is None
    assert count.tolist() == [3, 3]
    assert count.dtype == np.int64
    given = np.zeros(2, "f4")
    assert zoo.every.every(x, lr=1, mean=given).mean is given
    assert given.tolist() == [1.0, 4.0]
    with pytest.raises(zoo.Unsupported, match="mean"):
        zoo.every.every(x, lr=1, mean=np.zeros(3, "f4"))
    target = np.zeros((2, 3), "f4")
    assert zoo.every.every(x, lr=1, out=target) is target


def test_optional_tensors_and_outs_of_the_typed_form(zoo: Any) -> None:
    x, out, mean = np.ones((2, 3), "f4"), np.zeros((2, 3), "f4"), np.zeros(2, "f4")
    bias = np.full(3, -5, "f4")
    assert zoo.every.every_f32(x, bias, out, mean, lr=2, act="relu") is True
    assert not out.any()
    assert mean.tolist() == [1.0, 1.0]
    assert zoo.every.every_f32(x, None, out, None, np.zeros(2, "i8"), lr=2) is True
    assert (out == 2).all()
    assert zoo.every.every_f32(x=x, out=out, bias=bias, lr=3) is True
    assert (out == -2).all()
    with pytest.raises(zoo.Unsupported, match="an act needs a bias"):
        zoo.every.every(x, lr=1, act="relu")


def test_several_required_outs(zoo: Any) -> None:
    x = np.array([3, 1, 2], "f4")
    least, most = zoo.bounds.bounds(x)
    assert (least, most) == (1, 3)
    given = np.zeros((), "f4")
    assert zoo.bounds.bounds(x, most=given).most is given
    with pytest.raises(zoo.Unsupported, match="an empty tensor has no bounds"):
        zoo.bounds.bounds(x[:0])


def test_outs_that_are_all_optional(zoo: Any) -> None:
    x = np.ones(3, "f4")
    both = zoo.parts.parts(x)
    assert (both.twofold[0], both.half[0]) == (2.0, 0.5)
    one = zoo.parts.parts(x, half=True)
    assert one.twofold is None
    assert one.half.tolist() == [0.5] * 3
    out = np.zeros(3, "f4")
    assert zoo.parts.parts_f32(x, None, out) is True
    assert zoo.parts.parts_f32(x, half=out) is True
    assert zoo.parts.parts(x, half=out).half is out


@pytest.mark.parametrize(
    "dtype", [None, "f64", "float64", "f32", "float32", "i32", np.float32, np.dtype("i4"), "int32"]
)
def test_a_dtype_that_no_argument_says(zoo: Any, dtype: Any) -> None:
    x = np.array([1.5, 2.5], "f4")
    made = zoo.cast.cast(x, dtype=dtype)
    words = {None: "f8", "f64": "f8", "f32": "f4", "i32": "i4"}
    want = np.dtype(words.get(dtype, dtype))
    assert made.dtype == want
    assert made.tolist() == x.astype(want).tolist()


@pytest.mark.guests("torch")
def test_a_dtype_of_torch(zoo: Any) -> None:
    torch = pytest.importorskip("torch")
    assert zoo.cast.cast(torch.ones(2), dtype=torch.int32).dtype == torch.int32
    with pytest.raises(
        TypeError, match=r"cast: dtype takes one of 'f64', 'f32', 'i32', not torch\.int8"
    ):
        zoo.cast.cast(torch.ones(2), dtype=torch.int8)


def test_a_dtype_that_the_out_says(zoo: Any) -> None:
    x, out = np.array([1.5, 2.5], "f4"), np.zeros(2, "i4")
    assert zoo.cast.cast(x, out=out) is out
    assert out.tolist() == [1, 2]
    with pytest.raises(zoo.Unsupported, match="out"):
        zoo.cast.cast(x, out=out, dtype="f32")
    with pytest.raises(zoo.Unsupported, match="x"):
        zoo.cast.cast(x.astype("i8"), dtype="f32")
    for wrong in ("f16", "float", 3, None, object()):
        if wrong is not None:
            with pytest.raises(TypeError, match="cast: dtype takes one of"):
                zoo.cast.cast(x, dtype=wrong)
    with pytest.raises(TypeError, match="has no argument 'dtype'"):
        zoo.shift.shift(x, by=1, dtype="f32")
    call = zoo.cast.bind(x, out)
    out[:] = 0
    call()
    assert out.tolist() == [1, 2]


# ---- lists ----------------------------------------------------------------------------------


@pytest.mark.promise("LISTS-many")
def test_lists_of_very_many() -> None:
    """One gradient for all: each pair of it overlaps, which nobody minds or has time to ask."""
    sgd = importlib.import_module("aicf_cuda.sgd")
    count, grad = 40_000, np.ones(2, "f4")
    flat = np.ones((count, 2), "f4")
    assert sgd.sgd_f32([*flat], [grad] * count, None, lr=0.5) is True
    assert (flat == 0.5).all()
    rows = [*flat]
    assert sgd.sgd_f32(rows[:-1] + rows[:1], [grad] * count, None, lr=0.5) is False
    assert sgd.sgd_f32([*rows[1:], grad], [grad] * count, None, lr=0.5) is False
    line = flat.reshape(-1)
    grads = [line[1:3], *[grad] * 3]  # what is read begins before what it shares memory with
    assert sgd.sgd_f32([line[2:4], *rows[2:5]], grads, None, lr=0.5) is False
    assert (flat == 0.5).all()
    with pytest.raises(TypeError, match="sgd: lists have 1572866 tensors, more than 1048576: give"):
        sgd.sgd_f32([grad] * (1 << 19), [grad] * (1 << 19), None, lr=0.5)


@pytest.mark.parametrize("count", [1, 2, 3, 40, 200])
def test_a_list(zoo: Any, count: int) -> None:
    xs = [np.full((i % 4, 2), i, "f4") for i in range(count)]
    want = np.concatenate(xs)
    assert np.array_equal(zoo.join.join(xs), want)
    assert np.array_equal(zoo.join.join(tuple(xs)), want)
    out = np.zeros_like(want)
    assert zoo.join.join_f32(xs, out) is True
    assert np.array_equal(out, want)
    assert zoo.join.join_i32(xs, out) is False
    assert any("rows: fits" in line for line in zoo.join.explain(xs))
    call = zoo.join.bind(xs, out)
    out[:] = 0
    call()
    assert np.array_equal(out, want)
    call.set(xs=[x + 1 for x in xs])
    call()
    assert np.array_equal(out, want + 1)


def test_an_empty_list(zoo: Any) -> None:
    """Nothing says what C is: it is 0."""
    assert zoo.join.join([]).shape == (0, 0)
    assert zoo.join.join_f32([], np.zeros((0, 0), "f4")) is True
    assert zoo.join.join_f32([], np.zeros((1, 0), "f4")) is False


def test_what_is_no_list(zoo: Any) -> None:
    x = np.ones((2, 2), "f4")
    for wrong in (x, {x.tobytes(): x}, iter([x]), "xs", 3):
        with pytest.raises(TypeError, match="join: xs takes a list or tuple of tensors"):
            zoo.join.join(wrong)
    with pytest.raises(TypeError, match="join: xs is None"):
        zoo.join.join(None)
    for item in (3, None, "x"):
        with pytest.raises(TypeError, match=r"join: xs(\[1\])? is"):
            zoo.join.join([x, item])
    with pytest.raises(zoo.Unsupported, match=r"join: xs"):
        zoo.join.join([x, np.ones((2, 3), "f4")])
    with pytest.raises(zoo.Unsupported, match=r"join: xs\[1\]"):
        zoo.join.join([x, x.astype("f8")])


def test_lists_in_place(zoo: Any) -> None:
    ps, gs = [np.ones(3, "f4"), np.ones((2, 2), "f4")], [np.ones(3, "f4"), np.ones((2, 2), "f4")]
    bufs = [np.zeros(3, "f4"), np.zeros((2, 2), "f4")]
    assert zoo.step.step(ps, gs, lr=0.5) is None
    assert ps[0].tolist() == [0.5] * 3
    assert zoo.step.step_f32(ps, gs, bufs, lr=0.5) is True
    assert ps[1].tolist() == [[0, 0], [0, 0]]
    assert bufs[1].tolist() == [[1, 1], [1, 1]]
    with pytest.raises(zoo.Unsupported, match="one length"):
        zoo.step.step(ps, gs[:1], lr=1)
    assert zoo.step.step_f32(ps, gs[:1], lr=1) is False
    with pytest.raises(zoo.Unsupported, match=r"ps|gs"):
        zoo.step.step(ps, gs[::-1], lr=1)
    call = zoo.step.bind(ps, gs, bufs, lr=1)
    call()
    assert bufs[0].tolist() == [2] * 3
    call.set(bufs=None)
    call()
    assert bufs[0].tolist() == [2] * 3
    with pytest.raises(zoo.Unsupported, match="one length"):
        call.set(gs=gs[:1])
    call.set(ps=ps[:1], gs=gs[:1])
    call()
    assert ps[0].tolist() == [-3] * 3
    assert ps[1].tolist() == [[-2, -2], [-2, -2]]
    read_only = ps[0].view()
    read_only.setflags(write=False)
    with pytest.raises(zoo.Unsupported, match=r"step: ps\[1\].*read-only"):
        zoo.step.step([ps[1], read_only], [gs[1], gs[0]], lr=1)


def test_a_list_that_changes_while_it_is_read(zoo: Any) -> None:
    x = np.ones((1, 2), "f4")

    class Clears:
        def __dlpack__(self, **keywords: Any) -> Any:
            xs.clear()
            return x.__dlpack__(**keywords)

    xs: list[Any] = [Clears(), x, x]
    assert zoo.join.join(xs).shape == (3, 2)
    assert xs == []


@pytest.mark.promise("T6")
def test_capsules_of_a_list(zoo: Any) -> None:
    for rank in (2, 1):
        xs = [FakeProducer(4, [2, 2]) for _ in range(20)]
        xs[13].managed.tensor.rank = rank
        with contextlib.suppress(zoo.Unsupported):
            zoo.join.join(xs)
        assert [x.deleted for x in xs] == [len(x.asked) for x in xs]
        assert all(x.deleted for x in xs)


# ---- what becomes of a status ---------------------------------------------------------------


@pytest.mark.promise("FAULT-19", "C3")
def test_statuses(zoo: Any) -> None:
    x = np.ones(4, "f4")
    assert zoo.fail.fail_f32(x, np.ones(4, "f4")) is True
    calls = [
        lambda kind: zoo.fail.fail_f32(x, np.ones(4, "f4"), kind=kind, kernel="loop"),
        lambda kind: zoo.fail.fail(x, kind=kind, kernel="loop"),
        lambda kind: zoo.fail.bind(x, np.ones(4, "f4"), kind=kind, kernel="loop")(),
        lambda kind: zoo.run([zoo.fail.bind(x, np.ones(4, "f4"), kind=kind, kernel="loop")]),
    ]
    for call in calls:
        with pytest.raises(MemoryError):
            call("memory")
        with pytest.raises(SystemError, match="fail"):
            call("internal")
        with pytest.raises(zoo.CudaError, match="fail: kernel loop failed: error 7") as raised:
            call("backend")
        fault = raised.value
        assert (fault.op, fault.kernel, fault.code, fault.name) == ("fail", "loop", 7, "error")
        assert isinstance(fault, RuntimeError)


@pytest.mark.promise("FAULT-19")
def test_a_workspace_that_no_memory_holds(zoo: Any) -> None:
    x = np.ones(4, "f4")
    with pytest.raises(MemoryError):
        zoo.fail.fail(x, kind="memory")
    with pytest.raises(MemoryError):
        zoo.fail.bind(x, x.copy(), kind="memory", kernel="big")()


@pytest.mark.promise("FAULT-17")
def test_a_workspace(zoo: Any) -> None:
    x = np.ones((2, 3), "f4")
    assert (zoo.every.every(x, lr=1, kernel="spare") == 1).all()
    wide = np.ones((2, 2000), "f4")
    assert (zoo.every.every(wide, lr=1) == 1).all()
    call = zoo.every.bind(wide, None, np.empty_like(wide), lr=1)
    for _ in range(3):
        call()
