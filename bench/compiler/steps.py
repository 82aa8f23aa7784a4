"""One step of each network, as it is timed: ours captured, replayed and op by op, torch's eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import aicf
from aicf.compiler.runtime.graph_capture import Captured

from .models import Model

Step = Callable[[], Any]
RATE = 1e-3


@dataclass
class Scene:
    """A network, a batch, and what is asked: "training", a step by AdamW, or "inference"."""

    model: Model
    batch: int
    what: str
    backend: Any
    device: str

    def __post_init__(self) -> None:
        r = np.random.default_rng(1)
        self.x = r.standard_normal((self.batch, *self.model.shape)).astype("f4")
        self.y = r.integers(0, 10, self.batch)
        self.given = self.backend.from_host(self.x), self.backend.from_host(self.y)

    # ---- ours ----------------------------------------------------------------------------------

    def graph(self) -> Any:
        model, sizes = self.model, ", ".join(map(str, self.model.shape))
        params = {
            name: aicf.param(f"f32[{', '.join(map(str, shape))}]")
            for name, shape in model.weights.items()
        }

        def scores(x: Any, weights: Any) -> Any:
            return model.forward(x, **weights)

        def loss(x: Any, y: Any, weights: Any) -> Any:
            return aicf.ops.cross_entropy(model.forward(x, **weights), y)

        symbols = {"N": (1, 8192)}
        if self.what == "inference":
            return aicf.trace(scores, f"f32[N, {sizes}]", params, symbols=symbols)
        forward = aicf.trace(loss, f"f32[N, {sizes}]", "i64[N]", params, symbols=symbols)
        return aicf.training_step(forward, "adamw", weight_decay=0.01).graph

    def executor(self, mode: str, selector: Any = None) -> Any:
        made = aicf.ExecutorV2(
            self.graph(), self.backend, mode=mode, outputs="reused", selector=selector
        )
        for value in made.graph.params:
            name = value.name.removeprefix("weights.")
            if name in self.model.weights:
                made.load(value.name, self.model.first()[name])
            else:
                made.zero(value.name)
        return made

    def ours(self, mode: str, selector: Any = None) -> tuple[Any, Step]:
        """The executor, and a step. Of a captured one rate and count are others at each call."""
        run = self.executor(mode, selector)
        x, y = self.given
        if self.what == "inference":
            return run, lambda: run(x)
        if mode != "graph":
            return run, lambda: run(x, y, lr=RATE, step=10)
        count = itertools.count(1)

        def step() -> Any:
            i = next(count)
            return run(x, y, lr=RATE / i, step=i)

        return run, step

    def launch(self, run: Any) -> Callable[[], Any]:
        """Of the graph that ran last, with nothing that it would be fed."""
        runner = run.last.runner
        assert isinstance(runner, Captured)
        graph = self.backend.capture([s.call for s in runner.program.steps], **runner.options)
        return graph.launch  # type: ignore[no-any-return]

    # ---- torch's -------------------------------------------------------------------------------

    def torch_step(self) -> Step:
        import torch

        first = self.model.first()
        device = self.device
        x, y = torch.tensor(self.x, device=device), torch.tensor(self.y, device=device)
        weights = {n: torch.tensor(w, device=device) for n, w in first.items()}
        if self.what == "inference":

            def infer() -> Any:
                with torch.no_grad():
                    return self.model.torch_forward(x, **weights)

            return infer
        for w in weights.values():
            w.requires_grad_()
        optimizer = torch.optim.AdamW(weights.values(), lr=RATE, weight_decay=0.01)

        def train() -> Any:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model.torch_forward(x, **weights), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return train

    # ---- whether they are the same -------------------------------------------------------------

    def differ(self, steps: int = 10) -> float:
        """How far our results are from torch's at most, of the largest of theirs: losses of as many
        steps, or scores."""
        run = self.executor("replay")
        theirs = self.torch_step()
        x, y = self.given
        worst = largest = 0.0
        for i in range(steps):
            found = run(x) if self.what == "inference" else run(x, y, lr=RATE, step=i + 1)
            a = np.asarray(self.backend.to_host(found))
            b = theirs().cpu().numpy()
            worst = max(worst, float(abs(a - b).max()))
            largest = max(largest, float(abs(b).max()))
        return worst / largest
