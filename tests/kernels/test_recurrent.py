"""rnn_tanh, gru and lstm with their gradients: by each kernel, beside torch's autograd in float64.

States are rounded to the dtype at each step, gates for the gradient too: what comes of it is off by
some units of the dtype's last place, of 1 in a state and of the largest value in a gradient.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from kernels.calls import call, printed_with_threads, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, poisoned, tensor_of
from kernels.tolerance import assert_close
from rows.recurrent import FORWARD, GATES

pytestmark = [pytest.mark.guests("torch")]

# Of 1, in the last place of a dtype; f32's sums of some hundred products, f64's of libm's peers.
UNIT = {"f32": 2.0**-20, "f16": 2.0**-10, "bf16": 2.0**-7, "f64": 2.0**-46}
OPS = tuple(FORWARD)


@dataclass(frozen=True, slots=True)
class Layer:
    steps: int
    batch: int
    inputs: int
    units: int
    reverse: bool = False

    def __str__(self) -> str:
        return f"T{self.steps} B{self.batch} D{self.inputs} H{self.units}" + "r" * self.reverse


# Steps take 8 units and 8 rows a block, persistent kernels 8 or 16 units and 16 or 32 rows, where
# inputs and units come in eights; depths of 32 are shared by 8 warps. Each is once whole, once cut.
LAYERS = [
    Layer(3, 2, 5, 7),
    Layer(4, 9, 16, 24, True),
    Layer(5, 1, 8, 8),
    Layer(2, 16, 40, 264),
    Layer(3, 35, 24, 40, True),
    Layer(2, 17, 1, 33),
]
# Of several blocks a group, of more chunks than warps, several groups; and 16 units a block.
LARGE = [Layer(12, 16, 64, 768), Layer(4, 70, 128, 512, True), Layer(3, 3, 32, 1400)]


def drawn(layer: Layer, op: str, dtype: str, seed: int = 1) -> dict[str, torch.Tensor]:
    """The row's arguments, exact in float64, which require gradients."""
    source = torch.Generator().manual_seed(seed)
    n, d, h, wide = layer.batch, layer.inputs, layer.units, GATES[op] * layer.units
    shapes: dict[str, tuple[int, ...]] = {"x": (layer.steps, n, d), "h0": (n, h)}
    shapes |= {"c0": (n, h)} if op == "lstm" else {}
    shapes |= {"w_ih": (wide, d), "w_hh": (wide, h), "b_ih": (wide,), "b_hh": (wide,)}
    made = {}
    for name, shape in shapes.items():
        scale = 1.0 if name in ("x", "h0", "c0") else max(h, 1) ** -0.5
        x = torch.randn(shape, generator=source) * scale
        made[name] = x.to(DTYPES[dtype]).double().requires_grad_()
    return made


def laid(x: torch.Tensor, dtype: str, device: str, layout: str = "dense") -> torch.Tensor:
    return tensor_of(array_of(x.detach()), dtype, device, layout)


def run_forward(
    op: str, given: dict[str, torch.Tensor], layer: Layer, dtype: str, device: str,
    layout: str = "dense", kept: bool = True, **options: Any,
) -> list[torch.Tensor]:  # fmt: skip
    """All outs."""
    s, n, h = layer.steps, layer.batch, layer.units
    shapes = [(s, n, h), (n, h)] + [(n, h)] * (op == "lstm")
    outs: list[Any] = [poisoned(shape, dtype, device, layout) for shape in shapes]
    last = [(s, n, 4 * h)] * (op != "rnn_tanh") + [(s, n, h)] * (op == "lstm")
    outs += [poisoned(shape, dtype, device, layout) if kept else None for shape in last]
    inputs = [laid(x, dtype, device, layout) for x in given.values()]
    call(op, dtype, *inputs, *outs, reverse=layer.reverse, **options)
    return outs


