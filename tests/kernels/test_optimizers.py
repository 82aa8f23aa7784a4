"""Optimizers: a hundred steps beside torch's, lists of all kinds, addresses of all kinds, scalars
on the device, the numbers of late steps."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from kernels.calls import call, printed_with_threads, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of
from kernels.tolerance import EPS, Array, assert_close, assert_same
from rows import rows

pytestmark = [pytest.mark.guests("torch")]

# How many states each has, and whether it counts steps.
STATES = {"sgd": 1, "adam": 2, "adamw": 2, "rmsprop": 2, "adagrad": 1}
COUNTS = ("adam", "adamw", "adagrad")

Tensors = list[torch.Tensor]


def acc(dtype: str) -> str:
    return "f64" if dtype == "f64" else "f32"


def numbers(shape: Sequence[int], seed: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(tuple(shape), generator=source, dtype=torch.float64)


def joined(tensors: Tensors) -> Array:
    return array_of(torch.cat([x.flatten() for x in tensors]))


@dataclass(slots=True)
class Lists:
    """p, gradients and states of one call."""

    lists: list[Tensors]

    @classmethod
    def of(cls, op: str, dtype: str, device: str, shapes: Sequence[Sequence[int]]) -> Lists:
        """States are positive, as squares are; there are all of them. Of many tensors each begins
        where the last one ends."""
        counts = [math.prod(shape) for shape in shapes]
        lists = []
        for k in range(2 + STATES[op]):
            x = numbers([sum(counts)], k)
            x = (x if k < 2 else x.abs()).to(DTYPES[dtype if k < 2 else acc(dtype)]).to(device)
            parts = [part.view(tuple(s)) for part, s in zip(x.split(counts), shapes, strict=True)]
            lists.append([part.clone() for part in parts] if len(parts) < 100 else parts)
        return cls(lists)

    def wanted(self, op: str, **named: Any) -> list[Array]:
        """New p and states in f64, all tensors of a list as one; the gradients stay."""
        exact = [[torch.from_numpy(joined(one))] for one in self.lists]
        p, *states = rows()[op].reference(*exact, **named)
        return [array_of(one[0]) for one in (p, exact[1], *states)]

    def check(self, want: list[Array], dtype: str, what: str) -> None:
        for k, (got, right) in enumerate(zip(self.lists, want, strict=True)):
            kind = dtype if k < 2 else acc(dtype)
            slack = 8 * EPS[kind] * np.abs(right)
            assert_close(joined(got), right, kind, f"{what}: list {k}", slack)


def options(op: str, **more: Any) -> dict[str, Any]:
    return {"lr": 0.125, **({"step": 3} if op in COUNTS else {}), **more}


# ---- beside torch --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Peer:
    op: str
    make: Callable[..., torch.optim.Optimizer]
    torch: dict[str, Any]
    states: tuple[str, ...]  # torch's names of them
    ours: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.op} {self.ours}"


PEERS = [
    Peer("sgd", torch.optim.SGD, {}, ()),
    Peer("sgd", torch.optim.SGD, {"weight_decay": 0.1}, (), {"weight_decay": 0.1}),
    Peer(
        "sgd", torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}, ("momentum_buffer",),
        {"momentum": 0.9, "weight_decay": 0.1},
    ),
    Peer(
        "sgd", torch.optim.SGD, {"momentum": 0.9, "nesterov": True}, ("momentum_buffer",),
        {"momentum": 0.9, "nesterov": True},
    ),
    Peer("adam", torch.optim.Adam, {}, ("exp_avg", "exp_avg_sq")),
    Peer(
        "adam", torch.optim.Adam, {"weight_decay": 0.1, "betas": (0.8, 0.99), "eps": 1e-6},
        ("exp_avg", "exp_avg_sq"),
        {"weight_decay": 0.1, "beta1": 0.8, "beta2": 0.99, "eps": 1e-6},
    ),
    Peer(
        "adamw", torch.optim.AdamW, {"weight_decay": 0.1}, ("exp_avg", "exp_avg_sq"),
        {"weight_decay": 0.1},
    ),
    Peer("rmsprop", torch.optim.RMSprop, {}, ("square_avg",)),
    Peer(
        "rmsprop", torch.optim.RMSprop, {"momentum": 0.9, "weight_decay": 0.1, "alpha": 0.9},
        ("square_avg", "momentum_buffer"), {"momentum": 0.9, "weight_decay": 0.1, "alpha": 0.9},
    ),
    Peer(
        "adagrad", torch.optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.1}, ("sum",),
        {"lr_decay": 0.1, "weight_decay": 0.1},
    ),
]  # fmt: skip


@pytest.mark.promise("KERNELS-optimizers-torch")
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16"])
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_hundred_steps_beside_torch(device: str, peer: Peer, dtype: str) -> None:
    """torch in f64 throughout. A p of 16 bits is rounded at every step, which no peer with another
    state can follow: there torch's goes on from ours."""
    skip_without(dtype, device)
    shapes = [(3, 5), (0,), (300,)]
    p = [numbers(shape, i).to(DTYPES[dtype]).to(device) for i, shape in enumerate(shapes)]
    states = [
        [torch.zeros(s, dtype=DTYPES[acc(dtype)], device=device) for s in shapes]
        for _ in peer.states
    ]
    theirs = [torch.nn.Parameter(x.cpu().double().clone()) for x in p]
    optimizer = peer.make(theirs, lr=0.01, foreach=False, **peer.torch)
    for step in range(1, 101):
        grads = [numbers(x.shape, 1000 * step + i).to(x.dtype) for i, x in enumerate(p)]
        for x, g in zip(theirs, grads, strict=True):
            x.grad = g.double()
        optimizer.step()
        count = {"step": step} if peer.op in COUNTS else {}
        grads = [g.to(device) for g in grads]
        call(peer.op, dtype, p, grads, *states, lr=0.01, **peer.ours, **count)
        if dtype == "bf16" or step in (1, 2, 10, 100):
            want = joined([y.detach() for y in theirs])
            drift = step * EPS[dtype] * np.abs(want)
            assert_close(joined(p), want, dtype, f"p of step {step}", drift)
        if dtype == "bf16":
            for x, y in zip(p, theirs, strict=True):
                y.data.copy_(x)
    for name, ours in zip(peer.states, states, strict=True):
        want = joined([optimizer.state[y][name] for y in theirs if y.numel()])
        slack = 100 * EPS[dtype] * (1 + np.abs(want))
        assert_close(joined(ours), want, acc(dtype), name, slack)


