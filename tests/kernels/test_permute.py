"""permute and concat: bytes laid out anew, so nothing is rounded and all must be equal."""

from __future__ import annotations

import itertools

import pytest
import torch

from kernels.calls import call
from kernels.tensors import DTYPES, array_of, poisoned, random
from kernels.tolerance import assert_same

pytestmark = [pytest.mark.guests("torch")]

SIZES = ["i8", "bf16", "f32", "i64"]  # one dtype for each size of an element


def check_permute(
    x: torch.Tensor, dtype: str, perm: tuple[int, ...], layout: str = "dense"
) -> None:
    want = x.permute(perm)
    out = poisoned(want.shape, dtype, x.device.type, layout)
    call("permute", dtype, x, out, perm=list(perm))
    assert torch.equal(out, want), f"{tuple(x.shape)} {x.stride()} by {perm}, {dtype}"


# (shape, perm). Tiles are 16 to 128 elements wide, and need rows of 32 bytes.
CASES = [
    ((64, 64), (1, 0)),  # one tile of 32 bits
    ((257, 131), (1, 0)),  # primes: no row of either side on a 16-byte boundary
    ((256, 144), (1, 0)),  # 16-byte accesses on both sides, a part of a tile at the end
    ((256, 131), (1, 0)),  # on one side alone
    ((131, 256), (1, 0)),
    ((121, 127), (1, 0)),  # rows of out that end where a tile's own part of them does
    ((49, 300), (1, 0)),  # and short ones
    ((3, 100, 60), (0, 2, 1)),  # slices
    ((100, 3, 60), (2, 1, 0)),  # slices between the two
    ((2, 7, 5, 16), (0, 2, 1, 3)),  # the last dim stays: wider elements
    ((20, 30, 2), (1, 0, 2)),  # wider elements, then tiles
    ((20, 30, 3), (1, 0, 2)),  # the last dim stays and is odd
    ((2, 80, 64, 3), (0, 3, 1, 2)),  # a side too short for tiles: strips, either way round
    ((2, 3, 80, 64), (0, 2, 3, 1)),
    ((2, 3, 4240), (0, 2, 1)),  # three rows, of no whole number of blocks
    ((3, 5, 1999), (0, 2, 1)),  # of odd length
    ((3, 1999, 7), (0, 2, 1)),
    ((5, 2, 60, 70), (3, 0, 2, 1)),  # not beside each other
    ((6, 50, 40), (0, 1, 2)),  # nothing moves
    ((1, 50, 1, 40), (3, 2, 1, 0)),  # dims of size 1
    ((7,), (0,)),
    ((), ()),
    ((5, 0, 3), (2, 0, 1)),  # nothing at all
]


@pytest.mark.promise("KERNELS-permute-any")
@pytest.mark.parametrize("dtype", [*SIZES, "bool"])
@pytest.mark.parametrize("shape, perm", CASES, ids=str)
def test_permute(device: str, shape: tuple[int, ...], perm: tuple[int, ...], dtype: str) -> None:
    for layout in ("dense", "reversed", "stepped", "pitched", "broadcast"):
        check_permute(random(shape, dtype, device, layout), dtype, perm)


@pytest.mark.promise("KERNELS-permute-unaligned", "A3")
@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("shape, perm", CASES, ids=str)
def test_permute_from_and_to_any_address(
    device: str, shape: tuple[int, ...], perm: tuple[int, ...], dtype: str
) -> None:
    for x_layout, layout in (("odd", "dense"), ("dense", "odd"), ("odd", "odd")):
        check_permute(random(shape, dtype, device, x_layout), dtype, perm, layout)


@pytest.mark.promise("KERNELS-permute-any")
def test_every_order_of_four_dims(device: str) -> None:
    x = random((3, 33, 8, 20), "bf16", device)
    for perm in itertools.permutations(range(4)):
        check_permute(x, "bf16", perm)


