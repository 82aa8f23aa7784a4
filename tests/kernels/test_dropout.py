"""dropout: which number belongs to which element, and what follows from it."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from kernels.calls import call, skip_without
from kernels.tensors import DTYPES, FLOATS, empty, poisoned, random
from rows.dropout import halves, kept, numbers, philox

pytestmark = [pytest.mark.guests("torch")]

ROOT = Path(__file__).resolve().parents[2]

# Random123's vectors for philox4x32-10: counter, key, result.
ONES = 0xFFFFFFFF
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([ONES] * 4, [ONES] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]

# Around a block of numbers, a pack of either size, a CUDA block of packs, a part of the CPU's.
SIZES = [1, 3, 4, 5, 7, 8, 9, 1021, 2053, 16_384, 32_771]


def mask(
    n: int,
    device: str,
    dtype: str = "f32",
    layout: str = "dense",
    seed: int = 1,
    offset: int = 0,
    p: float = 0.5,
) -> torch.Tensor:
    """Which of n elements are kept."""
    x = empty((n,), dtype, device, layout).fill_(1)
    out = poisoned((n,), dtype, device, layout)
    call("dropout", dtype, x, out, seed=seed, offset=offset, p=p)
    return (out != 0).cpu()


def near(count: int, n: int, p: float) -> bool:
    """Within 5 sigma of a binomial distribution."""
    return abs(count - n * p) <= 5 * math.sqrt(n * p * (1 - p))


@pytest.mark.promise("KERNELS-dropout-known")
@pytest.mark.parametrize("counter, key, want", KNOWN)
def test_our_reference_gives_the_published_numbers(
    counter: list[int], key: list[int], want: list[int]
) -> None:
    words = (np.array([counter], dtype=np.uint64), np.array(key, dtype=np.uint64))
    assert philox(*words)[0].tolist() == want


@pytest.mark.promise("KERNELS-dropout-known")
def test_the_header_gives_the_published_numbers(tmp_path: Path) -> None:
    lines = "".join(
        "show(aicf_philox_rounds(" + ", ".join(f"{w}U" for w in (*counter, *key)) + "));\n"
        for counter, key, _ in KNOWN
    )
    source = tmp_path / "known.c"
    source.write_text(
        "#include <stdio.h>\n#include <aicf/philox.h>\n"
        "static void show(aicf_philox p)\n"
        '{ for (int i = 0; i < 4; i++) { printf("%u ", p.number[i]); } }\n'
        f"int main(void) {{ {lines} return 0; }}\n",
        encoding="utf-8",
    )
    program = tmp_path / "known"
    build = ["gcc", "-std=c11", "-Wall", "-Werror", f"-I{ROOT / 'include'}", str(source), "-o"]
    subprocess.run([*build, str(program)], check=True)
    shown = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert [int(w) for w in shown.split()] == [w for *_, want in KNOWN for w in want]


@pytest.mark.promise("KERNELS-dropout-known")
def test_the_published_numbers_are_the_first_elements(device: str) -> None:
    """An element is kept at p = number / 2**32 and dropped a step of p, 2**-32, above it."""
    for i, number in enumerate(KNOWN[0][2]):
        assert mask(4, device, seed=0, p=number / 2**32)[i]
        assert not mask(4, device, seed=0, p=(number + 1) / 2**32)[i]


@pytest.mark.promise("KERNELS-dropout-position")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", SIZES)
def test_a_mask_is_of_seed_offset_and_index_alone(device: str, n: int, dtype: str) -> None:
    """Whatever the dtype, the address and so the path."""
    skip_without(dtype, device)
    seed, offset = 2**63 - 25, -(2**40) - 3
    want = torch.from_numpy(kept(seed, offset, 0.4, n))
    memory = torch.ones(n + 16, dtype=DTYPES[dtype], device=device)
    into = torch.empty_like(memory)
    for x_from, out_from in ((0, 0), (1, 1), (4, 4), (0, 1), (3, 8)):
        x, out = memory[x_from : x_from + n], into[out_from : out_from + n]
        out.fill_(math.nan)
        call("dropout", dtype, x, out, seed=seed, offset=offset, p=0.4)
        assert torch.equal((out != 0).cpu(), want), f"from {x_from} to {out_from}"
        once = torch.tensor(1 / 0.6, dtype=torch.float64).to(DTYPES[dtype]).item()
        assert torch.allclose(out[out != 0].double(), torch.tensor(once, dtype=torch.float64))


@pytest.mark.promise("KERNELS-dropout-position")
def test_the_shape_does_not_matter(device: str) -> None:
    x = random((6, 10, 7), "f32", device)
    flat, out = poisoned((420,), "f32", device), poisoned((6, 10, 7), "f32", device)
    call("dropout", "f32", x.view(420), flat, seed=3)
    call("dropout", "f32", x, out, seed=3)
    assert torch.equal(flat, out.view(420))


@pytest.mark.promise("KERNELS-dropout-once")
def test_no_block_of_numbers_is_used_twice() -> None:
    """Calls of one seed whose offsets count up, and calls of other seeds."""
    blocks = [
        numbers(seed, offset, 4096).reshape(-1, 4)
        for seed in (0, 1, 2**32, -1)
        for offset in (0, 1, 2, 2**32, -1)
    ]
    together = np.concatenate(blocks)
    assert len(np.unique(together, axis=0)) == len(together)


@pytest.mark.promise("KERNELS-dropout-once")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_lanes_and_calls_are_independent(device: str, dtype: str) -> None:
    """Two masks of p = 0.5 agree in half of their places: neighbours of any distance up to some
    packs, packs of neighbouring threads and blocks, and calls that follow each other."""
    n = 1 << 18
    first = mask(n, device, dtype)
    for distance in (*range(1, 33), 64, 256, 1024, 2048):
        same = int((first[distance:] == first[:-distance]).sum())
        assert near(same, n - distance, 0.5), f"{distance} apart"
    for other in (mask(n, device, dtype, offset=1), mask(n, device, dtype, seed=2)):
        for distance in range(9):
            same = int((first[: n - distance] == other[distance:]).sum())
            assert near(same, n - distance, 0.5), f"another call, {distance} apart"


@pytest.mark.promise("KERNELS-dropout-moments")
@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_mean_and_variance(device: str, p: float) -> None:
    """Of a dropped 1: mean 1, variance p / (1 - p)."""
    n = 1 << 20
    x, out = torch.ones(n, device=device), poisoned((n,), "f32", device)
    call("dropout", "f32", x, out, seed=17, p=p)
    values = out.double()
    assert near(int((out == 0).sum()), n, p)
    assert abs(values.mean().item() - 1) <= 5 * math.sqrt(p / (1 - p) / n)
    assert values.var().item() == pytest.approx(p / (1 - p), rel=0.05)
    for lane in range(8):
        assert near(int((out[lane::8] == 0).sum()), n // 8, p), f"lane {lane}"


@pytest.mark.promise("KERNELS-dropout-ends")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["dense", "odd"])
def test_p_1_is_zeros_and_p_0_the_identity(device: str, layout: str, dtype: str) -> None:
    skip_without(dtype, device)
    x = random((1003,), dtype, device, layout)
    x[:6] = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0])
    out = poisoned((1003,), dtype, device, layout)
    call("dropout", dtype, x, out, seed=5, p=1.0)
    assert bool((out == 0).all())
    call("dropout", dtype, x, out, seed=5, p=0.0)
    assert torch.equal(out.nan_to_num(7.0), x.nan_to_num(7.0))


@pytest.mark.promise("KERNELS-dropout-ends", "KERNELS-special-values")
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_dropped_is_0_whatever_it_was(device: str, dtype: str) -> None:
    skip_without(dtype, device)
    for value in (math.nan, math.inf, -math.inf):
        x, out = empty((999,), dtype, device).fill_(value), poisoned((999,), dtype, device)
        call("dropout", dtype, x, out, seed=8, offset=2, p=0.5)
        keep = torch.from_numpy(kept(8, 2, 0.5, 999)).to(device)
        assert bool((out[~keep] == 0).all())
        assert torch.equal(out[keep].nan_to_num(7.0), x[keep].nan_to_num(7.0))


@pytest.mark.promise("KERNELS-in-place")
@pytest.mark.parametrize("layout", ["dense", "odd"])
def test_in_place(device: str, layout: str) -> None:
    x = random((4099,), "f32", device, layout)
    out = poisoned((4099,), "f32", device)
    call("dropout", "f32", x, out, seed=5)
    call("dropout", "f32", x, x, seed=5)
    assert torch.equal(x, out)


@pytest.mark.promise("KERNELS-dropout-scalars", "KERNELS-scalar")
def test_seed_and_offset_are_numbers_or_tensors(device: str) -> None:
    x = random((777,), "f32", device)
    outs = [poisoned((777,), "f32", device) for _ in range(2)]
    seed, offset = -(2**62) + 1, 2**33 + 7
    call("dropout", "f32", x, outs[0], seed=seed, offset=offset)
    on_device = [torch.tensor([value], device=device) for value in (seed, offset)]
    call("dropout", "f32", x, outs[1], seed=on_device[0], offset=on_device[1])
    assert torch.equal(*outs)
    assert halves(seed) != halves(offset)


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-dropout-scalars")
def test_a_captured_graph_changes_its_mask_with_the_offset() -> None:
    import aicf_cuda

    x, out = torch.ones(5000, device="cuda"), torch.empty(5000, device="cuda")
    offset = torch.zeros(1, dtype=torch.int64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert aicf_cuda.dropout.dropout_f32(x, out, seed=9, offset=offset)
        offset += 1
    for step in range(3):
        graph.replay()
        assert torch.equal((out != 0).cpu(), torch.from_numpy(kept(9, step, 0.5, 5000)))


@pytest.mark.gpu
@pytest.mark.promise("KERNELS-dropout-position")
def test_cpu_and_gpu_drop_the_same() -> None:
    for dtype in ("f32", "f16", "bf16"):
        masks = [mask(70_001, device, dtype, seed=-5, offset=6, p=0.3) for device in DEVICES]
        assert torch.equal(*masks)


DEVICES = ("cpu", "cuda")


@pytest.mark.gpu
@pytest.mark.promise("A2", "KERNELS-dropout-position")
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.large
def test_more_elements_than_32_bits_count(start: int) -> None:
    n, ends = 2**31 + 4096 + 3, 4096
    x = torch.ones(n + start, dtype=torch.bfloat16, device="cuda")[start:]
    call("dropout", "bf16", x, x, seed=2, offset=4, p=0.5)
    for first in (0, 2**31 - 2048, n - ends):
        want = numbers(2, 4, ends, first) >= np.uint64(2**31)
        assert torch.equal((x[first : first + ends] != 0).cpu(), torch.from_numpy(want))
    del x
    torch.cuda.empty_cache()