# ---- lists ---------------------------------------------------------------------------------------

LISTS: dict[str, list[tuple[int, ...]]] = {
    "nothing at the end": [(5,), (3, 4), (0,)],
    "nothing anywhere": [(0,), (5,), (0, 3), (1,), (2, 0), (7, 0)],
    "nothing at all": [(0,), (3, 0)],
    "no dims": [(), (), (3,)],
    "one element more than a block": [(256 * 8 + 1,), (256 * 4 + 1,), (1,)],
    "rank 8": [(1, 2, 1, 2, 3, 1, 2, 2), (2, 3)],
    "primes": [(1009,), (7, 11, 13), (20_011,)],
    "a thousand": [(i % 13 * (i % 7), 1 + i % 3) for i in range(1000)],
    "more than two launches hold": [(1 + i % 2,) for i in range(2500)],
}


@pytest.mark.promise("KERNELS-optimizers-lists")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("op", STATES)
@pytest.mark.parametrize("name", LISTS)
def test_lists(device: str, name: str, op: str, dtype: str) -> None:
    made = Lists.of(op, dtype, device, LISTS[name])
    want = made.wanted(op, **options(op))
    call(op, dtype, *made.lists, **options(op))
    made.check(want, dtype, op)


@pytest.mark.promise("KERNELS-optimizers-lists")
@pytest.mark.parametrize("op", STATES)
def test_an_empty_list(op: str) -> None:
    """Nothing to do, and that is done."""
    call(op, "f32", [], [], *[[]] * STATES[op], **options(op))