@pytest.mark.promise("KERNELS-permute-rank")
@pytest.mark.parametrize("shape", [(2, 3, 2, 3, 2, 3, 2, 3), (2,) * 8, (1, 5, 1, 4, 3, 1, 2, 7)])
def test_rank_8(device: str, shape: tuple[int, ...]) -> None:
    x = random(shape, "f32", device)
    perms = [(7, 6, 5, 4, 3, 2, 1, 0), (1, 0, 3, 2, 5, 4, 7, 6), (4, 5, 6, 7, 0, 1, 2, 3)]
    for perm in [*perms, (3, 7, 0, 5, 1, 6, 2, 4)]:
        check_permute(x, "f32", perm)


@pytest.mark.promise("KERNELS-permute-any")
def test_a_bool_of_any_byte_becomes_0_or_1(device: str) -> None:
    for shape, perm in (((80, 96), (1, 0)), ((3, 5, 32), (1, 0, 2)), ((3, 5), (1, 0))):
        x = random(shape, "u8", device)
        want = (x != 0).to(torch.uint8).permute(perm)
        out = poisoned(want.shape, "bool", device)
        call("permute", "bool", x.view(torch.bool), out, perm=list(perm))
        assert torch.equal(out.view(torch.uint8), want)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-permute-large", "A2")
@pytest.mark.parametrize("shape", [(65_537, 32_771), (32_768, 4, 16_400), (3, 715_827_900)])
@pytest.mark.large
def test_more_elements_than_32_bits_count(shape: tuple[int, ...]) -> None:
    x = torch.empty(shape, dtype=torch.int8, device="cuda").random_(-128, 128)
    assert x.numel() > 2**31
    perm = tuple(reversed(range(len(shape))))
    out = torch.empty(shape[::-1], dtype=torch.int8, device="cuda")
    call("permute", "i8", x, out, perm=list(perm))
    assert torch.equal(out, x.permute(perm))
    del x, out
    torch.cuda.empty_cache()


# ---- concat --------------------------------------------------------------------------------------


def check_concat(xs: list[torch.Tensor], dtype: str, axis: int, layout: str = "dense") -> None:
    want = torch.cat(xs, axis)
    out = poisoned(want.shape, dtype, xs[0].device.type, layout)
    call("concat", dtype, xs, out, axis=axis)
    assert torch.equal(out, want), f"{[tuple(x.shape) for x in xs[:9]]} along {axis}, {dtype}"


def along(axis: int, sizes: tuple[int, ...], dtype: str, device: str) -> list[torch.Tensor]:
    shape = [4, 6, 10]
    made = []
    for seed, size in enumerate(sizes):
        shape[axis] = size
        made.append(random(shape, dtype, device, "odd" if seed % 3 == 2 else "dense", seed))
    return made