def run_backward(
    op: str, given: dict[str, torch.Tensor], outs: list[torch.Tensor], gs: list[torch.Tensor],
    layer: Layer, dtype: str, device: str, layout: str = "dense", **options: Any,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """Of all arguments, by name."""
    inputs = {k: laid(x, dtype, device, layout) for k, x in given.items()}
    b_ih, _ = inputs.pop("b_ih"), inputs.pop("b_hh")
    saved = [outs[0], *outs[3 if op == "lstm" else 2 :]]
    grads = {k: poisoned(x.shape, dtype, device, layout) for k, x in inputs.items()}
    grads["b_ih"] = poisoned(b_ih.shape, dtype, device, layout)
    if op == "gru":
        grads["b_hh"] = poisoned(b_ih.shape, dtype, device, layout)
    given_gs = [laid(g, dtype, device, layout) for g in gs]
    call(f"{op}_bwd", dtype, *inputs.values(), *saved, *given_gs, *grads.values(),
         reverse=layer.reverse, **options)  # fmt: skip
    return grads | ({} if op == "gru" else {"b_hh": grads["b_ih"]})


def check(
    layer: Layer, op: str, dtype: str, device: str, layout: str = "dense", **options: Any
) -> None:
    given = drawn(layer, op, dtype)
    want = FORWARD[op](*given.values(), reverse=layer.reverse)
    outs = run_forward(op, given, layer, dtype, device, layout, **options)
    for got, right in zip(outs, want, strict=True):
        slack = 4 * UNIT[dtype] * max(1.0, float(right.detach().abs().max()))
        assert_close(array_of(got), array_of(right.detach()), dtype, f"{op} {layer}", slack)

    states = 2 if op == "lstm" else 1
    source = torch.Generator().manual_seed(5)
    gs = [torch.randn(w.shape, generator=source).to(DTYPES[dtype]).double()
          for w in want[: 1 + states]]  # fmt: skip
    torch.autograd.backward(list(want[: 1 + states]), gs)
    found = run_backward(op, given, outs, gs, layer, dtype, device, layout, **options)
    for name, x in given.items():
        assert x.grad is not None
        slack = 8 * UNIT[dtype] * float(x.grad.abs().max())
        assert_close(
            array_of(found[name]), array_of(x.grad), dtype, f"{op}_bwd {layer} {name}", slack
        )


def kernels_of(op: str, device: str, dtype: str) -> list[str]:
    found = {"cpu": ["loop"], "cuda": ["steps"]}[device]
    return ["blas", *found] if device == "cpu" and dtype in ("f32", "f64") else found


@pytest.mark.promise("KERNELS-recurrent-values", "KERNELS-recurrent-gradients")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_values(device: str, layer: Layer, op: str, dtype: str) -> None:
    skip_without(dtype, device)
    for layout in ("dense", "odd"):
        check(layer, op, dtype, device, layout)
    for kernel in kernels_of(op, device, dtype):
        check(layer, op, dtype, device, kernel=kernel)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-recurrent-large")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layer", LARGE, ids=str)
def test_large(layer: Layer, op: str, dtype: str) -> None:
    check(layer, op, dtype, "cuda")


@pytest.mark.promise("KERNELS-recurrent-one")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("reverse", [False, True])
def test_batch_1_and_hidden_1(device: str, op: str, dtype: str, reverse: bool) -> None:
    skip_without(dtype, device)
    check(Layer(6, 1, 1, 1, reverse), op, dtype, device)
    check(Layer(1, 1, 1, 1, reverse), op, dtype, device)


@pytest.mark.promise("KERNELS-recurrent-nothing", "C1")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    "layer", [Layer(0, 3, 8, 8), Layer(2, 0, 8, 8), Layer(2, 3, 0, 8), Layer(2, 3, 8, 0)], ids=str
)
def test_nothing(device: str, layer: Layer, op: str, dtype: str) -> None:
    """Of no steps the states come out as they went in, and their gradients likewise."""
    given = drawn(layer, op, dtype)
    want = FORWARD[op](*given.values(), reverse=layer.reverse)
    outs = run_forward(op, given, layer, dtype, device)
    for got, right in zip(outs, want, strict=True):
        assert_close(
            array_of(got), array_of(right.detach()), dtype, f"{op} {layer}", 4 * UNIT[dtype]
        )
    gs = [torch.ones(w.shape, dtype=torch.float64) for w in want[: 3 if op == "lstm" else 2]]
    found = run_backward(op, given, outs, gs, layer, dtype, device)
    if not layer.steps:
        assert (found["h0"] == 1).all()
        assert all(not found[name].any() for name in ("w_ih", "w_hh", "b_ih", "b_hh"))
    if not layer.batch:
        assert all(not found[name].any() for name in ("w_ih", "w_hh", "b_ih"))


