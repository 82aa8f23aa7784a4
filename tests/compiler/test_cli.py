"""`python -m aicf`: what it prints, for people and for programs, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aicf import cli
from aicf.backend.cpu import CpuBackend
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.selector import Selector
from aicf.compiler.kernels.store import FILE, Store
from aicf.table import Row, Table
from compiler.records import record

click_testing = pytest.importorskip("click.testing")
CALL = "gemm(f32[64, 64], f32[64, 32], act=relu)"
TABLE = Table.default()

GRAPH = """
    import aicf
    def step(x, w, b):
        return aicf.ops.relu(aicf.ops.bias_add(x @ w, b))
    print(aicf.trace(step, "f32[N, 8]", "f32[8, 8]", "f32[8]", symbols={"N": (1, 64)}).text())
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command in this process, on a cache of its own."""
    monkeypatch.setenv("AICF_CACHE", str(tmp_path / "cache"))

    def call(*args: str, status: int = 0, **options: Any) -> Any:
        result = click_testing.CliRunner().invoke(cli.main, args, **options)
        assert result.exit_code == status, (result.output, result.exception)
        return result

    return call


@pytest.fixture
def two_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """gemm has two on the CPU; the one of a library may not be there."""

    def explain(row: Row, *tensors: Any, **options: Any) -> list[str]:
        lines: list[str] = row.module.explain(*tensors, **options)
        return ["blas: fits" if line.startswith("blas: ") else line for line in lines]

    def prepare(self: Any, op: str, *args: Any, **options: Any) -> Any:
        return self.table[op].bind(*args, **{**options, "kernel": "loop"})

    monkeypatch.setattr(Row, "explain", explain)
    monkeypatch.setattr(CpuBackend, "prepare", prepare)
    monkeypatch.setattr(CpuBackend, "time", lambda self, call, count: 1e-3)


@pytest.mark.promise("AICF-cli")
def test_requests_are_read_as_they_are_printed() -> None:
    for text in (
        CALL,
        "gemm(f32[64, 64; 1, 64], f32[64, 32], None, f32[64, 32], beta=1.0)",
        "concat([f32[2, 3], f32[2, 4]], axis=1)",
        "max_pool2d(f32[1, 2, 8, 8], indices=True, stride=(2, 2), window=(2, 2))",
        "cast(f32[8]@cuda:0, dtype=f16)",
    ):
        request = Request.parse(TABLE, text)
        assert str(request) == text
        assert Request.parse(TABLE, str(request)) == request
    relaxed = Request.parse(TABLE, " gemm( f32[64,64],f32[64,32] , act = relu , alpha=1)")
    assert relaxed == Request.parse(TABLE, CALL)
    assert Request.parse(TABLE, "gemm(f32[4,4], f32[4,4], bias=f32[4])").tensors[2] is not None


@pytest.mark.promise("AICF-cli-errors")
@pytest.mark.parametrize(
    "text, said",
    [
        ("gemm", "'gemm' is no call; one is written as add(f32[64, 64], f32[64])"),
        ("gem(f32[4])", "has no op 'gem'; did you mean 'gemm'?"),
        ("add(f32[4], f32[4], f32[4])", "'f32[4]' is one operand too many"),
        ("add(f32[4], f33[4])", "'f33' is no dtype"),
        ("add(f32[4], f32)", "'f32' is a number's type"),
        ("add(f32[4], f32[N])", "N"),
        (f"add(f32[{'9' * 99}], f32[4])", "a size or a stride is too large"),
        (f"sum(f32[4], axes={'-' * 99999}1)", "axes"),
        ("add(f32[4], f32[4], beta=1)", "add() has no parameter 'beta'"),
        ("gemm(f32[4, 4], f32[4, 4], act=tanh)", "act must be one of none, relu"),
        ("max_pool2d(f32[1, 2, 8, 8])", "max_pool2d needs window="),
    ],
)
def test_a_call_that_is_wrong(run: Any, text: str, said: str) -> None:
    result = run("tune", text, status=1)
    assert result.output.startswith("Error: ")
    assert said in result.output
    assert "Traceback" not in result.output


@pytest.mark.promise("AICF-cli")
def test_tune(run: Any, two_kernels: None) -> None:
    result = run("tune", CALL, "add(f32[8], f32[8])", CALL)
    lines = result.output.splitlines()
    assert lines[0] == f"stored   {CALL}: blas 1000 us, loop 1000 us"
    assert lines[1] == "only     add(f32[8], f32[8]): loop"
    assert lines[2].startswith("1 stored, 1 only; choices are in ")
    again = json.loads(run("tune", CALL, "--json").output)
    assert again["results"][0]["status"] == "kept"
    assert again["results"][0]["ranking"][0] == ["blas", pytest.approx(1000)]
    assert again["store"].endswith(FILE)
    forced = json.loads(run("tune", CALL, "--force", "--json").output)
    assert forced["results"][0]["status"] == "stored"


@pytest.mark.promise("AICF-cli")
def test_tune_a_graph(run: Any, alone: Any, two_kernels: None, tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text(alone(GRAPH))
    assert "its sizes N need --size" in run("tune", "--graph", str(path), status=2).output
    assert "--size N: it is written as" in run("tune", CALL, "--size", "N", status=2).output
    found = json.loads(run("tune", "--graph", str(path), "--size", "N=32", "--json").output)
    statuses = {r["request"].partition("(")[0]: r["status"] for r in found["results"]}
    assert statuses == {"gemm": "stored", "bias_add": "only", "relu": "only"}
    path.write_text(path.read_text().replace("relu", "rely"))
    said = run("tune", "--graph", str(path), "--size", "N=32", status=1).output
    assert f"Error: {path}: " in said
    assert "rely" in said


@pytest.mark.promise("AICF-layout")
def test_tune_measures_both_layouts(run: Any, alone: Any, tmp_path: Path) -> None:
    from aicf import Graph
    from aicf.backend.cpu import CpuBackend
    from aicf.compiler.kernels.selector import Selector
    from aicf.compiler.passes.layout import Layout
    from aicf.compiler.passes.rule import Context

    path = tmp_path / "graph.txt"
    path.write_text(
        "graph g {\n  symbol N: 1..64\n  input %x: f32[N, 4, 6, 6]\n"
        "  %p: f32[N, 4, 3, 3], _ = max_pool2d(%x, window=(2, 2), stride=(2, 2))\n  return %p\n}\n"
    )
    cache = tmp_path / "cache"
    asked = ("tune", "--graph", str(path), "--size", "N=2", "--cache", str(cache), "--json")
    assert {r["status"] for r in json.loads(run(*asked).output)["results"]} == {"only"}
    found = json.loads(run(*asked, "--layouts").output)["results"]
    said = [r["request"].partition("(")[0] for r in found if r["status"] in ("stored", "noisy")]
    assert sorted(said) == ["max_pool2d", "max_pool2d", "permute", "permute"]
    if any(r["status"] == "noisy" for r in found):
        pytest.skip("times are noise here")
    times = {r["request"]: r["ranking"][0][1] for r in found}
    with Store(cache / FILE) as store:
        options = {"selector": Selector(CpuBackend().info, store), "sizes": {"N": 2}}
        context = Context(backend=CpuBackend(), options=options)
        (refused,) = Layout(margin=1.0).run(Graph.parse(path.read_text()), context).refused
    rows = next(us for call, us in times.items() if call.startswith("max_pool2d(f32[2, 4, 6, 6],"))
    assert f"{rows:.4g} us as it is" in refused.detail


@pytest.mark.promise("AICF-cli-errors")
def test_how_tune_ends(run: Any, two_kernels: None) -> None:
    assert "nothing to tune" in run("tune", status=2).output
    refused = run("tune", "add(f32[3], f32[4])", status=1)
    assert "refused  add(f32[3], f32[4]): add: out: its shape must be" in refused.output
    assert "no backend 'tpu'; there are" in run("tune", CALL, "--backend", "tpu", status=1).output
    assert "no package nope" in run("tune", CALL, "--package", "nope", status=1).output
    assert "skipped" in run("tune", CALL, "--budget", "0").output


@pytest.mark.promise("AICF-cli-errors")
def test_a_device_that_is_not_there(run: Any) -> None:
    from aicf.backend import driver

    if driver.count():
        pytest.skip("gpu: there is one")
    said = run("cache", "why", CALL, "--backend", "cuda", status=1).output
    assert said.startswith("Error: ")
    assert "CUDA" in said or "cuInit" in said


@pytest.mark.promise("AICF-cli")
def test_the_cache(run: Any, tmp_path: Path) -> None:
    with Store(tmp_path / "cache" / FILE) as store:
        store.put_all([record(), record("conv", made=2)])
    listed = run("cache", "list")
    assert "gemm f32 a 64x64, act=relu on H200: fma 3.5 us, simt 7.25 us" in listed.output
    assert f"2 choices in {tmp_path / 'cache' / FILE}" in listed.output
    one = json.loads(run("cache", "list", "--op", "conv", "--json").stdout)
    assert [r["subject"]["op"] for r in one] == ["conv"]
    exported = run("cache", "export").stdout
    file = tmp_path / "choices.json"
    run("cache", "export", str(file))
    assert json.loads(file.read_text()) == json.loads(exported)
    other = ("--cache", str(tmp_path / "other"))
    assert "2 choices taken into" in run("cache", "import", str(file), *other).output
    assert "0 choices taken into" in run("cache", "import", "-", *other, input=exported).output
    assert run("cache", "export", *other).stdout == exported
    file.write_text(exported.replace('"f32"', "32"))
    bad = run("cache", "import", str(file), *other, status=1).output
    assert f"Error: {file}: choices[0]: subject.dtypes must be a text, not 32" in bad


@pytest.mark.promise("AICF-cli")
def test_why(run: Any, two_kernels: None, tmp_path: Path) -> None:
    said = run("cache", "why", CALL).output
    assert said.startswith(f"{CALL}: blas, the best by its score: ")
    assert "  simt: for cuda, the tensors are on cpu\n" in said
    run("tune", CALL)
    told = json.loads(run("cache", "why", CALL, "--json").output)
    assert (told["kernel"], told["how"]) == ("blas", "stored")
    assert told["why"].startswith("measured ")
    assert {"kernel": "loop", "legal": True, "reason": "x86-64-v3"} in told["candidates"]
    assert "add: out: its shape" in run("cache", "why", "add(f32[3], f32[4])", status=1).output


@pytest.mark.promise("AICF-cli")
def test_a_call_is_on_its_backends_device(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it says where it is."""
    elsewhere = CpuBackend()
    elsewhere.device = "cuda:0"
    monkeypatch.setattr(cli, "_backend", lambda *_: elsewhere)
    said = run("tune", "add(f64[3], f64[3])", "concat([f64[3], f64[4]], axis=0)", status=1).output
    assert "add(f64[3]@cuda:0, f64[3]@cuda:0)" in said
    assert "concat([f64[3]@cuda:0, f64[4]@cuda:0])" in said
    assert "loop: for cpu, the tensors are on cuda:0" in said
    request = Request.parse(TABLE, "add(f32[3]@cuda:1, f32[3]@cuda:1)")
    assert request.on("cuda:0") is request
    assert Request.parse(TABLE, CALL).on("null").device == "cpu"


