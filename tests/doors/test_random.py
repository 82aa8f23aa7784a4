"""Random calls of every row through the doors of frameworks: what the generic form says of numpy's
arrays, they say of theirs. Tensors may be wrong here, attributes are right: those that are not are
in cases.py, for torch converts some."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from doors.draw import ALL, NAMES, Draw, table_of
from doors.of_torch import quiet

CALLS = 24


class Tensors(Draw):
    """Calls that are wrong by their tensors alone, which are dense."""

    def attribute(self, attr: dict[str, Any]) -> Any:
        return self.right_value(attr)

    def strides(self, shape: tuple[int, ...]) -> None:
        return None

    def scalar(self, param: dict[str, Any]) -> Any:
        return 2

    def calls(self) -> tuple[list[Any], dict[str, Any]]:
        """Without outs and options, of tensors that every framework has."""
        args, named = self.call()
        known = {a["name"] for a in self.row["row"]["args"]} - {"kind"}  # of the op that fails
        scalars = {p["name"]: 2 for p in self.row["params"] if p["role"] == "SCALAR"}
        return args, {n: v for n, v in named.items() if n in known} | scalars


def flat(value: Any) -> Iterator[Any]:
    for item in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(item, np.ndarray):
            yield item


def calls_of(name: str, row: dict[str, Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Those that are no misuse: of arrays alone, none of which is missing."""
    dice = random.Random(name)
    found = 0
    while found < CALLS:
        args, named = Tensors(dice, row, (0, 0.05, 0.2)[found % 3]).calls()
        tensors = [a for a in args if not isinstance(a, (np.ndarray, list, type(None)))]
        mixed = any(not all(isinstance(x, np.ndarray) for x in a) for a in args if type(a) is list)
        inputs = [p for p in row["params"] if p["role"] in ("IN", "INOUT")]
        needed = [p for p in inputs if not p["optional"]]
        enough = len(args) >= len(needed) and all(
            a is not None for a, _ in zip(args, needed, strict=False)
        )
        shown = [
            a
            for a, p in zip(args, inputs, strict=False)
            if a is not None and (type(a) is list) != bool(p["list"])
        ]
        attributes = [a for a in row["row"]["args"] if "attr" in a and "default" not in a]
        enough = enough and all(a["name"] in named for a in attributes)
        if not tensors and not mixed and enough and not shown:
            found += 1
            yield args, named


def said(call: Any) -> Any:
    """The shapes and dtypes that came out, or the words of a refusal."""
    try:
        made = call()
    except (TypeError, ValueError) as fault:
        return type(fault).__name__, str(fault)
    results = made if isinstance(made, (list, tuple)) else () if made is None else (made,)
    return [(tuple(x.shape), dtype_of(x)) for x in results if hasattr(x, "shape")]


def dtype_of(x: Any) -> str:
    word = str(x.dtype).removeprefix("torch.")
    return word if word == "bfloat16" else NAMES[np.dtype(word)]


def in_jax(function: Any, args: list[Any], named: dict[str, Any]) -> Any:
    import jax

    arrays = [x for a in args for x in flat(a)]

    def call(*given: Any) -> Any:
        left = iter(given)
        swapped = [
            [next(left) for _ in a] if isinstance(a, list) else None if a is None else next(left)
            for a in args
        ]
        return function(*swapped, **named)

    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        return said(lambda: jax.eval_shape(call, *arrays))


def in_torch(function: Any, args: list[Any], named: dict[str, Any]) -> Any:
    torch = importlib.import_module("torch")
    fakes = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode()

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [made(v) for v in value]
        if value is None:
            return None
        word = np.dtype(value.dtype)
        spelled = "bfloat16" if word == np.dtype(ALL["bf16"]) else word.name
        return torch.empty(value.shape, dtype=getattr(torch, spelled))

    with fakes, quiet():
        swapped = [made(a) for a in args]
        return said(lambda: function(*swapped, **named))


@pytest.mark.promise("DOORS-same")
@pytest.mark.guests("jax", "torch", "ml_dtypes")
@pytest.mark.parametrize("which", ["aicf_cuda", "zoo_ops"])
def test_random_calls_through_frameworks(which: str, zoo: ModuleType) -> None:
    package = zoo if which == "zoo_ops" else importlib.import_module(which)
    of_jax = importlib.import_module(f"{which}.jax")
    of_torch = importlib.import_module(f"{which}.torch")
    refused = 0
    for name, row in sorted(table_of(package).items()):
        writes = any(p["role"] == "INOUT" for p in row["params"])
        for args, named in calls_of(name, row):
            right = said(lambda: getattr(getattr(package, name), name)(*args, **named))
            refused += isinstance(right, tuple)
            through_torch = in_torch(getattr(of_torch, name), args, named)
            assert through_torch == right, (name, args, named)
            through_jax = in_jax(getattr(of_jax, name), args, named)
            if not (writes and isinstance(right, list)):  # jax gives what was written
                assert through_jax == right, (name, args, named)
    assert refused > CALLS
