"""Launches CUDA kernels of the named ops on small tensors: `python touch.py [--written]
OP[:DTYPE[:KERNEL+KERNEL[:all]]] ...`, in all the Maker's dtypes or in one, by all kernels or some.

For the sanitizers: a sample of tests/rows that fits a kernel and a larger one, in one typed form or
in all; the former also from an odd address where the kernel takes it so. Nothing is looked at
afterwards. With --written memory that torch gives is zero, also between the elements of a tensor,
where packs may be read that nobody uses; so is the workspace of what reads there what the copy
engine wrote, of which initcheck knows nothing. Prints what ran as a line of JSON an op."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu.processes import BUILT

sys.path.insert(0, str(BUILT))

from gpu.cases import Case, Plan, case_of, planned
from rows.calls import Call

READ_BEHIND_THE_ENGINE = {("gemm", "padded")}


def unaligned(case: Case) -> Iterator[Case]:
    """The same from one element on, where it lies dense and the kernel takes it."""
    call = case.call.relaid("odd").with_outs(layout="odd")
    if case.plan.layout in (None, "dense") and fits(case, call):
        yield Case(case.op, case.plan, call, case.prepare, case.options)


def fits(case: Case, call: Call) -> bool:
    return any(line.startswith(f"{case.kernel}: fits") for line in call.explain())


def few(plans: Sequence[Plan], every: bool) -> list[Plan]:
    """One of each kernel, and a larger one: of every typed form, or of the first."""
    found: dict[tuple[str, str, bool], Plan] = {}
    for plan in plans:
        found.setdefault((plan.kernel, plan.suffix if every else "", plan.large), plan)
    return list(found.values())


def touch(op: str, plan: Plan, device: str) -> Iterator[Case]:
    case = case_of(op, plan, device)
    yield case
    if not plan.large:
        yield from unaligned(case)


def named(op: str, plan: Plan) -> str:
    return f"{op}/{plan.kernel} {plan.suffix}"


def plans_of(unit: str, device: str = "cuda") -> list[Plan]:
    op, word, kernels, every = [*unit.split(":"), "", "", ""][:4]
    plans = [p for p in planned(op, device, word or None) if p.kernel in kernels.split("+")]
    return few(plans if kernels else planned(op, device, word or None), bool(every))


def launch(case: Case, written: bool) -> None:
    if not written or (case.op, case.kernel) not in READ_BEHIND_THE_ENGINE:
        case.run()
        return
    call = case.bind()
    device = case.call.device
    call.set(workspace=torch.zeros(call.workspace_size, dtype=torch.uint8, device=device))
    call()


def run(unit: str, device: str = "cuda", written: bool = False) -> set[str]:
    """What ran, as "add/vec f32"."""
    op = unit.partition(":")[0]
    ran: set[str] = set()
    for plan in plans_of(unit, device):
        for case in touch(op, plan, device):
            launch(case, written)
            ran.add(named(op, plan))
    return ran


def write_what_is_empty() -> None:
    empty = torch.empty

    def zero(*args: Any, **kwargs: Any) -> torch.Tensor:
        return empty(*args, **kwargs).zero_()

    torch.empty = zero


def main() -> None:
    words = sys.argv[1:]
    written = words[:1] == ["--written"]
    if written:
        write_what_is_empty()
    for unit in words[written:]:
        ran = run(unit, written=written)
        torch.cuda.synchronize()
        print(json.dumps({"ran": sorted(ran)}), flush=True)


if __name__ == "__main__":
    main()
