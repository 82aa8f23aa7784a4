"""aicf.compile: what it makes, and what it takes from disk instead."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
import sqlite3
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aicf
from aicf import ops, param
from aicf.compiler import compile as module
from aicf.compiler import compiled
from aicf.compiler.compile import collecting
from aicf.compiler.compiled import Cache, Entry, pack
from aicf.compiler.executable import Executable
from aicf.compiler.fingerprint import NoFingerprint, fingerprint
from aicf.compiler.ir.errors import IRError
from aicf.compiler.kernels.record import Record
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.selector import Selector
from aicf.compiler.kernels.store import FILE, Store, StoreWarning
from compiler.conftest import BUILT

TYPES = ("f32[N, 4]", "i64[N]", param("f32[4, 3]"), param("f32[3]"))
PARAMS = {"w": np.arange(12, dtype="f4").reshape(4, 3) / 12, "b": np.ones(3, "f4")}
X, Y = np.eye(4, dtype="f4"), np.array([0, 1, 2, 0])


def loss(x: Any, y: Any, w: Any, b: Any) -> Any:
    return ops.cross_entropy(ops.gemm(x, w, b), y)


def forward() -> aicf.Graph:
    return aicf.trace(loss, *TYPES, symbols={"N": (1, 64)})


def make(cache: Any, what: Any = None, **more: Any) -> Executable:
    """Of N = 4, by no passes, unless it is said otherwise."""
    options = {"sizes": {"N": 4}, "passes": (), "params": PARAMS, "cache": cache, **more}
    found: Executable = aicf.compile(what or forward(), **options)
    return found


# ---- what it makes -------------------------------------------------------------------------------


@pytest.mark.promise("AICF-compile")
def test_a_function_a_graph_and_a_training_step(tmp_path: Path) -> None:
    expected = aicf.ExecutorV2(forward(), aicf.backends.get("cpu"), params=PARAMS)(X, Y)
    step = aicf.compile(
        loss, *TYPES, symbols={"N": (1, 64)}, params=PARAMS, passes=(), cache=tmp_path
    )
    assert step(X, Y) == expected == make(tmp_path)(X, Y)
    assert isinstance(step, aicf.ExecutorV2)
    assert step.source == forward()
    assert step.records == ()
    training = aicf.training_step(forward(), "sgd")
    trained = make(tmp_path, training)
    assert trained(X, Y, lr=0.1) == expected
    assert not np.array_equal(trained.param("w"), PARAMS["w"])


@pytest.mark.promise("AICF-compile")
def test_what_it_chose_is_known_with_sizes(tmp_path: Path) -> None:
    step = make(tmp_path)
    assert [(n.op, c.kernel) for n, c in step.choices if c] == [
        (n.op, kernel) for n, kernel in step.kernels(X, Y)
    ]
    unknown = make(tmp_path, sizes=None)
    assert unknown.choices == []
    unknown(X, Y)
    assert [n.op for n, _ in unknown.choices] == ["gemm", "cross_entropy"]


@pytest.mark.promise("AICF-compile")
@pytest.mark.parametrize(
    "options, said",
    [
        ({"sizes": {"M": 4}}, "sizes has M and not N"),
        ({"sizes": {"N": 4, "M": 4}}, "loss has no symbol M; there are N"),
        ({"sizes": {"N": "4"}}, "sizes: N is a whole number, not '4'"),
        ({"sizes": {"N": 65}}, "N is 65, and its range 1..64"),
        ({"cache": 3}, "cache is a folder, True or False, not 3"),
        ({"passes": [3]}, "3 is no pass"),
        ({"mode": "fast"}, "mode is 'fast', and may be eager, replay, graph"),
        ({"frozen": ["v"]}, "v cannot be frozen: it is no param of loss"),
        ({"frozen": ["b"], "params": {}}, "b cannot be frozen: it is not among params="),
        ({"params": {"v": X}}, "no param v; there are w, b"),
        ({"what": 3}, "a function or a graph is compiled, not int"),
        ({"backend": "tpu"}, "tpu"),
        ({"backend": 3}, "backend must be an AicfBackend, not a int"),
        ({"backend": None}, "backend must be an AicfBackend, not None"),
        ({"params": 3}, "params must be a mapping of names to arrays, not a int"),
        ({"constants": 3}, "constants must be a mapping of names to arrays, not a int"),
        ({"constants": {"w": X}}, "no constant w that has data; there are none"),
        ({"frozen": 3}, "frozen must be True, or names of params, not 3"),
        ({"frozen": None}, "frozen must be True, or names of params, not None"),
        ({"sizes": "N"}, "sizes must be a mapping of symbols to numbers, not 'N'"),
        ({"sizes": {3: 4}}, "sizes has 3 and not N"),
        ({"sizes": {"N": True}}, "sizes: N is a whole number, not True"),
        ({"selector": "best"}, "selector must be a Selector, not a str"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises((IRError, ValueError, TypeError, LookupError), match=re.escape(said)):
        make(**{"cache": tmp_path, **options})


@pytest.mark.promise("AICF-compile")
def test_types_are_of_functions(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="of a function, not of a graph"):
        aicf.compile(forward(), "f32[4]", cache=tmp_path)


@pytest.mark.promise("AICF-compile")
def test_a_frozen_param_stays(tmp_path: Path) -> None:
    step = make(tmp_path, frozen=True)
    assert step.made.frozen == {"w", "b"}
    for change in (step.load, step.adopt):
        with pytest.raises(ValueError, match="w is frozen"):
            change("w", PARAMS["w"])
    with pytest.raises(ValueError, match="b is frozen"):
        step.zero("b")
    training = aicf.training_step(forward(), "sgd")
    assert not make(tmp_path, training, frozen=True).made.frozen
    with pytest.raises(ValueError, match="w cannot be frozen: it is updated by the graph"):
        make(tmp_path, training, frozen="w")


@pytest.mark.promise("AICF-compile")
def test_what_is_compiled_inside_is_collected(tmp_path: Path) -> None:
    with collecting() as outer:
        first = make(tmp_path)
        with collecting() as inner:
            second = make(tmp_path)
    make(tmp_path)
    assert (outer, inner) == ([first], [second])


@pytest.mark.gpu
@pytest.mark.promise("AICF-compile", "AICF-compile-cache", "AICF-report")
def test_a_training_step_as_one_graph_of_the_device(tmp_path: Path) -> None:
    """Cold and warm, with the losses of the CPU; what is reported is timed there."""
    training = aicf.training_step(forward(), "adamw")
    cpu = make(tmp_path, training, passes=None)
    steps = [make(tmp_path, training, passes=None, backend="cuda", mode="graph") for _ in range(2)]
    assert [s.made.is_kept for s in steps] == [False, True]
    for step in (cpu, *steps):
        step.zero(*training.states)
    cuda = steps[0].backend
    x, y = cuda.from_host(X), cuda.from_host(Y)
    for i in range(5):
        expected = float(cpu(X, Y, lr=0.1, step=i + 1))
        for step in steps:
            found = cuda.to_host(step(x, y, lr=0.1, step=i + 1))
            assert abs(float(found) - expected) < 1e-5
    assert [s.reasons for s in steps] == [{}, {}]
    (facts,) = steps[1].report().facts
    assert facts.total
    assert facts.arena is None or facts.arena.optimal
    assert facts.choices


# ---- what it takes from disk ---------------------------------------------------------------------


@pytest.mark.promise("AICF-compile-cache")
def test_the_second_time_it_is_found(tmp_path: Path) -> None:
    cold, warm = make(tmp_path), make(tmp_path)
    assert (cold.made.is_kept, warm.made.is_kept) == (False, True)
    assert warm.graph == cold.graph
    assert warm.graph.text() == cold.graph.text()
    assert warm.made.chosen == cold.made.chosen
    assert warm(X, Y) == cold(X, Y)
    assert warm.made.selector._chosen == {}, "it asked for what was chosen before"
    assert not make(False).made.is_kept


@pytest.mark.promise("AICF-compile-cache")
def test_in_another_process(tmp_path: Path) -> None:
    make(tmp_path)
    code = """
        import sys
        from compiler.test_compile import make
        print(make(sys.argv[1]).made.is_kept)
    """
    paths = os.pathsep.join([str(BUILT), str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "7"}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr


class Halved:
    """A pass of a user's, whose content decides. It raises."""

    name = "halved"

    def __init__(self, by: Any) -> None:
        self.by = by

    def run(self, graph: aicf.Graph, context: Any = None) -> Any:
        raise KeyError("</script>\ud800")


