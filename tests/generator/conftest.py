"""opgen for the tests of this folder: built once with plain gcc, or the one that OPGEN names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from generator.program import SANITIZERS, Opgen, build


@pytest.fixture(scope="session")
def opgen(tmp_path_factory: pytest.TempPathFactory) -> Opgen:
    given = os.environ.get("OPGEN")
    if given:
        return Opgen(Path(given).resolve())
    return Opgen(build(tmp_path_factory.mktemp("opgen")))


@pytest.fixture(scope="session")
def sanitized_opgen(tmp_path_factory: pytest.TempPathFactory) -> Opgen:
    """The same under sanitizers of addresses and undefined behaviour, or OPGEN_SANITIZED."""
    given = os.environ.get("OPGEN_SANITIZED")
    if given:
        return Opgen(Path(given).resolve())
    return Opgen(build(tmp_path_factory.mktemp("opgen-sanitized"), SANITIZERS))
