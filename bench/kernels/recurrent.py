"""LSTM and GRU over a sequence, beside torch's cuDNN: one layer, forward for its out alone, and
backward for all gradients from what the forward keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from bench.kernels import SUFFIX, Case, Runs, Sets, random, typed

F32, BF16 = torch.float32, torch.bfloat16
aten: Any = torch.ops.aten
GATES, MODES = {"lstm": 4, "gru": 3}, {"lstm": 2, "gru": 3}  # the latter cuDNN's, in torch
LONG, WIDE = (1024, 16, 768), (128, 64, 512)  # steps, batch, units and inputs


def drawn(op: str, dtype: torch.dtype, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Tensors of a call; weights as torch.nn draws them, which leaves gates between 0 and 1."""
    steps, batch, units = shape
    wide = GATES[op] * units
    t = {"x": random((steps, batch, units), dtype), "h0": random((batch, units), dtype)}
    if op == "lstm":
        t["c0"] = random((batch, units), dtype)
    for name, columns in (("w_ih", (units,)), ("w_hh", (units,)), ("b_ih", ()), ("b_hh", ())):
        w = torch.empty((wide, *columns), dtype=torch.float32, device=t["x"].device)
        t[name] = w.uniform_(-(units**-0.5), units**-0.5).to(dtype)
    return t


def torchs(op: str, t: dict[str, Any], train: bool) -> tuple[Callable[[], Any], Any]:
    """The call, and torch's buffer of the weights, which lie together there."""
    weights = [t[n].clone() for n in ("w_ih", "w_hh", "b_ih", "b_hh")]
    units = t["h0"].shape[1]
    buffer = torch._cudnn_rnn_flatten_weight(
        weights, 4, units, MODES[op], units, 0, 1, False, False
    )

    def run() -> Any:
        return aten._cudnn_rnn(
            t["x"], weights, 4, buffer, t["h0"][None],
            t["c0"][None] if op == "lstm" else None, MODES[op], units, 0, 1, False, 0.0, train,
            False, [], None,
        )  # fmt: skip

    return run, (weights, buffer)


def forward(op: str, dtype: torch.dtype, shape: tuple[int, int, int]) -> Callable[[], Runs]:
    def make() -> Runs:
        call = typed(op, SUFFIX[dtype])
        states = ("h0", "c0") if op == "lstm" else ("h0",)

        def one() -> Any:
            t = drawn(op, dtype, shape)
            outs = [torch.empty_like(t["x"]), *(torch.empty_like(t[n]) for n in states)]
            return t, outs, torchs(op, t, False)[0]

        sets = Sets.of(2 * shape[0] * shape[1] * shape[2] * dtype.itemsize, one)

        def ours(i: int) -> None:
            t, outs, _ = sets[i]
            kept = [None] * (2 if op == "lstm" else 1)
            call(*t.values(), *outs, *kept)

        return Runs(ours, lambda i: sets[i][2](), len(sets))

    return make


def backward(op: str, dtype: torch.dtype, shape: tuple[int, int, int]) -> Callable[[], Runs]:
    def make() -> Runs:
        call, back = typed(op, SUFFIX[dtype]), typed(f"{op}_bwd", SUFFIX[dtype])
        lstm = op == "lstm"
        states = ("h0", "c0") if lstm else ("h0",)

        def one() -> Any:
            t = drawn(op, dtype, shape)
            steps, batch, units = shape
            made = [torch.empty_like(t["x"]), *(torch.empty_like(t[n]) for n in states),
                    random((steps, batch, 4 * units), dtype)]  # fmt: skip
            made += [torch.empty_like(t["x"])] if lstm else []
            call(*t.values(), *made)
            saved = [made[0], *made[1 + len(states) :]]
            gs = [random(s.shape, dtype) for s in (t["x"], *(t[n] for n in states))]
            names = ("x", *states, "w_ih", "w_hh", "b_ih", *(() if lstm else ("b_hh",)))
            grads = [torch.empty_like(t[n]) for n in names]
            run, (weights, buffer) = torchs(op, t, True)
            out, _, _, reserve, _ = run()
            return t, saved, gs, grads, (weights, buffer, out, reserve)

        sets = Sets.of(9 * shape[0] * shape[1] * shape[2] * dtype.itemsize, one)

        def ours(i: int) -> None:
            t, saved, gs, grads, _ = sets[i]
            inputs = [t[n] for n in ("x", *states, "w_ih", "w_hh")]
            back(*inputs, *saved, *gs, *grads)

        def theirs(i: int) -> Any:
            t, _, gs, _, (weights, buffer, out, reserve) = sets[i]
            units = shape[2]
            return aten._cudnn_rnn_backward(
                t["x"], weights, 4, buffer, t["h0"][None], t["c0"][None] if lstm else None, out,
                gs[0], gs[1][None], gs[2][None] if lstm else None, MODES[op], units, 0, 1, False,
                0.0, True, False, [], None, reserve, [True, True, lstm, True],
            )  # fmt: skip

        return Runs(ours, theirs, len(sets))

    return make


def case(
    op: str, dtype: torch.dtype, shape: tuple[int, int, int], back: bool, ratio: float | None
) -> Case:
    steps, batch, units = shape
    flops = 2.0 * steps * batch * GATES[op] * units * 2 * units * (2 if back else 1)
    name = f"T{steps} B{batch} H{units}"
    make = (backward if back else forward)(op, dtype, shape)
    return Case(f"{op}_bwd" if back else op, SUFFIX[dtype], name, make, flops=flops, ratio=ratio)


def cases() -> Iterator[Case]:
    yield case("lstm", BF16, LONG, False, 2.0)
    yield case("lstm", BF16, LONG, True, None)
    for dtype in (BF16, F32):
        for back in (False, True):
            yield case("lstm", dtype, WIDE, back, None)
    for back in (False, True):
        yield case("gru", BF16, WIDE, back, None)
