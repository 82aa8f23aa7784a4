"""The pages that opgen writes of each op: what they say of torch and jax is what is there."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("B", ROOT / "build")).resolve() / "python"
GENERATED = Path(os.environ.get("GEN", ROOT / "generated")).resolve()

pytestmark = pytest.mark.promise("DOCS-ops")

CALL = re.compile(r"^([\w.]+)\((.*)\)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BUILT)


def pages() -> dict[str, str]:
    """What each says of torch and jax, by op."""
    found = {}
    for path in sorted((GENERATED / "docs").glob("*.md")):
        _, _, after = path.read_text(encoding="utf-8").partition("\n## Inside torch and jax\n")
        if path.stem != "index":
            found[path.stem] = after.partition("\n## ")[0]
    return found


def arguments(text: str) -> list[str]:
    """Names in their order, those by name alone behind a `*`."""
    return [word.partition("=")[0] for word in text.split(", ") if word]


def of_schema(schema: Any) -> list[str]:
    by_name = [a.name for a in schema.arguments if a.kwarg_only]
    given = [a.name for a in schema.arguments if not a.kwarg_only]
    return [*given, "*", *by_name] if by_name else given


@pytest.mark.guests("torch")
def test_the_ops_of_torch() -> None:
    importlib.import_module("aicf_cuda.torch")
    torch = importlib.import_module("torch")
    for op, text in pages().items():
        calls = dict(CALL.findall(text))
        there = getattr(torch.ops.aicf, op)
        schemas = {form: getattr(there, form)._schema for form in there.overloads()}
        plain = f"torch.ops.aicf.{op}"
        wanted = {
            plain if form == "default" else f"{plain}.{form}": of_schema(schema)
            for form, schema in schemas.items()
            if not form.startswith("dev")
        }
        said = {name: arguments(words) for name, words in calls.items() if "torch.ops" in name}
        assert said == wanted, op
        assert ("`.dev`" in text) == ("dev" in schemas), op


@pytest.mark.guests("jax")
def test_the_functions_of_jax() -> None:
    ops = importlib.import_module("aicf_cuda.jax")
    for op, text in pages().items():
        there = inspect.signature(getattr(ops, op)).parameters.values()
        said = arguments(dict(CALL.findall(text))[f"aicf_cuda.jax.{op}"])
        at = said.index("*")
        assert said[:at] == [p.name for p in there if p.kind is not p.KEYWORD_ONLY], op
        assert set(said[at + 1 :]) == {p.name for p in there if p.kind is p.KEYWORD_ONLY}, op
