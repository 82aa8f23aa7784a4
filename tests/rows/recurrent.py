"""rnn_tanh, gru, lstm and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from rows import Maker, Row, Sample, sample

GATES = {"rnn_tanh": 1, "gru": 3, "lstm": 4}

# Steps, batch, inputs, units; reverse. Of one of each, of eights, which 16-bit kernels take.
CASES = [((3, 2, 4, 3), False), ((1, 1, 1, 1), False), ((2, 3, 8, 8), True), ((3, 1, 2, 5), True)]
# Of several tiles of units and rows, whole and cut.
LARGE = [((4, 19, 40, 72), False), ((3, 9, 24, 264), True), ((5, 33, 17, 35), False),
         ((6, 16, 64, 128), True)]  # fmt: skip

Shape = tuple[int, int, int, int]


# ---- what they are -------------------------------------------------------------------------------


def times(steps: int, reverse: bool) -> list[int]:
    return list(range(steps))[:: -1 if reverse else 1]


def zeros_for(b: Any, like: torch.Tensor) -> torch.Tensor:
    return like.new_zeros(like.shape[0]) if b is None else b


def stacked(parts: dict[int, torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    return torch.stack([parts[t] for t in sorted(parts)]) if parts else like


def rnn_tanh(
    x: torch.Tensor, h0: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor, b_ih: Any = None,
    b_hh: Any = None, *, reverse: bool = False,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    h, out = h0, {}
    for t in times(x.shape[0], reverse):
        h = torch.tanh(x[t] @ w_ih.T + zeros_for(b_ih, w_ih) + h @ w_hh.T + zeros_for(b_hh, w_hh))
        out[t] = h
    return stacked(out, x.new_empty(0, *h0.shape)), h


def gru(
    x: torch.Tensor, h0: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor, b_ih: Any = None,
    b_hh: Any = None, *, reverse: bool = False,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    h, out, gates = h0, {}, {}
    for t in times(x.shape[0], reverse):
        xr, xz, xn = (x[t] @ w_ih.T + zeros_for(b_ih, w_ih)).chunk(3, 1)
        hr, hz, hn = (h @ w_hh.T + zeros_for(b_hh, w_hh)).chunk(3, 1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        out[t], gates[t] = h, torch.cat([r, z, n, hn], 1)
    n, units = h0.shape
    return (stacked(out, x.new_empty(0, n, units)), h, stacked(gates, x.new_empty(0, n, 4 * units)))


def lstm(
    x: torch.Tensor, h0: torch.Tensor, c0: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor,
    b_ih: Any = None, b_hh: Any = None, *, reverse: bool = False,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    h, c, out, gates, cells = h0, c0, {}, {}, {}
    for t in times(x.shape[0], reverse):
        all_of_it = x[t] @ w_ih.T + zeros_for(b_ih, w_ih) + h @ w_hh.T + zeros_for(b_hh, w_hh)
        i, f, g, o = all_of_it.chunk(4, 1)
        i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
        c = f * c + i * g
        h = o * torch.tanh(c)
        out[t], gates[t], cells[t] = h, torch.cat([i, f, g, o], 1), c
    none = x.new_empty(0, *h0.shape)
    wide = x.new_empty(0, h0.shape[0], 4 * h0.shape[1])
    return stacked(out, none), h, c, stacked(gates, wide), stacked(cells, none)


# ---- their gradients, of what is kept, which need not come from a forward ------------------------


def back(
    fwd: torch.Tensor, first: torch.Tensor, reverse: bool
) -> Iterator[tuple[int, torch.Tensor]]:
    """Each step from the last to the first, and the state before it."""
    order = times(fwd.shape[0], reverse)
    for at, t in reversed(list(enumerate(order))):
        yield t, fwd[order[at - 1]] if at else first


def given(g: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if g is None else g


def of_weights(
    x: torch.Tensor, h0: torch.Tensor, fwd: torch.Tensor, dx: torch.Tensor, dw: torch.Tensor,
    w_ih: torch.Tensor, reverse: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """gx, gw_ih, gw_hh and the biases', of the gradients of the gates."""
    before = torch.empty_like(fwd)
    for t, h in back(fwd, h0, reverse):
        before[t] = h
    gx = dx @ w_ih
    gw = [torch.einsum("snk,snd->kd", d, y) for d, y in ((dx, x), (dw, before))]
    return gx, *gw, dx.sum((0, 1)), dw.sum((0, 1))


