"""batch_norm and what belongs to it: what is special beside tests/rows."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from kernels.calls import call, printed_with_threads, skip_without
from kernels.tensors import DTYPES, FLOATS, array_of, poisoned, random, tensor_of
from kernels.tolerance import EPS, assert_close
from rows import batch_norm as entries

pytestmark = [pytest.mark.guests("torch")]

F64 = torch.float64
reference: Any = entries  # whose references take lists of arguments
LAST = torch.channels_last
# Ranks 2 to 5; planes of one element, odd ones, of half a vector, of several blocks; channels that
# are one, odd, a vector's, more than a block's.
SHAPES = [
    (2, 1), (5, 3), (4, 513), (1, 3, 2), (7, 16, 4), (3, 5, 7, 7), (2, 8, 14, 14), (2, 1, 33, 65),
    (3, 40, 4, 6), (1, 2, 50, 90), (2, 3, 2, 5, 4), (9, 300, 2, 2), (700, 24), (2, 1030, 3, 3),
]  # fmt: skip


def acc(dtype: str) -> str:
    return "f64" if dtype == "f64" else "f32"


def made(shape: tuple[int, ...], dtype: str, device: str, last: bool, seed: int) -> torch.Tensor:
    x = random(shape, dtype, device, seed=seed)
    return x.contiguous(memory_format=LAST) if last else x


def like(x: torch.Tensor) -> torch.Tensor:
    return torch.full_like(x, torch.nan)


def doubles(*tensors: torch.Tensor | None) -> list[Any]:
    return [None if t is None else t.cpu().to(F64) for t in tensors]


def orders(shape: tuple[int, ...]) -> list[bool]:
    return [False, True] if len(shape) == 4 else [False]


def channel(c: int, dtype: str, device: str, seed: int) -> torch.Tensor:
    return random((c,), acc(dtype), device, seed=seed)


@pytest.mark.promise("KERNELS-batch-norm")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward(device: str, shape: tuple[int, ...], dtype: str) -> None:
    skip_without(dtype, device)
    c = shape[1]
    weight, bias = channel(c, dtype, device, 3), channel(c, dtype, device, 4)
    for last in orders(shape):
        x = made(shape, dtype, device, last, 1)
        for w, b in [(weight, bias), (None, None), (weight, None), (None, bias)]:
            out, stats = like(x), [poisoned((c,), acc(dtype), device) for _ in range(2)]
            call("batch_norm", dtype, x, w, b, out, *stats, eps=1e-3)
            wants = reference.batch_norm(*doubles(x, w, b), eps=1e-3)
            kinds = (dtype, acc(dtype), acc(dtype))
            for got, want, kind in zip((out, *stats), wants, kinds, strict=True):
                assert_close(array_of(got), want.numpy(), kind, f"batch_norm {shape} {last}", 2e-6)
            out = like(x)
            call("batch_norm_eval", dtype, x, *stats, w, b, out, eps=1e-3)
            assert_close(array_of(out), wants[0].numpy(), dtype, f"eval {shape} {last}", 2e-6)


@pytest.mark.promise("KERNELS-batch-norm")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("offset", [1, 3])
def test_in_place_at_odd_addresses(device: str, dtype: str, offset: int) -> None:
    skip_without(dtype, device)
    for shape in [(6, 16), (2, 3, 8, 8), (2, 8, 3, 5)]:
        for last in orders(shape):
            plain = made(shape, dtype, device, last, 1)
            memory = torch.empty(plain.numel() + offset, dtype=plain.dtype, device=device)
            x = memory[offset:].as_strided(shape, plain.stride(), offset)
            x.copy_(plain)
            want = reference.batch_norm(*doubles(x))
            call("batch_norm", dtype, x, None, None, x)
            assert_close(array_of(x), want[0].numpy(), dtype, f"in place {shape} {last}", 2e-6)
            x.copy_(plain)
            stats = [tensor_of(t.numpy(), acc(dtype), device) for t in want[1:]]
            call("batch_norm_eval", dtype, x, *stats, None, None, x)
            assert_close(array_of(x), want[0].numpy(), dtype, f"eval {shape} {last}", 2e-6)


# ---- inputs that broke others --------------------------------------------------------------------


@pytest.mark.promise("KERNELS-batch-norm-inputs")
@pytest.mark.parametrize("dtype", ["f32"])
@pytest.mark.parametrize("shape", [(140_000, 3), (140_000, 1, 2, 1), (140_000, 1, 3)], ids=str)
def test_a_batch_of_140000(device: str, shape: tuple[int, ...], dtype: str) -> None:
    for last in orders(shape):
        x, gy = made(shape, dtype, device, last, 1), made(shape, dtype, device, last, 2)
        check(gy, x, None, dtype, "140000")
        out = like(x)
        call("batch_norm", dtype, x, None, None, out)
        want = reference.batch_norm(*doubles(x))[0]
        assert_close(array_of(out), want.numpy(), dtype, f"140000 {shape}", 2e-6)


@pytest.mark.promise("KERNELS-batch-norm-inputs")
@pytest.mark.parametrize("base", [1449.0, 40_000.0, -1e6])
@pytest.mark.parametrize("shape", [(300, 5), (4, 6, 40, 40), (2, 8, 129, 131)], ids=str)
def test_far_from_zero(device: str, shape: tuple[int, ...], base: float) -> None:
    data = base + np.random.default_rng(5).uniform(-1, 1, shape)
    for last in orders(shape):
        x = tensor_of(data, "f32", device)
        x = x.contiguous(memory_format=LAST) if last else x
        out, mean, var = like(x), *(poisoned((shape[1],), "f32", device) for _ in range(2))
        call("batch_norm", "f32", x, None, None, out, mean, var)
        wants = reference.batch_norm(*doubles(x))
        for got, want in zip((out, mean, var), wants, strict=True):
            assert_close(array_of(got), want.numpy(), "f32", f"{base} +- 1, {last}", 4e-6)


@pytest.mark.promise("KERNELS-batch-norm-inputs")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("first", [1e4, -3e4])
def test_an_outlier_comes_first(device: str, dtype: str, first: float) -> None:
    skip_without(dtype, device)
    for shape in [(3, 4, 50, 50), (2000, 8)]:
        x = random(shape, dtype, device)
        x[0] = first
        want = reference.batch_norm(*doubles(x))
        out = like(x)
        call("batch_norm", dtype, x, None, None, out)
        assert_close(array_of(out), want[0].numpy(), dtype, f"an outlier in {shape}", 1e-5)


@pytest.mark.promise("KERNELS-batch-norm-inputs")
@pytest.mark.parametrize("dtype", FLOATS)
def test_equal_numbers_are_zeros(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for shape in [(100, 3), (4, 8, 10, 10)]:
        for last in orders(shape):
            x = torch.full(shape, 1234.0, dtype=DTYPES[dtype], device=device)
            x = x.contiguous(memory_format=LAST) if last else x
            out, var = like(x), poisoned(shape[1:2], acc(dtype), device)
            call("batch_norm", dtype, x, None, None, out, None, var)
            assert (out == 0).all()
            assert (var == 0).all()


@pytest.mark.promise("KERNELS-batch-norm-inputs", "KERNELS-special-values")
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_nan_stays_in_its_channel(device: str, value: float) -> None:
    for shape in [(60, 9), (3, 9, 20, 7), (2, 16, 6, 6)]:
        for last in orders(shape):
            x = made(shape, "f32", device, last, 1)
            x[-1, 4] = value
            out = like(x)
            call("batch_norm", "f32", x, None, None, out)
            wrong = (~out.isfinite()).amax([d for d in range(len(shape)) if d != 1])
            assert wrong.nonzero().view(-1).tolist() == [4]


@pytest.mark.promise("KERNELS-batch-norm-inputs")
@pytest.mark.parametrize("count", [2, 3, 64])
def test_running_statistics_are_unbiased(device: str, count: int) -> None:
    """As torch's: the batch is normalised by the biased variance, the unbiased one is kept."""
    x = random((count, 5), "f32", device)
    running = [torch.zeros(5, device=device), torch.ones(5, device=device)]
    want = [t.clone() for t in running]
    mean, var = (poisoned((5,), "f32", device) for _ in range(2))
    for step in range(20):
        call("batch_norm", "f32", x + step, None, None, like(x), mean, var)
        momentum: Any = torch.tensor(0.25, device=device) if step % 2 else 0.25
        call("running_stats", "f32", *running, mean, var, count=count, momentum=momentum)
        functional.batch_norm(x + step, want[0], want[1], training=True, momentum=0.25)
    for got, expected in zip(running, want, strict=True):
        assert_close(array_of(got), array_of(expected), "f32", f"running, {count}", 1e-5)


