"""gemm_i8: every kernel gives the bits of the formula, which tests/rows/int8.py says in torch's
integers and in f32, a rounding a step."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import pytest
import torch

from kernels.calls import call
from kernels.tensors import DTYPES, poisoned, tensor_of
from rows.int8 import RANGES, conv2d_i8, gemm_i8

pytestmark = [pytest.mark.guests("torch")]

OUTS = ("i32", "i8", "u8", "f32", "f16", "bf16")
# M, N, K, each there for a reason.
SIZES = [
    (1, 1, 1),
    (1, 17, 3), (17, 1, 3),  # a row, a column
    (3, 5, 2),
    (6, 16, 128), (7, 17, 129), (5, 15, 127),
    (64, 64, 64), (65, 66, 68),
    (97, 61, 31),  # primes
    (1, 300, 301), (300, 1, 300),
    (129, 257, 272),  # a large tile, and one more each way
    (16, 24, 4096),  # few rows, and deep
]  # fmt: skip
LAYOUTS = ("dense", "swapped", "pitched", "odd", "pitched columns", "stepped")


def kernels_of(op: str, device: str) -> list[str]:
    """Those that are built for the device."""
    row = importlib.import_module(f"aicf_cuda.{op}").capability
    found = [k["id"] for k in row["kernels"] if k["backend"] == device and row["built"][k["id"]]]
    hopper = device == "cuda" and torch.cuda.get_device_capability() == (9, 0)
    return [k for k in found if k not in ("wgmma", "warpgroups") or hopper]


def codes(
    shape: tuple[int, ...], kind: str, device: str, layout: str = "dense", seed: int = 0
) -> torch.Tensor:
    """The whole range, its ends among them."""
    source = torch.Generator().manual_seed(seed + sum(shape))
    low, high = RANGES[DTYPES[kind]]
    x = torch.randint(low, high + 1, shape, generator=source).double().numpy()
    if layout == "pitched columns":
        return tensor_of(x.T, kind, device, "pitched").mT
    return tensor_of(x, kind, device, layout)


def named(device: str, n: int, *, per_column: bool = True, seed: int = 0) -> dict[str, Any]:
    """All that is optional, with scales that are no powers of two."""
    source = torch.Generator().manual_seed(n + seed)
    steps = torch.rand(n if per_column else 1, generator=source) * 0.03 + 0.001
    bias = torch.randint(-70000, 70000, (n,), generator=source, dtype=torch.int32)
    return {
        "a_scale": torch.tensor(0.37).to(device),
        "b_scale": steps.to(device),
        "a_zero": torch.tensor(-3 - seed, dtype=torch.int32).to(device),
        "bias": bias.to(device),
        "out_scale": torch.tensor(1.7).to(device),
        "out_zero": torch.tensor(5, dtype=torch.int32).to(device),
    }


TENSORS = ("a_scale", "b_scale", "a_zero", "bias", "out_scale", "out_zero")


def check(
    a: torch.Tensor, b: torch.Tensor, u: str, given: dict[str, Any] | None = None, *,
    kernel: str | None = None, out: torch.Tensor | None = None, act: str = "none", what: str = "",
) -> None:  # fmt: skip
    given = given or {}
    q = "i8" if a.dtype == torch.int8 else "u8"
    tensors = [given.get(name) for name in TENSORS]
    held = [None if t is None else t.cpu() for t in tensors]
    formula: Any = gemm_i8
    want = formula(a.cpu(), b.cpu(), *held, act=act, dtype=u)
    out = poisoned(want.shape, u, a.device.type) if out is None else out
    options = {"kernel": kernel} if kernel else {}
    call("gemm_i8", f"{q}_{u}", a, b, *tensors, out, act=act, **options)
    same(out, want, f"gemm_i8 {kernel} {q} {u} {tuple(a.shape)} {tuple(b.shape)} {act} {what}")


def same(out: torch.Tensor, want: torch.Tensor, what: str) -> None:
    """To the bit, but for the sign of 0 of floats and NaN's bits."""
    got = out.cpu()
    equal = torch.equal(got, want) or bool(((got == want) | (got.isnan() & want.isnan())).all())
    if not equal:
        wrong = (got != want).nonzero()
        at = tuple(wrong[0].tolist())
        raise AssertionError(f"{what}: {len(wrong)} differ, at {at}: {got[at]}, want {want[at]}")


