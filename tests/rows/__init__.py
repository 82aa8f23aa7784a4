"""What tests know of each row of the main table: calls of it, and their results in torch's words.

A family's file here has `ROWS`, a `Row` for each of its ops. The tests that go over all rows need
no more: values and refusals on CPU and GPU, torch and jax with their gradients, graphs, sanitizers,
threads. What is special in an op has tests of its own in tests/kernels/.
"""

from __future__ import annotations

import copy
import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

FEWEST = 3  # samples of a row


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: tensors, None and lists of tensors by position, attributes and scalars by name, and
    `dtype` where the row asks for one. Tensors of floats require a gradient where the Maker was
    told so."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> Sample:
        return Sample(*copy.deepcopy((self.args, self.kwargs)))


def sample(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


class Maker:
    """Makes tensors of one dtype and device, from one seed. Values are multiples of 1/8 in
    [-2, 2], which every float dtype has exactly, so that one reference does for all."""

    def __init__(
        self, dtype: torch.dtype, device: str = "cpu", grad: bool = False, seed: int = 7
    ) -> None:
        self.dtype, self.device, self.grad = dtype, device, grad
        self.source = torch.Generator().manual_seed(seed)

    def _leaf(self, x: torch.Tensor, grad: bool | None = None) -> torch.Tensor:
        wanted = self.grad if grad is None else grad
        return x.requires_grad_(wanted and x.is_floating_point())

    def _drawn(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Never 0, and no two equal where there is room: rows have corners at 0 and at ties."""
        eighths = torch.randint(1, 17, shape, generator=self.source)
        signs = 1 - 2 * torch.randint(0, 2, shape, generator=self.source)
        return (eighths * signs).to(torch.float64) / 8

    def __call__(self, *shape: int, grad: bool | None = None) -> torch.Tensor:
        return self._leaf(self._drawn(shape).to(self.dtype).to(self.device), grad)

    def distinct(self, *shape: int, grad: bool | None = None) -> torch.Tensor:
        """A permutation of whole numbers about 0 (up to 256 of them are exact in bf16)."""
        n = torch.Size(shape).numel()
        order = torch.randperm(n, generator=self.source) - n // 2
        return self._leaf(order.view(shape).to(self.dtype).to(self.device), grad)

    def positive(self, *shape: int, grad: bool | None = None) -> torch.Tensor:
        return self._leaf(self._drawn(shape).abs().to(self.dtype).to(self.device), grad)

    def unit(self, *shape: int, grad: bool | None = None) -> torch.Tensor:
        """Multiples of 1/16 in (0, 1)."""
        x = torch.randint(1, 16, shape, generator=self.source).to(torch.float64) / 16
        return self._leaf(x.to(self.dtype).to(self.device), grad)

    def ints(self, low: int, high: int, *shape: int, dtype: Any = torch.int64) -> torch.Tensor:
        """Whole numbers of [low, high)."""
        return torch.randint(low, high, shape, generator=self.source).to(dtype).to(self.device)

    def bools(self, *shape: int) -> torch.Tensor:
        return self.ints(0, 2, *shape, dtype=torch.bool)

    def acc(self, *shape: int, grad: bool | None = None) -> torch.Tensor:
        """In the dtype that this one accumulates in: f64 for f64, else f32."""
        kind = torch.float64 if self.dtype == torch.float64 else torch.float32
        return self._leaf(self._drawn(shape).to(kind).to(self.device), grad)

    def turned(self, *shape: int) -> torch.Tensor:
        """A leaf whose last two dims lie the other way round."""
        *lead, m, n = shape
        return self._leaf(self(*lead, n, m, grad=False).mT)

    def sliced(self, *shape: int) -> torch.Tensor:
        """A leaf with gaps."""
        *lead, n = shape
        return self._leaf(self(*lead, 2 * n, grad=False)[..., ::2])

    def channels_last(self, *shape: int) -> torch.Tensor:
        """A leaf N C H W that lies as N H W C."""
        x = self(*shape, grad=False).contiguous(memory_format=torch.channels_last)
        return self._leaf(x)


@dataclass(frozen=True, slots=True)
class Row:
    """One op. `reference(*args, **kwargs)` gives, of a sample's arguments in float64 on the CPU
    (integers and bools as they are), all outs in the row's order, optional ones too: a tensor or a
    tuple; of a row that writes in place the new values of what it writes, a list for a list. torch
    can differentiate it where the row has a gradient."""

    op: str
    samples: Callable[[Maker], list[Sample]]
    reference: Callable[..., Any]
    dtypes: tuple[str, ...] = ("f32", "f16", "bf16", "f64")  # of the Maker
    slack: float = 1.0  # times the dtype's tolerance
    # Calls that must be refused, with a part of the message.
    refused: Callable[[Maker], list[tuple[Sample, str]]] = lambda t: []
    # Larger calls, for the GPU: of several blocks, of every stage of a reduction, some ten thousand
    # elements each. They are run under the sanitizers and in CUDA graphs.
    large: Callable[[Maker], list[Sample]] = lambda t: []


@functools.cache
def rows() -> dict[str, Row]:
    """Every family's, by op."""
    found: dict[str, Row] = {}
    for module in pkgutil.iter_modules(__path__):
        for row in getattr(importlib.import_module(f"{__name__}.{module.name}"), "ROWS", ()):
            assert row.op not in found, row.op
            found[row.op] = row
    return found
