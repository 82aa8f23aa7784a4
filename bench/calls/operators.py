"""Our ops as operators of torch, beside the least that one of Python can cost.

What that is: an operator registered from Python, without autograd, whose body does nothing, or
makes the out where it has to give one; and then our typed call. Both in one block, so that their
sum is timed as the operator is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import aicf_cuda
import aicf_cuda.torch
import torch
from aicf_cuda import _gradients, _relations, _table
from aicf_rt.torch import Package
from bench.calls.clock import Call, Row
from bench.calls.scene import Scene, Three

FUNCTIONAL, OUT = "torch.ops.aicf.add", "torch.ops.aicf.add.out"
NOTHING, NOTHING_OUT = "no-op, allocating", "no-op, out="
TAGS = (torch.Tag.pt2_compliant_tag,)


class Nothing:
    """Operators of Python that do nothing."""

    def __init__(self) -> None:
        self.library = torch.library.Library("aicf_nothing", "DEF")
        self.define("add(Tensor a, Tensor b) -> Tensor", lambda a, b: torch.empty_like(a))
        self.define("add.out(Tensor a, Tensor b, *, Tensor(a!) out) -> ()", lambda a, b, out: None)
        self.functional = torch.ops.aicf_nothing.add.default
        self.out = torch.ops.aicf_nothing.add.out

    def define(self, schema: str, body: Any) -> None:
        self.library.define(schema, tags=TAGS)
        self.library.impl(schema.partition("(")[0], body, "CompositeExplicitAutograd")


def without_launch(hollow: ModuleType) -> Any:
    """The op `add` of the module whose launchers return at once."""
    package = "bench_hollow"
    sys.modules.setdefault(package, ModuleType(package))
    sys.modules[f"{package}.add"] = hollow
    table = {**_table.load(), "namespace": "aicf_hollow"}
    # Kept there, as torch wants it to be.
    return Package.of(package, table, _relations.RELATIONS, _gradients.GRADIENTS).register("add")


def rows(scene: Scene, hollow: ModuleType) -> Iterator[Row]:
    """Of tensors that Python alone holds and of held ones, each called by its overload."""
    nothing, real, empty = Nothing(), torch.ops.aicf.add, without_launch(hollow)
    for kind, three, held in scene.kinds():
        owners = (held, nothing)  # whose library ends with it
        two, named = three[:2], ("out",)
        yield least(scene, NOTHING, kind, (nothing.functional, two, None), three, hollow, owners)
        beside = (f"{NOTHING}: {kind}", f"torch.add: {kind}", f"torch.ops, functional: {kind}")
        yield Row(f"{FUNCTIONAL}: {kind}", FUNCTIONAL, kind, scene.clock.call(real.default, two),
                  scene.clock.call(empty.default, two), beside, keep=owners)  # fmt: skip
        yield least(scene, NOTHING_OUT, kind, (nothing.out, three, named), three, hollow, owners)
        beside = (f"{NOTHING_OUT}: {kind}", f"torch.add(out=): {kind}", f"torch.ops: {kind}")
        yield Row(f"{OUT}: {kind}", OUT, kind, scene.clock.call(real.out, three, named),
                  scene.clock.call(empty.out, three, named), beside, keep=owners)  # fmt: skip


def least(
    scene: Scene, who: str, kind: str, call: Call, three: Three, hollow: ModuleType, keep: object
) -> Row:
    """That operator and the typed call, as one."""

    def both(module: Any) -> tuple[Call, ...]:
        return (call, (module.add_f32, three, None))

    full, empty = (scene.clock.calls(*both(m), each=0.5) for m in (aicf_cuda.add, hollow))
    return Row(f"{who}: {kind}", f"{who}, + typed", kind, full, empty, keep=keep)