@pytest.mark.promise("AICF-compile-cache")
def test_a_pass_that_raises_is_told_of_again(tmp_path: Path) -> None:
    for passes in (Halved(1), [Halved(1)], [Halved(2)]):
        steps = [make(tmp_path, passes=passes) for _ in range(2)]
        assert steps[1].made.is_kept
        assert {step.records[0].failed for step in steps} == {steps[0].records[0].failed}
        assert "KeyError" in steps[0].records[0].failed
        assert steps[1].report().html().count("Rolled back:") == 1


OTHERS: dict[str, dict[str, Any]] = {
    "sizes": {"sizes": {"N": 5}},
    "no sizes": {"sizes": None},
    "frozen": {"frozen": True},
    "data of what is frozen": {"frozen": ["w"], "params": {**PARAMS, "w": PARAMS["w"] + 1}},
    "the selector": {"selector": Selector(aicf.backends.get("cpu").info, deterministic=False)},
    "the device": {"backend": "null"},
}


@pytest.mark.promise("AICF-compile-cache")
@pytest.mark.parametrize("what", OTHERS)
def test_another_one_is_not_taken(tmp_path: Path, what: str) -> None:
    make(tmp_path)
    if what.startswith("data"):
        make(tmp_path, frozen=["w"])
    assert not make(tmp_path, **OTHERS[what]).made.is_kept


