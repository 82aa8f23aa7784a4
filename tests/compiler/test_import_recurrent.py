"""Recurrent networks of torch: a row for each layer and direction, and torch's numbers."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import pytest

import aicf
from aicf.compiler.runtime.interpret import interpret

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.promise("AICF-import-recurrent"),
    pytest.mark.guests("torch"),
    pytest.mark.filterwarnings("ignore:The tensor attributes"),
]

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"num_layers": 2, "batch_first": True},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "bias": False, "batch_first": True},
)
KINDS = ("LSTM", "GRU", "RNN")


class Net(nn.Module):  # type: ignore[misc]
    """With all that a recurrent network gives as outputs."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(5, 7, **options)

    def forward(self, x: Any, *states: Any) -> Any:
        out, last = self.layers(x, *states)
        return (out, *last) if isinstance(last, tuple) else (out, last)


def same(net: Any, found: Any, *inputs: Any) -> None:
    names = [v.name for v in found.graph.inputs]
    got = interpret(found.graph, {**found.data, **dict(zip(names, inputs, strict=True))})
    for ours, theirs in zip(got, net(*inputs), strict=True):
        assert ours.shape == theirs.shape
        assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(("kind", "options"), list(itertools.product(KINDS, OPTIONS)))
def test_a_layer_in_one_direction_is_a_row(kind: str, options: dict[str, Any]) -> None:
    net = Net(kind, **options).eval()
    x = torch.randn(4, 3, 5)
    found = aicf.from_fx(net, x)
    rows = [n for n in found.graph.nodes if n.op in ("lstm", "gru", "rnn_tanh")]
    ways = 1 + options.get("bidirectional", False)
    assert len(rows) == options.get("num_layers", 1) * ways
    assert [n.attrs["reverse"] for n in rows] == [False, True][:ways] * (len(rows) // ways)
    same(net, found, x)


def test_the_batch_and_states_may_be_those_of_a_run() -> None:
    """How many steps there are torch itself wants to know."""
    net = Net("GRU").eval()
    batch = torch.export.Dim("batch", min=2, max=99)
    given = (torch.randn(4, 3, 5), torch.randn(1, 3, 7))
    shapes = {"x": {1: batch}, "states": ({1: batch},)}
    program = torch.export.export(net, given, dynamic_shapes=shapes)
    found = aicf.from_export(program, names=("N",))
    assert sum(n.op == "gru" for n in found.graph.nodes) == 1
    same(net, found, *given)
    same(net, found, torch.randn(4, 2, 5), torch.randn(1, 2, 7))


class LastState(nn.Module):  # type: ignore[misc]
    """Of the last states alone, by words whose shapes follow from theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.LSTM(5, 7, batch_first=True), nn.Linear(14, 2)

    def forward(self, x: Any) -> Any:
        out, (h, c) = self.layers(x)
        return self.head(torch.cat([h[-1], c[-1]], -1)), h, out


def axis_more(inp: Any, hidden: Any, params: Any, has_biases: Any, reverse: bool = False) -> Any:
    """A layer as torch 2.11 decomposes it, by which it finds shapes on CUDA: where the batch is not
    1, its states keep an axis."""
    of = importlib.import_module("torch._decomp.decompositions")
    out, (h, c) = of.one_layer_lstm(inp, hidden, params, has_biases, reverse)
    return out, (h.unsqueeze(0), c.unsqueeze(0))


def test_a_shape_that_torch_says_wrongly_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    of = importlib.import_module("torch._decomp.decompositions")
    monkeypatch.setattr(of, "select_one_layer_lstm_function", lambda *_: axis_more)
    net = LastState().eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(net, (torch.randn(3, 4, 5),), dynamic_shapes=({0: batch},))
    states = [n for n in program.graph.nodes if n.name in ("getitem_1", "getitem_2")]
    assert [n.meta["val"].dim() for n in states] == [4, 4]
    found = aicf.from_export(program, names=("N",))
    assert sum(n.op == "lstm" for n in found.graph.nodes) == 1
    same(net, found, torch.randn(3, 4, 5))
    same(net, found, torch.randn(2, 4, 5))


def test_its_gradients_are_those_of_torch() -> None:
    class Loss(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.LSTM(5, 7, bidirectional=True)

        def forward(self, x: Any) -> Any:
            return self.layers(x)[0].mean()

    net = Loss()
    x = torch.randn(4, 3, 5)
    found = aicf.from_fx(net.eval(), x)
    graph = aicf.value_and_grad(found.graph)
    loss, *gradients = interpret(graph, {**found.data, "x": x})
    net(x).backward()
    assert torch.allclose(loss, net(x), atol=1e-6)
    names = [v.name for v in found.graph.params]
    theirs = dict(net.named_parameters())
    for name, gradient in zip(names, gradients, strict=True):
        assert torch.allclose(gradient, theirs[name].grad, atol=1e-5), name


def test_what_no_row_is_comes_apart_as_before() -> None:
    """A projection, ReLU instead of tanh: torch's own tables say them by products."""
    x = torch.randn(3, 2, 5)
    for net in (Net("LSTM", proj_size=3).eval(), Net("RNN", nonlinearity="relu").eval()):
        found = aicf.from_fx(net, x)
        assert not {"lstm", "rnn_tanh"} & {n.op for n in found.graph.nodes}
        assert sum(n.op == "gemm" for n in found.graph.nodes) > 3
        same(net, found, x)


def test_dropout_between_layers_is_refused_where_it_draws() -> None:
    net = Net("LSTM", num_layers=2, dropout=0.5)
    x = torch.randn(3, 2, 5)
    same(net.eval(), aicf.from_fx(net.eval(), x), x)
    with pytest.raises(ImportError, match="draws random numbers: import the module in eval mode"):
        aicf.from_fx(net.train(), x)
