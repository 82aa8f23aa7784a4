"""Whoever brings tensors on the host, for real: by one table of producers, and what is special to
each. Devices are in tests/gpu."""

from __future__ import annotations

import array
import ctypes
import gc
import itertools
import mmap
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
tvm_ffi = pytest.importorskip("tvm_ffi")
ml_dtypes = pytest.importorskip("ml_dtypes")

pytestmark = [pytest.mark.guests("torch", "jax", "tvm_ffi", "ml_dtypes")]

BF16 = ml_dtypes.bfloat16


class Old:
    """A library of before keywords: a legacy capsule and nothing else."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __dlpack__(self) -> Any:
        return self.values.__dlpack__()


class Streams(Old):
    """One of the first: it knows `stream` alone."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.values.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class Both(Old):
    """DLPack and an array interface, which is not asked."""

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.values.__dlpack__(**keywords)

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AssertionError("DLPack comes first")


def of_c(values: Any) -> Any:
    kind: Any = ctypes.c_float
    for n in reversed(values.shape):
        kind = kind * n
    return kind.from_buffer_copy(values.tobytes())


def mapped(values: Any) -> Any:
    made = mmap.mmap(-1, max(1, values.nbytes))
    made[: values.nbytes] = values.tobytes()
    return memoryview(made).cast("f", values.shape)


def own(values: Any) -> Any:
    made = sys.modules["aicf_rt"].empty(values.shape, "f32")
    np.asarray(made)[...] = values
    return made


def wrapper(values: Any) -> Any:
    """tvm-ffi's own test of the exchange API: neither borrows nor allocates."""
    return tvm_ffi.core.DLTensorTestWrapper(tvm_ffi.from_dlpack(values))


# How to bring an array of numpy's, whether that may be written, and whose a new out is.
Producer = tuple[Callable[[Any], Any], bool, type]
PRODUCERS: dict[str, Producer] = {
    "torch": (lambda v: torch.from_numpy(v.copy()), True, torch.Tensor),
    "torch parameter": (
        lambda v: torch.nn.Parameter(torch.from_numpy(v.copy()), requires_grad=False),
        True,
        torch.Tensor,
    ),
    "numpy": (lambda v: v.copy(), True, np.ndarray),
    "numpy, another order": (lambda v: np.asarray(v.copy(), order="F"), True, np.ndarray),
    "numpy, a subclass": (lambda v: v.copy().view(np.recarray), True, np.ndarray),
    "jax": (jax.numpy.asarray, False, jax.Array),
    "tvm-ffi": (lambda v: tvm_ffi.from_dlpack(v.copy()), True, tvm_ffi.Tensor),
    "tvm-ffi's wrapper": (lambda v: wrapper(v.copy()), True, tvm_ffi.Tensor),
    "Tensor": (own, True, object),
    "memoryview": (lambda v: memoryview(v.copy()), True, np.ndarray),
    "ctypes": (of_c, True, np.ndarray),
    "mmap": (mapped, True, np.ndarray),
    "old": (lambda v: Old(v.copy()), False, np.ndarray),
    "streams": (lambda v: Streams(v.copy()), False, np.ndarray),
    "both": (lambda v: Both(v.copy()), True, np.ndarray),
}


def values_of(thing: Any) -> Any:
    thing = thing.values if isinstance(thing, Old) else thing
    thing = thing.tensor if hasattr(thing, "tensor") else thing
    return np.asarray(thing) if not isinstance(thing, tvm_ffi.Tensor) else np.from_dlpack(thing)


@pytest.mark.promise("PRODUCERS-all", "T2", "T3", "T4")
@pytest.mark.parametrize("name", PRODUCERS)
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 1, 3)])
def test_a_producer_in_every_form(
    add: Any, rt: Any, unsupported: Any, name: str, shape: tuple[int, ...]
) -> None:
    make, writes, kind = PRODUCERS[name]
    values = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    x, y, want = make(values), make(2 * values), 3 * values
    out = np.zeros(shape, "f4")
    assert add.add_f32(x, y, out) is True
    assert np.array_equal(out, want)
    result: Any = add.add(x, y)
    assert isinstance(result, rt.Tensor if kind is object else kind), type(result)
    assert np.array_equal(values_of(result), want)
    assert tuple(values_of(result).shape) == want.shape
    assert any(": fits" in line for line in add.explain(x, y))
    call = add.bind(x, out, out)
    call.set(b=y)
    out[...] = 0
    call()
    assert np.array_equal(out, want)
    target = make(np.zeros(shape, "f4"))
    assert add.add_f32(x, y, target) is writes
    if name != "tvm-ffi's wrapper":  # which hides what it wraps
        assert np.array_equal(values_of(target), want if writes else 0 * want)
    if writes:
        assert add.add(x, y, out=target) is target
    else:
        with pytest.raises(unsupported, match=r"out: .*read-only"):
            add.add(x, y, out=target)


