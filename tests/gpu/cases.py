"""A call of every CUDA kernel of every op: small, on torch tensors, its result known.

`cases(op)` are its calls; `Case.run(out)` makes one, `Case.want()` is what torch says of it. The
device is a parameter, so that the cases themselves are tested where there is no GPU."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

OPS = (
    "add", "relu", "relu_bwd", "gelu_bwd", "scale", "copy",
    "bias_add", "bias_add_bwd", "gemm", "sum",
)  # fmt: skip

SUFFIX = {
    torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64",
    torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32",
    torch.int64: "i64", torch.bool: "bool",
}  # fmt: skip
# What a result may be off by, near the size of its terms: rounding alone is not asked here.
LOOSE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel's call. `inputs` are changed in place between runs, the calls see it."""

    op: str
    kernel: str
    inputs: tuple[torch.Tensor | None, ...]
    out: torch.Tensor
    reference: Callable[..., torch.Tensor]  # of the inputs in float64
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.op}/{self.kernel} {SUFFIX[self.out.dtype]} {tuple(self.out.shape)}"

    def arguments(self, out: torch.Tensor | None = None) -> tuple[Any, ...]:
        return (*self.inputs, self.out if out is None else out)

    def keywords(self) -> dict[str, Any]:
        """The kernel is demanded where the tensors lie on a GPU."""
        demanded = {"kernel": self.kernel} if self.out.is_cuda else {}
        return {**self.options, **demanded}

    def run(self, out: torch.Tensor | None = None, **more: Any) -> None:
        module = importlib.import_module(f"aicf_cuda.{self.op}")
        typed = getattr(module, f"{self.op}_{SUFFIX[self.out.dtype]}")
        if typed(*self.arguments(out), **self.keywords(), **more) is not True:
            said = module.explain(*self.arguments(out), **self.options)
            raise AssertionError(f"{self.name} refused: {said}")

    def bind(self, **more: Any) -> Any:
        module = importlib.import_module(f"aicf_cuda.{self.op}")
        return module.bind(*self.arguments(), **self.keywords(), **more)

    def change(self, seed: int) -> None:
        """Other inputs, and an out on which what is not written shows."""
        torch.manual_seed(seed)
        for t in self.inputs:
            if t is not None:
                t.normal_()
        self.out.fill_(float("nan"))

    def want(self) -> torch.Tensor:
        return self.reference(*(None if t is None else t.double() for t in self.inputs))

    def check(self, got: torch.Tensor | None = None) -> None:
        """Near what torch says; NaN anywhere fails."""
        got = self.out if got is None else got
        want = self.want()
        size = max(1.0, float(want.abs().max())) if want.numel() else 1.0
        error = (got.double() - want).abs()
        good = bool((error <= LOOSE[got.dtype] * size).all())
        assert good, f"{self.name}: off by {float(error.max())} of {size}"


def gelu_slope(gy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.gelu_backward(gy, y)


def product(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, c: torch.Tensor | None
) -> torch.Tensor:
    out = a @ b
    out = out if c is None else out + 0.5 * c
    out = out if bias is None else out + bias
    return torch.relu(out)


def cases(op: str, device: str = "cuda", dtype: torch.dtype = torch.float32) -> list[Case]:
    """Each kernel of `op` at least once; those with a workspace need several stages here."""

    def new(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    def elementwise(
        inputs: int,
        reference: Callable[..., torch.Tensor],
        vec: str = "vec",
        **options: Any,
    ) -> list[Case]:
        flat = tuple(new(8195) for _ in range(inputs))
        turned = tuple(new(70, 67).t() for _ in range(inputs))
        return [
            Case(op, vec, flat, new(8195), reference, options),
            Case(op, "strided", turned, new(67, 70), reference, options),
        ]

    def relu_bwd(gy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(y <= 0, 0.0, gy)

    made: dict[str, Callable[[], list[Case]]] = {
        "add": lambda: [
            *elementwise(2, torch.add),
            Case(op, "strided", (new(33, 129), new(129)), new(33, 129), torch.add),
        ],
        "relu": lambda: elementwise(1, torch.relu),
        "relu_bwd": lambda: elementwise(2, relu_bwd),
        "gelu_bwd": lambda: elementwise(2, gelu_slope),
        "scale": lambda: elementwise(1, lambda x: 0.5 * x, factor=0.5),
        "copy": lambda: [
            *elementwise(1, torch.clone, "flat"),
            Case(op, "strided", (new(67, 70)[::2, 1::3],), new(34, 23), torch.clone),
        ],
        "bias_add": lambda: [
            Case(op, "vec", (new(37, 65), new(65)), new(37, 65), torch.add),
            Case(
                op, "vec", (new(3, 5, 129), new(5)), new(3, 5, 129), lambda x, b: x + b[:, None]
            ),
        ],
        "bias_add_bwd": lambda: [
            Case(op, "two_stage", (new(4100, 33),), new(33), lambda gy: gy.sum(0)),
            Case(op, "two_stage", (new(3, 5, 2049),), new(5), lambda gy: gy.sum((0, 2))),
        ],
        "gemm": lambda: [
            *(
                []
                if dtype == torch.float32
                else [
                    Case(
                        op, "mma", (new(72, 40), new(40, 136), new(136), new(72, 136)),
                        new(72, 136), product, {"beta": 0.5, "act": "relu"},
                    ),
                    Case(
                        op, "mma", (new(128, 256).t(), new(64, 128).t(), None, None),
                        new(256, 64), product, {"act": "relu"},
                    ),
                ]
            ),
            Case(
                op, "simt", (new(67, 33), new(33, 70), new(70), new(67, 70)), new(67, 70),
                product, {"beta": 0.5, "act": "relu"},
            ),
            Case(
                op, "simt", (new(1, 130), new(77, 130).t(), None, None), new(1, 77),
                product, {"act": "relu"},
            ),
        ],
        "sum": lambda: [
            Case(op, "two_stage", (new(300_007),), new(), torch.sum),
            Case(op, "two_stage", (new(5, 9001),), new(5), lambda x: x.sum(1), {"axes": [1]}),
            Case(op, "two_stage", (new(9001, 5),), new(5), lambda x: x.sum(0), {"axes": [0]}),
        ],
    }  # fmt: skip
    return made[op]()
