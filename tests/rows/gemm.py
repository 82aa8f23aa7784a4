"""Matrix products."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from rows import Maker, Row, Sample, sample

ACTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda z: z,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
}


def gemm(
    a: torch.Tensor, b: torch.Tensor, bias: Any = None, c: Any = None, **named: Any
) -> torch.Tensor:
    z = named.get("alpha", 1.0) * (a @ b)
    z = z if c is None else z + named.get("beta", 0.0) * c
    z = z if bias is None else z + bias
    return ACTS[named.get("act", "none")](z)


def samples(t: Maker) -> list[Sample]:
    """Rows of odd sizes and of whole vectors, which the tiles of tensor cores ask for."""
    return [
        sample(t(3, 4), t(4, 5)),
        sample(t(2, 3, 4), t.turned(4, 5), t(5), act="relu", alpha=0.5),
        sample(t.sliced(3, 4), t(4, 2), t(2), t(3, 2), beta=0.5, act="gelu"),
        sample(t(3, 4), t(2, 4, 5), None, t(2, 3, 5), beta=2.0),
        sample(t(2, 8), t(8, 8), t(8), t(2, 8), beta=-1.0, act="relu"),
        # What is drawn is exact in tf32, and so are its products: no tolerance of their own.
        sample(t(3, 4), t.turned(2, 4, 6), t(6), act="relu", precision="tf32"),
    ]


def large(t: Maker) -> list[Sample]:
    """Tiles of each size, whole and cut, in every layout, rows and columns alone, no products."""
    sizes = [((), 72, 72, 40), ((16,), 72, 72, 40), ((), 1, 72, 264), ((), 136, 264, 104),
             ((), 72, 1, 264), ((), 67, 65, 33), ((16,), 65, 67, 9), ((), 1, 77, 515),
             ((), 77, 1, 515), ((), 5, 3, 0), ((3,), 5, 3, 2), ((), 16, 24, 0),
             ((), 165, 163, 161)]  # fmt: skip
    found: list[Sample] = []
    lies: tuple[Callable[..., torch.Tensor], ...] = (t, t.turned)
    for (batch, m, n, k), first, second in itertools.product(sizes, lies, lies):
        a, b = first(*batch, m, k), second(*batch, k, n)
        if first == second:
            c = t(*batch, m, n)
            found.append(sample(a, b, t(n), c, beta=0.5, act="gelu"))
        else:
            found.append(sample(a, b, act="relu"))
        if not batch:
            found.append(sample(a, b, t(n), precision="tf32"))
    return found


def refused(t: Maker) -> list[tuple[Sample, str]]:
    return [
        (sample(t(3, 4), t(5, 6)), "b: its shape must be B.. K N"),
        (sample(t(3, 4), t(4, 5), beta=1.0), "beta needs c"),
        (sample(t(3, 4), t(4, 5), t(4)), "bias: its shape must be N"),
        (sample(t(2, 3, 4), t(3, 4, 5)), "broadcast"),
        (sample(t(3, 4), t(4, 5), act="tanh"), "act takes one of 'none', 'relu', 'gelu'"),
        (sample(t(3, 4), t(4, 5), precision="tf16"), "precision takes one of 'ieee', 'tf32'"),
    ]


ROWS = [Row("gemm", samples, gemm, refused=refused, large=large, slack=2.0)]