@pytest.mark.promise("PRODUCERS-mixed")
@pytest.mark.parametrize(
    ("first", "second"), [p for p in itertools.product(PRODUCERS, PRODUCERS) if p[0] != p[1]]
)
def test_mixed_producers(add: Any, rt: Any, first: str, second: str) -> None:
    """Two kinds in, a third out; an omitted out is of the first that makes tensors."""
    shape = (3, 4)
    values = np.arange(12, dtype="f4").reshape(shape)
    x, y = PRODUCERS[first][0](values), PRODUCERS[second][0](values + 1)
    for target in ("torch", "numpy", "tvm-ffi", "Tensor"):
        out = PRODUCERS[target][0](np.zeros(shape, "f4"))
        assert add.add_f32(x, y, out) is True
        assert np.array_equal(values_of(out), 2 * values + 1)
    kinds = [PRODUCERS[n][2] for n in (first, second)]
    nobodys = {"memoryview", "ctypes", "mmap", "old", "streams", "both"}
    kind = kinds[1] if first in nobodys else kinds[0]
    result = add.add(x, y)
    assert isinstance(result, rt.Tensor if kind is object else kind), type(result)
    assert np.array_equal(values_of(result), 2 * values + 1)


@pytest.mark.promise("PRODUCERS-all", "T7", "T20")
@pytest.mark.parametrize("name", PRODUCERS)
def test_no_references_are_kept(add: Any, name: str) -> None:
    values = np.ones((3, 4), "f4")
    x, y = PRODUCERS[name][0](values), PRODUCERS[name][0](values)
    out = np.zeros((3, 4), "f4")

    def calls() -> None:
        add.add_f32(x, y, out)
        add.add_f64(x, y, out)
        add.add(x, y)
        add.add(x, y, out=out)
        add.bind(x, y, out)()
        add.explain(x, y)
        for wrong in (lambda: add.add(x, out[:2]), lambda: add.bind(x, y, out[:2])):
            with pytest.raises(TypeError):
                wrong()

    calls()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in (x, y, out)]
    for _ in range(50):
        calls()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in (x, y, out)] == before


@pytest.mark.promise("T3", "T4")
@pytest.mark.parametrize("name", ["torch", "numpy", "jax", "tvm-ffi", "Tensor", "both"])
@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (2, 0, 3), (1, 1), (1, 3, 1)])
def test_few_and_no_elements(add: Any, name: str, shape: tuple[int, ...]) -> None:
    make = PRODUCERS[name][0]
    x = make(np.full(shape, 2, "f4"))
    result = add.add(x, x)
    assert tuple(result.shape) == shape
    assert np.array_equal(values_of(result), np.full(shape, 4, "f4"))
    out = np.zeros(shape, "f4")
    assert add.add_f32(x, x, out) is True
    assert (out == 4).all()


BOOLS: dict[str, Callable[[Any], Any]] = {
    "torch": torch.from_numpy,
    "jax": jax.numpy.asarray,
    "numpy": lambda v: v,
    "tvm-ffi": tvm_ffi.from_dlpack,
    "memoryview": memoryview,
    "array interface": lambda v: v.view(type("Sub", (np.ndarray,), {})),
}


@pytest.mark.promise("T11")
@pytest.mark.parametrize("name", BOOLS)
def test_bools(name: str) -> None:
    copy: Any = pytest.importorskip("aicf_cuda.copy")
    values = np.array([True, False, True])
    x, out = BOOLS[name](values), np.zeros(3, "?")
    assert copy.copy_bool(x, out) is True
    assert np.array_equal(out, values)
    assert copy.copy_u8(x, np.zeros(3, "u1")) is False
    assert copy.copy_bool(BOOLS[name](values.view("u1")), out) is False
    assert values_of(copy.copy(x)).dtype == np.dtype("?")


@pytest.mark.promise("T11")
def test_bools_of_other_bytes() -> None:
    """Whatever is not 0 is true, and is written as 1."""
    copy: Any = pytest.importorskip("aicf_cuda.copy")
    odd = np.array([0, 1, 2, 128, 255], "u1").view("?")
    assert copy.copy(odd).view("u1").tolist() == [0, 1, 1, 1, 1]


# ---- numpy's scalars and what else has a buffer ------------------------------------------------