@pytest.mark.promise("AICF-compile-cache")
def test_data_of_constants_decides(tmp_path: Path) -> None:
    """Passes compute with it."""
    graph = aicf.Graph.parse("""graph c {
        input %x: f32[2]
        constant %k: f32[2]
        %a: f32[2] = add(%k, %k)
        %b: f32[2] = mul(%a, %x)
        return %b
    }""")
    one = np.ones(2, "f4")
    for k, is_kept in ((1, False), (1, True), (5, False), (5, True)):
        step = aicf.compile(graph, constants={"k": k * one}, cache=tmp_path)
        assert step.made.is_kept == is_kept
        assert step(one).tolist() == [2 * k, 2 * k]
        assert len(step.graph.nodes) == 1


@pytest.mark.promise("AICF-compile-cache")
def test_a_kernel_that_was_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    monkeypatch.setattr(module, "module_digest", lambda row: f"another {row.name}")
    assert not make(tmp_path).made.is_kept


@pytest.mark.promise("AICF-compile-cache")
def test_an_entry_of_other_kernels_is_a_miss(tmp_path: Path) -> None:
    """Though its key was met: of an op that a pass brought."""
    made = make(tmp_path)
    with Cache(tmp_path) as cache:
        (key,) = cache.keys()
        entry = cache.get(key)
        assert entry is not None
        cache.put(key, Entry(entry.graph, {**entry.ops, "gemm": "?"}, entry.choices))
    assert not make(tmp_path).made.is_kept
    assert make(tmp_path).made.is_kept
    assert made.graph == make(tmp_path).graph


@pytest.mark.promise("AICF-compile-cache")
def test_a_choice_that_was_stored_since_is_taken(tmp_path: Path) -> None:
    cold = make(tmp_path)
    node = next(n for n, _ in cold.choices if n.op == "gemm")
    request = Request.of_node(node_table := cold.graph.table, node)
    chosen, other = cold.made.selector.choose(request).candidates.require()[:2]
    assert cold.made.chosen[str(request)] == chosen
    with Store(tmp_path / FILE) as store:
        selector = Selector(cold.backend.info, store)
        subject = request.subject((chosen, other))
        hard = selector.hard(node_table["gemm"])
        store.put(Record(subject, hard, selector.soft, ((other, 1.0), (chosen, 2.0)), 1.0, 1))
    again = make(tmp_path)
    assert not again.made.is_kept, "passes may have asked the selector"
    assert again.made.chosen[str(request)] == other
    assert again.kernels(X, Y)[0][1] == other
    warm = make(tmp_path)
    assert warm.made.is_kept
    assert warm.made.chosen[str(request)] == other


