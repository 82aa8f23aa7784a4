"""What is kept on disk: graphs that come back without being inferred, hashes of files."""

from __future__ import annotations

import enum
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import aicf
from aicf import ops
from aicf.compiler.compiled import Cache
from aicf.compiler.ir import bind, graph, verify
from aicf.compiler.ir.graph import Graph
from aicf.compiler.ir.packed import pack, unpack
from aicf.compiler.kernels import files
from aicf.table import Table
from compiler.drawing import graphs

pytestmark = pytest.mark.promise("AICF-compile-cache")

# What is absent, lists, numbers of every kind, sizes over a symbol, states and views.
EVERY = """graph every {
  symbol N: 1..64
  input %x: f32[N, 4]
  input %y: i64[N]
  input %lr: f32
  param %w: f32[4, 4]
  constant %k: f32[] = -0.0
  constant %data: f32[4]
  %gemm: f32[N, 4] = gemm(%x, %w, alpha=0.5) @ "a \\"file\\".py":12 forward
  %scale: f32[N, 4] = scale(%gemm, factor=inf)
  %share: f32[N, 4] = scale(%scale, factor=1 / N)
  %permute: f32[4, N; 1, 4] = view.permute(%share, perm=(1, 0))
  %loss: f32[], _, _ = cross_entropy(%gemm, %y)
  %product: f32[4, 4] = gemm(%permute, %x, %data)
  p -> [%w_1: f32[4, 4]] = sgd([%w], [%product], lr=%lr, grad_scale=1)
  return %w_1, %share, %loss
}
"""


def unpacked(packed: str) -> Graph:
    found = unpack(packed, Table.default())
    assert found is not None
    return found


class Factor(enum.IntEnum):
    TWICE = 2


def test_numbers_of_classes_on_pythons(tmp_path: Path) -> None:
    made = aicf.trace(lambda x: ops.scale(x, factor=Factor.TWICE), "f32[3]")
    assert unpacked(pack(made)) == made
    for is_kept in (False, True):
        step = aicf.compile(made, cache=tmp_path)
        assert step(np.ones(3, "f4")).tolist() == [2, 2, 2]
        assert step.made.is_kept == is_kept


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_a_graph_comes_back(drawn: Graph) -> None:
    again = unpacked(pack(drawn))
    assert again == drawn
    assert again.text() == drawn.text()
    again.verify()
    assert pack(again) == pack(drawn)


def test_a_graph_of_everything_comes_back() -> None:
    whole = Graph.parse(EVERY)
    again = unpacked(pack(whole))
    assert again == whole
    assert again.text() == whole.text()
    assert [n.loc for n in again.nodes] == [n.loc for n in whole.nodes]
    assert [str(x) for x in again.constants.values()] == ["-0.0", "None"]
    again.verify()
    assert again.bind({"N": 5}) == whole.bind({"N": 5})
    assert again.add("relu", again.outputs[1]).out.name == "relu", "it can be gone on with"


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "{}", '{"symbols":[],"types":[["f33"]]}'])
def test_what_is_no_graph_is_none(text: str) -> None:
    assert unpack(text, Table.default()) is None


def test_what_was_kept_is_not_inferred_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as it was found nor for the sizes that it was compiled for."""
    source = Graph.parse(EVERY.replace(" = -0.0", " = 2.0").replace("inf", "2.0"))
    w, data, x, y = (np.eye(4, dtype="f4"), np.ones(4, "f4"), np.ones((5, 4), "f4"),
                     np.zeros(5, "i8"))  # fmt: skip

    def run() -> Any:
        step = aicf.compile(
            source, sizes={"N": 5}, params={"w": w}, constants={"data": data}, cache=tmp_path
        )
        return step.made.is_kept, [a.tolist() for a in step(x, y, lr=0.5)], step.bound

    cold = run()
    for of in (graph, verify, bind):
        monkeypatch.setattr(of, "infer", None, raising=False)
    monkeypatch.setattr(bind, "_Binding", None)
    warm = run()
    assert (cold[0], warm[0]) == (False, True)
    assert warm[1:] == cold[1:]


def test_a_bound_graph_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    source = aicf.trace(lambda x: aicf.ops.relu(x), "f32[N]", symbols={"N": (1, 9)})
    aicf.compile(source, sizes={"N": 5}, cache=tmp_path)
    with Cache(tmp_path) as cache:
        (key,) = cache.keys()
        entry = cache.get(key)
        assert entry is not None
        assert entry.bound
        cache.put(key, type(entry)(entry.graph, entry.ops, entry.choices, "{"))
    warm = aicf.compile(source, sizes={"N": 5}, cache=tmp_path)
    assert warm.made.is_kept
    assert warm.bound == warm.graph.bind({"N": 5})


# ---- files ---------------------------------------------------------------------------------------


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that was written long ago, as far as this process knows, which knows no other."""
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 3 * 10**9)
    forget(monkeypatch)
    path = tmp_path / "module.so"
    path.write_bytes(b"x" * 100)
    return path


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another process begins."""
    for name, empty in (("_known", {}), ("_read_from", set()), ("_unkept", set())):
        monkeypatch.setattr(files, name, empty)


def test_a_file_is_read_once_for_all_processes(
    settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = files.digest(str(settled))
    files.keep(settled.parent)
    forget(monkeypatch)
    files.recall(settled.parent)
    with monkeypatch.context() as within:
        within.setattr(files, "_hash", None)
        assert files.digest(str(settled)) == found
    times = settled.stat()
    settled.write_bytes(b"y" * 100)
    os.utime(settled, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert files.digest(str(settled)) != found, "of another time of change at least"
    settled.write_bytes(b"x" * 100)
    assert files.digest(str(settled)) == found


def test_a_file_that_was_just_written_is_read_again(
    settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written to it now may leave it the same time."""
    monkeypatch.setattr(time, "time_ns", lambda: settled.stat().st_ctime_ns + 10**9)
    files.digest(str(settled))
    assert files._known == {}
    clock = iter((settled.stat().st_ctime_ns + 10**9, settled.stat().st_ctime_ns + 10**10))
    monkeypatch.setattr(time, "time_ns", lambda: next(clock))
    files.digest_of("slow", [str(settled)], lambda: str(next(clock)))
    assert files._known == {}, "to read it took long"


def test_a_full_disk_has_no_parts_of_a_memory(
    settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text.encode(encoding)[:9])
        raise OSError("No space left on device")

    files.digest(str(settled))
    monkeypatch.setattr(Path, "write_text", write)
    files.keep(settled.parent)
    assert list(settled.parent.iterdir()) == [settled]


@pytest.mark.parametrize("broken", [b"", b"x", b"\xff", b"0\n{}", None])
def test_a_memory_of_files_that_is_broken_is_none(
    settled: Path, monkeypatch: pytest.MonkeyPatch, broken: bytes | None
) -> None:
    files.digest(str(settled))
    files.keep(settled.parent)
    kept = settled.parent / files.FILE
    whole = kept.read_bytes()
    kept.write_bytes(whole.replace(b"module", b"nodule") if broken is None else broken)
    forget(monkeypatch)
    files.recall(settled.parent)
    assert files._known == {}
    files.digest(str(settled))
    files.keep(settled.parent)
    assert kept.read_bytes() == whole
    files.keep(settled.parent / "module.so" / "folder")
