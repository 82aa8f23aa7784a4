"""Every CUDA launcher against float64: `python check.py LIBRARY.so [--quick | --huge] [GROUP ...]`.

Outs are poisoned with NaN and lie between guards that must not change. --quick takes the small
cases alone (for the sanitizers), --huge adds tensors beyond 2**31 elements. Prints the failures,
each with op, shape, dtype, worst error and where, and then exits 1.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu.launchers import F32, Launchers, Scalar, View, own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
HALVES = FLOATS[1:]
RTOL = {torch.float32: 1.3e-6, torch.float16: 1e-3, torch.bfloat16: 1.6e-2}
ATOL = 1e-5
EPS = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
GUARD = 256  # elements on both sides of an out

failures: list[str] = []
checked = 0


def random(shape: Sequence[int], dtype: torch.dtype, offset: int = 0) -> torch.Tensor:
    """Standard normal, its first element `offset` elements past an allocation's start."""
    count = torch.Size(shape).numel()
    flat = torch.empty(count + offset, dtype=dtype, device="cuda")
    flat.normal_()
    return flat[offset:].view(shape)


class Guarded:
    """A poisoned out between guards."""

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, offset: int = 0) -> None:
        count = torch.Size(shape).numel()
        self.all = torch.full((count + offset + 2 * GUARD,), float("nan"), device="cuda").to(dtype)
        self.begin, self.end = GUARD + offset, GUARD + offset + count
        self.out = self.all[self.begin : self.end].view(shape)

    def intact(self) -> bool:
        return bool(self.all[: self.begin].isnan().all() and self.all[self.end :].isnan().all())


def compare(
    name: str, got: torch.Tensor, want: torch.Tensor, tolerance: torch.Tensor | float
) -> None:
    """`tolerance` is absolute, one or one an element; NaN only matches NaN, inf only itself."""
    global checked
    checked += 1
    got, want = got.double(), want.double()
    if got.shape != want.shape:
        failures.append(f"{name}: shape {tuple(got.shape)} for {tuple(want.shape)}")
        return
    if got.numel() == 0:
        return
    error = (got - want).abs()
    error = torch.where(got == want, 0.0, error)
    error = torch.where(got.isnan() & want.isnan(), 0.0, error)
    bad = ~(error <= tolerance)
    if bad.any():
        excess = torch.where(error.isnan(), float("inf"), error) - tolerance
        at = int(excess.flatten().argmax())
        failures.append(
            f"{name}: {int(bad.sum())} of {got.numel()} wrong, worst at {at}: "
            f"{got.flatten()[at].item()} for {want.flatten()[at].item()}"
        )


