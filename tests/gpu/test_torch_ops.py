"""The ops of the main table as ops of torch, on CUDA tensors: torch's checks of operators,
gradients beside torch's own, compiled code, streams, CUDA graphs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from rows import Maker, Sample, rows  # noqa: E402
from rows.calls import call_reference, calls_of, mapped, tensors_of  # noqa: E402
from rows.table import DTYPES, WORDS, facts  # noqa: E402
from torch_ops.samples import MAIN, forms_of, has_gradient, plain_of, samples_of  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.guests("torch"), pytest.mark.promise("TORCH-gpu")]

LONG = 100_000_000  # cycles, 50 ms
NEAR = {torch.float32: {"rtol": 1e-4, "atol": 1e-4}, torch.bfloat16: {"rtol": 0.05, "atol": 0.1}}


def dtypes_of(name: str) -> list[Any]:
    """Of NEAR, or whatever the row has on CUDA where it takes no floats."""
    row = rows()[name]
    covered = [kind for kind in row.dtypes if any(calls_of(row, kind, "cuda"))]
    floats = [DTYPES[kind] for kind in covered if DTYPES[kind] in NEAR]
    return floats or [DTYPES[kind] for kind in covered[:1]]


@pytest.fixture(scope="module")
def ops() -> Any:
    importlib.import_module("aicf_cuda.torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch.ops.aicf


@pytest.mark.compiler
@pytest.mark.parametrize("name", MAIN)
def test_opcheck(ops: Any, name: str) -> None:
    """One sample in each dtype: the others were checked on the CPU."""
    for dtype in dtypes_of(name):
        for one in samples_of("aicf", name, dtype, "cuda")[:1]:
            torch.library.opcheck(plain_of(getattr(ops, name), one), one.args, one.kwargs)


@pytest.mark.compiler
@pytest.mark.parametrize("name", MAIN)
def test_opcheck_of_other_forms(ops: Any, name: str) -> None:
    op, dtype = getattr(ops, name), dtypes_of(name)[0]
    for overload, one in forms_of(op, samples_of("aicf", name, dtype, "cuda")[1]):
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


def wanting(one: Sample) -> list[int]:
    """Which of its tensors, in order, require a gradient."""
    return [i for i, x in enumerate(tensors_of(one.args)) if x.requires_grad]


def needing(one: Sample, need: list[int], exactly: bool) -> tuple[Sample, list[Any]]:
    """The sample on leaves of its own, of which those of `need` require a gradient, in float64 on
    the CPU if they shall be exact; and those leaves."""
    leaves: list[Any] = []

    def leaf(x: Any) -> Any:
        to = torch.float64 if exactly and x.is_floating_point() else x.dtype
        made = x.detach().to("cpu" if exactly else x.device, to, copy=True)
        leaves.append(made.requires_grad_(len(leaves) in need))
        return leaves[-1]

    given = Sample(mapped(leaf, one.args), dict(one.kwargs))
    return given, [leaves[i] for i in need]


def in_our_words(kwargs: dict[str, Any]) -> dict[str, Any]:
    """As the rows' references take them."""
    kind = kwargs.get("dtype")
    return {**kwargs, "dtype": WORDS[kind]} if isinstance(kind, torch.dtype) else kwargs


def apart(x: Any, seed: int) -> Any:
    """A gradient for x that is not contiguous, in multiples of 1/8."""
    maker = Maker(x.dtype, str(x.device), seed=seed)
    return maker(*x.shape, 2)[..., 1]


def backward(outs: Any, leaves: list[Any], like: Any) -> Any:
    """The gradients of the leaves, for incoming ones of the values of those for `like`."""
    outs = outs if isinstance(outs, tuple) else (outs,)
    like = like if isinstance(like, tuple) else (like,)
    pairs = [
        (out, apart(x, i).to(out.device, out.dtype))
        for i, (out, x) in enumerate(zip(outs, like, strict=False))
        if x.is_floating_point() and out.requires_grad
    ]
    outs, gs = zip(*pairs, strict=True)
    return torch.autograd.grad(outs, leaves, gs, allow_unused=True)


@pytest.mark.promise("ROWS-gradients")
@pytest.mark.parametrize("name", [n for n in MAIN if has_gradient("aicf", n)])
def test_gradients_beside_torch(ops: Any, name: str) -> None:
    """Of all arguments and of each alone, beside the autograd of the row's reference."""
    row = rows()[name]
    for dtype in dtypes_of(name):
        for one in samples_of("aicf", name, dtype, "cuda"):
            if one.kwargs.get("dtype", dtype) not in NEAR:
                continue
            every = wanting(one)
            for need in [every, *([i] for i in every if len(every) > 1)]:
                given, leaves = needing(one, need, exactly=False)
                found = getattr(ops, name)(*given.args, **given.kwargs)
                ours = backward(found, leaves, found)
                given, leaves = needing(one, need, exactly=True)
                outs = tuple(call_reference(row, given.args, in_our_words(given.kwargs)))
                theirs = backward(outs, leaves, found)
                for x, y in zip(ours, theirs, strict=True):
                    want = torch.zeros(x.shape) if y is None else y.to(dtype)
                    torch.testing.assert_close(x.cpu(), want.to(x.dtype), **NEAR[dtype])


@pytest.mark.compiler
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


@pytest.mark.compiler
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


@pytest.mark.parametrize("name", [n for n in MAIN if not facts(n).writes])
def test_a_cuda_graph(ops: Any, name: str) -> None:
    """Captured through torch.ops, replayed on other values."""
    op, dtype = getattr(ops, name), dtypes_of(name)[0]

    def made(seed: int) -> Sample:
        return samples_of("aicf", name, dtype, "cuda", False, seed)[0]

    one = made(0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        op(*one.args, **one.kwargs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(*one.args, **one.kwargs)
    for seed in range(1, 4):
        for x, other in zip(tensors_of(one.args), tensors_of(made(seed).args), strict=True):
            x.copy_(other)
        graph.replay()
        torch.testing.assert_close(out, op(*one.args, **one.kwargs), equal_nan=True)


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
