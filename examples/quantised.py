"""The network of digits.py in 8-bit integers: trained, calibrated, and as good as before."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import numpy as np
from digits import problem
from learning import Problem, Weights, described, described_all, fit

import aicf

EPOCHS = 6
CALIBRATION = 512  # rows of those that it was trained on


def trained(of: Problem, backend: Any) -> Weights:
    first = of.weights(np.random.default_rng(0))
    _, step = fit(of, backend, first)
    return {name: backend.to_host(step.param(f"weights.{name}")) for name in first}


def main() -> None:
    """Exits 1 with the reason where integers are more than a point worse."""
    parser = argparse.ArgumentParser(description="Quantises a network that it trains.")
    parser.add_argument("--backend", default="cpu", help="cpu, cuda: by which the ops run")
    backend = aicf.backends.get(parser.parse_args().backend)
    digits = dataclasses.replace(problem(), epochs=EPOCHS)
    weights = trained(digits, backend)

    def scores(x: Any, weights: Any) -> Any:
        return digits.forward(x, **weights)

    graph = aicf.trace(
        scores, described(digits.x, "N"), described_all(weights),
        symbols={"N": (1, len(digits.x))}, name="digits",
    )  # fmt: skip
    x, y = digits.test
    test = {"x": np.ascontiguousarray(x)}

    def accuracy(run: Any) -> float:
        return float(digits.right(run(test)[0], y).mean())

    params = {f"weights.{name}": w for name, w in weights.items()}
    batches = [{"x": digits.x[i : i + 128]} for i in range(0, CALIBRATION, 128)]
    found = aicf.quantise(graph, params, batches, metric=accuracy, backend=backend)
    print(found)
    before = sum(w.nbytes for w in weights.values())
    after = sum(w.nbytes for w in (*found.constants.values(), *found.params.values()))
    print(f"weights: {before:,} bytes in floats, {after:,} in integers")
    assert found.before is not None
    assert found.after is not None
    if found.after < found.before - 0.01 or len(found.layers) != 3:
        raise SystemExit("quantised: more than a point is lost, or a layer is in floats")


if __name__ == "__main__":
    main()