@pytest.mark.promise("AICF-cli-errors")
def test_an_unreadable_cache_is_a_warning(run: Any, two_kernels: None, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / FILE).write_bytes(b"no database" * 500)
    result = run("tune", CALL)
    assert result.stderr.startswith("warning: ")
    assert "is kept as" in result.stderr
    assert result.stdout.startswith("stored")


@pytest.mark.promise("AICF-cli")
def test_the_process(tmp_path: Path) -> None:
    """A real one: help, and a bar with the time left where stderr is a terminal."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"AICF_CACHE": str(tmp_path), "COLUMNS": "200"}
    command = [sys.executable, "-m", "aicf"]
    helped = subprocess.run(
        [*command, "--help"], env=environment, capture_output=True, text=True, check=True
    )
    assert "Usage: python -m aicf [OPTIONS] COMMAND" in helped.stdout
    leader, follower = os.openpty()
    calls = [f"gemm(f32[{n}, 8], f32[8, 8])" for n in (1, 2, 3, 4)]
    slow = "import time, aicf.cli as c; f = c.Tuner.tune; c.Tuner.tune = lambda *a: (time.sleep("
    slow += "0.6), f(*a))[1]; c.main()"  # a time that is left is told after a second
    process = subprocess.Popen(
        [sys.executable, "-c", slow, "tune", *calls, "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
    )
    os.close(follower)
    out, _ = process.communicate(timeout=120)
    bar = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        bar += part
        if not part:
            break
    os.close(leader)
    assert process.returncode == 0
    assert len(json.loads(out)["results"]) == 4
    text = bar.decode()
    assert "tune" in text
    assert "4/4" in text
    assert re.search(r"2/4  (?!00:00:00)\d\d:\d\d:\d\d", text), text
    assert calls[2] in text


@pytest.mark.promise("AICF-cli")
def test_who_reads_no_more_gets_no_word(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "aicf", "cache", "list", "--json", "--cache", str(tmp_path)],
        env=environment, stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.promise("AICF-cli")
def test_what_is_no_file_is_written_to_and_not_replaced(run: Any, tmp_path: Path) -> None:
    """As /dev/stdout, which as root would be a file afterwards."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    run("cache", "export", str(pipe))
    assert pipe.is_fifo()
    assert os.read(reader, 65536).decode() == run("cache", "export").stdout
    os.close(reader)
    run("cache", "export", str(tmp_path / "none" / "x"), status=1)


@pytest.mark.promise("AICF-cli")
def test_without_click() -> None:
    code = "import runpy, sys; sys.modules['click'] = None; "
    code += "runpy.run_module('aicf', run_name='__main__')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "the command line of aicf needs click: pip install click\n"


def test_a_selector_of_the_same_store(run: Any, two_kernels: None, tmp_path: Path) -> None:
    """What the command measures a program takes."""
    run("tune", CALL)
    with Store(tmp_path / "cache" / FILE) as store:
        selector = Selector(CpuBackend().info, store, frozen=True)
        assert selector.choose(Request.parse(TABLE, CALL)).how == "stored"