@pytest.mark.promise("PRODUCERS-all", "T4")
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "?", "i1", "u1", "i2", "i4", "i8", "q", "l"])
def test_scalars_of_numpys(dtype: str, unsupported: Any) -> None:
    copy: Any = pytest.importorskip("aicf_cuda.copy")
    x = np.dtype(dtype).type(1)
    result = copy.copy(x)
    assert (result.shape, result.dtype, result.item()) == ((), np.dtype(dtype), 1)
    assert copy.copy(np.array(1, dtype)).dtype == np.dtype(dtype)
    with pytest.raises(unsupported, match="read-only"):
        copy.copy(x, out=x)


@pytest.mark.promise("PRODUCERS-all")
def test_buffers_without_a_framework(unsupported: Any) -> None:
    copy: Any = pytest.importorskip("aicf_cuda.copy")
    shared = mmap.mmap(-1, 8)
    shared[:] = b"12345678"
    for x in (b"12345678", bytearray(b"12345678"), shared, memoryview(shared),
              array.array("B", b"12345678"), (ctypes.c_uint8 * 8)(*b"12345678")):  # fmt: skip
        assert bytes(copy.copy(x)) == b"12345678"
        out = bytearray(8)
        assert copy.copy_u8(x, out) is True
        assert out == b"12345678"
    for read_only in (b"12345678", memoryview(b"12345678"),
                      mmap.mmap(-1, 8, prot=mmap.PROT_READ)):  # fmt: skip
        assert copy.copy_u8(shared, read_only) is False
        with pytest.raises(unsupported, match=r"out: .*read-only"):
            copy.copy(shared, out=read_only)
    assert copy.copy_u8(b"", bytearray(0)) is True
    assert copy.copy_i32((ctypes.c_int * 3)(1, 2, 3), np.zeros(3, "i4")) is True
    assert copy.copy_i64((ctypes.c_long * 3)(1, 2, 3), np.zeros(3, "i8")) is True
    big = (ctypes.c_float.__ctype_be__ * 3)(1, 2, 3)
    assert copy.copy_f32(big, np.zeros(3, "f4")) is False


@pytest.mark.promise("PRODUCERS-all", "S5")
def test_an_exporter_cannot_shrink_under_a_bound_call() -> None:
    copy: Any = pytest.importorskip("aicf_cuda.copy")
    source, out = bytearray(b"12345678"), np.zeros(8, "u1")
    call = copy.bind(source, out)
    with pytest.raises(BufferError):
        source.clear()
    call()
    assert bytes(out) == b"12345678"
    del call
    gc.collect()
    source.clear()


# ---- ml_dtypes ---------------------------------------------------------------------------------


@pytest.mark.promise("T12", "PRODUCERS-all")
@pytest.mark.parametrize(
    "view",
    [
        lambda v: v, lambda v: v.T, lambda v: v[::2], lambda v: v[:, ::-1], lambda v: v[1:, 2:],
        lambda v: v[0, 0], lambda v: v[:0], lambda v: v[None], lambda v: v.view(np.recarray),
        lambda v: np.broadcast_to(v[:1], v.shape),
    ],
)  # fmt: skip
def test_bfloat16_of_numpys(add: Any, view: Callable[[Any], Any]) -> None:
    base = np.arange(24).reshape(4, 6).astype(BF16)
    x = np.asanyarray(view(base))
    want = (x.astype("f4") * 2).astype(BF16)
    for _ in range(2):  # the first learns the dtype
        made = add.add(x, x)
        assert type(made) is np.ndarray
        assert (made.dtype, made.shape) == (np.dtype(BF16), x.shape)
        assert np.array_equal(made, want)
        out = np.zeros(x.shape, BF16)
        assert add.add_bf16(x, x, out) is True
        assert np.array_equal(out, want)
        call = add.bind(x, x, out)
        out[...] = 0
        call()
        assert np.array_equal(out, want)
    assert add.add_f16(x, x, np.zeros(x.shape, "f2")) is False
    assert add.add_bf16(x.view("u2"), x, out) is False