def fused(x: Any, w: Any, b: Any) -> Any:
    h = ops.add(ops.gemm(x, w), b)
    return ops.relu(h), h * 1.0


@pytest.mark.promise("AICF-compile-cache")
def test_records_and_the_report_are_kept(tmp_path: Path) -> None:
    """By the standard passes."""
    types = ("f32[N, 4]", param("f32[4, 3]"), param("f32[3]"))
    graph = aicf.trace(fused, *types, symbols={"N": (1, 64)})
    cold, warm = (make(tmp_path, graph, passes=None) for _ in range(2))
    assert (cold.made.is_kept, warm.made.is_kept) == (False, True)
    assert len(cold.graph.nodes) < len(cold.source.nodes)
    assert [a.tolist() for a in cold(X)] == [a.tolist() for a in warm(X)]
    first, second = (step.report().facts[0].passes for step in (cold, warm))
    assert first == second
    assert sum(len(p.fired) for p in first) > 0
    assert sum(len(p.refused) for p in first) > 0
    assert [p.before - p.after for p in first if p.changed] != [0]


@pytest.mark.promise("AICF-compile-cache")
def test_records_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    graph = aicf.trace(fused, "f32[4, 4]", param("f32[4, 3]"), param("f32[3]"))
    make(tmp_path, graph, sizes=None, passes=None)
    with Cache(tmp_path) as cache:
        (key,) = cache.keys()
        entry = cache.get(key)
        assert entry is not None
        for records in (b"x", pack([1]), pack({"texts": [], "records": [{"name": 1}]})):
            cache.put(key, dataclasses.replace(entry, records=records))
            warm = make(tmp_path, graph, sizes=None, passes=None)
            assert warm.made.is_kept
            assert list(warm.records) == []
            assert warm.report().html()


BROKEN = {
    "head": b"{",
    "records": b"x",
    "data": b"x",
    "checksum": "x",
}


@pytest.mark.promise("AICF-compile-cache")
@pytest.mark.parametrize("column", BROKEN)
def test_a_broken_entry_is_a_miss(tmp_path: Path, column: str) -> None:
    make(tmp_path)
    with sqlite3.connect(tmp_path / compiled.FILE) as db:
        db.execute(f"UPDATE compiled SET {column} = ?", (BROKEN[column],))
    assert not make(tmp_path).made.is_kept
    assert make(tmp_path).made.is_kept, "it is put in the place of the broken one"


@pytest.mark.promise("AICF-compile-cache")
@pytest.mark.parametrize("graph", ["graph x {", "graph x {\n  %y: f32[] = nothing(%x)\n}\n", ""])
def test_an_entry_that_is_no_graph_is_a_miss(tmp_path: Path, graph: str) -> None:
    make(tmp_path)
    with Cache(tmp_path) as cache:
        (key,) = cache.keys()
        cache.put(key, Entry(graph, {}, {}))
    assert not make(tmp_path).made.is_kept


@pytest.mark.promise("AICF-compile-cache")
def test_a_file_that_is_no_database_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / compiled.FILE).write_bytes(b"no database" * 100)
    with pytest.warns(StoreWarning, match="compiled graphs are lost"):
        make(tmp_path)
    assert make(tmp_path).made.is_kept
    assert (tmp_path / f"{compiled.FILE}.bad-1").exists()


@pytest.mark.promise("AICF-compile-cache")
def test_a_file_whose_schema_python_cannot_read_is_moved_aside(tmp_path: Path) -> None:
    """SQLite quotes it in its message."""
    make(tmp_path)
    path = tmp_path / compiled.FILE
    assert not path.with_name(f"{path.name}-wal").exists()
    path.write_bytes(path.read_bytes().replace(b"PRIMARY KEY,", b"PRIMARY \xa2EY,", 1))
    with pytest.warns(StoreWarning, match="compiled graphs are lost"):
        assert not make(tmp_path).made.is_kept
    assert make(tmp_path).made.is_kept


