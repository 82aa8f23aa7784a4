"""infer: what a call would give or say, without doing it. And Specs, the tensors without memory."""

from __future__ import annotations

import copy
import pickle
import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from doors.draw import NAMES, Draw, described, spec_of, table_of

MOST = 12_000  # draws of a row, of which more than 40 are to fit

# ---- one verdict ---------------------------------------------------------------------------------


def outcome(function: Any, args: Any, named: dict[str, Any]) -> tuple[Any, ...]:
    """What came out, or the fault: its type, its words, what it is about."""
    try:
        return ("ok", function(*args, **named))
    except Exception as fault:
        about = (getattr(fault, "op", None), getattr(fault, "arg", None))
        return (type(fault).__name__, str(fault), *about)


def strides_of(array: Any) -> list[int]:
    """In elements, where they count."""
    steps = zip(array.shape, array.strides, strict=True)
    return [s // array.itemsize for n, s in steps if n > 1 and array.size]


def same(array: Any, spec: Any) -> bool:
    if array is None:
        return True
    counted = [s for n, s in zip(spec.shape, spec.strides, strict=True) if n > 1 and array.size]
    said = (spec.shape, spec.dtype, counted, spec.device)
    return bool(said == (array.shape, NAMES[array.dtype], strides_of(array), "cpu"))


def results(answer: Any) -> list[Any]:
    return [] if answer is None else list(answer) if isinstance(answer, tuple) else [answer]


def agree(module: Any, row: dict[str, Any], args: Any, named: dict[str, Any]) -> bool:
    """Whether it ran; the generic form last, since it may write to its arguments."""
    told = [
        outcome(module.infer, args, named),
        outcome(module.infer, described(args), {k: described(v) for k, v in named.items()}),
    ]
    mixed = [described(arg) if i % 2 else arg for i, arg in enumerate(args)]
    told.append(outcome(module.infer, mixed, named))
    ran = outcome(getattr(module, row["row"]["op"]), args, named)
    for said in told:
        if ran[0] != "ok":
            assert said == ran, (args, named)
            continue
        assert said[0] == "ok", (said, ran, args, named)
        assert len(said[1]) == len(row["row"]["outs"])
        for array, spec in zip(results(ran[1]), said[1], strict=False):
            given = any(array is v for v in named.values())
            assert same(array, spec) or (given and array.shape == spec.shape), (args, named, said)
    return bool(ran[0] == "ok")


@pytest.mark.promise("DOORS-infer")
@pytest.mark.parametrize("which", ["aicf_cuda", "zoo_ops"])
def test_infer_says_what_the_call_says(which: str, zoo: ModuleType) -> None:
    package = zoo if which == "zoo_ops" else pytest.importorskip(which)
    for name, row in sorted(table_of(package).items()):
        dice = random.Random(name)
        ran, tried = 0, 0
        while tried < 300 or (ran <= 40 and tried < MOST):
            args, named = Draw(dice, row, (0, 0.02, 0.1)[tried % 3]).call()
            if name == "fail":
                named.pop("kind", None)  # its launch fails, and infer has none
            given = [a for a in args if a is not None]
            if all(isinstance(a, list) and not a for a in given):  # nothing says a scalar's dtype
                named = {k: 1 if isinstance(v, np.ndarray) else v for k, v in named.items()}
            ran += agree(getattr(package, name), row, args, named)
            tried += 1
        assert ran > 40, (name, ran)
        assert tried - ran > 10, (name, ran)


@pytest.mark.promise("DOORS-infer")
def test_what_only_memory_has(zoo: ModuleType, unsupported: Any) -> None:
    """Overlaps and read-only outs are seen where the tensors are real."""
    p, lr = np.ones(3, "f4"), {"lr": 1}
    with pytest.raises(unsupported, match=r"step: ps\[0\]: .*shares memory with gs\[0\]"):
        zoo.step.infer([p], [p], **lr)
    assert zoo.step.infer([spec_of(p)], [spec_of(p)], **lr) == ()
    one = spec_of(p)
    assert zoo.step.infer([one, one], [one, p], [one, one], **lr) == ()
    p.setflags(write=False)
    with pytest.raises(unsupported, match=r"step: ps\[0\]: it is read-only"):
        zoo.step.infer([p], [one], **lr)
    itself = copy.copy(one).__class__((4,), "f32", strides=(0,))
    with pytest.raises(unsupported, match=r"step: ps\[0\]: its own elements share memory"):
        zoo.step.infer([itself], [spec_of(np.ones(4, "f4"))], **lr)


@pytest.mark.promise("DOORS-infer")
def test_outs_that_are_asked_for(zoo: ModuleType, rt: Any, unsupported: Any) -> None:
    x = rt.Spec((2, 3), "f32")
    all_outs = (x, rt.Spec(2, "f32"), rt.Spec(2, "i64"))
    every = zoo.every.infer
    assert every(x, lr=1) == every(x, lr=1, mean=True) == all_outs
    assert every(x, lr=1, out=np.empty((2, 3), "f4"), counted=rt.Spec(2, "i64")) == all_outs
    with pytest.raises(unsupported, match=r"every: mean: its shape must be M, .*got f32 \(3,\)"):
        every(x, lr=1, mean=rt.Spec(3, "f32"))
    assert zoo.parts.infer(x) == zoo.parts.infer(x, half=True) == (x, x)
    assert zoo.cast.infer(x)[0].dtype == "f64"
    assert zoo.cast.infer(x, dtype="i32")[0].dtype == "i32"
    assert zoo.cast.infer(x, out=rt.Spec((2, 3), np.float32))[0].dtype == "f32"


@pytest.mark.promise("DOORS-infer")
def test_sizes_that_no_memory_has(add: Any, zoo: ModuleType, rt: Any, unsupported: Any) -> None:
    """Nothing is allocated; what all tensors of a call could never be is refused."""
    large = rt.Spec(2**50, "f32")
    assert add.infer(large, large) == (large,)
    assert zoo.join.infer([rt.Spec((2**40, 2), "i32")] * 3)[0].shape == (3 * 2**40, 2)
    third = rt.Spec(3 * 2**57, "f32")
    with pytest.raises(unsupported, match="add: out: its elements are more than memory can hold"):
        add.infer(third, third)
    with pytest.raises(ValueError, match="Spec: its elements are more than memory can hold"):
        rt.Spec(2**62, "f32")


@pytest.mark.promise("DOORS-infer")
def test_dtypes_and_devices_of_others(add: Any, rt: Any, unsupported: Any) -> None:
    for dtype, said in (("complex64", "c64"), ("u16", "u16"), ("uint64", "u64"),
                        ("float8_e4m3fn", "DLPack dtype 10 of 8 bits")):  # fmt: skip
        spec = rt.Spec(3, dtype)
        with pytest.raises(unsupported) as fault:
            add.infer(spec, spec)
        assert str(fault.value) == (
            "add: a: its dtype is not taken; allowed: f32, f16, bf16, f64, i8, u8, i16, i32, i64; "
            f"got {said} (3,) on cpu"
        )
    for device in ("metal:0", "cpu:1", "cuda_host:2", "webgpu:1"):
        spec = rt.Spec(3, "f32", device=device)
        assert spec.device == device
        with pytest.raises(unsupported, match=f"on {device}$"):
            add.infer(rt.Spec(3, "f32"), spec)


@pytest.mark.promise("DOORS-infer")
def test_explain_takes_specs(add: Any, zoo: ModuleType, rt: Any) -> None:
    x = np.ones((3, 4), "f4")
    spec = spec_of(x)
    assert add.explain(spec, spec) == add.explain(x, x) == add.explain(x, spec, spec)
    assert add.explain(spec, spec_of(x[:, :3]))[0].startswith("add: out: its shape must be")
    assert any("fits" in line for line in add.explain(rt.Spec(2**50, "f32"), x[:1, :1]))
    lines = zoo.every.explain(rt.Spec((1, 1000), "f32"), lr=rt.Spec((), "f32"))
    assert lines[0] == "rows: N < 1000: N = 1000"
    assert zoo.cast.explain(x, dtype="f32")[0].startswith("loop: fits")
    with pytest.raises(TypeError, match="cast: dtype takes one of"):
        zoo.cast.explain(x, dtype="i8")


@pytest.mark.promise("DOORS-infer")
def test_no_other_form_takes_specs(add: Any, zoo: ModuleType, rt: Any) -> None:
    x = np.ones(3, "f4")
    spec, said = rt.Spec(3, "f32"), "is a Spec, which has no memory: infer and explain alone take"
    call = add.bind(x, x, x.copy())
    for refused in (
        lambda: add.add(spec, x), lambda: add.add(x, x, out=spec), lambda: add.bind(x, spec, x),
        lambda: add.add_f32(x, x, spec), lambda: call.set(a=spec),
        lambda: zoo.step.step([x], [spec], lr=1), lambda: zoo.shift.shift(x, by=rt.Spec((), "f32")),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=said):
            refused()


# ---- Spec ----------------------------------------------------------------------------------------


@pytest.mark.promise("DOORS-spec")
def test_what_a_spec_is(rt: Any) -> None:
    spec = rt.Spec((2, 3), "f32")
    assert (spec.shape, spec.dtype, spec.strides, spec.device) == ((2, 3), "f32", (3, 1), "cpu")
    assert rt.Spec(4, np.int16).shape == (4,)
    assert rt.Spec([np.int8(2)], np.dtype("f8")).dtype == "f64"
    assert rt.Spec((), "bool").strides == ()
    assert rt.Spec((2, 3), "f32", device="cuda").device == "cuda:0"
    assert rt.Spec((2, 3), "f32", strides=(-3, 1)).strides == (-3, 1)
    for name in ("shape", "dtype", "other"):
        with pytest.raises(AttributeError):
            setattr(spec, name, 1)
    with pytest.raises(TypeError):
        type("Own", (rt.Spec,), {})


@pytest.mark.promise("DOORS-spec")
def test_specs_are_equal_where_their_attributes_are(rt: Any) -> None:
    spec = rt.Spec((2, 1, 3), "f32")
    for equal in (
        rt.Spec([2, 1, 3], "float32", device="cpu"), rt.Spec((2, 1, 3), "f32", strides=(3, 3, 1)),
    ):  # fmt: skip
        assert equal == spec
        assert hash(equal) == hash(spec)
    assert rt.Spec((0, 5), "f32").strides == (5, 1)
    for other in (
        rt.Spec((2, 1, 3), "f16"), rt.Spec((2, 3), "f32"), rt.Spec((2, 1, 3), "f32", device="cuda"),
        rt.Spec((2, 1, 3), "f32", strides=(3, 7, 1)), (2, 1, 3), None, "Spec",
    ):  # fmt: skip
        assert spec != other
    with pytest.raises(TypeError):
        assert spec < spec
    assert {spec: 1}[rt.Spec((2, 1, 3), "f32")] == 1


@pytest.mark.promise("DOORS-spec")
def test_a_spec_is_printed_and_pickled(rt: Any) -> None:
    for spec, text in (
        (rt.Spec((2, 3), "f32"), "Spec((2, 3), 'f32')"),
        (rt.Spec((), "i64", device="cuda:1"), "Spec((), 'i64', device='cuda:1')"),
        (rt.Spec((2, 3), "c64", strides=(1, 2)), "Spec((2, 3), 'c64', strides=(1, 2))"),
        (rt.Spec((1, 0), "f32", strides=(7, 7)), "Spec((1, 0), 'f32', strides=(7, 7))"),
        (rt.Spec(3, "float8_e5m2"), "Spec((3,), 'float8_e5m2')"),
    ):
        assert repr(spec) == text
        assert eval(text, {"Spec": rt.Spec}) == spec
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(spec, protocol)) == spec
        assert copy.deepcopy(spec) == copy.copy(spec) == spec


