"""Ranges around ops, as a profiler sees them: a library that records them is injected."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("nvtx_recorder.c")

PROGRAM = """
    import contextlib
    import numpy as np
    import aicf
    from aicf.backend.cpu import CpuBackend
    from aicf.backend.null import NullBackend

    backend = {backend}(strict=True)
    x = backend.from_host(np.ones((2, 3), "f4"))
    with {context}:
        backend.add(x, x)
        try:
            backend.add(x, backend.from_host(np.ones(5, "f4")))
        except ValueError:
            pass
        backend.run([backend.prepare("relu", x, backend.empty((2, 3), "f32"))] * 2)
        backend.run([backend.prepare("relu", x, backend.empty((2, 3), "f32"))], ["node 7"])
    backend.mul(x, x)
"""


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nvtx") / "recorder.so"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, str(SOURCE), "-o", str(made)], check=True)
    return made


@pytest.fixture
def ranges(recorder: Path, tmp_path: Path, alone: Callable[..., str]) -> Any:
    """What a program pushes and pops."""

    def run(code: str, **environment: str) -> list[str]:
        log = tmp_path / "log"
        log.touch()
        told = {"NVTX_INJECTION64_PATH": str(recorder), "NVTX_LOG": str(log), **environment}
        alone(code, **told)
        return log.read_text().splitlines()

    return run


@pytest.mark.guests("nvtx")
@pytest.mark.promise("AICF-nvtx")
@pytest.mark.parametrize("backend", ["CpuBackend", "NullBackend"])
def test_an_op_is_a_range(ranges: Any, backend: str) -> None:
    """Named by op, kernel and line; popped also where the op raises; and outside of the context
    there is none."""
    seen = ranges(PROGRAM.format(backend=backend, context="aicf.nvtx()"))
    pushed = [line.partition(" ")[2] for line in seen if line.startswith("push")]
    assert len(seen) == 2 * len(pushed)
    assert [line.startswith("push") for line in seen] == [True, False] * len(pushed)
    assert pushed == [
        "aicf: add loop <string>:11",
        "aicf: add fallback <string>:13",
        "aicf: relu loop <string>:16",
        "aicf: relu loop <string>:16",
        "aicf: node 7",
    ]


@pytest.mark.guests("nvtx")
@pytest.mark.promise("AICF-nvtx")
def test_the_environment_turns_them_on(ranges: Any) -> None:
    code = PROGRAM.format(backend="CpuBackend", context="contextlib.nullcontext()")
    assert ranges(code) == []
    seen = ranges(code, AICF_NVTX="1")
    assert seen[-2:] == ["push aicf: mul loop <string>:18", "pop aicf"]
    assert len(seen) == 12


@pytest.mark.promise("AICF-nvtx")
def test_without_nvtx_it_says_so(alone: Callable[..., str]) -> None:
    code = """
        import sys
        sys.modules["nvtx"] = sys.modules["torch.cuda.nvtx"] = None
        import aicf
        try:
            with aicf.nvtx():
                pass
        except ImportError as error:
            print(error)
    """
    assert "ranges need the package nvtx: pip install nvtx" in alone(code)


@pytest.mark.promise("AICF-nvtx")
def test_by_torch_where_the_package_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    from aicf.backend import nvtx

    seen: list[str] = []
    module: Any = types.ModuleType("torch.cuda.nvtx")
    module.range_push, module.range_pop = seen.append, lambda: seen.append("pop")
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.cuda", types.ModuleType("torch.cuda"))
    monkeypatch.setitem(sys.modules, "torch.cuda.nvtx", module)
    monkeypatch.setattr(nvtx, "_found", None)
    with nvtx.nvtx(), nvtx.range("one"):
        assert nvtx.is_on()
    assert seen == ["one", "pop"]
    assert not nvtx.is_on()
    monkeypatch.setattr(nvtx, "_found", None)
