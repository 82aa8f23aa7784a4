"""embedding, its gradient and one_hot: widths and addresses, indices that are none, many of one
kind, the same bits each time."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch

from kernels.calls import call, printed_with_threads, skip_without
from kernels.tensors import FLOATS, array_of, poisoned, random
from kernels.tolerance import EPS, assert_close, assert_same
from rows.embedding import embedding_bwd

pytestmark = [pytest.mark.guests("torch")]

INDEX = {"i64": torch.int64, "i32": torch.int32}


def odd(x: torch.Tensor) -> torch.Tensor:
    """A copy, one element past an aligned address."""
    room = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:]
    return room.view(x.shape).copy_(x)


def words(count: int, V: int, seed: int = 0) -> torch.Tensor:
    """Indices of which some are frequent."""
    source = torch.Generator().manual_seed(seed)
    few = torch.randint(0, max(1, V // 50), (count,), generator=source)
    all_of_them = torch.randint(0, V, (count,), generator=source)
    return torch.where(torch.rand(count, generator=source) < 0.3, few, all_of_them)


# (V, D, shape of idx): a row of one element, of odd ones, of one pack, of some, of whole blocks.
TABLES = [
    (5, 1, (7,)),
    (1, 3, ()),
    (17, 8, (2, 3)),
    (100, 64, (33,)),
    (33, 257, (5, 5)),
    (1000, 768, (40,)),
]


@pytest.mark.promise("KERNELS-embedding-values", "A3")
@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("V, D, shape", TABLES, ids=str)
def test_embedding(
    device: str, V: int, D: int, shape: tuple[int, ...], dtype: str, index: str
) -> None:
    skip_without(dtype, device)
    weight = random((V, D), dtype, device)
    idx = words(math.prod(shape), V).view(shape).to(INDEX[index]).to(device)
    for at in (torch.clone, odd):
        out = at(poisoned((*shape, D), dtype, device))
        call("embedding", f"{dtype}_{index}", at(weight), at(idx), out)
        assert_same(array_of(out), array_of(weight[idx.long()]), f"embedding {V} {D} {shape}")


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-embedding-values")
@pytest.mark.parametrize("D", [776, 768])
def test_so_many_rows_that_a_thread_has_some_packs(D: int) -> None:
    weight, idx = random((300, D), "bf16", "cuda"), words(5700, 300).to("cuda")
    idx[7] = 300
    out = poisoned((5700, D), "bf16", "cuda")
    call("embedding", "bf16_i64", weight, idx, out)
    assert bool(out[7].isnan().all())
    idx[7], out[7] = 0, weight[0]
    assert torch.equal(out, weight[idx])


@pytest.mark.promise("KERNELS-embedding-values", "A3")
@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("V, D, shape", TABLES, ids=str)
def test_embedding_bwd(
    device: str, V: int, D: int, shape: tuple[int, ...], dtype: str, index: str
) -> None:
    skip_without(dtype, device)
    gy = random((*shape, D), dtype, device)
    idx = words(math.prod(shape), V).view(shape)
    want = embedding_bwd(gy.double().cpu(), idx, V=V)
    for at in (torch.clone, odd):
        gw = at(poisoned((V, D), dtype, device))
        given = at(gy), at(idx.to(INDEX[index]).to(device))
        call("embedding_bwd", f"{dtype}_{index}", *given, gw, V=V)
        assert_close(array_of(gw), array_of(want), dtype, f"embedding_bwd {V} {D} {shape}")


def check_bwd(
    device: str, dtype: str, idx: torch.Tensor, V: int, D: int, padding_idx: int = -1
) -> torch.Tensor:
    """Against float64; sums may be off by what their roundings are."""
    gy = random((*idx.shape, D), dtype, device)
    gw = poisoned((V, D), dtype, device)
    given = gy, idx.to(device)
    call("embedding_bwd", f"{dtype}_i64", *given, gw, V=V, padding_idx=padding_idx)
    exact = gy.double().cpu()
    want = embedding_bwd(exact, idx, V=V, padding_idx=padding_idx)
    size = embedding_bwd(exact.abs(), idx, V=V, padding_idx=padding_idx)
    slack = idx.numel() * EPS[dtype] * array_of(size)
    assert_close(array_of(gw), array_of(want), dtype, f"embedding_bwd {idx.shape}", slack)
    return gw


# Around where one block, one piece, one share of a block end; V at the ends of sorted digits.
COUNTS = [
    (64, 5), (65, 255), (769, 256), (1024, 257), (1025, 1000), (2049, 65535), (5000, 65537),
    (33_000, 70_000),
]  # fmt: skip


@pytest.mark.promise("KERNELS-embedding-many")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("count, V", COUNTS, ids=str)
def test_many_indices(device: str, count: int, V: int, dtype: str) -> None:
    D = 4 if count > 10_000 else 8 if dtype == "bf16" else 3
    check_bwd(device, dtype, words(count, V), V, D)


@pytest.mark.promise("KERNELS-embedding-many")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [1, 63, 64, 65, 769, 3001, 40_000])
def test_all_indices_alike(device: str, count: int, dtype: str) -> None:
    skip_without(dtype, device)
    check_bwd(device, dtype, torch.full((count,), 3), 5, 8)


@pytest.mark.promise("KERNELS-embedding-many")
def test_long_runs_side_by_side(device: str) -> None:
    """Runs that begin and end inside of pieces, at their ends, and over several."""
    for lengths in ([64, 64, 65, 63], [100, 28, 128, 1, 200, 300], [1, 700, 1, 700, 30]):
        runs = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        mixed = runs[torch.randperm(len(runs), generator=torch.Generator().manual_seed(5))]
        for idx in (runs, mixed):
            check_bwd(device, "f32", idx, len(lengths) + 1, 5)


@pytest.mark.promise("KERNELS-embedding-many")
def test_sums_go_past_what_bf16_counts_to(device: str) -> None:
    """A running sum in bf16 stays at 256."""
    gw = poisoned((2, 8), "bf16", device)
    gy = torch.ones(1000, 8, dtype=torch.bfloat16, device=device)
    call(
        "embedding_bwd", "bf16_i64", gy, torch.ones(1000, dtype=torch.int64, device=device), gw, V=2
    )
    assert array_of(gw).tolist() == [[0] * 8, [1000] * 8]


@pytest.mark.promise("KERNELS-embedding-padding")
@pytest.mark.parametrize("count", [1, 768, 769, 770, 5000])
def test_padding_has_no_gradient(device: str, count: int) -> None:
    for idx in (words(count, 20), torch.full((count,), 7)):
        gw = check_bwd(device, "f32", idx, 20, 12, padding_idx=7)
        assert not gw[7].any()


@pytest.mark.promise("KERNELS-embedding-outside")
@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("D", [8, 5])
def test_an_index_outside_of_the_rows(device: str, D: int, dtype: str, index: str) -> None:
    skip_without(dtype, device)
    far = [2**31 - 1, -(2**31)] if index == "i32" else [2**63 - 1, -(2**63), 2**32 + 1, 2**32]
    idx = torch.tensor([2, -1, 4, *far, 3, 1], dtype=INDEX[index])
    inside = (idx >= 0) & (idx < 4)
    weight = random((4, D), dtype, device)
    out = torch.zeros(len(idx), D, dtype=weight.dtype, device=device)
    call("embedding", f"{dtype}_{index}", weight, idx.to(device), out)
    want = torch.full((len(idx), D), math.nan, dtype=torch.float64)
    want[inside] = weight.double().cpu()[idx[inside].long()]
    assert_same(array_of(out), array_of(want), "embedding")

    gy = random((len(idx), D), dtype, device)
    gw = poisoned((4, D), dtype, device)
    call("embedding_bwd", f"{dtype}_{index}", gy, idx.to(device), gw, V=4)
    want = embedding_bwd(gy.double().cpu(), idx.long(), V=4)
    assert_close(array_of(gw), array_of(want), dtype, "embedding_bwd")


@pytest.mark.promise("KERNELS-embedding-values", "C1")
def test_nothing(device: str) -> None:
    none = torch.empty(0, dtype=torch.int64, device=device)
    gw = poisoned((3, 8), "f32", device)
    call("embedding_bwd", "f32_i64", torch.empty(0, 8, device=device), none, gw, V=3)
    assert not gw.any()
    call("embedding", "f32_i64", gw, none, torch.empty(0, 8, device=device))
    call("embedding", "f32_i64", gw[:, :0], none + 1, torch.empty(0, 0, device=device))
    out = torch.zeros(2, 8, device=device)
    call("embedding", "f32_i64", gw[:0], torch.zeros(2, dtype=torch.int64, device=device), out)
    assert bool(out.isnan().all())  # of a table of no rows
    call("embedding_bwd", "f32_i64", out, none.new_zeros(2), gw[:0], V=0)
    call("one_hot", "i64_f32", none, torch.empty(0, 3, device=device), classes=3)


# One, odd ones, a pack and its neighbours, many rows in a pack, and a row of many packs.
@pytest.mark.promise("KERNELS-one-hot", "KERNELS-embedding-outside", "A3")
@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("dtype", ["i64", *FLOATS])
@pytest.mark.parametrize("classes", [1, 2, 3, 7, 8, 9, 1000])
def test_one_hot(device: str, classes: int, dtype: str, index: str) -> None:
    skip_without(dtype, device)
    idx = torch.arange(-2, classes + 2)[: 67 if classes > 67 else None].repeat(3)
    idx = torch.cat([idx, torch.tensor([classes - 1])])
    want = (idx[:, None] == torch.arange(classes)).to(torch.float64)
    for at in (torch.clone, odd):
        out = at(poisoned((len(idx), classes), dtype, device))
        given = idx.to(INDEX[index]).to(device)
        call("one_hot", f"{index}_{dtype}", given, out, classes=classes)
        assert_same(array_of(out), array_of(want), f"one_hot {classes}")


def digest(device: str) -> str:
    """One hash over gradients of many parts or blocks, short runs and long ones."""
    h = hashlib.sha256()
    for dtype in ("f32", "f16"):
        for V in (5, 3000):
            gw = poisoned((V, 96), dtype, device)
            gy, idx = random((9000, 96), dtype, device), words(9000, V).to(device)
            call("embedding_bwd", f"{dtype}_i64", gy, idx, gw, V=V)
            h.update(gw.cpu().view(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()


@pytest.mark.promise("KERNELS-embedding-bits")
def test_the_same_bits_at_every_run(device: str) -> None:
    assert digest(device) == digest(device)


@pytest.mark.promise("KERNELS-embedding-bits", "KERNELS-threads")
def test_bits_do_not_depend_on_the_threads() -> None:
    program = "import kernels.test_embedding as t; print(t.digest('cpu'))"
    assert printed_with_threads(program, 1) == printed_with_threads(program, 3)


# ---- large ---------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-embedding-large", "A2")
@pytest.mark.large
def test_a_table_of_2_to_the_31() -> None:
    """2**15 rows of 2**16."""
    V, D = 2**15, 2**16
    weight = torch.empty(V, D, dtype=torch.float16, device="cuda")
    for part in weight.split(1024):
        part.normal_()
    idx = torch.tensor([0, V - 1, 5, V - 1, V, V // 2], device="cuda")
    out = torch.empty(len(idx), D, dtype=weight.dtype, device="cuda")
    call("embedding", "f16_i64", weight, idx, out)
    assert bool(out[4].isnan().all())
    for i in (0, 1, 2, 3, 5):
        assert torch.equal(out[i], weight[int(idx[i])])
    weight.fill_(math.nan)
    out[4] = 1
    call("embedding_bwd", "f16_i64", out, idx, weight, V=V)
    assert torch.equal(weight[V - 1], (out[1].float() + out[3].float()).half())
    for i in (0, 2, 5):
        assert torch.equal(weight[int(idx[i])], out[i])
    assert int(weight.count_nonzero()) == int((out[[0, 2, 5]] != 0).sum() + (2 * out[1] != 0).sum())
    torch.cuda.empty_cache()


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-embedding-large", "A2")
@pytest.mark.parametrize("alike", [False, True], ids=["any", "alike"])
def test_more_tokens_than_one_share_of_each_block(alike: bool) -> None:
    count, V, D = 3_000_001, 1_000_003, 8
    idx = torch.randint(0, V, (count,), device="cuda")
    if alike:
        idx[: count // 2] = 12_345
    gy = torch.randint(-4, 5, (count, D), device="cuda").float()  # exact in any order
    gw = torch.full((V, D), math.nan, device="cuda")
    call("embedding_bwd", "f32_i64", gy, idx, gw, V=V)
    want = torch.zeros(V, D, dtype=torch.float64, device="cuda").index_add(0, idx, gy.double())
    assert torch.equal(gw.double(), want)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-one-hot", "A2")
@pytest.mark.large
def test_a_large_one_hot() -> None:
    count, classes = 2**22 + 3, 513
    idx = torch.randint(0, classes, (count,), device="cuda")
    out = torch.full((count, classes), 7, dtype=torch.float16, device="cuda")
    call("one_hot", "i64_f16", idx, out, classes=classes)
    assert bool((out[torch.arange(count, device="cuda"), idx] == 1).all())
    assert int(out.count_nonzero()) == count
    torch.cuda.empty_cache()