@pytest.mark.promise("DOORS-spec", "D4")
def test_what_is_no_spec(rt: Any) -> None:
    for args, named, kind, words in (
        (((2,), "x"), {}, TypeError, "Spec: 'x' is no dtype of the table"),
        (((2,), "i24"), {}, TypeError, "Spec: 'i24' is no dtype of the table"),
        (((2,), None), {}, TypeError, "Spec: None is no dtype of the table"),
        (((2, -1), "f32"), {}, ValueError, "Spec: a size is negative"),
        ((-1, "f32"), {}, ValueError, "Spec: a size is negative"),
        (({2}, "f32"), {}, TypeError, "'set' object"),
        ((None, "f32"), {}, TypeError, "Spec: shape is neither an int nor a sequence of ints"),
        (((1,) * 65, "f32"), {}, ValueError, "Spec: 65 dims, at most 64"),
        (((2,), "f32"), {"strides": (1, 1)}, ValueError,
         "Spec: a shape of 1 dims has as many strides, not 2"),
        (((2,), "f32"), {"strides": "x"}, TypeError, "'str' object"),
        (((2,), "f32"), {"device": "gpu"}, TypeError,
         "Spec: device 'gpu' is none of 'cpu', 'cuda', 'cuda:1'"),
        (((2**32, 2**32), "f32"), {}, ValueError, "Spec: its elements are more than memory"),
        (((2,), "f32"), {"strides": (2**62,)}, ValueError, "Spec: its elements are more than"),
        (((2**70,), "f32"), {}, OverflowError, ""),
        (((2,),), {}, TypeError, "dtype"), (((2,), "f32"), {"order": "C"}, TypeError, "order"),
    ):  # fmt: skip
        with pytest.raises(kind) as fault:
            rt.Spec(*args, **named)
        assert words in str(fault.value), (args, named)