def takes(kernel: str, k: int) -> bool:
    return k > 0 or kernel in ("dp4a", "loop")


@pytest.mark.promise("KERNELS-int8-exact", "A3")
@pytest.mark.parametrize("q", ["i8", "u8"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes_and_layouts(device: str, sizes: tuple[int, int, int], q: str) -> None:
    m, n, k = sizes
    for kernel in kernels_of("gemm_i8", device):
        for first, second in itertools.product(LAYOUTS, LAYOUTS):
            if "stepped" in (first, second) and kernel not in ("dp4a", "loop"):
                continue  # a dim of unit stride is asked for
            a, b = codes((m, k), q, device, first, 1), codes((k, n), "i8", device, second, 2)
            check(a, b, "i32", kernel=kernel, what=f"{first} {second}")


@pytest.mark.promise("KERNELS-int8-epilogue")
@pytest.mark.parametrize("u", OUTS)
@pytest.mark.parametrize("q", ["i8", "u8"])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (7, 17, 9), (70, 136, 80), (33, 70, 144), (150, 264, 272)], ids=str
)
def test_epilogues(device: str, sizes: tuple[int, int, int], q: str, u: str) -> None:
    """Each part alone, all together, one scale and one a column, outs in every layout."""
    m, n, k = sizes
    a, b = codes((m, k), q, device, seed=1), codes((k, n), "i8", device, "swapped", seed=2)
    whole = named(device, n)
    for kernel in kernels_of("gemm_i8", device):
        parts = [{}, whole, named(device, n, per_column=False)]
        parts += [{name: whole[name]} for name in TENSORS]
        for part, act in itertools.product(parts, ("none", "relu")):
            check(a, b, u, part, kernel=kernel, act=act, what=" ".join(part))
        for layout in ("pitched", "odd"):
            out = poisoned((m, n), u, device, layout)
            check(a, b, u, whole, kernel=kernel, out=out, what=layout)


@pytest.mark.promise("KERNELS-int8-bound")
@pytest.mark.parametrize("q", ["i8", "u8"])
def test_the_longest_sums(device: str, q: str) -> None:
    """K = 65793 of the largest products, both ways, with every zero; one k more is refused."""
    low, high = RANGES[DTYPES[q]]
    for kernel in kernels_of("gemm_i8", device):
        for value, zero in ((low, high), (high, low), (high, 0), (low, 0), (low, 9999), (0, None)):
            a = torch.full((3, 65793), value, dtype=DTYPES[q], device=device)
            b = torch.full((9, 65793), -128, dtype=torch.int8, device=device).mT
            given = {} if zero is None else {"a_zero": torch.tensor(zero, dtype=torch.int32)}
            given = {name: x.to(device) for name, x in given.items()}
            check(a, b, "i32", given, kernel=kernel, what=f"{value} - {zero}")


