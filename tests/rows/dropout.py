"""dropout, beside a Philox4x32-10 of numpy's own integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rows import Maker, Row, Sample, sample

Words = npt.NDArray[np.uint64]  # each below 2**32

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter: Words, key: Words) -> Words:
    """Ten rounds on counters [n, 4] with one key [2]."""
    c0, c1, c2, c3 = counter.T
    k0, k1 = key
    for _ in range(10):
        even, odd = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c2 = (odd >> HALF) ^ c1 ^ k0, (even >> HALF) ^ c3 ^ k1
        c1, c3 = odd & LOW, even & LOW
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & LOW, (k1 + np.uint64(0xBB67AE85)) & LOW
    return np.stack([c0, c1, c2, c3], axis=1)


def halves(number: int) -> list[int]:
    """A 64-bit number as two of 32, the lower one first."""
    return [number & 0xFFFFFFFF, number >> 32 & 0xFFFFFFFF]


def numbers(seed: int, offset: int, n: int, first: int = 0) -> Words:
    """Those of elements [first, first + n)."""
    blocks = np.arange(first // 4, -(-(first + n) // 4), dtype=np.uint64)
    counter = np.empty((len(blocks), 4), dtype=np.uint64)
    counter[:, 0], counter[:, 1] = blocks & LOW, blocks >> HALF
    counter[:, 2:] = halves(offset)
    made: Words = philox(counter, np.array(halves(seed), dtype=np.uint64)).reshape(-1)
    return made[first % 4 : first % 4 + n]


def kept(seed: int, offset: int, p: float, n: int) -> npt.NDArray[np.bool_]:
    limit = np.uint64(int(p * 2**32 + 0.5))
    return numbers(seed, offset, n) >= limit


def reference(x: torch.Tensor, seed: Any, offset: Any = 0, p: float = 0.5) -> torch.Tensor:
    keep = torch.from_numpy(kept(int(seed), int(offset), p, x.numel())).view(x.shape)
    scale = 1 / (1 - p) if p < 1 else 0.0
    return torch.where(keep, x * scale, torch.zeros_like(x))


def samples(t: Maker) -> list[Sample]:
    scalar = torch.tensor([11], device=t.device)
    return [
        sample(t(5, 7), seed=3),
        sample(t(2, 3, 5), seed=-1, offset=2**40 + 1, p=0.25),
        sample(t(33), seed=scalar, offset=scalar.clone(), p=0.75),
        sample(t(2, 3), seed=2**62 + 5, p=0.0),
        sample(t(7), seed=1, p=1.0),
        sample(t(), seed=4, offset=-3, p=0.1),
    ]


def refused(t: Maker) -> list[tuple[Sample, str]]:
    return [(sample(t(4), seed=1, p=1.5), "p"), (sample(t(4), seed=1, p=-0.1), "p")]


ROWS = [Row("dropout", samples, reference, refused=refused)]