@pytest.mark.promise("KERNELS-concat-axes")
@pytest.mark.parametrize("dtype", [*SIZES, "bool"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    "sizes", [(3, 4), (16, 32, 64), (1, 1, 1, 5), (1000, 7), (97, 97, 97), (17, 0, 19)], ids=str
)
def test_concat(device: str, sizes: tuple[int, ...], axis: int, dtype: str) -> None:
    for layout in ("dense", "odd"):
        check_concat(along(axis, sizes, dtype, device), dtype, axis, layout)


@pytest.mark.promise("KERNELS-concat-axes")
@pytest.mark.parametrize("dtype", SIZES)
def test_many_narrow_rows(device: str, dtype: str) -> None:
    """So many that a warp takes several of them in turn, the last of which are none."""
    for widths in ([97] * 20, list(range(16, 56, 3)), [64] * 12, [3] * 300, [1200] * 12):
        xs = [random((331, width), dtype, device, seed=i) for i, width in enumerate(widths)]
        check_concat(xs, dtype, 1)


@pytest.mark.promise("KERNELS-concat-axes")
@pytest.mark.parametrize("dtype", [*SIZES, "bool"])
def test_so_many_narrow_rows_that_a_warp_has_several(device: str, dtype: str) -> None:
    """20 MB: some at odd addresses, one with rows of many lines, one of few elements."""
    each = 1031 * 97 * DTYPES[dtype].itemsize
    widths = [97] * (20_000_000 // each) + [1, 515, 32]
    xs = [
        random((1031, width), dtype, device, "odd" if i % 7 == 3 else "dense", i)
        for i, width in enumerate(widths)
    ]
    check_concat(xs, dtype, 1)


@pytest.mark.promise("KERNELS-concat-axes")
@pytest.mark.parametrize("dtype", [*SIZES, "bool"])
def test_long_rows_of_tensors_of_any_width(device: str, dtype: str) -> None:
    """20 MB: several tensors in 16 bytes, one of many blocks, rows that begin at any address."""
    item = DTYPES[dtype].itemsize
    widths = [1, 2, 3, 5, 9, 17, 33, 65] * (2000 // item) + [40_000 // item] + [1] * 40 + [3001]
    rows = 20_000_000 // (sum(widths) * item)
    xs = [
        random((rows, width), dtype, device, "odd" if i % 5 == 3 else "dense", i % 7)
        for i, width in enumerate(widths)
    ]
    for layout in ("dense", "odd"):
        check_concat(xs, dtype, 1, layout)


@pytest.mark.promise("KERNELS-concat-axes")
def test_a_negative_axis(device: str) -> None:
    xs = along(1, (3, 4), "f32", device)
    out = poisoned((4, 7, 10), "f32", device)
    call("concat", "f32", xs, out, axis=-2)
    assert torch.equal(out, torch.cat(xs, 1))


@pytest.mark.promise("KERNELS-concat-empty", "C1")
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0, 3, 0), (0,), (0, 0)], ids=str)
def test_concat_of_empty_tensors(device: str, sizes: tuple[int, ...], axis: int) -> None:
    check_concat(along(axis, sizes, "f32", device), "f32", axis)


@pytest.mark.promise("KERNELS-concat-one")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concat_of_one_tensor(device: str, axis: int) -> None:
    check_concat(along(axis, (5,), "bf16", device), "bf16", axis)


@pytest.mark.promise("KERNELS-concat-many")
@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("count", [32, 33, 1000, 1024, 1025, 2500])
def test_concat_of_many_tensors(device: str, count: int, dtype: str) -> None:
    """As many as the parameters of one launch hold, of either kind, and more."""
    sizes = [i % 7 for i in range(count)]
    memory = random((2, sum(sizes)), dtype, device)
    parts = list(memory[0].split(sizes))  # most are not aligned
    check_concat(parts, dtype, 0)
    check_concat([part.view(1, -1) for part in parts], dtype, 1)
    check_concat([part.contiguous() for part in memory.split(sizes, 1)], dtype, 1)


@pytest.mark.promise("KERNELS-concat-axes")
def test_bools_of_any_byte_become_0_or_1(device: str) -> None:
    xs = [random((3, n), "u8", device, seed=n) for n in (32, 5, 48)]
    out = poisoned((3, 85), "bool", device)
    call("concat", "bool", [x.view(torch.bool) for x in xs], out, axis=1)
    assert_same(array_of(out.view(torch.uint8)), array_of(torch.cat(xs, 1) != 0), "concat")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-concat-large", "A2")
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.large
def test_concat_to_more_elements_than_32_bits_count(axis: int) -> None:
    shapes = [(3, 400_000_001), (3, 400_000_007)] if axis else [(3, 400_000_008)] * 2
    xs = [torch.empty(s, dtype=DTYPES["i8"], device="cuda").random_(-128, 128) for s in shapes]
    want = torch.cat(xs, axis)
    assert want.numel() > 2**31
    out = torch.empty_like(want)
    call("concat", "i8", xs, out, axis=axis)
    assert torch.equal(out, want)
    del xs, out, want
    torch.cuda.empty_cache()