@pytest.mark.promise("KERNELS-int8-epilogue")
@pytest.mark.parametrize("u", OUTS)
def test_ties_ends_and_what_is_no_number(device: str, u: str) -> None:
    """Halves of both signs, a bias that saturates, scales that overflow or are NaN."""
    a = torch.arange(-128, 128, dtype=torch.int16).to(torch.int8).view(-1, 1).to(device)
    b = torch.ones(1, 8, dtype=torch.int8, device=device)
    big = torch.tensor([2**31 - 1, -(2**31), 7, 0] * 2, dtype=torch.int32, device=device)
    numbers = [0.5, -0.5, 1.5, 0.0, 1e30, -1e38, torch.nan, torch.inf]
    scales = torch.tensor(numbers, device=device)
    for kernel in kernels_of("gemm_i8", device):
        for zero in (0, 3, -(2**31), 2**31 - 1):
            at = torch.tensor(zero, dtype=torch.int32, device=device)
            for act in ("none", "relu"):
                for part in ({"b_scale": scales}, {"bias": big}, {"bias": big, "b_scale": scales}):
                    check(a, b, u, part, kernel=kernel, act=act)
                    check(a, b, u, {"out_zero": at, **part}, kernel=kernel, act=act, what=f"{zero}")


@pytest.mark.promise("C1", "KERNELS-int8-exact")
@pytest.mark.parametrize("sizes", [(3, 5, 0), (0, 5, 3), (3, 0, 3), (0, 0, 0)], ids=str)
def test_nothing(device: str, sizes: tuple[int, int, int]) -> None:
    """No products: the epilogue of 0. No outs: nothing."""
    m, n, k = sizes
    a, b = codes((m, k), "u8", device), codes((k, n), "i8", device)
    for kernel in kernels_of("gemm_i8", device):
        if takes(kernel, k):
            check(a, b, "i32", kernel=kernel)
            check(a, b, "i8", named(device, n), kernel=kernel, act="relu")
    check(a, b, "f16", named(device, n))


@pytest.mark.promise("KERNELS-int8-exact")
def test_views(device: str) -> None:
    """Lines that overlap, run backwards in neither, begin on every byte; one line for all."""
    flat = codes((40_000,), "i8", device, seed=3)
    for kernel in kernels_of("gemm_i8", device):
        b = codes((48, 40), "i8", device, "swapped", seed=2)
        check(flat.as_strided((70, 48), (16, 1)), b, "i32", kernel=kernel, what="overlapping")
        check(flat.as_strided((70, 48), (7, 1)), b, "i32", kernel=kernel, what="odd, overlapping")
        check(flat[:48].expand(70, 48), b, "i32", kernel=kernel, what="one line")
        for offset in (1, 2, 4, 8):
            a = flat[offset : offset + 70 * 48].view(70, 48)
            turned = flat[offset : offset + 70 * 48].view(48, 70)
            check(a, b, "i32", kernel=kernel, what=f"a from byte {offset}")
            check(a, a.mT, "i32", kernel=kernel, what=f"both from byte {offset}")
            check(turned.mT, turned, "i32", kernel=kernel, what=f"turned from byte {offset}")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-int8-exact")
@pytest.mark.parametrize(
    "sizes", [(1000, 1032, 528), (2053, 1024, 400), (17, 4096, 4096), (128, 2048, 1024)], ids=str
)
def test_many_tiles(sizes: tuple[int, int, int]) -> None:
    """Against the bits of dp4a, which the small sizes check, and exact sums in f64."""
    m, n, k = sizes
    for q, order in itertools.product(("i8", "u8"), ("row", "col")):
        a = torch.randint(*RANGES[DTYPES[q]], (m, k), device="cuda").to(DTYPES[q])
        b = torch.randint(-128, 128, (k, n) if order == "row" else (n, k), device="cuda")
        b = b.to(torch.int8) if order == "row" else b.to(torch.int8).mT
        sums = (a.double() @ b.double()).to(torch.int32)
        whole = [named("cuda", n)[name] for name in TENSORS]
        want = {u: torch.empty(m, n, dtype=DTYPES[u], device="cuda") for u in ("i8", "f16")}
        for u, out in want.items():
            call("gemm_i8", f"{q}_{u}", a, b, *whole, out, act="relu", kernel="dp4a")
        for kernel in kernels_of("gemm_i8", "cuda"):
            out = poisoned((m, n), "i32", "cuda")
            call("gemm_i8", f"{q}_i32", a, b, *[None] * 6, out, kernel=kernel)
            assert torch.equal(out, sums), f"{kernel} {q} {order}"
            for u, right in want.items():
                out = poisoned((m, n), u, "cuda")
                call("gemm_i8", f"{q}_{u}", a, b, *whole, out, act="relu", kernel=kernel)
                assert torch.equal(out, right), f"{kernel} {q} {order} {u}"


