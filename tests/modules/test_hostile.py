"""A hostile but plausible user: every form of every op with every odd value in every place, and
random arrays against numpy's own verdict. Whatever comes, the answer is a result or an exception of
the user's kind, and nothing is written on False."""

from __future__ import annotations

import array
import ctypes
import inspect
import mmap
import threading
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modules.fake_producer import FakeInterface
from modules.test_stubs import functions_of, ops_of

# ---- every odd value in every place ----------------------------------------------------------


class Asked:
    """A producer whose protocol answers `capsule` and `device`, or raises them."""

    def __init__(self, capsule: Any, device: Any = (1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self.answer(self.capsule)

    def __dlpack_device__(self) -> Any:
        return self.answer(self.device)

    @staticmethod
    def answer(what: Any) -> Any:
        if isinstance(what, BaseException):
            raise what
        return what


class Numbers:
    """Whatever is asked of it as a number is not one."""

    def __index__(self) -> Any:
        return "index"

    def __float__(self) -> Any:
        return "float"


class Whatever:
    """Has every attribute, and is what they are."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self


class Fragile:
    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __repr__(self) -> str:
        raise ZeroDivisionError


def interface(**entries: Any) -> FakeInterface:
    base: dict[str, Any] = {"shape": (4,), "typestr": "<f4", "data": (0, False), "version": 3}
    return FakeInterface(**{**base, **entries})


def odd_values(rt: Any) -> Iterator[Any]:
    one = np.ones((4, 4), "f4")
    used = np.ones(4, "f4").__dlpack__()
    selfish: list[Any] = []
    selfish.append(selfish)
    read_only = mmap.mmap(-1, 64, prot=mmap.PROT_READ)
    record = np.zeros(4, [("a", "f4"), ("b", "i4")])
    yield from (None, True, 3, -1, 10**400, -(2**63), 2**63, float("nan"), float("inf"), 1j)
    yield from ("x", "relu", "\udc80", b"12345678", bytearray(16), (), [], [one, one], [None])
    yield from (selfish, {}, int, len, np, iter([one]), Decimal(1), Fraction(1, 2), np.float32(1))
    yield from (memoryview(bytearray(16)).cast("f"), array.array("f", [1] * 4), read_only)
    yield from ((ctypes.c_float * 4)(), (ctypes.c_float * 0)(), ((ctypes.c_float * 4) * 4)())
    yield from (ctypes.c_float(1), ctypes.pointer(ctypes.c_float(1)), ctypes.c_void_p(1))
    yield from (one, one[0], one[::-1, ::-1], one.T, one[:, ::2], one[:0], one.astype("f8"))
    yield from (one.astype("f2"), one.astype("c8"), one.astype(">f4"), one.astype("S1"))
    yield from (np.array(1, "f4"), np.array([None] * 4), record, record["a"])
    yield from (np.ones((1,) * 64, "f4"), np.broadcast_to(np.float32(1), (4, 4)))
    yield from (np.lib.stride_tricks.as_strided(np.ones(8, "f4"), (4, 4), (4, 4)),)
    yield from (np.frombuffer(bytearray(65), "u1")[1:].view("f4"), np.ma.array(one))
    yield from (np.array(["2020-01-01"], "M8[D]"), one.view(np.recarray))
    yield from (rt.empty((4, 4), "f32"), rt.empty((), "bf16"), rt.Tensor, threading.Lock())
    yield from (Numbers(), Whatever(), Fragile(), Asked(used), Asked(3), Asked(None))
    for device in ((99, 0), (-1, 0), (2**40, 0), (1, 2**40), (1,), "x", None, (1.0, 0)):
        yield Asked(used, device)
    for fault in (ValueError, TypeError, BufferError, KeyboardInterrupt, SystemExit, MemoryError,
                  StopIteration, RecursionError, AttributeError, OSError):  # fmt: skip
        yield Asked(fault("on purpose"))
        yield Asked(used, fault("on purpose"))
    yield from (interface(), interface(strides=(10**40,)), interface(shape=(2**62, 2**62)))
    yield from (interface(typestr=""), interface(data=(1, False)), interface(version=-1))


def places(function: Any, odd: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments with the odd value in each place among good ones, by position and by name."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    good = [np.ones((4, 4), "f4") for _ in positional]
    for i, name in enumerate(positional):
        yield [*good[:i], odd, *good[i + 1 :]], {}
        yield good[:i], {**dict(zip(positional[i:], good[i:], strict=True)), name: odd}
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY:
            yield good, {p.name: odd}
            yield good, {p.name: [odd, odd]}
    yield [odd] * len(positional), {}


# What may come out of a call: misuse and refusals, and what the values themselves raise.
EXPECTED = (TypeError, ValueError, BufferError, MemoryError, OverflowError, ZeroDivisionError,
            KeyboardInterrupt, SystemExit, StopIteration, OSError, AttributeError)  # fmt: skip


def is_expected(fault: BaseException, rt: Any) -> bool:
    known = isinstance(fault, (*EXPECTED, rt.CudaError)) or "on purpose" in str(fault)
    return known and not isinstance(fault, UnicodeError)


@pytest.mark.promise("D4", "FAULT-13")
@pytest.mark.parametrize("which", ["aicf_cuda", "zoo_ops"])
def test_every_odd_value_in_every_place(which: str, rt: Any, zoo: ModuleType) -> None:
    package = zoo if which == "zoo_ops" else pytest.importorskip(which)
    for odd in odd_values(rt):
        for module in ops_of(package):
            functions = functions_of(module)
            own = [n for n in functions if n.startswith(f"{module.capability['op']}_")][:1]
            for name in (*own, module.capability["op"], "bind", "explain", "infer"):
                for args, keywords in places(functions[name], odd):
                    try:
                        answer = functions[name](*args, **keywords)
                    except BaseException as fault:
                        assert is_expected(fault, rt), (module, name, type(odd), repr(fault))
                    else:
                        assert isinstance(answer, bool) == (name in own), (module, name)


@pytest.mark.promise("D4")
def test_wrong_counts_and_names(rt: Any, zoo: ModuleType) -> None:
    x = np.ones((4, 4), "f4")
    for package in (zoo, pytest.importorskip("aicf_cuda")):
        for module in ops_of(package):
            for function in functions_of(module).values():
                with pytest.raises(TypeError):
                    function(*[x] * 20)
                for name in ("", "nope", "\udc80", "self", "args", "stream "):
                    with pytest.raises(TypeError):
                        function(**{name: x})
                with pytest.raises(TypeError, match=f"^{module.capability['op']}"):
                    function()


# ---- random arrays against numpy -------------------------------------------------------------

DTYPES = ["f4", "f2", "f8", "i4", ">f4", "c8", "?"]
SUFFIXES = {"f4": "f32", "f2": "f16", "f8": "f64"}


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...] | None = None) -> Any:
    """An array of few dims, with any strides, over memory that it may not fill."""
    dims = st.integers(0, 4)
    shape = shape if shape is not None else tuple(draw(st.lists(dims, max_size=4)))
    dtype = draw(st.sampled_from(DTYPES + ["f4"] * 20))
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in shape]
    order = draw(st.permutations(range(len(shape))))
    base = np.ones([shape[i] * abs(steps[i]) for i in order], dtype)
    base[...] = draw(st.integers(0, 3))
    view = base.transpose(np.argsort(order)) if shape else base
    view = view[tuple(slice(None, None, s) for s in steps)] if shape else view
    view = view[tuple(slice(0, n) for n in shape)] if shape else view
    view.flags.writeable = draw(st.integers(0, 9)) > 0
    return view


def verdict(a: Any, b: Any, out: Any, dtype: str) -> bool:
    """Whether add of that dtype is right, as numpy has it."""
    if not all(x.dtype == np.dtype(dtype) and x.dtype.isnative for x in (a, b, out)):
        return False
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return shape == out.shape and bool(out.flags.writeable)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any, Any, str]:
    a = draw(arrays())
    near = a.shape if draw(st.booleans()) else tuple(draw(st.sampled_from([1, n])) for n in a.shape)
    b = draw(arrays(near) if draw(st.integers(0, 4)) else arrays())
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        shape = a.shape
    out = draw(arrays(shape) if draw(st.integers(0, 4)) else arrays())
    return a, b, out, draw(st.sampled_from([*SUFFIXES, "f4", "f4", "f4"]))


@pytest.mark.promise("D4")
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_the_verdict_is_numpys(add: Any, unsupported: Any, case: tuple[Any, ...]) -> None:
    a, b, out, dtype = case
    before = out.copy()
    said = getattr(add, f"add_{SUFFIXES[dtype]}")(a, b, out)
    assert said is verdict(a, b, out, dtype), (a.shape, b.shape, out.shape, dtype)
    assert np.array_equal(out, a + b if said else before)
    if said:
        made = add.add(a, b)
        assert made.dtype == a.dtype
        assert np.array_equal(made, out)
        out[...] = 0
        add.bind(a, b, out)()
        assert np.array_equal(made, out)
        assert any(": fits" in line for line in add.explain(a, b, out))
    else:
        lines = add.explain(a, b, out)
        assert not any(": fits" in line for line in lines) or dtype != a.dtype.str[1:]
        if dtype == a.dtype.str[1:]:
            with pytest.raises(unsupported, match=r"^add: "):
                add.bind(a, b, out)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_gemms_verdict_is_numpys(unsupported: Any, data: st.DataObject) -> None:
    gemm: Any = pytest.importorskip("aicf_cuda.gemm")
    dims = st.integers(0, 3)
    a = data.draw(arrays(tuple(data.draw(st.lists(dims, max_size=4)))))
    b = data.draw(arrays(tuple(data.draw(st.lists(dims, max_size=4)))))
    right: Any = None
    try:
        right = a @ b if min(a.ndim, b.ndim) >= 2 else None
    except (ValueError, TypeError):
        pass
    fits = right is not None and a.dtype == b.dtype and a.dtype.str in ("<f4", "<f2", "<f8")
    try:
        made = gemm.gemm(a, b)
    except unsupported as refused:
        strided = "no kernel fits" in str(refused)  # neither rows nor columns have unit stride
        assert not fits or strided, (a.shape, b.shape, a.dtype, str(refused))
    else:
        assert fits
        assert np.array_equal(made, right)
