"""Networks of torch as graphs: each gives what torch gives, for batches of any size."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from aicf import from_export, from_fx, value_and_grad  # noqa: E402
from aicf.compiler.ir import fx  # noqa: E402
from aicf.compiler.ir.fx import Imported, Unmatched  # noqa: E402
from aicf.compiler.ir.graph import Graph  # noqa: E402
from aicf.compiler.ir.pattern import Mismatch, Number, Pattern  # noqa: E402
from aicf.compiler.ir.trace import TraceError  # noqa: E402
from aicf.compiler.ir.types import TensorType  # noqa: E402
from aicf.compiler.runtime.interpret import interpret  # noqa: E402
from aicf.table import Table  # noqa: E402

nn: Any = torch.nn
functional: Any = torch.nn.functional

pytestmark = [
    pytest.mark.guests("torch"),
    pytest.mark.compiler,
    pytest.mark.promise("MARK-8-import"),
]


class Mlp(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(12, 32), nn.Linear(32, 32), nn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        h = functional.relu(self.fc1(x))
        h = functional.gelu(self.fc2(h), approximate="tanh") + 0.5 * h
        return functional.log_softmax(self.fc3(h), dim=-1)


class Cnn(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, groups=2), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 10))

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))


class Lstm(nn.Module):  # type: ignore[misc]
    """Of the last state of a sequence of words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(50, 8), nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, words: Any) -> Any:
        states, _ = self.lstm(self.embedding(words))
        return self.head(states[:, -1])


