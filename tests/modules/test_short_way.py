"""Random views of one arena, from every producer that can show them, through the call that is made
most and through the long way of the same kernel: one verdict, the same bytes, and what numpy says
of them in float64."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from modules.fake_exchange import Framework
from modules.fake_producer import EXPORTED, READ_ONLY, FakeProducer

BYTES = 4096
CODES = {"f4": (2, 32), "f2": (2, 16), "f8": (2, 64), "i4": (0, 32), "?": (6, 8), "i8": (0, 64)}
NAMES = {"f4": "f32", "f2": "f16", "f8": "f64", "i4": "i32", "?": "bool", "i8": "i64"}


@dataclass(slots=True)
class View:
    """What a producer shows: bytes of the arena, strides in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    read_only: bool = False

    @property
    def item(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    @property
    def dims(self) -> list[tuple[int, int]]:
        """Those that count: size and stride."""
        return [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n > 1]

    @property
    def dense(self) -> bool:
        below = 1
        for size, stride in reversed(self.dims):
            if stride != below:
                return self.empty
            below *= size
        return True

    def reach(self) -> tuple[int, int]:
        """The bytes from the first element on that it lies in."""
        steps = [(n - 1) * s for n, s in self.dims]
        low, high = sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps)
        return (0, 0) if self.empty else (low * self.item, (high + 1) * self.item)

    def span(self) -> tuple[int, int]:
        low, high = self.reach()
        return self.offset + low, self.offset + high

    def touched(self) -> set[int]:
        """Each byte of each element."""
        places = np.full((), self.offset, "i8")
        for size, stride in self.dims:
            places = places[..., None] + np.arange(size) * stride * self.item
        return {int(at) + i for at in places.ravel() for i in range(self.item) if not self.empty}

    def same(self, other: View) -> bool:
        """The same elements in the same order."""
        return (self.offset, self.dtype, self.dims) == (other.offset, other.dtype, other.dims)

    def within(self, arena: Any) -> Any:
        """As an array, with strides of dims of one as they are, where numpy can hold them."""
        strides = [s * self.item if abs(s) < 2**50 else 0 for s in self.strides]
        if self.empty:
            return np.ndarray(self.shape, self.dtype, arena.data)
        return np.ndarray(self.shape, self.dtype, arena.data, self.offset, strides)


@dataclass(slots=True)
class Op:
    name: str
    dtypes: tuple[str, ...]
    args: int
    outs: int
    exact: bool
    reference: Any
    keywords: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    strided: bool = True


OPS = [
    Op("add", ("f4", "f2", "f8"), 2, 1, True, lambda a, b: [a + b]),
    Op("relu", ("f4", "f2", "f8"), 1, 1, True, lambda x: [np.where(x <= 0, 0, x)]),
    Op("relu_bwd", ("f4", "f2", "f8"), 2, 1, True, lambda g, y: [np.where(y <= 0, 0, g)]),
    Op("copy", ("f4", "f2", "f8", "i4", "i8", "?"), 1, 1, False, lambda x: [x]),
    Op(
        "scale", ("f4", "f2", "f8"), 1, 1, True, lambda x, factor: [x * np.float64(factor)],
        {"factor": (0, 1, -2.5, 2**70, -(2**63), float("inf"), float("nan"), -0.0, np.float32(3))},
    ),
    Op("parts", ("f4",), 1, 2, False, lambda x: [x * 2, x / 2], strided=False),
    Op(
        "shift", ("f4", "i4"), 1, 1, False, lambda x, by: [x + by],
        {"by": (0, 1, -3, 2**31 - 1, 2**31, -(2**31), 2**80, np.int8(4))}, strided=False,
    ),
]  # fmt: skip


