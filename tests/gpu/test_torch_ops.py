"""The ops of the main table as ops of torch, on CUDA tensors: torch's checks of operators,
gradients beside torch's own, compiled code, streams, CUDA graphs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_ops.samples import MAIN, NO_GRADIENT, forms_of, samples_of  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.guests("torch"), pytest.mark.promise("TORCH-gpu")]

DTYPES = [torch.float32, torch.bfloat16]
LONG = 100_000_000  # cycles, 50 ms
NEAR = {torch.float32: {"rtol": 1e-4, "atol": 1e-4}, torch.bfloat16: {"rtol": 0.05, "atol": 0.1}}

# The rows in torch's own words.
PEERS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "relu": lambda x: x.relu(),
    "scale": lambda x, factor: x * factor,
    "copy": lambda x: x.clone(),
    "bias_add": lambda x, bias, axis=1: (
        x + bias.view(*(-1 if i == axis % x.dim() else 1 for i in range(x.dim())))
    ),
    "gemm": lambda a, b, bias=None, c=None, **k: gemm(a, b, bias, c, **k),
    "sum": lambda x, axes=None, keepdim=False: x.sum(
        axes if axes is not None else list(range(x.dim())), keepdim=keepdim
    ),
}


def gemm(
    a: Any, b: Any, bias: Any, c: Any, alpha: float = 1, beta: float = 0, act: str = "none"
) -> Any:
    y = alpha * (a @ b)
    y = y if c is None else y + beta * c
    y = y if bias is None else y + bias
    acts = {"none": lambda y: y, "relu": torch.relu, "gelu": torch.nn.functional.gelu}
    return acts[act](y)


@pytest.fixture(scope="module")
def ops() -> Any:
    importlib.import_module("aicf_cuda.torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch.ops.aicf


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MAIN)
def test_opcheck(ops: Any, name: str, dtype: Any) -> None:
    for one in samples_of(name, dtype, "cuda"):
        torch.library.opcheck(getattr(ops, name).default, one.args, one.kwargs)


@pytest.mark.parametrize("name", MAIN)
def test_opcheck_of_other_forms(ops: Any, name: str) -> None:
    op = getattr(ops, name)
    for overload, one in forms_of(op, samples_of(name, torch.float32, "cuda")[1]):
        torch.library.opcheck(overload, one.args, one.kwargs)


def gradients(function: Callable[..., Any], args: Any, kwargs: Any) -> list[Any]:
    """The out and the gradient of each tensor, for one incoming gradient."""
    leaves = [
        x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        if isinstance(x, torch.Tensor)
        else x
        for x in args
    ]
    out = function(*leaves, **kwargs)
    out.backward(torch.linspace(-1, 1, out.numel(), device="cuda").view_as(out).to(out.dtype))
    return [out.detach(), *(x.grad for x in leaves if isinstance(x, torch.Tensor))]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [n for n in MAIN if n not in NO_GRADIENT])
def test_gradients_beside_torch(ops: Any, name: str, dtype: Any) -> None:
    for one in samples_of(name, dtype, "cuda"):
        ours = gradients(getattr(ops, name), one.args, one.kwargs)
        theirs = gradients(PEERS[name], one.args, one.kwargs)
        for x, y in zip(ours, theirs, strict=True):
            torch.testing.assert_close(x, y, **NEAR[dtype])


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(ops: Any, dynamic: bool) -> None:
    """All rows with a gradient in one graph, by inductor."""

    def function(x: Any, w: Any, bias: Any, factor: Any) -> Any:
        y = ops.relu(ops.gemm(x, w, bias, act="gelu"))
        y = ops.bias_add(ops.scale(y, factor=factor), bias)
        return ops.sum(ops.copy(ops.add(y, y).sin()), axes=[-1])

    factor = torch.tensor([0.5], device="cuda")
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic)
    for m in (33, 64) if dynamic else (33,):
        given = [torch.randn(s, device="cuda") for s in ((m, 24), (24, 40), (40,))]
        run = lambda f: gradients(lambda *a: f(*a, factor), given, {})  # noqa: E731
        for x, y in zip(run(compiled), run(function), strict=True):
            torch.testing.assert_close(x, y, **NEAR[torch.float32])


def test_an_out_within_a_graph(ops: Any) -> None:
    def function(a: Any, out: Any) -> Any:
        ops.add.out(a, a, out=out)
        return out * 2

    a, out = torch.randn(300, device="cuda"), torch.empty(300, device="cuda")
    torch.testing.assert_close(torch.compile(function, fullgraph=True)(a, out), 4 * a)
    torch.testing.assert_close(out, 2 * a)


@pytest.mark.parametrize("form", ["functional", "out"])
def test_the_current_stream(ops: Any, form: str) -> None:
    """Work comes after what is queued there: the default stream would be early."""
    side = torch.cuda.Stream()
    x, one = torch.zeros(65_537, device="cuda"), torch.ones(65_537, device="cuda")
    out = torch.empty_like(x)
    torch.cuda.synchronize()
    for i in range(1, 20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(LONG if i < 3 else LONG // 50)
            x.fill_(i)
            if form == "out":
                ops.add.out(x, one, out=out)
            found = out if form == "out" else ops.add(x, one)
        torch.cuda.synchronize()
        assert bool((found == i + 1).all())


@pytest.mark.parametrize("name", MAIN)
def test_a_cuda_graph(ops: Any, name: str) -> None:
    """Captured through torch.ops with its gradient's ops, replayed on other values."""
    one = samples_of(name, torch.float32, "cuda", grad=False)[0]
    op = getattr(ops, name)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        op(*one.args, **one.kwargs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(*one.args, **one.kwargs)
    for _ in range(3):
        for x in one.args:
            if isinstance(x, torch.Tensor):
                x.copy_(torch.randn_like(x))
        graph.replay()
        torch.testing.assert_close(out, op(*one.args, **one.kwargs))


def test_no_scalar_is_read_back(ops: Any) -> None:
    """A scalar on the device: nothing waits for it."""
    x, factor = torch.randn(1000, device="cuda"), torch.tensor([3.0], device="cuda")
    want = 3 * x
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = ops.scale(x, factor=factor)
        out = torch.empty_like(x)
        ops.scale.dev_out(x, factor=factor, out=out)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(out, want)


def test_outs_are_torchs_own() -> None:
    """An omitted out can be lent to another stream and grown, as any tensor of torch's."""
    add, x = importlib.import_module("aicf_cuda.add").add, torch.ones(1 << 20, device="cuda")
    for make in (add, torch.ops.aicf.add):
        out = make(x, x)
        address = out.data_ptr()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(LONG)
        out.record_stream(side)
        del out
        assert torch.empty(1 << 20, device="cuda").data_ptr() != address  # not given away yet
        torch.cuda.synchronize()
    assert add(x, x).resize_(1 << 21).numel() == 1 << 21