@pytest.mark.promise("T12", "FAULT-11")
def test_bfloat16_as_an_out(add: Any, unsupported: Any) -> None:
    x, base = np.ones((4, 6), BF16), np.zeros((4, 6), BF16)
    assert add.add(x[:, ::2], x[:, ::2], out=base[:, ::2]) is not None
    assert np.array_equal(base[:, ::2], 2 * x[:, ::2])
    assert not base[:, 1::2].any()
    base.flags.writeable = False
    assert add.add_bf16(x, x, base) is False
    with pytest.raises(unsupported, match=r"out: .*read-only"):
        add.add(x, x, out=base)
    assert add.add_bf16(
        torch.ones(4, 6, dtype=torch.bfloat16), jax.numpy.ones((4, 6), "bfloat16"), x
    )
    assert (x == 2).all()
    odd = np.zeros(49, "u1")[1:].view(BF16).reshape(4, 6)
    assert add.add_bf16(odd, odd, x) is False
    swapped = np.zeros((4, 6), np.dtype(BF16).newbyteorder(">"))
    assert add.add_bf16(swapped, x, x) is False
    with pytest.raises(unsupported, match="a: its byte order"):
        add.add(swapped, x)


@pytest.mark.promise("T12")
def test_an_out_of_bfloat16_for_numpy(zoo: Any) -> None:
    """An array of ml_dtypes', though no input is one."""
    gemm: Any = pytest.importorskip("aicf_cuda.gemm")
    x = np.ones((2, 2), BF16)
    assert gemm.gemm(x, x).dtype == np.dtype(BF16)
    mixed = sys.modules["aicf_cuda.add"].add(np.ones(2, "f4").data, np.ones(2, "f4"))
    assert mixed.dtype == np.dtype("f4")


@pytest.mark.promise("T12")
@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2", "float8_e3m4", "int4", "uint4", "float4_e2m1fn"]
)
def test_what_else_ml_dtypes_has(add: Any, unsupported: Any, name: str) -> None:
    x, out = np.ones(4, getattr(ml_dtypes, name)), np.zeros(4, "f4")
    for place in range(3):
        args = [out, out, out]
        args[place] = x
        assert add.add_f32(*args) is False
        with pytest.raises(unsupported, match=f"add: {('a', 'b', 'out')[place]}: .*dtype"):
            add.add(*args[:2], out=args[2])
    copy: Any = pytest.importorskip("aicf_cuda.copy")
    assert copy.copy_u8(x, np.zeros(4, "u1")) is False
    with pytest.raises(unsupported):
        copy.copy(x)


@pytest.mark.promise("T12")
def test_bfloat16_without_ml_dtypes_imported(alone: Any) -> None:
    """A module of that name that has no such class is none; no dtype of others is taken for it."""
    alone("""
        import sys, types
        import numpy as np, ml_dtypes
        from aicf_cuda import add
        x = np.ones(4, ml_dtypes.bfloat16)
        swapped = x.astype(x.dtype.newbyteorder(">"))
        assert add.add_bf16(swapped, swapped, swapped) is False  # the first that is met
        assert (swapped == 1).all()
        real = sys.modules.pop("ml_dtypes")
        for other in (None, types.ModuleType("ml_dtypes"), 3):
            if other is not None:
                sys.modules["ml_dtypes"] = other
            assert add.add_bf16(x, x, x) is False, other
        sys.modules["ml_dtypes"] = types.SimpleNamespace(bfloat16=real.float8_e5m2)
        assert add.add_bf16(x, x, x) is False
        sys.modules["ml_dtypes"] = real
        assert add.add_bf16(x, x, x) is True
        assert (x == 2).all()
    """)


# ---- jax ---------------------------------------------------------------------------------------


@pytest.mark.promise("PRODUCERS-all", "T1")
@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "int32"]
)
def test_jaxs_arrays(dtype: str) -> None:
    copy: Any = pytest.importorskip("aicf_cuda.copy")
    x = jax.numpy.arange(12).reshape(3, 4).astype(dtype)
    made = copy.copy(x)
    assert isinstance(made, jax.Array)
    assert (made.dtype, made.shape) == (x.dtype, x.shape)
    assert bool((made == x).all())
    assert bool((jax.jit(lambda a: a + a)(made) == x + x).all())  # it is one of jax's own


@pytest.mark.promise("FAULT-11")
def test_jaxs_arrays_are_never_written(add: Any, unsupported: Any) -> None:
    x = jax.numpy.ones(4, "float32")
    for by in (lambda v: v, np.asarray, memoryview):
        out = by(x)
        assert add.add_f32(x, x, out) is False
        with pytest.raises(unsupported, match=r"out: .*read-only"):
            add.add(x, x, out=out)
    assert bool((x == 1).all())


@pytest.mark.promise("A11")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_jaxs_arrays_without_memory_are_refused(add: Any, unsupported: Any, dtype: str) -> None:
    gone, there = jax.numpy.ones(4, dtype), jax.numpy.ones(4, dtype)
    gone.delete()
    with pytest.raises(unsupported, match=r"^add: b: it has no plain memory"):
        add.add(there, gone)
    assert add.add_f32(there, gone, np.empty(4, "float32")) is False
    assert bool((add.add(there, there) == 2).all())


