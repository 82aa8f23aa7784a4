"""Launches every CUDA kernel of the named ops on small tensors: `python touch.py OP[:DTYPE] ...`.

For the sanitizers: sizes are odd, addresses unaligned where the kernel takes them so, tiles whole
and cut, and nothing is looked at afterwards. Prints what ran as one line of JSON."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu.built import kernels_of
from gpu.cases import SUFFIX, Case, cases, product
from gpu.processes import BUILT

sys.path.insert(0, str(BUILT))


def products(dtype: torch.dtype, device: str) -> Iterator[Case]:
    """gemm by both kernels: tiles of each size, every layout, rows and columns alone."""
    sizes = [((), 72, 72, 40), ((128,), 72, 72, 40), ((), 1, 72, 264), ((), 136, 264, 104)]
    if dtype == torch.float32:
        sizes.append(((), 72, 1, 264))
    odd = [((), 67, 65, 33), ((128,), 65, 67, 9), ((), 1, 77, 515), ((), 77, 1, 515)]
    odd += [((), 5, 3, 0), ((3,), 5, 3, 2)]
    halves = dtype != torch.float32
    plan = [("mma" if halves else "simt", size) for size in sizes]
    plan += [("simt", size) for size in odd]
    for (kernel, (batch, m, n, k)), first, second in itertools.product(plan, "rc", "rc"):
        a = torch.zeros((*batch, m, k) if first == "r" else (*batch, k, m), device=device)
        b = torch.zeros((*batch, k, n) if second == "r" else (*batch, n, k), device=device)
        a, b = a.to(dtype), b.to(dtype)
        out = torch.zeros((*batch, m, n), dtype=dtype, device=device)
        bias, c = torch.zeros(n, dtype=dtype, device=device), out.clone()
        turned = (a if first == "r" else a.mT, b if second == "r" else b.mT)
        if first == second:
            options = {"beta": 0.5, "act": "gelu"}
            yield Case("gemm", kernel, (*turned, bias, c), out, product, options)
        else:
            yield Case("gemm", kernel, (*turned, None, None), out, product, {"act": "relu"})


def unaligned(case: Case) -> Iterator[Case]:
    """The same from one element on, where all lie in one row."""
    if case.out.dim() == 1 and all(t is not None and t.dim() == 1 for t in case.inputs):
        for at, to in ((1, 1), (1, 0), (3, 3)):
            end = case.out.numel() - 3
            inputs = tuple(None if t is None else t[at : at + end] for t in case.inputs)
            if case.kernel in ("vec", "flat") and at + end <= case.out.numel():
                yield Case(
                    case.op, case.kernel, inputs, case.out[to : to + end], case.reference,
                    case.options,
                )  # fmt: skip


def touch(op: str, dtype: torch.dtype, device: str) -> Iterator[Case]:
    for case in cases(op, device, dtype):
        yield case
        yield from unaligned(case)
    if op == "gemm":
        yield from products(dtype, device)


def run(op: str, only: str | None, device: str = "cuda") -> set[str]:
    """What ran, as "add/vec f32"."""
    ran: set[str] = set()
    built = {word for words in kernels_of(op).values() for word in words}
    for dtype, word in SUFFIX.items():
        if word in built and only in (None, word):
            for case in touch(op, dtype, device):
                case.run()
                ran.add(f"{op}/{case.kernel} {word}")
    return ran


def main() -> None:
    ran: set[str] = set()
    for name in sys.argv[1:]:
        op, _, only = name.partition(":")
        ran |= run(op, only or None)
    torch.cuda.synchronize()
    print(json.dumps({"ran": sorted(ran)}), flush=True)


if __name__ == "__main__":
    main()