# ---- backward ------------------------------------------------------------------------------------


def sizes(given: list[Any], eps: float) -> list[Any]:
    """What the terms of gx, gw and gb add up to without their signs."""
    gy, x, mean, var, weight = given
    over = reference.others(x)
    rstd = (var + eps).rsqrt()
    h = (x - reference.by_channel(mean, x)).abs() * reference.by_channel(rstd, x)
    gw, gb = (gy.abs() * h).mean(over), gy.abs().mean(over)
    gx = gy.abs() + reference.by_channel(gb, x) + h * reference.by_channel(gw, x)
    gx = gx * reference.by_channel(rstd if weight is None else rstd * weight.abs(), x)
    count = x.numel() // x.shape[1]
    return [gx.numpy(), (gw * count).numpy(), (gb * count).numpy()]


def check(gy: torch.Tensor, x: torch.Tensor, weight: Any, dtype: str, what: str) -> None:
    c, device, eps = x.shape[1], x.device.type, 1e-3
    stats = [
        tensor_of(t.numpy(), acc(dtype), device) for t in reference.batch_norm(*doubles(x))[1:]
    ]
    given = doubles(gy, x, *stats, weight)
    allowed = sizes(given, eps)
    slack = 16 + (x.numel() // c) ** 0.5
    for training in (True, False):
        wants = reference.batch_norm_bwd(*given, eps=eps, training=training)
        for want in ("xwb", "x", "w", "b", "wb"):
            outs = [
                None
                if k not in want
                else like(x)
                if k == "x"
                else poisoned((c,), acc(dtype), device)
                for k in "xwb"
            ]
            options = {"eps": eps, "training": training}
            call("batch_norm_bwd", dtype, gy, x, *stats, weight, *outs, **options)
            kinds = (dtype, acc(dtype), acc(dtype))
            for out, exact, size, kind in zip(outs, wants, allowed, kinds, strict=True):
                if out is not None:
                    room = slack * EPS[dtype] * size
                    words = f"{what} {want} training={training}"
                    assert_close(array_of(out), exact.numpy(), kind, words, room)


@pytest.mark.promise("KERNELS-batch-norm-gradients")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backward(device: str, shape: tuple[int, ...], dtype: str) -> None:
    skip_without(dtype, device)
    for last in orders(shape):
        gy, x = (made(shape, dtype, device, last, seed) for seed in (1, 2))
        for weight in (channel(shape[1], dtype, device, 3), None):
            check(gy, x, weight, dtype, f"batch_norm_bwd {shape} {last}")


@pytest.mark.promise("KERNELS-batch-norm-gradients")
@pytest.mark.parametrize("dtype", FLOATS)
def test_backward_of_an_empty_batch(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    x, stats = (
        random((0, 3, 4), dtype, device),
        [channel(3, dtype, device, s).abs() for s in (1, 2)],
    )
    gw, gb = (poisoned((3,), acc(dtype), device) for _ in range(2))
    call("batch_norm_bwd", dtype, x, x, *stats, None, None, gw, gb)
    assert (gw == 0).all()
    assert (gb == 0).all()


@pytest.mark.promise("KERNELS-batch-norm-gradients", "KERNELS-special-values")
def test_given_statistics_leave_x_out(device: str) -> None:
    gy, x = random((8, 3), "f32", device, seed=1), torch.full((8, 3), torch.inf, device=device)
    stats = [torch.zeros(3, device=device), torch.ones(3, device=device)]
    gx = like(gy)
    call("batch_norm_bwd", "f32", gy, x, *stats, None, gx, eps=0.0, training=False)
    assert torch.equal(gx, gy)


@pytest.mark.promise("KERNELS-batch-norm-gradients")
@pytest.mark.parametrize("dtype", FLOATS)
def test_in_place_and_the_same_bits_again(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for shape in [(4000, 24), (8, 32, 28, 28), (5, 7, 9, 9)]:
        for last in orders(shape):
            gy, x = (made(shape, dtype, device, last, seed) for seed in (1, 2))
            runs = []
            for in_place in (False, False, True):
                g, c = gy.clone(), shape[1]
                out, mean, var = like(x), *(poisoned((c,), acc(dtype), device) for _ in range(2))
                call("batch_norm", dtype, x, None, None, out, mean, var)
                outs = [g if in_place else like(x)]
                outs += [poisoned((c,), acc(dtype), device) for _ in range(2)]
                call("batch_norm_bwd", dtype, g, x, mean, var, None, *outs)
                runs.append([out, mean, var, *outs])
            for again in runs[1:]:
                assert all(torch.equal(a, b) for a, b in zip(runs[0], again, strict=True))


@pytest.mark.promise("KERNELS-batch-norm-gradients")
def test_gradients_beside_torch(device: str) -> None:
    """Through torch's autograd on both sides: a g with gaps, each argument's need alone."""
    import aicf_cuda.torch  # noqa: F401

    data = [random(s, "f32", device, seed=i) for i, s in enumerate([(6, 5, 4, 8), (5,), (5,)])]
    g = random((6, 5, 4, 16), "f32", device)[..., ::2]
    for last in (False, True):
        for needed in [(0,), (1,), (2,), (0, 1, 2)]:
            grads = []
            for run in (
                lambda x, w, b: torch.ops.aicf.batch_norm(x, w, b, eps=1e-5),
                lambda x, w, b: functional.batch_norm(x, None, None, w, b, True, 0.1, 1e-5),
            ):
                leaves = [t.clone().requires_grad_(i in needed) for i, t in enumerate(data)]
                x = leaves[0].contiguous(memory_format=LAST) if last else leaves[0]
                run(x, *leaves[1:]).backward(g)
                grads.append([leaf.grad for leaf in leaves])
            for i in needed:
                got, want = (array_of(side[i]) for side in grads)
                assert_close(got, want, "f32", f"gradient {i}", 2e-5)


# ---- large and threads ---------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.promise("A2", "KERNELS-batch-norm")
@pytest.mark.parametrize("shape", [(2**28 + 3, 8), (1, 2, 2**15, 2**15 + 64), (4, 8, 8192, 8200)])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.large
def test_more_elements_than_32_bits_count(shape: tuple[int, ...], last: bool) -> None:
    x = torch.empty(shape, dtype=torch.float16, device="cuda")
    x = x.contiguous(memory_format=LAST) if last and len(shape) == 4 else x
    x.normal_()
    mean, var = (poisoned((shape[1],), "f32", "cuda") for _ in range(2))
    call("batch_norm", "f16", x, None, None, x, mean, var)
    assert mean.abs().max() < 1e-3
    assert (var - 1).abs().max() < 1e-3
    ends = torch.cat([x[0].reshape(-1)[-1000:], x[-1].reshape(-1)[-1000:]]).float()
    assert ends.isfinite().all()
    assert ends.abs().max() < 8
    gx, gw, gb = (
        torch.full_like(x, torch.nan),
        *(poisoned((shape[1],), "f32", "cuda") for _ in range(2)),
    )
    call("batch_norm_bwd", "f16", x, x, mean * 0, var, None, gx, gw, gb, eps=0.0)
    count = x.numel() // shape[1]
    assert (gw / count - 1).abs().max() < 1e-2
    assert (gb / count).abs().max() < 1e-3
    assert not gx.isnan().any()
    del x, gx
    torch.cuda.empty_cache()


def digest() -> str:
    """One hash over results of every op, each long enough for many parts."""
    h = hashlib.sha256()
    for dtype in ("f32", "bf16"):
        for shape in [(1500, 70), (9, 6, 40, 60)]:
            for last in orders(shape):
                gy, x = (made(shape, dtype, "cpu", last, seed) for seed in (1, 2))
                c = shape[1]
                out, mean, var = like(x), *(poisoned((c,), acc(dtype), "cpu") for _ in range(2))
                call("batch_norm", dtype, x, None, None, out, mean, var)
                outs = [like(x), *(poisoned((c,), acc(dtype), "cpu") for _ in range(2))]
                call("batch_norm_bwd", dtype, gy, x, mean, var, None, *outs)
                for t in (out, mean, var, *outs):
                    h.update(t.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()


@pytest.mark.promise("KERNELS-threads")
def test_bits_do_not_depend_on_the_threads() -> None:
    program = "import kernels.test_batch_norm as t; print(t.digest())"
    assert printed_with_threads(program, 3).strip() == digest()