def rnn_tanh_bwd(
    x: torch.Tensor, h0: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor, fwd: torch.Tensor,
    g_out: Any = None, g_hn: Any = None, *, reverse: bool = False,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    g_out, dh, d = given(g_out, fwd), given(g_hn, h0), torch.empty_like(fwd)
    for t, _ in back(fwd, h0, reverse):
        d[t] = (dh + g_out[t]) * (1 - fwd[t] ** 2)
        dh = d[t] @ w_hh
    gx, gw_ih, gw_hh, gb, _ = of_weights(x, h0, fwd, d, d, w_ih, reverse)
    return gx, dh, gw_ih, gw_hh, gb


def gru_bwd(
    x: torch.Tensor, h0: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor, fwd: torch.Tensor,
    gates: torch.Tensor, g_out: Any = None, g_hn: Any = None, *, reverse: bool = False,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    g_out, dh = given(g_out, fwd), given(g_hn, h0)
    dx = fwd.new_empty(*fwd.shape[:2], 3 * fwd.shape[2])
    dw = torch.empty_like(dx)
    for t, h in back(fwd, h0, reverse):
        r, z, n, m = gates[t].chunk(4, 1)
        dh = dh + g_out[t]
        dn = dh * (1 - z) * (1 - n**2)
        dr, dz = dn * m * r * (1 - r), dh * (h - n) * z * (1 - z)
        dx[t], dw[t] = torch.cat([dr, dz, dn], 1), torch.cat([dr, dz, dn * r], 1)
        dh = dh * z + dw[t] @ w_hh
    gx, *rest = of_weights(x, h0, fwd, dx, dw, w_ih, reverse)
    return gx, dh, *rest


def lstm_bwd(
    x: torch.Tensor, h0: torch.Tensor, c0: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor,
    fwd: torch.Tensor, gates: torch.Tensor, cells: torch.Tensor, g_out: Any = None,
    g_hn: Any = None, g_cn: Any = None, *, reverse: bool = False,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    g_out, dh, dc = given(g_out, fwd), given(g_hn, h0), given(g_cn, c0)
    d = torch.empty_like(gates)
    for t, c in back(cells, c0, reverse):
        i, f, g, o = gates[t].chunk(4, 1)
        squashed, dh = torch.tanh(cells[t]), dh + g_out[t]
        do = dh * squashed * o * (1 - o)
        dc = dc + dh * o * (1 - squashed**2)
        d[t] = torch.cat([dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g**2), do], 1)
        dc, dh = dc * f, d[t] @ w_hh
    gx, gw_ih, gw_hh, gb, _ = of_weights(x, h0, fwd, d, d, w_ih, reverse)
    return gx, dh, dc, gw_ih, gw_hh, gb


# ---- calls ---------------------------------------------------------------------------------------


def scaled(x: torch.Tensor, by: float, more: float = 0.0) -> torch.Tensor:
    """A leaf again."""
    return (x.detach() * by + more).requires_grad_(x.requires_grad)


def tensors(t: Maker, op: str, shape: Shape) -> list[torch.Tensor]:
    """x, the states and the weights, which leave gates between 0 and 1; those of many hidden units
    small, as what is rounded in each of them adds up."""
    steps, batch, inputs, units = shape
    states = [t(batch, units) for _ in range(2 if op == "lstm" else 1)]
    w_ih, w_hh = (t(GATES[op] * units, n) for n in (inputs, units))
    by = 1 / 8 if units <= 8 else 1 / 256
    return [t(steps, batch, inputs), *states, scaled(w_ih, 1 / 8), scaled(w_hh, by)]


def positive(t: Maker, op: str, shape: Shape) -> list[torch.Tensor]:
    """The same and what is kept, of positive values, whose sums do not cancel: the gradients of
    gates are rounded to the dtype. A state is above gru's n, of which it is taken."""
    steps, batch, inputs, units = shape
    wide = GATES[op] * units
    h0, *c0 = (t.positive(batch, units) for _ in range(2 if op == "lstm" else 1))
    w_ih, w_hh = (scaled(t.positive(wide, n), 1 / 64) for n in (inputs, units))
    saved = [scaled(t.positive(steps, batch, units), 1 / 8, 1 / 4)]
    if op != "rnn_tanh":
        saved.append(scaled(t.positive(steps, batch, 4 * units), 1 / 8))
    if op == "lstm":
        saved.append(t.positive(steps, batch, units))
    x = t.positive(steps, batch, inputs)
    return [x, scaled(h0, 1 / 8, 1 / 4), *c0, w_ih, w_hh, *saved]


def forward(op: str, cases: Sequence[tuple[Shape, bool]]) -> Any:
    def samples(t: Maker) -> list[Sample]:
        found = []
        for at, (shape, reverse) in enumerate(cases):
            units = shape[3] * GATES[op]
            biases = [[t(units), t(units)], [], [None, t(units)], [t(units)]][at % 4]
            found.append(sample(*tensors(t, op, shape), *biases, reverse=reverse))
        return found

    return samples


def backward(op: str, cases: Sequence[tuple[Shape, bool]]) -> Any:
    def samples(t: Maker) -> list[Sample]:
        found = []
        for at, (shape, reverse) in enumerate(cases):
            steps, batch, _, units = shape
            gs: list[Any] = [t.positive(steps, batch, units)]
            gs += [t.positive(batch, units) for _ in range(2 if op == "lstm" else 1)]
            gs = [gs, [None, *gs[1:]], gs[:1], [gs[0], None, *gs[2:]]][at % 4]
            found.append(sample(*positive(t, op, shape), *gs, reverse=reverse))
        return found

    return samples


def refused(op: str) -> Any:
    def calls(t: Maker) -> list[tuple[Sample, str]]:
        x, *states, w_ih, w_hh = tensors(t, op, (3, 2, 4, 5))
        wide = 5 * GATES[op]
        return [
            (sample(x, *states, t(wide, 3), w_hh), "w_ih"),
            (sample(x, *states, w_ih, t(wide, 4)), "w_hh"),
            (sample(x, *states, t(wide + 1, 4), w_hh), "w_ih"),
            (sample(x, t(3, 5), *states[1:], w_ih, w_hh), "h0"),
            (sample(x, *states, w_ih, w_hh, t(wide + 1)), "b_ih"),
            (sample(x[0], *states, w_ih, w_hh), "x"),
        ]

    return calls


def refused_bwd(op: str) -> Any:
    def calls(t: Maker) -> list[tuple[Sample, str]]:
        (good,) = backward(op, [((3, 2, 4, 5), False)])(t)
        at = 5 if op == "lstm" else 4  # of fwd
        names = {at: "fwd", len(good.args) - 1: "g_cn" if op == "lstm" else "g_hn"}
        names |= {at + 1: "gates"} if op != "rnn_tanh" else {}
        return [
            (sample(*good.args[:i], t(3, 2, 7), *good.args[i + 1 :]), name)
            for i, name in names.items()
            if name != "gates"
        ] + [
            (sample(*good.args[:i], t(3, 2, 15), *good.args[i + 1 :]), name)
            for i, name in names.items()
            if name == "gates"
        ]

    return calls


FORWARD: dict[str, Callable[..., Any]] = {"rnn_tanh": rnn_tanh, "gru": gru, "lstm": lstm}
BACKWARD: dict[str, Callable[..., Any]] = {
    "rnn_tanh": rnn_tanh_bwd,
    "gru": gru_bwd,
    "lstm": lstm_bwd,
}

# The hidden state and the gates' gradients are rounded to the dtype between steps, and in gru what
# was rounded may cancel;
# tests/kernels/test_recurrent.py says by how much results may be off.
ROWS = [
    *(
        Row(op, forward(op, CASES), reference, refused=refused(op), large=forward(op, LARGE),
            slack=256.0 if op == "gru" else 32.0)
        for op, reference in FORWARD.items()
    ),
    *(
        Row(f"{op}_bwd", backward(op, CASES), reference, refused=refused_bwd(op),
            large=backward(op, LARGE), slack=16.0)
        for op, reference in BACKWARD.items()
    ),
]  # fmt: skip
