"""What each framework gets, line by line of docs/guests.md: a line asks the code, and what it
answers is the cell of the page."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Guest:
    """`make(array)` is the framework's own tensor of an array of numpy's values; `needs`: what has
    to be installed."""

    name: str
    make: Callable[[Any], Any]
    needs: tuple[str, ...] = ()
    gpu: bool = False

    def ones(self, shape: tuple[int, ...] = (2, 3), dtype: str = "f4") -> Any:
        return self.make(np.ones(shape, dtype))


def module(name: str) -> Any:
    return importlib.import_module(name)


def of_numba(values: Any) -> Any:
    return module("numba.cuda").to_device(values)


def of_jax(values: Any) -> Any:
    """On the host also where there is a device."""
    jax = module("jax")
    return jax.device_put(values, jax.devices("cpu")[0])


GUESTS = (
    Guest("numpy", lambda v: v.copy(order="K")),
    Guest("torch", lambda v: module("torch").from_numpy(v.copy(order="K")), ("torch",)),
    Guest("jax", of_jax, ("jax",)),
    Guest("tvm-ffi", lambda v: module("tvm_ffi").from_dlpack(v.copy(order="K")), ("tvm_ffi",)),
    Guest("a buffer", lambda v: memoryview(v.copy(order="K"))),
    Guest("cupy", lambda v: module("cupy").asarray(v), ("cupy",), gpu=True),
    Guest("numba", of_numba, ("numba",), gpu=True),
)
HOST = [g for g in GUESTS if not g.gpu]
DEVICE = [g for g in GUESTS if g.gpu]


class Ops:
    """The ops that lines call; those of `zoo`, which a generator makes, where that is there."""

    def __init__(self, zoo: ModuleType | None = None) -> None:
        for name in ("add", "scale", "sum"):
            setattr(self, name, getattr(module(f"aicf_cuda.{name}"), name))
        self.typed = module("aicf_cuda.add").add_f32
        if zoo is not None:
            self.every, self.shift = zoo.every.every, zoo.shift.shift

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def kind(value: Any) -> str:
    """The class of a tensor, as its users know it."""
    known = {"ArrayImpl": "jax.Array", "ndarray": f"{type(value).__module__}.ndarray"}
    name = type(value).__name__
    where = type(value).__module__.partition(".")[0]
    return f"`{known.get(name, f'{where}.{name}').replace('cupy._core.core', 'cupy')}`"


def answer(call: Callable[[], Any]) -> str:
    """ "taken", or what is raised, up to where it tells what came."""
    try:
        call()
    except (TypeError, ValueError, BufferError) as fault:
        words = str(fault).partition(": ")[2] if ": " in str(fault) else str(fault)
        for end in (";", ", with", ", not "):
            words = words.partition(end)[0]
        return f"`{type(fault).__name__}`: {words}"
    return "taken"


# ---- what differs from one to the next ---------------------------------------------------------


def omitted(ops: Ops, g: Guest) -> str:
    return kind(ops.add(g.ones(), g.ones()))


def given(ops: Ops, g: Guest) -> str:
    out = g.ones()
    said = answer(lambda: ops.add(g.ones(), g.ones(), out=out))
    return "itself" if said == "taken" and ops.add(g.ones(), g.ones(), out=out) is out else said


def strides_of(made: Any) -> tuple[int, ...]:
    """In elements."""
    if hasattr(made, "stride"):
        return tuple(made.stride())
    if hasattr(made, "itemsize") and not callable(made.itemsize):
        return tuple(s // made.itemsize for s in made.strides)
    return tuple(made.strides)


def order(ops: Ops, g: Guest) -> str:
    """Of add's out, whose row says `order: a`."""
    x = g.make(np.asfortranarray(np.ones((2, 3), "f4")))
    made = ops.add(x, x)
    if kind(made) == "`jax.Array`":
        return "has none"
    return "that of `a`" if strides_of(made) == (1, 2) else "row-major"


def gaps(ops: Ops, g: Guest) -> str:
    x = g.ones((4, 3))
    try:
        view = x[::2]
    except (TypeError, NotImplementedError):
        return "has none"
    return answer(lambda: ops.add(view, view))