@pytest.mark.promise("KERNELS-recurrent-reverse")
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("op", OPS)
def test_reverse_is_the_turned_sequence(device: str, op: str, dtype: str) -> None:
    layer, turned = Layer(4, 3, 8, 16), Layer(4, 3, 8, 16, True)
    given = drawn(layer, op, dtype)
    outs = run_forward(op, given, layer, dtype, device)
    again = run_forward(op, {**given, "x": given["x"].flip(0)}, turned, dtype, device)
    for one, other in zip(outs, again, strict=True):
        assert torch.equal(one, other.flip(0) if one.dim() == 3 else other)


@pytest.mark.promise("KERNELS-recurrent-nan")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("op", OPS)
def test_nan_stays_in_its_row(device: str, op: str, dtype: str) -> None:
    """From its step on; gates of infinite sums are 0 or 1."""
    layer = Layer(4, 5, 8, 16)
    given = drawn(layer, op, dtype)
    with torch.no_grad():
        given["x"][1, 2, 3] = math.nan
        given["x"][0, 4] = 1e30 if dtype == "bf16" else 1e37
    out, *_ = run_forward(op, given, layer, dtype, device)
    nan = out.isnan()
    assert nan[1:, 2].all()
    assert not nan[0].any()
    assert not nan[:, [0, 1, 3, 4]].any()


def digest(device: str, op: str, dtype: str) -> str:
    layer, text = Layer(5, 20, 24, 72), hashlib.sha256()
    given = drawn(layer, op, dtype)
    outs = run_forward(op, given, layer, dtype, device)
    gs = [torch.ones(o.shape, dtype=torch.float64) for o in outs[: 3 if op == "lstm" else 2]]
    found = run_backward(op, given, outs, gs, layer, dtype, device)
    for x in [*outs, *found.values()]:
        text.update(array_of(x).tobytes())
    return text.hexdigest()


@pytest.mark.promise("KERNELS-recurrent-bits")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("op", OPS)
def test_bits_repeat(device: str, op: str, dtype: str) -> None:
    assert len({digest(device, op, dtype) for _ in range(3)}) == 1


@pytest.mark.promise("KERNELS-recurrent-bits")
def test_bits_do_not_depend_on_threads() -> None:
    program = (
        "from kernels.test_recurrent import digest\n"
        "print([digest('cpu', op, dtype) for op in ('lstm', 'gru') for dtype in ('f32', 'f16')])"
    )
    assert len({printed_with_threads(program, threads) for threads in (1, 2, 5)}) == 1


@pytest.mark.promise("KERNELS-recurrent-values")
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("op", ["gru", "lstm"])
def test_what_the_gradient_needs_is_not_computed_unasked(device: str, op: str, dtype: str) -> None:
    """And its absence changes nothing."""
    layer = Layer(3, 4, 16, 24)
    given = drawn(layer, op, dtype)
    with_it = run_forward(op, given, layer, dtype, device)
    without = run_forward(op, given, layer, dtype, device, kept=False)
    for one, other in zip(with_it, without, strict=True):
        assert other is None or torch.equal(one, other)


@pytest.mark.promise("KERNELS-recurrent-values")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["rnn_tanh", "gru"])
def test_two_halves_make_the_whole(device: str, op: str, dtype: str) -> None:
    """Bit by bit: the state between steps is what out has of it, no more."""
    whole, half = Layer(6, 5, 16, 24), Layer(3, 5, 16, 24)
    given = drawn(whole, op, dtype)
    out, last, *_ = run_forward(op, given, whole, dtype, device)
    with torch.no_grad():
        first = run_forward(op, {**given, "x": given["x"][:3]}, half, dtype, device)
        state = first[1].double().cpu()
        rest = run_forward(op, {**given, "x": given["x"][3:], "h0": state}, half, dtype, device)
    assert torch.equal(out, torch.cat([first[0], rest[0]]))
    assert torch.equal(last, rest[1])