@pytest.mark.promise("A11")
def test_what_has_no_memory_is_named_by_what_torch_says_of_it(add: Any, unsupported: Any) -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(4)
    its = (
        r"^add: b: it has no plain .*; its class is {}, its dtype {}, its device {}, its layout {}$"
    )
    cases = [
        (fake, "FakeTensor", "torch.float32", "cpu", "torch.strided"),
        (torch.zeros(4, device="meta"), "Tensor", "torch.float32", "meta", "torch.strided"),
        (torch.zeros(4).to_sparse(), "Tensor", "torch.float32", "cpu", "torch.sparse_coo"),
    ]
    for x, *words in cases:
        with pytest.raises(unsupported, match=its.format(*words)):
            add.add(torch.zeros(4), x)
        with pytest.raises(unsupported, match=its.format(*words)):
            add.bind(torch.zeros(4), x, torch.zeros(4))


@pytest.mark.promise("A11")
def test_what_a_class_of_torchs_tensors_raises_is_shown(add: Any) -> None:
    """Its __torch_function__ is asked for all that is done with it: no word of torch's."""

    class Angry(torch.Tensor):  # type: ignore[misc,name-defined]
        @classmethod
        def __torch_function__(cls, *given: Any, **named: Any) -> Any:
            raise LookupError("no such method here")

    x, angry = torch.zeros(4), torch.zeros(4).as_subclass(Angry)
    for call in (lambda: add.add(angry, x), lambda: add.bind(angry, x, torch.zeros(4))):
        with pytest.raises(LookupError, match="no such method here"):
            call()


@pytest.mark.promise("A11")
def test_jaxs_tracers_are_refused(add: Any) -> None:
    """There is no memory while a function is traced: jax's own words, and which argument."""

    def traced(x: Any) -> Any:
        return add.add(x, x)

    with pytest.raises(Exception) as raised:  # noqa: PT011 - jax's own classes
        jax.jit(traced)(jax.numpy.ones(4, "float32"))
    assert "add: a" in notes_of(raised.value) + str(raised.value)


def notes_of(fault: BaseException) -> str:
    return "\n".join(getattr(fault, "__notes__", []))


def test_a_name_that_only_begins_like_jaxs(add: Any) -> None:
    """The class of a package like jaxtyping is no jax array."""

    class Array(np.ndarray):
        pass

    class Other(Both):
        pass

    Other.__module__ = "jaxlike.arrays"
    assert add.add_f32(np.ones(4, "f4"), np.ones(4, "f4"), Other(np.ones(4, "f4"))) is True
    assert type(add.add(Other(np.ones(4, "f4")), np.ones(4, "f4"))) is np.ndarray


# ---- tvm-ffi -----------------------------------------------------------------------------------


@pytest.mark.promise("PRODUCERS-all", "EXCHANGE-allocator", "T7")
@pytest.mark.parametrize("wrap", [False, True])
def test_tvm_ffis_tensors(add: Any, wrap: bool) -> None:
    """Its Tensor has no exchange API; the wrapper has one that neither borrows nor allocates."""
    values = np.arange(12, dtype="f4").reshape(3, 4).T
    x = tvm_ffi.from_dlpack(values)
    made = add.add(tvm_ffi.core.DLTensorTestWrapper(x) if wrap else x, x)
    assert type(made) is tvm_ffi.Tensor
    assert made.strides == (1, 4)
    assert np.array_equal(np.from_dlpack(made), values + values)
    view = np.from_dlpack(made)
    del made
    gc.collect()
    assert np.array_equal(view, values + values)


# ---- torch -------------------------------------------------------------------------------------


@pytest.mark.promise("T17", "A11", "A12")
def test_torchs_verdict_is_one_beside_others(add: Any, unsupported: Any) -> None:
    y = np.ones(4, "f4")
    refused = {
        "conj": torch.ones(4, dtype=torch.complex64).conj(),
        "sparse": torch.ones(4).to_sparse(),
        "meta": torch.ones(4, device="meta"),
        "neg": torch.ones(4, dtype=torch.complex64).conj().imag,
    }
    for name, x in refused.items():
        for args in ((x, y), (y, x)):
            with pytest.raises((unsupported, TypeError, BufferError)) as raised:
                add.add(*args)
            said = str(raised.value) + notes_of(raised.value)
            assert f"add: {'a' if args[0] is x else 'b'}" in said, (name, said)
    with pytest.raises(unsupported, match=r"b: .*detach"):
        add.add(y, torch.ones(4, requires_grad=True))