@pytest.mark.promise("KERNELS-optimizers-lists")
@pytest.mark.parametrize("op, states", [("sgd", 0), ("rmsprop", 1)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_without_a_buffer(device: str, op: str, states: int, dtype: str) -> None:
    """The step is that of a buffer of zeros."""
    skip_without(dtype, device)
    shapes = [(0,), (1009,), (3, 5), (0,)]
    made = Lists.of(op, dtype, device, shapes)
    made.lists[2 + states] = [torch.zeros_like(x) for x in made.lists[2 + states]]
    alone = [[x.clone() for x in one] for one in made.lists[: 2 + states]]
    call(op, dtype, *made.lists, **options(op))
    call(op, dtype, *alone, **options(op))
    for with_buffer, without in zip(made.lists, alone, strict=False):
        for x, y in zip(with_buffer, without, strict=True):
            assert_same(array_of(y), array_of(x), op)


@pytest.mark.promise("KERNELS-optimizers-lists")
@pytest.mark.parametrize("op", STATES)
def test_lists_in_any_order_of_dims(device: str, op: str) -> None:
    """Channels last beside rows and columns: what counts is that those at one index are alike."""
    shapes = [(2, 3, 4, 5), (7,), (5, 3), (2, 3, 4, 5), (0, 3)]
    turned = [(0, 3, 1, 2), None, (1, 0), None, None]

    def lie(x: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
        if order is None:
            return x
        back = [order.index(d) for d in range(x.dim())]
        return x.permute(order).contiguous().permute(back)

    made = Lists.of(op, "f32", device, shapes)
    want = made.wanted(op, **options(op))
    pairs = [list(zip(one, turned, strict=True)) for one in made.lists]
    made.lists = [[lie(x.clone(), order) for x, order in one] for one in pairs]
    call(op, "f32", *made.lists, **options(op))
    made.check(want, "f32", op)
    made.lists[1][2] = made.lists[1][2].contiguous()
    function = getattr(importlib.import_module(f"aicf_cuda.{op}"), f"{op}_f32")
    assert function(*made.lists, **options(op)) is False


# ---- memory --------------------------------------------------------------------------------------


class Margins:
    """A tensor inside of memory that nobody may write to."""

    def __init__(self, x: torch.Tensor, shift: int) -> None:
        self.memory = torch.full((x.numel() + 64,), 77, dtype=x.dtype, device=x.device)
        self.first = shift
        self.end = shift + x.numel()
        self.view = self.memory[self.first : self.end].view(x.shape).copy_(x)

    def check(self, what: str) -> None:
        around = torch.cat([self.memory[: self.first], self.memory[self.end :]])
        assert bool((around == 77).all()), f"{what}: written outside of it"


@pytest.mark.promise("KERNELS-optimizers-addresses", "A3")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", STATES)
@pytest.mark.parametrize("apart", [False, True], ids=["in step", "out of step"])
def test_addresses(device: str, op: str, dtype: str, apart: bool) -> None:
    """Views that begin anywhere: all lists so many elements off, so that one head brings them to a
    boundary, or each by another number, so that none does. Nothing around them is written, and no
    gradient."""
    skip_without(dtype, device)
    shapes = [(n,) for n in [*range(1, 20), 31, 32, 33, 255, 1023, 4099]]
    for shift in (0, 1, 3, 4, 7):
        made = Lists.of(op, dtype, device, shapes)
        want = made.wanted(op, **options(op))
        held = [
            [Margins(x, shift + (k * (1 + i % 3) if apart else 0)) for i, x in enumerate(one)]
            for k, one in enumerate(made.lists)
        ]
        made.lists = [[x.view for x in one] for one in held]
        grads = [x.clone() for x in made.lists[1]]
        call(op, dtype, *made.lists, **options(op))
        made.check(want, dtype, f"{op}, {shift} off")
        for k, one in enumerate(held):
            for x in one:
                x.check(f"{op}, list {k}")
        for x, y in zip(made.lists[1], grads, strict=True):
            assert_same(array_of(x), array_of(y), "a gradient")


@pytest.mark.promise("KERNELS-optimizers-bits")
@pytest.mark.parametrize("op", STATES)
def test_bits(device: str, op: str) -> None:
    """The same at every run, and whatever the addresses and the lists around."""
    shapes = [(1009,), (20_011,)]
    found: list[list[Array]] = []
    for shift, more in [(0, []), (0, []), (3, []), (1, [(5,)] * 30)]:
        first, others = (Lists.of(op, "f32", device, part) for part in (shapes, more))
        pairs = zip(first.lists, others.lists, strict=True)
        lists = [[Margins(x, shift).view for x in [*one, *rest]] for one, rest in pairs]
        call(op, "f32", *lists, **options(op))
        found.append([array_of(x) for one in lists for x in one[: len(shapes)]])
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            assert_same(x, y, op)


# Of what all of them write, long enough for many parts. numpy alone: it starts in no time.
DIGEST = """
import hashlib, importlib, numpy
h = hashlib.sha256()
for op, states in {"sgd": 1, "adam": 2, "adamw": 2, "rmsprop": 2, "adagrad": 1}.items():
    for dtype, kind, acc in [("f32", "f4", "f4"), ("f16", "f2", "f4"), ("f64", "f8", "f8")]:
        source = numpy.random.default_rng(3)
        lists = [
            [source.random(n).astype(k) for n in [5] * 40 + [70_001, 3, 0, 33_333]]
            for k in [kind, kind] + [acc] * states
        ]
        named = {"step": 3} if op.startswith("ada") else {}
        function = getattr(importlib.import_module("aicf_cuda." + op), f"{op}_{dtype}")
        assert function(*lists, lr=0.125, **named)
        for one in lists:
            h.update(b"".join(x.tobytes() for x in one))
print(h.hexdigest())
"""


@pytest.mark.promise("KERNELS-optimizers-bits")
def test_bits_do_not_depend_on_the_threads() -> None:
    assert len({printed_with_threads(DIGEST, threads) for threads in (1, 2, 5)}) == 1


# ---- numbers -------------------------------------------------------------------------------------


@pytest.mark.promise("KERNELS-optimizers-steps")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", ["adam", "adamw"])
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.999, 0.999999])
def test_bias_correction(device: str, op: str, beta: float, dtype: str) -> None:
    """1 - beta**step to the last bits: of the first step, of the billionth, where beta**step is
    near 1 and where nothing is left of it."""
    skip_without(dtype, device)
    for step in [1, 2, 10, 1000, 10**6, 10**9, 2**40]:
        made = Lists([[torch.full((3,), x, dtype=DTYPES[dtype])] for x in (0.0, 0.5, 0.25, 0.75)])
        named = {"lr": 1.0, "step": step, "beta1": beta, "beta2": beta, "eps": 0.0}
        want = made.wanted(op, **named)
        made = Lists([[x.to(device) for x in one] for one in made.lists])
        call(op, dtype, *made.lists, **named)
        off = np.abs(joined(made.lists[0]) / want[0] - 1).max()
        assert off <= (5e-7 if dtype == "f32" else 1e-9), f"step {step}: off by {off:.1e}"


@pytest.mark.promise("KERNELS-optimizers-steps")
@pytest.mark.parametrize("op", STATES)
def test_zero_gradients_without_a_history(device: str, op: str) -> None:
    """No 0 / 0 where eps is all that is left."""
    p = torch.ones(37, device=device)
    rest = [[torch.zeros_like(p)] for _ in range(1 + STATES[op])]
    call(op, "f32", [p], *rest, **options(op))
    assert_same(array_of(p), np.ones(37), op)


@pytest.mark.promise("KERNELS-special-values")
@pytest.mark.parametrize("op", STATES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_not_finite_stays_where_it_is(device: str, op: str, dtype: str) -> None:
    """A gradient of NaN or infinity spoils its own element. An infinite p without decay stays."""
    skip_without(dtype, device)
    made = Lists.of(op, dtype, device, [(41,), (9,)])
    grads, p = made.lists[1][0], made.lists[0][0]
    grads[3], grads[17], grads[40] = math.nan, math.inf, -math.inf
    p[5], p[6] = math.inf, -math.inf
    call(op, dtype, *made.lists, **options(op))
    spoilt = {i for i, x in enumerate(array_of(p)) if not math.isfinite(x)}
    assert {3, 5, 6} <= spoilt <= {3, 5, 6, 17, 40}
    assert [float(x) for x in p[5:7]] == [math.inf, -math.inf]
    assert np.isfinite(array_of(made.lists[0][1])).all()


# ---- scalars -------------------------------------------------------------------------------------


def on_device(named: dict[str, Any], device: str, dtype: str = "f32") -> dict[str, Any]:
    kinds = {"lr": DTYPES[acc(dtype)], "grad_scale": DTYPES[acc(dtype)], "step": torch.int64}
    return {
        k: torch.tensor(v, dtype=kinds[k], device=device) if k in kinds else v
        for k, v in named.items()
    }


@pytest.mark.promise("KERNELS-scalar")
@pytest.mark.parametrize("op", STATES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_scalars_on_the_device(device: str, op: str, dtype: str) -> None:
    """The same bits as of numbers."""
    skip_without(dtype, device)
    named = options(op, grad_scale=0.5)
    one, two = (Lists.of(op, dtype, device, [(1009,), (3, 5)]) for _ in range(2))
    call(op, dtype, *one.lists, **named)
    call(op, dtype, *two.lists, **on_device(named, device, dtype))
    for x, y in zip(one.lists, two.lists, strict=True):
        for a, b in zip(x, y, strict=True):
            assert_same(array_of(b), array_of(a), op)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-optimizers-graph", "S8")
@pytest.mark.parametrize("op", STATES)
def test_a_captured_step_follows_its_scalars(op: str) -> None:
    """Captured as the process's first call of it, over more tensors than one launch holds."""
    shapes = [(1 + i % 50,) for i in range(1500)]
    made, other = (Lists.of(op, "f32", "cuda", shapes) for _ in range(2))
    scalars = on_device(options(op, grad_scale=1.0), "cuda")
    function = getattr(importlib.import_module(f"aicf_cuda.{op}"), f"{op}_f32")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert function(*made.lists, **scalars)
    for step in range(1, 4):
        named = options(op, lr=0.1 * step, grad_scale=1.0 / step)
        if "step" in named:
            named["step"] = step
        for name, x in on_device(named, "cuda").items():
            scalars[name].copy_(x)
        graph.replay()
        call(op, "f32", *other.lists, **named)
    for x, y in zip(made.lists, other.lists, strict=True):
        for a, b in zip(x, y, strict=True):
            assert torch.equal(a, b)


# ---- large ---------------------------------------------------------------------------------------

LARGE = 2_359_332_864


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-optimizers-large", "A2")
@pytest.mark.parametrize("op, dtype", [("adam", "bf16"), ("sgd", "f32"), ("rmsprop", "f16")])
@pytest.mark.large
def test_a_tensor_of_more_than_32_bits(op: str, dtype: str) -> None:
    """Between small ones; its gradient differs where it begins, ends and is cut."""
    places = [0, 1, 2**30 - 1, 2**30, 2**31 - 1, 2**31, LARGE - 2, LARGE - 1]
    sizes = [5, LARGE, 7]
    kinds = [dtype, dtype, *["f32"] * STATES[op]]
    lists = [[torch.ones(n, dtype=DTYPES[kind], device="cuda") for n in sizes] for kind in kinds]
    lists[1][1][places] = torch.arange(2, 10, dtype=DTYPES[dtype], device="cuda")
    small = Lists([[torch.ones(9, dtype=torch.float64)] for _ in lists])
    small.lists[1][0][1:] = torch.arange(2, 10, dtype=torch.float64)
    want = small.wanted(op, **options(op))
    call(op, dtype, *lists, **options(op))
    for k, one in enumerate(lists):
        right = want[k]
        for x in (one[0], one[2]):
            assert_close(array_of(x), np.full(x.shape, right[0]), kinds[k], f"list {k}")
        assert_close(array_of(one[1][places]), right[1:], kinds[k], f"list {k} at its places")
        assert int((one[1] != one[0][0]).sum()) <= len(places), f"list {k} elsewhere"
    del lists, one, x
    torch.cuda.empty_cache()