def backwards(ops: Ops, g: Guest) -> str:
    x = g.ones((4,))
    try:
        view = x[::-1]
    except (TypeError, ValueError, NotImplementedError):
        return "has none"
    return answer(lambda: ops.add(view, view))


def bf16(ops: Ops, g: Guest) -> str:
    """An array of ml_dtypes' for numpy, the framework's own for others."""
    word = module("ml_dtypes").bfloat16
    if g.name == "torch":
        x = g.ones().to(module("torch").bfloat16)
    elif g.name == "a buffer":
        return "has none"
    elif g.name == "tvm-ffi":
        x = module("tvm_ffi").from_dlpack(module("torch").ones(3).bfloat16())
    else:
        x = g.make(np.ones(3, word))
    return answer(lambda: ops.add(x, x))


def read_only(ops: Ops, g: Guest) -> str:
    """As an out."""
    frozen = np.ones((2, 3), "f4")
    frozen.setflags(write=False)
    if g.name in ("torch", "tvm-ffi"):
        return "has none"
    out: Any = frozen
    if g.name != "numpy":
        out = g.ones() if g.name == "jax" else memoryview(frozen.data)
    return answer(lambda: ops.add(g.ones(), g.ones(), out=out))


def swapped(ops: Ops, g: Guest) -> str:
    """The other byte order."""
    if g.name not in ("numpy",):
        return "has none"
    x = np.ones((2, 3), ">f4")
    return answer(lambda: ops.add(x, x))


def subclass(ops: Ops, g: Guest) -> str:
    if g.name == "numpy":
        x: Any = np.ones((2, 3), "f4").view(np.recarray)
    elif g.name == "torch":
        x = module("torch").nn.Parameter(g.ones(), requires_grad=False)
    else:
        return "has none"
    return f"taken; gives {kind(ops.add(x, x))}"


def special(ops: Ops, g: Guest) -> str:
    """Those whose memory is not the whole of them."""
    if g.name == "numpy":
        return "masked: " + answer(lambda: ops.add(np.ma.ones(3, "f4"), np.ones(3, "f4")))
    if g.name == "torch":
        meta = module("torch").ones(3, device="meta")
        return "meta: " + answer(lambda: ops.add(meta, meta))
    return "has none"


def gradient(ops: Ops, g: Guest) -> str:
    if g.name != "torch":
        return "has none"
    x = g.ones().requires_grad_()
    said = answer(lambda: ops.add(x, x))
    assert ops.typed(x, x, g.ones()) is True
    return said.partition(", which")[0]


def own_scalar(ops: Ops, g: Guest) -> str:
    """Without dims, of the row's dtype."""
    one = g.make(np.array(3, "f4"))
    said = answer(lambda: ops.scale(g.ones(), factor=one))
    return f"{said} by its address" if said == "taken" else said


def other_scalar(ops: Ops, g: Guest) -> str:
    """Without dims, of another dtype."""
    one = g.make(np.array(3, "i4"))
    said = answer(lambda: ops.scale(g.ones(), factor=one))
    return f"{said} as its number" if said == "taken" else said


def own_attribute(ops: Ops, g: Guest) -> str:
    one = g.make(np.array(1, "i4"))
    return answer(lambda: ops.every(g.ones(), lr=1, times=one))


DIFFERENCES: dict[str, Callable[[Ops, Guest], str]] = {
    "an omitted out is": omitted,
    "what `out=` gives back": given,
    "memory order of an omitted out": order,
    "views with gaps": gaps,
    "negative strides": backwards,
    "bf16": bf16,
    "a read-only out": read_only,
    "the other byte order": swapped,
    "subclasses": subclass,
    "without plain memory": special,
    "`requires_grad`": gradient,
    "a scalar of its own, of the row's dtype": own_scalar,
    "a scalar of its own, of another dtype": other_scalar,
    "an int attribute of its own": own_attribute,
}
ON_DEVICE = ("an omitted out is", "what `out=` gives back", "memory order of an omitted out",
             "a scalar of its own, of the row's dtype")  # fmt: skip


# ---- what is the same for all ------------------------------------------------------------------

# Lines that write to an out of the guest's are asked of an array of numpy's where it has none.
Line = Callable[[Ops, Guest], str]


