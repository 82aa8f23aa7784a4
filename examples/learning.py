"""What the examples that train share: a network trained by generated ops, and by torch beside it.

A problem has its data, the forward as a plain function of tensors, its first weights, and the same
forward in torch. `main` makes one graph of forward, backward and optimizer, runs it batch by batch,
and compares: the losses with torch's, step by step, and the accuracy on rows that no step saw.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import aicf

Array = Any
Weights = dict[str, Array]


@dataclass
class Problem:
    """`forward(x, **weights)` gives scores, `loss(scores, y)` a number; `symbols` has sizes that
    change from batch to batch. `right(scores, y)` says of each row whether it was answered well."""

    name: str
    x: Array
    y: Array
    held_out: int  # the last rows are for the accuracy alone
    forward: Callable[..., Any]
    loss: Callable[[Any, Any], Any]
    right: Callable[[Array, Array], Array]
    weights: Callable[[np.random.Generator], Weights]
    torch_forward: Callable[..., Any]
    torch_loss: Callable[[Any, Any], Any]
    optimizer: str
    torch_optimizer: Callable[[Any], Any]
    rate: float
    epochs: int
    batch: int
    least: float  # the accuracy that is asserted
    options: dict[str, Any] = field(default_factory=dict)

    def batches(self) -> Iterator[tuple[Array, Array]]:
        """In an order of its own for each epoch; the last batch of one may be smaller."""
        count = len(self.x) - self.held_out
        for epoch in range(self.epochs):
            order = np.random.default_rng(epoch).permutation(count)
            for first in range(0, count, self.batch):
                rows = order[first : first + self.batch]
                yield np.ascontiguousarray(self.x[rows]), np.ascontiguousarray(self.y[rows])

    @property
    def test(self) -> tuple[Array, Array]:
        first = len(self.x) - self.held_out
        return self.x[first:], self.y[first:]


DTYPES = {"float32": "f32", "int64": "i64"}


def described(array: Array, size: str | None = None) -> str:
    """An array as a graph's type, its first size a symbol."""
    sizes = [size or str(array.shape[0])] if array.ndim else []
    return f"{DTYPES[str(array.dtype)]}[{', '.join([*sizes, *map(str, array.shape[1:])])}]"


def train(problem: Problem, backend: Any, first: Weights) -> tuple[list[float], float]:
    """The losses of all steps, and the accuracy afterwards."""
    losses, step = fit(problem, backend, first)
    return losses, accuracy(problem, backend, step, described_all(first))


def described_all(weights: Weights) -> dict[str, Any]:
    """The weights as params of a graph."""
    return {name: aicf.param(described(w)) for name, w in weights.items()}


def fit(problem: Problem, backend: Any, first: Weights) -> tuple[list[float], aicf.ExecutorV2]:
    """The losses of all steps, and the step, which has the weights."""
    symbols = {"N": (1, len(problem.x))}

    def forward(x: Any, y: Any, weights: Any) -> Any:
        return problem.loss(problem.forward(x, **weights), y)

    x, y = described(problem.x, "N"), described(problem.y, "N")
    params = described_all(first)
    graph = aicf.trace(forward, x, y, params, symbols=symbols, name=problem.name)
    training = aicf.training_step(graph, problem.optimizer, **problem.options)
    step = aicf.ExecutorV2(training.graph, backend)
    for name, array in first.items():
        step.load(f"weights.{name}", array)
    step.zero(*training.states)
    counts = any(v.name == "step" for v in training.graph.inputs)
    losses = []
    for i, (bx, by) in enumerate(problem.batches()):
        given = {"lr": problem.rate} | ({"step": i + 1} if counts else {})
        loss = step(backend.from_host(bx), backend.from_host(by), **given)
        losses.append(float(backend.to_host(loss)))
    return losses, step


def accuracy(problem: Problem, backend: Any, trained: Any, params: dict[str, Any]) -> float:
    def scores(x: Any, weights: Any) -> Any:
        return problem.forward(x, **weights)

    x, y = problem.test
    graph = aicf.trace(scores, described(x), params, name=f"{problem.name}_scores")
    run = aicf.ExecutorV2(graph, backend)
    for name in params:
        run.adopt(f"weights.{name}", trained.param(f"weights.{name}"))
    found = backend.to_host(run(backend.from_host(np.ascontiguousarray(x))))
    return float(problem.right(found, y).mean())


def train_by_torch(problem: Problem, first: Weights) -> tuple[list[float], float]:
    """The same steps by torch's ops, autograd and optimizer, on the CPU."""
    import torch

    weights = {n: torch.tensor(w, requires_grad=True) for n, w in first.items()}
    optimizer = problem.torch_optimizer(list(weights.values()))
    losses = []
    for bx, by in problem.batches():
        optimizer.zero_grad()
        scores = problem.torch_forward(torch.tensor(bx), **weights)
        loss = problem.torch_loss(scores, torch.tensor(by))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        x, y = problem.test
        found = problem.torch_forward(torch.tensor(x), **weights).numpy()
    return losses, float(problem.right(found, y).mean())


def plot(path: Path, losses: dict[str, list[float]], title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for (name, values), style in zip(losses.items(), ("-", "--"), strict=False):
        axes.plot(values, style, label=name, linewidth=1.2)
    axes.set(title=title, xlabel="step", ylabel="loss", yscale="log")
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(make: Callable[[], Problem]) -> None:
    """Exits 1 with the reason where an accuracy is too low, or a loss is not torch's."""
    problem = make()
    parser = argparse.ArgumentParser(description=f"Trains {problem.name} by generated ops.")
    parser.add_argument("--backend", default="cpu", help="cpu, cuda: by which the ops run")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="the losses, by matplotlib")
    given = parser.parse_args()
    backend = aicf.backends.get(given.backend)
    first = problem.weights(np.random.default_rng(0))
    ours, reached = train(problem, backend, first)
    fell = f"loss {ours[0]:.4f} to {ours[-1]:.4f}"
    print(f"{problem.name} on {backend.name}: {len(ours)} steps, {fell}")
    print(f"  accuracy {reached:.1%} of {problem.held_out} rows that no step saw")
    losses = {f"aicf on {backend.name}": ours}
    faults = [] if reached >= problem.least else [f"less than {problem.least:.0%}"]
    if importlib.util.find_spec("torch"):
        theirs, as_well = train_by_torch(problem, first)
        losses["torch"] = theirs
        worst = max(abs(a - b) / (abs(b) + 1e-3) for a, b in zip(ours, theirs, strict=True))
        print(f"  torch: accuracy {as_well:.1%}; losses differ by at most {worst:.1e} of theirs")
        if not worst < 0.05 or not math.isclose(reached, as_well, abs_tol=2.1 / problem.held_out):
            faults.append("that is not torch's to rounding")
    fallen = [op for op, line in backend.report().as_dict().items() if line["fell_back"]]
    if fallen:
        faults.append(f"no kernel ran {', '.join(fallen)}")
    if given.plot:
        plot(given.plot, losses, problem.name)
    if faults:
        raise SystemExit(f"{problem.name}: {'; '.join(faults)}")


def kernel(r: np.random.Generator, *shape: int) -> Array:
    """Weights of a layer that has so many inputs as all sizes but the first make; Kaiming He's."""
    inputs = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
    return (r.standard_normal(shape) * math.sqrt(2 / inputs)).astype("f4")