def close(name: str, got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> None:
    compare(name, got, want, ATOL + RTOL[dtype] * want.double().abs().nan_to_num(0, 0, 0))


def require(name: str, holds: bool) -> None:
    global checked
    checked += 1
    if not holds:
        failures.append(name)


def exact(name: str, got: torch.Tensor, want: torch.Tensor) -> None:
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    kind = kinds[got.element_size()]
    require(
        f"{name}: other bits",
        torch.equal(got.contiguous().view(kind), want.contiguous().view(kind)),
    )


# ---- elementwise -----------------------------------------------------------------------------


def gelu_slope(y: torch.Tensor, approximate: str) -> torch.Tensor:
    y = y.double().clamp(-100, 100)
    if approximate == "none":
        normal = torch.exp(-0.5 * y * y) / (2 * torch.pi) ** 0.5
        return 0.5 * torch.special.erfc(-y * 0.5**0.5) + y * normal
    root, cubic = (2 / torch.pi) ** 0.5, 0.044715
    t = torch.tanh(root * (y + cubic * y**3))
    return 0.5 * (1 + t) + 0.5 * y * (1 - t * t) * root * (1 + 3 * cubic * y * y)


def number(value: float | torch.Tensor) -> Scalar:
    if isinstance(value, torch.Tensor):
        return Scalar(value.data_ptr(), F32, 0.0)
    return Scalar(None, F32, value)


def elementwise_ops() -> Iterator[tuple[str, int, Sequence[Any], Callable[..., torch.Tensor]]]:
    """Op, tensor inputs, what follows the dims, reference in float64."""
    import ctypes

    where = torch.where
    factor = torch.tensor([-1.75], device="cuda")
    yield "add", 2, (), lambda a, b: a.double() + b.double()
    yield "relu", 1, (), lambda x: where(x.double() <= 0, 0.0, x.double())
    yield "relu_bwd", 2, (), lambda gy, y: where(y.double() <= 0, 0.0, gy.double())
    for word, approximate in enumerate(("none", "tanh")):
        yield (
            "gelu_bwd",
            2,
            (ctypes.c_int(word),),
            lambda gy, y, a=approximate: gy.double() * gelu_slope(y, a),
        )
    yield "scale", 1, (number(0.3),), lambda x: x.double() * float(torch.tensor(0.3))
    yield "scale", 1, (number(factor),), lambda x, f=factor: x.double() * f.double()


# 0; 1; around the widest vector of each dtype; around a block's share; a large odd one.
SIZES = (0, 1, 3, 4, 5, 7, 8, 9, 255, 4095, 4096, 4097, 8193, 1_000_003)
PHASES = ((0, 0, 0), (1, 1, 1), (3, 3, 3), (7, 7, 7), (0, 1, 0), (1, 0, 3), (5, 5, 2))


def vec(launch: Launchers, quick: bool) -> None:
    for (op, count, more, reference), dtype in itertools.product(elementwise_ops(), FLOATS):
        for size, phases in itertools.product(SIZES[:-1] if quick else SIZES, PHASES):
            inputs = [random((size,), dtype, phases[j]) for j in range(count)]
            guarded = Guarded((size,), dtype, phases[2])
            launch.elementwise(op, "vec", guarded.out, *inputs, more=more)
            name = f"{op} vec {dtype} {size} phases {phases}"
            close(name, guarded.out, reference(*inputs), dtype)
            require(f"{name}: guard", guarded.intact())
        for j in range(count):  # out is exactly an input
            inputs = [random((10_007,), dtype, 1) for _ in range(count)]
            want = reference(*inputs)
            launch.elementwise(op, "vec", inputs[j], *inputs, more=more)
            close(f"{op} vec {dtype} in place of {j}", inputs[j], want, dtype)


def strided_cases(
    dtype: torch.dtype,
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Name, two inputs that broadcast, poisoned out."""

    def out(*shape: int) -> torch.Tensor:
        return torch.full(shape, float("nan"), device="cuda").to(dtype)

    yield "transposed", random((67, 130), dtype).t(), random((130, 67), dtype), out(130, 67)
    yield "row", random((300, 129), dtype), random((129,), dtype), out(300, 129)
    yield "column", random((300, 1), dtype), random((300, 129), dtype), out(300, 129)
    yield "scalar", random((1,), dtype), random((41, 5), dtype, 1), out(5, 41).t()
    yield "outer", random((513, 1), dtype), random((1, 77), dtype), out(513, 77)
    yield (
        "sliced",
        random((40, 60), dtype)[::3, 1::2],
        random((14, 60), dtype)[:, ::2],
        out(28, 60)[::2, ::2],
    )
    yield (
        "rank 6",
        random((3, 2, 4, 3, 5, 2), dtype).permute(5, 3, 1, 0, 2, 4),
        random((2, 3, 1, 3, 1, 5), dtype),
        out(2, 3, 2, 3, 4, 5),
    )
    yield (
        "rank 8",
        random((2, 3, 2, 2, 3, 2, 2, 3), dtype).permute(7, 5, 3, 1, 6, 4, 2, 0),
        random((3, 2, 2, 3, 2, 3, 2, 2), dtype),
        out(2, 2, 3, 2, 3, 2, 2, 3).permute(7, 6, 5, 4, 3, 2, 1, 0),
    )
    yield "empty", random((0, 5), dtype), random((5,), dtype), out(0, 5)


def strided(launch: Launchers, quick: bool) -> None:
    for (op, count, more, reference), dtype in itertools.product(elementwise_ops(), FLOATS):
        for name, a, b, out in strided_cases(dtype):
            inputs = [a, b][:count]
            if op != "add":
                inputs = [t.broadcast_to(out.shape) for t in inputs]
            launch.elementwise(op, "strided", out, *inputs, more=more)
            close(
                f"{op} strided {dtype} {name}",
                out,
                reference(*inputs).broadcast_to(out.shape),
                dtype,
            )
    x, out = random((100, 30), torch.float32), torch.empty(100, 30, device="cuda")
    flipped = View(x.data_ptr() + 4 * 2999, 1)
    flipped.sizes[0], flipped.strides[0] = 3000, -1
    launch.call("relu_strided_f32", flipped, own(out.view(-1)), 3000)
    exact("relu strided, negative stride", out.view(-1), x.view(-1).flip(0).relu())


def special(launch: Launchers, quick: bool) -> None:
    inf = float("inf")
    hard = [
        inf,
        -inf,
        float("nan"),
        0.0,
        -0.0,
        1e4,
        -1e4,
        1e20,
        -1e20,
        3e38,
        -3e38,
        5.5,
        -5.5,
        1e-30,
        -9.0,
    ]
    y = torch.tensor(hard, device="cuda")
    for word, approximate in enumerate(("none", "tanh")):
        import ctypes

        gx, gy = torch.full_like(y, float("nan")), torch.full_like(y, 2.0)
        launch.elementwise("gelu_bwd", "vec", gx, gy, y, more=(ctypes.c_int(word),))
        close(
            f"gelu_bwd {approximate} at the ends", gx, 2 * gelu_slope(y, approximate), torch.float32
        )
    for dtype in HALVES:
        bits = (
            torch.arange(-32768, 32768, device="cuda", dtype=torch.int32)
            .to(torch.int16)
            .view(dtype)
        )
        out = torch.empty_like(bits)
        launch.elementwise("relu", "vec", out, bits)
        want = torch.where(bits.double() <= 0, 0.0, bits.double())
        compare(f"relu of every {dtype}", out, want, 0.0)
        other = bits.flip(0).contiguous()
        launch.elementwise("add", "vec", out, bits, other)
        want = (bits.double() + other.double()).float().to(dtype)
        compare(f"add of every {dtype}", out, want, 0.0)


# ---- copy ------------------------------------------------------------------------------------

ANY: tuple[torch.dtype, ...] = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int8,
    torch.uint8,
)
ANY += (torch.int16, torch.int32, torch.int64, torch.bool)


def counting(shape: Sequence[int], dtype: torch.dtype, offset: int = 0) -> torch.Tensor:
    count = torch.Size(shape).numel()
    bytes_each = torch.empty(0, dtype=dtype).element_size()
    raw = torch.randint(
        0, 2 if dtype == torch.bool else 255, ((count + offset) * bytes_each,), device="cuda"
    )
    return raw.to(torch.uint8).view(dtype)[offset:].view(shape)


def copy(launch: Launchers, quick: bool) -> None:
    for dtype in ANY:
        for size, (at, to) in itertools.product(SIZES, ((0, 0), (1, 1), (5, 5), (0, 1), (3, 2))):
            x, out = counting((size,), dtype, at), counting((size,), dtype, to)
            launch.elementwise("copy", "flat", out, x)
            exact(f"copy flat {dtype} {size} from {at} to {to}", out, x)
        # Tiles whole and cut; rows too short for tiles; batches; three dims turned around.
        for shape in (
            (64, 64),
            (65, 33),
            (128, 16),
            (1000, 15),
            (3, 70, 129),
            (5, 16, 16),
            (200, 3, 40),
        ):
            x = counting(shape, dtype)
            for order in itertools.permutations(range(len(shape))):
                view = x.permute(order)
                out = counting(tuple(view.shape), dtype)
                launch.elementwise("copy", "strided", out, view)
                exact(f"copy strided {dtype} {shape} as {order}", out, view)
                out = counting(shape, dtype).permute(order)
                launch.elementwise("copy", "strided", out, view.clone())
                exact(f"copy strided {dtype} {shape} to {order}", out, view)
        wide = counting((90, 80), dtype)
        out = counting((80, 45), dtype)
        launch.elementwise("copy", "strided", out, wide[::2].t())
        exact(f"copy strided {dtype} of every second row, transposed", out, wide[::2].t())
        launch.elementwise("copy", "strided", out, counting((1, 45), dtype).broadcast_to(80, 45))
        launch.elementwise("copy", "strided", out, wide[:, :45:][:80])
        exact(f"copy strided {dtype} of a pitched matrix", out, wide[:, :45][:80])


# ---- bias ------------------------------------------------------------------------------------

# (shape, axis): columns, rows, images; odd and whole in vectors; 1 along each dim; empty.
BIASED = (
    ((5, 7), 1),
    ((64, 128), 1),
    ((33, 1000), 1),
    ((128, 31), 0),
    ((2, 3, 49), 1),
    ((4, 64, 56, 56), 1),
    ((3, 5, 7, 3), 3),
    ((1, 1), 0),
    ((7, 1), 1),
    ((1, 9), 1),
    ((0, 4), 1),
    ((4, 0), 0),
    ((6, 0, 3), 1),
    ((2048, 8), 1),
    ((8, 5000), 0),
    ((70_000, 3), 1),
    ((3, 70_000), 1),
    ((2, 3, 8), 1),
)


def bias(launch: Launchers, quick: bool) -> None:
    for dtype, (shape, axis) in itertools.product(FLOATS, BIASED):
        size = torch.Size(shape).numel()
        along = [1] * len(shape)
        along[axis] = shape[axis]
        others = [d for d in range(len(shape)) if d != axis]
        for phases in ((0, 0, 0), (1, 1, 1), (3, 0, 2), (2, 1, 2)):
            x, b = random(shape, dtype, phases[0]), random((shape[axis],), dtype, phases[1])
            guarded = Guarded(shape, dtype, phases[2])
            launch.bias_add(x, b, guarded.out, axis)
            name = f"{dtype} {shape} axis {axis} phases {phases}"
            close(f"bias_add {name}", guarded.out, x.double() + b.double().view(along), dtype)
            require(f"bias_add {name}: guard", guarded.intact())

            grad = Guarded((shape[axis],), dtype, phases[1])
            launch.bias_add_bwd(x, grad.out, axis)
            length = size // max(shape[axis], 1)
            summed(f"bias_add_bwd {name}", grad.out, x, others, dtype, length)
            require(f"bias_add_bwd {name}: guard", grad.intact())
            again = torch.empty_like(grad.out)
            launch.bias_add_bwd(x, again, axis)
            exact(f"bias_add_bwd {name}: repeated", again, grad.out)
    x, b = random((50, 40), torch.float32), random((40,), torch.float32)
    want = x.double() + b.double()
    launch.bias_add(x, b, x, 1)
    close("bias_add in place", x, want, torch.float32)


# ---- sum -------------------------------------------------------------------------------------


def summed(
    name: str,
    got: torch.Tensor,
    x: torch.Tensor,
    axes: Sequence[int],
    dtype: torch.dtype,
    length: int,
) -> None:
    """Within K eps of f32 on the sum of magnitudes, and the result's own rounding."""
    double = x.double()
    want = double.sum(list(axes)) if len(axes) else double
    weight = double.abs().sum(list(axes)) if len(axes) else double.abs()
    slack = min(length, 1000) * EPS[torch.float32] * weight + 0.51 * EPS[dtype] * want.abs()
    compare(name, got.view(want.shape), want, slack + 1e-30)


def sums(launch: Launchers, quick: bool) -> None:
    def views(dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
        yield "dense", random((6, 33, 10, 16), dtype)
        yield "odd", random((5, 7, 3, 129), dtype, 1)
        yield "permuted", random((16, 5, 24, 9), dtype).permute(2, 0, 3, 1)
        yield "sliced", random((12, 40, 6, 34), dtype)[::2, 3:37, :, 1::2]
        yield "broadcast", random((6, 1, 10, 1), dtype).expand(6, 11, 10, 13)
        yield "ones", random((1, 50, 1, 64), dtype)
        yield "empty", random((4, 0, 3, 2), dtype)

    for dtype in FLOATS:
        for name, x in views(dtype):
            for count in range(5):
                for axes in itertools.combinations(range(4), count):
                    kept = [x.shape[d] for d in range(4) if d not in axes]
                    guarded = Guarded(kept, dtype, 1)
                    launch.sum(x, guarded.out, axes)
                    length = x.numel() // max(guarded.out.numel(), 1)
                    title = f"sum {dtype} {name} {tuple(x.shape)} over {axes}"
                    summed(title, guarded.out, x, axes, dtype, length)
                    require(f"{title}: guard", guarded.intact())
        # Long and short, wide and narrow: one sum of many, many of few, splits and none.
        shapes: list[Any] = [
            ((3_000_001,), (0,)),
            ((7, 100_003), (1,)),
            ((100_003, 7), (0,)),
            ((4096, 4096), (1,)),
        ]
        shapes += [
            ((4096, 4096), (0,)),
            ((300_000, 5), (1,)),
            ((5, 300_000), (0,)),
            ((2, 3, 200_000), (0, 2)),
        ]
        shapes += [
            ((64, 64, 3136), (0, 2)),
            ((1, 1), (0, 1)),
            ((1_000_000,), ()),
            ((513, 1025), (1,)),
        ]
        for (shape, axes), offset in itertools.product(() if quick else shapes, (0, 1, 3)):
            x = random(shape, dtype, offset)
            guarded = Guarded([s for d, s in enumerate(shape) if d not in axes], dtype)
            launch.sum(x, guarded.out, axes)
            title = f"sum {dtype} {shape} over {axes} at {offset}"
            summed(title, guarded.out, x, axes, dtype, x.numel() // guarded.out.numel())
            require(f"{title}: guard", guarded.intact())
            again = torch.empty_like(guarded.out)
            launch.sum(x, again, axes)
            exact(f"{title}: repeated", again, guarded.out)
    half = torch.tensor([32000.0] * 4 + [-32000.0] * 4, device="cuda").half()
    out = torch.empty((), dtype=torch.float16, device="cuda")
    launch.sum(half, out, (0,))
    compare(
        "sum of four times 32000 and four times -32000", out, torch.zeros((), device="cuda"), 0.0
    )
    ones = torch.ones(1000, dtype=torch.bfloat16, device="cuda")
    out = torch.empty((), dtype=torch.bfloat16, device="cuda")
    launch.sum(ones, out, (0,))
    compare("sum of 1000 bf16 ones", out, torch.full((), 1000.0, device="cuda"), 0.0)


# ---- gemm ------------------------------------------------------------------------------------


def operand(
    batch: Sequence[int],
    rows: int,
    columns: int,
    layout: str,
    dtype: torch.dtype,
    slack: int,
    offset: int,
) -> torch.Tensor:
    """A matrix whose last (row) or last but one dim (col) has unit stride, `slack` elements of NaN
    between its rows; `offset` moves its first element."""
    inner, outer = (columns, rows) if layout == "row" else (rows, columns)
    count = torch.Size(batch).numel() * outer * (inner + slack)
    flat = torch.full((count + offset,), float("nan"), device="cuda").to(dtype)
    t = flat[offset:].view(*batch, outer, inner + slack)[..., :inner]
    t.copy_(torch.randn(t.shape, device="cuda"))
    return t if layout == "row" else t.transpose(-1, -2)


def check_gemm(
    launch: Launchers,
    kernel: str,
    dtype: torch.dtype,
    shape: tuple[int, int, int],
    layouts: str,
    *,
    batch_a: Sequence[int] = (),
    batch_b: Sequence[int] = (),
    slack: int = 0,
    offset: int = 0,
    bias: bool = False,
    c: str = "none",
    alpha: float = 1.0,
    beta: float = 0.0,
    act: str = "none",
) -> None:
    m, n, k = shape
    kinds = {"r": "row", "c": "col"}
    a = operand(batch_a, m, k, kinds[layouts[0]], dtype, slack, offset)
    b = operand(batch_b, k, n, kinds[layouts[1]], dtype, slack, offset)
    batch = torch.broadcast_shapes(batch_a, batch_b)
    pitch = n + slack
    guarded = Guarded((*batch, m, pitch), dtype, offset)
    out = guarded.out[..., :n]
    bias_t = random((n,), dtype, offset) if bias else None
    c_t = None
    if c == "in place":
        out.copy_(torch.randn(out.shape, device="cuda"))
        c_t = out
    elif c == "given":
        c_t = random((*batch, m, n + 1), dtype)[..., :n]
    elif c == "unread":
        c_t = torch.full((*batch, m, n), float("nan"), device="cuda").to(dtype)

    want = alpha * (a.double() @ b.double())
    weight = abs(alpha) * (a.double().abs() @ b.double().abs())
    if c_t is not None and beta:
        want = want + beta * c_t.double()
        weight = weight + abs(beta) * c_t.double().abs()
    if bias_t is not None:
        want, weight = want + bias_t.double(), weight + bias_t.double().abs()
    if act == "relu":
        want = want.relu()
    if act == "gelu":
        want = torch.nn.functional.gelu(want)

    launch.gemm(kernel, a, b, out, bias=bias_t, c=c_t, alpha=alpha, beta=beta, act=act)
    name = f"gemm {kernel} {dtype} {m}x{n}x{k} {layouts} batch {tuple(batch_a)} {tuple(batch_b)} "
    name += f"slack {slack} offset {offset} bias {bias} c {c} alpha {alpha} beta {beta} {act}"
    slop = max(k, 4) ** 0.5 * 4 * EPS[torch.float32] * weight + 0.51 * EPS[dtype] * want.abs()
    compare(name, out, want, slop + 1e-6)
    require(f"{name}: guard", guarded.intact())
    if slack and guarded.out.numel():
        require(f"{name}: between rows", bool(guarded.out[..., n:].isnan().all()))


# 1; below, at and above a fragment, a tile of each size, a slab; several slabs and none.
SHAPES = (
    (1, 1, 1),
    (1, 1, 40),
    (1, 64, 64),
    (64, 1, 64),
    (5, 3, 2),
    (16, 8, 16),
    (17, 9, 33),
    (64, 64, 64),
    (65, 63, 31),
    (128, 128, 32),
    (129, 257, 96),
    (130, 70, 200),
    (8, 8, 0),
    (33, 65, 0),
    (256, 256, 1000),
)


def gemm(launch: Launchers, quick: bool) -> None:
    kinds = [("simt", dtype) for dtype in FLOATS] + [("mma", dtype) for dtype in HALVES]
    for kernel, dtype in kinds:
        for shape, layouts in itertools.product(SHAPES, ("rr", "rc", "cr", "cc")):
            if kernel == "mma":  # pitches on 16 bytes: slack makes them so
                m, n, k = (-(-s // 8) * 8 for s in shape)
                check_gemm(launch, kernel, dtype, (m, n, k), layouts)
                odd(launch, dtype, shape, layouts)
            else:
                check_gemm(launch, kernel, dtype, shape, layouts)
                check_gemm(launch, kernel, dtype, shape, layouts, slack=3, offset=1)
        size = (72, 88, 104)
        for bias, c, act in itertools.product(
            (False, True), ("none", "given", "in place"), ("none", "relu", "gelu")
        ):
            beta = 0.0 if c == "none" else -0.7
            check_gemm(
                launch, kernel, dtype, size, "rr", bias=bias, c=c, beta=beta, alpha=1.3, act=act
            )
        check_gemm(launch, kernel, dtype, size, "rc", c="unread", beta=0.0)
        check_gemm(
            launch, kernel, dtype, (16, 24, 0), "rr", c="given", beta=2.0, bias=True, act="gelu"
        )
        for batches in (
            ((3,), (3,)),
            ((1,), (4,)),
            ((2, 1, 3), (1, 5, 1)),
            ((0,), (0,)),
            ((2, 3), ()),
            ((), (2, 2, 2)),
        ):
            check_gemm(
                launch,
                kernel,
                dtype,
                (24, 40, 48),
                "rc",
                batch_a=batches[0],
                batch_b=batches[1],
                c="given",
                beta=1.0,
            )
        for layouts in ("rr", "rc", "cr", "cc"):  # vectors: batches, options, more k than one round
            more: dict[str, Any] = {"c": "given", "beta": 0.5, "bias": True, "act": "gelu"}
            check_gemm(
                launch, kernel, dtype, (1, 40, 1048), layouts, batch_a=(5,), batch_b=(5,), **more
            )
            if kernel == "simt":
                check_gemm(
                    launch,
                    kernel,
                    dtype,
                    (40, 1, 1048),
                    layouts,
                    batch_a=(5,),
                    batch_b=(5,),
                    **more,
                )
                check_gemm(launch, kernel, dtype, (77, 1, 515), layouts, slack=1, offset=1, **more)
        if quick:
            continue
        check_gemm(launch, kernel, dtype, (8, 8, 8), "rr", batch_a=(70_000,), batch_b=(70_000,))
        check_gemm(launch, kernel, dtype, (8, 16, 8), "rr", batch_a=(70_000,), batch_b=())
        for layouts in ("rr", "rc", "cr", "cc"):
            check_gemm(launch, kernel, dtype, (1288, 2056, 520), layouts, bias=True, act="relu")
            check_gemm(launch, kernel, dtype, (2048, 2048, 2048), layouts, c="given", beta=0.5)
        check_gemm(launch, kernel, dtype, (512, 512, 512), "rr", batch_a=(16,), batch_b=(16,))
        check_gemm(launch, kernel, dtype, (1, 4096, 4096), "rr")
        check_gemm(launch, kernel, dtype, (4096, 1 if kernel == "simt" else 8, 4096), "rr")
        if kernel == "simt":
            check_gemm(launch, kernel, dtype, (1031, 2049, 515), "rr")
            check_gemm(launch, kernel, dtype, (1031, 2049, 515), "cc", offset=1)


def odd(launch: Launchers, dtype: torch.dtype, shape: tuple[int, int, int], layouts: str) -> None:
    """Odd sizes under pitches that are whole: the slack of a, b and out differs."""
    m, n, k = shape

    def pitched(rows: int, columns: int, kind: str) -> torch.Tensor:
        inner = columns if kind == "r" else rows
        return operand((), rows, columns, {"r": "row", "c": "col"}[kind], dtype, -inner % 8 + 8, 0)

    a, b = pitched(m, k, layouts[0]), pitched(k, n, layouts[1])
    guarded = Guarded((m, n + (-n % 8) + 8), dtype)
    out = guarded.out[:, :n]
    want, weight = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    launch.gemm("mma", a, b, out)
    name = f"gemm mma {dtype} {m}x{n}x{k} {layouts} pitched"
    slop = max(k, 4) ** 0.5 * 4 * EPS[torch.float32] * weight + 0.51 * EPS[dtype] * want.abs()
    compare(name, out, want, slop + 1e-6)
    require(f"{name}: guard", guarded.intact() and bool(guarded.out[:, n:].isnan().all()))


# ---- graphs, and beyond 2**31 ----------------------------------------------------------------


def capture(launch: Launchers, quick: bool) -> None:
    """Each launcher's first call in the process is captured, then replayed on changed inputs."""
    import ctypes

    x, y = (torch.zeros(4096, 48, device="cuda") for _ in range(2))
    turned, shrunk, total = (
        torch.zeros(48, 4096, device="cuda"),
        torch.zeros(48, device="cuda"),
        torch.zeros((), device="cuda"),
    )
    half, product = (
        torch.zeros(48, 4096, dtype=torch.bfloat16, device="cuda"),
        torch.zeros(48, 48, dtype=torch.bfloat16, device="cuda"),
    )
    outs = [torch.zeros_like(x) for _ in range(8)]
    product32 = torch.zeros(48, 48, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        launch.elementwise("add", "vec", outs[0], x, y)
        launch.elementwise("add", "strided", outs[1], x, y[:1])
        launch.elementwise("relu", "vec", outs[2], x)
        launch.elementwise("relu_bwd", "vec", outs[3], x, y)
        launch.elementwise("gelu_bwd", "vec", outs[4], x, y, more=(ctypes.c_int(0),))
        launch.elementwise("scale", "vec", outs[5], x, more=(number(y.view(-1)[0]),))
        launch.elementwise("copy", "flat", outs[6], x)
        launch.elementwise("copy", "strided", turned, x.t())
        launch.bias_add(x, y[0], outs[7], 1)
        launch.bias_add_bwd(x, shrunk, 1)
        launch.sum(x, total, (0, 1))
        launch.gemm("mma", half, half.t(), product)
        launch.gemm("simt", turned, x, product32)
    for _ in range(3):
        x.normal_()
        y.normal_()
        half.normal_()
        graph.replay()
        want = [
            x + y,
            x + y[:1],
            x.relu(),
            torch.where(y <= 0, 0.0, x),
            x * gelu_slope(y, "none"),
            x * y[0, 0],
        ]
        for i, tensor in enumerate([*want, x, x + y[0]]):
            close(f"captured {i}", outs[i], tensor, torch.float32)
        exact("captured transpose", turned, x.t())
        summed("captured bias_add_bwd", shrunk, x, (0,), torch.float32, 4096)
        summed("captured sum", total, x, (0, 1), torch.float32, x.numel())
        want16 = half.double() @ half.double().t()
        compare("captured mma", product, want16, 0.5 + 0.51 * EPS[torch.bfloat16] * want16.abs())
        compare("captured simt", product32, x.double().t() @ x.double(), 0.1)


def huge(launch: Launchers, quick: bool) -> None:
    for n in (2**31 - 1, 2**31, 2**31 + 515):
        a = torch.empty(n, dtype=torch.float16, device="cuda").normal_()
        out = torch.full_like(a, float("nan"))
        launch.elementwise("add", "vec", out, a, a)
        require(f"add vec of {n}", torch.equal(out, a + a))
        out.fill_(float("nan"))
        launch.elementwise("relu", "vec", out[1:], a[:-1])
        require(f"relu vec of {n}, phases apart", torch.equal(out[1:], a[:-1].relu()))
    del a, out
    m = 32_771  # m * 65536 is over 2**31
    row = torch.empty(65_536, dtype=torch.float16, device="cuda").normal_()
    a = torch.empty(m, 65_536, dtype=torch.float16, device="cuda").normal_()
    out = torch.full_like(a, float("nan"))
    launch.elementwise("add", "strided", out, a, row)
    require("add strided, a row, over 2**31", torch.equal(out, a + row))
    out.fill_(float("nan"))
    launch.bias_add(a, row, out, 1)
    require("bias_add over 2**31", torch.equal(out, a + row))
    column = torch.empty(m, 1, dtype=torch.float16, device="cuda").normal_()
    launch.bias_add(a, column, out, 0)
    require("bias_add along 0 over 2**31", torch.equal(out, a + column))
    turned = torch.full((65_536, m), float("nan"), dtype=torch.float16, device="cuda")
    launch.elementwise("copy", "strided", turned, a.t())
    require("copy transposing over 2**31", torch.equal(turned, a.t()))
    small = torch.full((m, 65_536 // 2), float("nan"), dtype=torch.float16, device="cuda")
    launch.elementwise("copy", "strided", small, a[:, ::2])
    require("copy of every second column", torch.equal(small, a[:, ::2]))
    del turned, small, out, a
    # Positive numbers, so that relative errors mean something.
    a = torch.empty(m, 65_536, dtype=torch.bfloat16, device="cuda").uniform_(0.5, 1.5)
    for axes in ((0, 1), (0,), (1,)):
        kept = [a.shape[d] for d in range(2) if d not in axes]
        want = torch.zeros(kept, dtype=torch.float64, device="cuda")
        for begin in range(0, m, 4096):
            part = a[begin : begin + 4096].double().sum(axes)
            if axes == (1,):
                want[begin : begin + 4096] = part
            else:
                want += part
        got = torch.empty(kept, dtype=torch.bfloat16, device="cuda")
        launch.sum(a, got, axes)
        compare(f"sum over {axes} of {a.numel()}", got, want, 0.51 * EPS[torch.bfloat16] * want)
    del a
    bytes_ = torch.randint(0, 255, (2**32 + 77,), dtype=torch.uint8, device="cuda")
    other = torch.zeros_like(bytes_)
    launch.elementwise("copy", "flat", other[1:], bytes_[1:])
    require("copy flat of 2**32 + 76 bytes", torch.equal(other[1:], bytes_[1:]))
    every = torch.zeros(2**31 + 38, dtype=torch.uint8, device="cuda")
    launch.elementwise("copy", "strided", every, bytes_[1::2])
    require("copy strided of 2**31 + 38 bytes", torch.equal(every, bytes_[1::2]))


GROUPS = {
    "capture": capture,
    "vec": vec,
    "strided": strided,
    "special": special,
    "copy": copy,
    "bias": bias,
    "sums": sums,
    "gemm": gemm,
    "huge": huge,
}


def main() -> None:
    words = sys.argv[1:]
    if not words:
        raise SystemExit(__doc__)
    quick, big = "--quick" in words, "--huge" in words
    launch = Launchers(Path(words[0]).resolve())
    torch.manual_seed(0)
    named = [word for word in words[1:] if not word.startswith("--")]
    for name, group in GROUPS.items():
        if (named and name not in named) or (name == "huge" and not big):
            continue
        start, before = time.monotonic(), checked
        group(launch, quick)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        print(f"{name}: {checked - before} checks, {time.monotonic() - start:.1f} s", flush=True)
    for text in failures[:60]:
        print("FAIL", text)
    print(f"{checked} checks, {len(failures)} failures")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