def view_like(dice: random.Random, shape: tuple[int, ...], dtype: str) -> View:
    """Of that shape, and mostly dense, somewhere in the arena."""
    kind = dice.choice(["dense"] * 6 + ["odd", "odd", "padded", "turned", "backwards", "repeated"])
    order = list(range(len(shape)))
    if kind == "turned":
        dice.shuffle(order)
    strides, below = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = below
        below *= max(shape[dim], 1)
        below += dice.randrange(3) if kind == "padded" else 0
    for dim, size in enumerate(shape):
        if kind == "odd" and size == 1:
            strides[dim] = dice.choice([0, -7, 5, 2**40, -(2**62), 2**63 - 1])
        elif kind == "backwards" and dice.randrange(2):
            strides[dim] = -strides[dim]
        elif kind == "repeated" and dice.randrange(2):
            strides[dim] = 0
    view = View(0, shape, tuple(strides), dtype)
    low, high = view.reach()
    if high - low > BYTES:
        return view_like(dice, shape, dtype)
    view.offset = -low + view.item * dice.randrange(max((BYTES - (high - low)) // view.item, 1))
    return view


def case_of(dice: random.Random, op: Op) -> tuple[str, list[View]]:
    dtype = dice.choice(op.dtypes)
    rank = dice.choice([0, 1, 1, 2, 2, 3, 4, 8, 9, 12])
    sizes = [1, 1, 2, 3, 5, 7] if rank < 5 else [1, 1, 1, 2]
    shape = tuple(dice.choice(sizes + [0] * (dice.randrange(12) == 0)) for _ in range(rank))
    while np.prod(shape, dtype=object) * 8 > BYTES // 4:
        shape = shape[1:]
    views: list[View] = []
    for _ in range(op.args + op.outs):
        own, kind = shape, dtype
        match dice.randrange(16):
            case 0 if shape:
                own = tuple(1 if dice.randrange(3) == 0 else n for n in shape)
            case 1:
                own = dice.choice([shape[1:], (1, *shape), (*shape, 2), ()])
            case 2:
                kind = dice.choice(list(CODES))
        view = view_like(dice, own, kind)
        if views and dice.randrange(4) == 0:
            other = dice.choice(views)
            near = dice.choice([0, 0, 1, -1, 2]) * view.item
            view.offset = other.offset + near
            if dice.randrange(2) and near == 0:
                view = View(other.offset, other.shape, other.strides, other.dtype)
        if dice.randrange(20) == 0:
            view.offset += dice.choice([1, 2, 4])
        view.read_only = dice.randrange(12) == 0
        if view.span()[0] < 0 or view.span()[1] > BYTES:
            view.offset = -view.reach()[0]
        views.append(view)
    return dtype, views


# ---- who shows a view ------------------------------------------------------------------------

borrowed = Framework("borrow", "own").type()
managed = Framework("own").type()


def fake_of(arena: Any, view: View) -> FakeProducer:
    code, bits = CODES[view.dtype]
    return FakeProducer(
        1, view.shape, view.strides, code=code, bits=bits, data=arena.ctypes.data,
        byte_offset=view.offset, flags=READ_ONLY if view.read_only else 0,
    )  # fmt: skip


def numpy_of(arena: Any, view: View) -> Any:
    array = view.within(arena)
    array.flags.writeable = not view.read_only
    return array


def torch_of(arena: Any, view: View) -> Any:
    """None where torch has no such views."""
    torch = pytest.importorskip("torch")
    if view.read_only or view.offset % view.item or any(not 0 <= s < 2**30 for s in view.strides):
        return None
    whole = torch.from_numpy(arena).view(getattr(torch, np.dtype(view.dtype).name))
    return whole.as_strided(view.shape, view.strides, view.offset // view.item)


def shown(dice: random.Random, arena: Any, view: View) -> Any:
    """The view by some producer. What borrows says nothing of read_only."""
    match dice.randrange(8):
        case 0 | 1 | 2:
            return numpy_of(arena, view)
        case 3 | 4:
            tensor = torch_of(arena, view)
            return numpy_of(arena, view) if tensor is None else tensor
        case 5 if not view.read_only:
            return borrowed(fake_of(arena, view))
        case 6:
            return managed(fake_of(arena, view))
        case _:
            return fake_of(arena, view)


# ---- what must be said of a call -------------------------------------------------------------


def shapes_agree(op: Op, views: list[View]) -> bool:
    shapes = [v.shape for v in views[: op.args]]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return (op.name == "add" or len(set(shapes)) == 1) and all(
        v.shape == shape for v in views[op.args :]
    )


def collide(op: Op, views: list[View], i: int) -> bool:
    """Whether out `i` writes an element twice, or one that another tensor has too."""
    out, touched = views[i], views[i].touched()
    if len(touched) != out.item * int(np.prod(out.shape)):
        return True
    for j, other in enumerate(views):
        exact = op.exact and j < op.args and out.same(other)
        if j != i and not exact and touched & other.touched():
            return True
    return False


def must_refuse(op: Op, dtype: str, views: list[View], given: dict[str, Any]) -> bool:
    number = int(given.get("by", 0))
    return (
        not shapes_agree(op, views)
        or any(v.dtype != dtype for v in views)
        or any(v.offset % v.item for v in views if not v.empty)
        or any(v.read_only for v in views[op.args :])
        or (dtype == "i4" and not -(2**31) <= number < 2**31)
        or any(collide(op, views, i) for i in range(op.args, op.args + op.outs))
    )


def may_refuse(op: Op, views: list[View]) -> bool:
    """Ranges that meet, and views that no kernel takes for their strides or their rank."""
    spans = [v.span() for v in views]
    meet = any(
        spans[i][0] < spans[j][1] and spans[j][0] < spans[i][1]
        for i in range(op.args, len(views))
        for j in range(len(views))
        if i != j
    )
    lies = op.strided or all(v.dense for v in views)
    return meet or not lies or any(len(v.dims) > 7 for v in views)


def expected(op: Op, dtype: str, views: list[View], given: dict[str, Any], arena: Any) -> Any:
    """The arena afterwards, computed in float64 or in the integers' own type."""
    wide: Any = "f8" if dtype in ("f4", "f2", "f8") else dtype
    after = arena.copy()
    arguments = [v.within(arena).astype(wide) for v in views[: op.args]]
    numbers = {k: v if wide == "f8" else np.int64(v) for k, v in given.items()}
    with np.errstate(all="ignore"):
        results = op.reference(*arguments, **numbers)
        for view, result in zip(views[op.args :], results, strict=True):
            view.within(after)[...] = result.astype(dtype)
    return after


# ---- the two ways ----------------------------------------------------------------------------


def arena_of(dice: random.Random, dtype: str) -> Any:
    """Small numbers, which all of the ops compute without rounding."""
    numbers = np.array([dice.randrange(-8, 9) for _ in range(BYTES // 8)])
    return np.resize((numbers & 1 if dtype == "?" else numbers).astype(dtype).view("u1"), BYTES)


def check(op: Op, dice: random.Random, module: Any, note: list[str]) -> bool:
    dtype, views = case_of(dice, op)
    given = {name: dice.choice(values) for name, values in op.keywords.items()}
    start, seed = arena_of(dice, dtype), dice.random()
    function = getattr(module, f"{op.name}_{NAMES[dtype]}")
    note[:] = [f"{op.name} {dtype} {given}", *map(repr, views)]
    arenas, verdicts = [], []
    for way in ({}, {"kernel": "loop"}):  # a kernel that is asked for by name goes the long way
        arena, who = start.copy(), random.Random(seed)
        tensors = [shown(who, arena, view) for view in views]
        verdicts.append(function(*tensors, **given, **way))
        arenas.append(arena)
    lines = module.explain(*tensors, **given)
    EXPORTED.clear()
    note += [str([type(t) for t in tensors]), str(verdicts), *lines]
    assert len(set(verdicts)) == 1
    assert np.array_equal(*arenas)
    if all(view.dtype == dtype for view in views):
        assert any(": fits" in line for line in lines) == verdicts[0]
    refused = must_refuse(op, dtype, views, given)
    if not verdicts[0]:
        assert np.array_equal(arenas[0], start)
        assert refused or may_refuse(op, views)
        return False
    assert not refused
    after = expected(op, dtype, views, given, start)
    for view in views[op.args :]:
        got, right = view.within(arenas[0]), view.within(after)
        assert np.array_equal(got, right, equal_nan=dtype in ("f4", "f2", "f8")), (got, right)
        right[...] = got  # of a NaN, any
    assert np.array_equal(arenas[0], after), "it wrote beside its out"
    return True


@pytest.mark.promise("FAULT-16")
@pytest.mark.parametrize("seed", range(4))
def test_two_ways_one_verdict(zoo: ModuleType, seed: int) -> None:
    core: Any = pytest.importorskip("aicf_cuda")
    modules = {op.name: getattr(core, op.name, None) or getattr(zoo, op.name) for op in OPS}
    dice, taken = random.Random(seed), 0
    note: list[str] = []
    for _ in range(1000):
        op = dice.choice(OPS)
        try:
            taken += check(op, dice, modules[op.name], note)
        except AssertionError as fault:
            raise AssertionError("\n".join([str(fault), *note])) from fault
    assert 200 < taken < 800