class Block(nn.Module):  # type: ignore[misc]
    """A block of a transformer, written out; causal."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        heads = (t.view(batch, length, 4, 8).transpose(1, 2)
                 for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))  # fmt: skip
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


def encoder_layer() -> Any:
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)


def images(n: int) -> Any:
    return torch.randn(n, 1, 12, 12)


NETS = {
    "mlp": (Mlp, lambda n: torch.randn(n, 12)),
    "cnn": (Cnn, images),
    "lstm": (Lstm, lambda n: torch.randint(0, 50, (n, 6))),
    "block": (Block, lambda n: torch.randn(n, 5, 32)),
    "encoder layer": (encoder_layer, lambda n: torch.randn(n, 5, 32)),
}


def exported(net: Any, x: Any, low: int = 2) -> Any:
    batch = torch.export.Dim("batch", min=low, max=64)
    return torch.export.export(net, (x,), dynamic_shapes=({0: batch},))


def gives(found: Imported, *inputs: Any) -> Any:
    data = dict(found.data) | dict(zip((v.name for v in found.graph.inputs), inputs, strict=True))
    with torch.no_grad():
        return interpret(found.graph, data)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("make, inputs", NETS.values(), ids=NETS)
def test_nets_give_what_torch_gives(make: Any, inputs: Any) -> None:
    net = make().eval()
    found = from_export(exported(net, inputs(3)), names=("N",))
    assert "symbol N: 2..64" in found.graph.text()
    assert Graph.parse(found.graph.text()) == found.graph
    for n in (3, 2, 17):
        x = inputs(n)
        (ours,) = gives(found, x)
        with torch.no_grad():
            want = net(x)
        assert torch.allclose(ours, want, rtol=1e-5, atol=1e-5), (ours - want).abs().max()


@pytest.mark.gpu
@pytest.mark.parametrize("make, inputs", NETS.values(), ids=NETS)
def test_nets_on_a_gpu(make: Any, inputs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    net, x = make().eval().cuda(), inputs(7).cuda()
    found = from_export(exported(net, x), names=("N",))
    assert {v.type.device for v in found.graph.values} == {"cuda:0"}
    with torch.no_grad():
        want = net(x)
    assert torch.allclose(gives(found, x)[0], want, rtol=1e-4, atol=1e-4)


def test_params_are_what_torch_calls_them() -> None:
    net = Cnn().eval()
    found = from_export(exported(net, images(3)), names=("N",))
    assert [v.name for v in found.graph.params] == [name for name, _ in net.named_parameters()]
    assert {v.name for v in found.graph.constants} == {
        "body.1.running_mean", "body.1.running_var"}  # fmt: skip
    for name, value in net.named_parameters():
        assert found.data[name].data_ptr() == value.data_ptr()
    ops = [n.op for n in found.graph.nodes]
    assert ops == [
        "conv2d", "batch_norm_eval", "relu", "max_pool2d", "conv2d", "relu", "avg_pool2d",
        "view.reshape", "view.permute", "gemm", "add"]  # fmt: skip


def test_gradients_of_what_was_imported() -> None:
    net = Mlp().eval()
    program = exported(net, torch.randn(3, 12))
    found = from_export(program, names=("N",))
    graph = found.graph
    graph.outputs[:] = [graph.add("sum", graph.outputs[0]).out]
    x = torch.randn(7, 12)
    ours = gives(Imported(value_and_grad(graph), found.data), x)
    net(x).sum().backward()
    for a, p in zip(ours[1:], net.parameters(), strict=True):
        assert torch.allclose(a, p.grad, rtol=1e-4, atol=1e-5)


def test_lines_of_source_are_kept() -> None:
    found = from_export(exported(Block().eval(), torch.randn(3, 5, 32)))
    lines, first = inspect.getsourcelines(Block.forward)
    places = {n.loc.line for n in found.graph.nodes if n.loc and n.loc.file == __file__}
    assert {first + 4, first + 5, first + 6} <= places
    assert all(first < line < first + len(lines) for line in places)


# ---- what no row is -----------------------------------------------------------------------------


class Odd(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        a = torch.special.gammaln(x)
        b = torch.linalg.det(x)
        return functional.relu(a * 2) + b


def test_all_that_no_row_is_is_named_at_once() -> None:
    with pytest.raises(Unmatched) as caught:
        from_fx(Odd(), torch.rand(3, 3))
    _, first = inspect.getsourcelines(Odd.forward)
    missing = caught.value.missing
    assert [(m.node, m.op) for m in missing] == [
        ("lgamma", "lgamma.default"), ("_linalg_det", "_linalg_det.default")]  # fmt: skip
    assert [m.place.line for m in missing if m.place] == [first + 1, first + 2]
    said = str(caught.value).splitlines()
    assert said[0] == "no row of aicf_cuda is what 2 nodes of the program ask"
    assert said[1].startswith(f"  {__file__}:{first + 1}: lgamma is lgamma.default: no row is")
    assert isinstance(caught.value, ImportError)


class Alpha(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return torch.add(x, x, alpha=2)


class Training(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return functional.dropout(x, 0.5, training=True)


@pytest.mark.parametrize(
    "net, said",
    [
        (Alpha(), "alpha is 2, which add does not know"),
        (Training(), "it draws random numbers: import the module in eval mode"),
    ],
)
def test_a_form_that_no_row_has_says_which(net: Any, said: str) -> None:
    with pytest.raises(Unmatched) as caught:
        from_fx(net, torch.rand(3, 3))
    assert said in str(caught.value)
    assert len(caught.value.missing) == 1


class Branching(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x


class Cond(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y + 1, (x,))


def test_branching_on_values_is_refused() -> None:
    with pytest.raises(TraceError, match="branching on values would keep one answer"):
        from_fx(Branching(), torch.rand(3, 3))
    with pytest.raises(Unmatched) as caught:
        from_fx(Cond(), torch.rand(3, 3))
    assert "a branch on values would keep one answer for all runs" in str(caught.value)


class Counting(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.count += 1
        return x * self.count


def test_what_is_kept_between_runs_is_refused() -> None:
    with pytest.raises(Unmatched, match="BUFFER_MUTATION of count: an update of what is kept"):
        from_fx(Counting(), torch.rand(3, 3))


def test_what_comes_is_what_torch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that would give another shape is found where it is used."""
    monkeypatch.setitem(fx.WORDS, "transpose.int", lambda at, x, *_: x)
    with pytest.raises(Unmatched) as caught:
        from_fx(Block().eval(), torch.randn(2, 5, 32))
    assert "torch has f32[2, 4, 5, 8], and the graph f32[2, 5, 4, 8; 480, 96, 8, 1]" in str(
        caught.value
    )


# ---- torch.fx -----------------------------------------------------------------------------------


def test_a_graph_of_fx() -> None:
    net = Mlp().eval()
    found = from_fx(torch.fx.symbolic_trace(net), torch.randn(3, 12))
    x = torch.randn(3, 12)
    assert torch.allclose(gives(found, x)[0], net(x), atol=1e-5)
    assert found.graph.symbols == {}


class Forms(nn.Module):  # type: ignore[misc]
    """ATen's other words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.arange(12.0).view(3, 4)

    def forward(self, x: Any) -> Any:
        a = torch.stack([x, x * 2, 1 - x], dim=1).flatten(1)
        b = torch.cat(x.split([1, 3], dim=1)[::-1], dim=1).unsqueeze(0).expand(2, -1, -1)
        c = (x.double() / 3).float() + self.table[1] + torch.zeros_like(x) + x**2
        d = torch.addmm(x[0], x, self.table.T @ self.table) - x.mean() + x.sum(0, keepdim=True)
        e = x.narrow(1, 1, 2).unbind(1)[1].unflatten(0, (1, -1)).squeeze()
        return a, b[1] + c, d, e, x.t().contiguous(), x.detach()


def test_other_words_of_aten() -> None:
    net, x = Forms(), torch.randn(3, 4)
    found = from_fx(net, x)
    for ours, want in zip(gives(found, x), net(x), strict=True):
        assert ours.shape == want.shape
        assert torch.allclose(torch.as_tensor(ours), want, atol=1e-5)


class Norms(nn.Module):  # type: ignore[misc]
    """Forms of norms, convolutions and pooling that rows have in other words."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.group = nn.LayerNorm((4, 6, 6)), nn.GroupNorm(2, 4)
        self.rms, self.conv = nn.RMSNorm(6), nn.Conv2d(4, 4, 3, padding="same")
        for p in self.parameters():
            nn.init.uniform_(p)

    def forward(self, x: Any) -> Any:
        a = self.layer(x) + self.group(x) + self.rms(x) + self.conv(x)
        b = functional.pad(x, (1, 2, 0, 1), value=0.5)
        c = functional.max_pool2d(x, 2) + functional.adaptive_avg_pool2d(x, (3, 3))
        return a, b, c, x.exp().rsqrt() + x**3 + x.exp().reciprocal()


