"""Executors under sequences of all that one can do with them: each mode is as op by op."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import aicf
from aicf.compiler.ir.training import training_step
from aicf.compiler.runtime.executor import ExecutorV2
from compiler.emulated import Emulated, host
from compiler.test_executor import forward, weights

WAYS: dict[str, dict[str, Any]] = {
    "eager": {"mode": "eager"},
    "replay": {"mode": "replay"},
    "reused": {"mode": "replay", "outputs": "reused"},
    "auto": {"mode": "graph"},
    "copy": {"mode": "graph", "inputs": "copy", "outputs": "reused"},
    "repoint": {"mode": "graph", "inputs": "repoint"},
    "refused": {"mode": "graph", "outputs": "reused"},
}


class Player:
    """The same actions on executors of all ways, which must agree after each."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.r = np.random.default_rng(seed)
        optimizer = self.draw.choice(["sgd", "adamw", "rmsprop"])
        training = training_step(forward(), optimizer)
        self.names = [v.name for v in training.graph.inputs]
        self.runs = {}
        for way, options in WAYS.items():
            backend: Any = host(options["mode"], strict=True)
            if way == "refused":
                backend = Emulated(strict=True, refused="no")
            run = ExecutorV2(training.graph, backend, params=weights(), kept=2, **options)
            run.zero(*training.states)
            self.runs[way] = run
        self.batches = [self.batch() for _ in range(5)]
        self.count = 0

    def batch(self) -> tuple[Any, Any]:
        n = self.draw.choice((1, 3, 5, 12))
        return self.r.normal(size=(n, 8)).astype("f4"), self.r.integers(0, 3, n)

    def numbers(self) -> dict[str, Any]:
        self.count += self.draw.randint(0, 2)
        given = {"lr": self.draw.choice((0.1, 0.01, 0, np.float32(0.05))), "step": self.count + 1}
        return {name: x for name, x in given.items() if name in self.names}

    def step(self) -> None:
        action = self.draw.choice((*["run"] * 6, "change", "load", "adopt", "look", "bad", "batch"))
        x, y = self.draw.choice(self.batches)
        numbers = self.numbers()
        if action == "run":
            losses = {way: float(run(x, y, **numbers)) for way, run in self.runs.items()}
            assert len(set(losses.values())) == 1, losses
        elif action == "change":
            x *= np.float32(0.9)
        elif action == "batch":
            self.batches[self.draw.randrange(5)] = self.batch()
        elif action == "load":
            for run in self.runs.values():
                run.load("b1", np.full(16, 0.1, "f4"))
        elif action == "adopt":
            for run in self.runs.values():
                run.adopt("w2", np.array(run.param("w2")))
        elif action == "look":
            way = self.draw.choice(list(self.runs))
            look = self.draw.choice(("per_op", "kernels", "prepare", "program"))
            if look == "program":
                self.runs[way].program(N=len(x))
            else:
                rest = {"count": 1} if look == "per_op" else {}
                getattr(self.runs[way], look)(x, y, **numbers, **rest)
        else:
            wrong: Any = self.draw.choice(
                ((x[:, :4], y), (x, None), (y, x), (x, np.concatenate([y, y])), (x.tolist(), y))
            )
            for run in self.runs.values():
                with pytest.raises((TypeError, ValueError, aicf.IRError)):
                    run(*wrong, **numbers)

    def check(self) -> None:
        for name in [p.name for p in self.runs["eager"].graph.params]:
            bits = {way: np.array(run.param(name)).tobytes() for way, run in self.runs.items()}
            assert len(set(bits.values())) == 1, name


@pytest.mark.promise("MARK-9-graph-bits", "MARK-8-executor")
@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_between(seed: int) -> None:
    player = Player(seed)
    for _ in range(60):
        player.step()
    player.check()
    graphs = [player.runs[way] for way in ("auto", "copy", "repoint")]
    assert all(run.reasons == {} for run in graphs)
    assert set(player.runs["refused"].reasons.values()) <= {"no"}
