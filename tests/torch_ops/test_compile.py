"""torch.compile and torch.export: static and dynamic, in one graph."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_ops.samples import ROWS, samples_of  # noqa: E402

pytestmark = pytest.mark.guests("torch")


def outs_of(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [] if found is None else [found]


@pytest.mark.promise("TORCH-compile")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("namespace, name", ROWS)
def test_every_row(ops: Any, namespace: str, name: str, dynamic: bool) -> None:
    """The second sample: one with a layout and attributes of its own. What is written too."""
    op = getattr(getattr(ops, namespace), name)
    one = samples_of(namespace, name, grad=False)[1]
    eager, compiled = one.copy(), one.copy()
    want = outs_of(op(*eager.args, **eager.kwargs))
    function = torch.compile(
        lambda args: op(*args, **compiled.kwargs),
        fullgraph=True, backend="aot_eager", dynamic=dynamic,
    )  # fmt: skip
    with torch._dynamo.config.patch(specialize_int=True):  # sizes are dynamic, attributes are not
        torch.testing.assert_close(outs_of(function(compiled.args)), want, equal_nan=True)
    torch.testing.assert_close(compiled.args, eager.args, equal_nan=True)


class Counter:
    """A backend that counts what it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


@pytest.mark.promise("TORCH-dynamic")
def test_sizes_do_not_recompile(ops: Any) -> None:
    counter = Counter()

    def function(x: Any, w: Any, bias: Any) -> Any:
        y = ops.aicf.gemm(x, w, bias, act="relu")
        return ops.aicf.sum(ops.aicf.add(y, y), axes=[-1])

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for m, k, n in ((3, 4, 5), (7, 2, 6), (2, 9, 3)):
        given = torch.randn(m, k), torch.randn(k, n), torch.randn(n)
        torch.testing.assert_close(compiled(*given), function(*given))
    assert counter.graphs == 1


@pytest.mark.promise("TORCH-dynamic")
def test_which_numbers_recompile(ops: Any) -> None:
    """A SymInt and a scalar on the device do not; as docs/torch.md says, a float does."""
    x = torch.randn(4)

    def graphs(function: Callable[..., Any], values: list[Any]) -> int:
        counter = Counter()
        compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
        for value in values:
            compiled(x, value)
        torch._dynamo.reset()
        return counter.graphs

    assert graphs(lambda x, n: ops.kinds.spread(x, H=n), [2, 3, 4]) == 1
    assert graphs(lambda x, n: ops.kinds.drop(x, seed=n), [5, 6, 7]) == 1
    tensors = [torch.tensor([float(i)]) for i in range(3)]
    assert graphs(lambda x, f: ops.aicf.scale(x, factor=f), tensors) == 1
    assert graphs(lambda x, n: ops.aicf.sum(x[None], axes=[n]), [0, 1]) == 2


@pytest.mark.promise("TORCH-dynamic")
def test_sizes_that_are_known_at_run_time_alone(ops: Any) -> None:
    def function(x: Any, w: Any) -> Any:
        rows = x[x[:, 0] > 0]
        return ops.aicf.gemm(ops.aicf.relu(rows), w)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        for _ in range(3):
            x, w = torch.randn(6, 4), torch.randn(4, 2)
            torch.testing.assert_close(compiled(x, w), function(x, w))


@pytest.mark.promise("TORCH-compile")
def test_inductor_trains(ops: Any) -> None:
    """Gradients, an out that is written, a scalar on the device, a transposed operand."""

    def function(x: Any, w: Any, bias: Any, factor: Any) -> Any:
        y = ops.aicf.gemm(x.t(), w, bias, act="gelu")
        z = ops.kinds.norm(ops.aicf.scale(y, factor=factor))
        out = torch.empty_like(z)
        with torch.no_grad():
            ops.aicf.add.out(z.detach(), z.detach(), out=out)
        return z.sin() + out  # the one kernel of inductor's own

    def run(function: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(3)
        given = [torch.randn(s, requires_grad=True) for s in ((4, 3), (4, 5), (5,))]
        found = function(*given, torch.tensor([0.5]))
        found.square().sum().backward()
        return [found.detach(), *(x.grad for x in given)]

    want = run(function)
    torch.testing.assert_close(run(torch.compile(function, fullgraph=True)), want)


@pytest.mark.promise("TORCH-compile")
def test_out_within_a_graph(ops: Any) -> None:
    def function(a: Any, out: Any) -> Any:
        ops.aicf.add.out(a, a, out=out)
        return out * 2

    a, out = torch.randn(3, 4), torch.empty(3, 4)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(a, out), 4 * a)
    torch.testing.assert_close(out, 2 * a)


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops
        self.w = torch.nn.Parameter(torch.randn(4, 5))

    def forward(self, x: Any, m: Any) -> Any:
        y = self.ops.aicf.gemm(x, self.w, act="relu")
        s, c = self.ops.kinds.sincos(y)
        joined = self.ops.kinds.concat([s, c], axis=1)
        return self.ops.kinds.norm(joined), self.ops.kinds.running(m, x)


@pytest.mark.promise("TORCH-export")
@pytest.mark.parametrize("dynamic", [False, True])
def test_export_and_its_round_trip(ops: Any, dynamic: bool) -> None:
    model = Model(ops)
    with torch.no_grad():
        model.w.requires_grad_(False)
    x, m = torch.randn(3, 4), torch.zeros(3, 4)
    rows = torch.export.Dim("rows", min=2)
    shapes = {"x": {0: rows}, "m": {0: rows}} if dynamic else None
    program = torch.export.export(model, (x, m), dynamic_shapes=shapes)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file).module()
    for n in (3, 7) if dynamic else (3,):
        x, m = torch.randn(n, 4), torch.zeros(n, 4)
        other = m.clone()
        torch.testing.assert_close(again(x, m), model(x, other))
        torch.testing.assert_close(m, other)


@pytest.mark.promise("TORCH-same-words")
def test_refusals_have_the_same_words(ops: Any) -> None:
    """Eager, compiled with plain and with symbolic sizes, exported."""
    x, y = torch.randn(2, 3), torch.randn(4, 5)
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda a, b: ops.aicf.add(a, b), (x, y)),
        (lambda a, b: ops.aicf.add(a, b), (x, x.double())),
        (lambda a, b: ops.aicf.gemm(a, b), (x, y)),
        (lambda a, b: ops.aicf.gemm(a, b, beta=1.0), (x, y[:3])),
        (lambda a, b: ops.aicf.gemm(a, b, act="tanh"), (x, y[:3])),
        (lambda a, b: ops.aicf.sum(a, axes=[2]), (x, y)),
        (lambda a, b: ops.aicf.relu(a.int()), (x, y)),
        (lambda a, b: ops.kinds.crop(a, by=[2, 2]), (x, y)),
        (lambda a, b: ops.kinds.pad(a, by=[-1, 0]), (x, y)),
        (lambda a, b: ops.kinds.concat([a, b], axis=0), (x, y)),
        (lambda a, b: ops.kinds.cast(a, dtype=torch.int8), (x, y)),
        (lambda a, b: ops.kinds.spread(a, H=2), (x, y)),
    ]
    for function, given in calls:
        with pytest.raises(TypeError) as eager:
            function(*given)
        words = str(eager.value)
        for dynamic in (False, True):
            compiled = torch.compile(function, fullgraph=True, backend="eager", dynamic=dynamic)
            with pytest.raises(RuntimeError) as refused:
                compiled(*given)
            assert words in str(refused.value), (words, str(refused.value))
            torch._dynamo.reset()