def test_norms_and_windows() -> None:
    net, x = Norms().eval(), torch.randn(2, 4, 6, 6)
    found = from_fx(net, x)
    with torch.no_grad():
        wanted = net(x)
    for ours, want in zip(gives(found, x), wanted, strict=True):
        assert torch.allclose(torch.as_tensor(ours), want, atol=1e-5)


def test_names_that_begin_with_a_digit() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).eval()
    found = from_fx(net, torch.randn(2, 4))
    assert [v.name for v in found.graph.params] == ["0.weight", "0.bias"]
    assert Graph.parse(found.graph.text()) == found.graph


def test_an_output_is_no_input() -> None:
    """What the caller gave stays the caller's."""
    x = torch.randn(3, 4)
    found = from_fx(Identity(), x)
    first, second = gives(found, x)
    assert torch.equal(first, x)
    assert first.data_ptr() != x.data_ptr()
    assert torch.equal(second, x[0])


class Identity(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x, x[0]


# ---- patterns -----------------------------------------------------------------------------------


def value(text: str = "f32[3, 4]") -> Any:
    return Graph().input("x", text)


def test_a_pattern_binds_what_it_names() -> None:
    pattern = Pattern.of(Table.default()["conv2d"])
    schema = torch.ops.aten.conv2d.default._schema
    x, w = value("f32[1, 3, 8, 8]"), value("f32[4, 3, 3, 3]")
    found = pattern.match(schema, (x, w, None, [2, 2]), {})
    assert found.operands == {"x": x, "w": w, "bias": None}
    assert found.attrs == {"stride": (2, 2), "pad": (0, 0), "dilation": (1, 1), "groups": 1}


@pytest.mark.parametrize(
    "op, aten, args, said",
    [
        ("layer_norm", "layer_norm.default", (None, [3, 4]), r"is \[3, 4\], and \[N\] is needed"),
        ("batch_norm_eval", "batch_norm.default",
         (None, None, None, None, None, True, 0.1, 1e-5, True), "training is True, and"),
        ("max_pool2d", "max_pool2d_with_indices.default",
         (None, [2, 2], [2, 2], [0, 0], [2, 2]), r"dilation is \[2, 2\], and max_pool2d is of 1"),
        ("scale", "mul.Tensor", (None, "two"), "factor is 'two'"),
        ("softmax", "softmax.int", (None, 1, torch.float64), "dtype is torch.float64"),
    ],
)  # fmt: skip
def test_a_pattern_says_what_does_not_match(op: str, aten: str, args: Any, said: str) -> None:
    name, _, overload = aten.partition(".")
    schema = getattr(getattr(torch.ops.aten, name), overload)._schema
    x = value()
    given = tuple(x if a is None else a for a in args)
    with pytest.raises(Mismatch, match=said):
        Pattern.of(Table.default()[op]).match(schema, given, {})


def test_a_number_is_a_scalar_before_it_is_a_tensor() -> None:
    schema, x = torch.ops.aten.mul.Tensor._schema, value()
    scale = Pattern.of(Table.default()["scale"]).match(schema, (x, 2.0), {})
    assert scale.operands == {"x": x, "factor": 2.0}
    assert not scale.numbers
    mul = Pattern.of(Table.default()["mul"]).match(schema, (x, 2.0), {})
    assert mul.operands["b"] == Number(2.0)
    assert mul.numbers


def test_dtypes_are_promoted_as_torch_does() -> None:
    class Mixed(nn.Module):  # type: ignore[misc]
        def forward(self, a: Any, b: Any) -> Any:
            return a + b

    a, b = torch.randn(3), torch.randn(3).double()
    found = from_fx(Mixed(), a, b)
    assert [str(v.type) for v in found.graph.outputs] == ["f64[3]"]
    assert torch.allclose(gives(found, a, b)[0], a + b)
    assert isinstance(found.graph.outputs[0].type, TensorType)