@pytest.mark.promise("AICF-compile-cache")
def test_a_row_that_is_no_text_is_a_miss_and_the_others_stay(tmp_path: Path) -> None:
    make(tmp_path)
    make(tmp_path, sizes={"N": 5})
    with sqlite3.connect(tmp_path / compiled.FILE) as db:
        (key,) = db.execute("SELECT min(key) FROM compiled").fetchone()
        db.execute("UPDATE compiled SET checksum = CAST(? AS TEXT) WHERE key = ?", (b"\xff", key))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [make(tmp_path, sizes={"N": n}).made.is_kept for n in (4, 5)]
    assert sorted(found) == [False, True]


@pytest.mark.promise("AICF-compile-cache")
def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert make(tmp_path / "file" / "folder")(X, Y) > 0
    assert {w.category for w in caught} == {StoreWarning}


@pytest.mark.promise("AICF-compile-cache")
def test_the_least_used_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "ROWS", 3)
    clock = itertools.count(10**9)
    monkeypatch.setattr(time, "time", lambda: next(clock))
    with Cache(tmp_path) as cache:
        for i in range(8):
            cache.put(f"k{i}", Entry("graph", {}, {}))
        assert len(cache.keys()) == 3
        assert "k7" in set(cache.keys())


@pytest.mark.promise("AICF-compile-cache")
def test_data_of_constants_is_kept(tmp_path: Path) -> None:
    data = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array(2, "i8"), "c": X[:0]}
    with Cache(tmp_path) as cache:
        cache.put("k", Entry("graph", {}, {}, data=data))
    with Cache(tmp_path) as cache:
        found = cache.get("k")
    assert found is not None
    for name, array in data.items():
        again = np.asarray(found.data[name])
        assert again.dtype == array.dtype
        assert np.array_equal(again, array)


# ---- what is hashed ------------------------------------------------------------------------------

RATE = 1


def reads_a_global() -> int:
    return RATE


def holds(x: Any) -> Any:
    def inner() -> Any:
        return x

    return inner


@pytest.mark.promise("AICF-compile-cache")
def test_what_differs_has_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    large, other = np.zeros(10_000), np.zeros(10_000)
    other[5000] = 1  # which no repr shows
    pairs: list[tuple[Any, Any]] = [
        (Halved(1), Halved(2)), (Halved(1), Halved(1.0)), (Halved(1), Halved(True)),
        (Halved(large), Halved(other)), (holds(1), holds(2)), (holds(large), holds(other)),
        (lambda x: x + 1, lambda x: x + 2), (lambda x=1: x, lambda x=2: x),
        ([1, [2]], [[1], 2]), ({"a": 1}, {"a": 2}), ("1", 1), (0.0, -0.0), ((1, 2), [1, 2]),
        (functools.partial(holds, 1), functools.partial(holds, 2)), ([], [[]]),
        (np.float32(1), np.float64(1)), (np.zeros(4), np.zeros((2, 2))), ({1, 2}, {1, 3}),
    ]  # fmt: skip
    for a, b in pairs:
        assert fingerprint(a) == fingerprint(a)
        assert fingerprint(a) != fingerprint(b), (a, b)
    before = fingerprint(reads_a_global)
    monkeypatch.setitem(globals(), "RATE", 2)
    assert fingerprint(reads_a_global) != before


@pytest.mark.promise("AICF-compile-cache")
def test_what_holds_itself_and_what_has_no_hash() -> None:
    first: list[Any] = [1]
    first.append(first)
    assert fingerprint(first) == fingerprint(first)
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    for x in (deep, (i for i in range(3)), memoryview(b"x").__iter__()):
        with pytest.raises(NoFingerprint):
            fingerprint(x)


@pytest.mark.promise("AICF-compile-cache")
def test_what_has_no_hash_is_not_kept(tmp_path: Path) -> None:
    asked = module._Asked(
        forward(), aicf.backends.get("cpu"), {}, {}, {}, [Halved(iter(()))],
        Selector(aicf.backends.get("cpu").info),
    )  # fmt: skip
    assert asked.key() is None