# ---- conv2d_i8 -----------------------------------------------------------------------------------

Shape = tuple[int, int, int, int]
CONVS: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((2, 3, 9, 7), (5, 3, 3, 3), {"pad": (1, 1)}),
    ((2, 16, 8, 9), (24, 16, 3, 2), {"pad": (1, 0), "stride": (2, 1)}),
    ((1, 32, 11, 10), (16, 32, 3, 3), {"pad": (2, 2), "dilation": (2, 2)}),
    ((1, 64, 6, 6), (32, 32, 3, 3), {"pad": (1, 1), "groups": 2}),
    ((2, 6, 8, 8), (6, 1, 3, 3), {"pad": (1, 1), "groups": 6}),  # depthwise
    ((3, 128, 5, 5), (64, 128, 1, 1), {}),
    ((1, 3, 17, 16), (8, 3, 7, 7), {"pad": (3, 3), "stride": (2, 2)}),
    ((2, 16, 5, 5), (8, 16, 5, 5), {"pad": (9, 9)}),  # places that see nothing but zeros
    ((0, 4, 5, 5), (3, 4, 3, 3), {}),
]  # fmt: skip


def check_conv(
    x: torch.Tensor, w: torch.Tensor, u: str, given: dict[str, Any], attributes: dict[str, Any],
    kernel: str, act: str = "none", last: bool = False,
) -> None:  # fmt: skip
    q = "i8" if x.dtype == torch.int8 else "u8"
    tensors = [given.get(name) for name in TENSORS]
    held = [None if t is None else t.cpu() for t in tensors]
    formula: Any = conv2d_i8
    want = formula(x.cpu(), w.cpu(), *held, act=act, dtype=u, **attributes)
    out = poisoned(want.shape, u, x.device.type, "nhwc" if last else "dense")
    module = importlib.import_module("aicf_cuda.conv2d_i8")
    options = {"act": act, "kernel": kernel, **attributes}
    lines = module.explain(x, w, *tensors, out, act=act, **attributes)
    if any(line.startswith(f"{kernel}: fits") for line in lines):
        call("conv2d_i8", f"{q}_{u}", x, w, *tensors, out, **options)
        same(out, want, f"conv2d_i8 {kernel} {q} {u} {tuple(x.shape)} {tuple(w.shape)} {options}")


@pytest.mark.promise("KERNELS-int8-conv")
@pytest.mark.parametrize("q", ["i8", "u8"])
@pytest.mark.parametrize("case", CONVS, ids=str)
def test_convolutions(device: str, case: tuple[Shape, Shape, dict[str, Any]], q: str) -> None:
    """By every kernel that takes it, columns or channels innermost; padding counts as zero."""
    xs, ws, attributes = case
    for kernel, last in itertools.product(kernels_of("conv2d_i8", device), (False, True)):
        layout = "nhwc" if last else "dense"
        x = codes(xs, q, device, layout, 1)
        w = codes(ws, "i8", device, layout, 2)
        whole = named(device, ws[0], seed=9)
        zero = {"a_zero": whole["a_zero"]}
        for given, u, act in [
            ({}, "i32", "none"), (zero, "i32", "none"), (whole, "i8", "relu"),
            (whole, "f16", "none"), ({**whole, "a_zero": None}, "u8", "none"),
            ({**whole, "out_zero": None}, "bf16", "relu"),
            (named(device, ws[0], per_column=False), "f32", "none"),
        ]:  # fmt: skip
            check_conv(x, w, u, given, attributes, kernel, act, last)
