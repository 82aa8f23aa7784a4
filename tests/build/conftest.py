"""Checkouts for the tests of the build: one is built a session, each test gets a copy to change."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import checkout
from checkout import Checkout


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture(scope="session")
def built_once(scratch: Path) -> Checkout:
    """The small table, built without CUDA. Not to be changed."""
    with open(scratch / "checkout.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = scratch / "checkout"
        assert not (root / "begun").exists() or (root / "done").exists(), "the first build failed"
        if not (root / "done").exists():
            made = checkout.create(root)
            (root / "begun").touch()
            made.make("-j2")
            (root / "done").touch()
    return Checkout(root)


@pytest.fixture
def tree(built_once: Checkout, tmp_path: Path) -> Iterator[Checkout]:
    """A built checkout of this test's own."""
    copy = built_once.copy(tmp_path / "tree")
    yield copy
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def nvcc() -> str:
    """The CUDA compiler, without which a test of it is skipped."""
    found = shutil.which("nvcc")
    if found is None:
        pytest.skip("guest nvcc is not installed")
    return found