def out_of(g: Guest, shape: tuple[int, ...] = (2, 3), dtype: str = "f4") -> Any:
    return np.ones(shape, dtype) if g.name == "jax" else g.ones(shape, dtype)


def in_place(ops: Ops, g: Guest) -> str:
    a = out_of(g)
    return answer(lambda: ops.add(a, g.ones(), out=a))


SAME: dict[str, Line] = {
    "`add(a, b)` of f32 and f64": lambda o, g: answer(
        lambda: o.add(g.ones(), g.ones(dtype="f8" if g.name != "jax" else "f2"))
    ),
    "`add(a, b)` of f32 and i32": lambda o, g: answer(lambda: o.add(g.ones(), g.ones(dtype="i4"))),
    "`add(a, b)` of complex": lambda o, g: answer(
        lambda: o.add(*[np.ones(3, "c8") if g.name == "a buffer" else g.ones(dtype="c8")] * 2)
    ),
    "`add(a, 2)`": lambda o, g: answer(lambda: o.add(g.ones(), 2)),
    "`add(a, [1, 2, 3])`": lambda o, g: answer(lambda: o.add(g.ones(), [1, 2, 3])),
    "`add(a, b)` of (2, 3) and (3,)": lambda o, g: answer(lambda: o.add(g.ones(), g.ones((3,)))),
    "`add(a, b)` of (2, 3) and (2,)": lambda o, g: answer(lambda: o.add(g.ones(), g.ones((2,)))),
    "`add(a, b)` with another framework's `b`": lambda o, g: answer(
        lambda: o.add(g.ones(), np.ones((2, 3), "f4"))
    ),
    "a size of 0": lambda o, g: answer(lambda: o.add(g.ones((0, 3)), g.ones((0, 3)))),
    "`add(a, b, out)`": lambda o, g: answer(lambda: o.add(g.ones(), g.ones(), g.ones())),
    "`out=None`": lambda o, g: answer(lambda: o.add(g.ones(), g.ones(), out=None)),
    "`out=` of another dtype": lambda o, g: answer(
        lambda: o.add(g.ones(), g.ones(), out=out_of(g, dtype="f2"))
    ),
    "`out=` of another shape, also one that it broadcasts to": lambda o, g: answer(
        lambda: o.add(g.ones(), g.ones(), out=out_of(g, (4, 2, 3)))
    ),
    "`out=(out,)`, as a tuple": lambda o, g: answer(
        lambda: o.add(g.ones(), g.ones(), out=(out_of(g),))
    ),
    "`out=a`": in_place,
    "`casting=`, `where=`, `dtype=` as of numpy's ufuncs": lambda o, g: answer(
        lambda: o.add(g.ones(), g.ones(), casting="unsafe")
    ),
    "a number: `factor=2`, `2.5`, `np.float32(2)`, `np.int8(2)`, `np.array(2)`": lambda o, g: (
        "; ".join(
            sorted(
                {
                    answer(lambda: o.scale(g.ones(), factor=f))
                    for f in (2, 2.5, np.float32(2), np.int8(2), np.array(2), np.float64(2))
                }
            )
        )
    ),
    "a bool for a number: `factor=True`": lambda o, g: answer(
        lambda: o.scale(g.ones(), factor=True)
    ),
    "an integer that its dtype does not hold": lambda o, g: answer(
        lambda: o.shift(g.ones(dtype="i4"), by=2**31)
    ),
    "0.5 for an integer": lambda o, g: answer(lambda: o.shift(g.ones(dtype="i4"), by=0.5)),
    "a bool attribute: `np.True_`": lambda o, g: answer(lambda: o.sum(g.ones(), keepdim=np.True_)),
    "a bool attribute: `1`": lambda o, g: answer(lambda: o.sum(g.ones(), keepdim=1)),
    "an int attribute: `np.int64(1)`, `np.array(1)`": lambda o, g: "; ".join(
        sorted({answer(lambda: o.sum(g.ones(), axes=a)) for a in (np.int64(1), np.array(1))})
    ),
    "an int attribute: `1.0`": lambda o, g: answer(lambda: o.sum(g.ones(), axes=1.0)),
}
